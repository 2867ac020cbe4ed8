"""The pages beside the playground, and what a telephone shows of it."""

from __future__ import annotations

import json
from urllib.parse import quote

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.face.browser import annotate, cells_of, fragment, opened, slider, summary
from tests.face.running import Service

from .test_configs import LLAMA

CONFIG = f"#c={quote(json.dumps(LLAMA, separators=(',', ':')))}"


def test_a_pasted_config_is_answered_and_its_link_holds_it(
    browser: Browser, service: Service
) -> None:
    with opened(browser, f"{service.url}/models{CONFIG}&dp=2&tp=2") as page:
        expect(page.locator(".summary")).to_contain_text("LlamaForCausalLM")
        counts = page.get_by_role("region", name="Legal counts")
        expect(counts).to_contain_text("always1-2")
        expect(counts).to_contain_text("4in unequal parts: the fullest rank has 1.")
        expect(counts).to_contain_text("of an equal share, tp seen as 2 x 2")
        memory = page.get_by_role("region", name="Memory of a rank")
        expect(memory.locator("tbody tr")).to_have_count(5)
        sent = page.get_by_role("region", name="Collectives")
        expect(sent).to_contain_text("all-reduce")
        page.get_by_label("dp").fill("3")
        expect(page.locator(".problem")).to_contain_text("it needs batch % 3 == 0")
        expect(memory).to_have_count(0)
        address = page.url
        assert "dp=3" in address
        page.goto("about:blank")
        page.goto(address)
        expect(page.locator(".problem")).to_contain_text("it needs batch % 3 == 0")
        config = page.get_by_label("config.json")
        assert json.loads(config.input_value()) == LLAMA
        config.fill('{"model_type": "lama"}')
        expect(page.locator(".problem")).to_contain_text("did you mean 'llama'?")
        config.fill("{")
        expect(page.locator(".problem")).to_contain_text("this is no JSON")


def test_operators_are_searched_and_asked_about(browser: Browser, service: Service) -> None:
    with opened(browser, f"{service.url}/operators") as page:
        expect(page.locator(".operator").first).to_be_visible()
        page.get_by_label("Search").fill("functional conv2d")
        panel = page.get_by_role("region", name="torch.nn.functional.conv2d", exact=True)
        expect(panel).to_contain_text("split with partial sums: b")
        expect(page.get_by_role("status")).to_contain_text("of 1")
        assert page.url.endswith("#q=functional+conv2d")
        panel.get_by_role("link", name="ask about a call").click()
        expect(page.locator(".called")).to_contain_text("a b+ d^ f^, c b+ 3 3, c -> a c e^ g^")


@pytest.mark.parametrize("path", ["", "models", "operators"])
def test_a_telephone_shows_all_of_a_page(browser: Browser, service: Service, path: str) -> None:
    """At 400 points nothing is to the right of the screen, also not in a box of its own."""
    with opened(browser, f"{service.url}/{path}{CONFIG if path == 'models' else ''}") as page:
        page.set_viewport_size({"width": 400, "height": 900})
        shown = {"": "td.local", "models": ".summary", "operators": ".operator"}[path]
        expect(page.locator(shown).first).to_be_visible()
        away = page.evaluate("""
          [...document.querySelectorAll('main *')]
            .filter(e => !e.closest('.hidden') && e.getClientRects().length)
            .filter(e => e.getBoundingClientRect().right > innerWidth + 1)
            .map(e => e.outerHTML.slice(0, 120))""")
        assert away == []
        heads = page.eval_on_selector_all(
            "td.local", "c => c.map(e => getComputedStyle(e, '::before').content)"
        )
        assert set(heads) <= {'"on one rank"'}


def test_a_function_is_asked_about_with_its_arguments(page: Page) -> None:
    annotate(page, "torch.nn.functional.conv2d")
    expect(page.locator(".called")).to_contain_text("a b+ d^ f^")
    page.get_by_label("input 0 input").fill("n, 64, 56, 56")
    page.get_by_label("input 1 weight").fill("128, 64, 3, 3")
    page.get_by_label("Arguments").fill("stride=2, padding=(1, 1)")
    expect(page.locator(".tensors")).to_contain_text("n, 128, 28, 28")
    slider(page, "b").fill("4")
    summary(page, "legal")
    assert [row[-1] for row in cells_of(page, ".tensors")] == [
        "n, 16, 56, 56",
        "128, 16, 3, 3",
        "n, 128, 28, 28",
    ]
    page.get_by_label("Arguments").fill("strides=2")
    problem = page.locator(".field-problem:not(:empty)")
    expect(problem).to_contain_text("did you mean 'stride'?")
    expect(page.locator(".field .wrong")).to_have_text(["strides"])


def test_an_argument_of_no_identifier_is_refused_where_it_stands(page: Page) -> None:
    annotate(page, "(h t) k -> h t k")
    page.get_by_label("Arguments").fill("H=8")
    problem = page.locator(".field-problem:not(:empty)")
    expect(problem).to_contain_text("did you mean 'h'?")
    expect(page.locator(".field .wrong")).to_have_text(["H"])


def test_summands_and_reductions_are_asked_about(browser: Browser, service: Service) -> None:
    """A bias is a summand where the sum is split; it is the address's question too."""
    state = fragment(a="m k+, n k+, n -> m n", i=["m, 8", "n, 8", "n"], split="k:2")
    bias = ".tensors tbody tr:nth-child(3)"
    with opened(browser, f"{service.url}/{state}") as page:
        expect(page.locator(bias)).to_contain_text("R")
        page.get_by_label("summand 2").check()
        expect(page.locator(bias)).to_contain_text("P(sum)")
        assert "summand=2" in page.url
        page.reload()
        expect(page.locator(bias)).to_contain_text("P(sum)")
        expect(page.get_by_label("summand 2")).to_be_checked()
        page.goto("about:blank")
        page.goto(f"{service.url}/{fragment(a='m k+ -> m', i='m, 8', split='k:2')}")
        page.get_by_label("the parts of a + split are joined by").select_option("max")
        expect(page.locator(".tensors tbody tr").last).to_contain_text("P(max)")
        assert "partial=max" in page.url
