"""What two plans do differently, a line each.

mesh tp: 2 -> 4
operator linear: tp: n -> tp: k
+ conversion linear@1 tp: P(sum) -> R

What a plan relies on: conditions that say no more than they must, checked at real sizes.

batch % 2 == 0, batch*seq % 2 == 0              the second follows from the first
4096 % n == 0, 32 % n == 0, 8 % n == 0          the first two follow from the last

Sizes of a plan's symbols: given by a caller, checked, and put into the plan's lengths.

plan over dp=2 with batch, seq; needs batch % 2 == 0
{"batch": 4, "seq": 3}      (batch//2, seq, 64)  is  (2, 3, 64)
{"batch": 3, "seq": 3}      PlanError: it needs batch % 2 == 0
{"batch": 4}                PlanError: ... write plan.memory({"batch": 4, "seq": 1})

The bytes that one rank needs for a training step.

    parameters    its parts of the parameters and buffers
    gradients     as many as the parameters have
    optimizer     two numbers for each parameter with Adam
    activations   what the backward pass needs, and what is live beside it at the worst moment

Activations are an estimate from above: every value that has a gradient is kept until the backward
pass, views share the memory of what they are taken from, and kernels need no memory of their own.
Of a region that is run again in the backward pass only what it takes and gives is kept; what it
makes is in memory while it runs, and once more while it is run again.

What a training step communicates, counted per collective, axis and direction.

    Traffic("all-reduce", "tp", "forward", 4, 131072)      two in each of two layers
    Traffic("all-reduce", "dp", "backward", 21, 183296)    the gradients of 21 parameters

Bytes are what one rank sends: of an all-reduce of B bytes over n ranks 2 (n - 1)/n B.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice, product
from math import prod
from operator import index
from typing import Any, NamedTuple

from dimsolve.ir.characters import shown
from dimsolve.ir.errors import DimsolveError
from dimsolve.ir.expression import Relation
from dimsolve.ir.read_expression import read_relation
from dimsolve.solver.algebra.dims import evaluate, symbols_of
from dimsolve.solver.algebra.evaluation import names_of, predicate_of
from dimsolve.solver.algebra.poly import Dim, TooLarge
from dimsolve.solver.proof.facts import read_facts
from dimsolve.solver.proof.prove import prove
from dimsolve.solver.shapes import dim_of_text

from .plan import Axis, Collective, ConversionPlan, Gradient, OperatorPlan, Plan
from .plan_data import PlanError, no_plan, plan_error
from .planning.network import VIEWS
from .regions import Uses, extents
from .reshard import SENT, item_bytes

TRIES = 4096
"""So many sizes are tried for an example."""


def essential(conditions: Iterable[str], facts: Iterable[str | Relation] = ()) -> list[str]:
    """Returns the conditions without those that follow from the others and the facts.

    >>> essential(["batch*seq % 2 == 0", "batch % 2 == 0"])
    ['batch % 2 == 0']
    """
    kept = list(dict.fromkeys(conditions))
    given = list(facts)
    for claim in sorted(kept, key=lambda text: (-len(text), text)):
        others = [each for each in kept if each != claim]
        if _follows(claim, [*given, *others]):
            kept = others
    return kept


def _follows(claim: str, facts: list[str | Relation]) -> bool:
    try:
        return prove(claim, facts=read_facts(facts)).verdict == "proved"
    except DimsolveError:
        # Facts that contradict each other prove nothing here; a run refuses the first that fails.
        return False


def check_conditions(
    plan: Plan, sizes: Mapping[str, int], method: str = "check", *, complete: bool = True
) -> None:
    """Raises PlanError for the first condition of the plan, or fact that it was made under, that
    does not hold at these sizes.

    method: which of the plan's is called, for errors. complete: whether a size that a condition
    needs may not be missing. Symbols that no caller gives are known when it runs, and not before.
    """
    for text, reason in _claims(plan):
        relation = read_relation(text)
        names = names_of(relation.left) | names_of(relation.right)
        if names <= sizes.keys():
            if predicate_of(relation)(sizes) is not True:
                raise _broken(plan, text, reason, {name: sizes[name] for name in sorted(names)})
        elif complete and names <= set(plan.symbols):
            raise missing_size(plan, text, names - sizes.keys(), sizes, method)


def missing_size(
    plan: Plan, text: str, missing: Iterable[str], given: Mapping[str, int], method: str
) -> PlanError:
    """Returns the error for an expression of the plan that has no value without some sizes."""
    symbols = ", ".join(plan.symbols) or "none"
    return plan_error(
        "no-size",
        "a size is missing",
        f"{shown(text, 120)} needs a size for {', '.join(sorted(missing))}; the symbols of the "
        f"plan are {symbols}",
        f"write {example_call(plan, given, method)}",
    )


def example_call(plan: Plan, given: Mapping[str, int], method: str) -> str:
    """Returns a call of a method that works: with sizes for all symbols of the plan, those that are
    given and the smallest others that its conditions allow.

    method: the name of one that takes sizes, such as ``memory``.
    """
    tests = [predicate_of(read_relation(text)) for text, _ in _claims(plan)]
    names = [name for name in plan.symbols if name not in given]
    choices = (dict(zip(names, each, strict=True)) for each in _small(len(names)))
    for chosen in islice(choices, TRIES):
        sizes = {name: given.get(name, chosen.get(name, 1)) for name in plan.symbols}
        if all(_holds(test, sizes) for test in tests):
            listed = ", ".join(f'"{name}": {size}' for name, size in sizes.items())
            return f"plan.{method}({{{listed}}})"
    return f"plan.{method}({{...}}) with sizes for {', '.join(plan.symbols)}"


def _small(count: int) -> Iterator[tuple[int, ...]]:
    """Tuples of small sizes, the smaller first."""
    yield from product(range(1, 9), repeat=count) if count <= 3 else ()
    for size in range(1, TRIES):
        yield (size,) * count


def _holds(test: Callable[[Mapping[str, int]], bool | None], sizes: Mapping[str, int]) -> bool:
    try:
        return test(sizes) is True
    except KeyError:
        # It speaks of a symbol that is known only when it runs.
        return True


def _claims(plan: Plan) -> Iterator[tuple[str, str]]:
    """The conditions with their reasons, and the facts."""
    for text in plan.conditions:
        yield text, plan.reasons.get(text, "the graph")
    for text in plan.facts:
        yield text, "a fact of the graph"


def _broken(plan: Plan, text: str, reason: str, values: Mapping[str, int]) -> PlanError:
    listed = ", ".join(f"{name} = {size}" for name, size in values.items()) or "it never holds"
    every = dict.fromkeys([*plan.conditions, *plan.facts])
    return plan_error(
        "broken-condition",
        "the plan does not hold at these sizes",
        f"it needs {shown(text, 120)} ({shown(reason, 120)}), and {listed}",
        f"the plan serves all sizes with {' and '.join(every)}",
    )


def read_sizes(plan: Plan, sizes: Any, named: Mapping[str, Any], method: str) -> dict[str, int]:
    """Returns the sizes of symbols from a mapping, from keywords, or from both.

    method: which of the plan's is called, for errors. Raises PlanError for what is no mapping, for
    symbols that the plan has not, and for what is no size.
    """
    given = {} if sizes is None else sizes
    if not isinstance(given, Mapping):
        raise plan_error(
            "not-sizes",
            "these are no sizes",
            f"{given!r:.60} is a {type(given).__name__}, not a mapping from symbols to sizes",
            f"write {example_call(plan, {}, method)}",
        )
    twice = next((name for name in named if name in given), None)
    if twice is not None:
        reason = f"'{shown(twice)}' is in the mapping and a keyword too"
        raise plan_error("size-twice", "a size is given twice", reason)
    return {name: _read(plan, name, size) for name, size in {**given, **named}.items()}


def _read(plan: Plan, name: str, size: Any) -> int:
    if name not in plan.symbols:
        raise _unknown(plan, name)
    try:
        number = index(size)
    except TypeError:
        raise _no_size(name, size) from None
    if isinstance(size, bool) or number < 0:
        raise _no_size(name, size)
    return number


class Sizes:
    """Evaluates the expressions of one plan, each once. ``mesh``: the sizes of its axes.

    sizes: as `read_sizes` returns them. Raises PlanError where they break a condition of the plan.
    """

    def __init__(self, plan: Plan, sizes: Mapping[str, int], method: str) -> None:
        check_conditions(plan, sizes, method)
        self.plan = plan
        self.sizes = sizes
        self.method = method
        self._known: dict[str, int] = {}
        self.mesh: dict[Axis, int] = {axis: self.of(size) for axis, size in plan.mesh.items()}

    def of(self, text: str) -> int:
        """Returns the value of an expression; PlanError for a symbol without a size."""
        if text not in self._known:
            dim: Dim = dim_of_text(text)
            missing = symbols_of(dim) - self.sizes.keys()
            if missing:
                raise missing_size(self.plan, text, missing, self.sizes, self.method)
            try:
                self._known[text] = evaluate(dim, self.sizes)
            except (ZeroDivisionError, TooLarge):
                raise _no_value(text, self.sizes) from None
        return self._known[text]

    def bytes(self, shape: Sequence[str | None] | None, dtype: str | None) -> int:
        """Returns the bytes of a tensor; 0 where its shape is not known."""
        if shape is None or None in shape:
            return 0
        return prod(self.of(text) for text in shape if text is not None) * item_bytes(dtype)


def _unknown(plan: Plan, name: object) -> PlanError:
    return plan_error(
        "no-such-symbol",
        "the plan has no such symbol",
        f"'{shown(str(name))}' is none; its symbols are {', '.join(plan.symbols) or 'none'}",
    )


def _no_size(name: str, size: object) -> PlanError:
    return plan_error(
        "not-a-size",
        "this is not a size",
        f"{name} = {size!r:.60}",
        "a size is a whole number, 0 or more",
    )


def _no_value(text: str, sizes: Mapping[str, int]) -> PlanError:
    values = ", ".join(f"{name} = {size}" for name, size in sizes.items())
    return plan_error(
        "no-value",
        "the plan has no value at these sizes",
        f"{shown(text)} has none at {values}" if values else f"{shown(text)} has none",
    )


@dataclass(frozen=True, slots=True)
class Memory:
    """Bytes of one rank."""

    parameters: int
    gradients: int
    optimizer: int
    activations: int

    @property
    def total(self) -> int:
        """All of them together."""
        return self.parameters + self.gradients + self.optimizer + self.activations


def memory_of(plan: Plan, known: Sizes, optimizer_states: int) -> Memory:
    """Returns the memory of one rank. Raises PlanError for a symbol without a size."""
    if not isinstance(optimizer_states, int) or optimizer_states < 0:
        raise plan_error(
            "not-a-count",
            "this is no number of optimiser states",
            f"optimizer_states = {optimizer_states!r:.60}",
            "SGD keeps 0 numbers for each parameter, with momentum 1, Adam 2",
        )
    held = {"parameter": 0, "buffer": 0}
    for entry in plan.inputs:
        if entry.kind in held:
            held[entry.kind] += known.bytes(entry.shape, entry.dtype)
    trained = held["parameter"]
    return Memory(
        parameters=trained + held["buffer"],
        gradients=trained,
        optimizer=optimizer_states * trained,
        activations=_activations(plan, known),
    )


def _activations(plan: Plan, sizes: Sizes) -> int:
    """The peak of live bytes over the forward pass, and over what is run again."""
    return _Pass(plan, sizes).peak()


class _Pass:
    """The operators of a plan, run for their bytes. ``extents``: of the plan's regions."""

    def __init__(self, plan: Plan, sizes: Sizes) -> None:
        self.plan = plan
        self.sizes = sizes
        self.extents = extents(plan)
        self.uses = Uses(plan)
        self.last = _last_uses(plan)
        self.gradient = _with_gradient(plan)

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

    def __init__(self, plan: Plan, sizes: Sizes, last: dict[str, int], kept: set[str]) -> None:
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
        if entry.forward:
            self.add(source, self.sizes.bytes(entry.shape_after, entry.dtype))

    def add(self, name: str, size: int) -> None:
        """Something is made."""
        if name not in self.bytes:
            self.bytes[name] = size
            self.total += size
            self.peak = max(self.peak, self.total)

    def drop(self, names: list[str], number: int) -> None:
        """What nothing needs after this operator is freed; what is kept is not."""
        for name in names:
            if name not in self.kept and self.last.get(name, number) <= number:
                self.total -= self.bytes.pop(name, 0)


