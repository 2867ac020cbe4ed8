"""What holds for all tests.

Processes that tests start find the tests too: what a test sends them is imported there by name. The
root goes to the end of the path, so that an installed dimsolve comes before the tree.

Where several processes run the tests (``pytest -n 2 --dist=loadgroup``), what takes long to make is
made once: the service, the worlds of ranks and the traced models each belong to one process, and a
file's tests stay together.
"""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from hypothesis import settings

# A timed assertion never decides a test: how long an example takes depends on the machine.
settings.register_profile("untimed", deadline=None)
settings.load_profile("untimed")

sys.path.append(str(Path(__file__).parent.parent))

SHARED = {
    "tests.oracles.ranks": "ranks",
    "tests.partition.planning.models": "models",
    "tests.face.running": "service",
    "tests.face.browser": "service",
}
"""Helper -> group: all tests of files that use it are run by one process, unless it says else."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.get_closest_marker("xdist_group"):
            continue
        module = item.getparent(pytest.Module)
        homes = {getattr(value, "__module__", None) for value in vars(module.obj).values()}
        group = next((name for home, name in SHARED.items() if home in homes), str(item.path))
        item.add_marker(pytest.mark.xdist_group(group))
