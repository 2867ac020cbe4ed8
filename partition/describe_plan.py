"""A plan in one sentence, for those who hear a picture instead of seeing it.

policy data+tensor; needs batch % 2 == 0; 14 parameters as R, S(0); 6 all-reduce over tp forward
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from dimsolve.solver.shapes import dim_of_text

from .explain import collectives
from .plan import Plan


def share(plan: Plan) -> str:
    """Returns how much of the parameters one rank has, in words; "" where that is no number."""
    whole = held = 0
    for entry in plan.parameters:
        sizes = [_elements(shape) for shape in (entry.whole, entry.shape)]
        if sizes[0] is None or sizes[1] is None:
            return ""
        whole, held = whole + sizes[0], held + sizes[1]
    return f"a rank has {held / whole:.2f} of the parameters" if whole else ""


def _elements(shape: Sequence[str | None] | None) -> int | None:
    count = 1
    for text in shape if shape is not None else (None,):
        length = None if text is None else dim_of_text(text)
        if not isinstance(length, int):
            return None
        count *= length
    return count


def described(plan: Plan) -> str:
    """Returns how the parameters lie, and what a step communicates."""
    counts: Mapping[tuple[str, str, str], int] = Counter(collectives(plan))
    sent = [f"{n} {name} over {axis} {way}" for (axis, way, name), n in counts.items()]
    placed = Counter(", ".join(entry.placements) for entry in plan.parameters)
    lies = [f"{count} parameters as {text}" for text, count in placed.items()]
    needs = [f"needs {text}" for text in plan.conditions]
    return "; ".join([f"policy {plan.policy}", *needs, *lies, *sent])
