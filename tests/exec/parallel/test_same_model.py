"""A plan is for one model: another one is refused in words, and so is what would be left out."""

from __future__ import annotations

from collections.abc import Callable
from threading import Lock
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import dimsolve as ds
from dimsolve.exec.lowering.setting import LoweringError
from dimsolve.exec.parallel.call_inputs import CallError
from tests.exec import hooked
from tests.oracles.ranks import Ranks, world

HINT = "\n  hint: plan the model that runs: dimsolve.plan(dimsolve.trace(model, ...), mesh)"


def layers(*middle: nn.Module) -> nn.Sequential:
    """Two linear layers with something between."""
    return nn.Sequential(nn.Linear(4, 8), *middle, nn.Linear(8, 4))


def plan_of(model: nn.Module) -> Any:
    """A plan of a model for one rank."""
    x = torch.randn(2, 4, dtype=next(model.parameters()).dtype)
    return ds.plan(ds.trace(model, kwargs={"input": x}), {"tp": 1})


class Halved(nn.Linear):
    """The same parameters as a linear layer's, and another result."""

    def forward(self, input: Tensor) -> Tensor:
        return super().forward(input) / 2


class Scaled(nn.Module):
    """A number of its own, and a buffer."""

    def __init__(self, factor: float = 2.0) -> None:
        super().__init__()
        self.factor = factor
        self.weight = nn.Parameter(torch.ones(4))
        self.register_buffer("mean", torch.zeros(4))

    def forward(self, input: Tensor) -> Tensor:
        return (input - self.mean) * self.weight * self.factor


def without_mean() -> nn.Module:
    """A model whose buffer is gone."""
    model = Scaled()
    del model.mean
    return model


OTHERS: list[tuple[nn.Module, nn.Module, str]] = [
    (
        layers(nn.ReLU()),
        nn.Linear(4, 4),
        "Linear has no parameter 0.weight: float32[8, 4]; its parameters are weight, bias",
    ),
    (
        nn.Linear(4, 4),
        nn.Linear(4, 6),
        "parameter weight is (6, 4), and the traced model's is (4, 4)",
    ),
    (
        nn.Linear(4, 4),
        nn.Linear(4, 4).double(),
        "parameter weight is float64, and the traced model's is float32",
    ),
    (Scaled(), without_mean(), "Scaled has no buffer mean: float32[4]; its buffers are none"),
    (nn.Linear(4, 4), Halved(4, 4), "the model is a Halved, and the traced model's is a Linear"),
    (layers(nn.ReLU()), layers(nn.GELU()), "1 is a GELU, and the traced model's is a ReLU"),
    (
        layers(nn.LeakyReLU(0.1)),
        layers(nn.LeakyReLU(0.2)),
        "1 is LeakyReLU(negative_slope=0.2), traced as (negative_slope=0.1)",
    ),
    (Scaled(2.0), Scaled(3.0), "the model is Scaled(factor=3.0), traced as (factor=2.0)"),
]


@pytest.mark.parametrize("traced, given, reason", OTHERS, ids=range(len(OTHERS)))
def test_the_first_difference_of_another_model_is_named(
    traced: nn.Module, given: nn.Module, reason: str
) -> None:
    with pytest.raises(ds.PlanError) as caught:
        ds.parallelize(given, plan_of(traced))
    assert str(caught.value) == f"the plan is for another model\n  {reason}{HINT}"


def test_what_is_no_module_is_refused() -> None:
    given: Any = torch.relu
    with pytest.raises(ds.PlanError) as caught:
        ds.parallelize(given, plan_of(nn.Linear(4, 4)))
    assert "a model is a torch.nn.Module, and this is builtin_function" in str(caught.value)


def test_a_copy_of_the_model_with_other_values_is_the_model() -> None:
    model, other = layers(nn.ReLU()), layers(nn.ReLU())
    x = torch.randn(2, 4)
    assert torch.equal(ds.parallelize(other, plan_of(model))(input=x), other(x))


def test_the_mode_that_counts_is_that_of_the_call() -> None:
    model, x = layers(nn.Dropout(0.5)), torch.randn(2, 4)
    plan = plan_of(model)
    part = ds.parallelize(model.eval(), plan)
    assert torch.equal(part(input=x), model(x))
    assert [entry.modes[""] for entry in part.programs] == [True, False]


def test_a_model_that_cannot_be_copied_has_the_mode_of_the_trace() -> None:
    model = layers(nn.Dropout(0.5))
    part = ds.parallelize(model, plan_of(model))
    model.lock = Lock()  # type: ignore[assignment]
    other = ds.parallelize(model, plan_of(model)).eval()
    assert torch.equal(part.eval()(input=torch.ones(2, 4)), model.eval()(torch.ones(2, 4)))
    with pytest.raises(CallError, match="was traced in training mode and is called in evaluation"):
        other(input=torch.randn(2, 4))


def test_a_model_that_one_rank_refuses_is_refused_by_all() -> None:
    own, other = world(2).run(hooked.another_model_on_one)
    assert own.startswith("AgreementError: rank 1 cannot run with its model, so no rank does\n")
    assert "the plan is for another model" in own
    assert other.startswith("PlanError: the plan is for another model\n")


def test_hooks_of_a_part_are_called_as_a_models() -> None:
    for on_part, on_model in world(2).run(hooked.called):
        assert on_part == on_model
        assert on_model


