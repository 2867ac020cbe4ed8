"""Why a count is refused, in the model's own terms.

PlanError: tp = 16 is illegal
  a b (c d) -> a b c d
  view at modeling_llama.py:253 (model.layers.0.self_attn): c = 8 is never a multiple of 16; these
  are the key-value heads that 32 query heads share, cut with model.layers.0.self_attn.k_proj.weight
  hint: the counts that divide 8 are legal there: 1, 2, 4, 8
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import replace

from dimsolve.solver.algebra.integers import divisors
from dimsolve.solver.algebra.poly import Dim
from dimsolve.solver.graphs.problems import place

from ..legality import Legality, judge
from ..plan_data import PlanError, plan_error
from .axis_state import AxisState
from .choices import Choice, Requirement
from .network import Operator
from .propagation import Propagation
from .requirements import Requirements

ATTENTION = "scaled_dot_product_attention"
UNDECIDED = "undecided-count"
"""The code of an error that says *unknown*, not *illegal*."""


def too_fine(count: Dim, common: int) -> bool:
    """Whether a smaller count above 1 would do.

    >>> too_fine(7, 8), too_fine(2, 37)
    (True, False)
    """
    if not isinstance(count, int):
        return False
    return any(1 < part < count for part in divisors(common) or ())


def legal_counts(common: int) -> str:
    """Returns the hint that names the counts that are legal for all values.

    >>> legal_counts(6)
    'the counts that divide 6 are legal there: 1, 2, 3, 6'
    """
    counts = ", ".join(map(str, divisors(common) or [1]))
    return f"the counts that divide {common} are legal there: {counts}"


def legality_of(state: AxisState, number: int, choice: Choice) -> Legality:
    """Returns the Legality of one operator's choice, as `dimsolve.check` would under the facts of
    the graph.
    """
    op_class = state.classes[number]
    assert choice.name is not None
    own = (each for each in choice.requirements if each.name == choice.name)
    requirement = next(own, choice.requirements[0])
    return judge(
        replace(op_class.solution, facts=state.network.facts),
        choice.name,
        state.count * requirement.divisor,
        arguments=dict(state.network.operators[number].declaration.arguments),
        value_split=op_class.contract.value_split,
        reduction=op_class.contract.reduction,
        transform_rules=op_class.rules,
    )


def group_error(
    state: AxisState,
    requirements: Requirements,
    propagation: Propagation,
    illegal: Sequence[int],
    common: int,
) -> PlanError:
    """Returns the error for a group of operators that the count cannot cut."""
    number, requirement = _strictest(requirements, propagation, illegal)
    operator = state.network.operators[number]
    choice = propagation.choices[number]
    legality = legality_of(state, number, choice)
    role = _role(state, propagation, number, requirement)
    weights = ", ".join(_parameters(state, propagation, number))
    cut = f", cut with {weights}" if weights else ""
    text = operator.op_class.solution.text
    if requirements.is_undecided(requirement):
        reason = f"it is not decided whether {_short(requirement, state.count, 'is')}{role}{cut}"
        reason = f"{place(operator.node)}: {reason}"
        return undecided_error(state, reason, legal_counts(common), text, legality)
    return plan_error(
        "illegal-count",
        f"{state.axis} = {state.count} is illegal",
        f"{place(operator.node)}: {_short(requirement, state.count, 'is never')}{role}{cut}",
        legal_counts(common),
        text=text,
        legality=legality,
    )


def undecided_error(
    state: AxisState, reason: str, hint: str, text: str, legality: Legality
) -> PlanError:
    """Returns the error for a count that is not decided to be legal or illegal."""
    return plan_error(
        UNDECIDED,
        f"whether {state.axis} = {state.count} is legal is unknown",
        reason,
        hint,
        text=text,
        legality=legality,
    )


def _short(need: Requirement, count: Dim, verb: str) -> str:
    blocks = need.divisor
    text = need.name if str(need.length) == need.name else f"{need.name} = {need.length}"
    times = f" ({count} parts of each of {blocks} blocks)" if blocks != 1 else ""
    return f"{text} {verb} a multiple of {count * blocks}{times}"


def _strictest(
    requirements: Requirements, propagation: Propagation, illegal: Sequence[int]
) -> tuple[int, Requirement]:
    """The illegal operator with the shortest length, the first in the graph among equals; an
    undecided one only where there is no other.
    """
    found = [
        (number, requirement)
        for number in sorted(illegal)
        if (requirement := requirements.first_illegal(propagation.choices[number])) is not None
    ]
    return min(
        found,
        key=lambda item: (
            requirements.is_undecided(item[1]),
            item[1].length if isinstance(item[1].length, int) else float("inf"),
        ),
    )


def _role(state: AxisState, propagation: Propagation, number: int, requirement: Requirement) -> str:
    """What the identifier counts, where the operators show it: the heads of an attention."""
    found = _attention(state, propagation, number)
    if found is None:
        return ""
    operator, places = found
    op_class = state.classes[operator.number]
    heads = _heads(state, operator, 0)
    if places <= {1, 2} and heads is not None and heads != requirement.length:
        return f"; these are the key-value heads that {heads} query heads share (grouped heads)"
    if operator.number == number:
        queries = op_class.tensors[0] or ()
        shared = any(requirement.name in p.names and len(p.names) > 1 for p in queries)
        if shared and heads != requirement.length:
            return f"; these are the key-value heads that {heads} query heads share (grouped heads)"
    return "; these are the heads of an attention" if heads == requirement.length else ""


def _heads(state: AxisState, operator: Operator, place: int) -> Dim | None:
    dims = state.classes[operator.number].dims(place)
    return dims[-3] if dims is not None and len(dims) > 2 else None


def _attention(
    state: AxisState, propagation: Propagation, number: int
) -> tuple[Operator, set[int]] | None:
    """The first attention that the operator's values reach, and at which of its inputs."""
    operators = state.network.operators
    if operators[number].node.name == ATTENTION:
        return operators[number], {0, 1, 2}
    queue, seen = deque([number]), {number}
    while queue:
        for edge in operators[queue.popleft()].outputs:
            for user, _ in state.network.edges[edge].uses if edge is not None else ():
                if operators[user].node.name == ATTENTION:
                    places = {p for u, p in state.network.edges[edge or 0].uses if u == user}
                    return operators[user], places
                if user in propagation.choices and user not in seen:
                    seen.add(user)
                    queue.append(user)
    return None


def _parameters(state: AxisState, propagation: Propagation, number: int) -> list[str]:
    """The parameters that are cut because of this operator: upstream, as far as values are cut."""
    network = state.network
    queue, seen, found = deque([number]), {number}, []
    while queue:
        operator = network.operators[queue.popleft()]
        for edge in operator.inputs:
            if edge is None or edge not in propagation.placed:
                continue
            entry = network.edges[edge]
            if entry.parameter and entry.target not in found:
                found.append(entry.target)
            if entry.producer is not None and entry.producer[0] not in seen:
                seen.add(entry.producer[0])
                queue.append(entry.producer[0])
    return found
