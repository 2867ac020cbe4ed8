"""The policy ``"experts"``: experts are cut, and the batch elsewhere (expert parallelism).

A model of experts sorts its tokens by expert, so that the rows of one lie together, and multiplies
each group of rows with a matrix of its own (`grouped_mm`). A rank has the matrices of its experts.
Which rows are theirs is known when it runs, so a rank is given all rows and computes its own:

    tokens (t, h)     S(0)     all-gather: to every rank of the axis
    rows (s, h)       G(0)     sorted by expert; of what follows a rank reads its own rows
    grouped_mm        G(0), weight S(0) -> G(0)
    silu, mul         G(0)     what works on rows one by one takes them as they are
    grouped_mm        G(0), weight S(0) -> P(sum)     zeros for the rows of others
    sum of a token's experts   P(sum)    reduce-scatter: S(0)

Per token that sends as much as to send it to n - 1 ranks and back, however many experts it has; an
exchange of tokens by their experts would send k (n - 1)/n, with lengths that no plan can say. What
is not a product of matrices is computed for all rows.

Where experts are one operator (`dimsolve.exec.experts`), tokens may be exchanged, or every rank be
given all: what the whole plan sends decides, k (n - 1)/n rows of a token against n - 1.

Rows in groups of one value (``G(0)``) belong to the ends of these groups: `ungrouped` says where
they would be read otherwise, or with other ends.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from dimsolve.solver.graphs.problems import place

from ..aliasing import written_by
from ..placement import Grouped, Replicate, Shard
from ..plan_data import PlanError, plan_error, problem
from ..reshard import item_bytes
from .assemble import dims_of_row
from .axis_state import AxisState
from .choices import Choice, Refusal
from .completion import join_later
from .data import data
from .illegal import legality_of
from .network import Network, Operator
from .propagation import propagate
from .requirements import Requirements, share_text, units_of

LOOK_BACK = 8
"""How many operators before a product are asked to make its rows in groups."""

NO_EXPERTS = problem(
    "no-experts",
    "no experts to cut along {axis}",
    "no operator has a matrix for each group of rows, as grouped_mm does",
    'say what the axis cuts: {{..., "{axis}": "data"}}; experts of transformers are traced as such '
    'operators with experts_implementation="grouped_mm"',
)


def experts(state: AxisState, requirements: Requirements) -> list[str]:
    """Decides the operators of the experts, and then those that work on the batch. Raises PlanError
    where the count cannot cut them, and for a model without experts.
    """
    every = state.network.operators
    products = [each for each in every if state.classes[each.number].group_ends is not None]
    routed = [each for each in every if state.classes[each.number].routed is not None]
    if not products and not routed:
        raise NO_EXPERTS(axis=state.axis)
    way, notes = _cheapest(state, requirements, routed)
    for operator in routed:
        _route(state, requirements, operator, way)
    for product in products:
        _cut(state, requirements, product)
    for product in products:
        _between(state, product)
    for product in products:
        _before(state, product)
    for product in products:
        edge = product.outputs[0]
        assert edge is not None
        if not isinstance(state.made[edge], Grouped):
            join_later(state, edge, fixed=True)
    notes += [_note(state, products)] if products else []
    return [*notes, *data(state, requirements)]


def _cheapest(
    state: AxisState, requirements: Requirements, routed: Sequence[Operator]
) -> tuple[int, list[str]]:
    """The way in which tokens come to the experts of operators that may send them there, by what a
    rank sends in the whole plan, and a note that says so.
    """
    if not routed:
        return 0, []
    first = state.classes[routed[0].number]
    costs: dict[int, float] = {}
    for way in range(len([*first.ways(first.routed or "")])):
        trial = state.copy()
        relied = replace(requirements, conditions=dict(requirements.conditions))
        try:
            for operator in routed:
                _route(trial, relied, operator, way)
            data(trial, relied)
        except PlanError:
            continue
        kept = sum(trial.cost_now(edge.number)[0] for edge in trial.network.edges)
        costs[way] = kept + sum(_sent(trial, operator) for operator in routed)
    if not costs:
        return 0, []
    best = min(costs, key=lambda way: costs[way])
    return best, [_note_of_routed(state, routed, best, costs)]


def _sent(state: AxisState, operator: Operator) -> float:
    """The bytes that a rank sends inside an operator, forward and backward, at nominal sizes."""
    choice, op_class = state.choices[operator.number], state.classes[operator.number]
    rule = None if choice.rule is None else op_class.rules[choice.rule]
    lengths = op_class.local(choice, state.count, state.axis).lengths
    edge = operator.inputs[0]
    total = 0.0
    for message in rule.sends or () if rule is not None else ():
        counted = message.like == "count" or edge is None
        item = item_bytes("int64" if counted else state.network.edges[edge or 0].dtype)
        row = dims_of_row(message.row, lengths, op_class.solution.layout.star)
        times = message.forward + message.backward
        total += times * item * state.network.elements(tuple(row))
    return total * (state.nominal - 1) / state.nominal


def _note(state: AxisState, products: Sequence[Operator]) -> str:
    """What is cut, and what that costs."""
    whole = [
        product
        for product in products
        if isinstance(state.choices[product.number].outputs[0], Grouped)
    ]
    groups = state.classes[products[0].number].lengths["g"]
    units = state.choices[products[0].number].units
    dealt = ""
    if isinstance(units, int) and isinstance(state.count, int) and units:
        dealt = f"; {share_text(units, state.count)}"
    return (
        f"{state.axis}: {len(products)} products cut their {groups} experts, {len(whole)} of them "
        "for the next; every rank is given all tokens of the axis and computes the rows of its "
        f"experts, what lies between the products for all rows{dealt}"
    )


def _note_of_routed(
    state: AxisState, routed: Sequence[Operator], way: int, costs: Mapping[int, float]
) -> str:
    op_class = state.classes[routed[0].number]
    name = op_class.routed or ""
    choice = [*op_class.ways(name)][way]
    rule = None if isinstance(choice, Refusal) else choice.rule
    sends = rule is not None and op_class.rules[rule].routes
    how = "and tokens are sent to these and back" if sends else "and every rank is given all tokens"
    others = [cost for number, cost in costs.items() if number != way]
    than = f" (the other way sends {min(others) / costs[way]:.1f} times as much)" if others else ""
    return (
        f"{state.axis}: {len(routed)} operators cut their {op_class.lengths[name]} experts, {how}"
        f"{than}; how many rows a rank computes is known when it runs, and taken to be even in "
        "bytes, memory and seconds"
    )


def _route(state: AxisState, requirements: Requirements, operator: Operator, way: int) -> None:
    """Cuts the experts of an operator that sends tokens to them, with the parameters that their
    matrices are made of, and its tokens. way: which of its ways to do so.
    """
    op_class = state.classes[operator.number]
    ways = [*op_class.ways(op_class.routed or "")]
    choice = ways[way if way < len(ways) else 0]
    if isinstance(choice, Refusal):
        raise plan_error(
            "illegal-count",
            f"{state.axis} = {state.count} is illegal",
            f"it cuts experts, and at {place(operator.node)} {choice.reason}",
        )
    matrices = [
        (edge, each)
        for edge, each, cut in zip(
            operator.inputs, choice.inputs, op_class.solution.layout.inputs, strict=True
        )
        if isinstance(each, Shard) and edge is not None
        if cut is not None and op_class.routed in cut[0].names
    ]
    _accept(state, requirements, matrices, {operator.number: choice})


def _cut(state: AxisState, requirements: Requirements, product: Operator) -> None:
    """Cuts the matrices of a product, and the parameters that they are made of."""
    edge = product.inputs[1]
    if not state.fixed[product.number] and edge is not None:
        _accept(state, requirements, [(edge, Shard(0))], {})


def _accept(
    state: AxisState,
    requirements: Requirements,
    cut: Sequence[tuple[int, Shard]],
    own: dict[int, Choice],
) -> None:
    """Accepts what cuts these values, and these choices. Raises PlanError where one is illegal."""
    network = state.network
    taken = [fixed or number in own for number, fixed in enumerate(state.fixed)]
    found = propagate(network, state.classes, cut, taken).choices | own
    if any(requirements.first_illegal(choice) is not None for choice in found.values()):
        found = _dealt(state, requirements, found) or found
    for number, choice in found.items():
        if requirements.first_illegal(choice) is not None:
            legality = legality_of(state, number, choice)
            raise plan_error(
                "illegal-count",
                f"{state.axis} = {state.count} is illegal",
                f"it cuts experts, and at {place(network.operators[number].node)} "
                f"{legality.reason}",
                text=legality.solution.text,
                legality=legality,
            )
        requirements.rely(choice, f"{state.axis} cuts experts")
    state.accept(state.change(found))


def _dealt(
    state: AxisState, requirements: Requirements, found: dict[int, Choice]
) -> dict[int, Choice] | None:
    """The same choices in unequal parts of the units that all of them have; None where one has
    none, or would leave a rank with nothing that its rule does not hold for.
    """
    needs = [need for choice in found.values() for need in choice.requirements]
    units = units_of(needs, requirements.uneven, state.network.facts)
    if units == 1:
        return None
    dealt = {number: state.classes[number].uneven(each, units) for number, each in found.items()}
    made = {number: each for number, each in dealt.items() if isinstance(each, Choice)}
    if len(made) < len(dealt) or any(requirements.lacks_units(each) for each in made.values()):
        return None
    return made


def _offered(state: AxisState, number: int, input: int) -> tuple[Choice, ...]:
    """The choices of an operator that have rows in groups at a tensor: of a product, in the parts
    that its groups are cut into.
    """
    op_class, units = state.classes[number], state.choices[number].units
    offered = op_class.grouped(input, Grouped(0))
    if not units or op_class.group_ends is None:
        return offered
    dealt = [op_class.uneven(each, units) for each in offered]
    return tuple([each for each in dealt if isinstance(each, Choice)])


def _between(state: AxisState, product: Operator) -> None:
    """Leaves the rows of a product in groups, if all that reads them are products of the same
    groups, and what works on rows one by one before these.
    """
    network, ends = state.network, _ends(state, product)
    edge = product.outputs[0]
    assert edge is not None
    found = {product.number: _taking(state, product, Grouped(0))}
    queue = [edge]
    while queue:
        edge = queue.pop()
        for number, tensor in network.edges[edge].uses:
            operator, op_class = network.operators[number], state.classes[number]
            if number in found:
                continue
            offered = () if operator.pinned else _offered(state, number, tensor)
            if not offered or (op_class.group_ends is None and state.fixed[number]):
                return
            found[number] = offered[-1]
            if op_class.group_ends is None:
                queue += [
                    output
                    for output, each in zip(operator.outputs, offered[-1].outputs, strict=True)
                    if output is not None and isinstance(each, Grouped)
                ]
            elif _ends(state, operator) != ends:
                return
    _try(state, found)


def _before(state: AxisState, product: Operator) -> None:
    """Lets what makes the rows of a product make them in groups too, as far back as that sends
    less: tokens have fewer gradients to sum than the rows that are taken of them.
    """
    network, edge = state.network, product.inputs[0]
    if edge is None or isinstance(state.made[edge], Grouped):
        return
    found: dict[int, Choice] = {}
    for user, _ in network.edges[edge].uses:
        if state.classes[user].group_ends is None:
            return
        made = state.choices[user].outputs[0]
        found[user] = _taking(state, network.operators[user], made)
    best = 0.0, found
    for _ in range(LOOK_BACK):
        number = None if edge is None else _making(state, edge, found)
        if edge is None or number is None:
            break
        sent, _ = state.change(found).cost()
        if sent < best[0]:
            best = sent, dict(found)
        edge = next(
            (
                input
                for input, each in zip(
                    network.operators[number].inputs, found[number].inputs, strict=True
                )
                if input is not None
                and isinstance(each, Grouped)
                and network.edges[input].gradient != "never"
            ),
            None,
        )
    _try(state, best[1])


def _making(state: AxisState, edge: int, found: dict[int, Choice]) -> int | None:
    """Lets what makes a value that is taken in groups make it so, if nothing else takes it; returns
    the operator.
    """
    entry = state.network.edges[edge]
    if entry.producer is None or any(user not in found for user, _ in entry.uses):
        return None
    number, output = entry.producer
    if state.fixed[number] or state.network.operators[number].pinned:
        return None
    for choice in _offered(state, number, state.classes[number].inputs + output):
        found[number] = choice
        return number
    return None


def _taking(state: AxisState, product: Operator, made: object) -> Choice:
    """The choice of a product that takes rows in groups and makes this."""
    offered = _offered(state, product.number, 0)
    return next(choice for choice in offered if choice.outputs[0] == made)


def _try(state: AxisState, found: dict[int, Choice]) -> None:
    choices = list(state.choices)
    for number, choice in found.items():
        choices[number] = choice
    if ungrouped(state, choices) is None:
        state.accept(state.change(found))


def _ends(state: AxisState, product: Operator) -> int | None:
    input = state.classes[product.number].group_ends
    return None if input is None else product.inputs[input]


def ungrouped(state: AxisState, choices: Sequence[Choice] | None = None) -> tuple[int, str] | None:
    """Returns an operator that may not take, or make, rows in groups as these choices say, and why;
    None where there is none. choices: of all operators; None: those that are made.
    """
    network, chosen = state.network, state.choices if choices is None else choices
    grouped = [
        operator
        for operator in network.operators
        if any(isinstance(each, Grouped) for each in _placements(chosen[operator.number]))
    ]
    if not grouped:
        return None
    made = {
        edge
        for operator in grouped
        for edge, each in zip(operator.outputs, chosen[operator.number].outputs, strict=True)
        if edge is not None and isinstance(each, Grouped)
    }
    for edge in made:
        entry = network.edges[edge]
        assert entry.producer is not None
        if entry.returned:
            return entry.producer[0], "its rows in groups are returned"
        before = chosen[entry.producer[0]].outputs[entry.producer[1]]
        for number, tensor in entry.uses:
            if chosen[number].inputs[tensor] != before:
                reader = network.operators[number].node.id
                return entry.producer[0], f"{reader} reads what is {before} as something else"
    for operator in grouped:
        reason = _reason(network, operator, chosen[operator.number], made)
        if reason:
            return operator.number, reason
    return _of_several_groups(state, grouped, made)


def _placements(choice: Choice) -> tuple[object, ...]:
    return (*choice.inputs, *choice.outputs)


def _reason(network: Network, operator: Operator, choice: Choice, made: set[int]) -> str:
    """Why an operator may not work on rows in groups; "" where it may."""
    if any(True for _ in written_by(operator.node)):
        return "it writes to what it is given"
    given = [
        (edge, each)
        for edge, each in zip(operator.inputs, choice.inputs, strict=True)
        if edge is not None
    ]
    if choice.rule is None and any(edge in made for edge, _ in given):
        # Other rows hold what nobody has looked at: a zero times that need not be zero.
        for edge, each in given:
            entry = network.edges[edge]
            if edge not in made and entry.gradient != "never":
                what = "whole" if isinstance(each, Replicate) else "in groups"
                return f"{entry.value.name}, which it takes {what}, has a gradient"
    return ""


def _of_several_groups(
    state: AxisState, grouped: Sequence[Operator], made: set[int]
) -> tuple[int, str] | None:
    """Where rows of one product's groups would be read by groups with other ends."""
    ends: dict[int, int | None] = {}
    for operator in grouped:
        own = _ends(state, operator)
        for edge in operator.inputs:
            if edge in made and ends.get(edge) is not None:
                if own not in (None, ends[edge]):
                    return operator.number, "its groups end elsewhere than those of its rows"
                own = ends[edge]
        for edge in operator.outputs:
            if edge in made:
                assert edge is not None
                ends[edge] = own
    return None
