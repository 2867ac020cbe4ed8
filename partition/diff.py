"""What two plans do differently, a line each.

mesh tp: 2 -> 4
operator linear: tp: n -> tp: k
+ conversion linear@1 tp: P(sum) -> R
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from .plan import Plan
from .plan_errors import no_plan


def diff(old: Plan, new: Plan) -> str:
    """Returns the differences, ``""`` for equal plans. Lines beginning with ``-`` are in the first
    plan only, with ``+`` in the second only. Raises PlanError where the second is no plan.
    """
    if not isinstance(new, Plan):
        raise no_plan(new)
    return "\n".join(
        [
            *_values("graph", old.graph.fingerprint, new.graph.fingerprint),
            *_keyed("mesh", dict(old.mesh), dict(new.mesh)),
            *_values("policy", old.policy, new.policy),
            *_keyed("condition", _marks(old.conditions), _marks(new.conditions)),
            *_keyed("input", _inputs(old), _inputs(new)),
            *_keyed("operator", _operators(old), _operators(new)),
            *_keyed("conversion", _conversions(old), _conversions(new)),
            *_keyed("note", _marks(old.notes), _marks(new.notes)),
        ]
    )


def _marks(texts: list[str]) -> dict[str, str]:
    return dict.fromkeys(texts, "")


def _inputs(plan: Plan) -> dict[str, str]:
    return {
        entry.name: f"{', '.join(entry.placements)} ({_shape(entry.shape)})"
        for entry in plan.inputs
    }


def _operators(plan: Plan) -> dict[str, str]:
    return {entry.node: _operator(entry) for entry in plan.operators}


def _operator(entry: Any) -> str:
    splits = ", ".join(f"{axis}: {split}" for axis, split in entry.splits.items())
    shapes = " ".join(f"({_shape(output.shape)})" for output in entry.outputs)
    return f"{splits or 'whole'} -> {shapes}"


def _conversions(plan: Plan) -> dict[str, str]:
    return {
        entry.id: f"{', '.join(entry.before)} -> {', '.join(entry.after)}"
        + (" shared" if entry.shared_gradient else "")
        for entry in plan.conversions
    }


def _shape(shape: list[str | None] | None) -> str:
    return "?" if shape is None else ", ".join(text or "?" for text in shape)


def _values(name: str, old: str, new: str) -> Iterator[str]:
    if old != new:
        yield f"{name}: {old} -> {new}"


def _keyed(name: str, old: Mapping[str, str], new: Mapping[str, str]) -> Iterator[str]:
    for key, value in old.items():
        if key not in new:
            yield f"- {name} {key} {value}".rstrip()
        elif new[key] != value:
            yield f"{name} {key}: {value} => {new[key]}"
    for key, value in new.items():
        if key not in old:
            yield f"+ {name} {key} {value}".rstrip()
