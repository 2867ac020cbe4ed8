"""Tables cut by rows: a rank serves the places that it holds, and the results are summed.

    embedding     ids R, weight S(0)      P(sum)
    index_select  x S(dim), index R       P(sum)
    gather        x S(dim), index R       P(sum)

What a rank does not hold it answers with zeros, so that exactly one rank answers with the row.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dimsolve.ir.annotation import Dim, Identifier, Mark, Tensor
from dimsolve.ir.operator import Declaration
from dimsolve.ir.read_annotation import read_annotation

from ..placement import Replicate, Shard
from ..transform import Part, TransformRule

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


def selected_slices(part: Part, input: Any, dim: int, index: Any) -> Any:
    """Picks the slices that this rank holds; zeros for the others."""
    mine, local = here(part, index, input.shape[dim])
    shape = [1] * input.dim()
    shape[dim] = -1
    return input.index_select(dim, local.reshape(-1)).masked_fill(~mine.reshape(shape), 0)


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
