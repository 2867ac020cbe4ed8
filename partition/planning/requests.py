"""Splits that are asked for by hand: by a mapping, by a function, or of a graph itself.

A mapping has patterns (with ``*``, ``?`` and ``[...]``) of node names, and splits per axis. A
pattern is matched against the path of the module that made the call, the node's id, the operator's
name, and module and name joined by a dot. A split is an identifier of the annotation or
(index, dim); of the nodes of a module those take it that have it. Of two patterns that match one
node the later counts.

    {"*.q_proj": {"tp": "n"}, "*.o_proj": {"tp": "k"}, "matmul_custom": {"tp": (0, 1)}}

A function is written as users of nnScaler write it. It is given a `PolicyGraph`: the graph, with
``partition``.

    def PAS(graph, resource):
        for node in graph.nodes():
            if node.name == "matmul_custom":
                algo = node.algorithm("dim")
                graph.partition(node, algo, idx=0, dim=1, num=resource.ngpus)
        return graph

All become `Request`s, which are checked one by one before anything else is decided; what they leave
open follows. A split that is asked of a graph itself is checked when it is asked: one that cannot
be leaves the graph as it was. Whether it is legal, and along which axis it goes, is asked when a
plan is made: a graph knows no mesh.
"""

from __future__ import annotations

import inspect
import traceback
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from dimsolve.ir.errors import AnnotationError, DimsolveError
from dimsolve.ir.graph import Algorithm, FunctionCall, Graph, Node
from dimsolve.solver.algebra.poly import Dim, product
from dimsolve.solver.graphs.problems import place
from dimsolve.solver.shapes import to_dim
from dimsolve.solver.solution import Solution

from ..legality import Legality, judge
from ..mesh import Mesh
from ..placement import Shard
from ..plan_data import PlanError, plan_error, problem
from ..rules.naming import nothing_to_split, split_name
from .axis_state import AxisState
from .choices import Choice, Refusal
from .illegal import legal_counts, legality_of
from .network import Network, Operator, OperatorClasses, declaration_of, facts_of, known_symbols
from .propagation import propagate
from .requirements import Requirements, common_length, share_text, units_of

Split = str | tuple[int, int]

NO_SUCH_NODE = problem(
    "no-such-node",
    "a pattern of the policy matches nothing",
    "'{pattern:.60}' matches no module path, node or operator of the graph",
    "{hint}",
)
NOT_A_MAPPING = problem(
    "not-a-policy",
    "this is not a policy",
    "{pattern!r:.60}: {split!r:.60}",
    'write {{"*.q_proj": {{"tp": "n"}}}}: an identifier or (index, dim) for each axis',
)
NOT_A_FUNCTION = problem(
    "not-a-policy",
    "this function is no policy",
    "{origin}{signature} is called with a graph and a resource: {error}",
    "write def PAS(graph, resource): ... return graph",
)
FAILED = problem(
    "policy-failed", "a policy failed", "{origin} raised {kind}: {error!s:.200}{where}"
)
NO_GRAPH = problem(
    "no-graph-returned",
    "a policy returned no graph",
    "{origin} returned {result!r:.60}",
    "end it with: return graph",
)
SEVERAL_AXES = problem(
    "several-axes",
    "several mesh axes have as many parts",
    "{origin} asks for {count} parts of {place}; {names} of the mesh {mesh} may be meant",
    'name the axis: graph.partition(..., axis="{first}")',
)
TWICE_ALONG_ONE = problem(
    "partitioned-twice",
    "a node is partitioned twice along one axis",
    "{origin} asks for {count} parts of {place} again; it is partitioned along {used}, "
    "and the mesh is {mesh}",
    "partition a node once for each axis of the mesh",
)
NO_SUCH_COUNT = problem(
    "no-such-count",
    "no mesh axis has as many parts",
    "{origin} asks for {count} parts of {place}; the mesh is {mesh}",
    "num is the size of an axis, or the number of all ranks",
)
NOT_A_COUNT = problem(
    "not-a-count",
    "this is no number of parts",
    "{origin} asks for {num!r:.60} parts of {place}: {reason}",
    "num is the size of an axis, or the number of all ranks",
)
NOT_A_NODE = problem(
    "not-a-node",
    "this is no node of the graph with its algorithm",
    "{origin} partitions {node!r:.60} by {algo!r:.60}",
    'write algo = node.algorithm("dim"); graph.partition(node, algo, idx=0, dim=1, num=n)',
)
NOT_AN_AXIS = problem(
    "not-an-axis",
    "this is no name of a mesh axis",
    "{origin} is given axis={axis!r:.60} for {place}",
    'give the name of the axis, such as axis="tp"',
)
A_CALL = problem(
    "a-call",
    "a call of a function is not cut itself",
    "{origin} is asked to cut {place}, a call of @{function}",
    'cut the nodes of graph.functions["{function}"], in all calls alike, or write a policy '
    "PAS(graph, resource), which is given the graph with the calls written out",
)