def _last_uses(plan: Plan) -> dict[str, int]:
    """The last operator that uses each value or conversion; a view uses what it is taken from as
    long as it is used itself.
    """
    last: dict[str, int] = {}
    for number in range(len(plan.operators) - 1, -1, -1):
        operator: OperatorPlan = plan.operators[number]
        end = number
        if operator.name in VIEWS:
            end = max([number, *(last.get(out.value, number) for out in operator.outputs)])
        for operand in operator.operands:
            last[operand.source] = max(last.get(operand.source, end), end)
    for output in plan.outputs:
        last[output.value] = last[output.source] = len(plan.operators)
    return last


def _with_gradient(plan: Plan) -> set[str]:
    """Values, and conversions of values, that have a gradient in training."""
    found = {entry.value for entry in plan.inputs if entry.gradient == "always"}
    for operator in plan.operators:
        for output in operator.outputs:
            if output.gradient == "always":
                found.add(output.value)
    found |= {entry.id for entry in plan.conversions if entry.backward_runs == "always"}
    return found


class Traffic(NamedTuple):
    """The collectives of one sort in a step. ``bytes``: sent by one rank in all of them."""

    collective: Collective
    axis: Axis
    direction: str
    count: int  # type: ignore[assignment]  # a tuple's count of equal items is of no use here
    bytes: int


