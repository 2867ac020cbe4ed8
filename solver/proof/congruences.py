"""Congruences that follow from congruences, as linear algebra over monomials.

    n % 6 == 0                         gives  n % 3 == 0
    (6*a**3 + a*b) % 8 == 0            gives  (2*a**3 + a*b) % 4 == 0
    a % 5 == b % 5                     gives  (3*a + 2*b) % 5 == 0
    a % 4 == 1, b % 4 == 3             gives  (a + b) % 4 == 0

``q % k == s`` says that ``q - s`` is 0 modulo k, so a multiple c*(q - s) is 0 modulo m where m
divides c*k. What is a whole combination of such multiples, plus m times anything, is 0 modulo m;
whether there is one is a system of linear equations over the integers.
"""

from __future__ import annotations

from math import gcd

from ..algebra.budget import Budget, OutOfBudgetError
from ..algebra.dims import Call, Function
from ..algebra.linear import has_no_whole_solution
from ..algebra.poly import UNIT, Dim, Poly, terms_of
from .cells import Goal
from .claims import Sign
from .facts import Facts

STEPS = 1_000
MAX_MONOMIALS = 24
MAX_FACTS = 12


def congruence_of(dim: Dim, sign: Sign) -> tuple[int, Dim] | None:
    """Returns (m, p) where ``dim == 0`` says that m divides p (0 for p == 0), or None.

    >>> from dimsolve.solver.algebra.dims import mod
    >>> from dimsolve.solver.algebra.poly import symbol
    >>> m, p = congruence_of(mod(symbol("a"), 5) - mod(symbol("b"), 5), Sign.ZERO)
    >>> m, str(p)
    (5, 'a - b')
    """
    if sign is not Sign.ZERO:
        return None
    moduli: set[Dim] = set()
    dividend: Dim = 0
    for monomial, coefficient in terms_of(dim).items():
        calls = [atom for atom, _ in monomial if isinstance(atom, Call)]
        if not calls:
            dividend = (
                dividend + Poly({monomial: coefficient}) if monomial else coefficient + dividend
            )
            continue
        call = calls[0]
        if call.function is not Function.MOD or monomial != ((call, 1),) or abs(coefficient) != 1:
            return None
        moduli.add(call.arguments[1])
        dividend = dividend + coefficient * call.arguments[0]
    if not moduli:
        return 0, dividend
    modulus = moduli.pop()
    if moduli or not isinstance(modulus, int) or modulus <= 0:
        return None
    return (modulus, dividend) if _is_exact(dim, modulus) else None


def _is_exact(dim: Dim, modulus: int) -> bool:
    """Whether dim is ``p % m - r`` with 0 <= r < m, or ``p % m - q % m``: the sides are equal
    exactly where they are congruent.
    """
    terms = dict(terms_of(dim))
    constant = terms.pop(UNIT, 0)
    if any(not isinstance(atom, Call) for monomial in terms for atom, _ in monomial):
        return False
    signs = sorted(terms.values())
    if signs == [-1, 1]:
        return constant == 0
    return len(signs) == 1 and 0 <= -constant * signs[0] < modulus


def follows_from_congruences(modulus: int, dividend: Dim, facts: Facts) -> bool:
    """Whether it is shown that modulus, at least 1, divides dividend wherever the facts hold.

    >>> from dimsolve.solver.algebra.poly import symbol
    >>> from dimsolve.solver.proof.facts import read_facts
    >>> a, b = symbol("a"), symbol("b")
    >>> follows_from_congruences(5, 3 * a + 2 * b, read_facts(["a % 5 == b % 5"]))
    True
    """
    vectors = [dim for goal in facts.goals for dim in _vanishing(goal, modulus)][:MAX_FACTS]
    monomials = {m for dim in (dividend, *vectors) for m in terms_of(dim)}
    if not vectors or len(monomials) > MAX_MONOMIALS:
        return False
    ordered = sorted(monomials, key=lambda m: (len(m), m))
    rows: list[list[int]] = []
    for place, monomial in enumerate(ordered):
        free = [modulus if i == place else 0 for i in range(len(ordered))]
        known = [terms_of(dim).get(monomial, 0) for dim in vectors]
        rows.append([-terms_of(dividend).get(monomial, 0), *known, *free])
    try:
        return not has_no_whole_solution(rows, Budget(STEPS))
    except OutOfBudgetError:
        return False


def _vanishing(goal: Goal, modulus: int) -> list[Dim]:
    """What a fact says is 0 modulo the modulus."""
    found = congruence_of(*goal)
    if found is None:
        return []
    known, dim = found
    return [dim if known == 0 else modulus // gcd(modulus, known) * dim]
