"""The policy ``"data"``: the batch is cut.

Every dimension of every input is propagated: it says which operators then work on parts, and which
activations are communicated. Of the dimensions that divide the work, the batch is, in this order,

1. one that is named so: ``b``, ``bs``, ``bsz``, a name that begins with ``batch``, or ``n`` where
   it comes first;
2. one for which no more is communicated than the inputs that it cuts have bytes, beyond what the
   best asks for;
3. one that is the first dimension of most inputs;
4. the one with the least communication.

    input_ids (batch, seq)    dim 0    all the work, a loss to join           the batch
                              dim 1    all the work, keys and values to join
    x (i, j, 6)               dim 0    all the work, a loss to join           the batch: it is first
      amax over j             dim 1    all the work, a loss to join

A note of the plan says which dimension it is. Parameters stay whole; their gradients are summed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from dimsolve.solver.graphs.problems import place

from ..placement import Shard
from ..plan_data import PlanError, plan_error
from .axis_state import AxisState, Change
from .choices import Choice, Refusal
from .illegal import legality_of, undecided_error
from .propagation import Boundary, Propagation, propagate
from .requirements import Requirements

SHARE = 0.5
"""A batch divides at least this share of the work that the best dimension divides."""

NAMES = frozenset({"b", "bs", "bsz"})
NAMES_OF_FIRST = frozenset({"n"})
PREFIX = "batch"
"""How people name a batch."""


@dataclass(eq=False, slots=True)
class Candidate:
    """A dimension of an input. bytes: of the inputs that it cuts. first: of how many inputs it is
    the first dimension. is_named: whether its length has the name of a batch. names: the lengths
    that it cuts.
    """

    edge: int
    dim: int
    propagation: Propagation
    change: Change
    work: float
    sent: float
    bytes: float
    first: int
    is_named: bool
    names: list[str]


def data(state: AxisState, requirements: Requirements) -> list[str]:
    """Decides the operators that work on the batch. Raises PlanError where the count cannot cut it,
    and where no input has a dimension that can be cut.
    """
    return decided(state, requirements, batch_of(state)[0], "batch")


def batch_of(
    state: AxisState, taken: Sequence[bool] | None = None
) -> tuple[Candidate, list[Candidate]]:
    """Returns the batch, and all dimensions that may be cut. taken: the operators that are decided;
    None: those that are.
    """
    candidates, boundaries = _candidates(state, state.fixed if taken is None else taken)
    if not candidates:
        raise _no_batch(state, boundaries)
    most = max(candidate.work for candidate in candidates)
    able = [candidate for candidate in candidates if candidate.work >= SHARE * most]
    least = min(candidate.sent for candidate in able)
    batch = min(
        able,
        key=lambda c: (
            not c.is_named,
            c.sent > least + c.bytes,
            -c.first,
            c.sent,
            -c.work,
            c.edge,
            c.dim,
        ),
    )
    return batch, candidates


def decided(state: AxisState, requirements: Requirements, batch: Candidate, what: str) -> list[str]:
    """Decides the operators that work on a dimension; returns the note. what: it is."""
    if requirements.uneven == "allow":
        dealt = _dealt(state, requirements, batch)
        if isinstance(dealt, dict):
            state.accept(state.change(dealt))
            return [f"{_note(state, batch, what)}, in parts that need not be equal"]
    choices = dict.fromkeys(batch.propagation.choices.values())
    unmet = [
        requirement
        for choice in choices
        if (requirement := requirements.first_illegal(choice)) is not None
    ]
    if unmet:
        never = any(not requirements.is_undecided(requirement) for requirement in unmet)
        for number, choice in batch.propagation.choices.items():
            requirement = requirements.first_illegal(choice)
            if requirement is not None and (
                not requirements.is_undecided(requirement) or not never
            ):
                raise _illegal(state, batch, number, choice)
    entry = state.network.edges[batch.edge]
    for choice in choices:
        requirements.rely(choice, f"{state.axis} cuts dimension {batch.dim} of {entry.target}")
    state.accept(batch.change)
    note = _note(state, batch, what)
    if requirements.uneven == "allow" and isinstance(dealt, Refusal):
        note += f", in equal parts: {dealt.reason}"
    return [note]


def _note(state: AxisState, batch: Candidate, what: str) -> str:
    entry = state.network.edges[batch.edge]
    assert entry.dims is not None
    length = entry.dims[batch.dim]
    return f"{state.axis}: the {what} is {length}, dimension {batch.dim} of {entry.target}"


def _dealt(
    state: AxisState, requirements: Requirements, batch: Candidate
) -> dict[int, Choice] | Refusal | None:
    """The choices that deal out the batch one by one, or the first reason that there is against it;
    None where equal parts are right at all sizes, or the count is a symbol.
    """
    choices, entry = batch.propagation.choices, state.network.edges[batch.edge]
    length = None if entry.dims is None else entry.dims[batch.dim]
    equal = all(requirements.conditions_of(choice) == () for choice in choices.values())
    if equal or length is None or not isinstance(state.count, int):
        return None
    found: dict[int, Choice] = {}
    for number, choice in choices.items():
        if not choice.requirements:
            found[number] = choice
            continue
        dealt = state.classes[number].uneven(choice, length, weighed=True)
        if isinstance(dealt, Choice) and requirements.lacks_units(dealt):
            dealt = Refusal(f"it does not run with nothing of {dealt.name}", dealt.name)
        if isinstance(dealt, Refusal):
            node = state.network.operators[number].node
            return Refusal(f"{place(node)}: {dealt.reason}", dealt.name)
        found[number] = dealt
    return found


def _candidates(state: AxisState, taken: Sequence[bool]) -> tuple[list[Candidate], list[Boundary]]:
    """The propagations of all dimensions of all inputs, and where they ended."""
    network = state.network
    found: list[Candidate] = []
    boundaries: list[Boundary] = []
    reached: set[tuple[int, Shard]] = set()
    for edge in network.edges:
        if edge.kind != "input":
            continue
        for dim, length in enumerate(edge.dims or ()):
            seed = (edge.number, Shard(dim))
            if length == 1 or seed in reached:
                continue
            spread = propagate(
                network,
                state.classes,
                [seed],
                taken,
                enter=lambda w: not network.edges[w].parameter,
                past_pinned=True,
            )
            reached.update((w, p) for w, p in spread.placed.items() if isinstance(p, Shard))
            boundaries += spread.boundaries
            if spread.choices:
                found.append(_weighed(state, edge.number, dim, spread))
    return found, boundaries


def _weighed(state: AxisState, edge: int, dim: int, spread: Propagation) -> Candidate:
    change = state.change(spread.choices)
    network = state.network
    activations = [w for w in change.touched if not network.edges[w].parameter]
    work = sum(state.work(number) for number in spread.choices)
    cut = {w: p for w, p in spread.placed.items() if network.edges[w].kind == "input"}
    first = [w for w, p in cut.items() if p == Shard(0)]
    names = [
        str((network.edges[w].dims or ())[p.dim]) for w, p in cut.items() if isinstance(p, Shard)
    ]
    return Candidate(
        edge,
        dim,
        spread,
        change,
        work,
        change.cost(activations)[0],
        sum(state.bytes[w] for w in cut),
        len(first),
        any(_is_batch(name, bool(first)) for name in names),
        names,
    )


def _is_batch(name: str, is_first: bool) -> bool:
    """Whether a length has the name of a batch."""
    plain = name.casefold()
    named = plain in NAMES or (plain.startswith(PREFIX) and plain.isidentifier())
    return named or (is_first and plain in NAMES_OF_FIRST)


def _no_batch(state: AxisState, boundaries: list[Boundary]) -> PlanError:
    nodes = [state.network.operators[boundary.operator].node for boundary in boundaries[:3]]
    reasons = [f"{place(n)}: {e.refusal.reason}" for n, e in zip(nodes, boundaries, strict=False)]
    listed = "; ".join(dict.fromkeys(reasons))
    return plan_error(
        "no-batch",
        f"nothing to cut along {state.axis}",
        "no dimension of an input is one that any operator can be split by"
        + (f" ({listed})" if listed else ""),
        'policy "tensor" cuts parameters; "replicate" cuts nothing',
    )


def _illegal(state: AxisState, batch: Candidate, number: int, choice: Choice) -> PlanError:
    entry = state.network.edges[batch.edge]
    legality = legality_of(state, number, choice)
    node = state.network.operators[number].node
    if legality.verdict == "unknown":
        reason = f"it cuts dimension {batch.dim} of {entry.target}, and at {place(node)} "
        text = legality.solution.text
        return undecided_error(state, reason + legality.reason, "", text, legality)
    return plan_error(
        "illegal-count",
        f"{state.axis} = {state.count} is illegal",
        f"it cuts dimension {batch.dim} of {entry.target}, and at {place(node)} {legality.reason}",
        text=legality.solution.text,
        legality=legality,
    )
