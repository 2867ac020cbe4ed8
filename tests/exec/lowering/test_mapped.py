"""Law: what a model maps with torch.vmap is computed on ranks as on one device. It is written out
and cut; what cannot be written out stays whole, and what it takes is converted before it.
"""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

import dimsolve as ds
from dimsolve.partition.regions import mapped_nodes
from tests.oracles.all_ranks import compare

MESHES: list[tuple[dict[str, int], str]] = [
    ({"tp": 2}, "tensor"),
    ({"dp": 2}, "data"),
    ({"dp": 2, "tp": 2}, "data+tensor"),
]


class Mapped(nn.Module):
    """A mapped function between two linear layers, inside of it another one. As far as torch is
    told, it may draw random numbers, which cannot be written out.
    """

    def __init__(self) -> None:
        super().__init__()
        self.a, self.b, self.c = nn.Linear(4, 4), nn.Linear(4, 4), nn.Linear(4, 4)

    def forward(self, x: Tensor) -> Tensor:
        h = torch.relu(self.a(x))

        def of_row(row: Tensor) -> Tensor:
            return torch.tanh(self.b(row)) * torch.vmap(torch.sin)(row)

        result: Tensor = self.c(torch.vmap(of_row, randomness="different")(h))
        return result


def traced() -> tuple[nn.Module, Any, Tensor]:
    torch.manual_seed(0)
    model = Mapped().double()
    x = torch.randn(6, 4, dtype=torch.float64)
    return model, ds.trace(model, kwargs={"x": x}, dynamic={"x": {0: "batch"}}), x


@pytest.mark.parametrize(("mesh", "policy"), MESHES)
def test_a_mapped_function_is_whole_and_equal(mesh: dict[str, int], policy: Any) -> None:
    model, graph, _ = traced()
    assert mapped_nodes(graph.nodes())
    plan = ds.plan(graph, mesh, policy)
    for batch in (2, 6):
        x = torch.randn(batch, 4, dtype=torch.float64)
        found = compare(plan, graph, dict(model.state_dict()), {"x": x}, {"batch": batch})
        assert found.ok, found


def test_what_is_mapped_is_not_cut_by_hand() -> None:
    with pytest.raises(ds.PlanError) as caught:
        ds.plan(traced()[1], {"tp": 2}, {"b": {"tp": "n"}})
    assert str(caught.value).endswith("(b): it runs inside torch.vmap")


def test_a_step_that_fails_inside_leaves_no_mapping_behind() -> None:
    model, graph, x = traced()
    part = ds.parallelize(model, ds.plan(graph, {"tp": 1}))
    part.b.weight.data = torch.zeros(4, 3, dtype=torch.float64)
    with pytest.raises(RuntimeError):
        part(x)
    assert torch._C._functorch.maybe_current_level() is None
    part.b.weight.data = model.b.weight.detach().clone()
    assert torch.equal(part(x), model(x))


class Layers(nn.Module):
    """What the mapped functions below use, between two linear layers that are cut."""

    def __init__(self) -> None:
        super().__init__()
        self.up, self.down, self.inner = nn.Linear(8, 8), nn.Linear(8, 8), nn.Linear(8, 8)
        self.table = nn.Parameter(torch.randn(9, 8))
        self.experts = nn.Parameter(torch.randn(2, 4, 4))

    def forward(self, x: Tensor) -> Tensor:
        result: Tensor = torch.tanh(self.down(self.mapped(torch.relu(self.up(x)))))
        return result

    def mapped(self, h: Tensor) -> Tensor:
        """What a case maps, of the first layer's result."""
        return torch.vmap(torch.sin)(h)

    def heads(self, h: Tensor) -> Tensor:
        result: Tensor = self.inner(h).view(*h.shape[:2], 2, 4).transpose(1, 2)
        return result


