"""How the ranks are given the inputs of a call, and what of it must be equal on which ranks.

plan over dp=2, tp=2: input_ids (8, 128) cut S(0), R;  mask (128, 128) cut nowhere

                 inputs="whole"             inputs="local"
    input_ids    (8, 128) on every rank     (4, 128), the same where dp is the same
    mask         (128, 128) on every rank   (128, 128) on every rank

A DTensor says itself which part of which whole it is, in either; for each way in which inputs are
cut there is a program, and the conversion is part of it:

    x (8, 64), Shard(0) on the plan's dp = 2      the program takes the part (4, 64) as it is
    x (8, 64), Replicate()                        the program cuts its part of (8, 64)
    x (8, 64), Shard(1)                           the program exchanges (8, 32) for (4, 64)
    keys (8, 3, 16, 64), Shard(1) on tp = 2       2 heads and 1: the program takes them as they are

What must be equal is compared by `digests` in some of the calls (`is_compared`); between these
nothing is sent.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from hashlib import blake2b
from itertools import product
from math import prod
from struct import pack, unpack
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import torch
from torch import Tensor

from dimsolve.ir.errors import Diagnostic, DimsolveError, Problem
from dimsolve.partition.layout import Layout
from dimsolve.partition.placement import Placement, Replicate, Shard
from dimsolve.partition.plan import Plan
from dimsolve.partition.torch_placements import layout_from_torch

from ..distributed.communicator import Communicator
from ..distributed.digests import digest
from ..distributed.sharding import blocks_of
from ..lowering.lower import lower
from ..lowering.program import Program
from ..lowering.setting import Returned, mesh_sizes, placement_of
from ..lowering.values import labelled
from .call_inputs import CallError
from .mesh import RankMesh

if TYPE_CHECKING:
    from torch.distributed.device_mesh import DeviceMesh

Way: TypeAlias = Literal["whole", "local"]
Randomness: TypeAlias = Literal["ranks", "one-device"]
Coordinates: TypeAlias = Mapping[str, int]

FIRST = 4
"""The contents are compared in so many of the first calls, ..."""

EVERY = 1024
"""... then in those whose number is a power of two, and in every one of so many."""

_SHOWN = 8
"""So many ranks are listed in an error."""


_OTHER_MESH = Problem(
    CallError,
    "other-mesh",
    "{name} is a DTensor of another mesh",
    "its mesh has the shape {mesh}, the axes {mesh2} and the ranks {mesh3}; the plan's "
    "mesh is {own}",
    "make it on part.device_mesh, or give the whole: {name}.full_tensor()",
)
_UNEQUAL = Problem(
    CallError,
    "unequal-parts",
    "{name} is a DTensor of unequal parts",
    "dimension {dim} of {shape} is cut into {parts} along several axes or in blocks, and "
    "{shape2} is no multiple of {parts}",
    "give the whole: {name}.full_tensor()",
)


def is_compared(call: int) -> bool:
    """Whether the contents of the inputs are compared in this call, counted from 1.

    >>> [call for call in range(1, 70) if is_compared(call)]
    [1, 2, 3, 4, 8, 16, 32, 64]
    >>> is_compared(3 * EVERY)
    True
    """
    return call <= FIRST or call & (call - 1) == 0 or call % EVERY == 0


@dataclass(frozen=True)
class GivenInputs:
    """How each input is given.

    way: what the caller chose for tensors that are no DTensors. mesh: sizes by axis, outer axis
    first. data_axes: of the plan. layouts: by the input's name, one placement per axis. dealt: the
    names of DTensors of which ranks have unequal parts.
    """

    way: Way
    mesh: Mapping[str, int]
    data_axes: tuple[str, ...]
    layouts: Mapping[str, Layout]
    dealt: frozenset[str] = frozenset()

    @classmethod
    def of(cls, plan: Plan, communicators: Mapping[str, Communicator], way: Way) -> GivenInputs:
        """Returns how the inputs of a plan's graph are given.

        A loader makes all inputs alike: one that the plan wants whole on every rank, or that
        nothing uses, is given in parts too where it has a dimension that others are cut by, and
        the program gathers it. A length that is no symbol says so only of what nothing uses:
        a table of 8 rows may stand beside a batch of 8.
        """
        mesh = {axis: communicators[axis].size for axis in plan.mesh}
        symbols = tuple(mesh_sizes(plan, communicators).items())
        inputs = [entry for entry in plan.inputs if entry.kind == "input"]
        wanted = {e.name: tuple(placement_of(t, symbols) for t in e.placements) for e in inputs}
        used = {operand.value for each in plan.operators for operand in each.operands}
        used |= {output.value for output in plan.outputs}
        layouts: dict[str, list[Placement]] = {e.name: [Replicate()] * len(mesh) for e in inputs}
        for number, axis in enumerate(mesh):
            if way == "whole" or axis not in plan.data_axes:
                continue
            lengths = set()
            for entry in inputs:
                placement = wanted[entry.name][number]
                if isinstance(placement, Shard):
                    layouts[entry.name][number] = placement
                    lengths.add((entry.whole or [])[placement.dim])
            for entry in inputs:
                if isinstance(wanted[entry.name][number], Shard):
                    continue
                for dim, length in enumerate(entry.whole or []):
                    named = length is not None and not length.isdecimal()
                    if length in lengths and (named or entry.value not in used):
                        layouts[entry.name][number] = Shard(dim)
                        break
        found = {name: tuple(layout) for name, layout in layouts.items()}
        return cls(way, mesh, plan.data_axes, found)

    def whole(self, name: str, shape: Sequence[int]) -> tuple[int, ...]:
        """Returns the shape of the whole input of which a rank was given a part of this shape."""
        found = list(shape)
        for placement, count in zip(self.layouts[name], self.mesh.values(), strict=True):
            if isinstance(placement, Shard) and placement.dim < len(found):
                dealt = name in self.dealt and isinstance(placement.of, int) and placement.of
                found[placement.dim] = dealt or found[placement.dim] * count
        return tuple(found)

    def compared(self, name: str, shape: Sequence[int]) -> tuple[int, ...]:
        """Returns what must be the same on all ranks: the shape of what a rank was given, or of the
        whole where the parts are unequal.
        """
        return self.whole(name, shape) if name in self.dealt else tuple(shape)

    def wholes(self, tensors: Mapping[str, Tensor]) -> dict[str, tuple[int, ...]]:
        """Returns the shapes of the whole inputs of which a rank was given these."""
        return {name: self.whole(name, tensor.shape) for name, tensor in tensors.items()}

    def rows(self, shapes: Mapping[str, Sequence[int]]) -> dict[int, int]:
        """Returns how many ranks give parts of the first dimension, by the length of a part."""
        found: dict[int, int] = {}
        for name, shape in shapes.items():
            if shape and self.is_cut(name, 0):
                found[shape[0]] = self.whole(name, shape)[0] // shape[0]
        return found

    def with_layouts(self, layouts: Mapping[str, Layout]) -> GivenInputs:
        """Returns the same with the layouts of some inputs that are DTensors."""
        dealt = {
            name
            for name, layout in layouts.items()
            if any(isinstance(placement, Shard) and placement.of for placement in layout)
        }
        return replace(self, layouts={**self.layouts, **layouts}, dealt=frozenset(dealt))

    def cut_along(self, name: str) -> tuple[str, ...]:
        """Returns the axes along which ranks are given different parts of an input."""
        return tuple(
            axis
            for (axis, count), placement in zip(self.mesh.items(), self.layouts[name], strict=True)
            if not isinstance(placement, Replicate) and count > 1
        )

    def is_cut(self, name: str, dim: int) -> bool:
        """Whether ranks are given different parts of a dimension of an input."""
        return any(isinstance(p, Shard) and p.dim == dim for p in self.layouts[name])

    def unequal_lengths(
        self, shapes: Mapping[int, Mapping[str, Sequence[int]]]
    ) -> Diagnostic | None:
        """Returns the error of parts whose lengths differ between ranks where an input is cut; None
        where there is none, or where shapes differ in anything else as well.

        shapes: by rank and name.
        """
        first = next(iter(shapes.values()))
        if any(given.keys() != first.keys() for given in shapes.values()):
            return None
        for name in first:
            found = {rank: tuple(given[name]) for rank, given in shapes.items()}
            if len({len(shape) for shape in found.values()}) > 1:
                return None
            for dim in range(len(first[name])):
                lengths = {rank: shape[dim] for rank, shape in found.items()}
                if len(set(lengths.values())) > 1:
                    return self._unequal(name, dim, lengths) if self.is_cut(name, dim) else None
        return None

    def _unequal(self, name: str, dim: int, lengths: Mapping[int, int]) -> Diagnostic:
        listed = ", ".join(f"rank {r}: {n}" for r, n in [*lengths.items()][:_SHOWN])
        more = f" and {len(lengths) - _SHOWN} more" if len(lengths) > _SHOWN else ""
        axes = [
            axis
            for axis, placement in zip(self.mesh, self.layouts[name], strict=True)
            if isinstance(placement, Shard) and placement.dim == dim
        ]
        return Diagnostic(
            code="lengths-differ",
            title=f"the ranks' parts of {name} have different lengths",
            reason=f"dimension {dim}: {listed}{more}; the plan cuts it along {' and '.join(axes)} "
            "into equal parts",
            hint="give parts of one length on all ranks: DataLoader(..., drop_last=True) drops a "
            "batch that is not full",
        )

    def places(self, ranks: Sequence[int]) -> dict[int, Coordinates]:
        """Returns the coordinates of the ranks of the mesh, which stand in its order."""
        found = product(*(range(size) for size in self.mesh.values()))
        return {
            rank: dict(zip(self.mesh, place, strict=True))
            for rank, place in zip(ranks, found, strict=True)
        }

    def different_contents(
        self, told: Mapping[int, Mapping[str, object]], places: Mapping[int, Coordinates]
    ) -> Diagnostic | None:
        """Returns the error of inputs that must be equal on ranks and are not.

        told: every rank's digests by input. places: every rank's coordinates, on the axes of the
        mesh and on others that there may be; ranks that differ on those have nothing in common.
        """
        lines, wholes = [], []
        for name in self.layouts:
            cut = set(self.cut_along(name))
            groups: dict[tuple[tuple[str, int], ...], list[int]] = {}
            for rank, place in places.items():
                if name in told.get(rank, {}):
                    own = {a: i for a, i in place.items() if a in cut or a not in self.mesh}
                    groups.setdefault(tuple(own.items()), []).append(rank)
            for where, ranks in groups.items():
                others = [r for r in ranks if told[r][name] != told[ranks[0]][name]]
                if others:
                    own = {axis: index for axis, index in where if axis in self.mesh}
                    lines.append(_line(name, ranks[0], others, own))
                    wholes += [] if cut else [name]
                    break
        return self._different(lines, wholes) if lines else None

    def _different(self, lines: list[str], wholes: Sequence[str]) -> Diagnostic:
        data = " and ".join(self.data_axes)
        if self.way == "local":
            others = " and ".join(axis for axis in self.mesh if axis not in self.data_axes)
            same = f"ranks that differ along {others} only give the same parts, and " * bool(others)
            lines.append(f"{same}what is not cut along {data} is the same on all ranks")
            hint = f"give the same {' and '.join(wholes)} on all ranks"
            if not wholes:
                hint = "let the sampler count ranks along the data axes only: DistributedSampler("
                hint += "data, mesh.size(), mesh.get_local_rank()), where mesh is "
                hint += f'part.device_mesh["{self.data_axes[0]}"]'
        elif self.data_axes:
            lines.append(f"every rank gives the whole batch, and takes its own part along {data}")
            hint = "give the same batch on all ranks; or, where each rank is to give its own part, "
            hint += 'as a DistributedSampler draws it, dimsolve.parallelize(..., inputs="local")'
        else:
            axes = " and ".join(self.mesh)
            lines.append(f"the plan cuts no data: all ranks along {axes} work on the same batch")
            hint = "give the same batch on all ranks; dimsolve.parallelize(..., "
            hint += 'inputs="local") is for plans that cut the batch, such as those over '
            hint += "{'dp': 2}"
        return Diagnostic(
            code="inputs-differ",
            title="the ranks are called with different inputs",
            reason="\n  ".join(lines),
            hint=hint,
        )

    def unusual(self) -> str:
        """Returns in words where parts are parts of another dimension than the first, which is what
        loaders cut; "" where there are none.
        """
        found = [
            f"dimension {placement.dim} of {name} along {axis}"
            for name, layout in self.layouts.items()
            for axis, placement in zip(self.mesh, layout, strict=True)
            if self.way == "local" and isinstance(placement, Shard) and placement.dim != 0
        ]
        return " and ".join(found)

    def in_words(self, error: DimsolveError, shapes: Mapping[str, Sequence[int]]) -> DimsolveError:
        """Returns the error of the whole inputs' sizes with how they follow from what was given."""
        parts, wholes = [], []
        for name, shape in shapes.items():
            if name in self.dealt:
                continue
            if self.cut_along(name):
                axes = " and ".join(self.cut_along(name))
                whole = self.whole(name, shape)
                parts.append(f"{name} {tuple(shape)} is the part along {axes} of {whole}")
            else:
                wholes.append(name)
        if not parts:
            return error
        said = "; ".join(parts)
        if wholes:
            is_cut = "is not cut, and is" if len(wholes) == 1 else "are not cut, and are"
            said += f"; {', '.join(wholes)} {is_cut} given whole on every rank"
        found = error.diagnostic
        made = type(error)(replace(found, reason=f"{found.reason}\n  as it was given, {said}"))
        made.__dict__.update({k: v for k, v in error.__dict__.items() if k != "diagnostic"})
        return made


