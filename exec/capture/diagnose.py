"""Why a model's shapes contradict, in the model's own terms.

torch names two sizes and no tensors. So a call that failed is looked for once more: the model runs
on fake tensors, every torch function that it calls is added to a graph of our own, and where one
fails the graph says which values it was given, where they come from, and what its annotation asks.

    ShapeError: linear at model.py:12 (down): k has two lengths
      * k+, n k+, n -> * n
        ^~    ^~
      k = 32 (%relu dim 2), but k = 16 (%down.weight dim 1)
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from dimsolve.ir.errors import ShapeError
from dimsolve.ir.node import Argument, Node, OperatorCall, Value
from dimsolve.ir.types import Known, TensorType
from dimsolve.solver.algebra.poly import Dim
from dimsolve.solver.graphs.graph_problems import broken_condition
from dimsolve.solver.graphs.paths import path_of
from dimsolve.solver.graphs.read_argument import read_argument
from dimsolve.solver.graphs.sources import caller

from ..graph import Graph
from .confirm import dtype_of
from .dynamic import Leaf


class Watch:
    """Adds the torch functions that run to a graph. ``found`` is the error of the first that
    cannot.
    """

    def __init__(self, model: Any, leaves: Sequence[Leaf], tensors: Sequence[Any]) -> None:
        self.graph = Graph(getattr(model, "__name__", type(model).__name__))
        self.found: ShapeError | None = None
        self.values: dict[int, Value] = {}
        self.kept: list[Any] = list(tensors)
        self.modules = {id(m): n for n, m in _named(model, "named_modules")}
        for leaf, tensor in zip(leaves, tensors, strict=True):
            if hasattr(tensor, "dtype"):
                dims = [leaf.dims.get(i, int(s)) for i, s in enumerate(tensor.shape)]
                self._input(leaf.name, tensor, tuple(dims), "input")
        for name, tensor in _named(model, "named_parameters"):
            self._input(name, tensor, _sizes(tensor), "parameter")
        for name, tensor in _named(model, "named_buffers"):
            self._input(name, tensor, _sizes(tensor), "buffer")

    def _input(self, name: str, tensor: Any, dims: tuple[Dim, ...], kind: Any) -> None:
        type = TensorType(len(dims), dtype_of(tensor), Known(dims))
        value = self.graph.add_input(self.graph.fresh_name(name), type, kind, name)
        self.graph.propagation.note_symbols(type, f"the {kind} {name}")
        self.values[id(tensor)] = value

    def call(
        self, function: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]
    ) -> None:
        """Notes a call before it runs; raises ShapeError where our solver refutes it."""
        path = path_of(function)
        given = tuple(self._argument(argument) for argument in args)
        named = {name: self._argument(argument) for name, argument in kwargs.items()}
        node = Node("", OperatorCall(path), given, named, source=caller(), module=self._module())
        node.id = self.graph.fresh_name(node.name.strip("_"))
        self.graph.propagation.append(node)
        self._last = node

    def returned(self, result: Any) -> None:
        """Notes what the last call gave; a shape that we cannot tell is torch's."""
        items = result if isinstance(result, tuple | list) else (result,)
        for value, item in zip(self._last.outputs, items, strict=False):
            if hasattr(item, "dtype") and hasattr(item, "shape"):
                self.values[id(item)] = value
                self.kept.append(item)  # an id is a name as long as its object lives
                dims = value.dims
                if dims is None or None in dims or len(dims) != len(item.shape):
                    sizes = _sizes(item)
                    value.type = TensorType(len(sizes), dtype_of(item), Known(sizes))

    def _argument(self, argument: Any) -> Argument:
        if hasattr(argument, "dtype") and hasattr(argument, "shape"):
            if id(argument) not in self.values:
                self.kept.append(argument)
                self._input(
                    self.graph.fresh_name("constant"), argument, _sizes(argument), "constant"
                )
            return self.values[id(argument)]
        if isinstance(argument, tuple | list):
            return type(argument)(self._argument(item) for item in argument)
        return read_argument(argument)

    def _module(self) -> str:
        """The module whose forward runs, by the nearest frame that belongs to one."""
        frame = sys._getframe(2)
        while frame is not None:
            name = self.modules.get(id(frame.f_locals.get("self")))
            if name is not None:
                return name
            if frame.f_back is None:
                return ""
            frame = frame.f_back
        return ""


def diagnose(
    model: Callable[..., Any],
    leaves: Sequence[Leaf],
    tensors: Sequence[Any],
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
    sizes: Mapping[str, int],
) -> ShapeError | None:
    """Returns why a call of the model contradicts itself, or asks for other sizes than those of the
    call; None where our solver finds neither.
    """
    import torch
    from torch._subclasses.fake_tensor import FakeTensorMode
    from torch.overrides import TorchFunctionMode

    watch = Watch(model, leaves, tensors)

    class Mode(TorchFunctionMode):
        def __torch_function__(
            self, function: Any, types: Any, args: Any = (), kwargs: Any = None
        ) -> Any:
            if getattr(function, "__name__", "") == "__get__":
                return function(*args, **(kwargs or {}))
            watch.call(function, args, kwargs or {})
            result = function(*args, **(kwargs or {}))
            watch.returned(result)
            return result

    try:
        with torch.no_grad(), FakeTensorMode(allow_non_fake_inputs=True), Mode():
            model(*args, **kwargs)
    except ShapeError as error:
        return error
    except Exception:
        return _broken(watch.graph, sizes)
    return None


def _broken(graph: Graph, sizes: Mapping[str, int]) -> ShapeError | None:
    """The first condition of the calls so far that fails at these sizes."""
    for condition in graph.system.conditions:
        if condition.claim.symbols() <= sizes.keys() and condition.claim.test(sizes) is False:
            return broken_condition(condition, sizes)
    return None


def _sizes(tensor: Any) -> tuple[int, ...]:
    return tuple(int(size) for size in tensor.shape)


def _named(model: Any, method: str) -> list[tuple[str, Any]]:
    walk = getattr(model, method, None)
    return [] if walk is None else list(walk())
