"""What a recorded row of Relax gives to a call of torch: tensors, sizes, axes and dtypes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from dimsolve.exec.graph import Graph
from dimsolve.ir.graph import Constant, Value
from dimsolve.ir.types import ShapeType, TensorType


class Unsupported(Exception):
    """torch has no such call; the text is the reason."""


def need_tensor(value: Any) -> None:
    if isinstance(value, Value) and not isinstance(value.type, TensorType):
        raise TypeError(f"{value.type} is no tensor")


def call_of(path: str, *names: str, **renamed: str) -> Callable[..., Any]:
    """The torch function with the inputs in order and these attributes by name."""

    def call(g: Graph, inputs: list[Any], attrs: dict[str, Any]) -> Any:
        for value in inputs:
            need_tensor(value)
        kwargs = {name: attrs[name] for name in names if attrs.get(name) is not None}
        kwargs |= {new: attrs[old] for new, old in renamed.items() if attrs.get(old) is not None}
        return g.call(path, *inputs, **kwargs)

    return call


def row_dtype(attrs: dict[str, Any]) -> dict[str, Any]:
    name = attrs.get("dtype") or attrs.get("out_dtype")
    return {"dtype": Constant(f"torch.{name}")} if name else {}


def cast(g: Graph, value: Any, attrs: dict[str, Any]) -> Any:
    dtype = row_dtype(attrs)
    return g.call("torch.Tensor.to", value, dtype["dtype"]) if dtype else value


def row_sizes(value: Any) -> Any:
    """Sizes from a shape value, or from what the row calls a shape."""
    if isinstance(value, Value):
        if not isinstance(value.type, ShapeType):
            raise TypeError(f"{value.type} is no shape")
        return value
    return tuple(value)


def row_axis(attrs: dict[str, Any]) -> Any:
    axis = attrs.get("axis")
    return tuple(axis) if isinstance(axis, list) else axis


def row_spec(text: str) -> dict[str, Any]:
    """``"axis=0"`` and ``"k=2,ceil=False"`` as attributes."""
    found: dict[str, Any] = {}
    for part in text.split(","):
        key, _, value = part.partition("=")
        if value:
            found[key] = value == "True" if value in ("True", "False") else int(value)
    return found
