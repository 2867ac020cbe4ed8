"""The exact condition under which a claim holds, as people write it.

Every claim is its own exact condition; this file finds a simpler one where there is one:

    (n - 2)*(n + 2) >= 5   n >= 3          8*s % n == 0 stays
    s//4*4 == s            s % 4 == 0      3*a*b % (6*a) == 0   b % 2 == 0
    2*n == 2*m             m == n          a*b + b + 1 > b      proved, not asked here

Where a constant divides a polynomial, the classes modulo each prime power are listed where they are
few, and described symbol by symbol where they are such a product; else the polynomial itself is the
condition, without factors that change nothing:

    8*s  by 3              s % 3 == 0      3*a*b  by 6                      a*b % 2 == 0
    6*s + 2  by 8          s % 4 == 1      a*b  by 2, a known to be odd     b % 2 == 0
    9*a + b  by 8          (a + b) % 8 == 0
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from math import gcd

from dimsolve.ir.expression import Comparison

from ..algebra.budget import Budget, OutOfBudgetError
from ..algebra.dims import Call, Function
from ..algebra.integers import join_congruences, prime_powers, solve_congruence
from ..algebra.poly import (
    UNIT,
    Dim,
    Monomial,
    Poly,
    TooLarge,
    atoms_of,
    build,
    coefficients_of,
    common_monomial,
    content,
    divide_exactly,
    line_in,
    symbol,
    terms_of,
    value_of,
)
from ..algebra.signs import Run, sign_runs
from .cells import Cell, cancelled
from .claims import Claim, Sign, difference
from .facts import Facts
from .floors import divided

MAX_POINTS = 1_024


@dataclass(frozen=True, slots=True)
class Class:
    """``name % modulus == residue``, or != where it is excluded."""

    name: str
    modulus: int
    residue: int
    excluded: bool = False

    def __str__(self) -> str:
        sign = "!=" if self.excluded else "=="
        return f"{self.name} % {self.modulus} {sign} {self.residue}"


@dataclass(frozen=True, slots=True)
class Whole:
    """``dim % modulus == 0``."""

    dim: Dim
    modulus: int

    def __str__(self) -> str:
        return f"{remainder_text(self.dim, self.modulus)} == 0"


Condition = Class | Whole


def remainder_text(dividend: Dim, divisor: Dim) -> str:
    """Returns ``dividend % divisor`` with the brackets that reading needs.

    >>> remainder_text(symbol("a") + symbol("b"), 4), remainder_text(8 * symbol("s"), symbol("n"))
    ('(a + b) % 4', '8*s % n')
    """
    return str(Call(Function.MOD, (dividend, divisor)))[1:-1]


def where_divides(modulus: int, dim: Dim, cells: Sequence[Cell], budget: Budget) -> tuple[str, ...]:
    """Returns texts that hold together exactly where modulus divides dim in the cells.

    dim is a polynomial in symbols; somewhere it is divided and somewhere not.

    >>> from dimsolve.solver.proof.cells import WHOLE
    >>> s = symbol("s")
    >>> where_divides(24, 8 * s * s, [WHOLE], Budget(10_000))
    ('s % 3 == 0',)
    """
    terms = {m: c % modulus for m, c in terms_of(dim).items() if c % modulus}
    common = gcd(modulus, *terms.values())
    modulus //= common
    dim = build({m: c // common for m, c in terms.items()})
    line = _one_line(modulus, dim)
    if line is not None:
        return (str(line),)
    powers = prime_powers(modulus)
    parts = [modulus] if powers is None else [prime**exponent for prime, exponent in powers]
    found: list[Condition] = []
    for part in parts:
        found.extend(_where_divides_power(part, dim, cells, budget))
    return tuple(str(condition) for condition in _joined(found))


def _one_line(modulus: int, dim: Dim) -> Class | None:
    """``c*s + d`` is solved for s, whatever the size of the modulus."""
    terms = dict(terms_of(dim))
    constant = terms.pop(UNIT, 0)
    if len(terms) != 1:
        return None
    ((monomial, coefficient),) = terms.items()
    if len(monomial) != 1 or monomial[0][1] != 1 or isinstance(monomial[0][0], Call):
        return None
    solution = solve_congruence(coefficient, -constant, modulus)
    return None if solution is None else Class(monomial[0][0], solution[1], solution[0])


def _where_divides_power(
    modulus: int, dim: Dim, cells: Sequence[Cell], budget: Budget
) -> Iterable[Condition]:
    terms = {m: c % modulus for m, c in terms_of(dim).items() if c % modulus}
    common = gcd(modulus, *terms.values())
    modulus, reduced = modulus // common, build({m: c // common for m, c in terms.items()})
    if modulus == 1:
        return ()
    names = sorted(atoms_of(reduced))
    if not names or modulus ** len(names) > MAX_POINTS or any(isinstance(n, Call) for n in names):
        return (_whole(modulus, reduced),)
    allowed = _allowed(modulus, names, cells, budget)
    budget.spend(len(allowed) * len(terms_of(reduced)))
    hits = [
        point
        for point in allowed
        if value_of(terms_of(reduced), dict(zip(names, point, strict=True))) % modulus == 0
    ]
    described = _by_symbol(modulus, names, allowed, hits)
    return (_whole(modulus, reduced),) if described is None else described


def _whole(modulus: int, dim: Dim) -> Whole:
    """``dim % modulus == 0`` with a leading coefficient of 1 where that is possible."""
    terms = {m: c % modulus for m, c in terms_of(dim).items()}
    for monomial in sorted(terms, key=lambda m: (-sum(e for _, e in m), m)):
        if monomial and gcd(terms[monomial], modulus) == 1:
            inverse = pow(terms[monomial], -1, modulus)
            terms = {m: c * inverse % modulus for m, c in terms.items()}
            break
    small = {m: c - modulus if m and 2 * c > modulus else c for m, c in terms.items() if c}
    return Whole(build(small), modulus)


def _allowed(
    modulus: int, names: list[str], cells: Sequence[Cell], budget: Budget
) -> list[tuple[int, ...]]:
    """The residues that the names can have in the cells; more where that is not known."""
    everything = list(product(range(modulus), repeat=len(names)))
    found: set[tuple[int, ...]] = set()
    for cell in cells:
        values = [cell.values.get(name, symbol(name)) for name in names]
        atoms = sorted(set().union(*(atoms_of(value) for value in values)))
        if modulus ** len(atoms) > MAX_POINTS:
            return everything
        budget.spend(modulus ** len(atoms) * len(names))
        for point in product(range(modulus), repeat=len(atoms)):
            at = dict(zip(atoms, point, strict=True))
            found.add(tuple(value_of(terms_of(value), at) % modulus for value in values))
        if len(found) == len(everything):
            return everything
    return sorted(found)


def _by_symbol(
    modulus: int,
    names: list[str],
    allowed: list[tuple[int, ...]],
    hits: list[tuple[int, ...]],
) -> list[Condition] | None:
    """One condition per symbol, where the hits are those of the allowed that satisfy them all."""
    chosen = [{hit[i] for hit in hits} for i in range(len(names))]
    within = [p for p in allowed if all(x in c for x, c in zip(p, chosen, strict=True))]
    if len(within) != len(hits):
        return None
    found: list[Condition] = []
    for i, name in enumerate(names):
        possible = {point[i] for point in allowed}
        if chosen[i] != possible:
            described = _one_class(modulus, name, possible, chosen[i])
            if described is None:
                return None
            found.append(described)
    return found


def _one_class(modulus: int, name: str, possible: set[int], chosen: set[int]) -> Class | None:
    """The shortest period of which the chosen residues are one class, or all but one."""
    for period in (d for d in range(2, modulus + 1) if modulus % d == 0):
        for excluded in (False, True):
            residues = {x % period for x in (possible - chosen if excluded else chosen)}
            if len(residues) != 1:
                continue
            (residue,) = residues
            if {x for x in possible if (x % period == residue) != excluded} == chosen:
                return Class(name, period, residue, excluded)
    return None


def _joined(conditions: Iterable[Condition]) -> list[Condition]:
    """Conditions on one symbol, or on one polynomial, for several prime powers become one."""
    found: list[Condition] = []
    for new in conditions:
        for i, old in enumerate(found):
            joined = _join(old, new)
            if joined is not None:
                found[i] = joined
                break
        else:
            found.append(new)
    return found


def _join(a: Condition, b: Condition) -> Condition | None:
    match a, b:
        case Class(name, m, r, False), Class(other, n, s, False) if name == other:
            solution = join_congruences((r, m), (s, n))
            return None if solution is None else Class(name, solution[1], solution[0])
        case Whole(dim, m), Whole(other, n) if dim == other and gcd(m, n) == 1:
            return Whole(dim, m * n)
        case _:
            return None


STEPS = 8_000
MEETS = {Sign.NONNEGATIVE: (0, 1), Sign.ZERO: (0,), Sign.NONZERO: (-1, 1)}
"""What is asked of an expression -> the signs of the values that meet it."""


def condition_of(claim: Claim, facts: Facts) -> tuple[str, ...]:
    """Returns texts that hold together exactly where the claim does under the facts.

    >>> from dimsolve.solver.proof.facts import NO_FACTS
    >>> from dimsolve.solver.algebra.dims import mod
    >>> condition_of(Claim(mod(8 * symbol("s"), 3), Comparison.EQ, 0), NO_FACTS)
    ('s % 3 == 0',)
    """
    try:
        dim, sign = difference(claim)
        remainder = _as_remainder(dim) if sign is not Sign.NONNEGATIVE else None
        if remainder is not None:
            return _congruence(*remainder, sign, facts)
        rising = claim.comparison in (Comparison.LT, Comparison.LE)
        return _polynomial(dim, sign, rising)
    except (OutOfBudgetError, TooLarge, ZeroDivisionError):
        return (str(claim),)


def _as_remainder(dim: Dim) -> tuple[Dim, Dim, int] | None:
    """(dividend, divisor, r) where ``dim == 0`` says ``dividend % divisor == r``."""
    for atom in sorted(atoms_of(dim)):
        if not isinstance(atom, Call) or len(atom.arguments) != 2:
            continue
        dividend, divisor = atom.arguments
        slope, rest = line_in(dim, atom)
        if slope == 0 or any(isinstance(a, Call) for a in atoms_of(slope) | atoms_of(rest)):
            continue
        if atom.function is Function.MOD and isinstance(slope, int) and isinstance(rest, int):
            return None if rest % slope else (dividend, divisor, -rest // slope)
        scale = divide_exactly(slope, divisor)
        if not isinstance(scale, int):
            continue
        if atom.function is Function.FLOORDIV:
            gap = rest + scale * dividend
            if isinstance(gap, int) and gap % scale == 0:
                return dividend, divisor, gap // scale
        if atom.function is Function.CEILDIV and rest + scale * dividend == 0:
            return dividend, divisor, 0
    return None


def _congruence(
    dividend: Dim, divisor: Dim, remainder: int, sign: Sign, facts: Facts
) -> tuple[str, ...]:
    """``dividend % divisor == remainder``, or != it."""
    text = f"{remainder_text(dividend, divisor)} {sign.value[:2]} {remainder}"
    if isinstance(divisor, int):
        plain = not any(isinstance(a, Call) for a in atoms_of(dividend))
        if not plain or divisor <= 1 or not 0 <= remainder < divisor:
            return (text,)
        cells = facts.cover.cells
        found = where_divides(divisor, dividend - remainder, cells, Budget(STEPS))
        if sign is Sign.ZERO:
            return found or (text,)
        return _opposite(found) or (text,)
    if remainder:
        return (text,)
    dividend, divisor = _cancelled_both(divided(dividend, divisor)[1], divisor)
    if isinstance(divisor, int):
        return _congruence(dividend, divisor, 0, sign, facts)
    return (f"{remainder_text(dividend, divisor)} {sign.value[:2]} 0",)


def _opposite(conditions: tuple[str, ...]) -> tuple[str, ...]:
    if len(conditions) != 1:
        return ()
    (text,) = conditions
    return (text.replace("==", "!=") if "==" in text else text.replace("!=", "=="),)


def _cancelled_both(dividend: Dim, divisor: Poly) -> tuple[Dim, Dim]:
    """Both without their common factors: ``6*a*b`` by ``4*a*c`` is ``3*b`` by ``2*c``."""
    common = gcd(content(dividend), content(divisor))
    factor = common_monomial([*terms_of(dividend), *terms_of(divisor)], _is_symbol)
    shared = common * build({factor: 1})
    left, right = divide_exactly(dividend, shared), divide_exactly(divisor, shared)
    assert left is not None and right is not None
    return left, right


def _is_symbol(atom: str) -> bool:
    return not isinstance(atom, Call)


def _polynomial(dim: Dim, sign: Sign, rising: bool) -> tuple[str, ...]:
    """``dim >= 0``, ``== 0`` or ``!= 0``, without factors that change nothing."""
    if isinstance(dim, int):
        return (f"{dim} {sign.value}",)
    names = atoms_of(dim)
    if len(names) == 1 and not isinstance(next(iter(names)), Call):
        solved = _intervals(dim, sign, next(iter(names)))
        if solved:
            return solved
    return (_sides(_reduced(dim, sign), sign, rising),)


def _intervals(dim: Poly, sign: Sign, name: str) -> tuple[str, ...]:
    """One unknown: ``n >= 3``, also ``n <= 9``, or ``n == 4``; () for no single interval."""
    runs = sign_runs(coefficients_of(dim), 1, None, Budget(STEPS))
    inside: list[Run] = []
    outside: list[Run] = []
    for run in runs:
        side = inside if run.sign in MEETS[sign] else outside
        if side and side[-1].stop is not None and side[-1].stop + 1 == run.start:
            side[-1] = Run(side[-1].start, run.stop, 0)
        else:
            side.append(run)
    if len(outside) == 1 and outside[0].start == outside[0].stop and outside[0].start > 1:
        return (f"{name} != {outside[0].start}",)
    if len(inside) != 1:
        return ()
    start, stop, _ = inside[0]
    if start == stop:
        return (f"{name} == {start}",)
    lower = (f"{name} >= {start}",) if start > 1 else ()
    return lower if stop is None else (*lower, f"{name} <= {stop}")


def _reduced(dim: Poly, sign: Sign) -> Dim:
    """dim without its content and without factors that are positive."""
    constant = dim.terms.get(UNIT, 0)
    common = gcd(*(c for m, c in dim.terms.items() if m))
    if sign is not Sign.NONNEGATIVE:
        common = gcd(common, constant)
    terms = {m: c // common for m, c in dim.terms.items() if c // common}
    factor = common_monomial(terms, _is_symbol)
    return cancelled(build(terms), factor)


def _sides(dim: Dim, sign: Sign, rising: bool) -> str:
    """Terms with a plus on one side, others on the other: ``a*b >= c + 1``, ``c < a*b``."""
    terms: Mapping[Monomial, int] = terms_of(dim)
    plus = build({m: c for m, c in terms.items() if c > 0})
    minus = build({m: -c for m, c in terms.items() if c < 0})
    if sign is not Sign.NONNEGATIVE:
        if isinstance(plus, int):
            plus, minus = minus, plus
        return f"{plus} {sign.value[:2]} {minus}"
    strict = terms.get(UNIT, 0) == -1
    if strict:
        minus = minus - 1
    if isinstance(plus, int) or (rising and isinstance(minus, Poly)):
        return f"{minus} {'<' if strict else '<='} {plus}"
    return f"{plus} {'>' if strict else '>='} {minus}"
