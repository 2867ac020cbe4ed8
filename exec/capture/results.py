"""What a model returned, with the graph's values in place of the stand-ins that it was given.

Where a stand-in is found in the result tells the output's name: ``logits`` of a model output, ``0``
of a tuple, ``hidden_states.3``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dimsolve.ir.node import Argument, Constant, Value

from ..graph import Graph
from .capture import Capture


def set_result(graph: Graph, captured: Capture, values: tuple[Argument, ...]) -> None:
    """Says what the graph returns. ``values`` are those of the captured program's outputs, in
    order.
    """
    known: dict[int, Any] = {id(s): v for s, v in zip(captured.stand_ins, values, strict=True)}
    for place, tensor in enumerate(captured.tensors):
        name = captured.leaves[place].name
        found = next((e.value for e in graph.inputs if e.target == name), None)
        if found is not None:
            known.setdefault(id(tensor), found)
    outputs: dict[str, Value] = {}
    result = _tree(captured.result, known, "", outputs)
    for number, value in enumerate(values):
        if isinstance(value, Value) and value not in outputs.values():
            outputs[f"output_{number}"] = value
    graph.set_result(result, outputs)
    kind = type(captured.result)
    if kind.__module__ not in ("builtins", "torch"):
        graph.container = f"{kind.__module__}.{kind.__qualname__}"


def _tree(
    result: Any, known: Mapping[int, Value], path: str, outputs: dict[str, Value]
) -> Argument:
    """What the model returned, with values in place of stand-ins; their names are their places."""
    if id(result) in known and not isinstance(result, int | str):
        value = known[id(result)]
        if isinstance(value, Value):
            outputs.setdefault(path or "output", value)
        return value

    def inner(key: Any, item: Any) -> Argument:
        return _tree(item, known, f"{path}.{key}" if path else str(key), outputs)

    if isinstance(result, Mapping):
        return {key: inner(key, item) for key, item in result.items()}
    fields = getattr(result, "_fields", None)
    if fields is not None:
        return tuple(inner(key, item) for key, item in zip(fields, result, strict=True))
    if isinstance(result, list):
        return [inner(i, item) for i, item in enumerate(result)]
    if isinstance(result, tuple):
        return tuple(inner(i, item) for i, item in enumerate(result))
    if result is None or isinstance(result, int | float | str):
        return result
    return Constant(f"{type(result).__module__}.{type(result).__qualname__}")
