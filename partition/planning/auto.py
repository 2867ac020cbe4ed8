"""The policy ``"auto"``: the plan of least time, by an exact search over all axes at once.

`formulation` makes the problem, `dimsolve.partition.search` solves it. Where values are relaxed,
the answer is a bound, and what it chooses is a plan with a price of its own: options that no
cheaper plan can have are dropped, and what is left is formulated anew, until the two meet.

What the search adds up is what `dimsolve.partition.cost` says of the plan, to the picosecond: the
plan's own conversions are priced, not an estimate of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from math import prod
from typing import Any

import numpy as np

from dimsolve.solver.algebra.dims import symbols_of

from ..checkpoints import regions_of
from ..cost import Costs, cost_of
from ..machine import Machine, bytes_text
from ..memory import memory_of
from ..mesh import Mesh, meshes_of
from ..plan_data import (
    Axis,
    CaseRecord,
    PlanData,
    PlanError,
    SearchRecord,
    State,
    problem,
    seconds_text,
)
from ..search.check import NotProved, check_bound, survivors_of
from ..search.clock import Clock, TimeUp, watched
from ..search.problem import FORBIDDEN, Problem
from ..search.search import bounded, drop, solve
from ..sizes import Sizes
from .axis_state import AxisState
from .cases import Case, cases
from .choices import OperatorClass
from .formulation import Formulation, Instance
from .network import Network
from .requirements import Requirements, Uneven
from .vocabulary import Option

NO_SIZES = problem(
    "no-size",
    "a size is missing",
    "the policy 'auto' needs a size for {missing}: they say which plan is fastest",
    "write dimsolve.plan(graph, mesh, 'auto', sizes={{{known}}})",
)
FOUND_SIZES = problem(
    "no-size",
    "a length is known only when the model runs",
    "the policy 'auto' needs a size for {missing}, which the values of a tensor decide",
    "say how long it is, dimsolve.plan(graph, mesh, 'auto', sizes={{{known}}})",
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
PARAMETERS_ALONE = problem(
    "nothing-fits",
    "no plan fits in the memory of a rank",
    "the limit is {limit}, and every plan needs more than {least}: what the caller gives, and the "
    "parameters with gradients and optimiser states, in parts over all ranks",
    "take more ranks, or a machine with more memory",
)
NOT_FOUND = problem(
    "not-found",
    "no plan was found that fits in the memory of a rank",
    "the limit is {limit}; every plan needs more than {least}, and whether there is one was not "
    "proved",
    "give the search more seconds",
)


SECONDS = 60.0
"""A search ends after so many, where nothing else is said."""


@dataclass(frozen=True, slots=True)
class Asked:
    """What a search is asked beside graph and mesh: the machine, the sizes, bytes of memory of a
    rank (None: as much as it takes), optimiser states per parameter, and seconds to search. state:
    how parameters are stored along axes; storage: axes along which the search decides it.
    progress: whether stderr says meanwhile what is known, where somebody looks on. uneven: what may
    be cut into unequal parts.
    """

    machine: Machine
    sizes: Mapping[str, int]
    memory: int | None = None
    states: int = 2
    seconds: float = SECONDS
    state: Mapping[Axis, State] = field(default_factory=dict)
    storage: Sequence[Axis] = ()
    progress: bool = False
    uneven: Uneven = "refuse"


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
    lengths = {dim for edge in network.edges for dim in edge.dims or () if dim is not None}
    used = {name for dim in lengths for name in symbols_of(dim)}
    found = sorted(used - network.classes.known - asked.sizes.keys())
    if found:
        sizes = {**asked.sizes, **dict.fromkeys(found, 1)}
        known = ", ".join(f'"{name}": {size}' for name, size in sizes.items())
        raise FOUND_SIZES(missing=", ".join(found), known=known)
    costs = Costs(asked.machine, counts)
    case = fixed_case(network, mesh, asked)
    return Formulation(
        network, mesh, costs, asked.sizes, asked.memory, asked.states, case, asked.uneven
    )


def fixed_case(network: Network, mesh: Mesh, asked: Asked) -> Case:
    """Returns the case of what is given: regions of the graph, and how parameters are stored."""
    states = tuple((axis, asked.state[axis]) for axis in mesh.names if axis in asked.state)
    return Case(states, tuple(regions_of(network.graph)))


def cases_of(network: Network, mesh: Mesh, asked: Asked) -> list[Case]:
    """Returns all cases: where memory is not limited nothing need be run again."""
    limited = asked.memory is not None
    return list(cases(network, mesh, asked.storage, limited, fixed_case(network, mesh, asked)))


OPERATORS = [["operators"]]
"""The proof of what all operators cost at least, each alone."""

MANY = 256
"""Options of an operator, from which on a plan is looked for axis by axis before all else."""

FIRST_GUESS = 4096
"""The best plan is first looked for at most by this part above the bound of relaxed values."""


LARGE = 1 << 22
"""Entries of all tables, equal ones counted once, from which on a relaxed problem is bounded, and
not searched.
"""

TIGHTER = 6
"""How often a choice that does not fit is looked for again with a lower limit."""

OTHERS = 3
"""How many choices that were found before it are tried where the best does not fit as a plan."""

ASIDE = 12
"""Bits: by this part of what is held the limit is lowered to find another choice."""

FREE = 0.5
"""The part of the time that is left that a search without the limit takes at most."""

NAMED = 0.2
"""The part of the time that is left that the named policies take, once a plan is known."""

WITHIN = 0.5
"""What is left of the time when the search within the limit begins, at least."""

FAR = 0.01
"""The gap, as a part, from which on the named policies are asked although a plan is known."""

AFTER = 0.5
"""Seconds after the end in which named policies are priced, where no plan is known."""

ENDING = 0.4
"""What is left of the time when the named policies are asked for a plan, where nothing is decided.
"""

LEAST_PART = 0.9
"""The part of the time that is left that a case within the limit has at least: building its problem
takes the same however many cases there are.
"""

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

    walk: says what a choice costs as a plan, and by how many bytes it does not fit; what the rows
    of a problem say is a little less than that. cost: what is known already, to be undercut. alone:
    whether a bound is all that is asked for.
    """

    form: Formulation
    clock: Clock = field(default_factory=Clock)
    walk: Callable[[list[Option]], tuple[int, int]] | None = None
    cost: int = FORBIDDEN
    alone: bool = False
    taken: list[Option] | None = None
    bound: int = -1
    proof: list[Any] = field(default_factory=list)

    def run(self) -> Rounds:
        """Returns itself, when no more is to be found, or the user has waited long enough."""
        self.clock.says(self.text)
        self.form.vocabulary.clock = self.form.ways.clock = self.clock
        try:
            self._run()
        except TimeUp:
            self.clock.stop()
        except KeyboardInterrupt:
            self.clock.interrupt()
        finally:
            self.form.vocabulary.clock = self.form.ways.clock = Clock()
        unlimited = self.form.memory is None
        if self.cost == FORBIDDEN and self.bound < FORBIDDEN and unlimited and self.clock.late:
            self.by_axis()
        return self

    def text(self) -> str:
        """What is known meanwhile, in a line."""
        if self.cost == FORBIDDEN:
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
            room = None if limit is None else limit // now.unit * more
            answer = solve(replace(now.problem, limit=room))
            if answer.chosen is None:
                return
            taken = [each[k] for each, k in zip(now.options, answer.chosen, strict=False)]
        self.offer(taken)

    def _run(self) -> None:
        options = self.form.options()
        if max(map(len, options), default=0) > MANY:
            # The time may be over before the problem is written down.
            self.prove(self.form.least_alone(options), [OPERATORS])
            if self.cost == FORBIDDEN and self.form.memory is None:
                self.by_axis()
        now = self.form.instance(options, clock=self.clock)
        known: list[Any] = []
        if now.relaxed and now.problem.entries > LARGE:
            # A bound is enough to drop most options, and all else is faster without them.
            bound, known = bounded(now.problem, self.clock)
            self.prove(bound, [known])
        else:
            self.solve(now, self.cost, [])
        part = FIRST_GUESS
        while not self.alone and now.relaxed and self.bound < self.cost and not self.clock.late:
            before = self.bound
            above = self.bound // part if part else self.bound << 8
            guess = min(self.bound + above + 1, self.cost)
            self.below(guess, now, known)
            if self.form.memory is None and self.bound < min(guess, self.cost):
                break  # More options are left below a larger guess, so that the bound is no better.
            if self.bound == before and (guess == self.cost or part == 0):
                break
            part //= 2

    def below(self, target: int, now: Instance, known: list[Any]) -> None:
        """Looks for choices that cost less than the target. known: the proof of a bound."""
        dropped: list[Any] = []
        while now.relaxed and not self.clock.late:
            masks, steps = drop(now.problem, target, clock=self.clock, known=known)
            known = []
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
        answer = solve(now.problem, clock=self.clock, target=target)
        self.prove(min(answer.bound, target), [*dropped, answer.steps])
        limit = now.problem.limit
        for _ in range(TIGHTER):
            if answer.chosen is None or self.alone:
                return
            taken = [each[k] for each, k in zip(now.options, answer.chosen, strict=False)]
            over = self.offer(taken)
            if limit is None or (over <= 0 and self.cost <= answer.cost):
                break
            for chosen in answer.before[: -1 - OTHERS : -1]:
                if now.problem.cost(chosen) >= self.cost:
                    break
                if self.offer([e[k] for e, k in zip(now.options, chosen, strict=False)]) <= 0:
                    break
            if self.clock.late:
                break
            # The rows say less than the walk, of plans that are alike by as much: so much is left.
            # One that fits costs more than with relaxed values: another one may cost less.
            most = now.problem.most_held(answer.chosen)
            limit = min(limit, most) - (-(-over // now.unit) if over > 0 else most >> ASIDE)
            tighter = replace(now.problem, limit=limit)
            least = answer.cost
            answer = solve(tighter, clock=self.clock, target=min(target, self.cost), hint=least)

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
        cost, over = exact.cost(chosen), 0
        if self.walk is not None:
            cost, over = self.walk(taken)
        if cost < self.cost and over <= 0:
            self.taken, self.cost = taken, cost
            self.bound = min(self.bound, cost)
        return over


@dataclass(frozen=True, slots=True)
class Shape:
    """A mesh that is searched. make: a plan of a case and the options of all operators. named: the
    plans of the named policies for a case.
    """

    mesh: Mesh
    asked: Asked
    make: Callable[[Case, list[Option]], PlanData]
    named: Callable[[Case], Iterable[PlanData]]


@dataclass(slots=True)
class Proved:
    """What is proved of a case: the best bound, with its proof, without the limit of memory and
    with it. form: its formulation without the limit. base: the number of another case, and what
    this one costs more than that without the limit, at least.
    """

    case: Case
    shape: Shape
    form: Formulation
    free: tuple[int, list[Any]] = (-1, [])
    limited: tuple[int, list[Any]] = (-1, [])
    base: tuple[int, int] | None = None
    tries: int = 0
    ended: bool = False


@dataclass(slots=True)
class Cases:
    """The search over all cases of one mesh, or of several. ``cost``: of the best plan so far;
    ``proved``: of every case.
    """

    shapes: Sequence[Shape]
    network: Network
    clock: Clock
    cost: int = FORBIDDEN
    best: PlanData | None = None
    proved: list[Proved] = field(default_factory=list)

    @property
    def memory(self) -> int | None:
        """The limit, which is the same on all meshes."""
        return self.shapes[0].asked.memory

    def run(self) -> None:
        """Searches all of them: first without the limit of memory, which is fast, and bounds cases
        that cost no less; then within it, those first whose bound is least. No case takes the time
        of the others: those that are not decided are searched again with what is left. Where that
        is not enough, the plans of the named policies are what is to be undercut.
        """
        limited = self.memory is not None
        for shape in self.shapes:
            form = formulation_of(self.network, shape.mesh, shape.asked)
            if limited and least_of_parameters(form) > (self.memory or 0):
                limit, least = self.memory or 0, least_of_parameters(form)
                raise PARAMETERS_ALONE(limit=bytes_text(limit), least=bytes_text(least - 1))
            every = cases_of(self.network, shape.mesh, shape.asked)
            self.proved += [Proved(case, shape, form.of(case, None)) for case in every]
        for number, each in enumerate(self.proved):
            known = self._derive(each)
            if limited and each.base is not None and self._left < WITHIN:
                continue  # its bound is a weaker one, but a plan within the limit comes first
            if not known:
                own = self.clock
                if limited:
                    own = own.part(FREE)
                elif len(self.shapes) > 1:
                    own = own.part(2 / (1 + len(self.proved) - number))
                each.free = self._search(each, own, None)
                each.ended = not limited and not own.late
        named = False
        while True:
            undecided = [
                each for each in self.proved if self._bound(each) < self.cost and not each.ended
            ]
            tried = any(each.tries for each in self.proved)
            short = limited and tried and self._left < ENDING
            if not named and (self.best is None or self._far) and (short or self.clock.late):
                named = True
                self._offer_named()
                continue
            if not undecided or self.clock.late:
                return
            worst = min(undecided, key=self._order)
            share = self.clock.part(max(2 / (1 + len(undecided)), LEAST_PART))
            bound, proof = self._search(worst, share, self.memory)
            if limited and bound > worst.limited[0]:
                worst.limited = bound, proof
            if not limited and bound > worst.free[0]:
                worst.free = bound, proof
            worst.tries, worst.ended = worst.tries + 1, not share.late

    @property
    def _far(self) -> bool:
        """Whether a better plan of a named policy may be known."""
        least = min(self._bound(each) for each in self.proved)
        return self.cost - least > FAR * self.cost

    @property
    def _left(self) -> float:
        """The part of the time that is left."""
        return self.clock.part(1.0).seconds / max(self.clock.seconds, 1e-9)

    def _order(self, each: Proved) -> tuple[int, int, bool, int]:
        """Cases that were tried less come first, then those whose bound is less, and of equal ones
        the one that has reached it without the limit.
        """
        bound = self._bound(each)
        return each.tries, bound, each.free[0] < bound, -len(each.case.states)

    def _derive(self, each: Proved) -> bool:
        """Bounds a case by others of its mesh, without the limit; whether it costs no less than one
        of them.
        """
        for number, other in enumerate(self.proved):
            if other.shape is each.shape and other.free[0] >= 0 and other is not each:
                more = each.form.more(other.form)
                if more is not None and (
                    each.base is None or self._derived(each) < other.free[0] + more
                ):
                    each.base = number, more
        return each.base is not None and each.base[1] >= 0

    def _derived(self, each: Proved) -> int:
        """What a case costs at least because another one does."""
        return -1 if each.base is None else self.proved[each.base[0]].free[0] + each.base[1]

    def _search(self, each: Proved, clock: Clock, memory: int | None) -> tuple[int, list[Any]]:
        """Returns a bound of a case with its proof, and takes the plan that is found."""
        walk = None if memory is None else self._walk(each)
        alone = self.memory is not None and memory is None and each.base is not None
        found = Rounds(each.form.of(each.case, memory), clock, walk, self.cost, alone).run()
        if found.taken is not None and walk is None:
            self._offer(each.shape.make(each.case, found.taken))
        return found.bound, found.proof

    def _bound(self, each: Proved) -> int:
        """What a case costs at least, as far as that is known."""
        return max(each.free[0], each.limited[0], self._derived(each))

    def _offer_named(self) -> None:
        """Takes the best plan of a named policy, with parameters stored alike along all axes; of
        the first case, and of others while there is time or no plan: first of those that hold less.
        """
        own = self.clock.part(NAMED)
        end = Clock(AFTER) if self.clock.late else self.clock
        holding = sorted(enumerate(self.proved), key=lambda e: (e[1].case.recompute, -e[0]))
        for number, each in [(0, self.proved[0]), *[e for e in holding if e[0]]]:
            words = {dict(each.case.states).get(axis) for axis in each.shape.asked.storage}
            needed = number == 0 or self.best is None
            better = self._bound(each) < self.cost and not own.late
            if len(words) <= 1 and (needed or better):
                for plan in each.shape.named(each.case):
                    with suppress(PlanError):  # one that does not hold at these sizes is no plan
                        self._offer(plan)
                    if end.late:
                        return

    def _walk(self, each: Proved) -> Callable[[list[Option]], tuple[int, int]]:
        """What a choice costs as a plan, which is offered, and by how many bytes it does not
        fit.
        """
        return lambda taken: self._offer(each.shape.make(each.case, taken))

    def _walked(self, plan: PlanData) -> tuple[int, int]:
        asked = self.shapes[0].asked
        cost = cost_of(plan, Sizes(plan, asked.sizes, {}, "cost"), asked.machine).picoseconds
        if asked.memory is None:
            return cost, 0
        total = memory_of(plan, Sizes(plan, asked.sizes, {}, "memory"), asked.states).total
        return cost, total - asked.memory

    def _offer(self, plan: PlanData) -> tuple[int, int]:
        """Takes a plan that fits and costs less than the best so far. What a value is brought to
        and nobody needs is left out of a plan, so it may cost less than the search counts. Returns
        what it costs, and by how many bytes it does not fit.
        """
        cost, over = self._walked(plan)
        if over <= 0 and (self.best is None or cost < self.cost):
            self.best, self.cost = plan, cost
        return cost, over

    def records(self) -> tuple[int, list[CaseRecord]]:
        """Returns the bound for all cases together, with what shows it of each: its own proof, or
        that of another case without the limit.
        """
        bases: list[int | None] = []
        for each in self.proved:
            own = max(each.free[0], each.limited[0])
            derived = each.base is not None and self._derived(each) >= own
            bases.append(each.base[0] if each.base is not None and derived else None)
        bound, found = FORBIDDEN, []
        for number, (each, base) in enumerate(zip(self.proved, bases, strict=True)):
            limited = base is None and each.limited[0] > each.free[0]
            own, proof = each.limited if limited else each.free
            if base is not None:
                own, proof = self._derived(each), []
            bound = min(bound, own)
            found.append(
                CaseRecord(
                    mesh=_counts(each.shape.mesh),
                    state=dict(each.case.states),
                    recompute=each.case.recompute,
                    limited=limited,
                    dearer_than=base,
                    proof=proof,
                    free=each.free[1] if proof is not each.free[1] and number in bases else [],
                )
            )
        return bound, found


def search(shapes: Sequence[Shape], network: Network, ranks: int | None = None) -> PlanData:
    """Returns the plan of least time on one of the meshes, with what is proved of it. ranks: where
    these are all meshes of so many. Raises PlanError where nothing fits in memory.
    """
    asked = shapes[0].asked
    clock = Clock(asked.seconds, stream=watched() if asked.progress else None)
    found = Cases(shapes, network, clock)
    try:
        found.run()
        bound, records = found.records()
        if found.best is None:
            raise infeasible(found, bound)
    finally:
        clock.wipe()
    # Where nothing can be cut so, the proof is one of equal parts.
    deals = any(each.form.vocabulary.deals for each in found.proved)
    uneven: Uneven = asked.uneven if deals else "refuse"
    record = SearchRecord(
        machine=asked.machine,
        sizes=dict(asked.sizes),
        memory=asked.memory,
        optimizer_states=asked.states,
        storage=list(dict.fromkeys(axis for shape in shapes for axis in shape.asked.storage)),
        ranks=ranks,
        uneven=uneven,
        cost=found.cost,
        bound=max(min(bound, found.cost), 0),
        cases=records,
    )
    return found.best.searched(record)


def _counts(mesh: Mesh) -> dict[Axis, int]:
    return {axis: count for axis, count in mesh.axes if isinstance(count, int)}


def decided_by(
    network: Network, mesh: Mesh, taken: Sequence[Option]
) -> tuple[list[tuple[AxisState, Requirements]], list[OperatorClass]]:
    """Returns the axes as these options of the operators decide them, with the classes of what
    ranks are left with.
    """
    decided: list[tuple[AxisState, Requirements]] = []
    conditions: dict[str, str] = {}
    classes = [operator.op_class for operator in network.operators]
    for number, (axis, count) in enumerate(mesh.axes):
        state = AxisState(network, axis, count, classes)
        requirements = Requirements(count, network.facts, conditions)
        choices = {n: option.choices[number] for n, option in enumerate(taken)}
        for n, choice in choices.items():
            requirements.rely(choice, network.operators[n].node.id)
        state.accept(state.change(choices))
        classes = state.local_classes()
        decided.append((state, requirements))
    return decided, classes


def least_of_parameters(form: Formulation) -> int:
    """Returns the bytes that every plan holds all the time: what the caller gives, and parameters
    with gradients and optimiser states, cut over all ranks. Known at once.
    """
    whole = sum(
        form.size_of(edge)
        for edge in form.network.edges
        if edge.parameter and any(not form.network.operators[n].skipped for n, _ in edge.uses)
    )
    return form.given() + -(-whole * (2 + form.states) // prod(form.counts))


def infeasible(found: Cases, bound: int) -> PlanError:
    """Returns the error for a graph that no plan brings into memory, or none that was found. The
    least is looked for among the cases that hold least.
    """
    limit = found.memory or 0
    if bound < FORBIDDEN:
        known = least_of_parameters(found.proved[0].form) - 1
        return NOT_FOUND(limit=bytes_text(limit), least=bytes_text(known))
    least, known = FORBIDDEN, FORBIDDEN
    for each in reversed(found.proved):
        form = each.form.of(each.case, limit)
        low, high = least_memory(form, found._walk(each), limit, least, found.clock)
        least, known = min(least, low), min(known, high)
    return NOTHING_FITS(limit=bytes_text(limit), least=bytes_text(least), found=bytes_text(known))


def least_memory(
    form: Formulation,
    walk: Callable[[list[Option]], tuple[int, int]],
    limit: int,
    below: int,
    clock: Clock,
) -> tuple[int, int]:
    """Returns what every plan of a case needs at least, as far as that is less than another case's,
    and what one needs.
    """
    options, known = form.options(), FORBIDDEN
    now = form.instance(options)
    problem, limit, below = now.problem, limit // now.unit, -(-below // now.unit)
    zero = Problem(
        tuple(np.where(c >= FORBIDDEN, c, 0) for c in problem.costs),
        {e: np.where(t >= FORBIDDEN, t, 0) for e, t in problem.edges.items()},
        problem.usages,
        None,
    )
    chosen = solve(zero).chosen or []
    low, high = limit, min(zero.most_held(chosen), below)
    middle = high - 1 if below < FORBIDDEN else (low + high) // 2
    while low < high and not clock.late:
        answer = solve(replace(zero, limit=middle))
        if answer.chosen is not None:
            high, chosen = zero.most_held(answer.chosen), answer.chosen
        elif answer.bound >= FORBIDDEN:
            low = middle
        else:
            break
        if high - low <= max(low // 1000, 1):
            break
        middle = (low + high) // 2
    # Of all that hold so little, one that is fast converts little, too.
    chosen = solve(replace(problem, limit=high), clock=Clock(10.0)).chosen or chosen
    if chosen:
        taken = [own[k] for own, k in zip(options, chosen, strict=False)]
        known = walk(taken)[1] + (form.memory or 0)
    return low * now.unit, known


def verified(plan: PlanData, network: Network, mesh: Mesh) -> None:
    """Raises NotProved unless the plan costs what it says at the sizes of its search, fits, and its
    proofs show that no plan of any case costs less than its bound.
    """
    record = plan.search
    assert record is not None
    sizes = Sizes(plan, record.sizes, {}, "cost")
    cost = cost_of(plan, sizes, record.machine).picoseconds
    if cost != record.cost:
        raise NotProved(f"the plan costs {cost}, not {record.cost}")
    if record.bound > record.cost:
        raise NotProved(f"the bound {record.bound} is more than the plan costs")
    if record.memory is not None:
        held = memory_of(plan, sizes, record.optimizer_states).total
        if held > record.memory:
            raise NotProved(f"the plan holds {held}, more than {record.memory}")
    if record.bound <= 0:
        return  # No time is below 0.
    meshes, every = _meshes(record), list[tuple[dict[Axis, int], Formulation]]()
    given = _given(mesh, plan.factors)
    wanted = [given] if record.ranks is None else [_counts(m) for m in meshes_of(record.ranks)]
    if given not in wanted:
        raise NotProved(f"the mesh {mesh} is not one of {record.ranks} ranks that are searched")
    ordered = [list(each.items()) for each in meshes]  # the order of axes counts
    asked_for = [list(each.items()) for each in wanted]
    own_axes = list(_counts(mesh).items())
    if [each for each in ordered if each in asked_for] != asked_for or own_axes not in ordered:
        raise NotProved("its cases are not those of all its meshes")
    for own in meshes:
        seen = Mesh.of(own)
        asked = Asked(
            record.machine,
            record.sizes,
            record.memory,
            record.optimizer_states,
            state=_fixed(plan, mesh, seen),
            storage=[axis for axis in seen.names if axis in record.storage],
            uneven=record.uneven,
        )
        form = formulation_of(network, seen, asked)
        every += [(own, form.of(case, None)) for case in cases_of(network, seen, asked)]
    said = [(e.mesh, tuple(e.state.items()), e.recompute) for e in record.cases]
    if said != [(on, form.case.states, form.case.recompute) for on, form in every]:
        raise NotProved("its cases are not those of the search")
    asked_of: dict[int, int] = {}  # bounds of cases without the limit, which bound others
    for (on, form), entry in zip(every, record.cases, strict=True):
        if entry.dearer_than is None:
            limit = record.memory if entry.limited else None
            check_case(form.of(form.case, limit), record.bound, entry.proof)
            continue
        known = 0 <= entry.dearer_than < len(every)
        other = record.cases[entry.dearer_than] if known else entry
        if not _free(other):
            raise NotProved(f"case {entry.dearer_than} is not proved without a limit")
        if list(every[entry.dearer_than][0].items()) != list(on.items()):
            raise NotProved(f"case {entry.dearer_than} is of another mesh")
        more = form.more(every[entry.dearer_than][1])
        if more is None:
            raise NotProved(f"a case may cost less than case {entry.dearer_than}")
        known_of = asked_of.get(entry.dearer_than, 0)
        asked_of[entry.dearer_than] = max(known_of, record.bound - more)
    for number, bound in asked_of.items():
        entry = record.cases[number]
        alone = entry.dearer_than is None and not entry.limited
        if bound > (record.bound if alone else 0):
            check_case(every[number][1], bound, _free(entry))


def _free(entry: CaseRecord) -> list[Any]:
    """The proof of a case without the limit."""
    alone = entry.dearer_than is None and not entry.limited
    return entry.proof if alone else entry.free


def _fixed(plan: PlanData, mesh: Mesh, other: Mesh) -> dict[Axis, State]:
    """How parameters were to be stored along the axes of another mesh: as the plan says, along the
    axes that the search was not to decide; where meshes were looked for, alike along all.
    """
    assert plan.search is not None
    given = {a: plan.state.get(a) for a in mesh.names if a not in plan.search.storage}
    if plan.search.ranks is None:
        words = given
    elif len(set(given.values())) > 1:
        raise NotProved("parameters are not stored alike along the axes of the mesh")
    else:
        words = dict.fromkeys(other.names, next(iter(given.values()), None))
    return {
        axis: word
        for axis, word in words.items()
        if word is not None and axis not in plan.search.storage
    }


def _given(mesh: Mesh, factors: Mapping[Axis, Sequence[Axis]]) -> dict[Axis, int]:
    """The mesh whose axes are not seen as several."""
    names = {each: axis for axis, own in factors.items() for each in own}
    found: dict[Axis, int] = {}
    for axis, count in _counts(mesh).items():
        whole = names.get(axis, axis)
        found[whole] = found.get(whole, 1) * count
    return found


def _meshes(record: SearchRecord) -> list[dict[Axis, int]]:
    """The meshes of the cases, each once."""
    found: list[dict[Axis, int]] = []
    for each in record.cases:
        if not found or list(each.mesh.items()) != list(found[-1].items()):
            found.append(each.mesh)
    return found


def check_case(form: Formulation, bound: int, proof: Sequence[Any]) -> None:
    """Raises NotProved unless a proof shows that no plan of a case costs less than a bound."""
    options = form.options()
    if not proof:
        raise NotProved("a case has no proof")
    if proof == [OPERATORS]:
        if form.least_alone(options) < bound:
            raise NotProved(f"its operators alone may cost less than {bound}")
        return
    for steps in proof[:-1]:
        masks = survivors_of(form.instance(options).problem, bound, steps)
        options = form.kept(options, masks[: len(options)])
        if not all(options):
            return
    check_bound(form.instance(options).problem, bound, proof[-1])
