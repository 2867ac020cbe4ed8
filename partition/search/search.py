"""Finds a choice of least cost under the limit, and a proof that there is none cheaper.

    reduce        what can be decided exactly is decided (`core`)
    eliminate     what is left, where its tables are small; prices for what is held at a time, by
                  cutting planes (Kelley, 1960), where the limit is not kept of its own
    labels        where prices leave a gap: all that is near the bound, with what it holds
    messages      where tables are large: a bound that lets most options go, until tables are small
    walk          from what messages lead to, to cheaper choices near it
    guess         a lower target first, below which fewer options are left
    split         where nothing else helps: cases, each with a proof of its own

Deterministic: the same problem has the same answer, unless a time limit ends the search. Then the
answer is the best choice so far, and the bound is what was proved.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

import highspy
import numpy as np

from .bounds import Costs, Edges, Elimination, Messages, drop_above, elimination_order
from .clock import Clock, TimeUp
from .core import EXACT, Core, Empty, Table
from .labels import TooMany, cheapest
from .nearby import Nearby
from .problem import FORBIDDEN, Numbers, Problem

FIRST_PART = 1 << 14
"""By this part above a bound the best choice is first looked for."""

SWEEPS = 600
"""Passes of messages over a core, at most."""

CLOSE = 0.002
"""A part of the bound: where the best choice is so close, prices are looked for no further."""

MOST_PRICED = 16
"""How often prices are tried on the whole problem."""

WORK = 6e7
"""Entries of all tables together, equal ones counted once, up to which a core is eliminated."""

GUESSES = (32, 16, 8, 4, 2, 1)
"""Parts of the way from the bound to the best choice, at which one is looked for."""

PARTS = (1 << 13, 1 << 11, 1 << 9, 1 << 7, 1 << 5, 0)
"""Parts of a good bound by which a choice is first looked for above it."""

STEPS = 10_000
"""Nodes that are chosen anew after messages were passed."""

PASSES = 10
"""Passes of messages at the same prices."""

STALLED = 6
"""How often prices may change in vain."""

DEAREST = 0.25
"""What the limit is worth at most at the first prices, as a part of the cost."""

REPEATED = 16
"""How many times as many where nothing is priced: of those most are found equal meanwhile."""

FEW = 3
"""Nodes that hold most differently, of which cases are made before labels, ..."""

MANY = 16
"""... and to each of which there are so many others: of small cores labels are few."""

Prices: TypeAlias = dict[int, float]
Found: TypeAlias = tuple[int, list[Any]]
"""A bound with its proof."""


class AlsoAt(Exception):
    """A choice fits at all times of a core, and holds too much at another time."""

    def __init__(self, time: int) -> None:
        self.time = time


@dataclass(frozen=True, slots=True)
class Answer:
    """``chosen``: an option per node, None where none was found; ``cost``: its cost. ``bound``:
    what every choice costs at least; FORBIDDEN where nothing fits. ``steps``: the proof of the
    bound, for `dimsolve.partition.search.check`. ``before``: choices that fit and cost more, the
    cheapest one last.
    """

    chosen: list[int] | None
    cost: int
    bound: int
    steps: list[Any]
    before: list[list[int]] = field(default_factory=list)

    @property
    def optimal(self) -> bool:
        """Whether no choice is cheaper, or none exists."""
        return self.bound >= self.cost


def solve(
    problem: Problem,
    *,
    clock: Clock | None = None,
    start: list[int] | None = None,
    target: int = FORBIDDEN,
    hint: int = -FORBIDDEN,
    work: float = WORK,
) -> Answer:
    """Returns the answer. clock: when its time is over, or the user interrupts, the best so far is
    returned, with its bound. start: a choice that is known. target: only choices that cost less are
    looked for. hint: below which cost none is expected, as of a problem with a higher limit. work:
    entries of all tables together, up to which a core is eliminated.
    """
    search = Search(problem, clock or Clock(), work, target=target, hint=hint)
    return replace(search.run(start), before=search.before[:-1])


def drop(
    problem: Problem,
    target: int,
    *,
    clock: Clock | None = None,
    work: float = WORK,
    known: Sequence[Any] = (),
) -> tuple[list[Any] | None, list[Any]]:
    """Returns for every node which of its options some choice may have that costs less than the
    target, as far as bounds tell; None where no choice does. With the proof, for
    `dimsolve.partition.search.check.survivors_of`. known: the proof of a bound by `bounded`.
    """
    return _Drop(problem, clock or Clock(), work, target=target).masks(known)


def bounded(problem: Problem, clock: Clock, work: float = WORK) -> tuple[int, list[Any]]:
    """Returns what every choice costs at least, as far as messages tell, with the proof."""
    return _Drop(problem, clock, work).bound()


@dataclass(slots=True)
class Search:
    """One run. ``best``: the best choice so far, and its ``cost``; ``target``: what is to be
    undercut, which is less where it is guessed that something is. hint: below this cost
    nothing is expected, so that it is not looked for there first. gap: what the last prices leave.
    """

    problem: Problem
    clock: Clock
    work: float
    best: list[int] | None = None
    target: int = FORBIDDEN
    hint: int = -FORBIDDEN
    scale: int = 1
    cost: int = FORBIDDEN
    gap: float = 0.0
    before: list[list[int]] = field(default_factory=list)

    def run(self, start: list[int] | None) -> Answer:
        self.begin()
        self.cost = self.target
        if start is not None:
            self.offer(start)
        prices: Prices = {}
        times: set[int] = set()
        limited = self.problem.limit is not None
        known = self.without_limit(prices, times) if limited and self.alike else None
        if known is not None and (known.bound >= self.target or self.late):
            return Answer(self.best, self.cost, min(known.bound, self.cost), known.steps)
        core = Core.__new__(Core)
        try:
            core = Core(self.problem)
            if known is not None and times:
                core.rows()
                found = self.near(core, prices, times, known.bound)
                return Answer(self.best, self.cost, *self.better(found, known))
            core.reduce(self.clock)
            bound = self.prove(core, {}, reduced=True, guess=True)
        except Empty:
            bound = self.target
        except (TimeUp, KeyboardInterrupt) as end:
            self.clock.stop() if isinstance(end, TimeUp) else self.clock.interrupt()
            self.target = self.cost
            return Answer(self.best, self.cost, *self.better(self.least(), known))
        found = min(bound, self.cost), core.__dict__.get("steps", [])
        return Answer(self.best, self.cost, *self.better(found, known))

    @property
    def alike(self) -> bool:
        """Whether most tables stand at more than one edge, as those of repeated layers do."""
        edges = self.problem.edges
        return 2 * len({id(table) for table in edges.values()}) <= len(edges)

    def better(self, found: tuple[int, list[Any]], known: Answer | None) -> tuple[int, list[Any]]:
        """The larger bound of two, with its proof."""
        if known is None or known.bound < found[0]:
            return found
        return min(known.bound, self.cost), known.steps

    def without_limit(
        self, best_prices: Prices | None = None, found_times: set[int] | None = None
    ) -> Answer:
        """Searches without the limit; what is held too much costs a price, which is looked for by
        cutting planes. Returns the best bound with its proof; best_prices and found_times get its
        prices, and all times at which too much was held. Layers stay alike here, so this is fast;
        it ends where prices can say no more.
        """
        limit = float(self.problem.limit or 0)
        best_prices = {} if best_prices is None else best_prices
        found_times = set() if found_times is None else found_times
        prices: Prices = {}
        wide = DEAREST
        times: list[int] = []
        cuts: list[tuple[float, dict[int, int]]] = []
        best = Answer(None, FORBIDDEN, *self.least())
        for _ in range(MOST_PRICED):
            weight = self.scale if prices else 1
            answer = Search(
                priced_problem(self.problem, weight, prices), self.clock, self.work
            ).run(None)
            worth = int(sum(prices.values()) * limit)
            bound = -((worth - answer.bound) // weight)
            if answer.chosen is None and answer.bound >= FORBIDDEN:
                bound = FORBIDDEN
            if bound > best.bound:
                known = [[t, int(p)] for t, p in sorted(prices.items()) if p]
                best = Answer(None, FORBIDDEN, bound, [["price", weight, known], *answer.steps])
                best_prices.clear()
                best_prices.update(prices)
            if answer.chosen is None:
                break
            self.offer(answer.chosen)
            held = self.problem.held(answer.chosen)
            worst = max(held, key=lambda t: (held[t], -t), default=None)
            if bound >= self.target or self.late or worst is None:
                break
            if held[worst] > limit and worst not in times:
                times.append(worst)
                # Shortly before and after it, other things are held: they would come to matter.
                found_times.update([worst, *beside(held, worst, limit)])
            if times and self.cost - best.bound < best.bound * CLOSE:
                break  # At these times alone all else is faster.
            cost = self.scale * self.problem.cost(answer.chosen)
            cuts.append((float(cost), held))
            rows = [(own, {t: at(held, t) - limit for t in times}) for own, held in cuts]
            before, box = prices, wide * min(c for c, _ in cuts) / max(limit, 1)
            if held[worst] > limit and any(prices.get(t, 0.0) >= 0.9 * box for t in times):
                wide, box = 8 * wide, 8 * box
            box = min(box, 4 * max(c for c, _ in cuts) / max(limit, 1))
            prices, reached = master(rows, times, box, limit)
            prices = {t: p for t, p in prices.items() if p}
            done = reached <= self.scale * best.bound * (1 + 1e-6)
            if done or not prices or prices == before:  # prices are whole numbers
                break
        return best

    def least(self) -> tuple[int, list[Any]]:
        """The sum of all least costs, as a bound with its proof."""
        least: dict[int, int] = {}
        bound = 0
        for each in (*self.problem.costs, *self.problem.edges.values()):
            if id(each) not in least:
                least[id(each)] = int(each.min(initial=FORBIDDEN))
            bound += least[id(each)]
        bound = min(bound, self.target)
        said = {"weight": 1, "prices": [], "target": bound, "order": None, "messages": []}
        return bound, [["bound", said]]

    def begin(self) -> None:
        """Says by how much costs are scaled."""
        known: dict[int, int] = {}
        total = 0
        for each in (*self.problem.costs, *self.problem.edges.values()):
            if id(each) not in known:
                known[id(each)] = int(each[each < FORBIDDEN].max(initial=0))
            total += abs(known[id(each)])
        self.scale = 1 << max(0, min(12, (EXACT // 16 // max(total, 1)).bit_length() - 1))

    @property
    def late(self) -> bool:
        return self.clock.late

    def offer(self, chosen: list[int]) -> bool:
        """Takes a choice that fits and is better than the best; whether it fits."""
        cost = self.problem.cost(chosen)
        if cost >= FORBIDDEN or not self.problem.fits(chosen):
            return False
        if cost < self.cost:
            self.best, self.cost = chosen, cost
            self.before.append(chosen)
        self.target = min(self.target, cost)
        return True

    # proofs --------------------------------------------------------------------------------------

    def prove(
        self,
        core: Core,
        prices: Prices,
        *,
        reduced: bool = False,
        guess: bool = False,
        known: bool = False,
    ) -> int:
        """Searches a core; its proof is in its steps. Returns what every choice in it costs at
        least, as far as it matters: the target, or less where the time was over. guess: whether
        targets are guessed before cases are split. known: whether the prices are good ones.
        """
        given: dict[Any, Table] = {}
        try:
            while True:
                if not reduced:
                    core.reduce()
                reduced = False
                before = core.options
                together = REPEATED * self.work if known or not core.times else self.work
                order = elimination_order(core, self.work, together)
                if order is None:
                    found = self.messages(core, given, prices)
                elif known:
                    found = self.narrowed(core, order, prices)
                    known = core.options <= 0.5 * before
                    if found is None:
                        continue
                else:
                    found = self.exact(core, order, prices)
                if found is not None:
                    return found
                if core.options > 0.9 * before and (order is not None or core.options == before):
                    if guess and self.best is not None and core.reached < self.target - 1:
                        return self.guessed(core, prices)
                    return self.split(core, prices, given)
        except Empty:
            return self.target

    def exact(self, core: Core, order: list[int], prices: Prices) -> int | None:
        """Bounds a core by elimination, prices what does not fit, and drops options; the bound
        where it ends the matter.
        """
        whole = Elimination(order, core.costs, core.edges, self.clock)
        if np.isinf(whole.least):
            self.note(core, 1, {}, order, self.target)
            return self.target
        fits = self.offer(core.choice(whole.chosen()))
        if fits or whole.least > self.target - 1:
            self.note(core, 1, {}, order, self.target)
            return self.target
        if self.best is None:
            found = self.priced(core, order, {}, 0)
            if found is not None:
                return found
        found = self.priced(core, order, prices, self.scale)
        if found is not None:
            return found
        if self.late:
            return self.give_up(core, order, prices)
        return None if self.uneven(core, prices) else self.labelled(core, order, prices)

    def uneven(self, core: Core, prices: Prices) -> bool:
        """Whether a few nodes of many hold more differently than all others, at these prices, and
        by more than what the bound is away from the target: cases of these are fewer than labels.
        """
        ranges = [float(np.ptp(self.price_of(core, i, prices))) for i in core.usages]
        most = max(ranges)
        few, many = sum(each >= most / 4 for each in ranges), sum(each > 0 for each in ranges)
        return any(prices.values()) and few <= FEW < many // MANY and most > self.gap

    def narrowed(self, core: Core, order: list[int], prices: Prices) -> int | None:
        """Drops options by elimination at these prices; the bound where nothing is left."""
        dual = Dual(self, core, order, self.scale, {})
        prices = {t: float(int(p)) for t, p in prices.items() if t in core.place}
        run, most = dual.eliminated(prices), self.scale * (self.target - 1)
        constant = dual.constant(prices)
        self.note(core, self.scale, prices, order, self.target)
        if run.least + constant > most:
            return self.target
        chosen = core.choice(run.chosen())
        if not self.offer(chosen):
            held = self.problem.held(chosen)
            worst = max(held, key=lambda t: (held[t], -t))
            if worst not in core.place:
                core.steps.pop()
                raise AlsoAt(worst)
        if self.late:
            return self.give_up(core, order, prices)
        for i, each in run.marginals().items():
            kept = each + constant <= most
            if not kept.all():
                core.keep(i, kept)
        return None

    def labelled(self, core: Core, order: list[int], prices: Prices) -> int | None:
        """Finds the best choice by labels, near the bound first, with what is held at the times
        that have a price, and those at which what is found holds too much; None where that takes
        too many.
        """
        dual = Dual(self, core, order, self.scale, {})
        known = {t: p for t, p in prices.items() if t in core.place and p}
        run = dual.eliminated(known)
        bound = int(-(-(run.least + dual.constant(known)) // self.scale))
        reached, part = bound, FIRST_PART
        try:
            while reached < self.target:
                above = abs(bound) // part + 1 if part else abs(bound) << 2
                guess = min(bound + above, self.target)
                if guess <= self.hint and guess < self.target:
                    part = part * 2 // 3
                    continue
                most = self.scale * (guess - 1)
                usages = held_by(core, list(known))
                chosen = cheapest(run, usages, list(known.values()), core.limit, most, self.clock)
                if chosen is None:
                    reached = guess
                    self.hint = max(self.hint, guess)
                    if not part:
                        break
                    part = part * 2 // 3
                elif not self.offer(core.choice(chosen)):
                    held = self.problem.held(core.choice(chosen))
                    worst = max(held, key=lambda t: (held[t], -t))
                    if worst not in core.place or worst in known:
                        raise AlsoAt(worst)
                    known[worst] = 0.0
                else:
                    reached = self.target
        except TooMany:
            return None
        except TimeUp:
            pass
        if reached < self.target and not self.late:
            return None
        times = [[t, int(p)] for t, p in sorted(known.items())]
        said = {"weight": self.scale, "prices": times, "target": reached, "order": order}
        core.steps.append(["labels", said])
        return reached

    def priced(self, core: Core, order: list[int], prices: Prices, weight: int) -> int | None:
        """Looks for prices with a large bound, and drops options by them. weight 0: the costs do
        not count, and a bound above 0 says that nothing fits.
        """
        dual = Dual(self, core, order, weight, prices)
        best, bound = dual.maximise()
        prices.update(best) if weight else None
        most = weight * (self.target - 1)
        self.gap = most - bound
        self.note(core, weight, best, order, self.target)
        if bound > most:
            return self.target
        over = dual.eliminated(best).marginals()
        constant = dual.constant(best)
        for i, each in over.items():
            kept = each + constant <= most
            if not kept.all():
                core.keep(i, kept)
        return None

    def give_up(self, core: Core, order: list[int], prices: Prices) -> int:
        """Says what is proved when the time is over."""
        dual = Dual(self, core, order, self.scale, {})
        whole = {t: p for t, p in prices.items() if t in core.place}
        eliminated = dual.eliminated(whole)
        reached = int(-(-(eliminated.least + dual.constant(whole)) // self.scale))
        reached = min(reached, self.target)
        self.note(core, self.scale, whole, order, reached)
        return reached

    def note(
        self, core: Core, weight: int, prices: Prices, order: list[int] | None, target: int
    ) -> None:
        known = [[t, int(p)] for t, p in sorted(prices.items()) if p]
        core.steps.append(
            ["bound", {"weight": weight, "prices": known, "target": target, "order": order}]
        )

    def messages(
        self, core: Core, given: dict[Any, Table], prices: Prices, *, end: bool = False
    ) -> int | None:
        """Bounds a core by messages and drops options and pairs. What choices hold too much costs a
        price: the best for the choices that messages have led to, by cutting planes. end: whether
        the bound is all that is asked for.
        """
        edges = scaled(core.edges, self.scale)
        passing = Messages(priced_costs(core, self.scale, prices), edges, given)
        best: tuple[float, dict[Any, Table], Prices] = (-np.inf, {}, {})
        cuts = Cuts(self, core, [t for t in prices if t in core.place])
        stalled, step = 0, 0.5
        for _ in range(SWEEPS // PASSES):
            for sweep in range(PASSES):
                passing.sweep(forward=sweep % 2 == 0)
                late = self.late
                if sweep >= PASSES - 2 or late:
                    chosen = passing.decoded(forward=sweep % 2 == 1)
                    improve(chosen, passing.costs, edges)
                    cuts.add(chosen)
                if late:
                    break
            bound = passing.bound() + constant_of(core, prices)
            stalled = 0 if bound > best[0] + cuts.matters(best[0]) else stalled + 1
            step = min(2 * step, 0.5) if bound > best[0] else step / 2
            if bound > best[0]:
                best = bound, dict(passing.given), dict(prices)
            if bound > self.scale * (self.target - 1) or self.late:
                break
            if stalled > (STALLED if cuts.times else 0):
                break
            found = cuts.best()
            if found is not None:
                # Part of the way from the best ones: cuts alone lead to and fro (Wentges, 1997).
                prices.clear()
                prices.update(between(best[2], found, step))
                passing.costs = priced_costs(core, self.scale, prices)
                passing.given = dict(best[1])
        if not best[1]:
            best = -np.inf, dict(passing.given), dict(prices)
        end = end or self.late
        if core.times and best[0] <= self.scale * (self.target - 1) and not end:
            self.walk(core, edges, best[2], chosen)
        given.clear()
        given.update({key: np.rint(m) for key, m in best[1].items()})
        prices.clear()
        prices.update(best[2])
        return self.above(core, edges, given, prices, end=end)

    def above(
        self, core: Core, edges: Edges, given: dict[Any, Table], prices: Prices, *, end: bool
    ) -> int | None:
        """Drops options and pairs by these messages, or says the bound where it ends the matter."""
        costs, constant = priced_costs(core, self.scale, prices), constant_of(core, prices)
        core.reached = int(-(-(Messages(costs, edges, given).bound() + constant) // self.scale))
        limit = min(self.target, core.reached) if end else self.target
        self.note(core, self.scale, prices, None, limit)
        core.steps[-1][1]["messages"] = [
            [i, j, given[j, i].astype(int).tolist(), given[i, j].astype(int).tolist()]
            for i in core.edges
            for j in core.edges[i]
            if i < j
        ]
        if end:
            return limit
        over = drop_above(core, costs, edges, given, constant, self.scale * (limit - 1))
        return limit if over else None

    def walk(self, core: Core, edges: Edges, prices: Prices, chosen: dict[int, int]) -> None:
        """Offers choices near one that is known."""

        def priced(factor: float) -> Costs:
            now = {time: float(int(p * factor)) for time, p in prices.items()}
            return priced_costs(core, self.scale, now)

        def offer(found: dict[int, int]) -> bool:
            return self.offer(core.choice(found))

        nearby, rounds = Nearby(priced, edges, offer), STEPS // len(core.costs)
        cost = FORBIDDEN + 1
        while rounds and self.cost < cost and not self.late:
            cost = self.cost
            chosen = nearby.walk(chosen, rounds, lambda: self.late)

    def near(self, whole: Core, prices: Prices, times: set[int], reached: int) -> Found:
        """Searches a core at a few times alone, and at those too at which what is found holds too
        much. There most nodes hold nothing that differs, so that most is decided exactly.
        """
        while True:
            core = whole.copy()
            try:
                core.only(sorted(times))
                core.reduce(self.clock)
                core.reached = reached
                found = self.narrow(core, prices)
            except Empty:
                found = self.target
            except AlsoAt as more:
                times.add(more.time)
                continue
            return found, [*whole.steps, *core.steps]

    def narrow(self, core: Core, prices: Prices) -> int:
        """Drops what costs no less than what is known, at good prices; then looks for choices near
        the bound first. Returns the bound.
        """
        prices, steps = dict(prices), list[Any]()
        order = self.order_of(core) if self.best is not None else None
        found = None if order is None else self.narrowed(core, order, prices)
        if found is not None:
            return found
        core.reduce()
        order = self.order_of(core)
        if order is not None:
            prices, bound = Dual(self, core, order, self.scale, prices).maximise()
            if bound / self.scale > core.reached:
                core.reached = min(int(-(-bound // self.scale)), self.target)
                self.note(core, self.scale, prices, order, core.reached)
                steps.append(core.steps.pop())
            self.gap = self.scale * (self.target - 1) - bound
        start = core.reached
        # Lower targets are of no use where cases are made anyway.
        for part in (0,) if order is not None and self.uneven(core, prices) else PARTS:
            guess = min(start + abs(start) // part + 1, self.target) if part else self.target
            if guess <= self.hint and guess < self.target:
                continue
            case, self.target = core.copy(), guess
            try:
                bound = self.prove(case, dict(prices), reduced=True, known=True)
            finally:
                self.target = self.cost
            if bound > core.reached:
                core.reached, steps = bound, case.steps
            found = self.cost < guess
            if found or bound < guess or guess == self.cost:
                break
            self.hint = max(self.hint, guess)
        core.steps += steps
        return core.reached

    def order_of(self, core: Core) -> list[int] | None:
        """The order in which a core of repeated parts is eliminated."""
        return elimination_order(core, self.work, REPEATED * self.work)

    def guessed(self, core: Core, prices: Prices) -> int:
        """Proves a core with lower targets first: below them fewer options are left, and what is
        found there is the best. Where nothing is, the target is a bound.
        """
        reached, steps = core.reached, list[Any]()
        for part in GUESSES:
            guess = reached + (self.target - reached) // part
            if guess <= reached:
                continue
            case, self.target = core.copy(), guess
            bound = self.prove(case, dict(prices))
            if bound > reached:
                reached, steps = bound, case.steps
            found, self.target = self.target < guess, self.cost
            if found or reached < guess:
                break
        core.steps += steps
        return reached

    def split(self, core: Core, prices: Prices, given: dict[Any, Table]) -> int:
        """Proves the cases of one node: of one whose options hold most differently at these prices,
        else of one with many options.
        """
        weighed = {i: self.price_of(core, i, prices) for i, c in core.costs.items() if len(c) > 1}
        node = max(weighed, key=lambda i: (float(np.ptp(weighed[i])), len(weighed[i]), -i))
        each = weighed[node] if np.ptp(weighed[node]) else core.costs[node]
        low = each <= (each.min() + each.max()) / 2
        if low.all():
            low = np.arange(len(each)) == 0
        ids, bound, proofs = core.ids[node], self.target, []
        for group in (low, ~low):
            case = core.copy()
            case.keep(node, group)
            bound = min(bound, self.prove(case, dict(prices)))
            proofs.append(case.steps)
        if self.late and bound < core.reached:
            # The cases were left too early to say as much as is known of them together.
            found = self.messages(core, given, prices)
            if found is not None:
                return found
        core.steps.append(["split", node, [ids[low].tolist(), ids[~low].tolist()], proofs])
        return bound

    def price_of(self, core: Core, i: int, prices: Prices) -> Table:
        """Returns what the options of a node hold, at these prices; without prices, in all."""
        total = np.zeros(len(core.costs[i]))
        at = sorted((core.place[t], p) for t, p in prices.items() if p)
        for a, b, usage in core.usages[i]:
            total = total + usage * (sum(p for t, p in at if a <= t < b) if at else 1.0)
        return total


class _Drop(Search):
    """A search whose target stands, and in which an option goes by bounds alone."""

    def above_known(self, core: Core, said: dict[str, Any]) -> bool:
        """Drops by messages that are known of the same core; whether nothing is left."""
        given = {}
        for i, j, first, second in said["messages"]:
            given[j, i], given[i, j] = np.array(first, float), np.array(second, float)
        edges = scaled(core.edges, self.scale)
        if self.above(core, edges, given, {}, end=False) is not None:
            return True
        core.reduce()
        return False

    def offer(self, chosen: list[int]) -> bool:
        cost = self.problem.cost(chosen)
        return cost < FORBIDDEN and self.problem.fits(chosen)

    def walk(self, *_: Any) -> None:
        """Looks for nothing."""

    def bound(self) -> tuple[int, list[Any]]:
        """Returns the bound of messages alone."""
        self.begin()
        try:
            core = Core(self.problem, only_bounds=True)
            core.reduce(self.clock)
            found = self.messages(core, {}, {}, end=True)
        except Empty:
            return self.target, []
        except TimeUp:
            return self.least()
        return (self.target if found is None else found), core.steps

    def masks(self, known: Sequence[Any] = ()) -> tuple[list[Any] | None, list[Any]]:
        self.begin()
        core = Core.__new__(Core)
        given: dict[Any, Table] = {}
        prices: Prices = {}
        try:
            core = Core(self.problem, only_bounds=True)
            core.reduce(self.clock)
            if known and known[-1][1].get("messages") and self.above_known(core, known[-1][1]):
                return None, core.steps
            while True:
                before = core.options
                order = elimination_order(core, self.work, self.work)
                if order is None:
                    found = self.messages(core, given, prices)
                else:
                    found = self.priced(core, order, prices, self.scale)
                if found is not None and not self.late:
                    return None, core.steps
                core.reduce()
                if order is not None or core.options > 0.98 * before or self.late:
                    break
        except Empty:
            return None, core.__dict__.get("steps", [])
        except TimeUp:
            return [np.ones(len(own), bool) for own in self.problem.costs], []
        masks = []
        for i, own in enumerate(self.problem.costs):
            mask = np.zeros(len(own), bool)
            mask[core.ids[i]] = True
            masks.append(mask)
        return masks, core.steps


def priced_costs(core: Core, weight: int, prices: Prices) -> dict[int, Table]:
    """Returns the costs of options, times a weight, with what they hold at these prices; equal ones
    as one object.
    """
    at = sorted((core.place[t], int(p)) for t, p in prices.items() if p)
    known: dict[Any, tuple[Table, Any]] = {}
    found = {}
    for i, own in core.costs.items():
        held = (
            [(u, sum(p for t, p in at if a <= t < b)) for a, b, u in core.usages[i]] if at else []
        )
        held = [(usage, price) for usage, price in held if price]
        key = id(own), *[(id(usage), price) for usage, price in held]
        if key not in known:
            total = own * weight
            for usage, price in held:
                total = total + price * usage
            known[key] = total, (own, held)
        found[i] = known[key][0]
    return found


def constant_of(core: Core, prices: Prices) -> float:
    """Returns what the limit is worth at these prices, taken away from every bound."""
    return -sum(int(p) for p in prices.values()) * core.limit if prices else 0.0


def held_by(core: Core, times: list[int]) -> dict[int, Table]:
    """Returns what the options of every node that holds anything hold at these times."""
    found = {}
    for i, usages in core.usages.items():
        if usages:
            each = np.zeros((len(core.costs[i]), len(times)))
            for n, time in enumerate(times):
                for a, b, usage in usages:
                    if a <= core.place[time] < b:
                        each[:, n] += usage
            found[i] = each
    return found


def scaled(edges: dict[int, dict[int, Table]], weight: int) -> dict[int, dict[int, Table]]:
    """Returns the tables times a weight, equal ones as one object; forbidden ones stay so."""
    if weight == 1:
        return edges
    known: dict[int, Table] = {}

    def times(table: Table) -> Table:
        if id(table) not in known:
            known[id(table)] = table * weight if weight else np.where(np.isinf(table), np.inf, 0.0)
        return known[id(table)]

    return {i: {j: times(table) for j, table in near.items()} for i, near in edges.items()}


def between(first: Prices, second: Prices, part: float) -> Prices:
    """Returns the prices a part of the way from the first ones to the second."""
    found = {}
    for time in sorted({*first, *second}):
        own = first.get(time, 0.0)
        found[time] = float(round(own + part * (second.get(time, 0.0) - own)))
    return {t: p for t, p in found.items() if p}


def improve(chosen: dict[int, int], costs: Costs, edges: Edges) -> None:
    """Changes one node at a time as long as that is cheaper."""
    queue = dict.fromkeys(sorted(costs))
    while queue:
        i = next(iter(queue))
        del queue[i]
        own = costs[i]
        for j, table in edges[i].items():
            own = own + table[:, chosen[j]]
        k = int(own.argmin())
        if own[k] < own[chosen[i]]:
            chosen[i] = k
            queue.update(dict.fromkeys(edges[i]))


class Cuts:
    """Choices that bound what prices can say: at any prices each costs what it costs, and what it
    holds too much. ``times``: at which one of them held most, and too much.
    """

    def __init__(self, search: Search, core: Core, times: Iterable[int] = ()) -> None:
        self.search, self.core = search, core
        self.times = sorted(times)
        self.cuts: list[tuple[float, dict[int, int]]] = []

    def add(self, chosen: dict[int, int]) -> None:
        """Adds a choice, and offers it to the search."""
        search, limit = self.search, self.search.problem.limit
        whole = self.core.choice(chosen)
        cost = search.problem.cost(whole)
        if cost >= FORBIDDEN:
            return
        search.offer(whole)
        if limit is None or not self.core.times:
            return
        held = search.problem.held(whole)
        seen = self.core.at(held)
        worst = max(seen, key=lambda t: (seen[t], -t))
        if seen[worst] > limit and worst not in self.times:
            self.times.append(worst)
        self.cuts.append((float(search.scale * cost), held))

    def best(self) -> Prices | None:
        """Returns the prices at which the cheapest of the choices costs most; None without any."""
        if not self.times or not self.cuts:
            return None
        limit = self.core.limit
        rows = [(own, {t: at(held, t) - limit for t in self.times}) for own, held in self.cuts]
        box = 4 * max(own for own, _ in self.cuts) / max(limit, 1)
        prices, _ = master(rows, self.times, box, limit)
        return {t: p for t, p in prices.items() if p}

    def matters(self, bound: float) -> float:
        """By how much a bound has to rise to be worth more passes."""
        if np.isinf(bound):
            return 0.0
        gap = self.search.scale * float(self.search.target) - bound
        return min(abs(bound) * 1e-4, gap * 0.02) if self.times else abs(bound) * 1e-4


class Dual:
    """The bound of a core as a function of prices, which is concave, and its maximum."""

    def __init__(
        self, search: Search, core: Core, order: list[int], weight: int, start: Prices
    ) -> None:
        self.search, self.core, self.order, self.weight = search, core, order, weight
        self.start = start
        self.edges = scaled(core.edges, weight)
        self.costs = {i: c * weight for i, c in core.costs.items()}

    def constant(self, prices: Prices) -> float:
        return constant_of(self.core, prices)

    def eliminated(self, prices: Prices) -> Elimination:
        """Returns the minimum at these prices, which are whole numbers per time."""
        costs = priced_costs(self.core, self.weight, prices)
        return Elimination(self.order, costs, self.edges, self.search.clock)

    def maximise(self) -> tuple[Prices, float]:
        """Returns the best prices found and their bound."""
        search, core, limit = self.search, self.core, self.core.limit
        reach = max(sum(np.ptp(c) for c in self.costs.values()), 1.0)
        reach += sum(
            float(np.ptp(t[np.isfinite(t)]))
            for i in self.edges
            for j, t in self.edges[i].items()
            if i < j
        )
        most = (
            EXACT
            / 4
            / max(
                max((u.max() for e in core.usages.values() for _, _, u in e), default=1), limit, 1
            )
        )
        box = (
            min(4 * reach / max(limit, 1) * 64, most) if self.weight else min(float(1 << 20), most)
        )
        if self.weight and search.best is not None:
            box = min(box, 4 * self.weight * search.cost / max(limit, 1))
        times: list[int] = sorted(self.start)
        cuts: list[tuple[float, dict[int, int]]] = []
        prices: Prices = dict(self.start)
        tried: list[Prices] = []
        best: tuple[Prices, float] = ({}, -np.inf)
        for _ in range(60):
            prices = {t: float(int(p)) for t, p in prices.items()}
            run = self.eliminated(prices)
            if np.isinf(run.least):
                return prices, np.inf
            bound = run.least + self.constant(prices)
            if bound > best[1]:
                best = prices, bound
            if bound > self.weight * (search.target - 1) or not core.times:
                break
            chosen = core.choice(run.chosen())
            search.offer(chosen)
            held = search.problem.held(chosen)
            if not self.weight and search.best is not None:
                break
            seen = core.at(held)
            worst = max(seen, key=lambda t: (seen[t], -t))
            if seen[worst] > limit and worst not in times:
                times.append(worst)
            own = bound - sum(p * (at(held, t) - limit) for t, p in prices.items())
            cuts.append((own, held))
            prices, reached = master(
                [(own, {t: at(held, t) - limit for t in times}) for own, held in cuts],
                times,
                box,
                limit,
            )
            known = min(search.target * self.weight - best[1], 4 * abs(best[1]))
            if reached - best[1] <= max(0.5 * self.weight, 1e-4 * known, 0.5):
                break
            if search.late or prices in tried:
                break
            tried.append(prices)
        return best


def beside(held: dict[int, int], worst: int, limit: float) -> list[int]:
    """Returns the times before and after the worst one at which most is held, and too much."""
    sides = [t for t in held if t < worst], [t for t in held if t > worst]
    most = [max(own, key=lambda t: (held[t], -abs(t - worst))) for own in sides if own]
    return [t for t in most if held[t] > limit]


def at(held: dict[int, int], time: int) -> float:
    """Returns what is held at a time, of what is held from each time on at which that changes."""
    return float(next((held[t] for t in sorted(held, reverse=True) if t <= time), 0))


def priced_problem(problem: Problem, weight: int, prices: Prices) -> Problem:
    """Returns the problem without its limit, its costs times a weight, and what is held at a time
    at its price; equal tables as one object.
    """
    priced = [(t, int(p)) for t, p in sorted(prices.items()) if p]
    known: dict[Any, tuple[Numbers, Any]] = {}

    def times(table: Numbers, *held: tuple[Numbers, int]) -> Numbers:
        key = id(table), *[(id(usage), price) for usage, price in held]
        if key not in known:
            total = table * weight
            for usage, price in held:
                total = total + usage * price
            known[key] = np.where(table >= FORBIDDEN, FORBIDDEN, total), (table, held)
        return known[key][0]

    costs = []
    for own, usages in zip(problem.costs, problem.usages, strict=True):
        held = [(u, sum(p for t, p in priced if a <= t < b)) for a, b, u in usages]
        costs.append(times(own, *[each for each in held if each[1]]))
    edges = {each: times(table) for each, table in problem.edges.items()}
    return Problem(tuple(costs), edges, ((),) * len(costs), None)


def master(
    cuts: list[tuple[float, dict[int, float]]], times: list[int], box: float, unit: float
) -> tuple[Prices, float]:
    """Returns the prices at which the least of all cuts is largest, and how large that is."""
    unit = max(unit, 1.0)
    rise = max([abs(own) for own, _ in cuts] + [1.0])
    solver: Any = highspy.Highs()  # type: ignore[no-untyped-call]
    solver.setOptionValue("output_flag", False)
    solver.setOptionValue("threads", 1)
    infinite = highspy.kHighsInf
    solver.addVar(-infinite, infinite)
    solver.changeColCost(0, -1.0)
    for number, _ in enumerate(times):
        solver.addVar(0.0, box * unit / rise)
        solver.changeColCost(number + 1, 0.0)
    for own, excess in cuts:
        values = [1.0, *[-excess[t] / unit for t in times]]
        solver.addRow(-infinite, own / rise, len(values), list(range(len(values))), values)
    solver.run()
    values = list(solver.getSolution().col_value)
    prices = {t: max(v, 0.0) * rise / unit for t, v in zip(times, values[1:], strict=True)}
    return {t: float(round(p)) for t, p in prices.items()}, values[0] * rise
