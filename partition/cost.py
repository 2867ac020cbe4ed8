"""What a training step costs on a machine, in seconds.

    seconds = sum over operators of max(FLOP / peak, bytes moved / bandwidth) / efficiency, at least
              a floor, forward and backward
            + sum over collectives of latency * log2(ranks) + bytes sent / bandwidth of the axis

Communication is not hidden behind computing; work between operators is not counted. Times are whole
numbers of picoseconds, so that sums are exact, and search and plan agree to the last digit.
Without sizes a time is an expression in the plan's symbols, and put in, sizes give the same number.

    linear    batch * seq = 512, 64 -> 128     12_000_000 ps, three times the floor
              batch * seq, 64 -> 128           ceildiv(max(12 * 10^18, a*batch*seq + b), 10^12) ps

FLOP of an operator: the product of the lengths of its identifiers on a rank, times a factor of its
function; a matrix product's is 2. A row of a group is multiplied by the matrices of that group
only. The backward pass of a product does twice the work, of anything else as much as the forward
pass. Views cost nothing. Where the machine has measured an operator of these lengths, that time
counts (`dimsolve.partition.profiles`). What is in a region that is run again in the backward pass
runs forward twice, with what it communicates; torch may stop a region early, once it has what is
needed, which is not counted.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from math import ceil, log2, prod
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from dimsolve.ir.display import Displayed, render
from dimsolve.solver.algebra.dims import ceil_div, floor_div, maximum, substitute, symbols_of
from dimsolve.solver.algebra.poly import Dim
from dimsolve.solver.shapes import dim_of_text

from .aliasing import VIEWS
from .checkpoints import runs_of
from .communication import sendings
from .machine import Machine, link_name, timed_as
from .mesh import part_symbol
from .plan_data import Axis, Gradient, OperatorPlan, PlanData, problem
from .reshard import SENT, Collective, item_bytes
from .sizes import Sizes, example_call

if TYPE_CHECKING:
    import sympy

SECOND = 10**12
"""Picoseconds."""

PARTS = 10**12
"""Of a picosecond: the unit of rates, which are whole numbers too."""

PRODUCTS: Mapping[str, int] = {
    **dict.fromkeys(("linear", "matmul", "mm", "bmm", "addmm", "baddbmm", "einsum", "bilinear"), 2),
    **dict.fromkeys(("outer", "dot", "mv", "vdot", "inner", "tensordot"), 2),
    **{f"conv{each}{n}d": 2 for each in ("", "_transpose") for n in (1, 2, 3)},
    **dict.fromkeys(("scaled_dot_product_attention", "flex_attention"), 4),
}
"""Functions that multiply and add, with their operations for a point of the index space."""

GROUPS: Mapping[str, tuple[str, int]] = {
    **dict.fromkeys(("grouped_mm", "_grouped_mm", "grouped_mm_fallback"), ("g", 2)),
    "experts": ("e", 6),
}
"""Functions that multiply each row with the matrices of one group, with the identifier of the
groups, and their operations for a point of the index space without it: an expert has three.
"""

NOTHING = frozenset({"embedding", "arange", "zeros", "ones", "full", "empty"})
"""Functions that do no work for a point of their index space, only for what they write."""

NO_NUMBER = problem(
    "no-size",
    "a size is missing",
    "this cost is an expression in {symbols}",
    "read .expression, or write {call}",
)
SYMBOLIC_MESH = problem(
    "symbolic-mesh",
    "a cost needs a mesh of numbers",
    "the size of '{axis}' is {size}",
    "write {call}",
)


class Rates(NamedTuple):
    """A time that is linear in amounts: start + max(first * a, second * b, least), rounded up to
    picoseconds. All four are in `PARTS`.
    """

    first: int
    second: int = 0
    least: int = 0
    start: int = 0

    def time(self, a: int, b: int = 0) -> int:
        """Returns the picoseconds for two amounts."""
        return -(-(self.start + max(self.first * a, self.second * b, self.least)) // PARTS)

    def formula(self, a: Dim, b: Dim = 0) -> Dim:
        """Returns the same for expressions."""
        linear = [rate * amount for rate, amount in ((self.first, a), (self.second, b)) if rate]
        most = maximum(*linear, *([self.least] if self.least or not linear else []))
        return ceil_div(self.start + most, PARTS)


@dataclass(frozen=True, slots=True)
class Costs:
    """Prices of operators and collectives, in picoseconds. mesh: its sizes, outer axis first."""

    machine: Machine
    mesh: Mapping[str, int]

    def operator(
        self,
        name: str,
        points: int,
        moved: int,
        dtype: str | None,
        gradient: Gradient,
        lengths: Mapping[str, int] | None = None,
        runs: int = 1,
    ) -> int:
        """Returns the time of one operator, forward and backward.

        points: of its index space on a rank. moved: bytes that it reads and writes. gradient:
        whether what it makes has one. lengths: of its identifiers on a rank, by which a measured
        time is found. runs: how often it runs forward.
        """
        if lengths is not None:
            known = self.measured(name, lengths, dtype, gradient, runs)
            if known is not None:
                return known
        return self.rates(name, dtype, gradient, runs).time(points, moved)

    def measured(
        self,
        name: str,
        lengths: Mapping[str, int],
        dtype: str | None,
        gradient: Gradient,
        runs: int = 1,
    ) -> int | None:
        """Returns the measured time of an operator; None where there is none."""
        if not self.machine.times or name in VIEWS:
            return None
        known = self.machine.times.get(timed_as(name, lengths, dtype))
        return None if known is None else known[0] * runs + known[1] * (gradient == "always")

    def rates(self, name: str, dtype: str | None, gradient: Gradient, runs: int = 1) -> Rates:
        """Returns the time of an operator by points of its index space and by bytes."""
        if name in VIEWS:
            return Rates(0)
        machine = self.machine
        grouped = GROUPS.get(name)
        factor = PRODUCTS.get(name, 0 if name in NOTHING else 1) if grouped is None else grouped[1]
        times = times_of(name, gradient, runs)
        return Rates(
            factor * times * _parts(1 / (machine.peak(dtype) * machine.efficiency)),
            times * _parts(1 / (machine.bandwidth * machine.efficiency)),
            times * _parts(machine.floor),
        )

    def collective(self, kind: Collective, axis: str, sent: int) -> int:
        """Returns the time of a collective in which a rank sends so many bytes."""
        return self.sending(kind, axis).time(sent)

    def sending(self, kind: Collective, axis: str) -> Rates:
        """Returns the time of a collective by the bytes that a rank sends."""
        count = self.mesh[axis]
        if not SENT[kind][0] or count == 1:
            return Rates(0)
        fitted = self.machine.links.get(link_name(kind, count))
        if fitted is not None:
            return Rates(_parts(1 / fitted.bandwidth), start=_parts(fitted.latency))
        inner = 1
        for other, size in reversed(list(self.mesh.items())):
            inner *= size
            if other == axis:
                break
        link = self.machine.link(inner)
        return Rates(_parts(1 / link.bandwidth), start=_parts(link.latency) * ceil(log2(count)))


def times_of(name: str, gradient: Gradient, runs: int = 1) -> int:
    """Returns how many times the work of a forward pass a step does, of which it runs so many."""
    product = name in PRODUCTS or name in GROUPS
    return runs + (0 if gradient != "always" else 2 if product else 1)


def points_of(name: str, lengths: Mapping[str, Dim], among: Dim = 1) -> Dim:
    """Returns the points of the index space for which a rank does work.

    lengths: of the identifiers on a rank. among: how many ranks have each some of the groups, where
    a rank is given the rows of all of them and works on those of its own.

    >>> points_of("linear", {"m": 4, "k": 8, "n": 2})
    64
    >>> points_of("grouped_mm", {"s": 12, "g": 2, "k": 8, "n": 2}, among=4)
    48
    """
    group, _ = GROUPS.get(name, ("", 0))
    points: Dim = 1
    for identifier, length in lengths.items():
        if identifier != group:
            points = points * length
    return ceil_div(points, among)


def among_of(entry: OperatorPlan, mesh: Mapping[Axis, int]) -> int:
    """Returns among how many ranks the groups of an operator are, where rows are not sent there."""
    group, _ = GROUPS.get(entry.name, ("", 0))
    sent = {each.axis for each in entry.sends if each.collective == "all-to-all"}
    cut = [axis for axis, split in entry.splits.items() if split.identifier == group]
    return prod(mesh[axis] for axis in cut if axis not in sent)


def _parts(seconds: float) -> int:
    return round(seconds * (SECOND * PARTS))


class Term(NamedTuple):
    """What one operator or collective takes. where: its node or its conversion. name: of the
    function, or the collective. axis: of a collective, else "". measured: whether its time was.
    """

    where: str
    name: str
    axis: Axis
    picoseconds: Dim
    measured: bool = False


@dataclass(frozen=True, slots=True)
class Cost(Displayed):
    """What a step takes, on a machine: all, ``operators`` by name, ``collectives`` by (axis, kind),
    in seconds. ``terms``: one by one. ``measured``, ``modelled``: how many of them were measured,
    and how many follow from the machine's numbers. Without sizes there is an ``expression`` only.
    """

    terms: tuple[Term, ...]
    plan: PlanData = field(repr=False)
    machine: Machine = field(repr=False)

    @property
    def picoseconds(self) -> int:
        """All of it. Raises PlanError where sizes are missing, as all numbers here do."""
        return sum(self._number(term) for term in self.terms)

    @property
    def seconds(self) -> float:
        """All of it."""
        return self.picoseconds / SECOND

    @property
    def operators(self) -> dict[str, float]:
        """Seconds by the operators' names."""
        return self._by(lambda term: None if term.axis else term.name)

    @property
    def collectives(self) -> dict[tuple[str, str], float]:
        """Seconds by (axis, kind)."""
        found = self._by(lambda term: (term.axis, term.name) if term.axis else None)
        return cast("dict[tuple[str, str], float]", found)

    @property
    def axes(self) -> dict[str, float]:
        """Seconds of collectives, by axis."""
        return self._by(lambda term: term.axis or None)

    @property
    def places(self) -> dict[str, float]:
        """Seconds by node and conversion."""
        return self._by(lambda term: term.where)

    @property
    def compute(self) -> float:
        """Seconds of operators."""
        return sum(self.operators.values())

    @property
    def communication(self) -> float:
        """Seconds of collectives."""
        return sum(self.collectives.values())

    @property
    def measured(self) -> int:
        """How many of the terms that take time were measured."""
        return sum(term.measured for term in self.terms)

    @property
    def modelled(self) -> int:
        """How many were not."""
        return sum(not term.measured and term.picoseconds != 0 for term in self.terms)

    @property
    def formula(self) -> Dim:
        """Picoseconds in the plan's symbols, by the machine's model: measured times are of one
        size, and are not in it.
        """
        terms = self.terms
        if any(isinstance(term.picoseconds, int) for term in terms):
            terms = formula_of(self.plan, self.machine).terms
        total: Dim = 0
        for term in terms:
            total = total + term.picoseconds
        return total

    @property
    def expression(self) -> sympy.Expr:
        """The formula as SymPy has it."""
        from dimsolve.solver.symbolic import to_sympy

        return to_sympy(self.formula)

    def explain(self) -> str:
        """Returns the cost as a table: operators by name, collectives by kind and axis."""
        return str(render(self, "text"))

    def _number(self, term: Term) -> int:
        if isinstance(term.picoseconds, int):
            return term.picoseconds
        names = ", ".join(sorted(symbols_of(self.formula)))
        raise NO_NUMBER(symbols=names, call=example_call(self.plan, {}, "cost"))

    def _by(self, key: Callable[[Term], Any]) -> dict[Any, float]:
        found: dict[Any, int] = {}
        for term in self.terms:
            own = key(term)
            if own is not None:
                found[own] = found.get(own, 0) + self._number(term)
        return {own: picoseconds / SECOND for own, picoseconds in found.items()}


