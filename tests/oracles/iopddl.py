"""Reads an instance of the ASPLOS 2025 contest on intra-operator parallelism (google/iopddl)."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import numpy as np

from dimsolve.partition.search.problem import FORBIDDEN, Problem

INFINITE = 10**18


def read_instance(path: str | Path) -> Problem:
    """Returns the problem in a JSON file, gzipped or not."""
    raw = Path(path).read_bytes()
    data = json.loads(gzip.decompress(raw) if raw[:2] == b"\x1f\x8b" else raw)
    data = data.get("problem", data)
    nodes, edges = data["nodes"], data["edges"]
    held = zip(nodes["intervals"], nodes["usages"], strict=True)
    return Problem.of(
        map(_costs, nodes["costs"]),
        [(i, j, _costs(c)) for (i, j), c in zip(edges["nodes"], edges["costs"], strict=True)],
        [[(start, stop, usage)] for (start, stop), usage in held],
        data["usage_limit"],
    )


def _costs(given: list[int]) -> np.ndarray:
    found = np.array(given, np.int64)
    return np.where(found >= INFINITE, FORBIDDEN, found)
