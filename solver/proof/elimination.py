"""Equations in a partial cell: exact, and complete where the kind of equation has a theory.

    b == a + 3             replaces b
    6*a == 4*b + 2         linear: a = 2*t + 1, b = 3*t + 1, by Euclid's algorithm
    n*n - n == 12          one unknown: its integer roots
    (a + 1)*(b - c) == 0   a line in b: b = c

Some leave a few cases, because integers divide each other or do not:

    x*y + x == 6           x divides 6: x = 1, 2, 3 or 6
    a*a == 4*q + 1         4 divides a*a - 1: a = 2*t + 1
    x*(3*y + 1) == y*y     3*y + 1 divides 9*y*y, hence 1

Products of positive atoms are solved together, by `dimsolve.solver.algebra.products`:

    a*b == c*d, a == 2*c   parameters replace all of them
    h*t == 12              six cases

What fits none of these stays in the cell as a polynomial that is zero.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import gcd

from ..algebra.dims import floor_div
from ..algebra.divisors import ResidueTable, residue_table
from ..algebra.integers import divisors
from ..algebra.poly import (
    UNIT,
    Dim,
    Poly,
    atoms_of,
    build,
    coefficients_of,
    divide_exactly,
    line_in,
    symbol,
    terms_of,
)
from ..algebra.products import Balance, Family, solve_balances
from ..algebra.signs import Run, sign_runs
from .cells import Empty, Goal, PartialCell, Range, Split, cancelled, least_of
from .claims import Sign

MAX_ATOMS = 10


def solve_products(partial: PartialCell) -> list[PartialCell] | None:
    """Returns the cases that solve all equations between products, or None."""
    found = {
        dim: balance for dim in partial.zero if (balance := balance_of(partial, dim)) is not None
    }
    if not found or len({a for b in found.values() for a in b.exponents}) > MAX_ATOMS:
        return None
    family = solve_balances(list(found.values()), partial.budget)
    if family is None:
        return None
    solved = partial.copy()
    solved.zero = [dim for dim in partial.zero if dim not in found]
    return [_case(solved, family, factors) for factors in family.cases]


def balance_of(partial: PartialCell, dim: Dim) -> Balance | None:
    """Returns dim == 0 as an equation of products; None where it is none, or an atom may be 0."""
    terms = list(terms_of(dim).items())
    if len(terms) != 2 or terms[0][1] * terms[1][1] > 0:
        return None
    if not all(partial.is_positive(atom) for atom in atoms_of(dim)):
        return None
    (left, c), (right, d) = terms
    exponents = dict(left)
    for atom, exponent in right:
        exponents[atom] = exponents.get(atom, 0) - exponent
    common = gcd(c, d)
    return Balance({a: e for a, e in exponents.items() if e}, abs(d) // common, abs(c) // common)


def _case(partial: PartialCell, family: Family, factors: tuple[int, ...]) -> PartialCell:
    case = partial.copy()
    parameters = [case.parameter(1) for _ in family.powers]
    for i, atom in enumerate(family.atoms):
        value: Dim = factors[i]
        for parameter, powers in zip(parameters, family.powers, strict=True):
            value = value * parameter ** powers[i]
        case.set(atom, value)
    return case


MAX_CLASSES = 16
MAX_DIVISORS = 24


def split_cases(partial: PartialCell, dim: Poly) -> None:
    """Raises Split where dim == 0 leaves a few cases, Empty where it leaves none."""
    _split_divisors(partial, dim)
    _split_residues(partial, dim)
    _split_quotient(partial, dim)


def _split_divisors(partial: PartialCell, dim: Poly) -> None:
    """``x * (...) == constant``: x is one of the constant's divisors."""
    constant = dim.terms.get(UNIT, 0)
    if not constant:
        return
    first, *others = (dict(m) for m in dim.terms if m)
    shared = [a for a in first if all(a in m for m in others)]
    found = divisors(abs(constant), MAX_DIVISORS) if shared else None
    if found is None:
        return
    name = min(shared, key=lambda a: (not partial.is_positive(a), a))
    power = min(m[name] for m in (first, *others))
    least, most = least_of(name, partial.lower), partial.upper.get(name)
    values = [d for d in found if constant % d**power == 0]
    if not partial.is_positive(name):
        values = [-d for d in reversed(values)] + values
    values = [v for v in values if (least is None or v >= least) and (most is None or v <= most)]
    if not values:
        raise Empty
    raise Split(*([(symbol(name) - value, Sign.ZERO)] for value in values))


