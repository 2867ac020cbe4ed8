"""Lengths as text: what a plan holds of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache

from dimsolve.ir.annotation import Identifier, Number, Star, Tensor
from dimsolve.ir.read_annotation import read_annotation
from dimsolve.solver.algebra.poly import Dim, product


def shape_text(dims: Sequence[Dim | None] | None) -> list[str | None] | None:
    """Returns the lengths as texts.

    >>> shape_text((2, None)), shape_text(None)
    (['2', None], None)
    """
    if dims is None:
        return None
    return [None if dim is None else str(dim) for dim in dims]


def size_texts(row: str, lengths: Mapping[str, Dim], star: Sequence[str]) -> list[str]:
    """Returns the lengths of a row of the annotation language.

    >>> size_texts("b 8 (h d)", {"b": 2, "h": 3, "d": 4}, ())
    ['2', '8', '12']
    """
    found: list[str] = []
    for atoms in _row(row):
        if atoms is None:
            found.extend(str(lengths[name]) for name in star)
        else:
            dims = [lengths[atom] if isinstance(atom, str) else atom for atom in atoms]
            found.append(str(product(dims)))
    return found


@lru_cache(maxsize=4096)
def _row(row: str) -> tuple[tuple[str | int, ...] | None, ...]:
    """The atoms of every dimension; None for ``*``."""
    (operand,) = read_annotation(f"{row} -> ()").inputs
    if not isinstance(operand, Tensor):
        return ()
    dims: list[tuple[str | int, ...] | None] = []
    for dim in operand.dims:
        if isinstance(dim, Star):
            dims.append(None)
        else:
            dims.append(tuple(_atom(atom) for atom in dim.atoms))
    return tuple(dims)


def _atom(atom: Identifier | Number) -> str | int:
    return atom.value if isinstance(atom, Number) else atom.name
