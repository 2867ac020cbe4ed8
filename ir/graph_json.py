"""A graph as JSON, there and back: versioned, deterministic, and read without importing anything.

    {"version": 1, "name": "main", "inputs": [...], "nodes": [...], "result": {"value": "lv1"}, ...}

A dimension is text in the dimension language. Reading one is the solver's business, so
`graph_from_json` is given a reader. A graph with regions that are run again in the backward pass is
of version 2, which a reader of version 1 refuses: it would run the graph without them.

A graph that travels says what a registered operator promises for each call, because where it is
read the function may be unknown, and planning needs the promise and not the function:

    {"annotation": "m k+, k+ n -> m n", "inputs": [0, 1]}          mymm(%x, %w)
    {"annotation": "(h t) -> h t", "inputs": [0], "arguments": {"h": 8}, "sizes": {"h": "h"}}

Inputs are places in ``Node.operands()``. The reader uses a promise where nothing else is known of
the operator: what is registered there, or stands in the library, comes first.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields
from math import isfinite
from types import EllipsisType
from typing import Any, TypeVar, get_args, get_type_hints

from .errors import GraphError, Problem
from .graph import (
    Argument,
    Attachment,
    Constant,
    Device,
    ExternalCall,
    FunctionCall,
    Graph,
    Input,
    InputKind,
    Left,
    Made,
    MakeShape,
    MatchShape,
    Node,
    Operation,
    OperatorCall,
    Place,
    Region,
    Source,
    Value,
)
from .operator import Declaration, Operator, ReductionName, operator_at
from .strict_json import require_shallow
from .types import Json, ReadDim, TypeReader, dims_to_json, type_to_json

RULES = "transform_rules"
_PLAIN = (
    "value_split",
    "reduction",
    "frozen",
    "linear",
    "mutates",
    "separate",
    "random",
    "fresh",
    "dtypes",
)
_RETURNS = ("tensor", "tuple", "nothing")
_USUAL = {
    field.name: field.default for field in fields(Declaration) if field.name in (*_PLAIN, "returns")
}


def promise_of(node: Node) -> Declaration | None:
    """Returns what is known of a call by registration alone: a reader elsewhere has only this."""
    if isinstance(node.operation, OperatorCall) and operator_at(node.operation.path) is not None:
        return node.declaration
    return node.declared


def declaration_to_json(declaration: Declaration, write: Callable[[Any], Json]) -> Json:
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


def declaration_from_json(data: Json, read: Callable[[Json], Any]) -> Declaration:
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


def operator_of_declaration(path: str, declared: Declaration, at: Callable[[Any], Any]) -> Operator:
    """Returns an operator that promises what a graph says of one call.

    at: gives the values of a call's arguments ``(args, kwargs)`` by place.
    """

    def declare(*args: Any, **kwargs: Any) -> Declaration:
        values = at((args, kwargs))
        inputs = [None if place is None else values[place] for place in declared.places]
        made = {field.name: getattr(declared, field.name) for field in fields(declared)}
        return Declaration(**{**made, "inputs": tuple(inputs), RULES: ()})

    return Operator(name=path.rpartition(".")[2], path=path, declare=declare)


def _listed(item: Any) -> Json:
    return [_listed(part) for part in item] if isinstance(item, tuple) else item


def _tupled(item: Json) -> Any:
    return tuple([_tupled(part) for part in item]) if isinstance(item, list) else item


_UNREADABLE = Problem(GraphError, "unreadable-graph", "this is not a graph", "{reason}")
VERSIONS = (1, 2)
ELLIPSIS = "builtins.Ellipsis"
AnyGraph = TypeVar("AnyGraph", bound=Graph)


def graph_to_json(graph: Graph) -> dict[str, Json]:
    """Returns the graph as JSON data."""
    return {"version": 2 if _is_of_version_2(graph) else 1, **_function_to_json(graph)}


def _is_of_version_2(graph: Graph) -> bool:
    """Whether it has what readers of version 1 do not know of: regions, objects of classes."""
    own = bool(graph.regions or graph.objects or graph.left)
    return own or any(map(_is_of_version_2, graph.functions.values()))


def _function_to_json(graph: Graph) -> dict[str, Json]:
    regions = [_region_to_json(region) for region in graph.regions.values()]
    return {
        "name": graph.name,
        **({"regions": regions} if regions else {}),
        "inputs": [_input_to_json(entry) for entry in graph.inputs],
        "nodes": [_node_to_json(node) for node in graph.nodes()],
        "result": _argument_to_json(graph.result),
        "outputs": {name: value.name for name, value in graph.outputs.items()},
        "container": graph.container,
        **_objects_to_json(graph),
        "facts": list(graph.facts),
        "checks": [list(check) for check in graph.checks],
        "strict": graph.strict,
        "settings": {
            name: _argument_to_json(item)
            for name, item in graph.settings.items()
            if _is_plain(item)
        },
        "functions": [_function_to_json(function) for function in graph.functions.values()],
        **({"autocast": dict(graph.autocast)} if graph.autocast else {}),
        **({"dtype_reads": dict(graph.dtype_reads)} if graph.dtype_reads else {}),
    }


def _objects_to_json(graph: Graph) -> dict[str, Json]:
    """The classes of what is returned, and what is left of objects that were given; nothing for a
    graph that has neither.
    """
    data: dict[str, Json] = {}
    if graph.objects:
        data["objects"] = [
            [list(place), made.kind, made.name, list(made.place)]
            for place, made in graph.objects.items()
        ]
    if graph.left:
        data["left"] = [
            [
                list(place),
                [[key, _argument_to_json(item)] for key, item in left.parts.items()],
                list(left.removed),
            ]
            for place, left in graph.left.items()
        ]
    return data


def _input_to_json(entry: Input) -> Json:
    return {
        "name": entry.value.name,
        "type": type_to_json(entry.value.type),
        "kind": entry.kind,
        "target": entry.target,
    }


def _region_to_json(region: Region) -> Json:
    return {field.name: getattr(region, field.name) for field in fields(region)}


def _node_to_json(node: Node) -> Json:
    data: dict[str, Json] = {
        "id": node.id,
        **_operation_to_json(node.operation),
        "args": [_argument_to_json(argument) for argument in node.args],
    }
    if node.kwargs:
        data["kwargs"] = {key: _argument_to_json(item) for key, item in node.kwargs.items()}
    if node.name != node.signature.rpartition(".")[2]:
        data["name"] = node.name
    if node.several:
        data["several"] = True
    if node.module:
        data["module"] = node.module
    if node.region:
        data["region"] = node.region
    if node.order:
        data["order"] = list(node.order)
    if node.source is not None:
        data["source"] = [node.source.file, node.source.line, node.source.code]
    promise = promise_of(node)
    if promise is not None:
        data["promise"] = declaration_to_json(promise, _argument_to_json)
    data["outputs"] = [
        {"name": value.name, "type": type_to_json(value.type)} for value in node.outputs
    ]
    return data


def _operation_to_json(operation: Operation) -> dict[str, Json]:
    match operation:
        case OperatorCall(path):
            return {"operator": path}
        case FunctionCall(function, symbols):
            return {"function": function, "symbols": {name: str(dim) for name, dim in symbols}}
        case ExternalCall(function, result):
            return {"external": function, "type": type_to_json(result)}
        case MatchShape(pattern):
            return {"match_shape": dims_to_json(pattern)}
        case MakeShape(dims):
            return {"shape": dims_to_json(dims)}


def _argument_to_json(argument: Argument) -> Json:
    match argument:
        case None | bool() | int() | str():
            return argument
        case float():
            return argument if isfinite(argument) else {"float": str(argument)}
        case Value():
            return {"value": argument.name}
        case EllipsisType():
            return {"constant": ELLIPSIS}
        case Constant(path):
            return {"constant": path}
        case Device(name):
            return {"device": name}
        case Attachment(name):
            return {"attachment": name}
        case tuple():
            return {"tuple": [_argument_to_json(item) for item in argument]}
        case list():
            return [_argument_to_json(item) for item in argument]
        case dict() if all(isinstance(key, str) for key in argument):
            return {"dict": {key: _argument_to_json(item) for key, item in argument.items()}}
        case dict():
            return {"items": [[key, _argument_to_json(item)] for key, item in argument.items()]}
        case slice():
            bounds = (argument.start, argument.stop, argument.step)
            return {"slice": [_argument_to_json(bound) for bound in bounds]}
        case complex():
            return {"complex": [argument.real, argument.imag]}
        case _:
            return {"dim": str(argument)}


def graph_from_json(data: Json, read_dim: ReadDim, make: Callable[[str], AnyGraph]) -> AnyGraph:
    """Returns the graph that the data describe; GraphError where they describe none.

    read_dim reads dimension text. make makes an empty graph of a name.
    """
    version = data.get("version") if isinstance(data, dict) else type(data).__name__
    if not isinstance(data, dict) or type(version) is not int or version not in VERSIONS:
        known = " and ".join(map(str, VERSIONS))
        raise _UNREADABLE(reason=f"this reader knows versions {known}, the data say {version!r}")
    reader = _Reader(read_dim, version)
    try:
        require_shallow(data)
        return reader.function(data, make)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise _UNREADABLE(reason=f"{reader.place()}: {_reason(error)}") from error


def _reason(error: Exception) -> str:
    """What is wrong with the data, in words."""
    match error:
        case KeyError():
            return f"{error} is missing"
        case ValueError():
            return str(error)
        case _:
            return f"the data have another form than a graph's ({error})"


def _is_plain(item: object) -> bool:
    """Whether JSON holds the value as it is."""
    return item is None or isinstance(item, bool | int | str | Constant | Device)


class _Reader(TypeReader):
    """Reads the parts of a graph; ``values`` are those of the function that is being read."""

    def __init__(self, read_dim: ReadDim, version: int) -> None:
        super().__init__(read_dim)
        self.version = version
        self.values: dict[str, Value] = {}
        self.where: list[str] = []

    def place(self) -> str:
        """Returns where in the data the reader stands: ``main, node exp``."""
        return ", ".join(self.where) or "the data"

    def function(self, data: Json, make: Callable[[str], AnyGraph]) -> AnyGraph:
        graph = make(_name(data["name"]))
        self.where.append(graph.name)
        for function in data["functions"]:
            graph.functions[function["name"]] = self.function(function, make)
        self.values = graph.values
        for number, entry in enumerate(data.get("regions", ())):
            self.where.append(f"region {number}")
            graph.add_region(self.region(entry))
            self.where.pop()
        for number, entry in enumerate(data["inputs"]):
            self.where.append(f"input {number}")
            self.input(graph, entry)
            self.where.pop()
        for number, entry in enumerate(data["nodes"]):
            self.where.append(f"node {number}")
            self.node(graph, entry)
            self.where.pop()
        self.where.append("the result")
        outputs = {name: self.value(value) for name, value in data["outputs"].items()}
        graph.set_result(self.argument(data["result"]), outputs)
        self.where.pop()
        graph.container = data["container"]
        graph.facts = list(data["facts"])
        graph.checks = [(claim, origin) for claim, origin in data["checks"]]
        graph.strict = data["strict"]
        graph.settings = {name: self.argument(item) for name, item in data["settings"].items()}
        autocast = data.get("autocast", {}).items()
        graph.autocast = {_name(kind): _name(dtype) for kind, dtype in autocast}
        reads = data.get("dtype_reads", {}).items()
        graph.dtype_reads = {_name(state): _name(line) for state, line in reads}
        self.where.append("the objects")
        self.objects(graph, data)
        self.where.pop()
        graph.verify()
        self.where.pop()
        return graph

    def objects(self, graph: Graph, data: Json) -> None:
        """Reads what is left of arguments, and which places are objects of classes; ValueError for
        what is none, and in data of version 1.
        """
        if self.version == 1 and ("objects" in data or "left" in data):
            raise ValueError("a graph of version 1 returns no objects")
        for place, kind, name, other in data.get("objects", ()):
            if kind not in get_args(get_type_hints(Made)["kind"]):
                raise ValueError(f"what is returned is no {kind!r:.80}")
            graph.objects[_place(place)] = Made(kind, str(name), _place(other))
        for place, parts, removed in data.get("left", ()):
            items = {_key(key): self.argument(item) for key, item in parts}
            graph.left[_place(place)] = Left(items, _place(removed))

    def input(self, graph: Graph, data: Json) -> None:
        kind = data["kind"]
        if kind not in get_args(InputKind):
            raise ValueError(f"an input is {', '.join(get_args(InputKind))}, and not {kind!r:.80}")
        graph.add_input(_name(data["name"]), self.type(data["type"]), kind, _name(data["target"]))

    def region(self, data: Json) -> Region:
        """Returns a region; ValueError for what is none, and in data of version 1."""
        if self.version == 1:
            raise ValueError("a graph of version 1 has no regions")
        known = {field.name: field.default for field in fields(Region)}
        for name, item in data.items():
            if name not in known:
                raise ValueError(f"a region has no {name!r:.80}")
            if isinstance(known[name], bool) and not isinstance(item, bool):
                raise ValueError(f"{name} is true or false, and not {item!r:.80}")
        region = Region(**{**data, "name": _name(data["name"])})
        if not isinstance(region.within, str):
            raise ValueError(f"{region.within!r:.80} is no name")
        if region.determinism_check not in ("default", "none"):
            said = f"{region.determinism_check!r:.80}"
            raise ValueError(f"determinism_check is 'default' or 'none', and not {said}")
        return region

    def value(self, name: Json) -> Value:
        """Returns the value of a name; ValueError where none has been made before."""
        if _name(name) not in self.values:
            raise ValueError(f"%{name:.80} is made by nothing before")
        return self.values[name]

    def node(self, graph: Graph, data: Json) -> None:
        source, promise = data.get("source"), data.get("promise")
        node = Node(
            _name(data["id"]),
            self.operation(data),
            tuple(self.argument(item) for item in data["args"]),
            {key: self.argument(item) for key, item in data.get("kwargs", {}).items()},
            several=data.get("several", False),
            source=None if source is None else Source(*source),
            module=data.get("module", ""),
            name=data.get("name", ""),
            declared=declaration_from_json(promise, self.argument) if promise is not None else None,
            region="" if data.get("region") is None else _name(data["region"]),
            order=tuple(_index(item) for item in data.get("order", ())),
        )
        types = tuple(self.type(output["type"]) for output in data["outputs"])
        graph.add_node(node, types, tuple(_name(output["name"]) for output in data["outputs"]))

    def operation(self, data: Json) -> Operation:
        match data:
            case {"operator": path}:
                return OperatorCall(path)
            case {"function": function, "symbols": symbols}:
                return FunctionCall(function, tuple((n, self.dim(d)) for n, d in symbols.items()))
            case {"external": function, "type": result}:
                return ExternalCall(function, self.type(result))
            case {"match_shape": pattern}:
                return MatchShape(self.dims(pattern))
            case {"shape": dims}:
                return MakeShape(self.dims(dims))
        raise ValueError(f"node {data['id']} calls nothing")

    def argument(self, data: Json) -> Argument:
        match data:
            case {"value": name}:
                return self.value(name)
            case {"constant": path} if path == ELLIPSIS:
                return ...
            case {"constant": path}:
                return Constant(path)
            case {"device": name}:
                return Device(name)
            case {"attachment": name}:
                return Attachment(name)
            case {"tuple": items}:
                return tuple(self.argument(item) for item in items)
            case list():
                return [self.argument(item) for item in data]
            case {"dict": items}:
                return {key: self.argument(item) for key, item in items.items()}
            case {"items": items}:
                return {_key(key): self.argument(item) for key, item in items}
            case {"slice": bounds}:
                return slice(*[self.argument(bound) for bound in bounds])
            case {"dim": text}:
                return self.read_dim(text)
            case {"float": text}:
                return float(text)
            case {"complex": [real, imaginary]}:
                return complex(real, imaginary)
            case None | bool() | int() | float() | str():
                return data
        raise ValueError(f"{data!r:.80} is no argument")


def _name(data: Json) -> str:
    """A name; ValueError for what is none."""
    if not isinstance(data, str) or not data:
        raise ValueError(f"{data!r:.80} is no name")
    return data


def _index(data: Json) -> int:
    if type(data) is not int or data < 0:
        raise ValueError(f"{data!r:.40} is no number of a dimension")
    return data


def _place(data: Json) -> Place:
    """A place; ValueError for what is none."""
    if not isinstance(data, list):
        raise ValueError(f"{data!r:.80} is no place")
    return tuple([_key(key) for key in data])


def _key(data: Json) -> str | int:
    if not isinstance(data, str | int):
        raise ValueError(f"{data!r:.80} is no key")
    return data
