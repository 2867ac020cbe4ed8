"""Losses over classes, cut over the batch and over the classes, and weighted means.

    n cut, mean    a rank sums its losses and divides by what all ranks count       P(sum)
    c cut          the logits are S(1), the ranks join the sums of exponentials,
                   and each adds the loss of the targets that it has                P(sum)
    mse_loss(x, y, weight=w), a cut      a b, a b, a b -> ()                        P(sum)

A target that is ignored counts nowhere. With weights of classes the count is the sum of the
weights; a weighted mean divides by the weight of all ranks.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from dimsolve.ir.annotation import Dim, Identifier, Tensor
from dimsolve.ir.operator import Declaration
from dimsolve.ir.read_annotation import read_annotation
from dimsolve.solver.layout import identifiers_of
from dimsolve.solver.operators.nn.losses import COUNTED, reduction_of

from .autocast import ALL, cast_as_torch
from .lookup import here
from .rule import Message, Part, TransformRule

if TYPE_CHECKING:
    import torch


def class_rules(
    local: Callable[..., Any], logits: bool, declaration: Declaration
) -> tuple[TransformRule, ...]:
    """Returns the rules of a loss over classes: over the batch where its mean is counted, and over
    the classes. logits: whether it takes them, not their logarithms.
    """
    row = read_annotation(declaration.annotation).inputs[0]
    assert isinstance(row, Tensor)
    atoms = [dim.atoms[0] for dim in row.dims if isinstance(dim, Dim)]
    batch = tuple(atom.name for atom in atoms if isinstance(atom, Identifier) and atom.name != "c")
    over_batch = (Message("()", "output"),) if declaration.frozen == COUNTED else ()
    rows = " ".join(batch) or "()"
    shifted = (Message(rows, "output"), Message(rows, "output", backward=True)) if logits else ()
    over_classes = TransformRule(
        split="c",
        outputs=("P(sum)",),
        local=local,
        sends=(*shifted, *over_batch),
        parts="unequal",
    )
    if declaration.frozen != COUNTED or not batch:
        return (over_classes,)
    over_rows = TransformRule(
        split=batch,
        outputs=("P(sum)",),
        local=local,
        sends=over_batch,
        parts="any",
        placed=False,
    )
    return over_rows, over_classes


@cast_as_torch(ALL)
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
    classes = part["c"].whole(input.shape[dim])
    logs = _log_probabilities(part["c"], input, dim)
    weighted = logs
    if weight is not None:
        weighted = logs * weight.reshape([-1 if n == dim else 1 for n in range(input.dim())])
    if target.dim() == input.dim():
        wanted = target * (1 - label_smoothing) + label_smoothing / classes
        losses = -(weighted * wanted).sum(dim)
        return losses if kind == "none" else losses.sum() if kind == "sum" else losses.mean()
    losses, counts = _picked(part["c"], logs, target, weight, ignore_index, dim)
    if label_smoothing:
        spread = (-weighted.sum(dim)).masked_fill(target == ignore_index, 0)
        losses = losses * (1 - label_smoothing) + spread * (label_smoothing / classes)
    return _reduced(part, losses, counts, kind)


@cast_as_torch(ALL)
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
    dim = min(input.dim() - 1, 1)
    losses, counts = _picked(part["c"], input, target, weight, ignore_index, dim)
    return _reduced(part, losses, counts, reduction_of(reduction, size_average, reduce))


def _log_probabilities(part: Part, input: torch.Tensor, dim: int) -> torch.Tensor:
    """The logarithm of the softmax over the classes of all ranks, for the classes of this rank."""
    if part.count == 1:
        return input.log_softmax(dim)
    largest = part.all_reduce(input.detach().amax(dim, keepdim=True), "max")
    shifted = input - largest
    total: torch.Tensor = part.all_reduce(shifted.exp().sum(dim, keepdim=True))
    logs: torch.Tensor = shifted - total.log()
    return logs


def _picked(
    part: Part,
    logs: torch.Tensor,
    target: torch.Tensor,
    weight: torch.Tensor | None,
    ignore_index: int,
    dim: int,
) -> tuple[torch.Tensor, torch.Tensor]:
    """The losses of the targets that this rank has, 0 for the others, and how much each counts."""
    kept = target != ignore_index
    if part.count == 1:
        return _of_all_classes(logs, target, weight, ignore_index, kept)
    mine, place = here(part, target.masked_fill(~kept, 0), logs.shape[dim])
    mine = mine & kept
    picked = logs.gather(dim, place.unsqueeze(dim)).squeeze(dim)
    counts = picked.new_ones(()).expand_as(picked) if weight is None else weight[place]
    return (-picked * counts).masked_fill(~mine, 0), counts.masked_fill(~mine, 0)


def _of_all_classes(
    logs: torch.Tensor,
    target: torch.Tensor,
    weight: torch.Tensor | None,
    ignore_index: int,
    kept: torch.Tensor,
) -> tuple[torch.Tensor, torch.Tensor]:
    """The same where a rank has all classes: torch's own loss needs less memory on the way back."""
    from torch.nn.functional import nll_loss

    losses = nll_loss(logs, target, weight, ignore_index=ignore_index, reduction="none")
    counts = losses.new_ones(()).expand_as(losses) if weight is None else weight[target * kept]
    return losses, counts.masked_fill(~kept, 0)


def _reduced(part: Part, losses: torch.Tensor, counts: torch.Tensor, kind: str) -> torch.Tensor:
    """The losses, their sum, or their sum divided by what the parts of all ranks count."""
    if kind == "none":
        return losses
    if kind == "sum":
        return losses.sum()
    total: torch.Tensor = part.all_reduce(counts.sum())
    return losses.sum() / total


def mean_rules(local: Callable[..., Any], declaration: Declaration) -> tuple[TransformRule, ...]:
    """Returns the rule of a weighted mean over all elements."""
    names = tuple(identifiers_of(read_annotation(declaration.annotation)))
    if declaration.frozen != COUNTED or not names:
        return ()
    weighed = Message("()", "output", backward=True, of=(2,))
    return (
        TransformRule(
            split=names,
            outputs=("P(sum)",),
            local=local,
            sends=(weighed,),
            parts="any",
            placed=False,
        ),
    )


def _share_of_mean(loss: Any, part: Part, input: Any, target: Any, weight: Any) -> Any:
    return loss(input, target, reduction="sum", weight=weight) / part.all_reduce(weight.sum())


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

    return _share_of_mean(mse_loss, part, input, target, weight)


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

    return _share_of_mean(l1_loss, part, input, target, weight)
