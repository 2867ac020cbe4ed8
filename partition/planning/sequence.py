"""The policies ``"sequence"``: what is not the batch is cut, and ``"tensor+sequence"``: parameters
are, and the sequence where they are not used.

    sequence           everything works on its part of the sequence (context parallelism); for an
                       attention, keys and values, which all positions need, are gathered, or its
                       parts are exchanged for parts of heads (Ulysses), whichever sends less; one
                       that parts of a sequence cannot run (is_causal=True) is exchanged

    sequence+all-gather, sequence+all-to-all     the same, and attentions gather, or exchange,
                       whatever that sends

    tensor             norm R      q, k, v S(2) .. o P(sum)      all-reduce       norm R
    tensor+sequence    norm S(1)   q, k, v S(2) .. o P(sum)      reduce-scatter   norm S(1)
                               all-gather                        before q, k, v of the next layer

Of the dimensions of the inputs the sequence is the one that is named so (its name begins with
``s``, ``length`` or ``time``), else the one with the most work, then the least communication, if it
divides half as much work as the batch.

With ``"tensor+sequence"`` parameters are cut first, as ``"tensor"`` cuts them. What else works on
the sequence then works on parts of it, where that saves memory of values that are kept for the
backward pass and sends hardly more: an all-reduce sends as much as a reduce-scatter and an
all-gather.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Literal, TypeAlias

from dimsolve.solver.graphs.problems import place

from ..cost import PRODUCTS
from ..placement import Partial, Replicate, Shard
from ..plan_data import PlanError, problem
from .axis_state import AxisState
from .choices import Choice, Refusal
from .completion import join_later
from .data import SHARE, Candidate, batch_of, decided
from .requirements import Requirements
from .tensor import OPERATIONS_PER_BYTE, tensor

NAMES = ("s", "length", "time")
"""How names of a sequence begin."""

SENT = 0.1
"""Bytes that may be sent more for a byte of activations that is saved."""

NO_SEQUENCE = problem(
    "no-sequence",
    "no sequence to cut along {axis}",
    "the batch is {batch}, and no input has another dimension that divides the work",
    'trace with the sequence as a symbol: dynamic={{"x": {{0: "batch", 1: "seq"}}}}',
)
NO_EXCHANGE = problem(
    "no-exchange",
    "no attention can exchange its parts along {axis}",
    "{place} has no other dimension that {count} parts may have: {reason}",
    'write policy="sequence+all-gather", or "sequence", which takes what sends less',
)

Attention: TypeAlias = Literal["all-to-all", "all-gather"]
"""How an attention gets the keys and values of all positions."""


def sequence(
    state: AxisState, requirements: Requirements, attention: Attention | None = None
) -> list[str]:
    """Decides the operators that work on the sequence. attention: how one that works on parts gets
    what it needs of the others; None: as sends less. Raises PlanError where the count cannot cut
    it, where inputs have no dimension but the batch, and where no attention can exchange.
    """
    found = _sequence(state)
    notes = decided(state, requirements, found, "sequence")
    exchanged, able = [], found.propagation.choices
    for number, fixed in enumerate(state.fixed):
        works = number in able or (not fixed and _is_product(state, number))
        if not works or not _gathered(state, number):
            continue
        if attention == "all-gather" and number in able:
            continue
        forced = attention == "all-to-all" and _is_product(state, number)
        if _exchange(state, requirements, number, forced=forced):
            exchanged.append(number)
        elif forced and not exchanged:
            raise _no_exchange(state, requirements, number)
    if exchanged:
        first = state.network.operators[exchanged[0]].node.id
        why = "" if attention == "all-to-all" else ": that costs less than to gather"
        notes.append(
            f"{state.axis}: {len(exchanged)} operators, the first is {first}, work on parts of "
            f"{state.choices[exchanged[0]].name} and exchange{why}"
        )
    return notes


def _no_exchange(state: AxisState, requirements: Requirements, number: int) -> PlanError:
    """Why a product that works on parts of a sequence can work on parts of nothing else."""
    reasons = []
    for name, length in state.classes[number].lengths.items():
        choice = state.classes[number].split(name)
        if isinstance(choice, Refusal):
            reasons.append(choice.reason)
        elif choice != state.choices[number] and not requirements.implied(choice):
            reasons.append(f"{name} = {length}")
    node = state.network.operators[number].node
    listed = "; ".join(dict.fromkeys(reasons))
    return NO_EXCHANGE(axis=state.axis, place=place(node), count=state.count, reason=listed)


def _gathered(state: AxisState, number: int, choice: Choice | None = None) -> set[int]:
    """Which inputs an operator needs whole that are made in parts."""
    inputs = state.network.operators[number].inputs
    needs = (state.choices[number] if choice is None else choice).needs
    return {
        place
        for place, (edge, (wanted, _)) in enumerate(zip(inputs, needs, strict=True))
        if edge is not None
        and isinstance(state.made[edge], Shard)
        and isinstance(wanted, Replicate)
    }


def _is_product(state: AxisState, number: int) -> bool:
    """Whether an operator multiplies and adds: its work is worth what is sent to divide it."""
    return state.network.operators[number].node.name in PRODUCTS


def _exchange(
    state: AxisState, requirements: Requirements, number: int, *, forced: bool = False
) -> bool:
    """Lets an operator work on parts of another dimension (an attention: of the heads), where to
    exchange parts sends less than to gather, or a product that is whole has less to do by more than
    is sent, and nothing more is asked of lengths; whether it does. forced: whatever is sent, if
    nothing is gathered of what was.
    """
    best: tuple[float, Choice] | None = None
    before = _gathered(state, number)
    whole = state.choices[number].whole
    spared = whole * state.work(number) * (1 - 1 / state.nominal) / OPERATIONS_PER_BYTE
    for name in state.classes[number].lengths:
        choice = state.classes[number].split(name)
        if isinstance(choice, Choice) and requirements.implied(choice):
            sent = state.change({number: choice}).cost()[0] - spared
            other = forced and not before & _gathered(state, number, choice)
            if (other or (sent < -1 and not forced)) and (best is None or sent < best[0]):
                best = sent, choice
    if best is None:
        return False
    state.decide(number, best[1])
    return True


def _sequence(state: AxisState) -> Candidate:
    """The sequence, as far as it could be cut were nothing decided."""
    batch, candidates = batch_of(state, [False] * len(state.fixed))
    # Another axis may cut the batch into unequal parts, so that it is none that can be cut.
    is_batch = batch.is_named or not _is_named(batch)
    others = [
        each
        for each in candidates
        if not (is_batch and set(each.names) & set(batch.names))
        and (_is_named(each) or each.work >= SHARE * batch.work)
    ]
    if not others:
        raise NO_SEQUENCE(axis=state.axis, batch=batch.names[0])
    return min(others, key=lambda c: (not _is_named(c), -c.work, c.sent, -c.first, c.edge, c.dim))


def _is_named(found: Candidate) -> bool:
    return any(name.casefold().startswith(NAMES) for name in found.names)


def tensor_and_sequence(state: AxisState, requirements: Requirements) -> list[str]:
    """Decides the operators that use parameters in parts, and those between them. Raises PlanError
    as ``"tensor"`` and ``"sequence"`` do.
    """
    notes = tensor(state, requirements)
    for edge, made in enumerate(state.made):
        if isinstance(made, Partial):  # two sums that are added are joined once
            join_later(state, edge, fixed=True)
    found = _sequence(state)
    open_ = {
        number: choice
        for number, choice in found.propagation.choices.items()
        if not state.fixed[number] and requirements.first_illegal(choice) is None
    }
    taken = 0
    for choices in _connected(state, open_):
        change = state.change(choices)
        if change.cost()[0] <= SENT * _saved(state, choices):
            for choice in dict.fromkeys(choices.values()):
                requirements.rely(choice, f"{state.axis} cuts the sequence")
            state.accept(change)
            taken += len(choices)
    return [*notes, f"{state.axis}: {taken} operators work on parts of {found.names[0]}"]


def _connected(state: AxisState, open_: Mapping[int, Choice]) -> Iterator[dict[int, Choice]]:
    """The operators in groups that hand each other what they cut."""
    network, left = state.network, dict(open_)
    while left:
        first = next(iter(left))
        group, queue = {first: left.pop(first)}, [first]
        while queue:
            operator = network.operators[queue.pop()]
            beside = [
                number
                for edge in (*operator.inputs, *operator.outputs)
                if edge is not None and not network.edges[edge].kind
                for number in (
                    *[user for user, _ in network.edges[edge].uses],
                    *[each[0] for each in (network.edges[edge].producer,) if each is not None],
                )
            ]
            for number in beside:
                if number in left:
                    group[number] = left.pop(number)
                    queue.append(number)
        yield group


def _saved(state: AxisState, choices: Mapping[int, Choice]) -> float:
    """The bytes of values that have a gradient, and that a rank would no longer hold."""
    total, part = 0.0, 1 - 1 / state.nominal
    for number, choice in choices.items():
        for edge, made in zip(state.network.operators[number].outputs, choice.outputs, strict=True):
            if edge is not None and isinstance(made, Shard):
                kept = state.network.edges[edge].gradient == "always"
                total += kept * state.bytes[edge] * part
    return total
