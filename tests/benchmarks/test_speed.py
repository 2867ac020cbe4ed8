"""A training step on two gloo ranks, one thread each, beside Megatron by hand and DTensor.

    pytest tests/benchmarks/test_speed.py -s

Prints medians of one run in which the three take turns, and a table for `docs/figures.md`; on gloo
it decides nothing. On one GPU a step of the program is held against one of the plain model.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch

from tests.oracles.ranks import Ranks

from . import blocks

ROUNDS = 1_000
NO_GPU = "there is no GPU: NCCL needs one for each rank"

Rows = dict[int, dict[str, float]]


@pytest.fixture(scope="module")
def table() -> Iterator[Rows]:
    """Medians by width; printed at the end."""
    rows: Rows = {}
    yield rows
    print("\n| width | by hand | dimsolve | over by hand | DTensor | over by hand |")
    print("|------:|--------:|---------:|-------------:|--------:|-------------:|")
    for width, medians in rows.items():
        base = medians["by hand"]
        cells = [f"{base * 1e6:.0f} µs"]
        for name in ("dimsolve", "DTensor"):
            cells += [f"{medians[name] * 1e6:.0f} µs", f"{medians[name] / base:.2f}"]
        print(f"| {width} | {' | '.join(cells)} |")


@pytest.mark.parametrize("width", [64, 256])
def test_step(width: int, table: Rows) -> None:
    ranks = Ranks(2, timeout=300)
    try:
        table[width] = ranks.run(blocks.times, width, 4, 16, ROUNDS)[0]
    finally:
        ranks.close()


@pytest.mark.skipif(not torch.cuda.is_available(), reason=NO_GPU)
def test_step_on_one_gpu() -> None:
    """Within 3 per cent of the plain model."""
    ranks = Ranks(1, timeout=300, backend="cpu:gloo,cuda:nccl")
    try:
        medians = ranks.run(blocks.times_on_gpu, 1024, 8, 512, ROUNDS)[0]
    finally:
        ranks.close()
    assert medians["dimsolve"] <= 1.03 * medians["plain"], medians
