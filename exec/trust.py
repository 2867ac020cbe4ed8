"""Which functions a graph from outside may call.

A graph's JSON names functions by import path, and running the graph calls them. One that was read
from a file may name ``os.system``. So a graph that is read may call what is known to compute only
on tensors: the operators of the library, those registered in this process, torch's own tensor
functions. Everything else its reader must name.

    Graph.from_json(data)                                 GraphError: it calls my_ops.fused
    Graph.from_json(data, trust=("my_ops.fused",))        read
"""

from __future__ import annotations

from collections.abc import Collection, Iterator

from dimsolve.ir.errors import GraphError, Problem
from dimsolve.ir.graph import Argument, Constant, Graph, OperatorCall, map_argument
from dimsolve.solver.graphs.deduction import find_operator

from . import numpy_functions

TENSOR_MODULES = frozenset(
    {"torch.Tensor", "torch.nn.functional", "torch.special", "torch.linalg", "torch.fft"}
)
NUMPY = "dimsolve.exec.numpy_functions"
TENSOR_OPERATORS = ("torch.ops.aten.", "torch.ops.prims.")
FILES = frozenset({"from_file"})
"""Tensor functions of torch that open files."""


_NOT_TRUSTED = Problem(
    GraphError,
    "not-trusted",
    "the graph calls a function that is not known here",
    "running it would call {path}, which is neither registered nor torch's own",
    'if you trust it: Graph.from_json(data, trust=("{path}",))',
)
_PROMISE_NOT_TRUSTED = Problem(
    GraphError,
    "not-trusted",
    "the graph says itself what a function promises",
    "{path} is not registered here, so nothing but the graph's word vouches for it",
    'register it, or if you trust it: Graph.from_json(data, trust=("{path}",))',
)


def require_trust(graph: Graph, trust: Collection[str]) -> None:
    """Raises GraphError where the graph, or a function of its module, names something that is
    neither known nor trusted.
    """
    for path in sorted(set(_paths(graph))):
        if path not in trust and not _is_known(path):
            raise _NOT_TRUSTED(path=path)
    for path in sorted(set(_promised(graph))):
        if path not in trust and find_operator(path) is None:
            raise _PROMISE_NOT_TRUSTED(path=path)


def _paths(graph: Graph) -> Iterator[str]:
    for node in graph.nodes():
        if isinstance(node.operation, OperatorCall):
            yield node.operation.path
        yield from _constants((node.args, node.kwargs))
    yield from _constants(graph.returned())
    yield from [made.name for made in graph.objects.values() if made.kind == "constant"]
    for function in graph.functions.values():
        yield from _paths(function)


def _promised(graph: Graph) -> Iterator[str]:
    """The paths of which the graph itself says what they promise."""
    for node in graph.nodes():
        if node.declared is not None:
            yield node.signature
    for function in graph.functions.values():
        yield from _promised(function)


def _constants(argument: Argument) -> list[str]:
    found: list[str] = []

    def note(leaf: Argument) -> Argument:
        if isinstance(leaf, Constant):
            found.append(leaf.path)
        return leaf

    map_argument(argument, note)
    return found


def _is_known(path: str) -> bool:
    if path in ("builtins.Ellipsis", "torch.Size") or find_operator(path) is not None:
        return True
    if path.startswith(TENSOR_OPERATORS):
        return True
    home, _, name = path.rpartition(".")
    if name.startswith("_") or name in FILES:
        return False
    if home == NUMPY:
        return hasattr(numpy_functions, name)
    return _is_torch(name) if home == "torch" else home in TENSOR_MODULES and _is_in(home, name)


def _is_torch(name: str) -> bool:
    """A dtype, a layout, a memory format, or a function that torch has also as a method."""
    import torch

    found = getattr(torch, name, None)
    kinds = (torch.dtype, torch.layout, torch.memory_format)
    return isinstance(found, kinds) or hasattr(torch._C._VariableFunctions, name)


def _is_in(home: str, name: str) -> bool:
    """A function that the module itself defines, or has from torch's C++ part."""
    import torch

    module = {
        "torch.Tensor": torch._C.TensorBase,
        "torch.nn.functional": torch.nn.functional,
        "torch.special": torch.special,
        "torch.linalg": torch.linalg,
        "torch.fft": torch.fft,
    }[home]
    found = getattr(module, name, None)
    own = getattr(found, "__module__", None) in (home, None, "torch._C._nn", "torch._C")
    return callable(found) and not isinstance(found, type) and own
