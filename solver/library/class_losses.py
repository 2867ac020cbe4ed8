"""Losses over classes, whose mean divides by what the data count.

    cross_entropy(x, y)                      n^ c^, n^ -> ()        counted by the data
    cross_entropy(x, y, reduction="none")    n c^ a b, n a b -> n a b
    nll_loss(x, y, reduction="sum")          n+ c^, n+ -> ()        P(sum)

What is counted are the targets that are not ignored, by the weights of their classes. The batch is
cut through a rule of `dimsolve.partition.transforms`, as the classes are.
"""

from __future__ import annotations

from typing import Any

from dimsolve.ir.operator import Declaration

from . import errors
from .dtypes import dtype_of
from .entry import entry
from .losses import COUNTED, Reduction, reduction_of, three
from .samples import between, constant, example, t, whole
from .values import Lengths, NotKnown, dims_of
from .writing import Names, annotation


def class_loss(
    input: Any, target: Any, weight: Any, reduction: Reduction, *, probabilities: bool
) -> Declaration:
    """Returns the declaration of cross_entropy and nll_loss: classes at dimension 1, or at 0
    without a batch.

    A mean over class targets divides by the weights of those that are not ignored: by what the data
    count.
    """
    dims = dims_of(input)
    if not dims:
        raise errors.wrong_rank("a loss of classes", "input", dims, "at least 1 dimension")
    counted = reduction == "mean" and not probabilities
    mark = "" if reduction == "none" else "^" if counted else "+"
    names = Names({"n", "c"})
    batch = [f"n{mark}"] if len(dims) > 1 else []
    places = names.take(max(len(dims) - 2, 0), mark)
    row, rest = [*batch, "c^", *places], [*batch, *places]
    given = dims_of(target, "the target")
    if not probabilities and len(given) != len(rest):
        raise errors.wrong_rank("a loss of classes", "the target", given, f"{len(rest)} dimensions")
    inputs, patterns = [input, target], [row, row if probabilities else rest]
    if weight is not None:
        inputs, patterns = [*inputs, weight], [*patterns, ["c^"]]
    frozen = COUNTED if counted else "one row of classes is seen whole"
    return Declaration(
        annotation(patterns, [rest if reduction == "none" else []]),
        tuple(inputs),
        reduction="avg" if reduction == "mean" else "sum",
        dtypes=(dtype_of(input),),
        frozen=frozen if counted or not rest else "",
    )


def cross_entropy(
    input: Any,
    target: Any,
    weight: Any = None,
    size_average: Any = None,
    ignore_index: int = -100,
    reduce: Any = None,
    reduction: str = "mean",
    label_smoothing: float = 0.0,
) -> Declaration:
    """Returns the declaration of cross_entropy with class targets, or with probabilities of the
    input's shape.
    """
    shape: Lengths = dims_of(input)
    probabilities = len(dims_of(target, "the target")) == len(shape)
    return class_loss(
        input,
        target,
        weight,
        reduction_of(reduction, size_average, reduce),
        probabilities=probabilities,
    )


def nll_loss(
    input: Any,
    target: Any,
    weight: Any = None,
    size_average: Any = None,
    ignore_index: int = -100,
    reduce: Any = None,
    reduction: str = "mean",
) -> Declaration:
    """Returns the declaration of nll_loss."""
    return class_loss(
        input, target, weight, reduction_of(reduction, size_average, reduce), probabilities=False
    )


def linear_cross_entropy(
    input: Any,
    linear_weight: Any,
    target: Any,
    *,
    linear_bias: Any = None,
    weight: Any = None,
    reduction: str = "mean",
    ignore_index: int | None = None,
    label_smoothing: float = 0.0,
    options: Any = None,
) -> Declaration:
    """Returns the declaration of cross_entropy of a linear layer, for rows and class targets."""
    if len(dims_of(input)) != 2 or len(dims_of(target, "the target")) != 1:
        raise NotKnown("only rows and class targets are known of")
    kind = reduction_of(reduction)
    n = "n" if kind == "none" else "n^" if kind == "mean" else "n+"
    inputs, rows = [input, linear_weight, target], [[n, "h^"], ["c^", "h^"], [n]]
    for tensor in (linear_bias, weight):
        if tensor is not None:
            inputs.append(tensor)
            rows.append(["c^"])
    return Declaration(
        annotation(rows, [["n"] if kind == "none" else []]),
        tuple(inputs),
        dtypes=(dtype_of(input),),
        frozen=COUNTED if kind == "mean" else "",
    )


_CLASSES = (t(12, 8), whole(8, 12))


_IMAGE = (t(4, 8, 6, 3), whole(8, 4, 6, 3))


ENTRIES = (
    entry(
        "torch.nn.functional.cross_entropy",
        cross_entropy,
        *three(*_CLASSES),
        *three(*_IMAGE),
        *three(t(12, 8), between(0, 1, 12, 8)),
        example(*_CLASSES, constant(between(0.5, 2, 8)), reduction="sum", label_smoothing=0.1),
        note="with class targets a mean is cut over the batch through a transform rule",
    ),
    entry(
        "torch.nn.functional.linear_cross_entropy",
        linear_cross_entropy,
        *three(t(12, 6), t(8, 6), whole(8, 12)),
    ),
    entry(
        "torch.nn.functional.nll_loss",
        nll_loss,
        *three(*_CLASSES),
        *three(*_IMAGE),
        note="a mean is cut over the batch through a transform rule",
    ),
)
