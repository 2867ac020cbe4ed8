"""What the tests of the readers draw: annotations, expressions, and text that is neither."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path

from hypothesis import strategies as st

from dimsolve.ir.annotation import (
    Annotation,
    Atom,
    Dim,
    Identifier,
    Mark,
    Number,
    Opaque,
    Operand,
    Star,
    Tensor,
)
from dimsolve.ir.errors import Span
from dimsolve.ir.expression import Expression, Literal, Name, Operation, Operator

NAMES = (
    *("a", "b", "k", "kd", "iC", "_x1", "if", "True", "min"),
    *("\u03b1", "\u03b2", "\u6279", "\u00e9t"),
)
"""Keywords, functions' names, Greek, wide and accented letters among them; no two look the same."""
NOWHERE = Span(0, 0)
DATA = Path(__file__).parent.parent / "data"


@cache
def valid_texts() -> tuple[str, ...]:
    """Returns annotations, claims and expressions as other systems' tests write them."""
    texts: list[str] = json.loads((DATA / "readable_texts.json").read_text())["texts"]
    return tuple(texts)


@st.composite
def annotation_trees(draw: st.DrawFn) -> Annotation:
    """Annotations that keep every rule which needs no shapes."""
    marks = {name: draw(st.sampled_from(Mark)) for name in (*NAMES, "*")}
    named = st.sampled_from(NAMES).map(lambda name: Identifier(name, marks[name], NOWHERE))

    def atoms(least: int) -> st.SearchStrategy[Atom]:
        return named | st.builds(Number, st.integers(least, 10**6), st.just(NOWHERE))

    single = atoms(0).map(lambda atom: Dim((atom,), False, NOWHERE))
    group = st.lists(atoms(1), min_size=1, max_size=4).map(lambda a: Dim(tuple(a), True, NOWHERE))
    star = Star(marks["*"], NOWHERE)

    def tensor() -> Tensor:
        dims: list[Dim | Star] = list(draw(st.lists(single | group, max_size=5)))
        if draw(st.booleans()):
            dims.insert(draw(st.integers(0, len(dims))), star)
        return Tensor(tuple(dims), NOWHERE)

    def side() -> tuple[Operand, ...]:
        opaque = draw(st.lists(st.booleans(), max_size=4))
        return tuple(Opaque(NOWHERE) if hidden else tensor() for hidden in opaque)

    return Annotation(side(), side(), "")


def expression_trees() -> st.SearchStrategy[Expression]:
    """Trees of every operation, with exponents and numbers of every allowed kind."""
    leaves = st.one_of(
        st.sampled_from(NAMES).map(lambda name: Name(name, NOWHERE)),
        st.integers(0, 10**18).map(lambda value: Literal(value, NOWHERE)),
    )
    return st.recursive(leaves, _operations, max_leaves=12)


_INFIX = (Operator.ADD, Operator.SUBTRACT, Operator.MULTIPLY, Operator.FLOORDIV, Operator.MOD)


def _operations(operands: st.SearchStrategy[Expression]) -> st.SearchStrategy[Expression]:
    def operation(operator: Operator, *parts: Expression) -> Operation:
        return Operation(operator, parts, NOWHERE)

    two = st.sampled_from((*_INFIX, Operator.CEILDIV))
    many = st.sampled_from((Operator.MIN, Operator.MAX))
    exponent = st.integers(0, 2).map(lambda value: Literal(value, NOWHERE))
    return st.one_of(
        st.builds(operation, two, operands, operands),
        st.builds(operation, st.just(Operator.NEGATE), operands),
        st.builds(operation, st.just(Operator.POWER), operands, exponent),
        st.builds(operation, many, operands, operands, operands),
    )


TOKENS = (
    *"+-*/%^=<>!&|()[]{}?,.:;'\"\\@#~`_\0\n\t ",
    *("->", "**", "//", "==", "!=", "<=", ">=", "()", "* ", "k+", "k^", "(h t)"),
    *("min(", "ceildiv(", "0", "1", "64", "9**9", "1" * 120, "a", "b", "kd"),
    *("lambda", "import", "__import__", "and"),
    *("\u2192", "\uff08", "\u2212", "\u00d7", "\u0430", "\u03b1", "\u212a", "\u0660", "\ufb01"),
    *(
        "\u200b",
        "\u202e",
        "\ufeff",
        "\ufe0f",
        "\u1160",
        "e\u0301",
        "\u00b2",
        "\ud800",
        "\U0001f600",
    ),
)


def hostile_texts() -> st.SearchStrategy[str]:
    """Characters of all of Unicode, soups of tokens, mutilated good texts, long repetitions."""
    anything = st.text(st.characters(exclude_categories=()), max_size=40)
    soup = st.lists(st.sampled_from(TOKENS), max_size=30).map("".join)
    spaced = st.lists(st.sampled_from(TOKENS), max_size=30).map(" ".join)
    pieces = st.sampled_from(TOKENS) | anything
    repeated = st.builds(
        lambda head, unit, times, tail: head + unit * times + tail,
        pieces, pieces, st.sampled_from((10, 63, 64, 65, 128, 129, 1_000, 20_000)), pieces,
    )  # fmt: skip
    return st.one_of(anything, soup, spaced, mutilated(), repeated)


@st.composite
def mutilated(draw: st.DrawFn) -> str:
    """A good text with one to three characters taken out, put in or doubled."""
    text = draw(st.sampled_from(valid_texts()))
    for _ in range(draw(st.integers(1, 3))):
        at = draw(st.integers(0, len(text)))
        until = min(at + draw(st.integers(0, 3)), len(text))
        text = text[:at] + draw(st.sampled_from(("", text[at:until] * 2, *TOKENS))) + text[until:]
    return text
