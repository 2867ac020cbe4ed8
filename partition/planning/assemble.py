"""From choices to the plan: placements, local shapes, conversions, all as text."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from dimsolve.ir.types import TensorType
from dimsolve.solver.algebra.poly import Dim

from ..layouts import Layout, local_dims
from ..mesh import Mesh
from ..plan import (
    GraphId,
    InputPlan,
    Made,
    Operand,
    OperatorPlan,
    OutputPlan,
    Plan,
    Randomness,
    Split,
)
from .choices import Choice, R
from .joints import Joints, Use
from .kinds import Kind
from .network import Network, Operator, Wire
from .reasons import Decided, reasons_of
from .state import stored
from .texts import shape_text, size_texts


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

    def plan(self, identity: GraphId, policy: str, notes: Iterable[str]) -> Plan:
        """Returns the plan. policy, notes: who decided, and what was left whole."""
        for wire in self.network.wires:
            uses = [*self._uses(wire), *self._returns(wire)]
            if uses:
                self.joints.join(wire, self.made[wire.number], uses)
        graph = self.network.graph
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
