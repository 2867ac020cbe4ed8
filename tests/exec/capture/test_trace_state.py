"""Law: tracing leaves a model exactly as it was, and a model that computes with what an earlier
call left in it is refused, with the attribute and the line.
"""

from __future__ import annotations

import contextlib
from collections import OrderedDict
from collections.abc import Callable
from types import MappingProxyType
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.fx.immutable_collections import immutable_dict, immutable_list

import dimsolve as ds
from dimsolve.examples import llama
from tests.exec.losses import noise
from tests.oracles.one_device import parts, plan_of

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


class ReadByName(Counts):
    """Counts its calls, and reads the counter where no code names it as an attribute."""

    def forward(self, x: Tensor) -> Tensor:
        self.calls += 1
        result: Tensor = self.layer(x) * getattr(self, "calls")  # noqa: B009
        return result


@pytest.mark.parametrize("way", ["in place", "sum"])
def test_a_counter_that_nothing_reads_is_no_state(way: str) -> None:
    class Nested(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.calls = Plain(), 0

        def forward(self, x: Tensor) -> Tensor:
            self.calls += 1
            result: Tensor = self.first(x)
            return result

    class Plain(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer, self.calls = nn.Linear(4, 4), 3

        def forward(self, x: Tensor) -> Tensor:
            if way == "sum":
                self.calls = self.calls + 1
            else:
                self.calls += 1
            result: Tensor = self.layer(x)
            return result

    model = Nested()
    graph = ds.trace(model, kwargs={"x": X})
    assert (model.calls, model.first.calls) == (0, 3)
    assert torch.equal(graph.run(x=X, state=model), model(X))


def test_a_counter_that_is_read_by_name_is_refused() -> None:
    with pytest.raises(ds.TraceError, match="the model keeps 'calls' from one call to the next"):
        ds.trace(ReadByName(), kwargs={"x": X})


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


class Frozen(dict[str, Any]):
    """A dict as diffusers keeps a model's configuration: nothing that writes to it is allowed."""

    def _no(self, *args: Any, **kwargs: Any) -> Any:
        raise TypeError("a frozen dict cannot be written to")

    update = clear = copy = __setitem__ = __delitem__ = pop = setdefault = _no  # type: ignore[assignment]


@pytest.mark.parametrize(
    "held",
    [Frozen(a=1), immutable_list([1]), immutable_dict({"a": 1}), MappingProxyType({"a": 1})],
    ids=lambda held: type(held).__name__,
)
def test_a_container_that_forbids_writing_stays_as_it_is(held: Any) -> None:
    model = Model()
    model.held = held
    model.forward = lambda x: model.layer(x)  # type: ignore[method-assign]
    assert [node.name for node in ds.trace(model, X).nodes()] == ["linear"]
    assert model.held is held and len(held) == 1


class Reorders(Model):
    def forward(self, x: Tensor) -> Tensor:
        self.order["first"] = self.order.pop("first")
        return self.layer(x)


def test_an_ordered_dict_has_its_order_again() -> None:
    model = Reorders()
    model.order = OrderedDict(first=1, second=2)
    with contextlib.suppress(ds.TraceError):
        ds.trace(model, X)
    assert list(model.order) == ["first", "second"]


class Carries(nn.Module):
    """A layer, buffers, and what a case does with them."""

    def __init__(self, call: Callable[[Any, Tensor], Any]) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.layer = nn.Linear(4, 4, dtype=torch.float64)
        self.inner = nn.Module()
        self.inner.register_buffer("rows", torch.zeros((), dtype=torch.float64))
        self.register_buffer("count", torch.zeros((), dtype=torch.int64))
        self.register_buffer("mean", torch.zeros(4, dtype=torch.float64))
        self.call = call

    def forward(self, x: Tensor) -> Any:
        return self.call(self, self.layer(x))


def _counts(model: Any, y: Tensor) -> Tensor:
    model.count += 1
    return y


def _counts_twice(model: Any, y: Tensor) -> Tensor:
    model.count += 1
    y = y * model.count
    model.count += 1
    return y * model.count


def _runs(model: Any, y: Tensor) -> Tensor:
    model.mean *= 0.9
    model.mean += 0.1 * y.detach().mean(0)
    return y - model.mean


def _sums(model: Any, y: Tensor) -> Tensor:
    model.inner.rows += y.shape[0]
    with torch.no_grad():
        model.mean -= y.sum(0)
    return y / model.inner.rows


def _every_kind(model: Any, y: Tensor) -> Tensor:
    model.mean -= 1
    model.mean /= 2
    model.mean **= 2
    model.mean[0] += 1
    model.count |= 3
    model.count <<= 1
    model.count = model.count.add_(1)
    return y + model.mean * model.count


@pytest.mark.parametrize("call", [_counts, _counts_twice, _runs, _sums, _every_kind])
def test_a_buffer_computed_on_in_place_is_carried(call: Callable[[Any, Tensor], Tensor]) -> None:
    x = noise(6, 4)
    for mesh, policy in (({"dp": 2}, "data"), ({"tp": 2}, "tensor")):
        model, one = Carries(call), Carries(call)
        plan = plan_of(model, {"x": x}, {"x": {0: "batch"}}, mesh, policy)
        want = [one(x * number) for number in (1, 2, 3)]

        def work(part: nn.Module) -> tuple[list[Tensor], dict[str, Tensor]]:
            return [part(x=x * number) for number in (1, 2, 3)], dict(part.named_buffers())

        for got, buffers in parts(model, plan, mesh, work):
            for a, b in zip(want, got, strict=True):
                torch.testing.assert_close(b, a)
            for name, buffer in one.named_buffers() if policy == "data" else ():
                torch.testing.assert_close(buffers[name], buffer)
        assert not any(buffer.any() for buffer in model.buffers())


@pytest.mark.parametrize("beside", [3, (True, 0), None], ids=str)
def test_a_buffer_is_carried_beside_what_is_no_tensor(beside: Any) -> None:
    model = Carries(lambda each, y: (_runs(each, y), beside))
    part = ds.parallelize(model, plan_of(model, {"x": noise(6, 4)}, {}, {"tp": 1}, "tensor"))
    one = Carries(lambda each, y: _runs(each, y))
    for number in (1, 2):
        (found, other), wanted = part(x=noise(6, 4) * number), one(noise(6, 4) * number)
        torch.testing.assert_close(found, wanted)
        assert other == beside


def _swaps(model: Any, y: Tensor) -> Tensor:
    model.mean, model.count = model.count, model.mean
    return y


def test_buffers_that_change_places_are_refused_by_name() -> None:
    with pytest.raises(ds.TraceError) as caught:
        ds.trace(Carries(_swaps), noise(6, 4))
    assert str(caught.value).splitlines()[0] == "the model keeps 'count' from one call to the next"


class Replaces(nn.Module):
    """A layer whose parameters, and a buffer, are given other data."""

    def __init__(self, factor: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.layer = nn.Linear(4, 4, dtype=torch.float64)
        self.register_buffer("scale", torch.ones(4, dtype=torch.float64))
        self.factor = factor

    def forward(self, x: Tensor) -> Tensor:
        with torch.no_grad():
            for parameter in self.layer.parameters():
                parameter.data = parameter.data * 0.9
        self.scale.data = self.factor(self.scale)
        result: Tensor = self.layer(x) * self.scale
        return result


def test_data_that_are_replaced_are_written_in_place() -> None:
    model, one, x = Replaces(lambda t: t * 0.5), Replaces(lambda t: t * 0.5), noise(6, 4)
    plan = plan_of(model, {"x": x}, {"x": {0: "batch"}}, {"dp": 2}, "data")
    want = [one(x), one(x)]

    def work(part: nn.Module) -> tuple[list[Tensor], dict[str, Tensor]]:
        return [part(x=x), part(x=x)], {**dict(part.named_parameters()), "s": part.scale}

    for got, held in parts(model, plan, {"dp": 2}, work):
        torch.testing.assert_close(got, want)
        torch.testing.assert_close(held["layer.weight"], one.layer.weight)
        torch.testing.assert_close(held["s"], one.scale)


def test_data_of_another_shape_are_refused() -> None:
    with pytest.raises(ds.TraceError) as caught:
        ds.trace(Replaces(lambda scale: scale[None]), noise(6, 4))
    title, code, reason, hint = str(caught.value).splitlines()
    assert title.startswith("the model gives a tensor data of another shape or dtype at ")
    assert code == "    self.scale.data = self.factor(self.scale)"
    assert reason == "  what is held between calls keeps its shape and dtype"
    assert hint == (
        "  hint: data of the same shape and dtype are written in place, like x.copy_(data)"
    )


class HoldsInList(nn.Module):
    """Tensors in a list, of which one is looked at and not used."""

    def __init__(self) -> None:
        super().__init__()
        self.given = [noise(4, seed=1), noise(4, seed=2)]

    def forward(self, x: Tensor) -> Tensor:
        instead = {"x": x}.get("x", self.given[0])
        return instead + self.given[1]


def test_tensors_that_a_model_holds_and_does_not_use_are_no_inputs() -> None:
    """Looking for side effects made torch add them to the program once more, without examples."""
    model, x = HoldsInList(), noise(4)
    graph = ds.trace(model, kwargs={"x": x})
    assert [entry.kind for entry in graph.inputs] == ["input", "constant"]
    torch.testing.assert_close(graph.run(x=x), model(x))


@pytest.mark.parametrize("recorded", [True, False])
def test_tracing_leaves_the_modes_of_torch(recorded: bool) -> None:
    model, example, names = llama.tiny()
    with torch.set_grad_enabled(recorded):
        ds.trace(model, kwargs=example, dynamic=names)
        assert torch.is_grad_enabled() is recorded
