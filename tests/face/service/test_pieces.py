"""The grids are true: which pieces there are, and who holds them, against counting elements."""

from __future__ import annotations

import random
from collections.abc import Iterator
from itertools import groupby, product
from math import prod
from typing import Any

import pytest
from playwright.sync_api import Page

from tests.face.browser import browsing, opened
from tests.face.running import Service


@pytest.fixture(scope="module")
def page(service: Service) -> Iterator[Page]:
    with browsing() as browser, opened(browser, service.url) as page:
        yield page


def runs_of_owners(lengths: dict[str, int], parts: dict[str, int]) -> list[dict[str, int]]:
    """Element by element of ``(a b c)``: which part of each split it is in; equal ones joined."""
    owners = [
        {
            name: at[k] * parts[name] // lengths[name]
            for k, name in enumerate(lengths)
            if name in parts
        }
        for at in product(*map(range, lengths.values()))
    ]
    return [owner for owner, _ in groupby(owners)]


def segments(page: Page, *arguments: Any) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = page.evaluate(
        "async given => (await import('/static/pieces.js')).segments(...given)", list(arguments)
    )
    return found


def widths(page: Page, length: int, count: int) -> list[float]:
    lists = [segments(page, ["a"], {"a": count}, {"a": str(length)}), [{"coords": {}}]]
    drawn = page.evaluate(
        "async lists => (await import('/static/pieces.js')).cells(lists, 100, 100)", lists
    )
    return [cell["height"] for cell in drawn["cells"]]


def test_parts_are_drawn_to_scale(page: Page) -> None:
    for length, count in product(range(1, 13), range(2, 8)):
        most = -(-length // count)
        parts = [min(max(length - place * most, 0), most) for place in range(count)]
        drawn = widths(page, length, count)
        total = sum(drawn)
        assert [each * length / total for each in drawn] == pytest.approx(parts), (length, count)


def test_segments_are_the_runs_of_elements(page: Page) -> None:
    random.seed(7)
    for _ in range(60):
        lengths = {name: random.choice([1, 2, 3, 4, 6]) for name in "abc"[: random.randint(1, 3)]}
        parts = {
            name: random.choice([n for n in range(1, length + 1) if length % n == 0])
            for name, length in lengths.items()
            if random.random() < 0.7
        }
        parts = {name: count for name, count in parts.items() if count > 1}
        wanted = runs_of_owners(lengths, parts)
        texts = {name: str(length) for name, length in lengths.items()}
        found = [row["coords"] for row in segments(page, list(lengths), parts, texts)]
        if len(wanted) <= 48:
            assert merged(found) == wanted, (lengths, parts)


def merged(rows: list[dict[str, int]]) -> list[dict[str, int]]:
    return [row for row, _ in groupby(rows)]


def test_blocks_that_are_not_drawn_are_said_to_be_missing(page: Page) -> None:
    found = segments(page, ["h", "t"], {"t": 2}, {"h": "heads", "t": "64"})
    assert [row["coords"] for row in found if not row.get("gap")] == [{"t": 0}, {"t": 1}]
    assert sum(row.get("gap", False) for row in found) == 1


def test_ranks_count_row_by_row(page: Page) -> None:
    axes = [{"name": "a", "size": 2}, {"name": "b", "size": 3}]
    found = page.evaluate(
        "async axes => { const { coordinates } = await import('/static/pieces.js');"
        " return [0, 1, 2, 3, 4, 5].map(rank => coordinates(rank, axes)); }",
        axes,
    )
    assert found == [{"a": a, "b": b} for a, b in product(range(2), range(3))]


def test_cells_do_not_overlap_and_are_as_many_as_pieces(page: Page) -> None:
    for counts in ([1], [2, 3], [2, 2, 3], [2, 3, 2, 2]):
        dims = [[{"coords": {f"d{k}": i}} for i in range(n)] for k, n in enumerate(counts)]
        drawn = page.evaluate(
            "async dims => (await import('/static/pieces.js')).cells(dims, 120, 80)", dims
        )
        boxes = drawn["cells"]
        assert len(boxes) == prod(counts)
        assert len({tuple(box["coords"].values()) for box in boxes}) == prod(counts)
        for one in boxes:
            assert one["x"] + one["width"] <= drawn["width"] + 1e-6
            assert one["y"] + one["height"] <= drawn["height"] + 1e-6
            overlapping = [
                other
                for other in boxes
                if abs(one["x"] - other["x"]) < one["width"] - 1e-6
                and abs(one["y"] - other["y"]) < one["height"] - 1e-6
            ]
            assert overlapping == [one]
