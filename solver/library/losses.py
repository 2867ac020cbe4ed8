"""Element-wise losses with their reductions.

    mse_loss(x, y, reduction="none")    *, * -> *
    mse_loss(x, y, reduction="sum")     a+ b+, a+ b+ -> ()     P(sum)
    mse_loss(x, y)                      a+ b+, a+ b+ -> ()     P(avg): equal parts have equal counts

A mean over something that the data decide (targets not ignored, weights of classes, weights) is no
mean of means. The batch of those is cut through a rule of `dimsolve.partition.transforms`, which
divides by what all ranks count together.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

from dimsolve.ir.operator import Declaration

from . import errors
from .broadcast import broadcast
from .dtypes import result_type
from .entry import entry
from .needs import EQ, need, need_equal_or_one
from .samples import between, example, signs, t
from .values import dims_of
from .writing import Names, annotation

COUNTED = "the mean divides by what the data count, and parts of the batch may count differently"

Reduction = Literal["none", "mean", "sum"]


def reduction_of(reduction: str, size_average: Any = None, reduce: Any = None) -> Reduction:
    """Returns the reduction, also from the two arguments that came before it.

    >>> reduction_of("mean", size_average=False), reduction_of("mean", reduce=False)
    ('sum', 'none')
    """
    if size_average is not None or reduce is not None:
        if reduce is False:
            return "none"
        return "sum" if size_average is False else "mean"
    known: tuple[Reduction, ...] = ("none", "mean", "sum")
    for name in known:
        if reduction == name:
            return name
    raise errors.not_understood(
        "a loss", f"reduction is {reduction!r}; it can be none, mean or sum"
    )


def pointwise_loss(
    tensors: Sequence[Any],
    reduction: Reduction,
    *,
    weighted_mean: bool = False,
    alike: Sequence[Any] = (),
) -> Declaration:
    """Returns the declaration of an element-wise loss of tensors that are broadcast together.

    weighted_mean: the mean divides by the sum of a weight. alike: tensors that torch does not
    broadcast: they must have the shape of the first.
    """
    for tensor in alike:
        need_alike(tensors[0], tensor)
    counted = reduction == "mean" and weighted_mean
    mark = "" if reduction == "none" else "^" if counted else "+"
    shapes = [dims_of(tensor, f"input {n}") for n, tensor in enumerate(tensors)]
    spread = broadcast(shapes, Names(), mark)
    none = reduction == "none"
    return Declaration(
        annotation(spread.inputs, [spread.output if none else []]),
        tuple(tensors),
        arguments=spread.arguments if none else {},
        fresh=tuple(spread.fresh) if none else (),
        reduction="avg" if reduction == "mean" else "sum",
        dtypes=(result_type(tensors),),
        frozen=COUNTED if counted else "",
    )


def need_alike(first: Any, second: Any) -> None:
    """Says that two tensors have one shape."""
    shapes = dims_of(first), dims_of(second)
    if len(shapes[0]) == len(shapes[1]):
        for a, b in zip(*shapes, strict=True):
            if a is not None and b is not None:
                need(a, EQ, b, errors.lengths_differ("the lengths of a loss", a, b))


def need_within(first: Any, second: Any) -> None:
    """Says that the second tensor is broadcast to the shape of the first."""
    shapes = dims_of(first), dims_of(second)
    for a, b in zip(*map(reversed, shapes), strict=False):
        if a is not None and b is not None and a != b:
            need_equal_or_one(a, b, one=(b,))


def loss_of_pairs(
    input: Any,
    target: Any,
    size_average: Any = None,
    reduce: Any = None,
    reduction: str = "mean",
    weight: Any = None,
) -> Declaration:
    """Returns the declaration of mse_loss and l1_loss, whose mean divides by the sum of a weight
    where there is one.
    """
    tensors = [x for x in (input, target, weight) if x is not None]
    return pointwise_loss(
        tensors,
        reduction_of(reduction, size_average, reduce),
        weighted_mean=weight is not None,
        alike=tensors[2:],
    )


def smooth_l1_loss(
    input: Any,
    target: Any,
    size_average: Any = None,
    reduce: Any = None,
    reduction: str = "mean",
    beta: float = 1.0,
) -> Declaration:
    """Returns the declaration of smooth_l1_loss."""
    return pointwise_loss([input, target], reduction_of(reduction, size_average, reduce))


def soft_margin_loss(
    input: Any, target: Any, size_average: Any = None, reduce: Any = None, reduction: str = "mean"
) -> Declaration:
    """Returns the declaration of soft_margin_loss."""
    need_within(input, target)
    return pointwise_loss([input, target], reduction_of(reduction, size_average, reduce))


def huber_loss(
    input: Any, target: Any, reduction: str = "mean", delta: float = 1.0, weight: Any = None
) -> Declaration:
    """Returns the declaration of huber_loss, whose mean divides by the number of elements."""
    tensors = [x for x in (input, target, weight) if x is not None]
    return pointwise_loss(tensors, reduction_of(reduction), alike=tensors[2:])


def hinge_embedding_loss(
    input: Any,
    target: Any,
    margin: float = 1.0,
    size_average: Any = None,
    reduce: Any = None,
    reduction: str = "mean",
) -> Declaration:
    """Returns the declaration of hinge_embedding_loss."""
    return pointwise_loss([input, target], reduction_of(reduction, size_average, reduce))


def margin_ranking_loss(
    input1: Any,
    input2: Any,
    target: Any,
    margin: float = 0,
    size_average: Any = None,
    reduce: Any = None,
    reduction: str = "mean",
) -> Declaration:
    """Returns the declaration of margin_ranking_loss."""
    return pointwise_loss([input1, input2, target], reduction_of(reduction, size_average, reduce))


def three(*tensors: Any, **more: Any) -> tuple[Any, ...]:
    """Returns an example call for each of the three reductions."""
    return tuple(
        example(*tensors, **more, reduction=reduction) for reduction in ("mean", "sum", "none")
    )


_PAIR = (t(12, 6), t(12, 6))

ENTRIES = (
    entry(
        "torch.nn.functional.mse_loss",
        loss_of_pairs,
        *three(*_PAIR),
        example(*_PAIR, weight=between(0.5, 2, 12, 6)),
    ),
    entry("torch.nn.functional.l1_loss", loss_of_pairs, *three(*_PAIR)),
    entry("torch.nn.functional.smooth_l1_loss", smooth_l1_loss, *three(*_PAIR)),
    entry("torch.nn.functional.huber_loss", huber_loss, *three(*_PAIR)),
    entry("torch.nn.functional.soft_margin_loss", soft_margin_loss, *three(t(12, 6), signs(12, 6))),
    entry(
        "torch.nn.functional.hinge_embedding_loss",
        hinge_embedding_loss,
        *three(t(12, 6), signs(12, 6)),
    ),
    entry(
        "torch.nn.functional.margin_ranking_loss",
        margin_ranking_loss,
        *three(t(12), t(12), signs(12)),
    ),
)
