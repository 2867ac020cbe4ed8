"""The playground in a real browser: what is typed is answered, marked, remembered and spoken."""

from __future__ import annotations

import pytest
from playwright.sync_api import Browser, Page, expect

import dimsolve as ds
from tests.face.browser import MATMUL, annotate, cells_of, fragment, marked, opened, slider, summary
from tests.face.running import Service

ASTRAL = "\N{MATHEMATICAL ITALIC SMALL X}"
"""One character for Python, two for JavaScript."""


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


def test_an_answer_does_not_take_the_focus_from_who_types(page: Page) -> None:
    """The first input's field stays in its place when the second one goes."""
    expect(page.locator(".tensors")).to_contain_text("m, n")
    field = page.get_by_label("input 0")
    page.evaluate("""() => {
      const ask = window.fetch;
      const let_go = new Promise(done => { window.let_go = done; });
      window.fetch = (...asked) => let_go.then(() => ask(...asked));
    }""")
    annotate(page, "(h t) k -> h t k")
    field.select_text()
    page.evaluate("window.let_go()")
    expect(page.get_by_label("input 1")).to_have_count(0)
    page.keyboard.insert_text("8*s, k")
    expect(field).to_have_value("8*s, k")


def test_an_older_answer_never_overwrites_a_newer_one(browser: Browser, service: Service) -> None:
    """The first answer comes last, and nobody was able to call it off."""
    slow = """() => {
      const ask = window.fetch;
      const held = new Promise(done => { window.let_go = done; });
      window.asked = new Promise(asked => {
        window.told = new Promise(told => {
          window.fetch = async (address, options) => {
            if (!options.body.includes('slow')) return ask(address, options);
            asked();
            const answer = await ask(address, { ...options, signal: undefined });
            await held;
            setTimeout(told, 100);
            return answer;
          };
        });
      });
    }"""
    with opened(browser, service.url) as page:
        page.evaluate(slow)
        annotate(page, "slow n -> n slow")
        page.evaluate("window.asked")
        annotate(page, "fast n -> n fast")
        expect(page.locator(".tensors")).to_contain_text("n fast")
        page.evaluate("window.let_go()")
        page.evaluate("window.told")
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


def test_unequal_counts_have_ticks_of_their_own(page: Page) -> None:
    shapes = ["7, 12", "12, n"]
    counts = ds.legal_parts(MATMUL, shapes, "k", up_to=16, uneven=True)
    page.get_by_label("input 0").fill(shapes[0])
    page.get_by_label("input 1").fill(shapes[1])
    row = page.locator(".split", has=slider(page, "k"))
    expect(row.locator(".tick.always")).to_have_count(len(counts.always))
    expect(row.locator(".tick.uneven")).to_have_count(0)
    page.get_by_label("unequal parts too").check()
    expect(row.locator(".tick.uneven")).to_have_count(len(counts.uneven))
    slider(page, "k").fill("5")
    summary(page, "legal")
    assert "uneven=1" in page.url


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
    asked = page.get_by_label("Annotation", exact=True)
    for name in page.locator(".example").all_inner_texts():
        before = asked.input_value()
        page.get_by_role("button", name=name, exact=True).click()
        if name != "matmul":  # the one that is there at first
            expect(asked).not_to_have_value(before)  # an answer of the example before is none
        expect(page.locator(".answers:not(.old) .summary")).to_have_class(
            "summary conditional"
            if name in ("matmul", "hidden reshape", "layer norm", "convolution")
            else "summary legal"
        )
        expect(page.locator(".problem")).to_be_empty()
