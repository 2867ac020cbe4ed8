"""What a model returned, with the graph's values in place of the stand-ins that it was given.

Where a stand-in is found in the result tells the output's name: ``logits`` of a model output, ``0``
of a tuple, ``hidden_states.3``, ``past_key_values.layers.0.keys``. Containers become dicts, lists
and tuples; so does an object of which torch knows nothing, by its attributes that hold tensors.

A length that a model returns has no stand-in: Python makes a new integer of it. `lengths_as_values`
hands such a model's lengths out as calls of `hand_out`, which stand for their argument.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from dimsolve.ir.node import Argument, Attachment, Value

from ..graph import Graph
from .capture import Capture
from .lengths import PLAIN


def set_result(
    graph: Graph,
    captured: Capture,
    values: tuple[Argument, ...],
    held: Callable[[Any], Value | None],
) -> None:
    """Says what the graph returns. ``values`` are those of the captured program's outputs, in
    order. held: the value of a parameter or a buffer.
    """
    known: dict[int, Any] = {id(s): v for s, v in zip(captured.stand_ins, values, strict=True)}
    for place, tensor in enumerate(captured.tensors):
        name = captured.leaves[place].name
        found = next((e.value for e in graph.inputs if e.target == name), None)
        if found is not None:
            known.setdefault(id(tensor), found)
    reading = _Reading(graph, known, held)
    result = reading.tree(captured.result, "")
    for number, value in enumerate(values):
        if isinstance(value, Value) and value not in reading.outputs.values():
            reading.outputs[f"output_{number}"] = value
    graph.set_result(result, reading.outputs)
    kind = captured.kind
    if kind.__module__ not in ("builtins", "torch") and isinstance(result, dict | tuple):
        graph.container = f"{kind.__module__}.{kind.__qualname__}"


class _Reading:
    """Reads one result. ``known``: what stands for a stand-in, by its id."""

    def __init__(
        self,
        graph: Graph,
        known: Mapping[int, Argument],
        held: Callable[[Any], Value | None],
    ) -> None:
        self.graph = graph
        self.held = held
        self.known = known
        self.outputs: dict[str, Value] = {}
        self.open: set[int] = set()

    def tree(self, result: Any, path: str) -> Argument:
        """Returns the result with values in place of stand-ins; their names are their places."""
        if id(result) in self.known and not isinstance(result, int | str):
            value = self.known[id(result)]
            if isinstance(value, Value):
                self.outputs.setdefault(path or "output", value)
            return value
        if isinstance(result, PLAIN):
            return result
        own = self.held(result)
        if own is not None:
            self.outputs.setdefault(path or "output", own)
            return own
        items = dict(_items(result))
        inner = {k: self.tree(item, f"{path}.{k}" if path else str(k)) for k, item in items.items()}
        if isinstance(result, Mapping) or dataclasses.is_dataclass(result):
            return inner
        if isinstance(result, list):
            return list(inner.values())
        if isinstance(result, tuple):
            return tuple(inner.values())
        return self._object(result, path)

    def _object(self, result: Any, path: str) -> Argument:
        """An object as a dict of its attributes that hold tensors; itself where none does."""
        found: dict[str, Argument] = {}
        self.open.add(id(result))
        for name, item in getattr(result, "__dict__", {}).items():
            if id(item) not in self.open and any(id(leaf) in self.known for leaf in _leaves(item)):
                found[name] = self.tree(item, f"{path}.{name}" if path else name)
        self.open.discard(id(result))
        if found:
            return found
        name = f"result_{len(self.graph.attachments)}"
        self.graph.attachments[name] = result
        return Attachment(name)


def _items(result: Any) -> Iterator[tuple[Any, Any]]:
    """The parts of a container, by name or place."""
    if isinstance(result, Mapping):
        yield from result.items()
    elif hasattr(result, "_fields"):
        yield from zip(result._fields, result, strict=True)
    elif isinstance(result, list | tuple):
        yield from enumerate(result)
    elif dataclasses.is_dataclass(result) and not isinstance(result, type):
        yield from ((f.name, getattr(result, f.name)) for f in dataclasses.fields(result))


def _leaves(result: Any, depth: int = 6) -> Iterator[Any]:
    """Everything inside of a result that is no container, and of objects their attributes."""
    if isinstance(result, PLAIN) or depth == 0:
        return
    yield result
    inside = [item for _, item in _items(result)] or list(getattr(result, "__dict__", {}).values())
    for item in inside:
        yield from _leaves(item, depth - 1)
