"""Norms: which of them parts have, and what joins them.

norm(x, 1, -1)               a b+ -> a          the sum of absolute values
norm(x, float("inf"), -1)    a b+ -> a          P(max)
norm(x)                      a^ b^ -> ()        a root of a sum is no sum of roots
dist(x, y, 1)                a+ b+, a+ b+ -> ()
"""

from __future__ import annotations

from typing import Any

from dimsolve.ir.operator import Declaration, ReductionName

from .broadcast import broadcast
from .dtypes import dtype_name, dtype_of
from .entry import entry
from .reductions import RULES, reduced
from .samples import distinct, example, t
from .values import NotKnown, axes, dims_of
from .writing import Names, annotation

_NORMS: dict[Any, tuple[str, ReductionName]] = {
    1: ("+", "sum"),
    0: ("+", "sum"),
    float("inf"): ("+", "max"),
    float("-inf"): ("+", "min"),
}
"""Mark and reduction of vector norms that parts have and that can be joined."""


def vector_norm(
    x: Any, ord: Any = 2, dim: Any = None, keepdim: bool = False, *, dtype: Any = None
) -> Declaration:
    """Returns the declaration of a norm of vectors."""
    mark, reduction = _NORMS.get(ord, ("^", "sum"))
    result = dtype_name(dtype) or RULES["abs"](dtype_of(x))
    return reduced(x, dim, keepdim, mark=mark, reduction=reduction, dtype=result)


def norm(
    input: Any,
    p: Any = "fro",
    dim: Any = None,
    keepdim: bool = False,
    out: Any = None,
    dtype: Any = None,
) -> Declaration:
    """Returns the declaration of torch.norm: a vector norm, or the Frobenius norm, which is one."""
    if p == "nuc":
        raise NotKnown("the nuclear norm is not known of")
    return vector_norm(input, 2 if p in ("fro", None) else p, dim, keepdim, dtype=dtype)


def linalg_norm(
    A: Any, ord: Any = None, dim: Any = None, keepdim: bool = False, *, dtype: Any = None
) -> Declaration:
    """Returns the declaration of torch.linalg.norm where it is a vector norm; of matrices all is
    whole.
    """
    rank = len(dims_of(A))
    places = axes(dim, rank)
    if ord is None:
        return vector_norm(A, 2, dim, keepdim, dtype=dtype)
    if len(places) == 1:
        return vector_norm(A, ord, dim, keepdim, dtype=dtype)
    return reduced(A, dim, keepdim, mark="^", dtype=dtype_name(dtype) or RULES["abs"](dtype_of(A)))


def matrix_norm(
    A: Any, ord: Any = "fro", dim: Any = (-2, -1), keepdim: bool = False, *, dtype: Any = None
) -> Declaration:
    """Returns the declaration of a norm of matrices."""
    return reduced(A, dim, keepdim, mark="^", dtype=dtype_name(dtype) or RULES["abs"](dtype_of(A)))


def dist(input: Any, other: Any, p: Any = 2) -> Declaration:
    """Returns the declaration of the norm of a difference."""
    mark, reduction = _NORMS.get(p, ("^", "sum"))
    spread = broadcast([dims_of(input), dims_of(other, "the other tensor")], Names(), mark)
    return Declaration(
        annotation(spread.inputs, [[]]),
        (input, other),
        reduction=reduction,
        dtypes=(dtype_of(input),),
        frozen="the result needs all elements at once" if mark == "^" else "",
    )


ENTRIES = (
    entry(
        "torch.norm",
        norm,
        example(t(12, 6)),
        example(t(12, 6), 1, -1),
        example(distinct(12, 6), float("inf"), 0, True),
    ),
    entry(
        "torch.linalg.vector_norm",
        vector_norm,
        example(t(12, 6), 1, -1),
        example(t(12, 6), 3, 0),
        example(t(12, 6)),
    ),
    entry(
        "torch.linalg.norm",
        linalg_norm,
        example(t(12, 6)),
        example(t(12, 6), 1, -1),
        example(t(2, 6, 4), "fro", (-2, -1)),
    ),
    entry("torch.linalg.matrix_norm", matrix_norm, example(t(12, 4, 6)), example(t(12, 4, 6), 1)),
    entry("torch.dist", dist, example(t(12, 6), t(12, 6)), example(t(12, 6), t(12, 6), 1)),
)
