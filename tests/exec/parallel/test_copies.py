"""A copy of a part is a part of its own; a file holds its state only."""

from __future__ import annotations

import copy
import io
import pickle
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn.utils import clip_grad_norm_
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn

import dimsolve as ds
from dimsolve.exec.parallel.parallelize import ParallelModule
from dimsolve.exec.parallel.state import PickleError
from dimsolve.exec.running.compare import relative
from tests.oracles import one_device as simulated
from tests.oracles.ranks import world

X = torch.randn(4, 8, dtype=torch.float64, generator=torch.Generator().manual_seed(1))


def model() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 8)).double()


def averaged(module: nn.Module) -> list[Tensor]:
    """Weights, their moving average, and what both compute after three steps."""
    average: nn.Module = AveragedModel(module, multi_avg_fn=get_ema_multi_avg_fn(0.5))
    optimizer = torch.optim.AdamW(module.parameters(), lr=0.1)
    for _ in range(3):
        optimizer.zero_grad()
        loss = (module(X) - average(X).detach()).square().sum()
        loss.backward()
        optimizer.step()
        average.update_parameters(module)  # type: ignore[operator]
    return [module(X), average(X)]


def of_real_ranks(mesh: dict[str, int], policy: str) -> float:
    whole = model()
    wanted = averaged(copy.deepcopy(whole))
    graph = ds.trace(whole, kwargs={"input": X})
    found = averaged(ds.parallelize(whole, ds.plan(graph, mesh, policy)))
    return max(relative(a, b) for a, b in zip(found, wanted, strict=True))


@pytest.mark.parametrize(("mesh", "policy"), [({"tp": 2}, "tensor"), ({"dp": 2}, "data")], ids=str)
def test_a_moving_average_of_parts(mesh: dict[str, int], policy: str) -> None:
    for difference in world(2).run(of_real_ranks, mesh, policy):
        assert difference <= 1e-12


def on_ranks(work: Callable[[ParallelModule], Any]) -> list[Any]:
    mesh, whole = {"tp": 2}, model()
    plan = simulated.plan_of(whole, {"input": X}, None, mesh, "tensor")
    return simulated.parts(whole, plan, mesh, work)


def train(module: nn.Module) -> list[Tensor]:
    """One step, of clipped gradients."""
    optimizer = torch.optim.SGD(module.parameters(), lr=0.1)
    module(X).square().sum().backward()
    clip_grad_norm_(module.parameters(), 0.5)
    optimizer.step()
    return [p.detach().clone() for p in module.parameters()]


def test_a_copy_and_its_original_are_trained_apart() -> None:
    whole = model()
    wanted = train(whole)

    def work(part: ParallelModule) -> bool:
        before = [p.detach().clone() for p in part.parameters()]
        made = copy.deepcopy(nn.ModuleDict({"inner": part}))["inner"]
        found = train(made)
        same = all(torch.equal(a, b) for a, b in zip(before, part.parameters(), strict=True))
        cut = [
            part.held(name).part(w)
            for (name, _), w in zip(whole.named_parameters(), wanted, strict=True)
        ]
        first = all(torch.allclose(a, b) for a, b in zip(found, cut, strict=True))
        again = all(torch.equal(a, b) for a, b in zip(train(part), found, strict=True))
        made.load_state_dict(model().state_dict())
        loaded = all(torch.equal(a, b) for a, b in zip(before, made.parameters(), strict=True))
        return same and first and again and loaded

    assert on_ranks(work) == [True, True]


def test_parameters_that_are_put_in_place_of_others_are_parts() -> None:
    whole = model()
    wanted = train(whole)

    def work(part: ParallelModule) -> bool:
        part.load_state_dict(model().state_dict(), assign=True)
        found = train(part)
        names = [name for name, _ in whole.named_parameters()]
        return all(
            torch.allclose(a, part.held(name).part(w))
            for a, name, w in zip(found, names, wanted, strict=True)
        )

    assert on_ranks(work) == [True, True]


@pytest.mark.parametrize("save", [pickle.dumps, lambda part: torch.save(part, io.BytesIO())])
def test_a_part_is_not_pickled(save: Callable[[Any], Any]) -> None:
    graph = ds.trace(model(), kwargs={"input": X})
    part = ds.parallelize(model(), ds.plan(graph, {"tp": 1}, "replicate"))
    with pytest.raises(PickleError) as error:
        save(part)
    assert str(error.value) == (
        "a part of a model cannot be pickled\n"
        "  it holds process groups, which no other process has\n"
        "  hint: save part.state_dict(), and load it into a part that parallelize makes"
    )
