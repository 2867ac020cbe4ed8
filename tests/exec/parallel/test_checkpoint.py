"""A checkpoint saved at one mesh goes on at another with equal losses."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.exec import saving
from tests.oracles.ranks import world


def test_saved_at_tp_loaded_at_other_meshes(tmp_path: Path) -> None:
    saved = world(2).run(saving.losses, str(tmp_path), {"tp": 2}, save=True)[0]
    loaded = world(2).run(saving.losses, str(tmp_path), {"dp": 2}, save=False)[0]
    assert loaded == pytest.approx(saved, rel=1e-12)
