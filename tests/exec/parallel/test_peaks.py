"""Law: what a plan says of memory is what a rank needs, and at most a tenth more. FSDP2 needs as
much.
"""

from __future__ import annotations

import math

import pytest

from tests.exec import peaks
from tests.oracles.ranks import world

pytest.importorskip("transformers")


@pytest.mark.parametrize("name", peaks.TESTED)
def test_a_step_needs_what_its_plan_says(name: str) -> None:
    """Every storage that is alive is counted, on both ranks."""
    for state in ("whole", "optimizer", "shared"):
        for measured, memory in world(2).run(peaks.planned, name, state):
            assert measured <= memory.total <= 1.1 * measured, (state, measured, memory)


@pytest.mark.parametrize(
    ("name", "mesh", "policy"),
    [
        ("llama", {"cp": 2}, None),
        ("llama", {"tp": 2}, "tensor+sequence"),
        ("mixtral", {"ep": 2}, None),
        ("mixtral, exchanged", {"ep": 2}, None),
        ("llama", {"cp": 4}, None),
    ],
    ids=["keys gathered", "tensor+sequence", "tokens gathered", "tokens sent", "heads exchanged"],
)
def test_a_step_needs_what_its_plan_says_however_it_is_cut(
    name: str, mesh: dict[str, int], policy: str | None
) -> None:
    """`python -m tests.exec.peaks` measures every mesh and state."""
    count = math.prod(mesh.values())
    for measured, memory in world(count).run(peaks.planned, name, "whole", "whole", mesh, policy):
        assert measured <= memory.total <= 1.1 * measured, (measured, memory)


@pytest.mark.parametrize("name", ["llama", "gpt2"])
def test_shared_parameters_need_at_most_what_fsdp2_needs(name: str) -> None:
    for (ours, _), theirs in zip(
        world(2).run(peaks.planned, name, "shared", "placed"),
        world(2).run(peaks.fully_sharded, name),
        strict=True,
    ):
        assert ours <= theirs
