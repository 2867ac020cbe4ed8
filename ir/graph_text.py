"""A graph as text: one line per node, each value with its type.

shape_example(%x: float32[n, m, 2]):
  %lv0: float32[n, m*2] = reshape(%x, (n, m*2))
  return %lv0
"""

from __future__ import annotations

from types import EllipsisType
from typing import Any

from .graph import Graph
from .node import (
    Argument,
    ExternalCall,
    FunctionCall,
    Input,
    MakeShape,
    MatchShape,
    Node,
    OperatorCall,
    Value,
)
from .types import dims_text


def graph_text(graph: Graph) -> str:
    """Returns the functions of the module, called ones first, then the graph itself."""
    written: dict[str, str] = {}
    _write(graph, written)
    return "\n\n".join(written.values())


def _write(graph: Graph, written: dict[str, str]) -> None:
    for function in graph.functions.values():
        if function.name not in written:
            _write(function, written)
    written[graph.name] = function_text(graph)


def function_text(graph: Graph) -> str:
    """Returns one function: its inputs, its nodes, its parameters last because they are many."""
    arguments = [entry for entry in graph.inputs if entry.kind in ("input", "size")]
    held = [entry for entry in graph.inputs if entry.kind not in ("input", "size")]
    head = ", ".join(_input_text(entry) for entry in arguments)
    lines = [f"{graph.name}({head}):"]
    lines += [f"  {entry.kind} {_input_text(entry)}{_target(entry)}" for entry in held]
    module = ""
    for node in graph.nodes():
        if node.module != module:
            module = node.module
            lines.append(f"  # {module}" if module else "  #")
        lines.append(f"  {node_text(node)}")
    lines.append(f"  return {argument_text(graph.result)}")
    return "\n".join(lines)


def _input_text(entry: Input) -> str:
    return f"%{entry.value.name}: {entry.value.type}"


def _target(entry: Input) -> str:
    return f" = {entry.target}" if entry.target != entry.value.name else ""


def node_text(node: Node) -> str:
    """Returns ``%y: float32[n] = exp(%x)``, with the annotation where there is one."""
    made = ", ".join(f"%{value.name}: {value.type}" for value in node.outputs)
    left = f"{made} = " if made else ""
    note = f"    # {node.annotation}" if node.annotation else ""
    return f"{left}{call_text(node)}{note}"


def call_text(node: Node) -> str:
    """Returns the call alone."""
    arguments = [argument_text(argument) for argument in node.args]
    arguments += [f"{name}={argument_text(argument)}" for name, argument in node.kwargs.items()]
    match node.operation:
        case OperatorCall(path):
            registered = node.name != path.rpartition(".")[2]
            return f"{node.name if registered else _short(path)}({', '.join(arguments)})"
        case FunctionCall(function, symbols):
            arguments += [f"{name}={dim}" for name, dim in symbols]
            return f"call {function}({', '.join(arguments)})"
        case ExternalCall(function):
            return f"external {function}({', '.join(arguments)})"
        case MatchShape(pattern):
            return f"match_shape({', '.join(arguments)}, {argument_text(pattern)})"
        case MakeShape(dims):
            return f"shape({dims_text(dims)})"


def _short(path: str) -> str:
    if path.startswith("torch.Tensor."):
        return path.removeprefix("torch.Tensor")
    return path.rpartition(".")[2]


def argument_text(argument: Argument) -> str:
    """Returns an argument tree as it would be written."""
    match argument:
        case Value():
            return f"%{argument.name}"
        case tuple():
            inner = ", ".join(map(argument_text, argument))
            return f"({inner},)" if len(argument) == 1 else f"({inner})"
        case list():
            return f"[{', '.join(map(argument_text, argument))}]"
        case dict():
            inner = ", ".join(f"{key}: {argument_text(item)}" for key, item in argument.items())
            return f"{{{inner}}}"
        case slice():
            return _slice_text(argument)
        case str():
            return repr(argument)
        case EllipsisType():
            return "..."
        case _:
            return str(argument)


def _slice_text(part: slice) -> str:
    def text(bound: Any) -> str:
        return "" if bound is None else argument_text(bound)

    step = f":{text(part.step)}" if part.step is not None else ""
    return f"{text(part.start)}:{text(part.stop)}{step}"
