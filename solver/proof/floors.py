"""Lengths in the atoms of a partial cell: floors, remainders, minima and maxima become polynomials.

    a % b           a - b*(a//b)
    ceildiv(a, b)   (a + b - 1)//b for a positive b
    max(a, b)       a where a >= b, b where b > a: a case split
    a//b            divided as far as it goes; what is left is a parameter q, 0 <= a - b*q < b

The same floor is the same parameter, in the facts and in the claim. Polynomial arithmetic knows
some quotients and remainders already:

    (a*b + b)//a    b + b//a              long division
    (n*n + n)//2    its remainder is 0    the fixed divisor of n*n + n is 2
    r//b            0                     where 0 <= r < b
"""

from __future__ import annotations

from collections.abc import Sequence

from ..algebra.budget import Budget, OutOfBudgetError
from ..algebra.dims import Call, Function, apply, floor_div
from ..algebra.divisors import divides_everywhere
from ..algebra.poly import (
    UNIT,
    Dim,
    Monomial,
    Poly,
    TooLarge,
    atoms_of,
    build,
    content,
    divide_exactly,
    divide_monomials,
    replace,
    symbol,
    terms_of,
)
from .cells import Cell, PartialCell, Range, Split, cancelled
from .claims import Sign

MAX_STEPS = 24
STEPS = 2_000


