"""Exact integer polynomials: the one canonical form on which all proofs work.

A length is a `Dim`: a Python ``int`` while it is known, a `Poly` while it is not. A Poly is never
constant, so ``8`` is always the int 8 and two lengths are the same polynomial exactly when ``==``
says so. Concrete shapes therefore cost what ints cost, and nothing in this file knows about SymPy,
whose exact division is a thousand times slower and whose divisibility is unsound.

A polynomial maps monomials to nonzero coefficients. A monomial is a sorted tuple of (atom,
exponent) with positive exponents; the empty one is 1:

    8*s + k*s**2   is   {(("s", 1),): 8, (("k", 1), ("s", 2)): 1}

An atom is a string. A symbol is its name; a function of polynomials that no polynomial can express
(a floor, a minimum) is a `dims.Call`, a string too, whose text is its identity. Multiplication
refuses to build more than `MAX_TERMS` terms (`TooLarge`): a question that needs them is given up,
not waited for.

Besides arithmetic there are exact roots (``x*x = 4*s**2`` gives 2*s, because lengths are positive)
and views of a polynomial as one of a single atom: ``a*b + 2*b - c`` is a line in b with slope a + 2
and rest -c.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from math import gcd
from typing import NamedTuple, TypeAlias

from .integers import integer_root

Monomial: TypeAlias = tuple[tuple[str, int], ...]


UNIT: Monomial = ()


def multiply_monomials(a: Monomial, b: Monomial) -> Monomial:
    """Returns the product of two monomials: exponents of equal atoms add up.

    >>> multiply_monomials((("k", 1),), (("k", 1), ("s", 2)))
    (('k', 2), ('s', 2))
    """
    if not a:
        return b
    if not b:
        return a
    if a[-1][0] < b[0][0]:
        return a + b
    exponents = dict(a)
    for atom, exponent in b:
        exponents[atom] = exponents.get(atom, 0) + exponent
    return tuple(sorted(exponents.items()))


def divide_monomials(a: Monomial, b: Monomial) -> Monomial | None:
    """Returns a / b, or None where b does not divide a.

    >>> divide_monomials((("k", 2), ("s", 2)), (("s", 1),))
    (('k', 2), ('s', 1))
    """
    if not b:
        return a
    exponents = dict(a)
    for atom, exponent in b:
        left = exponents.get(atom, 0) - exponent
        if left < 0:
            return None
        if left:
            exponents[atom] = left
        else:
            del exponents[atom]
    return tuple(exponents.items())


Dim: TypeAlias = "int | Poly"

MAX_TERMS = 2_000
MAX_BITS = 8_192
MAX_WORK = 30_000


class TooLarge(ArithmeticError):
    """More terms, or a coefficient of more bits, than a question about shapes needs."""


class Poly:
    """A polynomial that is not constant, immutable. Made by `symbol` and arithmetic.

    Sums, differences, products and small powers with ints and Polys give Dims: an int where all
    symbols cancel.

    >>> s = symbol("s")
    >>> (8 * s + 1) - 8 * s
    1
    >>> str((s + 1) * (s - 1))
    's**2 - 1'
    """

    __slots__ = ("_hash", "terms")

    terms: dict[Monomial, int]

    def __init__(self, terms: dict[Monomial, int]) -> None:
        """Takes nonzero terms, at least one of them not constant; `build` sees to that."""
        self.terms = terms
        self._hash = -1

    def __hash__(self) -> int:
        if self._hash == -1:
            self._hash = hash(frozenset(self.terms.items()))
        return self._hash

    def __eq__(self, other: object) -> bool:
        return self is other or (isinstance(other, Poly) and self.terms == other.terms)

    def __neg__(self) -> Poly:
        return Poly({monomial: -c for monomial, c in self.terms.items()})

    def __add__(self, other: Dim) -> Dim:
        terms = dict(self.terms)
        for monomial, coefficient in terms_of(other).items():
            total = terms.get(monomial, 0) + coefficient
            if total:
                terms[monomial] = total
            else:
                del terms[monomial]
        return build(terms)

    __radd__ = __add__

    def __sub__(self, other: Dim) -> Dim:
        return self + -other

    def __rsub__(self, other: Dim) -> Dim:
        return -self + other

    def __mul__(self, other: Dim) -> Dim:
        if isinstance(other, int):
            if other == 1:
                return self
            return Poly({m: c * other for m, c in self.terms.items()}) if other else 0
        if len(self.terms) == 1 and len(other.terms) == 1:
            ((a, c),), ((b, d),) = self.terms.items(), other.terms.items()
            return Poly({multiply_monomials(a, b): c * d})
        if len(self.terms) * len(other.terms) > 8 * MAX_TERMS:
            raise TooLarge
        terms: dict[Monomial, int] = {}
        for a, c in self.terms.items():
            for b, d in other.terms.items():
                monomial = multiply_monomials(a, b)
                terms[monomial] = terms.get(monomial, 0) + c * d
        if len(terms) > MAX_TERMS or any(c.bit_length() > MAX_BITS for c in terms.values()):
            raise TooLarge
        return build({m: c for m, c in terms.items() if c})

    __rmul__ = __mul__

    def __pow__(self, exponent: int) -> Dim:
        result: Dim = 1
        for _ in range(exponent):
            result = result * self
        return result

    def __repr__(self) -> str:
        return f"Poly({self})"

    def __str__(self) -> str:
        """Returns the text in the dimension language; it reads back to an equal polynomial."""
        if len(self.terms) == 1 and (alone := next(iter(self.terms.items())))[1] == 1:
            ((atom, exponent), *more) = alone[0]
            if exponent == 1 and not more and atom.startswith("("):
                return atom[1:-1]
        text = ""
        for monomial, coefficient in sorted(self.terms.items(), key=_display_key):
            sign = "-" if coefficient < 0 else "+"
            factors = [f"{atom}**{e}" if e > 1 else str(atom) for atom, e in monomial]
            if abs(coefficient) != 1 or not factors:
                factors.insert(0, str(abs(coefficient)))
            lead = ("-" if sign == "-" else "") if not text else f" {sign} "
            text += lead + "*".join(factors)
        return text


def _display_key(term: tuple[Monomial, int]) -> tuple[int, list[tuple[str, int]]]:
    """Higher degrees first, then by name: ``s**2 + 8*s - 1``."""
    monomial = term[0]
    return -sum(e for _, e in monomial), [(atom, -e) for atom, e in monomial]


def build(terms: dict[Monomial, int]) -> Dim:
    """Returns the Dim with these nonzero terms: an int where nothing but a constant is left."""
    if not terms:
        return 0
    if len(terms) == 1 and UNIT in terms:
        return terms[UNIT]
    return Poly(terms)


def symbol(name: str) -> Poly:
    """Returns the polynomial that is this one atom."""
    return Poly({((name, 1),): 1})


def terms_of(dim: Dim) -> Mapping[Monomial, int]:
    """Returns the terms of either kind of Dim; those of 0 are empty."""
    if isinstance(dim, int):
        return {UNIT: dim} if dim else {}
    return dim.terms


def atoms_of(dim: Dim) -> set[str]:
    """Returns the atoms that occur: symbols and calls, not what stands inside calls."""
    return {atom for monomial in terms_of(dim) for atom, _ in monomial}


def degree_of(dim: Dim) -> int:
    """Returns the greatest sum of exponents in a term; 0 for a number."""
    return max((sum(e for _, e in monomial) for monomial in terms_of(dim)), default=0)


def value_of(terms: Mapping[Monomial, int], point: Mapping[str, int]) -> int:
    """Returns the value of terms at integers for their atoms; calls are atoms here."""
    total = 0
    for monomial, term in terms.items():
        for atom, exponent in monomial:
            term *= point[atom] ** exponent
        total += term
    return total


def common_monomial(monomials: Iterable[Monomial], allowed: Callable[[str], bool]) -> Monomial:
    """Returns the greatest monomial of allowed atoms that divides all of these, at least one."""
    first, *others = monomials
    exponents = {a: e for a, e in first if allowed(a)}
    for monomial in others:
        if not exponents:
            break
        have = dict(monomial)
        exponents = {a: min(e, have[a]) for a, e in exponents.items() if a in have}
    return tuple(sorted(exponents.items()))


def product(factors: Iterable[Dim]) -> Dim:
    """Returns the product; that of nothing is 1. Raises TooLarge past the limits, for ints too."""
    result: Dim = 1
    for factor in factors:
        result = result * factor
    if isinstance(result, int) and result.bit_length() > MAX_BITS:
        raise TooLarge
    return result


def replace(dim: Dim, values: Mapping[str, Dim]) -> Dim:
    """Returns dim with atoms replaced by Dims; calls are atoms here and are not looked into."""
    if isinstance(dim, int) or not any(a in values for m in dim.terms for a, _ in m):
        return dim
    powers: dict[tuple[str, int], Dim] = {}
    total: Dim = 0
    for monomial, coefficient in dim.terms.items():
        kept: list[tuple[str, int]] = []
        term: Dim = coefficient
        for atom, exponent in monomial:
            if atom not in values:
                kept.append((atom, exponent))
                continue
            key = (atom, exponent)
            if key not in powers:
                powers[key] = values[atom] ** exponent
            term = powers[key] * term
        total = (Poly({tuple(kept): 1}) if kept else 1) * term + total
    return total


def content(dim: Dim) -> int:
    """Returns the greatest common divisor of the coefficients, 0 for 0."""
    return gcd(*terms_of(dim).values())


def divide_exactly(dividend: Dim, divisor: Dim) -> Dim | None:
    """Returns the q with integer coefficients and dividend == q * divisor, or None.

    None does not mean that a quotient of values is never whole: ``n*(n + 1)`` is always even. Long
    division under the lexicographic order of monomials, with early exits for constants and single
    terms; raises ZeroDivisionError for a divisor of 0.
    """
    if isinstance(divisor, int):
        return _divide_by_int(dividend, divisor)
    if isinstance(dividend, int):
        return None if dividend else 0
    if dividend.terms == divisor.terms:
        return 1
    if len(divisor.terms) == 1:
        return _divide_by_term(dividend, *next(iter(divisor.terms.items())))
    return _divide_long(dividend, divisor)


def _divide_by_int(dividend: Dim, divisor: int) -> Dim | None:
    if isinstance(dividend, int):
        quotient, rest = divmod(dividend, divisor)
        return None if rest else quotient
    if divisor == 0:
        raise ZeroDivisionError
    terms: dict[Monomial, int] = {}
    for monomial, coefficient in dividend.terms.items():
        quotient, rest = divmod(coefficient, divisor)
        if rest:
            return None
        terms[monomial] = quotient
    return Poly(terms)


def _divide_by_term(dividend: Poly, monomial: Monomial, coefficient: int) -> Dim | None:
    terms: dict[Monomial, int] = {}
    for m, c in dividend.terms.items():
        quotient, rest = divmod(c, coefficient)
        shifted = None if rest else divide_monomials(m, monomial)
        if shifted is None:
            return None
        terms[shifted] = quotient
    return build(terms)


def _divide_long(dividend: Poly, divisor: Poly) -> Dim | None:
    names = sorted(atoms_of(dividend) | atoms_of(divisor))
    if not atoms_of(divisor) <= atoms_of(dividend):
        return None
    keys: dict[Monomial, list[int]] = {}

    def lex(monomial: Monomial) -> list[int]:
        if monomial not in keys:
            exponents = dict(monomial)
            keys[monomial] = [exponents.get(name, 0) for name in names]
        return keys[monomial]

    lead = max(divisor.terms, key=lex)
    lead_coefficient = divisor.terms[lead]
    rest = dict(dividend.terms)
    quotient: dict[Monomial, int] = {}
    work = 0
    while rest:
        work += len(rest) + len(divisor.terms)
        if work > MAX_WORK:
            raise TooLarge
        top = max(rest, key=lex)
        shifted = divide_monomials(top, lead)
        factor, remainder = divmod(rest[top], lead_coefficient)
        if shifted is None or remainder:
            return None
        quotient[shifted] = factor
        for monomial, coefficient in divisor.terms.items():
            moved = multiply_monomials(monomial, shifted)
            left = rest.get(moved, 0) - factor * coefficient
            if left:
                rest[moved] = left
            else:
                del rest[moved]
    return build(quotient)


def exact_root(dim: Dim, degree: int) -> Dim | None:
    """Returns the r with r**degree == dim, positive where dim is; None where no polynomial has it.

    The terms of r are found one by one from the highest, as in long division: the next term is the
    leading term of what is left over by ``degree * lead**(degree - 1)``.

    >>> str(exact_root((2 * symbol("s") + 3) ** 2, 2))
    '2*s + 3'
    >>> exact_root(1000, 3), exact_root(1001, 3)
    (10, None)
    """
    if degree == 1:
        return dim
    if isinstance(dim, int):
        return _integer_root(dim, degree)
    names = sorted({atom for monomial in dim.terms for atom, _ in monomial})

    def lex(monomial: tuple[tuple[str, int], ...]) -> list[int]:
        exponents = dict(monomial)
        return [exponents.get(name, 0) for name in names]

    top = max(dim.terms, key=lex)
    coefficient = _integer_root(dim.terms[top], degree)
    if coefficient is None or any(exponent % degree for _, exponent in top):
        return None
    lead = build({tuple((atom, exponent // degree) for atom, exponent in top): coefficient})
    slope = lead ** (degree - 1) * degree
    ((slope_monomial, slope_coefficient),) = terms_of(slope).items()
    root: Dim = lead
    for _ in range(len(dim.terms) + 1):
        rest = dim - root**degree
        if rest == 0:
            return root
        terms = terms_of(rest)
        high = max(terms, key=lex)
        monomial = divide_monomials(high, slope_monomial)
        quotient, remainder = divmod(terms[high], slope_coefficient)
        if monomial is None or remainder:
            return None
        root = root + build({monomial: quotient})
    return None


def _integer_root(number: int, degree: int) -> int | None:
    if number < 0:
        return None
    root = integer_root(number, degree)
    return root if root**degree == number else None


def coefficients_of(dim: Poly) -> list[int]:
    """Returns the coefficients of a polynomial in one atom, the constant first."""
    degree = max(m[0][1] if m else 0 for m in dim.terms)
    coefficients = [0] * (degree + 1)
    for monomial, coefficient in dim.terms.items():
        coefficients[monomial[0][1] if monomial else 0] = coefficient
    return coefficients


def line_in(dim: Dim, name: str) -> tuple[Dim, Dim]:
    """Returns (slope, rest) of dim == slope*name + rest; slope 0 for a higher power."""
    slope: dict[Monomial, int] = {}
    rest: dict[Monomial, int] = {}
    for monomial, coefficient in terms_of(dim).items():
        exponent = dict(monomial).get(name, 0)
        if exponent > 1:
            return 0, dim
        if exponent:
            slope[tuple(power for power in monomial if power[0] != name)] = coefficient
        else:
            rest[monomial] = coefficient
    return build(slope), build(rest)


class Power(NamedTuple):
    """slope * atom**exponent + rest == 0, with the atom nowhere else."""

    atom: str
    exponent: int
    slope: Dim
    rest: Dim


def power_of(dim: Dim, name: str) -> Power:
    """Returns the equation as one of a power of the name; exponent 0 where there are several."""
    slope: dict[Monomial, int] = {}
    rest: dict[Monomial, int] = {}
    exponents: set[int] = set()
    for monomial, coefficient in terms_of(dim).items():
        exponent = dict(monomial).get(name, 0)
        if exponent:
            exponents.add(exponent)
            slope[tuple(power for power in monomial if power[0] != name)] = coefficient
        else:
            rest[monomial] = coefficient
    exponent = exponents.pop() if len(exponents) == 1 else 0
    return Power(name, exponent, build(slope), build(rest))