@dataclass(frozen=True, slots=True)
class Request:
    """One split. ``origin``: who asks for it, in words."""

    operator: int
    axis: str
    split: Split
    origin: str


def obey(requests: Sequence[Request], state: AxisState, requirements: Requirements) -> list[str]:
    """Decides what is asked for along one axis; returns notes on unequal parts. Raises PlanError
    for a split that is illegal or undecided, with the Legality as its message.
    """
    asked: dict[int, tuple[str, Request]] = {}
    notes: dict[str, None] = {}
    for request in requests:
        if request.axis != state.axis:
            continue
        operator = state.network.operators[request.operator]
        name = _named(operator, request.split, request.origin)
        before, first = asked.setdefault(request.operator, (name, request))
        if before != name:
            raise plan_error(
                "two-splits",
                "one operator is asked for two splits along one axis",
                f"{place(operator.node)}: {first.origin} asks for {before}, "
                f"{request.origin} asks for {name}, both along {state.axis}",
                "name two axes of the mesh, or one split",
                text=state.classes[operator.number].solution.text,
            )
        choice = _choice(state, operator, name, request)
        dealt = _dealt(state, requirements, operator, choice)
        if isinstance(dealt, Choice):
            choice = dealt
            if isinstance(choice.units, int) and isinstance(state.count, int):
                share = share_text(choice.units, state.count)
                cut = f"what {request.origin} asks for is cut into unequal parts"
                notes[f"{state.axis}: {cut}: {share}"] = None
        unmet = requirements.first_illegal(choice)
        if unmet is not None:
            legality = legality_of(state, request.operator, choice)
            hint = legal_counts(common_length([unmet], requirements.facts))
            reason = f"{legality.reason}; {dealt.reason}" if isinstance(dealt, Refusal) else ""
            raise _illegal(state, operator, request, legality, reason, hint)
        requirements.rely(choice, request.origin)
        state.decide(request.operator, choice)
    return list(notes)


def _dealt(
    state: AxisState, requirements: Requirements, operator: Operator, choice: Choice
) -> Choice | Refusal | None:
    """The choice that deals out units, where the count need not divide them and that is allowed:
    units that all operators have to which the cut propagates, or else its own.
    """
    count, number = state.count, operator.number
    if requirements.conditions_of(choice) == () or not isinstance(count, int):
        return None
    edges = (*operator.inputs, *operator.outputs)
    placed = zip(edges, (*choice.inputs, *choice.outputs), strict=True)
    seeds = [(e, p) for e, p in placed if e is not None and isinstance(p, Shard)]
    spread = propagate(state.network, state.classes, seeds, state.fixed)
    needs = [need for each in spread.choices.values() for need in each.requirements]
    for every in ([*choice.requirements, *needs], choice.requirements):
        units = units_of(every, requirements.uneven, state.network.facts)
        if units != 1:
            dealt = state.classes[number].uneven(choice, units, weighed=True)
            if isinstance(dealt, Choice) and requirements.lacks_units(dealt):
                reason = f"{units} units over {count} ranks leave one with nothing of {choice.name}"
                return Refusal(reason, choice.name)
            return dealt
    return None


def _named(operator: Operator, split: Split, origin: str) -> str:
    """The identifier that a split names. Raises PlanError for one that does not exist."""
    solution = operator.op_class.solution
    return _named_of(operator.node, solution, operator.declaration.frozen, split, origin)


