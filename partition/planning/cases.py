"""What a search decides once for all operators: how parameters are stored along each axis, and
which blocks of a model run again in the backward pass.

    dp=8, tp=8    {}                            parameters are stored as they are used
                  {"dp": "shared"}              and where dp uses them whole, in parts
                  layers.0 .. layers.31 again   each keeps what it takes, not what it makes

Each combination is a case with a problem of its own; the least of their bounds is one for all.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Protocol, get_args

from ..aliasing import written_by
from ..communication import shared_bytes
from ..cost import Costs
from ..layout import Layout, local_dims
from ..mesh import Mesh
from ..plan_data import Axis, RegionPlan, State
from ..reshard import SENT
from .axis_state import stored
from .conversions import SharedConversions, Use, shape_text
from .network import Edge, Network
from .storage import Storage, layer_of
from .ways import Need


class Sized(Protocol):
    """What says how long and how large things are, and what it takes to move them."""

    costs: Costs

    def text(self, text: str) -> int:
        """Returns the value of a length that is written."""

    def bytes_of(self, shape: Sequence[str | None] | None, dtype: str | None) -> int:
        """Returns the bytes of a tensor; 0 where its shape is not known."""


@dataclass(frozen=True, slots=True)
class Case:
    """How parameters are stored along axes, and what is run again in the backward pass."""

    states: tuple[tuple[Axis, State], ...] = ()
    regions: tuple[RegionPlan, ...] = ()
    recompute: bool = False


PLAIN = Case()


def storages(mesh: Mesh, axes: Sequence[Axis]) -> list[tuple[tuple[Axis, State], ...]]:
    """Returns all ways to store parameters along these axes, the plain one first.

    >>> [dict(each) for each in storages(Mesh.of("dp=2"), ["dp"])]
    [{}, {'dp': 'optimizer'}, {'dp': 'shared'}]
    """
    words: tuple[State | None, ...] = (None, *get_args(State))
    own = [[(axis, word) for word in (words if axis in axes else (None,))] for axis in mesh.names]
    every = [tuple((a, w) for a, w in each if w is not None) for each in product(*own)]
    return sorted(every, key=len)


def repeated(network: Network) -> tuple[RegionPlan, ...]:
    """Returns the repeated blocks of a model as regions; none where the model has its own, or where
    a block writes to what is there before it.

    A block is what stands in a numbered layer, such as ``model.layers.3``, one operator after the
    other.
    """
    if network.graph.regions:
        return ()
    found: list[RegionPlan] = []
    ends: dict[str, list[str]] = {}
    before = ""
    for operator in network.operators:
        layer = layer_of(operator.node.module)
        if not layer.rpartition(".")[2].isdecimal():
            layer = ""
        if any(True for _ in written_by(operator.node)) or operator.pinned:
            return ()
        if layer and layer != before and layer in ends:
            return ()  # it is left and entered again
        if layer:
            ends.setdefault(layer, []).append(operator.node.id)
        before = layer
    for layer, nodes in ends.items():
        if len(nodes) > 1:
            found.append(RegionPlan(name=layer, first=nodes[0], last=nodes[-1]))
    return tuple(found) if len(found) > 1 else ()


@dataclass(frozen=True, slots=True)
class Stored:
    """What it takes to store a parameter, with users that need it in some way.

    cost: picoseconds of what is gathered and scattered. stored: bytes of the stored part. kept:
    what stays gathered. forward, backward: what is gathered while each user runs. summed: bytes of
    its gradient that wait for the end of the backward pass.
    """

    cost: int
    stored: int
    kept: int
    forward: tuple[int, ...]
    backward: tuple[int, ...]
    summed: int = 0


class StoredUses:
    """What a case says of parameters."""

    def __init__(self, network: Network, mesh: Mesh, case: Case) -> None:
        self.network, self.mesh = network, mesh
        self.states = dict(case.states)
        self.storage = Storage(network, mesh, self.states)
        self.conversions = SharedConversions(network, mesh.axes)
        self.inside = self.storage.regions(case.regions)

    def place(self, user: int) -> tuple[str | None, str] | None:
        """Returns where parameters are gathered for an operator; None for what is returned."""
        if user >= len(self.network.operators):
            return None
        node = self.network.operators[user].node
        return self.inside.get(user), layer_of(node.module)

    def of(self, form: Sized, edge: Edge, given: Mapping[int, Sequence[Need]]) -> Stored:
        """Returns what it takes at least. given: what each user needs; one after the last operator
        is the caller. Exact but for three and more users in one layer.
        """
        needs = [need for own in given.values() for need in own]
        axes = range(len(self.mesh.axes))
        used = tuple([stored((lay[a], f[a]) for lay, f in needs) for a in axes])
        layout = self.storage.layout(edge, used)
        places = [self.place(user) for user in given]
        known = [place for place in places if place is not None]
        if layout == used:
            return self._of(form, edge, layout, given, [None] * len(given))
        if len(set(known)) == len(known):
            blocks = [None if place is None else n for n, place in enumerate(places)]
            return self._of(form, edge, layout, given, blocks)
        together = [None if place is None else places.index(place) for place in places]
        apart = [None if place is None else n for n, place in enumerate(places)]
        both = [self._of(form, edge, layout, given, each) for each in (together, apart)]
        least = min(each.cost for each in both) if len(known) == 2 else 0
        return Stored(least, both[0].stored, both[0].kept, both[0].forward, both[0].backward)

    def _of(
        self,
        form: Sized,
        edge: Edge,
        layout: Layout,
        given: Mapping[int, Sequence[Need]],
        blocks: Sequence[int | None],
    ) -> Stored:
        conversions = self.conversions
        conversions.plans.clear()
        conversions.sources.clear()
        uses = [
            Use(*need, f"{user}:{n}", block)
            for (user, own), block in zip(given.items(), blocks, strict=True)
            for n, need in enumerate(own)
        ]
        conversions.add(edge, layout, uses, self.states)
        cost = kept = summed = 0
        whole: dict[int, int] = {}
        again: set[int] = set()
        counts = dict(form.costs.mesh)
        for entry in conversions.plans:
            ways = [(entry.forward, entry.bytes_forward)]
            if entry.backward_runs == "always":
                ways.append((entry.backward, entry.bytes_backward))
            for collectives, text in ways:
                if any(SENT[each][0] for each in collectives):
                    total = form.text(text)
                    for kind, own in shared_bytes(collectives, total, counts[entry.axis]):
                        cost += form.costs.collective(kind, entry.axis, own)
            if entry.block is not None:
                size = form.bytes_of(entry.shape_after, entry.dtype)
                whole[entry.block] = max(whole.get(entry.block, 0), size)
                if "all-gather" in entry.backward:
                    again.add(entry.block)
            elif entry.source == entry.value and entry.before == entry.after:
                summed = form.bytes_of(entry.shape_before, entry.dtype)
        for block, size in whole.items():
            if block not in again:
                kept = max(kept, size)
        forward = [whole.get(b, 0) if b in again else 0 for b in blocks if b is not None]
        backward = [(3 if b in again else 2) * whole.get(b, 0) for b in blocks if b is not None]
        if len(forward) < len(given):  # nothing is gathered
            forward = backward = [0] * len(given)
        local = local_dims(edge.dims, layout, conversions.counts, self.network.facts)
        size = form.bytes_of(shape_text(local), edge.dtype)
        summed = summed if len(given) == 1 and edge.gradient == "always" else 0
        return Stored(cost, size, kept, tuple(forward), tuple(backward), summed)


def cases(
    network: Network, mesh: Mesh, axes: Sequence[Axis], recompute: bool, fixed: Case
) -> Iterator[Case]:
    """Yields the cases that a search tries, the plain one first. axes: along which it decides how
    parameters are stored. fixed: what is given.
    """
    blocks = repeated(network) if recompute else ()
    for again in (False, True) if blocks else (False,):
        for each in storages(mesh, axes):
            states = {**dict(fixed.states), **dict(each)}
            stored = tuple((a, states[a]) for a in mesh.names if a in states)
            yield Case(stored, blocks if again else fixed.regions, again)


__all__ = ["PLAIN", "Case", "Stored", "StoredUses", "cases", "repeated", "storages"]
