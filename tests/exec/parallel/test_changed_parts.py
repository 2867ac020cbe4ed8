"""Law: what is put on a part that is made already, and that its program would not see, is refused
in words: norms and parametrizations of weights, pruning, adapters, other modules, other parameters.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn.utils import parametrizations, parametrize, prune

import dimsolve as ds

X = torch.ones(2, 4)


class Adapter(nn.Module):
    def __init__(self, base: nn.Module) -> None:
        super().__init__()
        self.base = base

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.base(x) * 2
        return y


class Twice(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x * 2


def made() -> Any:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 4))
    return ds.parallelize(model, ds.plan(ds.trace(model, args=(X,)), {"dp": 1}))


def said(change: Callable[[Any], object]) -> str:
    """What is said of a change, when it is made or at the next call that looks."""
    part = made()
    part(X)
    with warnings.catch_warnings(), pytest.raises(ds.DimsolveError) as caught:
        warnings.simplefilter("ignore", FutureWarning)
        change(part)
        part(X)
    return str(caught.value)


def first(part: Any) -> Any:
    return part.get_submodule("0")


REMOVED = (
    "0.weight of a part cannot be removed\n"
    "  it is the model's parameter or buffer, and the program that was traced takes it; "
    "parametrizations, weight_norm, spectral_norm and pruning put something else in its place\n"
    "  hint: put them on the model, then trace, plan and parallelize it"
)


@pytest.mark.parametrize(
    "change",
    [
        parametrizations.weight_norm,
        parametrizations.spectral_norm,
        parametrizations.orthogonal,
        lambda module: parametrize.register_parametrization(module, "weight", Twice()),
        nn.utils.spectral_norm,
        lambda module: delattr(module, "weight"),
    ],
)
def test_a_weight_that_something_else_makes(change: Callable[[Any], object]) -> None:
    assert said(lambda part: change(first(part))) == REMOVED


@pytest.mark.parametrize(
    ("change", "name"),
    [
        (nn.utils.weight_norm, "weight_g"),
        (lambda module: prune.l1_unstructured(module, "weight", 0.5), "weight_orig"),
    ],
)
def test_a_weight_that_a_hook_makes(change: Callable[[Any], object], name: str) -> None:
    assert said(lambda part: change(first(part))) == (
        f"0.weight of a part cannot be made of {name}\n"
        "  a hook would compute it before each call, and a part runs the operators that were "
        "traced\n"
        "  hint: put weight_norm, spectral_norm or pruning on the model, then trace, plan and "
        "parallelize it"
    )


def test_a_norm_of_a_model_that_is_one_layer() -> None:
    model = nn.Linear(4, 4)
    part = ds.parallelize(model, ds.plan(ds.trace(model, args=(X,)), {"dp": 1}))
    with pytest.raises(ds.DimsolveError, match="weight of a part cannot be removed"):
        parametrizations.weight_norm(part)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)
        nn.utils.weight_norm(part)
    with pytest.raises(ds.DimsolveError) as caught:
        part(X)
    assert str(caught.value).startswith(
        "the part no longer holds parameter weight\n"
        "  the program that was traced takes it, and the module there is of bias, weight_g, "
        "weight_v\n"
    )


def _put(part: Any) -> None:
    part._modules["0"] = Adapter(part._modules["0"])


def test_a_module_that_is_put_around_another() -> None:
    assert said(_put) == (
        "0 of a part has been replaced\n"
        "  Adapter is there now, where the model had Linear when it was traced; a part runs the "
        "operators that were traced, and would not call it\n"
        "  hint: replace it in the model (as peft.get_peft_model does), then trace, plan and "
        "parallelize it"
    )
    assert said(lambda part: setattr(part, "0", Adapter(first(part)))).startswith(
        "0 of a part cannot be set\n"
    )
    assert said(lambda part: delattr(part, "0")).startswith("0 of a part cannot be removed\n")


def test_a_forward_that_is_put_on_a_module_inside() -> None:
    assert said(lambda part: setattr(first(part), "forward", lambda x: x)).startswith(
        "0.forward of a part cannot be set\n  a part calls no module of its model;"
    )


def test_a_parameter_of_another_shape() -> None:
    given = nn.Parameter(torch.ones(8, 5))
    assert said(lambda part: setattr(first(part), "weight", given)) == (
        "0.weight of a part cannot be replaced by a parameter of shape (8, 5)\n"
        "  this rank holds (8, 4) of it, as the plan cuts it\n"
        "  hint: load the whole, part.load_state_dict({...}, strict=False), or copy this rank's "
        "part into it under torch.no_grad()"
    )


def test_what_the_models_modules_have_is_not_there_in_words() -> None:
    part = made()
    assert not hasattr(first(part), "in_features")
    with pytest.raises(AttributeError) as caught:
        first(part).in_features  # noqa: B018  # reading it is what raises
    assert str(caught.value).startswith(
        "0, a Linear inside of a part, has no in_features\n"
        "  it holds this rank's parts of parameters, and nothing else of the model's module:"
    )


def test_modules_and_tensors_of_ones_own_can_be_added() -> None:
    part = made()
    wanted = part(X)
    part.add_module("probe", nn.Linear(4, 2))
    first(part).register_buffer("mean", torch.ones(2))
    part.register_buffer("seen", torch.zeros(1))
    part.register_parameter("b_orig", nn.Parameter(torch.ones(1)))
    assert torch.equal(part(X), wanted)


class OfPeft(nn.Module):
    """A stand-in for peft's models, whose save_pretrained looks at modules."""

    __module__ = "peft.peft_model"

    def __init__(self) -> None:
        super().__init__()
        self.lora = nn.Linear(4, 4)

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.lora(x)
        return y

    def save_pretrained(self, folder: str, **kwargs: Any) -> None:
        kind = type(self.lora).__name__
        torch.save({kind: kwargs["state_dict"]["lora.weight"]}, f"{folder}/adapter")


def test_adapters_of_peft_are_written_of_the_models_modules(tmp_path: Path) -> None:
    model = OfPeft()
    part: Any = ds.parallelize(model, ds.plan(ds.trace(model, args=(X,)), {"dp": 1}))
    part.save_pretrained(str(tmp_path))
    found = torch.load(tmp_path / "adapter")
    assert torch.equal(found["Linear"], model.lora.weight)
