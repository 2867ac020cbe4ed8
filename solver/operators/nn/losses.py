"""Losses with their reductions.

    mse_loss(x, y, reduction="none")         *, * -> *
    mse_loss(x, y, reduction="sum")          a+ b+, a+ b+ -> ()           P(sum)
    mse_loss(x, y)                           a+ b+, a+ b+ -> ()           P(avg): equal counts
    cross_entropy(x, y)                      n^ c^, n^ -> ()              counted by the data
    cross_entropy(x, y, reduction="none")    n c^ a b, n a b -> n a b
    kl_div(p, q, reduction="batchmean")      a+ b^, a+ b^ -> ()           divides by a's length
    triplet_margin_loss(a, p, n)             n+ d^, n+ d^, n+ d^ -> ()    one number per row

A mean that divides by what the data count (targets that are not ignored, weights of classes) is no
mean of means. The batch of those is cut through a rule of `dimsolve.partition.rules.table`, which
divides by what all ranks count together.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from inspect import Parameter, Signature, signature
from itertools import combinations
from typing import Any, Literal

from dimsolve.ir.operator import Declaration

from ...algebra.poly import product
from ..declare import errors
from ..declare.dtypes import dtype_of, result_type
from ..declare.entry import Example, Form, between, constant, entry, example, signs, t, whole
from ..declare.forms import declared
from ..declare.needs import EQ, need, need_equal_or_one
from ..declare.writing import Names, NotKnown, Pattern, dims_of, is_tensor
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


def loss(parameters: str) -> Callable[[Form], Form]:
    """Gives a declaration torch's parameters. Those before ``/`` must be given, others are None.

    The declaration receives the parameters that it names, and the reduction that ``reduction``,
    ``size_average`` and ``reduce`` ask for together.
    """
    required, _, optional = parameters.partition("/")
    kind = Parameter.POSITIONAL_OR_KEYWORD
    torchs = Signature(
        [Parameter(name, kind) for name in required.split()]
        + [
            Parameter(name, kind, default="mean" if name == "reduction" else None)
            for name in optional.split()
        ]
    )

    def decorate(function: Form) -> Form:
        wanted = tuple(signature(function).parameters)

        def declare(*args: Any, **kwargs: Any) -> Declaration:
            bound = torchs.bind(*args, **kwargs)
            bound.apply_defaults()
            given = bound.arguments
            given["reduction"] = reduction_of(
                given["reduction"], given.get("size_average"), given.get("reduce")
            )
            given["tensors"] = [given[name] for name in required.split()]
            return function(**{name: given[name] for name in wanted})

        declare.__signature__ = torchs  # type: ignore[attr-defined]
        return declare

    return decorate


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


def elementwise(tensors: Sequence[Any], reduction: Reduction) -> Declaration:
    """Declares a loss of tensors that are broadcast together."""
    return pointwise_loss(tensors, reduction)


def _weighted_by(tensors: Sequence[Any], weight: Any) -> list[Any]:
    return [*tensors, *([] if weight is None else [weight])]


@loss("input target / size_average reduce reduction weight")
def loss_of_pairs(tensors: Sequence[Any], reduction: Reduction, weight: Any) -> Declaration:
    """Declares mse_loss and l1_loss, whose mean divides by the sum of a given weight."""
    given = _weighted_by(tensors, weight)
    return pointwise_loss(given, reduction, weighted_mean=weight is not None, alike=given[2:])


@loss("input target / reduction delta weight")
def huber_loss(tensors: Sequence[Any], reduction: Reduction, weight: Any) -> Declaration:
    """Declares huber_loss, whose mean divides by the number of elements."""
    given = _weighted_by(tensors, weight)
    return pointwise_loss(given, reduction, alike=given[2:])


@loss("input target / size_average reduce reduction")
def soft_margin_loss(input: Any, target: Any, reduction: Reduction) -> Declaration:
    """Declares soft_margin_loss."""
    need_within(input, target)
    return pointwise_loss([input, target], reduction)


@loss("input target / weight size_average reduce reduction pos_weight")
def binary_cross_entropy_with_logits(
    input: Any, target: Any, weight: Any, pos_weight: Any, reduction: Reduction
) -> Declaration:
    """Declares a loss whose weights are broadcast to the input; the mean divides by elements."""
    given = [w for w in (weight, pos_weight) if w is not None]
    for w in given:
        need_within(input, w)
    return pointwise_loss([input, target, *given], reduction, alike=[target])


@loss("input target / weight size_average reduce reduction")
def binary_cross_entropy(tensors: Sequence[Any], weight: Any, reduction: Reduction) -> Declaration:
    """Declares binary_cross_entropy: its weight does not change what the mean divides by."""
    return binary_cross_entropy_with_logits(*tensors, weight, reduction=reduction)


def kl_div(
    input: Any,
    target: Any,
    size_average: Any = None,
    reduce: Any = None,
    reduction: str = "mean",
    log_target: bool = False,
) -> Declaration:
    """Declares kl_div; ``batchmean`` divides by the first length, so only that is averaged."""
    if reduction != "batchmean":
        return pointwise_loss([input, target], reduction_of(reduction, size_average, reduce))
    dims = dims_of(input)
    if dims != dims_of(target, "the target"):
        raise NotKnown("batchmean with broadcasting is not supported")
    names = Names()
    row = [names.one("+" if n == 0 else "^") for n in range(len(dims))]
    return declared((input, target), [row, row], [[]], reduction="avg")


@loss("input target var / full eps reduction")
def gaussian_nll_loss(input: Any, target: Any, var: Any, reduction: Reduction) -> Declaration:
    """Declares gaussian_nll_loss; a variance without the last dimension is one for all of it."""
    shapes = dims_of(input), dims_of(var, "the variance") if is_tensor(var) else ()
    if not is_tensor(var) or len(shapes[0]) != len(shapes[1]):
        raise NotKnown("the variance must have the dimensions of the input")
    need_within(input, var)
    for (a, b), (c, d) in combinations(zip(*shapes, strict=True), 2):
        if a is not None and b is not None and c is not None and d is not None:
            # torch lets one length of the variance be 1, not two
            need(product([a - b, c - d]), EQ, 0)
    return pointwise_loss([input, target, var], reduction)


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


@loss("input target / weight size_average ignore_index reduce reduction label_smoothing")
def cross_entropy(input: Any, target: Any, weight: Any, reduction: Reduction) -> Declaration:
    """Declares cross_entropy with class targets, or with probabilities of the input's shape."""
    probabilities = len(dims_of(input)) == len(dims_of(target, "the target"))
    return class_loss(input, target, weight, reduction, probabilities=probabilities)


