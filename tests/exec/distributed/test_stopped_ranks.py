"""No rank waits for ever: on any mesh, at any point, the others end within the user's timeout."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from math import prod
from typing import NamedTuple

import pytest

from tests.exec import stopping
from tests.oracles.ranks import Ranks


class Case(NamedTuple):
    """Where rank 1 stops, and on which mesh; ``own_mesh``: of the user's own making."""

    point: str
    mesh: dict[str, int]
    own_mesh: bool = False


TWO = {"dp": 2, "tp": 2}
SAVING = Case("save", TWO)
CASES = [
    Case("forward", {"tp": 2}),
    Case("forward", {"dp": 2, "dp_inner": 2, "tp": 2}),
    Case("backward", TWO, own_mesh=True),
    *(Case(point, TWO) for point in stopping.POINTS if point != "save"),
]
AT_ONCE = 5


def answers(case: Case) -> list[str]:
    """What the other ranks raise where the world was told to wait 10 seconds."""
    ranks = Ranks(prod(case.mesh.values()), patience=10.0)
    try:
        return ranks.answers_without(
            stopping.LOST, stopping.trained_until_stopped, case.mesh, case.point, case.own_mesh
        )
    finally:
        ranks.close()


@pytest.fixture(scope="module")
def pool() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(AT_ONCE) as pool:
        yield pool


@pytest.fixture(scope="module")
def asked(request: pytest.FixtureRequest, pool: ThreadPoolExecutor) -> dict[int, Future[list[str]]]:
    """The answers to all cases that are to be run: they wait for silence, so several at once."""
    cases = [
        item.callspec.params["case"]
        for item in request.session.items
        if isinstance(item, pytest.Function) and item.path == request.path
    ]
    return {id(case): pool.submit(answers, case) for case in cases}


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.point}-{len(case.mesh)}")
def test_a_stopped_rank_is_named_by_all_others(
    case: Case, asked: dict[int, Future[list[str]]]
) -> None:
    for text in asked[id(case)].result():
        assert text.startswith("RankFailure: rank 1 failed"), text
        assert "it gave no sign of life, and rank " in text


@pytest.mark.parametrize("case", [SAVING], ids=["save"])
def test_while_torch_gathers_what_is_saved(case: Case, asked: dict[int, Future[list[str]]]) -> None:
    """The collectives are torch's own, on groups that wait as long as the world."""
    for text in asked[id(case)].result():
        assert "10000ms" in text or text == "nothing", text
