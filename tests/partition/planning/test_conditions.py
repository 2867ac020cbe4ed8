"""One plan serves every batch and length that its printed conditions allow, and no other is run.

Brute force over small sizes: where all conditions hold, all ranks together compute what one device
computes; where one does not, the plan is refused for these sizes, with that condition named.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from itertools import product
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812

import dimsolve as ds
from dimsolve.ir.read_expression import read_relation
from dimsolve.partition.plan import Plan
from dimsolve.solver.algebra.evaluation import predicate_of
from tests.oracles.all_ranks import compare

from .test_tensor import Fused, Grouped, Vocabulary


class Positions(nn.Module):
    """A table of 6 positions: longer rows are not allowed."""

    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Parameter(torch.randn(6, 32))
        self.up, self.down = nn.Linear(32, 64), nn.Linear(64, 32)

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.table[: x.shape[1]]
        return x + self.down(F.gelu(self.up(x)))


class Halves(nn.Module):
    """The row is taken apart in two halves: its length is even."""

    def __init__(self) -> None:
        super().__init__()
        self.mix = nn.Linear(32, 32)

    def forward(self, x: Tensor) -> Tensor:
        b, s, w = x.shape
        pairs = x.view(b, s // 2, 2, w)
        return self.mix(pairs.sum(2)).mean(1)


class Flat(nn.Module):
    """Tokens of all rows in one dimension, as losses have them."""

    def __init__(self) -> None:
        super().__init__()
        self.head = nn.Linear(32, 8)

    def forward(self, x: Tensor) -> Tensor:
        logits = self.head(x).flatten(0, 1)
        return F.cross_entropy(logits, logits.detach().argmax(-1))


class Causal(nn.Module):
    """A mask made of the length, and the last token taken."""

    def __init__(self) -> None:
        super().__init__()
        self.q, self.k, self.o = nn.Linear(32, 32), nn.Linear(32, 32), nn.Linear(32, 32)

    def forward(self, x: Tensor) -> Tensor:
        b, s, w = x.shape
        q, k, v = (t.view(b, s, 4, w // 4).transpose(1, 2) for t in (self.q(x), self.k(x), x))
        mask = torch.ones(s, s, dtype=torch.bool, device=x.device).tril()
        scores = (q @ k.transpose(-1, -2)).masked_fill(~mask, -1e9).softmax(-1)
        return self.o((scores @ v).transpose(1, 2).reshape(b, s, w))[:, -1]


MODELS: dict[str, Callable[[], nn.Module]] = {
    "fused": Fused,
    "grouped": Grouped,
    "positions": Positions,
    "halves": Halves,
    "flat": Flat,
    "causal": Causal,
    "vocabulary": lambda: Vocabulary(64),
}
MESHES: list[dict[str, Any]] = [{"tp": 2}, {"dp": 2}, {"dp": 3}, {"dp": 2, "tp": 2}, {"dp": "n"}]
BATCHES, LENGTHS = range(1, 7), range(1, 8)


def example(name: str, batch: int, seq: int) -> dict[str, Tensor]:
    generator = torch.Generator().manual_seed(batch * 31 + seq)
    if name == "vocabulary":
        return {"x": torch.randint(0, 64, (batch, seq), generator=generator)}
    return {"x": torch.randn(batch, seq, 32, dtype=torch.float64, generator=generator)}


@cache
def traced(name: str) -> tuple[Any, nn.Module]:
    torch.manual_seed(0)
    model = MODELS[name]().double()
    dynamic = {"x": {0: "batch", 1: "seq"}}
    return ds.trace(model, kwargs=example(name, 4, 6), dynamic=dynamic), model


def failing(plan: Plan, sizes: Mapping[str, int]) -> list[str]:
    """The conditions that are false at these sizes, evaluated one by one."""
    return [
        text for text in plan.conditions if predicate_of(read_relation(text))(sizes) is not True
    ]


@pytest.mark.parametrize("mesh", MESHES, ids=str)
@pytest.mark.parametrize("name", MODELS)
def test_a_plan_serves_the_sizes_that_its_conditions_allow(name: str, mesh: dict[str, Any]) -> None:
    graph, model = traced(name)
    made = ds.plan(graph, mesh)
    state = {n: p.detach() for n, p in model.named_parameters(remove_duplicate=False)}
    served = 0
    for batch, seq in product(BATCHES, LENGTHS):
        sizes = {"batch": batch, "seq": seq} | ({"n": 2} if "n" in mesh.values() else {})
        broken = failing(made, sizes)
        if broken:
            with pytest.raises(ds.PlanError) as caught:
                made.check(sizes)
            assert f"it needs {broken[0]} (" in str(caught.value)
            continue
        made.check(sizes)
        if (batch + seq) % 3 and served > 4:
            continue  # every third one is run, the first few all
        found = compare(made, graph, state, example(name, batch, seq), sizes)
        assert found.ok, (sizes, found)
        served += 1
    assert served >= 4


def test_conditions_say_what_the_model_and_the_mesh_need() -> None:
    told = {
        (name, str(mesh)): ds.plan(traced(name)[0], mesh).conditions
        for name, mesh in product(MODELS, ({"tp": 2}, {"dp": 2}, {"dp": "n"}))
    }
    for (name, mesh), conditions in told.items():
        assert ("batch % 2 == 0" in conditions) == (mesh == "{'dp': 2}"), name
        assert ("batch % n == 0" in conditions) == (mesh == "{'dp': 'n'}"), name
    assert "seq <= 6" in told["positions", "{'tp': 2}"]


def test_a_row_taken_apart_in_halves_has_an_even_length() -> None:
    made = ds.plan(traced("halves")[0], {"tp": 2})
    odd = [seq for seq in LENGTHS if failing(made, {"batch": 2, "seq": seq})]
    assert odd == [1, 3, 5, 7]
