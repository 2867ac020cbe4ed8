"""What is known about the symbols.

Facts are relations between lengths: ``k % 64 == 0``, ``s >= 2``, ``h*t == n``. A fact holds where
it has a value and is true: ``n % (k - 1) == 0`` says that k is not 1. They are read once and their
cells (`dimsolve.solver.proof.cells`) are made once; every question about them starts from there.
Facts that contradict each other are an error that says so, because everything would follow from
them.

A fact may speak of other symbols than the question, for two reasons: one that is connected with it
by facts (``n == 8*m`` in a question about n), and one list of facts that is given to several
questions. Facts that are not connected change no answer. But one whose name is a slip of the pen
for a name in the question is refused (`refuse_slips`), unless the facts use both spellings.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from dimsolve.ir.characters import shown
from dimsolve.ir.checks import is_slip, wrong_type
from dimsolve.ir.errors import AnnotationError, Problem, ShapeError, problems
from dimsolve.ir.expression import Relation
from dimsolve.ir.read_expression import read_relations

from ..algebra.budget import Budget
from ..algebra.evaluation import Test, names_of, predicate_of
from ..algebra.poly import TooLarge
from .case_splits import EVERYTHING, Cover, cover_of
from .cells import Cell, Goal
from .claims import Claim, claim_of, claims_of_value, difference

_NO_FACTS = (bytes, bytearray, memoryview, Mapping)
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
    """Facts that have been read; the same ones, spelled alike, are the same object.

    symbols: the names that occur. goals: the relations in canonical form. cover: the values they
    allow, in cells. tests: the relations as functions of values.
    """

    relations: tuple[Relation, ...]
    symbols: frozenset[str]
    goals: tuple[Goal, ...] = field(repr=False)
    cover: Cover = field(repr=False)
    tests: tuple[Test, ...] = field(repr=False)

    def holds(self, values: Mapping[str, int]) -> bool:
        """Whether every fact, as written, has a value and is true at these values.

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
    """The facts in their own spelling: an answer quotes the words that were asked."""
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
    """Returns the facts that share symbols with these, directly or through other facts.

    >>> [str(r) for r in related(read_facts(["a <= b", "b <= c", "x == 3"]), ["a"]).relations]
    ['a <= b', 'b <= c']
    """
    return _related(facts, frozenset(symbols)) if facts.relations else facts


@lru_cache(maxsize=1024)
def _related(facts: Facts, about: frozenset[str]) -> Facts:
    near = connected(facts.relations, about)
    return facts if len(near) == len(facts.relations) else read_facts(near)


def connected(relations: Sequence[Relation], about: frozenset[str]) -> list[Relation]:
    """Returns the relations that share symbols with these, directly or through others, in order."""
    names = [names_of(relation.left) | names_of(relation.right) for relation in relations]
    near: set[int] = set()
    while reached := {n for n, each in enumerate(names) if n not in near and each & about}:
        near |= reached
        about = about.union(*(names[n] for n in reached))
    return [relations[n] for n in sorted(near)]


def refuse_slips(facts: Facts, names: Iterable[str]) -> None:
    """Raises AnnotationError for an unconnected fact whose name looks like one of these."""
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
