"""What a registered operator promises for one call, as JSON: a graph that travels says it, because
where it is read the function may be unknown. Planning needs the promise and not the function.

    {"annotation": "m k+, k+ n -> m n", "inputs": [0, 1]}          mymm(%x, %w)
    {"annotation": "(h t) -> h t", "inputs": [0], "arguments": {"h": 8}, "sizes": {"h": "h"}}

Inputs are places in ``Node.operands()``. Whoever reads it takes it where nothing else is known of
the operator: what is registered there, or stands in the library, comes first.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields
from typing import Any, get_args

from .node import Node, OperatorCall
from .operator import Declaration, Operator, ReductionName
from .registry import operator_at
from .type_json import Json

RULES = "transform_rules"
_PLAIN = ("value_split", "reduction", "frozen", "linear", "mutates", "random", "fresh", "dtypes")
_RETURNS = ("tensor", "tuple", "nothing")
_USUAL = {
    field.name: field.default for field in fields(Declaration) if field.name in (*_PLAIN, "returns")
}


def promise_of(node: Node) -> Declaration | None:
    """Returns what is known of a call by registration alone: a reader elsewhere has only this."""
    if isinstance(node.operation, OperatorCall) and operator_at(node.operation.path) is not None:
        return node.declaration
    return node.told


def told_to_json(declaration: Declaration, write: Callable[[Any], Json]) -> Json:
    """Returns a declaration whose inputs have places as JSON; write: gives that of an argument."""
    data: dict[str, Json] = {
        "annotation": declaration.annotation,
        "inputs": list(declaration.places),
    }
    if declaration.arguments:
        data["arguments"] = {name: write(item) for name, item in declaration.arguments.items()}
    if declaration.sizes:
        data["sizes"] = dict(declaration.sizes)
    for name, usual in _USUAL.items():
        item = getattr(declaration, name)
        if item != usual:
            data[name] = _listed(item)
    if declaration.transform_rules:
        data[RULES] = [str(rule) for rule in declaration.transform_rules]
    return data


def told_from_json(data: Json, read: Callable[[Json], Any]) -> Declaration:
    """Returns the declaration, with places as inputs; ValueError for what is none.

    read: gives the argument that JSON says. The texts of transform rules stay texts: the rules are
    functions and did not come along.
    """
    places = tuple(data["inputs"])
    if not all(place is None or (type(place) is int and place >= 0) for place in places):
        raise ValueError(f"the inputs of a promise are places, and not {places!r:.80}")
    given = {name: _tupled(data[name]) for name in _USUAL if name in data}
    if given.get("reduction", "sum") not in get_args(ReductionName):
        raise ValueError(f"{given['reduction']!r:.80} joins no parts")
    if given.get("returns", "tensor") not in _RETURNS:
        raise ValueError(f"{given['returns']!r:.80} is nothing that a call returns")
    return Declaration(
        annotation=str(data["annotation"]),
        inputs=places,
        arguments={name: read(item) for name, item in data.get("arguments", {}).items()},
        sizes={name: str(row) for name, row in data.get("sizes", {}).items()},
        transform_rules=tuple(map(str, data.get(RULES, ()))),
        places=places,
        **given,
    )


def operator_of_told(path: str, told: Declaration, at: Callable[[Any], Any]) -> Operator:
    """Returns an operator that promises what a graph says of one call.

    at: gives the values of a call's arguments ``(args, kwargs)`` by place.
    """

    def declare(*args: Any, **kwargs: Any) -> Declaration:
        values = at((args, kwargs))
        inputs = [None if place is None else values[place] for place in told.places]
        made = {field.name: getattr(told, field.name) for field in fields(told)}
        return Declaration(**{**made, "inputs": tuple(inputs), RULES: ()})

    return Operator(name=path.rpartition(".")[2], path=path, declare=declare)


def _listed(item: Any) -> Json:
    return [_listed(part) for part in item] if isinstance(item, tuple) else item


def _tupled(item: Json) -> Any:
    return tuple([_tupled(part) for part in item]) if isinstance(item, list) else item
