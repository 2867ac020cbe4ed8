"""The JSON of operators: what ``dimsolve ops`` and ``/v1/operators`` list, what ``dimsolve verify``
found.

    {"path": "torch.matmul", "annotations": ["m k+, k+ n -> m n", ...], "note": ""}
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from dimsolve.ir.registry import registered
from dimsolve.solver.library import names, summary

from .schema import Model

if TYPE_CHECKING:
    from dimsolve.exec.verification.verification import Verification


class OperatorModel(Model):
    """One callable. ``note``: why nothing of it can be split, or what to know."""

    path: str
    annotations: list[str]
    note: str


class OperatorsModel(Model):
    """The operators that are known, sorted by path: the library's and the registered ones."""

    operators: list[OperatorModel]


class VerificationModel(Model):
    """Whether an operator's annotation holds. ``culprits`` are texts that name who lies."""

    target: str
    ok: bool
    differences: dict[str, float]
    culprits: list[str]
    splits: dict[str, list[int]]
    frozen: dict[str, str]
    notes: list[str]

    @classmethod
    def of(cls, found: Verification) -> VerificationModel:
        """Makes the model of a Verification."""
        return cls(
            target=found.target,
            ok=found.ok,
            differences=dict(found.differences),
            culprits=[str(culprit) for culprit in found.culprits],
            splits={name: list(counts) for name, counts in found.splits.items()},
            frozen=dict(found.frozen),
            notes=list(found.notes),
        )


def operators(part: str = "") -> OperatorsModel:
    """Returns the operators whose path contains ``part``.

    >>> [row.path for row in operators("torch.hypot").operators]
    ['torch.hypot']
    """
    rows = [
        OperatorModel(path=found.path, annotations=list(found.annotations), note=found.note)
        for path in names()
        if part in path and (found := summary(path)) is not None
    ]
    rows += [
        OperatorModel(path=own.path, annotations=[], note="registered")
        for own in registered()
        if part in own.path
    ]
    return OperatorsModel(operators=sorted(rows, key=lambda row: row.path))
