"""A model's parameters and buffers on one rank: made, saved as DTensors, loaded from anything.

    q_proj.weight (64, 64), S(0) over tp = 2        rank 1 has rows 32 to 64, a (32, 64) parameter
    qkv.weight (192, 64), S(0, blocks=3)            rank 1 has rows 32-64, 96-128 and 160-192
    state_dict()["q_proj.weight"]                   a DTensor of the whole, in the part's memory
    load_state_dict(whole.state_dict())             every rank takes its part

Names, tied parameters and buffers that are not saved are as in the model. A DTensor's own
placements say the first cut. The second is torch's ``_StridedShard``, which torch can gather but
whose checkpoint would write one run of rows: `PartTensor` writes and reads every run. Unequal
segments have no placement in torch: their DTensor is cut in one run a rank, and made by exchanging
parts.

Parameters on the meta device are made one module at a time, by the module itself
(``reset_parameters``, or transformers' ``_init_weights``), with random numbers that are the same on
all ranks and for every mesh. What no module makes must be loaded before the first step.

``copy.deepcopy(part)`` shares the plan and the process groups and trains by itself; it runs
collectives as its original does, so every rank copies, and calls both in one order.
"""

from __future__ import annotations

import copy
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import TYPE_CHECKING, Any, TypeAlias

import torch
from torch import Tensor
from torch.distributed.checkpoint.metadata import (
    ChunkStorageMetadata,
    MetadataIndex,
    TensorProperties,
)
from torch.distributed.checkpoint.planner import TensorWriteData, WriteItem, WriteItemType
from torch.distributed.tensor import DTensor

from dimsolve.ir.errors import DimsolveError, Problem
from dimsolve.partition.placement import Placement, Replicate, Shard
from dimsolve.partition.torch_placements import layout_to_torch

from ..distributed.collectives import convert_axes
from ..distributed.communicator import Communicator, common_number, end_text
from ..distributed.sharding import blocks_of, local_part, number_of, run_of
from ..lowering.setting import LoweringError
from .mesh import RankMesh
from .same_model import part_module

if TYPE_CHECKING:
    from torch.distributed.device_mesh import DeviceMesh


_NO_VALUES = Problem(
    LoweringError,
    "no-values",
    "{name} is on the meta device and nothing makes its values",
    "{module} has no reset_parameters that makes it, and no state_dict holds it",
    "make the model's buffers on the CPU, or give the module reset_parameters",
)
_OTHER_SHAPE = Problem(
    LoweringError,
    "other-shape",
    "{name} has another shape",
    "it is {found}; the whole is {whole} and this rank's part is {shape}",
    "give the whole, as model.state_dict() holds it, a DTensor of it, or this rank's part",
)


@dataclass(frozen=True, slots=True)
class Run:
    """One box of the whole tensor that lies in one box of the part."""

    offsets: tuple[int, ...]
    local: tuple[int, ...]
    sizes: tuple[int, ...]


