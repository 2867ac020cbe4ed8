"""Law: under autocast a part gives the dtypes of one device, and its values and gradients to their
rounding: traced inside of it or outside, in regions that are on, off and nested, with GradScaler.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

import dimsolve as ds
from dimsolve.ir.operator import Declaration
from dimsolve.partition.rules.table import RULES, rules_of
from tests.oracles.one_device import parts

HALF = [torch.bfloat16, torch.float16]
MESHES = [({"tp": 2}, "tensor"), ({"dp": 2}, "data"), ({"dp": 2, "tp": 2}, "data+tensor")]
MESH_IDS = ["tp=2", "dp=2", "dp=2,tp=2"]


class Classifier(nn.Module):
    """A model whose loss autocast computes in float32; ``inside`` is run on the logits."""

    def __init__(self, inside: Callable[[Any, Tensor], Tensor] | None = None) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.embed = nn.Embedding(32, 16)
        self.up, self.down = nn.Linear(16, 32), nn.Linear(32, 16)
        self.head = nn.Linear(16, 32, bias=False)
        self.inside = inside

    def forward(self, ids: Tensor, labels: Tensor) -> tuple[Tensor, ...]:
        h = self.embed(ids)
        h = self.down(functional.gelu(self.up(h)))
        if self.inside is not None:
            h = self.inside(self, h)
        z = self.head(h)
        rows, wanted = z.view(-1, 32), labels.view(-1)
        nll = functional.nll_loss(rows.log_softmax(-1), wanted, reduction="sum")
        return z, z.var(-1), functional.cross_entropy(rows, wanted), nll


def given() -> dict[str, Tensor]:
    draw = torch.Generator().manual_seed(1)
    return {
        "ids": torch.randint(32, (4, 8), generator=draw),
        "labels": torch.randint(32, (4, 8), generator=draw),
    }


DYNAMIC = {"ids": {0: "b"}, "labels": {0: "b"}}


def under(dtype: torch.dtype | None) -> AbstractContextManager[Any]:
    return nullcontext() if dtype is None else torch.autocast("cpu", dtype)


def outcome(net: Any, dtype: torch.dtype | None) -> tuple[list[Tensor], dict[str, Tensor | None]]:
    with under(dtype):
        outputs = net(**given())
    sum(t.float().mean() for t in outputs).backward()
    return [t.detach() for t in outputs], {n: p.grad for n, p in net.named_parameters()}


def compare(
    model: nn.Module,
    traced: torch.dtype | None,
    called: torch.dtype | None,
    mesh: dict[str, int],
    policy: str,
) -> None:
    """Calls the parts of a plan traced under one autocast under another, beside one device."""
    whole, gradients = outcome(copy.deepcopy(model), called)
    with under(traced):
        graph = ds.trace(model, kwargs=given(), dynamic=DYNAMIC)
    plan = ds.plan(graph, mesh, policy)

    def work(part: Any) -> None:
        found, own = outcome(part, called)
        assert [t.dtype for t in found] == [t.dtype for t in whole]
        for mine, wanted in zip(found, whole, strict=True):
            near = 2e-2 if wanted.dtype in HALF else 2e-3
            torch.testing.assert_close(mine, wanted, rtol=near, atol=near)
        for name, gradient in gradients.items():
            assert gradient is not None
            held = part.held(name).part(gradient)
            scale = float(gradient.abs().max())
            torch.testing.assert_close(own[name], held, rtol=3e-2, atol=3e-2 * scale)

    parts(model, plan, mesh, work)


@pytest.mark.parametrize(("mesh", "policy"), MESHES, ids=MESH_IDS)
@pytest.mark.parametrize("dtype", HALF, ids=str)
@pytest.mark.parametrize("inside", [True, False], ids=["traced inside", "traced outside"])
def test_a_part_is_cast_as_one_device(
    inside: bool, dtype: torch.dtype, mesh: dict[str, int], policy: str
) -> None:
    compare(Classifier(), dtype if inside else None, dtype, mesh, policy)


def on(m: Any, h: Tensor) -> Tensor:
    with torch.autocast("cpu", torch.bfloat16):
        return m.down(m.up(h)).float()


def off(m: Any, h: Tensor) -> Tensor:
    with torch.autocast("cpu", enabled=False):
        return m.down(m.up(h.float()))


def nested(m: Any, h: Tensor) -> Tensor:
    with torch.autocast("cpu", torch.bfloat16):
        h = m.up(h)
        with torch.autocast("cpu", enabled=False):
            h = h.float().softmax(-1)
        return m.down(h).float()


@pytest.mark.parametrize("called", [None, torch.bfloat16], ids=str)
@pytest.mark.parametrize("inside", [on, off, nested], ids=lambda f: f.__name__)
def test_regions_of_the_model_are_cast_as_one_device(
    inside: Any, called: torch.dtype | None
) -> None:
    for traced in {None, called}:
        compare(Classifier(inside), traced, called, {"tp": 2}, "tensor")


def test_a_graph_traced_under_autocast_is_planned_as_any_other() -> None:
    model = Classifier()
    plain = ds.trace(model, kwargs=given(), dynamic=DYNAMIC)
    with torch.autocast("cpu", torch.bfloat16):
        graph = ds.trace(model, kwargs=given(), dynamic=DYNAMIC)
    assert [node.annotation for node in graph.nodes()] == [
        node.annotation for node in plain.nodes()
    ]
    assert graph.autocast == {"cpu": "bfloat16"}
    again = ds.Graph.from_json(graph.to_json())
    assert again.autocast == graph.autocast
    assert again.to_json() == graph.to_json()
    assert "autocast" not in plain.to_json()
    plan = ds.plan(graph, {"tp": 2}, "tensor")
    assert any(operator.splits for operator in plan.operators)
    assert plan.graph.fingerprint != ds.plan(plain, {"tp": 2}, "tensor").graph.fingerprint


@pytest.mark.parametrize("path", sorted(RULES))
def test_a_function_whose_shapes_are_not_told_has_no_rule(path: str) -> None:
    """What torch refutes, and what is not annotated, stands in a graph as ``?``."""
    assert rules_of(path, Declaration("?, ? -> ?", inputs=(None, None))) == ()


def test_grad_scaler_trains_as_one_device() -> None:
    def train(net: Any) -> tuple[list[float], list[Tensor]]:
        optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
        scaler = torch.amp.GradScaler("cpu", init_scale=2.0**10)
        losses = []
        for _ in range(3):
            optimizer.zero_grad()
            with torch.autocast("cpu", torch.float16):
                loss = net(**given())[2]
            scaler.scale(loss).backward()
            scaler.unscale_(optimizer)
            nn.utils.clip_grad_norm_(net.parameters(), 0.5)
            scaler.step(optimizer)
            scaler.update()
            losses.append(loss.item())
        return losses, [p.detach() for p in net.parameters()]

    model = Classifier()
    wanted, weights = train(copy.deepcopy(model))
    assert wanted[-1] < wanted[0]
    plan = ds.plan(ds.trace(model, kwargs=given(), dynamic=DYNAMIC), {"tp": 2}, "tensor")

    def work(part: Any) -> None:
        losses, own = train(part)
        assert losses == pytest.approx(wanted, rel=1e-3)
        names = [name for name, _ in part.named_parameters()]
        for name, mine, weight in zip(names, own, weights, strict=True):
            torch.testing.assert_close(mine, part.held(name).part(weight), rtol=1e-2, atol=1e-3)

    parts(model, plan, {"tp": 2}, work)


def test_a_compiled_part_is_cast_as_one_device() -> None:
    model = Classifier()
    whole, _ = outcome(copy.deepcopy(model), torch.bfloat16)
    plan = ds.plan(ds.trace(model, kwargs=given(), dynamic=DYNAMIC), {"tp": 1}, "tensor")
    part = torch.compile(ds.parallelize(model, plan), backend="eager")
    found, _ = outcome(part, torch.bfloat16)
    assert [t.dtype for t in found] == [t.dtype for t in whole]
    for mine, wanted in zip(found, whole, strict=True):
        torch.testing.assert_close(mine, wanted, rtol=2e-2, atol=2e-2)


def test_the_emitted_program_is_cast_as_one_device() -> None:
    model = Classifier()
    whole, _ = outcome(copy.deepcopy(model), torch.bfloat16)
    plan = ds.plan(ds.trace(model, kwargs=given(), dynamic=DYNAMIC), {"tp": 2}, "tensor")

    def work(part: Any) -> None:
        space: dict[str, Any] = {}
        exec(compile(part.source(), "emitted", "exec"), space)
        weights = {n.replace(".", "_"): p for n, p in part.named_parameters()}
        with torch.autocast("cpu", torch.bfloat16):
            found = space["forward"](**given(), **weights, tp=part.ends.communicators["tp"])
        assert [t.dtype for t in found] == [t.dtype for t in whole]

    parts(model, plan, {"tp": 2}, work)


class Reading(nn.Module):
    """A model that reads the dtype of what it computes, where ``up`` says so of a linear layer."""

    def __init__(self, up: bool) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.first, self.second, self.up = nn.Linear(8, 8), nn.Linear(8, 8), up

    def forward(self, x: Tensor) -> Tensor:
        h = self.first(x)
        read = h if self.up else x * 2
        return self.second(h).softmax(-1).to(read.dtype) * 3


@pytest.mark.parametrize("traced", [None, torch.bfloat16], ids=str)
@pytest.mark.parametrize("called", [None, torch.bfloat16, torch.float16], ids=str)
def test_a_dtype_that_is_read_is_that_of_one_device_or_the_call_is_refused(
    traced: torch.dtype | None, called: torch.dtype | None
) -> None:
    x = torch.randn(4, 8, generator=torch.Generator().manual_seed(0))
    for up in (True, False):
        model = Reading(up)
        with under(traced):
            graph = ds.trace(model, args=(x,), dynamic={"x": {0: "b"}})
        with under(called):
            whole = model(x)

        def work(part: Any, whole: Tensor = whole) -> str:
            with under(called):
                try:
                    found = part(x)
                except ds.DimsolveError as refusal:
                    return str(refusal)
            assert found.dtype == whole.dtype
            torch.testing.assert_close(found, whole, rtol=2e-2, atol=2e-2)
            return ""

        assert graph.dtype_reads == ds.Graph.from_json(graph.to_json()).dtype_reads
        for error in parts(model, ds.plan(graph, {"tp": 2}, "tensor"), {"tp": 2}, work):
            if traced == called or not up:
                assert error == ""
                continue
            state = "off" if called is None else str(called).removeprefix("torch.")
            title, reason, hint = error.splitlines()
            assert title == (
                "the model was traced under another autocast than it is called in: "
                f"autocast cpu {state}"
            )
            assert reason.startswith("  it reads the dtype of a tensor that it computes, at ")
            assert "test_autocast.py:" in reason and "would read another one here" in reason
            assert hint == (
                "  hint: trace the model inside of the torch.autocast that it is called in"
            )
