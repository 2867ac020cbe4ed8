"""A real Chromium for the tests of pages, and what a page shows.

Debian's package ``chromium`` is driven by Playwright, which downloads none of its own. Where it is
missing the tests fail: CONTRIBUTING.md says how to get it.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import urlencode

import pytest
from playwright.sync_api import Browser, Locator, Page, expect, sync_playwright

OPTIONS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--font-render-hinting=none",
)
MATMUL = "m k+, k+ n -> m n"
"""The annotation that the playground shows first."""
PATIENCE = 300_000
"""Milliseconds after which what a page was to show is taken never to come; machines are loaded."""
MISSING = "there is no Chromium: apt-get install chromium; CONTRIBUTING.md has more"

expect.set_options(timeout=PATIENCE)


@contextmanager
def browsing() -> Iterator[Browser]:
    """Starts Chromium."""
    program = next(filter(None, map(shutil.which, ("chromium", "chromium-browser"))), None)
    if program is None:
        pytest.fail(MISSING)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=list(OPTIONS))
        try:
            yield browser
        finally:
            browser.close()


@contextmanager
def opened(browser: Browser, address: str, **options: Any) -> Iterator[Page]:
    """Opens a page of its own. An error that it logs, or a request elsewhere, fails the test."""
    context = browser.new_context(viewport={"width": 1280, "height": 900}, **options)
    context.set_default_timeout(PATIENCE)
    page = context.new_page()
    errors: list[str] = []
    hosts: set[str] = set()
    page.on("pageerror", lambda error: errors.append(str(error)))
    page.on("console", lambda text: errors.append(text.text) if text.type == "error" else None)
    page.on("request", lambda request: hosts.add("/".join(request.url.split("/")[:3])))
    try:
        page.goto(address)
        yield page
    finally:
        context.close()
    expected = "Failed to load resource"  # the tests of refusals cause it
    assert [error for error in errors if expected not in error] == []
    assert {host for host in hosts if host.startswith("http")} <= {"/".join(address.split("/")[:3])}


def cells_of(page: Page, table: str) -> list[list[str]]:
    """The body of a table, a list of cells per row: ``.tensors`` or ``.equations``."""
    rows: list[list[str]] = page.eval_on_selector_all(
        f"{table} tbody tr",
        "rows => rows.map(row => [...row.children].map(cell => cell.textContent))",
    )
    return rows


def marked(page: Page, kind: str) -> list[str]:
    """What is marked in the annotation."""
    found: list[str] = page.eval_on_selector_all(
        f".annotation .{kind}", "spans => spans.map(span => span.textContent)"
    )
    return found


def fragment(**state: Any) -> str:
    """The fragment of an address, as people write it: lists repeat."""
    return "#" + urlencode(state, doseq=True)


def annotate(page: Page, text: str) -> None:
    """Types an annotation into the playground."""
    page.get_by_label("Annotation", exact=True).fill(text)


def summary(page: Page, text: str) -> None:
    """Waits until the playground's answer says this."""
    expect(page.locator(".summary")).to_contain_text(text)


def slider(page: Page, name: str) -> Locator:
    """The slider that cuts an identifier."""
    return page.get_by_role("slider", name=f"parts of {name}", exact=True)
