"""The picture of a verification: its verdict, every split, every lie with its hint."""

from __future__ import annotations

from dimsolve.exec.verification.verification import Culprit, Verification
from tests.oracles.pictures import read_picture, texts

HOLDS = Verification("ops.f", {"outputs": 1e-16}, splits={"m": (2, 3)}, frozen={"s": "marked '^'"})
LIES = Verification(
    "ops.<g>",
    {"outputs": 0.9},
    culprits=(Culprit("k", "'k' split into 2 parts: output 0 is off by 0.94", "write k+", 0.94),),
    notes=("input 1 was not compared: it is an integer",),
)


def test_what_holds_is_shown_with_every_split() -> None:
    shown = texts(read_picture(HOLDS._repr_svg_()))
    assert shown[0] == "holds" and "ops.f" in shown
    assert "split into 2, 3: equal to the whole" in shown
    assert "not split: marked '^'" in shown


def test_a_lie_is_shown_with_its_hint() -> None:
    shown = texts(read_picture(LIES._repr_svg_()))
    assert shown[0] == "does not hold" and "ops.<g>" in shown
    assert "'k' split into 2 parts: output 0 is off by 0.94" in shown
    assert "hint: write k+" in shown
    assert "input 1 was not compared: it is an integer" in shown
