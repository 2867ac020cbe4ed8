"""Which optimisers are right on parts: those that treat every element of a parameter by itself.

    AdamW over q_proj.weight (32, 64) of (64, 64)       the same step as on one device
    Adafactor                                           refused: it takes means over whole rows
    an optimiser of the user's own                      nobody knows; said once, as a warning

Parameters that every rank holds whole have whole gradients, and any optimiser is right on them.
"""

from __future__ import annotations

import inspect
import warnings
from functools import cache
from typing import Any

import torch

from dimsolve.ir.errors import Diagnostic, DimsolveError

_ELEMENTWISE = (
    "ASGD",
    "Adadelta",
    "Adagrad",
    "Adam",
    "AdamW",
    "Adamax",
    "NAdam",
    "RAdam",
    "RMSprop",
    "Rprop",
    "SGD",
    "SparseAdam",
)

_OF_WHOLES = {
    "torch.Adafactor": "it takes means over the rows and columns of a parameter",
    "torch.Muon": "it orthogonalises a parameter's gradient as one matrix",
    "torch.LBFGS": "it takes products over all parameters together",
    "torch.ZeroRedundancyOptimizer": "it copies "
    "parameters from one rank to the others, and a part is no other rank's part",
    "torch.PostLocalSGDOptimizer": "it takes means of "
    "parameters over the ranks, and a part is no other rank's part",
    "transformers.Adafactor": "it takes means over the rows and columns of a parameter",
}
"""Classes that look at more than one element at a time, by package and name, and at what."""


class OptimizerError(DimsolveError):
    """An optimiser whose step on parts is not the step on one device."""

    __module__ = "dimsolve"


def check_kind(optimizer: Any, name: str) -> None:
    """Raises OptimizerError where an optimiser looks at whole parameters; warns where nobody knows.

    name: of a parameter of which this rank holds a part.
    """
    kind = type(optimizer)
    for base in kind.__mro__:
        package = base.__module__.partition(".")[0]
        reason = _OF_WHOLES.get(f"{package}.{base.__qualname__}")
        if reason is not None:
            raise _refused(kind.__name__, name, reason)
    if inspect.unwrap(kind.step) not in _elementwise_steps():
        warnings.warn(
            f"{kind.__name__} is not known to dimsolve, and this rank holds a part of {name}: the "
            "step is that of one device only if it treats every element of a parameter by itself",
            stacklevel=4,
        )


@cache
def _elementwise_steps() -> frozenset[Any]:
    return frozenset(inspect.unwrap(getattr(torch.optim, name).step) for name in _ELEMENTWISE)


def _refused(kind: str, name: str, reason: str) -> OptimizerError:
    return OptimizerError(
        Diagnostic(
            code="optimizer-of-wholes",
            title=f"{kind} cannot step on parts of parameters",
            reason=f"{reason}, and this rank holds a part of {name}",
            hint=f"take one that treats elements by themselves ({', '.join(_ELEMENTWISE)}), or a "
            "plan that leaves parameters whole",
        )
    )
