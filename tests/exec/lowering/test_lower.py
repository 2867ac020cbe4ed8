"""Equal to one device: the programs of all ranks, on threads, against the model."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

import dimsolve as ds
from dimsolve.exec.parallel.parallelize import ParallelModule
from dimsolve.exec.running.compare import relative
from tests.exec import seed_models
from tests.exec.lies_of_length import with_row_numbers
from tests.exec.losses import LOSSES, Loss, noise
from tests.oracles.one_device import assert_equal, parts, plan_of, train

F64 = torch.float64
MESHES: list[dict[str, int]] = [{"tp": 2}, {"tp": 3}, {"dp": 2, "tp": 2}]


@pytest.mark.parametrize("make", seed_models.ALL, ids=lambda make: make.__name__)
def test_examples_of_the_seeds(make: Callable[[], seed_models.Model]) -> None:
    model, example, dynamic, splits = make()
    policy = {name: {"tp": split} for name, split in splits.items()}
    plan = plan_of(model, example, dynamic, {"tp": 2}, policy)
    cut = {operator.name for operator in plan.operators if "tp" in operator.splits}
    assert set(splits) <= cut
    assert_equal(train(model, example, dynamic, {"tp": 2}, policy, plan=plan))


def test_hidden_dimension_is_cut_interleaved() -> None:
    model, example, dynamic, _ = seed_models.reshape_over_t()
    plan = plan_of(model, example, dynamic, {"tp": 2}, {"reshape": {"tp": "t"}})
    texts = [p for o in plan.operators for t in (*o.operands, *o.outputs) for p in t.placements]
    assert "S(0, blocks=4)" in texts


@pytest.mark.parametrize("policy", ["data", "tensor"])
@pytest.mark.parametrize("ranks", [2, 3])
@pytest.mark.parametrize("name", LOSSES)
def test_losses(name: str, ranks: int, policy: str) -> None:
    """Those on which DTensor's gradients are wrong, and their kin."""
    example = {"x": noise(6, 4), "y": noise(6, 6, seed=1)}
    dynamic = {"x": {0: "batch"}, "y": {0: "batch"}}
    assert_equal(train(Loss(LOSSES[name]), example, dynamic, {"a": ranks}, policy))


class Mlp(nn.Module):
    """(batch, 12) -> (batch, 12) through 24, with biases, a norm and a buffer."""

    def __init__(self, dropout: float = 0.0) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.up = nn.Linear(12, 24, dtype=F64)
        self.norm = nn.LayerNorm(12, dtype=F64)
        self.down = nn.Linear(24, 12, dtype=F64)
        self.dropout = nn.Dropout(dropout)
        self.scale: Tensor
        self.register_buffer("scale", torch.arange(1.0, 13.0, dtype=F64))

    def forward(self, x: Tensor) -> Tensor:
        h = self.down(self.dropout(functional.gelu(self.up(self.norm(x)))))
        result: Tensor = x + h * self.scale
        return result


ROWS = {"x": noise(12, 12)}
BATCH = {"x": {0: "batch"}}


@pytest.mark.parametrize("mesh", MESHES, ids=str)
def test_mlp(mesh: dict[str, int]) -> None:
    assert_equal(train(Mlp(), ROWS, BATCH, mesh, "data+tensor"))


