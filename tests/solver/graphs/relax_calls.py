"""Relax's operators as calls of torch functions, one line each: how a recorded row is built as a
graph.

A row that torch has no call for (another memory layout, an operator of Relax alone) is
`Unsupported`, with the reason.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from dimsolve.exec.graph import Graph
from dimsolve.ir.graph import Value
from dimsolve.ir.types import ScalarType, ShapeType, TensorType, Type
from dimsolve.solver.graphs.reading import read_type

from .relax_networks import NETWORKS
from .relax_rows import (
    Unsupported,
    call_of,
    cast,
    need_tensor,
    row_axis,
    row_dtype,
    row_sizes,
    row_spec,
)
from .relax_shapes import SHAPES


def build(graph: Graph, row: list[Any]) -> Any:
    """Returns the value, or values, of a row's call in a graph."""
    _, op, inputs, attrs, _ = row
    if op not in CALLS:
        raise Unsupported("an operator that torch does not have")
    values = [_input(graph, f"x{i}", given) for i, given in enumerate(inputs)]
    return CALLS[op](graph, values, attrs)


def _input(graph: Graph, name: str, given: Any) -> Any:
    if isinstance(given, dict):
        return given["value"]
    if isinstance(given, list):
        return [_input(graph, f"{name}_{i}", item) for i, item in enumerate(given)]
    type = read_type(given.replace("Max(", "max(").replace("Min(", "min("))
    if isinstance(type, ScalarType | ShapeType | TensorType):
        return graph.input(name, type)
    if hasattr(type, "fields"):
        return [graph.input(f"{name}_{i}", field) for i, field in enumerate(type.fields)]
    return graph.input(name, type)


def _reduction(name: str) -> Callable[..., Any]:
    def call(g: Graph, inputs: list[Any], attrs: dict[str, Any]) -> Any:
        need_tensor(inputs[0])
        keep = attrs.get("keepdims", False) or "keepdims" in attrs.get("spec", "")
        axis = row_spec(attrs["spec"]).get("axis") if "spec" in attrs else row_axis(attrs)
        if axis is None:
            if not keep:
                return g.call(f"torch.{name}", inputs[0])
            if inputs[0].rank is None:
                raise Unsupported("all axes of a tensor of unknown rank, kept")
            axis = tuple(range(inputs[0].rank))
        return g.call(f"torch.{name}", inputs[0], axis, keepdim=keep)

    return call


def _cumulative(name: str) -> Callable[..., Any]:
    def call(g: Graph, inputs: list[Any], attrs: dict[str, Any]) -> Any:
        need_tensor(inputs[0])
        value = inputs[0]
        if attrs["axis"] is None:
            value = g.call("torch.flatten", value)
        return g.call(f"torch.{name}", value, attrs["axis"] or 0, **row_dtype(attrs))

    return call


def _unique(g: Graph, inputs: list[Any], attrs: dict[str, Any]) -> Any:
    need_tensor(inputs[0])
    sorted_, index, inverse, counts, *axis = (v for v in inputs[1:])
    if index:
        raise Unsupported("torch.unique gives no first indices")
    if inputs[0].rank == 0:
        raise Unsupported("the unique values of a number: one, which torch does not say either")
    return g.call(
        "torch.unique",
        inputs[0],
        sorted=bool(sorted_),
        return_inverse=bool(inverse),
        return_counts=bool(counts),
        dim=axis[0] if axis else None,
    )


def _topk(g: Graph, inputs: list[Any], attrs: dict[str, Any]) -> Any:
    values, indices = g.call("torch.topk", inputs[0], attrs["k"], attrs["axis"])
    return values, cast(g, indices, attrs)


def _sort(g: Graph, inputs: list[Any], attrs: dict[str, Any]) -> Any:
    return g.call("torch.sort", inputs[0], attrs["axis"])[0]


def _argsort(g: Graph, inputs: list[Any], attrs: dict[str, Any]) -> Any:
    return cast(g, g.call("torch.argsort", inputs[0], attrs["axis"]), attrs)


def _matmul(g: Graph, inputs: list[Any], attrs: dict[str, Any]) -> Any:
    for value in inputs:
        need_tensor(value)
    return cast(g, g.call("torch.matmul", *inputs), attrs)


def _einsum(g: Graph, inputs: list[Any], attrs: dict[str, Any]) -> Any:
    return g.call("torch.einsum", attrs["subscripts"], *inputs[0])


def _sum_to(g: Graph, inputs: list[Any], attrs: dict[str, Any]) -> Any:
    need_tensor(inputs[0])
    return g.call("torch.Tensor.sum_to_size", inputs[0], row_sizes(inputs[1]))


def _binary(name: str) -> Callable[..., Any]:
    def call(g: Graph, inputs: list[Any], attrs: dict[str, Any]) -> Any:
        for value in inputs:
            if isinstance(value, Value) and not isinstance(value.type, TensorType | ScalarType):
                raise TypeError(f"{value.type} is no tensor")
        return g.call(f"torch.{name}", *inputs)

    return call


CALLS: dict[str, Callable[..., Any]] = {
    **SHAPES,
    **NETWORKS,
    **{
        relax: _binary(name)
        for relax, name in {
            "add": "add",
            "subtract": "subtract",
            "multiply": "multiply",
            "divide": "divide",
            "floor_divide": "floor_divide",
            "power": "pow",
            "mod": "fmod",
            "floor_mod": "remainder",
            "maximum": "maximum",
            "minimum": "minimum",
            "atan2": "atan2",
            "equal": "eq",
            "not_equal": "ne",
            "less_equal": "le",
            "greater": "gt",
            "greater_equal": "ge",
            "ewise_fma": "addcmul",
        }.items()
    },
    "argmax": _reduction("argmax"),
    "argmin": _reduction("argmin"),
    "sum": _reduction("sum"),
    "mean": _reduction("mean"),
    "max": _reduction("amax"),
    "min": _reduction("amin"),
    "std": _reduction("std"),
    "variance": _reduction("var"),
    "cumsum": _cumulative("cumsum"),
    "cumprod": _cumulative("cumprod"),
    "clip": call_of("torch.clip"),
    "unique": _unique,
    "nonzero": call_of("torch.nonzero"),
    "topk": _topk,
    "sort": _sort,
    "argsort": _argsort,
    "matmul": _matmul,
    "einsum": _einsum,
    "collapse_sum_to": _sum_to,
}


def type_of(result: Any) -> Type:
    """Returns the type of what a call gave."""
    from dimsolve.ir.types import TupleType

    if isinstance(result, tuple | list):
        return TupleType(tuple(type_of(item) for item in result))
    found: Type = result.type
    return found
