"""A plan is a theorem about its graph: a plan that says anything else than what the planner's rules
derive is refused, and nothing that is asked of one raises anything but a DimsolveError.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest

import dimsolve as ds

from .edits import ALL, LARGE, MORE_TEXTS, SMALL, TEXTS, Path, edited, edits

SOME = 500
"""So many edits of a plan are tried; ``python -m tests.partition.planning.test_edited_plans`` tries
all of the small ones.
"""


def comment(path: Path) -> bool:
    """Whether an edit is of what says where a plan comes from."""
    return path[:1] in (("policy",), ("notes",)) or (
        path[:1] == ("operators",) and path[2:] == ("source",)
    )


def used(plan: ds.Plan) -> None:
    """Asks a plan whatever needs no graph; what it refuses is a DimsolveError."""
    sizes: dict[str, int] = dict.fromkeys(plan.symbols, 4)
    asked: list[Callable[[], Any]] = [
        plan.explain,
        plan.to_json,
        plan._repr_svg_,
        plan.__rich__,
        lambda: plan.diff(plan),
        lambda: plan.memory(sizes),
        lambda: plan.communication(sizes, input_gradients=True),
        lambda: plan.check(sizes),
        lambda: plan.memory(),
    ]
    for ask in asked:
        with suppress(ds.DimsolveError):
            ask()


def tried(graph: Any, plan: ds.Plan, path: Path, value: Any, asked: bool) -> bool:
    """Whether an edited plan is taken for the graph. One that is says what the plan says, but for
    comments.
    """
    data = json.loads(plan.to_json())
    try:
        read = ds.Plan.from_json(json.dumps(edited(data, path, value)))
    except ds.DimsolveError:
        return False
    if asked:
        used(read)
    try:
        read.for_graph(graph)
    except ds.DimsolveError as error:
        assert error.diagnostic.reason
        return False
    assert comment(path) or read == plan, f"{path}: {value!r} was taken"
    return True


@pytest.mark.parametrize("name", SMALL)
def test_every_edit_of_one_field_is_refused(name: str, share: int | None = SOME) -> None:
    graph, plan = SMALL[name]()
    taken = set()
    found = list(edits(json.loads(plan.to_json()), TEXTS))
    assert len(found) > 1000
    if share is not None:
        comments = [each for each in found if each[0][:1] in (("policy",), ("notes",))]
        found = comments + random.Random(name).sample(found, share)
    for number, (path, value) in enumerate(found):
        if tried(graph, plan, path, value, number % 10 == 0):
            taken.add(path[0])
    # Comments may say what they like.
    assert {"policy", "notes"} <= taken <= {"policy", "notes", "operators"}


@pytest.mark.parametrize("name", LARGE)
def test_edits_of_a_large_plan_are_refused(name: str) -> None:
    graph, plan = LARGE[name]()
    found = list(edits(json.loads(plan.to_json()), (*TEXTS, *MORE_TEXTS)))
    for path, value in random.Random(name).sample(found, SOME // 2):
        tried(graph, plan, path, value, False)


@pytest.mark.parametrize("name", ALL)
def test_a_plan_that_was_not_edited_is_taken(name: str) -> None:
    graph, plan = ALL[name]()
    again = ds.Plan.from_json(plan.to_json()).for_graph(graph)
    assert again == plan and again.planned is graph


if __name__ == "__main__":
    for each in SMALL:
        test_every_edit_of_one_field_is_refused(each, None)
        print(f"{each}: every edit is refused")
