"""Losses of rows: margins between vectors and classes, and of sequences. One row gives one number.

    triplet_margin_loss(a, p, n)             n+ d^, n+ d^, n+ d^ -> ()    P(avg)
    multi_margin_loss(x, y)                  n+ c^, n+ -> ()              P(avg)
    ctc_loss(p, y, lengths, targets)         t^ n+ c^, n+ s^, n+, n+ -> ()

The mean divides by the number of rows, and equal parts have equal numbers of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from dimsolve.ir.operator import Declaration

from .dtypes import dtype_of
from .entry import entry
from .losses import Reduction, reduction_of, three
from .samples import between, signs, t, whole
from .values import NotKnown, dims_of, is_tensor
from .writing import Pattern, annotation


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
    entry(
        "torch.nn.functional.multi_margin_loss", multi_margin_loss, *three(t(12, 8), whole(8, 12))
    ),
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
)
