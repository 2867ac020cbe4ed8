"""Parameters stored in parts: whatever ``state=`` says, training is that of one device."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

import pytest
import torch
from torch import nn

import dimsolve as ds
from dimsolve.exec.parallel.parallelize import ParallelModule
from dimsolve.exec.running.comparable import without_narrowing
from tests.exec import recomputed
from tests.exec.stored import difference, steps
from tests.oracles.all_ranks import compare
from tests.oracles.one_device import assert_equal, parts, train
from tests.partition.planning.models import EIGHT, OTHERS, traced

pytest.importorskip("transformers")

TOLERANCE = 1e-9
KINDS: list[tuple[dict[str, int], Any]] = [
    ({"dp": 2}, "shared"),
    ({"dp": 2}, "optimizer"),
    ({"dp": 2, "tp": 2}, "shared"),
]
MORE: list[tuple[dict[str, int], Any]] = [
    ({"fsdp": 3}, None),
    ({"dp": 2, "fsdp": 2}, None),
    ({"dp": 2, "fsdp": 2}, "shared"),
    ({"dp": 2, "fsdp": 2}, "optimizer"),
    ({"tp": 2, "dp": 2}, "optimizer"),
    ({"dp": 2, "tp": 2}, {"tp": "shared"}),
    ({"dp": 2, "tp": 4}, {"dp": "shared", "tp": "optimizer"}),
    ({"dp": 2, "fsdp": 2, "tp": 2}, "optimizer"),
    ({"dp": 8}, "shared"),
]


@lru_cache(maxsize=4)
def model_of(name: str) -> tuple[torch.nn.Module, dict[str, Any]]:
    """A model in float64 and a batch of 24 rows."""
    _, state, _, _ = traced(name)
    model, inputs, _ = {**EIGHT, **OTHERS}[name]()
    model = model.double().eval()
    model.load_state_dict(state, strict=False)
    batch = {key: torch.cat([value.roll(n, -1) for n in range(6)]) for key, value in inputs.items()}
    return model, batch


@lru_cache(maxsize=4)
def trained(name: str) -> tuple[torch.nn.Module, list[float]]:
    """The model after its steps on one device, and the norms."""
    model, batch = model_of(name)
    whole = copy.deepcopy(model)
    with without_narrowing():
        return whole, steps(whole, batch)


def assert_trained_alike(name: str, mesh: Mapping[str, int], state: Any) -> None:
    model, batch = model_of(name)
    whole, norms = trained(name)
    plan = ds.plan(traced(name)[0], mesh, state=state)
    assert plan.state
    assert ds.Plan.from_json(plan.to_json()) == plan

    def work(part: ParallelModule) -> tuple[list[float], float]:
        with without_narrowing():
            found = steps(part, batch)
        return found, difference(whole, part)

    for found, most in parts(model, plan, mesh, work):
        assert most < TOLERANCE
        most = max(abs(a - b) / b for a, b in zip(found, norms, strict=True))
        assert most < TOLERANCE


@pytest.mark.parametrize("name", [n for n in [*EIGHT, *OTHERS] if n != "mixtral"])
def test_clipped_and_accumulated_adamw_steps_are_those_of_one_device(name: str) -> None:
    for mesh, state in KINDS:
        assert_trained_alike(name, mesh, state)


def test_experts_are_those_of_one_device() -> None:
    """torch multiplies the matrices of experts in no float64: the graph's own run is compared."""
    graph, state, inputs, sizes = traced("mixtral")
    for mesh, kind in KINDS:
        assert compare(ds.plan(graph, mesh, state=kind), graph, state, inputs, sizes).ok


@pytest.mark.parametrize(("mesh", "state"), MORE, ids=str)
def test_every_mesh_and_state_trains_as_one_device(mesh: dict[str, int], state: Any) -> None:
    assert_trained_alike("odd_gpt2", mesh, state)


@pytest.mark.parametrize("reentrant", [False, True])
@pytest.mark.parametrize("state", ["shared", "optimizer"])
def test_regions_that_run_again_gather_again(state: str, reentrant: bool) -> None:
    model = recomputed.Stack({"use_reentrant": reentrant}).double()
    example = {"x": torch.randn(6, 8, dtype=torch.float64, requires_grad=reentrant)}
    plan = ds.plan(ds.trace(model, kwargs=example), {"dp": 3}, state=state)
    assert len({entry.block for entry in plan.conversions if entry.block is not None}) == 4
    assert_equal(train(model, example, None, {"dp": 3}, None, plan=plan))


def test_blocks_of_one_region_that_are_stored_otherwise_begin_before_it() -> None:
    """Norms whose gradient is also summed over cp are a block beside that of the matrices."""
    model, batch = model_of("gpt2")
    model = copy.deepcopy(model)
    model.train().gradient_checkpointing_enable()  # type: ignore[operator]  # of transformers
    names = {key: {0: "batch", 1: "seq"} for key in batch}
    plan = ds.plan(ds.trace(model, kwargs=batch, dynamic=names), {"fsdp": 2, "cp": 2})
    assert plan.regions and plan.state
    assert_equal(train(model, batch, names, {"fsdp": 2, "cp": 2}, None, 1, plan=plan))


