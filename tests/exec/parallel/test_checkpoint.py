"""A checkpoint saved at one mesh goes on at another with equal losses."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.exec import saving
from tests.oracles.ranks import world


def test_saved_in_unequal_parts_loaded_at_other_meshes_and_states(tmp_path: Path) -> None:
    """Over four ranks a bias of five has parts of 2, 2, 1 and none."""
    folder = str(tmp_path)
    saved = world(4).run(saving.stored, folder, {"fsdp": 4}, None, None, save=True)[0]
    for count, mesh, policy, state in (
        (2, {"tp": 2}, "tensor", None),
        (4, {"dp": 2, "fsdp": 2}, None, None),
        (4, {"dp": 4}, None, "optimizer"),
        (2, {"dp": 2}, "data", None),
        (1, {"dp": 1}, "data", None),
    ):
        loaded = world(count).run(saving.stored, folder, mesh, policy, state, save=False)[0]
        assert loaded == pytest.approx(saved, rel=1e-12), (mesh, state)


def test_saved_at_tp_loaded_at_other_meshes(tmp_path: Path) -> None:
    saved = world(2).run(saving.losses, str(tmp_path), {"tp": 2}, save=True)[0]
    loaded = world(2).run(saving.losses, str(tmp_path), {"dp": 2}, save=False)[0]
    assert loaded == pytest.approx(saved, rel=1e-12)


def test_what_is_written_while_the_part_trains_is_what_was_saved(tmp_path: Path) -> None:
    """torch's thread and the part would send by one process group, and take each other's data."""
    assert world(2).run(saving.saved_while_training, str(tmp_path)) == [0.0, 0.0]
