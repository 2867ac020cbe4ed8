"""What `/v1/operators` lists: torch's functions with the annotations of example calls.

{"path": "torch.matmul", "annotations": ["m k+, k+ n -> m n", ...], "note": ""}
"""

from __future__ import annotations

from functools import lru_cache

from dimsolve.ir.registry import registered
from dimsolve.schema import Model
from dimsolve.solver.library import names, summary

from .replies import Reply, reply_of


class OperatorModel(Model):
    """One callable. ``note``: why nothing of it can be split, or what to know."""

    path: str
    annotations: list[str]
    note: str


class OperatorsModel(Model):
    """All operators that are known, sorted by path: the library's and the registered ones."""

    operators: list[OperatorModel]


def operators() -> OperatorsModel:
    """Returns what is known now."""
    rows = [
        OperatorModel(path=found.path, annotations=list(found.annotations), note=found.note)
        for found in map(summary, names())
        if found is not None
    ]
    rows += [
        OperatorModel(path=own.path, annotations=[], note="registered") for own in registered()
    ]
    return OperatorsModel(operators=sorted(rows, key=lambda row: row.path))


@lru_cache(maxsize=1)
def operators_reply() -> Reply:
    """Returns the reply that lists them; it takes a quarter of a second, once."""
    return reply_of(operators())