def test_hooks_that_change_what_comes_and_goes() -> None:
    for difference in world(2).run(hooked.changing):
        assert difference < 1e-6


def test_a_hook_on_logits_sees_the_loss_on_all_ranks_or_is_refused_on_one() -> None:
    ranks = Ranks(2)
    try:
        (gap, first), (_, other) = ranks.run(hooked.logits_looked_at)
    finally:
        ranks.close()
    assert gap < 1e-7
    reason, hint = (
        "rank 0 asks for the gradient of output 'logits', and other ranks do not\n"
        "  it is gathered from all ranks, and rank 1 waits in the comparison of backward passes, "
        "at output 'logits' in call 2 of program 0\n",
        "  hint: register the hook, call retain_grad or ask autograd.grad for it on every rank",
    )
    assert first == f"DimsolveError: {reason}{hint}"
    assert other.startswith(f"RankFailure: rank 0 failed\n  {reason}{hint}")


def test_who_looks_at_logits_in_parts_sees_the_loss() -> None:
    for gaps in world(2).run(hooked.placed_logits_looked_at):
        assert len(gaps) == 4
        assert all(gap < 1e-12 for _, gap in gaps), gaps


def test_what_the_loss_does_not_use_has_no_gradient() -> None:
    """Both outputs are gathered in one collective."""
    assert world(2).run(hooked.unused_looked_at) == [[True] * 6] * 2


REGISTER: list[Callable[[nn.Module], object]] = [
    lambda module: module.register_forward_hook(lambda *_: None),
    lambda module: module.register_forward_pre_hook(lambda *_: None),
    lambda module: module.register_full_backward_hook(lambda *_: None),
    lambda module: module.register_full_backward_pre_hook(lambda *_: None),
    lambda module: module.register_backward_hook(lambda *_: None),
]
KINDS = ["forward hook", "forward pre-hook", "backward hook", "backward pre-hook", "backward hook"]


@pytest.mark.parametrize("number", range(len(KINDS)))
def test_a_module_inside_a_part_takes_no_hook(number: int) -> None:
    model = layers(nn.ReLU())
    part = ds.parallelize(model, plan_of(model))
    with pytest.raises(LoweringError) as caught:
        REGISTER[number](part.get_submodule("0"))
    assert str(caught.value) == (
        f"a module inside a part takes no {KINDS[number]}\n"
        "  a part runs the operators of its program and calls no module of its own, so the hook "
        "would never be called\n"
        "  hint: register it on the part itself, on a parameter, or on the model before it is "
        "traced"
    )


def test_a_module_inside_a_part_is_called_as_the_models() -> None:
    model, x = layers(nn.ReLU()), torch.randn(2, 4)
    part = ds.parallelize(model, plan_of(model))
    assert torch.equal(part.get_submodule("0")(x), model[0](x))
    model.lock = Lock()  # type: ignore[assignment]
    with pytest.raises(LoweringError, match="a module inside a part cannot be called"):
        ds.parallelize(model, plan_of(model)).get_submodule("0")(x)


def test_what_a_hook_computes_is_traced() -> None:
    model = layers(nn.ReLU())
    model[0].register_forward_hook(lambda module, args, result: result * 2)
    x = torch.randn(2, 4)
    assert torch.equal(ds.parallelize(model, plan_of(model))(input=x), model(x))


@pytest.mark.parametrize("number", [0, 1])
def test_a_forward_hook_that_was_not_traced_is_refused(number: int) -> None:
    model = layers(nn.ReLU())
    plan = plan_of(model)
    REGISTER[number](model[0])
    with pytest.raises(LoweringError, match="0 has other forward hooks than when it was traced"):
        ds.parallelize(model, plan)


@pytest.mark.parametrize("number", [2, 3])
def test_a_backward_hook_of_the_model_is_refused(number: int) -> None:
    model = layers(nn.ReLU())
    plan = plan_of(model)
    REGISTER[number](model[0])
    for make in (lambda: ds.parallelize(model, plan), lambda: plan_of(model)):
        with pytest.raises(ds.TraceError) as caught:
            make()
        assert str(caught.value) == (
            "0 has a backward hook\n"
            "  a graph holds what the model computes, and no hook on a module's gradients\n"
            "  hint: remove the hook, trace the model, and register the hook on the part"
        )


def test_what_a_part_holds_is_told_in_words() -> None:
    model = layers(nn.ReLU())
    part = ds.parallelize(model, plan_of(model))
    assert str(part.held("0.weight")) == "whole on every rank"
    assert world(2).run(hooked.held) == [
        ("S(0) over tp = 2, rank 0", "Held(S(0) over tp = 2, rank 0)"),
        ("S(0) over tp = 2, rank 1", "Held(S(0) over tp = 2, rank 1)"),
    ]
    for shown in (part.program, part.ends, part.held("2.bias"), part.plan, part):
        assert " object at 0x" not in repr(shown)


def test_a_tensor_that_a_part_does_not_hold() -> None:
    model = layers(nn.ReLU())
    with pytest.raises(LoweringError) as caught:
        ds.parallelize(model, plan_of(model)).held("0.wieght")
    assert str(caught.value) == (
        "the part has no parameter or buffer named 0.wieght\n"
        "  it has 4 of other names, among them 0.weight, 2.weight\n"
        "  hint: names are as in model.named_parameters() and model.named_buffers()"
    )
