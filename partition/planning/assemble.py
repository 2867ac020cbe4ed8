"""From choices to the plan: placements, local shapes, conversions and conditions, all as text.

    batch % 2 == 0     dp cuts dimension 0 of input_ids
    8 % n == 0         tp cuts c of view_2

They follow from the choices alone, whoever made them: a policy, or a plan that is read.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any, Literal, TypeAlias, TypeVar

from dimsolve.ir.annotation import Number, Star, Tensor
from dimsolve.ir.graph import Value
from dimsolve.ir.read_annotation import read_annotation
from dimsolve.ir.types import TensorType
from dimsolve.solver.algebra.poly import Dim, product
from dimsolve.solver.proof.divisibility import exact_quotient

from ..checkpoints import regions_of
from ..layout import Layout, local_dims
from ..mesh import Mesh
from ..placement import Shard
from ..plan_data import (
    Gradient,
    GraphId,
    InputPlan,
    Made,
    Operand,
    OperatorPlan,
    OutputPlan,
    PlanData,
    Precision,
    Randomness,
    RegionPlan,
    Sent,
    Split,
    State,
)
from ..reshard import item_bytes, sends
from ..sizes import essential
from .axis_state import AxisState, stored
from .choices import Choice, OperatorClass, R
from .conversions import SharedConversions, Use, shape_text
from .network import Edge, Network, Operator
from .requirements import Requirements
from .rooms import Holds, Rooms, implied
from .storage import Storage

P = TypeVar("P", bound=PlanData)
_UNCOUNTED = (
    "what {} communicates inside its transform rule is not counted: "
    'say it, TransformRule(..., sends=(Message("n"),))'
)
Decided: TypeAlias = Sequence[tuple[AxisState, Requirements]]
"""The axes, outer axis first, all operators decided, with what decides their requirements."""


class Assembly:
    """Makes the plan of decided axes. classes: of every operator, as all axes left it. state: how
    parameters are stored, by axis; precision: in which dtype.
    """

    def __init__(
        self,
        network: Network,
        mesh: Mesh,
        decided: Decided,
        classes: Sequence[OperatorClass],
        state: Mapping[str, State],
        precision: Precision | None,
        factors: Mapping[str, Sequence[str]] | None = None,
    ) -> None:
        self.factors = {axis: list(names) for axis, names in (factors or {}).items()}
        self.network = network
        self.mesh = mesh
        self.decided = decided
        self.states = [state for state, _ in decided]
        self.classes = classes
        self.counts: tuple[Dim, ...] = tuple(size for _, size in mesh.axes)
        self.whole: Layout = (R,) * len(self.states)
        self.precision = precision
        self.storage = Storage(network, mesh, state)
        self.made = [self._made(edge) for edge in network.edges]
        self.conditions = conditions_of(decided)
        self.conversions = SharedConversions(network, mesh.axes, precision)
        self._texts: dict[Any, tuple[list[str], list[str | None] | None]] = {}
        self.draws = 0
        self.uncounted: dict[str, None] = {}

    def plan(
        self,
        make: type[P],
        identity: GraphId,
        policy: str,
        notes: Iterable[str],
        regions: Iterable[RegionPlan] | None = None,
        said: Iterable[str] = (),
        holds: Holds | None = None,
    ) -> P:
        """Returns the plan, of this class. policy, notes: who decided, and its remarks. regions:
        what is run again in the backward pass; None: the regions of the graph. said: conditions
        on which the ways of values may rely beside those of the choices; holds: what else they may.
        """
        graph = self.network.graph
        found = regions_of(graph) if regions is None else list(regions)
        blocks, state = self.storage.blocks(found), dict(self.storage.states)
        self._convert(blocks, state, said, holds)
        operators = [self._operator(operator) for operator in self.network.operators]
        reasons = reasons_of(self.network, {**self.conditions, **self.conversions.relied})
        newest = bool(state or self.precision or any(entry.sends for entry in operators))
        uneven = bool(self.factors) or any(
            split.uneven for entry in operators for split in entry.splits.values()
        )
        plan = make(
            graph=identity,
            mesh={name: str(size) for name, size in self.mesh.axes},
            policy=policy,
            symbols=[*sorted(self.network.classes.known), *sorted(self.mesh.symbols)],
            facts=[str(fact) for fact in graph.facts],
            conditions=list(reasons),
            reasons=reasons,
            inputs=[self._input(edge) for edge in self.network.edges if edge.kind],
            operators=operators,
            conversions=self.conversions.plans,
            outputs=[self._output(name, value) for name, value in graph.outputs.items()],
            notes=list(dict.fromkeys([*notes, *map(_UNCOUNTED.format, self.uncounted)])),
            version=4 if uneven else 3 if newest else 2 if found else 1,
            regions=found,
            state=state,
            precision=self.precision,
            factors=self.factors,
        )
        plan._planned = graph
        return plan

    def _convert(
        self,
        blocks: Mapping[tuple[int, int], int],
        state: Mapping[str, State],
        said: Iterable[str],
        holds: Holds | None,
    ) -> None:
        """Makes all conversions. What the ways rely on is had from the plan's conditions alone, so
        that they follow from the plan without what else held (`derive`).
        """
        facts = self.network.facts
        own = Rooms(facts, self.counts)
        if holds is None:
            self._convert_in(own, blocks, state, [*self.conditions, *said])
            return
        self.conversions = self._converted(Rooms(facts, self.counts, holds), blocks, state)
        weighed: Collection[str] = self.conversions.weighed
        while True:
            before = self.conversions.relied
            if implied(weighed, facts, [*self.conditions, *before]):
                return
            self._convert_in(own, blocks, state, [*self.conditions, *before])
            weighed = before

    def _convert_in(self, rooms: Rooms, blocks: Any, state: Any, conditions: Sequence[str]) -> None:
        self.conversions = self._converted(rooms.under(conditions), blocks, state)

    def _converted(
        self, rooms: Rooms, blocks: Mapping[tuple[int, int], int], state: Mapping[str, State]
    ) -> SharedConversions:
        found = SharedConversions(self.network, self.mesh.axes, self.precision, rooms)
        for edge in self.network.edges:
            uses = self._uses(edge, blocks)
            if uses:
                found.add(edge, self.made[edge.number], uses, state)
        return found

    def _choices(self, operator: int) -> list[Choice]:
        return [state.choices[operator] for state in self.states]

    def _made(self, edge: Edge) -> Layout:
        if edge.producer is None:
            used = tuple([stored(state.needs[edge.number]) for state in self.states])
            return self.storage.layout(edge, used)
        number, output = edge.producer
        return tuple([choice.outputs[output] for choice in self._choices(number)])

    def _uses(self, edge: Edge, blocks: Mapping[tuple[int, int], int]) -> list[Use]:
        """The uses of a value; one that is returned is used whole. blocks: in which parameters are
        gathered.
        """
        found = []
        for number, place in edge.uses:
            needs = [choice.needs[place] for choice in self._choices(number)]
            flags = tuple([shared and edge.gradient != "never" for _, shared in needs])
            node = self.network.operators[number].node.id
            layout, block = tuple([wanted for wanted, _ in needs]), blocks.get((number, place))
            found.append(Use(layout, flags, f"{node}:{place}", block))
        if edge.returned:
            unshared = (False,) * len(self.states)
            found.append(Use(self.whole, unshared, f"return:{edge.value.name}"))
        return found

    def _tensor(self, edge: Edge, layout: Layout) -> dict[str, Any]:
        """The fields of a `LocalTensor`."""
        key = (edge.dims, layout)
        if key not in self._texts:
            local = local_dims(edge.dims, layout, self.counts, self.network.facts)
            self._texts[key] = [str(placement) for placement in layout], shape_text(local)
        placements, shape = self._texts[key]
        return {
            "value": edge.value.name,
            "dtype": edge.dtype,
            "placements": placements,
            "shape": shape,
        }

    def _no_tensor(self, value: Value) -> dict[str, Any]:
        placements = [str(placement) for placement in self.whole]
        return {"value": value.name, "dtype": value.dtype, "placements": placements, "shape": None}

    def _input(self, edge: Edge) -> InputPlan:
        tensor = isinstance(edge.value.type, TensorType)
        return InputPlan(
            **self._tensor(edge, self.made[edge.number] if tensor else self.whole),
            name=edge.target,
            kind=edge.kind,  # type: ignore[arg-type]
            whole=shape_text(edge.dims),
            gradient=edge.gradient,
        )

    def _operator(self, operator: Operator) -> OperatorPlan:
        node, op_class = operator.node, self.classes[operator.number]
        choices = self._choices(operator.number)
        star = op_class.solution.layout.star
        return OperatorPlan(
            node=node.id,
            name=node.name,
            operator=node.signature,
            module=node.module,
            source=str(node.source) if node.source is not None else "",
            annotation=node.annotation,
            splits={
                state.axis: split_of(choice, state.classes[operator.number])
                for state, choice in zip(self.states, choices, strict=True)
                if not choice.whole
            },
            operands=self._operands(operator, choices),
            inputs=list(operator.declaration.places),
            outputs=self._outputs(operator),
            lengths={name: str(length) for name, length in op_class.lengths.items()},
            sizes={
                name: size_texts(row, op_class.lengths, star)
                for name, row in operator.declaration.sizes.items()
            },
            randomness=self._randomness(operator, choices),
            skipped=operator.skipped,
            sends=sends_of(self.network, self.mesh, operator, op_class, choices, self.uncounted),
        )

    def _operands(self, operator: Operator, choices: Sequence[Choice]) -> list[Operand]:
        places = {
            place: n for n, place in enumerate(operator.declaration.places) if place is not None
        }
        found = []
        for occurrence, value in enumerate(operator.node.operands()):
            if not isinstance(value.type, TensorType):
                found.append(Operand(**self._no_tensor(value), source=value.name))
                continue
            edge = self.network.edges[self.network.number_of(value, operator.node)]
            number = places.get(occurrence)
            if number is None or operator.skipped:
                layout, source = self.made[edge.number], edge.value.name
            else:
                layout = tuple([choice.inputs[number] for choice in choices])
                source = self.conversions.sources[f"{operator.node.id}:{number}"]
            found.append(Operand(**self._tensor(edge, layout), source=source))
        return found

    def _outputs(self, operator: Operator) -> list[Made]:
        found = []
        for value, number in zip(operator.node.outputs, operator.outputs, strict=False):
            if number is None:
                found.append(Made(**self._no_tensor(value), gradient="never"))
            else:
                edge = self.network.edges[number]
                found.append(Made(**self._tensor(edge, self.made[number]), gradient=edge.gradient))
        return found

    def _randomness(self, operator: Operator, choices: Sequence[Choice]) -> Randomness | None:
        if not operator.declaration.random:
            return None
        self.draws += 1
        differs = [
            name for name, choice in zip(self.mesh.names, choices, strict=True) if choice.name
        ]
        return Randomness(differs=differs, stream=self.draws - 1)

    def _output(self, name: str, value: Value) -> OutputPlan:
        edge = self.network.edges[self.network.number_of(value, None)]
        tensor = isinstance(value.type, TensorType)
        layout = self.made[edge.number] if tensor else self.whole
        source = self.conversions.sources.get(f"return:{edge.value.name}", edge.value.name)
        return OutputPlan(**self._tensor(edge, layout), name=name, source=source)


def split_of(choice: Choice, op_class: OperatorClass | None = None) -> Split:
    """Returns what a plan says of a choice. op_class: as outer axes left it, where a choice may be
    one of unequal parts.
    """
    of: Dim = 0
    unit: Dim | None = 1
    if choice.units and choice.name is not None and op_class is not None:
        of = op_class.lengths[choice.name]
        shard = Shard(0, choice.blocks, choice.segments)
        unit = exact_quotient(of, shard.units * choice.units, op_class.facts)
    return Split(
        identifier=choice.name,
        blocks=str(choice.blocks),
        segments=list(choice.segments),
        rule=choice.rule,
        of=str(of),
        unit=str(unit),
    )


def sends_of(
    network: Network,
    mesh: Mesh,
    operator: Operator,
    op_class: OperatorClass,
    choices: Sequence[Choice],
    uncounted: dict[str, None],
) -> list[Sent]:
    """Returns what the rules of an operator communicate, outer axis first. uncounted: takes the
    names of operators whose rules do not say it.
    """
    found: list[Sent] = []
    for (axis, count), choice in zip(mesh.axes, choices, strict=True):
        rule = None if choice.rule is None else op_class.rules[choice.rule]
        if rule is None:
            continue
        if rule.sends is None and (rule.local or rule.modifier):
            uncounted[operator.node.name] = None
        for message in rule.sends or ():
            item = item_bytes(_dtype(network, operator, message.like))
            lengths = dims_of_row(message.row, op_class.lengths, op_class.solution.layout.star)
            held = product([*lengths, item])
            whole = held if message.collective == "all-reduce" else held * count
            size = sends((message.collective,), whole, count)
            ways: list[tuple[Literal["forward", "backward"], Gradient]] = []
            if message.forward:
                ways.append(("forward", "always"))
            if message.backward:
                ways.append(("backward", _gradient(network, operator, message.of)))
            found.extend(
                Sent(
                    axis=axis,
                    direction=way,
                    collective=message.collective,
                    runs=runs,
                    bytes=str(size),
                )
                for way, runs in ways
                if runs != "never"
            )
    return found


def _dtype(network: Network, operator: Operator, like: str) -> str | None:
    if like == "count":
        return "int64"
    numbers = operator.inputs if like.endswith("input") else operator.outputs
    number = next((number for number in numbers if number is not None), None)
    dtype = None if number is None else network.edges[number].dtype
    few = like.startswith("wide") and dtype in ("float16", "bfloat16")
    return "float32" if few else dtype


def _gradient(network: Network, operator: Operator, inputs: Sequence[int]) -> Gradient:
    """Whether one of these inputs has a gradient in training."""
    edges = [operator.inputs[n] for n in inputs if n < len(operator.inputs)]
    flags = {network.edges[edge].gradient for edge in edges if edge is not None}
    return "always" if "always" in flags else "inputs" if "inputs" in flags else "never"


def size_texts(row: str, lengths: Mapping[str, Dim], star: Sequence[str]) -> list[str]:
    """Returns the lengths of a row of the annotation language.

    >>> size_texts("b 8 (h d)", {"b": 2, "h": 3, "d": 4}, ())
    ['2', '8', '12']
    """
    return [str(dim) for dim in dims_of_row(row, lengths, star)]


def dims_of_row(row: str, lengths: Mapping[str, Dim], star: Sequence[str]) -> list[Dim]:
    """Returns the same lengths as polynomials."""
    found: list[Dim] = []
    for atoms in _row(row):
        if atoms is None:
            found.extend(lengths[name] for name in star)
        else:
            found.append(product([lengths[a] if isinstance(a, str) else a for a in atoms]))
    return found


@lru_cache(maxsize=4096)
def _row(row: str) -> tuple[tuple[str | int, ...] | None, ...]:
    """The atoms of every dimension; None for ``*``."""
    (operand,) = read_annotation(f"{row} -> ()").inputs
    if not isinstance(operand, Tensor):
        return ()
    return tuple(
        None
        if isinstance(dim, Star)
        else tuple(atom.value if isinstance(atom, Number) else atom.name for atom in dim.atoms)
        for dim in operand.dims
    )


def conditions_of(decided: Decided) -> dict[str, str]:
    """Returns the conditions of the choices with their reasons."""
    found: dict[str, str] = {}
    for state, requirements in decided:
        for choice, reason in (*_of_inputs(state), *_of_operators(state)):
            for condition in requirements.conditions_of(choice) or ():
                found.setdefault(condition, reason)
    return found


def reasons_of(network: Network, found: Mapping[str, str]) -> dict[str, str]:
    """Returns the conditions of the graph and these with their reasons, without those that follow
    from others.
    """
    own = list(getattr(network.graph, "conditions", ()))
    facts = [str(fact) for fact in network.graph.facts]
    kept = essential([*own, *found], facts) if found else own
    return {text: found.get(text, "the graph") for text in kept}


def _of_inputs(state: AxisState) -> Iterator[tuple[Choice, str]]:
    """The choices that cut what a caller gives, which says most to who reads it."""
    for edge in state.network.edges:
        for number, place in edge.uses if edge.kind == "input" else ():
            choice = state.choices[number]
            placement = choice.inputs[place]
            if isinstance(placement, Shard):
                yield choice, f"{state.axis} cuts dimension {placement.dim} of {edge.target}"


def _of_operators(state: AxisState) -> Iterator[tuple[Choice, str]]:
    """All choices, each with the first operator that makes it."""
    seen: set[Choice] = set()
    for operator, choice in zip(state.network.operators, state.choices, strict=True):
        if choice not in seen:
            seen.add(choice)
            yield choice, f"{state.axis} cuts {choice.name} of {operator.node.id}"
