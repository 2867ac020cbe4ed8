"""Tables cut by rows: a rank serves the places that it has, and the results are summed.

    embedding     ids R, weight S(0)      P(sum)
    index_select  x S(dim), index R       P(sum)
    gather        x S(dim), index R       P(sum)

A rank answers zeros for what it does not have, so exactly one rank answers with the row.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from dimsolve.ir.operator import Declaration
from dimsolve.ir.read_annotation import read_annotation

from ..placement import Replicate, Shard
from .autocast import cast_as_torch
from .rule import Part, TransformRule, frozen_dims

if TYPE_CHECKING:
    import torch


def here(part: Part, places: torch.Tensor, rows: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Returns which places this rank has, and the places counted from its first row, 0 where it
    does not.

    places: row numbers of the whole table, negative ones from its end; rows: how many a rank has.
    """
    import torch

    local = torch.where(places < 0, places + part.whole(rows), places) - part.start(rows)
    mine = (local >= 0) & (local < rows)
    return mine, local.where(mine, torch.zeros_like(local))


def row_rules(
    local: Callable[..., Any], table: int, declaration: Declaration
) -> tuple[TransformRule, ...]:
    """Returns the rule of an embedding whose table is this input. Gradients by frequency, and rows
    that are renormed, need every id on every rank.
    """
    if "^" in declaration.annotation.replace("v^", "v"):
        return ()
    inputs = ("S(0)", "R") if table == 0 else ("R", "S(0)")
    return (TransformRule(inputs, ("P(sum)",), local=local, split="v", sends=(), parts="any"),)


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
    """Looks up the ids that this rank has; zeros for the others. A row for padding has no
    gradient.
    """
    from torch.nn.functional import embedding, pad

    rows, place = weight.shape[0], part["v"]
    mine, local = here(place, input, rows)
    if not rows:  # a rank without rows looks up none, and its gradient has none
        weight = pad(weight, (0, 0, 0, 1))
    if padding_idx is not None:
        padding_idx += (place.whole(rows) if padding_idx < 0 else 0) - place.start(rows)
        padding_idx = padding_idx if 0 <= padding_idx < rows else None
    found = embedding(local, weight, padding_idx, sparse=sparse)
    return found.masked_fill(~mine.unsqueeze(-1), 0)


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
    padding = None if padding_idx < 0 else padding_idx
    return embedding_rows(part, indices, weight, padding, sparse=sparse)


def pick_rules(local: Callable[..., Any], declaration: Declaration) -> tuple[TransformRule, ...]:
    """Returns the rule of picking from a dimension, where that is the only frozen one."""
    if declaration.dtypes and str(declaration.dtypes[0]).startswith("bool"):
        return ()
    index = read_annotation(declaration.annotation).inputs[1]
    frozen = frozen_dims(declaration)
    if "^" in str(index) or len(frozen) != 1:
        return ()
    ((place, name),) = frozen
    return (
        TransformRule(
            (Shard(place), Replicate()),
            ("P(sum)",),
            local=local,
            split=name,
            sends=(),
            parts="any",
        ),
    )


def _with_one(input: Any, dim: int) -> Any:
    """A rank that has nothing to pick from picks zeros, and what it has has a gradient: none."""
    from torch.nn.functional import pad

    if input.shape[dim]:
        return input
    return pad(input, (0, 0) * (input.dim() - 1 - dim % input.dim()) + (0, 1))


@cast_as_torch()
def selected_slices(part: Part, input: Any, dim: int, index: Any) -> Any:
    """Picks the slices that this rank has; zeros for the others."""
    mine, local = here(part, index, input.shape[dim])
    input = _with_one(input, dim)
    shape = [1] * input.dim()
    shape[dim] = -1
    return input.index_select(dim, local.reshape(-1)).masked_fill(~mine.reshape(shape), 0)


@cast_as_torch()
def gathered_elements(
    part: Part, input: Any, dim: int, index: Any, *, sparse_grad: bool = False
) -> Any:
    """Picks the elements that this rank has; zeros for the others."""
    mine, local = here(part, index, input.shape[dim])
    input = _with_one(input, dim)
    return input.gather(dim, local, sparse_grad=sparse_grad).masked_fill(~mine, 0)
