"""The exact condition under which a claim holds, as people write it.

Every claim is its own exact condition; this file finds a simpler one where there is one:

    (n - 2)*(n + 2) >= 5   n >= 3          8*s % n == 0 stays
    s//4*4 == s            s % 4 == 0      3*a*b % (6*a) == 0   b % 2 == 0
    2*n == 2*m             m == n          a*b + b + 1 > b      proved, not asked here
"""

from __future__ import annotations

from collections.abc import Mapping
from math import gcd

from dimsolve.ir.expression import Comparison

from ..algebra.budget import Budget, OutOfBudgetError
from ..algebra.dims import Call, Function
from ..algebra.monomials import UNIT, Monomial
from ..algebra.poly import Dim, Poly, TooLarge, atoms_of, build, content, divide_exactly, terms_of
from ..algebra.univariate import Run, sign_runs
from .claims import Claim, Sign, difference
from .congruence_conditions import remainder_text, where_divides
from .drafts import cancelled
from .facts import Facts
from .one_atom import coefficients_of, line_in
from .remainders import divided

STEPS = 8_000
MEETS = {Sign.NONNEGATIVE: (0, 1), Sign.ZERO: (0,), Sign.NONZERO: (-1, 1)}
"""What is asked of an expression -> the signs of the values that meet it."""


def condition_of(claim: Claim, facts: Facts) -> tuple[str, ...]:
    """Returns texts whose conjunction holds exactly where the claim does, for values that satisfy
    the facts.

    >>> from dimsolve.solver.proof.facts import NO_FACTS
    >>> from dimsolve.solver.algebra.dims import mod
    >>> from dimsolve.solver.algebra.poly import symbol
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
    """(dividend, divisor, r) where ``dim == 0`` says ``dividend % divisor == r``; from ``//`` and
    ceildiv too.
    """
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
        charts = facts.atlas.charts
        found = where_divides(divisor, dividend - remainder, charts, Budget(STEPS))
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
    factor = _shared([*terms_of(dividend), *terms_of(divisor)])
    shared = common * build({factor: 1})
    left, right = divide_exactly(dividend, shared), divide_exactly(divisor, shared)
    assert left is not None and right is not None
    return left, right


def _shared(monomials: list[Monomial]) -> Monomial:
    """The greatest monomial of symbols that divides all of them; symbols are positive."""
    first, *others = monomials
    exponents = {a: e for a, e in first if not isinstance(a, Call)}
    for monomial in others:
        have = dict(monomial)
        exponents = {a: min(e, have[a]) for a, e in exponents.items() if a in have}
    return tuple(sorted(exponents.items()))


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
    """One unknown: ``n >= 3``, or ``n >= 3`` and ``n <= 9``, or ``n == 4``; () where it is no
    single interval.
    """
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
    factor = _shared(list(terms))
    return cancelled(build(terms), factor)


def _sides(dim: Dim, sign: Sign, rising: bool) -> str:
    """The terms with a plus on one side, those with a minus on the other: ``a*b >= c + 1`` or ``c <
    a*b``.
    """
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
