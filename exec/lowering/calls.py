"""One operator's call on a rank: the plan's operands, sizes and rules in the graph's arguments.

    view(x, batch, seq, 8, 64)     x split by heads over tp = 2      view(x, batch, seq, 4, 64)
    embedding(ids, weight)         rows of the weight over tp = 2    rows_held(part, ids, weight)
    dropout(x)                     R along tp, S(0) along dp         alike on tp, its own on each dp

Sizes are made anew from the lengths on the rank. Where a transform rule was used its function is
called in the operator's place, or its modifier changes the arguments just before the call.

Random numbers: a run of a program begins with one number, drawn from torch's generator on the first
rank and sent to the others, so ``torch.manual_seed`` repeats a run. An operator that draws is
called with the device's generator seeded from it, from the operator's place in the graph and from
the rank's place on the axes along which ranks differ; then the generator is what it was before.

A float64 model is equal to one device to 1e-9. Where its own code changes to float32 before a sum,
a sum of parts rounds otherwise, so such a sum is computed on whole operands (`on_whole_operands`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import update_wrapper
from hashlib import blake2b
from itertools import count
from typing import Any, TypeAlias

import torch
from torch.compiler import is_compiling

from dimsolve.ir.errors import Diagnostic, Problem
from dimsolve.ir.graph import Graph, Node, Value
from dimsolve.ir.operator import Declaration, Operator
from dimsolve.ir.types import ScalarType, ShapeType, TensorType, TupleType
from dimsolve.partition.layout import Layout
from dimsolve.partition.placement import Partial, Placement, Replicate, Shard
from dimsolve.partition.plan_data import ConversionPlan, OperatorPlan, Randomness
from dimsolve.partition.rules.rule import TransformRule
from dimsolve.partition.rules.table import rules_for
from dimsolve.solver.algebra.poly import Dim
from dimsolve.solver.graphs.deduction import find_operator

from ..calls import Arguments, resolve, takes_several
from ..calls import modified as modified_arguments
from ..distributed.collectives import MeshPart, convert_axes
from ..distributed.communicator import Communicator, common_number
from ..distributed.sharding import number_of, slice_part
from ..registration.leaf import refuse_unsaid, versions, written_since
from ..registration.promise import Promise
from .applied import NAME, applied
from .conversions import lengths_in, with_lengths
from .setting import TWO_FUNCTIONS, LoweringError, Setting, dim_of, is_real

Places = dict[int | str, tuple[Placement, ...]]
"""The placements of tensors among the arguments, by position or name."""


def is_wide(graph: Graph) -> bool:
    """Whether all real parameters of a graph are float64, and there are some."""
    kinds = [entry.value.dtype for entry in graph.inputs if entry.kind == "parameter"]
    real = [dtype for dtype in kinds if is_real(dtype)]
    return bool(real) and all(dtype == "float64" for dtype in real)


def on_whole_operands(
    node: Node, plan: OperatorPlan, setting: Setting, cut: Callable[..., Any], whole: Any
) -> OnWholeOperands | None:
    """Returns the function for a sum in a narrower type; None where the operator is none.

    cut: what a rank calls for its parts. whole: the operator itself. Where parts are unequal the
    function takes ``lengths`` as well: what those that it holds are when it runs.
    """
    if not all(_is_narrow(value) for value in node.outputs) or plan.sizes or not plan.splits:
        return None
    targets = [tuple(map(setting.placement, output.placements)) for output in plan.outputs]
    places = _places(node, plan, setting)
    sums = [Partial() in target for target in targets]
    if places is None or len(targets) != 1 or not any(sums) or _is_shared(plan, setting, targets):
        return None
    ends = [setting.communicators[axis] for axis in setting.plan.mesh]
    return OnWholeOperands(cut, whole, places, targets[0], ends)


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


@dataclass(frozen=True, eq=False)
class OnWholeOperands:
    """An operator that runs on whole operands, where none of them is float64 when it is called."""

    cut: Callable[..., Any]
    whole: Callable[..., Any]
    places: Places
    target: Layout
    ends: Sequence[Communicator]

    @property
    def __name__(self) -> str:
        return getattr(self.cut, "__name__", "whole").lstrip("_")

    @property
    def lengths(self) -> list[Dim]:
        """What symbols may stand in, of all operands and the result."""
        layouts = [*self.places.values(), self.target]
        return [dim for layout in layouts for dim in lengths_in(*layout)]

    def __call__(self, *args: Any, lengths: Sequence[int] = (), **kwargs: Any) -> Any:
        given: dict[int | str, Any] = dict(enumerate(args))
        given.update(kwargs.items())
        if any(given[key].dtype is torch.float64 for key in self.places):
            return self.cut(*args, **kwargs)
        left, nowhere = iter(lengths), tuple(Replicate() for _ in self.ends)
        for key, layout in self.places.items():
            here = with_lengths(layout, left) if lengths else layout
            given[key] = convert_axes(given[key], here, nowhere, self.ends)
        positional = [given.pop(index) for index in range(len(args))]
        made = self.whole(*positional, **{str(name): value for name, value in given.items()})
        target = with_lengths(self.target, left) if lengths else self.target
        return convert_axes(made, nowhere, target, self.ends)


MASKS = frozenset(
    {"dropout", "dropout_", "dropout1d", "dropout2d", "dropout3d"}
    | {"feature_dropout", "feature_dropout_"}
)
"""Functions that multiply their first argument with a mask, which depends on its shape only."""

ALIKE = frozenset({"rand_like", "randn_like", "randint_like"})
FILLED = frozenset(
    {"uniform_", "normal_", "exponential_", "bernoulli_"}
    | {"log_normal_", "cauchy_", "geometric_", "random_"}
)
"""Functions that make a tensor of numbers like their first argument; that fill it with them."""

Cuts: TypeAlias = "list[tuple[Shard, Communicator, str]]"
"""The placements of one tensor that cut it, with this rank's end of the axis and its name."""

