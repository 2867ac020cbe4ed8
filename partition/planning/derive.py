"""`derive`: what follows from the decisions of a plan, by the code that plans.

A plan is a theorem about a graph, and its decisions are a mesh, the split of every operator along
every axis, and what is run again in the backward pass. The split says which rule of the operator is
used; where one rule has several forms (a fused weight cut in blocks, a partial value at one input
or at two), the placements of the operator's own tensors say which. All else follows: conversions
and what they do to gradients, what ranks hold, lengths, bytes, conditions. So nothing else that a
plan says has to be believed.

    linear   tp: n   R, S(0) -> S(2)    the rule of n in "* k+, n k+ -> * n": taken
    linear   tp: n   R, S(1) -> S(2)    no form of that rule: what follows is another plan
    softmax  tp: d   S(2) -> S(2)       refused: d^ may not be cut

Whether a plan says what follows from its decisions, and the first difference where it does not.

    operator linear, operands[1].placements[0]: the plan says "S(1)", its splits give "S(0)"
    conversion up_weight@1, shared_gradient: the plan says false, its splits give true
    output relu: the plan has it where its splits give add

Three things are not derived, and nothing runs by them: the policy's name, the notes on what it left
whole, and where the code of an operator stands.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from itertools import zip_longest
from typing import Any, TypeAlias

from dimsolve.ir.characters import shown
from dimsolve.ir.errors import DimsolveError
from dimsolve.ir.graph import Graph
from dimsolve.solver.algebra.poly import Dim
from dimsolve.solver.graphs.problems import place
from dimsolve.solver.proof.facts import Facts
from dimsolve.solver.proof.prove import prove
from dimsolve.solver.shapes import dim_of_text

from ..collector import uncollected
from ..fingerprint import check_graph
from ..legality import Legality
from ..mesh import Mesh
from ..placement import Partial, Placement, Reduction, Shard, read_placement, segmented
from ..plan import Made, Operand, OperatorPlan, Plan, Split
from ..plan_data import (
    PLAN_AGAIN,
    Model,
    PlanError,
    follows_not,
    plan_error,
)
from ..plan_data import (
    OperatorPlan as Plan_DataOperatorPlan,
)
from ..regions import check_regions
from .assemble import Assembly
from .choices import Choice, Kind, Refusal
from .completion import loses_digits
from .illegal import legality_of
from .network import Network, Operator, inlined
from .planner import check_symbols, require_graph
from .propagation import AxisState, Duties

Texts: TypeAlias = tuple[str | None, ...]
"""The placements of an operator's tensors along one axis as a plan writes them; None for what is no
tensor.
"""


def derive(plan: Plan, graph: Graph) -> Plan:
    """Returns the plan that follows for a graph from the decisions of a plan, by the rules.

    Raises PlanError for a plan of another graph, and for a split that is illegal, or that the rules
    of its operator do not offer; MeshError for a mesh that is none.
    """
    require_graph(graph)
    with uncollected():
        graph = inlined(graph)
        identity = check_graph(plan, graph)
        network, mesh = Network(graph), Mesh.with_axes(dict(plan.mesh))
        check_symbols(mesh, network)
        _check_operators(plan, network, mesh)
        check_regions(plan, graph)
        kinds = [operator.kind for operator in network.operators]
        decided: list[tuple[AxisState, Duties]] = []
        for number, (axis, count) in enumerate(mesh.axes):
            state = AxisState(network, axis, count, kinds)
            duties = Duties(count, network.facts)
            _Axis(plan, number, state, duties).decide()
            kinds = state.local_kinds()
            decided.append((state, duties))
        assembly = Assembly(network, mesh, decided, kinds)
        return assembly.plan(identity, plan.policy, plan.notes, plan.regions)


def _check_operators(plan: Plan, network: Network, mesh: Mesh) -> None:
    """Raises PlanError where the plan's operators are not the graph's, or have other tensors."""
    ids = [entry.node for entry in plan.operators]
    expected = [operator.node.id for operator in network.operators]
    for mine, theirs in zip(ids, expected, strict=False):
        if mine != theirs:
            raise follows_not(f"it has the operator {shown(mine)} where the graph has {theirs}")
    if len(ids) != len(expected):
        raise follows_not(f"it has {len(ids)} operators, and the graph {len(expected)}")
    for entry, operator in zip(plan.operators, network.operators, strict=True):
        _check_tensors(entry, operator, mesh)


def _check_tensors(entry: OperatorPlan, operator: Operator, mesh: Mesh) -> None:
    node = operator.node
    for name, found, count in (
        ("operands", len(entry.operands), len(node.operands())),
        ("outputs", len(entry.outputs), min(len(node.outputs), len(operator.outputs))),
    ):
        if found != count:
            raise follows_not(f"operator {node.id} has {found} {name}, and in the graph {count}")
    for each in (*entry.operands, *entry.outputs):
        if len(each.placements) != len(mesh.axes):
            raise follows_not(
                f"operator {node.id} has {len(each.placements)} placements of "
                f"{shown(each.value)}, and the mesh has {len(mesh.axes)} axes"
            )
    for axis in entry.splits:
        if axis not in mesh.names:
            raise follows_not(
                f"operator {node.id} is split along '{shown(axis)}'; the axes of the mesh are "
                f"{', '.join(mesh.names) or 'none'}"
            )


class _Axis:
    """The decisions along one axis, which is ``position`` in the mesh."""

    def __init__(self, plan: Plan, position: int, state: AxisState, duties: Duties) -> None:
        self.plan = plan
        self.position = position
        self.state = state
        self.duties = duties
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

    def choice(self, number: int, entry: OperatorPlan, split: Split) -> Choice:
        """Returns the choice that a split names."""
        operator, kind = self.state.network.operators[number], self.state.kinds[number]
        if operator.pinned:
            raise self.refused(operator, split, operator.pinned)
        texts = self.texts(operator, entry)
        key = (kind, split.identifier, split.blocks, tuple(split.segments), split.rule, texts)
        if key not in self.known:
            self.known[key] = found(kind, split, texts)
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
            None if wire is None or place is None else entry.operands[place]
            for wire, place in zip(operator.inputs, places, strict=False)
        ]
        outputs = [
            None if wire is None else entry.outputs[number]
            for number, wire in enumerate(operator.outputs)
        ]
        return tuple(
            [None if each is None else each.placements[self.position] for each in inputs + outputs]
        )

    def check(self, number: int, split: Split, choice: Choice) -> None:
        """Raises PlanError for a choice that is illegal for this count, or loses digits."""
        operator = self.state.network.operators[number]
        if choice.name is None:
            # What an operator makes has the dtypes of its own values: not the same for its kind.
            if loses_digits(self.state, number, choice):
                reason = "a sum over ranks would be taken in fewer digits than one rank has"
                raise self.refused(operator, split, reason)
            return
        duty = self.duties.first_illegal(choice)
        if duty is not None:
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
            text=operator.kind.solution.text,
            legality=legality,
        )


def found(kind: Kind, split: Split, texts: Texts) -> Choice | Refusal:
    """Returns the choice of a kind that a plan writes: the one with all its placements, else one
    with its split.

    texts: the placements of the kind's tensors in the plan.
    """
    refusal: Refusal | None = None
    alike: Choice | None = None
    for answer in _offered(kind, split, texts):
        if isinstance(answer, Refusal):
            refusal = refusal or answer
        elif _told(answer) == (split.identifier, split.blocks, tuple(split.segments), split.rule):
            if all(
                text is None or str(answer.at(tensor)) == text for tensor, text in enumerate(texts)
            ):
                return answer
            alike = alike or answer
    if alike is not None:
        return alike
    return refusal or Refusal("no rule of the operator cuts it so")


def _told(choice: Choice) -> tuple[str | None, str, tuple[int, ...], int | None]:
    return choice.name, str(choice.blocks), choice.segments, choice.rule


def _offered(kind: Kind, split: Split, texts: Texts) -> Iterator[Choice | Refusal]:
    """What the rules of a kind offer of this split: its identifier so cut, and whatever has one of
    the placements that the plan writes.
    """
    placed = [(n, _placement(text)) for n, text in enumerate(texts) if text is not None]
    if split.identifier is None:
        yield from _passing(kind, placed)
        return
    if split.identifier not in kind.lengths:
        listed = ", ".join(kind.solution.layout.marks) or "none"
        yield Refusal(f"it has no identifier '{shown(split.identifier)}'; there are {listed}")
        return
    shard = _shard(split)
    if shard is None or not _at_least_one(shard.blocks, kind.facts):
        yield Refusal(f"{shown(str(split))} is no way to cut an identifier")
        return
    yield kind.split(split.identifier, shard.blocks, shard.segments)
    for tensor, placement in placed:
        if isinstance(placement, Shard) and _may_be(kind, tensor, placement):
            yield kind.spread(tensor, placement)


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
    kind: Kind, placed: Sequence[tuple[int, Placement | None]]
) -> Iterator[Choice | Refusal]:
    partial: dict[Reduction, set[int]] = {}
    for tensor, placement in placed:
        if isinstance(placement, Partial) and tensor < kind.inputs:
            partial.setdefault(placement.reduction, set()).add(tensor)
    for reduction, tensors in partial.items():
        choice = kind.passing(frozenset(tensors), reduction)
        yield choice or Refusal(f"it is not linear in the inputs that are P({reduction.value})")
    if not partial:
        yield Refusal("none of its inputs is partial")


def _placement(text: str) -> Placement | None:
    try:
        return read_placement(text)
    except DimsolveError:
        return None


def _may_be(kind: Kind, tensor: int, shard: Shard) -> bool:
    """Whether a tensor has the dimension, and the blocks are a number of blocks."""
    patterns = kind.tensors[tensor]
    if patterns is None or shard.dim >= len(patterns):
        return False
    return _at_least_one(shard.blocks, kind.facts)


def _at_least_one(blocks: Dim, facts: Facts) -> bool:
    if isinstance(blocks, int):
        return blocks >= 1
    return prove(f"{blocks} >= 1", facts=facts).verdict == "proved"


COMMENTS: dict[type[Model], frozenset[str]] = {
    Plan: frozenset({"policy", "notes"}),
    Plan_DataOperatorPlan: frozenset({"source"}),
}
"""The fields that are not derived."""

_LISTS = {
    "operators": ("operator", "node"),
    "inputs": ("input", "value"),
    "conversions": ("conversion", "id"),
    "outputs": ("output", "name"),
}
"""Lists of entries: what one of them is called, and the field that names it."""

_SHOWN = 60


def check_derived(plan: Plan, graph: Graph) -> None:
    """Raises PlanError where the plan is not the one that the planner's rules derive from the graph
    with this mesh and these splits: where it was edited, or made for another graph.
    """

    difference = next(differences(plan, derive(plan, graph)), None)
    if difference is not None:
        raise follows_not(difference)


def differences(plan: Plan, derived: Plan) -> Iterator[str]:
    """Yields what a plan says otherwise than the one that its splits give, a line each."""
    for name, (kind, key) in _LISTS.items():
        mine, theirs = getattr(plan, name), getattr(derived, name)
        if mine != theirs:
            yield from _listed(kind, key, mine, theirs)
    yield from _fields("", plan, derived)


def _listed(kind: str, key: str, mine: Sequence[Any], theirs: Sequence[Any]) -> Iterator[str]:
    for said, follows in zip_longest(mine, theirs):
        if follows is None:
            yield f"{kind} {shown(getattr(said, key))}: the plan has it, and its splits give none"
        elif said is None:
            yield f"{kind} {getattr(follows, key)}: its splits give it, and the plan has none"
        elif said != follows:
            yield from _fields(f"{kind} {getattr(follows, key)}, ", said, follows)


def _fields(where: str, mine: Model, theirs: Model) -> Iterator[str]:
    kind = type(theirs)
    for name in kind.model_fields:
        if name not in COMMENTS.get(kind, ()) and (kind is not Plan or name not in _LISTS):
            for path, said, follows in _leaves(_plain(mine, name), _plain(theirs, name)):
                yield _line(f"{where}{name}{path}", said, follows)


def _plain(model: Model, name: str) -> Any:
    return model.model_dump(mode="json", include={name}).get(name)


def _leaves(mine: Any, theirs: Any) -> Iterator[tuple[str, Any, Any]]:
    """The places where two JSON values differ, as deep as their forms are the same."""
    if mine == theirs and type(mine) is type(theirs):
        return
    if isinstance(mine, dict) and isinstance(theirs, dict) and list(mine) == list(theirs):
        for key, each in theirs.items():
            for path, said, follows in _leaves(mine[key], each):
                yield f".{key}{path}", said, follows
    elif isinstance(mine, list) and isinstance(theirs, list) and len(mine) == len(theirs):
        for number, each in enumerate(theirs):
            for path, said, follows in _leaves(mine[number], each):
                yield f"[{number}]{path}", said, follows
    else:
        yield "", mine, theirs


def _line(where: str, said: Any, follows: Any) -> str:
    texts = [shown(json.dumps(each, ensure_ascii=False), _SHOWN) for each in (said, follows)]
    return f"{where}: the plan says {texts[0]}, its splits give {texts[1]}"
