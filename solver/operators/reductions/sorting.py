"""Sorting, searching, counting and running sums: the dimension itself stays whole.

sort(x, -1)            a b^ -> a b^, a b^
topk(x, 3)             a b^ -> a c^, a c^        c=3
cumsum(x, 1)           a b^ c -> a b^ c
searchsorted(x, y)     a b^, a c -> a c
isin(x, y)             a b, c+ -> a b                      P(max) of bools
histc(x, 10, 0, 9)     a+ b+ -> c^               c=10, counts are summed
unique(x)              a^ b^ -> u^               only running can tell u
nonzero(x)             a^ b^ -> u^ 2
"""

from __future__ import annotations

from typing import Any

from dimsolve.ir.operator import Declaration

from ..declare import errors
from ..declare.dtypes import dtype_name, dtype_of, summed
from ..declare.entry import (
    ascending,
    constant,
    distinct,
    entry,
    example,
    shapes,
    t,
    torch_entry,
    whole,
)
from ..declare.forms import declared, words
from ..declare.needs import GE, LE, need
from ..declare.writing import (
    Names,
    NotKnown,
    annotation,
    axis,
    bare,
    dims_of,
    is_dim,
    is_tensor,
    length_word,
)


def searchsorted(
    sorted_sequence: Any,
    input: Any,
    *,
    out_int32: bool = False,
    right: bool = False,
    side: Any = None,
    sorter: Any = None,
) -> Declaration:
    """Declares a search in sorted rows, or in one row for all."""
    dtype = "int32" if out_int32 else "int64"
    if sorter is not None:
        raise NotKnown("searchsorted with a sorter is not supported")
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
    """Declares a search in one sorted row."""
    return Declaration(
        "*, n^ -> *", (input, boundaries), dtypes=("int32" if out_int32 else "int64",)
    )


def histc(input: Any, bins: Any = 100, min: Any = 0, max: Any = 0) -> Declaration:
    """Declares a histogram: between written bounds counts are summed."""
    rank = len(dims_of(input))
    bounded = not is_tensor(min) and not is_tensor(max) and min != max
    need(bins, GE, 1, errors.not_understood("histc", f"bins is {bins}"))
    if is_dim(min) and is_dim(max):
        need(max, GE, min, errors.not_understood("histc", f"it goes from {min} to {max}"))
    names = Names()
    row = names.take(rank, "+" if bounded else "^")
    arguments: dict[str, Any] = {}
    word = length_word(names, arguments, bins)
    return declared(
        (input,),
        [row],
        [[word]],
        arguments=arguments,
        frozen="" if bounded else "the bounds are those of all elements",
    )


def histogram(
    input: Any, bins: Any, *, range: Any = None, weight: Any = None, density: bool = False
) -> Declaration:
    """Declares counts and the edges between them. Between written bounds counts are summed, but
    the edges are whole on every rank: one split cannot do both.
    """
    row = Names().take(len(dims_of(input)), "^")
    names, arguments = Names([*map(bare, row)]), dict[str, Any]()
    inputs, rows = [input], [row]
    if is_tensor(bins):
        edges = dims_of(bins)[0]
        if edges is None:
            raise NotKnown("how many edges there are is not known")
        inputs, rows = [input, bins], [row, ["1" if edges == 1 else names.one("^")]]
        need(edges, GE, 2, errors.not_understood("histogram", f"there are {edges} edges"))
        edge = rows[1][0]
        count = length_word(names, arguments, edges - 1)
    else:
        need(bins, GE, 1, errors.not_understood("histogram", f"bins is {bins}"))
        count = length_word(names, arguments, bins)
        edge = length_word(names, arguments, bins + 1)
    if weight is not None:
        inputs, rows = [*inputs, weight], [*rows, row]
    return declared(
        inputs,
        rows,
        [[count], [edge]],
        arguments=arguments,
        frozen="counts and edges are no sums together",
        returns="tuple",
    )


def nonzero_static(input: Any, *, size: Any, fill_value: int = -1) -> Declaration:
    """Declares as many places of nonzero elements as are asked for."""
    row = Names().take(len(dims_of(input)), "^")
    arguments: dict[str, Any] = {}
    word = length_word(Names([*map(bare, row)]), arguments, size)
    return declared(
        (input,),
        [row],
        [[word, str(len(row))]],
        arguments=arguments,
        dtypes=("int64",),
        frozen="which places there are depends on all of the data",
    )