_NO_MASK = Problem(
    LoweringError,
    "not-as-one-device",
    "{node.id} cannot draw what one device draws",
    "{node.signature} draws numbers for what it computes within, and {axes} cuts it",
    'randomness="ranks"; or let the model draw with dropout: of transformers\' models, '
    'attn_implementation="eager"',
)
_NO_LENGTH = Problem(
    LoweringError,
    "not-as-one-device",
    "{node.id} cannot draw what one device draws",
    "its parts are unequal, of a length that is known only when it runs",
    'randomness="ranks"; or plan with uneven="parameters"',
)
_OTHER_STATES = Problem(
    LoweringError,
    "generators-differ",
    'randomness="one-device": the ranks\' random generators are in different states',
    "rank 0 of the mesh and this rank would draw other numbers",
    "call torch.manual_seed with one number on all ranks, and draw the same from then on",
)


_UNINITIALISED = frozenset(
    {
        *("torch.empty", "torch.empty_like", "torch.empty_permuted", "torch.empty_strided"),
        *("torch.Tensor.new_empty", "torch.Tensor.new_empty_strided"),
    }
)
"""Their results differ from rank to rank as what is drawn does, and nothing is drawn."""


class Draws:
    """The random numbers of one program on one rank. one_device: it draws from torch's generator
    what one device draws, all of it on every rank; else each operator has seeds of its own.
    """

    def __init__(
        self,
        communicators: Mapping[str, Communicator],
        device: torch.device,
        *,
        one_device: bool = False,
    ) -> None:
        self.communicators = communicators
        self.device = device
        self.one_device = one_device
        self._number = 0

    def begin(self) -> None:
        """Begins a run: all ranks get the number that the first rank draws. Raises LoweringError on
        all ranks where they should draw alike, and are not in one state.
        """
        if not self.one_device:
            self._number = common_number(self.communicators.values(), self.device)
            return
        state = self._generator().get_state().numpy().tobytes()
        number = int.from_bytes(blake2b(state, digest_size=7).digest(), "big")
        own = torch.tensor([number], device=self.device)
        for end in reversed(tuple(self.communicators.values())):
            own = end.all_gather(own).flatten() if end.size > 1 else own
        if len(set(own.tolist())) > 1:
            raise _OTHER_STATES()

    def as_one_device(
        self,
        function: Callable[..., Any],
        node: Node,
        operands: Sequence[Layout],
        outputs: Sequence[Layout],
    ) -> Callable[..., Any]:
        """Returns the function of a node whose operands and results lie so: it draws what is whole,
        of which it takes this rank's part. Raises LoweringError for a function that draws for what
        it computes within.
        """
        given, made = [*map(self._cuts, operands)], [*map(self._cuts, outputs)]
        every = [cut for cuts in (*given, *made) for cut in cuts]
        if not every:
            return function
        if any(not isinstance(placement.of, int) for placement, _, _ in every):
            raise _NO_LENGTH(node=node)
        if not any(given) and len(made) == 1:
            drawn = _parts_of(function, made[0])
        elif len(given) == 1 and node.name in MASKS | ALIKE | FILLED:
            drawn = _of_a_shape(function, node, given[0])
        else:
            axes = [axis for axis in self.communicators if axis in {cut[2] for cut in every}]
            raise _NO_MASK(node=node, axes=" and ".join(axes))
        whole: Callable[..., Any] = torch.compiler.disable(drawn)
        return whole

    def _cuts(self, layout: Layout) -> Cuts:
        """What is cut, with this rank's ends; nothing of what is no tensor."""
        ends = self.communicators.items() if layout else ()
        return [
            (placement, end, axis)
            for placement, (axis, end) in zip(layout, ends, strict=True)
            if isinstance(placement, Shard) and end.size > 1
        ]

    def repeating(self, function: Callable[..., Any], *, anew: bool) -> Callable[..., Any]:
        """Returns the function, drawing the numbers of the run that is going on, whenever it is
        called: also when it runs again in a backward pass, after other runs have begun.

        anew: whether every further call draws other numbers, the same on all ranks.
        """
        number, calls = self._number, count()

        def again(*args: Any) -> Any:
            call = next(calls) if anew else 0
            before, self._number = self._number, number + call
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
        if self.one_device:
            return function

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


