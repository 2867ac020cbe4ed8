"""How parameters are stored: whole, or cut along an axis and gathered for their use.

    state      a rank has                                   gathered           this is
    whole      parameters, gradients, optimiser states      never              DDP
    optimizer  parameters; parts of the other two           once, and kept     ZeRO-1
    shared     parts of all three                           before each use    ZeRO-3, FSDP

Storage is a placement beside the one that operators use: a weight (1000, 64) that every rank of
dp = 4 uses whole is stored S(0), a (250, 64) on each, and between the two stand an all-gather
forward and a reduce-scatter of its gradient backward. Which dimension is cut follows from the
lengths alone: the first whose largest part is as good as an equal share, else the one whose largest
part is the least.

    (1000, 64) over 4      S(0)
    (50257, 768) over 64   S(0, of=50257)    786 rows, the last rank has fewer
    (3, 1000) over 4       S(1)
    (3,) over 4            whole             it has fewer elements than there are ranks

Parameters that are used one after the other are gathered together, as a block: those of one layer,
as far as they have not more than `CAPACITY` bytes; a larger one is a block by itself, and a region
that is run again has blocks of its own. A parameter that is used in two blocks is gathered in each.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from typing import Any, get_args

from dimsolve.ir.characters import shown
from dimsolve.solver.algebra.poly import Dim
from dimsolve.solver.proof.divisibility import exact_quotient

from ..aliasing import written_by
from ..layout import Layout
from ..mesh import Mesh
from ..placement import Replicate, Shard
from ..plan_data import REAL, Axis, Precision, RegionPlan, State, problem
from ..reshard import item_bytes
from .network import Edge, Network

CAPACITY = 32 * 2**20
"""Bytes of parameters that are gathered together."""

WASTE = 0.01
"""An unequal cut is as good as an equal one where its largest part is larger by at most so much."""

SHARED_AXES = ("fsdp", "dp_shard")
"""Axes whose names begin so share parameters, unless they are told otherwise."""

NO_STATE = problem(
    "no-such-state",
    "there is no such way to store parameters",
    "state is {given}",
    'write "whole", "optimizer" or "shared", for all axes that cut data, or one of them by axis: '
    '{{"dp": "shared"}}',
)
NO_AXIS = problem(
    "no-such-axis",
    "the mesh has no axis named {axis}",
    "state names it, and the axes of the mesh are {axes}",
)
NO_DATA_AXIS = problem(
    "no-data-axis",
    "no axis of the mesh cuts data",
    'state="{state}" stores parameters in parts along the axes that cut data, and along {axes} '
    "the plan cuts parameters, or nothing",
    'name the axis, state={{"{axis}": "{state}"}}, or plan for a data axis as well, such as '
    "{{'dp': 2, 'tp': 2}}",
)

_WORDS = ("whole", *get_args(State))


def states_of(
    state: Any,
    mesh: Mesh,
    data_axes: Sequence[Axis],
    factors: Mapping[Axis, Sequence[Axis]] | None = None,
) -> dict[Axis, State]:
    """Returns how parameters are stored along each axis; one that is not there has them as used.

    state: as `dimsolve.plan` takes it, or the mapping as text, ``dp=shared,cp=whole``. data_axes:
    along which data are cut, and no parameter is used in parts. factors: the axes that an axis of
    the caller is seen as; what is said of it is said of them. Raises PlanError for what is no
    state.
    """
    if isinstance(state, str) and "=" in state:
        state = dict(pair.strip().partition("=")[::2] for pair in state.split(","))
    found: dict[Axis, Any] = {a: "shared" for a in mesh.names if a.startswith(SHARED_AXES)}
    if isinstance(state, Mapping):
        parts = factors or {}
        state = {each: word for axis, word in state.items() for each in parts.get(axis, (axis,))}
        for axis in state:
            if axis not in mesh.names:
                raise NO_AXIS(axis=shown(str(axis)), axes=", ".join(mesh.names))
        found.update(state)
    elif state is not None:
        if state in _WORDS and state != "whole" and not data_axes:
            raise NO_DATA_AXIS(state=state, axes=" and ".join(mesh.names), axis=mesh.names[0])
        found = {**dict.fromkeys(data_axes, state), **found} if data_axes else {"": state}
    for word in found.values():
        if word not in _WORDS:
            raise NO_STATE(given=shown(repr(word), 60))
    return {axis: found[axis] for axis in mesh.names if found.get(axis, "whole") != "whole"}


NO_PRECISION = problem(
    "no-such-precision",
    "there is no such precision",
    "precision is {given}",
    'write {{"stored": "float32"}}, with "reduced" beside it where gradients are summed in another '
    "dtype: float64, float32, bfloat16 or float16",
)


def precision_of(precision: Any) -> Precision | None:
    """Returns in which dtypes parameters are stored and gradients summed. Raises PlanError."""
    if precision is None or isinstance(precision, Precision):
        return precision
    if isinstance(precision, Mapping) and precision.keys() <= {"stored", "reduced"}:
        words = {key: str(each).removeprefix("torch.") for key, each in precision.items()}
        stored = words.get("stored", "")
        reduced = words.get("reduced", stored)
        if stored in REAL and reduced in REAL:
            return Precision(stored=stored, reduced=reduced)
    raise NO_PRECISION(given=shown(repr(precision), 60))


class Storage:
    """The stored placements of a graph's parameters. ``states``: by axis."""

    def __init__(self, network: Network, mesh: Mesh, states: Mapping[Axis, State]) -> None:
        self.network = network
        self.mesh = mesh
        self.states = states
        self.cut: dict[int, Layout] = {}

    def layout(self, edge: Edge, used: Layout) -> Layout:
        """Returns how a parameter is stored that its operators use so, or in parts of that."""
        if not self.states or not edge.parameter or self.is_whole(edge):
            return used
        found = list(used)
        for number, (axis, count) in enumerate(self.mesh.axes):
            if axis in self.states and isinstance(used[number], Replicate):
                found[number] = self._cut(edge, found, number, count) or used[number]
        layout = tuple(found)
        if layout != used:
            self.cut[edge.number] = layout
        return layout

    def is_whole(self, edge: Edge) -> bool:
        """Whether a parameter stays as it is used, whatever ``state`` says."""
        return edge.number in self._whole

    def _cut(self, edge: Edge, found: Layout | list[Any], axis: int, count: Dim) -> Shard | None:
        """The cut along one axis, of a dimension that no other axis cuts."""
        others = {placement.dim for placement in found if isinstance(placement, Shard)}
        best: tuple[float, Shard] | None = None
        for dim, length in enumerate(edge.dims or ()):
            if dim in others or not isinstance(length, int):
                continue
            if isinstance(count, int):
                if length < count:
                    continue
                waste = -(-length // count) * count / length - 1
            else:
                waste = 0.0 if exact_quotient(length, count, self.network.facts) else 1 / length
            if waste <= WASTE or best is None or waste < best[0]:
                best = waste, Shard(dim) if waste == 0 else Shard(dim, of=length)
                if waste <= WASTE:
                    break
        return None if best is None or best[0] >= 1 else best[1]

    @cached_property
    def _whole(self) -> frozenset[int]:
        """The parameters that stay as they are used: those that an operator writes to, and those
        that it is given beside its annotation.
        """
        network = self.network
        written = {value for op in network.operators for value, _ in written_by(op.node)}
        if written:
            written = {each for value in written for each in network.memory.get(value, {value})}
        found = {e.number for e in network.edges if e.parameter and e.value in written}
        for operator in network.operators:
            places = {place for place in operator.declaration.places if place is not None}
            for occurrence, value in enumerate(operator.node.operands()):
                if occurrence not in places and not operator.skipped:
                    found.add(network.number_of(value, operator.node))
        return frozenset(found)

    def blocks(self, regions: Sequence[RegionPlan]) -> dict[tuple[int, int], int]:
        """Returns the number of the block of every use of a stored part, by operator and input."""
        if not self.cut:
            return {}
        found: dict[tuple[int, int], int] = {}
        inside = self.regions(regions)
        number, place, size, members = 0, None, 0.0, set[int]()
        for operator in self.network.operators:
            for input, edge in enumerate(operator.inputs):
                if edge is None or edge not in self.cut:
                    continue
                here = inside.get(operator.number), layer_of(operator.node.module)
                own = self.size(edge)
                if edge not in members or here != place:
                    if here != place or size + own > CAPACITY:
                        number, place, size, members = number + 1, here, 0.0, set()
                    size += own
                    members.add(edge)
                found[operator.number, input] = number
        return found

    def size(self, edge: int) -> float:
        """Returns the bytes of a parameter."""
        entry = self.network.edges[edge]
        return self.network.elements(entry.dims) * item_bytes(entry.dtype)

    def regions(self, regions: Iterable[RegionPlan]) -> dict[int, str]:
        """Returns the innermost region of each operator that is in one."""
        places = {operator.node.id: operator.number for operator in self.network.operators}
        found: dict[int, str] = {}
        for region in regions:  # a part stands after its whole
            numbers = range(places[region.first], places[region.last] + 1)
            found.update(dict.fromkeys(numbers, region.name))
        return found


def layer_of(module: str) -> str:
    """Returns the layer that a module is a part of: the first numbered one on its path, or itself.

    >>> layer_of("model.layers.3.mlp.experts.0"), layer_of("model.norm")
    ('model.layers.3', 'model.norm')
    """
    names = module.split(".")
    first = next((n for n, name in enumerate(names) if name.isdecimal()), len(names))
    return ".".join(names[: first + 1])
