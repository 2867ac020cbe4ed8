"""Where two ranks' graphs or plans first differ, in words: hashes only say that they do.

    rank 0: relu torch.nn.functional.relu(...) -> relu: float32[b, 16]
    rank 1: gelu torch.nn.functional.gelu(...) -> gelu: float32[b, 16]

    rank 0: operators.0.splits.tp.identifier: "n"
    rank 1: operators.0.splits.tp.identifier: null

Lines are told when hashes differ, and not before: they may be long.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from itertools import zip_longest
from typing import Any

from dimsolve.partition.fingerprint import graph_lines
from dimsolve.partition.plan import Plan

_LENGTH = 200
"""How many characters of a line are shown."""

TOLD = ("graph", "plan")
"""Of which of a rank's properties there are lines."""


def lines_of(key: str, plan: Plan) -> list[str]:
    """Returns what is hashed, a line for each node of the graph or each value in the plan."""
    if key == "graph":
        return [] if plan.planned is None else list(graph_lines(plan.planned))
    return list(_leaves(json.loads(plan.to_json(indent=None)), ""))


def _leaves(value: Any, path: str) -> Iterator[str]:
    """Every value in a tree of JSON data, with its path.

    >>> list(_leaves({"mesh": {"tp": "2"}, "notes": []}, ""))
    ['mesh.tp: "2"', 'notes: []']
    """
    items: Any = ()
    if isinstance(value, dict):
        items = value.items()
    elif isinstance(value, list):
        items = enumerate(value)
    if not items or not value:
        yield f"{path}: {json.dumps(value, ensure_ascii=False)}"
        return
    for key, item in items:
        yield from _leaves(item, f"{path}.{key}" if path else str(key))


def first_difference(first: Sequence[str], other: Sequence[str]) -> tuple[str, str] | None:
    """Returns the first pair of lines that are not equal, each cut to what can be read.

    >>> first_difference(["a", "b: 1"], ["a", "b: 2"]), first_difference(["a"], ["a", "b"])
    (('b: 1', 'b: 2'), ('nothing more', 'b'))
    """
    for mine, others in zip_longest(first, other, fillvalue="nothing more"):
        if mine != others:
            return _shown(mine, others), _shown(others, mine)
    return None


def _shown(line: str, other: str) -> str:
    """A line, or of a long one the beginning and what is around the first difference."""
    if len(line) <= _LENGTH:
        return line
    place = next((i for i, (a, b) in enumerate(zip(line, other, strict=False)) if a != b), 0)
    start = max(place - _LENGTH // 3, 0)
    if start <= _LENGTH // 4:
        return f"{line[:_LENGTH]}…"
    more = "…" if start + _LENGTH < len(line) else ""
    return f"{line[: _LENGTH // 4]} … {line[start : start + _LENGTH]}{more}"
