"""Solving equations inside a draft: exact, and complete where the equation is of a kind that has a solution theory.

    b == a + 3            replaces b
    6*a == 4*b + 2        linear: a = 2*t + 1, b = 3*t + 1      (Euclid's algorithm on the coefficients)
    a*b == 6*c            products: four cases, see `dimsolve.solver.monomials`
    n*n - n == 12         one unknown: its integer roots
    a*a == 4*q + 1        constant modulus: a = 2*t + 1         (residue classes)

What fits none of these stays in the chart as a polynomial that is zero.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import gcd

from .charts import Range
from .claims import Sign
from .dims import floor_div
from .drafts import Draft, Empty, Goal, Split
from .monomials import Balance, Family, solve_balances
from .poly import (
    UNIT,
    Dim,
    Monomial,
    Poly,
    atoms_of,
    build,
    divide_exactly,
    divide_monomials,
    symbol,
    terms_of,
)
from .residues import residue_table
from .univariate import Run, sign_runs

MARK = "!"
"""Atoms that begin with it stand for a question, and are always replaced."""

MAX_ROOTS = 16
MAX_CLASSES = 16
MAX_ATOMS = 10


def solve(draft: Draft, dim: Dim) -> None:
    """Adds dim == 0 to the draft; raises Empty where it cannot be."""
    if isinstance(dim, int):
        if dim:
            raise Empty
        return
    if any(atom.startswith(MARK) for atom in atoms_of(dim)):
        _answer(draft, dim)
        return
    if misses_zero(draft.range(dim)):
        raise Empty
    reduced = _reduced(draft, dim)
    if isinstance(reduced, int):
        solve(draft, reduced)
        return
    for rule in (_isolate, _step_of_euclid, _factor, _roots, _split_residues):
        if rule(draft, reduced):
            return
    if reduced not in draft.zero:
        draft.zero.append(reduced)


def _answer(draft: Draft, dim: Poly) -> None:
    """``!0 - value == 0``: keeps the value of a question."""
    mark = next(atom for atom in atoms_of(dim) if atom.startswith(MARK))
    draft.set(mark, symbol(mark) - dim * dim.terms[((mark, 1),)])


def misses_zero(values: Range) -> bool:
    """Whether a range does not contain 0."""
    low, high = values
    return (low is not None and low > 0) or (high is not None and high < 0)


def _reduced(draft: Draft, dim: Poly) -> Dim:
    """dim without its content and without factors that are never zero; Empty where no integers solve it."""
    constant = dim.terms.get(UNIT, 0)
    common = gcd(*(c for m, c in dim.terms.items() if m))
    if constant % common:
        raise Empty
    terms = {m: c // common for m, c in dim.terms.items()}
    if constant == 0:
        factor = _common_factor(draft, terms)
        if factor:
            terms = {_cancelled(m, factor): c for m, c in terms.items()}
    return build(terms)


def _common_factor(draft: Draft, terms: Mapping[Monomial, int]) -> Monomial:
    """The greatest monomial of positive atoms that divides every term."""
    first, *others = terms
    exponents = {a: e for a, e in first if is_positive(draft, a)}
    for monomial in others:
        have = dict(monomial)
        exponents = {a: min(e, have[a]) for a, e in exponents.items() if a in have}
    return tuple(sorted(exponents.items()))


def is_positive(draft: Draft, atom: str) -> bool:
    """Whether the atom is known to be at least 1."""
    least = draft.lower.get(atom, 1)
    return least is not None and least >= 1


def _cancelled(monomial: Monomial, factor: Monomial) -> Monomial:
    quotient = divide_monomials(monomial, factor)
    assert quotient is not None
    return quotient


def _isolate(draft: Draft, dim: Poly) -> bool:
    """Replaces an atom that occurs once, alone, with coefficient 1 or -1; best one whose bounds are met anyway."""
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
        new_names = any(a.startswith("$") for a in atoms_of(value))
        score = _fits(draft, atom, value), atom.startswith("$") != new_names, atom
        if best is None or score > best[0]:
            best = score, atom, value
    if best is None:
        return False
    draft.set(best[1], best[2])
    return True


def _fits(draft: Draft, atom: str, value: Dim) -> bool:
    """Whether the value is within the atom's bounds without anything more being said."""
    low, high = draft.range(value)
    least, most = draft.lower.get(atom, 1), draft.upper.get(atom)
    return (least is None or (low is not None and low >= least)) and (
        most is None or (high is not None and high <= most)
    )


def _step_of_euclid(draft: Draft, dim: Poly) -> bool:
    """Replaces the atom with the least coefficient so that all others get smaller (Pugh's Omega test, 1991)."""
    if any(len(m) > 1 or (m and m[0][1] > 1) for m in dim.terms):
        return False
    lead = min((m for m in dim.terms if m), key=lambda m: (abs(dim.terms[m]), m))
    divisor = dim.terms[lead]
    value = draft.parameter(None)
    for monomial, coefficient in dim.terms.items():
        quotient = (2 * coefficient + abs(divisor)) // (2 * abs(divisor))
        if monomial != lead and quotient:
            value = value - build({monomial: quotient if divisor > 0 else -quotient})
    draft.pending.append((dim, Sign.ZERO))
    draft.set(lead[0][0], value)
    return True


