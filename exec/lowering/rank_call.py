"""One operator's call on a rank: the plan's operands, sizes and rules in the graph's arguments.

    view(x, batch, seq, 8, 64)     x split by heads over tp = 2      view(x, batch, seq, 4, 64)
    embedding(ids, weight)         rows of the weight over tp = 2    rows_held(part, ids, weight)

Tensors become the plan's operands, sizes are made anew from the lengths on the rank, and where a
transform rule was used its function is called in the operator's place, or its modifier changes the
arguments just before the call.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from dimsolve.ir.node import Node
from dimsolve.ir.operator import Declaration, Operator
from dimsolve.partition.plan import OperatorPlan, Randomness
from dimsolve.partition.planning.rules import rules_for
from dimsolve.partition.transform import TransformRule
from dimsolve.solver.graphs.deduction import find_operator

from ..arguments import Arguments
from ..distributed.communicator import Communicator
from ..distributed.part import MeshPart
from ..operator_call import modified as modified_arguments
from ..resolve import resolve
from .lowering_errors import two_functions
from .randomness import Draws

Modifier = Callable[..., Mapping[str, Any]]


@dataclass(frozen=True, slots=True)
class RankCall:
    """What a rank calls for one node. ``method``: of its first argument; else ``function``.

    operator: what the call stands for, None where nothing is known of it. path: what is called.
    local: the rule's function that is called in its place, first with the part of these splits,
    (identifier, axis) each. modified: the rules' functions that change the arguments, each with the
    splits that have it, in the order in which they are called.
    """

    arguments: Arguments
    function: Callable[..., Any] | None
    method: str = ""
    path: str = ""
    operator: Operator | None = None
    local: Callable[..., Any] | None = None
    splits: tuple[tuple[str, str], ...] = ()
    modified: tuple[tuple[Modifier, tuple[tuple[str, str], ...]], ...] = ()
    randomness: Randomness | None = None

    @property
    def plain(self) -> bool:
        """Whether the function is called as it is."""
        return self.local is None and not self.modified and self.randomness is None


def rank_call(
    node: Node,
    path: str,
    plan: OperatorPlan | None,
    arguments: Arguments,
    length: Callable[[str], Any],
    communicators: Mapping[str, Communicator],
    draws: Draws,
) -> RankCall:
    """Returns what a rank calls. ``arguments`` hold the operands, ``length`` reads a length's text.

    Raises LoweringError where two axes ask for different functions in the operator's place.
    """
    operator = find_operator(path)
    declaration = node.declaration
    rules: list[tuple[str, TransformRule]] = []
    if plan is not None and declaration is not None:
        names = () if operator is None else operator.parameters
        arguments = _with_sizes(arguments, names, declaration, plan, length)
        rules = _rules(node, declaration, plan)
    local = _local(node, rules)
    plain = local is None and not any(rule.modifier for _, rule in rules)
    random = plan is not None and plan.randomness is not None
    method = path.removeprefix("torch.Tensor.")
    if plain and not random and method != path and method.isidentifier():
        return RankCall(arguments, None, method, path, operator)
    function: Callable[..., Any] = resolve(path)
    if getattr(function, "__name__", "") == "apply" and operator is not None:
        arguments = _positional(arguments, operator.parameters)
        function = _plain(function, operator.name, operator.parameters)
    modifiers = _modifiers(plan, rules)
    if plan is not None and rules:
        function = _ruled(function, plan, rules, local, modifiers, operator, communicators)
    if plan is not None and plan.randomness is not None:
        function = draws.drawing(function, plan.randomness.stream, plan.randomness.differs)
    return RankCall(
        arguments,
        function,
        path=path,
        operator=operator,
        local=None if local is None else local.local,
        splits=_splits_of(plan, rules),
        modified=modifiers,
        randomness=None if plan is None else plan.randomness,
    )


def _splits_of(
    plan: OperatorPlan | None, rules: Sequence[tuple[str, TransformRule]]
) -> tuple[tuple[str, str], ...]:
    """The splits of which a rule's own function is told."""
    return tuple((_identifier(plan, axis), axis) for axis, rule in rules if rule.local is not None)


def _modifiers(
    plan: OperatorPlan | None, rules: Sequence[tuple[str, TransformRule]]
) -> tuple[tuple[Modifier, tuple[tuple[str, str], ...]], ...]:
    """The modifiers of the rules; one that several splits have is called once, with all of them."""
    found: dict[Modifier, tuple[tuple[str, str], ...]] = {}
    for axis, rule in rules:
        if rule.modifier is not None:
            split = (_identifier(plan, axis), axis)
            found[rule.modifier] = (*found.get(rule.modifier, ()), split)
    return tuple(found.items())


