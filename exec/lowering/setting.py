"""What a program is made of and for: a graph, its plan, this rank's ends of the mesh, a device.

plan over tp = 2 * n on 8 ranks        mesh {"n": 4}
placement("S(0, blocks=n)")            S(0, blocks=4)
parts(["S(0)", "R"], 0)                how many parts dimension 0 is cut in
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from keyword import iskeyword
from typing import TYPE_CHECKING

import torch

from dimsolve.ir.graph import Graph
from dimsolve.partition.placement import Placement, Shard
from dimsolve.partition.plan import Plan

from ..distributed.communicator import Communicator
from .plan_text import mesh_sizes, placement_of

if TYPE_CHECKING:
    from torch import fx


EMITTED = (
    *("draws", "device", "torch", "forward", "restoring", "convert", "placed", "Shard"),
    *("part_of", "partial", "modified", "made_by_shards", "operator"),
)
"""Names in the text of a program that are no variables."""


def _graph() -> fx.Graph:
    from torch import fx

    return fx.Graph()


@dataclass(frozen=True)
class Setting:
    """``fx``: the program as it grows. held: what its ``get_attr`` nodes name, by that name."""

    graph: Graph
    plan: Plan
    communicators: Mapping[str, Communicator]
    device: torch.device
    fx: fx.Graph = field(default_factory=_graph)
    held: dict[str, object] = field(default_factory=dict)

    @property
    def mesh(self) -> dict[str, int]:
        """The sizes of the symbols in the plan's mesh."""
        return mesh_sizes(self.plan, self.communicators)

    def placement(self, text: str) -> Placement:
        """Returns the placement that the plan writes."""
        return placement_of(text, tuple(self.mesh.items()))

    def parts(self, placements: Sequence[str], dim: int) -> int:
        """Returns in how many parts a dimension is cut."""
        times = 1
        for axis, text in zip(self.plan.mesh, placements, strict=False):
            placement = self.placement(text)
            if isinstance(placement, Shard) and placement.dim == dim:
                times *= self.communicators[axis].size
        return times


def identifier(name: str) -> str:
    """Returns a name for a program's variable.

    >>> identifier("model.layers.0.weight"), identifier("0")
    ('model_layers_0_weight', '_0')
    """
    plain = "".join(c if c.isalnum() or c == "_" else "_" for c in name)
    plain = plain if plain[:1].isalpha() or plain[:1] == "_" else f"_{plain}"
    return f"{plain}_" if iskeyword(plain) else plain


def reserve(graph: fx.Graph, axes: Iterable[str]) -> None:
    """Keeps names for what an emitted program takes and imports: no variable gets them.

    >>> from torch import fx
    >>> graph = fx.Graph()
    >>> reserve(graph, ["tp"])
    >>> graph.placeholder("tp").name
    'tp_1'
    """
    for name in (*EMITTED, *axes):
        graph._graph_namespace.create_name(name, None)


def is_real(dtype: str | None) -> bool:
    """Whether a tensor of this dtype can have a gradient; one that is not known may.

    >>> is_real("bfloat16"), is_real("int64"), is_real(None)
    (True, False, True)
    """
    found = None if dtype is None else getattr(torch, dtype)
    return found is None or found.is_floating_point or found.is_complex
