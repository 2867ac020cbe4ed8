"""A small part of `beside_named`."""

from __future__ import annotations

import pytest

from .beside_named import line


@pytest.mark.parametrize(
    ("mesh", "part"), [("tp=2", 1.0), ("tp=2", 0.8), ("tp=3", 1.0), ("tp=4", 1.0)]
)
def test_auto_is_no_dearer_than_a_named_policy_that_fits(mesh: str, part: float) -> None:
    """Along 3 ranks parts are unequal, along 4 two key-value heads are held twice."""
    ok, text = line("llama", mesh, 4, part, float("inf"))
    assert ok, text
