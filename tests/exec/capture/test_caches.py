"""Law: what a call's arguments hold is seen, and what a model leaves of them, its part leaves.

A part that decodes with a cache returns the logits of one device, and its cache is one device's:
the same object, of the same classes, lengths and values.
"""

from __future__ import annotations

import json
from collections import namedtuple
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

import dimsolve as ds
from dimsolve.exec.distributed.simulated import Member, SimulatedWorld
from dimsolve.exec.lowering.lower import lower
from dimsolve.exec.parallel.agreement import Agreement
from dimsolve.exec.parallel.mesh import RankMesh
from dimsolve.exec.parallel.parallelize import ParallelModule
from tests.exec.caching import CONFIGURATIONS, Decoding, assert_same, decoded_on_a_rank
from tests.oracles.one_device import assert_equal, train
from tests.oracles.ranks import world

MESHES = (({"tp": 1}, "tensor"), ({"tp": 2}, "tensor"), ({"dp": 2}, "data"))


def parts(model: nn.Module, plans: list[ds.Plan], member: Member) -> list[ParallelModule]:
    made = []
    for plan in plans:
        ends = RankMesh({axis: member[axis] for axis in plan.mesh}, torch.device("cpu"))
        program = lower(plan.planned, plan, ends.communicators)  # type: ignore[arg-type]
        made.append(ParallelModule(model, plan, program, ends, Agreement(plan, None)))
    return made


@pytest.mark.parametrize("name", CONFIGURATIONS)
def test_decoding_with_a_cache_is_equal_to_one_device(name: str) -> None:
    decoding = Decoding(name)
    expected = decoding.run(decoding.model, decoding.model)
    graphs = decoding.graphs()
    for mesh, policy in MESHES:
        plans = [ds.plan(graph, mesh, policy) for graph in graphs]
        found = SimulatedWorld[Any](mesh).run(
            lambda member, plans=plans: decoding.run(*parts(decoding.model, plans, member))
        )
        for rank in found:
            assert_same(rank, expected)


def test_a_graph_that_runs_leaves_the_cache_as_the_model_does() -> None:
    decoding = Decoding("qwen3")
    filled, decoded = (partial(graph.run, state=decoding.model) for graph in decoding.graphs())
    assert_same(decoding.run(filled, decoded), decoding.run(decoding.model, decoding.model))


def test_keys_and_values_are_cut_by_heads() -> None:
    plan = ds.plan(Decoding("qwen3").graphs()[1], {"tp": 2}, "tensor")
    held = {entry.name: entry.placements for entry in plan.inputs if entry.kind == "input"}
    assert held["past_key_values.layers.0.keys"] == ["S(1)"]
    assert held["past_key_values.layers.1.values"] == ["S(1)"]


def test_a_static_cache_is_written_to_in_place() -> None:
    decoding = Decoding("llama", static=True)
    expected = decoding.run(decoding.model, decoding.model)
    plans = [ds.plan(graph, {"tp": 2}, "tensor") for graph in decoding.graphs()]
    for rank in SimulatedWorld[Any]({"tp": 2}).run(
        lambda member: decoding.run(*parts(decoding.model, plans, member))
    ):
        assert_same(rank, expected)


def test_a_run_compares_what_is_left_of_a_cache_at_other_lengths_too() -> None:
    decoding = Decoding("qwen3")
    with torch.no_grad():
        cache = decoding.model(**decoding.prefill()).past_key_values
    example = decoding.decode(cache, decoding.tokens[0])
    steps = train(decoding.model, example, decoding.decode_names, {"tp": 2}, "tensor")
    assert_equal(steps)
    assert cache.get_seq_length() == 6


def test_decoding_on_real_processes() -> None:
    world(2).run(decoded_on_a_rank, "qwen3", {"tp": 2}, "tensor")


def test_a_model_on_meta_returns_its_cache() -> None:
    decoding = Decoding("qwen3")
    graph = ds.trace(
        decoding.model.to("meta"), kwargs=decoding.prefill(), dynamic=decoding.prefill_names
    )
    kind = "transformers.cache_utils.DynamicCache"
    assert graph.objects["returned", "past_key_values"].name == kind
    keys = graph.outputs["past_key_values.layers.0.keys"]
    assert str(keys.type) == "float64[batch, 2, seq, 8]"