@dataclass(frozen=True)
class Held:
    """How a tensor is cut. ``placements`` and ``ends``: one per mesh axis, outer axis first."""

    placements: tuple[Placement, ...]
    ends: tuple[Communicator, ...]

    def __str__(self) -> str:
        if self.whole:
            return "whole on every rank"
        return "; ".join(
            f"{placement if isinstance(placement, Shard) else 'whole'} over {end_text(end)}"
            for placement, end in self._cuts()
        )

    def __repr__(self) -> str:
        return f"Held({self})"

    @property
    def whole(self) -> bool:
        """Whether every rank has all of it."""
        return not self.cut_along

    @property
    def cut_along(self) -> tuple[Communicator, ...]:
        """This rank's ends of the axes along which the tensor is in parts, outer axis first."""
        return tuple(e for p, e in self._cuts() if isinstance(p, Shard) and e.size > 1)

    def _cuts(self) -> Iterator[tuple[Placement, Communicator]]:
        return zip(self.placements, self.ends, strict=True)

    def part(self, tensor: Tensor) -> Tensor:
        """Returns this rank's part of the whole tensor, in memory of its own."""
        for placement, end in self._cuts():
            tensor = local_part(tensor, placement, end.rank, end.size)
        return tensor.detach().clone(memory_format=torch.contiguous_format)

    def gathered(self, local: Tensor) -> Tensor:
        """Returns the whole of which the ranks have these parts; all ranks ask together."""
        whole = (Replicate(),) * len(self.placements)
        with torch.no_grad():
            return convert_axes(local.detach(), self.placements, whole, self.ends)

    def whole_shape(self, local: Sequence[int]) -> tuple[int, ...]:
        """Returns the shape of the whole of which a part has this shape."""
        shape = list(local)
        for placement, end in self._cuts():
            if isinstance(placement, Shard):
                length = shape[placement.dim] * end.size
                shape[placement.dim] = number_of(placement.of, placement) or length
        return tuple(shape)

    def runs(self, shape: Sequence[int]) -> list[Run]:
        """Returns the boxes of a whole of this shape that the part consists of."""
        by_dim = [self._runs_of(dim, length) for dim, length in enumerate(shape)]
        return [
            Run(
                tuple(start for start, _, _ in box),
                tuple(local for _, local, _ in box),
                tuple(size for _, _, size in box),
            )
            for box in product(*by_dim)
        ]

    def _runs_of(self, dim: int, length: int) -> list[tuple[int, int, int]]:
        """(start in the whole, start in the part, length) of every run of one dimension."""
        runs = [(0, length)]
        for placement, end in self._cuts():
            if isinstance(placement, Shard) and placement.dim == dim:
                runs = _cut(runs, placement, end.rank, end.size)
        local, found = 0, []
        for start, size in runs:
            found.append((start, local, size))
            local += size
        return found

    @property
    def segmented(self) -> bool:
        """Whether the cut is one that no placement of torch says."""
        return any(
            isinstance(p, Shard) and (p.segments or (p.of and not p.as_torch))
            for p in self.placements
        )

    def dtensor(self, local: Tensor, mesh: DeviceMesh) -> Tensor:
        """Returns a DTensor that shares the part's memory. ``mesh``: of the same axes.

        Of unequal segments it is a copy, and all ranks make it together.
        """
        if self.segmented:
            return self._in_one_run(local, mesh)
        placements = layout_to_torch(self.placements)
        shape = torch.Size(self.whole_shape(local.shape))
        stride = torch.empty(shape, device="meta").stride()
        made: Any = DTensor.from_local(
            local, mesh, placements, run_check=False, shape=shape, stride=stride
        )
        runs = self.runs(shape)
        return part_tensor(made, runs) if len(runs) > 1 else made

    def _in_one_run(self, local: Tensor, mesh: DeviceMesh) -> Tensor:
        """The DTensor of the same whole, cut along the same dimensions, without segments."""
        whole = self.whole_shape(local.shape)
        plain = tuple(
            Shard(p.dim, of=0 if whole[p.dim] % end.size == 0 else whole[p.dim])
            if isinstance(p, Shard) and (p.segments or p.of)
            else p
            for p, end in self._cuts()
        )
        with torch.no_grad():
            part = convert_axes(local.detach(), self.placements, plain, self.ends)
        return Held(plain, self.ends).dtensor(part, mesh)


def _cut(
    runs: Sequence[tuple[int, int]], shard: Shard, rank: int, size: int
) -> list[tuple[int, int]]:
    """What a rank has of runs that together are cut over ``size`` ranks."""
    blocks, segments = blocks_of(shard), shard.segments or (1,)
    total = sum(run for _, run in runs) // (blocks * sum(segments))
    unit = number_of(shard.unit, shard) if shard.of else total // size
    start, length = run_of(shard, rank, size) if shard.of else (rank, 1)
    found: list[tuple[int, int]] = []
    passed = 0
    for segment in segments * blocks:
        first = passed + start * unit * segment
        found.extend(_between(runs, first, first + length * unit * segment))
        passed += segment * total
    joined: list[tuple[int, int]] = []
    for start, run in found:
        if joined and sum(joined[-1]) == start:
            joined[-1] = (joined[-1][0], joined[-1][1] + run)
        else:
            joined.append((start, run))
    return joined


def _between(runs: Sequence[tuple[int, int]], first: int, last: int) -> Iterator[tuple[int, int]]:
    """The places first to last of what the runs are one after another."""
    passed = 0
    for start, run in runs:
        low, high = max(first - passed, 0), min(last - passed, run)
        if low < high:
            yield start + low, high - low
        passed += run


