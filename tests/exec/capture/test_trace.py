"""Law: a traced model has a symbolic shape for every value, and at any sizes these are torch's
shapes.

The oracle is the model itself: at random sizes the graph is run call by call, the shape of every
value is compared with its type (`dimsolve.exec.run` raises where they differ), and the results with
the model's own.
"""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn

import dimsolve as ds
from dimsolve.ir.types import ObjectType, TensorType
from tests.exec import models

pytest.importorskip("transformers")


def trace_quietly(*args: Any, **kwargs: Any) -> ds.Graph:
    """Traces, and fails where a function has no annotation."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        return ds.trace(*args, **kwargs)


@pytest.mark.parametrize("name", models.ARCHITECTURES)
def test_every_value_of_a_public_architecture_has_the_shape_that_torch_gives(name: str) -> None:
    model = models.model(name)
    example = models.inputs(name, 3, 17)
    graph = trace_quietly(model, kwargs=example, dynamic=models.dynamic(name))
    graph.verify()
    for value in graph.values.values():
        if isinstance(value.type, TensorType):
            assert value.dims is not None
            assert None not in value.dims
            assert value.dtype is not None
        assert not isinstance(value.type, ObjectType)
    assert set(graph.symbols) == set(dict.fromkeys(models.TOKENS.values())) - (
        {"seq"} if name == "vit" else set()
    )
    for seed, sizes in enumerate(models.some_sizes(3, seed=len(name))):
        torch.manual_seed(seed)
        given = models.inputs(name, sizes["batch"], sizes["seq"])
        with torch.no_grad():
            wanted, found = model(**given), graph.run(**given, state=model)
        evaluated = graph.evaluate(sizes)
        for output, value in graph.outputs.items():
            assert evaluated[value.name] == tuple(wanted[output].shape)
            torch.testing.assert_close(found[output], wanted[output], rtol=1e-4, atol=1e-5)


def test_json_of_a_traced_model_gives_the_same_graph_back() -> None:
    graph = ds.trace(
        models.model("llama"), kwargs=models.inputs("llama", 3, 17), dynamic=models.dynamic("llama")
    )
    data = json.loads(json.dumps(graph.to_json()))
    back = ds.Graph.from_json(data)
    assert str(back) == str(graph)
    assert back.conditions == graph.conditions
    assert back.to_json() == data


def test_layers_that_are_repeated_are_solved_once() -> None:
    import transformers

    solved = []
    for layers in (2, 4):
        config = transformers.LlamaConfig(**{**models.GROUPED, "num_hidden_layers": layers})
        with torch.device("meta"):
            model = transformers.LlamaForCausalLM(config).eval()
        graph = ds.trace(
            model, kwargs=models.inputs("llama", 3, 17), dynamic=models.dynamic("llama")
        )
        solved.append((len(graph.nodes()), len(graph.propagation.outcomes)))
    assert solved[1][0] > solved[0][0]
    assert solved[1][1] == solved[0][1]


def test_the_graph_is_the_same_on_the_meta_device() -> None:
    import transformers

    config = transformers.LlamaConfig(**models.GROUPED)
    texts = []
    for device in ("cpu", "meta"):
        with torch.device(device):
            model = transformers.LlamaForCausalLM(config).eval()
        graph = ds.trace(
            model, kwargs=models.inputs("llama", 3, 17), dynamic=models.dynamic("llama")
        )
        texts.append(str(graph))
    assert texts[0] == texts[1]


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.up = nn.Linear(8, 32)
        self.down = nn.Linear(32, 8)
        self.register_buffer("scale", torch.ones(8))

    def forward(self, x: torch.Tensor, times: int = 1) -> tuple[torch.Tensor, torch.Tensor]:
        y = self.down(torch.relu(self.up(x))) * self.scale
        return y.view(x.shape[0] * 2, -1), x * times + y


def test_parameters_buffers_sizes_and_modules_are_named() -> None:
    graph = ds.trace(Block(), (torch.zeros(4, 6, 8),), dynamic={"x": {0: "batch", 1: "seq"}})
    entries = {entry.target: (entry.kind, str(entry.value.type)) for entry in graph.inputs}
    assert entries == {
        "x": ("input", "float32[batch, seq, 8]"),
        "batch": ("size", "int batch"),
        "up.weight": ("parameter", "float32[32, 8]"),
        "up.bias": ("parameter", "float32[32]"),
        "down.weight": ("parameter", "float32[8, 32]"),
        "down.bias": ("parameter", "float32[8]"),
        "scale": ("buffer", "float32[8]"),
    }
    linear = graph.nodes()[0]
    assert (linear.name, linear.module) == ("linear", "up")
    assert linear.annotation == "* k+, n k+, n -> * n"
    assert linear.source is not None
    assert linear.source.code == "y = self.down(torch.relu(self.up(x))) * self.scale"
    assert str(graph.outputs["0"].type) == "float32[2*batch, 4*seq]"
    assert graph.conditions == ()


@pytest.mark.parametrize(
    "spec",
    [
        {"x": {0: "b", 1: "s"}},
        {0: {0: "b", 1: "s"}},
        {"x": ("b", "s", None)},
        {"x": "b, s, 8"},
        {"x": {-3: "b", -2: "s"}},
    ],
)
def test_dynamic_dimensions_by_name_position_list_and_from_the_end(spec: Any) -> None:
    graph = ds.trace(Block(), (torch.zeros(4, 6, 8),), dynamic=spec)
    assert str(graph.inputs[0].value.type) == "float32[b, s, 8]"


def test_equal_sizes_of_two_symbols_are_not_taken_for_one() -> None:
    def f(x: torch.Tensor) -> torch.Tensor:
        return x.sum(1)

    graph = ds.trace(f, torch.zeros(4, 4), dynamic={"x": {0: "n", 1: "m"}})
    assert str(graph.outputs["output"].type) == "float32[n]"
    assert graph.conditions == ()


def _turns(x: torch.Tensor) -> torch.Tensor:
    return x.sum(1) if x.shape[0] == x.shape[1] else x.sum(0)


def _strips(x: torch.Tensor) -> torch.Tensor:
    for _ in range(4):
        x = nn.functional.avg_pool2d(x, 2, ceil_mode=True)
    return x * 2 if x.shape[2] == 1 else x * 3


def _large(x: torch.Tensor) -> torch.Tensor:
    return x * 2 if x.shape[0] + x.shape[1] >= 100 else x * 3


EXAMPLES: dict[str, tuple[Callable[[torch.Tensor], torch.Tensor], tuple[int, ...], Any]] = {
    "equal": (_turns, (4, 4), {0: "n", 1: "m"}),
    "unequal": (_turns, (4, 5), {0: "n", 1: "m"}),
    "one element": (lambda x: x.sum(1) if x.shape[0] > 1 else x.sum(0), (1, 7), {0: "n"}),
    "sum of two": (_large, (64, 64), {0: "n", 1: "m"}),
    "divisible": (lambda x: x + 1 if x.shape[0] % 8 == 0 else x * 2, (8, 8), {0: "n", 1: "m"}),
    "short after halving": (_strips, (2, 3, 64, 64), {0: "b", 2: "h", 3: "w"}),
    "short itself": (_strips, (2, 3, 9, 9), {0: "b", 2: "h", 3: "w"}),
}


@pytest.mark.parametrize("name", EXAMPLES)
def test_a_graph_holds_at_its_example(name: str) -> None:
    model, shape, dynamic = EXAMPLES[name]
    x = torch.randn(shape)
    graph = ds.trace(model, x, dynamic={0: dynamic})
    assert torch.equal(graph.run(x), model(x))  # run checks the conditions
    if name == "equal":
        assert graph.conditions in (("n == m",), ("m == n",))


def test_a_graph_that_cannot_hold_at_its_example_is_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Sizes that go another way than the example, and no others to try."""
    from dimsolve.exec.capture import capture

    monkeypatch.setattr(capture, "size_choices", lambda leaves: [{"n": 11, "m": 13}])
    with pytest.raises(ds.TraceError) as caught:
        ds.trace(_large, torch.zeros(64, 64), dynamic={0: {0: "n", 1: "m"}})
    title, reason, hint = str(caught.value).splitlines()
    assert title == "the graph would need m + n <= 99, and the example has m = 64, n = 64"
    assert reason.startswith("  it comes from ") and "if x.shape[0] + x.shape[1] >= 100" in reason
    hint_text = "give an example whose dynamic dimensions are all different and more than 1"
    assert hint == f"  hint: {hint_text}"


