"""No rank waits for ever: on any mesh, at any point, the others end within the user's timeout."""

from __future__ import annotations

import pytest

from tests.exec import stopping
from tests.oracles.ranks import Ranks

pytestmark = pytest.mark.xdist_group("faults")  # their worlds end with them: none is shared

MESHES = [{"tp": 2}, {"dp": 2, "tp": 2}, {"dp": 2, "dp_inner": 2, "tp": 2}]


def answers(mesh: dict[str, int], point: str, own_mesh: bool = False) -> list[str]:
    """What the other ranks raise where the world was told to wait 10 seconds."""
    count = 1
    for size in mesh.values():
        count *= size
    ranks = Ranks(count, patience=10.0)
    try:
        return ranks.answers_without(
            stopping.LOST, stopping.trained_until_stopped, mesh, point, own_mesh
        )
    finally:
        ranks.close()


@pytest.mark.parametrize("mesh", MESHES, ids=len)
def test_a_stopped_rank_is_named_by_all_others(mesh: dict[str, int]) -> None:
    for text in answers(mesh, "forward"):
        assert text.startswith("RankFailure: rank 1 failed"), text
        assert "it gave no sign of life, and rank " in text


@pytest.mark.parametrize("point", [p for p in stopping.POINTS if p not in ("forward", "save")])
def test_at_any_point_of_a_script_on_two_axes(point: str) -> None:
    for text in answers({"dp": 2, "tp": 2}, point):
        assert text.startswith("RankFailure: rank 1 failed"), text
        assert "it gave no sign of life, and rank " in text


def test_while_torch_gathers_what_is_saved() -> None:
    """The collectives are torch's own, on groups that wait as long as the world."""
    for text in answers({"dp": 2, "tp": 2}, "save"):
        assert "10000ms" in text or text == "nothing", text


def test_groups_of_a_mesh_of_the_users_own() -> None:
    for text in answers({"dp": 2, "tp": 2}, "backward", own_mesh=True):
        assert text.startswith("RankFailure: rank 1 failed"), text
