"""Reshapes and expands have the placements that OneFlow lists, and others besides.

What was recorded, and where it is tested:

    17 reshapes over two or three axes, with all signatures    here: ours in one block are the same
    15 expands with signatures, 13 of them different           here, and in test_expand_and_repeat
     5 repeats with the reshape, expand, reshape they stand for; 33 expands of strided tensors; 3
       errors                                                  test_expand_and_repeat
     conversion costs                                          nothing: only the names of the fields
       (source, T, diff_devices, nd) were kept, no numbers. What a conversion sends is held against
       ring algorithms in test_reshard, and here against the totals that follow from them.

OneFlow cuts a group of dimensions at its first only, in contiguous parts; those are exactly our
splits in one block. What we have more are splits of later factors, ``S(0, blocks=2)``, and splits
of new dimensions, of which every rank makes its part from the whole input.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from dimsolve.exec.graph import Graph
from dimsolve.partition.placement import read_placement
from dimsolve.partition.planning.choices import Choice, OperatorClass
from dimsolve.partition.planning.network import Network
from dimsolve.partition.planning.requirements import Requirements
from dimsolve.partition.reshard import conversion, sends
from dimsolve.solver.proof.facts import NO_FACTS

DATA = Path(__file__).parents[2] / "data"
CASES = json.loads((DATA / "reshape_placements.json").read_text())["cases"]
EXPANDS = json.loads((DATA / "expand_and_repeat.json").read_text())["expand"]
NAMES = {"R": "B", "P(sum)": "P"}


def signatures(kind: OperatorClass, mesh: list[int]) -> set[tuple[str, ...]]:
    """All ways to cut one operator over the axes of a mesh, outer axis first."""
    if not mesh:
        return {()}
    duties = Requirements(mesh[0], NO_FACTS)
    passing = kind.passing(frozenset({0}))
    choices: list[Choice] = [kind.whole, *kind.choices(), *([passing] if passing else [])]
    found = set()
    for choice in choices:
        if duties.first_illegal(choice) is None:
            pair = f"{_name(choice.inputs[0])}>{_name(choice.outputs[0])}"
            rest = signatures(kind.local(choice, mesh[0]), mesh[1:])
            found |= {(pair, *more) for more in rest}
    return found


def _name(placement: object) -> str:
    return NAMES.get(str(placement), str(placement))


@pytest.mark.parametrize("case", CASES, ids=lambda c: f"{c['from']}->{c['to']}")
def test_contiguous_placements_of_a_reshape_are_those_of_oneflow(case: dict[str, Any]) -> None:
    graph = Graph()
    x = graph.input("x", tuple(case["from"]), "float32")
    graph.output(graph.call("torch.reshape", x, tuple(case["to"])))
    ours = signatures(Network(graph).operators[0].op_class, case["mesh"])
    contiguous = {each for each in ours if not any("blocks" in pair for pair in each)}
    assert contiguous == {tuple(each) for each in case["signatures"]}
    assert ours >= contiguous


def test_nothing_that_was_recorded_is_left_out() -> None:
    assert len(CASES) == 17
    assert sum(len(case["signatures"]) for case in CASES) == 594


@pytest.mark.parametrize("case", EXPANDS, ids=str)
def test_an_expand_has_the_placements_of_oneflow(case: dict[str, Any]) -> None:
    """And where it has more, the input is whole: a new or an expanded dimension is cut."""
    graph = Graph()
    x = graph.input("x", tuple(case["shape"]), "float32")
    graph.output(graph.call("torch.Tensor.expand", x, *case["sizes"]))
    ours = {pair for (pair,) in signatures(Network(graph).operators[0].op_class, [1])}
    recorded = {f"S({i})>S({j})" for i, j in case["splits"]}
    assert recorded | {"P>P", "B>B"} <= ours
    assert all(pair.startswith("B>S") for pair in ours - recorded - {"P>P", "B>B"})


TOTALS = [
    ("S(0)", "R", lambda size, n: (n - 1) * size),
    ("P(sum)", "R", lambda size, n: 2 * (n - 1) * size),
    ("P(sum)", "S(0)", lambda size, n: (n - 1) * size),
    ("S(0)", "S(1)", lambda size, n: (n - 1) * size // n),
    ("R", "S(0)", lambda size, n: 0),
    ("R", "P(sum)", lambda size, n: 0),
    ("S(0)", "P(sum)", lambda size, n: 0),
]


@pytest.mark.parametrize(
    ("before", "after", "total"), TOTALS, ids=[f"{a}-{b}" for a, b, _ in TOTALS]
)
def test_all_ranks_together_send_what_a_ring_sends(before: str, after: str, total: Any) -> None:
    """OneFlow counts the bytes of all ranks of an axis together, we those of one of them."""
    found = conversion(read_placement(before), read_placement(after))
    for n in (2, 3, 8):
        size = 4 * n * n
        assert sends(found.forward, size, n) * n == total(size, n)
