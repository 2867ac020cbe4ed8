"""Parameters stored in parts: whatever ``state=`` says, training is that of one device."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from functools import lru_cache
from typing import Any

import pytest
import torch

import dimsolve as ds
from dimsolve.exec.parallel.parallelize import ParallelModule
from dimsolve.exec.running.comparable import without_narrowing
from tests.oracles.all_ranks import loss_of, tensors
from tests.oracles.one_device import parts
from tests.partition.planning.models import EIGHT, OTHERS, traced

pytest.importorskip("transformers")

TOLERANCE = {"mixtral": 1e-5}
"""torch multiplies the matrices of experts in float32 at most."""

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


def modes(name: str) -> AbstractContextManager[Any]:
    """Float64 computes nothing in float32, where it can."""
    return nullcontext() if name in TOLERANCE else without_narrowing()


def steps(model: torch.nn.Module, batch: Mapping[str, torch.Tensor]) -> list[float]:
    """Three AdamW steps on two batches each, the norm clipped; returns the norms.

    eps: a key's bias has no gradient but rounding, which must not be made a step.
    """
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2, eps=1e-4)
    norms = []
    for number in range(3):
        for turn in (2 * number, 2 * number + 1):
            loss = loss_of(tensors(dict(model(**{k: v.roll(turn, 0) for k, v in batch.items()}))))
            (loss / 2).backward()
        norms.append(float(torch.nn.utils.clip_grad_norm_(model.parameters(), 0.1)))
        optimizer.step()
        optimizer.zero_grad()
    return norms


@lru_cache(maxsize=4)
def trained(name: str) -> tuple[torch.nn.Module, list[float]]:
    """The model after its steps on one device, and the norms."""
    model, batch = model_of(name)
    whole = copy.deepcopy(model)
    with modes(name):
        return whole, steps(whole, batch)


def assert_trained_alike(name: str, mesh: Mapping[str, int], state: Any) -> None:
    model, batch = model_of(name)
    whole, norms = trained(name)
    plan = ds.plan(traced(name)[0], mesh, state=state)
    assert plan.state
    assert ds.Plan.from_json(plan.to_json()) == plan

    def work(part: ParallelModule) -> tuple[list[float], float]:
        with modes(name):
            found = steps(part, batch)
        return found, difference(whole, part)

    for found, most in parts(model, plan, mesh, work):
        assert most < TOLERANCE.get(name, 1e-9)
        most = max(abs(a - b) / b for a, b in zip(found, norms, strict=True))
        assert most < TOLERANCE.get(name, 1e-9)


def difference(whole: torch.nn.Module, part: ParallelModule) -> float:
    """The largest of any parameter's part, relative to the largest element of the whole, which may
    be zero as a whole.
    """
    most = 0.0
    own = dict(part.named_parameters())
    for name, parameter in whole.named_parameters():
        wanted = part.held(name).part(parameter)
        assert own[name].shape == wanted.shape, name
        if wanted.numel():
            largest = parameter.detach().abs().max().clamp(min=1e-3)
            most = max(most, float((own[name].detach() - wanted).abs().max() / largest))
    return most


@pytest.mark.parametrize("name", [*EIGHT, *OTHERS])
def test_clipped_and_accumulated_adamw_steps_are_those_of_one_device(name: str) -> None:
    for mesh, state in KINDS:
        assert_trained_alike(name, mesh, state)


@pytest.mark.parametrize(("mesh", "state"), MORE, ids=str)
def test_every_mesh_and_state_trains_as_one_device(mesh: dict[str, int], state: Any) -> None:
    assert_trained_alike("odd_gpt2", mesh, state)
