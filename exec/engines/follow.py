"""Where every value of a recorded run lies, proved call by call, and where its gradient does.

    linear     x R, weight S(0)          S(2)      by the rule of linear
    view       S(2) as (b, s, -1, 64)    S(2)      the sizes are those that the rule asks for
    linear     x S(2), weight S(1)       P(sum)
    sum        P(sum)                    R         the style's all-reduce

The runs of all ranks are laid beside the run of one device. A call is proved where a rule of ours
has the placements of its inputs, and the rank's arguments are those that the rule asks for. Where
none has, the results themselves are looked at: they are parts, copies or summands of what one
device has, or nothing of the kind. The first is no proof, the last is a counterexample.

Gradients follow backwards. The gradient of a replicated value is whole on every rank, or every rank
has a summand, where the ranks' work on it differs; a value used in both ways has neither.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, Literal, TypeAlias

import torch
from torch import Tensor

from dimsolve.ir.errors import DimsolveError
from dimsolve.ir.operator import Declaration, Operator, operator_of
from dimsolve.partition.placement import Partial, Placement, Reduction, Replicate, Shard
from dimsolve.partition.planning.choices import Choice, Contract, OperatorClass
from dimsolve.partition.rules.nothing import runs_empty
from dimsolve.partition.rules.table import rules_of
from dimsolve.solver.graphs.deduction import find_operator
from dimsolve.solver.graphs.names import path_of
from dimsolve.solver.infer import infer_sizes
from dimsolve.solver.proof.facts import NO_FACTS

from ..calls import Arguments, Call, lengths_of
from ..capture.aten import method_path
from ..registration.without_data import tensors_in
from .loading import part_lengths
from .record import At, Recorder, Step

R, P = Replicate(), Partial()
Gradient: TypeAlias = Literal["whole", "summand", "wrong"]

ZEROS = frozenset({"zeros", "zeros_like", "new_zeros"})

TOLERANCE = 2e-3
"""How far two runs in float32 may differ, as a part of the largest number of the one."""


@dataclass(frozen=True, slots=True)
class Doubt:
    """A call that no rule proves. ``refuted``: its results are nothing that one device has, or
    parts or summands of it.
    """

    step: int
    reason: str
    refuted: bool
    at: At
    operator: str


@dataclass
class Followed:
    """What was found. ``placements``: of every value, None where nothing is known. ``choices``: how
    each proved call is split.
    """

    placements: dict[int, Placement | None] = field(default_factory=dict)
    choices: dict[int, Choice | None] = field(default_factory=dict)
    doubts: list[Doubt] = field(default_factory=list)

    @property
    def proved(self) -> bool:
        """Whether every call is."""
        return not self.doubts


def same(one: Tensor, other: Tensor) -> bool:
    """Whether two tensors have the same numbers, up to rounding; of meta tensors, the shape."""
    if one.shape != other.shape or one.is_meta or other.is_meta:
        return one.shape == other.shape
    if not (one.is_floating_point() or one.is_complex()):
        return torch.equal(one, other)
    if one.itemsize == 1:  # torch knows no arithmetic of them
        one, other = one.float(), other.float()
    one, other = one.detach().nan_to_num(), other.detach().nan_to_num()
    if one.numel() == 0:
        return True
    scale = float(one.abs().max())
    return bool((one - other).abs().max() <= TOLERANCE * scale + 1e-12)


def pieces(whole: Tensor, placement: Placement, count: int) -> list[Tensor] | None:
    """Returns what the ranks have under a placement that is no sum; None where it has no parts."""
    if isinstance(placement, Replicate):
        return [whole] * count
    if not isinstance(placement, Shard) or placement.dim >= whole.ndim:
        return None
    units = placement.units
    if placement.contiguous:
        lengths = part_lengths(whole.shape[placement.dim], count)
        return list(whole.split(lengths, placement.dim))
    if not isinstance(units, int) or whole.shape[placement.dim] % (units * count):
        return None
    from ..distributed.sharding import slice_part

    return [slice_part(whole, placement, rank, count) for rank in range(count)]


def lies(whole: Tensor, parts: Sequence[Tensor], placement: Placement) -> bool:
    """Whether the ranks' tensors are the whole's under a placement."""
    if isinstance(placement, Partial):
        if any(part.shape != whole.shape for part in parts):
            return False
        return whole.is_meta or same(whole, sum(parts[1:], parts[0]))
    wanted = pieces(whole, placement, len(parts))
    return wanted is not None and all(map(same, wanted, parts))


def candidates(whole: Tensor, parts: Sequence[Tensor]) -> Iterator[Placement]:
    """Yields the placements that the shapes allow."""
    count = len(parts)
    if all(part.shape == whole.shape for part in parts):
        yield R
        if whole.is_floating_point():
            yield P
    for dim, (all_of_it, of_one) in enumerate(zip(whole.shape, parts[0].shape, strict=False)):
        if whole.ndim == parts[0].ndim and of_one < all_of_it:
            yield Shard(dim)
            for blocks in (2, 3, 4):
                if all_of_it % (blocks * count) == 0:
                    yield Shard(dim, blocks)


def evaluated(whole: Tensor, parts: Sequence[Tensor]) -> Placement | None:
    """Returns how the ranks' tensors lie, as their numbers say; None where they are nothing of the
    kind, and for tensors without numbers.
    """
    if whole.is_meta:
        return None
    return next((p for p in candidates(whole, parts) if lies(whole, parts, p)), None)


class Follow:
    """Follows the placements through the runs of the ranks beside that of one device."""

    def __init__(
        self, whole: Recorder, ranks: Sequence[Recorder], parameters: Mapping[str, Placement]
    ) -> None:
        self.whole = whole
        self.ranks = ranks
        self.count = len(ranks)
        self.parameters = parameters
        self.found = Followed()
        self.zeros: set[int] = set()
        self.unlike: dict[int, str] = {}

    def run(self) -> Followed:
        """Returns where everything lies, as far as the runs go together."""
        length = min(len(self.whole.steps), *(len(rank.steps) for rank in self.ranks))
        for number in range(length):
            step, steps = self.whole.steps[number], [rank.steps[number] for rank in self.ranks]
            if any(_differs(step, other) for other in steps):
                reason = "the model's code goes another way on a rank than on one device"
                self.found.doubts.append(Doubt(number, reason, False, step.at, _name(step)))
                break
            self._step(number, step, steps)
        return self.found

    def _placed(self, value: int) -> Placement | None:
        """Where a value lies; a value that is given lies as it is stored."""
        if value not in self.found.placements:
            name = self.whole.given.get(value)
            placement = self.parameters.get(name, R) if name is not None else None
            parts = [rank.values[value].tensor for rank in self.ranks]
            if placement is not None and not lies(
                self.whole.values[value].tensor, parts, placement
            ):
                self.unlike[value] = f"the parts of {name} are no equal parts {placement}"
                placement = None
            self.found.placements[value] = placement
        return self.found.placements[value]

    def _step(self, number: int, step: Step, steps: Sequence[Step]) -> None:
        placed = [self._placed(value) for value in step.before]
        answer: Any = (
            _at_boundary(step, placed) if step.kind not in ("call", "read", "rows") else None
        )
        if answer is None and step.kind in ("call", "read", "rows"):
            answer = self._called(number, step, steps, placed)
        reason = answer if isinstance(answer, str) else ""
        if not reason and answer is not None:
            for value, placement in zip(step.results, answer, strict=True):
                reason = reason or self._shaped(value, placement)
        if reason or answer is None:
            self._doubt(number, step, reason or "nothing is known of it")
            return
        if step.kind == "call" and _writes(step):
            self._forget(step)
        for value, placement in zip(step.results, answer, strict=True):
            self.found.placements[value] = placement
        if _name(step) in ZEROS:
            self.zeros.update(step.results)

    def _forget(self, step: Step) -> None:
        """What shares memory with what is written to has other numbers now: where it lies is known
        no longer, unless it is whole on every rank and stays so.
        """
        stores = {self.whole.values[value].storage for value in step.results}
        for value, placement in list(self.found.placements.items()):
            shares = self.whole.values[value].storage in stores
            if shares and value not in step.before and not isinstance(placement, Replicate):
                self.found.placements[value] = None

    def _shaped(self, value: int, placement: Placement) -> str:
        """Why the ranks' tensors cannot lie so, as their shapes say."""
        whole = self.whole.values[value].tensor
        parts = [rank.values[value].tensor for rank in self.ranks]
        wanted = [whole] * self.count
        if isinstance(placement, Shard):
            cut = pieces(whole, placement, self.count)
            if cut is None:
                return f"{tuple(whole.shape)} has no equal parts {placement}"
            wanted = cut
        for rank, (part, own) in enumerate(zip(parts, wanted, strict=True)):
            if part.shape != own.shape:
                return (
                    f"rank {rank} has the shape {tuple(part.shape)}, "
                    f"and its part is {tuple(own.shape)}"
                )
        return ""

    def _doubt(self, number: int, step: Step, reason: str) -> None:
        refuted = False
        for value in step.results:
            whole = self.whole.values[value].tensor
            parts = [rank.values[value].tensor for rank in self.ranks]
            found = evaluated(whole, parts)
            self.found.placements[value] = found
            refuted = refuted or (found is None and not whole.is_meta)
        self.found.choices[number] = None
        self.found.doubts.append(Doubt(number, reason, refuted, step.at, _name(step)))

    def _called(
        self, number: int, step: Step, steps: Sequence[Step], placed: Sequence[Placement | None]
    ) -> list[Placement] | str:
        if any(placement is None for placement in placed):
            unlike = (self.unlike[value] for value in step.before if value in self.unlike)
            return next(unlike, "it uses a value of which nothing is known")
        if step.kind == "read":
            if all(isinstance(p, Replicate) for p in placed):
                return []
            return "numbers are read from a tensor of which a rank has only its own"
        replicated = step.kind == "call" and all(isinstance(p, Replicate) for p in placed)
        if replicated and all(_plain(step) == _plain(other) for other in steps):
            return [R] * len(step.results)
        answer = self._split(step, steps, placed)
        if isinstance(answer, str):
            return answer
        choice, declaration = answer
        self.found.choices[number] = choice
        outputs = list(choice.outputs)
        if declaration.returns == "nothing" or len(outputs) != len(step.results):
            if len(outputs) == 1 or len(set(map(str, outputs))) == 1:
                outputs = outputs[:1] * len(step.results)
            else:
                return "its results are not those of its annotation"
        return outputs

    def _split(
        self, step: Step, steps: Sequence[Step], placed: Sequence[Placement | None]
    ) -> tuple[Choice, Declaration] | str:
        """The choice that has these placements, or why there is none."""
        operator = operator_for(step.function)
        if operator is None:
            return f"{_name(step)} has no annotation"
        call = Call(operator, Arguments(step.args, step.kwargs))
        try:
            declaration = call.declaration
            op_class = class_of(operator, declaration, step, self.whole)
        except (DimsolveError, RuntimeError, TypeError, ValueError) as error:
            return f"nothing is promised for this call: {str(error).partition(chr(10))[0]}"
        # A tensor that only lends its dtype is none of the declaration's: it may lie as it likes.
        by_id = dict(
            zip([id(t) for t in tensors_in((step.args, step.kwargs))], placed, strict=False)
        )
        wanted = [R if t is None else by_id.get(id(t), R) for t in declaration.inputs]
        summands = any(isinstance(each, Partial) for each in wanted)
        if summands:  # zeros on every rank are summands of zeros
            numbers = dict(zip(by_id, step.before, strict=False))
            zero = {tensor for tensor, number in numbers.items() if number in self.zeros}
            places = [None if t is None else id(t) for t in declaration.inputs]
            wanted = [
                P if place in zero else each for place, each in zip(places, wanted, strict=True)
            ]
        choices: Any = [self._choice(op_class, wanted, step)]
        whole = step.kind == "call" and all(isinstance(each, Replicate) for each in wanted)
        if whole and any(_plain(step) != _plain(other) for other in steps):
            # It makes a part of what is whole, or of what is the same everywhere.
            choices = [c for c in op_class.choices() if all(p == R for p in c.inputs)]
        reason = "a rank passes other sizes than one device does"
        for found in choices:
            empty = runs_empty(operator.path)
            lengths = found if isinstance(found, str) else self._lengths(op_class, found, empty)
            if isinstance(lengths, str):
                reason = lengths
                continue
            reason = self._arguments(call, op_class, step, steps, lengths)
            if not reason:
                return found, declaration
        return reason

    def _choice(
        self, op_class: OperatorClass, wanted: Sequence[Placement | None], step: Step
    ) -> Choice | str:
        reasons: list[str] = []
        tried: list[Choice] = []
        for place, placement in enumerate(wanted):
            if isinstance(placement, Shard):
                answer = op_class.spread(place, placement)
                if isinstance(answer, Choice):
                    tried.append(answer)
                else:
                    reasons.append(answer.reason)
        if not any(isinstance(placement, Shard) for placement in wanted):
            partial = frozenset(i for i, p in enumerate(wanted) if isinstance(p, Partial))
            passing = op_class.passing(partial) if partial else op_class.whole
            if passing is not None:
                tried.append(passing)
            else:
                reasons.append("a summand is used in a way that is not linear")
        for choice in tried:
            if all(own == other for own, other in zip(choice.inputs, wanted, strict=True)):
                local = None if choice.rule is None else op_class.rules[choice.rule]
                if local is None or step.kind == "rows":
                    return choice
                if local.local is None and local.modifier is None:
                    return choice
                reasons.append("split so, a rank must run something else than the model does")
            else:
                asked = ", ".join(map(str, choice.inputs))
                has = ", ".join(map(str, wanted))
                reasons.append(f"its inputs are {has}; they must be {asked}")
        return reasons[0] if reasons else "no rule has these placements"

    def _lengths(
        self, op_class: OperatorClass, choice: Choice, empty: bool
    ) -> list[dict[str, int]] | str:
        """The lengths of all identifiers on every rank. empty: whether the function runs where one
        is 0; then nothing is what it adds to a sum, as `parts_of` says of rules.
        """
        placements = (*choice.inputs, *choice.outputs)
        joined = {p.reduction for p in placements if isinstance(p, Partial)}
        empty = empty and joined <= {Reduction.SUM}
        lengths = [
            {name: n for name, n in op_class.lengths.items() if isinstance(n, int)}
            for _ in range(self.count)
        ]
        for need in choice.requirements:
            length, divisor = need.length, need.divisor
            if not isinstance(length, int) or not isinstance(divisor, int):
                return f"the length of {need.name} is not known"
            if length % (divisor * self.count) and divisor > 1:
                return f"{self.count} does not divide {need.name} = {length} in {divisor} parts"
            for rank, own in enumerate(part_lengths(length, self.count)):
                if own == 0 and not empty:
                    return f"rank {rank} has nothing of {need.name} = {length}"
                lengths[rank][need.name] = own
        return lengths

    def _arguments(
        self,
        call: Call,
        op_class: OperatorClass,
        step: Step,
        steps: Sequence[Step],
        lengths: Sequence[Mapping[str, int]],
    ) -> str:
        """Why a rank's arguments are not those that the rule asks for; "" where they are."""
        declaration, names = call.declaration, call.operator.parameters
        star = op_class.solution.layout.star
        for rank, other in enumerate(steps):
            wanted = Arguments(step.args, step.kwargs)
            for name, text in declaration.sizes.items():
                sizes = lengths_of(text, lengths[rank], star)
                wanted = _with_sizes(wanted, call, names, name, sizes)
            if not _agree(_bare(wanted.args), _bare(other.args)) or not _agree(
                _bare(dict(wanted.kwargs)), _bare(dict(other.kwargs))
            ):
                return (
                    f"rank {rank} passes {_sizes_text(other)}, "
                    f"and its part needs {_sizes_text(wanted)}"
                )
        return ""


