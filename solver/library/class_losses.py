"""Losses of rows: over classes, between vectors, of sequences.

    cross_entropy(x, y)                      n^ c^, n^ -> ()        counted by the data
    cross_entropy(x, y, reduction="none")    n c^ a b, n a b -> n a b
    triplet_margin_loss(a, p, n)             n+ d^, n+ d^, n+ d^ -> ()    P(avg)

A mean over class targets divides by what the data count: targets not ignored, weights of classes.
Its batch is cut through a rule of `dimsolve.partition.transforms`, as the classes are.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from dimsolve.ir.operator import Declaration

from . import errors
from .dtypes import dtype_of
from .entry import entry
from .losses import COUNTED, Reduction, reduction_of, three
from .samples import between, constant, example, signs, t, whole
from .values import Lengths, NotKnown, dims_of, is_tensor
from .writing import Names, Pattern, annotation


def row_loss(
    tensors: Sequence[Any], rows: Sequence[Pattern], reduction: Reduction, **more: Any
) -> Declaration:
    """Returns the declaration of a loss per row ``n``, whose other dimensions stay whole; no ``n``
    is one row.
    """
    mark = "" if reduction == "none" else "+"
    patterns = [[f"n{mark}" if word == "n" else word for word in row] for row in rows]
    batch = any("n" in row for row in rows)
    return Declaration(
        annotation(patterns, [["n"] if reduction == "none" and batch else []]),
        tuple(tensors),
        reduction="avg" if reduction == "mean" else "sum",
        dtypes=(dtype_of(tensors[0]),),
        frozen="" if batch else "one row is seen whole",
        **more,
    )


def cosine_embedding_loss(
    input1: Any,
    input2: Any,
    target: Any,
    margin: float = 0,
    size_average: Any = None,
    reduce: Any = None,
    reduction: str = "mean",
) -> Declaration:
    """Returns the declaration of cosine_embedding_loss."""
    row = ["n", "d^"] if len(dims_of(input1)) == 2 else ["d^"]
    rows = [row, row, row[:-1]]
    return row_loss([input1, input2, target], rows, reduction_of(reduction, size_average, reduce))


def triplet_margin_loss(
    anchor: Any,
    positive: Any,
    negative: Any,
    margin: float = 1.0,
    p: float = 2,
    eps: float = 1e-6,
    swap: bool = False,
    size_average: Any = None,
    reduce: Any = None,
    reduction: str = "mean",
) -> Declaration:
    """Returns the declaration of triplet_margin_loss."""
    shapes = {dims_of(x) for x in (anchor, positive, negative)}
    if len(shapes) > 1 or len(dims_of(anchor)) > 2:
        raise NotKnown("only three tensors of one shape with a batch are known of")
    row = ["n", "d^"] if len(dims_of(anchor)) == 2 else ["d^"]
    return row_loss(
        [anchor, positive, negative], [row] * 3, reduction_of(reduction, size_average, reduce)
    )


def multi_margin_loss(
    input: Any,
    target: Any,
    p: int = 1,
    margin: float = 1.0,
    weight: Any = None,
    size_average: Any = None,
    reduce: Any = None,
    reduction: str = "mean",
) -> Declaration:
    """Returns the declaration of multi_margin_loss."""
    row = ["n", "c^"] if len(dims_of(input)) == 2 else ["c^"]
    tensors, rows = (
        [input, target],
        [row, row[:-1] if dims_of(target) != (1,) or len(row) > 1 else ["1"]],
    )
    if weight is not None:
        tensors, rows = [*tensors, weight], [*rows, ["c^"]]
    return row_loss(tensors, rows, reduction_of(reduction, size_average, reduce))


def multilabel_margin_loss(
    input: Any, target: Any, size_average: Any = None, reduce: Any = None, reduction: str = "mean"
) -> Declaration:
    """Returns the declaration of multilabel_margin_loss."""
    row = ["n", "c^"] if len(dims_of(input)) == 2 else ["c^"]
    return row_loss([input, target], [row, row], reduction_of(reduction, size_average, reduce))


def multilabel_soft_margin_loss(
    input: Any,
    target: Any,
    weight: Any = None,
    size_average: Any = None,
    reduce: Any = None,
    reduction: str = "mean",
) -> Declaration:
    """Returns the declaration of multilabel_soft_margin_loss: a mean over classes, then the
    reduction.
    """
    if len(dims_of(input)) != 2:
        raise NotKnown("only a batch of rows is known of")
    tensors, rows = [input, target], [["n", "c^"], ["n", "c^"]]
    if weight is not None:
        tensors, rows = [*tensors, weight], [*rows, ["c^"]]
    return row_loss(tensors, rows, reduction_of(reduction, size_average, reduce))


def ctc_loss(
    log_probs: Any,
    targets: Any,
    input_lengths: Any,
    target_lengths: Any,
    blank: int = 0,
    reduction: str = "mean",
    zero_infinity: bool = False,
) -> Declaration:
    """Returns the declaration of ctc_loss for padded targets and lengths in tensors."""
    if len(dims_of(log_probs)) != 3 or not (is_tensor(input_lengths) and is_tensor(target_lengths)):
        raise NotKnown("only a batch with its lengths in tensors is known of")
    if len(dims_of(targets, "the targets")) != 2:
        raise NotKnown("targets that are joined in one row are not known of")
    return row_loss(
        [log_probs, targets, input_lengths, target_lengths],
        [["t^", "n", "c^"], ["n", "s^"], ["n"], ["n"]],
        reduction_of(reduction),
    )


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
        "torch.nn.functional.cosine_embedding_loss",
        cosine_embedding_loss,
        *three(t(12, 6), t(12, 6), signs(12)),
    ),
    entry(
        "torch.nn.functional.triplet_margin_loss",
        triplet_margin_loss,
        *three(t(12, 6), t(12, 6), t(12, 6)),
    ),
    entry("torch.nn.functional.multi_margin_loss", multi_margin_loss, *three(*_CLASSES)),
    entry(
        "torch.nn.functional.multilabel_margin_loss",
        multilabel_margin_loss,
        *three(t(12, 6), whole(6, 12, 6)),
    ),
    entry(
        "torch.nn.functional.multilabel_soft_margin_loss",
        multilabel_soft_margin_loss,
        *three(t(12, 6), between(0, 1, 12, 6)),
    ),
    entry(
        "torch.nn.functional.ctc_loss",
        ctc_loss,
        *three(t(8, 12, 6), whole(6, 12, 3, low=1), whole(9, 12, low=8), whole(4, 12, low=2)),
    ),
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
