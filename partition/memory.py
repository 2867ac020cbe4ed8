"""The bytes that one rank needs for a training step.

    parameters    its parts of the parameters and buffers
    gradients     as many as the parameters have
    optimizer     two numbers for each element of a parameter with Adam, and its count of steps
    activations   what is live at the worst moment: values, and what their gradients are made of
    gathered      parameters that are stored in parts, while they are whole, and their gradients

The step is walked through forward and backward, one operator after the other. A value lives until
its last use, and until the backward pass of all that keeps it (`saved`); views share the memory of
what they are taken from. On the way back gradients of values live until they are used, and those of
parameters that are summed over ranks until the end of the pass; what is given and what is returned
live all the time. While something is converted, what it is laid out anew in is there too
(`transit`). Activations and gathered are those of the moment at which both together are most.
Gradients are there all the time too, as they are where they are accumulated over several batches,
and kernels need no memory of their own: an estimate from above.

Of a region that is run again in the backward pass only what it takes and gives is kept; what it
makes is in memory while it runs, and again while it is run again.

Gathered is, where a block is used, what blocks need that follow one another: going forward its own
parameters, beside the rows as they have come from the ranks, or the next block; going back its own
with their gradients and one more, the block before, and the gradients of the last one, which are
scattered beside the parts that are made of them. All that is there until the next block is used.
Of ``state="optimizer"`` all parameters stay gathered.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from math import prod

from dimsolve.solver.layout import layout_of

from .aliasing import VIEWS
from .checkpoints import Extent, Uses, extents
from .plan_data import ConversionPlan, LocalTensor, OperatorPlan, OutputPlan, PlanData, problem
from .reshard import item_bytes
from .saved import INSIDE, TEMPORARIES, Attention, Saved, attention, saved_by
from .sizes import Sizes
from .transit import Way, held_by

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
    counted = sum(entry.kind == "parameter" for entry in plan.inputs)
    activations, gathered = _Step(plan, sizes).most()
    return Memory(
        parameters=trained + stored["buffer"],
        gradients=trained,
        optimizer=optimizer_states * trained + (4 * counted if optimizer_states == 2 else 0),
        activations=activations,
        gathered=gathered,
    )


BUCKET = 4 * 2**20
"""Bytes of gradients that are copied before they are summed together."""

ATTENTION = "scaled_dot_product_attention"

EXACT = ("int", "uint", "bool")
"""Dtypes, as they begin, whose tensors are indices and masks."""

_MOVES = """
view view_as reshape transpose permute movedim swapaxes t unsqueeze squeeze flatten unflatten
contiguous add iadd identity
"""
MOVES = frozenset(_MOVES.split())
"""Functions whose input's gradient is the memory of their output's."""

TIMES = frozenset({"mul", "imul", "multiply"})
"""Products, whose input is not kept where the other one is a number."""

PRODUCTS = TIMES | {"div", "truediv", "itruediv", "true_divide"}
"""Products of numbers: the gradient of each input is made as large as the result."""

_STRIDED = """
transpose permute movedim swapaxes t expand expand_as broadcast_to getitem __getitem__ select narrow
chunk split unbind T mT
"""
STRIDED = frozenset(_STRIDED.split())
"""Views whose elements do not lie one after the other, ..."""

IN_ORDER = frozenset({"reshape", "contiguous", "flatten", "view"})
"""... and functions that then copy."""


def picks(name: str, tensors: int) -> bool:
    """Whether a function takes elements by indices: what it makes is no view."""
    return name in ("getitem", "__getitem__") and tensors > 1


class _Blocks:
    """What is gathered while each block is used: going forward, back, and forward again on the way
    back; and after each of that, until the next block is used: onward, back and rested. ``kept``:
    bytes that stay gathered.
    """

    def __init__(self, plan: PlanData, sizes: Sizes) -> None:
        kept: dict[str, int] = {}
        blocks: dict[int, dict[str, int]] = {}
        parts: dict[int, dict[str, int]] = {}
        again: set[int] = set()
        self.of: dict[str, int] = {}
        for entry in plan.conversions:
            if entry.block is not None:
                whole = sizes.bytes(entry.shape_after, entry.dtype)
                self.of[entry.id] = entry.block
                into = blocks.setdefault(entry.block, {})
                into[entry.value] = max(into.get(entry.value, 0), whole)
                part = parts.setdefault(entry.block, {})
                part[entry.value] = sizes.bytes(entry.shape_before, entry.dtype)
                if "all-gather" in entry.backward:
                    again.add(entry.block)
                else:
                    kept[entry.value] = max(kept.get(entry.value, 0), whole)
        self.kept = sum(kept.values())
        self.onward: dict[int, int] = {}
        self.back: dict[int, int] = {}
        self.forward: dict[int, int] = {}
        self.rerun: dict[int, int] = {}
        self.rested: dict[int, int] = {}
        self.backward: dict[int, int] = {}
        order = sorted(blocks)
        totals = [0, *(sum(blocks[number].values()) for number in order), 0]
        sent = [0, *(sum(parts[number].values()) for number in order), 0]
        for place, number in enumerate(order, 1):
            before, own, after = totals[place - 1 : place + 2]
            most = max(blocks[number].values())
            rows = own if len(blocks[number]) > 1 else 0
            scattered = after + sent[place + 1]
            self.onward[number] = 0
            if number in again:
                self.onward[number] = own + after
                self.forward[number] = own + max(rows, after)
                self.rerun[number] = max(
                    own + max(rows, before) + scattered, own + after + scattered
                )
                self.rested[number] = own + before + scattered
                self.back[number] = own + self.rested[number]
                self.backward[number] = self.back[number] + most
            else:
                self.forward[number] = own + rows
                self.rerun[number] = after + scattered
                self.rested[number] = scattered
                self.back[number] = max(own, after) + scattered
                self.backward[number] = self.back[number] + most


class _Gradients:
    """The gradients of values and conversions on the way back. One may be another's memory: the
    gradient of a sum is that of all its terms, and there as long as one of them needs it.
    """

    def __init__(self) -> None:
        self.total = 0
        self._memory: dict[str, int] = {}
        self._users: dict[int, set[str]] = {}
        self._bytes: dict[int, int] = {}

    def __contains__(self, name: str) -> bool:
        return name in self._memory

    def bytes(self, name: str) -> int:
        """The bytes of a gradient, whoever else has them."""
        return self._bytes[self._memory[name]]

    def put(self, name: str, size: int) -> int:
        """One has come, and is added to the one that is there. Returns what that makes beside
        both: one that others have too is not written to.
        """
        before = self._memory.get(name)
        beside = size if before is not None and len(self._users[before]) > 1 else 0
        self.pop(name)
        memory = max(self._bytes, default=0) + 1
        self._memory[name] = memory
        self._users[memory], self._bytes[memory] = {name}, size
        self.total += size
        return beside

    def share(self, name: str, source: str) -> int:
        """Does the same with one that is another's memory."""
        if name in self._memory:
            return self.put(name, self.bytes(source))
        memory = self._memory[name] = self._memory[source]
        self._users[memory].add(name)
        return 0

    def pop(self, name: str) -> None:
        """One is needed no more."""
        memory = self._memory.pop(name, None)
        if memory is not None:
            self._users[memory].discard(name)
            if not self._users[memory]:
                self.total -= self._bytes.pop(memory)
                del self._users[memory]


