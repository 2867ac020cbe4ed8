"""Two instances of the ASPLOS 2025 contest on intra-operator parallelism are proved optimal.

The instances are of google/iopddl (Apache-2.0), exported from XLA's auto-sharding; their least
costs are those that HiGHS proves.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from dimsolve.partition.search.check import NotProved, check_bound, check_choice
from dimsolve.partition.search.search import solve
from tests.oracles.iopddl import read_instance

INSTANCES = Path(__file__).resolve().parents[2] / "data" / "iopddl"


@pytest.mark.parametrize(("name", "least"), [("B", 532_843), ("G", 217_039)])
def test_an_instance_of_the_contest_is_proved_optimal(name: str, least: int) -> None:
    problem = read_instance(INSTANCES / f"{name}.json.gz")
    answer = solve(problem)
    assert (answer.cost, answer.bound, answer.optimal) == (least, least, True)
    assert answer.chosen is not None
    check_choice(problem, answer.chosen, least)
    check_bound(problem, least, answer.steps)
    with pytest.raises(NotProved):
        check_bound(problem, least + 1, answer.steps)
