"""Law: a sum of a thousand terms is read, decided and written as a short one is."""

from __future__ import annotations

import pytest

from dimsolve.ir.expression import Operation, Operator, terms
from dimsolve.ir.read_expression import parse_dimension, read_dimension, read_relation
from dimsolve.show.tex import expression_tex
from dimsolve.solver.algebra.evaluation import names_of, valuation
from dimsolve.solver.proof.prove import prove

COUNT = 1_000
NAMES = [f"x{i}" for i in range(COUNT)]
SUM = " + ".join(NAMES)

TRUE: list[tuple[str, list[str]]] = [
    (f"{SUM} >= {COUNT}", []),
    (f"{SUM} == {' + '.join(reversed(NAMES))}", []),
    (f"({' + '.join(f'{8 * i}*{name}' for i, name in enumerate(NAMES))}) % 8 == 0", []),
    (f"{' + '.join('a' for _ in NAMES)} == {COUNT}*a", []),
    ("x0 <= 6", [f"{SUM} == {COUNT + 5}"]),
    (f"{SUM} >= 1", [f"{SUM} == {COUNT + 5}"]),
    (f"{' + '.join(f'{name}//2' for name in NAMES[:300])} >= 0", []),
    (f"{' + '.join(f'{name} % {i + 2}' for i, name in enumerate(NAMES[:300]))} >= 0", []),
    (f"{' + '.join(f'max({name}, {name}y)' for name in NAMES[:300])} >= 300", []),
    (f"({SUM})//8*8 <= {SUM}", []),
]
FALSE = [
    f"{SUM} >= {COUNT + 1}",
    f"{SUM} == {' + '.join(NAMES[1:])}",
    f"({' + '.join(f'{8 * i + 9}*{name}' for i, name in enumerate(NAMES))}) % 8 == 0",
    f"{' - '.join(NAMES)} >= 0",
    f"{' + '.join(f'{name}//2' for name in NAMES[:300])} >= 1",
]


@pytest.mark.parametrize(("claim", "facts"), TRUE, ids=lambda part: str(part)[:24])
def test_true_ones_are_proved(claim: str, facts: list[str]) -> None:
    assert prove(claim, facts=facts).verdict == "proved"


@pytest.mark.parametrize("claim", FALSE, ids=lambda part: part[:24])
def test_false_ones_are_refuted(claim: str) -> None:
    proof = prove(claim)
    assert proof.verdict == "refuted"
    assert proof.counterexample is not None
    relation = read_relation(claim)
    left, right = valuation(relation.left), valuation(relation.right)
    difference = left(proof.counterexample) - right(proof.counterexample)
    assert difference < 0 if ">=" in claim else difference != 0


def test_the_tree_is_what_was_written() -> None:
    text = "".join(f" {'-' if i % 3 else '+'} {name}" for i, name in enumerate(NAMES))[3:]
    tree = parse_dimension(text)
    assert isinstance(tree, Operation)
    assert len(terms(tree)) == COUNT
    assert terms(tree)[1] == (Operator.SUBTRACT, read_dimension("x1"))
    assert str(tree) == text
    assert parse_dimension(str(tree)) == tree
    assert hash(parse_dimension(str(tree))) == hash(tree)
    assert tree != parse_dimension(text.replace("x7 ", "x8 "))
    assert names_of(tree) == set(NAMES)
    assert expression_tex(tree).count(" - ") == text.count(" - ")
    numbers = {name: i * i for i, name in enumerate(NAMES)}
    assert valuation(tree)(numbers) == sum(-i * i if i % 3 else i * i for i in range(COUNT))


def test_brackets_stay_where_they_matter() -> None:
    for text in ("a - (b - c)", "a + (b + c)", "(a + b) % 4", "(a - b)*(c + d) - (a + b)"):
        assert str(parse_dimension(text)) == text
    assert parse_dimension("a - (b - c)") != parse_dimension("a - b - c")
    assert parse_dimension("(a + b) + c") == parse_dimension("a + b + c")
