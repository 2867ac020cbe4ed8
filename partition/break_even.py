"""Which of several plans costs least, at which sizes.

    tp = 2             seq 16    seq 64    seq 256
    batch 2            data      tensor    tensor
    batch 64           data      data      tensor       data at seq = 143, tensor at 144

Costs are whole picoseconds, so a comparison is exact, and a tie is one. What is said is said of
these plans; that none at all is faster is proved where the search of one of them was for these
sizes, on this machine and within this memory, and looked among plans of the same graph, mesh,
storage and precision as all of these.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import product

from dimsolve.ir.display import Displayed
from dimsolve.ir.graph import Graph
from dimsolve.solver.algebra.dims import evaluate
from dimsolve.solver.algebra.poly import Dim

from .machine import Machine
from .mesh import MeshLike
from .plan import Plan, bytes_of, machine_of, plan
from .plan_data import PlanError, SearchRecord, problem, seconds_text
from .planning.auto import SECONDS
from .sizes import read_size

NO_PLANS = problem(
    "no-plans",
    "there is nothing to compare",
    "{reason}",
    'write break_even({{"one": plan, "other": other}}, {{"batch": [8, 16]}}, sizes={{"seq": 128}})',
)
NO_REGION = problem(
    "no-region",
    "a region begins where a plan is proved to be the best",
    "{reason}",
    "search longer, dimsolve.plan(graph, mesh, 'auto', sizes=..., seconds=600), or name a symbol "
    "of the search",
)
NEAR = 64
"""So many sizes about the middle are asked for one that some plan serves."""

Point = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Cheapest:
    """At one point. names: of the plans that cost least, several where they cost the same; none
    where no plan serves these sizes, or fits. costs: picoseconds of all that do. proved: that no
    plan at all is faster.
    """

    names: tuple[str, ...]
    costs: Mapping[str, int]
    proved: bool = False


@dataclass(frozen=True, slots=True)
class Crossing:
    """A change along ``symbol``, the other sizes being ``at``: at ``last`` the plan ``before``
    costs least, at ``first`` the plan ``after``, and no size between them was found that both
    serve. Between two sizes of the table there may be other changes.
    """

    symbol: str
    at: Mapping[str, int]
    last: int
    before: str
    first: int
    after: str

    def __str__(self) -> str:
        fixed = "".join(f", {name} = {size}" for name, size in self.at.items())
        return f"{self.before} at {self.symbol} = {self.last}, {self.after} at {self.first}{fixed}"


@dataclass(frozen=True)
class BreakEven(Displayed):
    """The table of `break_even`. plans: their names. over: the sizes of one or two symbols. best:
    by their sizes, in the order of ``over``.
    """

    plans: tuple[str, ...]
    over: Mapping[str, tuple[int, ...]]
    sizes: Mapping[str, int]
    machine: Machine
    best: Mapping[Point, Cheapest]
    crossings: tuple[Crossing, ...]

    def __str__(self) -> str:
        return "\n".join([*self._lines(), *map(str, self.crossings)])

    def _lines(self) -> Iterator[str]:
        *rows, columns = self.over
        heads = [f"{columns} {size}" for size in self.over[columns]]
        table = [["", *heads]]
        for row in product(*(self.over[name] for name in rows)):
            label = ", ".join(f"{name} {size}" for name, size in zip(rows, row, strict=True))
            cells = [cell_text(self.best[(*row, size)]) for size in self.over[columns]]
            table.append([label, *cells])
        widths = [max(map(len, column)) for column in zip(*table, strict=True)]
        for line in table:
            yield "  ".join(map(str.ljust, line, widths)).rstrip().removeprefix("  " * (not rows))


def cell_text(best: Cheapest) -> str:
    """Returns which plan it is, and its time; a star where it is proved that none is faster."""
    if not best.names:
        return "none"
    star = "*" if best.proved else ""
    return f"{' = '.join(best.names)}{star} {seconds_text(best.costs[best.names[0]])}"


def break_even(
    plans: Mapping[str, Plan],
    over: Mapping[str, Sequence[int]],
    *,
    sizes: Mapping[str, int] | None = None,
    machine: Machine | str | None = None,
    memory: int | str | None = None,
) -> BreakEven:
    """Returns which of the plans costs least at all combinations of sizes, and where it changes
    between neighbours.

    plans: by name. over: the sizes of one or two symbols. sizes: of the others. machine: as
    `Plan.cost` takes it; None: that of the first plan's search, or an H100. memory: of a rank; a
    plan that needs more is left out there.

    The costs are those of `Plan.cost`, exactly. Raises PlanError for symbols that no plan has, or
    without a size.

    >>> from dimsolve.examples import llama
    >>> import dimsolve as ds
    >>> model, example, names = llama.tiny()
    >>> graph = ds.trace(model, kwargs=example, dynamic=names)
    >>> plans = {name: ds.plan(graph, {"tp": 2}, name) for name in ("data", "tensor")}
    >>> machine = ds.Machine.named("h100").model_copy(update={"floor": 0.0, "flops": {"": 1e12}})
    >>> print(ds.break_even(plans, {"batch": [2, 512]}, sizes={"seq": 16}, machine=machine))
    batch 2          batch 512
    tensor 118.1 us  data 5.711 ms
    tensor at batch = 276, data at 278, seq = 16
    """
    if not plans or not over or len(over) > 2 or not all(over.values()):
        raise NO_PLANS(reason="plans, and sizes of one or two symbols, are wanted")
    first = next(iter(plans.values()))
    asked = _Asked(
        dict(plans), dict(over), dict(sizes or {}), machine_of(machine, first), bytes_of(memory)
    )
    every = {
        name: tuple(sorted({read_size(name, size, 1) for size in each}))
        for name, each in over.items()
    }
    best = {point: asked.cheapest(point) for point in product(*every.values())}
    crossings = tuple(asked.crossings(every, best))
    return BreakEven(tuple(plans), every, asked.sizes, asked.machine, best, crossings)


@dataclass
class _Asked:
    plans: dict[str, Plan]
    over: dict[str, Sequence[int]]
    sizes: dict[str, int]
    machine: Machine
    memory: int | None
    formulas: dict[str, Dim] = field(default_factory=dict)
    known: dict[Point, Cheapest] = field(default_factory=dict)

    def at(self, point: Point) -> dict[str, int]:
        return {**self.sizes, **dict(zip(self.over, point, strict=True))}

    def cheapest(self, point: Point) -> Cheapest:
        """The plans that cost least at a point."""
        if point not in self.known:
            sizes = self.at(point)
            costs = {
                name: cost for name in self.plans if (cost := self.cost(name, sizes)) is not None
            }
            least = min(costs.values(), default=0)
            names = tuple(name for name, cost in costs.items() if cost == least)
            proved = any(
                self._is_bound(plan, sizes, least) for plan in self.plans.values() if names
            )
            self.known[point] = Cheapest(names, costs, proved)
        return self.known[point]

    def cost(self, name: str, sizes: Mapping[str, int]) -> int | None:
        """The picoseconds of a plan; None where it does not serve these sizes, or does not fit."""
        plan = self.plans[name]
        try:
            plan.check(sizes)
        except PlanError as error:
            if error.diagnostic.code == "broken-condition":
                return None
            raise
        if self.memory is not None and plan.memory(sizes).total > self.memory:
            return None
        if self.machine.times:  # measured times are of one size, and in no formula
            return plan.cost(sizes, machine=self.machine).picoseconds
        if name not in self.formulas:
            self.formulas[name] = plan.cost(sizes, machine=self.machine).formula
        return evaluate(self.formulas[name], sizes)

    def _is_bound(self, plan: Plan, sizes: Mapping[str, int], least: int) -> bool:
        """Whether a plan's search has proved that no plan costs less than ``least`` here: it was
        for these sizes, on this machine, within no less memory, and among plans as all of these.
        """
        record = plan.search
        if record is None or record.bound < least:
            return False
        free = record.memory is None or (self.memory is not None and self.memory <= record.memory)
        same = all(_searched(other) == _searched(plan) for other in self.plans.values())
        return free and same and record.sizes == dict(sizes) and record.machine == self.machine

    def crossings(
        self, over: Mapping[str, tuple[int, ...]], best: Mapping[Point, Cheapest]
    ) -> Iterator[Crossing]:
        """The changes between neighbours along each symbol."""
        for axis, symbol in enumerate(over):
            for point in best:
                place = over[symbol].index(point[axis])
                if place + 1 == len(over[symbol]):
                    continue
                after = (*point[:axis], over[symbol][place + 1], *point[axis + 1 :])
                if best[point].names and best[after].names:
                    found = self._between(symbol, axis, point, after)
                    if found is not None:
                        yield found

    def _between(self, symbol: str, axis: int, low: Point, high: Point) -> Crossing | None:
        """The change that halving finds; None where a plan costs least at both ends."""
        name = self.cheapest(low).names[0]
        if set(self.cheapest(low).names) & set(self.cheapest(high).names):
            return None
        while (middle := self._served(axis, low, high)) is not None:
            if name in self.cheapest(middle).names:
                low = middle
            else:
                high = middle
        fixed = {n: size for n, size in self.at(low).items() if n != symbol}
        after = self.cheapest(high).names[0]
        return Crossing(symbol, fixed, low[axis], name, high[axis], after)

    def _served(self, axis: int, low: Point, high: Point) -> Point | None:
        """A point about the middle that both ends' plans serve."""
        middle = (low[axis] + high[axis]) // 2
        both = {self.cheapest(low).names[0], self.cheapest(high).names[0]}
        for distance in range(NEAR):
            for size in {middle + distance, middle - distance}:
                point = (*low[:axis], size, *low[axis + 1 :])
                if low[axis] < size < high[axis] and both <= self.cheapest(point).costs.keys():
                    return point
        return None


