"""This rank's ends of a plan's mesh: a communicator for every axis, and the device it works on.

plan for dp=2, tp=2, no mesh given        a DeviceMesh of all 4 ranks, rank = 2*dp + tp
plan for tp=1, no process group           this process alone
"""

from __future__ import annotations

import os
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from math import prod
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

import torch
import torch.distributed as dist
from torch import Tensor

from dimsolve.ir.errors import AnnotationError, Problem
from dimsolve.partition.placement import Reduction
from dimsolve.partition.plan import Plan
from dimsolve.solver.algebra.dims import evaluate, symbols_of

from ..distributed.communicator import Communicator, communicators_of, end_text
from ..distributed.failures import rank_failure
from ..distributed.watch import chosen_timeout, watch
from ..lowering.setting import LoweringError, dim_of, other_mesh

if TYPE_CHECKING:
    from torch.distributed.device_mesh import DeviceMesh


_BAD_VARIABLE = Problem(
    AnnotationError,
    "launcher-variable",
    "the environment variable {name} does not say where this process stands",
    "{reason}",
    "start the ranks with torchrun, which sets it, or unset RANK to run without one",
)
_NOT_STARTED = Problem(
    LoweringError,
    "not-started",
    "the plan is for {sizes} ranks, and this process runs alone",
    "its mesh is {mesh}, and torch.distributed has no process group",
    "start the ranks with dimsolve run or torchrun",
)
WRONG_WORLD = Problem(
    LoweringError,
    "wrong-world",
    "the plan is for {sizes} ranks, and {world} are running",
    "its mesh is {mesh}",
    "start {sizes} ranks, or plan for a mesh of {world}",
)
_NO_AXIS = Problem(
    LoweringError,
    "no-such-axis",
    "the device mesh has no axis named {axis}",
    "its axes are {names}",
    "init_device_mesh(..., mesh_dim_names=(..., '{axis}', ...))",
)


@dataclass(frozen=True)
class RankMesh:
    """``mesh``: of the plan's axes; None where this process runs alone."""

    communicators: Mapping[str, Communicator]
    device: torch.device
    mesh: DeviceMesh | None = None

    @property
    def count(self) -> int:
        """How many ranks the mesh has."""
        return prod(end.size for end in self.communicators.values())

    @property
    def rank(self) -> int:
        """This rank among them; the last axis counts fastest."""
        number = 0
        for end in self.communicators.values():
            number = number * end.size + end.rank
        return number

    @property
    def place(self) -> str:
        """This rank in words: ``rank 3 (dp=1, tp=1)``."""
        places = ", ".join(f"{axis}={end.rank}" for axis, end in self.communicators.items())
        return f"rank {self.rank} ({places})" if places else f"rank {self.rank}"


class Alone:
    """A `Communicator` of one rank: what it sends is copied, and comes back."""

    rank = 0
    size = 1

    def __repr__(self) -> str:
        return end_text(self)

    def all_reduce(self, tensor: Tensor, reduction: Reduction = Reduction.SUM) -> Tensor:
        return tensor.detach().clone()

    def all_gather(self, tensor: Tensor) -> Tensor:
        return tensor.detach().clone().unsqueeze(0)

    def reduce_scatter(self, tensor: Tensor, reduction: Reduction = Reduction.SUM) -> Tensor:
        return tensor[0].detach().clone()

    def all_to_all(self, tensor: Tensor) -> Tensor:
        return tensor.detach().clone()

    def exchange(self, rows: Tensor, given: Sequence[int], got: Sequence[int]) -> Tensor:
        return rows.detach().clone()

    def broadcast(self, tensor: Tensor, root: int) -> Tensor:
        return tensor.detach().clone()


