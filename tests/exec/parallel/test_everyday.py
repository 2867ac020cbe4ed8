"""Law: everyday habits of training do with a part what they do with the model, or are refused in
words: parametrized weights, adapters, schedules, accumulation, functional calls.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.autograd import forward_ad
from torch.func import functional_call
from torch.nn.utils import parametrizations, parametrize

import dimsolve as ds
from tests.oracles import one_device as simulated

X = torch.randn(4, 8, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
CUTS: list[tuple[dict[str, int], str]] = [({"tp": 2}, "tensor"), ({"dp": 2}, "data")]


class Adapter(nn.Module):
    """A frozen linear layer beside two small ones of low rank, as LoRA adds them."""

    def __init__(self, base: nn.Linear) -> None:
        super().__init__()
        self.base = base.requires_grad_(False)
        self.down = nn.Linear(base.in_features, 2, bias=False)
        self.up = nn.Linear(2, base.out_features, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        made: Tensor = self.base(x) + 0.5 * self.up(self.down(x))
        return made


class Symmetric(nn.Module):
    """A weight whose upper triangle is its lower one."""

    def forward(self, x: Tensor) -> Tensor:
        return x.triu() + x.triu(1).transpose(-1, -2)


def plain() -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 8)).double()


def weight_normed() -> nn.Module:
    model = plain()
    parametrizations.weight_norm(model[0])
    parametrizations.weight_norm(model[2])
    return model


def hooked_norm() -> nn.Module:
    """The older weight_norm, a hook before the forward pass."""
    model = plain()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)
        nn.utils.weight_norm(model[0])
    return model


def symmetric() -> nn.Module:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(8, 8), nn.Tanh(), nn.Linear(8, 8)).double()
    parametrize.register_parametrization(model[0], "weight", Symmetric())
    return model


def adapted() -> nn.Module:
    model = plain()
    return nn.Sequential(Adapter(model[0]), model[1], Adapter(model[2])).double()


MODELS = [weight_normed, hooked_norm, symmetric, adapted]


def trained(module: nn.Module) -> list[Tensor]:
    """Three steps, each of two batches, with a schedule and clipping: the losses, and what the
    model computes then.
    """
    own = [each for each in module.parameters() if each.requires_grad]
    optimizer = torch.optim.AdamW(own, lr=0.1)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, 0.2, total_steps=4)
    losses = []
    for number in range(3):
        for half in range(2):
            loss = (module(X * (number + 1) + half) - X).square().mean() / 2
            loss.backward()
            losses.append(loss.detach())
        torch.nn.utils.clip_grad_norm_(own, 0.5)
        optimizer.step()
        schedule.step()
        optimizer.zero_grad()
    return [*losses, module(X).detach()]


@pytest.mark.parametrize(("mesh", "policy"), CUTS, ids=str)
@pytest.mark.parametrize("make", MODELS)
def test_what_makes_weights_is_trained_as_on_one_device(
    make: Callable[[], nn.Module], mesh: dict[str, int], policy: str
) -> None:
    model = make()
    plan = simulated.plan_of(model, {"input": X}, None, mesh, policy)
    wanted = trained(make())
    for found in simulated.parts(model, plan, mesh, trained):
        torch.testing.assert_close(found, wanted, rtol=1e-9, atol=1e-10)


def on_ranks(work: Callable[[Any], Any]) -> list[Any]:
    plan = simulated.plan_of(plain(), {"input": X}, None, {"tp": 2}, "tensor")
    return simulated.parts(plain(), plan, {"tp": 2}, work)


def doubled(module: nn.Module) -> Tensor:
    """What the module computes with other weights, by torch.func.functional_call."""
    others = {name: 2 * each.detach() for name, each in module.named_parameters()}
    made: Tensor = functional_call(module, others, (X,))
    return made


def test_a_part_is_called_with_other_weights() -> None:
    for found in on_ranks(doubled):
        torch.testing.assert_close(found, doubled(plain()), rtol=1e-12, atol=1e-12)


def accumulated(module: Any) -> list[Tensor]:
    """Gradients' norm after two batches, the first without synchronising where there is that."""
    with getattr(module, "no_sync", nullcontext)():
        module(X).square().sum().backward()
    module(X + 1).square().sum().backward()
    return [torch.nn.utils.clip_grad_norm_(module.parameters(), 1.0)]


