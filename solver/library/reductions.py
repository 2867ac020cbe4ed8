"""Reductions: what joins the parts of the dimension that goes away.

sum(x, -1)          a b+ -> a            P(sum) mean(x, -1)         a b+ -> a            P(avg):
equal parts have equal counts amax(x, (0, 1))     a+ b+ c -> c         P(max) all(x)              a+
b+ -> ()          P(min) of bools var(x, -1)          a b^ -> a            no reduction joins
variances norm(x, 1, -1)      a b+ -> a            the sum of absolute values; of the others only
those of orders 0 and infinity
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from dimsolve.ir.operator import Declaration

from . import errors
from .dtypes import dtype_name, dtype_of, floating, real_of, summed
from .entry import Entry, Form, entry
from .lengths import never_equal
from .needs import GE, LE, need, need_equal_or_one
from .samples import between, distinct, example, mask, t, whole
from .values import Lengths, NotKnown, axes, axis, dims_of, is_dim, is_tensor, rest_of
from .writing import Names, annotation, freeze_word, length_word

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
    reduction: Any = "sum",
    dtype: str | None = None,
    outputs: int = 1,
    empty_means_all: bool = True,
    linear: bool = False,
) -> Declaration:
    """Returns the declaration of a reduction; ``mark`` is that of the dimensions that go away."""
    dims = dims_of(input)
    places = axes(dim, len(dims), empty_means_all=empty_means_all)
    names = Names()
    row = [names.one(mark if n in places else "") for n in range(len(dims))]
    kept = [
        ("1" if n in places else word) for n, word in enumerate(row) if keepdim or n not in places
    ]
    whole_input = bool(row) and mark == "^" and len(places) == len(row)
    return Declaration(
        annotation([row], [kept] * outputs),
        (input,),
        reduction=reduction,
        dtypes=(dtype,) * outputs,
        linear=((0,),) if linear else (),
        frozen="the result needs all elements at once" if whole_input else "",
        returns="tuple" if outputs > 1 else "tensor",
    )


def _summing(reduction: str, rule: str, *, linear: bool) -> Form:
    """Returns the declaration of sum, mean and their kin: ``(input, dim=None, keepdim=False,
    dtype=None)``.
    """

    def declare(
        input: Any, dim: Any = None, keepdim: bool = False, *, dtype: Any = None
    ) -> Declaration:
        result = dtype_name(dtype) or RULES[rule](dtype_of(input))
        return reduced(input, dim, keepdim, reduction=reduction, dtype=result, linear=linear)

    return declare


def _extreme(reduction: str, rule: str) -> Form:
    """Returns the declaration of amax, amin, any and all over any dimensions."""

    def declare(input: Any, dim: Any = None, keepdim: bool = False) -> Declaration:
        # any and all over no dimension reduce nothing.
        everything = rule == "same"
        dtype = RULES[rule](dtype_of(input))
        return reduced(
            input, dim, keepdim, reduction=reduction, dtype=dtype, empty_means_all=everything
        )

    return declare


def prod(input: Any, dim: Any = None, keepdim: bool = False, *, dtype: Any = None) -> Declaration:
    """Returns the declaration of a product over one dimension, or over all."""
    result = dtype_name(dtype) or summed(dtype_of(input))
    return reduced(input, dim, keepdim, reduction="prod", dtype=result)


def _spread(outputs: int) -> Form:
    """Returns the declaration of var, std, var_mean, std_mean: what varies must be seen whole."""

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


def _chosen(reduction: str) -> Form:
    """Returns the declaration of max, min: of two tensors, of all elements, or with indices along
    one dimension.
    """

    def declare(
        input: Any, dim: Any = None, keepdim: bool = False, *, other: Any = None
    ) -> Declaration:
        from .pointwise import Pointwise

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
    """Returns the declaration of argmax, argmin: a place among all elements."""
    return reduced(input, dim, keepdim, mark="^", dtype="int64")


def _pair(input: Any, dim: Any = None, keepdim: bool = False) -> Declaration:
    """Returns the declaration of median, nanmedian, mode: one result, or values and indices along a
    dimension.
    """
    dtype = dtype_of(input)
    if dim is None:
        return reduced(input, None, False, mark="^", dtype=dtype)
    return replace(reduced(input, dim, keepdim, mark="^", outputs=2), dtypes=(dtype, "int64"))


def mode(input: Any, dim: int = -1, keepdim: bool = False) -> Declaration:
    """Returns the declaration of the most frequent value and its place."""
    return _pair(input, dim, keepdim)


def kthvalue(input: Any, k: int, dim: int = -1, keepdim: bool = False) -> Declaration:
    """Returns the declaration of the k-th smallest value and its place."""
    dims = dims_of(input)
    length = dims[axis(dim, len(dims))] if dims else 1
    if length is not None and is_dim(k):
        refusal = errors.out_of_range("k", k, length)
        need(k, GE, 1, refusal)
        need(k, LE, length, refusal)
    return _pair(input, dim, keepdim)


def aminmax(input: Any, *, dim: Any = None, keepdim: bool = False) -> Declaration:
    """Returns the declaration of both extremes: one reduction cannot join the two outputs."""
    return reduced(input, dim, keepdim, mark="^", dtype=dtype_of(input), outputs=2)


def logsumexp(input: Any, dim: Any, keepdim: bool = False) -> Declaration:
    """Returns the declaration of the logarithm of a sum of exponentials."""
    return reduced(input, dim, keepdim, mark="^", dtype=floating(dtype_of(input)))


def count_nonzero(input: Any, dim: Any = None) -> Declaration:
    """Returns the declaration of a count."""
    return reduced(input, dim, False, dtype="int64")


def nanmean(
    input: Any, dim: Any = None, keepdim: bool = False, *, dtype: Any = None
) -> Declaration:
    """Returns the declaration of a mean without NaN: parts may have different counts."""
    result = dtype_name(dtype) or dtype_of(input)
    return reduced(input, dim, keepdim, mark="^", dtype=result)


def quantile(
    input: Any, q: Any, dim: Any = None, keepdim: bool = False, *, interpolation: str = "linear"
) -> Declaration:
    """Returns the declaration of quantiles; a tensor of them comes first in the result."""
    found = reduced(input, dim, keepdim, mark="^", dtype=dtype_of(input))
    if not is_tensor(q) or not dims_of(q):
        return found
    left, right = found.annotation.split(" -> ")
    names = Names(set(left.replace("^", "").split(" ")))
    word = names.one()
    target = word if right == "()" else f"{word} {right}"
    return replace(found, annotation=f"{left}, {word} -> {target}", inputs=(input, q), frozen="")


def sum_to_size(input: Any, *size: Any, **named: Any) -> Declaration:
    """Returns the declaration of the sum that undoes an expand."""
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
    return Declaration(
        annotation([row], [target]),
        (input,),
        arguments=arguments,
        sizes={} if arguments else {"size": " ".join(target) or "()"},
        dtypes=(dtype_of(input),),
        linear=((0,),),
    )


def trace(input: Any) -> Declaration:
    """Returns the declaration of the sum of a diagonal."""
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
    """Returns the declaration of a comparison whose result is a Python bool."""
    raise NotKnown("the result is a Python bool that depends on all elements")


_OVER = (
    example(t(12, 24)),
    example(t(12, 24), -1),
    example(t(2, 12, 6), (0, -1)),
    example(t(2, 12, 6), 1, keepdim=True),
)
_DISTINCT = (
    example(distinct(12, 24), -1),
    example(distinct(2, 12, 6), (0, 2)),
    example(distinct(12, 6), 1, keepdim=True),
)
_ONE_DIM = (example(distinct(12, 6), -1), example(distinct(2, 12, 6), 1, keepdim=True))


def _table() -> list[Entry]:
    rows: list[tuple[str, Any, tuple[Any, ...]]] = [
        ("sum", _summing("sum", "summed", linear=True), (*_OVER, example(whole(9, 12, 6), 0))),
        ("nansum", _summing("sum", "summed", linear=False), _OVER),
        ("mean", _summing("avg", "same", linear=True), _OVER),
        ("amax", _extreme("max", "same"), _DISTINCT),
        ("amin", _extreme("min", "same"), _DISTINCT),
        ("any", _extreme("max", "bool"), (example(mask(12, 6)), example(mask(12, 6), -1))),
        (
            "all",
            _extreme("min", "bool"),
            (example(mask(12, 6)), example(mask(12, 6), -1, keepdim=True)),
        ),
        (
            "prod",
            prod,
            (example(t(12)), example(t(12, 6), -1), example(t(2, 12, 3), 1, keepdim=True)),
        ),
        ("var", _spread(1), (*_OVER, example(t(12, 6), 0, correction=0))),
        ("std", _spread(1), _OVER),
        ("var_mean", _spread(2), _OVER),
        ("std_mean", _spread(2), _OVER),
        ("max", _chosen("max"), (example(distinct(12, 6)), *_ONE_DIM, example(t(12, 6), t(12, 6)))),
        ("min", _chosen("min"), (example(distinct(12, 6)), *_ONE_DIM, example(t(12, 6), t(6)))),
        (
            "argmax",
            _index,
            (example(distinct(12, 6)), example(distinct(12, 6), keepdim=True), *_ONE_DIM),
        ),
        ("argmin", _index, (example(distinct(12, 6)), *_ONE_DIM)),
        ("median", _pair, (example(distinct(12, 5)), *_ONE_DIM)),
        ("nanmedian", _pair, (example(distinct(12, 5)), *_ONE_DIM)),
        ("mode", mode, _ONE_DIM),
        (
            "kthvalue",
            kthvalue,
            (example(distinct(12, 6), 2), example(distinct(12, 6), 3, 0, keepdim=True)),
        ),
        ("aminmax", aminmax, (example(distinct(12, 6)), example(distinct(12, 6), dim=-1))),
        (
            "logsumexp",
            logsumexp,
            (example(t(12, 6), -1), example(t(2, 12, 6), (0, 2), keepdim=True)),
        ),
        ("count_nonzero", count_nonzero, (example(whole(3, 12, 6)), example(whole(3, 12, 6), -1))),
        ("nanmean", nanmean, _OVER),
        (
            "quantile",
            quantile,
            (example(distinct(12, 6), 0.3, -1), example(distinct(12, 6), between(0.1, 0.9, 2), 0)),
        ),
        (
            "Tensor.sum_to_size",
            sum_to_size,
            (example(t(12, 4, 6), 4, 1), example(t(12, 6), (12, 1))),
        ),
        ("trace", trace, (example(t(6, 6)), example(t(4, 6)))),
    ]
    return [entry(f"torch.{name}", declare, *examples) for name, declare, examples in rows]


ENTRIES = (
    *_table(),
    entry("torch.allclose", allclose, note="a Python bool: nothing that a program can be cut at"),
)
