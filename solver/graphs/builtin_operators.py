"""Operators that a graph brings along: element-wise ones that never broadcast.

``torch.add`` broadcasts, so what it returns does not tell the shapes of what it was given.
``ewise_add`` takes two tensors of one shape and one dtype, as intermediate languages do, and so
facts flow through it in all directions:

    before(x: ?[*], y: float32[m, n])    ewise_add(log(x), y)    x is float32[m, n]
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from dimsolve.ir.operator import Declaration, Operator

PREFIX = "dimsolve."
EWISE = ("add", "sub", "mul", "div", "maximum", "minimum", "pow")
"""The torch functions that have a form without broadcasting: ``dimsolve.ewise_add`` and so on."""

LINEAR = {"add": ((0, 1),), "sub": ((0, 1),), "mul": ((0,), (1,)), "div": ((0,),)}


def _ewise(name: str) -> Callable[..., Declaration]:
    def declare(input: Any, other: Any) -> Declaration:
        dtype = input.dtype if input.dtype is not None else other.dtype
        return Declaration(
            "*, * -> *", (input, other), linear=LINEAR.get(name, ()), dtypes=(dtype,)
        )

    return declare


BUILTIN: dict[str, Operator] = {
    f"{PREFIX}ewise_{name}": Operator(
        f"ewise_{name}", f"{PREFIX}ewise_{name}", _ewise(name), parameters=("input", "other")
    )
    for name in EWISE
}
"""By path. What they compute is ``torch.NAME``; `dimsolve.exec.run` checks the shapes before."""

SAME_TYPE = frozenset(BUILTIN)
"""Operators whose operands and result have one dtype."""
