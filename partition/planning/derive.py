"""`derive`: what follows from the decisions of a plan, by the code that plans.

A plan is a theorem about a graph, and its decisions are a mesh, the split of every operator along
every axis, and what is run again in the backward pass. The split says which rule of the operator is
used; where one rule has several forms (a fused weight cut in blocks, a partial value at one input
or at two), the placements of the operator's own tensors say which. All else follows: conversions
and what they do to gradients, parts, lengths, bytes, conditions. So nothing else that a plan says
has to be believed.

    linear   tp: n   R, S(0) -> S(2)    the rule of n in "* k+, n k+ -> * n": taken
    linear   tp: n   R, S(1) -> S(2)    no form of that rule: what follows is another plan
    softmax  tp: d   S(2) -> S(2)       refused: d^ may not be cut
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, TypeAlias, TypeVar

from dimsolve.ir.characters import shown
from dimsolve.ir.errors import DimsolveError
from dimsolve.ir.graph import Graph
from dimsolve.solver.algebra.poly import Dim, divide_exactly
from dimsolve.solver.graphs.problems import place
from dimsolve.solver.proof.facts import Facts
from dimsolve.solver.proof.prove import prove
from dimsolve.solver.shapes import dim_of_text

from ..checkpoints import check_regions
from ..compare import differences
from ..fingerprint import check_graph
from ..gc_paused import gc_paused
from ..inlining import inlined
from ..legality import Legality
from ..mesh import Mesh
from ..placement import Grouped, Partial, Placement, Reduction, Shard, read_placement, segmented
from ..plan_data import (
    NOT_DERIVED,
    PLAN_AGAIN,
    Made,
    Operand,
    OperatorPlan,
    PlanData,
    PlanError,
    Split,
    plan_error,
)
from .assemble import Assembly
from .axis_state import AxisState
from .choices import Choice, OperatorClass, Refusal
from .completion import loses_digits
from .experts import ungrouped
from .illegal import legality_of
from .network import Network, Operator
from .planner import check_symbols, require_graph
from .requirements import Requirements

P = TypeVar("P", bound=PlanData)
Texts: TypeAlias = tuple[str | None, ...]
"""The placements of an operator's tensors along one axis as a plan writes them; None for what is no
tensor.
"""


def check_derived(plan: P, graph: Graph) -> P:
    """Returns the plan, in the version of today: one of version 1 or 2 says nothing of what rules
    communicate.

    Raises PlanError where the plan is not the one that the planner's rules derive from the graph
    with this mesh and these splits: where it was edited, or made for another graph.
    """
    derived = derive(plan, graph)
    older = plan.version < 3 <= derived.version
    if older:
        sends = {entry.node: entry.sends for entry in derived.operators}
        entries = [e.model_copy(update={"sends": sends.get(e.node, [])}) for e in plan.operators]
        plan = plan.model_copy(update={"version": derived.version, "operators": entries})
    difference = next(differences(plan, derived), None)
    if difference is not None:
        raise NOT_DERIVED(reason=difference)
    return plan


def derive(plan: P, graph: Graph) -> P:
    """Returns the plan that follows for a graph from the decisions of a plan, by the rules.

    Raises PlanError for a plan of another graph, and for a split that is illegal, or that the rules
    of its operator do not offer; MeshError for a mesh that is none.
    """
    require_graph(graph)
    with gc_paused():
        graph = inlined(graph)
        identity = check_graph(plan, graph)
        network, mesh = Network(graph), Mesh.with_axes(dict(plan.mesh))
        check_symbols(mesh, network)
        mismatch = _mismatch(plan, network, mesh)
        if mismatch:
            raise NOT_DERIVED(reason=mismatch)
        check_regions(plan, graph)
        classes = [operator.op_class for operator in network.operators]
        decided: list[tuple[AxisState, Requirements]] = []
        for number, (axis, count) in enumerate(mesh.axes):
            state = AxisState(network, axis, count, classes)
            requirements = Requirements(count, network.facts)
            _Axis(plan, number, state, requirements).decide()
            classes = state.local_classes()
            decided.append((state, requirements))
        assembly = Assembly(
            network, mesh, decided, classes, dict(plan.state), plan.precision, plan.factors
        )
        made = assembly.plan(
            type(plan), identity, plan.policy, plan.notes, plan.regions, plan.conditions
        )
        return made.searched(plan.search)


def _mismatch(plan: PlanData, network: Network, mesh: Mesh) -> str:
    """Where the plan's operators are not the graph's, or have other tensors or axes; "" nowhere."""
    for axis, names in plan.factors.items():
        together = f" {' '.join(mesh.names)} "
        if axis in mesh.names or f" {' '.join(names)} " not in together:
            return f"{shown(axis)} is seen as axes that the mesh has not one after the other"
    ids = [entry.node for entry in plan.operators]
    expected = [operator.node.id for operator in network.operators]
    for mine, theirs in zip(ids, expected, strict=False):
        if mine != theirs:
            return f"it has the operator {shown(mine)} where the graph has {theirs}"
    if len(ids) != len(expected):
        return f"it has {len(ids)} operators, and the graph {len(expected)}"
    for entry, operator in zip(plan.operators, network.operators, strict=True):
        node = operator.node
        for name, found, count in (
            ("operands", len(entry.operands), len(node.operands())),
            ("outputs", len(entry.outputs), min(len(node.outputs), len(operator.outputs))),
        ):
            if found != count:
                return f"operator {node.id} has {found} {name}, and in the graph {count}"
        for each in (*entry.operands, *entry.outputs):
            if len(each.placements) != len(mesh.axes):
                return (
                    f"operator {node.id} has {len(each.placements)} placements of "
                    f"{shown(each.value)}, and the mesh has {len(mesh.axes)} axes"
                )
        for axis in entry.splits:
            if axis not in mesh.names:
                return (
                    f"operator {node.id} is split along '{shown(axis)}'; the axes of the mesh are "
                    f"{', '.join(mesh.names) or 'none'}"
                )
    return ""


class _Axis:
    """The decisions along one axis, which is ``position`` in the mesh."""

    def __init__(
        self, plan: PlanData, position: int, state: AxisState, requirements: Requirements
    ) -> None:
        self.plan = plan
        self.position = position
        self.state = state
        self.requirements = requirements
        self.known: dict[Any, Choice | Refusal] = {}
        self.legal: set[Choice] = set()

    def decide(self) -> None:
        """Makes the plan's choices. Raises PlanError for the first that may not be made."""
        state = self.state
        choices: dict[int, Choice] = {}
        for number, entry in enumerate(self.plan.operators):
            split = entry.splits.get(state.axis)
            if split is not None:
                choices[number] = self.choice(number, entry, split)
        state.accept(state.change(choices))
        found = ungrouped(state)
        if found is not None:
            number, reason = found
            entry = self.plan.operators[number]
            raise self.refused(state.network.operators[number], entry.splits[state.axis], reason)

    def choice(self, number: int, entry: OperatorPlan, split: Split) -> Choice:
        """Returns the choice that a split names."""
        operator, op_class = self.state.network.operators[number], self.state.classes[number]
        if operator.pinned:
            raise self.refused(operator, split, operator.pinned)
        texts = self.texts(operator, entry)
        own = tuple(split.segments), split.rule, split.of, split.unit
        key = (op_class, split.identifier, split.blocks, *own, texts)
        if key not in self.known:
            self.known[key] = _found(op_class, split, texts)
        answer = self.known[key]
        if isinstance(answer, Refusal):
            raise self.refused(operator, split, answer.reason)
        if answer not in self.legal:
            self.check(number, split, answer)
        return answer

    def texts(self, operator: Operator, entry: OperatorPlan) -> Texts:
        """The placements that the plan writes at the tensors of an operator."""
        places = operator.declaration.places
        inputs: list[Operand | Made | None] = [
            None if edge is None or place is None else entry.operands[place]
            for edge, place in zip(operator.inputs, places, strict=False)
        ]
        outputs = [
            None if edge is None else entry.outputs[number]
            for number, edge in enumerate(operator.outputs)
        ]
        return tuple(
            [None if each is None else each.placements[self.position] for each in inputs + outputs]
        )

    def check(self, number: int, split: Split, choice: Choice) -> None:
        """Raises PlanError for a choice that is illegal for this count, or loses digits."""
        operator = self.state.network.operators[number]
        if choice.name is None:
            # What comes out has the dtypes of this operator's values: not the same for its class.
            if loses_digits(self.state.network, number, choice):
                reason = "a sum over ranks would be taken in fewer digits than one rank has"
                raise self.refused(operator, split, reason)
            return
        if self.requirements.first_illegal(choice) is not None:
            legality = legality_of(self.state, number, choice)
            raise self.refused(operator, split, legality.reason, legality)
        self.legal.add(choice)

    def refused(
        self, operator: Operator, split: Split, reason: str, legality: Legality | None = None
    ) -> PlanError:
        """Returns the error for a split that may not be made."""
        unknown = legality is not None and legality.verdict == "unknown"
        what = "a split that is not known to be legal" if unknown else "an illegal split"
        return plan_error(
            "undecided-split" if unknown else "illegal-split",
            f"the plan has {what}: {shown(str(split))} into {self.state.count} parts "
            f"along {self.state.axis}",
            f"{place(operator.node)}: {reason}",
            PLAN_AGAIN,
            text=operator.op_class.solution.text,
            legality=legality,
        )


