"""The lengths of a plan at sizes of its symbols."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod

from dimsolve.solver.algebra.dims import evaluate, symbols_of
from dimsolve.solver.algebra.poly import Dim
from dimsolve.solver.shapes import dim_of_text

from .dtypes import item_bytes
from .plan import Axis, Plan
from .plan_errors import plan_error


class Sizes:
    """Evaluates the expressions of one plan, each once. ``mesh``: the sizes of its axes."""

    def __init__(self, plan: Plan, sizes: Mapping[str, int]) -> None:
        self.sizes = _checked(plan, sizes)
        self._known: dict[str, int] = {}
        self.mesh: dict[Axis, int] = {axis: self.of(size) for axis, size in plan.mesh.items()}

    def of(self, text: str) -> int:
        """Returns the value of an expression; PlanError for a symbol without a size."""
        if text not in self._known:
            dim: Dim = dim_of_text(text)
            missing = sorted(symbols_of(dim) - self.sizes.keys())
            if missing:
                raise plan_error(
                    "no-size",
                    "a size is missing",
                    f"{text} needs a size for {', '.join(missing)}",
                    "give it: " + ", ".join(f"{name}=..." for name in missing),
                )
            self._known[text] = evaluate(dim, self.sizes)
        return self._known[text]

    def bytes(self, shape: Sequence[str | None] | None, dtype: str | None) -> int:
        """Returns the bytes of a tensor; 0 where its shape is not known."""
        if shape is None or None in shape:
            return 0
        return prod(self.of(text) for text in shape if text is not None) * item_bytes(dtype)


def _checked(plan: Plan, sizes: Mapping[str, int]) -> dict[str, int]:
    for name, size in sizes.items():
        if name not in plan.symbols:
            raise plan_error(
                "no-such-symbol",
                "the plan has no such symbol",
                f"'{name!s:.60}' is none; its symbols are {', '.join(plan.symbols) or 'none'}",
            )
        if isinstance(size, bool) or not isinstance(size, int) or size < 0:
            raise plan_error(
                "not-a-size",
                "this is not a size",
                f"{name} = {size!r:.60}",
                "a size is a whole number, 0 or more",
            )
    return dict(sizes)