class Attention(Layers):
    """Batch and heads are mapped, one within the other."""

    def mapped(self, h: Tensor) -> Tensor:
        def attend(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
            return torch.softmax(q @ k.mT / 2, -1) @ v

        q = self.heads(h)
        return torch.vmap(torch.vmap(attend))(q, q, q).transpose(1, 2).flatten(2)


class FusedAttention(Layers):
    def mapped(self, h: Tensor) -> Tensor:
        attend = torch.vmap(
            lambda q: functional.scaled_dot_product_attention(q, q, q, is_causal=True)
        )
        result: Tensor = attend(self.heads(h)).transpose(1, 2).flatten(2)
        return result


class Experts(Layers):
    """Mapped over weights and over dimensions that are not the first."""

    def mapped(self, h: Tensor) -> Tensor:
        of_each = torch.vmap(lambda w, x: functional.gelu(x @ w), in_dims=(0, 2), out_dims=2)
        result: Tensor = of_each(self.experts, h.view(*h.shape[:2], 2, 4)).flatten(2)
        return result


class Written(Layers):
    """What is written in place is made inside."""

    def mapped(self, h: Tensor) -> Tensor:
        def change(row: Tensor) -> Tensor:
            y = row * 2
            y.add_(1)
            y[0] = 0
            return y + row.detach()

        return torch.vmap(change)(h)


class Reduced(Layers):
    def mapped(self, h: Tensor) -> Tensor:
        def reduce(row: Tensor) -> Tensor:
            centred = row - row.mean(0, keepdim=True) + row.amax(-1, keepdim=True) + row.std(0)
            return torch.einsum("sd,td->st", centred, row) @ torch.where(row > 0, row, centred)

        return torch.vmap(reduce)(h)


class LookedUp(Layers):
    def mapped(self, h: Tensor) -> Tensor:
        def look(row: Tensor) -> Tensor:
            steps = torch.stack([step.sum() + step for step in row.unbind(0)])
            return steps + functional.embedding((row.sum(-1) > 0).long(), self.table)

        return torch.vmap(look)(h)


class Inner(Layers):
    """A layer of the model is mapped, in pieces, inside of a region that is run again."""

    def mapped(self, h: Tensor) -> Tensor:
        of_rows = torch.vmap(self.inner)
        result: Tensor = torch.utils.checkpoint.checkpoint(of_rows, h, use_reentrant=False)
        return result


class Outside(Layers):
    """A mapping that writes to a tensor from outside."""

    def mapped(self, h: Tensor) -> Tensor:
        y = h * 2
        torch.vmap(lambda row, other: other.add_(row))(h, y)
        return y


@pytest.mark.parametrize(
    "made", [Outside, Attention, FusedAttention, Experts, Written, Reduced, LookedUp, Inner]
)
def test_what_is_written_out_is_cut_and_equal(made: type[Layers]) -> None:
    torch.manual_seed(0)
    model, x = made().double(), torch.randn(4, 6, 8, dtype=torch.float64)
    graph = ds.trace(model, kwargs={"x": x}, dynamic={"x": {0: "batch"}})
    assert not mapped_nodes(graph.nodes())
    expected, whole = model(x), ds.parallelize(model, ds.plan(graph, {"tp": 1}))
    assert torch.equal(whole(x), expected)
    for mesh, policy in MESHES:
        plan = ds.plan(graph, mesh, policy)
        assert not [note for note in plan.notes if "vmap" in note]
        found = compare(plan, graph, dict(model.state_dict()), {"x": x}, {"batch": 4})
        assert found.ok, (mesh, found)
    cut = {each.node for each in ds.plan(graph, {"dp": 2}, "data").operators if "dp" in each.splits}
    batched = {n.id for n in graph.nodes() if n.outputs and "batch" in str(n.outputs[0].dims)}
    assert cut >= batched


class WithoutGradients(Layers):
    def mapped(self, h: Tensor) -> Tensor:
        def of_row(row: Tensor) -> Tensor:
            with torch.no_grad():
                scale = row.sum()
            return row * scale

        return torch.vmap(of_row)(h)


def test_what_recorded_operators_would_not_say_is_whole_and_equal() -> None:
    torch.manual_seed(0)
    model, x = WithoutGradients().double(), torch.randn(4, 6, 8, dtype=torch.float64)
    graph = ds.trace(model, kwargs={"x": x}, dynamic={"x": {0: "batch"}})
    assert mapped_nodes(graph.nodes())
    for mesh, policy in MESHES:
        plan = ds.plan(graph, mesh, policy)
        found = compare(plan, graph, dict(model.state_dict()), {"x": x}, {"batch": 4})
        assert found.ok, (mesh, found)


class RandomOutside(Layers):
    def mapped(self, h: Tensor) -> Tensor:
        y = h * 2
        add = torch.vmap(lambda row, other: other.add_(row), randomness="different")
        add(h, y)
        return y


def test_what_is_whole_does_not_write_to_a_tensor_from_outside() -> None:
    model, x = RandomOutside(), torch.randn(4, 6, 8)
    with pytest.raises(ds.TraceError, match=r"^the model transforms a function at "):
        ds.trace(model, kwargs={"x": x}, dynamic={"x": {0: "batch"}})
