"""Law: what a plan says of memory is what a rank needs, and at most a tenth more. FSDP2 needs as
much.
"""

from __future__ import annotations

import pytest

from tests.exec import peaks
from tests.oracles.ranks import world

pytest.importorskip("transformers")


@pytest.mark.parametrize("name", peaks.SIZES)
def test_a_step_needs_what_its_plan_says(name: str) -> None:
    """Every storage that is alive is counted, on both ranks."""
    for state in ("whole", "optimizer", "shared"):
        for measured, memory in world(2).run(peaks.planned, name, state):
            assert measured <= memory.total <= 1.1 * measured, (state, measured, memory)


@pytest.mark.parametrize("name", ["llama", "gpt2"])
def test_shared_parameters_need_at_most_what_fsdp2_needs(name: str) -> None:
    for (ours, _), theirs in zip(
        world(2).run(peaks.planned, name, "shared", "placed"),
        world(2).run(peaks.fully_sharded, name),
        strict=True,
    ):
        assert ours <= theirs
