"""One operator's call on a rank: the plan's operands, sizes and rules in the graph's arguments.

    view(x, batch, seq, 8, 64)     x split by heads over tp = 2      view(x, batch, seq, 4, 64)
    embedding(ids, weight)         rows of the weight over tp = 2    rows_held(part, ids, weight)

Tensors become the plan's operands, sizes are made anew from the lengths on the rank, and where a
transform rule was used its function is called in the operator's place, or its modifier changes the
arguments just before the call.

Sums in a narrower type than the model's: done as one device does them, to the last bit.

    a float64 model, cross_entropy(logits.float(), labels), classes over tp = 2
    each rank has the logits whole, computes the loss, and rank 0's share is the loss, the other's 0

A float64 model is equal to one device to 1e-9 where its parts add up in float64. Where its own code
changes to float32 before a sum, a sum of parts rounds otherwise and the gradients are equal to 1e-7
only. Nobody trains in float64; who does wants to compare. So such a sum is not cut. In a float32
model, and where the sum is in float64 after all, the operator is cut as the plan says.

Random numbers on ranks: alike where a value is replicated, each rank its own where it is cut.

    dropout of R along tp       all ranks of tp drop the same elements
    dropout of S(0) along dp    every rank of dp drops elements of its own

Every run of a program begins with one number, drawn from torch's generator on the first rank and
told to the others, so a run is repeated by ``torch.manual_seed``. An operator that draws is called
with the device's generator seeded from that number, from the operator's place in the graph and from
the rank's place on the axes along which ranks differ; then the generator is what it was before.

Sparse gradients: an embedding with ``sparse=True`` gives its table the rows that it looked up.

embedding(ids, table, sparse=True), ids cut over dp      refused: ranks would sum dense gradients
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any

import torch

from dimsolve.ir.errors import Diagnostic
from dimsolve.ir.graph import Graph, Node, Value
from dimsolve.ir.operator import Declaration, Operator
from dimsolve.ir.types import ScalarType, ShapeType, TensorType, TupleType
from dimsolve.partition.placement import Partial, Placement, Replicate
from dimsolve.partition.plan_data import ConversionPlan, OperatorPlan, Randomness
from dimsolve.partition.rules.rule import TransformRule
from dimsolve.partition.rules.table import rules_for
from dimsolve.solver.algebra.poly import Dim
from dimsolve.solver.graphs.deduction import find_operator

from ..calls import Arguments, resolve
from ..calls import modified as modified_arguments
from ..distributed.collectives import MeshPart, convert_axes
from ..distributed.communicator import Communicator
from .setting import LoweringError, Setting, is_real, two_functions

Places = dict[int | str, tuple[Placement, ...]]
"""The placements of tensors among the arguments, by position or name."""


def is_wide(graph: Graph) -> bool:
    """Whether all real parameters of a graph are float64, and there are some."""
    kinds = [entry.value.dtype for entry in graph.inputs if entry.kind == "parameter"]
    real = [dtype for dtype in kinds if is_real(dtype)]
    return bool(real) and all(dtype == "float64" for dtype in real)


def on_whole_operands(
    node: Node, plan: OperatorPlan, setting: Setting, cut: Callable[..., Any], whole: Any
) -> Callable[..., Any] | None:
    """Returns the function for a sum in a narrower type; None where the operator is none.

    cut: what a rank calls for its parts. whole: the operator itself.
    """
    if not all(_is_narrow(value) for value in node.outputs) or plan.sizes or not plan.splits:
        return None
    targets = [tuple(map(setting.placement, output.placements)) for output in plan.outputs]
    places = _places(node, plan, setting)
    sums = [Partial() in target for target in targets]
    if places is None or len(targets) != 1 or not any(sums) or _is_shared(plan, setting, targets):
        return None
    ends = [setting.communicators[axis] for axis in setting.plan.mesh]
    return _dispatched(cut, whole, places, targets[0], ends)


def _is_narrow(value: Value) -> bool:
    return isinstance(value.type, TensorType) and value.type.dtype in (
        "float32",
        "bfloat16",
        "float16",
    )


def _places(node: Node, plan: OperatorPlan, setting: Setting) -> Places | None:
    """Where the operands stand; None where one is not an argument of its own."""
    given: list[tuple[int | str, Any]] = [*enumerate(node.args), *node.kwargs.items()]
    keys = [key for key, argument in given if isinstance(argument, Value)]
    if not len(keys) == len(plan.operands) == len(list(node.operands())):
        return None
    return {
        key: tuple(map(setting.placement, operand.placements))
        for key, operand in zip(keys, plan.operands, strict=True)
    }


def _is_shared(
    plan: OperatorPlan, setting: Setting, targets: Sequence[tuple[Placement, ...]]
) -> bool:
    """Whether a replica's gradient is a sum of shares: then the operator has to be cut."""
    for number, axis in enumerate(setting.plan.mesh):
        if axis in plan.splits:
            held = [o.placements[number] for o in plan.operands if is_real(o.dtype)]
            if "R" in held or any(target[number] == Replicate() for target in targets):
                return True
    return False