class PartTensor(DTensor):
    """Made by `part_tensor`. ``runs``: where the part lies."""

    runs: tuple[Run, ...]

    def __create_write_items__(self, fqn: str, object: Any) -> list[WriteItem]:
        properties = TensorProperties.create_from_tensor(self._local_tensor)
        return [
            WriteItem(
                index=MetadataIndex(fqn, chunk.offsets),
                type=WriteItemType.SHARD,
                tensor_data=TensorWriteData(chunk=chunk, properties=properties, size=self.size()),
            )
            for chunk in self.__create_chunk_list__()
        ]

    def __create_chunk_list__(self) -> list[ChunkStorageMetadata]:
        return [
            ChunkStorageMetadata(torch.Size(run.offsets), torch.Size(run.sizes))
            for run in self.runs
        ]

    def __get_tensor_shard__(self, index: MetadataIndex) -> Tensor:
        part: Tensor = self._local_tensor
        run = next(run for run in self.runs if torch.Size(run.offsets) == index.offset)
        for dim, (start, size) in enumerate(zip(run.local, run.sizes, strict=True)):
            part = part.narrow(dim, start, size)
        return part


def part_tensor(made: DTensor, runs: Sequence[Run]) -> Tensor:
    """Returns a DTensor that is written and read run by run."""
    make: Any = PartTensor
    part: PartTensor = make(made._local_tensor, made._spec, requires_grad=made.requires_grad)
    part.runs = tuple(runs)
    return part


Found: TypeAlias = "tuple[str, dict[str, Any], str, Tensor]"


def materialized(model: torch.nn.Module, ends: RankMesh) -> Iterator[Found]:
    """Yields (path of the module, its dictionary, name, whole tensor) of everything a model holds.

    Tensors on the meta device are made on the CPU when their turn comes. A tied one comes under
    each of its names; its values are made with the first.
    """
    held = (*model.parameters(), *model.buffers())
    seed = (
        common_number(ends.communicators.values(), ends.device)
        if any(tensor.is_meta for tensor in held)
        else 0
    )
    seen: dict[int, Tensor | None] = {}
    unmade: list[str] = []
    for path, module in model.named_modules():
        own = [
            (owner, name, tensor)
            for owner in (module._parameters, module._buffers)
            for name, tensor in owner.items()
            if tensor is not None
        ]
        values: dict[str, Tensor] = {}
        if any(tensor.is_meta and id(tensor) not in seen for _, _, tensor in own):
            values = _made(model, module, path, seed, unmade)
        for owner, name, tensor in own:
            value = tensor
            if tensor.is_meta and id(tensor) not in seen:
                value = values[name]
            seen[id(tensor)] = None
            yield path, owner, name, value
    if unmade:
        warnings.warn(
            f"no module makes the values of {', '.join(unmade)}: NaN until they are loaded",
            stacklevel=4,
        )


def _made(
    model: torch.nn.Module, module: torch.nn.Module, path: str, seed: int, unmade: list[str]
) -> dict[str, Tensor]:
    """The tensors of one module, made on the CPU by the module itself."""
    alone = copy.copy(module)
    for kind in ("_parameters", "_buffers"):
        empty = {name: _empty(tensor) for name, tensor in getattr(module, kind).items()}
        object.__setattr__(alone, kind, empty)
    before = {name: t._version for name, t in _own(alone)}
    initialise = _initialiser(model, alone)
    if initialise is not None:
        with torch.random.fork_rng(devices=[]), torch.no_grad():
            torch.manual_seed(seed + _number(path))
            initialise()
    for name, tensor in _own(alone):
        original = module._parameters.get(name, module._buffers.get(name))
        if original is not None and original.is_meta and tensor._version == before[name]:
            _unmade(module, path, name, tensor, unmade)
    return dict(_own(alone))


def _empty(tensor: Tensor | None) -> Tensor | None:
    if tensor is None or not tensor.is_meta:
        return tensor
    empty = torch.empty_like(tensor, device="cpu")
    if isinstance(tensor, torch.nn.Parameter):
        return torch.nn.Parameter(empty, requires_grad=tensor.requires_grad)
    return empty


