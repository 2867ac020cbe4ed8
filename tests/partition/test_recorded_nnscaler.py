"""Law: where the design agrees with nnScaler, so do the answers; what differs has its rule here."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from dimsolve.ir.read_annotation import read_annotation
from dimsolve.partition.legality import check
from dimsolve.partition.placement import Partial, Placement, Shard
from dimsolve.solver.infer import infer

DATA = Path(__file__).parent.parent / "data"

SCALAR = "page 2: a tensor of rank 0 stays one; nnScaler makes it a tensor of one element"
DIFFERENT_SHAPES = {
    "*^ -> *^": SCALAR,
    "?, * -> *": SCALAR,
    "*, * -> *, *": SCALAR,
    "*, ? -> *": SCALAR,
}
"""Annotations for which an input of rank 0 is answered otherwise, and the rule of page 2."""


def cases(name: str) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = json.loads((DATA / name).read_text())["cases"]
    return rows


def state(placement: Placement) -> str:
    match placement:
        case Shard(dim):
            return f"D{dim}"
        case Partial():
            return "V"
        case _:
            return "R"


@pytest.mark.parametrize("case", cases("nnscaler_infer.json"), ids=lambda c: c["annotation"])
def test_infers_the_same_shapes(case: dict[str, Any]) -> None:
    if case["inputs"] is None:
        assert str(read_annotation(case["annotation"])) != ""
        return
    solution = infer(case["annotation"], case["inputs"], arguments=case["arguments"])
    outputs = [None if shape is None else [int(n) for n in shape] for shape in solution.outputs]
    assert (solution.conditions, solution.free) == ((), ())
    if case["annotation"] in DIFFERENT_SHAPES and [] in case["inputs"]:
        assert outputs == [[] for _ in case["outputs"]]
        assert case["outputs"] == [[1] for _ in case["outputs"]]
    else:
        assert outputs == case["outputs"]


def test_judges_the_same_splits() -> None:
    """All 1,500 rows, asked for contiguous layouts, which are the only ones that nnScaler has."""
    for case in cases("nnscaler_check.json"):
        legality = check(
            case["annotation"],
            case["inputs"],
            tuple(case["split"]),
            case["parts"],
            arguments=case["arguments"],
            contiguous=True,
        )
        assert legality.verdict == ("legal" if case["legal"] else "illegal"), case
        if case["legal"]:
            for placements, recorded in zip(
                (legality.inputs, legality.outputs), case["placements"], strict=True
            ):
                for placement, expected in zip(placements, recorded, strict=True):
                    assert state(placement) == (expected or "R"), case


def test_interleaved_layouts_are_what_nnscaler_lacks() -> None:
    """Without ``contiguous`` more is legal, and only by interleaving; nothing legal is lost."""
    more = 0
    for case in cases("nnscaler_check.json"):
        legality = check(
            case["annotation"],
            case["inputs"],
            tuple(case["split"]),
            case["parts"],
            arguments=case["arguments"],
        )
        if legality.verdict == "legal" and not case["legal"]:
            more += 1
            shards = [p for p in (*legality.inputs, *legality.outputs) if isinstance(p, Shard)]
            assert any(not shard.contiguous for shard in shards), case
        else:
            assert (legality.verdict == "legal") == case["legal"], case
    assert more > 0
