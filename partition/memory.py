"""The bytes that one rank needs for a training step.

    parameters    its parts of the parameters and buffers
    gradients     as many as the parameters have
    optimizer     two numbers for each parameter with Adam
    activations   what the backward pass needs, and what is live beside it at the worst moment
    gathered      parameters that are stored in parts, while they are whole, and their gradients

Activations are an estimate from above: every value that has a gradient is kept until the backward
pass, views share the memory of what they are taken from, and kernels need no memory of their own.
Of a region that is run again in the backward pass only what it takes and gives is kept; what it
makes is in memory while it runs, and once more while it is run again.

Gathered is, from above too, the most that two blocks need that follow one another: going forward
the one that is used, its rows as they have come from the ranks, and the next; going back the same
two, the gradients of the one, those of the one before, which are on their way, and one more
gradient. Of ``state="optimizer"`` all parameters stay gathered.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from .aliasing import VIEWS
from .checkpoints import Uses, extents
from .plan_data import OperatorPlan, PlanData, problem
from .sizes import Sizes

NO_STATES = problem(
    "not-a-count",
    "this is no number of optimiser states",
    "optimizer_states = {states:.60}",
    "SGD keeps 0 numbers for each parameter, with momentum 1, Adam 2",
)


@dataclass(frozen=True, slots=True)
class Memory:
    """Bytes of one rank."""

    parameters: int
    gradients: int
    optimizer: int
    activations: int
    gathered: int = 0

    @property
    def total(self) -> int:
        """All of them together."""
        stored = self.parameters + self.gradients + self.optimizer
        return stored + self.activations + self.gathered


def memory_of(plan: PlanData, sizes: Sizes, optimizer_states: int) -> Memory:
    """Returns the memory of one rank. Raises PlanError for a symbol without a size."""
    if not isinstance(optimizer_states, int) or optimizer_states < 0:
        raise NO_STATES(states=repr(optimizer_states))
    stored = {"parameter": 0, "buffer": 0}
    for entry in plan.inputs:
        if entry.kind in stored:
            dtype = plan.stored_dtype(entry.dtype) if entry.kind == "parameter" else entry.dtype
            stored[entry.kind] += sizes.bytes(entry.shape, dtype)
    trained = stored["parameter"]
    return Memory(
        parameters=trained + stored["buffer"],
        gradients=trained,
        optimizer=optimizer_states * trained,
        activations=_activations(plan, sizes),
        gathered=_gathered(plan, sizes),
    )


def _gathered(plan: PlanData, sizes: Sizes) -> int:
    """The bytes of gathered parameters and their gradients at the worst moment."""
    kept: dict[str, int] = {}
    blocks: dict[int, dict[str, int]] = {}
    for entry in plan.conversions:
        if entry.block is not None:
            whole = sizes.bytes(entry.shape_after, entry.dtype)
            again = "all-gather" in entry.backward
            into = blocks.setdefault(entry.block, {}) if again else kept
            into[entry.value] = max(into.get(entry.value, 0), whole)
    order = [blocks[number] for number in sorted(blocks)]
    totals = [0, *(sum(block.values()) for block in order), 0]
    most = 0
    for number, block in enumerate(order, 1):
        before, own, after = totals[number - 1 : number + 2]
        gradients = own + after + max(block.values())
        most = max(most, 2 * own + after, own + before + gradients)
    if kept:
        most = max(most, 2 * max(totals), 2 * max(kept.values()))
    return sum(kept.values()) + most


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
