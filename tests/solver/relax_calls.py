"""Relax's operators as calls of torch functions, one line each: how a recorded row is built as a
graph.

A row that torch has no call for (another memory layout, an operator of Relax alone) is
`Unsupported`, with the reason.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from dimsolve.exec.graph import Graph
from dimsolve.ir.node import Constant, Value
from dimsolve.ir.types import ScalarType, ShapeType, TensorType, Type
from dimsolve.solver.graphs.read_type import read_type


class Unsupported(Exception):
    """torch has no such call; the text is the reason."""


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


def _need_tensor(value: Any) -> None:
    if isinstance(value, Value) and not isinstance(value.type, TensorType):
        raise TypeError(f"{value.type} is no tensor")


def _plain(path: str, *names: str, **renamed: str) -> Callable[..., Any]:
    """The torch function with the inputs in order and these attributes by name."""

    def call(g: Graph, inputs: list[Any], attrs: dict[str, Any]) -> Any:
        for value in inputs:
            _need_tensor(value)
        kwargs = {name: attrs[name] for name in names if attrs.get(name) is not None}
        kwargs |= {new: attrs[old] for new, old in renamed.items() if attrs.get(old) is not None}
        return g.call(path, *inputs, **kwargs)

    return call


def _dtype(attrs: dict[str, Any]) -> dict[str, Any]:
    name = attrs.get("dtype") or attrs.get("out_dtype")
    return {"dtype": Constant(f"torch.{name}")} if name else {}


def _cast(g: Graph, value: Any, attrs: dict[str, Any]) -> Any:
    dtype = _dtype(attrs)
    return g.call("torch.Tensor.to", value, dtype["dtype"]) if dtype else value


def _sizes(value: Any) -> Any:
    """Sizes from a shape value, or from what the row calls a shape."""
    if isinstance(value, Value):
        if not isinstance(value.type, ShapeType):
            raise TypeError(f"{value.type} is no shape")
        return value
    return tuple(value)


def _axis(attrs: dict[str, Any]) -> Any:
    axis = attrs.get("axis")
    return tuple(axis) if isinstance(axis, list) else axis


def _spec(text: str) -> dict[str, Any]:
    """``"axis=0"`` and ``"k=2,ceil=False"`` as attributes."""
    found: dict[str, Any] = {}
    for part in text.split(","):
        key, _, value = part.partition("=")
        if value:
            found[key] = value == "True" if value in ("True", "False") else int(value)
    return found


def _reshape(g: Graph, inputs: list[Any], attrs: dict[str, Any]) -> Any:
    if "spec" in attrs:
        words = [w.strip(" '\"") for w in attrs["spec"].strip("()").split(",") if w.strip()]
        sizes: Any = tuple(int(w) if w.lstrip("-").isdigit() else w for w in words)
    else:
        sizes = _sizes(inputs[1])
    _need_tensor(inputs[0])
    return g.call("torch.reshape", inputs[0], sizes)


def _broadcast_to(g: Graph, inputs: list[Any], attrs: dict[str, Any]) -> Any:
    sizes = ("m",) if "spec" in attrs else _sizes(inputs[1])
    _need_tensor(inputs[0])
    return g.call("torch.broadcast_to", inputs[0], sizes)


def _concat(g: Graph, inputs: list[Any], attrs: dict[str, Any]) -> Any:
    if "spec" in attrs:
        return g.call("torch.cat", inputs, _spec(attrs["spec"])["axis"])
    tensors = inputs[0] if isinstance(inputs[0], list) else inputs
    for value in tensors:
        _need_tensor(value)
    axis = attrs["axis"]
    return g.call("torch.cat", tensors, 0 if axis is None else axis)


def _split(g: Graph, inputs: list[Any], attrs: dict[str, Any]) -> Any:
    if "spec" in attrs:
        spec = _spec(attrs["spec"])
        return g.call("torch.chunk", inputs[0], spec["sections"], spec["axis"])
    given = attrs["indices_or_sections"]
    _need_tensor(inputs[0])
    if not given or given == "1":
        return g.call("torch.chunk", inputs[0], 1, attrs["axis"])[0]
    if given.startswith("("):
        cuts = tuple(int(word) for word in given.strip("()").split(",") if word.strip())
        return g.call("torch.tensor_split", inputs[0], cuts, attrs["axis"])
    return g.call("torch.chunk", inputs[0], int(given), attrs["axis"])


def _unsqueeze(g: Graph, inputs: list[Any], attrs: dict[str, Any]) -> Any:
    axes = [_spec(attrs["spec"])["axis"]] if "spec" in attrs else attrs["axis"]
    value = inputs[0]
    _need_tensor(value)
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
    _need_tensor(inputs[0])
    if "spec" in attrs:
        axes = () if attrs["spec"] == "all" else (_spec(attrs["spec"])["axis"],)
    else:
        axes = tuple(attrs["axis"] or ())
        if attrs["axis"] == []:
            return inputs[0]
    return g.call("torch.squeeze", inputs[0], axes) if axes else g.call("torch.squeeze", inputs[0])


def _permute(g: Graph, inputs: list[Any], attrs: dict[str, Any]) -> Any:
    _need_tensor(inputs[0])
    axes = (2, 0, 1) if "spec" in attrs else attrs["axes"]
    if axes is None:
        if inputs[0].rank is None:
            raise Unsupported("all axes of a tensor of unknown rank, reversed")
        axes = tuple(reversed(range(inputs[0].rank)))
    return g.call("torch.permute", inputs[0], tuple(axes))


def _take(g: Graph, inputs: list[Any], attrs: dict[str, Any]) -> Any:
    x, index = inputs
    _need_tensor(x)
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
    _need_tensor(inputs[0])
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
    sizes, fill = _sizes(inputs[0]), inputs[1]
    _need_tensor(fill)
    if isinstance(fill, Value) and fill.rank not in (None, 0):
        raise ValueError("the value is no scalar")
    if fill.rank is None:
        raise Unsupported("torch.full takes a number, and a tensor of unknown rank may be none")
    if attrs.get("dtype") is None:
        return g.call("torch.Tensor.expand", fill, sizes)
    return g.call("torch.full", sizes, 1.0, **_dtype(attrs))


def _ones(name: str) -> Callable[..., Any]:
    def call(g: Graph, inputs: list[Any], attrs: dict[str, Any]) -> Any:
        return g.call(f"torch.{name}", _sizes(inputs[0]), **_dtype(attrs))

    return call


def _like(name: str) -> Callable[..., Any]:
    def call(g: Graph, inputs: list[Any], attrs: dict[str, Any]) -> Any:
        _need_tensor(inputs[0])
        return g.call(f"torch.{name}", inputs[0], **_dtype(attrs))

    return call


def _full_like(g: Graph, inputs: list[Any], attrs: dict[str, Any]) -> Any:
    for value in inputs:
        _need_tensor(value)
    if inputs[1].rank not in (None, 0):
        raise ValueError("the value is no scalar")
    return g.call("torch.full_like", inputs[0], 1.0, **_dtype(attrs))


def _arange(g: Graph, inputs: list[Any], attrs: dict[str, Any]) -> Any:
    if any(isinstance(value, Value) for value in inputs):
        raise Unsupported("the row does not say what its typed numbers are called")
    return g.call("torch.arange", *inputs, **_dtype(attrs))


def _eye(g: Graph, inputs: list[Any], attrs: dict[str, Any]) -> Any:
    if any(isinstance(value, Value) for value in inputs):
        raise Unsupported("the row does not say what its typed numbers are called")
    return g.call("torch.eye", inputs[0], inputs[1], **_dtype(attrs))


def _reduction(name: str) -> Callable[..., Any]:
    def call(g: Graph, inputs: list[Any], attrs: dict[str, Any]) -> Any:
        _need_tensor(inputs[0])
        keep = attrs.get("keepdims", False) or "keepdims" in attrs.get("spec", "")
        axis = _spec(attrs["spec"]).get("axis") if "spec" in attrs else _axis(attrs)
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
        _need_tensor(inputs[0])
        value = inputs[0]
        if attrs["axis"] is None:
            value = g.call("torch.flatten", value)
        return g.call(f"torch.{name}", value, attrs["axis"] or 0, **_dtype(attrs))

    return call


def _softmax(name: str) -> Callable[..., Any]:
    def call(g: Graph, inputs: list[Any], attrs: dict[str, Any]) -> Any:
        _need_tensor(inputs[0])
        dtype = inputs[0].dtype
        if dtype is not None and not dtype.startswith(("float", "bfloat")):
            raise TypeError("softmax is of real numbers")
        return g.call(f"torch.nn.functional.{name}", inputs[0], attrs["axis"])

    return call


def _layout(attrs: dict[str, Any], *wanted: tuple[str, str]) -> None:
    for name, layout in wanted:
        if attrs.get(name) not in (None, layout):
            raise Unsupported("a layout other than torch's")


def _padded(g: Graph, x: Value, padding: list[int], dims: int) -> tuple[Value, Any]:
    """Relax pads each side on its own, before first; torch's convolution pads both sides alike."""
    before, after = padding[:dims], padding[dims:]
    if before == after:
        return x, before
    pads = [side for b, a in zip(reversed(before), reversed(after), strict=True) for side in (b, a)]
    return g.call("torch.nn.functional.pad", x, pads), [0] * dims


