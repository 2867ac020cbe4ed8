"""What a newcomer's script does by habit is right on a part, or is refused in words."""

from __future__ import annotations

import copy
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn.functional import dropout, gelu, mse_loss, relu

import dimsolve as ds
from dimsolve.exec.target import load_function
from tests.exec import habits
from tests.oracles.ranks import world


class Net(nn.Module):
    """(batch, 8) -> (batch, 8), with a function and a number of its own."""

    def __init__(self, act: Any = gelu, scale: float = 1.0) -> None:
        super().__init__()
        self.a = nn.Linear(8, 8)
        self.act, self.scale = act, scale
        self.drop = nn.Dropout(0.0)

    def forward(self, x: Tensor) -> Tensor:
        result: Tensor = self.drop(self.act(self.a(x))) * self.scale
        return result


X = torch.ones(4, 8)


def part_of(model: nn.Module) -> Any:
    return ds.parallelize(model, plan_of(model))


def plan_of(model: nn.Module) -> Any:
    return ds.plan(ds.trace(model, args=(X,)), {"dp": 1})


def times(factor: int) -> Callable[[Tensor], Tensor]:
    return lambda x: x * factor


@pytest.mark.parametrize(
    ("traced", "given", "said"),
    [
        (gelu, relu, ("torch.nn.functional.gelu", "torch.nn.functional.relu")),
        (torch.sin, torch.cos, ("torch.sin", "torch.cos")),
        (lambda x: x * 2, lambda x: x * 3, ("<lambda> ", "<lambda> ")),
        (times(2), times(3), ("times.<locals>.<lambda> ", "times.<locals>.<lambda> ")),
        (
            partial(gelu, approximate="tanh"),
            gelu,
            ("partial(torch.nn.functional.gelu, ('approximate', 'tanh'))", "functional.gelu"),
        ),
    ],
    ids=["functions", "builtins", "lambdas", "closures", "partials"],
)
def test_a_model_with_another_function_is_another_model(
    traced: Any, given: Any, said: tuple[str, str]
) -> None:
    plan = plan_of(Net(traced))
    with pytest.raises(ds.PlanError, match="the plan is for another model") as caught:
        ds.parallelize(Net(given), plan)
    assert f"traced as (act={said[0]}" in str(caught.value)
    assert said[1] in str(caught.value)
    assert isinstance(ds.parallelize(Net(traced), plan), nn.Module)


SETS: dict[str, tuple[Callable[[Any], object], str]] = {
    "number": (lambda m: setattr(m, "scale", 5.0), "scale|the model has 1.0 there"),
    "function": (
        lambda m: setattr(m, "act", relu),
        "act|the model has torch.nn.functional.gelu there",
    ),
    "inside": (lambda m: setattr(m.drop, "p", 0.9), "drop.p|the model has 0.0 there"),
    "module": (
        lambda m: setattr(m, "a", nn.Linear(8, 8)),
        "a|the model has a module there, a Linear",
    ),
}


@pytest.mark.parametrize("name", SETS)
@pytest.mark.parametrize("copied", [False, True])
def test_what_was_traced_cannot_be_set_at_a_part(name: str, copied: bool) -> None:
    change, said = SETS[name]
    part = part_of(Net())
    part = copy.deepcopy(part) if copied else part
    path, what = said.split("|")
    with pytest.raises(ds.DimsolveError) as caught:
        change(part)
    assert str(caught.value) == (
        f"{path} of a part cannot be set\n"
        f"  {what}; a part runs the operators that were traced, and would go on with what it was "
        "then\n"
        "  hint: set it on the model, then trace, plan and parallelize the model again"
    )


def test_what_is_new_at_a_part_can_be_set() -> None:
    part, x = part_of(Net()), torch.randn(4, 8)
    part.step, part.drop.note, part.scale = 3, "seen", 1.0
    part.step += 1
    part.training = part.drop.training = False
    part.a.weight.requires_grad_(False)
    part.a.bias.data = torch.zeros(8)
    part.load_state_dict(Net().state_dict(), assign=True)
    assert (part.step, part(x).shape) == (4, x.shape)


def test_an_optimizer_of_the_models_parameters_is_refused() -> None:
    model = Net()
    optimizer = torch.optim.AdamW(model.parameters())
    part = part_of(model)
    part(X).sum().backward()
    with pytest.raises(ds.DimsolveError) as caught:
        optimizer.step()
    assert str(caught.value) == (
        "AdamW was made of the parameters of a model, of which a part is trained\n"
        "  none of the model's 2 parameters in it has a gradient: parallelize has left the model "
        "as it was, and gradients come to the part's parameters\n"
        "  hint: make the optimizer of part.parameters(), after dimsolve.parallelize"
    )
    model(X).sum().backward()
    optimizer.step()  # the model itself is trained


