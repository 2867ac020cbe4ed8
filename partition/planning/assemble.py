"""From choices to the plan: placements, local shapes, conversions, all as text.

Lengths as text: what a plan holds of them.

The conversions of a plan: for every value, from how it is made to how its uses need it.

Uses with the same need share one conversion, and conversions that begin alike share their
beginning. A value that one use needs whole and another one whole with shared gradient is brought
together once, and the gradient of the second use is summed by a conversion of its own.

    x is P(sum)    norm needs R             x@1  all-reduce | identity     norm
                   linear needs R, shared   x@2  identity | all-reduce     linear, from x@1

The conditions of a plan, each with the cut that needs it.

    batch % 2 == 0     dp cuts dimension 0 of input_ids
    8 % n == 0         tp cuts c of view_2

They follow from the choices alone, whoever made them: a policy, or a plan that is read.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, TypeAlias

from dimsolve.ir.annotation import Identifier, Number, Star, Tensor
from dimsolve.ir.read_annotation import read_annotation
from dimsolve.ir.types import TensorType
from dimsolve.solver.algebra.poly import Dim, product

from ..layout import Layout, Step, local_dims, priced_path
from ..mesh import Mesh
from ..placement import Shard
from ..plan import (
    ConversionPlan,
    GraphId,
    InputPlan,
    Made,
    Operand,
    OperatorPlan,
    OutputPlan,
    Plan,
    Randomness,
    RegionPlan,
    Split,
)
from ..plan_queries import essential
from ..regions import regions_of
from ..reshard import conversion, item_bytes, sends
from .choices import Choice, Kind, R
from .network import Network, Operator, Wire
from .propagation import NOMINAL_COUNT, AxisState, Duties, stored


def shape_text(dims: Sequence[Dim | None] | None) -> list[str | None] | None:
    """Returns the lengths as texts.

    >>> shape_text((2, None)), shape_text(None)
    (['2', None], None)
    """
    if dims is None:
        return None
    return [None if dim is None else str(dim) for dim in dims]


def size_texts(row: str, lengths: Mapping[str, Dim], star: Sequence[str]) -> list[str]:
    """Returns the lengths of a row of the annotation language.

    >>> size_texts("b 8 (h d)", {"b": 2, "h": 3, "d": 4}, ())
    ['2', '8', '12']
    """
    found: list[str] = []
    for atoms in _row(row):
        if atoms is None:
            found.extend(str(lengths[name]) for name in star)
        else:
            dims = [lengths[atom] if isinstance(atom, str) else atom for atom in atoms]
            found.append(str(product(dims)))
    return found


@lru_cache(maxsize=4096)
def _row(row: str) -> tuple[tuple[str | int, ...] | None, ...]:
    """The atoms of every dimension; None for ``*``."""
    (operand,) = read_annotation(f"{row} -> ()").inputs
    if not isinstance(operand, Tensor):
        return ()
    dims: list[tuple[str | int, ...] | None] = []
    for dim in operand.dims:
        if isinstance(dim, Star):
            dims.append(None)
        else:
            dims.append(tuple(_atom(atom) for atom in dim.atoms))
    return tuple(dims)


def _atom(atom: Identifier | Number) -> str | int:
    return atom.value if isinstance(atom, Number) else atom.name


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

    def join(self, wire: Wire, made: Layout, uses: Sequence[Use]) -> None:
        """Adds the conversions of one value."""
        joints: dict[tuple[str, Step], _Joint] = {}
        reached: dict[Layout, str] = {made: wire.value.name}
        for layout in dict.fromkeys(use.layout for use in uses):
            alike = [use for use in uses if use.layout == layout]
            common = tuple([all(flags) for flags in zip(*(u.shared for u in alike), strict=True)])
            whole = self._bring(joints, reached, wire, layout, common)
            for use in alike:
                rest = [
                    Step(axis, layout, layout, True)
                    for axis, (flag, done) in enumerate(zip(use.shared, common, strict=True))
                    if flag and not done
                ]
                source = self._add(joints, wire, whole, rest)
                self.sources[use.name] = source
                for joint in joints.values():
                    if joint.id == source:
                        joint.uses.append(use.name)
        self.plans.extend([self._plan(wire, joint) for joint in joints.values()])

    def _bring(
        self,
        joints: dict[tuple[str, Step], _Joint],
        reached: dict[Layout, str],
        wire: Wire,
        layout: Layout,
        shared: Flags,
    ) -> str:
        """Adds the steps to a layout from the nearest one that there is already, and notes the
        layouts on the way: those whose gradient is whole may serve other uses.
        """
        gradient = wire.gradient != "never"
        start, (_, steps) = min(
            ((each, priced_path(each, layout, self.nominal, gradient)) for each in reached),
            key=lambda found: found[1][0],
        )
        source = reached[start]
        for step in _shared(steps, layout, shared):
            source = self._add(joints, wire, source, (step,))
            if step.shared:
                # From here on ranks have shares of the gradient: no other use may start here.
                reached = {}
            reached.setdefault(step.after, source)
        return source

    def _add(
        self,
        joints: dict[tuple[str, Step], _Joint],
        wire: Wire,
        source: str,
        steps: Sequence[Step],
    ) -> str:
        for step in steps:
            key = (source, step)
            if key not in joints:
                joints[key] = _Joint(f"{wire.value.name}@{len(joints) + 1}", source, step)
            source = joints[key].id
        return source

    def _plan(self, wire: Wire, joint: _Joint) -> ConversionPlan:
        key = (wire.dims, wire.dtype, wire.gradient, joint.step)
        if key not in self._told:
            self._told[key] = self._tell(wire, joint.step)
        return ConversionPlan(
            id=joint.id,
            value=wire.value.name,
            source=joint.source,
            uses=joint.uses,
            **self._told[key],
        )

    def _tell(self, wire: Wire, step: Step) -> dict[str, Any]:
        """What a plan says of a step from one layout to another of such a value."""
        before, after = step.before[step.axis], step.after[step.axis]
        found = conversion(before, after, step.shared)
        facts = self.network.facts
        count = self.counts[step.axis]
        shapes = [
            local_dims(wire.dims, each, self.counts, facts) for each in (step.before, step.after)
        ]
        size: Dim = item_bytes(wire.dtype)
        if shapes[0] is not None and None not in shapes[0]:
            size = size * product(dim for dim in shapes[0] if dim is not None)
        if isinstance(before, Shard):
            size = size * count
        runs = wire.gradient
        return {
            "axis": self.names[step.axis],
            "before": [str(placement) for placement in step.before],
            "after": [str(placement) for placement in step.after],
            "shared_gradient": step.shared,
            "gradient": (str(found.gradient[0]), str(found.gradient[1])),
            "forward": list(found.forward),
            "backward": list(found.backward),
            "backward_runs": runs,
            "dtype": wire.dtype,
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


Decided = Sequence[tuple[AxisState, Duties]]
"""The axes, outer axis first, all operators decided, with what decides their duties."""


def reasons_of(network: Network, decided: Decided) -> dict[str, str]:
    """Returns the conditions of the graph and of the choices with their reasons, without those that
    follow from others.
    """
    found: dict[str, str] = {}
    for state, duties in decided:
        for choice, reason in (*_of_inputs(state), *_of_operators(state)):
            for condition in duties.conditions_of(choice) or ():
                found.setdefault(condition, reason)
    own = list(getattr(network.graph, "conditions", ()))
    facts = [str(fact) for fact in network.graph.facts]
    kept = essential([*own, *found], facts) if found else own
    return {text: found.get(text, "the graph") for text in kept}


def _of_inputs(state: AxisState) -> Iterator[tuple[Choice, str]]:
    """The choices that cut what a caller gives, which says most to who reads it."""
    for wire in state.network.wires:
        for number, place in wire.uses if wire.kind == "input" else ():
            choice = state.choices[number]
            placement = choice.inputs[place]
            if isinstance(placement, Shard):
                yield choice, f"{state.axis} cuts dimension {placement.dim} of {wire.target}"


def _of_operators(state: AxisState) -> Iterator[tuple[Choice, str]]:
    """All choices, each with the first operator that makes it."""
    seen: set[Choice] = set()
    for operator, choice in zip(state.network.operators, state.choices, strict=True):
        if choice not in seen:
            seen.add(choice)
            yield choice, f"{state.axis} cuts {choice.name} of {operator.node.id}"


class Assembly:
    """Makes the plan of decided axes. kinds: of every operator, as all axes left it."""

    def __init__(
        self, network: Network, mesh: Mesh, decided: Decided, kinds: Sequence[Kind]
    ) -> None:
        self.network = network
        self.mesh = mesh
        self.decided = decided
        states = self.states = [state for state, _ in decided]
        self.kinds = kinds
        self.counts: tuple[Dim, ...] = tuple(size for _, size in mesh.axes)
        self.made = [self._made(wire) for wire in network.wires]
        self.joints = Joints(network, mesh.axes)
        self.whole = [str(R)] * len(states)
        self._texts: dict[Any, tuple[list[str], list[str | None] | None]] = {}
        self.draws = 0

    def plan(
        self,
        identity: GraphId,
        policy: str,
        notes: Iterable[str],
        regions: Iterable[RegionPlan] | None = None,
    ) -> Plan:
        """Returns the plan. policy, notes: who decided, and what it said about it. regions: what is
        run again in the backward pass; None: the regions of the graph.
        """
        for wire in self.network.wires:
            uses = [*self._uses(wire), *self._returns(wire)]
            if uses:
                self.joints.join(wire, self.made[wire.number], uses)
        graph = self.network.graph
        found = regions_of(graph) if regions is None else list(regions)
        operators = [self._operator(operator) for operator in self.network.operators]
        reasons = reasons_of(self.network, self.decided)
        plan = Plan(
            graph=identity,
            mesh={name: str(size) for name, size in self.mesh.axes},
            policy=policy,
            symbols=[*sorted(self.network.kinds.known), *sorted(self.mesh.symbols)],
            facts=[str(fact) for fact in graph.facts],
            conditions=list(reasons),
            reasons=reasons,
            inputs=[self._input(wire) for wire in self.network.wires if wire.kind],
            operators=operators,
            conversions=self.joints.plans,
            outputs=self._outputs(),
            notes=list(dict.fromkeys(notes)),
            version=2 if found else 1,
            regions=found,
        )
        plan._planned = graph
        return plan

    def _choices(self, operator: int) -> list[Choice]:
        return [state.choices[operator] for state in self.states]

    def _made(self, wire: Wire) -> Layout:
        if wire.producer is None:
            return tuple([stored(state.needs[wire.number]) for state in self.states])
        number, output = wire.producer
        return tuple([choice.outputs[output] for choice in self._choices(number)])

    def _uses(self, wire: Wire) -> list[Use]:
        found = []
        for number, place in wire.uses:
            needs = [choice.needs[place] for choice in self._choices(number)]
            flags = tuple([shared and wire.gradient != "never" for _, shared in needs])
            node = self.network.operators[number].node.id
            found.append(Use(tuple([wanted for wanted, _ in needs]), flags, f"{node}:{place}"))
        return found

    def _returns(self, wire: Wire) -> list[Use]:
        if not wire.returned:
            return []
        layout = (R,) * len(self.states)
        return [Use(layout, (False,) * len(self.states), f"return:{wire.value.name}")]

    def _tensor(self, wire: Wire, layout: Layout) -> dict[str, Any]:
        key = (wire.dims, layout)
        if key not in self._texts:
            local = local_dims(wire.dims, layout, self.counts, self.network.facts)
            self._texts[key] = [str(placement) for placement in layout], shape_text(local)
        placements, shape = self._texts[key]
        return {
            "value": wire.value.name,
            "dtype": wire.dtype,
            "placements": placements,
            "shape": shape,
        }

    def _input(self, wire: Wire) -> InputPlan:
        tensor = isinstance(wire.value.type, TensorType)
        layout = self.made[wire.number] if tensor else (R,) * len(self.states)
        return InputPlan(
            **self._tensor(wire, layout),
            name=wire.target,
            kind=wire.kind,  # type: ignore[arg-type]
            whole=shape_text(wire.dims),
            gradient=wire.gradient,
        )

    def _operator(self, operator: Operator) -> OperatorPlan:
        node, kind = operator.node, self.kinds[operator.number]
        choices = self._choices(operator.number)
        star = kind.solution.layout.star
        return OperatorPlan(
            node=node.id,
            name=node.name,
            operator=node.signature,
            module=node.module,
            source=str(node.source) if node.source is not None else "",
            annotation=node.annotation,
            splits=self._splits(choices),
            operands=self._operands(operator, choices),
            inputs=list(operator.declaration.places),
            outputs=self._made_by(operator, choices),
            lengths={name: str(length) for name, length in kind.lengths.items()},
            sizes={
                name: size_texts(row, kind.lengths, star)
                for name, row in operator.declaration.sizes.items()
            },
            randomness=self._randomness(operator, choices),
            skipped=operator.skipped,
        )

    def _splits(self, choices: Sequence[Choice]) -> dict[str, Split]:
        return {
            name: Split(
                identifier=choice.name,
                blocks=str(choice.blocks),
                segments=list(choice.segments),
                rule=choice.rule,
            )
            for name, choice in zip(self.mesh.names, choices, strict=True)
            if not choice.whole
        }

    def _operands(self, operator: Operator, choices: Sequence[Choice]) -> list[Operand]:
        places = {
            place: n for n, place in enumerate(operator.declaration.places) if place is not None
        }
        found = []
        for occurrence, value in enumerate(operator.node.operands()):
            if not isinstance(value.type, TensorType):
                found.append(
                    Operand(
                        value=value.name,
                        dtype=value.dtype,
                        placements=self.whole,
                        shape=None,
                        source=value.name,
                    )
                )
                continue
            wire = self.network.wires[self.network.number_of(value, operator.node)]
            number = places.get(occurrence)
            if number is None or operator.skipped:
                layout, source = self.made[wire.number], wire.value.name
            else:
                layout = tuple([choice.inputs[number] for choice in choices])
                source = self.joints.sources[f"{operator.node.id}:{number}"]
            found.append(Operand(**self._tensor(wire, layout), source=source))
        return found

    def _made_by(self, operator: Operator, choices: Sequence[Choice]) -> list[Made]:
        found = []
        for value, number in zip(operator.node.outputs, operator.outputs, strict=False):
            if number is None:
                found.append(
                    Made(
                        value=value.name,
                        dtype=value.dtype,
                        placements=self.whole,
                        shape=None,
                        gradient="never",
                    )
                )
            else:
                wire = self.network.wires[number]
                fields = self._tensor(wire, self.made[number])
                found.append(Made(**fields, gradient=wire.gradient))
        return found

    def _randomness(self, operator: Operator, choices: Sequence[Choice]) -> Randomness | None:
        if not operator.declaration.random:
            return None
        self.draws += 1
        differs = [
            name for name, choice in zip(self.mesh.names, choices, strict=True) if choice.name
        ]
        return Randomness(differs=differs, stream=self.draws - 1)

    def _outputs(self) -> list[OutputPlan]:
        found = []
        for name, value in self.network.graph.outputs.items():
            wire = self.network.wires[self.network.number_of(value, None)]
            tensor = isinstance(value.type, TensorType)
            layout = self.made[wire.number] if tensor else (R,) * len(self.states)
            source = self.joints.sources.get(f"return:{wire.value.name}", wire.value.name)
            found.append(OutputPlan(**self._tensor(wire, layout), name=name, source=source))
        return found