def divided(a: Dim, b: Dim) -> tuple[Dim, Dim]:
    """Returns (quotient, rest): a == quotient*b + rest, no term of rest holds b's leading term.

    A constant b leaves coefficients from 0 to b - 1.

    >>> x = symbol("x")
    >>> [str(part) for part in divided(x**2 + 3 * x + 5, x + 1)]
    ['x + 2', '3']
    """
    if isinstance(b, int):
        quotient = build({m: c // b for m, c in terms_of(a).items() if c // b})
        return quotient, a - quotient * b
    names = sorted(atoms_of(b))

    def order(monomial: Monomial) -> tuple[int, list[int]]:
        exponents = dict(monomial)
        return sum(exponents.values()), [exponents.get(name, 0) for name in names]

    lead = max(b.terms, key=order)
    coefficient = b.terms[lead]
    quotient, rest = 0, a
    for _ in range(MAX_STEPS):
        step: dict[Monomial, int] = {}
        for monomial, c in terms_of(rest).items():
            shift = divide_monomials(monomial, lead)
            if shift is not None and c // coefficient and (c > 0 or c % coefficient == 0):
                step[shift] = c // coefficient
        if not step:
            break
        part = build(step)
        quotient, rest = quotient + part, rest - part * b
    return quotient, rest


def known_remainder(a: Dim, b: Dim) -> int | None:
    """Returns the constant r with a % b == r wherever b is not 0, if one is found.

    >>> n = symbol("n")
    >>> known_remainder(n * (n + 1), 2), known_remainder(n, 2)
    (0, None)
    >>> known_remainder(4 * n * (n + 1) + 1, 8)
    1
    """
    if isinstance(b, int):
        remainder = terms_of(a).get(UNIT, 0) % b
        return remainder if divides_everywhere(b, a - remainder) else None
    return 0 if divides_over_rationals(b, a) else None


def divides_over_rationals(divisor: Poly, dividend: Dim) -> bool:
    """Whether dividend/divisor is a polynomial that is whole at all integers.

    By Gauss's lemma the divisor without its content c divides with integer coefficients, and c
    must divide the quotient everywhere.
    """
    common = content(divisor)
    primitive = divide_exactly(divisor, common)
    assert primitive is not None
    quotient = divide_exactly(dividend, primitive)
    return quotient is not None and divides_everywhere(common, quotient)


MAX_MULTIPLE = 4


def express(partial: PartialCell, dim: Dim) -> Dim:
    """Returns dim as a polynomial in the atoms that are left.

    Raises Split where that takes a case split, ZeroDivisionError where dim has no value.
    """
    if isinstance(dim, int):
        return dim
    values = partial.values
    if not any(a in values or isinstance(a, Call) for m in dim.terms for a, _ in m):
        return dim
    total: Dim = 0
    for monomial, coefficient in dim.terms.items():
        term: Dim = coefficient
        for atom, exponent in monomial:
            if isinstance(atom, Call):
                base = _expressed(partial, atom)
            else:
                base = values[atom] if atom in values else symbol(atom)
            term = term * base**exponent
            partial.budget.spend(2 + 2 * len(terms_of(term)))
        total = total + term
    return total


def _expressed(partial: PartialCell, call: Call) -> Dim:
    """A call as a polynomial. The floor of a remainder is written both ways where it is one of a
    floor: ``x//y % n`` is ``x//y - n*q`` with q the floor of ``x//y`` by n, and of x by ``y*n``.
    """
    found = express_call(partial, call.function, call.arguments)
    if call.function is Function.MOD:
        a, b = call.arguments
        floor = symbol(Call(Function.FLOORDIV, (a, b)))
        joined = floor_div(a, b)
        if joined != floor and any(isinstance(atom, Call) for atom in atoms_of(a)):
            same = found - express(partial, a - b * joined)
            if same != 0:
                partial.pending.append((same, Sign.ZERO))
    return found


def express_call(partial: PartialCell, function: Function, arguments: Sequence[Dim]) -> Dim:
    """Returns the polynomial that a function of these arguments is in the partial cell."""
    written = tuple(express(partial, argument) for argument in arguments)
    if function is Function.MOD:
        a, b = written
        return a - b * express_call(partial, Function.FLOORDIV, (a, b))
    if function is Function.CEILDIV:
        a, b = written
        if partial.knows(b - 1):
            return express_call(partial, Function.FLOORDIV, (a + b - 1, b))
        return -express_call(partial, Function.FLOORDIV, (-a, b))
    folded = apply(function, written)
    for atom in atoms_of(folded):
        if isinstance(atom, Call):
            known = partial.calls.get(atom)
            if known is None:
                known = _new_call(partial, atom)
                partial.calls[atom] = known
            folded = replace(folded, {atom: known})
    return folded


def _new_call(partial: PartialCell, call: Call) -> Dim:
    if call.function is Function.FLOORDIV:
        return _new_floor(partial, *call.arguments)
    sign = -1 if call.function is Function.MIN else 1
    for chosen in call.arguments:
        if all(partial.knows((chosen - other) * sign) for other in call.arguments):
            return chosen
    cases = [
        [
            ((chosen - other) * sign - (1 if j < i else 0), Sign.NONNEGATIVE)
            for j, other in enumerate(call.arguments)
            if j != i
        ]
        for i, chosen in enumerate(call.arguments)
    ]
    raise Split(*cases, calls=[{call: chosen} for chosen in call.arguments])


def _new_floor(partial: PartialCell, a: Dim, b: Dim) -> Dim:
    """A floor that does not fold: divided as far as possible, its sign known, then bounded."""
    common = partial.common_factor([*terms_of(a), *terms_of(b)])
    if common:
        return express_call(partial, Function.FLOORDIV, [cancelled(dim, common) for dim in (a, b)])
    whole, rest = divided(a, b)
    if whole != 0:
        return whole + express_call(partial, Function.FLOORDIV, (rest, b))
    if not partial.knows(b - 1):
        if partial.knows(-b - 1):
            return express_call(partial, Function.FLOORDIV, (-a, -b))
        raise Split([(b - 1, Sign.NONNEGATIVE)], [(-b - 1, Sign.NONNEGATIVE)])
    if partial.knows(b - 1 - a) and partial.knows(a):
        return 0
    if partial.knows(-1 - a) and partial.knows(a + b):
        return -1
    if isinstance(b, Poly) and _leads_down(a):
        whole, rest = divided(b - 1 - a, b)
        if not _leads_down(rest):
            return -whole - express_call(partial, Function.FLOORDIV, (rest, b))
    low, high = partial.range(b)
    least, most = _quotient_range(partial.range(a), max(low or 1, 1), high)
    if (least is None or least < 0) and partial.knows(a):
        least = 0
    if least == 0:
        while least < MAX_MULTIPLE and partial.knows(a - (least + 1) * b):
            least += 1
        if least and partial.knows((least + 1) * b - 1 - a):
            return least
    if (most is None or most >= 0) and partial.knows(-1 - a):
        most = -1
    return least if least is not None and least == most else _open_floor(partial, a, b, least, most)


def _leads_down(dim: Dim) -> bool:
    """Whether the greatest term has a minus: then ``-((b - 1 - a)//b)`` is taken for ``a//b``, so
    that ``(-n)//k`` and ``(n + k - 1)//k`` have the same parameter. Where both lead down, a stays.
    """
    return (
        isinstance(dim, Poly)
        and dim.terms[max(dim.terms, key=lambda m: (sum(e for _, e in m), m))] < 0
    )


def _open_floor(partial: PartialCell, a: Dim, b: Dim, least: int | None, most: int | None) -> Dim:
    """A new parameter q with ``0 <= a - b*q < b``, or with the remainder where it is known."""
    quotient = partial.parameter(least, most)
    rest = a - b * quotient
    remainder = known_remainder(a, b)
    if remainder is not None:
        partial.pending.append((rest - remainder, Sign.ZERO))
    else:
        partial.pending.append((rest, Sign.NONNEGATIVE))
        partial.pending.append((b - 1 - rest, Sign.NONNEGATIVE))
    return quotient


def _quotient_range(a: Range, low: int, high: int | None) -> Range:
    """Bounds of a//b for a within its range and 1 <= low <= b <= high."""
    least, most = a
    if least is not None:
        least = least // low if least < 0 else 0 if high is None else least // high
    if most is not None:
        most = most // low if most >= 0 else -1 if high is None else most // high
    return least, most


def in_cell(dim: Dim, cell: Cell) -> tuple[Dim, PartialCell | Cell] | None:
    """Returns dim written in the cell's parameters and where their bounds stand.

    A floor gets a parameter of its own, so the bounds are those of a partial cell. None where
    writing it takes a case split or too much.
    """
    if isinstance(dim, int) or (
        cell.is_whole and not any(isinstance(a, Call) for a in atoms_of(dim))
    ):
        return dim, cell
    partial = PartialCell(cell, [], Budget(STEPS))
    try:
        return express(partial, dim), partial
    except (OutOfBudgetError, Split, TooLarge, ZeroDivisionError):
        return None
