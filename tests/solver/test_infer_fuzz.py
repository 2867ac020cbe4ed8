"""Law: what `infer` says of random questions is what brute force says: no fit is refused, and the
conditions hold exactly where there is one.
"""

from __future__ import annotations

from random import Random

import pytest

from .fuzz_infer import wrongs_of_choices, wrongs_of_infer
from .questions import random_question, readable


@pytest.mark.parametrize("block", range(10))
def test_random_questions(block: int) -> None:
    for number in range(25 * block, 25 * block + 25):
        question = random_question(Random(number))
        if readable(question):
            assert list(wrongs_of_infer(question)) == [], (number, question)


def test_random_choices() -> None:
    for number in range(1000, 1150):
        question = random_question(Random(number))
        if readable(question):
            assert list(wrongs_of_choices(question)) == [], (number, question)
