"""Law: what an annotation's text says is what its tree says, and the tree's text says it again."""

from __future__ import annotations

import pickle
import re
import subprocess
import sys
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dimsolve.ir import AnnotationError, parse_annotation, read_annotation
from dimsolve.ir.annotation import Annotation, Dim, Identifier, Mark, Number, Opaque, Star, Tensor
from dimsolve.ir.errors import Span
from dimsolve.ir.read_annotation import MAX_CHARACTERS, MAX_DIGITS, MAX_DIMS, MAX_TENSORS
from tests.oracles.strategies import annotation_trees, valid_texts

READ = [
    # text, what it is written as
    ("m k+, k+ n -> m n", "m k+, k+ n -> m n"),
    ("m^ kd+, kd+ n->m^ n", "m^ kd+, kd+ n -> m^ n"),
    ("a b-> a b", "a b -> a b"),
    ("\t a\n  b ,c->\n a ", "a b, c -> a"),
    ("a\u00a0b\u3000c -> a", "a b c -> a"),
    ("(h t) k -> h t k", "(h t) k -> h t k"),
    ("( h  t )k->h t k", "(h t) k -> h t k"),
    ("a(b c)(d) -> a", "a (b c) (d) -> a"),
    ("(a) -> a", "(a) -> a"),
    ("4+ a, 8^ -> a", "4 a, 8 -> a"),
    ("5 10 -> 0", "5 10 -> 0"),
    ("007 -> 7", "7 -> 7"),
    ("\u0664\u0662 -> \uff11", "42 -> 1"),
    ("(1^ b c^) -> (1 b c^)", "(1 b c^) -> (1 b c^)"),
    ("* d^, s -> * s", "* d^, s -> * s"),
    ("(2 bs^) *^ -> bs^ *^, bs^ *^", "(2 bs^) *^ -> bs^ *^, bs^ *^"),
    ("?, * -> *", "?, * -> *"),
    (" ? ->?,  ?", "? -> ?, ?"),
    ("(), ( ) -> ()", "(), () -> ()"),
    ("-> a", "-> a"),
    ("a ->", "a ->"),
    ("->", "->"),
    ("if for -> if for", "if for -> if for"),
    ("True None -> lambda", "True None -> lambda"),
    ("\u03b1 \u03b2 -> \u03b1 \u03b2", "\u03b1 \u03b2 -> \u03b1 \u03b2"),
    ("\u6279+ \u957f -> \u957f", "\u6279+ \u957f -> \u957f"),
    ("a -> b", "a -> b"),  # an argument b may give it; that is seen later
    ("l I O0 -> l I O0", "l I O0 -> l I O0"),  # alike, but each from an ordinary keyboard
]


@pytest.mark.parametrize(("text", "written"), READ)
def test_annotations_are_read(text: str, written: str) -> None:
    annotation = read_annotation(text)
    assert str(annotation) == written
    assert annotation.text == text
    assert read_annotation(written) == annotation


def test_every_node_has_its_fields_and_its_span() -> None:
    text = "(h 2) k+, ?, () -> * 4^"
    h = Identifier("h", Mark.NONE, Span(1, 2))
    k = Identifier("k", Mark.SUM, Span(6, 8))
    product = Dim((h, Number(2, Span(3, 4))), True, Span(0, 5))
    first = Tensor((product, Dim((k,), False, Span(6, 8))), Span(0, 8))
    star = Star(Mark.NONE, Span(19, 20))
    four = Dim((Number(4, Span(21, 23)),), False, Span(21, 23))
    inputs = (first, Opaque(Span(10, 11)), Tensor((), Span(13, 15)))
    expected = Annotation(inputs, (Tensor((star, four), Span(19, 23)),), text)
    assert repr(parse_annotation(text)) == repr(expected)


@given(annotation_trees())
def test_written_annotations_read_back_equal(annotation: Annotation) -> None:
    again = parse_annotation(str(annotation))
    assert again == annotation
    assert str(again) == str(annotation)


