"""Largest and smallest elements over a split dimension: elements that tie share the gradient as on
one device.

    amax(x, 0), a cut over 2      a+ b -> b      x S(0)      R

P(max) would do for the values. But where elements of several ranks tie, the gradient is shared
among all of them, and only all ranks together know how many they are.
"""

from __future__ import annotations

from typing import Any

from dimsolve.ir.annotation import Mark
from dimsolve.ir.operator import Declaration
from dimsolve.ir.read_annotation import read_annotation
from dimsolve.solver.layout import identifiers_of

from ..transform import Part, TransformRule


def amax_rules(declaration: Declaration) -> tuple[TransformRule, ...]:
    """Returns the rule of amax."""
    return _rules(declaration, amax_parts)


def amin_rules(declaration: Declaration) -> tuple[TransformRule, ...]:
    """Returns the rule of amin."""
    return _rules(declaration, amin_parts)


def max_rules(declaration: Declaration) -> tuple[TransformRule, ...]:
    """Returns the rule of max over all elements; that of two tensors, or with indices, has none."""
    return _rules(declaration, max_parts)


def min_rules(declaration: Declaration) -> tuple[TransformRule, ...]:
    """Returns the rule of min over all elements."""
    return _rules(declaration, min_parts)


def _rules(declaration: Declaration, local: Any) -> tuple[TransformRule, ...]:
    identifiers = identifiers_of(read_annotation(declaration.annotation))
    names = tuple(name for name, found in identifiers.items() if found.mark is Mark.SUM)
    real = str(declaration.dtypes[:1]).startswith(("('float", "('bfloat"))
    if not names or not real or declaration.reduction not in ("max", "min"):
        return ()
    return (TransformRule(split=names, outputs=("R",), local=local),)


def amax_parts(part: Part, input: Any, dim: Any = (), keepdim: bool = False) -> Any:
    """Returns the largest elements of all ranks' parts."""
    return _extreme(part, input, dim, keepdim, "max")


def amin_parts(part: Part, input: Any, dim: Any = (), keepdim: bool = False) -> Any:
    """Returns the smallest elements of all ranks' parts."""
    return _extreme(part, input, dim, keepdim, "min")


def max_parts(part: Part, input: Any) -> Any:
    """Returns the largest element of all ranks' parts."""
    return _extreme(part, input, (), False, "max")


def min_parts(part: Part, input: Any) -> Any:
    """Returns the smallest element of all ranks' parts."""
    return _extreme(part, input, (), False, "min")


def _extreme(part: Part, input: Any, dim: Any, keepdim: bool, reduction: str) -> Any:
    import torch

    dims = tuple(range(input.dim())) if dim is None or dim == () else dim
    find = torch.amax if reduction == "max" else torch.amin
    whole = part.all_reduce(find(input.detach(), dims, keepdim=True), reduction)
    value = whole if keepdim or not input.dim() else find(whole, dims)
    if not (input.requires_grad and torch.is_grad_enabled()):
        return value
    ties = input.detach() == whole
    count = part.all_reduce(ties.sum(dims, keepdim=True, dtype=input.dtype))
    zero = input.clone()
    with torch.no_grad():
        zero.zero_()
    # Zeros that have the gradient of the input. All ranks' are summed, so that each rank's result
    # depends on every part: what is not so has a first derivative only.
    return value + part.all_reduce((zero * ties / count).sum(dims, keepdim=keepdim))
