"""What is known about the symbols.

Facts are relations between lengths: ``k % 64 == 0``, ``s >= 2``, ``h*t == n``. A fact holds where
it has a value and is true: ``n % (k - 1) == 0`` says that k is not 1. They are read once; their
cells (see `dimsolve.solver.proof.cells`) are made once, and every question about them starts from
there. Facts that contradict each other are an error that says so, because everything
would follow from them.

Congruences that follow from congruences, as linear algebra over monomials.

    n % 6 == 0                         gives  n % 3 == 0
    (6*a**3 + a*b) % 8 == 0            gives  (2*a**3 + a*b) % 4 == 0
    a % 5 == b % 5                     gives  (3*a + 2*b) % 5 == 0
    a % 4 == 1, b % 4 == 3             gives  (a + b) % 4 == 0

``q % k == s`` says that ``q - s`` is 0 modulo k, so a multiple c*(q - s) is 0 modulo m where m
divides c*k. What is a whole combination of such multiples, plus m times anything, is 0 modulo m;
whether there is one is a system of linear equations over the integers.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from math import gcd
from typing import Any

from dimsolve.ir.characters import shown
from dimsolve.ir.checks import is_slip, wrong_type
from dimsolve.ir.errors import AnnotationError, Problem, ShapeError, problems
from dimsolve.ir.expression import Relation
from dimsolve.ir.read_expression import read_relations

from ..algebra.budget import Budget, OutOfBudgetError
from ..algebra.dims import Call, Function
from ..algebra.evaluation import Test, names_of, predicate_of
from ..algebra.poly import UNIT, Dim, Poly, TooLarge, terms_of
from ..algebra.products import has_no_whole_solution
from .case_splits import EVERYTHING, Cover, cover_of
from .cells import Cell, Goal
from .claims import Claim, Sign, claim_of, claims_of_value, difference

_NO_FACTS = bytes | bytearray | memoryview | Mapping
_FACTS_HINT = 'give relations as text, such as ["k % 64 == 0", "s >= 2"]'
STEPS = 12_000
PER_SYMBOL = 10


_WRONG = problems(
    AnnotationError,
    """
    unknown-name: a fact about a name that the question does not have
      '{fact}' speaks of '{name}', which is not in the question and not connected with it by facts
      hint: did you mean '{meant}'?
    no-value: a fact divides by zero
      '{fact}' has no value, whatever the symbols are
    """,
)

_CONTRADICTORY = Problem(
    ShapeError,
    "contradictory-facts",
    "{title}",
    "no positive integers satisfy {facts}",
    "every symbol is an integer of at least 1",
)


def contradiction(relations: tuple[Relation, ...]) -> ShapeError:
    """Returns the error that says that no values satisfy these facts."""
    facts = ", ".join(f"'{relation}'" for relation in relations)
    if len(relations) > 1:
        return _CONTRADICTORY(title="the facts contradict each other", facts=facts)
    (only,) = relations
    return _CONTRADICTORY(only.text, only.span, title="this fact can never hold", facts=facts)


@dataclass(frozen=True, slots=True, eq=False)
class Facts:
    """Facts that have been read. The same relations, spelled alike, are the same object, so that
    answers can be kept by it.

    symbols: the names that occur. goals: the relations in canonical form. cover: the values they
    allow, in cells. tests: the relations as functions of values.
    """

    relations: tuple[Relation, ...]
    symbols: frozenset[str]
    goals: tuple[Goal, ...] = field(repr=False)
    cover: Cover = field(repr=False)
    tests: tuple[Test, ...] = field(repr=False)

    def holds(self, values: Mapping[str, int]) -> bool:
        """Whether every fact, as it was written, is true at these values; one without a value there
        is not.

        >>> read_facts(["k % 8 == 0"]).holds({"k": 24})
        True
        """
        return all(test(values) is True for test in self.tests)


NO_FACTS = Facts((), frozenset(), (), EVERYTHING, ())


def read_facts(facts: Iterable[str | Relation] | Facts) -> Facts:
    """Returns the facts, read; the same ones give the same object.

    Raises ShapeError where the facts contradict each other, AnnotationError for text that is no
    relation.

    >>> str(read_facts(["k % 64 == 0", "2 <= s <= 8"]).relations[1])
    '2 <= s'
    """
    if isinstance(facts, Facts):
        return facts
    relations: list[Relation] = []
    for fact in to_facts(facts):
        if isinstance(fact, Relation):
            relations.append(fact)
        else:
            relations.extend(read_relations(fact))
    spelled = tuple([(relation.text, relation.span) for relation in relations])
    return _facts_of(tuple(relations), spelled) if relations else NO_FACTS


def to_facts(facts: Any) -> tuple[str | Relation, ...]:
    """Returns the facts, one for a single text; AnnotationError for what are no facts."""
    if isinstance(facts, str | Relation):
        return (facts,)
    if not isinstance(facts, Iterable) or isinstance(
        facts, bytes | bytearray | memoryview | Mapping
    ):
        raise wrong_type("facts", facts, "a list of relations", _FACTS_HINT)
    try:
        found = tuple(facts)
    except TypeError:  # such as a tensor without dimensions
        raise wrong_type("facts", facts, "a list of relations", _FACTS_HINT) from None
    for number, fact in enumerate(found):
        if not isinstance(fact, str | Relation):
            raise wrong_type(f"fact {number}", fact, "a relation", _FACTS_HINT)
    return found


@lru_cache(maxsize=256)
def _facts_of(relations: tuple[Relation, ...], spelled: tuple[Any, ...]) -> Facts:
    """The facts of relations in their own spelling: equal ones may be written in other words, and
    who reads an answer should find the words that he wrote.
    """
    symbols = frozenset().union(*(names_of(r.left) | names_of(r.right) for r in relations))
    goals: list[Goal] = []
    kept = 0
    for relation in relations:
        try:
            goals.append(difference(claim_of(relation)))
            goals.extend(difference(claim) for claim in claims_of_value(relation))
        except ZeroDivisionError:
            raise _WRONG["no-value"](relation.text, relation.span, fact=relation) from None
        except TooLarge:
            continue
        kept += 1
    cover = cover_of(goals, Budget(STEPS + PER_SYMBOL * len(symbols)))
    if not cover.cells:
        raise contradiction(relations)
    complete = cover.complete and kept == len(relations)
    tests = tuple(map(predicate_of, relations))
    return Facts(relations, symbols, tuple(goals), Cover(cover.cells, complete), tests)


def related(facts: Facts, symbols: Iterable[str]) -> Facts:
    """Returns the facts that speak of the symbols, of symbols that these speak of, and so on: what
    follows from them follows from all.

    >>> [str(r) for r in related(read_facts(["a <= b", "b <= c", "x == 3"]), ["a"]).relations]
    ['a <= b', 'b <= c']
    """
    return _related(facts, frozenset(symbols)) if facts.relations else facts


@lru_cache(maxsize=1024)
def _related(facts: Facts, about: frozenset[str]) -> Facts:
    left = [(r, names_of(r.left) | names_of(r.right)) for r in facts.relations]
    while touching := [row for row in left if row[1] & about]:
        about = about.union(*(names for _, names in touching))
        left = [row for row in left if row not in touching]
    others = [relation for relation, _ in left]
    return read_facts([r for r in facts.relations if r not in others]) if others else facts


def refuse_slips(facts: Facts, names: Iterable[str]) -> None:
    """Raises AnnotationError for a fact that has nothing to do with a question about these names,
    and is about a name that looks like one of them.
    """
    asked = frozenset(names)
    if facts.symbols <= asked:
        return
    near = related(facts, asked)
    if near is facts:
        return
    used = near.relations
    for relation in facts.relations:
        if relation in used:
            continue
        for name in sorted(names_of(relation.left) | names_of(relation.right)):
            for meant in sorted(asked - facts.symbols):
                if is_slip(name, meant):
                    words = {"fact": relation, "name": shown(name), "meant": meant}
                    raise _WRONG["unknown-name"](relation.text, relation.span, **words)


def assuming(
    facts: Facts, relations: Sequence[Relation], claims: Sequence[Claim], budget: Budget
) -> Facts | None:
    """Returns the facts together with more that holds; None where that is impossible.

    relations say under the facts what claims say.
    """
    goals = [difference(claim) for claim in claims]
    cells: tuple[Cell, ...] = ()
    complete = facts.cover.complete
    for cell in facts.cover.cells:
        found = cover_of(goals, budget, cell)
        cells += found.cells
        complete = complete and found.complete
    if not cells:
        return None
    symbols = facts.symbols.union(*(claim.symbols() for claim in claims))
    every = (*facts.relations, *relations)
    tests = (*facts.tests, *map(predicate_of, relations))
    return Facts(every, symbols, (*facts.goals, *goals), Cover(cells, complete), tests)


STEPS_CONGRUENCES = 1_000
MAX_MONOMIALS = 24
MAX_FACTS = 12


def congruence_of(dim: Dim, sign: Sign) -> tuple[int, Dim] | None:
    """Returns (m, p) where ``dim == 0`` says that m divides p: m > 0, or 0 for an equation without
    remainders; None where it says something else.

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
        return not has_no_whole_solution(rows, Budget(STEPS_CONGRUENCES))
    except OutOfBudgetError:
        return False


def _vanishing(goal: Goal, modulus: int) -> list[Dim]:
    """What a fact says is 0 modulo the modulus."""
    found = congruence_of(*goal)
    if found is None:
        return []
    known, dim = found
    return [dim if known == 0 else modulus // gcd(modulus, known) * dim]