def communication_of(plan: Plan, known: Sizes, input_gradients: bool) -> list[Traffic]:
    """Returns the traffic of one training step, forward first, in the order of the mesh's axes.

    input_gradients: whether what is sent only for the gradients of inputs is counted. Raises
    PlanError for a symbol without a size.
    """
    runs: tuple[Gradient, ...] = ("always", "inputs") if input_gradients else ("always",)
    totals: dict[tuple[str, Axis, Collective], list[int]] = {}
    for conversion in plan.conversions:
        for direction, collective, sent in _each(conversion, known, runs):
            total = totals.setdefault((direction, conversion.axis, collective), [0, 0])
            total[0] += 1
            total[1] += sent
    axes = list(plan.mesh)
    order = sorted(totals, key=lambda key: (key[0] != "forward", axes.index(key[1]), key[2]))
    return [
        Traffic(collective, axis, direction, *totals[direction, axis, collective])
        for direction, axis, collective in order
    ]


def _each(
    conversion: ConversionPlan, sizes: Sizes, runs: Collection[Gradient]
) -> Iterator[tuple[str, Collective, int]]:
    """The collectives that send something; of several the bytes are shared by what they send."""
    ways = [("forward", conversion.forward, conversion.bytes_forward)]
    if conversion.backward_runs in runs:
        ways.append(("backward", conversion.backward, conversion.bytes_backward))
    count = sizes.mesh[conversion.axis]
    for direction, collectives, text in ways:
        sending = [each for each in collectives if SENT[each][0]]
        weights = [SENT[each][0] * count ** (2 - SENT[each][1]) for each in sending]
        total = sizes.of(text) if sending else 0
        for collective, weight in zip(sending, weights, strict=True):
            yield direction, collective, total * weight // sum(weights)