_SPATIAL = {1: "W", 2: "HW", 3: "DHW"}


def _conv(dims: int) -> Callable[..., Any]:
    def call(g: Graph, inputs: list[Any], attrs: dict[str, Any]) -> Any:
        for value in inputs:
            _need_tensor(value)
        space = _SPATIAL[dims]
        _layout(attrs, ("data_layout", f"NC{space}"), ("kernel_layout", f"OI{space}"))
        _layout(attrs, ("out_layout", f"NC{space}"))
        x, padding = _padded(g, inputs[0], attrs["padding"], dims)
        options = {"stride": attrs["strides"], "dilation": attrs["dilation"]}
        result = g.call(
            f"torch.nn.functional.conv{dims}d",
            x,
            inputs[1],
            padding=padding,
            groups=attrs["groups"],
            **options,
        )
        return _cast(g, result, attrs)

    return call


def _conv_transpose(dims: int) -> Callable[..., Any]:
    def call(g: Graph, inputs: list[Any], attrs: dict[str, Any]) -> Any:
        for value in inputs:
            _need_tensor(value)
        space = _SPATIAL[dims]
        _layout(attrs, ("data_layout", f"NC{space}"), ("kernel_layout", f"IO{space}"))
        _layout(attrs, ("out_layout", f"NC{space}"))
        padding = attrs["padding"]
        if padding[:dims] != padding[dims:]:
            raise Unsupported("a transposed convolution with unequal padding")
        result = g.call(
            f"torch.nn.functional.conv_transpose{dims}d",
            *inputs,
            stride=attrs["strides"],
            padding=padding[:dims],
            output_padding=attrs["output_padding"],
            groups=attrs["groups"],
            dilation=attrs["dilation"],
        )
        return _cast(g, result, attrs)

    return call