# ---- what arguments hold


@dataclass
class Memory:
    keys: Tensor
    seen: int = 0
    notes: dict[str, Any] = field(default_factory=dict)


class Slots:
    __slots__ = ("keys",)

    def __init__(self, keys: Tensor) -> None:
        self.keys = keys


class Layer:
    def __init__(self, keys: Tensor) -> None:
        self.keys = keys


class Cache:
    def __init__(self, keys: Tensor) -> None:
        self.layers = [Layer(keys)]
        self.scale = 2


class Appending(nn.Module):
    """Appends its input's projection to what a memory holds, and attends to all of it."""

    def __init__(self, kind: str) -> None:
        super().__init__()
        self.kind = kind
        self.up = nn.Linear(8, 8)

    def forward(self, x: Tensor, memory: Any) -> Any:
        y = self.up(x)
        if self.kind == "dataclass":
            memory.keys = torch.cat([memory.keys, y], 1)
            memory.notes["last"] = y
            return memory.keys.sum(1), memory
        if self.kind == "slots":
            memory.keys = torch.cat([memory.keys, y], 1)
            return memory.keys * 2
        if self.kind == "list":
            memory.append(torch.cat([memory[0], y], 1))
            return memory[-1].sum(1)
        if self.kind == "dict":
            memory["new"] = torch.cat([memory.pop("old"), y], 1)
            return memory["new"].sum(1)
        if self.kind == "tuple":
            return tuple(torch.cat([part, y], 1) for part in memory)
        if self.kind == "named tuple":
            return type(memory)(torch.cat([memory.keys, y], 1), memory.values * 2)
        if self.kind == "new layer":
            memory.layers.append(Layer(memory.layers[0].keys + memory.scale))
            return y, memory.layers[-1], memory
        if self.kind == "in place":
            memory.layers[0].keys.mul_(2)
            return memory.layers[0].keys.sum(1) + y.sum(1)
        raise AssertionError(self.kind)


Pair = namedtuple("Pair", "keys values")

KINDS: dict[str, Callable[[Tensor], Any]] = {
    "dataclass": Memory,
    "slots": Slots,
    "list": lambda keys: [keys],
    "dict": lambda keys: {"old": keys, "other": 3},
    "tuple": lambda keys: (keys, keys + 1),
    "named tuple": lambda keys: Pair(keys, keys + 1),
    "new layer": Cache,
    "in place": Cache,
}


def state(value: Any) -> Any:
    """An object's content, for comparison."""
    return {"keys": value.keys} if isinstance(value, Slots) else value


@pytest.mark.parametrize("kind", KINDS)
def test_a_part_leaves_of_its_arguments_what_the_model_leaves(kind: str) -> None:
    torch.manual_seed(0)
    model, make = Appending(kind).double(), KINDS[kind]

    def call(module: nn.Module, length: int, seed: int) -> Any:
        torch.manual_seed(seed)
        x, memory = torch.randn(4, 3, 8).double(), make(torch.randn(4, length, 8).double())
        result = module(x, memory)
        return result, state(memory)

    example = torch.randn(4, 3, 8).double(), make(torch.zeros(4, 5, 8).double())
    names = {"x": {0: "batch"}, "memory": {0: "batch", 1: "past"}}
    if kind in ("list", "dict", "tuple"):
        keys: dict[str, list[Any]] = {"list": [0], "dict": ["old"], "tuple": [0, 1]}
        names = {"x": {0: "batch"}, "memory": {k: {0: "batch", 1: "past"} for k in keys[kind]}}
    graph = ds.trace(model, example, dynamic=names)
    assert_same(state(example[1]), state(make(torch.zeros(4, 5, 8).double())))
    again = ds.Graph.from_json(json.loads(json.dumps(graph.to_json())))
    assert (str(again), again.objects, again.left) == (str(graph), graph.objects, again.left)
    for mesh, policy in ({"tp": 2}, "tensor"), ({"dp": 2}, "data"):
        plan = ds.plan(graph, mesh, policy)
        for rank in SimulatedWorld[Any](mesh).run(
            lambda member, plan=plan: [
                call(*parts(model, [plan], member), length, length) for length in (5, 7, 7)
            ]
        ):
            assert_same(rank, [call(model, length, length) for length in (5, 7, 7)])


