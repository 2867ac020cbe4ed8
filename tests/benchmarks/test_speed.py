"""A training step on two gloo ranks, one thread each, beside Megatron by hand and DTensor.

    pytest tests/benchmarks/test_speed.py -s

Prints medians of one run in which the three take turns; it decides nothing.
"""

from __future__ import annotations

import pytest

from tests.exec.ranks import Ranks

from . import blocks

ROUNDS = 300


@pytest.mark.parametrize("width", [64, 256])
def test_step(width: int) -> None:
    ranks = Ranks(2, timeout=300)
    try:
        medians = ranks.run(blocks.times, width, 4, 16, ROUNDS)[0]
    finally:
        ranks.close()
    base = medians["by hand"]
    for name, seconds in medians.items():
        print(f"| {width} wide | {name} | {seconds * 1e6:.0f} µs | {seconds / base:.2f} |")
