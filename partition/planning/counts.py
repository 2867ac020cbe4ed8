"""`graph_legal_parts`: which counts an axis may have for a whole graph under a policy.

What a policy cuts does not depend on the count, but for the legality. So it is asked once with all
counts assumed legal; what it cuts says what must divide what, and every count is checked for that.
Only where ``"tensor"`` may have another way to cut the same parameters it is asked again, and where
parts may be unequal every count that is not legal evenly is planned.

    heads 32, key-value heads 8, d_ff 14336, vocabulary 128256      always 1, 2, 4, 8
    16 in unequal parts: the fullest rank has 1.011 of an equal share, tp seen as 8 x 2
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

from dimsolve.ir.checks import to_whole
from dimsolve.ir.errors import DimsolveError
from dimsolve.ir.graph import Graph
from dimsolve.solver.algebra.integers import divisors
from dimsolve.solver.algebra.poly import Dim
from dimsolve.solver.proof.verdict import Always, Decision, Never, Sometimes

from ..inlining import inlined
from ..layout import local_dims
from ..legality import DEFAULT_BOUND, MAX_BOUND, LegalParts
from ..mesh import Mesh
from ..placement import Shard
from ..plan_data import PlanError
from ..reshard import item_bytes
from ..sizes import essential
from .axis_state import AxisState, stored
from .choices import Choice
from .illegal import UNDECIDED, group_error, too_fine
from .network import Network
from .planner import NAMED, Decisions, Policy, decisions, policy_of, uneven_of
from .propagation import Propagation
from .requirements import Requirements, Uneven, common_length
from .tensor import Group, TensorPolicy, tensor

UNEVEN_BOUND = 16
"""The usual bound where counts are listed that cut unequal parts."""

ASSUMED = 2
"""The count that a policy is asked with: it only weighs ways against each other."""


@dataclass(slots=True)
class Assumed(Requirements):
    """Takes every requirement for met."""

    def decide(self, requirement: object) -> Decision:
        """Returns that the count divides."""
        return Always("assumed")


def graph_legal_parts(
    graph: Graph,
    axis: str = "tp",
    policy: Any = None,
    *,
    up_to: int | None = None,
    uneven: Any = "parameters",
    longer: Graph | None = None,
    periods: int = 0,
) -> LegalParts:
    """Returns which counts an axis may have: always, unequal, under a condition, never; all but the
    first up to ``up_to``. A policy, and uneven, are as for `dimsolve.plan`: a count is unequal
    where a plan for it has unequal parts, or an axis that is seen as two. Each of these is planned,
    so the usual bound is 16; with ``"refuse"`` it is 64. longer: the same model with more layers of
    the same kinds, where what is asked about has ``periods`` times as many more.

    Raises PlanError for a policy or a word that cannot be read, and for a policy that asks for what
    is illegal at any count; AnnotationError for a bound that is none (1 to 10,000).
    """
    mode = uneven_of(uneven)
    usual = DEFAULT_BOUND if mode == "refuse" else UNEVEN_BOUND
    bound = usual if up_to is None else to_whole("up_to", up_to, 1, MAX_BOUND)
    counts = _Counts(Network(inlined(graph)), axis, policy, bound)
    more = (Network(inlined(longer)), periods) if longer is not None else None
    return counts.with_uneven(counts.answer(), mode, more)


class _Counts:
    def __init__(self, network: Network, axis: str, policy: Any, bound: int) -> None:
        self.network = network
        self.axis = axis
        self.bound = bound
        self.given = policy
        self.policy = self._policy(ASSUMED)
        self.classes = [operator.op_class for operator in network.operators]
        self.state = self._state(ASSUMED)
        self.tensor: TensorPolicy | None = None
        self.left_whole: dict[int, str] = {}
        requirements = Assumed(ASSUMED, network.facts)
        if self.policy.decides(self.axis) is tensor:
            self.tensor = TensorPolicy(self.state, requirements)
            self.tensor.run()
        else:
            self.policy(self.state, requirements)
        self.propagation = Propagation(
            {n: c for n, c in enumerate(self.state.choices) if self.state.fixed[n]}, {}, []
        )

    def _policy(self, count: int) -> Policy:
        return policy_of(self.given, self.network, Mesh.of({self.axis: count}))

    def _state(self, count: int) -> AxisState:
        return AxisState(self.network, self.axis, count, self.classes)

    def answer(self) -> LegalParts:
        """Checks every count for what the policy cuts."""
        always, conditional, forbidden, unknown = [1], {}, {}, {}
        for count in range(2, self.bound + 1):
            verdict, text = self._verdict(count)
            match verdict:
                case "always":
                    always.append(count)
                case "conditional":
                    conditional[count] = text
                case "never":
                    forbidden[count] = text
                case _:
                    unknown[count] = text
        greatest = self._greatest(always)
        every = set(divisors(greatest) or ()) if 0 < greatest < 10**12 else set()
        return LegalParts(
            self.axis,
            greatest,
            tuple(sorted(every | set(always))),
            conditional,
            forbidden,
            unknown,
            self.bound,
            self.left_whole,
        )

    def with_uneven(
        self, found: LegalParts, mode: Uneven, more: tuple[Network, int] | None
    ) -> LegalParts:
        """Returns the counts with those by themselves that a plan serves otherwise than evenly.
        more: a longer model, and how often what it has more is added.
        """
        named = self.policy.decides(self.axis) in NAMED.values()
        if mode == "refuse" or (mode == "parameters" and named and self.tensor is None):
            return found
        left_whole, dealt = dict(found.left_whole), dict[int, str]()
        conditional, forbidden = dict(found.conditional), dict(found.forbidden)
        always, unknown = set(found.always), dict(found.unknown)
        for count in range(2, self.bound + 1):
            mesh = Mesh.of({self.axis: count})
            try:
                made = decisions(self.network, mesh, self.given, mode)
                again = decisions(more[0], mesh, self.given, mode) if more else None
            except PlanError as error:
                undecided = error.diagnostic.code == UNDECIDED
                text, others = _reason(error), unknown if undecided else forbidden
            else:
                conditions = " and ".join(essential(made.axes[0][1].conditions))
                if _is_uneven(made) or made.factors:
                    share = _share(made, again, more[1] if more else 0) * count
                    text, others = _dealt_out(made, share, conditions), dealt
                elif count not in forbidden:
                    continue
                else:
                    text, others = conditions, conditional
            for each in (left_whole, conditional, forbidden, unknown):
                each.pop(count, None)
            always.discard(count)
            if text:
                others[count] = text
            else:
                always.add(count)
        fixed = found.fixed_divisor
        if any(count not in always for count in divisors(fixed) or ()):
            fixed = max(c for c in always if always.issuperset(divisors(c) or ()))
        return replace(
            found,
            fixed_divisor=fixed,
            always=tuple(sorted(always)),
            conditional=conditional,
            forbidden=forbidden,
            unknown=unknown,
            left_whole=left_whole,
            uneven=dealt,
        )

    def _greatest(self, always: list[int]) -> int:
        """The greatest count whose divisors are all legal for every value."""
        common = self._common(self.propagation.choices.values())
        if common == 0 or common > self.bound:
            return common
        legal = set(always)
        return max(c for c in legal if legal.issuperset(divisors(c) or ()))

    def _common(self, choices: Iterable[Choice]) -> int:
        return common_length((d for c in choices for d in c.requirements), self.network.facts)

    def _verdict(self, count: int) -> tuple[str, str]:
        requirements = Requirements(count, self.network.facts)
        illegal: list[int] = []
        unknown = ""
        for number, choice in self.propagation.choices.items():
            for requirement in choice.requirements:
                match requirements.decide(requirement):
                    case Always():
                        continue
                    case Sometimes(_, _, conditions) if conditions:
                        requirements.conditions.update(dict.fromkeys(conditions, ""))
                    case Never():
                        illegal.append(number)
                    case decision:
                        unknown = unknown or decision.reason
        if illegal:
            return self._refused(count, requirements, illegal)
        if unknown:
            return "unknown", unknown
        if requirements.conditions:
            given = [str(relation) for relation in self.network.facts.relations]
            return "conditional", " and ".join(essential(requirements.conditions, given))
        return "always", ""

    def _refused(
        self, count: int, requirements: Requirements, illegal: list[int]
    ) -> tuple[str, str]:
        state = self.state
        state.count = count
        if self.tensor is None:
            common = self._common(self.propagation.choices[number] for number in illegal)
            return "never", _reason(
                group_error(state, requirements, self.propagation, illegal, common)
            )
        for group in self.tensor.taken:
            own = [number for number in illegal if number in group.propagation.choices]
            if not own:
                continue
            common = self._common(group.propagation.choices.values())
            hopeless = too_fine(count, common) and not self._other_way(group, count)
            if hopeless or self.tensor.is_coarse(group, common):
                return "never", _reason(
                    group_error(state, requirements, group.propagation, own, common)
                )
        return self._asked_again(count)

    def _other_way(self, group: Group, count: int) -> bool:
        """Whether half of a group's parameters have some dimension that the count divides."""
        edges = self.network.edges
        size = self.state.bytes
        seeds = dict(group.seeds)
        able = [w for w in seeds if any(_divides(count, dim) for dim in edges[w].dims or ())]
        return 2 * sum(size[w] for w in able) >= sum(size[w] for w in seeds)

    def _asked_again(self, count: int) -> tuple[str, str]:
        state, requirements = self._state(count), Requirements(count, self.network.facts)
        try:
            notes = list(dict.fromkeys(self._policy(count)(state, requirements)))
        except PlanError as error:
            verdict = "unknown" if error.diagnostic.code == UNDECIDED else "never"
            return verdict, _reason(error)
        if notes:
            first = notes[0].removeprefix(f"{self.axis}: ")
            alike = f"; and {len(notes) - 1} more like it" if len(notes) > 1 else ""
            self.left_whole[count] = first + alike
        if requirements.conditions:
            return "conditional", " and ".join(essential(requirements.conditions))
        return "always", ""


