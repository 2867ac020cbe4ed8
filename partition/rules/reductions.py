"""Extremes, variances, norms and places of extremes over a cut dimension: every rank gets the whole
result.

    amax(x, 0)        a+ b -> b      x S(0)      R     elements that tie share the gradient
    var(x, -1)        a b^ -> a      x S(1)      R     mean and squares of all ranks
    norm(x)           a^ b^ -> ()    x S(0)      R     a root of the sum of all ranks
    argmax(x, -1)     a b^ -> a      x S(1)      R     the first place that has the largest

No reduction joins the last three; the sums below them are joined instead. P(max) would do for the
values of an extreme. But where elements of several ranks tie, the gradient is shared among all of
them, and only all ranks together know how many they are.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from math import prod
from typing import TYPE_CHECKING, Any

from dimsolve.ir.annotation import Mark
from dimsolve.ir.operator import Declaration
from dimsolve.ir.read_annotation import read_annotation
from dimsolve.solver.layout import fresh_names, identifiers_of

from .autocast import cast_as_torch
from .averages import COUNT, total
from .rule import Message, Part, Parts, TransformRule

if TYPE_CHECKING:
    import torch


def extreme_rules(local: Callable[..., Any], declaration: Declaration) -> tuple[TransformRule, ...]:
    """Returns the rule of amax, amin, and of max and min over all elements; those of two tensors,
    or with indices, have none. Without a gradient it is for parts of which some may be empty, which
    P(max) does not know of.
    """
    if declaration.reduction not in ("max", "min"):
        return ()
    rules = _whole_result(declaration, Mark.SUM, local, EXTREME)
    if str(declaration.dtypes[:1]).startswith(("('float", "('bfloat")):
        return rules
    return tuple(replace(rule, only_unequal=True) for rule in rules)


def spread_rules(
    local: Callable[..., Any],
    sends: Sends,
    declaration: Declaration,
    *,
    extremes_only: bool = False,
) -> tuple[TransformRule, ...]:
    """Over what is reduced and has no reduction, and over extremes: elements of several ranks that
    tie share the gradient, which P(max) does not know of.
    """
    extreme = declaration.reduction in ("max", "min")
    if (extremes_only and not extreme) or len(read_annotation(declaration.annotation).outputs) != 1:
        return ()
    if extreme:
        return _whole_result(declaration, Mark.SUM, local, EXTREME)
    if sends is not MOMENTS:
        return _whole_result(declaration, Mark.FROZEN, local, sends)
    # The moments of a part weigh as much as it is long: of unequal ones ranks tell each other.
    equal = _whole_result(declaration, Mark.FROZEN, local, sends, "equal")
    return tuple(
        rule
        for each in equal
        for rule in (
            each,
            replace(
                each,
                local=UNEQUAL[local],
                sends=(COUNT, *(each.sends or ())),
                parts="any",
                placed=False,
                only_unequal=True,
            ),
        )
    )


Sends = tuple[Message, ...]
"""Messages of the shape of the result, whose row is filled in."""

EXTREME: Sends = (
    Message("", "output"),
    Message("", "output", forward=False, backward=True, of=(0, 1)),
    Message("", "count", forward=False, backward=True, of=(0, 1)),
)
MOMENTS: Sends = (Message("", "wide input"), Message("", "wide output", backward=True))
POWERS: Sends = (
    Message("", "wide output"),
    Message("", "output", forward=False, backward=True),
)
PLACE: Sends = (Message("", "input"), Message("", "count"))


def _whole_result(
    declaration: Declaration,
    mark: Mark,
    local: Callable[..., Any],
    sends: Sends,
    parts: Parts = "any",
) -> tuple[TransformRule, ...]:
    annotation = read_annotation(declaration.annotation)
    found = identifiers_of(annotation).items()
    names = tuple(name for name, identifier in found if identifier.mark is mark)
    each = tuple([replace(message, row=str(annotation.outputs[0])) for message in sends])
    if not names:
        return ()
    placed = sends is PLACE
    return (
        TransformRule(
            split=names, outputs=("R",), local=local, sends=each, parts=parts, placed=placed
        ),
    )


@cast_as_torch()
def amax_parts(part: Part, input: Any, dim: Any = (), keepdim: bool = False) -> Any:
    """Returns the largest elements of all ranks' parts."""
    return _extreme(part, input, dim, keepdim, True, False)


