"""A plan in the words of another engine, or the reason why that engine has no word for it.

    linear q_proj   weight S(0), output S(2)                    "layers.*.q_proj": "colwise"
    linear o_proj   weight S(1), output P(sum) -> R             "layers.*.o_proj": "rowwise"
    linear lm_head  weight S(0), output S(2) -> R               "lm_head": "colwise_gather_output"
    linear c_attn   weight S(0, blocks=3)                       refused: it is cut in 3 blocks

A ``tp_plan`` and torch's `parallelize_module` change what enters and what leaves modules, and
nothing else. So a plan can be said where every conversion of it stands at the boundary of a module
whose style makes that conversion. What cannot be said is refused, with the operator.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any

from dimsolve.solver.operators import canonical

from ..placement import Placement, Replicate, Shard, read_placement
from ..plan_data import ConversionPlan, Operand, OperatorPlan, PlanData, problem
from .tp_plan import generic

LINEAR = "torch.nn.functional.linear"
EMBEDDING = "torch.nn.functional.embedding"

CANNOT_SAY = problem(
    "cannot-say",
    "the plan cannot be said as {format}",
    "{operator}: {reason}",
    "run it with dimsolve.parallelize, or ask for a plan that cuts less",
)


@dataclass(frozen=True, slots=True)
class Refusal:
    """What a format has no word for."""

    operator: str
    reason: str

    def __str__(self) -> str:
        return f"{self.operator}: {self.reason}"


@dataclass(slots=True)
class Written:
    """Styles by the names of modules, every number written ``*``, and what has none.

    near: styles that join a value right behind the module, where the plan joins it later, or not
    as a style does: another plan, for whoever asks what is right beside it. ties: parameters of
    modules that are another's, by their names there.
    """

    styles: dict[str, str] = field(default_factory=dict)
    refused: list[Refusal] = field(default_factory=list)
    near: dict[str, str] = field(default_factory=dict)
    ties: dict[str, str] = field(default_factory=dict)


def to_tp_plan(plan: PlanData, axis: str | None = None) -> dict[str, str]:
    """Returns the plan as a ``tp_plan``. Raises PlanError for what that cannot say.

    axis: of the mesh, where the plan cuts along several none of which is alone.
    """
    found = write(plan, axis)
    if found.refused:
        first = found.refused[0]
        raise CANNOT_SAY(format="a tp_plan", operator=first.operator, reason=first.reason)
    return found.styles


def to_distributed_config(plan: PlanData, model: Any, axis: str | None = None) -> Any:
    """Returns transformers' ``DistributedConfig`` for a model. Raises PlanError for what that
    cannot say, and where the number of ranks is no number.

    transformers keeps the rules of the model's own plan that a given one does not have: here they
    are "replicate", so that the plan is all of it.
    """
    library = import_module(f"{type(model).__module__.partition('.')[0]}.distributed")
    styles = to_tp_plan(plan, axis)
    name = axis or _axis(plan)
    if not plan.mesh[name].isdigit():
        reason = f"the axis {name} has {plan.mesh[name]} ranks, which is no number"
        raise CANNOT_SAY(format="a DistributedConfig", operator="the mesh", reason=reason)
    own = dict.fromkeys(getattr(model, "tp_plan", None) or {}, "replicate")
    return library.DistributedConfig(tp_size=int(plan.mesh[name]), tp_plan={**own, **styles})


def _axis(plan: PlanData) -> str:
    """The first axis along which something is cut."""
    used = (name for name in plan.mesh if any(name in op.splits for op in plan.operators))
    return next(used, next(iter(plan.mesh)))


def write(plan: PlanData, axis: str | None = None) -> Written:
    """Returns what of a plan can be said, and what cannot."""
    return _Writer(plan, axis).run()


class _Writer:
    def __init__(self, plan: PlanData, axis: str | None) -> None:
        self.plan = plan
        used = [name for name in plan.mesh if any(name in op.splits for op in plan.operators)]
        self.axis = axis or _axis(plan)
        self.place = list(plan.mesh).index(self.axis)
        self.others = [name for name in used if name != self.axis]
        self.found = Written()
        self.parameters = {entry.value: entry for entry in plan.parameters}
        self.conversions = {each.id: each for each in plan.conversions}
        self.after: dict[str, list[ConversionPlan]] = {}
        for each in plan.conversions:
            self.after.setdefault(each.source, []).append(each)
        self.users: dict[str, list[OperatorPlan]] = {}
        for op in plan.operators:
            for operand in op.operands:
                self.users.setdefault(operand.source, []).append(op)
        self.explained: set[str] = set()
        self.modules: dict[str, str] = {}

    def run(self) -> Written:
        for name in self.others:
            self._refuse(name, f"the mesh axis {name} cuts too, and the format has one axis")
        for op in self.plan.operators:
            split = op.splits.get(self.axis)
            if split is not None and split.uneven:
                reason = "it is cut into unequal parts, and an engine cuts rows as torch.chunk does"
                self._refuse(f"{op.node} of {op.module or 'the model'}", reason)
            style = self._style(op)
            if style is not None and op.module:
                known = self.modules.setdefault(op.module, style)
                if known != style and style:
                    self.modules[op.module] = known or style
        self._conversions()
        self._merge()
        return self.found

    def _refuse(self, operator: str, reason: str) -> None:
        self.found.refused.append(Refusal(operator, reason))

    def _at(self, texts: list[str]) -> Placement:
        return read_placement(texts[self.place])

    def _parameter(self, operand: Operand) -> str | None:
        """The parameter that an operand is, converted or not."""
        return operand.value if operand.value in self.parameters else None

    def _style(self, op: OperatorPlan) -> str | None:
        """The style of the module that an operator is; "" for none, None for no operator of a
        module's parameters.
        """
        own = [operand for operand in op.operands if self._parameter(operand)]
        if not own:
            return None
        cut = [o for o in own if isinstance(self._at(o.placements), Shard)]
        path = canonical(op.operator)
        if not cut:
            return self._whole(op, own)
        name = f"{op.node} of {op.module or 'the model'}"
        for operand in own if path in (LINEAR, EMBEDDING) else ():
            owner, _, short = self.parameters[operand.value].name.rpartition(".")
            if owner != op.module:
                self.found.ties[f"{op.module}.{short}"] = f"{owner}.{short}"
        if path == LINEAR:
            style, reason = self._linear(op)
        elif path == EMBEDDING:
            style, reason = self._embedding(op)
        else:
            style, reason = "", f"{cut[0].value} is cut, and only linear layers and embeddings are"
        if reason:
            self._refuse(name, reason)
            if path in (LINEAR, EMBEDDING) and op.module:
                weight = self._at(op.operands[1].placements)
                first = isinstance(weight, Shard) and weight.dim == 0
                words = ("colwise_gather_output", "rowwise_split_input")
                if path == EMBEDDING:
                    words = ("embedding_rowwise", "embedding_colwise")
                self.found.near[generic(op.module)] = words[0 if first else 1]
        return style

    def _whole(self, op: OperatorPlan, own: list[Operand]) -> str:
        """The style of a module whose parameters are whole: their gradients may be summands."""
        shared = [
            each
            for operand in own
            for each in self.plan.conversions
            if each.value == operand.value and each.axis == self.axis and each.shared_gradient
        ]
        if not shared:
            return ""
        self.explained.update(each.id for each in shared)
        return "replicated_with_grad_allreduce"

    def _linear(self, op: OperatorPlan) -> tuple[str, str]:
        weight = self._at(op.operands[1].placements)
        output = op.outputs[0]
        last = len(output.shape or ()) - 1
        match weight:
            case Shard(0, blocks, ()) if blocks in (1, 2):
                self._entered(op)
                gathered = self._left(output.value, "all-gather")
                if gathered is None:
                    asked = any(each.name == "labels" for each in self.plan.inputs)
                    why = ": trace the model without labels, and it computes no loss of it"
                    return "", f"its output is used as it is and whole{why if asked else ''}"
                if blocks == 1:
                    return ("colwise_gather_output" if gathered else "colwise"), ""
                if gathered:
                    return "", "it is cut in 2 blocks and gathered, and packed_colwise gathers not"
                return "packed_colwise", ""
            case Shard(1, 1, ()):
                source = self.conversions.get(op.operands[0].source)
                sliced = source is not None and isinstance(self._at(source.before), Replicate)
                if sliced and source is not None:
                    self.explained.add(source.id)
                biases = {operand.value for operand in op.operands[2:]}
                self.explained.update(c.id for c in self.plan.conversions if c.value in biases)
                if not self._left(output.value, "all-reduce"):
                    return "", "its output is a sum over the ranks that is taken later"
                if self._at(op.operands[0].placements) != Shard(last) and not sliced:
                    return "", f"its input is {op.operands[0].placements[self.place]}"
                return ("rowwise_split_input" if sliced else "rowwise"), ""
            case Shard(_, blocks, ()) if blocks != 1:
                return "", f"its weight is cut in {blocks} blocks"
            case Shard(_, _, segments) if segments:
                return "", f"its weight is cut in segments {':'.join(map(str, segments))}"
            case _:
                return "", f"its weight is {weight}"

    def _embedding(self, op: OperatorPlan) -> tuple[str, str]:
        weight = self._at(op.operands[1].placements)
        output = op.outputs[0].value
        match weight:
            case Shard(0, 1, ()) if self._left(output, "all-reduce"):
                return "embedding_rowwise", ""
            case Shard(1, 1, ()) if self._left(output, "all-gather"):
                return "embedding_colwise", ""
            case _:
                return "", f"its table is {weight}, and its output is joined later"

    def _entered(self, op: OperatorPlan) -> None:
        """The sum of the gradients of a module's input is made by its style."""
        source = self.conversions.get(op.operands[0].source)
        if source is not None and source.shared_gradient:
            self.explained.add(f"{source.id}>{op.node}:0")

    def _left(self, value: str, collective: str) -> bool | None:
        """Whether a value is converted by this collective before every use; None where only some
        uses are.
        """
        made = [
            each
            for each in self.after.get(value, [])
            if each.axis == self.axis and collective in each.forward
        ]
        direct = bool(self.users.get(value)) or len(made) < len(self.after.get(value, []))
        returned = any(each.source == value for each in self.plan.outputs)
        if made and (direct or returned):
            return None
        self.explained.update(each.id for each in made)
        return bool(made)

    def _conversions(self) -> None:
        """Every conversion must be one that a style makes."""
        for each in self.plan.conversions:
            if each.id in self.explained:
                continue
            if each.shared_gradient and not each.forward:
                uses = [use for use in each.uses if f"{each.id}>{use}" not in self.explained]
                if each.backward_runs == "never" or not uses:
                    continue
                reason = f"nothing sums the gradient of {each.value}, which {uses[0]} uses"
            else:
                reason = f"{each.value} goes from {each.before[self.place]} to "
                reason += f"{each.after[self.place]} inside of a module"
            self._refuse(each.id, reason)

    def _merge(self) -> None:
        """One style for all layers: the format names them together."""
        merged: dict[str, dict[str, str]] = {}
        for module, style in self.modules.items():
            merged.setdefault(generic(module), {})[module] = style
        for name, layers in merged.items():
            if len(set(layers.values())) > 1:
                (one, first), (other, second) = _two(layers)
                self._refuse(name, f"{one} is {first or 'whole'} and {other} {second or 'whole'}")
            style = next(iter(layers.values()))
            if style:
                self.found.styles[name] = style


def _two(layers: dict[str, str]) -> Iterator[tuple[str, str]]:
    """Two layers of different styles."""
    first = next(iter(layers.items()))
    yield first
    yield next(item for item in layers.items() if item[1] != first[1])