def _named_of(node: Node, solution: Solution, frozen: str, split: Split, origin: str) -> str:
    """frozen: why nothing of the node is cut."""
    try:
        name = split_name(solution, split)
    except AnnotationError as error:
        raise plan_error(
            "unknown-split",
            f"{origin} asks for a split that does not exist",
            f"{place(node)}: {error.diagnostic.reason or error.diagnostic.title}",
            error.diagnostic.hint,
            text=solution.text,
        ) from None
    if name is None:
        assert isinstance(split, tuple)
        raise plan_error(
            "illegal-split",
            f"{origin} asks for an illegal split",
            f"{place(node)}: {frozen or nothing_to_split(solution, split)}",
            text=solution.text,
        )
    return name


def _choice(state: AxisState, operator: Operator, name: str, request: Request) -> Choice:
    op_class = state.classes[operator.number]
    answer = Refusal(operator.pinned) if operator.pinned else op_class.split(name)
    if isinstance(answer, Choice):
        return answer
    legality = judge(
        op_class.solution,
        name,
        state.count,
        arguments=dict(operator.declaration.arguments),
        value_split=op_class.contract.value_split,
        reduction=op_class.contract.reduction,
        transform_rules=op_class.rules,
    )
    names = ", ".join(choice.name for choice in op_class.choices() if choice.name is not None)
    hint = f"identifiers that may be cut there: {names}" if names and not operator.pinned else ""
    raise _illegal(state, operator, request, legality, answer.reason, hint)


def _illegal(
    state: AxisState,
    operator: Operator,
    request: Request,
    legality: Legality,
    reason: str = "",
    hint: str = "",
) -> PlanError:
    unknown = legality.verdict == "unknown"
    what = "a split that is not known to be legal" if unknown else "an illegal split"
    return plan_error(
        "undecided-split" if unknown else "illegal-split",
        f"{request.origin} asks for {what}: {legality.split} into {state.count} parts",
        f"{place(operator.node)}: {reason or legality.reason}",
        hint,
        text=legality.solution.text,
        legality=legality,
    )


def requests_of(policy: Mapping[str, Any], network: Network, mesh: Mesh) -> list[Request]:
    """Returns the splits that a mapping asks for. Raises PlanError for a pattern that matches
    nothing, a split that no matched node has, or text that is no split; MeshError for an axis that
    does not exist.
    """
    found: dict[tuple[int, str], Request] = {}
    for pattern, splits in policy.items():
        if not isinstance(pattern, str) or not isinstance(splits, Mapping):
            raise NOT_A_MAPPING(pattern=pattern, split=splits)
        matched = [operator for operator in network.operators if _matches(pattern, operator.node)]
        if not matched:
            nodes = [operator.node for operator in network.operators]
            names = filter(None, (name for n in nodes for name in (n.module, n.name, n.id)))
            close = ", ".join(get_close_matches(pattern, dict.fromkeys(names), n=3, cutoff=0.4))
            raise NO_SUCH_NODE(pattern=pattern, hint=f"close are {close}" if close else "")
        for axis, split in splits.items():
            mesh.index(axis)
            read = _split(pattern, split)
            takers = [operator for operator in matched if _has(operator, read)]
            if not takers:
                raise _no_taker(pattern, read, matched)
            for operator in takers:
                request = Request(operator.number, axis, read, f"'{pattern}'")
                found[operator.number, axis] = request
    return list(found.values())


def _matches(pattern: str, node: Node) -> bool:
    names = (node.module, node.id, node.name, f"{node.module}.{node.name}", node.signature)
    return any(name and fnmatchcase(name, pattern) for name in names)


def _split(pattern: str, split: Any) -> Split:
    match split:
        case str():
            return split
        case (int() as index, int() as dim) if bool not in (type(index), type(dim)):
            return index, dim
        case _:
            raise NOT_A_MAPPING(pattern=pattern, split=split)


