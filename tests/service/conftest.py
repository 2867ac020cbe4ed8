"""One service for the tests of a module that do not stop or break it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from .running import Service, serving


@pytest.fixture(scope="session")
def service() -> Iterator[Service]:
    with serving() as running:
        yield running
