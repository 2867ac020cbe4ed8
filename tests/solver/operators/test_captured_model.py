"""Law: of a real model, captured as torch.compile captures it, every call is declared with torch's
shapes and dtypes.
"""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch.fx.node import map_arg

from dimsolve.solver.graphs.names import path_of
from dimsolve.solver.operators import find
from tests.oracles.stand_ins import StandIn, solve

transformers = pytest.importorskip("transformers")


def captured() -> list[torch.fx.GraphModule]:
    """A tiny mixture of experts with a loss: attention masks, rotary embedding, routing, grouped
    products.
    """
    config = transformers.MixtralConfig(
        vocab_size=96,
        hidden_size=32,
        intermediate_size=48,
        num_hidden_layers=1,
        num_attention_heads=4,
        num_key_value_heads=2,
        num_local_experts=4,
    )
    torch.manual_seed(0)
    model = transformers.MixtralForCausalLM(config).eval()
    ids = torch.randint(0, 96, (2, 12))
    graphs: list[torch.fx.GraphModule] = []

    def keep(graph: torch.fx.GraphModule, inputs: Any) -> Any:
        graphs.append(graph)
        return graph.forward

    torch.compiler.reset()
    run: Any = torch.compile(model, backend=keep, fullgraph=True)
    run(input_ids=ids, labels=ids, use_cache=False)
    return graphs


def stand_in(value: Any) -> Any:
    if isinstance(value, torch.Tensor):
        return StandIn(*map(int, value.shape), dtype=str(value.dtype))
    return tuple(map(stand_in, value)) if isinstance(value, list | tuple) else value


def attribute(graph: torch.fx.GraphModule, name: str) -> Any:
    value: Any = graph
    for part in name.split("."):
        value = getattr(value, part)
    return value


def test_every_call_has_the_shapes_and_dtypes_of_torch() -> None:
    seen = 0
    for graph in captured():
        values: dict[torch.fx.Node, Any] = {}
        for node in graph.graph.nodes:
            known = (
                attribute(graph, node.target)
                if node.op == "get_attr"
                else node.meta.get("example_value")
            )
            values[node] = stand_in(known)
            if node.op in ("call_function", "call_method"):
                seen += check(node, values)
    assert seen > 150


def check(node: torch.fx.Node, values: dict[torch.fx.Node, Any]) -> int:
    method = node.op == "call_method"
    packet = type(node.target).__name__ == "OpOverloadPacket"
    path = f"torch.Tensor.{node.target}" if method else path_of(node.target)
    path = f"torch.ops.{node.target}" if packet else path
    operator = find(path)
    assert operator is not None, path
    args, kwargs = (map_arg(x, values.__getitem__) for x in (node.args, dict(node.kwargs)))
    declaration = operator.declare(*args, **kwargs)  # type: ignore[arg-type]
    if declaration.returns in ("value", "nothing"):
        return 1
    wanted = values[node] if isinstance(values[node], tuple) else (values[node],)
    shapes = [tuple(x.shape) for x in wanted]
    assert list(solve(declaration).output_dims) == shapes, (path, declaration.annotation)
    dtypes = [x.dtype.removeprefix("torch.") for x in wanted]
    assert list(declaration.dtypes) == dtypes, (path, declaration.annotation)
    return 1