class _Step:
    """A training step, walked through for its bytes.

    roots: of each value and conversion the one whose memory it shares. bytes: of each in memory.
    holders: who needs it: a name that is still used, an operator or a region on its way back; held:
    what each of them needs.
    summed: bytes of gradients of parameters
    that wait for the end of the pass. used: bytes of the block that was used last.
    number: of the operator that runs. again: whether regions run again.
    """

    def __init__(self, plan: PlanData, sizes: Sizes) -> None:
        self.plan = plan
        self.sizes = sizes
        self.extents = extents(plan)
        self.uses = Uses(plan)
        self.conversions = {entry.id: entry for entry in plan.conversions}
        self.last = _last_uses(plan)
        made = [output for entry in plan.operators for output in entry.outputs]
        self.gradient = {e.value for e in plan.inputs if e.gradient == "always"}
        self.gradient |= {e.value for e in made if e.gradient == "always"}
        self.gradient |= {e.id for e in plan.conversions if e.backward_runs == "always"}
        self.first = _first_uses(plan, self.gradient)
        self.parameters = {e.value for e in plan.inputs if e.kind in ("parameter", "buffer")}
        self.blocks = _Blocks(plan, sizes)
        self.roots: dict[str, str] = {}
        self.bytes: dict[str, int] = {}
        self.holders: dict[str, set[object]] = {}
        self.held: dict[object, list[str]] = {}
        self.strided: set[str] = set()
        self.gradients = _Gradients()
        self.late = _gathered_late(plan)
        self.live = self.summed = self.used = self.number = 0
        self.again = False
        self.live = sum(sizes.bytes(e.whole, e.dtype) for e in plan.inputs if e.kind == "input")
        self.best = (0, self.blocks.kept)

    def most(self) -> tuple[int, int]:
        """Returns the bytes of activations and of what is gathered when both are most."""
        self.forward(0, len(self.plan.operators), None)
        results = _seeds(self.plan, self.gradient)
        self.number = len(self.plan.operators)
        for result in self.plan.outputs:
            self.take(result.source)
            self.hold(result.source, "return")
            self.note(0)
        for result in results:
            self.gradients.put(result.source, self.sizes.bytes(result.shape, result.dtype))
            self.settle(result.source, len(self.plan.operators))
        self.backward(0, len(self.plan.operators), None)
        return self.best

    def inside(self, start: int, stop: int, within: int | None) -> list[tuple[int, Extent]]:
        """The regions directly in this one, with their numbers."""
        return [
            (number, extent)
            for number, extent in enumerate(self.extents)
            if extent.within == within and start <= extent.start < stop
        ]

    def forward(self, start: int, stop: int, within: int | None) -> None:
        """Runs operators; what the regions there make is not kept, but what they take."""
        regions = {each[1].start: each for each in self.inside(start, stop, within)}
        number = start
        while number < stop:
            found = regions.get(number)
            if found is None:
                self.run(number, keeps=True)
                number += 1
                continue
            region, extent = found
            for name in self.uses.kept_by(extent):
                self.take(name)
                self.hold(name, ("region", region))
            for number in range(extent.start, extent.stop):
                self.run(number, keeps=False)
            number = extent.stop

    def run(self, number: int, *, keeps: bool) -> None:
        """Runs one operator."""
        operator, self.number = self.plan.operators[number], number
        self.take(*[operand.source for operand in operator.operands])
        for output in operator.outputs:
            if output.shape is not None:
                self.make(operator, output.value, self.sizes.bytes(output.shape, output.dtype))
                self.begin(output.value)
        extra = 0
        if keeps and any(output.gradient == "always" for output in operator.outputs):
            for name in self.kept_by(operator):
                self.hold(name, number)
            for operand in operator.operands:  # indices and masks
                if operand.shape is not None and (operand.dtype or "").startswith(EXACT):
                    self.hold(operand.source, number)
            extra = self.extra(operator)
            if extra:
                self.add(f"{operator.node} keeps", extra)
                self.hold(f"{operator.node} keeps", number)
        onward = (self.blocks.rerun, self.blocks.rested), (self.blocks.forward, self.blocks.onward)
        self.note(self.gathered(operator, *onward[not self.again]), self.beside(operator))
        used = [name for operand in operator.operands for name in self.chain(operand.source)]
        for name in (*used, *[o.value for o in operator.outputs]):
            if self.last.get(name, number) <= number:
                self.release(name)

    def chain(self, source: str) -> Iterator[str]:
        """What is used, and all that it is converted from."""
        yield source
        while source in self.conversions:
            source = self.conversions[source].source
            yield source

    def make(self, operator: OperatorPlan, name: str, size: int) -> None:
        """An output takes memory, or shares that of what it is a view of."""
        given = next((o for o in operator.operands if o.shape is not None), None)
        output = next(each for each in operator.outputs if each.value == name)
        tensors = [o for o in operator.operands if o.shape is not None]
        picked = picks(operator.name, len(tensors))
        is_view = operator.name in VIEWS and given is not None and not picked
        if is_view and given is not None:
            is_view = given.dtype == output.dtype and not (
                operator.name in IN_ORDER and given.source in self.strided
            )
        if is_view and given is not None:
            root = self.roots.get(given.source, given.source)
            self.roots[name] = root
            if operator.name in STRIDED or given.source in self.strided:
                self.strided.add(name)
        else:
            self.add(name, size)
        self.hold(name, name)

    def bytes_of(self, tensor: LocalTensor) -> int:
        return self.sizes.bytes(tensor.shape, tensor.dtype)

    def kept_by(self, operator: OperatorPlan) -> Iterator[str]:
        """What an operator keeps for its backward pass."""
        given = [o.source for o in operator.operands if o.shape is not None]
        outputs = [output.value for output in operator.outputs]
        match saved_by(operator.name):
            case Saved.NOTHING | Saved.EXTRA:
                if operator.name == "cross_entropy":  # targets that are numbers, and weights
                    yield from given[1:]
            case Saved.INPUTS:
                yield from given
            case Saved.OUTPUTS:
                yield from outputs
            case Saved.OTHERS:
                for name in given:
                    if (
                        (len(given) == 1 and operator.name not in TIMES)
                        or any(other != name and other in self.gradient for other in given)
                        or given.count(name) > 1
                    ):
                        yield name
            case Saved.ALL:
                if operator.name != ATTENTION or self.attention(operator).fused:
                    yield from given
                    yield from outputs

    def extra(self, operator: OperatorPlan) -> int:
        """The bytes that an operator keeps which nobody else sees."""
        tensors = [e for e in (*operator.operands, *operator.outputs) if e.shape is not None]
        if operator.operator in INSIDE:
            return self.rows_inside(operator, INSIDE[operator.operator][0])
        if saved_by(operator.name) is Saved.EXTRA:
            sizes = [(e, self.sizes.bytes(e.shape, e.dtype)) for e in tensors]
            # What a loss counts has as many numbers as its targets, and so have its masks.
            exact = sum(size for e, size in sizes if (e.dtype or "").startswith(EXACT))
            logarithms = 2 if _cuts_classes(operator) else 1  # and what they are made of
            logarithms += _mixtures(operator)
            return logarithms * max(size for _, size in sizes) + 3 * exact
        if operator.name == "layer_norm":  # the mean and the deviation of every row
            rows = tensors[0].shape or ()
            item = max(4, item_bytes(tensors[0].dtype))
            return 2 * item * prod(self.sizes.of(text or "1") for text in rows[:-1])
        if operator.name == ATTENTION:  # masks of truth values become numbers
            dtype = tensors[0].dtype
            masks = sum(self.sizes.bytes(e.shape, dtype) for e in tensors if e.dtype == "bool")
            return masks + self.attention(operator).inside
        return 0

    def attention(self, operator: OperatorPlan) -> Attention:
        """What an attention keeps, and makes while it runs."""
        given = [None if place is None else operator.operands[place] for place in operator.inputs]
        masks = [each for each in given[3:] if each is not None]
        shapes: list[tuple[int, ...]] = []
        for each in given[:3]:
            if each is None or each.shape is None or None in each.shape:
                return Attention(0, 0, True)
            shapes.append(tuple(self.sizes.of(text) for text in each.shape if text is not None))
        return attention(
            shapes,
            item_bytes(operator.operands[0].dtype),
            draws=operator.randomness is not None,
            mask_gradient=any(each.source in self.gradient for each in masks),
        )

    def beside(self, operator: OperatorPlan) -> int:
        """The bytes that an attention, or an operator of our own, makes while it runs, and does
        not keep.
        """
        if operator.name == ATTENTION:
            return self.attention(operator).beside
        rows = INSIDE.get(operator.operator)
        return 0 if rows is None else self.rows_inside(operator, rows[1])

    def rows_inside(self, operator: OperatorPlan, rows: Iterable[str]) -> int:
        """The bytes of rows that an operator makes inside, in the dtype of its first input."""
        lengths = {name: self.sizes.of(text) for name, text in operator.lengths.items()}
        item = item_bytes(operator.operands[0].dtype)
        return item * sum(prod(lengths[name] for name in row.split()) for row in rows)

    def take(self, *sources: str) -> None:
        """Values, or conversions, are used: what was not converted yet is converted now. What goes
        the same way goes together, and is held until all of it has gone.
        """
        needed: dict[str, ConversionPlan] = {}
        for source in sources:
            chain = []
            entry = self.conversions.get(source)
            while entry is not None and not (entry.id in self.roots or entry.id in self.bytes):
                chain.append(entry)
                entry = self.conversions.get(entry.source)
            needed |= {entry.id: entry for entry in reversed(chain)}
        members = Counter(forward_of(entry, self.plan) for entry in needed.values())
        beside: Counter[Way] = Counter()
        left: list[str] = []
        for entry in needed.values():
            way = forward_of(entry, self.plan)
            together = way.together and members[way] > 1
            self.convert(entry, way, beside, together=together)
            if self.last.get(entry.source, -1) <= self.number:
                left.append(entry.source)
                if not together:
                    self.release(left.pop())
        for name in left:
            self.release(name)

    def convert(
        self, entry: ConversionPlan, way: Way, beside: Counter[Way], *, together: bool
    ) -> None:
        """Makes one conversion. beside: what those that it goes with hold meanwhile."""
        if entry.block is not None:
            self.parameters.add(entry.id)
        elif entry.forward:
            self.release(f"{entry.id} begun")
            self.add(entry.id, self.sizes.bytes(entry.shape_after, entry.dtype))
            held = self.held_by(entry, way, entry.shape_before, entry.shape_after, together)
            beside[way] = held + beside[way] * together
            self.note(0, beside[way])
        else:
            self.roots[entry.id] = self.root(entry.source)
            if entry.source in self.strided:
                self.strided.add(entry.id)
        self.hold(entry.id, entry.id)
        self.begin(entry.id)

    def begin(self, source: str) -> None:
        """The rows of results that are gathered late are there from now on."""
        for name in self.late.get(source, ()) if self.number < len(self.plan.operators) else ():
            entry, rows = self.conversions[name], f"{name} begun"
            self.add(rows, self.sizes.bytes(entry.shape_after, entry.dtype))
            self.hold(rows, rows)

    def held_by(
        self,
        entry: ConversionPlan,
        way: Way,
        before: list[str | None] | None,
        after: list[str | None] | None,
        together: bool,
    ) -> int:
        """The bytes that a conversion holds while it runs, forward or back."""
        given, made = (self.sizes.bytes(shape, entry.dtype) for shape in (before, after))
        lengths = [0 if text is None else self.sizes.of(text) for text in before or ()]
        count = self.sizes.mesh[entry.axis]
        return held_by(way, given, made, lengths, count, together=together)

    def root(self, name: str) -> str:
        return self.roots.get(name, name)

    def add(self, name: str, size: int) -> None:
        """Something takes memory."""
        self.roots.pop(name, None)
        if name not in self.bytes:
            self.bytes[name] = size
            self.live += size

    def hold(self, name: str, holder: object) -> None:
        """Something is needed."""
        root = self.root(name)
        self.holders.setdefault(root, set()).add(holder)
        self.held.setdefault(holder, []).append(root)

    def release(self, holder: object) -> None:
        """One that needed things needs none of them any more."""
        for root in self.held.pop(holder, ()):
            holders = self.holders[root]
            holders.discard(holder)
            if not holders:
                self.live -= self.bytes.pop(root, 0)

    def gathered(self, operator: OperatorPlan, of: dict[int, int], until: dict[int, int]) -> int:
        """What is gathered while an operator runs, beside what stays. until: the next block."""
        numbers = {
            self.blocks.of[o.source] for o in operator.operands if o.source in self.blocks.of
        }
        if numbers:
            self.used = max(until[number] for number in numbers)
        return max((of[number] for number in numbers), default=0)

    def note(self, gathered: int, more: int = 0) -> None:
        """Looks whether more is in memory than ever."""
        live = self.live + self.summed + self.gradients.total + more
        gathered = self.blocks.kept + max(gathered, self.used)
        if live + gathered > sum(self.best):
            self.best = live, gathered

    def backward(self, start: int, stop: int, within: int | None) -> None:
        """Runs the backward pass of operators, the last one first."""
        regions = {each[1].stop: each for each in self.inside(start, stop, within)}
        number = stop
        while number > start:
            found = regions.get(number)
            if found is None:
                number -= 1
                self.back(number)
                continue
            region, extent = found
            self.again = True
            self.forward(extent.start, extent.stop, region)
            for operator in self.plan.operators[extent.start : extent.stop]:
                for output in operator.outputs:
                    self.release(output.value)
            self.backward(extent.start, extent.stop, region)
            self.release(("region", region))
            number = extent.start

    def back(self, number: int) -> None:
        """Runs the backward pass of one operator."""
        operator = self.plan.operators[number]
        outputs = [output.value for output in operator.outputs]
        if any(name in self.gradients for name in outputs):
            new: dict[str, int] = {}
            for operand in operator.operands:
                if operand.shape is not None and operand.source in self.gradient:
                    new[operand.source] = self.sizes.bytes(operand.shape, operand.dtype)
            made = 0 if operator.name in MOVES else sum(new.values())
            if operator.name in PRODUCTS:  # of what is repeated, before it is summed
                largest = max(map(self.bytes_of, operator.outputs))
                made = sum(max(size, largest) for size in new.values())
            made *= 1 + (saved_by(operator.name) is Saved.EXTRA)  # zeros, and what is put there
            made += self.beside(operator)
            if operator.name in TEMPORARIES:
                largest = max(map(self.bytes_of, (*operator.operands, *operator.outputs)))
                made += TEMPORARIES[operator.name] * largest
            way = self.blocks.backward, self.blocks.back
            self.note(self.gathered(operator, *way), made)
            beside = self.pass_on(operator, outputs, new)
            self.note(self.gathered(operator, *way), beside)
            together = self.together(new, number)
            for name in new:
                self.settle(name, number, together=name in together)
        self.release(number)

    def pass_on(self, operator: OperatorPlan, outputs: list[str], new: dict[str, int]) -> int:
        """The gradients of outputs become those of inputs. Returns the bytes of the sums that are
        made of them.
        """
        beside = 0
        source = next(name for name in outputs if name in self.gradients)
        for name, size in new.items():
            if operator.name in MOVES and size == self.gradients.bytes(source):
                beside += self.gradients.share(name, source)
            else:
                beside += self.gradients.put(name, size)
        for name in outputs:
            self.gradients.pop(name)
        return beside

    def together(self, names: Iterable[str], number: int) -> set[str]:
        """The gradients that go back in one collective, and looks what that needs."""
        ways: dict[Way, list[ConversionPlan]] = {}
        for name in names:
            entry = self.conversions.get(name)
            if entry is not None and self.first.get(name, number) >= number:
                way = back_of(entry)
                if way.together:
                    ways.setdefault(way, []).append(entry)
        found: set[str] = set()
        for way, members in ways.items():
            if len(members) > 1:
                found |= {entry.id for entry in members}
                self.note(0, sum(self.back_again(entry, way, together=True) for entry in members))
        return found

    def back_again(self, entry: ConversionPlan, way: Way, *, together: bool) -> int:
        """The bytes that the way back of a gradient makes, and holds while it runs."""
        held = self.held_by(entry, way, entry.shape_after, entry.shape_before, together)
        return held + self.sizes.bytes(entry.shape_before, entry.dtype)

    def settle(self, name: str, number: int, *, together: bool = False) -> None:
        """Converts the gradient of what was used first here, and sums that of a parameter.
        together: it was converted with others.
        """
        while name in self.gradients and self.first.get(name, number) >= number:
            entry = self.conversions.get(name)
            if entry is None:
                if name in self.parameters:
                    self.gradients.pop(name)
                return
            size = self.gradients.bytes(name)
            if entry.block is not None:
                self.gradients.pop(name)
                return
            into = self.sizes.bytes(entry.shape_before, entry.dtype)
            if entry.backward and not together:
                way = back_of(entry)
                self.note(0, self.back_again(entry, way, together=False))
            together = False
            if entry.source in self.parameters and entry.before == entry.after:
                self.gradients.pop(name)
                self.summed += into
                self.note(0, min(BUCKET, self.summed))
                return
            if size == into and not entry.backward:
                self.gradients.share(entry.source, name)
                self.gradients.pop(name)
            else:
                self.gradients.pop(name)
                self.note(0, self.gradients.put(entry.source, into))
            name = entry.source