def _split_residues(partial: PartialCell, dim: Poly) -> None:
    """A constant that divides some terms divides the sum of the others."""
    if balance_of(partial, dim) is not None:
        return
    moduli = {
        abs(c)
        for m, c in dim.terms.items()
        if len(m) == 1 and m[0][1] == 1 and sum(m[0][0] in dict(n) for n in dim.terms) == 1
    }
    for modulus in sorted(moduli):
        table = residue_table(dim, modulus, partial.budget)
        if table is None:
            continue
        if not table.classes:
            raise Empty
        if table.is_everything or len(table.classes) > MAX_CLASSES:
            continue
        raise Split(*class_goals(table))


def class_goals(table: ResidueTable) -> list[list[Goal]]:
    """Returns, for each class of the table, the goals that say that the atoms are in it."""
    cases: list[list[Goal]] = []
    for residues in table.classes:
        goals: list[Goal] = []
        for atom, period, residue in zip(table.atoms, table.periods, residues, strict=True):
            if period > 1:
                whole = period * floor_div(symbol(atom), period)
                goals.append((symbol(atom) - whole - residue, Sign.ZERO))
        cases.append(goals)
    return cases


def _split_quotient(partial: PartialCell, dim: Poly) -> None:
    """``x * (p*y + r) == b(y)``: p*y + r divides p**k * b(-r/p), a constant."""
    if len(atoms_of(dim)) != 2:
        return
    for name in sorted(atoms_of(dim)):
        slope, rest = line_in(dim, name)
        if isinstance(slope, int) or isinstance(rest, int) or atoms_of(slope) != atoms_of(rest):
            continue
        line, curve = coefficients_of(slope), coefficients_of(rest)
        if len(line) != 2:
            continue
        constant = sum(
            c * (-line[0]) ** i * line[1] ** (len(curve) - 1 - i) for i, c in enumerate(curve)
        )
        found = divisors(abs(constant), MAX_DIVISORS) if constant else None
        if found is not None:
            values = [-d for d in reversed(found)] + found
            raise Split(*([(slope - value, Sign.ZERO)] for value in values))


MAX_ROOTS = 16
MAX_VALUES = 8


def solve(partial: PartialCell, dim: Dim) -> None:
    """Adds dim == 0 to the partial cell; raises Empty where it cannot be."""
    if isinstance(dim, int):
        if dim:
            raise Empty
        return
    if misses_zero(partial.range(dim)):
        raise Empty
    _raise_factors(partial, dim)
    reduced = _reduced(partial, dim)
    if isinstance(reduced, int):
        solve(partial, reduced)
        return
    if any(rule(partial, reduced) for rule in (_isolate, _step_of_euclid, _roots, _factor)):
        return
    split_cases(partial, reduced)
    if reduced not in partial.zero:
        partial.zero.append(reduced)


def misses_zero(values: Range) -> bool:
    """Whether a range does not contain 0."""
    low, high = values
    return (low is not None and low > 0) or (high is not None and high < 0)


def _raise_factors(partial: PartialCell, dim: Poly) -> None:
    """``x == y*z`` with x >= 1 and y, z >= 0: neither y nor z is 0."""
    if len(dim.terms) != 2 or sum(c > 0 for c in dim.terms.values()) != 1:
        return
    for one, other in (list(dim.terms), list(dim.terms)[::-1]):
        if all(partial.is_positive(atom) for atom, _ in one):
            for atom, _ in other:
                if least_of(atom, partial.lower) == 0:
                    partial.pending.append((symbol(atom) - 1, Sign.NONNEGATIVE))
                    partial.lower[atom] = 1