@given(annotation_trees(), st.randoms(use_true_random=False))
def test_spaces_change_nothing(annotation: Annotation, random: Random) -> None:
    def spaced(sign: str) -> str:
        if sign == " ":
            return random.choice([" ", "  ", "\n", "\u00a0\t"])
        return random.choice(["", " ", "\n\t"]) + sign + random.choice(["", " ", "\u3000"])

    text = re.sub(r" |->|[(),]", lambda match: spaced(match[0]), str(annotation))
    assert parse_annotation(text) == annotation


@given(annotation_trees())
def test_spans_point_at_what_they_were_read_from(annotation: Annotation) -> None:
    again = parse_annotation(str(annotation))
    for operand in again.inputs + again.outputs:
        assert again.text[slice(*operand.span)] == str(operand)
        if isinstance(operand, Opaque):
            continue
        for dim in operand.dims:
            assert again.text[slice(*dim.span)] == str(dim)
            for atom in () if isinstance(dim, Star) else dim.atoms:
                assert again.text[slice(*atom.span)] == str(atom)


def test_recorded_annotations_are_read() -> None:
    recorded = [text for text in valid_texts() if "->" in text]
    assert len(recorded) > 100
    for text in recorded:
        assert read_annotation(str(read_annotation(text))) == read_annotation(text)


@pytest.mark.parametrize(
    ("largest", "too_large", "code"),
    [
        ("a" * (MAX_CHARACTERS - 3) + " ->", "a" * (MAX_CHARACTERS - 2) + " ->", "text-too-long"),
        (
            "a" + ",a" * (MAX_TENSORS - 2) + "->a",
            "a" + ",a" * (MAX_TENSORS - 1) + "->a",
            "too-many-tensors",
        ),
        ("a " * MAX_DIMS + "->", "a " * (MAX_DIMS + 1) + "->", "too-many-dimensions"),
        (f"({'a ' * MAX_DIMS})->", f"({'a ' * (MAX_DIMS + 1)})->", "too-many-dimensions"),
        ("9" * MAX_DIGITS + "->", "9" * (MAX_DIGITS + 1) + "->", "too-many-digits"),
    ],
)
def test_limits_are_where_they_are_said_to_be(largest: str, too_large: str, code: str) -> None:
    read_annotation(largest)
    with pytest.raises(AnnotationError) as caught:
        read_annotation(too_large)
    assert caught.value.diagnostic.code == code


def test_the_same_short_text_is_read_once() -> None:
    assert read_annotation("a b -> b") is read_annotation("a b -> b")
    assert parse_annotation("a b -> b") is not parse_annotation("a b -> b")


@pytest.mark.parametrize(
    ("value", "described"),
    [
        (b"a -> a", "b'a -> a', a bytes"),
        (["a -> a"], "['a -> a'], a list"),
        (None, "None"),
        (5, "5, an int"),
        (10**5000, "an int"),
    ],
    ids=["bytes", "list", "None", "int", "long int"],
)
def test_text_is_required(value: object, described: str) -> None:
    with pytest.raises(AnnotationError) as caught:
        read_annotation(value)  # type: ignore[arg-type]
    assert str(caught.value) == (
        "annotation is not a text\n"
        f"  annotation is {described}\n"
        "  hint: write it as in 'm k+, k+ n -> m n'"
    )


def test_annotations_are_values() -> None:
    annotation = read_annotation("(h t) k+, ? -> h t")
    assert pickle.loads(pickle.dumps(annotation)) == annotation
    assert hash(parse_annotation(" (h t) k+,? ->h t")) == hash(annotation)
    with pytest.raises(AttributeError):
        annotation.text = ""  # type: ignore[misc]


def test_reading_loads_neither_sympy_nor_torch() -> None:
    code = "import sys, dimsolve.ir; print('sympy' in sys.modules, 'torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False", "False"]
