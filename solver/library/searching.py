"""Elements looked for: in sorted rows, among all others, and how many there are.

searchsorted(x, y)     a b^, a c -> a c
histc(x, 10, 0, 9)     a+ b+ -> c^               c=10, counts are summed
unique(x)              a^ b^ -> u^               only running can tell u
nonzero(x)             a^ b^ -> u^ 2
"""

from __future__ import annotations

from typing import Any

from dimsolve.ir.operator import Declaration

from . import errors
from .dtypes import dtype_of
from .entry import entry
from .needs import GE, need
from .samples import ascending, example, t, whole
from .values import NotKnown, dims_of, is_dim, is_tensor
from .writing import Names, annotation, length_word


def searchsorted(
    sorted_sequence: Any,
    input: Any,
    *,
    out_int32: bool = False,
    right: bool = False,
    side: Any = None,
    sorter: Any = None,
) -> Declaration:
    """Returns the declaration of a search in sorted rows, or in one row for all."""
    dtype = "int32" if out_int32 else "int64"
    if sorter is not None:
        raise NotKnown("searchsorted with a sorter is not known of")
    rank = len(dims_of(sorted_sequence))
    if not is_tensor(input):
        return Declaration(
            "a^ -> ()", (sorted_sequence,), dtypes=(dtype,), frozen="one row is seen whole"
        )
    if rank == 1:
        return Declaration("n^, * -> *", (sorted_sequence, input), dtypes=(dtype,))
    names = Names()
    batch, row, column = names.take(rank - 1), names.one("^"), names.one()
    text = annotation([[*batch, row], [*batch, column]], [[*batch, column]])
    return Declaration(text, (sorted_sequence, input), dtypes=(dtype,))


def bucketize(
    input: Any, boundaries: Any, *, out_int32: bool = False, right: bool = False
) -> Declaration:
    """Returns the declaration of a search in one sorted row."""
    return Declaration(
        "*, n^ -> *", (input, boundaries), dtypes=("int32" if out_int32 else "int64",)
    )


def histc(input: Any, bins: Any = 100, min: Any = 0, max: Any = 0) -> Declaration:
    """Returns the declaration of a histogram: between written bounds counts are summed."""
    rank = len(dims_of(input))
    bounded = not is_tensor(min) and not is_tensor(max) and min != max
    need(bins, GE, 1, errors.not_understood("histc", f"bins is {bins}"))
    if is_dim(min) and is_dim(max):
        need(max, GE, min, errors.not_understood("histc", f"it goes from {min} to {max}"))
    names = Names()
    row = names.take(rank, "+" if bounded else "^")
    arguments: dict[str, Any] = {}
    word = length_word(names, arguments, bins)
    return Declaration(
        annotation([row], [[word]]),
        (input,),
        arguments=arguments,
        dtypes=(dtype_of(input),),
        frozen="" if bounded else "the bounds are those of all elements",
    )


def bincount(input: Any, weights: Any = None, minlength: int = 0) -> Declaration:
    """Returns the declaration of counts of whole numbers: how many there are, only running can
    tell.
    """
    inputs = [input] if weights is None else [input, weights]
    return Declaration(
        annotation([["a^"]] * len(inputs), [["b^"]]),
        tuple(inputs),
        fresh=("b",),
        dtypes=("int64" if weights is None else "float64",),
        frozen="the number of counts depends on the largest element",
    )


def unique(
    input: Any,
    sorted: bool = True,
    return_inverse: bool = False,
    return_counts: bool = False,
    dim: Any = None,
) -> Declaration:
    """Returns the declaration of the different elements: how many, only running can tell."""
    dims = dims_of(input)
    if dim is not None:
        raise NotKnown("unique along a dimension is not known of")
    row = Names({"u"}).take(len(dims), "^")
    outputs = [["u^"], *([row] if return_inverse else []), *([["u^"]] if return_counts else [])]
    return Declaration(
        annotation([row], outputs),
        (input,),
        fresh=("u",),
        dtypes=(dtype_of(input), *["int64"] * (len(outputs) - 1)),
        frozen="equal elements may lie in different parts",
        returns="tuple" if len(outputs) > 1 else "tensor",
    )


def unique_consecutive(
    input: Any, return_inverse: bool = False, return_counts: bool = False, dim: Any = None
) -> Declaration:
    """Returns the declaration of elements that differ from the one before."""
    return unique(input, True, return_inverse, return_counts, dim)


def nonzero(input: Any, *, as_tuple: bool = False) -> Declaration:
    """Returns the declaration of the places of nonzero elements: only running tells how many."""
    dims = dims_of(input)
    row = Names({"u"}).take(len(dims), "^")
    outputs = [["u^"]] * max(len(dims), 1) if as_tuple else [["u^", str(len(dims))]]
    return Declaration(
        annotation([row], outputs),
        (input,),
        fresh=("u",),
        dtypes=("int64",) * len(outputs),
        frozen="how many places there are depends on the data",
        returns="tuple" if as_tuple else "tensor",
    )


def isin(
    elements: Any, test_elements: Any, *, assume_unique: bool = False, invert: bool = False
) -> Declaration:
    """Returns the declaration of membership: every element is looked for among all others."""
    if not (is_tensor(elements) and is_tensor(test_elements)):
        raise NotKnown("isin with a number is not known of")
    row = Names().take(len(dims_of(elements)))
    others = [f"{word}^" for word in Names(set(row)).take(len(dims_of(test_elements)))]
    return Declaration(
        annotation([row, others], [row]), (elements, test_elements), dtypes=("bool",)
    )


ENTRIES = (
    entry("torch.searchsorted", searchsorted, example(ascending(6), t(12, 4))),
    entry("torch.bucketize", bucketize, example(t(12, 4), ascending(6))),
    entry("torch.histc", histc, example(t(12, 6), 8, -2, 2), example(t(12, 6), 4)),
    entry("torch.bincount", bincount, example(whole(9, 12))),
    entry(
        "torch.unique",
        unique,
        example(whole(9, 12, 6)),
        example(whole(9, 12), return_counts=True),
    ),
    entry("torch.unique_consecutive", unique_consecutive, example(whole(3, 12))),
    entry(
        "torch.nonzero",
        nonzero,
        example(whole(2, 12, 6)),
        example(whole(2, 12, 6), as_tuple=True),
    ),
    entry("torch.argwhere", nonzero, example(whole(2, 12, 6))),
    entry("torch.isin", isin, example(whole(9, 12, 6), whole(9, 4))),
)