def _identifier(plan: OperatorPlan | None, axis: str) -> str:
    identifier = None if plan is None else plan.splits[axis].identifier
    assert identifier is not None
    return identifier


def _with_sizes(
    arguments: Arguments,
    names: Sequence[str],
    declaration: Declaration,
    plan: OperatorPlan,
    length: Callable[[str], Any],
) -> Arguments:
    for name, value in declaration.fixed.items():
        arguments = arguments.with_parameter(names, name, value)
    given = arguments.parameters(names)
    for name, sizes in plan.sizes.items():
        lengths = tuple([length(size) for size in sizes])
        several = _takes_several(given, names, name, len(lengths))
        arguments = arguments.with_parameter(names, name, lengths if several else lengths[0])
    return arguments


def _takes_several(given: Mapping[str, Any], names: Sequence[str], name: str, count: int) -> bool:
    """Whether a size parameter is a list of lengths: as it was given, else by their number."""
    first, _, inside = name.partition(".")
    if inside:
        return count != 1
    if f"*{first}" not in names and first in given:
        return isinstance(given[first], list | tuple)
    return f"*{first}" in names or count != 1


def _rules(
    node: Node, declaration: Declaration, plan: OperatorPlan
) -> list[tuple[str, TransformRule]]:
    """The transform rules that the plan uses, by axis, outer axis first."""
    numbers = {axis: split.rule for axis, split in plan.splits.items() if split.rule is not None}
    if not numbers:
        return []
    known = rules_for(node, declaration)
    return [(axis, known[number]) for axis, number in numbers.items()]


def _local(node: Node, rules: Sequence[tuple[str, TransformRule]]) -> TransformRule | None:
    """The rule whose function is called in the operator's place."""
    local = [rule for _, rule in rules if rule.local is not None]
    if any(rule.local is not local[0].local for rule in local):
        raise two_functions(node, tuple(axis for axis, _ in rules))
    return local[0] if local else None


def _ruled(
    function: Callable[..., Any],
    plan: OperatorPlan,
    rules: Sequence[tuple[str, TransformRule]],
    local: TransformRule | None,
    modifiers: Sequence[tuple[Modifier, tuple[tuple[str, str], ...]]],
    operator: Operator | None,
    communicators: Mapping[str, Communicator],
) -> Callable[..., Any]:
    """The function as the rules want it called."""
    if local is not None and local.local is not None:
        own = [(name, communicators[axis]) for name, axis in _splits_of(plan, rules)]
        function = _with_part(local.local, MeshPart(tuple(own)))
    names, defaults = ((), {}) if operator is None else (operator.parameters, operator.defaults)
    for modifier, splits in reversed(modifiers):
        part = MeshPart(tuple((name, communicators[axis]) for name, axis in splits))
        function = modified(function, modifier, part, names, defaults)
    return function


def _with_part(function: Callable[..., Any], part: MeshPart) -> Callable[..., Any]:
    def call(*args: Any, **kwargs: Any) -> Any:
        return function(part, *args, **kwargs)

    call.__name__ = getattr(function, "__name__", "local").lstrip("_")
    return call


def modified(
    function: Callable[..., Any],
    modifier: Modifier,
    part: MeshPart,
    names: Sequence[str],
    defaults: Mapping[str, Any],
) -> Callable[..., Any]:
    """Returns the function with its arguments changed by a rule's modifier just before the call.

    names: of the function's parameters, in order. defaults: those that the modifier sees too.
    """

    def call(*args: Any, **kwargs: Any) -> Any:
        arguments = modified_arguments(Arguments(args, kwargs), names, defaults, modifier, part)
        return function(*arguments.args, **arguments.kwargs)

    call.__name__ = getattr(function, "__name__", "modified").lstrip("_")
    return call


def _plain(apply: Callable[..., Any], name: str, names: Sequence[str]) -> Callable[..., Any]:
    """The ``apply`` of an autograd.Function as a function with a name of its own."""

    def call(*args: Any, **kwargs: Any) -> Any:
        return apply(*_positional(Arguments(args, kwargs), names).args)

    call.__name__ = name if name.isidentifier() else "apply"
    return call


def _positional(arguments: Arguments, names: Sequence[str]) -> Arguments:
    """The ``apply`` of an autograd.Function takes positional arguments only."""
    kwargs = dict(arguments.kwargs)
    rest = [kwargs.pop(name) for name in names[len(arguments.args) :] if name in kwargs]
    return Arguments((*arguments.args, *rest), kwargs)
