"""Reductions, norms and order statistics: what joins the parts of a dimension that goes away.

sum(x, -1)                   a b+ -> a          P(sum)
mean(x, -1)                  a b+ -> a          P(avg): equal parts have equal counts
amax(x, (0, 1))              a+ b+ c -> c       P(max)
all(x)                       a+ b+ -> ()        P(min) of bools
var(x, -1)                   a b^ -> a          no reduction joins variances
norm(x, 1, -1)               a b+ -> a          the sum of absolute values
norm(x)                      a^ b^ -> ()        a root of a sum is no sum of roots
max(x, -1)                   a b^ -> a, a       a part does not know places in the whole
quantile(x, q, 0)            a^ b, c -> c b     a tensor of quantiles comes first
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from dimsolve.ir.operator import Declaration, ReductionName

from ..declare import errors
from ..declare.dtypes import dtype_name, dtype_of, floating, real_of, summed
from ..declare.entry import (
    Form,
    between,
    constant,
    distinct,
    entries,
    entry,
    example,
    mask,
    places,
    shapes,
    t,
    torch_entry,
    whole,
)
from ..declare.forms import declared, moved
from ..declare.needs import EQ, GE, LE, need, need_equal_or_one, never_equal
from ..declare.writing import (
    Lengths,
    Names,
    NotKnown,
    axes,
    axis,
    bare,
    dims_of,
    freeze_word,
    is_dim,
    is_tensor,
    length_word,
    rest_of,
)
from ..elementwise.pointwise import broadcast

RULES: dict[str, Callable[[str | None], str | None]] = {
    "same": lambda dtype: dtype,
    "summed": summed,
    "real": floating,
    "abs": lambda dtype: real_of(floating(dtype)),
    "bool": lambda dtype: "bool" if dtype != "uint8" else "uint8",
    "int64": lambda dtype: "int64",
}


def reduced(
    input: Any,
    dim: Any,
    keepdim: bool,
    *,
    mark: str = "+",
    reduction: ReductionName = "sum",
    dtype: str | None = None,
    outputs: int = 1,
    empty_means_all: bool = True,
    linear: bool = False,
) -> Declaration:
    """Declares a reduction; ``mark`` is that of the dimensions that go away."""
    dims = dims_of(input)
    places = axes(dim, len(dims), empty_means_all=empty_means_all)
    names = Names()
    row = [names.one(mark if n in places else "") for n in range(len(dims))]
    kept = [
        ("1" if n in places else word) for n, word in enumerate(row) if keepdim or n not in places
    ]
    whole_input = bool(row) and mark == "^" and len(places) == len(row)
    return declared(
        (input,),
        [row],
        [kept] * outputs,
        reduction=reduction,
        dtypes=(dtype,) * outputs,
        linear=((0,),) if linear else (),
        frozen="the result needs all elements at once" if whole_input else "",
        returns="tuple" if outputs > 1 else "tensor",
    )


def _summing(reduction: ReductionName, rule: str, *, linear: bool) -> Form:
    """Declares sum, mean and their kin: ``(input, dim=None, keepdim=False, dtype=None)``."""

    def declare(
        input: Any, dim: Any = None, keepdim: bool = False, *, dtype: Any = None
    ) -> Declaration:
        result = dtype_name(dtype) or RULES[rule](dtype_of(input))
        return reduced(input, dim, keepdim, reduction=reduction, dtype=result, linear=linear)

    return declare


def _extreme(reduction: ReductionName, rule: str) -> Form:
    """Declares amax, amin, any and all over any dimensions."""

    def declare(input: Any, dim: Any = None, keepdim: bool = False) -> Declaration:
        # any and all over no dimension reduce nothing.
        everything = rule == "same"
        dtype = RULES[rule](dtype_of(input))
        return reduced(
            input, dim, keepdim, reduction=reduction, dtype=dtype, empty_means_all=everything
        )

    return declare


def prod(input: Any, dim: Any = None, keepdim: bool = False, *, dtype: Any = None) -> Declaration:
    """Declares a product over one dimension, or over all."""
    result = dtype_name(dtype) or summed(dtype_of(input))
    return reduced(input, dim, keepdim, reduction="prod", dtype=result)


def _spread(outputs: int) -> Form:
    """Declares var, std, var_mean, std_mean: what varies must be seen whole."""

    def declare(
        input: Any,
        dim: Any = None,
        unbiased: Any = None,
        keepdim: bool = False,
        *,
        correction: Any = None,
    ) -> Declaration:
        if isinstance(dim, bool):
            dim = None
        dtype = RULES["abs"](dtype_of(input))
        return reduced(input, dim, bool(keepdim), mark="^", dtype=dtype, outputs=outputs)

    return declare


def logsumexp(input: Any, dim: Any, keepdim: bool = False) -> Declaration:
    """Declares the logarithm of a sum of exponentials."""
    return reduced(input, dim, keepdim, mark="^", dtype=floating(dtype_of(input)))


def count_nonzero(input: Any, dim: Any = None) -> Declaration:
    """Declares a count."""
    return reduced(input, dim, False, dtype="int64")


def nanmean(
    input: Any, dim: Any = None, keepdim: bool = False, *, dtype: Any = None
) -> Declaration:
    """Declares a mean without NaN: parts may have different counts."""
    result = dtype_name(dtype) or dtype_of(input)
    return reduced(input, dim, keepdim, mark="^", dtype=result)


def sum_to_size(input: Any, *size: Any, **named: Any) -> Declaration:
    """Declares the sum that undoes an expand."""
    dims: Lengths = dims_of(input)
    sizes: tuple[Any, ...] = rest_of(size, named, "size")
    new = len(dims) - len(sizes)
    if new < 0:
        raise errors.wrong_number("sizes", len(sizes), len(dims))
    names = Names()
    kept = [n >= new and (sizes[n - new] != 1 or dims[n] == 1) for n in range(len(dims))]
    row = [
        "1" if d == 1 else names.one("" if keep else "+")
        for d, keep in zip(dims, kept, strict=True)
    ]
    target = [word if keep else "1" for word, keep in zip(row[new:], kept[new:], strict=True)]
    arguments: dict[str, Any] = {}
    for n, (wanted, length) in enumerate(zip(sizes, dims[new:], strict=True)):
        if kept[new + n] and is_dim(wanted) and length is not None and wanted != length:
            if never_equal(wanted, length) and never_equal(wanted, 1):
                why = f"the sizes are {tuple(sizes)}, of {tuple(dims)}"
                raise errors.not_understood("sum_to_size", why)
            need_equal_or_one(wanted, length, one=(wanted,))
            row[new + n] = freeze_word(row[new + n])
            target[n] = length_word(names, arguments, wanted)
    return moved(
        input,
        row,
        target,
        arguments=arguments,
        sizes={} if arguments else {"size": " ".join(target) or "()"},
    )


def trace(input: Any) -> Declaration:
    """Declares the sum of a diagonal."""
    dims = dims_of(input)
    if len(dims) != 2:
        raise errors.wrong_rank("trace", "input", dims, "2 dimensions")
    return Declaration(
        "a^ b^ -> ()",
        (input,),
        dtypes=(summed(dtype_of(input)),),
        linear=((0,),),
        frozen="a part of the rows has another diagonal",
    )


def allclose(
    input: Any, other: Any, rtol: float = 1e-5, atol: float = 1e-8, equal_nan: bool = False
) -> Declaration:
    """Declares a comparison whose result is a Python bool."""
    raise NotKnown("the result is a Python bool that depends on all elements")


_DISTINCT = (
    example(distinct(12, 24), -1),
    example(distinct(2, 12, 6), (0, 2)),
    example(distinct(12, 6), 1, keepdim=True),
)
_OVER = (
    *shapes("12 24"),
    example(t(12, 24), -1),
    example(t(2, 12, 6), (0, -1)),
    example(t(2, 12, 6), 1, keepdim=True),
)


NORMS: dict[Any, tuple[str, ReductionName]] = {
    1: ("+", "sum"),
    0: ("+", "sum"),
    float("inf"): ("+", "max"),
    float("-inf"): ("+", "min"),
}
"""Mark and reduction of vector norms that parts have and that can be joined."""


def vector_norm(
    x: Any, ord: Any = 2, dim: Any = None, keepdim: bool = False, *, dtype: Any = None
) -> Declaration:
    """Declares a norm of vectors."""
    mark, reduction = NORMS.get(ord, ("^", "sum"))
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
    """Declares torch.norm: a vector norm, or the Frobenius norm, which is one."""
    if p == "nuc":
        raise NotKnown("the nuclear norm is not supported")
    return vector_norm(input, 2 if p in ("fro", None) else p, dim, keepdim, dtype=dtype)


def linalg_norm(
    A: Any, ord: Any = None, dim: Any = None, keepdim: bool = False, *, dtype: Any = None
) -> Declaration:
    """Declares torch.linalg.norm where it is a vector norm; of matrices all is whole."""
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
    """Declares a norm of matrices: the largest or smallest sum of a column, of a row, is that of
    some part of the columns, of the rows.
    """
    result = dtype_name(dtype) or RULES["abs"](dtype_of(A))
    found = reduced(A, dim, keepdim, mark="^", dtype=result)
    places = axes(dim, len(dims_of(A)))
    if ord not in _LINES or len(places) != 2:
        return found
    which, reduction = _LINES[ord]
    rows, _, outputs = found.annotation.partition(" -> ")
    line = [f"{bare(word)}+" if n == places[which] else word for n, word in enumerate(rows.split())]
    return replace(
        found, annotation=f"{' '.join(line)} -> {outputs}", reduction=reduction, frozen=""
    )


_LINES: dict[Any, tuple[int, ReductionName]] = {
    1: (1, "max"),
    -1: (1, "min"),
    float("inf"): (0, "max"),
    float("-inf"): (0, "min"),
}
"""Which of the two dimensions the lines of a norm of a matrix are counted along, by its order."""


def dist(input: Any, other: Any, p: Any = 2) -> Declaration:
    """Declares the norm of a difference."""
    mark, reduction = NORMS.get(p, ("^", "sum"))
    spread = broadcast([dims_of(input), dims_of(other, "the other tensor")], Names(), mark)
    return declared(
        (input, other),
        spread.inputs,
        [[]],
        reduction=reduction,
        frozen="the result needs all elements at once" if mark == "^" else "",
    )


def weight_norm(v: Any, g: Any, dim: int = 0) -> Declaration:
    """Declares ``v*(g/norm(v))``, with one norm for every place of a dimension;
    -1 means one norm of all, and ``g`` is then a number.
    """
    dims, scales = dims_of(v), dims_of(g, "g")
    place = None if dim == -1 else axis(dim, len(dims))
    if len(scales) != (0 if place is None else len(dims)):
        raise NotKnown("scales of another rank are not supported")
    names = Names()
    row = [names.one("" if n == place else "^") for n in range(len(dims))]
    scale = [row[n] if n == place else "1" for n in range(len(scales))]
    for n, length in enumerate(scales):
        wanted = dims[n] if n == place else 1
        if length is not None and wanted is not None:
            need(length, EQ, wanted, errors.lengths_differ("g and its place", length, wanted))
    return declared(
        (v, g),
        [row, scale],
        [row],
        linear=((1,),),
        frozen="" if place is not None else "the norm needs all elements at once",
    )


def norm_except_dim(v: Any, pow: int = 2, dim: int = 0) -> Declaration:
    """Declares one norm for every place of a dimension; -1 means one of all."""
    rank = len(dims_of(v))
    if dim == -1:
        return vector_norm(v, pow)
    place = axis(dim, rank)
    return vector_norm(v, pow, tuple(n for n in range(rank) if n != place), True)


def _chosen(reduction: ReductionName) -> Form:
    """Declares max, min: of two tensors, of all elements, or with indices along one dimension."""

    def declare(
        input: Any, dim: Any = None, keepdim: bool = False, *, other: Any = None
    ) -> Declaration:
        from ..elementwise.pointwise import Pointwise

        if is_tensor(dim) or other is not None:
            return Pointwise(("input", "other"), 2)(input, other if other is not None else dim)
        dtype = dtype_of(input)
        if dim is None:
            return reduced(input, None, False, reduction=reduction, dtype=dtype)
        found = reduced(
            input, axis(dim, len(dims_of(input))), keepdim, mark="^", dtype=dtype, outputs=2
        )
        return replace(found, dtypes=(dtype, "int64"))

    return declare


def _index(input: Any, dim: Any = None, keepdim: bool = False) -> Declaration:
    """Declares argmax, argmin: a place among all elements."""
    return reduced(input, dim, keepdim, mark="^", dtype="int64")


def _pair(input: Any, dim: Any = None, keepdim: bool = False) -> Declaration:
    """Declares median, nanmedian, mode: one result, or values and indices along a dimension."""
    dtype = dtype_of(input)
    if dim is None:
        return reduced(input, None, False, mark="^", dtype=dtype)
    return replace(reduced(input, dim, keepdim, mark="^", outputs=2), dtypes=(dtype, "int64"))


def mode(input: Any, dim: int = -1, keepdim: bool = False) -> Declaration:
    """Declares the most frequent value and its place."""
    return _pair(input, dim, keepdim)


def kthvalue(input: Any, k: int, dim: int = -1, keepdim: bool = False) -> Declaration:
    """Declares the k-th smallest value and its place."""
    dims = dims_of(input)
    length = dims[axis(dim, len(dims))] if dims else 1
    if length is not None and is_dim(k):
        refusal = errors.out_of_range("k", k, length)
        need(k, GE, 1, refusal)
        need(k, LE, length, refusal)
    return _pair(input, dim, keepdim)


def aminmax(input: Any, *, dim: Any = None, keepdim: bool = False) -> Declaration:
    """Declares both extremes: one reduction cannot join the two outputs."""
    return reduced(input, dim, keepdim, mark="^", dtype=dtype_of(input), outputs=2)


def quantile(
    input: Any, q: Any, dim: Any = None, keepdim: bool = False, *, interpolation: str = "linear"
) -> Declaration:
    """Declares quantiles; a tensor of them comes first in the result."""
    found = reduced(input, dim, keepdim, mark="^", dtype=dtype_of(input))
    if not is_tensor(q) or not dims_of(q):
        return found
    left, right = found.annotation.split(" -> ")
    names = Names(set(left.replace("^", "").split(" ")))
    word = names.one()
    target = word if right == "()" else f"{word} {right}"
    return replace(found, annotation=f"{left}, {word} -> {target}", inputs=(input, q), frozen="")


def hash_tensor(input: Any, dim: Any = (), *, keepdim: bool = False, mode: int = 0) -> Declaration:
    """Declares an exclusive or of the bits of elements."""
    return reduced(input, dim, keepdim, mark="^", dtype="uint64")


def segment_reduce(
    data: Any,
    reduce: str,
    *,
    lengths: Any = None,
    indices: Any = None,
    offsets: Any = None,
    axis: int = 0,
    unsafe: bool = False,
    initial: Any = None,
) -> Declaration:
    """Declares a reduction of rows one after the other, as many each as ``lengths`` say."""
    counts = lengths if lengths is not None else offsets
    if counts is None or indices is not None:
        raise NotKnown("only lengths or offsets are supported")
    rank, places = len(dims_of(data)), dims_of(counts, "the lengths")
    if len(places) > rank or (len(places) != axis + 1):
        raise NotKnown("the axis of other lengths is not supported")
    names = Names()
    row = [names.one("^" if n == axis else "") for n in range(rank)]
    last, arguments = places[-1], dict[str, Any]()
    if last is None:
        raise NotKnown("how many segments there are is not known")
    given = "1" if last == 1 else names.one("^")
    count = given if lengths is not None else length_word(names, arguments, last - 1)
    return declared(
        (data, counts),
        [row, [*row[:axis], given]],
        [[*row[:axis], count, *row[axis + 1 :]]],
        arguments=arguments,
        frozen="" if rank > 1 else "the result needs all elements at once",
    )


_ONE_DIM = (example(distinct(12, 6), -1), example(distinct(2, 12, 6), 1, keepdim=True))


ENTRIES = (
    entry("torch.sum", _summing("sum", "summed", linear=True), *_OVER, example(whole(9, 12, 6), 0)),
    entry("torch.nansum", _summing("sum", "summed", linear=False), *_OVER),
    entry("torch.mean", _summing("avg", "same", linear=True), *_OVER),
    entry("torch.amax", _extreme("max", "same"), *_DISTINCT),
    entry("torch.amin", _extreme("min", "same"), *_DISTINCT),
    entry("torch.any", _extreme("max", "bool"), example(mask(12, 6)), example(mask(12, 6), -1)),
    entry(
        "torch.all",
        _extreme("min", "bool"),
        example(mask(12, 6)),
        example(mask(12, 6), -1, keepdim=True),
    ),
    torch_entry(prod, *shapes("12"), example(t(12, 6), -1), example(t(2, 12, 3), 1, keepdim=True)),
    entry("torch.var", _spread(1), *_OVER, example(t(12, 6), 0, correction=0)),
    entry("torch.std", _spread(1), *_OVER),
    *entries("torch. var_mean std_mean", _spread(2), *_OVER),
    torch_entry(logsumexp, example(t(12, 6), -1), example(t(2, 12, 6), (0, 2), keepdim=True)),
    torch_entry(count_nonzero, example(whole(3, 12, 6)), example(whole(3, 12, 6), -1)),
    torch_entry(nanmean, *_OVER),
    entry(
        "torch.Tensor.sum_to_size",
        sum_to_size,
        example(t(12, 4, 6), 4, 1),
        example(t(12, 6), (12, 1)),
    ),
    torch_entry(trace, *shapes("6 6", "4 6")),
    torch_entry(allclose, note="a Python bool: nothing that a program can be cut at"),
    entry(
        "torch._weight_norm",
        weight_norm,
        *shapes("12 4 6, 12 1 1"),
        example(t(12, 4, 6), t(1, 1, 6), 2),
    ),
    torch_entry(norm_except_dim, *shapes("12 4 6"), example(t(12, 6), 1, 1)),
    torch_entry(
        norm,
        *shapes("12 6"),
        example(t(12, 6), 1, -1),
        example(distinct(12, 6), float("inf"), 0, True),
    ),
    entry(
        "torch.linalg.vector_norm",
        vector_norm,
        example(t(12, 6), 1, -1),
        example(t(12, 6), 3, 0),
        *shapes("12 6"),
    ),
    entry(
        "torch.linalg.norm",
        linalg_norm,
        *shapes("12 6"),
        example(t(12, 6), 1, -1),
        example(t(2, 6, 4), "fro", (-2, -1)),
    ),
    entry(
        "torch.linalg.matrix_norm",
        matrix_norm,
        *shapes("12 4 6"),
        example(t(12, 4, 6), 1),
        example(t(12, 4, 6), float("-inf"), (0, 2), True),
    ),
    torch_entry(dist, *shapes("12 6, 12 6"), example(t(12, 6), t(12, 6), 1)),
    entry("torch.max", _chosen("max"), example(distinct(12, 6)), *_ONE_DIM, *shapes("12 6, 12 6")),
    entry("torch.min", _chosen("min"), example(distinct(12, 6)), *_ONE_DIM, *shapes("12 6, 6")),
    entry(
        "torch.argmax",
        _index,
        example(distinct(12, 6)),
        example(distinct(12, 6), keepdim=True),
        *_ONE_DIM,
    ),
    entry("torch.argmin", _index, example(distinct(12, 6)), *_ONE_DIM),
    *entries("torch. median nanmedian", _pair, example(distinct(12, 5)), *_ONE_DIM),
    torch_entry(mode, *_ONE_DIM),
    torch_entry(
        kthvalue, example(distinct(12, 6), 2), example(distinct(12, 6), 3, 0, keepdim=True)
    ),
    torch_entry(aminmax, example(distinct(12, 6)), example(distinct(12, 6), dim=-1)),
    torch_entry(hash_tensor, *[example(constant(x.args[0]), *x.args[1:]) for x in _DISTINCT]),
    torch_entry(
        segment_reduce,
        example(t(6, 12), "sum", lengths=whole(3, 3, low=2), axis=0),
        example(t(6, 12), "max", offsets=places(1, 2), axis=0, unsafe=True),
    ),
    *entries(
        "torch. quantile nanquantile",
        quantile,
        example(distinct(12, 6), 0.3, -1),
        example(distinct(12, 6), between(0.1, 0.9, 2), 0),
    ),
)