def bincount(input: Any, weights: Any = None, minlength: int = 0) -> Declaration:
    """Declares counts of whole numbers: how many there are, only running can tell."""
    inputs = [input] if weights is None else [input, weights]
    return declared(
        inputs,
        [["a^"]] * len(inputs),
        [["b^"]],
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
    """Declares the different elements: how many, only running can tell."""
    dims = dims_of(input)
    if dim is not None:
        raise NotKnown("unique along a dimension is not supported")
    row = Names({"u"}).take(len(dims), "^")
    outputs = [["u^"], *([row] if return_inverse else []), *([["u^"]] if return_counts else [])]
    return declared(
        (input,),
        [row],
        outputs,
        fresh=("u",),
        dtypes=(dtype_of(input), *["int64"] * (len(outputs) - 1)),
        frozen="equal elements may lie in different parts",
        returns="tuple" if len(outputs) > 1 else "tensor",
    )


def unique_consecutive(
    input: Any, return_inverse: bool = False, return_counts: bool = False, dim: Any = None
) -> Declaration:
    """Declares elements that differ from the one before."""
    return unique(input, True, return_inverse, return_counts, dim)


def nonzero(input: Any, *, as_tuple: bool = False) -> Declaration:
    """Declares the places of nonzero elements: only running tells how many."""
    dims = dims_of(input)
    row = Names({"u"}).take(len(dims), "^")
    outputs = [["u^"]] * max(len(dims), 1) if as_tuple else [["u^", str(len(dims))]]
    return declared(
        (input,),
        [row],
        outputs,
        fresh=("u",),
        dtypes=("int64",) * len(outputs),
        frozen="how many places there are depends on the data",
        returns="tuple" if as_tuple else "tensor",
    )


def unravel_index(indices: Any, shape: Any) -> Declaration:
    """Declares places in each dimension of places counted in a whole."""
    count = len(shape) if isinstance(shape, list | tuple) else 1
    results = ", ".join(["*"] * count)
    for length in shape if isinstance(shape, list | tuple) else (shape,):
        need(length, GE, 0, errors.negative_length(length))
    return Declaration(
        f"* -> {results}", (indices,), dtypes=(dtype_of(indices),) * count, returns="tuple"
    )


def isin(
    elements: Any, test_elements: Any, *, assume_unique: bool = False, invert: bool = False
) -> Declaration:
    """Declares membership: an element is among all others if it is among those of one part. Where
    elements are said to be unique and are not, torch's answer is neither.
    """
    if not (is_tensor(elements) and is_tensor(test_elements)):
        raise NotKnown("isin with a number is not supported")
    row, mark = Names().take(len(dims_of(elements))), "^" if assume_unique else "+"
    others = [f"{word}{mark}" for word in Names(set(row)).take(len(dims_of(test_elements)))]
    return declared(
        (elements, test_elements),
        [row, others],
        [row],
        reduction="min" if invert else "max",
        dtypes=("bool",),
    )


_WHOLE = "every element depends on its place among all others"


def along(
    input: Any,
    dim: Any,
    dtypes: tuple[str | None, ...],
    *,
    linear: bool = False,
    length: Any = None,
) -> Declaration:
    """Declares a function of whole rows; ``length`` is the new length of the
    dimension, where it changes.
    """
    dims = dims_of(input)
    names = Names()
    place = axis(dim, len(dims)) if dims else 0
    row = [names.one("^" if n == place else "") for n in range(len(dims))]
    target, arguments = list(row), {}
    if length is not None and dims:
        found: dict[str, Any] = {}
        target[place] = length_word(names, found, length)
        arguments = found
    return declared(
        (input,),
        [row],
        [target] * len(dtypes),
        arguments=arguments,
        dtypes=dtypes,
        linear=((0,),) if linear else (),
        frozen="" if len(dims) > 1 else _WHOLE,
        returns="tuple" if len(dtypes) > 1 else "tensor",
    )


def cumsum(input: Any, dim: int, *, dtype: Any = None) -> Declaration:
    """Declares a running sum."""
    return along(input, dim, (dtype_name(dtype) or summed(dtype_of(input)),), linear=True)


def cumprod(input: Any, dim: int, *, dtype: Any = None) -> Declaration:
    """Declares a running product."""
    return along(input, dim, (dtype_name(dtype) or summed(dtype_of(input)),))


def running(input: Any, dim: int) -> Declaration:
    """Declares cummax, cummin: values and places."""
    return along(input, dim, (dtype_of(input), "int64"))


def logcumsumexp(input: Any, dim: int) -> Declaration:
    """Declares a running logsumexp."""
    return along(input, dim, (dtype_of(input),))


def sort(input: Any, dim: int = -1, descending: bool = False, *, stable: Any = None) -> Declaration:
    """Declares torch.sort: values and places."""
    return along(input, dim, (dtype_of(input), "int64"))


def argsort(
    input: Any, dim: int = -1, descending: bool = False, *, stable: Any = None
) -> Declaration:
    """Declares torch.argsort."""
    return along(input, dim, ("int64",))


def msort(input: Any) -> Declaration:
    """Declares a sort along dimension 0."""
    return along(input, 0, (dtype_of(input),))


def topk(
    input: Any, k: Any, dim: int = -1, largest: bool = True, sorted: bool = True
) -> Declaration:
    """Declares the k largest elements and their places."""
    if not is_dim(k):
        raise NotKnown("k is not known")
    dims = dims_of(input)
    length = dims[axis(dim, len(dims))] if dims else 1
    if length is not None:
        need(k, LE, length, errors.out_of_range("k", k, length))
    return along(input, dim, (dtype_of(input), "int64"), length=k)


def trapezoid(y: Any, x: Any = None, *, dx: Any = 1.0, dim: int = -1) -> Declaration:
    """Declares an integral along a dimension."""
    dims = dims_of(y)
    if x is not None and (not is_tensor(x) or dims_of(x) != dims):
        raise NotKnown("only places of the shape of the values are supported")
    place = axis(dim, len(dims))
    row = words(len(dims), [place])
    tensors = [y] if x is None else [y, x]
    return declared(
        tensors,
        [row] * len(tensors),
        [[word for n, word in enumerate(row) if n != place]],
        dtypes=(dtype_of(y),),
        linear=((0,),),
        frozen="" if len(dims) > 1 else _WHOLE,
    )


def cumulative_trapezoid(y: Any, x: Any = None, *, dx: Any = 1.0, dim: int = -1) -> Declaration:
    """Declares a running integral, one element shorter than the values."""
    dims = dims_of(y)
    length = dims[axis(dim, len(dims))]
    if x is not None or length is None:
        raise NotKnown("only values at equal distances are supported")
    return along(y, dim, (dtype_of(y),), linear=True, length=length - 1)


def renorm(input: Any, p: Any, dim: int, maxnorm: Any) -> Declaration:
    """Declares slices along a dimension scaled down to a norm: only that dimension may be cut."""
    dims = dims_of(input)
    place = axis(dim, len(dims))
    names = Names()
    row = [names.one("" if n == place else "^") for n in range(len(dims))]
    return declared((input,), [row], [row])


_ROWS = (example(t(12, 6), 1), example(t(2, 12, 6), -1))
_DISTINCT = (example(distinct(12, 6)), example(distinct(2, 12, 6), 0))
_INDEXED = (example(distinct(12, 6), 1), example(distinct(2, 12, 6), 0))


ENTRIES = (
    torch_entry(searchsorted, example(ascending(6), t(12, 4))),
    torch_entry(bucketize, example(t(12, 4), ascending(6))),
    torch_entry(histc, example(t(12, 6), 8, -2, 2), example(t(12, 6), 4)),
    torch_entry(
        histogram,
        example(constant(t(12, 6)), 8, range=(-2.0, 2.0)),
        example(constant(t(12)), constant(ascending(5))),
    ),
    torch_entry(nonzero_static, example(whole(2, 12, 6), size=5)),
    torch_entry(bincount, example(whole(9, 12))),
    torch_entry(unique, example(whole(9, 12, 6)), example(whole(9, 12), return_counts=True)),
    torch_entry(unique_consecutive, example(whole(3, 12))),
    torch_entry(nonzero, example(whole(2, 12, 6)), example(whole(2, 12, 6), as_tuple=True)),
    entry("torch.argwhere", nonzero, example(whole(2, 12, 6))),
    torch_entry(unravel_index, example(whole(20, 12, 6), (4, 5))),
    torch_entry(
        isin,
        example(whole(9, 12, 6), whole(9, 4)),
        example(whole(9, 12), whole(9, 4, 3), invert=True),
    ),
    torch_entry(cumsum, *_ROWS, example(whole(9, 12, 6), 0)),
    torch_entry(cumprod, *_ROWS),
    entry("torch.cummax", running, *_INDEXED),
    entry("torch.cummin", running, *_INDEXED),
    torch_entry(logcumsumexp, *_ROWS),
    torch_entry(sort, *_DISTINCT),
    torch_entry(argsort, *_DISTINCT),
    torch_entry(msort, example(distinct(6, 12))),
    torch_entry(topk, example(distinct(12, 6), 3), example(distinct(6, 12), 2, 0)),
    torch_entry(trapezoid, *shapes("12 6"), example(t(6, 12), t(6, 12), dim=0)),
    torch_entry(cumulative_trapezoid, *shapes("12 6"), example(t(6, 12), dim=0)),
    torch_entry(renorm, example(t(12, 6), 2, 0, 1.0)),
)