def _line(name: str, first: int, others: Sequence[int], where: Mapping[str, int]) -> str:
    place = ", ".join(f"{axis}={index}" for axis, index in where.items())
    both = f": {'all' if len(others) > 1 else 'both'} at {place}" if place else ""
    return f"{name} on {_ranks(others)} is not what it is on rank {first}{both}"


def _ranks(ranks: Sequence[int]) -> str:
    """
    >>> _ranks([1]), _ranks([1, 2, 5]), _ranks(range(1, 12))
    ('rank 1', 'ranks 1, 2 and 5', 'ranks 1, 2, 3, 4, 5, 6, 7, 8 and 3 more')
    """
    if len(ranks) == 1:
        return f"rank {ranks[0]}"
    shown = [str(rank) for rank in ranks[:_SHOWN]]
    last = f"{len(ranks) - _SHOWN} more" if len(ranks) > _SHOWN else shown.pop()
    return f"ranks {', '.join(shown)} and {last}"


def text_of(shapes: Mapping[str, Sequence[int]]) -> str:
    """Returns shapes by name in one line."""
    return ", ".join(f"{name} {tuple(shape)}" for name, shape in shapes.items())


def layout_text(layout: Layout) -> str:
    """Returns a layout in one line."""
    return ", ".join(map(str, layout))


