"""Losses that are likelihoods of a distribution, or distances between two: cross entropies and
divergences.

    binary_cross_entropy(p, y)                   a+ b+, a+ b+ -> ()     P(avg)
    kl_div(p, q, reduction="batchmean")          a+ b^, a+ b^ -> ()     divides by the first length
    gaussian_nll_loss(x, y, var)                 a+ b+, a+ b+, a+ b+ -> ()

They are element-wise as those of `losses` are; what is broadcast, and what is not, differs.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations
from typing import Any

from dimsolve.ir.operator import Declaration
from dimsolve.solver.algebra.poly import product

from .dtypes import dtype_of
from .entry import entry
from .losses import Reduction, need_within, pointwise_loss, reduction_of, three
from .needs import EQ, need
from .samples import between, constant, example, t
from .values import NotKnown, dims_of, is_tensor
from .writing import Names, annotation


def binary_cross_entropy(
    input: Any,
    target: Any,
    weight: Any = None,
    size_average: Any = None,
    reduce: Any = None,
    reduction: str = "mean",
) -> Declaration:
    """Returns the declaration of binary_cross_entropy: its weight does not change what the mean
    divides by.
    """
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
    """Returns the declaration of binary_cross_entropy_with_logits."""
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
    """Returns the declaration of kl_div; ``batchmean`` divides by the first length only, so only
    that one is averaged.
    """
    if reduction != "batchmean":
        return pointwise_loss([input, target], reduction_of(reduction, size_average, reduce))
    dims = dims_of(input)
    if dims != dims_of(target, "the target"):
        raise NotKnown("batchmean with broadcasting is not known of")
    names = Names()
    row = [names.one("+" if n == 0 else "^") for n in range(len(dims))]
    return Declaration(
        annotation([row, row], [[]]), (input, target), reduction="avg", dtypes=(dtype_of(input),)
    )


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
    """Returns the declaration of poisson_nll_loss."""
    return pointwise_loss([input, target], reduction_of(reduction, size_average, reduce))


def gaussian_nll_loss(
    input: Any,
    target: Any,
    var: Any,
    full: bool = False,
    eps: float = 1e-6,
    reduction: str = "mean",
) -> Declaration:
    """Returns the declaration of gaussian_nll_loss; a variance without the last dimension is one
    for all of it.
    """
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

ENTRIES = (
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
        "torch.nn.functional.kl_div",
        kl_div,
        *three(*_UNIT),
        example(*_UNIT, reduction="batchmean"),
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
)
