"""What a rank holds as a search counts it: a sum over operators and values, from above.

Every value that has a gradient is kept until the backward pass, whatever its operators keep
(`dimsolve.partition.memory` looks closer), views share the memory of what they are taken from, and
of a region that is run again in the backward pass only what it takes and gives is kept. So what one
operator's choice adds does not depend on others, and bounds can be proved.
"""

from __future__ import annotations

from collections.abc import Iterable

from .aliasing import VIEWS
from .checkpoints import Uses, extents
from .memory import memory_of
from .plan_data import OperatorPlan, PlanData
from .sizes import Sizes


def held_as_searched(plan: PlanData, sizes: Sizes, optimizer_states: int) -> int:
    """Returns the bytes of one rank. Raises PlanError for a symbol without a size."""
    memory = memory_of(plan, sizes, optimizer_states)
    stored = memory.parameters + memory.gradients + memory.optimizer
    return stored + _activations(plan, sizes)


def _activations(plan: PlanData, sizes: Sizes) -> int:
    """The peak of live bytes over the forward pass, and over what is run again."""
    return _Pass(plan, sizes).peak()


class _Pass:
    """The operators of a plan, run for their bytes. ``extents``: of the plan's regions;
    ``gradient``: the values and conversions that have a gradient in training.
    """

    def __init__(self, plan: PlanData, sizes: Sizes) -> None:
        self.plan = plan
        self.sizes = sizes
        self.extents = extents(plan)
        self.uses = Uses(plan)
        self.last = _last_uses(plan)
        made = [output for entry in plan.operators for output in entry.outputs]
        self.gradient = {entry.value for entry in plan.inputs if entry.gradient == "always"}
        self.gradient |= {entry.value for entry in made if entry.gradient == "always"}
        self.gradient |= {
            e.id for e in plan.conversions if e.backward_runs == "always" and e.block is None
        }

    def peak(self) -> int:
        live = _Live(self.plan, self.sizes, self.last, self._kept(None))
        found = self._run(live, 0, len(self.plan.operators), None)
        for result in self.plan.outputs:
            live.take(result.source)
        return max(found, live.peak)

    def _run(self, live: _Live, start: int, stop: int, within: int | None) -> int:
        """Runs operators; returns the peak, also of what is run again in regions directly
        ``within`` that one.
        """
        found = 0
        again = {
            extent.stop: number
            for number, extent in enumerate(self.extents)
            if extent.within == within and start <= extent.start < stop
        }
        for number in range(start, stop):
            live.run(self.plan.operators[number], number)
            region = again.get(number + 1)
            if region is not None:
                found = max(found, self._again(live, region))
        return max(found, live.peak)

    def _again(self, live: _Live, region: int) -> int:
        """The peak of a region's second run, beside what is kept of all before its end."""
        extent = self.extents[region]
        second = _Live(self.plan, self.sizes, self.last, self._kept(region))
        for name, size in live.bytes.items():
            if name in live.kept:
                second.add(name, size)
        return self._run(second, extent.start, extent.stop, region)

    def _kept(self, within: int | None) -> set[str]:
        """What stays until the backward pass where the operators directly in this region run: what
        has a gradient, but for what is made and used in the regions there; and what these take.
        """
        found = set(self.gradient)
        for extent in self.extents:
            if extent.within != within:
                continue
            found -= {
                name
                for name in self.gradient
                if extent.start <= self.uses.made.get(name, -1)
                and self.last.get(name, extent.start) < extent.stop
            }
        for extent in self.extents:
            if extent.within == within:
                found.update(self.uses.kept_by(extent))
        return found


class _Live:
    """What is in memory while the plan runs. ``peak``: the most bytes so far."""

    def __init__(self, plan: PlanData, sizes: Sizes, last: dict[str, int], kept: set[str]) -> None:
        self.sizes = sizes
        self.conversions = {entry.id: entry for entry in plan.conversions}
        self.kept = kept
        self.last = last
        self.bytes: dict[str, int] = {}
        self.total = self.peak = 0

    def run(self, operator: OperatorPlan, number: int) -> None:
        """Runs one operator."""
        for operand in operator.operands:
            self.take(operand.source)
        if operator.name not in VIEWS:
            for output in operator.outputs:
                self.add(output.value, self.sizes.bytes(output.shape, output.dtype))
        self.drop([operand.source for operand in operator.operands], number)
        self.drop([output.value for output in operator.outputs], number)

    def take(self, source: str) -> None:
        """A value, or a conversion, is used: what was not converted yet is converted now."""
        entry = self.conversions.get(source)
        if entry is None or source in self.bytes:
            return
        self.take(entry.source)
        if entry.forward and entry.block is None:
            self.add(source, self.sizes.bytes(entry.shape_after, entry.dtype))

    def add(self, name: str, size: int) -> None:
        """Something is made."""
        if name not in self.bytes:
            self.bytes[name] = size
            self.total += size
            self.peak = max(self.peak, self.total)

    def drop(self, names: Iterable[str], number: int) -> None:
        """What nothing needs after this operator is freed; what is kept is not."""
        for name in names:
            if name not in self.kept and self.last.get(name, number) <= number:
                self.total -= self.bytes.pop(name, 0)


def _last_uses(plan: PlanData) -> dict[str, int]:
    """The last operator that uses each value or conversion; a view uses what it is taken from as
    long as it is used itself.
    """
    last: dict[str, int] = {}
    for number, operator in reversed(list(enumerate(plan.operators))):
        end = number
        if operator.name in VIEWS:
            end = max([number, *(last.get(out.value, number) for out in operator.outputs)])
        for operand in operator.operands:
            last[operand.source] = max(last.get(operand.source, end), end)
    for output in plan.outputs:
        last[output.value] = last[output.source] = len(plan.operators)
    return last
