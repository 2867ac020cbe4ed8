"""Instances of the ASPLOS 2025 contest on intra-operator parallelism (google/iopddl), solved.

    python -m tests.oracles.iopddl shared/cases/iopddl/V.json.gz --seconds 300
    python -m tests.oracles.iopddl FILE ... --check --out chosen.json

Prints of every file the best cost, the best bound, and the gap between them; the cost is added up
anew, with --check the bound is proved anew, too. --out: the strategy of every node, as JSON. Where
memory is over, what is known so far is printed.
"""

from __future__ import annotations

import argparse
import gzip
import json
import re
import sys
from pathlib import Path
from time import monotonic
from typing import Any

import numpy as np

from dimsolve.partition.search.check import check_bound, check_choice
from dimsolve.partition.search.clock import Clock
from dimsolve.partition.search.problem import FORBIDDEN, Numbers, Problem
from dimsolve.partition.search.search import WORK, Search

INFINITE = 10**18
_NUMBERS = re.compile(rb"\[[\s\d,-]*\d[\s\d,-]*\]")


def read_instance(path: str | Path) -> Problem:
    """Returns the problem in a JSON file, gzipped or not.

    Every list of numbers is read as one array: as Python's numbers, large instances would take five
    times as much memory.
    """
    raw = Path(path).read_bytes()
    arrays: list[Numbers] = []

    def array(found: re.Match[bytes]) -> bytes:
        arrays.append(np.fromstring(found[0][1:-1].decode(), np.int64, sep=","))
        return b"%d" % (len(arrays) - 1)

    data = json.loads(_NUMBERS.sub(array, gzip.decompress(raw) if raw[:2] == b"\x1f\x8b" else raw))
    del raw
    data = data.get("problem", data)
    nodes, edges = data["nodes"], data["edges"]

    def read(places: list[Any]) -> list[Numbers]:
        return [np.zeros(0, np.int64) if place == [] else arrays[place] for place in places]

    held = zip(read(nodes["intervals"]), read(nodes["usages"]), strict=True)
    ends = [each.tolist() for each in read(edges["nodes"])]
    return Problem.of(
        map(_costs, read(nodes["costs"])),
        [(i, j, _costs(c)) for (i, j), c in zip(ends, read(edges["costs"]), strict=True)],
        [[(*when.tolist(), usage)] if len(when) else [] for when, usage in held],
        data["usage_limit"],
    )


def _costs(given: Numbers) -> Numbers:
    return np.where(given >= INFINITE, FORBIDDEN, given)


def solved(path: Path, seconds: float, check: bool) -> tuple[str, list[int] | None]:
    """Returns what is found of an instance in so many seconds, and the choice."""
    start = monotonic()
    problem = read_instance(path)
    search = Search(problem, Clock(seconds - (monotonic() - start)), WORK)
    try:
        answer = search.run(None)
        chosen, bound, steps = answer.chosen, answer.bound, answer.steps
    except MemoryError:
        chosen, (bound, steps) = search.best, search.least()
    took = f"{monotonic() - start:.0f} s"
    if check:
        check_bound(problem, bound, steps)
    if chosen is None:
        least = "nothing fits: proved" if bound >= FORBIDDEN else f"bound {bound}"
        return f"{path.name}: no choice found, {least}, {took}", None
    cost = problem.cost(chosen)
    check_choice(problem, chosen, cost)
    gap = 100 * (1 - bound / cost) if cost else 0.0
    return f"{path.name}: cost {cost}, bound {bound}, gap {gap:.3f} %, {took}", chosen


def main() -> int:
    """Solves all files; returns 1 where one of them cannot be read."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("files", nargs="+", type=Path)
    parser.add_argument("--seconds", type=float, default=300.0)
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--out", type=Path)
    asked = parser.parse_args()
    found: dict[str, list[int] | None] = {}
    failed = 0
    for path in asked.files:
        try:
            text, found[path.name] = solved(path, asked.seconds, asked.check)
        except (OSError, ValueError, KeyError, TypeError, IndexError) as error:
            text, failed = f"{path}: this is no instance: {error!r:.200}", 1
        print(text, flush=True)
    if asked.out is not None:
        asked.out.write_text(json.dumps(found), encoding="utf-8")
    return failed


if __name__ == "__main__":
    sys.exit(main())