def _cuts_classes(operator: OperatorPlan) -> bool:
    """Whether a rule computes a loss from parts of every row of logits."""
    if operator.name != "cross_entropy":
        return False
    given, target, *_ = layout_of(operator.annotation, None).inputs
    names = [{name for p in row or () for name in p.names} for row in (given, target)]
    only = names[0] - names[1]
    splits = operator.splits.values()
    return any(each.rule is not None and each.identifier in only for each in splits)


def _mixtures(operator: OperatorPlan) -> int:
    """How many tensors as large as its logits a loss has beside their logarithms: its classes are
    weighed, or mixed with probabilities. A plan does not tell whether labels are smoothed, so they
    are taken to be.
    """
    if operator.name != "cross_entropy":
        return 0
    tensors = [each for each in operator.operands if each.shape is not None]
    weighed, whole = len(tensors) > 2, not _cuts_classes(operator)
    exact = (tensors[1].dtype or "").startswith(EXACT)
    return (weighed and whole) if exact else weighed + whole


def forward_of(entry: ConversionPlan, plan: PlanData) -> Way:
    """Returns the way of a conversion."""
    place = list(plan.mesh).index(entry.axis)
    return Way(entry.axis, entry.before[place], entry.after[place], tuple(entry.forward))


def back_of(entry: ConversionPlan) -> Way:
    """Returns the way of its gradient."""
    return Way(entry.axis, *entry.gradient, tuple(entry.backward))


