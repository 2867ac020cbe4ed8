"""Law: the playground says things once, in its own words, and takes every identifier for a name."""

from __future__ import annotations

import pytest
from playwright.sync_api import Browser, Page, expect

import dimsolve as ds
from tests.face.browser import annotate, cells_of, fragment, opened, slider, summary
from tests.face.running import Service

INHERITED = ["toString", "valueOf", "constructor", "hasOwnProperty", "__proto__"]
"""What every JavaScript object has, and every plain object is."""


@pytest.mark.parametrize("name", INHERITED)
def test_a_name_is_only_a_name(browser: Browser, service: Service, name: str) -> None:
    """In lengths, splits, arguments, marks, pieces, ranks and the address."""
    state = fragment(a=f"({name} t) b -> {name} t b", split=[f"{name}:2", "t:3"], arg=f"{name}=4")
    with opened(browser, f"{service.url}/{state}") as page:
        summary(page, f"conditional {name} into 2, t into 3, on one mesh: exactly if t % 3 == 0")
        expect(slider(page, name)).to_have_value("2")
        row = cells_of(page, ".tensors")[1]
        assert row[:3] == ["output 0", f"{name} t b", "4, t, b"]
        assert row[-1] == "2, t//3, b"
        page.get_by_role("radio", name=f"rank 4: {name} 2 of 2, t 2 of 3").focus()
        page.keyboard.press("Space")
        held = page.locator(".grid").last
        expect(held).to_contain_text(f"part 2 of 2 of {name}; part 2 of 3 of t")
        expect(held.locator(".piece.here")).not_to_have_count(0)
        slider(page, name).fill("4")
        summary(page, f"conditional {name} into 4")
        page.reload()
        summary(page, f"conditional {name} into 4")
        slider(page, name).fill("1")
        summary(page, "conditional t into 3")


def test_the_names_of_a_star_are_only_names(page: Page) -> None:
    annotate(page, "* toString -> * toString")
    page.get_by_label("input 0").fill("valueOf, constructor, 8")
    expect(page.locator(".tensors tbody tr").last).to_contain_text("valueOf, constructor, 8")
    expect(page.locator(".problem")).to_be_empty()


@pytest.mark.parametrize(
    ("shape", "hint"),
    [
        ("m", "give 2 dimensions, or leave it empty"),
        (
            "m, ?",
            "leave the whole shape empty, or write a name for a dimension that is not known",
        ),
        ("m, 0-3", "a size is 0 or more; give an unknown dimension a name"),
    ],
)
def test_hints_speak_of_fields_and_not_of_python(page: Page, shape: str, hint: str) -> None:
    page.get_by_label("input 0").fill(shape)
    problem = page.locator(".field-problem:not(:empty), .problem:not(:empty)").first
    expect(problem).to_contain_text(hint)
    expect(page.get_by_role("status")).to_contain_text(hint)
    with pytest.raises(ds.DimsolveError) as caught:
        ds.infer("m k+, k+ n -> m n", [shape, "k, n"])
    assert "None" in caught.value.diagnostic.hint  # in Python it is the word
    assert "None" not in page.locator("main").inner_text()


@pytest.mark.parametrize(
    ("annotation", "words"),
    [
        ("a ->", "There are no outputs."),
        ("a b -> b a", "The output is (b, a)."),
        ("a b -> b, a", "The outputs are (b), (a)."),
    ],
)
def test_the_outputs_are_counted(page: Page, annotation: str, words: str) -> None:
    annotate(page, annotation)
    expect(page.locator(".summary")).to_have_text(words)


def test_a_whole_is_one_part(page: Page) -> None:
    expect(slider(page, "m")).to_have_attribute("aria-valuetext", "1 part: whole")
    expect(slider(page, "k")).to_have_attribute("aria-valuetext", "8 parts: conditional")


def test_the_reason_of_an_illegal_split_is_shown_once_and_spoken(page: Page) -> None:
    page.get_by_label("input 0").fill("m, 6")
    page.get_by_label("input 1").fill("6, n")
    reason = ds.check("m k+, k+ n -> m n", ["m, 6", "6, n"], "k", 8).reason
    expect(page.locator(".summary")).to_have_text("✗ illegal k into 8")
    expect(page.locator(".because")).to_have_count(1)  # between the two inputs three are asked for
    expect(page.locator(".because")).to_have_text(reason)
    assert page.locator("main .answered").inner_text().count(reason) == 1
    expect(page.get_by_role("status")).to_have_text(f"✗ illegal k into 8. {reason}")
    slider(page, "m").fill("2")
    expect(page.locator(".summary")).to_have_text(
        "✗ illegal m into 2, k into 8, on one mesh: because of k"
    )


def test_contiguous_is_called_by_its_name(page: Page) -> None:
    expect(page.get_by_label("contiguous parts only")).to_have_count(1)


@pytest.mark.parametrize("width", [360, 864, 912, 920, 927, 928, 949, 1000, 1400])
def test_nothing_is_wider_than_what_it_stands_in(page: Page, width: int) -> None:
    """The page does not scroll sideways, and the verdict lies inside its panel."""
    try:
        page.set_viewport_size({"width": width, "height": 900})
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        outside = page.evaluate("""
          [...document.querySelectorAll('.panel')].flatMap(panel => {
            const right = panel.getBoundingClientRect().right;
            return [...panel.querySelectorAll('.split *')]
              .filter(e => e.getBoundingClientRect().right > right).map(e => e.outerHTML);
          })""")
        assert outside == []
    finally:
        page.set_viewport_size({"width": 1280, "height": 900})


def test_every_table_head_has_words_and_every_scroller_a_key(page: Page, service: Service) -> None:
    slider(page, "m").fill("2")
    summary(page, "on one mesh")
    heads = page.eval_on_selector_all("th", "found => found.map(e => e.textContent.trim())")
    assert heads and all(heads)
    for path in ("", "docs"):
        page.set_viewport_size({"width": 360, "height": 900})
        page.goto(f"{service.url}/{path}")
        expect(page.locator("main")).not_to_be_empty()
        unreachable = """
          [...document.querySelectorAll('*')].filter(e => e.scrollWidth > e.clientWidth + 1
              && ['auto', 'scroll'].includes(getComputedStyle(e).overflowX)
              && e.tabIndex < 0 && !e.querySelector('a, button, input, [tabindex="0"]'))
            .map(e => e.outerHTML.slice(0, 80))"""
        page.wait_for_function(f"() => ({unreachable}).length === 0")  # a key comes after a resize
        page.set_viewport_size({"width": 1280, "height": 900})
