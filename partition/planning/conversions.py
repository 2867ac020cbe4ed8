"""The conversions of a plan: for every value, from how it is made to how its uses need it.

Uses with the same need share one conversion, and conversions that begin alike share their
beginning. A value is gathered once, even if one use needs R and another one R with a shared
gradient, and the gradient of the second use is summed by a conversion of its own.

    x is P(sum)    norm needs R             x@1  all-reduce | identity     norm
                   linear needs R, shared   x@2  identity | all-reduce     linear, from x@1
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

from dimsolve.solver.algebra.poly import Dim, product
from dimsolve.solver.proof.divisibility import exact_quotient
from dimsolve.solver.proof.facts import NO_FACTS

from ..layout import (
    Layout,
    Step,
    cutting,
    gathers_between,
    local_dims,
    path_aside,
    priced_path,
)
from ..placement import Replicate, Shard
from ..plan_data import REAL, ConversionPlan, Precision, State
from ..reshard import Collective, conversion, item_bytes, sends
from .axis_state import NOMINAL_COUNT
from .network import Edge, Network
from .rooms import Rooms


def shape_text(dims: Sequence[Dim | None] | None) -> list[str | None] | None:
    """Returns the lengths as texts.

    >>> shape_text((2, None)), shape_text(None)
    (['2', None], None)
    """
    if dims is None:
        return None
    return [None if dim is None else str(dim) for dim in dims]


Flags: TypeAlias = tuple[bool, ...]


@dataclass(frozen=True, slots=True)
class Use:
    """One use of a value: what it needs on every axis, and its name in the plan. block: in which a
    parameter is gathered that is stored in parts.
    """

    layout: Layout
    shared: Flags
    name: str
    block: int | None = None


@dataclass(eq=False, slots=True)
class _Conversion:
    """One conversion while it is collected."""

    id: str
    source: str
    step: Step
    uses: list[str] = field(default_factory=list)


def _quotient(size: Dim, bytes: int) -> Dim:
    found = exact_quotient(size, bytes, NO_FACTS)
    return size if found is None else found


def is_gather(step: Step) -> bool:
    """Whether a step gathers what is in parts."""
    before, after = step.before[step.axis], step.after[step.axis]
    return isinstance(before, Shard) and isinstance(after, Replicate)


class SharedConversions:
    """Collects the conversions of a plan. ``sources``: for every use where it takes its value.

    rooms: along which dimensions values may be cut on their way. ``relied``: the conditions of such
    cuts that were made, with the reasons; ``weighed``: of all that were had to choose from.
    """

    def __init__(
        self,
        network: Network,
        axes: Sequence[tuple[str, Dim]],
        precision: Precision | None = None,
        rooms: Rooms | None = None,
    ) -> None:
        self.precision = precision
        self.network = network
        self.names = [name for name, _ in axes]
        self.counts = tuple(count for _, count in axes)
        self.nominal = tuple(c if isinstance(c, int) else NOMINAL_COUNT for c in self.counts)
        self.rooms = rooms or Rooms(network.facts, self.counts)
        self.relied: dict[str, str] = {}
        self.weighed: dict[str, None] = {}
        self._fields: dict[Any, dict[str, Any]] = {}
        self.plans: list[ConversionPlan] = []
        self.sources: dict[str, str] = {}

    def add(
        self, edge: Edge, made: Layout, uses: Sequence[Use], state: Mapping[str, State]
    ) -> None:
        """Adds the conversions of one value: of a parameter that is stored in parts, those of each
        block by themselves.
        """
        number = 0
        for block in dict.fromkeys(use.block for use in uses):
            alike = [use for use in uses if use.block == block]
            number += self._add(edge, made, alike, state, number)

    def _add(
        self, edge: Edge, made: Layout, uses: Sequence[Use], state: Mapping[str, State], number: int
    ) -> int:
        """Adds conversions, ``number`` of the value being there; returns how many."""
        block = uses[0].block
        one = _OfOneValue(self, edge, made, number, block is not None)
        self.sources.update(one.serve(uses))
        shared = "shared" in {
            state.get(self.names[each.step.axis])
            for each in one.by_id.values()
            if is_gather(each.step)
        }
        for each in one.by_id.values():
            gathers = block is not None and is_gather(each.step)
            again = gathers and shared
            key = (edge.dims, edge.dtype, edge.gradient, each.step, again, edge.parameter)
            if key not in self._fields:
                self._fields[key] = self._fields_of(edge, each.step, again)
            self.plans.append(
                ConversionPlan(
                    id=each.id,
                    value=edge.value.name,
                    source=each.source,
                    uses=each.uses,
                    block=block if gathers else None,
                    **self._fields[key],
                )
            )
        return len(one.by_id)

    def _fields_of(self, edge: Edge, step: Step, again: bool) -> dict[str, Any]:
        """What a plan says of a step from one layout to another of such a value. again: whether it
        is gathered again on the way back.
        """
        before, after = step.before[step.axis], step.after[step.axis]
        found = conversion(before, after, step.shared)
        backward: tuple[Collective, ...] = (*(("all-gather",) if again else ()), *found.backward)
        facts, count, runs = self.network.facts, self.counts[step.axis], edge.gradient
        shapes = [
            local_dims(edge.dims, each, self.counts, facts) for each in (step.before, step.after)
        ]
        size = self.bytes_at(edge, step)
        gradient = size
        if edge.parameter and self.precision is not None and edge.dtype in REAL:
            gradient = _quotient(size * item_bytes(self.precision.reduced), item_bytes(edge.dtype))
        back = sends(found.backward, gradient, count)
        if again:
            back = back + sends(("all-gather",), size, count)
        return {
            "axis": self.names[step.axis],
            "before": [str(placement) for placement in step.before],
            "after": [str(placement) for placement in step.after],
            "shared_gradient": step.shared,
            "gradient": (str(found.gradient[0]), str(found.gradient[1])),
            "forward": list(found.forward),
            "backward": list(backward),
            "backward_runs": runs,
            "dtype": edge.dtype,
            "shape_before": shape_text(shapes[0]),
            "shape_after": shape_text(shapes[1]),
            "bytes_forward": str(sends(found.forward, size, count)),
            "bytes_backward": "0" if runs == "never" else str(back),
        }

    def bytes_at(self, edge: Edge, step: Step) -> Dim:
        """Returns the bytes of what the ranks of the step's axis have together before it; of
        unequal parts all count as the longest.
        """
        layout = step.counted
        shape = local_dims(edge.dims, layout, self.counts, self.network.facts)
        size: Dim = item_bytes(edge.dtype)
        if shape is not None and None not in shape:
            size = size * product(dim for dim in shape if dim is not None)
        return size * self.counts[step.axis] if isinstance(layout[step.axis], Shard) else size

    def path(
        self, edge: Edge, source: Layout, target: Layout, *, taken: bool = False
    ) -> tuple[float, tuple[Step, ...]]:
        """Returns the cheapest steps of a value with what they cost. taken: whether they are
        made, and not only compared with others.
        """
        gradient = edge.gradient != "never"
        way = source, target, self.nominal, gradient
        if edge.dims is None or not gathers_between(*way):
            return priced_path(*way)
        found = path_aside(*way, self.rooms.of(edge.dims))
        for step in found[1]:
            after = step.after[step.axis]
            if isinstance(after, Shard) and after != target[step.axis]:
                length, name = edge.dims[after.dim], edge.value.name
                parts = self.rooms.parts(cutting(step.before, step.axis, after.dim))
                axis = self.names[step.axis]
                reason = f"{axis} cuts dimension {after.dim} of {name} on its way"
                for condition in (
                    () if length is None else self.rooms.conditions(length, parts) or ()
                ):
                    self.weighed[condition] = None
                    if taken:
                        self.relied.setdefault(condition, reason)
        return found

    def steps(self, edge: Edge, made: Layout, uses: Sequence[Use]) -> list[Step]:
        """Returns the conversions that these uses of a value make."""
        if not uses:
            return []
        one = _OfOneValue(self, edge, made, 0, uses[0].block is not None)
        one.serve(uses)
        return [each.step for each in one.by_id.values()]

    def last_step(
        self, edge: Edge, made: Layout, needs: Sequence[tuple[Layout, Flags]]
    ) -> Step | None:
        """Returns the step that makes a value whole for the caller, when all operators have run;
        None where there is none, or one of these needs of operators comes by it.
        """
        whole = Use((Replicate(),) * len(self.counts), (False,) * len(self.counts), "caller")
        one = _OfOneValue(self, edge, made, 0, False)
        sources = one.serve([*(Use(*need, str(n)) for n, need in enumerate(needs)), whole])
        last = sources.pop("caller")
        for source in sources.values():
            while source in one.by_id:
                if source == last:
                    return None
                source = one.by_id[source].source
        return one.by_id[last].step if last in one.by_id else None


class _OfOneValue:
    """The conversions of one value, counted from ``number``. first: whether a gradient is summed
    last along axes on which nothing changes, as a part. ``reached``: layouts that other uses may
    start from.
    """

    def __init__(
        self, shared: SharedConversions, edge: Edge, made: Layout, number: int, first: bool
    ) -> None:
        self.shared = shared
        self.edge = edge
        self.first = first
        self.number = number
        self.made = made
        self.reached: dict[Layout, str] = {made: edge.value.name}
        self.by_step: dict[tuple[str, Step], _Conversion] = {}
        self.by_id: dict[str, _Conversion] = {}

    def step(self, source: str, step: Step) -> str:
        """Adds one conversion, if it is not there yet; returns its id."""
        key = (source, step)
        if key not in self.by_step:
            name = f"{self.edge.value.name}@{self.number + len(self.by_step) + 1}"
            self.by_step[key] = self.by_id[name] = _Conversion(name, source, step)
        return self.by_step[key].id

    def serve(self, uses: Sequence[Use]) -> dict[str, str]:
        """Adds the conversions of all uses; returns for every use where it takes its value. What
        is made does not depend on the order of the uses: near layouts come first.
        """
        sources: dict[str, str] = {}
        layouts = sorted(
            dict.fromkeys(use.layout for use in uses),
            key=lambda each: (
                self.shared.path(self.edge, self.made, each)[0],
                tuple(map(str, each)),
            ),
        )
        for layout in layouts:
            alike = [use for use in uses if use.layout == layout]
            common = tuple([all(flags) for flags in zip(*(u.shared for u in alike), strict=True)])
            whole = self.bring(layout, common)
            for use in alike:
                source = whole
                for axis, (flag, done) in enumerate(zip(use.shared, common, strict=True)):
                    if flag and not done:
                        source = self.step(source, Step(axis, layout, layout, True))
                sources[use.name] = source
                if source in self.by_id:
                    self.by_id[source].uses.append(use.name)
        return sources

    def bring(self, layout: Layout, shared: Flags) -> str:
        """Adds the steps to a layout from the nearest one that there is already, and notes the
        layouts on the way: those whose gradient is whole may serve other uses.
        """
        path, edge = self.shared.path, self.edge
        start = min(self.reached, key=lambda each: path(edge, each, layout)[0])
        _, steps = path(edge, start, layout, taken=True)
        source, reached = self.reached[start], self.reached
        for step in _with_shared(steps, start, layout, shared, self.first):
            source = self.step(source, step)
            if step.shared:
                # From here on ranks have shares of the gradient: no other use may start here.
                reached = {}
            reached.setdefault(step.after, source)
        return source


def _with_shared(
    steps: Sequence[Step], start: Layout, layout: Layout, flags: Flags, first: bool
) -> Iterator[Step]:
    """The steps with their gradients shared: the last one of an axis, or one of its own where the
    axis does not change. first: whether these come first.
    """
    last = {step.axis: number for number, step in enumerate(steps)}
    own = [axis for axis, flag in enumerate(flags) if flag and axis not in last]
    if first:
        yield from (Step(axis, start, start, True) for axis in own)
    for number, step in enumerate(steps):
        shared = flags[step.axis] and last[step.axis] == number
        yield replace(step, shared=True) if shared else step
    if not first:
        yield from (Step(axis, layout, layout, True) for axis in own)
