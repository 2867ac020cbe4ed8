"""An annotation's picture: an identifier has one colour, and marks say what they mean."""

from __future__ import annotations

from hypothesis import given

from dimsolve.ir.annotation import Annotation
from dimsolve.ir.read_annotation import read_annotation
from dimsolve.show.annotation import annotation_svg, meanings
from tests.oracles.pictures import SPACE, read_picture, texts
from tests.oracles.strategies import annotation_trees


@given(annotation_trees())
def test_every_annotation_is_a_picture_and_always_the_same(annotation: Annotation) -> None:
    svg = annotation_svg(annotation)
    read_picture(svg)
    assert svg == annotation_svg(read_annotation(str(annotation)))


def test_the_same_identifier_has_the_same_colour() -> None:
    root = read_picture(annotation_svg(read_annotation("(h t) k+, k+ n -> h t n")))
    seen: dict[str, set[str]] = {}
    for element in root.iter(f"{SPACE}text"):
        seen.setdefault((element.text or "").rstrip("+"), set()).add(element.attrib["fill"])
    colours = [seen[name] for name in "htkn"]
    assert all(len(each) == 1 for each in colours)
    assert len(set.union(*colours)) == 4


def test_the_tensors_stand_in_order() -> None:
    root = read_picture(annotation_svg(read_annotation("a 64, ?, () -> * b^")))
    assert texts(root)[:9] == ["a", "64", ",", "?", ",", "()", "→", "*", "b^"]


def test_what_cannot_be_split_is_not_said_to_be() -> None:
    said = {
        (text, name): says
        for text in ("a b -> b", "a a -> a", "k+ n -> n", "s^ -> s^", "a -> ?")
        for name, _, says in meanings(read_annotation(text))
    }
    unjoined = "cannot be split: it is missing from an output and has no mark"
    assert said["a b -> b", "a"] == unjoined
    assert said["a a -> a", "a"] == "cannot be split: it stands twice in one tensor"
    assert said["k+ n -> n", "k"] == "may be split; outputs without it are then partial sums"
    assert said["s^ -> s^", "s"] == "never split"
    assert said["a -> ?", "a"] == said["a b -> b", "b"] == "may be split"
