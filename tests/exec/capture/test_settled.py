"""Law: a tensor that a model computes once and keeps is no state where every call would compute the
same one: the program makes it anew. Any other is refused with its name.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import dimsolve as ds
from tests.exec.losses import noise
from tests.oracles.one_device import parts

DYNAMIC = {"x": {0: "batch", 1: "length"}}


class Model(nn.Module):
    """A layer, places for what is kept, and a call that a case gives."""

    def __init__(self, call: Callable[[Any, Tensor], Tensor]) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.layer = nn.Linear(4, 4).double()
        self.table: Any = None
        self.length = 0
        self.held: dict[str, Tensor] = {}
        self.register_buffer("frequency", torch.arange(1.0, 3).double(), persistent=False)
        self.register_buffer("kept", None, persistent=False)
        self.call = call

    def forward(self, x: Tensor) -> Tensor:
        return self.call(self, x)


def table(model: Any, x: Tensor) -> Tensor:
    if model.table is None:
        model.table = torch.arange(64, dtype=x.dtype)[:, None] * torch.ones(4, dtype=x.dtype)
    return model.layer(x) + model.table[: x.shape[1]]


def written_while_made(model: Any, x: Tensor) -> Tensor:
    if model.table is None:
        places = torch.arange(64, dtype=x.dtype)[:, None]
        made = torch.zeros(64, 4, dtype=x.dtype)
        made[:, 0::2] = torch.sin(places * model.frequency)
        made[:, 1::2] = torch.cos(places * model.frequency)
        model.table = made
    return model.layer(x) + model.table[: x.shape[1]]


def rotary(model: Any, x: Tensor) -> Tensor:
    """As ESM and wav2vec2-conformer have it: made anew where the length is another one."""
    length = x.shape[1]
    if length != model.length or model.table is None:
        model.length = length
        angles = torch.outer(torch.arange(length).type_as(model.frequency), model.frequency)
        model.table = torch.cat((angles, angles), -1).type_as(x).cos()
    return model.layer(x) * model.table


def buffer(model: Any, x: Tensor) -> Tensor:
    if model.kept is None:
        model.kept = torch.arange(64, dtype=x.dtype)[:, None].repeat(1, 4)
    return model.layer(x) + model.kept[: x.shape[1]]


def new_attribute(model: Any, x: Tensor) -> Tensor:
    if not hasattr(model, "mask"):
        model.mask = torch.ones(4, 4, dtype=x.dtype).tril()
    return model.layer(x) @ model.mask


def entry_of_a_dict(model: Any, x: Tensor) -> Tensor:
    if "mask" not in model.held:
        model.held["mask"] = torch.ones(4, 4, dtype=x.dtype).tril()
    return model.layer(x) @ model.held["mask"]


def looked_at_by_people(model: Any, x: Tensor) -> Tensor:
    """Nothing is computed with what is kept."""
    model.last = model.layer(x)
    return model.last * 2


SETTLED = [table, written_while_made, rotary, buffer, new_attribute, entry_of_a_dict,
           looked_at_by_people]  # fmt: skip


@pytest.mark.parametrize("call", SETTLED)
def test_what_every_call_would_compute_is_made_by_the_program(call: Any) -> None:
    model, one = Model(call), Model(call)
    before = dict(vars(model))
    torch._dynamo.reset()
    graph = ds.trace(model, kwargs={"x": noise(4, 6, 4)}, dynamic=DYNAMIC)
    assert vars(model).keys() == before.keys() and model.held == {} and model.kept is None
    assert all(vars(model)[name] is value for name, value in before.items())
    assert list(graph.outputs) == ["output"]
    inputs = [noise(4, length, 4) for length in (6, 3, 9, 6)]
    want = [one(x).detach() for x in inputs]
    plan = ds.plan(graph, {"dp": 2}, "data")

    def work(part: nn.Module) -> list[Tensor]:
        return [part(x=x).detach() for x in inputs]

    for found in parts(model, plan, {"dp": 2}, work):
        torch.testing.assert_close(found, want, rtol=0, atol=1e-12)


def of_an_input(model: Any, x: Tensor) -> Tensor:
    if model.table is None:
        model.table = x.detach().mean(0)
    return model.layer(x) + model.table


def random(model: Any, x: Tensor) -> Tensor:
    if model.table is None:
        model.table = torch.randn(4, dtype=x.dtype)
    return model.layer(x) + model.table


def of_a_parameter(model: Any, x: Tensor) -> Tensor:
    if model.table is None:
        model.table = model.layer.weight.detach().sum(0)
    return model.layer(x) + model.table


def of_what_is_written(model: Any, x: Tensor) -> Tensor:
    model.frequency += 1
    if model.table is None:
        model.table = model.frequency.sum() * torch.ones(4, dtype=x.dtype)
    return model.layer(x) + model.table


def written_again(model: Any, x: Tensor) -> Tensor:
    if model.table is None:
        model.table = torch.zeros(4, dtype=x.dtype)
    model.table.add_(1)
    return model.layer(x) + model.table


def another_way_later(model: Any, x: Tensor) -> Tensor:
    if model.table is None:
        model.table = torch.ones(4, dtype=x.dtype)
        return model.layer(x)
    return model.layer(x) + model.table


def of_the_first_length(model: Any, x: Tensor) -> Tensor:
    if model.table is None:
        model.table = torch.ones(x.shape[1], dtype=x.dtype).sum()
    return model.layer(x) * model.table


REFUSED = [of_an_input, random, of_a_parameter, of_what_is_written, written_again,
           another_way_later, of_the_first_length]  # fmt: skip


@pytest.mark.parametrize("call", REFUSED)
def test_what_another_call_may_compute_otherwise_is_refused(call: Any) -> None:
    torch._dynamo.reset()
    with pytest.raises(ds.TraceError, match="the model keeps 'table' from one call to the next"):
        ds.trace(Model(call), kwargs={"x": noise(4, 6, 4)}, dynamic=DYNAMIC)


def a_new_attribute_later(model: Any, x: Tensor) -> Tensor:
    if not hasattr(model, "seen"):
        model.seen = True
        return model.layer(x)
    return model.layer(x) * 2


def read_later(model: Any, x: Tensor) -> Tensor:
    """``table`` is not looked at in the first call."""
    result: Tensor = model.layer(x) if model.length == 0 else model.layer(x) + model.table
    model.table, model.length = x.detach(), 1
    return result


@pytest.mark.parametrize("call", [a_new_attribute_later, read_later])
def test_what_only_a_later_call_reads_is_refused(call: Any) -> None:
    torch._dynamo.reset()
    with pytest.raises(ds.TraceError, match="from one call to the next"):
        ds.trace(Model(call), kwargs={"x": noise(4, 6, 4)}, dynamic=DYNAMIC)
