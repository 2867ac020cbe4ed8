"""From a graph, a mesh and a policy to a plan, one axis after the other.

What an axis leaves a rank with is a graph again: the same operators with shorter lengths. So the
axes are planned in order, outer axis first, each as if it were alone.

Policies: who decides what is cut along which axis.

"data"           every axis cuts the batch
"tensor"         every axis cuts parameters
"sequence"       every axis cuts the sequence
"sequence+all-gather", "sequence+all-to-all"    the same, and attentions gather, or exchange
"experts"        every axis cuts experts, and the batch elsewhere
"data+tensor"    every axis does what its name means (the default)
"tensor+sequence"    the same, and axes that cut parameters cut the sequence between them
"replicate"      nothing is cut
{"data": "data", "model": "tensor"}    a policy by its name for every axis
"auto"           the plan of least time: not axis after axis, but all at once (`auto`)
{"*.q_proj": {"tp": "n"}}      splits by name
PAS(graph, resource)           a function that calls graph.partition
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import product
from typing import Any, TypeAlias, TypeVar, cast, get_args

from dimsolve.ir.characters import shown
from dimsolve.ir.errors import DimsolveError
from dimsolve.ir.graph import Graph
from dimsolve.solver.algebra.dims import evaluate
from dimsolve.solver.algebra.poly import Dim

from ..fingerprint import graph_id
from ..gc_paused import gc_paused
from ..inlining import inlined
from ..machine import Machine
from ..mesh import NO_RANKS, Mesh, MeshLike, meshes_of, part_symbol, ranks_of
from ..placement import Shard
from ..plan_data import PlanData, plan_error, problem
from .assemble import Assembly, Decided
from .auto import Asked, Shape, decided_by, search, verified
from .axis_state import AxisState, data_axes
from .cases import Case
from .choices import Choice, OperatorClass
from .completion import complete
from .data import data
from .experts import experts
from .network import Network
from .propagation import propagate
from .remarks import remarks
from .requests import obey, requests_from, requests_of
from .requirements import Requirements, Uneven, common_length
from .sequence import sequence, tensor_and_sequence
from .storage import precision_of, states_of
from .tensor import SeenAsTwo, tensor
from .vocabulary import Option

AUTO = "auto"
BESIDE = ("data", "data+tensor", "tensor", "tensor+sequence")
"""The policies whose plans a search takes, where its own best does not fit, to be undercut."""
CUTTING = ("data+tensor", "tensor")
"""The policies that may see an axis as two."""
DEFAULT = "data+tensor"
BY_MEANING = (DEFAULT, "tensor+sequence")

NO_SEARCH = problem(
    "no-search",
    "there is no proof to verify",
    "the plan was not searched for, or has not met its graph",
    'make it with the policy "auto"; give a plan that was read its graph: plan.for_graph(graph)',
)

NOT_SEARCHED = problem(
    "not-searched",
    'the policy "auto" does not price parameters of another dtype',
    "precision= stores them in another dtype than they are used in",
    'give no precision; or write policy="data+tensor", which takes it',
)
NO_SUCH_AXIS = problem(
    "no-such-axis",
    "the policy is for the axis {axis!r}, which the mesh lacks",
    "the mesh is {mesh}",
    "name the mesh's axes; or a mapping from node patterns to splits: "
    '{{"*.q_proj": {{"tp": "n"}}}}',
)
NO_POLICY = problem(
    "no-policy",
    "the policy says nothing of the axis {axis}",
    "it is {{{given}}}",
    'add "{axis}": "data", "tensor", "sequence", "experts" or "replicate"',
)
P = TypeVar("P", bound=PlanData)
Decide: TypeAlias = Callable[[AxisState, Requirements], list[str]]


def _data_and_tensor(state: AxisState, requirements: Requirements) -> list[str]:
    return _meant(state.axis)(state, requirements)


def _tensor_and_sequence(state: AxisState, requirements: Requirements) -> list[str]:
    """What an axis means, and the sequence between the parameters that it cuts."""
    decide = _meant(state.axis)
    return (tensor_and_sequence if decide is tensor else decide)(state, requirements)


def _meant(axis: str) -> Decide:
    """What an axis of this name does; PlanError for a name that means nothing."""
    found = _KIND.match(axis)
    if found is None:
        word = _LIKELY.get(axis, "tensor")
        reason = _NO_PIPELINE if axis == "pp" else ""
        raise NO_MEANING(axis=axis, word=word, reason=reason)
    return MEANING[found[1]]


def _replicate(state: AxisState, requirements: Requirements) -> list[str]:
    return []


NAMED: dict[str, Decide] = {
    "data": data,
    "tensor": tensor,
    "sequence": sequence,
    "sequence+all-gather": partial(sequence, attention="all-gather"),
    "sequence+all-to-all": partial(sequence, attention="all-to-all"),
    "experts": experts,
    "data+tensor": _data_and_tensor,
    "tensor+sequence": _tensor_and_sequence,
    "replicate": _replicate,
}
"""Policies by name."""

MEANING: dict[str, Decide] = {
    "fsdp": data,
    "dp": data,
    "tp": tensor,
    "sp": sequence,
    "cp": sequence,
    "ep": experts,
}
"""What axes do whose names are these, or begin with one and a digit or an underscore."""

_KIND = re.compile(rf"({'|'.join(MEANING)})(?=[\d_]|$)")
_LIKELY = {"data": "data", "batch": "data", "ddp": "data", "hsdp": "data", "seq": "sequence"}
"""What people call axes otherwise."""

_NO_PIPELINE = "; a plan has no pipeline stages: give it the mesh without them"
NO_MEANING = problem(
    "no-such-axis",
    "nothing says what the axis {axis} cuts",
    "axes named dp and fsdp cut the batch, tp cuts parameters, cp and sp cut the sequence, ep "
    "cuts experts, and '{axis}' is none of these{reason}",
    'say it for every axis: dimsolve.plan(graph, mesh, {{..., "{axis}": "{word}"}})',
)


@dataclass(frozen=True, slots=True)
class Policy:
    """Decides operators along one axis; returns notes on what was decided. ``name``: what the plan
    says about it. by_axis: what decides along each axis, where that was said.
    """

    name: str
    decide: Decide
    by_axis: Mapping[str, Decide | None] = field(default_factory=dict)

    def __call__(self, state: AxisState, requirements: Requirements) -> list[str]:
        return self.decide(state, requirements)

    def decides(self, axis: str) -> Decide:
        """Returns what decides along an axis."""
        if self.decide is _data_and_tensor:
            return _meant(axis)
        return self.by_axis.get(axis) or self.decide


def policy_of(policy: Any, network: Network, mesh: Mesh) -> Policy:
    """Returns the policy for a graph and a mesh. Raises PlanError for what is none."""
    if isinstance(policy, Policy):
        return policy
    if policy is None:
        policy = getattr(network.graph, "requested", None) or DEFAULT
    if isinstance(policy, str):
        if policy not in NAMED:
            raise _unknown(policy)
        if policy in BY_MEANING:
            for axis in mesh.names:
                _meant(axis)
        return Policy(policy, NAMED[policy])
    if isinstance(policy, Mapping) and policy and all(a in mesh.names for a in policy):
        return _by_axis(policy, mesh)
    if isinstance(policy, Mapping) and policy and _names_policies(policy):
        raise NO_SUCH_AXIS(axis=next(a for a in policy if a not in mesh.names), mesh=mesh)
    if isinstance(policy, Mapping):
        requests = requests_of(policy, network, mesh)
        name = ", ".join(f"{pattern}: {dict(splits)}" for pattern, splits in policy.items())
    elif callable(policy):
        requests = requests_from(policy, network, mesh)
        name = getattr(policy, "__name__", "function")
    else:
        raise _unknown(policy)

    def decide(state: AxisState, requirements: Requirements) -> list[str]:
        return obey(requests, state, requirements)

    return Policy(name, decide)


def _names_policies(policy: Mapping[Any, Any]) -> bool:
    """Whether a mapping is meant to have a policy by its name for every axis."""
    known = {*NAMED, AUTO}
    return all(isinstance(word, str) and word in known for word in policy.values())


def _by_axis(policy: Mapping[str, Any], mesh: Mesh) -> Policy:
    """The policy that has a name for every axis."""
    of_axis = {**NAMED, "tensor+sequence": tensor_and_sequence}
    found = {axis: of_axis.get(name) for axis, name in policy.items() if isinstance(name, str)}
    for axis in mesh.names:
        if axis not in policy:
            raise NO_POLICY(axis=axis, given=", ".join(f"{a!r}: {policy[a]!r}" for a in policy))
        if found.get(axis) is None:
            raise _unknown(policy[axis], f" for the axis {axis}")

    def decide(state: AxisState, requirements: Requirements) -> list[str]:
        made = found[state.axis]
        assert made is not None
        return made(state, requirements)

    return Policy(", ".join(f"{axis}: {policy[axis]}" for axis in mesh.names), decide, found)


def _unknown(policy: object, place: str = "") -> Exception:
    return plan_error(
        "unknown-policy",
        f"there is no such policy{place}",
        f"{policy!r:.60} is none",
        f"write {', '.join([*NAMED, AUTO])}, a mapping from node patterns to splits, or a function "
        "PAS(graph, resource)",
    )


def plan_as(
    make: type[P],
    graph: Graph,
    mesh: MeshLike | int,
    policy: Any = None,
    state: Any = None,
    precision: Any = None,
    asked: Asked | None = None,
    uneven: Any = "parameters",
) -> P:
    """Returns how the graph is cut over the mesh, as data of this class; see `dimsolve.plan`.

    asked: what a search needs to know, for the policy ``"auto"``.
    """
    require_graph(graph)
    mode = uneven_of(uneven)
    ranks = ranks_of(mesh)
    if ranks is not None and policy != AUTO:
        raise NO_RANKS(reason=f"{ranks} says of no axis how long it is")
    with gc_paused():
        graph = inlined(graph)
        meshes = [Mesh.with_axes(cast("MeshLike", mesh))] if ranks is None else meshes_of(ranks)
        network = Network(graph)
        for each in meshes:
            check_symbols(each, network)
        if policy == AUTO:
            if precision is not None:
                raise NOT_SEARCHED()
            given = replace(asked or Asked(Machine.named("h100"), {}), uneven=mode)
            return searched(make, network, meshes, state, given, ranks)
        (devices,) = meshes
        decided = decisions(network, devices, policy, mode)
        cutting_data = data_axes([along for along, _ in decided.axes])
        states = states_of(state, decided.mesh, cutting_data, decided.factors)
        dtypes = precision_of(precision)
        assembly = Assembly(
            network, decided.mesh, decided.axes, decided.classes, states, dtypes, decided.factors
        )
        plan = assembly.plan(make, graph_id(graph), decided.policy, decided.notes)
        plan.notes.extend(note for note in remarks(plan, decided.axes) if note not in plan.notes)
        return plan


def searched(
    make: type[P],
    network: Network,
    meshes: Sequence[Mesh],
    state: Any,
    asked: Asked,
    ranks: int | None = None,
) -> P:
    """Returns the plan of least time on one of the meshes. state: how parameters are stored;
    ``"auto"``: as is best, also where none is said and memory is limited. ranks: where the meshes
    are all of so many.
    """
    shapes = [shape for mesh in meshes for shape in _shapes(make, network, mesh, state, asked)]
    return cast("P", search(shapes, network, ranks))


def _shapes(
    make: type[P], network: Network, mesh: Mesh, state: Any, asked: Asked
) -> Iterator[Shape]:
    """What a search takes for every way to see a mesh, the given one first."""
    known: dict[tuple[str, Uneven], Decisions | None] = {}
    modes: list[Uneven] = list(dict.fromkeys((asked.uneven, "refuse")))

    def decided(policies: Iterable[Any]) -> Iterator[Decisions]:
        for policy, uneven in product(policies, modes):
            each = str(policy), uneven
            if each not in known:
                known[each] = None
                with suppress(DimsolveError):
                    known[each] = decisions(network, mesh, policy, uneven)
            found = known[each]
            if found is not None:
                yield found

    beside: list[Any] = [*BESIDE]
    if mesh.names == ("outer", "inner"):
        beside.append({"outer": "data", "inner": "tensor"})
    views = {mesh: dict[str, list[str]]()}
    said = state if isinstance(state, Mapping) else mesh.names if state not in (None, AUTO) else ()
    cutting = CUTTING if _may_be_two(network, mesh, asked.uneven) else ()
    # What axes mean by their names is what they are seen by; data axes cut no heads.
    for each in next(filter(None, (list(decided([policy])) for policy in cutting)), ()):
        if each.factors.keys().isdisjoint(said):
            views.setdefault(each.mesh, each.factors)
    for view, factors in views.items():
        open_axes: tuple[str, ...] = ()
        if state == AUTO or (state is None and asked.memory is not None):
            fixed = states_of(None, view, ())
            open_axes = tuple(axis for axis in view.names if axis not in fixed)
        else:
            fixed = states_of(state, view, view.names if isinstance(state, str) else ())
        own = replace(asked, state=fixed, storage=open_axes)
        yield _shape(make, network, view, factors, own, lambda: decided(beside))


def _may_be_two(network: Network, mesh: Mesh, uneven: Uneven) -> bool:
    """Whether some axis has several times as many ranks as an operator has units, which are those
    of a parameter.
    """
    if uneven == "refuse":
        return False
    counts = [count for _, count in mesh.axes if isinstance(count, int)]
    classes = [operator.op_class for operator in network.operators]
    few: dict[OperatorClass, list[Choice]] = {}
    for op_class in dict.fromkeys(classes):
        for choice in op_class.choices():
            own = common_length(choice.requirements, network.facts)
            if own > 1 and any(own < count and count % own == 0 for count in counts):
                few.setdefault(op_class, []).append(choice)
    undecided = [False] * len(classes)
    for operator in network.operators:
        edges = (*operator.inputs, *operator.outputs)
        for choice in few.get(operator.op_class, ()):
            placed = zip(edges, (*choice.inputs, *choice.outputs), strict=True)
            seeds = [(e, p) for e, p in placed if e is not None and isinstance(p, Shard)]
            reached = propagate(network, classes, seeds, undecided).placed
            if any(network.edges[edge].parameter for edge in reached):
                return True
    return False


def _shape(
    make: type[P],
    network: Network,
    mesh: Mesh,
    factors: Mapping[str, list[str]],
    asked: Asked,
    policies: Callable[[], Iterator[Decisions]],
) -> Shape:
    """What a search takes for one way to see a mesh."""
    identity, notes = graph_id(network.graph), list(_seen(mesh, factors))

    def holds(length: Dim, parts: int) -> bool:
        return evaluate(length, asked.sizes) % parts == 0

    def plan(decided: Decided, classes: Sequence[OperatorClass], case: Case) -> P:
        assembly = Assembly(network, mesh, decided, classes, dict(case.states), None, factors)
        return assembly.plan(make, identity, AUTO, notes, case.regions, holds=holds)

    def made(case: Case, taken: list[Option]) -> P:
        return plan(*decided_by(network, mesh, taken), case)

    def named(case: Case) -> Iterator[P]:
        for each in policies():
            if each.mesh == mesh:
                yield plan(each.axes, each.classes, case)

    return Shape(mesh, asked, made, named)


@dataclass(frozen=True, slots=True)
class Decisions:
    """What is decided along all axes, outer axis first. mesh: with the axes that a given one is
    seen as, which ``factors`` name. classes: of every operator, as all axes left it.
    """

    mesh: Mesh
    policy: str
    axes: list[tuple[AxisState, Requirements]]
    classes: list[OperatorClass]
    notes: list[str]
    factors: dict[str, list[str]]


def decisions(network: Network, mesh: Mesh, policy: Any, uneven: Uneven) -> Decisions:
    """Returns what a policy decides, one axis after the other. Raises PlanError for what is illegal
    or no policy.
    """
    factors: dict[str, list[str]] = {}
    while True:
        try:
            return _decisions(network, mesh, policy, uneven, factors)
        except SeenAsTwo as found:
            mesh, names = seen_as_two(mesh, found.axis, found.units)
            policy = _of_both(policy, found.axis, names)
            whole = next((a for a, each in factors.items() if found.axis in each), found.axis)
            before = factors.get(whole, [found.axis])
            place = before.index(found.axis)
            factors[whole] = [*before[:place], *names, *before[place + 1 :]]


def _decisions(
    network: Network, mesh: Mesh, policy: Any, uneven: Uneven, factors: dict[str, list[str]]
) -> Decisions:
    decide = policy_of(policy, network, mesh)
    classes = [operator.op_class for operator in network.operators]
    decided: list[tuple[AxisState, Requirements]] = []
    conditions: dict[str, str] = {}
    notes: list[str] = []
    for axis, count in mesh.axes:
        along = AxisState(network, axis, count, classes)
        holds = any(axis in names[1:] for names in factors.values())
        requirements = Requirements(count, network.facts, conditions, uneven, holds)
        notes += decide(along, requirements)
        complete(along, requirements)
        classes = along.local_classes()
        decided.append((along, requirements))
    notes += _seen(mesh, factors)
    return Decisions(mesh, decide.name, decided, classes, notes, factors)


def _seen(mesh: Mesh, factors: Mapping[str, Sequence[str]]) -> Iterator[str]:
    """What a plan says of axes that are seen as several."""
    for axis, names in factors.items():
        sizes = " x ".join(str(mesh[name]) for name in names)
        yield f"{axis} is seen as {sizes}, the axes {' and '.join(names)}"


def seen_as_two(mesh: Mesh, axis: str, units: int) -> tuple[Mesh, list[str]]:
    """Returns the mesh whose axis is two, the first of ``units`` ranks, and their names.

    >>> print(seen_as_two(Mesh.of("dp=2, tp=8"), "tp", 2)[0])
    dp=2, tp_0=2, tp_1=4
    """
    names = [f"{axis}_0", f"{axis}_1"]
    axes: list[tuple[str, Dim]] = []
    for name, size in mesh.axes:
        if name == axis and isinstance(size, int):
            axes += zip(names, (units, size // units), strict=True)
        else:
            axes.append((name, size))
    return Mesh(tuple(axes)), names


def _of_both(policy: Any, axis: str, names: Sequence[str]) -> Any:
    """The policy that decides along two axes what it decided along one."""
    if not isinstance(policy, Mapping) or axis not in policy:
        return policy
    found: dict[str, Any] = {}
    for name, word in policy.items():
        found.update(dict.fromkeys(names, word) if name == axis else {name: word})
    return found


NO_UNEVEN = problem(
    "no-such-uneven",
    "this says of nothing that it may be cut into unequal parts",
    "uneven is {given}",
    'write "parameters", for lengths that are fixed by the model, "allow" for all, or "refuse"',
)


def uneven_of(uneven: Any) -> Uneven:
    """Returns what may be cut into unequal parts. Raises PlanError."""
    if isinstance(uneven, str) and uneven in get_args(Uneven):
        return cast("Uneven", uneven)
    raise NO_UNEVEN(given=shown(repr(uneven), 60))


def verified_plan(plan: PlanData) -> None:
    """Raises NotProved unless what a plan says of its search is so: its cost and that it fits are
    added up anew, and its bound is checked by the proof. Raises PlanError for a plan without one.
    """
    if plan.search is None or plan.planned is None:
        raise NO_SEARCH()
    with gc_paused():
        verified(plan, Network(inlined(plan.planned)), Mesh.with_axes(dict(plan.mesh)))


def require_graph(graph: object) -> None:
    """Raises PlanError for what is no graph."""
    if not isinstance(graph, Graph):
        raise plan_error(
            "not-a-graph",
            "this is not a graph",
            f"{graph!r:.60} is a {type(graph).__name__}",
            "dimsolve.trace(model, args) returns one",
        )


def check_symbols(mesh: Mesh, network: Network) -> None:
    """Raises PlanError where a size of the mesh, or a rank's place on it, has the name of a
    length.
    """
    own = mesh.symbols | {part_symbol(axis) for axis in mesh.names}
    both = sorted(own & network.classes.known)
    if both:
        raise plan_error(
            "symbol-clash",
            "a mesh size and a length have one name",
            f"'{both[0]}' is a symbol of the graph and a size of the mesh {mesh}",
            "give the mesh's size another name",
        )
