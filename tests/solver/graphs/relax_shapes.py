"""Relax's operators that make tensors and change their shapes, as calls of torch functions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from dimsolve.exec.graph import Graph
from dimsolve.ir.graph import Value
from dimsolve.ir.types import ScalarType

from .relax_rows import Unsupported, call_of, need_tensor, row_dtype, row_sizes, row_spec


def _reshape(g: Graph, inputs: list[Any], attrs: dict[str, Any]) -> Any:
    if "spec" in attrs:
        words = [w.strip(" '\"") for w in attrs["spec"].strip("()").split(",") if w.strip()]
        sizes: Any = tuple(int(w) if w.lstrip("-").isdigit() else w for w in words)
    else:
        sizes = row_sizes(inputs[1])
    need_tensor(inputs[0])
    return g.call("torch.reshape", inputs[0], sizes)


def _broadcast_to(g: Graph, inputs: list[Any], attrs: dict[str, Any]) -> Any:
    sizes = ("m",) if "spec" in attrs else row_sizes(inputs[1])
    need_tensor(inputs[0])
    return g.call("torch.broadcast_to", inputs[0], sizes)


def _concat(g: Graph, inputs: list[Any], attrs: dict[str, Any]) -> Any:
    if "spec" in attrs:
        return g.call("torch.cat", inputs, row_spec(attrs["spec"])["axis"])
    tensors = inputs[0] if isinstance(inputs[0], list) else inputs
    for value in tensors:
        need_tensor(value)
    axis = attrs["axis"]
    return g.call("torch.cat", tensors, 0 if axis is None else axis)


def _split(g: Graph, inputs: list[Any], attrs: dict[str, Any]) -> Any:
    if "spec" in attrs:
        spec = row_spec(attrs["spec"])
        return g.call("torch.chunk", inputs[0], spec["sections"], spec["axis"])
    given = attrs["indices_or_sections"]
    need_tensor(inputs[0])
    if not given or given == "1":
        return g.call("torch.chunk", inputs[0], 1, attrs["axis"])[0]
    if given.startswith("("):
        cuts = tuple(int(word) for word in given.strip("()").split(",") if word.strip())
        return g.call("torch.tensor_split", inputs[0], cuts, attrs["axis"])
    return g.call("torch.chunk", inputs[0], int(given), attrs["axis"])


def _unsqueeze(g: Graph, inputs: list[Any], attrs: dict[str, Any]) -> Any:
    axes = [row_spec(attrs["spec"])["axis"]] if "spec" in attrs else attrs["axis"]
    value = inputs[0]
    need_tensor(value)
    if value.rank is None:
        if len(axes) > 1:
            raise Unsupported("several axes of a tensor of unknown rank at once")
        return g.call("torch.unsqueeze", value, axes[0]) if axes else value
    rank = value.rank + len(axes)
    if any(not -rank <= axis < rank for axis in axes) or len({a % rank for a in axes}) < len(axes):
        raise ValueError("no such axes")
    for axis in sorted(axis % rank for axis in axes):
        value = g.call("torch.unsqueeze", value, axis)
    return value


def _squeeze(g: Graph, inputs: list[Any], attrs: dict[str, Any]) -> Any:
    need_tensor(inputs[0])
    if "spec" in attrs:
        axes = () if attrs["spec"] == "all" else (row_spec(attrs["spec"])["axis"],)
    else:
        axes = tuple(attrs["axis"] or ())
        if attrs["axis"] == []:
            return inputs[0]
    return g.call("torch.squeeze", inputs[0], axes) if axes else g.call("torch.squeeze", inputs[0])


def _permute(g: Graph, inputs: list[Any], attrs: dict[str, Any]) -> Any:
    need_tensor(inputs[0])
    axes = (2, 0, 1) if "spec" in attrs else attrs["axes"]
    if axes is None:
        if inputs[0].rank is None:
            raise Unsupported("all axes of a tensor of unknown rank, reversed")
        axes = tuple(reversed(range(inputs[0].rank)))
    return g.call("torch.permute", inputs[0], tuple(axes))


def _take(g: Graph, inputs: list[Any], attrs: dict[str, Any]) -> Any:
    x, index = inputs
    need_tensor(x)
    axis = attrs["axis"]
    if isinstance(index, Value) and isinstance(index.type, ScalarType):
        raise Unsupported("an index that is a typed number")
    if axis is None:
        if x.rank not in (None, 1):
            raise ValueError("an axis is needed")
        axis = 0
    if axis < 0:
        if x.rank is None:
            raise Unsupported("an axis from the end of a tensor of unknown rank")
        axis += x.rank
    if index.dtype is not None and not index.dtype.startswith(("int", "uint")):
        raise TypeError("the indices are no whole numbers")
    return x[(*[slice(None)] * axis, index)]


def _slice(g: Graph, inputs: list[Any], attrs: dict[str, Any]) -> Any:
    need_tensor(inputs[0])
    if "spec" in attrs:
        if "assume_inbound" in attrs["spec"]:
            raise Unsupported("bounds that are taken to be inside")
        return inputs[0][(slice(0, 4),)]
    if attrs["assume_inbound"]:
        raise Unsupported("bounds that are taken to be inside")
    x, axes, begin, end, *more = inputs
    strides = more[0] if more else [1] * len(axes)
    if x.rank is None or not all(isinstance(p, list) for p in (axes, begin, end, strides)):
        raise Unsupported("axes by number need a rank")
    if any(not -x.rank <= axis < x.rank for axis in axes) or len(begin) != len(end):
        raise ValueError("no such axis")
    if any(s < 0 for s in strides):
        raise Unsupported("torch slices with positive steps only")
    parts: list[Any] = [slice(None)] * x.rank
    for axis, start, stop, step in zip(axes, begin, end, strides, strict=True):
        parts[axis] = slice(start, stop, step)
    return x[tuple(parts)]


def _full(g: Graph, inputs: list[Any], attrs: dict[str, Any]) -> Any:
    sizes, fill = row_sizes(inputs[0]), inputs[1]
    need_tensor(fill)
    if isinstance(fill, Value) and fill.rank not in (None, 0):
        raise ValueError("the value is no scalar")
    if fill.rank is None:
        raise Unsupported("torch.full takes a number, and a tensor of unknown rank may be none")
    if attrs.get("dtype") is None:
        return g.call("torch.Tensor.expand", fill, sizes)
    return g.call("torch.full", sizes, 1.0, **row_dtype(attrs))


def _ones(name: str) -> Callable[..., Any]:
    def call(g: Graph, inputs: list[Any], attrs: dict[str, Any]) -> Any:
        return g.call(f"torch.{name}", row_sizes(inputs[0]), **row_dtype(attrs))

    return call


def _like(name: str) -> Callable[..., Any]:
    def call(g: Graph, inputs: list[Any], attrs: dict[str, Any]) -> Any:
        need_tensor(inputs[0])
        return g.call(f"torch.{name}", inputs[0], **row_dtype(attrs))

    return call


def _full_like(g: Graph, inputs: list[Any], attrs: dict[str, Any]) -> Any:
    for value in inputs:
        need_tensor(value)
    if inputs[1].rank not in (None, 0):
        raise ValueError("the value is no scalar")
    return g.call("torch.full_like", inputs[0], 1.0, **row_dtype(attrs))


def _arange(g: Graph, inputs: list[Any], attrs: dict[str, Any]) -> Any:
    if any(isinstance(value, Value) for value in inputs):
        raise Unsupported("the row does not say what its typed numbers are called")
    return g.call("torch.arange", *inputs, **row_dtype(attrs))


def _eye(g: Graph, inputs: list[Any], attrs: dict[str, Any]) -> Any:
    if any(isinstance(value, Value) for value in inputs):
        raise Unsupported("the row does not say what its typed numbers are called")
    return g.call("torch.eye", inputs[0], inputs[1], **row_dtype(attrs))


def _stack(g: Graph, inputs: list[Any], attrs: dict[str, Any]) -> Any:
    return g.call("torch.stack", inputs, row_spec(attrs["spec"])["axis"])


def _repeat(g: Graph, inputs: list[Any], attrs: dict[str, Any]) -> Any:
    need_tensor(inputs[0])
    return g.call("torch.repeat_interleave", inputs[0], attrs["repeats"], attrs["axis"])


def _where(g: Graph, inputs: list[Any], attrs: dict[str, Any]) -> Any:
    for value in inputs:
        need_tensor(value)
    if inputs[0].dtype not in (None, "bool"):
        raise TypeError("the condition is not bool")
    return g.call("torch.where", *inputs)


def _scatter(g: Graph, inputs: list[Any], attrs: dict[str, Any]) -> Any:
    for value in inputs:
        need_tensor(value)
    x, index, source = inputs
    return g.call("torch.scatter", x, attrs["axis"], index, source)


def _gather(g: Graph, inputs: list[Any], attrs: dict[str, Any]) -> Any:
    for value in inputs:
        need_tensor(value)
    return g.call("torch.gather", inputs[0], attrs["axis"], inputs[1])


def _triangle(name: str) -> Callable[..., Any]:
    def call(g: Graph, inputs: list[Any], attrs: dict[str, Any]) -> Any:
        need_tensor(inputs[0])
        diagonal = inputs[1] if isinstance(inputs[1], int) else 0
        return g.call(f"torch.{name}", inputs[0], diagonal)

    return call


def _flatten(g: Graph, inputs: list[Any], attrs: dict[str, Any]) -> Any:
    need_tensor(inputs[0])
    return g.call("torch.flatten", inputs[0])


def _meshgrid(g: Graph, inputs: list[Any], attrs: dict[str, Any]) -> Any:
    return g.call("torch.meshgrid", *inputs[0], indexing=attrs["indexing"])


SHAPES: dict[str, Callable[..., Any]] = {
    "reshape": _reshape,
    "broadcast_to": _broadcast_to,
    "concat": _concat,
    "split": _split,
    "expand_dims": _unsqueeze,
    "squeeze": _squeeze,
    "permute_dims": _permute,
    "take": _take,
    "strided_slice": _slice,
    "full": _full,
    "full_like": _full_like,
    "ones": _ones("ones"),
    "zeros": _ones("zeros"),
    "ones_like": _like("ones_like"),
    "zeros_like": _like("zeros_like"),
    "arange": _arange,
    "eye": _eye,
    "tril": _triangle("tril"),
    "triu": _triangle("triu"),
    "where": _where,
    "stack": _stack,
    "repeat": _repeat,
    "tile": call_of("torch.tile", dims="repeats"),
    "flip": call_of("torch.flip", dims="axis"),
    "flatten": _flatten,
    "gather_elements": _gather,
    "scatter_elements": _scatter,
    "meshgrid": _meshgrid,
}