def _found(op_class: OperatorClass, split: Split, texts: Texts) -> Choice | Refusal:
    """The choice that a plan writes: the one with all its placements, else one with its split."""
    if split.uneven:
        return _found_uneven(op_class, split, texts)
    refusal: Refusal | None = None
    alike: Choice | None = None
    said = split.identifier, split.blocks, tuple(split.segments), split.rule
    for answer in _offered(op_class, split, texts):
        if isinstance(answer, Refusal):
            refusal = refusal or answer
        elif (answer.name, str(answer.blocks), answer.segments, answer.rule) == said:
            if all(text in (None, str(answer.at(n))) for n, text in enumerate(texts)):
                return answer
            alike = alike or answer
    return alike or refusal or Refusal("no rule of the operator cuts it so")


def _found_uneven(op_class: OperatorClass, split: Split, texts: Texts) -> Choice | Refusal:
    """The choice of as many units as the plan writes, of what cuts equal parts so."""
    shard = _shard(split)
    try:
        of, unit = dim_of_text(split.of), dim_of_text(split.unit)
    except DimsolveError:
        of, unit = 0, 0
    units = None if shard is None or not unit else divide_exactly(of, shard.units * unit)
    if units is None or units == 0:
        return Refusal(f"{shown(str(split))} is no way to cut an identifier")
    placed = [None if text is None else _placement(text) for text in texts]
    equal = tuple(
        [str(p.even) if isinstance(p, Shard) else t for p, t in zip(placed, texts, strict=True)]
    )
    found = _found(op_class, split.model_copy(update={"of": "0", "unit": "1"}), equal)
    return op_class.uneven(found, units, weighed=True) if isinstance(found, Choice) else found


