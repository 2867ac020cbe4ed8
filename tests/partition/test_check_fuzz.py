"""Law: what `check` and `legal_parts` say of random splits is what brute force says."""

from __future__ import annotations

import pytest

from .fuzz_check import wrongs
from .fuzz_rearrangements import wrongs as wrongs_of_rearrangement


@pytest.mark.parametrize("block", range(10))
def test_random_splits(block: int) -> None:
    for number in range(20 * block, 20 * block + 20):
        assert list(wrongs(number)) == []


def test_random_rearrangements_come_together_again() -> None:
    for number in range(200):
        assert list(wrongs_of_rearrangement(number)) == []
