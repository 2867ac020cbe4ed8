"""Reductions: what joins the parts of the dimension that goes away.

sum(x, -1)          a b+ -> a            P(sum)
mean(x, -1)         a b+ -> a            P(avg): equal parts have equal counts
amax(x, (0, 1))     a+ b+ c -> c         P(max)
all(x)              a+ b+ -> ()          P(min) of bools
var(x, -1)          a b^ -> a            no reduction joins variances

Norms are in `norms`; what asks for a place in an order, such as a median, is in `order_statistics`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from dimsolve.ir.operator import Declaration, ReductionName

from . import errors
from .dtypes import dtype_name, dtype_of, floating, real_of, summed
from .entry import Form, entry
from .lengths import never_equal
from .needs import need_equal_or_one
from .samples import distinct, example, mask, t, whole
from .values import Lengths, NotKnown, axes, dims_of, is_dim, rest_of
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
    reduction: ReductionName = "sum",
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


def _summing(reduction: ReductionName, rule: str, *, linear: bool) -> Form:
    """Returns the declaration of sum, mean and their kin: ``(input, dim=None, keepdim=False,
    dtype=None)``.
    """

    def declare(
        input: Any, dim: Any = None, keepdim: bool = False, *, dtype: Any = None
    ) -> Declaration:
        result = dtype_name(dtype) or RULES[rule](dtype_of(input))
        return reduced(input, dim, keepdim, reduction=reduction, dtype=result, linear=linear)

    return declare


def _extreme(reduction: ReductionName, rule: str) -> Form:
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


_DISTINCT = (
    example(distinct(12, 24), -1),
    example(distinct(2, 12, 6), (0, 2)),
    example(distinct(12, 6), 1, keepdim=True),
)
_OVER = (
    example(t(12, 24)),
    example(t(12, 24), -1),
    example(t(2, 12, 6), (0, -1)),
    example(t(2, 12, 6), 1, keepdim=True),
)


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
    entry(
        "torch.prod",
        prod,
        example(t(12)),
        example(t(12, 6), -1),
        example(t(2, 12, 3), 1, keepdim=True),
    ),
    entry("torch.var", _spread(1), *_OVER, example(t(12, 6), 0, correction=0)),
    entry("torch.std", _spread(1), *_OVER),
    entry("torch.var_mean", _spread(2), *_OVER),
    entry("torch.std_mean", _spread(2), *_OVER),
    entry(
        "torch.logsumexp",
        logsumexp,
        example(t(12, 6), -1),
        example(t(2, 12, 6), (0, 2), keepdim=True),
    ),
    entry(
        "torch.count_nonzero", count_nonzero, example(whole(3, 12, 6)), example(whole(3, 12, 6), -1)
    ),
    entry("torch.nanmean", nanmean, *_OVER),
    entry(
        "torch.Tensor.sum_to_size",
        sum_to_size,
        example(t(12, 4, 6), 4, 1),
        example(t(12, 6), (12, 1)),
    ),
    entry("torch.trace", trace, example(t(6, 6)), example(t(4, 6))),
    entry("torch.allclose", allclose, note="a Python bool: nothing that a program can be cut at"),
)