def test_a_dimension_that_is_a_multiple() -> None:
    def f(x: torch.Tensor) -> torch.Tensor:
        return x.view(-1, 8)

    graph = ds.trace(f, torch.zeros(16, 3), dynamic={"x": {0: "8*s"}})
    assert str(graph.outputs["output"].type) == "float32[3*s, 8]"
    assert graph.conditions == ()


def test_symbols_of_one_name_are_one_length() -> None:
    def f(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return x + y

    graph = ds.trace(
        f, (torch.zeros(4, 8), torch.zeros(4, 8)), dynamic={"x": {0: "n"}, "y": {0: "n"}}
    )
    assert str(graph.outputs["output"].type) == "float32[n, 8]"
    assert graph.conditions == ()


def test_a_branch_on_a_size_becomes_a_condition_with_its_line() -> None:
    def f(x: torch.Tensor) -> torch.Tensor:
        if x.shape[0] > 3:
            return x * 2
        return x

    graph = ds.trace(f, torch.zeros(5, 8), dynamic={"x": {0: "n"}})
    assert graph.conditions == ("n > 3",)
    assert "if x.shape[0] > 3" in graph.explain()
    assert graph.show().splitlines()[-1].startswith("  # needs n > 3")
    with pytest.raises(ds.ShapeError):
        graph.evaluate({"n": 2})
    with pytest.raises(ds.ShapeError):
        graph.run(torch.zeros(2, 8))


def test_a_size_of_one_is_not_special_where_the_model_does_not_ask() -> None:
    graph = ds.trace(Block(), (torch.zeros(1, 6, 8),), dynamic={"x": {0: "batch", 1: "seq"}})
    assert graph.conditions == ()
    assert graph.evaluate({"batch": 1, "seq": 1})["x"] == (1, 1, 8)


def test_sizes_of_an_argument_that_is_itself_unused_have_its_names() -> None:
    class Positions(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.table = nn.Embedding(64, 8)

        def forward(self, x: dict[str, torch.Tensor], *, y: torch.Tensor) -> torch.Tensor:
            return self.table(torch.arange(x["k"].shape[1])) * y.sum()

    graph = trace_quietly(
        Positions(),
        ({"k": torch.zeros(3, 40)},),
        {"y": torch.zeros(5)},
        dynamic={"x.k": {1: "seq"}, "y": {0: "n"}},
    )
    assert str(graph.outputs["output"].type) == "float32[seq, 8]"


def test_dimensions_that_the_model_wants_equal_are_a_condition() -> None:
    graph = ds.trace(
        lambda x, y: x + y,
        (torch.zeros(3, 4), torch.zeros(3, 4)),
        dynamic={"x": {0: "a"}, "y": {0: "b"}},
    )
    assert graph.conditions == ("a == b",)


def test_data_dependent_lengths_are_new_symbols() -> None:
    def f(x: torch.Tensor) -> torch.Tensor:
        return torch.nonzero(x).float() @ torch.ones(2, 3)

    with torch._dynamo.config.patch(capture_dynamic_output_shape_ops=True):
        graph = ds.trace(f, torch.eye(4, 6), dynamic={"x": {0: "n", 1: "m"}})
    value = graph.outputs["output"]
    assert value.dims is not None
    assert (len(value.dims), value.dims[1]) == (2, 3)
    assert graph.run(torch.eye(3, 3)).shape == (3, 3)


def test_training_mode_and_dropout() -> None:
    model = nn.Sequential(nn.Linear(8, 8), nn.Dropout(0.5), nn.LayerNorm(8)).train()
    graph = trace_quietly(model, (torch.zeros(4, 8),), dynamic={0: {0: "n"}})
    assert [node.name for node in graph.nodes()] == ["linear", "dropout", "layer_norm"]
    assert graph.conditions == ()


def test_tied_parameters_are_one_input() -> None:
    class Tied(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.embed = nn.Embedding(16, 8)
            self.head = nn.Linear(8, 16, bias=False)
            self.head.weight = self.embed.weight

        def forward(self, ids: torch.Tensor) -> torch.Tensor:
            return self.head(self.embed(ids))

    graph = ds.trace(Tied(), torch.zeros(3, 5, dtype=torch.long), dynamic={"ids": "b, s"})
    assert [e.target for e in graph.inputs if e.kind == "parameter"] == ["embed.weight"]


def test_nested_inputs_and_outputs_are_named_by_their_place() -> None:
    def f(batch: dict[str, Any]) -> dict[str, Any]:
        x, (y, z) = batch["x"], batch["more"]
        return {"sum": x + y, "parts": [z, x]}

    example = {"x": torch.zeros(4), "more": (torch.zeros(4), torch.zeros(2))}
    spec = {"batch.x": "n", "batch.more.0": "n"}
    graph = ds.trace(f, (example,), dynamic=spec)
    assert [entry.target for entry in graph.inputs] == [
        "batch.more.0",
        "batch.more.1",
        "batch.x",
    ] or [entry.target for entry in graph.inputs] == ["batch.x", "batch.more.0", "batch.more.1"]
    assert graph.outputs.keys() == {"sum", "parts.0", "parts.1"}
    ones = {"x": torch.ones(6), "more": (torch.ones(6), torch.zeros(2))}
    assert graph.run(ones)["sum"].tolist() == [2.0] * 6


def test_tracing_leaves_many_traces_and_the_users_tensors_alone() -> None:
    x = torch.zeros(4, 6, 8)
    for _ in range(12):  # torch stops after eight recompilations of one function
        ds.trace(Block(), (x,), dynamic={"x": {0: "batch", 1: "seq"}})
    assert not [name for name in vars(x) if "dynamo" in name]


def test_a_function_without_an_annotation_is_named_once_with_what_to_do() -> None:
    def f(x: torch.Tensor) -> torch.Tensor:
        return torch.ops.aten._neg_view_copy(torch.ops.aten._neg_view_copy(x))

    with pytest.warns(UserWarning, match="no annotation") as caught:
        graph = ds.trace(f, torch.zeros(4, 8), dynamic={"x": {0: "n"}})
    assert len([w for w in caught if "no annotation" in str(w.message)]) == 1
    assert "register_op" in str(caught[0].message)
    assert str(graph.outputs["output"].type) == "float32[n, 8]"


Indexed = Callable[[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor], torch.Tensor]
INDEXED: dict[str, Indexed] = {
    "index_add_": lambda x, w, t, k: torch.zeros_like(x).index_add_(0, t, x[t]),
    "index_copy_": lambda x, w, t, k: torch.zeros_like(x).index_copy_(0, t, x[t]),
    "index_fill_": lambda x, w, t, k: x.clone().index_fill_(0, t, 1.0),
    "index_put_": lambda x, w, t, k: torch.zeros_like(w).index_put_((t, k), w[t, k], True),
    "scatter_add_": lambda x, w, t, k: torch.zeros_like(x).scatter_add_(
        0, t[:, None].expand(-1, 32), x[t]
    ),
    "gather": lambda x, w, t, k: x.gather(0, t[:, None].expand(-1, 32)),
    "masked_select": lambda x, w, t, k: torch.masked_select(w, w > 0),
    "masked_scatter_": lambda x, w, t, k: w.clone().masked_scatter_(w > 0, w[t, k]),
    "mul": lambda x, w, t, k: x[t] * w[t, k, None],
    "mul_": lambda x, w, t, k: x[t].mul_(w[t, k, None]),
    "addmm_": lambda x, w, t, k: x[t].addmm_(x[t], torch.ones(32, 32)),
}


@pytest.mark.parametrize("name", INDEXED)
def test_a_number_of_rows_that_data_tell_needs_no_condition(name: str) -> None:
    def model(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        return INDEXED[name](x, w, *torch.where(w > 0))

    x, w = torch.randn(16, 32), torch.randn(16, 2)
    graph = ds.trace(model, (x, w), dynamic={"x": {0: "n"}, "w": {0: "n"}})
    assert graph.conditions == ()
    assert torch.equal(graph.run(x, w), model(x, w))


def test_an_example_may_be_a_slice_of_a_data_set() -> None:
    """Of memory that begins before it: its rows are dynamic all the same."""
    data = torch.arange(96).reshape(24, 4)
    given = [data[:4], data[20:24], data[4:8, :2], data.t()[:, 4:8], data[4:8, 1:2].expand(4, 3)]
    given += [data[:4, :3], data[4:8].T]
    for example in given:
        before = example.clone()
        graph = ds.trace(
            nn.Embedding(96, 8), kwargs={"input": example}, dynamic={"input": {0: "b"}}
        )
        assert str(next(iter(graph.outputs.values())).type) == f"float32[b, {example.shape[1]}, 8]"
        assert torch.equal(example, before)


@pytest.mark.parametrize("rows", [1, 2])
def test_an_example_may_be_a_prompt_without_its_last_token(rows: int) -> None:
    """Its rows lie apart, and so does the only one."""
    ids = torch.arange(5).expand(rows, 5).contiguous()[:, :-1]
    graph = ds.trace(nn.Embedding(96, 8), (ids,), dynamic={"input": {1: "s"}})
    assert str(next(iter(graph.outputs.values())).type) == f"float32[{rows}, s, 8]"


@pytest.mark.parametrize("asked", ["output_hidden_states", "output_attentions"])
def test_what_transformers_models_hand_out_on_the_way_is_theirs(asked: str) -> None:
    """They install hooks for it when they are first asked; the model is left as it was."""
    from transformers import LlamaConfig, LlamaForCausalLM

    config = LlamaConfig(
        vocab_size=64,
        hidden_size=16,
        intermediate_size=32,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        attn_implementation="eager",
    )
    model = LlamaForCausalLM(config).double().eval()
    ids = torch.randint(0, 64, (2, 6))
    given = {"input_ids": ids, "use_cache": False, asked: True}
    graph = ds.trace(model, kwargs=given)
    assert not any(module._forward_hooks for module in model.modules())
    part = ds.parallelize(model, ds.plan(graph, {"dp": 1}))
    name = asked.removeprefix("output_")
    found, wanted = part.eval()(**given)[name], model(**given)[name]
    assert len(found) == len(wanted) >= 2
    assert all(torch.equal(one, other) for one, other in zip(found, wanted, strict=True))


def test_a_module_that_prints_what_it_holds_is_called_in_other_modes() -> None:
    """EmbeddingBag prints its table, of which a part keeps no bytes."""
    model, ids = nn.EmbeddingBag(12, 8, mode="sum"), torch.randint(0, 12, (4, 6))
    part = ds.parallelize(model, ds.plan(ds.trace(model, args=(ids,)), {"dp": 1}))
    assert torch.equal(part(ids), model(ids))
    assert torch.equal(part.eval()(ids), model.eval()(ids))
