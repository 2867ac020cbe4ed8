"""Who holds what: the indices of every rank are those that NumPy cuts, also in the picture."""

from __future__ import annotations

import re
from math import prod
from xml.etree import ElementTree

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from dimsolve.ir.errors import AnnotationError, ShapeError
from dimsolve.partition.layout import Held, held, place_text
from dimsolve.partition.placement import Partial, Placement, Reduction, Replicate, Shard
from dimsolve.show.placement import held_svg
from tests.oracles.pictures import SPACE, read_picture, titled


@st.composite
def layouts(draw: st.DrawFn) -> Held:
    """Placements of a tensor of up to 4 dimensions on up to 3 axes, and a shape they can cut."""
    rank = draw(st.integers(0, 4))
    mesh = {f"m{n}": draw(st.integers(1, 3)) for n in range(draw(st.integers(0, 3)))}
    shape = [draw(st.integers(1, 2)) for _ in range(rank)]
    placements: list[Placement] = []
    for count in mesh.values():
        kinds = ["R", "P"] + ["S"] * 3 * bool(rank)
        match draw(st.sampled_from(kinds)):
            case "R":
                placements.append(Replicate())
            case "P":
                placements.append(Partial(draw(st.sampled_from(Reduction))))
            case _:
                dim, blocks = draw(st.integers(0, rank - 1)), draw(st.integers(1, 2))
                segments = draw(st.sampled_from([(), (2, 1), (1, 2, 1)]))
                placements.append(Shard(dim, blocks, segments))
                shape[dim] *= count * blocks * sum(segments or (1,))
    return held(shape, placements, mesh)


def cut(whole: np.ndarray, layout: Held, rank: tuple[int, ...]) -> np.ndarray:
    """What a rank has, by reshaping and splitting: the outer axis first."""
    counts = layout.mesh.values()
    for part, count, placement in zip(rank, counts, layout.placements, strict=True):
        if not isinstance(placement, Shard):
            continue
        segments = np.array(placement.segments or (1,))
        pieces = []
        for block in np.split(whole, placement.blocks, axis=placement.dim):
            unit = block.shape[placement.dim] // segments.sum()
            ends = np.cumsum(segments * unit)[:-1]
            for segment in np.split(block, ends, axis=placement.dim):
                pieces.append(np.split(segment, count, axis=placement.dim)[part])
        whole = np.concatenate(pieces, axis=placement.dim)
    return whole


def numbers(layout: Held) -> np.ndarray:
    """The tensor whose elements are their own numbers."""
    return np.arange(prod(layout.shape)).reshape(layout.shape)


@given(layouts())
def test_every_rank_holds_what_numpy_cuts(layout: Held) -> None:
    whole = numbers(layout)
    for rank in layout.ranks():
        runs = layout.indices(rank)
        indices = [np.concatenate([np.array(run) for run in dim]) for dim in runs]
        assert (whole[np.ix_(*indices)] == cut(whole, layout, rank)).all()
        assert cut(whole, layout, rank).shape == layout.local_shape


def drawn_elements(panel: ElementTree.Element, whole: np.ndarray) -> dict[int, tuple[str, str]]:
    """Element number -> its cell and fill, of the cells of one grid."""
    found: dict[int, tuple[str, str]] = {}
    for cell in panel.iter(f"{SPACE}rect"):
        title = cell.find(f"{SPACE}title")
        if title is None:
            continue
        text = title.text or ""
        slices = tuple(slice(int(a), int(b)) for a, b in re.findall(r"(\d+):(\d+)", text))
        for number in whole[slices].ravel():
            assert number not in found, "one element is drawn twice"
            found[int(number)] = (text, cell.attrib["fill"])
    return found