@dataclass(eq=False)
class Form:
    """One way in which inputs are given, and its program.

    layouts: of the DTensors, by name. admitted: the sizes and dtypes that all ranks agreed on.
    fitting: those that the plan is known to have been made for.
    """

    program: Program
    given: GivenInputs
    layouts: Mapping[str, Layout] = field(default_factory=dict)
    admitted: set[Any] = field(default_factory=set)
    fitting: set[Any] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.text = "; ".join(f"{n} {layout_text(each)}" for n, each in self.layouts.items())


def lower_for(
    plan: Plan,
    ends: RankMesh,
    given: GivenInputs,
    *,
    stored: Mapping[str, Layout] | None = None,
    returned: Returned | None = None,
    randomness: Randomness = "ranks",
) -> Program:
    """Returns this rank's program for inputs that are given so. The plan has its graph.

    stored, returned, randomness: as of `dimsolve.exec.lowering.lower.lower`.
    """
    graph = plan.planned
    assert graph is not None
    kept = plan.data_axes if given.way == "local" else ()
    return lower(
        graph,
        plan,
        ends.communicators,
        device=ends.device,
        given=given.layouts,
        kept=kept,
        stored=stored,
        returned=returned,
        randomness=randomness,
    )


def told_by_all(
    tensors: Mapping[str, Tensor], state: Sequence[float], ends: RankMesh
) -> tuple[dict[int, dict[str, int]], dict[int, list[float]]]:
    """Returns a number for each tensor's dtype, shape and values on every rank of the mesh, whose
    ranks call this together, and the numbers of their states. What they wait for is a collective,
    as any that a program begins with.
    """
    codes = [blake2b(digest(each).encode(), digest_size=8).digest() for each in tensors.values()]
    own = [int.from_bytes(code, "big", signed=True) for code in codes]
    own += [int.from_bytes(pack(">d", number), "big", signed=True) for number in state]
    table = torch.tensor(own, dtype=torch.int64, device=ends.device)
    for end in reversed(tuple(ends.communicators.values())):
        table = labelled(end, "the comparison of inputs").all_gather(table)
    ranks = range(ends.count) if ends.mesh is None else ends.mesh.mesh.flatten().tolist()
    rows = dict(zip(ranks, table.view(ends.count, len(own)).tolist(), strict=True))
    contents = {rank: dict(zip(tensors, row, strict=False)) for rank, row in rows.items()}
    states = {
        rank: [unpack(">d", each.to_bytes(8, "big", signed=True))[0] for each in row[len(codes) :]]
        for rank, row in rows.items()
    }
    return contents, states


