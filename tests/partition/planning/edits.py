"""All edits of one field of a plan's JSON, and the plans that they are made on.

true -> false       "S(0)" -> "R", "S(1)", ...      [a, b] -> [a], [b], [a, b, b]
{"tp": ...} -> {}   "linear" -> "relu"              null -> 0
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import torch

import dimsolve as ds
from dimsolve.exec.graph import Graph

Path = tuple[Any, ...]
Json = Any

TEXTS = (
    "",
    "R",
    "S(0)",
    "S(1)",
    "S(0, blocks=2)",
    "P(sum)",
    "P(max)",
    "2",
    "1",
    "batch",
    "3*batch",
)
"""What a text is replaced by."""

MORE_TEXTS = ("always", "inputs", "never", "relu", "linear", "batch % 3 == 0", "keep", "all-reduce")


def edits(data: Json, texts: tuple[str, ...], path: Path = ()) -> Iterator[tuple[Path, Json]]:
    """Yields every place in the data with what is written there instead; `_GONE` takes it away."""
    match data:
        case dict():
            for key in data:
                yield (*path, key), GONE
                yield from edits(data[key], texts, (*path, key))
            yield path, {**data, "zz": next(iter(data.values()), "n")}
        case list():
            yield from ((path, each) for each in _other_lists(data))
            for number, item in enumerate(data):
                yield from edits(item, texts, (*path, number))
        case bool():
            yield path, not data
        case int():
            yield from ((path, each) for each in (data + 1, data - 1, True, 10**30, 0.5))
        case str():
            yield from ((path, each) for each in texts if each != data)
            yield from ((path, each) for each in (None, 0, f"{data}_", data[:-1]) if each != data)
        case None:
            yield from ((path, each) for each in (0, "1", [], {}))


class _Gone:
    def __repr__(self) -> str:
        return "taken away"


GONE = _Gone()


def _other_lists(data: list[Json]) -> Iterator[list[Json]]:
    if data:
        yield data[:-1]
        yield data[1:]
        yield [*data, data[-1]]
        yield []
    else:
        yield ["1"]
    if len(data) > 1 and data != data[::-1]:
        yield data[::-1]


def edited(data: Json, path: Path, value: Json) -> Json:
    """Returns the data with another value at a place."""
    if not path:
        return value
    key, *rest = path
    copy = dict(data) if isinstance(data, dict) else list(data)
    if not rest and value is GONE:
        del copy[key]
    else:
        copy[key] = edited(data[key], tuple(rest), value)
    return copy


# ---- models


def mlp() -> Graph:
    with Graph("mlp") as g:
        x = g.input("x", "batch, 16", "float32")
        h = g.call("torch.nn.functional.linear", x, g.parameter("up", (32, 16)))
        h = g.call("torch.relu", h)
        out = g.call(
            "torch.nn.functional.linear", h, g.parameter("down", (16, 32)), g.parameter("b", (16,))
        )
        g.output(out)
    return g


def traced(model: torch.nn.Module, example: dict[str, Any], dynamic: dict[str, Any]) -> Any:
    return ds.trace(model.eval(), kwargs=example, dynamic=dynamic)


def llama() -> Any:
    """One layer with grouped heads."""
    from transformers import LlamaConfig, LlamaForCausalLM

    config = LlamaConfig(
        hidden_size=16,
        intermediate_size=32,
        num_hidden_layers=1,
        num_attention_heads=4,
        num_key_value_heads=2,
        vocab_size=32,
        max_position_embeddings=32,
    )
    ids = torch.zeros(2, 4, dtype=torch.long)
    example = {"input_ids": ids, "use_cache": False}
    return traced(LlamaForCausalLM(config), example, {"input_ids": {0: "batch", 1: "seq"}})


class ConvNet(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv = torch.nn.Conv2d(3, 8, 3, padding=1)
        self.norm = torch.nn.GroupNorm(2, 8)
        self.drop = torch.nn.Dropout(0.5)
        self.head = torch.nn.Linear(8, 6)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        h = torch.relu(self.norm(self.conv(x))).mean((2, 3))
        out: torch.Tensor = self.head(self.drop(h))
        return out


def convnet() -> Any:
    return traced(ConvNet(), {"x": torch.zeros(4, 3, 8, 8)}, {"x": {0: "batch"}})


def fused() -> Graph:
    """A fused projection and its windows, which are used apart: segments."""
    with Graph("fused") as g:
        x = g.input("x", "batch, 16", "float32")
        qkv = g.call("torch.nn.functional.linear", x, g.parameter("qkv", (32, 16)))
        q = g.call("torch.narrow", qkv, -1, 0, 16)
        k = g.call("torch.narrow", qkv, -1, 16, 8)
        v = g.call("torch.narrow", qkv, -1, 24, 8)
        wide = g.call("torch.nn.functional.linear", q, g.parameter("wide", (4, 16)))
        both = g.call("torch.mul", k, v)
        thin = g.call("torch.nn.functional.linear", both, g.parameter("thin", (4, 8)))
        g.output(g.call("torch.add", wide, thin))
    return g


def pas(graph: Any, resource: Any) -> Any:
    """The seeds' form of a policy: the last product by what it sums over."""
    node = [node for node in graph.nodes() if node.name == "linear"][-1]
    graph.partition(node, node.algorithm("dim"), idx=0, dim=-1, num=resource.ngpus)
    return graph


Made = Callable[[], tuple[Any, ds.Plan]]


def _of(model: Callable[[], Any], mesh: dict[str, Any], policy: Any, state: Any = None) -> Made:
    def made() -> tuple[Any, ds.Plan]:
        graph = model()
        return graph, ds.plan(graph, mesh, policy, state)

    return made


SMALL: dict[str, Made] = {
    "mlp, tensor": _of(mlp, {"tp": 2}, "tensor"),
    "mlp, data": _of(mlp, {"dp": 2}, "data"),
    "mlp, data+tensor": _of(mlp, {"dp": 2, "tp": 4}, "data+tensor"),
    "mlp, PAS": _of(mlp, {"tp": 2}, pas),
    "mlp, n ranks": _of(mlp, {"tp": "n"}, "tensor"),
    "mlp, shared": _of(mlp, {"dp": 2, "tp": 2}, None, "shared"),
    "mlp, optimizer over n ranks": _of(mlp, {"dp": "n"}, "data", "optimizer"),
    "fused, tensor": _of(fused, {"tp": 2}, "tensor"),
}
"""Plans all of whose edits are tried."""

LARGE: dict[str, Made] = {
    "convnet, data": _of(convnet, {"dp": 2}, "data"),
    "convnet, tensor": _of(convnet, {"tp": 2}, "tensor"),
    "llama, tensor": _of(llama, {"tp": 2}, "tensor"),
    "llama, data+tensor": _of(llama, {"dp": 2, "tp": 2}, "data+tensor"),
}
"""Plans of whose edits some are tried."""

ALL = {**SMALL, **LARGE}