def test_accumulation_without_synchronising_is_accumulation() -> None:
    for found in on_ranks(accumulated):
        torch.testing.assert_close(found, accumulated(plain()), rtol=1e-12, atol=1e-12)


def test_a_part_runs_in_inference_mode() -> None:
    def work(part: Any) -> Tensor:
        with torch.inference_mode():
            made: Tensor = part(X)
        assert made.is_inference()
        return made

    for found in on_ranks(work):
        torch.testing.assert_close(found, plain()(X).detach(), rtol=1e-12, atol=1e-12)


def test_whole_weights_are_no_weights_of_a_part() -> None:
    whole = {name: tensor.detach() for name, tensor in plain().named_parameters()}
    name, held = next(iter(whole.items()))

    def work(part: Any) -> str:
        with pytest.raises(ds.DimsolveError) as caught:
            functional_call(part, whole, (X,))
        return str(caught.value)

    rows, columns = held.shape
    assert set(on_ranks(work)) == {
        f"{name} is of the shape ({rows}, {columns}), and this rank holds ({rows // 2}, {columns}) "
        "of it\n"
        "  a part runs with parts of the weights, also those that torch.func.functional_call gives "
        "it\n"
        "  hint: give it weights made of dict(part.named_parameters()); or load whole ones into "
        "it: part.load_state_dict(weights)"
    }


def along(part: Any) -> Any:
    """The derivative along X, forward."""
    with forward_ad.dual_level():
        return part(forward_ad.make_dual(X, X))


class Looking(nn.Module):
    """Looks words up; with labels there is a loss."""

    def __init__(self) -> None:
        super().__init__()
        self.words = nn.Embedding(8, 8)

    def forward(self, ids: Tensor, labels: Tensor | None = None) -> Any:
        found = self.words(ids)
        return (
            found
            if labels is None
            else nn.functional.cross_entropy(found.flatten(0, 1), labels.flatten())
        )


def test_whole_numbers_of_another_width_are_taken_and_reals_say_what_the_model_says() -> None:
    model, ids = Looking(), torch.arange(8).view(2, 4)
    part = ds.parallelize(model, ds.plan(ds.trace(model, args=(ids, ids)), {"dp": 1}))
    for narrow in (ids.int(), ids.to(torch.int32)):
        torch.testing.assert_close(part(narrow, ids), model(narrow, ids), rtol=1e-6, atol=0.0)
    assert torch.equal(part(ids.int()), model(ids.int()))
    words = "Expected tensor for argument #1"  # torch 2.10 says it of numbers only, as it runs
    with pytest.raises((ds.TraceError, RuntimeError), match=words):
        part(ids.float())


@pytest.mark.parametrize(
    "transformed",
    [
        lambda part: torch.func.jacrev(part)(X),
        lambda part: torch.vmap(part)(X),
        lambda part: torch.func.linearize(part, X),
        along,
    ],
)
def test_a_transform_over_a_part_is_refused(transformed: Callable[[Any], Any]) -> None:
    def work(part: Any) -> str:
        with pytest.raises(ds.DimsolveError) as caught:
            transformed(part)
        return str(caught.value)

    assert (
        on_ranks(work)
        == [
            "a part cannot be called inside of torch.func.grad, torch.vmap and their kin\n"
            "  they go through each step of a function, and ranks send and wait between the steps\n"
            "  hint: write torch.autograd.grad, which takes create_graph=True; or apply them "
            "inside of the model"
        ]
        * 2
    )


