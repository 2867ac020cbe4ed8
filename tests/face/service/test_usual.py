"""Which way a question takes changes its time and nothing else."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dimsolve.service.answers import answer, answer_question, is_usual
from dimsolve.service.questions import CheckQuestion, InferQuestion
from dimsolve.solver.question import Question

DIMS = st.integers(0, 10**6) | st.sampled_from(["s", "k", "m", "8*s", "3*s*k", "12 * m"])
FACTS = st.sampled_from(["s % 8 == 0", "k >= 3", "m % 4 == 1", "k > 2", "a == 8", "s*k == 64"])
ANNOTATIONS = st.sampled_from(
    [
        "a b+, b+ c -> a c",
        "(a b) c -> a b c",
        "a -> a a",
        "* a -> a *",
        "a b, b -> a^ b",
        "a, (a b) -> b",
    ]
)


@st.composite
def checks(draw: st.DrawFn) -> CheckQuestion:
    annotation = draw(ANNOTATIONS)
    count = annotation.partition("->")[0].count(",") + 1
    return CheckQuestion(
        annotation=annotation,
        inputs=draw(st.lists(st.lists(DIMS, max_size=3), min_size=count, max_size=count)),
        split=draw(st.sampled_from(["a", "b", "c"])),
        parts=draw(st.sampled_from([1, 2, 8, 7, 2**40, "n", "8"])),
        arguments=draw(st.dictionaries(st.sampled_from("ab"), st.sampled_from([2, 8, "s"]))),
        facts=draw(st.lists(FACTS, max_size=3)),
    )


@given(checks())
@settings(max_examples=300)
def test_both_ways_give_the_same_bytes(question: CheckQuestion) -> None:
    assert answer("check", question.model_dump_json().encode()) == answer_question(question)


@given(question=checks())
@settings(max_examples=300)
def test_a_usual_check_never_asks_the_general_solver(question: CheckQuestion) -> None:
    if not is_usual(question):
        return
    asked: list[object] = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Question, "solution", lambda self: asked.append(self) or 1 / 0)
        try:
            reply = answer_question(question)
        except ZeroDivisionError:
            pytest.fail(f"{question!r} is not usual")
    assert reply.status in (200, 422) and not asked


@pytest.mark.parametrize(
    ("inputs", "facts", "usual"),
    [
        (["m, k", "k, n"], [], True),
        (["m, k", "k, n"], ["k % 64 == 0"], True),
        ([["m", 512], [512, "8*n"]], [], True),
        (["m, k + 1", "k + 1, n"], [], False),
        (["m, k", "j, n"], [], False),
        (["m, (a + b)**16", "(a + b)**16, n"], [], False),
        (["m, k", "k, n"], ["k*m == 64"], False),
        (["m, k", "k, n"], ["k % 2 == 0", "k % 3 == 0"], False),
        (None, [], False),
    ],
)
def test_what_is_usual(inputs: Any, facts: list[str], usual: bool) -> None:
    asked = {"annotation": "m k+, k+ n -> m n", "inputs": inputs, "facts": facts}
    assert is_usual(InferQuestion(**asked)) == usual
    assert is_usual(CheckQuestion(**asked, split="k", parts=8)) == usual


def test_a_question_about_a_function_is_answered_by_a_worker_as_in_python() -> None:
    known: dict[str, Any] = {
        "inputs": ["n, c, h, w", "o, c, 3, 3"],
        "arguments": {"stride": 2},
    }
    question = InferQuestion(annotation="torch.nn.functional.conv2d", **known)
    assert not is_usual(question)
    reply = answer_question(question)
    assert reply.status == 200 and b'"conditions":["h >= 3","w >= 3"]' in reply.body
    slip = InferQuestion(annotation="torch.nn.functional.conv2", inputs=["n"])
    assert is_usual(slip)
    assert b"did you mean torch.nn.functional.conv2d?" in answer_question(slip).body
