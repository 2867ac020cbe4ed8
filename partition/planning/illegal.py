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
from .choices import Choice, Duty
from .network import Operator
from .propagation import AxisState, Duties, Flood

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
    kind = state.kinds[number]
    assert choice.name is not None
    duty = next((d for d in choice.duties if d.name == choice.name), choice.duties[0])
    return judge(
        replace(kind.solution, facts=state.network.facts),
        choice.name,
        state.count * duty.divisor,
        arguments=dict(state.network.operators[number].declaration.arguments),
        value_split=kind.contract.value_split,
        reduction=kind.contract.reduction,
        transform_rules=kind.rules,
    )


def group_error(
    state: AxisState, duties: Duties, flood: Flood, illegal: Sequence[int], common: int
) -> PlanError:
    """Returns the error for a group of operators that the count cannot cut."""
    number, duty = _strictest(duties, flood, illegal)
    operator = state.network.operators[number]
    choice = flood.choices[number]
    legality = legality_of(state, number, choice)
    role = _role(state, flood, number, duty)
    weights = ", ".join(_parameters(state, flood, number))
    cut = f", cut with {weights}" if weights else ""
    text = operator.kind.solution.text
    if duties.is_undecided(duty):
        reason = f"it is not decided whether {_short(duty, state.count, 'is')}{role}{cut}"
        reason = f"{place(operator.node)}: {reason}"
        return undecided_error(state, reason, legal_counts(common), text, legality)
    return plan_error(
        "illegal-count",
        f"{state.axis} = {state.count} is illegal",
        f"{place(operator.node)}: {_short(duty, state.count, 'is never')}{role}{cut}",
        legal_counts(common),
        text=text,
        legality=legality,
    )


def undecided_error(
    state: AxisState, reason: str, hint: str, text: str, legality: Legality
) -> PlanError:
    """Returns the error for a count of which nobody can tell whether it is legal."""
    return plan_error(
        UNDECIDED,
        f"whether {state.axis} = {state.count} is legal is unknown",
        reason,
        hint,
        text=text,
        legality=legality,
    )


def _short(duty: Duty, count: Dim, verb: str) -> str:
    parts = count * duty.divisor
    text = duty.name if str(duty.length) == duty.name else f"{duty.name} = {duty.length}"
    times = f" ({count} parts of each of {duty.divisor} blocks)" if duty.divisor != 1 else ""
    return f"{text} {verb} a multiple of {parts}{times}"


def _strictest(duties: Duties, flood: Flood, illegal: Sequence[int]) -> tuple[int, Duty]:
    """The illegal operator with the shortest length, the first in the graph among equals; one of
    which nobody can tell only where there is no other.
    """
    found = [
        (number, duty)
        for number in sorted(illegal)
        if (duty := duties.first_illegal(flood.choices[number])) is not None
    ]
    return min(
        found,
        key=lambda item: (
            duties.is_undecided(item[1]),
            item[1].length if isinstance(item[1].length, int) else float("inf"),
        ),
    )


def _role(state: AxisState, flood: Flood, number: int, duty: Duty) -> str:
    """What the identifier counts, where the operators tell: the heads of an attention."""
    found = _attention(state, flood, number)
    if found is None:
        return ""
    operator, places = found
    kind = state.kinds[operator.number]
    heads = _heads(state, operator, 0)
    if places <= {1, 2} and heads is not None and heads != duty.length:
        return f"; these are the key-value heads that {heads} query heads share (grouped heads)"
    if operator.number == number:
        queries = kind.tensors[0] or ()
        shared = any(duty.name in p.names and len(p.names) > 1 for p in queries)
        if shared and heads != duty.length:
            return f"; these are the key-value heads that {heads} query heads share (grouped heads)"
    return "; these are the heads of an attention" if heads == duty.length else ""


def _heads(state: AxisState, operator: Operator, place: int) -> Dim | None:
    dims = state.kinds[operator.number].dims(place)
    return dims[-3] if dims is not None and len(dims) > 2 else None


def _attention(state: AxisState, flood: Flood, number: int) -> tuple[Operator, set[int]] | None:
    """The first attention that the operator's values reach, and at which of its inputs."""
    operators = state.network.operators
    if operators[number].node.name == ATTENTION:
        return operators[number], {0, 1, 2}
    queue, seen = deque([number]), {number}
    while queue:
        for wire in operators[queue.popleft()].outputs:
            for user, _ in state.network.wires[wire].uses if wire is not None else ():
                if operators[user].node.name == ATTENTION:
                    places = {p for u, p in state.network.wires[wire or 0].uses if u == user}
                    return operators[user], places
                if user in flood.choices and user not in seen:
                    seen.add(user)
                    queue.append(user)
    return None


def _parameters(state: AxisState, flood: Flood, number: int) -> list[str]:
    """The parameters that are cut because of this operator: upstream, as far as values are cut."""
    network = state.network
    queue, seen, found = deque([number]), {number}, []
    while queue:
        operator = network.operators[queue.popleft()]
        for wire in operator.inputs:
            if wire is None or wire not in flood.placed:
                continue
            entry = network.wires[wire]
            if entry.parameter and entry.target not in found:
                found.append(entry.target)
            if entry.producer is not None and entry.producer[0] not in seen:
                seen.add(entry.producer[0])
                queue.append(entry.producer[0])
    return found
