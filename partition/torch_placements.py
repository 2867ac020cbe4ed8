"""Placements and meshes as torch.distributed.tensor says them, and back.

    S(0)                    Shard(dim=0)
    S(0, blocks=3)          _StridedShard(dim=0, sf=3)    each rank has a part of every block
    S(0, segments=4:1:1)    refused: torch has no placement for it
    R                       Replicate()
    P(sum)                  Partial(sum)

Both cut with the outer mesh axis first, so a list of placements, one per axis, converts one by one.
torch does not say whether parts are equal: that is asked of the sizes. ``S(0, of=5)`` is unequal.
torch is imported when a conversion is made.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, assert_never

from dimsolve.ir.errors import DimsolveError, Problem

from .mesh import Mesh, MeshError
from .placement import Grouped, Partial, Placement, Reduction, Replicate, Shard

if TYPE_CHECKING:
    from torch.distributed.device_mesh import DeviceMesh

_TO_TORCH = {
    Reduction.SUM: "sum",
    Reduction.AVG: "avg",
    Reduction.MAX: "max",
    Reduction.MIN: "min",
    Reduction.PROD: "product",
}
_FROM_TORCH = {name: reduction for reduction, name in _TO_TORCH.items()}


class PlacementError(DimsolveError):
    """A placement that the other side has no word for."""


NO_AXIS_NAMES = Problem(
    MeshError,
    "no-axis-names",
    "the axes of a mesh have no names",
    "a DeviceMesh of shape {shape} has no mesh_dim_names",
    'write init_device_mesh("cpu", (2, 4), mesh_dim_names=("dp", "tp"))',
)
SYMBOLIC_MESH = Problem(
    MeshError,
    "symbolic-mesh",
    "the mesh has a symbol for a size",
    "the mesh is {mesh}; a DeviceMesh needs numbers",
    "give every axis a number of ranks",
)
NO_SUCH = Problem(
    PlacementError, "no-such-placement", "a placement cannot be converted", "{reason}", "{hint}"
)


def to_torch(placement: Placement) -> Any:
    """Returns the placement as torch's. Raises PlacementError for segments, and for blocks whose
    number is a symbol.

    >>> to_torch(Shard(1)), to_torch(Partial(Reduction.PROD))
    (Shard(dim=1), Partial(product))
    """
    import torch.distributed.tensor as dt

    match placement:
        case Replicate():
            return dt.Replicate()
        case Partial(reduction):
            return dt.Partial(_TO_TORCH[reduction])
        case Shard(dim, 1, ()):
            return dt.Shard(dim)
        case Shard(dim, int() as blocks, ()):
            from torch.distributed.tensor.placement_types import _StridedShard

            return _StridedShard(dim, split_factor=blocks)
        case Shard(_, _, ()):
            raise NO_SUCH(
                reason=f"{placement} has {placement.blocks} blocks, a symbol, "
                "and torch needs a number",
                hint="give the symbol its value first",
            )
        case Shard():
            raise NO_SUCH(
                reason="torch cuts a dimension into parts, or each of equal blocks, "
                f"and {placement} is a cut of each of unequal segments",
                hint="a parameter that is held in such parts is saved as S(dim): see state_dict",
            )
        case Grouped():
            raise NO_SUCH(
                reason=f"which rows a rank has of {placement} is known when it runs",
                hint="convert the placements of parameters, inputs and outputs",
            )
        case _:
            assert_never(placement)


def from_torch(placement: Any, *, ndim: int | None = None) -> Placement:
    """Returns one of torch's placements as ours. ndim: of the tensor, which a negative dimension is
    counted from. Raises PlacementError for a reduction that we do not have, such as a norm.

    >>> import torch.distributed.tensor as dt
    >>> print(from_torch(dt.Shard(-1), ndim=3), from_torch(dt.Partial("max")))
    S(2) P(max)
    """
    import torch.distributed.tensor as dt
    from torch.distributed.tensor.placement_types import _StridedShard

    match placement:
        case dt.Replicate():
            return Replicate()
        case _StridedShard():
            return Shard(_dim(placement, ndim), int(placement.split_factor))
        case dt.Shard():
            return Shard(_dim(placement, ndim))
        case dt.Partial() if type(placement) is dt.Partial:
            if placement.reduce_op in _FROM_TORCH:
                return Partial(_FROM_TORCH[placement.reduce_op])
            raise NO_SUCH(
                reason=f"{placement!r} joins its parts by {placement.reduce_op!r}",
                hint=f"known are {', '.join(_FROM_TORCH)}",
            )
        case _:
            raise NO_SUCH(
                reason=f"{placement!r:.80} is a {type(placement).__name__}",
                hint="known are Shard, Replicate and Partial of torch.distributed.tensor",
            )


def _dim(placement: Any, ndim: int | None) -> int:
    if placement.dim >= 0:
        return int(placement.dim)
    if ndim is None or placement.dim < -ndim:
        raise NO_SUCH(
            reason=f"{placement!r} counts its dimension from the end"
            + (f", and the tensor has {ndim}" if ndim is not None else ""),
            hint="give the tensor's number of dimensions: from_torch(placement, ndim=3)",
        )
    return int(placement.dim) + ndim


def layout_to_torch(placements: Iterable[Placement]) -> tuple[Any, ...]:
    """Returns the placements along all axes of a mesh, outer axis first, as DTensor takes them."""
    return tuple(to_torch(placement) for placement in placements)


def layout_from_torch(
    placements: Iterable[Any], *, ndim: int | None = None
) -> tuple[Placement, ...]:
    """Returns a DTensor's placements as ours; ``ndim`` as for `from_torch`."""
    return tuple(from_torch(placement, ndim=ndim) for placement in placements)


def mesh_from_torch(mesh: DeviceMesh) -> Mesh:
    """Returns the named axes of a DeviceMesh. Raises MeshError for one without names."""
    names = mesh.mesh_dim_names
    if names is None:
        raise NO_AXIS_NAMES(shape=tuple(mesh.shape))
    return Mesh.of(dict(zip(names, mesh.shape, strict=True)))


def mesh_to_torch(mesh: Mesh, device_type: str = "cpu") -> DeviceMesh:
    """Returns the mesh as a DeviceMesh over all ranks of the process group, which must have as
    many. Raises MeshError for sizes that are symbols.
    """
    from torch.distributed.device_mesh import init_device_mesh

    sizes = [size for _, size in mesh.axes]
    numbers = tuple(size for size in sizes if isinstance(size, int))
    if len(numbers) != len(sizes):
        raise SYMBOLIC_MESH(mesh=mesh)
    return init_device_mesh(device_type, numbers, mesh_dim_names=mesh.names)