def alone(model: nn.Module, args: tuple[Any, ...], dynamic: Any = None) -> ParallelModule:
    plan = ds.plan(ds.trace(model, args, dynamic=dynamic), {"tp": 1})
    found: list[ParallelModule] = SimulatedWorld[Any]({"tp": 1}).run(
        lambda member: parts(model, [plan], member)[0]
    )
    return found[0]


def test_the_same_object_with_other_contents_gives_the_answer_for_these() -> None:
    model, cache = Appending("new layer"), Cache(torch.ones(4, 5, 8))
    x = torch.randn(4, 3, 8)
    part = alone(model, (x, cache))
    cache.layers[0].keys = torch.full((4, 5, 8), 7.0)
    _, layer, returned = part(x, cache)
    assert returned is cache
    assert layer is cache.layers[1]
    assert torch.equal(layer.keys, torch.full((4, 5, 8), 9.0))


def test_what_differs_from_the_trace_is_refused_in_words() -> None:
    model, x = Appending("new layer"), torch.randn(4, 3, 8)
    part = alone(model, (x, Cache(torch.ones(4, 5, 8))))

    def said(change: Callable[[Cache], Any]) -> str:
        cache = Cache(torch.ones(4, 5, 8))
        given = change(cache) or cache
        with pytest.raises(ds.DimsolveError) as caught:
            part(x, given)
        return str(caught.value)

    assert said(lambda c: setattr(c, "scale", 3)) == (
        "memory.scale is 3, and the model was traced with 2\n"
        "  what is no tensor is part of the program\n"
        "  hint: trace the model with this value"
    )
    assert said(lambda c: delattr(c, "scale")) == (
        "memory holds no scale, which was 2 when the model was traced\n"
        "  what an argument holds is part of the program\n"
        "  hint: trace the model with this argument"
    )
    assert said(lambda c: Memory(c.layers[0].keys)) == (
        "memory is a Memory, and the model was traced with a Cache\n"
        "  what a model does with an object is part of the program\n"
        "  hint: trace the model with an object of this class"
    )
    assert said(lambda c: c.layers.append(Layer(torch.ones(4, 5, 8)))).startswith(
        "memory.layers.1 is a Layer, and the model was traced with no object of a class there"
    )
    assert said(lambda c: setattr(c.layers[0], "keys", torch.ones(4, 6, 8))) == (
        "memory.layers.0.keys has another shape than the program was made for\n"
        "  it is (4, 6, 8), and the program takes float32[4, 5, 8]: 5 is never 6"
    )


class Calling(nn.Module):
    def forward(self, x: Tensor, change: Any) -> Tensor:
        return change(x) if callable(change) else x * 2


def test_a_tensor_that_an_argument_hides_is_refused_with_its_path() -> None:
    weight = torch.ones(8)
    with pytest.raises(ds.TraceError) as caught:
        ds.trace(Calling(), (torch.ones(4, 8), lambda x: x * weight))
    assert str(caught.value) == (
        "change holds tensors that no call can give anew\n"
        "  it is a function, and it holds a tensor: weight of its closure; a program would keep "
        "what it is now\n"
        "  hint: give the model the tensor itself, and let the model make the function"
    )
    with pytest.raises(ds.TraceError, match="it is a Linear, and it holds the tensor weight"):
        ds.trace(Calling(), (torch.ones(4, 8), nn.Linear(8, 8)))
    with pytest.raises(ds.TraceError, match="it is a set, and it holds a tensor: item 0"):
        ds.trace(Calling(), (torch.ones(4, 8), {weight}))


class Shared:
    table = torch.ones(8)


class Reading(nn.Module):
    def forward(self, x: Tensor, given: Any) -> Tensor:
        return x * given.table


def test_a_tensor_of_the_class_of_an_argument_is_refused() -> None:
    with pytest.raises(ds.TraceError) as caught:
        ds.trace(Reading(), (torch.ones(4, 8), Shared()))
    assert str(caught.value) == (
        "the model takes a tensor from given.table, which is no part of its arguments\n"
        "  no list, dict or attribute holds it; a program would keep what it is now\n"
        "  hint: pass the tensor itself: in a list, a dict, or as an attribute of an object"
    )