def _has(operator: Operator, split: Split) -> bool:
    """Whether a node has the identifier, or a dimension at (index, dim)."""
    op_class = operator.op_class
    if isinstance(split, str):
        return split in op_class.solution.layout.marks
    index, dim = split
    if not 0 <= index < len(op_class.tensors):
        return False
    patterns = op_class.tensors[index]
    return patterns is not None and -len(patterns) <= dim < len(patterns)


def _no_taker(pattern: str, split: Split, matched: list[Operator]) -> PlanError:
    """No matched node has the split; the reason says what the first of them has."""
    operator = matched[0]
    node, tensors = operator.node, operator.op_class.tensors
    names = ", ".join(operator.op_class.solution.layout.marks) or "none"
    rows = ", ".join(f"{index} has {len(row)}" for index, row in enumerate(tensors) if row)
    hint = f"of {node.id}, by index, so many dimensions: {rows}" if rows else ""
    nodes = "1 node" if len(matched) == 1 else f"{len(matched)} nodes"
    return plan_error(
        "unknown-split",
        "no node that a pattern matches has its split",
        f"'{pattern:.60}' matches {nodes}, the first is {node.id} with "
        f"the identifiers {names}; {split!r} is in none of them",
        operator.declaration.frozen or hint,
        text=operator.op_class.solution.text,
    )


@dataclass(frozen=True, slots=True)
class Resource:
    """What there is to run on. ``ngpus``: ranks of all axes together; ``mesh``: sizes by axis."""

    ngpus: Dim
    mesh: dict[str, Dim]


@dataclass(frozen=True, slots=True)
class SubNode:
    """One part of a node that was partitioned. ``index`` counts from 0."""

    node: Node
    index: int


class PolicyGraph:
    """A graph as a policy sees it: everything that `dimsolve.ir.graph.Graph` has, and
    ``partition``.
    """

    def __init__(self, network: Network, mesh: Mesh, origin: str) -> None:
        self.graph = network.graph
        self.network = network
        self.mesh = mesh
        self.origin = origin
        self.requests: list[Request] = []
        self._numbers = {id(node): number for number, node in enumerate(self.graph.nodes())}

    def partition(
        self,
        node: Node,
        algo: Algorithm,
        *,
        idx: int,
        dim: int,
        num: Any = None,
        axis: str | None = None,
    ) -> tuple[SubNode, ...]:
        """Asks for a split: dimension ``dim`` of tensor ``idx`` (outputs count on after the inputs;
        a negative ``dim`` counts from the end) into ``num`` parts.

        axis: the mesh axis; without it the one of that size that has not been used for the node, or
        all axes together where ``num`` is the number of ranks. num: without it the size of the
        axis. Returns the parts, () for a symbolic count. Raises PlanError where ``num`` is the size
        of no axis, or of several.
        """
        number = self._numbers.get(id(node))
        if number is None or not isinstance(algo, Algorithm) or algo.node is not node:
            raise NOT_A_NODE(origin=self.origin, node=node, algo=algo)
        _named(self.network.operators[number], (idx, dim), self.origin)
        if num is None:
            if axis is None and len(self.mesh.axes) > 1:
                raise self._which_axis(node, "some", self.mesh.names)
            axis = self.mesh.names[0] if axis is None else axis
            num = self.mesh[axis]
        count = _counted(self.origin, node, num)
        for name in self._axes(number, node, count, axis):
            self.requests.append(Request(number, name, (idx, dim), self.origin))
        if not isinstance(count, int):
            return ()
        return tuple(SubNode(node, index) for index in range(count))

    def _axes(self, number: int, node: Node, count: Dim, axis: str | None) -> list[str]:
        """The axes along which a node is cut into so many parts."""
        asked: dict[str, Any] = {
            "origin": self.origin,
            "count": count,
            "place": place(node),
            "mesh": self.mesh,
        }
        if axis is not None:
            if self.mesh[axis] != count:
                raise NO_SUCH_COUNT(**asked)
            return [axis]
        if count == 1:
            return []
        used = {request.axis for request in self.requests if request.operator == number}
        fitting = [name for name, size in self.mesh.axes if size == count and name not in used]
        if len(fitting) > 1:
            raise self._which_axis(node, str(count), fitting)
        if fitting:
            return fitting
        every = [name for name, size in self.mesh.axes if size != 1]
        if product(size for _, size in self.mesh.axes) == count and used.isdisjoint(every):
            return every
        if used:
            raise TWICE_ALONG_ONE(**asked, used=", ".join(sorted(used)))
        raise NO_SUCH_COUNT(**asked)

    def _which_axis(self, node: Node, count: str, names: Sequence[str]) -> PlanError:
        return SEVERAL_AXES(
            origin=self.origin,
            count=count,
            place=place(node),
            names=" and ".join(names),
            mesh=self.mesh,
            first=names[0],
        )

    def __getattr__(self, name: str) -> Any:
        return getattr(self.graph, name)


