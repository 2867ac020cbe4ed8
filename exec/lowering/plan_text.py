"""Reads the texts of a plan back: placements, lengths, and the mesh that is really there."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import lru_cache

from dimsolve.ir.errors import Diagnostic
from dimsolve.partition.placement import Placement, Shard
from dimsolve.partition.plan import Plan
from dimsolve.partition.read_placement import read_placement
from dimsolve.solver.algebra.dims import evaluate, substitute, symbols_of
from dimsolve.solver.algebra.poly import Dim
from dimsolve.solver.graphs.read_type import read_dim

from ..distributed.communicator import Communicator
from .lowering_errors import LoweringError


@lru_cache(maxsize=8192)
def dim_of(text: str) -> Dim:
    """Returns the length that a plan writes.

    >>> dim_of("8*s//2")
    Poly(4*s)
    """
    dim: Dim = read_dim(text)
    return dim


@lru_cache(maxsize=8192)
def placement_of(text: str, sizes: tuple[tuple[str, int], ...] = ()) -> Placement:
    """Returns the placement that a plan writes; ``sizes`` are those of the mesh's symbols.

    >>> print(placement_of("S(0, blocks=2*n)", (("n", 4),)))
    S(0, blocks=8)
    """
    placement = read_placement(text)
    if not isinstance(placement, Shard) or isinstance(placement.blocks, int):
        return placement
    return replace(placement, blocks=substitute(placement.blocks, dict(sizes)))


def mesh_sizes(plan: Plan, communicators: Mapping[str, Communicator]) -> dict[str, int]:
    """Returns the sizes of the symbols in a plan's mesh; LoweringError where the ranks that are
    there are not those of the plan.
    """
    return mesh_symbols(plan, {axis: end.size for axis, end in communicators.items()})


def mesh_symbols(plan: Plan, ranks: Mapping[str, int]) -> dict[str, int]:
    """Returns the sizes of the symbols in a plan's mesh; LoweringError where it is another mesh.

    ranks: the sizes of the axes of the mesh that is there, which may have more of them.
    """
    missing = [axis for axis in plan.mesh if axis not in ranks]
    if missing:
        raise other_mesh(plan, ranks, f"there is no axis {missing[0]}")
    sizes: dict[str, int] = {}
    for axis, text in plan.mesh.items():
        dim = dim_of(text)
        if str(dim).isidentifier():
            sizes.setdefault(str(dim), ranks[axis])
    for axis, text in plan.mesh.items():
        dim = dim_of(text)
        unknown = symbols_of(dim) - sizes.keys()
        if unknown or evaluate(dim, sizes) != ranks[axis]:
            reason = f"the axis {axis} has {ranks[axis]} ranks, and the plan is made for {text}"
            raise other_mesh(plan, ranks, reason)
    return sizes


def other_mesh(plan: Plan, ranks: Mapping[str, int], reason: str) -> LoweringError:
    """Returns the error for a mesh that is not the plan's."""
    made, there = (
        ", ".join(f"{axis}={size}" for axis, size in mesh.items()) or "one rank"
        for mesh in (plan.mesh, ranks)
    )
    return LoweringError(
        Diagnostic(
            code="other-mesh",
            title="the mesh is not the plan's",
            reason=f"{reason}; the mesh is {there}, and the plan's {made}",
            hint=f"run it on {made}, or make a plan for {there}",
        )
    )
