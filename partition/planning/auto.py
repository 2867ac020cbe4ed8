"""The policy ``"auto"``: the plan of least time, by an exact search over all axes at once.

`formulation` makes the problem, `dimsolve.partition.search` solves it. Where values are relaxed,
the answer is a bound, and what it chooses is a plan with a price of its own: options that no
cheaper plan can have are dropped, and what is left is formulated anew, until the two meet.

What the search adds up is what `dimsolve.partition.cost` says of the plan, to the picosecond: the
plan's own conversions are priced, not an estimate of them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from math import prod
from typing import Any

import numpy as np

from ..cost import Costs, cost_of
from ..held import held_as_searched
from ..machine import Machine, bytes_text
from ..memory import memory_of
from ..mesh import Mesh
from ..plan_data import PlanData, PlanError, SearchRecord, problem, seconds_text
from ..search.check import NotProved, check_bound, survivors_of
from ..search.clock import Clock, TimeUp, watched
from ..search.problem import FORBIDDEN, Problem
from ..search.search import drop, solve
from ..sizes import Sizes
from .axis_state import AxisState
from .choices import OperatorClass
from .formulation import Formulation, Instance
from .network import Network
from .requirements import Requirements
from .vocabulary import Option

NO_SIZES = problem(
    "no-size",
    "a size is missing",
    "the policy 'auto' needs a size for {missing}: they say which plan is fastest",
    "write dimsolve.plan(graph, mesh, 'auto', sizes={{{known}}})",
)
SYMBOLIC_MESH = problem(
    "symbolic-mesh",
    "the policy 'auto' needs a mesh of numbers",
    "the size of '{axis}' is {count}",
)
NOTHING_FITS = problem(
    "nothing-fits",
    "no plan fits in the memory of a rank",
    "the limit is {limit}, and it is proved that every plan needs more than {least}; one with "
    "{found} is known",
    "take more ranks, smaller sizes, or regions that are run again in the backward pass",
)
NOT_FOUND = problem(
    "not-found",
    "no plan was found that fits in the memory of a rank",
    "the limit is {limit}; whether there is one was not proved",
    "give the search more seconds",
)


SECONDS = 60.0
"""A search ends after so many, where nothing else is said."""


@dataclass(frozen=True, slots=True)
class Asked:
    """What a search is asked beside graph and mesh: the machine, the sizes, bytes of memory of a
    rank (None: as much as it takes), optimiser states per parameter, and seconds to search.
    progress: whether stderr says meanwhile what is known, where somebody looks on.
    """

    machine: Machine
    sizes: Mapping[str, int]
    memory: int | None = None
    states: int = 2
    seconds: float = SECONDS
    progress: bool = False


@dataclass(frozen=True, slots=True)
class Found:
    """The axes as decided, with the classes of what ranks are left with, and what is proved."""

    decided: list[tuple[AxisState, Requirements]]
    classes: list[OperatorClass]
    record: SearchRecord


def formulation_of(network: Network, mesh: Mesh, asked: Asked) -> Formulation:
    """Returns what makes the problem. Raises PlanError for sizes that are missing or none, and for
    a mesh of symbols.
    """
    counts: dict[str, int] = {}
    for axis, count in mesh.axes:
        if not isinstance(count, int):
            raise SYMBOLIC_MESH(axis=axis, count=count)
        counts[axis] = count
    missing = sorted(network.classes.known - asked.sizes.keys())
    if missing:
        known = ", ".join(f'"{name}": 8' for name in sorted(network.classes.known))
        raise NO_SIZES(missing=", ".join(missing), known=known)
    costs = Costs(asked.machine, counts)
    return Formulation(network, mesh, costs, asked.sizes, asked.memory, asked.states)


FIRST_GUESS = 4096
"""The best plan is first looked for at most by this part above the bound of relaxed values."""


TIGHTER = 6
"""How often a choice that does not fit is looked for again with a lower limit."""

ENOUGH = 0.95
"""Where more than this part of all options is left, dropping goes on no further."""


@dataclass(slots=True)
class Rounds:
    """The search, round after round. ``taken``: the best choice so far, and its cost. ``proof``: of
    the bound, the steps of every round; all but the last drop options, and the last one shows it.

    A relaxed problem gives a bound. Then it is guessed that the best plan costs but little more:
    what costs more by that bound is dropped, and so on with what is left, until its values need not
    be relaxed. Where nothing below the guess is found, the guess is the bound, and the next one is
    larger. Where the time is over before any choice was found, one is found axis by axis.
    """

    form: Formulation
    clock: Clock = field(default_factory=Clock)
    taken: list[Option] | None = None
    cost: int = FORBIDDEN
    bound: int = -1
    proof: list[Any] = field(default_factory=list)

    def run(self) -> Rounds:
        """Returns itself, when no more is to be found, or the user has waited long enough."""
        self.clock.text = self.text
        self.form.vocabulary.clock = self.clock
        try:
            self._run()
        except (TimeUp, KeyboardInterrupt):
            self.clock.stop()
        finally:
            self.clock.wipe()
            self.form.vocabulary.clock = Clock()
        if self.taken is None and self.bound < FORBIDDEN and self.clock.late:
            self.by_axis()
        return self

    def text(self) -> str:
        """What is known meanwhile, in a line."""
        if self.taken is None:
            return "searching for the best plan"
        cost, bound = (seconds_text(n) for n in (self.cost, max(self.bound, 0)))
        return f"searching   {cost} a step, at least {bound}"

    def by_axis(self) -> None:
        """Takes the best choice along one axis after the other, while inner ones do nothing."""
        form, limit = self.form, self.form.memory
        taken = [Option((), operator.op_class) for operator in form.network.operators]
        for axis in range(len(form.counts)):
            now = form.instance(form.vocabulary.along(axis, taken))
            # Inner axes may cut what is held.
            more = prod(form.counts[axis + 1 :])
            looser = replace(now.problem, limit=None if limit is None else limit * more)
            answer = solve(looser)
            if answer.chosen is None:
                return
            taken = [each[k] for each, k in zip(now.options, answer.chosen, strict=False)]
        self.offer(taken)

    def _run(self) -> None:
        now = self.form.instance(self.form.options(), clock=self.clock)
        self.solve(now, FORBIDDEN, [])
        part = FIRST_GUESS
        while now.relaxed and self.bound < self.cost and not self.clock.late:
            before = self.bound
            above = self.bound // part if part else self.bound << 8
            guess = min(self.bound + above + 1, self.cost)
            self.below(guess, now)
            if self.bound == before and (guess == self.cost or part == 0):
                break
            part //= 2

    def below(self, target: int, now: Instance) -> None:
        """Looks for choices that cost less than the target."""
        dropped: list[Any] = []
        while now.relaxed and not self.clock.late:
            masks, steps = drop(now.problem, target, clock=self.clock)
            dropped.append(steps)
            if masks is None:
                self.prove(target, dropped)
                return
            before = sum(map(len, now.options))
            options = self.form.kept(now.options, masks[: len(now.options)])
            now = self.form.instance(options, clock=self.clock)
            if sum(map(len, options)) > ENOUGH * before:
                break
        self.solve(now, target, dropped)

    def solve(self, now: Instance, target: int, dropped: list[Any]) -> None:
        """Solves a problem that is left of all choices below the target."""
        answer = solve(now.problem, clock=self.clock)
        self.prove(min(answer.bound, target), [*dropped, answer.steps])
        limit = now.problem.limit
        for _ in range(TIGHTER):
            if answer.chosen is None:
                return
            taken = [each[k] for each, k in zip(now.options, answer.chosen, strict=False)]
            over = self.offer(taken)
            if limit is None or over <= 0 or self.clock.late:
                break
            # What relaxed values are converted to was not counted: less is left for the others.
            limit = min(limit, now.problem.most_held(answer.chosen)) - over
            answer = solve(replace(now.problem, limit=limit), clock=self.clock)

    def prove(self, bound: int, proof: list[Any]) -> None:
        """Takes a bound that is better than what is known."""
        bound = min(bound, self.cost)
        if bound > self.bound:
            self.bound, self.proof = bound, proof

    def offer(self, taken: list[Option]) -> int:
        """Takes a choice that fits and is better than the best; returns by how many bytes it does
        not fit.
        """
        exact = self.form.instance([[option] for option in taken], most=1 << 30).problem
        chosen = [0] * len(exact.costs)
        cost = exact.cost(chosen)
        over = 0 if exact.limit is None else exact.most_held(chosen) - exact.limit
        if cost < self.cost and over <= 0:
            self.taken, self.cost = taken, cost
            self.bound = min(self.bound, cost)
        return over


def search(network: Network, mesh: Mesh, asked: Asked) -> Found:
    """Returns the decisions of least time. Raises PlanError where nothing fits in memory."""
    form = formulation_of(network, mesh, asked)
    stream = watched() if asked.progress else None
    found = Rounds(form, Clock(asked.seconds, stream=stream)).run()
    if found.taken is None:
        raise infeasible(form, found)
    decided: list[tuple[AxisState, Requirements]] = []
    conditions: dict[str, str] = {}
    classes = [operator.op_class for operator in network.operators]
    for number, (axis, count) in enumerate(mesh.axes):
        state = AxisState(network, axis, count, classes)
        requirements = Requirements(count, network.facts, conditions)
        choices = {n: option.choices[number] for n, option in enumerate(found.taken)}
        for n, choice in choices.items():
            requirements.rely(choice, network.operators[n].node.id)
        state.accept(state.change(choices))
        classes = state.local_classes()
        decided.append((state, requirements))
    record = SearchRecord(
        machine=asked.machine,
        sizes=dict(asked.sizes),
        memory=asked.memory,
        optimizer_states=asked.states,
        cost=found.cost,
        bound=max(found.bound, 0),
        proof=found.proof,
    )
    return Found(decided, classes, record)


def require_fits(plan: PlanData, record: SearchRecord) -> None:
    """Raises PlanError for a plan whose step, walked through, needs more than the search counts."""
    sizes = Sizes(plan, record.sizes, {}, "memory")
    limit = record.memory
    if limit is not None and memory_of(plan, sizes, record.optimizer_states).total > limit:
        raise NOT_FOUND(limit=bytes_text(limit))


def infeasible(form: Formulation, found: Rounds) -> PlanError:
    """Returns the error for a graph that no plan brings into memory, or none that was found."""
    limit = form.memory or 0
    if found.bound < FORBIDDEN:
        return NOT_FOUND(limit=bytes_text(limit))
    options = form.options()
    problem = form.instance(options).problem
    free = Problem(problem.costs, problem.edges, problem.usages, None)
    taken = solve(free).chosen
    low, high = limit, free.most_held(taken or [])
    while high - low > max(low // 1000, 1) and not found.clock.late:
        middle = (low + high) // 2
        zero = Problem(
            tuple(np.where(c >= FORBIDDEN, c, 0) for c in problem.costs),
            {e: np.where(t >= FORBIDDEN, t, 0) for e, t in problem.edges.items()},
            problem.usages,
            middle,
        )
        answer = solve(zero)
        if answer.chosen is not None:
            high = problem.most_held(answer.chosen)
        elif answer.bound >= FORBIDDEN:
            low = middle
        else:
            break
        taken = answer.chosen or taken
    if taken is not None:
        exact = form.instance([[own[k]] for own, k in zip(options, taken, strict=False)], 1 << 30)
        high = exact.problem.most_held([0] * len(exact.problem.costs))
    return NOTHING_FITS(limit=bytes_text(limit), least=bytes_text(low), found=bytes_text(high))


def verified(plan: PlanData, network: Network, mesh: Mesh) -> None:
    """Raises NotProved unless the plan costs what it says at the sizes of its search, fits, and its
    proof shows that no plan costs less than its bound.
    """
    record = plan.search
    assert record is not None
    sizes = Sizes(plan, record.sizes, {}, "cost")
    cost = cost_of(plan, sizes, record.machine).picoseconds
    if cost != record.cost:
        raise NotProved(f"the plan costs {cost}, not {record.cost}")
    if record.memory is not None:
        held = max(
            held_as_searched(plan, sizes, record.optimizer_states),
            memory_of(plan, sizes, record.optimizer_states).total,
        )
        if held > record.memory:
            raise NotProved(f"the plan holds {held}, more than {record.memory}")
    asked = Asked(record.machine, record.sizes, record.memory, record.optimizer_states)
    form = formulation_of(network, mesh, asked)
    if not record.proof:
        if record.bound > 0:
            raise NotProved("there is no proof")
        return  # No time is below 0.
    options = form.options()
    for steps in record.proof[:-1]:
        masks = survivors_of(form.instance(options).problem, record.bound, steps)
        options = form.kept(options, masks[: len(options)])
        if not all(options):
            return
    check_bound(form.instance(options).problem, record.bound, record.proof[-1])
