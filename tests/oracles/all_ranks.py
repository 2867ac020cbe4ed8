"""Runs a plan on all ranks of a mesh in one process, beside the whole graph on one device.

The oracle of every plan: the same inputs and parameters in float64, forward and backward, whole
against split. Outputs come back whole on every rank, gradients of parameters as the parts of the
parameters; both are compared with what one device computes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from dimsolve.exec.distributed.sharding import assemble_parts
from dimsolve.exec.distributed.simulated import Member, SimulatedWorld
from dimsolve.exec.lowering.lower import lower
from dimsolve.ir.graph import values_in
from dimsolve.partition.placement import Placement, Shard, read_placement
from dimsolve.partition.plan import Plan
from dimsolve.partition.plan_data import InputPlan
from dimsolve.solver.algebra.dims import evaluate
from dimsolve.solver.algebra.poly import Dim


@dataclass(frozen=True)
class Difference:
    """The largest differences, relative to the largest value, of outputs and gradients."""

    outputs: float
    gradients: float
    worst: str = ""

    @property
    def ok(self) -> bool:
        return self.outputs < 1e-9 and self.gradients < 1e-9


def placements_of(entry: InputPlan, sizes: Mapping[str, int]) -> list[Placement]:
    """The placements with their blocks as numbers."""
    found = []
    for text in entry.placements:
        placement = read_placement(text)
        if isinstance(placement, Shard):
            blocks: Dim = placement.blocks
            placement = replace(placement, blocks=evaluate(blocks, sizes))
        found.append(placement)
    return found


def tensors(tree: Any) -> list[Tensor]:
    """The tensors of a tree, in order."""
    if isinstance(tree, Tensor):
        return [tree]
    if isinstance(tree, dict):
        return [leaf for item in tree.values() for leaf in tensors(item)]
    if isinstance(tree, tuple | list):
        return [leaf for item in tree for leaf in tensors(item)]
    return []


def loss_of(outputs: list[Tensor]) -> Tensor:
    """One number that depends on every output differently."""
    total = torch.zeros((), dtype=torch.float64)
    for number, output in enumerate(outputs):
        if output.is_floating_point() and output.requires_grad:
            flat = output.double().reshape(-1)
            weights = torch.linspace(0.5, 1.5, max(flat.numel(), 1), dtype=torch.float64)
            total = total + (flat * weights[: flat.numel()]).sum() * (number + 1)
    return total


def whole_run(
    graph: Any, state: Mapping[str, Tensor], inputs: Mapping[str, Any]
) -> tuple[list[Tensor], dict[str, Tensor]]:
    """Outputs and gradients on one device."""
    trained = {entry.target for entry in graph.parameters()}
    leaves = {name: leaf(t) if name in trained else t for name, t in state.items()}
    given = {n: leaf(t) if isinstance(t, Tensor) else t for n, t in inputs.items()}
    outputs = tensors(graph.run(**given, state=leaves))
    return outputs, gradients_of(outputs, {**leaves, **given})


def leaf(tensor: Tensor) -> Tensor:
    """A copy that asks for a gradient where it can have one."""
    copy = tensor.detach().clone()
    return copy.requires_grad_() if copy.is_floating_point() else copy


def gradients_of(outputs: list[Tensor], leaves: Mapping[str, Any]) -> dict[str, Tensor]:
    loss = loss_of(outputs)
    if loss.requires_grad:
        loss.backward()
    return {
        name: t.grad if t.grad is not None else torch.zeros_like(t)
        for name, t in leaves.items()
        if isinstance(t, Tensor) and t.requires_grad
    }


def split_run(
    plan: Plan,
    graph: Any,
    state: Mapping[str, Tensor],
    inputs: Mapping[str, Any],
    sizes: Mapping[str, int],
) -> list[tuple[list[Tensor], dict[str, Tensor]]]:
    """Outputs and gradients of every rank."""
    mesh = {axis: int(evaluate_text(size, sizes)) for axis, size in plan.mesh.items()}
    entries = {entry.name: entry for entry in plan.inputs}

    def program_of(member: Member) -> tuple[list[Tensor], dict[str, Tensor]]:
        from dimsolve.exec.distributed.sharding import local_part

        program = lower(graph, plan, {axis: member[axis] for axis in mesh})
        values: list[Any] = []
        leaves: dict[str, Any] = {}
        for slot in program.slots:
            if slot.kind == "constant":
                values.append(program.constants[slot.target])
                continue
            given = inputs[slot.target] if slot.kind == "input" else state[slot.target]
            if slot.kind != "input":
                for axis, placement in zip(
                    mesh, placements_of(entries[slot.target], sizes), strict=True
                ):
                    given = local_part(given, placement, member[axis].rank, member[axis].size)
            trains = slot.kind in ("input", "parameter") and isinstance(given, Tensor)
            value = leaf(given) if trains else given
            leaves[slot.target] = value
            values.append(value)
        outputs = tensors(program.run(values))
        return [o.detach() for o in outputs], gradients_of(outputs, leaves)

    return SimulatedWorld(mesh).run(program_of)


def evaluate_text(text: str, sizes: Mapping[str, int]) -> int:
    from dimsolve.solver.shapes import to_dim

    return evaluate(to_dim(text), sizes)


def compare(
    plan: Plan,
    graph: Any,
    state: Mapping[str, Tensor],
    inputs: Mapping[str, Any],
    sizes: Mapping[str, int],
) -> Difference:
    """The difference of a plan from the whole graph."""
    mesh = {axis: evaluate_text(size, sizes) for axis, size in plan.mesh.items()}
    whole, whole_gradients = whole_run(graph, state, inputs)
    ranks = split_run(plan, graph, state, inputs, sizes)
    worst, name = 0.0, ""
    # A gradient that is nothing but rounding is compared with the largest one there is.
    floor = max(
        [1e-3, *(1e-5 * float(g.abs().max()) for g in whole_gradients.values() if g.numel())]
    )
    outputs = max(
        (relative(part, one) for parts, _ in ranks for part, one in zip(parts, whole, strict=True)),
        default=0.0,
    )
    for entry in plan.inputs:
        if entry.name in whole_gradients:
            parts = [gradients[entry.name] for _, gradients in ranks]
            if entry.kind == "input":
                found = max(relative(p, whole_gradients[entry.name], floor) for p in parts)
            else:
                joined = assemble_parts(parts, placements_of(entry, sizes), mesh)
                found = relative(joined, whole_gradients[entry.name], floor)
                # What is replicated must be so on every rank, not only on the first.
                found = max(found, replicas(parts, placements_of(entry, sizes), mesh, floor))
            if found > worst:
                worst, name = found, entry.name
    return Difference(outputs, worst, name)


def replicas(
    parts: list[Tensor], placements: list[Placement], mesh: Mapping[str, int], floor: float
) -> float:
    """The largest difference between ranks that hold the same part."""
    groups: dict[tuple[int, ...], Tensor] = {}
    worst = 0.0
    counts = list(mesh.values())
    for rank, part in enumerate(parts):
        key, rest = [], rank
        for count, placement in zip(reversed(counts), reversed(placements), strict=True):
            rest, coordinate = divmod(rest, count)
            key.append(coordinate if isinstance(placement, Shard) else 0)
        first = groups.setdefault(tuple(key), part)
        worst = max(worst, relative(part, first, floor))
    return worst


def relative(found: Tensor, wanted: Tensor, floor: float = 1e-3) -> float:
    if found.shape != wanted.shape:
        return float("inf")
    if not wanted.is_floating_point():
        return 0.0 if torch.equal(found, wanted) else float("inf")
    if wanted.numel() == 0:
        return 0.0
    scale = max(float(wanted.detach().abs().max()), floor)
    return float((found.detach() - wanted.detach()).abs().max()) / scale


__all__ = ["Difference", "compare", "split_run", "values_in", "whole_run"]