def is_dtensor(value: Tensor) -> bool:
    """Whether a tensor is a DTensor."""
    from torch.distributed.tensor import DTensor

    return isinstance(value, DTensor)


def local_parts(
    inputs: Sequence[Tensor], names: Sequence[str], ends: RankMesh
) -> tuple[list[Tensor], dict[str, Layout]]:
    """Returns the tensors with each DTensor as this rank's part, and the DTensors' layouts on the
    mesh of ``ends``. Raises CallError for one of another mesh, or of unequal parts along two axes
    or in blocks, and PlacementError for a placement that is no shard, replica or partial value.
    """
    parts = list(inputs)
    layouts: dict[str, Layout] = {}
    for place, (name, value) in enumerate(zip(names, inputs, strict=True)):
        if is_dtensor(value):
            layouts[name] = _layout(name, value, ends)
            part: Any = value.to_local()  # type: ignore[attr-defined]
            parts[place] = part.wait() if hasattr(part, "wait") else part
    return parts, layouts


def _layout(name: str, value: Any, ends: RankMesh) -> Layout:
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
        cuts = [
            (place, count * blocks_of(placement))
            for place, (placement, count) in enumerate(zip(layout, counts.values(), strict=True))
            if isinstance(placement, Shard) and placement.dim == dim and count > 1
        ]
        parts = prod(number for _, number in cuts)
        if length % parts == 0:
            continue
        place, shard = cuts[0][0], layout[cuts[0][0]]
        if len(cuts) > 1 or not isinstance(shard, Shard) or not shard.contiguous:
            raise _UNEQUAL(name=name, dim=dim, shape=tuple(value.shape), parts=parts, shape2=length)
        layout = (*layout[:place], replace(shard, of=length), *layout[place + 1 :])
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
    return _OTHER_MESH(
        name=name,
        mesh=tuple(mesh.shape),
        mesh2=mesh.mesh_dim_names or "without names",
        mesh3=mesh.mesh.flatten().tolist(),
        own=", ".join((f"{axis}={count}" for axis, count in counts.items())),
    )
