"""Splits that a policy asks for by hand, checked one by one before anything else is decided.

Request(operator 12, axis "tp", split (0, 1))      graph.partition(node, algo, idx=0, dim=1, num=n)
Request(operator 3, axis "tp", split "n")          {"*.q_proj": {"tp": "n"}}
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from dimsolve.ir.errors import AnnotationError
from dimsolve.ir.node import Node
from dimsolve.solver.graphs.graph_problems import place
from dimsolve.solver.solution import Solution

from ..check import judge
from ..legality import Legality
from ..plan_errors import PlanError, plan_error
from ..split import nothing_to_split, split_name
from .choices import Choice, Refusal
from .duties import Duties, common_length
from .illegal import legal_counts, legality_of
from .network import Operator
from .state import AxisState

Split = str | tuple[int, int]


@dataclass(frozen=True, slots=True)
class Request:
    """One split. ``origin``: who asks for it, in words."""

    operator: int
    axis: str
    split: Split
    origin: str


def obey(requests: Sequence[Request], state: AxisState, duties: Duties) -> None:
    """Decides what is asked for along one axis. Raises PlanError for a split that is illegal, or of
    which nobody can tell, with the Legality as its message.
    """
    asked: dict[int, tuple[str, Request]] = {}
    for request in requests:
        if request.axis != state.axis:
            continue
        operator = state.network.operators[request.operator]
        name = named(operator, request.split, request.origin)
        before = asked.setdefault(request.operator, (name, request))
        if before[0] != name:
            raise _twice(state, operator, before, (name, request))
        choice = _choice(state, operator, name, request)
        duty = duties.first_illegal(choice)
        if duty is not None:
            legality = legality_of(state, request.operator, choice)
            common = common_length([duty], duties.facts)
            raise _illegal(state, operator, request, legality, hint=legal_counts(common))
        duties.rely(choice, request.origin)
        state.decide(request.operator, choice)


def named(operator: Operator, split: Split, origin: str) -> str:
    """Returns the identifier that a split names. Raises PlanError for one that does not exist."""
    return named_of(
        operator.node, operator.kind.solution, operator.declaration.frozen, split, origin
    )


def named_of(node: Node, solution: Solution, frozen: str, split: Split, origin: str) -> str:
    """Returns the identifier that a split of a node names. frozen: why nothing of it is cut."""
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
    kind = state.kinds[operator.number]
    answer: Choice | Refusal = Refusal(operator.pinned) if operator.pinned else kind.split(name)
    if isinstance(answer, Choice):
        return answer
    legality = judge(
        kind.solution,
        name,
        state.count,
        arguments=dict(operator.declaration.arguments),
        value_split=kind.contract.value_split,
        reduction=kind.contract.reduction,
        transform_rules=kind.rules,
    )
    names = ", ".join(choice.name for choice in kind.choices() if choice.name is not None)
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
    return plan_error(
        "illegal-split",
        f"{request.origin} asks for an illegal split: {legality.split} into {state.count} parts",
        f"{place(operator.node)}: {reason or legality.reason}",
        hint,
        text=legality.solution.text,
        legality=legality,
    )


def _twice(
    state: AxisState,
    operator: Operator,
    first: tuple[str, Request],
    second: tuple[str, Request],
) -> PlanError:
    return plan_error(
        "two-splits",
        "one operator is asked for two splits along one axis",
        f"{place(operator.node)}: {first[1].origin} asks for {first[0]}, "
        f"{second[1].origin} asks for {second[0]}, both along {state.axis}",
        "name two axes of the mesh, or one split",
        text=state.kinds[operator.number].solution.text,
    )
