"""Law: the playground is usable without a mouse, without colours and by ear.

The keyboard is enough, everything has a name, and all text has contrast.
"""

from __future__ import annotations

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.face.browser import fragment, opened, summary
from tests.face.running import Service


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
@pytest.mark.parametrize("path", ["", "docs", "models", "operators"])
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
