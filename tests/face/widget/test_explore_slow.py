"""Law: the widget never holds the kernel, and never keeps silent about why there is no answer.

What may take long is answered by worker processes, with one deadline for all that a page asks at a
time; what a newer question replaces is dropped; a kernel that does not hear is said, and asked
again.
"""

from __future__ import annotations

import time
from queue import SimpleQueue
from typing import Any

import pytest
from playwright.sync_api import Page, expect

import dimsolve as ds
from dimsolve.widget import answers as answering

from . import endless
from .notebook_page import shown

QUICK = {"verb": "legal-parts", "annotation": "a -> a", "split": "a", "up_to": 4}
ENDLESS = {"verb": "legal-parts", "annotation": "endless -> endless", "split": "endless"}
CHEAP = {"verb": "parse", "annotation": "endless -> endless"}


@pytest.fixture(autouse=True)
def endless_work(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(answering, "work", endless.work)
    monkeypatch.setattr(answering, "SECONDS", 300)  # a loaded machine is no reason to give up


class Told:
    """What was told, by the number of the question."""

    def __init__(self) -> None:
        self.queue: SimpleQueue[tuple[int, dict[str, Any]]] = SimpleQueue()

    def __call__(self, number: int, answer: dict[str, Any]) -> None:
        self.queue.put((number, answer))

    def statuses(self, count: int) -> dict[int, int]:
        found = [self.queue.get(timeout=300) for _ in range(count)]
        return {number: answer["status"] for number, answer in found}


def test_asking_returns_before_what_takes_long_is_answered() -> None:
    """An endless question would never let `ask` return, were it answered there."""
    told, one = Told(), answering.Answering()
    one.ask("view", [ENDLESS, CHEAP], told)
    assert told.statuses(1) == {1: 200}
    one.ask("view", [], told)


def test_all_questions_of_a_batch_have_one_deadline(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(answering, "SECONDS", 1.5)
    told, one = Told(), answering.Answering()
    one.ask("view", [ENDLESS] * 5, told)
    _, answer = told.queue.get(timeout=300)
    assert answer["problem"]["title"] == "the question was given up"
    assert answer["problem"]["detail"] == "it was not answered within 1.5 s"
    assert set(told.statuses(4).values()) == {504}
    monkeypatch.setattr(answering, "SECONDS", 300)
    one.ask("view", [QUICK], told)
    assert told.statuses(1) == {0: 200}


def test_a_newer_question_drops_the_older_one_and_frees_its_worker() -> None:
    old, new, one = Told(), Told(), answering.Answering()
    for _ in range(4):
        one.ask("view", [ENDLESS] * 14, old)
        time.sleep(0.3)  # they are being worked on
    one.ask("view", [QUICK], new)
    assert new.statuses(1) == {0: 200}
    assert old.queue.empty()


def test_two_views_do_not_drop_each_others_questions() -> None:
    first, second, one = Told(), Told(), answering.Answering()
    one.ask("one", [QUICK], first)
    one.ask("two", [QUICK], second)
    assert first.statuses(1) == second.statuses(1) == {0: 200}


def test_a_killed_worker_is_said_and_replaced() -> None:
    told, one = Told(), answering.Answering()
    one.ask("view", [{**QUICK, "annotation": "deadly -> deadly", "split": "deadly"}, QUICK], told)
    found = dict(told.queue.get(timeout=300) for _ in range(2))
    assert found[0]["problem"]["code"] == "worker-ended"
    assert found[1]["status"] == 200


def test_rows_are_shown_as_they_are_answered(notebook: Page) -> None:
    """What is answered is shown; counts that are not have no ticks."""
    shown(notebook, ds.explore("a b -> b a", split={"a": 2}))
    summary = notebook.locator(".summary")
    expect(summary).to_contain_text("conditional a into 2")
    notebook.get_by_label("Annotation", exact=True).fill("a endless -> endless a")
    rows = notebook.locator(".split")
    waits = notebook.locator(".computing")
    expect(waits).to_contain_text("computing…")
    expect(waits).to_contain_text("What is pale below is the answer to an older question.")
    expect(rows.first.locator(".tick")).not_to_have_count(0)
    expect(rows.last.locator(".verdict")).to_have_text("whole")
    expect(rows.last.locator(".tick")).to_have_count(0)
    expect(waits).to_contain_text("computing…")
    assert float(summary.evaluate("e => getComputedStyle(e).opacity")) < 1
    notebook.get_by_label("Annotation", exact=True).fill("a b -> b a")
    expect(waits).to_be_empty()
    expect(summary).to_contain_text("conditional a into 2")
    assert float(summary.evaluate("e => getComputedStyle(e).opacity")) == 1


def test_a_newer_question_is_answered_while_an_endless_one_is_asked(notebook: Page) -> None:
    shown(notebook, ds.explore("endless -> endless"))
    expect(notebook.locator(".computing")).to_contain_text("computing…")
    notebook.get_by_label("Annotation", exact=True).fill("a b -> b a")
    expect(notebook.locator(".tensors")).to_contain_text("b, a")
    expect(notebook.locator(".computing")).to_be_empty()


def test_a_kernel_that_does_not_hear_is_said_and_asked_again(notebook: Page) -> None:
    kernel = shown(notebook, ds.explore("a b -> b a"))
    expect(notebook.locator(".tensors")).to_contain_text("b, a")
    kernel.gone = True
    notebook.get_by_label("Annotation", exact=True).fill("m n -> n m")
    problem = notebook.locator(".problem")
    expect(problem).to_contain_text("the kernel does not answer")
    expect(problem).to_contain_text("it runs a cell, or it has stopped")
    expect(problem).to_contain_text("if the kernel was restarted, run this cell again")
    kernel.gone = False
    expect(notebook.locator(".tensors")).to_contain_text("n, m", timeout=10_000)
    expect(problem).to_be_empty()


def test_a_closed_comm_is_said_at_once(notebook: Page) -> None:
    shown(notebook, ds.explore("endless -> endless"))
    expect(notebook.locator(".computing")).to_contain_text("computing…")
    notebook.evaluate("window.emit('comm:close')")
    expect(notebook.locator(".problem")).to_contain_text("the kernel does not answer")
