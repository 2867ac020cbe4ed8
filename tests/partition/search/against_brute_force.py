"""The search against every choice, for as many random graphs as one likes.

    python -m tests.partition.search.against_brute_force 10000
    python -m tests.partition.search.against_brute_force 1000 --from 5000

Of every seed two problems of the core, of every tenth also a graph of operators on a mesh, and one
within limits of memory on a mesh of one to three axes: the answer is the least, its proof is
accepted, and a bound that is larger by one is refused. Prints what fails, and leaves with 1 where
something does.
"""

from __future__ import annotations

import argparse
import sys

from dimsolve.partition.search.check import NotProved, check_bound, check_choice
from dimsolve.partition.search.problem import FORBIDDEN, Problem
from dimsolve.partition.search.search import solve
from tests.partition.planning.test_auto import test_no_plan_of_a_random_graph_is_faster
from tests.partition.planning.test_decided_once import beside_every_plan

from .test_search import brute_force, random_problem, stored_problem


def wrong(problem: Problem) -> str:
    """Returns what is wrong with the answer to a problem; "" for nothing."""
    answer, least = solve(problem), min(brute_force(problem), FORBIDDEN)
    if (answer.cost, answer.bound) != (least, least):
        return f"{answer.cost} and {answer.bound} in place of {least}"
    check_bound(problem, answer.bound, answer.steps)
    if answer.chosen is None:
        return ""
    check_choice(problem, answer.chosen, answer.cost)
    try:
        check_bound(problem, answer.bound + 1, answer.steps)
    except NotProved:
        return ""
    return "a bound is proved that is too large"


def main() -> int:
    """Tries all seeds; returns 1 where one fails."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("count", type=int)
    parser.add_argument("--from", type=int, default=100_000, dest="first")
    asked = parser.parse_args()
    failed = 0
    for seed in range(asked.first, asked.first + asked.count):
        reason = wrong(random_problem(seed)) or wrong(stored_problem(seed))
        if not reason and seed % 10 == 0:
            try:
                test_no_plan_of_a_random_graph_is_faster(seed)
                beside_every_plan(seed, 1 + seed // 10 % 3)
            except AssertionError as error:
                reason = f"a graph: {error!r:.200}"
        if reason:
            failed += 1
            print(f"seed {seed}: {reason}")
    print(f"{asked.count} seeds, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