def test_a_part_that_changes_before_the_backward_pass_is_refused() -> None:
    model = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 2))
    example = {"input": torch.randn(4, 4, requires_grad=True)}
    plan = ds.plan(ds.trace(model, kwargs=example), {"dp": 2}, state="shared")

    def work(part: ParallelModule) -> str:
        loss = part(**example).square().mean()
        with torch.no_grad():
            next(p for n, p in part.named_parameters() if n == "2.weight").mul_(2)
        with pytest.raises(ds.DimsolveError) as raised:
            loss.backward()
        return str(raised.value)

    for text in parts(model, plan, {"dp": 2}, work):
        assert text.startswith(
            "a parameter that the backward pass needs has been changed since the forward pass\n"
        )


def test_saved_tensors_that_are_written_to_are_refused_as_torch_does() -> None:
    model, example = nn.Linear(4, 4), {"input": torch.randn(4, 4)}
    plan = ds.plan(ds.trace(model, kwargs=example), {"dp": 2}, "replicate", {"dp": "shared"})

    def work(part: ParallelModule) -> None:
        made = torch.zeros(4, 4, requires_grad=True) + 1
        loss = part(input=made).sum()
        with torch.no_grad():
            made.add_(1)
        with pytest.raises(RuntimeError, match="modified by an inplace"):
            loss.backward()

    parts(model, plan, {"dp": 2}, work)


@pytest.mark.parametrize("state", ["shared", "optimizer"])
@pytest.mark.parametrize("settings", [None, {"use_reentrant": False}], ids=str)
def test_the_emitted_program_says_when_blocks_are_gathered_and_runs(
    state: str, settings: dict[str, bool] | None
) -> None:
    torch.manual_seed(0)
    model = recomputed.Stack(settings)
    x, mesh = torch.randn(4, 8), {"dp": 2, "fsdp": 2}
    precision = {"stored": "float64"}
    plan = ds.plan(ds.trace(model, kwargs={"x": x}), mesh, None, {"fsdp": state}, precision)

    def work(part: ParallelModule) -> list[str]:
        part(x=x).backward()
        wanted = [parameter.grad for parameter in part.parameters()]
        part.zero_grad()
        space: dict[str, Any] = {}
        exec(compile(part.source(), "emitted", "exec"), space)  # what a reader of it would run
        tensors = part.tensors_of(part.program)
        space["forward"](x, *tensors, **part.ends.communicators).backward()
        for parameter, gradient in zip(part.parameters(), wanted, strict=True):
            assert torch.equal(parameter.grad, gradient)  # type: ignore[arg-type]
        return [line.strip() for line in part.source().splitlines() if "block_1 = " in line]

    lines = parts(model, plan, mesh, work)[0]
    assert len(lines) == 1
    assert lines[0].startswith("block_1 = begin_block([blocks_0_up_weight, blocks_0_up_bias, ")


@pytest.mark.parametrize("state", [None, "shared", "optimizer"])
def test_parameters_are_stored_in_another_dtype_than_they_are_used_in(state: str | None) -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 5))
    example = {"input": torch.randn(8, 6)}
    graph, precision = ds.trace(model, kwargs=example), {"stored": "float64"}
    plan = ds.plan(graph, {"dp": 2}, "data", state, precision)
    assert ds.Plan.from_json(plan.to_json()).for_graph(graph) == plan
    plain = ds.plan(graph, {"dp": 2}, "data", state).memory().parameters
    assert plan.memory().parameters == 2 * plain
    whole, used = copy.deepcopy(model).double(), copy.deepcopy(model)

    def train(kept: nn.Module, call: Any, after: Any) -> None:
        optimizer = torch.optim.AdamW(kept.parameters(), lr=0.1, eps=1e-3)
        for _ in range(3):
            call(**example).square().mean().backward()
            after()
            optimizer.step()
            optimizer.zero_grad()

    def cast() -> None:
        with torch.no_grad():
            for wide, narrow in zip(whole.parameters(), used.parameters(), strict=True):
                wide.grad = narrow.grad.double()  # type: ignore[union-attr]
                narrow.grad = None

    def call(**given: Any) -> torch.Tensor:
        with torch.no_grad():
            for wide, narrow in zip(whole.parameters(), used.parameters(), strict=True):
                narrow.copy_(wide)
        found: torch.Tensor = used(**given)
        return found

    train(whole, call, cast)

    def work(part: ParallelModule) -> float:
        train(part, part, lambda: None)
        assert {parameter.dtype for parameter in part.parameters()} == {torch.float64}
        assert part(**example).dtype is torch.float32
        return difference(whole, part)

    assert max(parts(model, plan, {"dp": 2}, work)) < 1e-5


def test_a_precision_that_there_is_not_is_refused() -> None:
    graph = ds.trace(nn.Linear(2, 2), kwargs={"input": torch.ones(2, 2)})
    with pytest.raises(ds.PlanError) as raised:
        ds.plan(graph, {"dp": 2}, precision={"stored": "int8"})
    assert str(raised.value) == (
        "there is no such precision\n"
        "  precision is {'stored': 'int8'}\n"
        '  hint: write {"stored": "float32"}, with "reduced" beside it where gradients are summed '
        "in another dtype: float64, float32, bfloat16 or float16"
    )
