"""Law: what the service refuses, gives up or cannot be asked is said in words.

Nothing that was typed is lost, and no text becomes markup or a script.
"""

from __future__ import annotations

import json

import pytest
from playwright.sync_api import Browser, Error, Page, Route, expect

from tests.face.browser import annotate, slider, summary
from tests.face.running import Service


@pytest.mark.parametrize(
    ("status", "headers", "words"),
    [
        (413, {}, "the body is too large"),
        (504, {}, "the question was given up"),
    ],
)
def test_refusals_are_said_in_words(
    page: Page, status: int, headers: dict[str, str], words: str
) -> None:
    body = json.dumps({"title": words, "detail": "a reason", "status": status, "hint": ""})

    def refuse(route: Route) -> None:
        route.fulfill(
            status=status, headers=headers, content_type="application/problem+json", body=body
        )

    page.route("**/v1/batch", refuse)
    annotate(page, "a b -> b a")
    expect(page.locator(".problem")).to_contain_text(words)
    expect(page.locator(".problem")).to_contain_text("a reason")
    page.unroute("**/v1/batch")
    page.get_by_role("button", name="Ask again").click()
    expect(page.locator(".problem")).to_be_empty()
    expect(page.locator(".tensors")).to_contain_text("b, a")


def test_a_busy_service_is_asked_again_when_it_says(page: Page) -> None:
    times = []

    def refuse_once(route: Route) -> None:
        times.append(1)
        if len(times) > 1:
            route.continue_()
            return
        route.fulfill(status=503, headers={"Retry-After": "1"}, body="{}")

    page.route("**/v1/batch", refuse_once)
    annotate(page, "a b -> b a")
    expect(page.locator(".tensors")).to_contain_text("b, a")
    assert len(times) >= 2


def test_one_question_that_is_given_up_leaves_the_others(page: Page) -> None:
    problem = {"title": "the question was given up", "detail": "it took 10 s", "status": 504}

    def give_up(route: Route) -> None:
        questions = json.loads(route.request.post_data or "")["questions"]
        answers = route.fetch().json()["answers"]
        for index, question in enumerate(questions):
            if question["verb"] == "check" and question["split"] == "k":
                answers[index] = {"status": 504, "problem": {**problem, "hint": "", "spans": []}}
        route.fulfill(json={"answers": answers})

    page.route("**/v1/batch", give_up)
    slider(page, "k").fill("9")
    row = page.locator(".split", has=slider(page, "k"))
    expect(row).to_contain_text("given up")
    expect(row).to_contain_text("it took 10 s")
    slider(page, "m").fill("2")
    expect(page.locator(".split", has=slider(page, "m"))).to_contain_text("conditional")
    summary(page, "unknown")
    page.unroute_all(behavior="wait")


def test_a_service_that_is_away_is_said_and_nothing_is_lost(page: Page) -> None:
    page.route("**/v1/batch", lambda route: route.abort())
    annotate(page, "a b -> b a")
    expect(page.locator(".problem")).to_contain_text("the service does not answer")
    expect(page.get_by_label("Annotation", exact=True)).to_have_value("a b -> b a")
    assert "a+b" in page.url


@pytest.mark.parametrize("status", [None, 503])
def test_a_service_that_comes_back_is_noticed(page: Page, status: int | None) -> None:
    """Nobody has to press anything: it is asked again, at growing intervals."""
    refused = []

    def refuse(route: Route) -> None:
        refused.append(route.request.url)
        if status is None:
            route.abort()
        else:
            route.fulfill(status=status, json={"title": "not now", "detail": "", "hint": ""})

    page.evaluate("""() => {
      const wait = window.setTimeout;
      window.waits = [];
      window.setTimeout = (act, milliseconds, ...rest) => {
        if (milliseconds >= 500) window.waits.push(milliseconds);
        return wait(act, milliseconds, ...rest);
      };
    }""")
    page.route("**/v1/batch", refuse)
    annotate(page, "a b -> b a")
    expect(page.locator(".problem")).not_to_be_empty()
    while len(refused) < 3:
        page.wait_for_timeout(100)
    waits = page.evaluate("window.waits")
    assert waits[:2] == [500, 1000]
    page.unroute("**/v1/batch")
    if status is None:
        page.evaluate("dispatchEvent(new Event('online'))")
    expect(page.locator(".tensors")).to_contain_text("b, a")
    expect(page.locator(".problem")).to_be_empty()


@pytest.mark.parametrize("path", ["/", "/docs", "/static/main.js", "/static/app.css"])
def test_pages_forbid_other_hosts(service: Service, path: str) -> None:
    reply = service.request("GET", path)
    assert reply.status == 200
    if path.endswith(".js"):
        assert reply.headers["content-type"].startswith("text/javascript")
    policy = reply.headers["content-security-policy"]
    assert "default-src 'none'" in policy and "script-src 'self'" in policy
    assert "unsafe" not in policy and "http" not in policy
    assert b"http://" not in reply.body.replace(b"http://www.w3.org/", b"").replace(
        b"http://x", b""
    )


def test_the_policy_is_in_force(browser: Browser, service: Service) -> None:
    """Markup that somebody smuggled into the page is refused, and its script does not run."""
    page = browser.new_page()
    try:
        page.goto(service.url)
        with pytest.raises(Error, match="TrustedHTML"):
            page.evaluate("document.body.innerHTML = '<img src=x onerror=\"window.hacked = 1\">'")
        assert page.evaluate("window.hacked") is None
    finally:
        page.close()


def test_markup_in_a_question_is_text(page: Page) -> None:
    annotate(page, "<b>m</b> -> m")
    expect(page.locator(".annotation .field-problem")).not_to_be_empty()
    assert page.locator("main b b").count() == 0
