"""What a training step costs on a machine, in seconds.

    seconds = sum over operators of max(FLOP / peak, bytes moved / bandwidth) / efficiency, at least
              a floor, forward and backward
            + sum over collectives of latency * log2(ranks) + bytes sent / bandwidth of the axis

Communication is not hidden behind computing: what is said is an estimate from above. Times are
whole numbers of picoseconds, so that sums are exact, and search and plan agree to the last digit.

FLOP of an operator: the product of the lengths of its identifiers on a rank, times a factor of its
function; a matrix product's is 2. The backward pass of a product does twice the work, of anything
else as much as the forward pass. Views cost nothing. What is in a region that is run again in the
backward pass runs forward twice, with what it communicates; torch may stop a region early, once it
has what is needed, which is not counted.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import ceil, log2

from .aliasing import VIEWS
from .checkpoints import runs_of
from .communication import each_collective
from .machine import Machine
from .plan_data import Gradient, PlanData
from .reshard import SENT, Collective
from .sizes import Sizes

SECOND = 10**12
"""Picoseconds."""

PRODUCTS: Mapping[str, int] = {
    **dict.fromkeys(("linear", "matmul", "mm", "bmm", "addmm", "baddbmm", "einsum", "bilinear"), 2),
    **dict.fromkeys(("outer", "dot", "mv", "vdot", "inner", "tensordot"), 2),
    **{f"conv{each}{n}d": 2 for each in ("", "_transpose") for n in (1, 2, 3)},
    "scaled_dot_product_attention": 4,
}
"""Functions that multiply and add, with their operations for a point of the index space."""

NOTHING = frozenset({"embedding", "arange", "zeros", "ones", "full", "empty"})
"""Functions that do no work for a point of their index space, only for what they write."""


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
        runs: int = 1,
    ) -> int:
        """Returns the time of one operator, forward and backward.

        points: of its index space on a rank. moved: bytes that it reads and writes. gradient:
        whether what it makes has one. runs: how often it runs forward.
        """
        if name in VIEWS:
            return 0
        machine = self.machine
        factor = PRODUCTS.get(name, 0 if name in NOTHING else 1)
        forward = max(factor * points / machine.peak(dtype), moved / machine.bandwidth)
        forward = max(forward / machine.efficiency, machine.floor)
        times = runs + (0 if gradient != "always" else 2 if name in PRODUCTS else 1)
        return ceil(forward * times * SECOND)

    def collective(self, kind: Collective, axis: str, sent: int) -> int:
        """Returns the time of a collective in which a rank sends so many bytes."""
        count = self.mesh[axis]
        if not SENT[kind][0] or count == 1:
            return 0
        inner = 1
        for other, size in reversed(list(self.mesh.items())):
            inner *= size
            if other == axis:
                break
        link = self.machine.link(inner)
        return ceil((link.latency * ceil(log2(count)) + sent / link.bandwidth) * SECOND)


@dataclass(slots=True)
class Cost:
    """The seconds of a step: all, ``operators`` by name, ``collectives`` by (axis, kind)."""

    picoseconds: int = 0
    operators: dict[str, float] = field(default_factory=dict)
    collectives: dict[tuple[str, str], float] = field(default_factory=dict)

    @property
    def seconds(self) -> float:
        """All of it."""
        return self.picoseconds / SECOND

    @property
    def compute(self) -> float:
        """Seconds of operators."""
        return sum(self.operators.values())

    @property
    def communication(self) -> float:
        """Seconds of collectives."""
        return sum(self.collectives.values())


def cost_of(plan: PlanData, sizes: Sizes, machine: Machine) -> Cost:
    """Returns what a training step costs. Raises PlanError for a symbol without a size."""
    costs, found, again = Costs(machine, sizes.mesh), Cost(), runs_of(plan)
    for entry in plan.operators:
        if entry.skipped:
            continue
        points = 1
        for length in entry.lengths.values():
            points *= sizes.of(length)
        tensors = [*[entry.operands[n] for n in entry.inputs if n is not None], *entry.outputs]
        moved = sum(sizes.bytes(each.shape, each.dtype) for each in tensors)
        runs = again.get(entry.node, 1)
        own = costs.operator(entry.name, points, moved, *kind_of(entry.outputs), runs)
        found.picoseconds += own
        found.operators[entry.name] = found.operators.get(entry.name, 0.0) + own / SECOND
    for _, axis, kind, sent in each_collective(plan, sizes, again=again):
        own = costs.collective(kind, axis, sent)
        found.picoseconds += own
        found.collectives[axis, kind] = found.collectives.get((axis, kind), 0.0) + own / SECOND
    return found


def kind_of(outputs: Sequence[object]) -> tuple[str | None, Gradient]:
    """Returns the dtype that an operator computes in, and whether what it makes has a gradient."""
    dtypes = [getattr(each, "dtype", None) for each in outputs]
    flags: list[Gradient] = [getattr(each, "gradient", "never") for each in outputs]
    order: tuple[Gradient, ...] = ("never", "inputs", "always")
    return next(iter(dtypes), None), max(flags, key=order.index, default="never")


__all__ = ["SECOND", "Cost", "Costs", "cost_of", "kind_of"]
