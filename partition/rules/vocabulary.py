"""Losses over classes, cut over the batch and over the classes.

    n cut, mean    a rank sums its losses and divides by what all ranks count       P(sum)
    c cut          the logits are S(1), the ranks join the sums of exponentials,
                   and each adds the loss of the targets that it holds              P(sum)

A target that is ignored counts nowhere. With weights of classes the count is the sum of the
weights.

Tables cut by rows: a rank serves the places that it holds, and the results are summed.

    embedding     ids R, weight S(0)      P(sum)
    index_select  x S(dim), index R       P(sum)
    gather        x S(dim), index R       P(sum)

What a rank does not hold it answers with zeros, so that exactly one rank answers with the row.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from dimsolve.ir.annotation import Dim, Identifier, Mark, Tensor
from dimsolve.ir.operator import Declaration
from dimsolve.ir.read_annotation import read_annotation
from dimsolve.solver.operators.nn.losses import COUNTED, reduction_of

from ..placement import Replicate, Shard
from .autocast import ALL, cast_as_torch
from .rule import Part, TransformRule

if TYPE_CHECKING:
    import torch


def here(part: Part, places: torch.Tensor, held: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Returns which places this rank holds, and the places counted from its first row, 0 where it
    does not.

    places: row numbers of the whole table, negative ones from its end; held: how many rows a rank
    has.
    """
    import torch

    rows = torch.where(places < 0, places + held * part.count, places)
    local = rows - held * part.index
    mine = (local >= 0) & (local < held)
    return mine, local.where(mine, torch.zeros_like(local))


@cast_as_torch()
def embedding_rows(
    part: Part,
    input: Any,
    weight: Any,
    padding_idx: int | None = None,
    max_norm: float | None = None,
    norm_type: float = 2.0,
    scale_grad_by_freq: bool = False,
    sparse: bool = False,
) -> Any:
    """Looks up the ids that this rank holds; zeros for the others. A row for padding has no
    gradient.
    """
    from torch.nn.functional import embedding

    held = weight.shape[0]
    mine, local = here(part["v"], input, held)
    padding = None
    if padding_idx is not None:
        first = (
            padding_idx
            + (held * part["v"].count if padding_idx < 0 else 0)
            - held * part["v"].index
        )
        padding = first if 0 <= first < held else None
    rows = embedding(local, weight, padding, sparse=sparse)
    return rows.masked_fill(~mine.unsqueeze(-1), 0)


@cast_as_torch()
def table_rows(
    part: Part,
    weight: Any,
    indices: Any,
    padding_idx: int = -1,
    scale_grad_by_freq: bool = False,
    sparse: bool = False,
) -> Any:
    """Does the same for torch.embedding, whose padding index is -1 where there is none."""
    return embedding_rows(
        part, indices, weight, None if padding_idx < 0 else padding_idx, sparse=sparse
    )


@cast_as_torch()
def selected_slices(part: Part, input: Any, dim: int, index: Any) -> Any:
    """Picks the slices that this rank holds; zeros for the others."""
    mine, local = here(part, index, input.shape[dim])
    shape = [1] * input.dim()
    shape[dim] = -1
    return input.index_select(dim, local.reshape(-1)).masked_fill(~mine.reshape(shape), 0)


@cast_as_torch()
def gathered_elements(
    part: Part, input: Any, dim: int, index: Any, *, sparse_grad: bool = False
) -> Any:
    """Picks the elements that this rank holds; zeros for the others."""
    mine, local = here(part, index, input.shape[dim])
    return input.gather(dim, local, sparse_grad=sparse_grad).masked_fill(~mine, 0)


def _ids_are_frozen(declaration: Declaration) -> bool:
    """Gradients by frequency, and rows that are renormed, need every id on every rank."""
    return "^" in declaration.annotation.replace("v^", "v")


def rows_second_rules(declaration: Declaration) -> tuple[TransformRule, ...]:
    """Returns the rule of embedding, whose table is input 1."""
    if _ids_are_frozen(declaration):
        return ()
    return (TransformRule(("R", "S(0)"), ("P(sum)",), local=embedding_rows, split="v"),)


def rows_first_rules(declaration: Declaration) -> tuple[TransformRule, ...]:
    """Returns the rule of torch.embedding, whose table is input 0."""
    if _ids_are_frozen(declaration):
        return ()
    return (TransformRule(("S(0)", "R"), ("P(sum)",), local=table_rows, split="v"),)


def select_rules(declaration: Declaration) -> tuple[TransformRule, ...]:
    """Returns the rule of index_select: the dimension it picks from is the frozen one."""
    return _picking(declaration, selected_slices)


def gather_rules(declaration: Declaration) -> tuple[TransformRule, ...]:
    """Returns the rule of gather, where the dimension it picks from is the only frozen one."""
    return _picking(declaration, gathered_elements)


def _picking(declaration: Declaration, local: Any) -> tuple[TransformRule, ...]:
    if declaration.dtypes and str(declaration.dtypes[0]).startswith("bool"):
        return ()
    annotation = read_annotation(declaration.annotation)
    source, index = annotation.inputs
    if not isinstance(source, Tensor) or "^" in str(index):
        return ()
    frozen = [
        (place, dim.atoms[0].name)
        for place, dim in enumerate(source.dims)
        if isinstance(dim, Dim)
        and isinstance(dim.atoms[0], Identifier)
        and dim.atoms[0].mark is Mark.FROZEN
    ]
    if len(frozen) != 1:
        return ()
    ((place, name),) = frozen
    return (TransformRule((Shard(place), Replicate()), ("P(sum)",), local=local, split=name),)


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