@dataclass(frozen=True, slots=True)
class Beside:
    """Where a plan is not known to be the best any more: at ``size``, where it costs ``cost``, and
    a search has found ``plan``, which costs ``least``; both None where it has found none. fits:
    whether the first plan fits there.
    """

    size: int
    cost: int
    plan: Plan | None = field(repr=False)
    least: int | None
    fits: bool

    @property
    def beaten(self) -> bool:
        """Whether the plan beside is better; otherwise neither was proved to be the best."""
        return not self.fits or (self.least is not None and self.least < self.cost)

    def __str__(self) -> str:
        own = seconds_text(self.cost)
        if self.least is None:
            return f"it takes {own}, not proved" if self.fits else "no plan is known that fits"
        other = seconds_text(self.least)
        if not self.fits:
            return f"it does not fit, another takes {other}"
        return f"it takes {own}, another {other}" if self.beaten else f"it takes {own}, not proved"


@dataclass(frozen=True, slots=True)
class BestRegion:
    """How far a plan stays the best along ``symbol``, the other sizes being ``at``. proved: the
    sizes at which a search has proved that no plan is faster. below, above: what comes next on
    either side; None where it is still the best at the last size within what was asked for that it
    serves.
    """

    symbol: str
    at: Mapping[str, int]
    proved: tuple[int, ...]
    below: Beside | None
    above: Beside | None

    def __str__(self) -> str:
        fixed = "".join(f", {name} = {size}" for name, size in sorted(self.at.items()))
        lines = [f"the best at {self.symbol} = {', '.join(map(str, self.proved))}{fixed}"]
        for each in (self.below, self.above):
            if each is not None:
                lines.append(f"at {self.symbol} = {each.size} {each}")
        return "\n".join(lines)


