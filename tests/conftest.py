"""What holds for all tests.

Processes that tests start find the tests too: what a test sends them is imported there by name. The
root goes to the end of the path, so that an installed dimsolve comes before the tree.

Where several processes run the tests (``pytest -n 2 --dist=loadgroup``), what takes long to make is
made once: the service and the traced models each belong to one process, and a file's tests stay
together. What takes longest comes first (``--no-loadscope-reorder`` keeps this order), so that no
process is left with it in the end.
"""

from __future__ import annotations

import gc
import os
import shutil
import sys
import tempfile
from pathlib import Path

import pytest
from hypothesis import settings

# Processes of tests and of ranks share the cores: a second thread in each of them only waits.
os.environ.setdefault("OMP_NUM_THREADS", "1")

# torch, SymPy and transformers are millions of objects that live to the end: looking for circles
# among them, as often as Python does, is a tenth of what the tests cost.
gc.set_threshold(100_000, 50, 50)

# A timed assertion never decides a test: how long an example takes depends on the machine.
settings.register_profile("untimed", deadline=None)
settings.load_profile("untimed")

sys.path.append(str(Path(__file__).parent.parent))

TRACES = "DIMSOLVE_TEST_TRACES"
"""Where all processes of a run share what they have traced: tests/oracles/traces.py."""


def pytest_configure(config: pytest.Config) -> None:
    if TRACES not in os.environ:
        os.environ[TRACES] = tempfile.mkdtemp()
        config.add_cleanup(lambda: shutil.rmtree(os.environ.pop(TRACES)))


SHARED = {
    "tests.partition.planning.models": "models",
    "tests.face.running": "service",
    "tests.face.browser": "service",
}
"""Helper -> group: all tests of files that use it are run by one process, unless it says else."""


APART = (
    "exec/parallel/test_architectures.py",
    "exec/parallel/test_trainers.py",
    "exec/running/test_faults.py",
    "exec/running/test_run.py",
    "exec/running/test_run_targets.py",
    "test_docs.py",
)
"""Files whose tests share nothing, and take long: each goes to whichever process is free; those of
one model together, as its trace is made once by a process.
"""

SLOW = (
    *("exec/running", "exec/parallel", "exec/distributed", "test_docs.py", "face", "exec"),
    *("partition/planning", "engines", "solver/operators"),
)
"""Places whose files take longest, the slowest first: what ends last is then small."""


def _path(item: pytest.Item) -> str:
    return item.path.relative_to(Path(__file__).parent).as_posix()


def _place(item: pytest.Item) -> int:
    path = _path(item)
    return next((n for n, slow in enumerate(SLOW) if path.startswith(slow)), len(SLOW))


def _group(item: pytest.Item) -> str:
    if _path(item) in APART:
        parameters = getattr(item, "callspec", None)
        model = parameters.params.get("name") if parameters else None
        return item.nodeid if model is None else f"{_path(item)}::{model}"
    module = item.getparent(pytest.Module)
    assert module is not None
    homes = {getattr(value, "__module__", None) for value in vars(module.obj).values()}
    return next((name for home, name in SHARED.items() if home in homes), _path(item))


@pytest.hookimpl(tryfirst=True)  # pytest-xdist reads the groups in the same hook
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    items.sort(key=_place)
    for item in items:
        item.add_marker(pytest.mark.xdist_group(_group(item)))
