"""Splits that the marks forbid, and that another placement of the result makes legal.

    kl_div(x, y, "batchmean")   a+ b^, a+ b^ -> ()          b cut: P(sum), where a is P(avg)
    solve_ex(A, B)              n^ n^, n^ k^ -> n^ k^, ()   k cut: columns, and the same info
    any(x, 1)                   a b+ -> a                   of nothing, False changes nothing

A rank runs torch's own function.
"""

from __future__ import annotations

from dimsolve.ir.annotation import Dim, Identifier, Mark, Operand, Tensor
from dimsolve.ir.operator import Declaration
from dimsolve.ir.read_annotation import read_annotation
from dimsolve.solver.layout import identifiers_of

from ..placement import Replicate, Shard
from .rule import TransformRule


def summed_rules(declaration: Declaration) -> tuple[TransformRule, ...]:
    """Returns the rule of what is summed beside what is averaged."""
    found = identifiers_of(read_annotation(declaration.annotation)).items()
    names = tuple(name for name, each in found if each.mark is Mark.FROZEN)
    if declaration.reduction != "avg" or not names:
        return ()
    return (TransformRule(split=names, outputs=("P(sum)",), sends=(), parts="any", placed=False),)


def column_rules(declaration: Declaration) -> tuple[TransformRule, ...]:
    """Returns the rule of right sides, which are solved one by one, beside results without them."""
    return _beside(declaration, ("k",))


def result_rules(declaration: Declaration) -> tuple[TransformRule, ...]:
    """Returns the rules of a result beside which the others are empty."""
    first, *others = read_annotation(declaration.annotation).outputs
    empty = all(str(row) == "0" for row in others)
    return _beside(declaration, tuple(_frozen(first))) if empty else ()


def _beside(declaration: Declaration, names: tuple[str, ...]) -> tuple[TransformRule, ...]:
    """A rule for each identifier of the first result; the other results are the same everywhere."""
    first, *others = (_frozen(row) for row in read_annotation(declaration.annotation).outputs)
    return tuple(
        TransformRule(
            split=name,
            outputs=(Shard(first[name]), *(Replicate() for _ in others)),
            sends=(),
            parts="any",
            placed=False,
        )
        for name in names
        if name in first and not any(name in row for row in others)
    )


def _frozen(row: Operand) -> dict[str, int]:
    """Where the identifiers stand that are marked ``^``."""
    dims = row.dims if isinstance(row, Tensor) else ()
    return {
        dim.atoms[0].name: place
        for place, dim in enumerate(dims)
        if isinstance(dim, Dim)
        and isinstance(dim.atoms[0], Identifier)
        and dim.atoms[0].mark is Mark.FROZEN
    }


def product_rules(declaration: Declaration) -> tuple[TransformRule, ...]:
    """Returns the rule of what products are summed over: torch refuses sums of nothing."""
    found = identifiers_of(read_annotation(declaration.annotation)).items()
    names = tuple(name for name, each in found if each.mark is Mark.SUM)
    return (TransformRule(split=names, sends=(), parts="unequal", placed=False),)


def bool_rules(declaration: Declaration) -> tuple[TransformRule, ...]:
    """Returns the rule of what is asked of any or of all elements, which has an answer of none."""
    found = identifiers_of(read_annotation(declaration.annotation)).items()
    names = tuple(name for name, each in found if each.mark is Mark.SUM)
    if not names:
        return ()
    return (TransformRule(split=names, sends=(), parts="any", placed=False),)