def best_region(
    graph: Graph, best: Plan, symbol: str, within: tuple[int, int], *, seconds: float = SECONDS
) -> BestRegion:
    """Returns how far a plan of the policy ``"auto"`` stays the best when one size changes.

    graph: that of the plan. within: the least and the largest size. seconds: of each search. Sizes
    twice as large, and half as large, are searched, and where the plan is not the best any more,
    halves between, among sizes that it serves. What is said is said of the sizes that were
    searched: of each there is a proof.

    Raises PlanError where the plan is not proved to be the best, or its search had no such symbol.

    >>> from dimsolve.examples import llama
    >>> import dimsolve as ds
    >>> model, example, names = llama.tiny()
    >>> graph = ds.trace(model, kwargs=example, dynamic=names)
    >>> machine = ds.Machine.named("h100").model_copy(update={"floor": 0.0, "flops": {"": 1e12}})
    >>> sizes = {"batch": 2, "seq": 16}
    >>> best = ds.plan(graph, {"tp": 2}, "auto", machine=machine, sizes=sizes)
    >>> print(ds.best_region(graph, best, "batch", (1, 8)))
    the best at batch = 2, 3, seq = 16
    at batch = 4 it takes 86.9 us, another 86.11 us
    """
    record = best.search
    if record is None or not record.optimal:
        raise NO_REGION(reason="it is not proved that no plan is faster than this one")
    if symbol not in record.sizes:
        raise NO_REGION(reason=f"the search had no size for {symbol!r}")
    asked = _Region(graph, best, symbol, seconds)
    low, high = (read_size(symbol, size, 1) for size in within)
    start = record.sizes[symbol]
    sides = [asked.beyond(start, end) for end in (low, high)]
    fixed = {name: size for name, size in record.sizes.items() if name != symbol}
    proved = [size for size, found in asked.known.items() if found is None]
    return BestRegion(symbol, fixed, tuple(sorted({start, *proved})), *sides)