def cost_of(plan: PlanData, sizes: Sizes, machine: Machine) -> Cost:
    """Returns what a training step costs. Raises PlanError for a symbol without a size."""
    costs, terms, again = Costs(machine, sizes.mesh), [], runs_of(plan)
    for entry in plan.operators:
        if entry.skipped:
            continue
        lengths = {name: sizes.of(length) for name, length in entry.lengths.items()}
        moved = sum(sizes.bytes(each.shape, each.dtype) for each in _tensors(entry))
        dtype, gradient = kind_of(entry.outputs)
        runs = again.get(entry.node, 1)
        points = cast("int", points_of(entry.name, lengths, among_of(entry, sizes.mesh)))
        known = costs.measured(entry.name, lengths, dtype, gradient, runs)
        own = costs.operator(entry.name, points, moved, dtype, gradient, lengths, runs)
        terms.append(Term(entry.node, entry.name, "", own, known is not None))
    for each in sendings(plan, sizes.mesh, again=again):
        own = costs.collective(
            each.collective, each.axis, sizes.of(each.bytes) * each.weight // each.weights
        )
        fitted = link_name(each.collective, sizes.mesh[each.axis]) in machine.links
        terms.append(Term(each.where, each.collective, each.axis, own, fitted))
    return Cost(tuple(terms), plan, machine)


