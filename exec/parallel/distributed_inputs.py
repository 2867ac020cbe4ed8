"""Inputs that are DTensors, and the programs for each way in which inputs may be given.

    x (8, 64), Shard(0) on the plan's dp = 2      the program takes the part (4, 64) as it is
    x (8, 64), Replicate()                        the program cuts its part of (8, 64)
    x (8, 64), Shard(1)                           the program exchanges (8, 32) for (4, 64)

A DTensor says which part of which whole it is, whatever ``inputs`` says of other tensors. Its
conversion is part of the program, so its gradient goes back the same way.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from dimsolve.ir.errors import Diagnostic
from dimsolve.partition.layout import Layout
from dimsolve.partition.placement import Replicate, Shard
from dimsolve.partition.plan import Plan
from dimsolve.partition.torch_placements import layout_from_torch

from ..distributed.digests import digest
from ..distributed.given_inputs import GivenInputs, layout_text
from ..distributed.mesh import MeshEnds
from ..distributed.sharding import blocks_of
from ..lowering.lower import lower
from ..lowering.program import Program
from ..lowering.values import labelled
from .call_inputs import CallError

if TYPE_CHECKING:
    from torch.distributed.device_mesh import DeviceMesh


@dataclass(eq=False)
class Form:
    """One way in which inputs are given, and its program.

    layouts: of the DTensors, by name. admitted: the sizes and dtypes that all ranks agreed on.
    """

    program: Program
    given: GivenInputs
    layouts: Mapping[str, Layout] = field(default_factory=dict)
    admitted: set[Any] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.text = "; ".join(f"{n} {layout_text(each)}" for n, each in self.layouts.items())


def lower_for(plan: Plan, ends: MeshEnds, given: GivenInputs) -> Program:
    """Returns this rank's program for inputs that are given so. The plan has its graph."""
    graph = plan.planned
    assert graph is not None
    kept = plan.data_axes if given.way == "local" else ()
    return lower(
        graph, plan, ends.communicators, device=ends.device, given=given.layouts, kept=kept
    )


def told_by_all(tensors: Mapping[str, Tensor], ends: MeshEnds) -> dict[int, dict[str, int]]:
    """Returns a number for each tensor's dtype, shape and values on every rank of the mesh, whose
    ranks call this together. What they wait for is a collective, as any that a program begins with.
    """
    codes = [blake2b(digest(each).encode(), digest_size=8).digest() for each in tensors.values()]
    own = [int.from_bytes(code, "big", signed=True) for code in codes]
    table = torch.tensor(own, dtype=torch.int64, device=ends.device)
    for end in reversed(tuple(ends.communicators.values())):
        table = labelled(end, "the comparison of inputs").all_gather(table)
    ranks = range(ends.count) if ends.mesh is None else ends.mesh.mesh.flatten().tolist()
    rows = table.view(ends.count, len(own)).tolist()
    return {
        rank: dict(zip(tensors, row, strict=True)) for rank, row in zip(ranks, rows, strict=True)
    }


def is_dtensor(value: Tensor) -> bool:
    """Whether a tensor is a DTensor."""
    from torch.distributed.tensor import DTensor

    return isinstance(value, DTensor)


def local_parts(
    inputs: Sequence[Tensor], names: Sequence[str], ends: MeshEnds
) -> tuple[list[Tensor], dict[str, Layout]]:
    """Returns the tensors with each DTensor as this rank's part, and the DTensors' layouts on the
    mesh of ``ends``. Raises CallError for one of another mesh, or of unequal parts, and
    PlacementError for a placement that is no shard, replica or partial value.
    """
    parts = list(inputs)
    layouts: dict[str, Layout] = {}
    for place, (name, value) in enumerate(zip(names, inputs, strict=True)):
        if is_dtensor(value):
            layouts[name] = _layout(name, value, ends)
            part: Any = value.to_local()  # type: ignore[attr-defined]
            parts[place] = part.wait() if hasattr(part, "wait") else part
    return parts, layouts


def _layout(name: str, value: Any, ends: MeshEnds) -> Layout:
    given = layout_from_torch(value.placements, ndim=value.ndim)
    counts = {axis: end.size for axis, end in ends.communicators.items()}
    if ends.mesh is None:
        if value.device_mesh.size() != 1:
            raise _other_mesh(name, value.device_mesh, counts)
        return (Replicate(),) * len(counts)
    axes = _axes(value.device_mesh, ends.mesh)
    if axes is None:
        raise _other_mesh(name, value.device_mesh, counts)
    by_axis = dict(zip(axes, given, strict=True))
    layout = tuple(by_axis.get(axis, Replicate()) for axis in counts)
    for dim, length in enumerate(value.shape):
        parts = 1
        for placement, count in zip(layout, counts.values(), strict=True):
            if isinstance(placement, Shard) and placement.dim == dim:
                parts *= count * blocks_of(placement)
        if length % parts:
            raise _unequal(name, dim, tuple(value.shape), parts)
    return layout


def _axes(mesh: DeviceMesh, own: DeviceMesh) -> tuple[str, ...] | None:
    """The axes of the plan's mesh that another mesh consists of; None where it has others."""
    if torch.equal(mesh.mesh, own.mesh):
        return own.mesh_dim_names
    names, mine = mesh.mesh_dim_names or (), own.mesh_dim_names or ()
    if not names or list(names) != [axis for axis in mine if axis in names]:
        return None
    return names if torch.equal(own[names].mesh, mesh.mesh) else None


def _other_mesh(name: str, mesh: DeviceMesh, counts: Mapping[str, int]) -> CallError:
    own = ", ".join(f"{axis}={count}" for axis, count in counts.items())
    return CallError(
        Diagnostic(
            code="other-mesh",
            title=f"{name} is a DTensor of another mesh",
            reason=f"its mesh has the shape {tuple(mesh.shape)}, the axes "
            f"{mesh.mesh_dim_names or 'without names'} and the ranks "
            f"{mesh.mesh.flatten().tolist()}; the plan's mesh is {own}",
            hint=f"make it on part.device_mesh, or give the whole: {name}.full_tensor()",
        )
    )


def _unequal(name: str, dim: int, shape: tuple[int, ...], parts: int) -> CallError:
    return CallError(
        Diagnostic(
            code="unequal-parts",
            title=f"{name} is a DTensor of unequal parts",
            reason=f"dimension {dim} of {shape} is cut into {parts}, and {shape[dim]} is no "
            f"multiple of {parts}",
            hint=f"give the whole: {name}.full_tensor()",
        )
    )
