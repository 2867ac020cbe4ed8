"""Equal to one device, or refused: what looks at all gradients of a part together."""

from __future__ import annotations

import copy
import math
import warnings
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn.utils import clip_grad_norm_

import dimsolve as ds
from dimsolve.exec.distributed.simulated import RankError
from dimsolve.exec.parallel.optimizers import OptimizerError
from dimsolve.exec.parallel.parallelize import ParallelModule
from tests.oracles import one_device as simulated

MESHES: list[tuple[dict[str, int], str]] = [
    ({"tp": 2}, "tensor"),
    ({"tp": 4}, "tensor"),
    ({"dp": 2}, "data"),
    ({"dp": 2, "tp": 2}, "data+tensor"),
    ({"fsdp": 2}, "data+tensor"),
]
X = torch.randn(4, 8, dtype=torch.float64, generator=torch.Generator().manual_seed(1))


def model() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 8)).double()


def on_ranks(
    work: Callable[[ParallelModule], Any],
    mesh: Mapping[str, int],
    policy: str,
    state: str | None = None,
) -> Any:
    whole = model()
    plan = ds.plan(ds.trace(whole, kwargs={"input": X}), mesh, policy, state)
    return simulated.parts(whole, plan, mesh, work)


def backward(module: nn.Module) -> None:
    module(X).square().sum().backward()


def is_equal(part: ParallelModule, whole: nn.Module, of: Callable[[Tensor], Any]) -> bool:
    parameters = dict(part.named_parameters())
    return all(
        torch.allclose(of(parameters[name]), part.held(name).part(of(p)), rtol=1e-12, atol=1e-14)
        for name, p in whole.named_parameters()
    )


@pytest.mark.parametrize("foreach", [None, False])
@pytest.mark.parametrize("order", [2.0, 1, 3.5, math.inf, -math.inf, 0])
@pytest.mark.parametrize(("mesh", "policy"), MESHES, ids=str)
def test_torch_clips_by_the_whole_norm(
    mesh: dict[str, int], policy: str, order: float, foreach: bool | None
) -> None:
    whole = model()
    backward(whole)
    wanted = clip_grad_norm_(whole.parameters(), 0.5, order, foreach=foreach)

    def work(part: ParallelModule) -> tuple[float, bool]:
        backward(part)
        norm = clip_grad_norm_(part.parameters(), 0.5, order, foreach=foreach)
        return float(norm), is_equal(part, whole, lambda p: p.grad)

    for norm, equal in on_ranks(work, mesh, policy):
        assert norm == pytest.approx(float(wanted), rel=1e-12)
        assert equal


def test_norms_of_weights_and_of_anything_else() -> None:
    whole = model()

    def norm(tensors: Iterable[Tensor]) -> Tensor:
        return torch.nn.utils.get_total_norm(tensors)

    def work(part: ParallelModule) -> tuple[float, float]:
        other = [torch.ones(3), torch.ones(2, dtype=torch.float64)]
        return float(norm(part.parameters())), float(norm(other))

    wanted = float(norm(whole.parameters()))
    for of_weights, of_others in on_ranks(work, {"tp": 2}, "tensor"):
        assert of_weights == pytest.approx(wanted, rel=1e-12)
        assert of_others == pytest.approx(math.sqrt(5))


def test_a_norm_that_is_not_finite_is_one_on_every_rank() -> None:
    def work(part: ParallelModule) -> str:
        backward(part)
        if part.ends.rank == 1:
            part.get_parameter("0.weight").grad[0, 0] = math.inf  # type: ignore[index]
        with pytest.raises(RuntimeError, match="non-finite"):
            clip_grad_norm_(part.parameters(), 1.0, error_if_nonfinite=True)
        return "refused"

    assert on_ranks(work, {"tp": 2}, "tensor") == ["refused", "refused"]


@pytest.mark.parametrize("axis", ["tp", "fsdp"])
@pytest.mark.parametrize("first", [False, True], ids=["step", "unscale first"])
def test_an_overflow_on_one_rank_is_one_on_all(first: bool, axis: str) -> None:
    def work(part: ParallelModule) -> tuple[float, bool]:
        before = [p.detach().clone() for p in part.parameters()]
        optimizer = torch.optim.SGD(part.parameters(), lr=0.1)
        scaler = torch.amp.GradScaler("cpu", init_scale=4.0)
        scaler.scale(part(X).sum()).backward()
        if part.ends.rank == 1:
            part.get_parameter("0.weight").grad[0, 0] = math.inf  # type: ignore[index]
        if first:
            scaler.unscale_(optimizer)
        scaler.step(optimizer)
        scaler.update()
        same = all(torch.equal(a, b) for a, b in zip(before, part.parameters(), strict=True))
        return scaler.get_scale(), same

    assert on_ranks(work, {axis: 2}, "data+tensor") == [(2.0, True)] * 2