class Tied(nn.Module):
    """One table that looks up and classifies: its gradient has two shares of different kinds."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.table = nn.Embedding(12, 8, dtype=F64)
        self.mix = nn.Linear(8, 8, dtype=F64)
        self.head = nn.Linear(8, 12, bias=False, dtype=F64)
        self.head.weight = self.table.weight

    def forward(self, ids: Tensor) -> Tensor:
        logits = self.head(self.mix(self.table(ids)))
        return functional.cross_entropy(logits.flatten(0, 1), ids.flatten())


IDS = {"ids": torch.randint(12, (4, 6), generator=torch.Generator().manual_seed(0))}


@pytest.mark.parametrize("mesh", MESHES, ids=str)
def test_tied_parameters_stay_tied(mesh: dict[str, int]) -> None:
    model = Tied()
    dynamic = {"ids": {0: "batch", 1: "seq"}}
    example = {"ids": IDS["ids"].repeat(3, 1)}
    plan = plan_of(model, example, dynamic, mesh, "data+tensor")
    assert_equal(train(model, example, dynamic, mesh, None, plan=plan))

    def names(part: ParallelModule) -> tuple[list[str], bool]:
        tied = part.get_parameter("table.weight") is part.get_parameter("head.weight")
        return [name for name, _ in part.named_parameters()], tied

    assert parts(model, plan, mesh, names)[0] == (["table.weight", "mix.weight", "mix.bias"], True)


class Norm(nn.Module):
    """Batch norm in training: its statistics are of the whole batch, its buffers are written to."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.linear = nn.Linear(12, 12, dtype=F64)
        self.norm = nn.BatchNorm1d(12, dtype=F64)

    def forward(self, x: Tensor) -> Tensor:
        result: Tensor = self.norm(self.linear(x)).sin()
        return result


@pytest.mark.parametrize("policy", ["data", "tensor"])
def test_buffers_that_are_written_to(policy: str) -> None:
    model, mesh = Norm(), {"a": 2}
    plan = plan_of(model, ROWS, BATCH, mesh, policy)
    assert_equal(train(model, ROWS, BATCH, mesh, None, plan=plan))
    model(**ROWS)

    def statistics(part: ParallelModule) -> tuple[Tensor, int]:
        part(**ROWS)
        held = part.held("norm.running_mean")
        wanted = held.part(model.get_buffer("norm.running_mean"))
        difference = relative(part.get_buffer("norm.running_mean"), wanted)
        return difference, int(part.get_buffer("norm.num_batches_tracked"))

    fresh = Norm()
    for difference, count in parts(fresh, plan, mesh, statistics):
        assert difference < 1e-12
        assert count == 1


