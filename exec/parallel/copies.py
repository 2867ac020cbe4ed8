"""Copies of a part: another one in this process, with its own parameters; none in a file.

    copy.deepcopy(part)                  trains by itself; plan and process groups are shared
    swa_utils.AveragedModel(part)        an average of parts is the part of the average
    torch.save(part.state_dict(), path)  what is saved: a process group is of one process only

A copy runs collectives as its original does, so every rank copies, and calls both in one order.
"""

from __future__ import annotations

import copy
from typing import Any

from dimsolve.ir.errors import Diagnostic, DimsolveError

_SHARED = frozenset(
    {"plan", "program", "ends", "_agreement", "_held", "_arguments", "_rebuild", "_admitted"}
)
"""What belongs to the plan and to the world, and not to the parameters."""


class PickleError(DimsolveError, TypeError):
    """A part that was to be pickled."""

    __module__ = "dimsolve"


def copied(module: Any, memo: dict[int, Any]) -> Any:
    """Returns a part with parameters and buffers of its own. Its optimiser and gradients are not
    copied, as of any module.
    """
    made: Any = object.__new__(type(module))
    memo[id(module)] = made
    for name, value in module.__dict__.items():
        if name != "_places":
            made.__dict__[name] = value if name in _SHARED else copy.deepcopy(value, memo)
    made._know_parameters()
    return made


def not_pickled() -> PickleError:
    """The error of what would pickle a part."""
    return PickleError(
        Diagnostic(
            code="not-pickled",
            title="a part of a model cannot be pickled",
            reason="it holds process groups, which no other process has",
            hint="save part.state_dict(), and load it into a part that parallelize makes",
        )
    )
