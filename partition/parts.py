"""A length divided into parts that are known, or assumed, to divide it."""

from __future__ import annotations

from dimsolve.solver.algebra.dims import floor_div
from dimsolve.solver.algebra.poly import Dim
from dimsolve.solver.proof.divisibility import exact_quotient
from dimsolve.solver.proof.facts import Facts


def part_of(length: Dim, parts: Dim, facts: Facts) -> Dim:
    """Returns length / parts where the parts are known, or assumed, to divide it.

    >>> from dimsolve.solver.proof.facts import NO_FACTS
    >>> from dimsolve.solver.algebra.poly import symbol
    >>> str(part_of(8 * symbol("s"), 4, NO_FACTS)), str(part_of(symbol("s"), 4, NO_FACTS))
    ('2*s', 's//4')
    """
    quotient = exact_quotient(length, parts, facts)
    return floor_div(length, parts) if quotient is None else quotient
