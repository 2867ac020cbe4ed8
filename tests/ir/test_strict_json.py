"""JSON is read as RFC 8259 means it, or refused with a code."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dimsolve.ir.strict_json import UnreadableJson, is_deeper, read_json, require_shallow

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(codec="utf-8")),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(st.characters(codec="utf-8")), inner),
)  # fmt: skip


@given(VALUES, st.booleans())
def test_what_python_writes_reads_back(value: Any, ascii_only: bool) -> None:
    assert read_json(json.dumps(value, ensure_ascii=ascii_only).encode(), 1000) == value


@pytest.mark.parametrize(
    ("body", "code"),
    [
        (b"", "not-json"),
        (b"{", "not-json"),
        (b"[1,]", "not-json"),
        (b"NaN", "not-json"),
        (b"[-Infinity]", "not-json"),
        (b"1e999", "number-too-large"),
        (b"9" * 101, "too-many-digits"),
        (b"9" * 5000, "too-many-digits"),
        (b'{"a": 1, "a": 1}', "duplicate-key"),
        (b'[{"b": {"a": 1, "b": 2, "a": 3}}]', "duplicate-key"),
        (b'"\xff"', "not-utf-8"),
        (b'"\\ud800"', "not-unicode"),
        ('"a"'.encode("utf-16"), "not-utf-8"),
        (b"[" * 65 + b"]" * 65, "too-deep"),
        (b'{"a":' * 30_000, "too-deep"),
    ],
)
def test_what_is_no_json_has_a_code(body: bytes, code: str) -> None:
    with pytest.raises(UnreadableJson) as caught:
        read_json(body)
    assert caught.value.code == code


@given(st.integers(0, 60), st.integers(0, 60), st.text('[]{}\\"x', max_size=20))
def test_depth_counts_brackets_outside_texts(depth: int, limit: int, text: str) -> None:
    value: Any = text
    for number in range(depth):
        value = [value, text] if number % 2 else {"k": value}
    assert is_deeper(json.dumps(value).encode(), limit) == (depth > limit)


@given(st.binary(max_size=200))
def test_any_bytes_are_a_value_or_an_error(body: bytes) -> None:
    try:
        read_json(body)
    except UnreadableJson as error:
        assert error.code and error.reason


def test_text_is_read_like_its_bytes() -> None:
    assert read_json('{"a": "ä"}') == read_json('{"a": "ä"}'.encode()) == {"a": "ä"}
    with pytest.raises(UnreadableJson, match="half of a surrogate pair stands alone"):
        read_json('"\ud800"')


def nested(depth: int) -> Any:
    value: Any = 1
    for _ in range(depth):
        value = {"a": (value,)} if depth % 2 else [value]
    return value


@pytest.mark.parametrize("depth", [64, 32])
def test_what_nests_as_deeply_as_allowed_is_let_through(depth: int) -> None:
    require_shallow(nested(depth))


@pytest.mark.parametrize("depth", [65, 100_000])
def test_what_nests_too_deeply_is_refused(depth: int) -> None:
    with pytest.raises(UnreadableJson, match="arrays and objects nest more than 64 deep"):
        require_shallow(nested(depth))


def test_a_list_that_holds_itself_is_refused() -> None:
    loop: list[Any] = []
    loop += [loop, loop]
    with pytest.raises(UnreadableJson, match="arrays and objects nest more than 64 deep"):
        require_shallow(loop)
