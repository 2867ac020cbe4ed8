"""The equations of a whole graph: what its symbols are known to be, and what must hold of them.

Some symbols are *open*: they stand for a dimension that was not given, or that only running can
tell. An equation that pins one down solves it, wherever in the graph it comes from; an equation
among given symbols is proved, refuted, or becomes a condition.

    x: (_x0, _x1)   ewise_add(log(x), y: (m, n))      _x0 = m, _x1 = n
    match_shape(u: (_u0,), (k,))                      _u0 = k
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from dimsolve.ir.expression import Comparison, Relation
from dimsolve.ir.read_expression import read_relation

from ..algebra.dims import substitute, surely_positive, symbols_of
from ..algebra.poly import Dim, build, content, divide_exactly, symbol, terms_of
from ..proof.claims import Claim, claim_of
from ..proof.facts import Facts, read_facts
from ..proof.prove import decide, prove
from ..proof.readable import readable
from ..proof.verdict import Always, Never, Proof
from .match import linear_in


@dataclass(frozen=True, slots=True)
class Condition:
    """A claim that must hold for the graph to run, and where it comes from."""

    claim: Claim
    origin: str

    def __str__(self) -> str:
        return readable(self.claim)


class Contradiction(Exception):
    """A claim that can never hold. ``others``: earlier conditions on the same symbols, which it may
    contradict.
    """

    def __init__(self, claim: Claim, origin: str, others: tuple[Condition, ...]) -> None:
        super().__init__(str(claim))
        self.claim = claim
        self.origin = origin
        self.others = others


def _reduced(claim: Claim) -> Claim:
    """An equation without common numbers, and with what is added on its own side: ``k == 3``
    for ``12 == 4*k``.
    """
    difference = claim.left - claim.right
    common = content(difference)
    if isinstance(claim.right, int) and claim.right == 0 and len(terms_of(claim.left)) == 1:
        return claim
    terms = {m: c // common for m, c in terms_of(difference).items()} if common else {}
    left = build({m: c for m, c in terms.items() if c > 0})
    right = build({m: -c for m, c in terms.items() if c < 0})
    sides = (right, left) if isinstance(left, int) else (left, right)
    return Claim(sides[0], Comparison.EQ, sides[1])


def _may_be_negative(dim: Dim) -> bool:
    return any(coefficient < 0 for coefficient in terms_of(dim).values())


def _never_zero(slope: Dim) -> bool:
    """Whether an equation may be divided by a factor: ``(m - 1)*k == (m - 1)*n`` says nothing of k
    where m is 1.
    """
    return surely_positive(slope) or surely_positive(-slope)


@dataclass(slots=True)
class System:
    """Symbols and equations of one graph. ``given``: symbols that the user named; ``open``: those
    that are still to be found.

    ``solved``: open symbols, and names that a pattern introduced, with what they turned out to be.
    """

    given: dict[str, str] = field(default_factory=dict)
    open: dict[str, str] = field(default_factory=dict)
    solved: dict[str, Dim] = field(default_factory=dict)
    assumptions: list[str | Relation] = field(default_factory=list)
    conditions: list[Condition] = field(default_factory=list)
    _facts: Facts | None = None

    @property
    def facts(self) -> Facts:
        """What is known of the symbols: assumptions and conditions."""
        if self._facts is None:
            listed = [*self.assumptions, *[str(condition.claim) for condition in self.conditions]]
            self._facts = read_facts(listed)
        return self._facts

    def saved(self) -> System:
        """Returns a copy, for `restore`."""
        return System(
            dict(self.given),
            dict(self.open),
            dict(self.solved),
            list(self.assumptions),
            list(self.conditions),
            self._facts,
        )

    def restore(self, saved: System) -> None:
        """Goes back to what was saved."""
        self.given, self.open, self.solved = saved.given, saved.open, saved.solved
        self.assumptions, self.conditions = saved.assumptions, saved.conditions
        self._facts = saved._facts

    def assume(self, fact: str | Relation) -> None:
        """Takes a fact for granted; ShapeError where it contradicts what is known."""
        self.assumptions.append(fact)
        self._facts = None
        try:
            _ = self.facts
        except Exception:
            self.assumptions.pop()
            self._facts = None
            raise

    def name(self, dims: Iterable[Dim | None], origin: str) -> None:
        """Notes the symbols of given dimensions, with where they were first seen."""
        for dim in dims:
            if dim is not None and dim.__class__ is not int:
                for atom in sorted(symbols_of(dim) - self.open.keys()):
                    self.given.setdefault(atom, origin)

    def fresh(self, preferred: str, origin: str) -> Dim:
        """Returns a new open symbol."""
        name = preferred
        number = 1
        while name in self.open or name in self.given or name in self.solved:
            name = f"{preferred}_{number}"
            number += 1
        self.open[name] = origin
        return symbol(name)

    def current(self, dim: Dim) -> Dim:
        """Returns the dimension with everything that is solved put in."""
        if dim.__class__ is int or not self.solved:
            return dim
        return substitute(dim, self.solved)

    def require(self, claim: Claim, origin: str) -> dict[str, Dim]:
        """Says that a claim holds; returns the symbols that this solves, raises Contradiction where
        it never can.
        """
        claim = Claim(self.current(claim.left), claim.comparison, self.current(claim.right))
        if claim.comparison is Comparison.EQ:
            claim = _reduced(claim)
            if claim.left == claim.right:
                return {}
        if claim.comparison is Comparison.EQ:
            found = self._solve(claim)
            if found is not None:
                return self.bind(*found)
        decision = decide(claim.left, claim.comparison, claim.right, self.facts)
        if isinstance(decision, Always):
            return {}
        if isinstance(decision, Never):
            raise self._contradiction(claim, origin)
        self.conditions.append(Condition(claim, origin))
        self._facts = None
        try:
            _ = self.facts
        except Exception:
            self.conditions.pop()
            self._facts = None
            raise self._contradiction(claim, origin) from None
        return {}

    def bind(self, name: str, dim: Dim) -> dict[str, Dim]:
        """Notes what an open symbol, or a name, turned out to be; returns the substitution to apply
        everywhere.
        """
        self.open.pop(name, None)
        self.given.pop(name, None)
        step = {name: dim}
        self.solved = {other: substitute(value, step) for other, value in self.solved.items()}
        self.solved[name] = dim
        if _may_be_negative(dim):
            step.update(self.require(Claim(dim, Comparison.GE, 0), f"{name} is a length"))
        pending, self.conditions = self.conditions, []
        self._facts = None
        for condition in pending:
            claim = condition.claim
            if name in claim.symbols():
                left, right = substitute(claim.left, step), substitute(claim.right, step)
                step.update(self.require(Claim(left, claim.comparison, right), condition.origin))
            else:
                self.conditions.append(condition)
                self._facts = None
        return step

    def _solve(self, claim: Claim) -> tuple[str, Dim] | None:
        """An open symbol that the equation gives, and what it is.

        Sums come before differences, which ask for a condition, and then the youngest symbol comes
        first.
        """
        difference = claim.left - claim.right
        found: list[tuple[str, Dim]] = []
        names = symbols_of(difference)
        for name in sorted(names & self.open.keys(), key=list(self.open).index, reverse=True):
            split = linear_in(difference, name)
            if split is None or not _never_zero(split[0]):
                continue
            length = divide_exactly(-split[1], split[0])
            if length is not None and not (length.__class__ is int and length < 0):
                found.append((name, length))
        return min(found, key=lambda pair: _may_be_negative(pair[1]), default=None)

    def _contradiction(self, claim: Claim, origin: str) -> Contradiction:
        names = claim.symbols()
        others = tuple(c for c in self.conditions if c.claim.symbols() & names)
        return Contradiction(claim, origin, others)

    def prove(self, claim: str | Relation) -> Proof:
        """Returns whether a claim follows from what is known; names that were solved may be used in
        it.
        """
        relation = read_relation(claim) if isinstance(claim, str) else claim
        if self.solved:
            canonical = claim_of(relation)
            if canonical.symbols() & self.solved.keys():
                left, right = self.current(canonical.left), self.current(canonical.right)
                relation = read_relation(f"{left} {relation.comparison.value} {right}")
        return prove(relation, facts=self.facts)

    def renamed(self, names: Mapping[str, Dim], conditions: Iterable[Condition]) -> list[Claim]:
        """Returns conditions of another system in the symbols of this one."""
        return [
            Claim(
                substitute(condition.claim.left, names),
                condition.claim.comparison,
                substitute(condition.claim.right, names),
            )
            for condition in conditions
        ]