@loss("input target / weight size_average ignore_index reduce reduction")
def nll_loss(input: Any, target: Any, weight: Any, reduction: Reduction) -> Declaration:
    """Declares nll_loss."""
    return class_loss(input, target, weight, reduction, probabilities=False)


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
        raise NotKnown("only rows and class targets are supported")
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


def _rows_of(tensor: Any, word: str) -> list[str]:
    """The words of a batch of rows, or of one row."""
    return ["n", word] if len(dims_of(tensor)) == 2 else [word]


@loss("input1 input2 target / margin size_average reduce reduction")
def cosine_embedding_loss(tensors: Sequence[Any], reduction: Reduction) -> Declaration:
    """Declares cosine_embedding_loss."""
    row = _rows_of(tensors[0], "d^")
    return row_loss(tensors, [row, row, row[:-1]], reduction)


@loss("anchor positive negative / margin p eps swap size_average reduce reduction")
def triplet_margin_loss(tensors: Sequence[Any], reduction: Reduction) -> Declaration:
    """Declares triplet_margin_loss."""
    if len({dims_of(x) for x in tensors}) > 1 or len(dims_of(tensors[0])) > 2:
        raise NotKnown("only three tensors of one shape with a batch are supported")
    return row_loss(tensors, [_rows_of(tensors[0], "d^")] * 3, reduction)


@loss("input target / p margin weight size_average reduce reduction")
def multi_margin_loss(input: Any, target: Any, weight: Any, reduction: Reduction) -> Declaration:
    """Declares multi_margin_loss."""
    row = _rows_of(input, "c^")
    rows = [row, row[:-1] if dims_of(target) != (1,) or len(row) > 1 else ["1"], ["c^"]]
    tensors = _weighted_by([input, target], weight)
    return row_loss(tensors, rows[: len(tensors)], reduction)


@loss("input target / size_average reduce reduction")
def multilabel_margin_loss(tensors: Sequence[Any], reduction: Reduction) -> Declaration:
    """Declares multilabel_margin_loss."""
    return row_loss(tensors, [_rows_of(tensors[0], "c^")] * 2, reduction)


@loss("input target / weight size_average reduce reduction")
def multilabel_soft_margin_loss(
    tensors: Sequence[Any], weight: Any, reduction: Reduction
) -> Declaration:
    """Declares multilabel_soft_margin_loss: a mean over classes, then the reduction."""
    if len(dims_of(tensors[0])) != 2:
        raise NotKnown("only a batch of rows is supported")
    given = _weighted_by(tensors, weight)
    return row_loss(given, [["n", "c^"], ["n", "c^"], ["c^"]][: len(given)], reduction)