def test_dimensions_are_named_for_all_tensors_of_an_argument_that_have_them() -> None:
    model, example = Appending("new layer"), (torch.randn(4, 3, 8), Cache(torch.ones(4, 5, 8)))
    for names in (
        {"memory": {1: "past"}},
        {"memory.layers.0": {1: "past"}},
        {"memory": {"layers": {0: {"keys": {1: "past"}}}}},
        {"memory.layers.0.keys": (None, "past")},
    ):
        graph = ds.trace(model, example, dynamic=names)
        assert str(graph.values["memory_layers_0_keys"].type) == "float32[4, past, 8]"
    with pytest.raises(ds.AnnotationError, match="no tensor in 'memory' has dim 3"):
        ds.trace(model, example, dynamic={"memory": {3: "past"}})


# ---- with what else a call may do


class Settling(nn.Module):
    """Sets a plain attribute in its first call, and grows a memory in every one."""

    def __init__(self) -> None:
        super().__init__()
        self.kind: str | None = None

    def forward(self, x: Tensor, memory: Memory) -> Tensor:
        if self.kind is None:
            self.kind = "sum"
        memory.keys = torch.cat([memory.keys, x], 1)
        return memory.keys.sum(1)


def test_what_is_left_is_that_of_the_call_that_is_captured() -> None:
    x, memory = torch.randn(4, 3, 8), Memory(torch.ones(4, 5, 8))
    part = alone(Settling(), (x, memory))
    assert torch.equal(part(x, memory), memory.keys.sum(1))
    assert torch.equal(memory.keys, torch.cat([torch.ones(4, 5, 8), x], 1))


class Named(nn.Module):
    """Has a parameter with the name of an argument, and returns both."""

    def __init__(self) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.ones(8))

    def forward(self, x: Tensor, scale: Any) -> Any:
        return x * self.scale, scale


def test_an_argument_is_not_the_parameter_of_its_name() -> None:
    x = torch.randn(4, 8)
    assert alone(Named(), (x, None))(x, None)[1] is None


class Checkpointed(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.up = nn.Linear(8, 8)

    def forward(self, x: Tensor, memory: Memory) -> Tensor:
        made: Any = checkpoint(self.up, x, use_reentrant=False)
        memory.keys = torch.cat([memory.keys, made.tanh()], 1)
        return made.sum(1)


def test_what_a_region_makes_can_be_left() -> None:
    torch.manual_seed(0)
    model = Checkpointed().double()
    x, keys = torch.randn(4, 3, 8).double(), torch.randn(4, 5, 8).double()
    graph = ds.trace(model, (x, Memory(keys)), dynamic={"x": {0: "b"}, "memory": {0: "b"}})
    assert graph.regions
    assert graph.left

    def trained(module: nn.Module) -> Any:
        memory = Memory(keys)
        loss = module(x, memory).sum() + memory.keys.square().sum()
        loss.backward()
        return loss.detach(), memory.keys.detach(), module.get_parameter("up.weight").grad

    plan = ds.plan(graph, {"dp": 2}, "data")
    expected = trained(model)
    for rank in SimulatedWorld[Any]({"dp": 2}).run(
        lambda member: trained(*parts(model, [plan], member))
    ):
        assert_same(rank, expected)


def written() -> dict[str, Any]:
    example = torch.randn(4, 3, 8), Memory(torch.zeros(4, 5, 8))
    data: dict[str, Any] = ds.trace(Appending("dataclass"), example).to_json()
    return data


def test_a_graph_of_version_1_has_no_objects() -> None:
    data = written()
    assert data["version"] == 2
    with pytest.raises(ds.GraphError, match="a graph of version 1 returns no objects"):
        ds.Graph.from_json({**data, "version": 1})


def test_what_a_graph_from_outside_returns_by_its_path_must_be_trusted() -> None:
    data = written()
    of = [["returned", 9], "constant", "os.system", []]
    with pytest.raises(ds.GraphError, match=r"os\.system"):
        ds.Graph.from_json({**data, "objects": [*data["objects"], of]})
    place, parts, removed = data["left"][0]
    parts = [*parts, ["of", {"constant": "os.system"}]]
    with pytest.raises(ds.GraphError, match=r"os\.system"):
        ds.Graph.from_json({**data, "left": [[place, parts, removed]]})
