"""Law: parameters and inputs may have any name, be returned, and be written to; function
transforms are refused in words.
"""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import dimsolve as ds

X = torch.randn(4, 4, generator=torch.Generator().manual_seed(0))


class Keys(nn.Module):
    """Names that no Python variable can have."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.layers = nn.ModuleDict({"en-de": nn.Linear(4, 4), "to all": nn.Linear(4, 4)})
        self.register_parameter("lambda", nn.Parameter(torch.full((4,), 2.0)))
        self.register_parameter("class", nn.Parameter(torch.full((4,), 3.0)))

    def forward(self, x: Tensor) -> Tensor:
        y = self.layers["to all"](self.layers["en-de"](x))
        return y * getattr(self, "lambda") + getattr(self, "class")


class Returns(nn.Module):
    """Returns parameters, used and unused, and a buffer."""

    def __init__(self) -> None:
        super().__init__()
        self.a = nn.Linear(4, 4)
        self.unused = nn.Parameter(torch.ones(3))
        self.register_buffer("mean", torch.ones(4))

    def forward(self, x: Tensor) -> Any:
        return self.a(x).sum(), self.a.weight, self.unused, self.mean


class Decays(nn.Module):
    """Writes to its weight where gradients are off."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.a = nn.Linear(4, 4)

    def forward(self, x: Tensor) -> Tensor:
        with torch.no_grad():
            self.a.weight.mul_(0.9)
        return self.a(x)


class Data(nn.Module):
    """Computes with what ``.data`` gives."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.a = nn.Linear(4, 4)

    def forward(self, x: Tensor) -> Tensor:
        y = self.a(x)
        return y * y.data


def part_of(model: nn.Module, **kwargs: Any) -> Any:
    graph = ds.trace(model, kwargs=kwargs)
    graph = ds.Graph.from_json(graph.to_json())
    return ds.parallelize(model, ds.plan(graph, {"tp": 1}, "replicate"))


@pytest.mark.parametrize("make", [Keys, Decays, Data])
def test_equal_to_one_device(make: Any) -> None:
    model = make()
    whole = copy.deepcopy(model)
    part = part_of(model, x=X)
    for _ in range(2):
        results = [one(X) for one in (part, whole)]
        torch.testing.assert_close(results[0], results[1])
        for result in results:
            result.square().sum().backward()
    wanted = dict(whole.named_parameters())
    for name, parameter in part.named_parameters():
        torch.testing.assert_close(parameter, wanted[name])
        torch.testing.assert_close(parameter.grad, wanted[name].grad)
    compile(part.source(), "emitted", "exec")


def test_parameters_are_returned() -> None:
    model = Returns()
    result = part_of(model, x=X)(X)
    for found, wanted in zip(result, model(X), strict=True):
        torch.testing.assert_close(found, wanted)
    assert [found.requires_grad for found in result] == [True, True, True, False]


def test_an_input_may_be_named_like_an_axis() -> None:
    class Scaled(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.a = nn.Linear(4, 4)

        def forward(self, x: Tensor, tp: Tensor, device: Tensor, torch: Tensor) -> Tensor:
            return self.a(x) * tp + device - torch

    model, one = Scaled(), torch.ones(1)
    part = part_of(model, x=X, tp=one * 2, device=one, torch=one * 3)
    compile(part.source(), "emitted", "exec")
    args = {"x": X, "tp": one * 2, "device": one, "torch": one * 3}
    torch.testing.assert_close(part(**args), model(**args))


def derived(layer: nn.Module, x: Tensor) -> Tensor:
    return torch.func.grad(lambda value: layer(value).sum())(x)


def test_function_transforms_are_refused() -> None:
    class Transforms(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.a = nn.Linear(4, 4)

        def forward(self, x: Tensor) -> Tensor:
            result: Tensor = derived(self.a, x)
            return result

    with pytest.raises(ds.TraceError) as caught:
        ds.trace(Transforms(), kwargs={"x": X})
    title, *_, reason, hint = str(caught.value).splitlines()
    assert title.startswith(
        "the model transforms a function at tests/exec/capture/test_names_of_state.py:"
    )
    assert reason == "  what torch.vmap, torch.func.grad and their kin run inside has no plan"
    assert hint == ("  hint: write it for the whole batch, or register the function as an operator")


class Forces(nn.Module):
    """Takes the gradient of an energy by what it computes; ``how``: by which function."""

    def __init__(self, how: str) -> None:
        super().__init__()
        self.a = nn.Linear(4, 4)
        self.how = how

    def forward(self, x: Tensor) -> Tensor:
        h = torch.tanh(self.a(x))
        energy: Any = (h @ h.T).sum()
        if self.how == "grad":
            return torch.autograd.grad(energy, h, create_graph=True)[0]
        energy.backward()
        return h


@pytest.mark.parametrize(("how", "traced"), [("grad", False), ("grad", True), ("backward", False)])
def test_gradients_that_a_model_takes_itself_are_refused(how: str, traced: bool) -> None:
    """Also where torch is told to capture them: on a rank they would miss what others made."""
    with (
        torch._dynamo.config.patch(trace_autograd_ops=traced),
        pytest.raises(ds.TraceError) as caught,
    ):
        ds.trace(Forces(how), kwargs={"x": X})
    title, *_, reason, hint = str(caught.value).splitlines()
    assert title.startswith("the model takes gradients of what it computes at tests/exec/capture/")
    assert reason == "  they follow how a tensor was made, and a rank has made parts of it"
    assert hint == (
        "  hint: return what is differentiated, and take the gradients of what the part returns"
    )