@cast_as_torch()
def amin_parts(part: Part, input: Any, dim: Any = (), keepdim: bool = False) -> Any:
    """Returns the smallest elements of all ranks' parts."""
    return _extreme(part, input, dim, keepdim, False, False)


@cast_as_torch()
def max_parts(part: Part, input: Any) -> Any:
    """Returns the largest element of all ranks' parts."""
    return _extreme(part, input, (), False, True, True)


@cast_as_torch()
def min_parts(part: Part, input: Any) -> Any:
    """Returns the smallest element of all ranks' parts."""
    return _extreme(part, input, (), False, False, True)


def _extreme(part: Part, input: Any, dim: Any, keepdim: bool, largest: bool, of_all: bool) -> Any:
    from .joined import extreme

    return extreme(part, input, _dims(input, dim), keepdim, largest, of_all)


def _dims(input: Any, dim: Any) -> tuple[int, ...]:
    """The dimensions that a reduction goes over, all where none is named."""
    if dim is None or dim == ():
        return tuple(range(input.dim()))
    return (dim,) if isinstance(dim, int) else tuple(dim)


@cast_as_torch()
def var_parts(part: Part, input: Any, *more: Any, **settings: Any) -> Any:
    """Returns the variance over all ranks' parts."""
    return _variance(part, input, True, *more, **settings).to(_real(input))


@cast_as_torch()
def std_parts(part: Part, input: Any, *more: Any, **settings: Any) -> Any:
    """Returns the standard deviation over all ranks' parts."""
    return _root(_variance(part, input, True, *more, **settings)).to(_real(input))


@cast_as_torch()
def unequal_var_parts(part: Part, input: Any, *more: Any, **settings: Any) -> Any:
    """Returns the variance over all ranks' parts, which may have other lengths."""
    return _variance(part, input, False, *more, **settings).to(_real(input))


@cast_as_torch()
def unequal_std_parts(part: Part, input: Any, *more: Any, **settings: Any) -> Any:
    """Returns the standard deviation over all ranks' parts, which may have other lengths."""
    return _root(_variance(part, input, False, *more, **settings)).to(_real(input))


UNEQUAL: dict[Callable[..., Any], Callable[..., Any]] = {
    var_parts: unequal_var_parts,
    std_parts: unequal_std_parts,
}
"""What a rank calls for parts of other lengths in place of what it calls for equal ones."""


def _root(variance: Any) -> Any:
    """The root, whose gradient is 0 where it is 0, as torch has it."""
    zero = variance == 0
    return variance.masked_fill(zero, 1).sqrt().masked_fill(zero, 0)


def _variance(
    part: Part,
    input: Any,
    equal: bool,
    dim: Any = None,
    unbiased: Any = None,
    keepdim: bool = False,
    *,
    correction: Any = None,
) -> Any:
    """The variance in the dtype that torch adds up in: its root may fit where it does not."""
    from .joined import variance

    if isinstance(dim, bool):
        dim, unbiased = None, dim
    less = (1 if unbiased in (None, True) else 0) if correction is None else correction
    dims = _dims(input, dim)
    own = prod([input.shape[dim] for dim in dims])
    count = own * part.count if equal else int(total(part, own, input))
    found = variance(part, input, dims, less, dim is None, count)
    return found if keepdim or not dims else found.squeeze(dims)


def _real(input: Any) -> Any:
    return input.real.dtype if input.is_complex() else input.dtype


@cast_as_torch(("cuda",))
def norm_parts(
    part: Part,
    input: Any,
    p: Any = "fro",
    dim: Any = None,
    keepdim: bool = False,
    out: Any = None,
    dtype: Any = None,
) -> Any:
    """Returns torch.norm of all ranks' parts."""
    order = 2 if p in ("fro", None) else p
    return vector_norm_parts(part, input, order, dim, keepdim, dtype=dtype)


