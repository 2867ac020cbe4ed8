"""Element-wise losses with their reductions.

    mse_loss(x, y, reduction="none")    *, * -> *
    mse_loss(x, y, reduction="sum")     a+ b+, a+ b+ -> ()     P(sum)
    mse_loss(x, y)                      a+ b+, a+ b+ -> ()     P(avg): equal parts have equal counts

A mean over something that the data decide (targets not ignored, weights of classes, weights) is no
mean of means. The batch of those is cut through a rule of `dimsolve.partition.rules.table`, which
divides by what all ranks count together.

Losses over classes, whose mean divides by what the data count.

    cross_entropy(x, y)                      n^ c^, n^ -> ()        counted by the data
    cross_entropy(x, y, reduction="none")    n c^ a b, n a b -> n a b
    nll_loss(x, y, reduction="sum")          n+ c^, n+ -> ()        P(sum)

What is counted are the targets that are not ignored, by the weights of their classes. The batch is
cut through a rule of `dimsolve.partition.rules.table`, as the classes are.

Losses that are likelihoods of a distribution, or distances between two: cross entropies and
divergences.

    binary_cross_entropy(p, y)                   a+ b+, a+ b+ -> ()     P(avg)
    kl_div(p, q, reduction="batchmean")          a+ b^, a+ b^ -> ()     divides by the first length
    gaussian_nll_loss(x, y, var)                 a+ b+, a+ b+, a+ b+ -> ()

They are element-wise as those of `losses` are; what is broadcast, and what is not, differs.

Losses of rows: margins between vectors and classes, and of sequences. One row gives one number.

    triplet_margin_loss(a, p, n)             n+ d^, n+ d^, n+ d^ -> ()    P(avg)
    multi_margin_loss(x, y)                  n+ c^, n+ -> ()              P(avg)
    ctc_loss(p, y, lengths, targets)         t^ n+ c^, n+ s^, n+, n+ -> ()

The mean divides by the number of rows, and equal parts have equal numbers of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations
from typing import Any, Literal

from dimsolve.ir.operator import Declaration

from ...algebra.poly import product
from ..declare import errors
from ..declare.dtypes import dtype_of, result_type
from ..declare.entry import between, constant, entry, example, signs, t, whole
from ..declare.forms import declared
from ..declare.needs import EQ, need, need_equal_or_one
from ..declare.writing import Lengths, Names, NotKnown, Pattern, dims_of, is_tensor
from ..elementwise.pointwise import broadcast

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
    """Declares an element-wise loss of tensors that are broadcast together.

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
    return declared(
        tensors,
        spread.inputs,
        [spread.output if none else []],
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
    """Declares mse_loss and l1_loss, whose mean divides by the sum of a given weight."""
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
    """Declares smooth_l1_loss."""
    return pointwise_loss([input, target], reduction_of(reduction, size_average, reduce))


def soft_margin_loss(
    input: Any, target: Any, size_average: Any = None, reduce: Any = None, reduction: str = "mean"
) -> Declaration:
    """Declares soft_margin_loss."""
    need_within(input, target)
    return pointwise_loss([input, target], reduction_of(reduction, size_average, reduce))


def huber_loss(
    input: Any, target: Any, reduction: str = "mean", delta: float = 1.0, weight: Any = None
) -> Declaration:
    """Declares huber_loss, whose mean divides by the number of elements."""
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
    """Declares hinge_embedding_loss."""
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
    """Declares margin_ranking_loss."""
    return pointwise_loss([input1, input2, target], reduction_of(reduction, size_average, reduce))


def three(*tensors: Any, **more: Any) -> tuple[Any, ...]:
    """Returns an example call for each of the three reductions."""
    return tuple(
        example(*tensors, **more, reduction=reduction) for reduction in ("mean", "sum", "none")
    )


_PAIR = (t(12, 6), t(12, 6))


def class_loss(
    input: Any, target: Any, weight: Any, reduction: Reduction, *, probabilities: bool
) -> Declaration:
    """Declares cross_entropy and nll_loss: classes at dimension 1, or at 0 without a batch.

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
    return declared(
        inputs,
        patterns,
        [rest if reduction == "none" else []],
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
    """Declares cross_entropy with class targets, or with probabilities of the input's shape."""
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
    """Declares nll_loss."""
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
    """Declares cross_entropy of a linear layer, for rows and class targets."""
    if len(dims_of(input)) != 2 or len(dims_of(target, "the target")) != 1:
        raise NotKnown("only rows and class targets are known of")
    kind = reduction_of(reduction)
    n = "n" if kind == "none" else "n^" if kind == "mean" else "n+"
    inputs, rows = [input, linear_weight, target], [[n, "h^"], ["c^", "h^"], [n]]
    for tensor in (linear_bias, weight):
        if tensor is not None:
            inputs.append(tensor)
            rows.append(["c^"])
    return declared(
        inputs,
        rows,
        [["n"] if kind == "none" else []],
        dtypes=(dtype_of(input),),
        frozen=COUNTED if kind == "mean" else "",
    )


_CLASSES = (t(12, 8), whole(8, 12))


_IMAGE = (t(4, 8, 6, 3), whole(8, 4, 6, 3))


def binary_cross_entropy(
    input: Any,
    target: Any,
    weight: Any = None,
    size_average: Any = None,
    reduce: Any = None,
    reduction: str = "mean",
) -> Declaration:
    """Declares binary_cross_entropy: its weight does not change what the mean divides by."""
    kind = reduction_of(reduction, size_average, reduce)
    return _weighted(input, target, [weight], kind)


def binary_cross_entropy_with_logits(
    input: Any,
    target: Any,
    weight: Any = None,
    size_average: Any = None,
    reduce: Any = None,
    reduction: str = "mean",
    pos_weight: Any = None,
) -> Declaration:
    """Declares binary_cross_entropy_with_logits."""
    kind = reduction_of(reduction, size_average, reduce)
    return _weighted(input, target, [weight, pos_weight], kind)


def _weighted(input: Any, target: Any, weights: Sequence[Any], kind: Reduction) -> Declaration:
    """A loss whose weights are broadcast to the input; its mean divides by the elements."""
    given = [weight for weight in weights if weight is not None]
    for weight in given:
        need_within(input, weight)
    return pointwise_loss([input, target, *given], kind, alike=[target])


def kl_div(
    input: Any,
    target: Any,
    size_average: Any = None,
    reduce: Any = None,
    reduction: str = "mean",
    log_target: bool = False,
) -> Declaration:
    """Declares kl_div; ``batchmean`` divides by the first length only, so only
    that one is averaged.
    """
    if reduction != "batchmean":
        return pointwise_loss([input, target], reduction_of(reduction, size_average, reduce))
    dims = dims_of(input)
    if dims != dims_of(target, "the target"):
        raise NotKnown("batchmean with broadcasting is not known of")
    names = Names()
    row = [names.one("+" if n == 0 else "^") for n in range(len(dims))]
    return declared((input, target), [row, row], [[]], reduction="avg")


def poisson_nll_loss(
    input: Any,
    target: Any,
    log_input: bool = True,
    full: bool = False,
    size_average: Any = None,
    eps: float = 1e-8,
    reduce: Any = None,
    reduction: str = "mean",
) -> Declaration:
    """Declares poisson_nll_loss."""
    return pointwise_loss([input, target], reduction_of(reduction, size_average, reduce))


def gaussian_nll_loss(
    input: Any,
    target: Any,
    var: Any,
    full: bool = False,
    eps: float = 1e-6,
    reduction: str = "mean",
) -> Declaration:
    """Declares gaussian_nll_loss; a variance without the last dimension is one for all of it."""
    shapes = dims_of(input), dims_of(var, "the variance") if is_tensor(var) else ()
    if not is_tensor(var) or len(shapes[0]) != len(shapes[1]):
        raise NotKnown("the variance must have the dimensions of the input")
    need_within(input, var)
    for (a, b), (c, d) in combinations(zip(*shapes, strict=True), 2):
        if a is not None and b is not None and c is not None and d is not None:
            # torch lets one length of the variance be 1, not two
            need(product([a - b, c - d]), EQ, 0)
    return pointwise_loss([input, target, var], reduction_of(reduction))


_UNIT = (between(0.1, 0.9, 12, 6), between(0.1, 0.9, 12, 6))


def row_loss(
    tensors: Sequence[Any], rows: Sequence[Pattern], reduction: Reduction, **more: Any
) -> Declaration:
    """Declares a loss per row ``n``, whose other dimensions stay whole; no ``n`` is one row."""
    mark = "" if reduction == "none" else "+"
    patterns = [[f"n{mark}" if word == "n" else word for word in row] for row in rows]
    batch = any("n" in row for row in rows)
    return declared(
        tensors,
        patterns,
        [["n"] if reduction == "none" and batch else []],
        reduction="avg" if reduction == "mean" else "sum",
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
    """Declares cosine_embedding_loss."""
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
    """Declares triplet_margin_loss."""
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
    """Declares multi_margin_loss."""
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
    """Declares multilabel_margin_loss."""
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
    """Declares multilabel_soft_margin_loss: a mean over classes, then the reduction."""
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
    """Declares ctc_loss for padded targets and lengths in tensors."""
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
    entry(
        "torch.nn.functional.binary_cross_entropy",
        binary_cross_entropy,
        *three(*_UNIT),
        example(*_UNIT, constant(between(0.5, 2, 6))),
    ),
    entry(
        "torch.nn.functional.binary_cross_entropy_with_logits",
        binary_cross_entropy_with_logits,
        *three(t(12, 6), between(0, 1, 12, 6)),
        example(
            t(12, 6),
            between(0, 1, 12, 6),
            constant(between(0.5, 2, 12, 1)),
            pos_weight=constant(between(0.5, 2, 6)),
        ),
    ),
    entry(
        "torch.nn.functional.kl_div", kl_div, *three(*_UNIT), example(*_UNIT, reduction="batchmean")
    ),
    entry(
        "torch.nn.functional.poisson_nll_loss",
        poisson_nll_loss,
        *three(t(12, 6), between(0, 4, 12, 6)),
    ),
    entry(
        "torch.nn.functional.gaussian_nll_loss",
        gaussian_nll_loss,
        *three(t(12, 6), t(12, 6), between(0.5, 2, 12, 6)),
    ),
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
