"""Law: an error says where, why, with which numbers, and what would work, in designed words."""

from __future__ import annotations

import ast
import copy
import pickle
import subprocess
import sys
import traceback
from collections.abc import Callable
from typing import NamedTuple

import pytest

import dimsolve
from dimsolve.ir import (
    AnnotationError,
    Diagnostic,
    DimsolveError,
    ShapeError,
    Span,
    read_annotation,
    read_dimension,
    read_relation,
    read_shape,
)
from tests.oracles.strategies import DATA

READERS: dict[str, Callable[[str], object]] = {
    "annotation": read_annotation,
    "dimension": read_dimension,
    "shape": read_shape,
    "relation": read_relation,
}


class Row(NamedTuple):
    reader: str
    text: str
    code: str
    shown: str


def rows() -> list[Row]:
    blocks = (DATA / "errors.txt").read_text(encoding="utf-8").rstrip("\n").split("\n\n")
    found = []
    for block in blocks[1:]:
        head, shown = block.split("\n", 1)
        reader, rest = head.split(" ", 1)
        literal, code = rest.rsplit(" ", 1)
        found.append(Row(reader, ast.literal_eval(literal), code, shown))
    return found


@pytest.mark.parametrize("row", rows(), ids=lambda row: f"{row.reader} {row.text[:30]!a}")
def test_errors_word_for_word(row: Row) -> None:
    with pytest.raises(AnnotationError) as caught:
        READERS[row.reader](row.text)
    diagnostic = caught.value.diagnostic
    assert str(caught.value) == row.shown
    assert (diagnostic.code, diagnostic.text) == (row.code, row.text)
    assert all(0 <= start <= stop <= len(row.text) for start, stop in diagnostic.spans)


def test_the_first_example_of_the_design() -> None:
    with pytest.raises(AnnotationError) as caught:
        read_annotation("m k+, k n -> m n")
    assert f"{type(caught.value).__name__}: {caught.value}" == (
        "AnnotationError: one identifier, two marks\n"
        "  m k+, k n -> m n\n"
        "    ^~  ^\n"
        "  'k' is marked '+' in input 0 and not marked in input 1; write the same mark at both"
    )


def test_the_second_example_of_the_design() -> None:
    reason = "h*t = 7 (input 0, dim 0) and h = 2 (argument h); 7 is not a multiple of 2"
    hint = "h can be 1 or 7"
    title = "t has no whole length"
    spans = (Span(3, 4),)
    error = ShapeError(
        Diagnostic("no-whole-length", title, "(h t) k -> h t k", spans, reason, hint)
    )
    assert f"{type(error).__name__}: {error}" == (
        "ShapeError: t has no whole length\n"
        "  (h t) k -> h t k\n"
        "     ^\n"
        "  h*t = 7 (input 0, dim 0) and h = 2 (argument h); 7 is not a multiple of 2\n"
        "  hint: h can be 1 or 7"
    )


def test_a_traceback_ends_in_the_error_as_designed() -> None:
    with pytest.raises(AnnotationError) as caught:
        read_annotation("m k+, k n -> m n")
    assert "".join(traceback.format_exception(caught.value)).endswith(
        "\ndimsolve.AnnotationError: one identifier, two marks\n"
        "  m k+, k n -> m n\n"
        "    ^~  ^\n"
        "  'k' is marked '+' in input 0 and not marked in input 1; write the same mark at both\n"
    )


def test_an_error_can_be_printed_whatever_the_text_was() -> None:
    text = "a \ud800\0\x1b[31m \u202e -> \u2192"
    code = f"from dimsolve.ir import read_annotation; read_annotation({text!a})"
    environment = {"PYTHONIOENCODING": "utf-8"}
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, check=False, env=environment
    )
    last = done.stderr.decode("utf-8").split("dimsolve.AnnotationError: ")[1]
    assert last.splitlines() == [
        "a character that no annotation has",
        "  a \\ud800\\x00\\x1b[31m \\u202e -> \u2192",
        "    ^~~~~~",
        "  U+D800 is no part of the annotation language",
        "  hint: leave it out",
    ]


@pytest.mark.parametrize("kind", [DimsolveError, AnnotationError, ShapeError])
def test_errors_and_diagnostics_pass_between_processes(kind: type[DimsolveError]) -> None:
    diagnostic = Diagnostic("code", "title", "a b", (Span(0, 1), Span(2, 3)), "reason", "hint")
    for protocol in range(2, pickle.HIGHEST_PROTOCOL + 1):
        again = pickle.loads(pickle.dumps(kind(diagnostic), protocol))
        assert type(again) is kind
        assert again.diagnostic == diagnostic
        assert isinstance(again.diagnostic.spans[0], Span)
        assert str(again) == str(kind(diagnostic))
    assert pickle.loads(pickle.dumps(diagnostic)) == diagnostic
    assert copy.deepcopy(kind(diagnostic)).diagnostic == diagnostic


def test_errors_are_the_ones_that_users_import() -> None:
    for kind in (DimsolveError, AnnotationError, ShapeError):
        assert getattr(dimsolve, kind.__name__) is kind
        assert kind.__module__ == "dimsolve"


def test_what_is_missing_takes_no_line() -> None:
    assert Diagnostic("c", "title").render() == "title"
    assert Diagnostic("c", "title", "a b").render() == "title\n  a b"
    assert Diagnostic("c", "title", " \n ", (Span(0, 1),), "why").render() == "title\n  why"
    assert Diagnostic("c", "title", hint="do").render() == "title\n  hint: do"


def test_ipython_shows_the_users_own_lines_and_the_message() -> None:
    from IPython.core.interactiveshell import InteractiveShell

    shown: list[list[str]] = []
    shell = InteractiveShell()
    shell._showtraceback = lambda kind, error, lines: shown.append(lines)
    try:
        dimsolve.parse("m k -> (")
    except DimsolveError as error:
        shell.showtraceback((type(error), error, error.__traceback__))
        message = f"AnnotationError: {error}".splitlines()
    place, *rest = shown[0]
    assert place.startswith("  test_errors.py, line ")
    assert place.endswith(': dimsolve.parse("m k -> (")')
    assert rest == message


def test_python_shows_the_whole_traceback() -> None:
    try:
        dimsolve.parse("m k -> (")
    except DimsolveError as error:
        text = "".join(traceback.format_exception(error))
    assert "read_annotation.py" in text
