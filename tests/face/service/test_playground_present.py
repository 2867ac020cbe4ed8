"""Law: what the playground shows is about the present question, or says that it is not.

Ticks, verdicts and shapes of an earlier question would be a yes to something that nobody proved.
"""

from __future__ import annotations

import json

import pytest
from playwright.sync_api import Browser, Locator, Page, Route, expect

from tests.face.browser import MATMUL, annotate, fragment, opened, slider, summary
from tests.face.running import Service

LATE = {"title": "the question was given up", "detail": "it took 10 s", "status": 504}


def row_of(page: Page, name: str) -> Locator:
    return page.locator(".split", has=slider(page, name))


def shapes(page: Page) -> list[str]:
    return [field.input_value() for field in page.locator(".shape textarea").all()]


def give_up(page: Page, verb: str, split: str) -> None:
    """From now on these questions are not answered in time."""

    def handle(route: Route) -> None:
        questions = json.loads(route.request.post_data or "")["questions"]
        answers = route.fetch().json()["answers"]
        for index, question in enumerate(questions):
            if question["verb"] == verb and question["split"] == split:
                problem = {**LATE, "hint": "", "spans": []}
                answers[index] = {"status": 504, "problem": problem}
        route.fulfill(json={"answers": answers})

    page.route("**/v1/batch", handle)


def test_counts_that_were_given_up_leave_no_ticks(page: Page) -> None:
    """Not those up to 16, drawn out over 1 to 256, and none for Page Up to jump to."""
    row = row_of(page, "k")
    expect(row.locator(".tick")).to_have_count(16)
    give_up(page, "legal-parts", "k")
    page.get_by_label("counts up to").select_option("256")
    expect(row).to_contain_text("legal counts: the question was given up, it took 10 s")
    expect(row.locator(".tick")).to_have_count(0)
    expect(row.locator(".verdict")).to_contain_text("conditional")
    expect(row_of(page, "m").locator(".tick")).to_have_count(256)
    slider(page, "k").press("PageUp")
    expect(slider(page, "k")).to_have_value("8")


def test_a_check_that_was_given_up_leaves_no_ticks(page: Page) -> None:
    give_up(page, "check", "k")
    slider(page, "k").fill("9")
    row = row_of(page, "k")
    expect(row.locator(".verdict")).to_have_text("? given up")
    summary(page, "unknown k into 9: the question was given up")


def test_while_it_is_computed_old_answers_are_marked(browser: Browser, service: Service) -> None:
    """A verdict never stands beside a slider that has moved on."""
    slow = """() => {
      const ask = window.fetch;
      window.fetch = async (...given) => {
        await new Promise(done => { window.go = done; });
        return ask(...given);
      };
    }"""
    with opened(browser, service.url) as page:
        summary(page, "conditional k into 8")
        page.evaluate(slow)
        slider(page, "k").fill("9")
        notice = page.locator(".computing")
        expect(notice).to_contain_text("computing…")
        expect(page.locator(".answers")).to_have_attribute("aria-busy", "true")
        row = row_of(page, "k")
        expect(row.locator(".verdict")).to_have_text("computing…")
        expect(row.locator(".because")).to_have_count(0)
        expect(row.locator(".tick")).to_have_count(0)
        expect(page.get_by_role("status")).to_have_text("computing")
        for _ in range(2):
            page.evaluate("window.go()")
            page.wait_for_timeout(100)
        expect(notice).to_be_empty()
        summary(page, "conditional k into 9")


@pytest.mark.parametrize(
    "annotation", ["x y z -> y z x", "(q h e) k+, n k+ -> n (q h e)", "k+ n, m k+ -> m n"]
)
def test_filled_in_shapes_go_with_their_tensors(page: Page, annotation: str) -> None:
    """The first thing that a newcomer does is to replace the annotation."""
    assert shapes(page) == ["m, k", "k, n"]
    annotate(page, annotation)
    expect(page.locator(".tensors")).to_contain_text(
        f"input 0{annotation.split(',')[0].split(' ->')[0]}"
    )
    expect(page.locator(".problem")).to_be_empty()
    assert not any(shapes(page))
    assert "i=" not in page.url
    annotate(page, MATMUL)
    expect(page.get_by_label("input 0")).to_have_value("m, k")
    expect(page.get_by_label("input 1")).to_have_value("k, n")
    summary(page, "k into 8: exactly if k % 8 == 0")


def test_other_marks_and_outputs_leave_the_shapes(page: Page) -> None:
    annotate(page, "m k^, k^ n -> n m")
    expect(page.locator(".tensors tbody tr").last).to_contain_text("n, m")
    assert shapes(page) == ["m, k", "k, n"]


def test_arguments_and_facts_of_an_example_go_too(page: Page) -> None:
    page.get_by_role("button", name="fused QKV").click()
    expect(page.get_by_label("Arguments")).to_have_value("q=3, e=128")
    annotate(page, "a b -> b a")
    expect(page.locator(".tensors tbody tr").last).to_contain_text("b, a")
    expect(page.get_by_label("Arguments")).to_have_value("")
    expect(page.get_by_label("Facts")).to_have_value("")


def test_what_was_typed_stays_and_its_problem_is_said(page: Page) -> None:
    page.get_by_label("input 0").fill("8, k")
    summary(page, "conditional")
    annotate(page, "x y z, p q -> y z x")
    problem = page.locator(".annotation .field-problem")
    expect(problem).to_contain_text("input 0 has the wrong rank")
    expect(problem).to_contain_text("'x y z' has 3 dimensions, input 0 has 2: (8, k)")
    expect(problem).to_contain_text("give 3 dimensions, or leave it empty")
    assert shapes(page) == ["8, k", ""]


def test_shapes_of_somebodys_link_stay(browser: Browser, service: Service) -> None:
    state = fragment(a="a b -> b a", i="4, 6")
    with opened(browser, f"{service.url}/{state}") as page:
        expect(page.locator(".tensors")).to_contain_text("6, 4")
        annotate(page, "a c -> c a")
        expect(page.locator(".tensors")).to_contain_text("a c")
        assert shapes(page) == ["4, 6"]


def test_one_may_start_with_nothing(page: Page) -> None:
    page.get_by_role("button", name="Clear").click()
    expect(page.get_by_label("Annotation", exact=True)).to_be_focused()
    expect(page.locator(".problem")).to_have_text("Write an annotation, such as m k+, k+ n -> m n.")
    expect(page.locator(".answers")).to_be_hidden()
    assert all(field.input_value() == "" for field in page.locator("textarea").all())
    page.keyboard.insert_text("a b -> b a")  # at once: a pause between keys begins a new edit
    expect(page.locator(".tensors tbody tr").last).to_contain_text("b, a")
    expect(page.locator(".split")).to_have_count(2)
    page.go_back()
    expect(page.locator(".answers")).to_be_hidden()
    page.go_back()
    summary(page, "k into 8")