def _own(module: torch.nn.Module) -> Iterator[tuple[str, Tensor]]:
    for owner in (module._parameters, module._buffers):
        yield from ((name, tensor) for name, tensor in owner.items() if tensor is not None)


def _initialiser(model: torch.nn.Module, module: torch.nn.Module) -> Callable[[], object] | None:
    """What gives a module's own tensors their values."""
    by_model: Any = getattr(model, "_init_weights", None)
    if by_model is not None:
        return lambda: by_model(module)
    reset: Any = getattr(module, "reset_parameters", None)
    return reset if callable(reset) else None


def _unmade(
    module: torch.nn.Module, path: str, name: str, tensor: Tensor, unmade: list[str]
) -> None:
    """A tensor that nobody made: NaN says so, where it can be said and loading can fill it in."""
    qualified = f"{path}.{name}" if path else name
    real = tensor.is_floating_point() or tensor.is_complex()
    if name in module._non_persistent_buffers_set or not real:
        raise _NO_VALUES(name=qualified, module=type(module).__name__)
    tensor.detach().fill_(float("nan"))
    unmade.append(qualified)


def _number(path: str) -> int:
    """A number for a module, the same in every process."""
    number = 0
    for character in path:
        number = (number * 31 + ord(character)) % 2**31
    return number


_SHARED = frozenset(
    {"plan", "program", "ends", "_held", "_returned", "_usual", "config", "generation_config"}
)
"""What belongs to the plan and to the world, and not to the parameters."""


class PickleError(DimsolveError, TypeError):
    """A part that was to be pickled."""

    __module__ = "dimsolve"


NOT_PICKLED = Problem(
    PickleError,
    "not-pickled",
    "a part of a model cannot be pickled",
    "it holds process groups, which no other process has",
    "save part.state_dict(), and load it into a part that parallelize makes",
)


def copied(module: Any, memo: dict[int, Any]) -> Any:
    """Returns a part with parameters and buffers of its own. Its optimiser and gradients are not
    copied, as of any module.
    """
    made: Any = object.__new__(type(module))
    memo[id(module)] = made
    for name, value in module.__dict__.items():
        if name not in ("_places", "_shapes", "_moded", "_programs", "_inner"):
            made.__dict__[name] = value if name in _SHARED else copy.deepcopy(value, memo)
    made._inner = {}
    made._programs = module._programs.for_copy(made._add)
    made._know_parameters()
    return made


def add_state(
    module: torch.nn.Module,
    model: torch.nn.Module,
    held: dict[str, Held],
    ends: RankMesh,
    stored: torch.dtype | None = None,
) -> None:
    """Gives ``module`` this rank's part of every parameter and buffer of the model. stored: the
    dtype of real parameters; None: their own.

    ``held`` gains what the plan does not name: it is whole on every rank, and tied names are alike.
    """
    whole = Held((), ())
    made: dict[int, Tensor] = {}
    for path, _ in model.named_modules():
        _owner(module, path, model)
    tied = _tied(model, held)
    for path, owner, name, tensor in materialized(model, ends):
        qualified = f"{path}.{name}" if path else name
        how = held.setdefault(qualified, tied.get(id(owner[name]), whole))
        _owner(module, path, model)
        local = made.get(id(owner[name]))
        if local is None:
            local = _local(tensor, how, ends.device, stored)
            if isinstance(local, torch.nn.Parameter):
                vars(local).update(_marks(owner[name]))
            made[id(owner[name])] = local
        _register(module, model, path, name, local)


def _tied(model: torch.nn.Module, held: Mapping[str, Held]) -> dict[int, Held]:
    """How a tensor is cut, by its identity: a plan names one of the names of a tied parameter."""
    found: dict[int, Held] = {}
    for name, tensor in [
        *model.named_parameters(remove_duplicate=False),
        *model.named_buffers(remove_duplicate=False),
    ]:
        if name in held:
            found[id(tensor)] = held[name]
    return found


def _local(tensor: Tensor, how: Held, device: torch.device, stored: torch.dtype | None) -> Tensor:
    local = how.part(tensor.detach()).to(device)
    if not isinstance(tensor, torch.nn.Parameter):
        return local
    if stored is not None and local.is_floating_point():
        local = local.to(stored)
    return torch.nn.Parameter(local, requires_grad=tensor.requires_grad)


