"""The conversions of a plan: for every value, from how it is made to how its uses need it.

Uses with the same need share one conversion, and conversions that begin alike share their
beginning. A value that one use needs whole and another one whole with shared gradient is brought
together once, and the gradient of the second use is summed by a conversion of its own.

    x is P(sum)    norm needs R             x@1  all-reduce | identity     norm
                   linear needs R, shared   x@2  identity | all-reduce     linear, from x@1
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
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
class _Joint:
    """One conversion while it is collected."""

    id: str
    source: str
    step: Step
    uses: list[str] = field(default_factory=list)


class Joints:
    """Collects the conversions of a plan. ``sources``: for every use where it takes its value."""

    def __init__(self, network: Network, axes: Sequence[tuple[str, Dim]]) -> None:
        self.network = network
        self.names = [name for name, _ in axes]
        self.counts = tuple(count for _, count in axes)
        self.nominal = tuple(c if isinstance(c, int) else NOMINAL_COUNT for c in self.counts)
        self._told: dict[Any, dict[str, Any]] = {}
        self.plans: list[ConversionPlan] = []
        self.sources: dict[str, str] = {}

    def join(self, edge: Edge, made: Layout, uses: Sequence[Use]) -> None:
        """Adds the conversions of one value."""
        joints: dict[tuple[str, Step], _Joint] = {}
        reached: dict[Layout, str] = {made: edge.value.name}
        for layout in dict.fromkeys(use.layout for use in uses):
            alike = [use for use in uses if use.layout == layout]
            common = tuple([all(flags) for flags in zip(*(u.shared for u in alike), strict=True)])
            whole = self._bring(joints, reached, edge, layout, common)
            for use in alike:
                rest = [
                    Step(axis, layout, layout, True)
                    for axis, (flag, done) in enumerate(zip(use.shared, common, strict=True))
                    if flag and not done
                ]
                source = self._add(joints, edge, whole, rest)
                self.sources[use.name] = source
                for joint in joints.values():
                    if joint.id == source:
                        joint.uses.append(use.name)
        self.plans.extend([self._plan(edge, joint) for joint in joints.values()])

    def _bring(
        self,
        joints: dict[tuple[str, Step], _Joint],
        reached: dict[Layout, str],
        edge: Edge,
        layout: Layout,
        shared: Flags,
    ) -> str:
        """Adds the steps to a layout from the nearest one that there is already, and notes the
        layouts on the way: those whose gradient is whole may serve other uses.
        """
        gradient = edge.gradient != "never"
        start, (_, steps) = min(
            ((each, priced_path(each, layout, self.nominal, gradient)) for each in reached),
            key=lambda found: found[1][0],
        )
        source = reached[start]
        for step in _shared(steps, layout, shared):
            source = self._add(joints, edge, source, (step,))
            if step.shared:
                # From here on ranks have shares of the gradient: no other use may start here.
                reached = {}
            reached.setdefault(step.after, source)
        return source

    def _add(
        self,
        joints: dict[tuple[str, Step], _Joint],
        edge: Edge,
        source: str,
        steps: Sequence[Step],
    ) -> str:
        for step in steps:
            key = (source, step)
            if key not in joints:
                joints[key] = _Joint(f"{edge.value.name}@{len(joints) + 1}", source, step)
            source = joints[key].id
        return source

    def _plan(self, edge: Edge, joint: _Joint) -> ConversionPlan:
        key = (edge.dims, edge.dtype, edge.gradient, joint.step)
        if key not in self._told:
            self._told[key] = self._tell(edge, joint.step)
        return ConversionPlan(
            id=joint.id,
            value=edge.value.name,
            source=joint.source,
            uses=joint.uses,
            **self._told[key],
        )

    def _tell(self, edge: Edge, step: Step) -> dict[str, Any]:
        """What a plan says of a step from one layout to another of such a value."""
        before, after = step.before[step.axis], step.after[step.axis]
        found = conversion(before, after, step.shared)
        facts = self.network.facts
        count = self.counts[step.axis]
        shapes = [
            local_dims(edge.dims, each, self.counts, facts) for each in (step.before, step.after)
        ]
        size: Dim = item_bytes(edge.dtype)
        if shapes[0] is not None and None not in shapes[0]:
            size = size * product(dim for dim in shapes[0] if dim is not None)
        if isinstance(before, Shard):
            size = size * count
        runs = edge.gradient
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


def _shared(steps: Sequence[Step], layout: Layout, flags: Flags) -> Iterator[Step]:
    """The steps with their gradients shared: the last one of an axis, or one of its own where the
    axis does not change.
    """
    last = {step.axis: number for number, step in enumerate(steps)}
    for number, step in enumerate(steps):
        if flags[step.axis] and last[step.axis] == number:
            yield Step(step.axis, step.before, step.after, True)
        else:
            yield step
    for axis, flag in enumerate(flags):
        if flag and axis not in last:
            yield Step(axis, layout, layout, True)