def _factor(draft: Draft, dim: Poly) -> bool:
    """``factor * (x + rest) == 0``, found by writing dim as a line in x: x is -rest unless the factor is 0."""
    names = sorted(atoms_of(dim))
    if len(names) > MAX_ATOMS or len(dim.terms) > 24:
        return False
    for name in names:
        slope, rest = _line_in(dim, name)
        if isinstance(slope, int) or len(slope.terms) == 1:
            continue
        quotient = divide_exactly(rest, slope)
        if quotient is None:
            continue
        line = symbol(name) + quotient
        if misses_zero(draft.range(slope)):
            draft.pending.append((line, Sign.ZERO))
            return True
        raise Split(([(slope, Sign.ZERO)], {}), ([(slope, Sign.NONZERO), (line, Sign.ZERO)], {}))
    return False


def _line_in(dim: Poly, name: str) -> tuple[Dim, Dim]:
    """(slope, rest) of dim == slope*name + rest; slope 0 where name occurs with a higher power."""
    slope: dict[Monomial, int] = {}
    rest: dict[Monomial, int] = {}
    for monomial, coefficient in dim.terms.items():
        exponent = dict(monomial).get(name, 0)
        if exponent > 1:
            return 0, dim
        if exponent:
            slope[tuple(power for power in monomial if power[0] != name)] = coefficient
        else:
            rest[monomial] = coefficient
    return build(slope), build(rest)


def _roots(draft: Draft, dim: Poly) -> bool:
    """One unknown: the integer roots within its bounds, one case each."""
    (name, *others) = atoms_of(dim)
    if others:
        return False
    coefficients = coefficients_of(dim)
    least, most = draft.lower.get(name, 1), draft.upper.get(name)
    roots: list[int] = []
    if least is None:
        mirrored = [-c if i % 2 else c for i, c in enumerate(coefficients)]
        roots = [-root for root in _zeros(sign_runs(mirrored, 1, None, draft.budget))]
        least = 0
    roots += _zeros(sign_runs(coefficients, least, most, draft.budget))
    if len(roots) > MAX_ROOTS:
        return False
    if not roots:
        raise Empty
    if len(roots) == 1:
        draft.pending.append((symbol(name) - roots[0], Sign.ZERO))
        return True
    raise Split(*(([(symbol(name) - root, Sign.ZERO)], {}) for root in sorted(roots)))


def _zeros(runs: Sequence[Run]) -> list[int]:
    """The positions with sign 0; a polynomial that is not constant has no endless run of them."""
    return [x for run in runs if run.sign == 0 for x in range(run.start, (run.stop or 0) + 1)]


def coefficients_of(dim: Poly) -> list[int]:
    """Returns the coefficients of a polynomial in one atom, the constant first."""
    degree = max(m[0][1] if m else 0 for m in dim.terms)
    coefficients = [0] * (degree + 1)
    for monomial, coefficient in dim.terms.items():
        coefficients[monomial[0][1] if monomial else 0] = coefficient
    return coefficients


def _split_residues(draft: Draft, dim: Poly) -> bool:
    """``c*q + p == 0`` with a constant c: the residue classes in which c divides p, one case each."""
    for monomial, modulus in sorted(dim.terms.items(), key=lambda term: abs(term[1])):
        if len(monomial) != 1 or monomial[0][1] != 1:
            continue
        name, rest = monomial[0][0], dim - build({monomial: modulus})
        if name in atoms_of(rest):
            continue
        table = residue_table(rest, abs(modulus), draft.budget)
        if table is None:
            continue
        if not table.classes:
            raise Empty
        if table.is_everything or len(table.classes) > MAX_CLASSES:
            continue
        cases: list[tuple[list[Goal], dict[str, Dim]]] = []
        for residues in table.classes:
            goals: list[Goal] = []
            for atom, period, residue in zip(table.atoms, table.periods, residues, strict=True):
                if period > 1:
                    whole = period * floor_div(symbol(atom), period)
                    goals.append((symbol(atom) - whole - residue, Sign.ZERO))
            cases.append((goals, {}))
        raise Split(*cases)
    return False


def solve_products(draft: Draft) -> list[Draft] | None:
    """Returns the cases in which all equations between products are solved; None where there are none to solve."""
    found = {dim: balance for dim in draft.zero if (balance := _balance(draft, dim)) is not None}
    if not found or len({a for b in found.values() for a in b.exponents}) > MAX_ATOMS:
        return None
    family = solve_balances(list(found.values()), draft.budget)
    if family is None:
        return None
    solved = draft.copy()
    solved.zero = [dim for dim in draft.zero if dim not in found]
    return [_case(solved, family, factors) for factors in family.cases]


def _balance(draft: Draft, dim: Dim) -> Balance | None:
    terms = list(terms_of(dim).items())
    if len(terms) != 2 or terms[0][1] * terms[1][1] > 0:
        return None
    if not all(is_positive(draft, atom) for atom in atoms_of(dim)):
        return None
    (left, c), (right, d) = terms
    exponents = dict(left)
    for atom, exponent in right:
        exponents[atom] = exponents.get(atom, 0) - exponent
    common = gcd(c, d)
    return Balance({a: e for a, e in exponents.items() if e}, abs(d) // common, abs(c) // common)


def _case(draft: Draft, family: Family, factors: tuple[int, ...]) -> Draft:
    case = draft.copy()
    parameters = [case.parameter(1) for _ in family.powers]
    for i, atom in enumerate(family.atoms):
        value: Dim = factors[i]
        for parameter, powers in zip(parameters, family.powers, strict=True):
            value = value * parameter ** powers[i]
        case.set(atom, value)
    return case