def _fullest(made: Decisions) -> tuple[float, float]:
    """The bytes of parameters that the fullest rank holds, and those of all."""
    network = made.axes[0][0].network
    held = total = 0.0
    for edge in network.parameters:
        layout = tuple([stored(state.needs[edge.number]) for state, _ in made.axes])
        counts = tuple([size for _, size in made.mesh.axes])
        item = item_bytes(edge.dtype)
        held += item * network.elements(local_dims(edge.dims, layout, counts, network.facts))
        total += item * network.elements(edge.dims)
    return held, total


def _share(made: Decisions, again: Decisions | None, periods: int) -> float:
    """What part of the bytes of all parameters the fullest rank holds; again: of a longer model."""
    held, total = _fullest(made)
    if again is not None:
        more_held, more_total = _fullest(again)
        held += periods * (more_held - held)
        total += periods * (more_total - total)
    return held / total if total else 0.0


def _dealt_out(made: Decisions, share: float, conditions: str) -> str:
    """What the fullest rank has of an equal share, how the axis is seen, and under which condition;
    of a plan that cuts no parameters what is dealt out.
    """
    text = f"the fullest rank has {share:.4g} of an equal share"
    if not any(
        isinstance(stored(state.needs[edge.number]), Shard)
        for state, _ in made.axes
        for edge in state.network.parameters
    ):
        text = made.notes[0].partition(": ")[2]
    for axis, names in made.factors.items():
        text += f", {axis} seen as {' x '.join(str(made.mesh[name]) for name in names)}"
    return f"{text}, if {conditions}" if conditions else text


def _is_uneven(made: Decisions) -> bool:
    return any(choice.units for state, _ in made.axes for choice in state.choices)


def _divides(count: int, dim: Dim | None) -> bool:
    """Whether a count might divide a length."""
    return not isinstance(dim, int) or (dim > 0 and dim % count == 0)


def _reason(error: DimsolveError) -> str:
    return error.diagnostic.reason
