"""Relax's operators of neural networks as calls of torch functions: convolutions, pools, norms."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from dimsolve.exec.graph import Graph
from dimsolve.ir.graph import Value

from .relax_rows import Unsupported, call_of, cast, need_tensor, row_spec


def _softmax(name: str) -> Callable[..., Any]:
    def call(g: Graph, inputs: list[Any], attrs: dict[str, Any]) -> Any:
        need_tensor(inputs[0])
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
            need_tensor(value)
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
        return cast(g, result, attrs)

    return call


def _conv_transpose(dims: int) -> Callable[..., Any]:
    def call(g: Graph, inputs: list[Any], attrs: dict[str, Any]) -> Any:
        for value in inputs:
            need_tensor(value)
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
        return cast(g, result, attrs)

    return call


def _conv2d_spec(g: Graph, inputs: list[Any], attrs: dict[str, Any]) -> Any:
    spec = row_spec(attrs["spec"])
    names = {"pad": "padding"}
    options = {names.get(name, name): value for name, value in spec.items()}
    return g.call("torch.nn.functional.conv2d", *inputs, **options)


def _pool(kind: str, dims: int) -> Callable[..., Any]:
    def call(g: Graph, inputs: list[Any], attrs: dict[str, Any]) -> Any:
        need_tensor(inputs[0])
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
    spec = row_spec(attrs["spec"])
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
        need_tensor(inputs[0])
        space = _SPATIAL[dims]
        _layout(attrs, ("layout", f"NC{space}"), ("out_layout", f"NC{space}"))
        size = attrs["output_size"]
        size = [None] * dims if size is None else size
        return g.call(f"torch.nn.functional.adaptive_avg_pool{dims}d", inputs[0], size)

    return call


def _layer_norm(g: Graph, inputs: list[Any], attrs: dict[str, Any]) -> Any:
    for value in inputs:
        need_tensor(value)
    x, weight, bias = inputs
    axes = attrs["axes"]
    if x.rank is None or sorted(a % x.rank for a in axes) != [*range(x.rank - len(axes), x.rank)]:
        raise Unsupported("torch normalises the last axes, which need a rank")
    shape = x.dims[-len(axes) :]
    return g.call("torch.nn.functional.layer_norm", x, shape, weight, bias)


def _group_norm(g: Graph, inputs: list[Any], attrs: dict[str, Any]) -> Any:
    for value in inputs:
        need_tensor(value)
    x = inputs[0]
    if x.rank is None or attrs["channel_axis"] % x.rank != 1:
        raise Unsupported("torch's channel axis is 1")
    return g.call("torch.nn.functional.group_norm", x, attrs["num_groups"], *inputs[1:])


def _nll_loss(g: Graph, inputs: list[Any], attrs: dict[str, Any]) -> Any:
    for value in inputs:
        need_tensor(value)
    return g.call(
        "torch.nn.functional.nll_loss",
        *inputs,
        reduction=attrs["reduction"],
        ignore_index=attrs["ignore_index"],
    )


def _dropout(g: Graph, inputs: list[Any], attrs: dict[str, Any]) -> Any:
    need_tensor(inputs[0])
    return g.call("torch.nn.functional.dropout", inputs[0], attrs["rate"])


def _batch_flatten(g: Graph, inputs: list[Any], attrs: dict[str, Any]) -> Any:
    return g.call("torch.flatten", inputs[0], 1)


def _unary(path: str) -> Callable[..., Any]:
    def call(g: Graph, inputs: list[Any], attrs: dict[str, Any]) -> Any:
        need_tensor(inputs[0])
        if inputs[0].dtype is not None and not inputs[0].dtype.startswith(("float", "bfloat")):
            raise TypeError("a function of real numbers")
        return g.call(path, inputs[0])

    return call


NETWORKS: dict[str, Callable[..., Any]] = {
    "nn.softmax": _softmax("softmax"),
    "nn.log_softmax": _softmax("log_softmax"),
    "nn.relu": call_of("torch.nn.functional.relu"),
    "nn.gelu": _unary("torch.nn.functional.gelu"),
    "nn.silu": _unary("torch.nn.functional.silu"),
    "nn.leakyrelu": _unary("torch.nn.functional.leaky_relu"),
    "nn.softplus": _unary("torch.nn.functional.softplus"),
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
}
