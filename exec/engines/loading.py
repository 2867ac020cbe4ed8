"""Weights that a loader makes of several tensors of a checkpoint: which rows a rank then has.

    checkpoint   experts.0.w1 (I, H), experts.0.w3 (I, H), ...
    parameter    gate_up_proj (E, 2 I, H): concatenated while loading
    a rank       its part of w1, then its part of w3: S(1, blocks=2), whatever the style says

    checkpoint   gate_up_proj (2 I, H)
    parameters   gate_proj (I, H), up_proj (I, H): taken apart while loading
    rank 0 of 2  all rows of the gate, the second half of them as its part of up_proj

transformers cuts what it reads from the checkpoint and converts the parts. So a contiguous cut of a
parameter that is concatenated along the same dimension gives every rank a part of each piece. The
numbers that a rank computes with are then right where the model splits the pieces again, and wrong
where the engine takes the parts for one run of rows: in gradients that are gathered, in what is
saved.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Any

import torch
from torch import Tensor, nn

from dimsolve.partition.engines.tp_plan import STYLES, Resolved
from dimsolve.partition.placement import Placement, Shard


@dataclass(frozen=True, slots=True)
class Fused:
    """A parameter that the loader takes out of a part of a fused tensor: piece ``index`` of what
    the ``names`` are in the checkpoint, one after another along ``dim``.
    """

    names: tuple[str, ...]
    dim: int
    index: int

    def part(self, wholes: Mapping[str, Tensor], rank: int, count: int) -> Tensor:
        """Returns what a rank has."""
        fused = torch.cat([wholes[name] for name in self.names], self.dim)
        own = fused.tensor_split(count, self.dim)[rank]
        return own.tensor_split(len(self.names), self.dim)[self.index]

    def __str__(self) -> str:
        names = ", ".join(name.rpartition(".")[0].rpartition(".")[2] for name in self.names)
        return f"piece {self.index} of a part of ({names})"


def loaded_placements(model: nn.Module, plan: Resolved) -> dict[str, Placement | Fused]:
    """Returns how parameters lie that a loader of transformers makes otherwise than their style
    says, by name; {} for a model that is none of transformers'.
    """
    if not type(model).__module__.startswith("transformers."):
        return {}
    transforms = import_module("transformers.conversion_mapping").get_model_conversion_mapping

    shapes = {name: p.ndim for name, p in model.named_parameters()}
    found: dict[str, Placement | Fused] = {}
    for transform in transforms(model):
        found.update(_taken_apart(transform, plan, shapes))
        pieces = dict(_pieces(transform))
        for name, style in plan.parameters.items() if pieces else ():
            if style not in STYLES or name not in shapes:
                continue
            said = STYLES[style].placement(name.rpartition(".")[2], shapes[name])
            if isinstance(said, Shard) and said.dim in pieces and _makes(transform, name):
                merged = any(type(op).__name__ == "MergeModulelist" for op in transform.operations)
                units = 1 if merged else said.blocks
                held = Shard(said.dim, units * pieces[said.dim])
                if held != said:
                    found[name] = held
    return found


def _taken_apart(
    transform: Any, plan: Resolved, shapes: Mapping[str, int]
) -> Iterator[tuple[str, Fused]]:
    """The parameters that a converter takes out of one tensor, which is cut before."""
    operations: Sequence[Any] = getattr(transform, "operations", ())
    targets = list(transform.target_patterns)
    if len(operations) != 1 or type(operations[0]).__name__ != "Chunk" or len(targets) < 2:
        return
    dim = operations[0].dim
    for name, style in plan.parameters.items():
        for index, target in enumerate(targets):
            names = tuple(name.replace(target, other) for other in targets)
            if style in STYLES and target in name and all(each in shapes for each in names):
                said = STYLES[style].placement(name.rpartition(".")[2], shapes[name])
                if isinstance(said, Shard) and said.dim == dim:
                    yield name, Fused(names, dim, index)


def _pieces(transform: Any) -> list[tuple[int, int]]:
    """The dimensions along which a converter puts tensors together, and of how many."""
    found = []
    for operation in getattr(transform, "operations", ()):
        match type(operation).__name__:
            case "Concatenate":
                found.append((operation.dim, len(transform.source_patterns)))
            case "Interleave":
                found.append((operation.dim, 2))
    return [pair for pair in found if pair[1] > 1]


def _makes(transform: Any, name: str) -> bool:
    """Whether a converter makes this parameter."""
    return any(re.search(pattern, name) for pattern in transform.target_patterns)