def _conv2d_spec(g: Graph, inputs: list[Any], attrs: dict[str, Any]) -> Any:
    spec = _spec(attrs["spec"])
    names = {"pad": "padding"}
    options = {names.get(name, name): value for name, value in spec.items()}
    return g.call("torch.nn.functional.conv2d", *inputs, **options)


def _pool(kind: str, dims: int) -> Callable[..., Any]:
    def call(g: Graph, inputs: list[Any], attrs: dict[str, Any]) -> Any:
        _need_tensor(inputs[0])
        space = _SPATIAL[dims]
        _layout(attrs, ("layout", f"NC{space}"), ("out_layout", f"NC{space}"))
        padding = attrs["padding"]
        if padding[:dims] != padding[dims:]:
            raise Unsupported("a pool with unequal padding")
        if any(2 * p > k for p, k in zip(padding, attrs["pool_size"], strict=False)):
            raise Unsupported("torch pads a pool by half its size at most")
        options: dict[str, Any] = {"dilation": attrs["dilation"]} if kind == "max" else {}
        if kind == "avg" and any(d != 1 for d in attrs["dilation"]):
            raise Unsupported("an average pool with dilation")
        return g.call(
            f"torch.nn.functional.{kind}_pool{dims}d",
            inputs[0],
            attrs["pool_size"],
            attrs["strides"],
            padding[:dims],
            ceil_mode=attrs["ceil_mode"],
            **options,
        )

    return call


