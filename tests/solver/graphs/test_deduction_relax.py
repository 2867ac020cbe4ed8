"""Law: what Relax deduces of an operator, a graph deduces too, or something more precise; what it
refuses is refused.

The rows were recorded from TVM Relax. Rows that differ are listed in
tests/data/relax_differences.json, each with its reason: a row that differs and is not listed fails.
"""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from dimsolve import DimsolveError, Graph
from dimsolve.solver.graphs.deduction import substitute_type
from dimsolve.solver.graphs.join import is_a
from dimsolve.solver.graphs.reading import read_type

from .relax_calls import build, type_of
from .relax_rows import Unsupported

DATA = Path(__file__).parents[2] / "data"
ROWS: list[list[Any]] = json.loads((DATA / "relax_deduction.json").read_text())["rows"]
REASONS = json.loads((DATA / "relax_differences.json").read_text())["reasons"]
LISTED = {row: reason for reason, rows in REASONS.items() for row in rows}


def outcome(row: list[Any]) -> str:
    """``same`` (or more precise), ``differs``, ``refused`` or ``accepted`` against Relax, or
    ``unsupported``.
    """
    graph = Graph(strict=True)
    wanted = row[-1]
    try:
        found = type_of(build(graph, row))
    except Unsupported:
        return "unsupported"
    except (DimsolveError, TypeError, ValueError):
        return "same" if wanted is None else "refused"
    if wanted is None:
        return "accepted"
    expected = read_type(wanted.replace("Max(", "max(").replace("Min(", "min("))
    expected = substitute_type(expected, graph.system.solved)
    verdict = is_a(found, expected, graph.system.facts).verdict
    return "same" if verdict == "yes" else "differs"


OPERATORS = sorted({row[1] for row in ROWS})


@pytest.mark.parametrize("operator", OPERATORS)
def test_every_row_is_as_precise_as_relax(operator: str) -> None:
    wrong = []
    for row in ROWS:
        if row[1] == operator:
            found = outcome(row)
            if found not in ("same", "unsupported") and row[0] not in LISTED:
                wrong.append((row[0], found))
    assert wrong == []


def test_most_rows_are_operators_that_torch_has() -> None:
    counts = Counter(outcome(row) for row in ROWS)
    assert counts["unsupported"] < 0.15 * len(ROWS)
    assert counts["same"] > 0.9 * (len(ROWS) - counts["unsupported"])
