"""Whether a plan says what follows from its decisions, and the first difference where it does not.

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
from typing import Any

from dimsolve.ir.excerpt import shown
from dimsolve.ir.graph import Graph

from .plan import Plan
from .plan_entries import Model, OperatorPlan
from .plan_errors import follows_not

COMMENTS: dict[type[Model], frozenset[str]] = {
    Plan: frozenset({"policy", "notes"}),
    OperatorPlan: frozenset({"source"}),
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
    from .planning.derive import derive

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
    return model.model_dump(mode="json", include={name})[name]


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
