"""Law: two names that look the same are found, and honest names of any script are left alone."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dimsolve.ir.characters import find_lookalikes, is_invisible


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("a", "\u0430"),
        ("k", "\u043a"),
        ("o", "\u03bf"),
        ("\u043e", "\u03bf"),
        ("v", "\u03bd"),
        ("A", "\u0391"),
        ("\u0410", "\u0391"),
        ("K", "\u212a"),
        ("\u039a", "\u212a"),
        ("batch", "b\u0430tch"),
        ("fi", "\ufb01"),
        ("a1", "\uff411"),
        ("\u00e9", "e\u0301"),
        ("\u00b5", "\u03bc"),
        ("a", "a\ufe0f"),
        ("\u0393", "\u0413"),
    ],
)
def test_lookalikes_are_found(first: str, second: str) -> None:
    assert first.isidentifier()
    assert second.isidentifier()
    assert find_lookalikes([first, "other", second]) == (first, second)
    assert find_lookalikes([second, first]) == (second, first)


@pytest.mark.parametrize(
    "names",
    [
        ["l", "I", "O0", "OO", "rn", "m"],
        ["\u03b1", "\u03b2", "\u03b3", "\u03c3", "a", "b", "y", "B"],
        ["\u0430", "\u0431", "\u043a", "\u0434"],
        ["\u6279", "\u957f", "\u5934"],
        ["e", "\u00e9", "\u00e8"],
        ["a", "a"],
        [],
    ],
)
def test_honest_names_are_left_alone(names: list[str]) -> None:
    assert find_lookalikes(names) is None


@given(st.lists(st.text(st.characters(max_codepoint=127))))
def test_ascii_names_are_never_alike(names: list[str]) -> None:
    assert find_lookalikes(names) is None


@given(st.lists(st.text(st.characters(exclude_categories=()))))
def test_what_is_found_is_there_and_differs(names: list[str]) -> None:
    found = find_lookalikes(names)
    if found:
        assert found[0] != found[1]
        assert set(found) <= set(names)


def test_invisible_characters() -> None:
    assert all(map(is_invisible, "\u200b\u200d\u202e\ufeff\ufe0f\u3164\u034f\U000e0041\u00ad"))
    assert not any(map(is_invisible, "a \u0301\u6279_"))
