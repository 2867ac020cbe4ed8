"""Means that divide by the sum of a weight: a rank sums its part and divides by the weight of all
ranks.

mse_loss(x, y, weight=w), a cut      a b, a b, a b -> ()      P(sum)
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from dimsolve.ir.operator import Declaration
from dimsolve.ir.read_annotation import read_annotation
from dimsolve.solver.layout import identifiers_of
from dimsolve.solver.library.losses import COUNTED

from ..transform import Part, TransformRule


def mse_rules(declaration: Declaration) -> tuple[TransformRule, ...]:
    """Returns the rule of a weighted mse_loss."""
    return _rules(declaration, weighted_mse)


def l1_rules(declaration: Declaration) -> tuple[TransformRule, ...]:
    """Returns the rule of a weighted l1_loss."""
    return _rules(declaration, weighted_l1)


def _rules(declaration: Declaration, local: Callable[..., Any]) -> tuple[TransformRule, ...]:
    names = tuple(identifiers_of(read_annotation(declaration.annotation)))
    if declaration.frozen != COUNTED or not names:
        return ()
    return (TransformRule(split=names, outputs=("P(sum)",), local=local),)


def weighted_mse(
    part: Part,
    input: Any,
    target: Any,
    size_average: Any = None,
    reduce: Any = None,
    reduction: str = "mean",
    weight: Any = None,
) -> Any:
    """Returns this rank's share of a weighted mean of squares."""
    from torch.nn.functional import mse_loss

    total = mse_loss(input, target, reduction="sum", weight=weight)  # type: ignore[call-arg]
    return total / part.all_reduce(weight.sum())


def weighted_l1(
    part: Part,
    input: Any,
    target: Any,
    size_average: Any = None,
    reduce: Any = None,
    reduction: str = "mean",
    weight: Any = None,
) -> Any:
    """Returns this rank's share of a weighted mean of distances."""
    from torch.nn.functional import l1_loss

    total = l1_loss(input, target, reduction="sum", weight=weight)  # type: ignore[call-arg]
    return total / part.all_reduce(weight.sum())
