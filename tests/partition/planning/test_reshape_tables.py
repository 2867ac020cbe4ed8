"""Reshapes over several axes have the placements that OneFlow lists, and interleaved ones besides.

OneFlow cuts a group of dimensions at its first only, in contiguous parts; those are exactly our
splits in one block. What we have more are splits of later factors, ``S(0, blocks=2)``. The recorded
costs of conversions carry no numbers (only the names of their fields were kept), so what a
conversion sends is compared with the ring algorithms instead, in test_reshard.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from dimsolve.exec.graph import Graph
from dimsolve.partition.planning.choices import Choice
from dimsolve.partition.planning.duties import Duties
from dimsolve.partition.planning.kinds import Kind
from dimsolve.partition.planning.network import Network
from dimsolve.solver.proof.facts import NO_FACTS

DATA = Path(__file__).parents[2] / "data" / "reshape_placements.json"
CASES = json.loads(DATA.read_text())["cases"]
NAMES = {"R": "B", "P(sum)": "P"}


def signatures(kind: Kind, mesh: list[int]) -> set[tuple[str, ...]]:
    """All ways to cut one operator over the axes of a mesh, outer axis first."""
    if not mesh:
        return {()}
    duties = Duties(mesh[0], NO_FACTS)
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
    ours = signatures(Network(graph).operators[0].kind, case["mesh"])
    contiguous = {each for each in ours if not any("blocks" in pair for pair in each)}
    assert contiguous == {tuple(each) for each in case["signatures"]}
    assert ours >= contiguous