def _marks(parameter: Tensor) -> dict[str, Any]:
    """What a model or a script has noted at a parameter: ``p._no_weight_decay = True``."""
    return {key: x for key, x in vars(parameter).items() if not key.startswith("_dimsolve_")}


def _owner(module: torch.nn.Module, path: str, model: torch.nn.Module) -> torch.nn.Module:
    """The submodule at a path, made where there is none yet, in the mode of the model's own."""
    for place, name in enumerate(path.split(".") if path else ()):
        child = module._modules.get(name)
        if child is None:
            above = ".".join(path.split(".")[: place + 1])
            child = part_module(model.get_submodule(above), above)
            module.add_module(name, child)
        module = child
    return module


def _register(
    module: torch.nn.Module, model: torch.nn.Module, path: str, name: str, local: Tensor
) -> None:
    owner = _owner(module, path, model)
    if isinstance(local, torch.nn.Parameter):
        owner.register_parameter(name, local)
    else:
        original = model.get_submodule(path)
        owner.register_buffer(
            name, local, persistent=name not in original._non_persistent_buffers_set
        )


def give_state(
    module: Any, state: dict[str, Any], prefix: str, local_metadata: Mapping[str, Any]
) -> None:
    """A hook of ``state_dict``: parts become DTensors of the mesh."""
    mesh = module.device_mesh
    if mesh is None:
        return
    for name, held in module._held.items():
        local = state.get(prefix + name)
        if isinstance(local, Tensor) and not isinstance(local, DTensor) and held.placements:
            state[prefix + name] = held.dtensor(local, mesh)


def take_state(
    module: Any,
    state: dict[str, Any],
    prefix: str,
    local_metadata: Mapping[str, Any],
    strict: bool,
    missing_keys: list[str],
    unexpected_keys: list[str],
    error_msgs: list[str],
) -> None:
    """A hook of ``load_state_dict``: whole tensors and DTensors become this rank's parts."""
    for name, held in module._held.items():
        given = state.get(prefix + name)
        if isinstance(given, Tensor):
            path, _, last = name.rpartition(".")
            owner = module.get_submodule(path)
            local = owner._parameters.get(last, owner._buffers.get(last))
            whole = held.whole_shape(local.shape)
            if tuple(given.shape) != whole:
                # In torch's own words; the model's shapes are the whole ones.
                error_msgs.append(
                    f"size mismatch for {prefix}{name}: copying a param with shape {given.shape} "
                    f"from checkpoint, the shape in current model is {torch.Size(whole)}."
                )
                state[prefix + name] = local.detach()
                continue
            state[prefix + name] = part_of_saved(given, held, tuple(local.shape), name)


def part_of_saved(
    saved: Tensor, held: Held, shape: tuple[int, ...], name: str, *, parts: bool = False
) -> Tensor:
    """Returns this rank's part of a saved tensor, which is whole or a DTensor.

    shape: of the part. parts: whether a plain tensor may be the part itself. Raises LoweringError
    for a tensor of another shape.
    """
    if isinstance(saved, DTensor):
        own = isinstance(saved, PartTensor) or saved.to_local().shape == shape
        if own and _same_cut(saved, held):
            return saved.to_local()
        saved = saved.full_tensor()
    if tuple(saved.shape) == held.whole_shape(shape):
        return held.part(saved)
    if parts and tuple(saved.shape) == shape:
        return saved
    raise _OTHER_SHAPE(
        name=name, found=tuple(saved.shape), whole=held.whole_shape(shape), shape=shape
    )


def _same_cut(saved: Any, held: Held) -> bool:
    """Whether a DTensor is cut as this rank holds it."""
    mesh = saved.device_mesh
    if held.segmented or mesh.ndim != len(held.ends):
        return False
    sizes = tuple(end.size for end in held.ends)
    same: Any = held.dtensor(saved.to_local(), mesh) if tuple(mesh.shape) == sizes else None
    if same is None or same.shape != saved.shape:
        return False
    return bool(getattr(same, "placements", None) == saved.placements)