def diff(old: Plan, new: Plan) -> str:
    """Returns the differences, ``""`` for equal plans. Lines beginning with ``-`` are in the first
    plan only, with ``+`` in the second only. Raises PlanError where the second is no plan.
    """
    if not isinstance(new, Plan):
        raise no_plan(new)
    return "\n".join(
        [
            *_values("graph", old.graph.fingerprint, new.graph.fingerprint),
            *_keyed("mesh", dict(old.mesh), dict(new.mesh)),
            *_values("policy", old.policy, new.policy),
            *_keyed("condition", _marks(old.conditions), _marks(new.conditions)),
            *_keyed("input", _inputs(old), _inputs(new)),
            *_keyed("operator", _operators(old), _operators(new)),
            *_keyed("conversion", _conversions(old), _conversions(new)),
            *_keyed("region", _regions(old), _regions(new)),
            *_keyed("note", _marks(old.notes), _marks(new.notes)),
        ]
    )


def _marks(texts: list[str]) -> dict[str, str]:
    return dict.fromkeys(texts, "")


def _inputs(plan: Plan) -> dict[str, str]:
    return {
        entry.name: f"{', '.join(entry.placements)} ({_shape(entry.shape)})"
        for entry in plan.inputs
    }


def _operators(plan: Plan) -> dict[str, str]:
    return {entry.node: _operator(entry) for entry in plan.operators}


def _operator(entry: Any) -> str:
    splits = ", ".join(f"{axis}: {split}" for axis, split in entry.splits.items())
    shapes = " ".join(f"({_shape(output.shape)})" for output in entry.outputs)
    return f"{splits or 'whole'} -> {shapes}"


def _conversions(plan: Plan) -> dict[str, str]:
    return {
        entry.id: f"{', '.join(entry.before)} -> {', '.join(entry.after)}"
        + (" shared" if entry.shared_gradient else "")
        for entry in plan.conversions
    }


def _regions(plan: Plan) -> dict[str, str]:
    return {
        entry.name: f"{entry.first} .. {entry.last} {entry.contract()}" for entry in plan.regions
    }


def _shape(shape: list[str | None] | None) -> str:
    return "?" if shape is None else ", ".join(text or "?" for text in shape)


def _values(name: str, old: str, new: str) -> Iterator[str]:
    if old != new:
        yield f"{name}: {old} -> {new}"


def _keyed(name: str, old: Mapping[str, str], new: Mapping[str, str]) -> Iterator[str]:
    for key, value in old.items():
        if key not in new:
            yield f"- {name} {key} {value}".rstrip()
        elif new[key] != value:
            yield f"{name} {key}: {value} => {new[key]}"
    for key, value in new.items():
        if key not in old:
            yield f"+ {name} {key} {value}".rstrip()
