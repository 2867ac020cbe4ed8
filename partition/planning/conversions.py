"""The conversions of a plan: for every value, from how it is made to how its uses need it.

Uses with the same need share one conversion, and conversions that begin alike share their
beginning. A value that one use needs whole and another one whole with shared gradient is brought
together once, and the gradient of the second use is summed by a conversion of its own.

    x is P(sum)    norm needs R             x@1  all-reduce | identity     norm
                   linear needs R, shared   x@2  identity | all-reduce     linear, from x@1
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

from dimsolve.solver.algebra.poly import Dim, product

from ..layout import Layout, Step, local_dims, priced_path
from ..placement import Shard
from ..plan_data import ConversionPlan
from ..reshard import conversion, item_bytes, sends
from .axis_state import NOMINAL_COUNT
from .network import Edge, Network


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
    """One use of a value: what it needs on every axis, and its name in the plan."""

    layout: Layout
    shared: Flags
    name: str


@dataclass(eq=False, slots=True)
class _Conversion:
    """One conversion while it is collected."""

    id: str
    source: str
    step: Step
    uses: list[str] = field(default_factory=list)


class SharedConversions:
    """Collects the conversions of a plan. ``sources``: for every use where it takes its value."""

    def __init__(self, network: Network, axes: Sequence[tuple[str, Dim]]) -> None:
        self.network = network
        self.names = [name for name, _ in axes]
        self.counts = tuple(count for _, count in axes)
        self.nominal = tuple(c if isinstance(c, int) else NOMINAL_COUNT for c in self.counts)
        self._fields: dict[Any, dict[str, Any]] = {}
        self.plans: list[ConversionPlan] = []
        self.sources: dict[str, str] = {}

    def add(self, edge: Edge, made: Layout, uses: Sequence[Use]) -> None:
        """Adds the conversions of one value."""
        one = _OfOneValue(edge, made, self.nominal)
        self.sources.update(one.serve(uses))
        for each in one.by_id.values():
            key = (edge.dims, edge.dtype, edge.gradient, each.step)
            if key not in self._fields:
                self._fields[key] = self._fields_of(edge, each.step)
            self.plans.append(
                ConversionPlan(
                    id=each.id,
                    value=edge.value.name,
                    source=each.source,
                    uses=each.uses,
                    **self._fields[key],
                )
            )

    def _fields_of(self, edge: Edge, step: Step) -> dict[str, Any]:
        """What a plan says of a step from one layout to another of such a value."""
        before, after = step.before[step.axis], step.after[step.axis]
        found = conversion(before, after, step.shared)
        facts, count, runs = self.network.facts, self.counts[step.axis], edge.gradient
        shapes = [
            local_dims(edge.dims, each, self.counts, facts) for each in (step.before, step.after)
        ]
        size = self.bytes_at(edge, step)
        return {
            "axis": self.names[step.axis],
            "before": [str(placement) for placement in step.before],
            "after": [str(placement) for placement in step.after],
            "shared_gradient": step.shared,
            "gradient": (str(found.gradient[0]), str(found.gradient[1])),
            "forward": list(found.forward),
            "backward": list(found.backward),
            "backward_runs": runs,
            "dtype": edge.dtype,
            "shape_before": shape_text(shapes[0]),
            "shape_after": shape_text(shapes[1]),
            "bytes_forward": str(sends(found.forward, size, count)),
            "bytes_backward": "0" if runs == "never" else str(sends(found.backward, size, count)),
        }

    def bytes_at(self, edge: Edge, step: Step) -> Dim:
        """Returns the bytes of what the ranks of the step's axis have together before it."""
        shape = local_dims(edge.dims, step.before, self.counts, self.network.facts)
        size: Dim = item_bytes(edge.dtype)
        if shape is not None and None not in shape:
            size = size * product(dim for dim in shape if dim is not None)
        return size * self.counts[step.axis] if isinstance(step.before[step.axis], Shard) else size

    def steps(self, edge: Edge, made: Layout, uses: Sequence[Use]) -> list[Step]:
        """Returns the conversions that these uses of a value make."""
        one = _OfOneValue(edge, made, self.nominal)
        one.serve(uses)
        return [each.step for each in one.by_id.values()]


class _OfOneValue:
    """The conversions of one value. ``reached``: layouts that other uses may start from."""

    def __init__(self, edge: Edge, made: Layout, nominal: tuple[int, ...]) -> None:
        self.edge = edge
        self.made = made
        self.nominal = nominal
        self.reached: dict[Layout, str] = {made: edge.value.name}
        self.by_step: dict[tuple[str, Step], _Conversion] = {}
        self.by_id: dict[str, _Conversion] = {}

    def step(self, source: str, step: Step) -> str:
        """Adds one conversion, if it is not there yet; returns its id."""
        key = (source, step)
        if key not in self.by_step:
            name = f"{self.edge.value.name}@{len(self.by_step) + 1}"
            self.by_step[key] = self.by_id[name] = _Conversion(name, source, step)
        return self.by_step[key].id

    def serve(self, uses: Sequence[Use]) -> dict[str, str]:
        """Adds the conversions of all uses; returns for every use where it takes its value. What
        is made does not depend on the order of the uses: near layouts come first.
        """
        sources: dict[str, str] = {}
        gradient = self.edge.gradient != "never"
        layouts = sorted(
            dict.fromkeys(use.layout for use in uses),
            key=lambda each: (
                priced_path(self.made, each, self.nominal, gradient)[0],
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
        gradient = self.edge.gradient != "never"
        start, (_, steps) = min(
            ((each, priced_path(each, layout, self.nominal, gradient)) for each in self.reached),
            key=lambda found: found[1][0],
        )
        source, reached = self.reached[start], self.reached
        for step in _with_shared(steps, layout, shared):
            source = self.step(source, step)
            if step.shared:
                # From here on ranks have shares of the gradient: no other use may start here.
                reached = {}
            reached.setdefault(step.after, source)
        return source


def _with_shared(steps: Sequence[Step], layout: Layout, flags: Flags) -> Iterator[Step]:
    """The steps with their gradients shared: the last one of an axis, or one of its own where the
    axis does not change.
    """
    last = {step.axis: number for number, step in enumerate(steps)}
    for number, step in enumerate(steps):
        shared = flags[step.axis] and last[step.axis] == number
        yield replace(step, shared=True) if shared else step
    for axis, flag in enumerate(flags):
        if flag and axis not in last:
            yield Step(axis, layout, layout, True)
