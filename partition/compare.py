"""How two plans differ: in short for people, and place by place for the check of a plan.

mesh tp: 2 -> 4                             `diff`: what two plans do differently
operator linear: tp: n -> tp: k
+ conversion linear@1 tp: P(sum) -> R

operator linear, operands[1].placements[0]: the plan says "S(1)", its splits give "S(0)"
output relu: the plan has it where its splits give add
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from itertools import zip_longest
from typing import Any

from dimsolve.ir.characters import shown

from .plan_data import Model, OperatorPlan, PlanData, no_plan


def diff(old: PlanData, new: PlanData) -> str:
    """Returns the differences, ``""`` for equal plans. Lines beginning with ``-`` are in the first
    plan only, with ``+`` in the second only. Raises PlanError where the second is no plan.
    """
    if not isinstance(new, PlanData):
        raise no_plan(new)
    lines: list[str] = []
    for (name, before), (_, after) in zip(_summary(old), _summary(new), strict=True):
        if isinstance(before, str):
            lines += [f"{name}: {before} -> {after}"] if before != after else []
        else:
            lines += _keyed(name, before, after)
    return "\n".join(lines)


def _summary(plan: PlanData) -> Iterator[tuple[str, Any]]:
    """What two plans are compared by: a text, or a text by name."""
    yield "graph", plan.graph.fingerprint
    yield "mesh", dict(plan.mesh)
    yield "policy", plan.policy
    yield "state", dict(plan.state)
    yield "condition", dict.fromkeys(plan.conditions, "")
    yield "input", {e.name: f"{', '.join(e.placements)} ({_shape(e.shape)})" for e in plan.inputs}
    yield "operator", {entry.node: _operator(entry) for entry in plan.operators}
    yield (
        "conversion",
        {
            entry.id: f"{', '.join(entry.before)} -> {', '.join(entry.after)}"
            + (" shared" if entry.shared_gradient else "")
            for entry in plan.conversions
        },
    )
    yield (
        "region",
        {e.name: f"{e.first} .. {e.last} {e.contract()}" for e in plan.regions},
    )
    yield "note", dict.fromkeys(plan.notes, "")


def _operator(entry: OperatorPlan) -> str:
    splits = ", ".join(f"{axis}: {split}" for axis, split in entry.splits.items())
    shapes = " ".join(f"({_shape(output.shape)})" for output in entry.outputs)
    return f"{splits or 'whole'} -> {shapes}"


def _shape(shape: list[str | None] | None) -> str:
    return "?" if shape is None else ", ".join(text or "?" for text in shape)


def _keyed(name: str, old: Mapping[str, str], new: Mapping[str, str]) -> Iterator[str]:
    for key, value in old.items():
        if key not in new:
            yield f"- {name} {key} {value}".rstrip()
        elif new[key] != value:
            yield f"{name} {key}: {value} => {new[key]}"
    for key, value in new.items():
        if key not in old:
            yield f"+ {name} {key} {value}".rstrip()


_LISTS = {
    "operators": ("operator", "node"),
    "inputs": ("input", "value"),
    "conversions": ("conversion", "id"),
    "outputs": ("output", "name"),
}
"""Lists of entries: what one of them is called, and the field that names it."""


def differences(plan: PlanData, derived: PlanData) -> Iterator[str]:
    """Yields what a plan says otherwise than the one that its splits give, a line each.

    Not compared, because nothing runs by them: the policy's name, the notes, what a search has
    proved, and where the code of an operator stands.
    """
    for name, (kind, key) in _LISTS.items():
        for said, follows in zip_longest(getattr(plan, name), getattr(derived, name)):
            if follows is None:
                entry = f"{kind} {shown(getattr(said, key))}"
                yield f"{entry}: the plan has it, and its splits give none"
            elif said is None:
                yield f"{kind} {getattr(follows, key)}: its splits give it, and the plan has none"
            elif said != follows:
                skipped = ["source"] if kind == "operator" else []
                yield from _fields(f"{kind} {getattr(follows, key)}, ", said, follows, skipped)
    yield from _fields("", plan, derived, ["policy", "notes", "search", *_LISTS])


def _fields(where: str, mine: Model, theirs: Model, skipped: Sequence[str]) -> Iterator[str]:
    for name in type(theirs).model_fields:
        if name not in skipped:
            dumps = [each.model_dump(mode="json", include={name}) for each in (mine, theirs)]
            values = [dump.get(name) for dump in dumps]
            for path, *pair in _leaves(*values):
                said, follows = (shown(json.dumps(v, ensure_ascii=False), 60) for v in pair)
                yield f"{where}{name}{path}: the plan says {said}, its splits give {follows}"


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
