"""The playground in a real browser: what is typed is answered, marked, remembered and spoken."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Error, Locator, Page, Route, expect

import dimsolve as ds

from .browser import browsing, cells_of, fragment, marked, opened
from .running import Service

MATMUL = "m k+, k+ n -> m n"
ASTRAL = "\N{MATHEMATICAL ITALIC SMALL X}"
"""One character for Python, two for JavaScript."""


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with browsing() as running:
        yield running


@pytest.fixture(scope="module")
def tab(browser: Browser, service: Service) -> Iterator[Page]:
    with opened(browser, service.url) as page:
        yield page


@pytest.fixture
def page(tab: Page, service: Service) -> Page:
    """The playground as a visitor meets it first; the tab is the same for all, it keeps nothing."""
    tab.unroute_all()
    tab.goto("about:blank")
    tab.goto(service.url)
    expect(tab.locator(".summary")).to_contain_text("conditional")
    return tab


def annotate(page: Page, text: str) -> None:
    page.get_by_label("Annotation", exact=True).fill(text)


def summary(page: Page, text: str) -> None:
    expect(page.locator(".summary")).to_contain_text(text)


def slider(page: Page, name: str) -> Locator:
    return page.get_by_role("slider", name=f"parts of {name}", exact=True)


def test_the_first_page_is_an_answered_question(page: Page) -> None:
    legality = ds.check(MATMUL, ["m, k", "k, n"], "k", 8)
    assert cells_of(page, ".tensors") == [
        ["input 0", "m k+", "m, k", "S(1)", "m, k//8"],
        ["input 1", "k+ n", "k, n", "S(0)", "k//8, n"],
        ["output 0", "m n", "m, n", "P(sum)", "m, n"],
    ]
    expect(page.locator(".because")).to_have_text(legality.reason)
    summary(page, "k into 8: exactly if k % 8 == 0")


def test_answers_follow_typing(page: Page) -> None:
    annotate(page, "(h t) k -> h t k")
    page.get_by_label("input 0").fill("8*s, k")
    page.get_by_label("Arguments").fill("h=8")
    expect(page.locator(".tensors tbody tr").last).to_contain_text("8, s, k")
    steps = ds.infer("(h t) k -> h t k", ["8*s, k"], arguments={"h": 8}).trace()
    assert cells_of(page, ".equations") == [[step.conclusion, step.reason] for step in steps]
    page.get_by_label("Facts").fill("s % 3 == 0")
    slider(page, "t").fill("3")
    slider(page, "k").press("Home")
    summary(page, "legal")
    expect(page.locator(".tensors tbody tr").last).to_contain_text("8, s//3, k")


def test_an_older_answer_never_overwrites_a_newer_one(browser: Browser, service: Service) -> None:
    """The first answer comes last, and nobody was able to call it off."""
    slow = """() => {
      const ask = window.fetch;
      window.held = 0;
      window.fetch = async (address, options) => {
        const isSlow = options.body.includes('slow');
        const answer = await ask(address, { ...options, signal: undefined });
        if (isSlow) await new Promise(done => setTimeout(done, 700));
        if (isSlow) window.held += 1;
        return answer;
      };
    }"""
    with opened(browser, service.url) as page:
        page.evaluate(slow)
        annotate(page, "slow n -> n slow")
        page.wait_for_timeout(250)  # its question has left
        annotate(page, "fast n -> n fast")
        expect(page.locator(".tensors")).to_contain_text("n fast")
        page.wait_for_timeout(900)
        assert page.evaluate("window.held") > 0
        assert "slow" not in page.locator(".answers").inner_text()


@pytest.mark.parametrize(
    "text",
    ["m k+, k n -> m n", f"{ASTRAL} k+, k n -> n", "m k+, (k+ n -> m n", "m k, k n", "m $ -> m"],
)
def test_a_syntax_error_is_marked_in_place_with_its_reason(page: Page, text: str) -> None:
    with pytest.raises(ds.AnnotationError) as caught:
        ds.parse(text)
    diagnostic = caught.value.diagnostic
    annotate(page, text)
    problem = page.locator(".annotation .field-problem")
    expect(problem).to_contain_text(diagnostic.title)
    expect(problem).to_contain_text(diagnostic.reason)
    expect(problem).to_contain_text(diagnostic.hint)
    wanted = [text[span.start : span.stop] for span in diagnostic.spans]
    assert "".join(marked(page, "wrong")).strip("\xa0") == "".join(wanted)
    field = page.get_by_label("Annotation", exact=True)
    expect(field).to_have_attribute("aria-invalid", "true")
    expect(page.get_by_role("status")).to_contain_text(diagnostic.title)
    annotate(page, MATMUL)
    expect(problem).to_be_empty()
    expect(field).not_to_have_attribute("aria-invalid", "true")


@pytest.mark.parametrize(
    ("label", "text", "wrong"),
    [
        ("input 1", "k, n)", ")"),
        ("Arguments", "k=64, m=2 s", "s"),
        ("Arguments", "k=64, m", "m"),
        ("Facts", "k % 8 == 0, m = 2", "="),
    ],
)
def test_an_error_is_marked_in_the_field_that_has_it(
    page: Page, label: str, text: str, wrong: str
) -> None:
    page.get_by_label(label).fill(text)
    expect(page.locator(".field-problem:not(:empty)")).to_have_count(1)
    field = page.locator(".field").filter(has=page.get_by_label(label))
    expect(field.locator(".wrong")).to_have_text([wrong])


def test_a_contradiction_is_marked_in_the_annotation(page: Page) -> None:
    annotate(page, "(h t) k -> h t k")
    page.get_by_label("input 0").fill("7, k")
    page.get_by_label("Arguments").fill("h=2")
    expect(page.locator(".annotation .field-problem")).to_contain_text("7 is not a multiple of 2")
    assert marked(page, "wrong") == ["t"]


def test_moving_a_slider_from_legal_to_illegal_says_why(page: Page) -> None:
    page.get_by_role("button", name="attention").click()
    heads = slider(page, "h")
    expect(heads).to_have_value("8")
    summary(page, "legal")
    assert page.locator(".piece.here").count() > 0
    heads.press("ArrowRight")
    reason = ds.check("b h -> b h", ["b, 32"], "h", 9).reason
    expect(page.locator(".split", has=heads).locator(".because")).to_have_text(reason)
    summary(page, "illegal")
    assert set(marked(page, "bad")) == {"h"}
    expect(page.locator(".piece")).to_have_count(0)
    expect(page.get_by_role("status")).to_contain_text("illegal")
    heads.press("PageDown")
    expect(heads).to_have_value("8")
    summary(page, "legal")


def test_ticks_are_the_legal_counts(page: Page) -> None:
    counts = ds.legal_parts(MATMUL, ["m, 12", "12, n"], "k", up_to=16)
    page.get_by_label("input 0").fill("m, 12")
    page.get_by_label("input 1").fill("12, n")
    always = page.locator(".split", has=slider(page, "k")).locator(".tick.always")
    expect(always).to_have_count(len(counts.always))
    conditional = page.locator(".split", has=slider(page, "m")).locator(".tick.conditional")
    expect(conditional).to_have_count(15)


def test_splits_whose_conditions_exclude_each_other_are_illegal_together(page: Page) -> None:
    page.goto(page.url.split("#")[0] + fragment(a="a b -> a b", i="s, s + 1", split=["a:2", "b:2"]))
    page.reload()
    summary(page, "illegal")
    summary(page, "no sizes satisfy all of them")


def test_a_dimension_cut_by_two_axes(page: Page) -> None:
    state = fragment(a="(h t) k -> h t k", i="8*s, k", arg="h=8", split=["h:4", "t:2"])
    page.goto(page.url.split("#")[0] + state)
    page.reload()
    expect(page.locator(".tensors tbody tr").last).to_contain_text("2, s//2, k")
    ((first, *_, local), _) = cells_of(page, ".tensors")
    assert first == "input 0"
    assert local == "s, k"  # 8*s over 4*2, where s is even


def test_conditions_become_facts(page: Page) -> None:
    page.get_by_role("button", name="assume it").click()
    expect(page.get_by_label("Facts")).to_have_value("k % 8 == 0")
    summary(page, "legal")


def test_a_reload_restores_everything(page: Page) -> None:
    annotate(page, "n k+, (q h e) k+ -> n (q h e)")
    page.get_by_label("input 0").fill("tokens, 4096")
    page.get_by_label("input 1").fill("3*heads*128, 4096")
    page.get_by_label("Arguments").fill("q=3, e=128")
    page.get_by_label("Facts").fill("heads % 8 == 0\ntokens >= 2")
    slider(page, "h").fill("4")
    slider(page, "k").fill("1")
    summary(page, "legal h into 4: for all sizes")
    page.get_by_role("radio", name="rank 2:").focus()
    page.keyboard.press("Space")
    page.get_by_label("counts up to").select_option("32")
    expect(page.locator(".tick.conditional")).to_have_count(59)
    before = page.locator("#playground").inner_text()
    fields = [field.input_value() for field in page.locator("textarea").all()]
    page.reload()
    summary(page, "legal h into 4: for all sizes")
    expect(page.get_by_role("radio", name="rank 2:")).to_be_checked()
    assert [field.input_value() for field in page.locator("textarea").all()] == fields
    assert page.locator("#playground").inner_text() == before


def test_back_goes_back(page: Page) -> None:
    page.get_by_role("button", name="layer norm").click()
    summary(page, "a into 2")
    page.get_by_role("button", name="fused QKV").click()
    summary(page, "h into 4")
    page.go_back()
    summary(page, "a into 2")
    expect(page.get_by_label("Annotation", exact=True)).to_have_value("* d^, d^, d^ -> * d^")
    page.go_back()
    summary(page, "k into 8")
    page.go_forward()
    summary(page, "a into 2")


def test_every_example_is_answered(page: Page) -> None:
    for name in page.locator(".example").all_inner_texts():
        page.get_by_role("button", name=name, exact=True).click()
        expect(page.locator(".answers:not(.old) .summary")).to_have_class(
            "summary conditional"
            if name in ("matmul", "hidden reshape", "layer norm", "convolution")
            else "summary legal"
        )
        expect(page.locator(".problem")).to_be_empty()


def test_the_keyboard_is_enough(browser: Browser, service: Service) -> None:
    """From the top with Tab: every control is reached in order, seen, and used."""
    with opened(browser, service.url) as page:
        summary(page, "conditional")
        reached = []
        focus = "document.activeElement"
        for _ in range(60):
            page.keyboard.press("Tab")
            if page.evaluate(f"{focus} === document.body"):
                break
            name = page.evaluate(
                f"{focus}.getAttribute('aria-label') || {focus}.labels?.[0]?.textContent"
                f" || {focus}.textContent"
            )
            reached.append(name)
            ring = page.evaluate(
                "(() => { const seen = e => e && getComputedStyle(e).outlineStyle !== 'none';"
                f" const e = {focus}; return seen(e) || seen(e.nextElementSibling)"
                " || seen(e.closest('.field-box')); })()"
            )
            assert ring, f"no focus ring on {name}"
            if name == "Annotation":
                page.keyboard.press("Control+a")
                page.keyboard.type("m k+, k+ n -> n m")
                expect(page.locator(".tensors tbody tr").last).to_contain_text("n, m")
            if name == "parts of k":
                page.keyboard.press("ArrowLeft")
                summary(page, "k into 7")
            if name.startswith("rank 0"):
                page.keyboard.press("ArrowRight")
                expect(page.get_by_role("radio", name="rank 1:")).to_be_checked()
        order = ["Annotation", "input 0 m k+", "Arguments", "Facts", "matmul", "counts up to"]
        found = [next(i for i, name in enumerate(reached) if name.startswith(o)) for o in order]
        assert found == sorted(found)
        controls = page.locator("main").locator("input:not([type=radio]), textarea, select, button")
        wanted = len(controls.all()) + 2  # and one of each group of radio buttons
        assert len(reached) >= wanted


def test_everything_has_a_name_and_ids_are_unique(page: Page) -> None:
    unnamed = page.evaluate("""
      [...document.querySelectorAll('input, textarea, select, button, a, [role=img], fieldset')]
        .filter(e => !(e.getAttribute('aria-label') || e.labels?.length || e.textContent.trim()))
        .map(e => e.outerHTML)""")
    assert unnamed == []
    ids = page.eval_on_selector_all("[id]", "found => found.map(e => e.id)")
    assert len(ids) == len(set(ids))
    for attribute in ("aria-describedby", "for"):
        pointed = page.eval_on_selector_all(
            f"[{attribute}]", f"found => found.map(e => e.getAttribute('{attribute}'))"
        )
        assert set(pointed) <= set(ids)


CONTRAST = """
() => {
  const parse = color => color.match(/[\\d.]+/g).map(Number);
  const light = ([r, g, b]) => [r, g, b].map(c => c / 255)
    .map(c => c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4)
    .reduce((sum, c, i) => sum + c * [0.2126, 0.7152, 0.0722][i], 0);
  const behind = e => {
    for (; e; e = e.parentElement) {
      const color = parse(getComputedStyle(e).backgroundColor);
      if (color.length < 4 || color[3] > 0) return color;
    }
    return [255, 255, 255];
  };
  const bad = [];
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    const e = walker.currentNode.parentElement;
    if (!walker.currentNode.data.trim() || e.closest('script, .hidden, noscript, option')) continue;
    const text = light(parse(getComputedStyle(e).color));
    const [a, b] = [text, light(behind(e))].sort((x, y) => y - x);
    const ratio = (a + 0.05) / (b + 0.05);
    if (ratio < 4.5) bad.push(`${walker.currentNode.data} ${ratio.toFixed(2)}`);
  }
  return bad;
}
"""


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("path", ["", "docs"])
def test_all_text_has_contrast(browser: Browser, service: Service, scheme: str, path: str) -> None:
    """WCAG AA: at least 4.5 to 1, also for every colour of an identifier."""
    ids = "a b c d e f g h"
    state = fragment(a=f"{ids} -> {ids}", split=["a:2", "b:3", "c:0"])
    with opened(
        browser, f"{service.url}/{path}{'' if path else state}", color_scheme=scheme
    ) as page:
        if not path:
            summary(page, "illegal")
        assert page.evaluate(CONTRAST) == []


@pytest.mark.parametrize(
    ("status", "headers", "words"),
    [
        (413, {}, "the body is too large"),
        (503, {}, "the service is busy"),
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
    expect(page.locator(".tensors")).to_contain_text("k, m")


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
    expect(page.locator(".tensors")).to_contain_text("k, m")
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


def test_a_service_that_is_away_is_said_and_nothing_is_lost(page: Page) -> None:
    page.route("**/v1/batch", lambda route: route.abort())
    annotate(page, "a b -> b a")
    expect(page.locator(".problem")).to_contain_text("the service does not answer")
    expect(page.get_by_label("Annotation", exact=True)).to_have_value("a b -> b a")
    assert "a+b" in page.url


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
        b"http://localhost:8000", b""
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
