"""Losses over classes, cut over the batch and over the classes.

    n cut, mean    a rank sums its losses and divides by what all ranks count       P(sum)
    c cut          the logits are S(1), the ranks join the sums of exponentials,
                   and each adds the loss of the targets that it holds              P(sum)

A target that is ignored counts nowhere. With weights of classes the count is the sum of the
weights.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from dimsolve.ir.annotation import Dim, Identifier, Tensor
from dimsolve.ir.operator import Declaration
from dimsolve.ir.read_annotation import read_annotation
from dimsolve.solver.library.losses import COUNTED, reduction_of

from ..transform import Part, TransformRule
from .lookup import here

if TYPE_CHECKING:
    import torch


def cross_entropy_rules(declaration: Declaration) -> tuple[TransformRule, ...]:
    """Returns the rules of cross_entropy."""
    return _rules(declaration, cross_entropy_parts)


def nll_rules(declaration: Declaration) -> tuple[TransformRule, ...]:
    """Returns the rules of nll_loss."""
    return _rules(declaration, nll_parts)


def _rules(declaration: Declaration, local: Callable[..., Any]) -> tuple[TransformRule, ...]:
    """Over the batch where its mean is counted, and over the classes."""
    row = read_annotation(declaration.annotation).inputs[0]
    assert isinstance(row, Tensor)
    atoms = [dim.atoms[0] for dim in row.dims if isinstance(dim, Dim)]
    batch = tuple(atom.name for atom in atoms if isinstance(atom, Identifier) and atom.name != "c")
    over_classes = TransformRule(split="c", outputs=("P(sum)",), local=local)
    if declaration.frozen != COUNTED or not batch:
        return (over_classes,)
    return TransformRule(split=batch, outputs=("P(sum)",), local=local), over_classes


def cross_entropy_parts(
    part: Part,
    input: Any,
    target: Any,
    weight: Any = None,
    size_average: Any = None,
    ignore_index: int = -100,
    reduce: Any = None,
    reduction: str = "mean",
    label_smoothing: float = 0.0,
) -> Any:
    """Returns this rank's share of the loss: the shares of all ranks add up to it."""
    kind = reduction_of(reduction, size_average, reduce)
    dim = min(input.dim() - 1, 1)
    classes = input.shape[dim] * part["c"].count
    logs = log_probabilities(part["c"], input, dim)
    weighted = logs if weight is None else logs * _along(weight, input.dim(), dim)
    if target.dim() == input.dim():
        wanted = target * (1 - label_smoothing) + label_smoothing / classes
        losses = -(weighted * wanted).sum(dim)
        return losses if kind == "none" else losses.sum() if kind == "sum" else losses.mean()
    losses, counts = picked_losses(part["c"], logs, target, weight, ignore_index, dim)
    if label_smoothing:
        spread = (-weighted.sum(dim)).masked_fill(target == ignore_index, 0)
        losses = losses * (1 - label_smoothing) + spread * (label_smoothing / classes)
    return reduced(part, losses, counts, kind)


def nll_parts(
    part: Part,
    input: Any,
    target: Any,
    weight: Any = None,
    size_average: Any = None,
    ignore_index: int = -100,
    reduce: Any = None,
    reduction: str = "mean",
) -> Any:
    """Returns this rank's share of the loss of log-probabilities."""
    kind = reduction_of(reduction, size_average, reduce)
    dim = min(input.dim() - 1, 1)
    losses, counts = picked_losses(part["c"], input, target, weight, ignore_index, dim)
    return reduced(part, losses, counts, kind)


def log_probabilities(part: Part, input: torch.Tensor, dim: int) -> torch.Tensor:
    """Returns the logarithm of the softmax over the classes of all ranks, for the classes that this
    rank holds.
    """
    if part.count == 1:
        return input.log_softmax(dim)
    largest = part.all_reduce(input.detach().amax(dim, keepdim=True), "max")
    shifted = input - largest
    total: torch.Tensor = part.all_reduce(shifted.exp().sum(dim, keepdim=True))
    logs: torch.Tensor = shifted - total.log()
    return logs


def picked_losses(
    part: Part,
    logs: torch.Tensor,
    target: torch.Tensor,
    weight: torch.Tensor | None,
    ignore_index: int,
    dim: int,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Returns the losses of the targets that this rank holds, 0 for the others, and how much each
    counts.
    """
    kept = target != ignore_index
    mine, place = here(part, target.masked_fill(~kept, 0), logs.shape[dim])
    mine = mine & kept
    picked = logs.gather(dim, place.unsqueeze(dim)).squeeze(dim)
    counts = picked.new_ones(()).expand_as(picked) if weight is None else weight[place]
    return (-picked * counts).masked_fill(~mine, 0), counts.masked_fill(~mine, 0)


def reduced(part: Part, losses: torch.Tensor, counts: torch.Tensor, kind: str) -> torch.Tensor:
    """Returns the losses, their sum, or their sum divided by what the parts of all ranks count."""
    match kind:
        case "none":
            return losses
        case "sum":
            return losses.sum()
        case _:
            total: torch.Tensor = part.all_reduce(counts.sum())
            return losses.sum() / total


def _along(weight: torch.Tensor, rank: int, dim: int) -> torch.Tensor:
    return weight.reshape([-1 if n == dim else 1 for n in range(rank)])