def _parts_of(function: Callable[..., Any], cuts: Cuts) -> Callable[..., Any]:
    """The function, of whose result a rank keeps its part."""

    def draw(*args: Any, **kwargs: Any) -> torch.Tensor:
        return _own_part(function(*args, **kwargs), cuts).clone()

    return draw


def _of_a_shape(function: Callable[..., Any], node: Node, cuts: Cuts) -> Callable[..., Any]:
    """The function, which draws for a tensor of the whole shape."""
    name = node.name

    def draw(input: torch.Tensor, *args: Any, **kwargs: Any) -> torch.Tensor:
        shape = list(input.shape)
        for placement, end, _ in cuts:
            length = shape[placement.dim] * end.size
            shape[placement.dim] = number_of(placement.of, placement) or length
        ones = _in_order_of(input, shape, node.order)
        made = function(ones, *args, **kwargs)
        own = _own_part(made, cuts)
        if name in ALIKE:
            return own.clone()
        if name in FILLED:
            return input.copy_(own)
        return input.mul_(own) if made is ones and ones.numel() else input * own

    return draw


def _own_part(whole: torch.Tensor, cuts: Cuts) -> torch.Tensor:
    for placement, end, _ in cuts:
        whole = slice_part(whole, placement, end.rank, end.size)
    return whole