def rank_mesh(
    plan: Plan, device_mesh: DeviceMesh | None = None, *, alone_on: torch.device | None = None
) -> RankMesh:
    """Returns this rank's ends; LoweringError where the ranks that are there are not the plan's.

    alone_on: the device of a process that runs alone.
    """
    if device_mesh is None and not dist.is_initialized() and "RANK" not in os.environ:
        sizes = _sizes(plan, 1)
        if prod(sizes.values()) != 1:
            raise _NOT_STARTED(
                sizes=prod(sizes.values()),
                mesh=", ".join((f"{axis}={size}" for axis, size in sizes.items())),
            )
        return RankMesh({axis: Alone() for axis in sizes}, alone_on or default_device())
    if device_mesh is None:
        return _of_all_ranks(plan)
    device_mesh = _factored(plan, device_mesh)
    names = device_mesh.mesh_dim_names or ()
    missing = [axis for axis in plan.mesh if axis not in names]
    if missing:
        raise _NO_AXIS(axis=missing[0], names=", ".join(names) or "not named")
    axes = tuple(plan.mesh)
    own = device_mesh if names == axes else device_mesh[axes]
    ends = communicators_of(own)
    return RankMesh(ends, _device(own.device_type), own)


def _factored(plan: Plan, mesh: DeviceMesh) -> DeviceMesh:
    """The mesh whose axes that the plan sees as several are several. All its ranks call it."""
    for axis, parts in plan.factors.items():
        names = mesh.mesh_dim_names or ()
        if axis in names and not set(parts) & set(names):
            sizes = tuple([int(plan.mesh[part]) for part in parts])
            if prod(sizes) != mesh.size(names.index(axis)):
                raise other_mesh(
                    plan,
                    dict(zip(names, mesh.shape, strict=True)),
                    f"the axis {axis} has {mesh.size(names.index(axis))} ranks, and the plan sees "
                    f"it as {' times '.join(map(str, sizes))}",
                )
            mesh = mesh._unflatten(axis, sizes, tuple(parts))
    return mesh


def _of_all_ranks(plan: Plan) -> RankMesh:
    if not dist.is_initialized():
        check_launcher()
    world = dist.get_world_size() if dist.is_initialized() else launcher_number("WORLD_SIZE") or 1
    sizes = _sizes(plan, world)
    if prod(sizes.values()) != world:
        raise WRONG_WORLD(
            sizes=prod(sizes.values()),
            world=world,
            mesh=", ".join((f"{axis}={size}" for axis, size in sizes.items())),
        )
    device = default_device()
    if device.type == "cuda":
        torch.cuda.set_device(device)
    mesh = _mesh(device.type, sizes)
    return RankMesh(communicators_of(mesh), device, mesh)


def _mesh(device: str, sizes: Mapping[str, int]) -> DeviceMesh:
    """A mesh of all ranks, the last axis counting fastest. Parts whose axes join the same ranks
    share their process groups: gloo's threads, and NCCL's memory on the GPU, are per group.

    No rank waits longer for the groups than for anything else: `init_device_mesh` cannot be told
    how long to wait. It is taken where groups are split off an NCCL communicator, or none is made.
    """
    from torch.distributed.device_mesh import DeviceMesh, init_device_mesh

    guard = watch()
    several = sum(size > 1 for size in sizes.values()) > 1
    splits = dist.is_initialized() and getattr(dist.group.WORLD, "bound_device_id", None)
    if guard is None or not several or splits:
        return init_device_mesh(device, tuple(sizes.values()), mesh_dim_names=tuple(sizes))
    limit = guard.timeout or chosen_timeout()
    ranks = torch.arange(prod(sizes.values())).view(*sizes.values())
    groups = []
    try:
        for number, (axis, size) in enumerate(sizes.items()):
            rows = ranks.movedim(number, -1).reshape(-1, size).tolist()
            guard.wait_in(f"the making of the process groups along {axis}", time.monotonic())
            groups.append(_group(rows, axis, limit))
    except RuntimeError as error:
        here = guard.waits
        blamed = guard.blame(here, guard.waited())
        if blamed is None or blamed.rank == guard.rank:
            raise
        raise rank_failure(blamed, f"rank {guard.rank}: {here}") from error
    guard.waits = ""
    return DeviceMesh.from_group(groups, device, ranks, mesh_dim_names=tuple(sizes))