def _pool_spec(g: Graph, inputs: list[Any], attrs: dict[str, Any]) -> Any:
    spec = _spec(attrs["spec"])
    return g.call(
        "torch.nn.functional.max_pool2d",
        inputs[0],
        spec["k"],
        spec["s"],
        spec["p"],
        ceil_mode=spec["ceil"],
    )


def _adaptive(dims: int) -> Callable[..., Any]:
    def call(g: Graph, inputs: list[Any], attrs: dict[str, Any]) -> Any:
        _need_tensor(inputs[0])
        space = _SPATIAL[dims]
        _layout(attrs, ("layout", f"NC{space}"), ("out_layout", f"NC{space}"))
        size = attrs["output_size"]
        size = [None] * dims if size is None else size
        return g.call(f"torch.nn.functional.adaptive_avg_pool{dims}d", inputs[0], size)

    return call


def _layer_norm(g: Graph, inputs: list[Any], attrs: dict[str, Any]) -> Any:
    for value in inputs:
        _need_tensor(value)
    x, weight, bias = inputs
    axes = attrs["axes"]
    if x.rank is None or sorted(a % x.rank for a in axes) != [*range(x.rank - len(axes), x.rank)]:
        raise Unsupported("torch normalises the last axes, which need a rank")
    shape = x.dims[-len(axes) :]
    return g.call("torch.nn.functional.layer_norm", x, shape, weight, bias)


def _group_norm(g: Graph, inputs: list[Any], attrs: dict[str, Any]) -> Any:
    for value in inputs:
        _need_tensor(value)
    x = inputs[0]
    if x.rank is None or attrs["channel_axis"] % x.rank != 1:
        raise Unsupported("torch's channel axis is 1")
    return g.call("torch.nn.functional.group_norm", x, attrs["num_groups"], *inputs[1:])


def _nll_loss(g: Graph, inputs: list[Any], attrs: dict[str, Any]) -> Any:
    for value in inputs:
        _need_tensor(value)
    return g.call(
        "torch.nn.functional.nll_loss",
        *inputs,
        reduction=attrs["reduction"],
        ignore_index=attrs["ignore_index"],
    )


def _unique(g: Graph, inputs: list[Any], attrs: dict[str, Any]) -> Any:
    _need_tensor(inputs[0])
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
    return values, _cast(g, indices, attrs)


def _sort(g: Graph, inputs: list[Any], attrs: dict[str, Any]) -> Any:
    return g.call("torch.sort", inputs[0], attrs["axis"])[0]


def _argsort(g: Graph, inputs: list[Any], attrs: dict[str, Any]) -> Any:
    return _cast(g, g.call("torch.argsort", inputs[0], attrs["axis"]), attrs)


def _stack(g: Graph, inputs: list[Any], attrs: dict[str, Any]) -> Any:
    return g.call("torch.stack", inputs, _spec(attrs["spec"])["axis"])


def _repeat(g: Graph, inputs: list[Any], attrs: dict[str, Any]) -> Any:
    _need_tensor(inputs[0])
    return g.call("torch.repeat_interleave", inputs[0], attrs["repeats"], attrs["axis"])


def _where(g: Graph, inputs: list[Any], attrs: dict[str, Any]) -> Any:
    for value in inputs:
        _need_tensor(value)
    if inputs[0].dtype not in (None, "bool"):
        raise TypeError("the condition is not bool")
    return g.call("torch.where", *inputs)


def _scatter(g: Graph, inputs: list[Any], attrs: dict[str, Any]) -> Any:
    for value in inputs:
        _need_tensor(value)
    x, index, source = inputs
    return g.call("torch.scatter", x, attrs["axis"], index, source)


def _gather(g: Graph, inputs: list[Any], attrs: dict[str, Any]) -> Any:
    for value in inputs:
        _need_tensor(value)
    return g.call("torch.gather", inputs[0], attrs["axis"], inputs[1])


def _dropout(g: Graph, inputs: list[Any], attrs: dict[str, Any]) -> Any:
    _need_tensor(inputs[0])
    return g.call("torch.nn.functional.dropout", inputs[0], attrs["rate"])


def _triangle(name: str) -> Callable[..., Any]:
    def call(g: Graph, inputs: list[Any], attrs: dict[str, Any]) -> Any:
        _need_tensor(inputs[0])
        diagonal = inputs[1] if isinstance(inputs[1], int) else 0
        return g.call(f"torch.{name}", inputs[0], diagonal)

    return call


