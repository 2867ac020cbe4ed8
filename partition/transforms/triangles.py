"""Triangles of matrices whose rows or columns are cut: the diagonal lies where a part begins.

tril(x), rows b over 2     a b^ c^ -> a b^ c^      rank 1 keeps what lies below diagonal + b/2
"""

from __future__ import annotations

from typing import Any

from dimsolve.ir.annotation import Dim, Identifier, Mark, Tensor
from dimsolve.ir.operator import Declaration
from dimsolve.ir.read_annotation import read_annotation
from dimsolve.solver.layout import fresh_names

from ..placement import Shard
from ..transform import Part, TransformRule


def tril_rules(declaration: Declaration) -> tuple[TransformRule, ...]:
    """Returns the rules of tril: one for rows, one for columns."""
    return _rules(declaration, tril_parts)


def triu_rules(declaration: Declaration) -> tuple[TransformRule, ...]:
    """Returns the rules of triu."""
    return _rules(declaration, triu_parts)


def _rules(declaration: Declaration, local: Any) -> tuple[TransformRule, ...]:
    row = read_annotation(declaration.annotation).inputs[0]
    assert isinstance(row, Tensor)
    atoms = [dim.atoms[0] for dim in row.dims if isinstance(dim, Dim)]
    return tuple(
        TransformRule((Shard(place),), (Shard(place),), local=local, split=atom.name)
        for place, atom in enumerate(atoms)
        if isinstance(atom, Identifier) and atom.mark is Mark.FROZEN
    )


def tril_parts(part: Part, input: Any, diagonal: int = 0) -> Any:
    """Returns this rank's part of the lower triangles."""
    return input.tril(diagonal + _shift(part, input))


def triu_parts(part: Part, input: Any, diagonal: int = 0) -> Any:
    """Returns this rank's part of the upper triangles."""
    return input.triu(diagonal + _shift(part, input))


def _shift(part: Part, input: Any) -> int:
    """How far the diagonal of the whole lies above that of the part."""
    names = fresh_names(set())
    *_, rows, columns = (next(names) for _ in range(input.dim()))
    below: int = part[rows].index * input.shape[-2]
    return below - part[columns].index * int(input.shape[-1])
