"""Matching lengths to patterns: ``(h*t, n + 1)`` laid on ``(768, s)`` with h = 12 gives t = 64, n =
s - 1.

This is what happens at a function's boundary and in ``match_shape``. A pattern's unknown symbols
are solved for, from the certain to the open: linear ones first, products by the equations of
`dimsolve.solver.infer`. What no symbol is left to explain is compared: proved away, refuted, or
kept as a condition.

    (n, m) on (10, 11)      n = 10, m = 11
    (m + n, n) on (k, 2)    n = 2, m = k - 2, if k - 2 >= 1
    (n, n) on (a, b)        n = a, if b == a
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from dimsolve.ir.errors import ShapeError
from dimsolve.ir.expression import Comparison

from ..algebra.dims import floor_div, mod, substitute, symbols_of
from ..algebra.poly import Dim, Poly, atoms_of, build, divide_exactly
from ..infer import infer_sizes
from ..proof.claims import Claim
from ..proof.facts import NO_FACTS, Facts
from ..proof.prove import decide
from ..proof.verdict import Always, Never


class Mismatch(Exception):
    """A length can never be what its pattern says. ``place``: which one; ``reason``: in numbers."""

    def __init__(self, place: int, reason: str) -> None:
        super().__init__(reason)
        self.place = place
        self.reason = reason


@dataclass(slots=True)
class Match:
    """What was found: ``bindings`` of the pattern's symbols, and the ``conditions`` under which it
    matches, each with its place.
    """

    bindings: dict[str, Dim] = field(default_factory=dict)
    conditions: list[tuple[int, Claim]] = field(default_factory=list)


@dataclass(slots=True)
class _Row:
    """One length still to be explained."""

    place: int
    pattern: Dim
    given: Dim


def linear_in(dim: Dim, name: str) -> tuple[Dim, Dim] | None:
    """Returns (a, b) with dim == a*name + b and neither containing the name; None where there are
    none.

    >>> from dimsolve.solver.algebra.poly import symbol
    >>> linear_in(2 * symbol("m") * symbol("n") + 3, "n")
    (Poly(2*m), 3)
    """
    if isinstance(dim, int):
        return None
    slope: dict[tuple[tuple[str, int], ...], int] = {}
    rest: dict[tuple[tuple[str, int], ...], int] = {}
    for monomial, coefficient in dim.terms.items():
        exponents = dict(monomial)
        if name not in exponents:
            rest[monomial] = coefficient
        elif exponents[name] == 1:
            slope[tuple(item for item in monomial if item[0] != name)] = coefficient
        else:
            return None
    a, b = build(slope), build(rest)
    if a == 0 or name in symbols_of(a) | symbols_of(b):
        return None
    return a, b


def match(
    patterns: Sequence[Dim | None],
    given: Sequence[Dim | None],
    unknown: set[str],
    *,
    known: Mapping[str, Dim] | None = None,
    facts: Facts = NO_FACTS,
) -> Match:
    """Returns the lengths of the unknown symbols of the patterns; raises Mismatch where they can
    never match.

    known: symbols that are given outright. Facts speak of the symbols of ``given``. None on either
    side says nothing. A symbol that nothing determines has no binding.

    >>> from dimsolve.solver.algebra.poly import symbol
    >>> h, t = symbol("h"), symbol("t")
    >>> match([h * t], [768], {"h", "t"}, known={"h": 12}).bindings
    {'h': 12, 't': 64}
    """
    found = Match(dict(known or {}))
    rows = [
        _Row(place, pattern, length)
        for place, (pattern, length) in enumerate(zip(patterns, given, strict=True))
        if pattern is not None and length is not None
    ]
    if len(patterns) != len(given):
        raise ValueError("as many lengths as patterns")
    for conditional in (False, True):
        rows = _solve_linear(rows, unknown, found, facts, conditional)
        rows = _solve_products(rows, unknown, found)
    _compare(_solve_linear(rows, unknown, found, facts, True), unknown, found, facts)
    return found


def _open(row: _Row, unknown: set[str], found: Match) -> set[str]:
    row.pattern = substitute(row.pattern, found.bindings)
    return (symbols_of(row.pattern) & unknown) - found.bindings.keys()


def _solve_linear(
    rows: list[_Row], unknown: set[str], found: Match, facts: Facts, conditional: bool
) -> list[_Row]:
    """Binds symbols that are alone in a row and stand there once, until none is; returns the rows
    that are left.
    """
    while True:
        waiting = []
        for row in rows:
            names = _open(row, unknown, found)
            name = next(iter(names)) if len(names) == 1 else None
            if name is None or not _bind_linear(row, name, found, facts, conditional):
                waiting.append(row)
        if len(waiting) == len(rows):
            return waiting
        rows = waiting


def _bind_linear(row: _Row, name: str, found: Match, facts: Facts, conditional: bool) -> bool:
    split = linear_in(row.pattern, name)
    if split is None:
        return False
    slope, offset = split
    rest = row.given - offset
    length = divide_exactly(rest, slope)
    if length is None:
        decision = decide(mod(rest, slope), Comparison.EQ, 0, facts)
        if isinstance(decision, Never):
            raise Mismatch(
                row.place, f"{row.pattern} = {row.given} has no whole solution for {name}"
            )
        if not isinstance(decision, Always):
            if not conditional:
                return False
            found.conditions.append((row.place, Claim(mod(rest, slope), Comparison.EQ, 0)))
        length = floor_div(rest, slope)
    if not (slope == 1 and offset == 0):
        # A multiple of a positive number is at least that number where it is at least 1.
        whole = rest if isinstance(slope, int) and slope > 0 else length
        _require_positive(row, name, length, whole, found, facts)
    found.bindings[name] = length
    return True


def _require_positive(
    row: _Row, name: str, length: Dim, whole: Dim, found: Match, facts: Facts
) -> None:
    """A symbol is a positive integer; only a bare one may be matched with a size of zero."""
    decision = decide(whole, Comparison.GE, 1, facts)
    if isinstance(decision, Never):
        raise Mismatch(
            row.place, f"{row.pattern} = {row.given} makes {name} = {length}, less than 1"
        )
    if not isinstance(decision, Always):
        found.conditions.append((row.place, Claim(whole, Comparison.GE, 1)))


def _solve_products(rows: list[_Row], unknown: set[str], found: Match) -> list[_Row]:
    """Solves the rows that are products of unknown symbols, all together."""
    products = []
    for row in rows:
        names = _open(row, unknown, found)
        if names and isinstance(row.pattern, Poly) and len(row.pattern.terms) == 1:
            ((monomial, coefficient),) = row.pattern.terms.items()
            several = sum(exponent for _, exponent in monomial) > 1
            if several and coefficient > 0 and {atom for atom, _ in monomial} <= names:
                products.append((row, coefficient, monomial))
    if not products:
        return rows
    identifiers = {atom: _identifier(atom) for _, _, m in products for atom, _ in m}
    tensors = []
    for _, coefficient, monomial in products:
        factors = [str(coefficient)] if coefficient > 1 else []
        factors += [identifiers[atom] for atom, exponent in monomial for _ in range(exponent)]
        tensors.append(f"({' '.join(factors)})")
    try:
        solution = infer_sizes(f"{', '.join(tensors)} ->", [(row.given,) for row, _, _ in products])
    except ShapeError as error:
        raise Mismatch(products[0][0].place, error.diagnostic.reason) from error
    free = {atom for name in solution.free for atom in atoms_of(solution.values[name])}
    for atom, name in identifiers.items():
        if not symbols_of(solution.values[name]) & free:
            found.bindings[atom] = solution.values[name]
    return rows


def _identifier(atom: str) -> str:
    """A callee's symbol stands apart from the caller's by a dotted prefix, which annotations do not
    have.
    """
    return atom.rpartition(".")[2]


def _compare(rows: list[_Row], unknown: set[str], found: Match, facts: Facts) -> None:
    """Rows without unknown symbols must agree; one that still has some says nothing yet, and is a
    condition of its own.
    """
    for row in rows:
        if _open(row, unknown, found) or row.pattern == row.given:
            continue
        decision = decide(row.pattern, Comparison.EQ, row.given, facts)
        if isinstance(decision, Never):
            raise Mismatch(row.place, f"{row.pattern} is never {row.given}")
        if not isinstance(decision, Always):
            found.conditions.append((row.place, Claim(row.given, Comparison.EQ, row.pattern)))
