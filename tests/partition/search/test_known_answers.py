"""The published answers that are found again; the command shows all rows."""

from __future__ import annotations

import pytest

from .known_answers import ROWS

pytest.importorskip("transformers")


@pytest.mark.parametrize("name", ["wide batch", "wide layers", "bert 1", "bert 3"])
def test_a_published_answer_is_found_again(name: str) -> None:
    row = ROWS[name]()
    assert row.same, row