@cast_as_torch(("cuda",))
def vector_norm_parts(
    part: Part, x: Any, ord: Any = 2, dim: Any = None, keepdim: bool = False, *, dtype: Any = None
) -> Any:
    """Returns the norm of the vectors of which all ranks have parts."""
    from .joined import vector_norm

    x = x if dtype is None else x.to(dtype)
    return vector_norm(part, x, ord, _dims(x, dim), keepdim)


@cast_as_torch(("cuda",))
def linalg_norm_parts(
    part: Part, A: Any, ord: Any, dim: Any = None, keepdim: bool = False, *, dtype: Any = None
) -> Any:
    """Returns torch.linalg.norm of all ranks' parts, where it is a norm of vectors."""
    return vector_norm_parts(part, A, ord, dim, keepdim, dtype=dtype)


@cast_as_torch(("cuda",))
def matrix_norm_parts(
    part: Part,
    A: Any,
    ord: Any,
    dim: Any = (-2, -1),
    keepdim: bool = False,
    *,
    dtype: Any = None,
) -> Any:
    """Returns torch.linalg.matrix_norm of all ranks' columns, or rows: an extreme of their sums."""
    import torch

    from .joined import extreme

    inner, outer = (place % A.dim() for place in (dim if abs(ord) == 1 else reversed(dim)))
    sums = torch.linalg.vector_norm(A, 1, inner, keepdim=True, dtype=dtype)
    found = extreme(part, sums, (outer,), True, ord > 0, False)
    nothing = ord > 0 and not A.shape[outer] and found.numel() > 0
    if nothing and bool((found.detach() == -float("inf")).all()):
        found = torch.zeros_like(found)  # of no columns at all torch gives zeros
    return found if keepdim else found.squeeze((inner, outer))


@cast_as_torch(("cuda",))
def dist_parts(part: Part, input: Any, other: Any, p: Any = 2) -> Any:
    """Returns the norm of the difference of all ranks' parts."""
    return vector_norm_parts(part, input - other, p)


@cast_as_torch()
def argmax_parts(part: Part, input: Any, dim: Any = None, keepdim: bool = False) -> Any:
    """Returns the first place of the largest element of all ranks' parts."""
    return _place(part, input, dim, keepdim, "max")


@cast_as_torch()
def argmin_parts(part: Part, input: Any, dim: Any = None, keepdim: bool = False) -> Any:
    """Returns the first place of the smallest element of all ranks' parts."""
    return _place(part, input, dim, keepdim, "min")


def _place(part: Part, input: Any, dim: Any, keepdim: bool, reduction: str) -> Any:
    """A rank's own first place, counted in the whole; of the ranks that tie the first one's."""
    import torch

    from .joined import least

    find = torch.argmax if reduction == "max" else torch.argmin
    names = fresh_names(set())
    parts = [part[next(names)] for _ in range(input.dim())]
    if not (input.numel() if dim is None else input.shape[dim]):
        # What is found is that of some other rank.
        value = least(input, _dims(input, dim), reduction == "max")
        found = torch.full_like(value, torch.iinfo(torch.int64).max, dtype=torch.int64)
        mine = torch.ones_like(value, dtype=torch.bool)
    else:
        local = find(input, dim, keepdim=True)
        if dim is None:
            value = input.reshape(-1)[local.reshape(())].reshape(local.shape)
            found = _flat(local, list(input.shape), parts)
        else:
            value = input.gather(dim, local)
            found = local + parts[dim].start(input.shape[dim])
        mine = value.isnan()
    mine = mine | (value == part.all_reduce(value.detach(), reduction))
    whole = prod([p.whole(n) for n, p in zip(input.shape, parts, strict=True)])
    place = part.all_reduce(found.masked_fill(~mine, whole), "min")
    if keepdim:
        return place
    return place.reshape(()) if dim is None else place.squeeze(dim)


def _flat(local: torch.Tensor, sizes: list[int], parts: list[Part]) -> torch.Tensor:
    """A place among a rank's elements as one among all."""
    found, stride = local * 0, 1
    for size, part in zip(reversed(sizes), reversed(parts), strict=True):
        found = found + (local % size + part.start(size)) * stride
        local, stride = local // size, stride * part.whole(size)
    return found