@settings(max_examples=60)
@given(layouts())
def test_the_cells_of_a_rank_are_the_indices_that_it_holds(layout: Held) -> None:
    picture = held_svg(layout)
    assume("parts are drawn" not in picture)  # else it says that the rest is left out
    root = read_picture(picture)
    whole = numbers(layout)
    panels = titled(root, " holds ")
    names = [place_text(layout.mesh, rank) for rank in layout.ranks()]
    assert [title.partition(" holds ")[0] for title, _ in panels] == names
    holders: dict[int, set[str]] = {}
    fills: dict[int, set[str]] = {}
    for rank, (title, panel) in zip(layout.ranks(), panels, strict=True):
        drawn = drawn_elements(panel, whole)
        assert set(drawn) == set(cut(whole, layout, rank).ravel().tolist())
        cells = {text for text, _ in drawn.values()}
        hatched = sum(1 for path in panel.iter(f"{SPACE}path"))
        assert hatched == (len(cells) if layout.partial else 0)
        for number, (_, fill) in drawn.items():
            holders.setdefault(number, set()).add(title)
            fills.setdefault(number, set()).add(fill)
    assert all(len(each) == 1 for each in fills.values()), "the same data has one colour"
    by_holders: dict[frozenset[str], set[str]] = {}
    for number, each in fills.items():
        by_holders.setdefault(frozenset(holders[number]), set()).update(each)
    assert all(len(each) == 1 for each in by_holders.values())
    colours = [colour for each in by_holders.values() for colour in each]
    assert len(colours) == len(set(colours)), "other data has another colour"


@settings(max_examples=60)
@given(layouts())
def test_the_picture_is_the_same_every_time(layout: Held) -> None:
    again = held(layout.shape, [str(placement) for placement in layout.placements], layout.mesh)
    assert held_svg(layout) == held_svg(again)


def test_cells_stand_where_their_indices_are() -> None:
    root = read_picture(held_svg(held((4, 6), ["S(0)", "S(1, blocks=3)"], "dp=2, tp=2")))
    for _, panel in titled(root, " holds "):
        for cell in panel.iter(f"{SPACE}rect"):
            if (title := cell.find(f"{SPACE}title")) is None:
                continue
            (top, _), (left, _) = re.findall(r"(\d+):(\d+)", title.text or "")
            assert float(cell.attrib["x"]) == 0.5 + 14 * int(left)
            assert float(cell.attrib["y"]) == 0.5 + 14 * int(top)


@pytest.mark.parametrize(
    ("shape", "placements", "mesh"),
    [
        ((4096, 14336), ["S(1)"], "tp=64"),
        ((4096, 14336), ["S(0)", "S(1)"], "dp=16, tp=64"),
        ((2, 2, 2, 2, 2, 2, 2), ["S(0)", "S(1)", "S(2)"], "a=2, b=2, c=2"),
        ((0, 4), ["S(0)"], "tp=2"),
        ((), ["P(max)"], "tp=2"),
        ((64,), [], ""),
        ((131072, 4096), ["S(0)"], "tp=2048"),
    ],
)
def test_large_and_odd_tensors_are_drawn_in_little(
    shape: tuple[int, ...], placements: list[str], mesh: str
) -> None:
    svg = held(shape, placements, mesh)._repr_svg_()
    read_picture(svg)
    assert len(svg) < 1_500_000


def test_the_text_says_the_same() -> None:
    assert str(held((6, 4), "S(0, blocks=3)", "tp=2")) == (
        "6, 4 as S(0, blocks=3)\n  tp=0  [{0:1, 2:3, 4:5}, 0:4]\n  tp=1  [{1:2, 3:4, 5:6}, 0:4]"
    )


def test_what_cannot_be_cut_says_why() -> None:
    with pytest.raises(ShapeError) as error:
        held((6, 4), ["S(0)", "S(0)"], "dp=2, tp=2")
    assert str(error.value) == (
        "the tensor cannot be cut so\n  S(0) on tp=2: 3 is not a multiple of 2"
    )
    with pytest.raises(ShapeError, match=r"S\(2\) on tp: the shape 6, 4 has no such dim"):
        held((6, 4), "S(2)", "tp=2")
    with pytest.raises(AnnotationError, match="2 placements for a mesh of 1 axes"):
        held((6, 4), ["R", "R"], "tp=2")
    with pytest.raises(
        AnnotationError, match="a size is n: to hold something, it must be a number"
    ):
        held(("n", 4), "R", "tp=2")
    with pytest.raises(AnnotationError, match="more than 4096 ranks"):
        held((1 << 20,), "S(0)", "tp=8192")