_groups: WeakKeyDictionary[Any, dict[object, Any]] = WeakKeyDictionary()
"""The groups that were made, by the process group of all ranks that they are of."""


def _group(rows: Sequence[Sequence[int]], axis: str, limit: float | None) -> Any:
    """This rank's group of those that stand along an axis; every rank makes them all."""
    made = _groups.setdefault(dist.group.WORLD, {})
    key = (tuple(map(tuple, rows)), limit)
    if key not in made:
        wait = None if limit is None else timedelta(seconds=limit)
        for row in rows:
            group = dist.new_group(row, timeout=wait, group_desc=f"mesh_{axis}")
            if dist.get_rank() in row:
                made[key] = group
    return made[key]


def default_device() -> torch.device:
    """Returns the GPU of this process where there is one and the ranks talk through it, else the
    CPU.
    """
    backend = dist.get_backend() if dist.is_initialized() else "nccl"
    if torch.cuda.is_available() and "nccl" in backend:
        given = launcher_number("LOCAL_RANK")
        local = torch.cuda.current_device() if given is None else given
        return torch.device("cuda", local % torch.cuda.device_count())
    return torch.device("cpu")


_LEAST = {"WORLD_SIZE": 1, "RANK": 0, "LOCAL_RANK": 0, "LOCAL_WORLD_SIZE": 1, "MASTER_PORT": 1}
"""The variables of a launcher, and the least number that each can be."""

MAX_PORT = 65535


def check_launcher() -> None:
    """Raises AnnotationError where RANK is set, and another variable that belongs to it is not, or
    one is no number, or a number that cannot be.
    """
    if "RANK" not in os.environ:
        return
    for name in ("WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"):
        if not os.environ.get(name):
            raise _BAD_VARIABLE(
                name=name, reason=f"RANK is {os.environ['RANK']!r}, and {name} is not set"
            )
    world = launcher_number("WORLD_SIZE")
    for name in _LEAST:
        number = launcher_number(name)
        if name == "RANK" and world is not None and number is not None and number >= world:
            reason = f"RANK is {number}; it can be 0 to {world - 1} where WORLD_SIZE is {world}"
            raise _BAD_VARIABLE(name=name, reason=reason)


def launcher_number(name: str) -> int | None:
    """Returns what the launcher has put into a variable of the environment; None: it is not set.
    Raises AnnotationError where it is no number, or one that cannot be.
    """
    text = os.environ.get(name)
    if text is None:
        return None
    plain = text.strip()
    if not (plain.isascii() and plain.isdecimal()):
        raise _BAD_VARIABLE(
            name=name, reason=f"{name} is {text!r}, which is not a whole number from 0"
        )
    number, least = int(plain), _LEAST[name]
    if number < least or (name == "MASTER_PORT" and number > MAX_PORT):
        upto = f"to {MAX_PORT}" if name == "MASTER_PORT" else "or more"
        raise _BAD_VARIABLE(name=name, reason=f"{name} is {number}; it can be {least} {upto}")
    return number


def _device(type: str) -> torch.device:
    return default_device() if type == "cuda" else torch.device(type)


def _sizes(plan: Plan, world: int) -> dict[str, int]:
    """The sizes of the axes; one that is a symbol takes what the others leave."""
    dims = {axis: dim_of(text) for axis, text in plan.mesh.items()}
    known = prod(dim for dim in dims.values() if isinstance(dim, int))
    names = sorted({name for dim in dims.values() for name in symbols_of(dim)})
    values = {name: max(world // known, 1) if len(names) == 1 else 1 for name in names}
    return {axis: evaluate(dim, values) for axis, dim in dims.items()}