def _flatten(g: Graph, inputs: list[Any], attrs: dict[str, Any]) -> Any:
    _need_tensor(inputs[0])
    return g.call("torch.flatten", inputs[0])


def _batch_flatten(g: Graph, inputs: list[Any], attrs: dict[str, Any]) -> Any:
    return g.call("torch.flatten", inputs[0], 1)


def _matmul(g: Graph, inputs: list[Any], attrs: dict[str, Any]) -> Any:
    for value in inputs:
        _need_tensor(value)
    return _cast(g, g.call("torch.matmul", *inputs), attrs)


def _einsum(g: Graph, inputs: list[Any], attrs: dict[str, Any]) -> Any:
    return g.call("torch.einsum", attrs["subscripts"], *inputs[0])


def _sum_to(g: Graph, inputs: list[Any], attrs: dict[str, Any]) -> Any:
    _need_tensor(inputs[0])
    return g.call("torch.Tensor.sum_to_size", inputs[0], _sizes(inputs[1]))


def _binary(name: str) -> Callable[..., Any]:
    def call(g: Graph, inputs: list[Any], attrs: dict[str, Any]) -> Any:
        for value in inputs:
            if isinstance(value, Value) and not isinstance(value.type, TensorType | ScalarType):
                raise TypeError(f"{value.type} is no tensor")
        return g.call(f"torch.{name}", *inputs)

    return call


def _unary(path: str) -> Callable[..., Any]:
    def call(g: Graph, inputs: list[Any], attrs: dict[str, Any]) -> Any:
        _need_tensor(inputs[0])
        if inputs[0].dtype is not None and not inputs[0].dtype.startswith(("float", "bfloat")):
            raise TypeError("a function of real numbers")
        return g.call(path, inputs[0])

    return call


def _meshgrid(g: Graph, inputs: list[Any], attrs: dict[str, Any]) -> Any:
    return g.call("torch.meshgrid", *inputs[0], indexing=attrs["indexing"])


CALLS: dict[str, Callable[..., Any]] = {
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
    "nn.softmax": _softmax("softmax"),
    "nn.log_softmax": _softmax("log_softmax"),
    "nn.relu": _plain("torch.nn.functional.relu"),
    "nn.gelu": _unary("torch.nn.functional.gelu"),
    "nn.silu": _unary("torch.nn.functional.silu"),
    "nn.leakyrelu": _unary("torch.nn.functional.leaky_relu"),
    "nn.softplus": _unary("torch.nn.functional.softplus"),
    "clip": _plain("torch.clip"),
    "nn.conv1d": _conv(1),
    "nn.conv2d": _conv(2),
    "nn.conv3d": _conv(3),
    "nn.conv1d_transpose": _conv_transpose(1),
    "nn.conv2d_transpose": _conv_transpose(2),
    "nn.conv3d_transpose": _conv_transpose(3),
    "conv2d": _conv2d_spec,
    "max_pool2d": _pool_spec,
    **{f"nn.{k}_pool{n}d": _pool(k, n) for k in ("max", "avg") for n in (1, 2, 3)},
    **{f"nn.adaptive_avg_pool{n}d": _adaptive(n) for n in (1, 2, 3)},
    "nn.layer_norm": _layer_norm,
    "nn.group_norm": _group_norm,
    "nn.dropout": _dropout,
    "nn.nll_loss": _nll_loss,
    "nn.batch_flatten": _batch_flatten,
    "unique": _unique,
    "nonzero": _plain("torch.nonzero"),
    "topk": _topk,
    "sort": _sort,
    "argsort": _argsort,
    "stack": _stack,
    "repeat": _repeat,
    "tile": _plain("torch.tile", dims="repeats"),
    "flip": _plain("torch.flip", dims="axis"),
    "flatten": _flatten,
    "matmul": _matmul,
    "einsum": _einsum,
    "collapse_sum_to": _sum_to,
    "gather_elements": _gather,
    "scatter_elements": _scatter,
    "meshgrid": _meshgrid,
}


def type_of(result: Any) -> Type:
    """Returns the type of what a call gave."""
    from dimsolve.ir.types import TupleType

    if isinstance(result, tuple | list):
        return TupleType(tuple(type_of(item) for item in result))
    found: Type = result.type
    return found
