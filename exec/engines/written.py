"""A plan for another engine, written for a model without one, then audited against that model.

    write_tp_plan(model, 2, kwargs={"input_ids": ids})
    {"model.decoder.layers.*.fc1": "colwise", "model.decoder.layers.*.fc2": "rowwise", ...}

The calls of one run make a graph, our own planner cuts it, and what of the plan a ``tp_plan`` can
say is audited: an engine runs the model's code as it is, on parts, and a view with a fixed number
of heads fails there. Modules that are to blame are left whole, until the plan is right.

A graph of one run is made for its sizes; `dimsolve.trace` makes graphs for all sizes.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from torch import Tensor, nn

from dimsolve.ir.errors import DimsolveError
from dimsolve.ir.graph import Value
from dimsolve.partition.engines.tp_plan import generic
from dimsolve.partition.engines.write import write
from dimsolve.partition.plan import Plan, plan
from dimsolve.partition.plan_data import PlanError

from ..graph import Graph
from ..registration.without_data import tensors_in
from .audit import Audit, audit, outputs_of, prepared
from .record import Recorder, Step


def write_tp_plan(
    model: nn.Module,
    count: int,
    *,
    args: tuple[Any, ...] = (),
    kwargs: Mapping[str, Any] | None = None,
    policy: Any = "tensor",
) -> tuple[dict[str, str], Audit | None]:
    """Returns a ``tp_plan`` that is legal for the count, with its audit; {} where nothing can be
    cut, or nothing that is cut is right.

    policy: of `dimsolve.plan`, for the axis ``tp``.
    """
    graph = run_graph(model, args, dict(kwargs or {}))
    written = write(_planned(graph, count, policy))
    found: Audit | None = None
    styles = {**written.near, **written.styles}
    tried: list[dict[str, str]] = []
    while styles and styles not in tried:
        tried.append(styles)
        found = audit(model, styles, counts=(count,), args=args, kwargs=kwargs, correct=False)
        answer = found.at(count)
        if answer.verdict == "legal":
            return styles, found
        changes: dict[str, str] = {}
        for finding in answer.findings:
            # What is equal and not proved is left whole too.
            changes.update(finding.change or {generic(finding.module): "replicate"})
        if len(changes) == 1 and set(changes.values()) == {"replicate"}:
            (name,) = changes
            if styles.get(name) == "colwise":
                changes = {name: "colwise_gather_output"}
        styles = {n: s for n, s in {**styles, **changes}.items() if s != "replicate"}
    return {}, found


def _planned(graph: Graph, count: int, policy: Any) -> Plan:
    """The plan for the count; where a table has a length that it never divides, that for two
    ranks: which of its modules can be cut into more parts is asked of the audit.
    """
    try:
        return plan(graph, {"tp": count}, policy)
    except PlanError:
        if count == 2:
            raise
        return plan(graph, {"tp": 2}, policy)


def run_graph(model: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Graph:
    """Returns the graph of what one run calls, as far as the calls have annotations.

    A call that has none, and one that writes to a tensor, is left out: what it gets is an output of
    the graph, whole on every rank, and what it makes is an input.
    """
    ours = prepared(model)
    recorder = Recorder(ours)
    with recorder.inside():
        results = outputs_of(ours, (args, kwargs))
    return _Building(recorder).graph([recorder.number(t) for t in results])


class _Building:
    def __init__(self, recorder: Recorder) -> None:
        self.recorder = recorder
        self.made = Graph("run")
        self.values: dict[int, Value] = {}
        self.whole: dict[int, None] = {}

    def graph(self, results: list[int]) -> Graph:
        needed = self._needed()
        for number, step in enumerate(self.recorder.steps):
            if number not in needed or not self._add(step):
                for value in step.before:
                    if value in self.values and value not in self.recorder.given:
                        self.whole[value] = None
        outputs = {f"output_{n}": self._value(value) for n, value in enumerate(results)}
        left = {f"whole_{n}": self.values[value] for n, value in enumerate(self.whole)}
        self.made.output(**{**outputs, **left})
        return self.made

    def _needed(self) -> set[int]:
        """The steps that use a parameter, or what comes of one: others are the same anywhere."""
        of_parameters = {value for value, name in self.recorder.given.items() if name}
        found: set[int] = set()
        for number, step in enumerate(self.recorder.steps):
            if not of_parameters.isdisjoint(step.before) and step.kind == "call":
                of_parameters.update(step.results)
                found.add(number)
        return found

    def _value(self, number: int) -> Value:
        found = self.values.get(number)
        if found is not None:
            return found
        seen = self.recorder.values[number].tensor
        name = self.recorder.given.get(number, "")
        parameters = dict(self.recorder.model.named_parameters())
        dtype = str(seen.dtype).removeprefix("torch.")
        if name in parameters:
            found = self.made.parameter(name, tuple(seen.shape), dtype)
        else:
            # Of what is given, what needs no gradient here needs none on ranks.
            gradient = self.recorder.values[number].gradient
            kind: Literal["input", "buffer"] = "input" if gradient else "buffer"
            found = self.made.input(
                f"given_{number}", tuple(seen.shape), dtype, kind=kind, target=f"given_{number}"
            )
        self.values[number] = found
        return found

    def _add(self, step: Step) -> bool:
        """Adds a call to the graph; returns whether that was possible."""
        from .follow import operator_for

        operator = operator_for(step.function)
        if operator is None or operator.mutates:
            return False
        known = {id(t): n for t, n in zip(_tensors(step), step.before, strict=True)}
        try:
            args = _replaced(step.args, known, self._value)
            kwargs = _replaced(dict(step.kwargs), known, self._value)
            made = self.made.call(operator.path, *args, **kwargs)
        except (DimsolveError, TypeError, ValueError, NotImplementedError):
            return False
        results = list(made) if isinstance(made, tuple | list) else [made]
        shapes = [tuple(self.recorder.values[n].tensor.shape) for n in step.results]
        if [getattr(value, "dims", None) for value in results] != shapes:
            return False
        node = results[0].producer
        node.module = step.at.module
        self.values.update(zip(step.results, results, strict=True))
        return True


def _tensors(step: Step) -> list[Tensor]:
    return list(tensors_in((step.args, step.kwargs)))


def _replaced(value: Any, known: Mapping[int, int], value_of: Any) -> Any:
    """Arguments with the graph's values in place of tensors."""
    match value:
        case Tensor():
            return value_of(known[id(value)])
        case list() | tuple():
            items = [_replaced(item, known, value_of) for item in value]
            return items if isinstance(value, list) else tuple(items)
        case dict():
            return {key: _replaced(item, known, value_of) for key, item in value.items()}
        case slice():
            ends = (value.start, value.stop, value.step)
            return slice(*(_replaced(item, known, value_of) for item in ends))
        case _:
            return value
