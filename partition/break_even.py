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
from dataclasses import dataclass, field
from itertools import product

from dimsolve.ir.display import Displayed
from dimsolve.solver.algebra.dims import evaluate
from dimsolve.solver.algebra.poly import Dim

from .machine import Machine
from .plan import Plan, bytes_of, machine_of
from .plan_data import PlanError, problem, seconds_text
from .sizes import read_size

NO_PLANS = problem(
    "no-plans",
    "there is nothing to compare",
    "{reason}",
    'write break_even({{"one": plan, "other": other}}, {{"batch": [8, 16]}}, sizes={{"seq": 128}})',
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


def _searched(plan: Plan) -> tuple[object, ...]:
    """What the plans that a search compares have in common."""
    return plan.graph, plan.mesh, plan.precision, plan.state, plan.uneven