@dataclass
class _Region:
    graph: Graph
    best: Plan
    symbol: str
    seconds: float
    known: dict[int, Beside | None] = field(default_factory=dict)

    def beyond(self, start: int, end: int) -> Beside | None:
        """The nearest size towards the end at which the plan is not proved to be the best, by
        doubling and halving.
        """
        last = start
        while last != end:
            far = min(2 * last, end) if end > last else max(last // 2, end)
            size = self.served(far, last, end)
            if size is None:
                return None
            found = self.at(size)
            if found is not None:
                return self.between(last, found)
            last = size
        return None

    def between(self, last: int, found: Beside) -> Beside:
        """The first one of those that halving finds."""
        while True:
            size = self.served((last + found.size) // 2, last, found.size, inside=True)
            if size is None:
                return found
            other = self.at(size)
            if other is None:
                last = size
            else:
                found = other

    def served(self, about: int, last: int, end: int, inside: bool = False) -> int | None:
        """The nearest size to ``about`` that the plan serves, after the last one; inside: before
        the end, too.
        """
        low, high = sorted((last, end))
        for distance in range(max(NEAR, abs(last))):
            for size in dict.fromkeys((about + distance, about - distance)):
                if low <= size <= high and size != last and not (inside and size == end):
                    with suppress(PlanError):
                        self.best.check(self.sizes(size))
                        return size
        return None

    def sizes(self, size: int) -> dict[str, int]:
        assert self.best.search is not None
        return {**self.best.search.sizes, self.symbol: size}

    def at(self, size: int) -> Beside | None:
        """What is found beside the plan at a size; None where it is proved to be the best."""
        if size not in self.known:
            self.known[size] = self._at(size)
        return self.known[size]

    def _at(self, size: int) -> Beside | None:
        record, sizes = self.best.search, self.sizes(size)
        assert record is not None
        cost = self.best.cost(sizes, machine=record.machine).picoseconds
        fits = record.memory is None or (
            self.best.memory(sizes, optimizer_states=record.optimizer_states).total <= record.memory
        )
        try:
            made = self._searched(record, sizes)
        except PlanError as error:
            if error.diagnostic.code not in ("nothing-fits", "not-found"):
                raise
            return Beside(size, cost, None, None, fits)
        assert made.search is not None
        if fits and cost <= made.search.bound:
            return None
        return Beside(size, cost, made, made.search.cost, fits)

    def _searched(self, record: SearchRecord, sizes: Mapping[str, int]) -> Plan:
        return plan(
            self.graph,
            record.ranks or self._mesh(),
            "auto",
            "auto" if record.storage else dict(self.best.state),
            machine=record.machine,
            memory=record.memory,
            sizes=sizes,
            optimizer_states=record.optimizer_states,
            seconds=self.seconds,
            progress=False,
            uneven=record.uneven,
        )

    def _mesh(self) -> MeshLike:
        """The mesh that was asked for, whose axes may be seen as several."""
        inner = {each: axis for axis, own in self.best.factors.items() for each in own}
        found: dict[str, int] = {}
        for axis, count in self.best.mesh.items():
            whole = inner.get(axis, axis)
            found[whole] = found.get(whole, 1) * int(str(count))
        return found


def _searched(plan: Plan) -> tuple[object, ...]:
    """What the plans that a search compares have in common."""
    return plan.graph, plan.mesh, plan.precision, plan.state, plan.uneven
