"""Sizes of a plan's symbols: given by a caller, checked, and put into the plan's lengths.

plan over dp=2 with batch, seq; needs batch % 2 == 0
{"batch": 4, "seq": 3}      (batch//2, seq, 64)  is  (2, 3, 64)
{"batch": 3, "seq": 3}      PlanError: it needs batch % 2 == 0
{"batch": 4}                PlanError: ... write plan.memory({"batch": 4, "seq": 1})
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod
from operator import index
from typing import Any

from dimsolve.ir.excerpt import shown
from dimsolve.solver.algebra.dims import evaluate, symbols_of
from dimsolve.solver.algebra.poly import Dim, TooLarge
from dimsolve.solver.shapes import dim_of_text

from .conditions import check_conditions, example_call, missing_size
from .dtypes import item_bytes
from .plan import Axis, Plan
from .plan_errors import PlanError, plan_error


def read_sizes(plan: Plan, sizes: Any, named: Mapping[str, Any], method: str) -> dict[str, int]:
    """Returns the sizes of symbols from a mapping, from keywords, or from both.

    method: which of the plan's is called, for errors. Raises PlanError for what is no mapping, for
    symbols that the plan has not, and for what is no size.
    """
    given = {} if sizes is None else sizes
    if not isinstance(given, Mapping):
        raise plan_error(
            "not-sizes",
            "these are no sizes",
            f"{given!r:.60} is a {type(given).__name__}, not a mapping from symbols to sizes",
            f"write {example_call(plan, {}, method)}",
        )
    twice = next((name for name in named if name in given), None)
    if twice is not None:
        reason = f"'{shown(twice)}' is in the mapping and a keyword too"
        raise plan_error("size-twice", "a size is given twice", reason)
    return {name: _read(plan, name, size) for name, size in {**given, **named}.items()}


def _read(plan: Plan, name: str, size: Any) -> int:
    if name not in plan.symbols:
        raise _unknown(plan, name)
    try:
        number = index(size)
    except TypeError:
        raise _no_size(name, size) from None
    if isinstance(size, bool) or number < 0:
        raise _no_size(name, size)
    return number


class Sizes:
    """Evaluates the expressions of one plan, each once. ``mesh``: the sizes of its axes.

    sizes: as `read_sizes` returns them. Raises PlanError where they break a condition of the plan.
    """

    def __init__(self, plan: Plan, sizes: Mapping[str, int], method: str) -> None:
        check_conditions(plan, sizes, method)
        self.plan = plan
        self.sizes = sizes
        self.method = method
        self._known: dict[str, int] = {}
        self.mesh: dict[Axis, int] = {axis: self.of(size) for axis, size in plan.mesh.items()}

    def of(self, text: str) -> int:
        """Returns the value of an expression; PlanError for a symbol without a size."""
        if text not in self._known:
            dim: Dim = dim_of_text(text)
            missing = symbols_of(dim) - self.sizes.keys()
            if missing:
                raise missing_size(self.plan, text, missing, self.sizes, self.method)
            try:
                self._known[text] = evaluate(dim, self.sizes)
            except (ZeroDivisionError, TooLarge):
                raise _no_value(text, self.sizes) from None
        return self._known[text]

    def bytes(self, shape: Sequence[str | None] | None, dtype: str | None) -> int:
        """Returns the bytes of a tensor; 0 where its shape is not known."""
        if shape is None or None in shape:
            return 0
        return prod(self.of(text) for text in shape if text is not None) * item_bytes(dtype)


def _unknown(plan: Plan, name: object) -> PlanError:
    return plan_error(
        "no-such-symbol",
        "the plan has no such symbol",
        f"'{shown(str(name))}' is none; its symbols are {', '.join(plan.symbols) or 'none'}",
    )


def _no_size(name: str, size: object) -> PlanError:
    return plan_error(
        "not-a-size",
        "this is not a size",
        f"{name} = {size!r:.60}",
        "a size is a whole number, 0 or more",
    )


def _no_value(text: str, sizes: Mapping[str, int]) -> PlanError:
    values = ", ".join(f"{name} = {size}" for name, size in sizes.items())
    return plan_error(
        "no-value",
        "the plan has no value at these sizes",
        f"{shown(text)} has none at {values}" if values else f"{shown(text)} has none",
    )
