"""Law: no text, however hostile, does more than raise an error that says what is wrong with it."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given, settings

from dimsolve.ir import AnnotationError, read_annotation, read_dimension, read_relation, read_shape
from dimsolve.ir.read_annotation import parse_annotation
from tests.oracles.strategies import hostile_texts

from .fuzz_readers import READERS, read_and_check


@settings(max_examples=1000)
@given(hostile_texts())
def test_hostile_texts_raise_designed_errors_or_are_read(text: str) -> None:
    for read in READERS:
        read_and_check(read, text)


MILLION = 1_000_000
HOSTILE: list[tuple[Callable[[str], object], str, str]] = [
    (
        read_dimension,
        "9**9**9",
        "exponent too large or unknown\n"
        "  9**9**9\n"
        "     ^~~~\n"
        "  an exponent is a written-out number from 0 to 16",
    ),
    (
        read_relation,
        "((((9**16)**16)**16)**16) == 1",
        "power too large\n"
        "  ((((9**16)**16)**16)**16) == 1\n"
        "   ^~~~~~~~~~~~~~~~~~~~~~~\n"
        "  powers of powers may come to 64 in all",
    ),
    (
        read_dimension,
        "(" * MILLION,
        "text too long\n"
        "  …((((((((((((((((((((((((\n"
        "                           ^\n"
        "  an expression has at most 16,384 characters; this text has 1,000,000",
    ),
    (
        read_annotation,
        "(" * MILLION,
        "text too long\n"
        "  …((((((((((((((((((((((((\n"
        "                           ^\n"
        "  an annotation has at most 10,000 characters; this text has 1,000,000",
    ),
    (
        read_annotation,
        "(" * 5000 + "a" + ")" * 4000 + " -> a",
        "brackets within brackets\n"
        "  ((((((((((((((((((((((((((…\n"
        "  ^^\n"
        "  brackets do not nest: they hold identifiers and numbers, "
        "whose product is one dimension\n"
        "  hint: leave out the inner brackets: (a (b c)) is the same product as (a b c)",
    ),
    (
        read_dimension,
        "(" * 2000 + "a" + ")" * 2000,
        "nested too deep\n"
        "  …(((((((((((((((((((((((((((((((((((((((((((((((((…\n"
        "                           ^\n"
        "  brackets, signs and powers nest at most 64 deep",
    ),
    (
        read_dimension,
        "9" * 20_000,
        "text too long\n"
        "  …999999999999999999999999\n"
        "                           ^\n"
        "  an expression has at most 16,384 characters; this text has 20,000",
    ),
    (
        read_shape,
        "k, " + "9" * 4000,
        "number too long\n"
        f"  k, {'9' * 72}…\n"
        f"     ^{'~' * 71}\n"
        "  a number has at most 100 digits; this one has 4,000",
    ),
    (
        read_annotation,
        f"a {'9' * 9_000} -> a",
        "number too long\n"
        f"  a {'9' * 72}…\n"
        f"    ^{'~' * 71}\n"
        "  a number has at most 100 digits; this one has 9,000",
    ),
    (
        read_annotation,
        "a" + ", a" * 1000 + " -> a",
        "too many tensors\n"
        f"  …{'a, ' * 16}a…\n"
        "                           ^\n"
        "  an annotation has at most 256 inputs and outputs; this one has 1,002",
    ),
    (
        read_annotation,
        "a -> " + "b " * 4000,
        "too many dimensions\n"
        "  …b b b b b b b b b b b b b b b b b b b b b b b b b…\n"
        "                           ^\n"
        "  a tensor has at most 64 dimensions; here are 4,000",
    ),
    (
        read_annotation,
        "(" + "b " * 100 + ") -> b",
        "too many factors\n"
        "  …b b b b b b b b b b b b b b b b b b b b b b b b b…\n"
        "                           ^\n"
        "  brackets hold at most 64 factors; here are 100",
    ),
    (
        read_dimension,
        "*".join("a" * 500),
        "too many operations\n"
        f"  {'a*' * 36}…\n"
        f"  ^{'~' * 71}\n"
        "  at most 128 operations may follow one on the result of the other\n"
        "  hint: put brackets around parts of a long product",
    ),
    (
        read_dimension,
        "-" * 4000 + "a",
        "nested too deep\n"
        f"  …{'-' * 49}…\n"
        "                           ^\n"
        "  brackets, signs and powers nest at most 64 deep",
    ),
    (
        read_shape,
        "a," * 3500,
        "too many names and numbers\n"
        f"  …{'a,' * 24}a…\n"
        "                           ^\n"
        "  a text has at most 2,500 names and numbers",
    ),
    (
        read_annotation,
        "a" * 200 + "? -> a",
        "'?' among dimensions\n"
        "  …aaaaaaaaaaaaaaaaaaaaaaaa? -> a\n"
        "                           ^\n"
        "  '?' stands for a whole value, and input 0 has more than it\n"
        "  hint: write ? alone, or a name for the dimension",
    ),
]


def name_of(value: object) -> str:
    """The same in every process, so that the tests can run in several: no addresses."""
    return getattr(value, "__name__", None) or ascii(value)[:30]


@pytest.mark.parametrize(("read", "text", "shown"), HOSTILE, ids=name_of)
def test_hostile_texts_word_for_word(read: Callable[[str], object], text: str, shown: str) -> None:
    with pytest.raises(AnnotationError) as caught:
        read(text)
    assert str(caught.value) == shown


def test_an_error_keeps_no_more_text_than_would_have_been_read() -> None:
    with pytest.raises(AnnotationError) as caught:
        read_annotation("a" * MILLION)
    assert len(caught.value.diagnostic.text) == 10_000


def test_long_texts_are_not_kept() -> None:
    text = "a" * 300 + " -> a"
    assert read_annotation(text) == parse_annotation(text)
    assert read_annotation(text) is not read_annotation(text)
    assert read_dimension("a" * 65) is not read_dimension("a" * 65)


@pytest.mark.parametrize(
    "text",
    [
        '__import__("os").system("true")',
        "().__class__.__bases__[0].__subclasses__()",
        "[a for a in (1,)]",
        "exec('a')",
        "open(a)",
        "lambda: a",
        "a if a else a",
        "f'{a}'",
        "a := 1",
        "globals()",
    ],
)
def test_code_is_neither_read_nor_run(text: str) -> None:
    for read in READERS:
        with pytest.raises(AnnotationError):
            read(text)
