"""What a plan costs without being asked: outputs gathered on every rank, heavy operators that a
count leaves whole or cuts another way. Each with its bytes, and with what would remove it.

    logits is returned whole: every rank gathers 4*batch*seq*128256 bytes along dp
    tp: n = 50257 of logits (lm_head) is not cut, because 2 does not divide it (50258 would be):
        k is cut instead, and 402056*batch*seq bytes are sent
    tp: b = 7 of attention (layers.*.self_attn) is not cut, because 2 does not divide it (8 would
        be): every rank computes all of it, 112*batch*seq bytes
    tp: lstm (encoder) is whole, and every rank holds and uses all of its 12345 bytes of parameters

Operators that differ in the number of their layer are one remark.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from dimsolve.solver.algebra.poly import Dim, product
from dimsolve.solver.shapes import dim_of_text

from ..placement import Shard
from ..plan_data import ConversionPlan, OperatorPlan, PlanData
from ..regions import VMAPPED
from ..reshard import SENT, item_bytes
from .axis_state import AxisState
from .choices import Choice, OperatorClass
from .network import Edge, Operator
from .requirements import Requirements

HEAVY = 4
"""An operator is heavy if it does so many times more work than its largest tensor has elements."""
SMALL = 1024
"""Bytes below which a number is not worth a note."""

_LAYER = re.compile(r"\b\d+\b")


def remarks(plan: PlanData, decided: Sequence[tuple[AxisState, Requirements]]) -> list[str]:
    """Returns the notes on what costs: of outputs, then of operators, axis by axis."""
    found = dict.fromkeys(_gathered_outputs(plan))
    for state, requirements in decided:
        found.update(dict.fromkeys(_Axis(plan, state, requirements).remarks()))
    return list(found)


def _gathered_outputs(plan: PlanData) -> Iterator[str]:
    """One for each output; for those of one container that cost the same, one for all."""
    conversions = {entry.id: entry for entry in plan.conversions}
    found: dict[tuple[str, str, str], list[str]] = {}
    for output in plan.outputs:
        source = output.source
        while (entry := conversions.get(source)) is not None:
            if "all-gather" in entry.forward and _is_much(entry.bytes_forward):
                holder = output.name.partition(".")[0]
                found.setdefault((holder, entry.bytes_forward, entry.axis), []).append(output.name)
            source = entry.source
    for (_, size, axis), (name, *others) in found.items():
        more = f" and {len(others)} more like it are" if others else " is"
        each, them = (" of each", "them") if others else ("", "it")
        yield (
            f"{name}{more} returned whole: every rank gathers {size} bytes{each} along {axis}; "
            f'parallelize(..., outputs="placed") leaves {them} cut'
        )


def _is_much(text: str) -> bool:
    found = dim_of_text(text)
    return not isinstance(found, int) or found > SMALL


class _Axis:
    """The remarks on one axis."""

    def __init__(self, plan: PlanData, state: AxisState, requirements: Requirements) -> None:
        self.state, self.requirements = state, requirements
        self.entries = plan.operators
        self.cuts_parameters = state.axis not in plan.data_axes and plan.policy != "replicate"
        self.sent: dict[str, list[ConversionPlan]] = {}
        for conversion in plan.conversions:
            if conversion.axis == state.axis:
                self.sent.setdefault(conversion.value, []).append(conversion)
        self._lost: dict[tuple[OperatorClass, Choice], tuple[str, Dim] | None] = {}

    def remarks(self) -> Iterator[str]:
        state = self.state
        yield from self._uncuttable()
        yield from self._mapped()
        cuts = any(edge.parameter and self._is_cut(edge.number) for edge in state.network.edges)
        if not cuts or not isinstance(state.count, int):
            return
        for operator, choice in zip(state.network.operators, state.choices, strict=True):
            lost = self._not_cut(operator, choice)
            if lost is not None:
                yield from self._remark(self.entries[operator.number], choice, *lost)

    def _uncuttable(self) -> Iterator[str]:
        """Of operators that no count cuts, the parameters that every rank therefore holds and works
        with: recurrent layers, experts, what runs inside of torch.vmap.
        """
        if not self.cuts_parameters:
            return
        found: dict[tuple[str, str, str], Dim] = {}
        for operator, choice in zip(self.state.network.operators, self.state.choices, strict=True):
            reason = self._keeps_weights(operator) if choice.whole else ""
            if reason:
                entry = self.entries[operator.number]
                module = _LAYER.sub("*", entry.module) or "the model"
                key = (entry.operator.rpartition(".")[2], module, reason)
                found[key] = found.get(key, 0) + sum(
                    _bytes([str(dim) for dim in edge.dims or ()], edge.dtype)
                    for edge in self._weights(operator)
                )
        for (function, module, reason), size in found.items():
            if _is_much(str(size)):
                yield (
                    f"{self.state.axis}: {function} ({module}) is whole, and every rank holds and "
                    f"uses all of its {size} bytes of parameters: {reason}; an axis that cuts the "
                    "batch divides its work"
                )

    def _mapped(self) -> Iterator[str]:
        """Of what runs inside of torch.vmap, beside operators that the axis cuts."""
        if all(choice.whole for choice in self.state.choices):
            return
        modules = [
            _LAYER.sub("*", self.entries[operator.number].module) or "the model"
            for operator in self.state.network.operators
            if operator.pinned == VMAPPED
        ]
        for module in dict.fromkeys(modules):
            yield (
                f"{self.state.axis}: what runs inside of torch.vmap ({module}) is whole: every "
                "rank computes all of it; a batch that is a dimension of the tensors is cut"
            )

    def _weights(self, operator: Operator) -> list[Edge]:
        edges = [self.state.network.edges[n] for n in operator.inputs if n is not None]
        return [edge for edge in edges if edge.weight]

    def _keeps_weights(self, operator: Operator) -> str:
        """Why no weight of an operator can be cut, "" where one can, or there is no matrix."""
        edges = self.state.network.edges
        op_class, reason = self.state.classes[operator.number], ""
        for place, number in enumerate(operator.inputs):
            if number is None or not edges[number].weight or len(edges[number].dims or ()) < 2:
                continue
            for dim in range(len(edges[number].dims or ())):
                answer = op_class.spread(place, Shard(dim))
                if isinstance(answer, Choice) and not operator.pinned:
                    return ""
                reason = reason or operator.pinned or getattr(answer, "reason", "")
        return reason

    def _is_cut(self, edge: int) -> bool:
        return any(str(need).startswith("S") for need, _ in self.state.needs[edge])

    def _not_cut(self, operator: Operator, choice: Choice) -> tuple[str, Dim] | None:
        """The identifier of the model's own length that the count does not divide, and that is not
        cut for that reason.
        """
        op_class = self.state.classes[operator.number]
        key = (op_class, choice)
        if key not in self._lost:
            self._lost[key] = next(self._illegal(op_class, choice), None)
        return self._lost[key] if self._is_heavy(operator, op_class) else None

    def _illegal(self, op_class: OperatorClass, choice: Choice) -> Iterator[tuple[str, Dim]]:
        """What a whole operator would be cut along is its first identifier of fixed length: of an
        attention the heads.
        """
        for other in op_class.choices():
            if other.name in (None, choice.name) or not isinstance(
                op_class.lengths[other.name], int
            ):
                continue
            unmet = self.requirements.first_illegal(other)
            if unmet is not None and isinstance(unmet.length, int):
                yield other.name, unmet.length
            elif choice.whole:
                return

    def _is_heavy(self, operator: Operator, op_class: OperatorClass) -> bool:
        network = self.state.network
        numbers = [number for number in operator.inputs if number is not None]
        if any(network.edges[n].weight and len(network.edges[n].dims or ()) > 1 for n in numbers):
            return True
        dims = [op_class.dims(number) for number in range(len(op_class.tensors))]
        largest = max((network.elements(each) for each in dims if each), default=0.0)
        return self.state.work(operator.number) > HEAVY * largest

    def _remark(self, entry: OperatorPlan, choice: Choice, name: str, length: Dim) -> Iterator[str]:
        count, axis = self.state.count, self.state.axis
        assert isinstance(count, int) and isinstance(length, int)
        module = _LAYER.sub("*", entry.module)
        function = _LAYER.sub("*", entry.operator.rpartition(".")[2])
        more = (-length) % count
        what = (
            f"{axis}: {name} = {length} of {function} ({module or 'the model'}) is not cut, "
            f"because {count} does not divide it ({length + more} would be cut)"
        )
        if choice.whole:
            size = sum(_bytes(each.shape, each.dtype) for each in entry.outputs)
            yield f"{what}: every rank computes all of it, {size} bytes"
            return
        sent = sum(
            dim_of_text(conversion.bytes_forward)
            for made in entry.outputs
            for conversion in self.sent.get(made.value, ())
            if any(SENT[each][0] for each in conversion.forward)
        )
        if sent:
            yield f"{what}: {choice} is cut instead, and {sent} bytes are sent"


def _bytes(shape: Sequence[str | None] | None, dtype: str | None) -> Dim:
    if shape is None:
        return 0
    return product([item_bytes(dtype), *(dim_of_text(t) for t in shape if t is not None)])