def requests_from(policy: Callable[..., Any], network: Network, mesh: Mesh) -> list[Request]:
    """Returns what a function ``PAS(graph, resource)`` asks for. Raises PlanError where it does not
    take the two, fails, or returns no graph.
    """
    origin = getattr(policy, "__name__", "the policy")
    seen = PolicyGraph(network, mesh, origin)
    resource = Resource(mesh.ranks, dict(mesh.axes))
    try:
        signature = inspect.signature(policy)
    except (TypeError, ValueError):
        pass  # a function of C has none
    else:
        try:
            signature.bind(seen, resource)
        except TypeError as error:
            raise NOT_A_FUNCTION(origin=origin, signature=signature, error=error) from None
    try:
        result = policy(seen, resource)
    except DimsolveError:
        raise
    except Exception as error:
        raise _failed(origin, policy, error) from error
    if result is not seen and result is not network.graph:
        raise NO_GRAPH(origin=origin, result=result)
    return seen.requests


def _failed(origin: str, policy: Callable[..., Any], error: Exception) -> PlanError:
    """The error of a policy that raised; names the last line of its file that was run."""
    file = getattr(getattr(policy, "__code__", None), "co_filename", "")
    lines = [f.lineno for f in traceback.extract_tb(error.__traceback__) if f.filename == file]
    where = f", at {Path(file).name}:{lines[-1]}" if lines else ""
    return FAILED(origin=origin, kind=type(error).__name__, error=error, where=where)


def _counted(origin: str, node: Node, num: Any) -> Dim:
    """A number of parts. Raises PlanError for what is none."""
    reason = f"it is {num}, a bool"
    if not isinstance(num, bool):
        try:
            count = to_dim(num)
        except DimsolveError as error:
            reason = error.diagnostic.reason
        else:
            if count != 0:
                return count
            reason = "nothing is cut in no parts"
    raise NOT_A_COUNT(origin=origin, num=num, place=place(node), reason=reason) from None


def check_request(
    graph: Graph, node: Any, algo: Any, *, idx: Any, dim: Any, num: Any, axis: Any
) -> None:
    """Checks a split that is asked of a graph by ``graph.partition``. A node of a function that the
    graph calls stands for all its copies.

    Raises PlanError for a node or an algorithm of another graph, a tensor or a dimension that does
    not exist, what is no number of parts, and what is no name of an axis.
    """
    origin, owner = "graph.partition", _owner(graph, node)
    if owner is None or not isinstance(algo, Algorithm) or algo.node is not node:
        raise NOT_A_NODE(origin=origin, node=node, algo=algo)
    if isinstance(node.operation, FunctionCall):
        raise A_CALL(origin=origin, place=place(node), function=node.operation.function)
    classes = OperatorClasses(facts_of(owner), known_symbols(owner))
    declaration, _ = declaration_of(node, classes.known)
    solution = classes.of(declaration, node).solution
    _named_of(node, solution, declaration.frozen, (idx, dim), origin)
    if num is not None:
        _counted(origin, node, num)
    if axis is not None and not isinstance(axis, str):
        raise NOT_AN_AXIS(origin=origin, axis=axis, place=place(node))


def _owner(graph: Graph, node: Any) -> Graph | None:
    """The graph that has the node: this one, or a function that it calls, or those call."""
    if any(own is node for own in graph.nodes()):
        return graph
    owners = (_owner(function, node) for function in graph.functions.values())
    return next((owner for owner in owners if owner is not None), None)
