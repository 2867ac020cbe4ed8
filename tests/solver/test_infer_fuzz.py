"""Law: what `infer` says of random questions is what brute force says: no fit is refused, and the
conditions hold exactly where there is one.
"""

from __future__ import annotations

from random import Random

import pytest

from dimsolve.solver.proof.facts import read_facts
from tests.oracles.questions import random_question, readable

from .fuzz_infer import wrongs_of_choices, wrongs_of_infer

REFUSED_BY_FACTS = {195}
"""Questions that `read_facts` refuses wrongly: see the last test."""


@pytest.mark.parametrize("block", range(10))
def test_random_questions(block: int) -> None:
    for number in range(25 * block, 25 * block + 25):
        question = random_question(Random(number))
        if readable(question) and number not in REFUSED_BY_FACTS:
            assert list(wrongs_of_infer(question)) == [], (number, question)


def test_random_choices() -> None:
    for number in range(1000, 1150):
        question = random_question(Random(number))
        if readable(question):
            assert list(wrongs_of_choices(question)) == [], (number, question)


@pytest.mark.parametrize("fact", ["b*c**2 == 2*(s % 3) - 1", "((s + 1)//2)**3 + 1 == 2*(s % 3)"])
def test_facts_that_can_hold_do_not_contradict_each_other(fact: str) -> None:
    assert read_facts([fact]).holds({"s": 1, "b": 1, "c": 1})