def test_without_an_overflow_every_rank_steps() -> None:
    def train(module: nn.Module) -> None:
        optimizer = torch.optim.AdamW(module.parameters(), lr=0.1)
        scaler = torch.amp.GradScaler("cpu", init_scale=4.0)
        scaler.scale(module(X).square().sum()).backward()
        scaler.step(optimizer)
        scaler.update()

    whole = model()
    train(whole)

    def work(part: ParallelModule) -> bool:
        train(part)
        return is_equal(part, whole, lambda p: p.detach())

    for mesh in ({"dp": 2, "tp": 2}, {"fsdp": 2, "tp": 2}):
        assert all(on_ranks(work, mesh, "data+tensor"))


Make = Callable[[Iterable[nn.Parameter]], torch.optim.Optimizer]
ELEMENTWISE = [
    "ASGD",
    "Adadelta",
    "Adagrad",
    "Adam",
    "AdamW",
    "Adamax",
    "NAdam",
    "RAdam",
    "RMSprop",
    "Rprop",
    "SGD",
]
OF_WHOLES: dict[str, Make] = {
    "Adafactor": lambda parameters: torch.optim.Adafactor(parameters, lr=0.1),
    "Muon": lambda parameters: torch.optim.Muon([p for p in parameters if p.ndim == 2], lr=0.1),
    "LBFGS": lambda parameters: torch.optim.LBFGS(parameters, lr=0.1, max_iter=3),
}


def train(module: nn.Module, make: Make) -> None:
    optimizer = make(module.parameters())

    def closure() -> Tensor:
        optimizer.zero_grad()
        loss: Tensor = module(X).square().sum()
        loss.backward()
        return loss

    for _ in range(3):
        optimizer.step(closure)  # type: ignore[arg-type]


@pytest.mark.parametrize("name", [*ELEMENTWISE, *OF_WHOLES])
def test_optimisers_of_whole_parameters_are_equal(name: str) -> None:
    make: Make = OF_WHOLES.get(name, lambda ps: getattr(torch.optim, name)(ps, lr=0.01))
    whole = model()
    train(whole, make)

    def work(part: ParallelModule) -> bool:
        train(part, make)
        return is_equal(part, whole, lambda p: p.detach())

    assert all(on_ranks(work, {"dp": 2}, "data"))


@pytest.mark.parametrize("name", ELEMENTWISE)
def test_optimisers_of_elements_are_equal_on_parts(name: str) -> None:
    whole = model()

    def make(parameters: Iterable[nn.Parameter]) -> torch.optim.Optimizer:
        return getattr(torch.optim, name)(parameters, lr=0.01)  # type: ignore[no-any-return]

    train(whole, make)

    def work(part: ParallelModule) -> bool:
        with warnings.catch_warnings():
            warnings.simplefilter("error", UserWarning)
            train(part, make)
        return is_equal(part, whole, lambda p: p.detach())

    assert all(on_ranks(work, {"tp": 2}, "tensor"))


class Derived(torch.optim.Muon):
    """A class of the user's own that does what its base does."""


@pytest.mark.parametrize("name", [*OF_WHOLES, "Derived"])
def test_optimisers_of_wholes_are_refused_on_parts(name: str) -> None:
    def work(part: ParallelModule) -> list[bool]:
        backward(part)
        before = [p.detach().clone() for p in part.parameters()]
        parameters = list(part.parameters())
        two = [p for p in parameters if p.ndim == 2]
        optimizer = Derived(two) if name == "Derived" else OF_WHOLES[name](parameters)
        for _ in range(2):
            with pytest.raises(OptimizerError, match=f"{name} cannot step on parts"):
                optimizer.step(lambda: torch.zeros(()))  # type: ignore[arg-type, return-value]
        return [torch.equal(a, b) for a, b in zip(before, parameters, strict=True)]

    for unchanged in on_ranks(work, {"tp": 2}, "tensor"):
        assert all(unchanged)


class Shampoo(torch.optim.Optimizer):
    """Multiplies a gradient by roots of what it has seen of its rows and columns."""

    def __init__(self, parameters: Iterable[nn.Parameter]) -> None:
        super().__init__([p for p in parameters if p.ndim == 2], {"lr": 0.1})

    @torch.no_grad()
    def step(self, closure: Any = None) -> Any:
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        for group in self.param_groups:
            for p in group["params"]:
                seen = self.state[p]
                for key, rows in (("left", p.grad), ("right", p.grad.mT)):
                    seen[key] = seen.get(key, torch.eye(len(rows), dtype=p.dtype)) + rows @ rows.mT
                left, right = (torch.linalg.inv(seen[key]) for key in ("left", "right"))
                p.sub_(group["lr"] * left @ p.grad @ right)
        return loss