class Unknown(nn.Module):
    """What only running tells: how many are kept."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.linear = nn.Linear(12, 12, dtype=F64)

    def forward(self, x: Tensor) -> Tensor:
        y = self.linear(x)
        kept = y[(y[:, 0] > 0).nonzero().squeeze(1)]
        return kept.view(kept.shape[0], 3, 4).sum((1, 2))


def test_lengths_that_only_results_tell() -> None:
    assert_equal(train(Unknown(), ROWS, {}, {"tp": 2}, "tensor"))


class Views(nn.Module):
    """Sizes in every position: arange, view, expand, slices, full, means of lengths."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.linear = nn.Linear(12, 24, dtype=F64)
        self.out = nn.Linear(24, 12, dtype=F64)

    def forward(self, x: Tensor) -> Tensor:
        batch, seq, _ = x.shape
        y = self.linear(x).view(batch, seq, 4, 6).transpose(1, 2)
        places = torch.arange(seq, device=x.device).expand(batch, 4, seq)
        y = y + places.unsqueeze(-1) / seq
        y = torch.cat([y[:, :, seq // 2 :], y[:, :, : seq // 2]], 2)
        y = y * torch.full((batch, 4, seq, 1), 2.0, dtype=y.dtype)
        result: Tensor = self.out(y.transpose(1, 2).reshape(batch, seq, -1))
        return result / batch


@pytest.mark.parametrize("mesh", [{"tp": 2}, {"dp": 2}, {"dp": 2, "tp": 2}], ids=str)
def test_sizes_are_those_of_the_batch(mesh: dict[str, int]) -> None:
    example = {"x": noise(4, 6, 12)}
    dynamic = {"x": {0: "batch", 1: "seq"}}
    assert_equal(train(Views(), example, dynamic, mesh, "data+tensor", steps=5))


class Square(torch.autograd.Function):
    """Registered nowhere: a graph has it with both its halves."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        ctx.save_for_backward(x)
        return x * x

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Tensor:
        (x,) = ctx.saved_tensors
        return 2 * x * gradient


class Squared(nn.Module):
    """A linear, its square, a linear."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.up = nn.Linear(12, 24, dtype=F64)
        self.down = nn.Linear(24, 12, dtype=F64)

    def forward(self, x: Tensor) -> Tensor:
        result: Tensor = self.down(Square.apply(self.up(x)))
        return result


def test_autograd_function_that_is_not_registered() -> None:
    model, mesh = Squared(), {"tp": 2}
    with pytest.warns(UserWarning, match="no annotation"):
        plan = plan_of(model, ROWS, BATCH, mesh, "tensor")
    assert_equal(train(model, ROWS, BATCH, mesh, None, plan=plan))
    with pytest.raises(ds.DimsolveError, match="the program cannot be written as Python"):
        parts(model, plan, mesh, ParallelModule.source)


def test_gradient_of_an_input() -> None:
    """Where the caller asks for an input's gradient, it is whole on every rank."""
    model, mesh = Mlp(), {"dp": 2, "tp": 2}
    x = noise(4, 12).requires_grad_()
    model(x).square().sum().backward()
    wanted = x.grad
    assert wanted is not None
    plan = plan_of(model, {"x": x}, BATCH, mesh, "data+tensor")

    def work(part: ParallelModule) -> float:
        own = x.detach().clone().requires_grad_()
        part(own).square().sum().backward()
        assert own.grad is not None
        return relative(own.grad, wanted)

    assert max(parts(model, plan, mesh, work)) < 1e-12


def test_one_rank_runs_alone() -> None:
    """A plan for one rank needs no process group."""
    model = Mlp()
    plan = plan_of(model, ROWS, BATCH, {"tp": 1}, "tensor")
    part = ds.parallelize(model, plan)
    assert torch.equal(part(**ROWS), model(**ROWS))
    assert "convert" not in part.source()


def test_results_keep_their_container() -> None:
    pytest.importorskip("transformers")
    from dimsolve.examples import llama

    model, example, dynamic = llama.tiny()
    part = ds.parallelize(model, plan_of(model, example, dynamic, {"tp": 1}, "tensor"))
    result = part(**example)
    assert type(result).__name__ == "CausalLMOutputWithPast"
    assert torch.equal(result.loss, model(**example).loss)
    assert torch.equal(result[1], model(**example).logits)


@pytest.mark.parametrize("make", seed_models.ALL, ids=lambda make: make.__name__)
def test_emitted_source_is_the_program(
    make: Callable[[], seed_models.Model], tmp_path: Path
) -> None:
    model, example, dynamic, splits = make()
    policy = {name: {"tp": split} for name, split in splits.items()}
    plan = plan_of(model, example, dynamic, {"tp": 2}, policy)

    def work(part: ParallelModule) -> bool:
        path = tmp_path / f"rank_{part.ends.rank}.py"
        path.write_text(part.source())
        emitted = _imported(path)
        state = part.tensors_of(part.program)
        ends: Any = part.ends.communicators
        return torch.equal(emitted.forward(example["x"], *state, **ends), part(**example))

    assert parts(model, plan, {"tp": 2}, work) == [True, True]


def _imported(path: Path) -> Any:
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


class Numbered(torch.nn.Module):
    """A modifier over two mesh axes of one dimension, whose parameter the call leaves out."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return with_row_numbers(x)


def test_a_modifier_has_the_joint_part_and_sees_defaults(tmp_path: Path) -> None:
    model, x = Numbered(), torch.randn(8, 3)
    mesh = {"dp": 2, "tp": 2}
    policy = {"with_row_numbers": {"dp": "a", "tp": "a"}}
    plan = plan_of(model, {"x": x}, None, mesh, policy)

    def work(part: ParallelModule) -> bool:
        path = tmp_path / f"numbered_{part.ends.rank}.py"
        path.write_text(part.source())
        ends: Any = part.ends.communicators
        found = part(x=x)
        return torch.equal(_imported(path).forward(x, **ends), found) and torch.equal(
            found, model(x)
        )

    assert parts(model, plan, mesh, work) == [True] * 4
