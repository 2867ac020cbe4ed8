"""One service for all tests that do not stop or break it, and a browser that looks at it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Page, expect

from .browser import browsing, opened
from .running import Service, serving


@pytest.fixture(scope="session")
def service() -> Iterator[Service]:
    with serving() as running:
        yield running


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


@pytest.fixture
def notebook(browser: Browser) -> Iterator[Page]:
    """A page to show a widget in: nothing is fetched, and no error is logged."""
    context = browser.new_context(viewport={"width": 900, "height": 900})
    page = context.new_page()
    errors: list[str] = []
    requests: list[str] = []
    page.on("pageerror", lambda error: errors.append(str(error)))
    page.on("request", lambda request: requests.append(request.url))
    yield page
    context.close()
    assert errors == []
    assert [url for url in requests if url.startswith("http")] == []