def _offered(op_class: OperatorClass, split: Split, texts: Texts) -> Iterator[Choice | Refusal]:
    """What the rules offer of this split: its identifier so cut, and whatever has one of the
    placements that the plan writes.
    """
    placed = [(n, _placement(text)) for n, text in enumerate(texts) if text is not None]
    if split.identifier is None:
        yield from _passing(op_class, placed)
        return
    if split.identifier not in op_class.lengths:
        listed = ", ".join(op_class.solution.layout.marks) or "none"
        yield Refusal(f"it has no identifier '{shown(split.identifier)}'; there are {listed}")
        return
    shard = _shard(split)
    if shard is None or not _at_least_one(shard.blocks, op_class.facts):
        yield Refusal(f"{shown(str(split))} is no way to cut an identifier")
        return
    for unequal in (False, True):
        yield op_class.split(split.identifier, shard.blocks, shard.segments, unequal=unequal)
    yield from op_class.ways(split.identifier)
    for tensor, placement in placed:
        patterns = op_class.tensors[tensor]
        if isinstance(placement, Grouped):
            yield from op_class.grouped(tensor, placement)
        if (
            isinstance(placement, Shard)
            and not placement.of
            and patterns is not None
            and placement.dim < len(patterns)
            and _at_least_one(placement.blocks, op_class.facts)
        ):
            yield op_class.spread(tensor, placement)


def _shard(split: Split) -> Shard | None:
    """The blocks and segments of a split; None for those that mean nothing, or are not written in
    their one form.
    """
    try:
        blocks, segments = dim_of_text(split.blocks), tuple(split.segments)
    except DimsolveError:
        return None
    if any(each < 1 for each in segments):
        return None
    shard = segmented(0, blocks, segments)
    return shard if (shard.blocks, shard.segments) == (blocks, segments) else None


def _passing(
    op_class: OperatorClass, placed: Sequence[tuple[int, Placement | None]]
) -> Iterator[Choice | Refusal]:
    partial: dict[Reduction, set[int]] = {}
    for tensor, placement in placed:
        if isinstance(placement, Partial) and tensor < op_class.inputs:
            partial.setdefault(placement.reduction, set()).add(tensor)
    for reduction, tensors in partial.items():
        choice = op_class.passing(frozenset(tensors), reduction)
        yield choice or Refusal(f"it is not linear in the inputs that are P({reduction.value})")
    if not partial:
        yield Refusal("none of its inputs is partial")


def _placement(text: str) -> Placement | None:
    try:
        return read_placement(text)
    except DimsolveError:
        return None


def _at_least_one(blocks: Dim, facts: Facts) -> bool:
    if isinstance(blocks, int):
        return blocks >= 1
    return prove(f"{blocks} >= 1", facts=facts).verdict == "proved"