@pytest.mark.parametrize(
    ("mesh", "policy", "state"),
    [
        ({"tp": 2}, "tensor", None),
        ({"fsdp": 2, "tp": 2}, "data+tensor", None),
        ({"dp": 2}, "data", "optimizer"),
        ({"dp": 2, "tp": 2}, "data+tensor", "optimizer"),
    ],
    ids=str,
)
@pytest.mark.parametrize("name", ["Adafactor", "Muon", "Shampoo"])
def test_optimisers_of_wholes_are_equal_where_they_are_given_wholes(
    name: str, mesh: dict[str, int], policy: str, state: str | None
) -> None:
    make: Make = OF_WHOLES.get(name, Shampoo)
    whole = model()
    train(whole, make)

    def work(part: ParallelModule) -> tuple[bool, list[torch.Size]]:
        made: list[torch.optim.Optimizer] = []

        def given(parameters: Iterable[nn.Parameter]) -> torch.optim.Optimizer:
            made.append(ds.steps_on_wholes(make(parameters)))
            return made[0]

        train(part, given)
        first = part.get_parameter("0.weight")
        alike = made[0].state[first].get("momentum_buffer", first).shape
        return is_equal(part, whole, lambda p: p.detach()), [first.shape, alike]

    for equal, (own, momentum) in on_ranks(work, mesh, policy, state):
        assert equal
        assert own == momentum != (16, 8)


def test_an_optimiser_of_several_parameters_cannot_be_given_one() -> None:
    with pytest.raises(OptimizerError) as error:
        ds.steps_on_wholes(torch.optim.LBFGS(model().parameters()))
    assert str(error.value) == (
        "LBFGS cannot step on one whole parameter after the other\n"
        "  it takes products over all parameters together\n"
        "  hint: take one that treats every parameter by itself, or a plan that leaves parameters "
        "whole"
    )


def test_the_refusal_says_why() -> None:
    def work(part: ParallelModule) -> None:
        torch.optim.Adafactor(part.parameters()).step()

    with pytest.raises(RankError) as error:
        on_ranks(work, {"tp": 2}, "tensor")
    assert str(error.value.__cause__) == (
        "Adafactor cannot step on parts of parameters\n"
        "  it takes means over the rows and columns of a parameter, and this rank holds a part of "
        "0.weight\n"
        "  hint: call dimsolve.steps_on_wholes(optimizer) once, take one that treats elements "
        "by themselves (ASGD, Adadelta, Adagrad, Adam, "
        "AdamW, Adamax, NAdam, RAdam, RMSprop, Rprop, SGD, SparseAdam), or a plan that leaves "
        "parameters whole"
    )


class Own(torch.optim.Optimizer):
    """Nobody knows what this does."""

    def __init__(self, parameters: Iterable[nn.Parameter]) -> None:
        super().__init__(parameters, {})

    @torch.no_grad()
    def step(self, closure: Any = None) -> None:
        for group in self.param_groups:
            for parameter in group["params"]:
                parameter.sub_(parameter.grad.sign())


def test_what_is_not_known_is_said() -> None:
    def work(part: ParallelModule) -> int:
        optimizer = Own(part.parameters())
        backward(part)
        with pytest.warns(UserWarning, match="Own is not known to dimsolve") as said:
            optimizer.step()
            optimizer.step()
        return len(said)

    assert on_ranks(work, {"tp": 2}, "tensor") == [1, 1]


def test_a_model_of_half_the_size_is_not_loaded() -> None:
    whole = model()
    half = nn.Sequential(nn.Linear(8, 8), nn.Tanh(), nn.Linear(8, 8)).double()

    def work(part: ParallelModule) -> bool:
        for strict in (True, False):
            with pytest.raises(RuntimeError) as error:
                part.load_state_dict(half.state_dict(), strict=strict)
            assert str(error.value) == (
                "Error(s) in loading state_dict for ParallelModule:\n"
                "\tsize mismatch for 0.weight: copying a param with shape torch.Size([8, 8]) from "
                "checkpoint, the shape in current model is torch.Size([16, 8]).\n"
                "\tsize mismatch for 0.bias: copying a param with shape torch.Size([8]) from "
                "checkpoint, the shape in current model is torch.Size([16]).\n"
                "\tsize mismatch for 2.weight: copying a param with shape torch.Size([8, 8]) from "
                "checkpoint, the shape in current model is torch.Size([8, 16])."
            )
        part.load_state_dict(copy.deepcopy(whole).state_dict())
        return is_equal(part, whole, lambda p: p.detach())

    assert all(on_ranks(work, {"tp": 2}, "tensor"))