def _dispatched(
    cut: Callable[..., Any],
    whole: Callable[..., Any],
    places: Places,
    target: tuple[Placement, ...],
    ends: Sequence[Communicator],
) -> Callable[..., Any]:
    replicas = tuple(Replicate() for _ in ends)

    def call(*args: Any, **kwargs: Any) -> Any:
        given: dict[int | str, Any] = dict(enumerate(args))
        given.update(kwargs.items())
        if any(given[key].dtype is torch.float64 for key in places):
            return cut(*args, **kwargs)
        given |= {
            key: convert_axes(given[key], placements, replicas, ends)
            for key, placements in places.items()
        }
        positional = [given.pop(index) for index in range(len(args))]
        named = {str(name): value for name, value in given.items()}
        return convert_axes(whole(*positional, **named), replicas, target, ends)

    call.__name__ = getattr(cut, "__name__", "whole").lstrip("_")
    return call


class Draws:
    """The random numbers of one program on one rank."""

    def __init__(self, communicators: Mapping[str, Communicator], device: torch.device) -> None:
        self.communicators = communicators
        self.device = device
        self._number = 0

    def begin(self) -> None:
        """Begins a run: all ranks get the number that the first rank draws."""
        number = torch.randint(2**62, (1,))
        for communicator in self.communicators.values():
            if communicator.size > 1:
                number = communicator.broadcast(number.to(self.device), 0)
        self._number = int(number)

    def repeating(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """Returns the function, drawing the numbers of the run that is going on, whenever it is
        called: also when it runs again in a backward pass, after other runs have begun.
        """
        number = self._number

        def again(*args: Any) -> Any:
            before, self._number = self._number, number
            try:
                return function(*args)
            finally:
                self._number = before

        return again

    def seed(self, stream: int, differs: Sequence[str]) -> int:
        """Returns the seed of one operator on this rank in this run."""
        places = [self.communicators[axis].rank for axis in differs]
        text = ",".join(map(str, (self._number, stream, *places)))
        return int.from_bytes(blake2b(text.encode(), digest_size=7).digest(), "big")

    def drawing(
        self, function: Callable[..., Any], stream: int, differs: Sequence[str]
    ) -> Callable[..., Any]:
        """Returns the function, drawing from the operator's own seed."""

        def draw(*args: Any, **kwargs: Any) -> Any:
            generator = self._generator()
            before = generator.get_state()
            generator.manual_seed(self.seed(stream, differs))
            try:
                return function(*args, **kwargs)
            finally:
                generator.set_state(before)

        whole: Callable[..., Any] = torch.compiler.disable(draw)
        return whole

    def _generator(self) -> torch.Generator:
        if self.device.type == "cuda":
            torch.cuda.init()
            index = self.device.index
            return torch.cuda.default_generators[
                torch.cuda.current_device() if index is None else index
            ]
        return torch.default_generator


def refuse_sparse(
    node: Node, plan: OperatorPlan | None, conversions: Mapping[str, ConversionPlan]
) -> None:
    """Raises LoweringError for a call whose sparse gradient ranks would have to sum."""
    operator = find_operator(node.signature)
    if plan is None or operator is None or "sparse" not in operator.parameters:
        return
    given = Arguments(tuple(node.args), node.kwargs).parameters(operator.parameters)
    if given.get("sparse") is not True:
        return
    for operand in plan.operands:
        entry = conversions.get(operand.source)
        while entry is not None and not entry.shared_gradient:
            entry = conversions.get(entry.source)
        if entry is not None:
            raise LoweringError(
                Diagnostic(
                    code="sparse-gradient",
                    title=f"{node.id}: a sparse gradient cannot be summed over '{entry.axis}'",
                    reason=f"%{operand.value} has the rows that a rank looked up as its gradient, "
                    "and ranks send dense tensors",
                    hint="sparse=False, or cut the table by its columns",
                )
            )


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
        if plan.sizes:
            arguments = _spelled_out(arguments, node, length)
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


def _spelled_out(arguments: Arguments, node: Node, length: Callable[[str], Any]) -> Arguments:
    """The arguments with every shape that is one value, such as ``(4, *x.shape)``, as a tuple of
    its lengths, so that a size in it can be replaced.
    """

    def spelled(given: Any, value: Any) -> Any:
        if not isinstance(value, Value) or isinstance(given, tuple):
            return given
        dims = _lengths_in(value)
        if dims is None:
            return given
        return tuple([dim if isinstance(dim, int) else length(str(dim)) for dim in dims])

    args = tuple([spelled(*pair) for pair in zip(arguments.args, node.args, strict=True)])
    kwargs = {name: spelled(item, node.kwargs[name]) for name, item in arguments.kwargs.items()}
    return Arguments(args, kwargs)


def _lengths_in(value: Value) -> Sequence[Dim] | None:
    """The lengths that a shape, or a tuple of integers, is made of; None where one is not known."""
    match value.type:
        case ShapeType(dims) if dims is not None:
            found = dims
        case TupleType(fields):
            found = tuple([f.value if isinstance(f, ScalarType) else None for f in fields])
        case _:
            return None
    known = [dim for dim in found if dim is not None]
    return known if len(known) == len(found) else None


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
