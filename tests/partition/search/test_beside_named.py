"""A small part of `beside_named`."""

from __future__ import annotations

import pytest

from .beside_named import line


@pytest.mark.parametrize("part", [1.0, 0.8])
def test_auto_is_no_dearer_than_a_named_policy_that_fits(part: float) -> None:
    ok, text = line("llama", "tp=2", 4, part, float("inf"))
    assert ok, text
