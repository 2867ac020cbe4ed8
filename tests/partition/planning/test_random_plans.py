"""Random graphs, random plans, all ranks in one process: equal to one device, forward and backward.

Every operator is decided at random (any identifier, blocks, partial values passed on) or by a named
policy, over up to three axes. ``python -m tests.partition.planning.sweep 1000 4000`` runs thousands
more; CI runs these.
"""

from __future__ import annotations

import pytest

from .sweep import one

BATCH = 20


@pytest.mark.parametrize("start", range(0, 300, BATCH))
def test_random_plans_equal_one_device(start: int) -> None:
    results = {seed: one(seed) for seed in range(start, start + BATCH)}
    assert not {seed: text for seed, text in results.items() if text not in ("ok", "refused")}
    assert sum(text == "ok" for text in results.values()) >= BATCH - 3
