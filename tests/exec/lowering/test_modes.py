"""Law: what a model does with gradients off, or under autocast, is equal to one device: outputs,
all gradients, and the modes that are left behind, also where a step fails and where the caller
records no gradients.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import dimsolve as ds
from dimsolve.exec.modes import Modes
from tests.oracles.one_device import parts, plan_of


class Model(nn.Module):
    """Two layers; ``forward`` is given by a case."""

    def __init__(self, forward: Callable[..., Any], dtype: torch.dtype = torch.float64) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.a, self.b = nn.Linear(4, 4, dtype=dtype), nn.Linear(4, 4, dtype=dtype)
        self._forward = forward

    def forward(self, x: Tensor) -> Any:
        return self._forward(self, x)


def block(m: Any, x: Tensor) -> Tensor:
    h = m.a(x)
    with torch.no_grad():
        gate = h.sigmoid()
    return m.b(h * gate)


@torch.no_grad()
def gate_of(h: Tensor) -> Tensor:
    return h.sigmoid()


def decorated(m: Any, x: Tensor) -> Tensor:
    h = m.a(x)
    return m.b(h * gate_of(h))


def switched(m: Any, x: Tensor) -> Tensor:
    h = m.a(x)
    torch.set_grad_enabled(False)
    gate = m.b(h)
    torch.set_grad_enabled(True)
    return m.b(h) * gate


def nested(m: Any, x: Tensor) -> Tensor:
    with torch.no_grad():
        gate = m.a(x)
        with torch.enable_grad():
            inner = m.b(gate)
        gate = gate + inner
    return m.a(x) * gate + inner


def written(m: Any, x: Tensor) -> Tensor:
    h = m.a(x)
    with torch.no_grad():
        h.mul_(3)
    return m.b(h)


def cut(m: Any, x: Tensor) -> Tensor:
    return m.b(m.a(x).detach() * m.a(x))


GRADIENTS = [block, decorated, switched, nested, written, cut]


def outcome(model: Any, x: Tensor) -> tuple[Any, dict[str, Tensor | None]]:
    result = model(x)
    if result.requires_grad:
        result.square().sum().backward()
    return result.detach(), {n: p.grad for n, p in model.named_parameters()}


@pytest.mark.parametrize("mesh, policy", [({"tp": 1}, "replicate"), ({"tp": 2}, "tensor")])
@pytest.mark.parametrize("forward", GRADIENTS, ids=lambda f: f.__name__)
def test_gradients_stay_off(forward: Any, mesh: dict[str, int], policy: str) -> None:
    model = Model(forward)
    x = torch.randn(4, 4, dtype=torch.float64)
    whole, gradients = outcome(copy.deepcopy(model), x)
    plan = plan_of(model, {"x": x}, None, mesh, policy)

    def work(part: Any) -> None:
        result, found = outcome(part, x)
        torch.testing.assert_close(result, whole)
        for name, wanted in gradients.items():
            own = None if wanted is None else part.held(name).part(wanted)
            torch.testing.assert_close(found[name], own)

    parts(model, plan, mesh, work)


@pytest.mark.parametrize("forward", GRADIENTS, ids=lambda f: f.__name__)
def test_the_graph_keeps_them_off_as_json_too(forward: Any) -> None:
    model = Model(forward)
    x = torch.randn(4, 4, dtype=torch.float64)
    _, wanted = outcome(model, x)
    graph = ds.trace(model, kwargs={"x": x})
    for made in (graph, ds.Graph.from_json(graph.to_json())):
        model.zero_grad()
        made.run(x=x, state=model).square().sum().backward()
        for name, parameter in model.named_parameters():
            torch.testing.assert_close(parameter.grad, wanted[name])


@pytest.mark.parametrize("forward", [block, switched], ids=lambda f: f.__name__)
def test_the_emitted_program_keeps_them_off(forward: Any) -> None:
    model = Model(forward)
    x = torch.randn(4, 4, dtype=torch.float64)
    _, wanted = outcome(copy.deepcopy(model), x)
    part = ds.parallelize(model, plan_of(model, {"x": x}, None, {"tp": 1}, "replicate"))
    space: dict[str, Any] = {}
    exec(compile(part.source(), "emitted", "exec"), space)  # what a reader of the text would run
    weights = {n.replace(".", "_"): p for n, p in part.named_parameters()}
    space["forward"](x, **weights, tp=None).square().sum().backward()
    for name, parameter in part.named_parameters():
        torch.testing.assert_close(parameter.grad, wanted[name])


def test_a_caller_without_gradients_gets_none() -> None:
    x = torch.randn(4, 4, dtype=torch.float64)
    model = Model(block)
    graph = ds.trace(model, kwargs={"x": x})
    part = ds.parallelize(model, ds.plan(graph, {"tp": 1}, "replicate"))
    with torch.no_grad():
        assert not part(x).requires_grad
        assert not graph.run(x=x, state=model).requires_grad
        assert not torch.is_grad_enabled()
        ds.trace(model, kwargs={"x": x})
        assert not torch.is_grad_enabled()
    assert part(x).requires_grad


def test_a_model_may_leave_gradients_off() -> None:
    def forward(m: Any, x: Tensor) -> Tensor:
        h = m.a(x)
        torch.set_grad_enabled(False)
        return h

    model, x = Model(forward), torch.randn(4, 4, dtype=torch.float64)
    plan = plan_of(model, {"x": x}, None, {"tp": 2}, "tensor")
    assert torch.is_grad_enabled()

    def work(part: Any) -> tuple[bool, bool]:
        result = part(x)
        off = not torch.is_grad_enabled()
        torch.set_grad_enabled(True)
        return off, result.requires_grad

    assert parts(model, plan, {"tp": 2}, work) == [(True, True)] * 2


@ds.register_op("* -> *")
def fails(x: Tensor) -> Tensor:
    if bool((x < 0).any()):
        raise ValueError("negative")
    return x.clone()


def test_modes_are_restored_after_an_error() -> None:
    def forward(m: Any, x: Tensor) -> Tensor:
        with torch.no_grad(), torch.autocast("cpu", torch.bfloat16):
            y = fails(m.a(x))
        return m.b(y.float())

    model = Model(forward, torch.float32)
    x = torch.randn(4, 4)
    graph = ds.trace(model, kwargs={"x": x})
    part = ds.parallelize(model, ds.plan(graph, {"tp": 1}, "replicate"))
    space: dict[str, Any] = {}
    exec(compile(part.source(), "emitted", "exec"), space)
    weights = {n.replace(".", "_"): p for n, p in part.named_parameters()}
    before = Modes.now()
    calls: list[Callable[[], Any]] = [
        lambda: part(x),
        lambda: graph.run(x=x, state=model),
        lambda: space["forward"](x, **weights, tp=None),
    ]
    for call in calls:
        with pytest.raises(ValueError, match="negative"):
            call()
        assert Modes.now() == before


# ---- autocast


def cast(m: Any, x: Tensor) -> Tensor:
    with torch.autocast("cpu", torch.bfloat16):
        return m.b(m.a(x))


def cast_inside(m: Any, x: Tensor) -> Tensor:
    with torch.autocast("cpu", torch.bfloat16):
        h = m.a(x)
        with torch.autocast("cpu", enabled=False):
            g = m.b(h.float())
        h = m.b(h) + g
    return m.a(h)


def cast_otherwise(m: Any, x: Tensor) -> Tensor:
    with torch.autocast("cuda", torch.float16), torch.autocast("cpu", torch.float16):
        h = m.a(x)
        with torch.autocast("cpu", torch.bfloat16, cache_enabled=False):
            h = m.b(h)
    return h


AUTOCAST = [cast, cast_inside, cast_otherwise]


@pytest.mark.parametrize("forward", AUTOCAST, ids=lambda f: f.__name__)
def test_autocast_is_left(forward: Any) -> None:
    model, x = Model(forward, torch.float32), torch.randn(4, 4)
    whole, gradients = outcome(copy.deepcopy(model), x)
    before = Modes.now()
    graph = ds.trace(model, kwargs={"x": x})
    part = ds.parallelize(model, ds.plan(graph, {"tp": 1}, "replicate"))
    result, found = outcome(part, x)
    assert Modes.now() == before
    assert result.dtype == whole.dtype
    assert torch.equal(result, whole)
    for name, wanted in gradients.items():
        assert torch.equal(found[name], wanted)  # type: ignore[arg-type]
    assert torch.equal(graph.run(x=x, state=model), whole)
    assert torch.equal(ds.Graph.from_json(graph.to_json()).run(x=x, state=model), whole)
    assert Modes.now() == before


def test_weights_are_cast_anew_in_every_call() -> None:
    model, x = Model(cast, torch.float32), torch.randn(4, 4)
    part = ds.parallelize(model, plan_of(model, {"x": x}, None, {"tp": 1}, "replicate"))
    with torch.no_grad():
        first = part(x).clone()
        part.get_parameter("b.weight").mul_(2)
        assert not torch.equal(part(x), first)


# ---- inference mode


def test_inference_mode_is_refused() -> None:
    def forward(m: Any, x: Tensor) -> Tensor:
        with torch.inference_mode():
            g = m.a(x).sigmoid()
        return m.a(x) * g.clone()

    with pytest.raises(ds.TraceError) as caught:
        ds.trace(Model(forward), kwargs={"x": torch.ones(4, 4, dtype=torch.float64)})
    assert str(caught.value).splitlines()[1:] == [
        "    g = m.a(x).sigmoid()",
        "  tensors made there are marked for good, and what a rank makes of them is not",
        "  hint: torch.no_grad() records no gradients either, and can be planned",
    ]
    assert not torch.is_inference_mode_enabled()