def _with_sizes(
    wanted: Arguments, call: Call, names: Sequence[str], name: str, sizes: tuple[int, ...]
) -> Arguments:
    from ..calls import takes_several

    given = call.arguments.parameters(names)
    value: Any = sizes if takes_several(given, names, name, len(sizes)) else sizes[0]
    return wanted.with_parameter(names, name, value)


def _sizes_text(call: Any) -> str:
    numbers = [a for a in _bare(call.args) if not isinstance(a, _Tensor)]
    return ", ".join(map(str, numbers)) or "nothing"


class _Tensor:
    """Stands for a tensor where arguments are compared."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "a tensor"


_TENSOR = _Tensor()


def _bare(value: Any) -> Any:
    """Arguments with every tensor as the same mark, sequences as tuples, slices as triples."""
    match value:
        case Tensor():
            return _TENSOR
        case list() | tuple():
            return tuple(_bare(item) for item in value)
        case dict():
            return {key: _bare(item) for key, item in value.items()}
        case slice():
            return ("slice", _bare(value.start), _bare(value.stop), _bare(value.step))
        case _:
            return value


def _flat(args: Any) -> Any:
    """A list of sizes that is given as one argument, as it would be given one by one."""
    if isinstance(args, tuple) and len(args) == 2 and isinstance(args[1], tuple):
        return (args[0], *args[1])
    return args


def _agree(wanted: Any, given: Any) -> bool:
    """Whether arguments are those that are wanted. A size may be left to torch (-1), and a bound of
    a slice may be left out; that the results have the right shapes is looked at besides.
    """
    if isinstance(wanted, tuple) and isinstance(given, tuple):
        wanted, given = _flat(wanted), _flat(given)
        return len(wanted) == len(given) and all(map(_agree, wanted, given))
    if isinstance(wanted, dict) and isinstance(given, dict):
        return wanted.keys() == given.keys() and all(_agree(wanted[k], given[k]) for k in wanted)
    if isinstance(wanted, int) and not isinstance(wanted, bool) and given in (-1, None):
        return True
    return wanted is given or bool(type(wanted) is type(given) and wanted == given)


def _plain(step: Step) -> Any:
    return repr((_bare(step.args), _bare(dict(step.kwargs))))


def _differs(step: Step, other: Step) -> bool:
    """Whether a rank calls something else."""
    return (step.kind, step.before, step.results) != (other.kind, other.before, other.results) or (
        step.function is not other.function and step.function != other.function
    )


def _writes(step: Step) -> bool:
    """Whether a call writes to one of its arguments."""
    operator = operator_for(step.function)
    return operator is None or bool(operator.mutates)


def _name(step: Step) -> str:
    return getattr(step.function, "__name__", step.kind) if step.function else step.kind


def _at_boundary(step: Step, placed: Sequence[Placement | None]) -> list[Placement] | str:
    """What a boundary makes of a placement, or why it cannot."""
    (placement,) = placed
    last = step.rank - 1
    match step.kind, placement:
        case "share" | "rope", Replicate():
            return [R]
        case "share" | "rope", other:
            return f"the input is {other}, and the style takes it for whole on every rank"
        case "divide", Replicate():
            return [P]
        case "sum", Partial():
            return [R]
        case "sum", other:
            return f"the output is {other}: summed over the ranks it is not the output"
        case "gather", Shard(dim) if dim == last:
            return [R]
        case "gather", other:
            return f"the output is {other}, and the style takes it for parts of its last dimension"
        case "experts", _:
            return "the code of the experts is not followed"
        case "slice", Replicate():
            return [Shard(last)]
        case "slice", other:
            return f"the input is {other}, and the style takes it for whole on every rank"
        case _:
            return "nothing is known of it"


@lru_cache(maxsize=4096)
def operator_for(function: Any) -> Operator | None:
    """Returns the operator of what torch calls; None where it has no annotation."""
    known = operator_of(function)
    if known is not None:
        return known
    path = path_of(function)
    name = path.rpartition(".")[2]
    if path.startswith("torch.Tensor.__"):
        path = method_path(name)
    return find_operator(path)


def class_of(
    operator: Operator, declaration: Declaration, step: Step, whole: Recorder
) -> OperatorClass:
    """Returns the class of a call on one device."""
    rules = (*declaration.transform_rules, *rules_of(operator.path, declaration))
    from dataclasses import replace

    declaration = replace(declaration, transform_rules=rules)
    shapes = tuple([None if t is None else tuple(t.shape) for t in declaration.inputs])
    arguments = dict(declaration.arguments)
    if declaration.fresh:
        arguments.update(dict.fromkeys(declaration.fresh, 1))
    solution = infer_sizes(declaration.annotation, shapes, arguments=arguments)
    return OperatorClass(solution, Contract.of(declaration), NO_FACTS, frozenset())
