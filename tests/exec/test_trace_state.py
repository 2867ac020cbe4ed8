"""Law: tracing leaves a model exactly as it was, and a model that computes with what an earlier
call left in it is refused, with the attribute and the line.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import dimsolve as ds

X = torch.ones(2, 4)
COUNT = 0
SEEN: list[int] = []


class Model(nn.Module):
    """A layer, a buffer, and attributes; ``forward`` is given by a case."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.layer = nn.Linear(4, 4)
        self.norm = nn.BatchNorm1d(4)
        self.register_buffer("mean", torch.zeros(4))
        self.calls, self.earlier, self.last = 0, None, None
        self.history: list[Any] = []
        self.layer.weight.requires_grad_(False)
        self.norm.eval()
        self.register_forward_hook(lambda module, args, result: None)


class Counts(Model):
    def forward(self, x: Tensor) -> Tensor:
        self.calls += 1
        return self.layer(x) * self.calls


class Remembers(Model):
    def forward(self, x: Tensor) -> Tensor:
        y = self.layer(x)
        result = y if self.earlier is None else y + self.earlier
        self.earlier = y.detach()
        return result


class Averages(Model):
    def forward(self, x: Tensor) -> Tensor:
        self.mean = 0.9 * self.mean + self.layer(x).detach().mean(0)
        return self.layer(x) - self.mean


class Appends(Model):
    def forward(self, x: Tensor) -> Tensor:
        self.history.append(x.sum())
        return self.layer(x) + len(self.history)


class CountsOutside(Model):
    def forward(self, x: Tensor) -> Tensor:
        global COUNT
        COUNT += 1
        return self.layer(x) * COUNT


class AppendsOutside(Model):
    def forward(self, x: Tensor) -> Tensor:
        SEEN.append(1)
        return self.layer(x) * len(SEEN)


class Inner(Model):
    def __init__(self) -> None:
        super().__init__()
        self.inner = Counts()

    def forward(self, x: Tensor) -> Tensor:
        return self.inner(x) + x


class Keeps(Model):
    """Assigns what nothing computes with."""

    def forward(self, x: Tensor) -> Tensor:
        self.last = self.layer(x)
        return self.last * 2


class Fails(Model):
    def forward(self, x: Tensor) -> Tensor:
        self.last = self.layer(x)
        if bool(x.sum() > 0):
            return x
        return self.last


class Contradicts(Model):
    """Its shapes are wrong: what is wrong is looked for by running it once more."""

    def forward(self, x: Tensor) -> Tensor:
        self.mean = self.layer(x).mean(0)
        self.history.append(x)
        return self.layer(x) @ torch.ones(3, 3)


class Writes(Model):
    def forward(self, x: Tensor) -> Tensor:
        self.mean.mul_(0.9)
        return self.layer(x) + self.mean


def spectral() -> nn.Module:
    return nn.Sequential(nn.utils.parametrizations.spectral_norm(nn.Linear(4, 4)), nn.Tanh())


def picture(model: nn.Module) -> dict[str, Any]:
    """All that can be seen of a model: the objects themselves, and the numbers in its tensors."""
    found: dict[str, Any] = {"rng": torch.get_rng_state().tolist()}
    for path, module in model.named_modules():
        for name, value in vars(module).items():
            content = value
            if isinstance(value, dict):
                content = [(key, id(item)) for key, item in value.items()]
            elif isinstance(value, list):
                content = list(map(id, value))
            elif isinstance(value, set):
                content = sorted(map(str, value))
            found[f"{path}.{name}"] = (id(value) if value is not content else value, content)
    for name, tensor in [*model.named_parameters(), *model.named_buffers()]:
        hooks = tensor._backward_hooks
        found[f"tensor {name}"] = (tensor.tolist(), tensor.requires_grad, tensor._version, hooks)
    return found


CASES: list[Callable[[], nn.Module]] = [
    *(Counts, Remembers, Averages, Appends, CountsOutside, AppendsOutside, Inner, Keeps, Fails),
    *(Contradicts, Writes, spectral),
]


@pytest.mark.parametrize("make", CASES, ids=lambda make: make.__name__)
@pytest.mark.parametrize("dynamic", [None, {0: "n"}], ids=["fixed", "dynamic"])
def test_tracing_leaves_a_model_as_it_was(make: Any, dynamic: Any) -> None:
    model = make()
    before = picture(model)
    kwargs, names = ({"input": X}, "input") if make is spectral else ({"x": X}, "x")
    with contextlib.suppress(ds.TraceError, ds.ShapeError):
        ds.trace(model, kwargs=kwargs, dynamic={names: dynamic} if dynamic else None)
    assert picture(model) == before
    assert (COUNT, SEEN) == (0, [])


@pytest.mark.parametrize(
    "make, name, code",
    [
        (Counts, "calls", "self.calls += 1"),
        (Remembers, "earlier", "self.earlier = y.detach()"),
        (Averages, "mean", "self.mean = 0.9 * self.mean + self.layer(x).detach().mean(0)"),
        (Appends, "history", "self.history.append(x.sum())"),
        (Inner, "inner.calls", "self.calls += 1"),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_what_is_kept_between_calls_is_refused(make: Any, name: str, code: str) -> None:
    with pytest.raises(ds.TraceError) as caught:
        ds.trace(make(), kwargs={"x": X})
    title, *rest = str(caught.value).splitlines()
    assert title.startswith(f"the model keeps '{name}' from one call to the next at ")
    assert "test_trace_state.py:" in title
    assert rest == [
        f"    {code}",
        f"  a program computes every call alike, with '{name}' as it is now",
        "  hint: a buffer that is written in place is carried: self.count.add_(1), "
        "self.mean.copy_(mean)",
    ]


@pytest.mark.parametrize("make, name", [(CountsOutside, "COUNT"), (AppendsOutside, "SEEN")])
def test_what_is_kept_outside_is_refused(make: Any, name: str) -> None:
    with pytest.raises(ds.TraceError, match=f"the model keeps '{name}' from one call to the next"):
        ds.trace(make(), kwargs={"x": X})


def test_what_the_hint_says_is_carried() -> None:
    model, reference = Writes(), Writes()
    for one in (model, reference):
        one.mean.fill_(1.0)
    graph = ds.trace(model, kwargs={"x": X})
    part = ds.parallelize(model, ds.plan(graph, {"tp": 1}, "replicate"))
    for _ in range(3):
        torch.testing.assert_close(part(X), reference(X))


class Settings:
    """What belongs to a model and is no module."""

    def __init__(self) -> None:
        self.kind: str | None = None


class Settles(nn.Module):
    """``kind`` is found out in the first call, as transformers' configurations do; ``factor`` says
    whether a later call computes something else.
    """

    def __init__(self, factor: float) -> None:
        super().__init__()
        self.a = nn.Linear(4, 4)
        self.config = Settings()
        self.factor = factor

    def forward(self, x: Tensor) -> Tensor:
        result: Tensor = self.a(x)
        if self.config.kind is None:
            self.config.kind = "mean"
            return result
        return result * self.factor if self.factor != 1 else result


def test_what_a_first_call_finds_out_is_no_state() -> None:
    model = Settles(1)
    graph = ds.trace(model, kwargs={"x": X})
    assert model.config.kind is None
    assert torch.equal(graph.run(x=X, state=model.state_dict()), model(X))


def test_what_makes_the_second_call_another_one_is_refused() -> None:
    model = Settles(2)
    with pytest.raises(ds.TraceError, match="the model keeps 'kind' from one call to the next"):
        ds.trace(model, kwargs={"x": X})
    assert model.config.kind is None