class Sorting(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        kept = torch.empty_like(x)
        kept.copy_(x)
        return dropout(kept * 2, 0.5, self.training)


def test_a_part_draws_nothing_where_the_model_draws_nothing() -> None:
    part = part_of(Sorting().eval())
    torch.manual_seed(3)
    wanted = torch.rand(1)
    torch.manual_seed(3)
    part(X)
    assert torch.equal(torch.rand(1), wanted)


FSDP = (
    '  hint: a part needs no FSDP: dimsolve.plan(..., state="shared") stores parameters, gradients '
    "and optimiser in parts along the plan's axes. Along an axis that the plan does not have, give "
    "its mesh: fully_shard(part, mesh=mesh[axis])"
)


def test_fsdp_over_different_parts_is_refused() -> None:
    for text in world(2).run(habits.wrapped, "sharded"):
        assert text == (
            "LoweringError: fully_shard over ranks that hold different parts of up.weight\n"
            "  it cuts a parameter over its ranks and joins it again, as if all had the same; rank "
            f"0 holds the part at tp=0, rank 1 the part at tp=1\n{FSDP}"
        )
    for text in world(2).run(habits.wrapped, "flat"):
        assert text == (
            "LoweringError: FullyShardedDataParallel around a part\n"
            "  it puts flat parameters of its own in place of the part's, which the part's program "
            f"takes\n{FSDP}"
        )


STATES: list[tuple[Callable[[], str], str]] = [
    (
        habits.loaded_on_one,
        "  a state was loaded once on rank 0, and 0 times on rank 1\n"
        "  down.bias is not on rank 1 what it is on rank 0\n"
        "  hint: call part.load_state_dict on every rank: each takes its part of the whole state",
    ),
    (
        habits.stepped_on_one,
        "  the optimizer has stepped once on rank 0, and 0 times on rank 1\n"
        "  up.weight and 3 more are not on rank 1 what they are on rank 0\n"
        "  hint: call optimizer.step() on every rank",
    ),
    (
        habits.drawn_anew,
        "  up.weight and 3 more are not on rank 1 what they are on rank 0\n"
        "  hint: change parameters alike on every rank: torch.manual_seed with one number before "
        "nn.init, or load one state_dict",
    ),
]


@pytest.mark.parametrize(("habit", "said"), STATES, ids=[h.__name__ for h, _ in STATES])
def test_ranks_that_hold_different_states_are_told(habit: Callable[[], str], said: str) -> None:
    title = "AgreementError: the ranks hold different states of the model\n"
    assert world(2).run(habit) == [title + said, title + said]


def test_ranks_that_train_alike_are_told_nothing() -> None:
    assert world(2).run(habits.alike) == ["", ""]


def test_a_part_is_no_model() -> None:
    part = part_of(Net())
    with pytest.raises(ds.TraceError) as caught:
        ds.trace(part, args=(X,))
    assert str(caught.value) == (
        "this is a part of a model\n"
        "  trace needs the model: a part is one rank's program, with this rank's parameters\n"
        "  hint: trace the model that parallelize was given"
    )
    with pytest.raises(ds.DimsolveError) as again:
        ds.parallelize(part, part.plan)
    assert str(again.value) == (
        "this is a part already\n"
        "  parallelize was given what it returned\n"
        "  hint: call the part; or parallelize the model again, for another plan"
    )


def test_a_part_is_not_converted() -> None:
    part = part_of(Net())
    with pytest.raises(ds.DimsolveError) as caught:
        part.to(torch.bfloat16)
    assert str(caught.value) == (
        "a part cannot be converted to torch.bfloat16\n"
        "  it was planned with a.weight of torch.float32, and its program and its inputs are of "
        "that\n"
        "  hint: convert the model before it is traced: model.to(torch.bfloat16); or plan with "
        "precision=..."
    )
    assert part.to("cpu").float() is part


def test_a_length_that_is_not_dynamic_says_how_it_would_be() -> None:
    with pytest.raises(ds.ShapeError) as caught:
        part_of(Net())(X[:2])
    assert str(caught.value) == (
        "x has another shape than the program was made for\n"
        "  it is (2, 8), and the program takes float32[4, 8]: 4 is never 2\n"
        '  hint: trace for all lengths: dimsolve.trace(..., dynamic={"x": {0: "batch"}})'
    )


def test_an_input_that_dynamic_forgot_is_named() -> None:
    def loss(x: Tensor, y: Tensor) -> Tensor:
        return mse_loss(x, y)

    with pytest.raises(ds.ShapeError) as caught:
        ds.trace(loss, args=(X, X), dynamic={"x": {0: "batch"}})
    said = str(caught.value)
    assert "\n  dimension 0 of y is 4 as well\n" in said
    assert (
        "hint: if that is the same, name it there too: "
        'dynamic={"x": {0: "batch"}, "y": {0: "batch"}}; or leave the dimension out of dynamic'
    ) in said


def test_a_target_imports_the_files_beside_it(tmp_path: Path) -> None:
    import sys

    (tmp_path / "beside_the_target.py").write_text("NUMBER = 7\n")
    (tmp_path / "target_with_neighbour.py").write_text(
        "from beside_the_target import NUMBER\n\ndef number():\n    return NUMBER\n"
    )
    before = list(sys.path)
    assert load_function(f"{tmp_path / 'target_with_neighbour.py'}:number")() == 7
    assert sys.path == before
    sys.modules.pop("beside_the_target")