def _in_order_of(like: torch.Tensor, shape: Sequence[int], traced: Sequence[int]) -> torch.Tensor:
    """Ones of a shape whose dimensions lie in memory in the order of another tensor's: numbers are
    drawn in this order. Where that has one element or none of a dimension it does not tell; then
    the dimension lies before those that it lay before when the model was traced.
    """
    own, before = like.stride(), list(traced) or list(range(len(shape)))
    order = [dim for dim in range(len(shape)) if like.shape[dim] > 1]
    order.sort(key=lambda dim: (-own[dim], dim))
    for dim in (each for each in reversed(before) if like.shape[each] <= 1):
        inner = before[before.index(dim) + 1 :]
        place = next((n for n, each in enumerate(order) if each in inner), len(order))
        order.insert(place, dim)
    strides, step = [0] * len(shape), 1
    for dim in reversed(order):
        strides[dim] = step
        step *= shape[dim]
    return torch.empty_strided(shape, strides, dtype=like.dtype, device=like.device).fill_(1)


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

Splits = tuple[tuple[str, str], ...]
"""(identifier, axis) each, outer axis first."""


@dataclass(frozen=True, slots=True)
class RankCall:
    """What a rank calls for one node. ``method``: of its first argument; else ``function``.

    operator: what the call stands for, None where nothing is known of it. path: what is called.
    local: the rule's function that is called in its place, first with the part of these splits,
    (identifier, axis) each. modified: the rules' functions that change the arguments, each with the
    splits that have it, in the order in which they are called. dealt: see `dealt_in`.
    connected: see `connecting`.
    """

    arguments: Arguments
    function: Callable[..., Any] | None
    method: str = ""
    path: str = ""
    operator: Operator | None = None
    local: Callable[..., Any] | None = None
    splits: Splits = ()
    modified: tuple[tuple[Modifier, Splits], ...] = ()
    dealt: tuple[tuple[str, int, int], ...] = ()
    randomness: Randomness | None = None
    connected: bool = False

    @property
    def plain(self) -> bool:
        """Whether the function is called as it is."""
        changed = self.modified or self.connected
        return self.local is None and not changed and self.randomness is None


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
    names, defaults = ((), {}) if operator is None else (operator.parameters, operator.defaults)
    rules: list[tuple[tuple[str, str], TransformRule]] = []
    random = None if plan is None or path in _UNINITIALISED else plan.randomness
    if plan is not None and random is not None and draws.one_device:
        plan = plan.model_copy(update={"sizes": {}})  # what is drawn is whole
    if plan is not None and node.declaration is not None:
        if plan.sizes:
            arguments = _spelled_out(arguments, node, length)
        arguments = _with_sizes(arguments, names, node.declaration, plan, length)
        rules = _rules(node, node.declaration, plan)
    own = [(split, rule.local) for split, rule in rules if rule.local is not None]
    local = own[0][1] if own else None
    if any(function is not local for _, function in own):
        raise TWO_FUNCTIONS(node=node, axes=" and ".join(axis for (_, axis), _ in rules))
    splits = tuple(split for split, _ in own)
    changes: dict[Modifier, Splits] = {}  # one that several splits have is called once, with all
    for split, rule in rules:
        if rule.modifier is not None:
            changes[rule.modifier] = (*changes.get(rule.modifier, ()), split)
    method = path.removeprefix("torch.Tensor.")
    is_plain = local is None and not changes and random is None
    if is_plain and method != path and method.isidentifier():
        return RankCall(arguments, None, method, path, operator)

    dealt = () if plan is None else dealt_in(plan)

    def part(splits: Splits) -> MeshPart:
        ends = tuple([(identifier, communicators[axis]) for identifier, axis in splits])
        return MeshPart(ends, tuple([each for each in dealt if each[0] in dict(splits)]))

    function: Callable[..., Any] = resolve(path)
    if getattr(function, "__name__", "") == "apply" and operator is not None:
        arguments = arguments.positional(names)
        function = _plain(function, operator.name, names)
    if local is not None:
        function = _with_part(local, part(splits))
    elif operator is not None and isinstance(operator.declare, Promise):
        said = () if node.declaration is None else node.declaration.mutates
        function = _writing(function, operator.declare, said)
    elif path.rpartition(".")[2] == NAME:
        function = applied
    parts = [] if plan is None else plan.splits.values()
    connected = path.rpartition(".")[2] in UNCONNECTED and any(split.uneven for split in parts)
    if connected:
        function = connecting(function)
    for modifier, theirs in reversed(changes.items()):
        function = modified(function, modifier, part(theirs), names, defaults)
    if random is not None:
        function = draws.drawing(function, random.stream, random.differs)
    modifiers = tuple(changes.items())
    return RankCall(
        arguments,
        function,
        "",
        path,
        operator,
        local,
        splits,
        modifiers,
        dealt,
        random,
        connected,
    )