def _reduced(partial: PartialCell, dim: Poly) -> Dim:
    """dim without content and factors that are never zero; Empty: no integers solve it."""
    constant = dim.terms.get(UNIT, 0)
    common = gcd(*(c for m, c in dim.terms.items() if m))
    if constant % common:
        raise Empty
    reduced = build({m: c // common for m, c in dim.terms.items()})
    return cancelled(reduced, partial.common_factor(list(dim.terms)))


def _isolate(partial: PartialCell, dim: Poly) -> bool:
    """Replaces an atom that occurs once, with coefficient 1 or -1; best within its bounds."""
    counts: dict[str, int] = {}
    for monomial in dim.terms:
        for atom, _ in monomial:
            counts[atom] = counts.get(atom, 0) + 1
    best: tuple[tuple[bool, bool, str], str, Dim] | None = None
    for monomial, coefficient in dim.terms.items():
        if len(monomial) != 1 or monomial[0][1] != 1 or abs(coefficient) != 1:
            continue
        atom = monomial[0][0]
        if counts[atom] > 1:
            continue
        value = symbol(atom) - dim * coefficient
        if has_few_values(partial, atom) and any(sum(e for _, e in m) > 1 for m in terms_of(value)):
            continue
        new_names = any(a.startswith("$") for a in atoms_of(value))
        score = _fits(partial, atom, value), atom.startswith("$") != new_names, atom
        if best is None or score > best[0]:
            best = score, atom, value
    if best is None:
        return False
    partial.set(best[1], best[2])
    return True


def has_few_values(partial: PartialCell, atom: str) -> bool:
    """Whether an atom is better tried value by value than replaced by a product."""
    least, most = least_of(atom, partial.lower), partial.upper.get(atom)
    return least is not None and most is not None and most - least < MAX_VALUES


def _fits(partial: PartialCell, atom: str, value: Dim) -> bool:
    """Whether the value is within the atom's bounds without anything more being said."""
    low, high = partial.range(value)
    least, most = least_of(atom, partial.lower), partial.upper.get(atom)
    return (least is None or (low is not None and low >= least)) and (
        most is None or (high is not None and high <= most)
    )


def _step_of_euclid(partial: PartialCell, dim: Poly) -> bool:
    """Replaces the atom with the least coefficient (Pugh's Omega test, 1991)."""
    if any(len(m) > 1 or (m and m[0][1] > 1) for m in dim.terms):
        return False
    lead = min((m for m in dim.terms if m), key=lambda m: (abs(dim.terms[m]), m))
    divisor = dim.terms[lead]
    value = partial.parameter(None)
    for monomial, coefficient in dim.terms.items():
        quotient = (2 * coefficient + abs(divisor)) // (2 * abs(divisor))
        if monomial != lead and quotient:
            value = value - build({monomial: quotient if divisor > 0 else -quotient})
    partial.pending.append((dim, Sign.ZERO))
    partial.set(lead[0][0], value)
    return True


def _factor(partial: PartialCell, dim: Poly) -> bool:
    """``factor * (x + rest) == 0`` as a line in x: x is -rest unless the factor is 0."""
    names = sorted(atoms_of(dim))
    if len(names) > MAX_ATOMS or len(dim.terms) > 24:
        return False
    for name in names:
        slope, rest = line_in(dim, name)
        if isinstance(slope, int) or len(slope.terms) == 1:
            continue
        quotient = divide_exactly(rest, slope)
        if quotient is None:
            continue
        line = symbol(name) + quotient
        if misses_zero(partial.range(slope)):
            partial.pending.append((line, Sign.ZERO))
            return True
        raise Split([(slope, Sign.ZERO)], [(slope, Sign.NONZERO), (line, Sign.ZERO)])
    return False


def _roots(partial: PartialCell, dim: Poly) -> bool:
    """One unknown: the integer roots within its bounds, one case each."""
    (name, *others) = atoms_of(dim)
    if others:
        return False
    coefficients = coefficients_of(dim)
    least, most = least_of(name, partial.lower), partial.upper.get(name)
    roots: list[int] = []
    if least is None:
        mirrored = [-c if i % 2 else c for i, c in enumerate(coefficients)]
        roots = [-root for root in _zeros(sign_runs(mirrored, 1, None, partial.budget))]
        least = 0
    roots += _zeros(sign_runs(coefficients, least, most, partial.budget))
    if len(roots) > MAX_ROOTS:
        return False
    if not roots:
        raise Empty
    if len(roots) == 1:
        partial.pending.append((symbol(name) - roots[0], Sign.ZERO))
        return True
    raise Split(*([(symbol(name) - root, Sign.ZERO)] for root in sorted(roots)))


def _zeros(runs: Sequence[Run]) -> list[int]:
    """The positions with sign 0; a polynomial that is not constant has no endless run of them."""
    return [x for run in runs if run.sign == 0 for x in range(run.start, (run.stop or 0) + 1)]