def _gathered_late(plan: PlanData) -> dict[str, list[str]]:
    """What is gathered for the caller alone: that begins when its source is made, and ends when all
    else is done. By source.
    """
    late: dict[str, list[str]] = {}
    for entry in plan.conversions:
        returned = entry.uses and all(use.startswith("return:") for use in entry.uses)
        if returned and entry.forward == ["all-gather"] and not entry.shared_gradient:
            late.setdefault(entry.source, []).append(entry.id)
    return late


def _seeds(plan: PlanData, gradient: set[str]) -> list[OutputPlan]:
    """The results whose gradients are given: the losses, or where there is none all."""
    results = [result for result in plan.outputs if result.source in gradient]
    return [result for result in results if result.shape == []] or results


def _first_uses(plan: PlanData, gradient: set[str]) -> dict[str, int]:
    """The first operator that uses each value or conversion, of those that run backward."""
    entries = {entry.id: entry for entry in plan.conversions}
    reached = {result.value for result in _seeds(plan, gradient)}
    first: dict[str, int] = {}
    for number, operator in reversed(list(enumerate(plan.operators))):
        if not any(output.value in reached for output in operator.outputs):
            continue
        for operand in operator.operands:
            name: str | None = operand.source
            if name in gradient:
                reached.add(operand.value)
            while name is not None:
                first[name] = number
                name = entries[name].source if name in entries else None
    return first


def _last_uses(plan: PlanData) -> dict[str, int]:
    """The last operator that uses each value or conversion, itself or what it is converted to."""
    sources = {entry.id: entry.source for entry in plan.conversions}
    last: dict[str, int] = {}
    for number, operator in enumerate(plan.operators):
        for operand in operator.operands:
            name: str | None = operand.source
            while name is not None:
                last[name] = number
                name = sources.get(name)
    for output in plan.outputs:
        found: str | None = output.source
        while found is not None:
            last[found] = len(plan.operators)
            found = sources.get(found)
    return last