def formula_of(plan: PlanData, machine: Machine) -> Cost:
    """Returns the same for all sizes, as expressions. Raises PlanError for a mesh of symbols."""
    mesh: dict[Axis, int] = {}
    for axis, size in plan.mesh.items():
        if not size.isdecimal():
            raise SYMBOLIC_MESH(axis=axis, size=size, call=example_call(plan, {}, "cost"))
        mesh[axis] = int(size)
    # Of unequal parts the first is the longest.
    first: dict[str, Dim] = {part_symbol(axis): 1 for axis in mesh}

    def of(text: str) -> Dim:
        return substitute(dim_of_text(text), first)

    costs, terms, again = Costs(machine, mesh), [], runs_of(plan)
    for entry in plan.operators:
        if entry.skipped:
            continue
        lengths = {name: of(length) for name, length in entry.lengths.items()}
        points = points_of(entry.name, lengths, among_of(entry, mesh))
        moved: Dim = 0
        for tensor in _tensors(entry):
            if tensor.shape is not None and None not in tensor.shape:
                own: Dim = item_bytes(tensor.dtype)
                for text in tensor.shape:
                    own = own * of(cast("str", text))
                moved = moved + own
        rates = costs.rates(entry.name, *kind_of(entry.outputs), again.get(entry.node, 1))
        terms.append(Term(entry.node, entry.name, "", rates.formula(points, moved)))
    for each in sendings(plan, mesh, again=again):
        sent = floor_div(of(each.bytes) * each.weight, each.weights)
        rates = costs.sending(each.collective, each.axis)
        terms.append(Term(each.where, each.collective, each.axis, rates.formula(sent)))
    return Cost(tuple(terms), plan, machine)


def _tensors(entry: OperatorPlan) -> list[Any]:
    return [*[entry.operands[n] for n in entry.inputs if n is not None], *entry.outputs]


def kind_of(outputs: Sequence[object]) -> tuple[str | None, Gradient]:
    """Returns the dtype that an operator computes in, and whether what it makes has a gradient."""
    dtypes = [getattr(each, "dtype", None) for each in outputs]
    flags: list[Gradient] = [getattr(each, "gradient", "never") for each in outputs]
    order: tuple[Gradient, ...] = ("never", "inputs", "always")
    return next(iter(dtypes), None), max(flags, key=order.index, default="never")


__all__ = ["SECOND", "Cost", "Costs", "Rates", "cost_of", "formula_of", "kind_of"]