class Tied(nn.Module):
    """A model whose head is its embedding."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.embed = nn.Embedding(16, 8, dtype=torch.float64)
        self.up = nn.Linear(8, 8, dtype=torch.float64)
        self.head = nn.Linear(8, 16, bias=False, dtype=torch.float64)
        self.head.weight = self.embed.weight

    def forward(self, ids: Tensor, labels: Tensor) -> Tensor:
        logits = self.head(torch.tanh(self.up(self.embed(ids))))
        return nn.functional.cross_entropy(logits.flatten(0, 1), labels.flatten())


IDS = torch.randint(16, (24, 6), generator=torch.Generator().manual_seed(3))


def on_ranks_tied(work: Callable[[Any], Any]) -> list[Any]:
    names = {"ids": {0: "b"}, "labels": {0: "b"}}
    example = {"ids": IDS[:4], "labels": IDS[:4].roll(-1, 1)}
    plan = simulated.plan_of(Tied(), example, names, {"tp": 2}, "tensor")
    return simulated.parts(Tied(), plan, {"tp": 2}, work)


def losses(module: Any) -> list[Tensor]:
    """Two steps."""
    optimizer = torch.optim.SGD(module.parameters(), 0.1)
    found = []
    for number in range(2):
        ids = IDS[4 * number : 4 * number + 4]
        loss = module(ids, ids.roll(-1, 1))
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        found.append(loss.detach())
    return found


def loaded(module: Any) -> list[Tensor]:
    """The names of one parameter are given tensors of their own, as ``assign`` does."""
    state = {name: value.detach().clone() for name, value in Tied().state_dict().items()}
    state["head.weight"] = state["embed.weight"]
    module.load_state_dict(state, assign=True)
    return losses(module)


def tied_again(module: Any) -> list[Tensor]:
    module.head.weight = module.embed.weight
    return losses(module)


@pytest.mark.parametrize("script", [losses, tied_again, loaded])
def test_tied_weights_stay_one(script: Callable[[Any], list[Tensor]]) -> None:
    wanted = tied_again(Tied())
    for found in on_ranks_tied(script):
        torch.testing.assert_close(found, wanted, rtol=1e-9, atol=1e-10)


def untied(part: Any) -> str:
    part.head.weight = nn.Parameter(part.embed.weight.detach().clone())
    return refused(lambda: losses(part))


def applied(part: Any) -> str:
    return refused(lambda: part.apply(lambda module: None))


def refused(work: Callable[[], Any]) -> str:
    with pytest.raises(ds.DimsolveError) as caught:
        work()
    return str(caught.value)


REFUSED = [
    (
        untied,
        "head.weight and embed.weight of a part are no longer one parameter\n"
        "  they were when the model was traced, and the program takes embed.weight for both\n"
        "  hint: untie them in the model, then trace, plan and parallelize it",
    ),
    (
        applied,
        "a part takes no apply\n"
        "  its modules hold this rank's parts and are of no class of the model's, so a function "
        "that asks for isinstance(module, torch.nn.Linear) would do nothing\n"
        "  hint: apply it to the model before it is parallelized, or go by "
        "part.named_parameters()",
    ),
]


@pytest.mark.parametrize(("script", "words"), REFUSED)
def test_what_would_differ_without_a_word_is_refused(
    script: Callable[[Any], str], words: str
) -> None:
    assert on_ranks_tied(script) == [words] * 2


def test_a_parameter_that_is_in_parts_is_filled_and_not_drawn() -> None:
    def work(part: Any) -> str:
        weight, bias = part.get_parameter("0.weight"), part.get_parameter("2.bias")
        nn.init.zeros_(weight)
        nn.init.normal_(bias)  # whole on every rank
        assert not weight.any()
        return refused(lambda: nn.init.xavier_uniform_(weight))

    assert (
        on_ranks(work)
        == [
            "torch.nn.init of 0.weight, which is in parts\n"
            "  this rank holds (8, 8) of (16, 8), so its fan would be another, and all ranks would "
            "draw the same numbers\n"
            "  hint: initialise the model, then part.load_state_dict(model.state_dict())"
        ]
        * 2
    )
