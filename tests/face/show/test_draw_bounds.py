"""Law: however large the thing, its picture is not, and what is left out is said."""

from __future__ import annotations

import io
import re
from typing import Any

import pytest

import dimsolve as ds
from dimsolve.partition.layout import Held, held
from dimsolve.partition.placement import Shard
from tests.oracles.pictures import read_picture, texts

MILLION = 10**6
HUGE: dict[str, Any] = {
    "a thousand ranks": lambda: held((MILLION, MILLION), "S(0)", "tp=1000"),
    "four thousand ranks": lambda: held((4096, 8), "S(0)", "tp=4096"),
    "both dimensions": lambda: held((640, 640), ["S(0)", "S(1)"], "dp=64, tp=64"),
    "four axes": lambda: held((8,) * 4, [f"S({i})" for i in range(4)], "a=8, b=8, c=8, d=8"),
    "twelve axes": lambda: held(
        (4,) * 12, [f"S({i})" for i in range(12)], {f"a{i}": 2 for i in range(12)}
    ),
    "many dimensions": lambda: held((2,) * 100_000, "R", "tp=2"),
    "many blocks": lambda: held((4096, 4), "S(0, blocks=2048)", "tp=2"),
    "a far dimension": lambda: Shard(MILLION),
    "many segments": lambda: Shard(0, segments=tuple(range(1, 200))),
    "counts up to 10,000": lambda: ds.legal_parts("a b -> a b", ["8*s, 6"], "b", up_to=10_000),
    "sixty dimensions": lambda: ds.check(f"{_names(60)} -> {_names(60)}", None, "x3", 7),
    "sixty tensors": lambda: ds.check(
        ", ".join(f"x{i} y" for i in range(60)) + " -> y", None, "y", 7
    ),
}


def _names(count: int) -> str:
    return " ".join(f"x{i}" for i in range(count))


def size_of(svg: str) -> tuple[float, float]:
    found = re.search(r'width="([\d.]+)" height="([\d.]+)"', svg)
    assert found is not None
    return float(found[1]), float(found[2])


@pytest.mark.parametrize("name", HUGE)
def test_a_picture_is_never_huge(name: str) -> None:
    thing = HUGE[name]()
    svg = thing._repr_svg_()
    read_picture(svg)
    width, height = size_of(svg)
    assert width <= 2_000 and height <= 4_000
    assert len(svg) <= 500_000
    assert svg == HUGE[name]()._repr_svg_()


@pytest.mark.parametrize(
    ("layout", "said"),
    [
        (
            lambda: held((MILLION, 8), "S(0)", "tp=1000"),
            ["and 968 more", "of dimension 0 the first 48 of 1000 parts are drawn"],
        ),
        (lambda: held((64, 64), ["S(0)", "S(1)"], "dp=64, tp=2"), ["and 56 more of dp"]),
        (lambda: held((2,) * 20, "R", "tp=2"), ["20 dimensions are too many to draw"]),
    ],
)
def test_what_is_left_out_is_said(layout: Any, said: list[str]) -> None:
    shown = texts(read_picture(layout()._repr_svg_()))
    for text in said:
        assert any(text in line for line in shown), shown


def test_the_first_ranks_are_drawn_as_they_are() -> None:
    """Rank by rank the picture of many names the same indices as `Held.indices`."""
    many = held((MILLION, 8), "S(0)", "tp=1000")
    svg = many._repr_svg_()
    for rank in range(32):
        assert f"tp={rank} holds [{rank * 1000}:{rank * 1000 + 1000}, 0:8]" in svg
    assert "tp=32 holds" not in svg


def test_a_notebook_lists_the_first_ranks_and_print_lists_all() -> None:
    many: Held = held((4096,), "S(0)", "tp=1024")
    assert len(str(many).split("\n")) == 1025
    short = many.text(3).split("\n")
    assert short[1:] == [
        "  tp=0  [0:4]",
        "  tp=1  [4:8]",
        "  tp=2  [8:12]",
        "  and 1021 ranks more",
    ]


def test_a_terminal_lists_the_first_ranks() -> None:
    from rich.console import Console

    console = Console(width=120, record=True, file=io.StringIO())
    console.print(held((4096,), "S(0)", "tp=1024"))
    lines = console.export_text().splitlines()
    assert len(lines) < 300
    assert any("and 768 ranks more" in line for line in lines)