@loss("log_probs targets input_lengths target_lengths / blank reduction zero_infinity")
def ctc_loss(tensors: Sequence[Any], reduction: Reduction) -> Declaration:
    """Declares ctc_loss for padded targets and lengths in tensors."""
    if len(dims_of(tensors[0])) != 3 or not all(is_tensor(lengths) for lengths in tensors[2:]):
        raise NotKnown("only a batch with its lengths in tensors is supported")
    if len(dims_of(tensors[1], "the targets")) != 2:
        raise NotKnown("targets that are joined in one row are not supported")
    return row_loss(tensors, [["t^", "n", "c^"], ["n", "s^"], ["n"], ["n"]], reduction)


def three(*tensors: Any, **more: Any) -> tuple[Any, ...]:
    """Returns an example call for each of the three reductions."""
    return tuple(
        example(*tensors, **more, reduction=reduction) for reduction in ("mean", "sum", "none")
    )


_PAIR = (t(12, 6), t(12, 6))
_SIGNED = (t(12, 6), signs(12, 6))
_UNIT = (between(0.1, 0.9, 12, 6), between(0.1, 0.9, 12, 6))
_CLASSES, _IMAGE = (t(12, 8), whole(8, 12)), (t(4, 8, 6, 3), whole(8, 4, 6, 3))
_SHARES = (t(12, 6), between(0, 1, 12, 6))
_EACH = constant(between(0.5, 2, 6))
_CTC = (t(8, 12, 6), whole(6, 12, 3, low=1), whole(9, 12, low=8), whole(4, 12, low=2))

_LOSSES: dict[str, tuple[Form, tuple[Example, ...]]] = {
    "mse_loss": (loss_of_pairs, (*three(*_PAIR), example(*_PAIR, weight=between(0.5, 2, 12, 6)))),
    "l1_loss": (loss_of_pairs, three(*_PAIR)),
    "huber_loss": (huber_loss, three(*_PAIR)),
    "soft_margin_loss": (soft_margin_loss, three(*_SIGNED)),
    "linear_cross_entropy": (linear_cross_entropy, three(t(12, 6), t(8, 6), whole(8, 12))),
    "binary_cross_entropy": (binary_cross_entropy, (*three(*_UNIT), example(*_UNIT, _EACH))),
    "binary_cross_entropy_with_logits": (
        binary_cross_entropy_with_logits,
        (*three(*_SHARES), example(*_SHARES, constant(between(0.5, 2, 12, 1)), pos_weight=_EACH)),
    ),
    "kl_div": (kl_div, (*three(*_UNIT), example(*_UNIT, reduction="batchmean"))),
    "gaussian_nll_loss": (gaussian_nll_loss, three(*_PAIR, between(0.5, 2, 12, 6))),
    "cosine_embedding_loss": (cosine_embedding_loss, three(*_PAIR, signs(12))),
    "triplet_margin_loss": (triplet_margin_loss, three(*_PAIR, t(12, 6))),
    "multi_margin_loss": (multi_margin_loss, three(*_CLASSES)),
    "multilabel_margin_loss": (multilabel_margin_loss, three(t(12, 6), whole(6, 12, 6))),
    "multilabel_soft_margin_loss": (multilabel_soft_margin_loss, three(*_SHARES)),
    "ctc_loss": (ctc_loss, three(*_CTC)),
    "smooth_l1_loss": (
        loss("input target / size_average reduce reduction beta")(elementwise),
        three(*_PAIR),
    ),
    "poisson_nll_loss": (
        loss("input target / log_input full size_average eps reduce reduction")(elementwise),
        three(t(12, 6), between(0, 4, 12, 6)),
    ),
    "hinge_embedding_loss": (
        loss("input target / margin size_average reduce reduction")(elementwise),
        three(*_SIGNED),
    ),
    "margin_ranking_loss": (
        loss("input1 input2 target / margin size_average reduce reduction")(elementwise),
        three(t(12), t(12), signs(12)),
    ),
}

ENTRIES = (
    *(
        entry(f"torch.nn.functional.{name}", form, *calls)
        for name, (form, calls) in _LOSSES.items()
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
        "torch.nn.functional.nll_loss",
        nll_loss,
        *three(*_CLASSES),
        *three(*_IMAGE),
        note="a mean is cut over the batch through a transform rule",
    ),
)