def _writing(
    function: Callable[..., Any], promise: Promise, said: tuple[int, ...]
) -> Callable[..., Any]:
    """The function, which is refused where it writes to other inputs than the graph knows of."""

    def call(*args: Any, **kwargs: Any) -> Any:
        if is_compiling():
            return function(*args, **kwargs)
        before = versions(args, kwargs)
        result = function(*args, **kwargs)
        written = written_since(before)
        if written:
            refuse_unsaid(promise, args, kwargs, said, written)
        return result

    update_wrapper(call, function)
    return call


def dealt_in(plan: OperatorPlan) -> tuple[tuple[str, int, int], ...]:
    """Returns the identifiers that an operator's plan cuts into unequal parts, with their length
    and what the parts are multiples of, where these are numbers.
    """
    found = []
    for split in plan.splits.values():
        if split.uneven and split.identifier is not None:
            of, unit = dim_of(split.of), dim_of(split.unit)
            if isinstance(of, int) and isinstance(unit, int):
                found.append((split.identifier, of, unit))
    return tuple(found)


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
        several = takes_several(given, names, name, len(lengths))
        arguments = arguments.with_parameter(names, name, lengths if several else lengths[0])
    return arguments


def _rules(
    node: Node, declaration: Declaration, plan: OperatorPlan
) -> list[tuple[tuple[str, str], TransformRule]]:
    """The splits (identifier, axis) by transform rules, outer axis first."""
    found = []
    for axis, split in plan.splits.items():
        if split.rule is not None:
            assert split.identifier is not None
            found.append(((split.identifier, axis), rules_for(node, declaration)[split.rule]))
    return found


def _with_part(function: Callable[..., Any], part: MeshPart) -> Callable[..., Any]:
    def call(*args: Any, **kwargs: Any) -> Any:
        return function(part, *args, **kwargs)

    call.__name__ = getattr(function, "__name__", "local").lstrip("_")
    return call


UNCONNECTED = frozenset({"scaled_dot_product_attention"})
"""Functions whose result does not depend on all inputs where one is empty: of no queries torch's
attention has no gradient for its mask.
"""


def connecting(function: Callable[..., Any]) -> Callable[..., Any]:
    """Returns the function whose result depends on all its inputs also where one is empty, so that
    a rank with nothing joins in summing their gradients: its own are zeros.
    """

    def call(*args: Any, **kwargs: Any) -> Any:
        result = function(*args, **kwargs)
        tensors = [each for each in (*args, *kwargs.values()) if isinstance(each, torch.Tensor)]
        if all(each.numel() for each in tensors):
            return result
        return _Connected.apply(result, *(each for each in tensors if each.requires_grad))

    call.__name__ = getattr(function, "__name__", "connected").lstrip("_")
    return call


class _Connected(torch.autograd.Function):
    """The first of its inputs; the gradients of the others are zeros."""

    @staticmethod
    def forward(ctx: Any, result: torch.Tensor, *inputs: torch.Tensor) -> torch.Tensor:
        ctx.save_for_backward(*inputs)
        return result.view_as(result)

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> Any:
        return gradient, *(torch.zeros_like(each) for each in ctx.saved_tensors)


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
        return apply(*Arguments(args, kwargs).positional(names).args)

    call.__name__ = name if name.isidentifier() else "apply"
    return call
