"""Law: a plan says no less than is needed where torch computes a gradient step by step, and makes
tensors for that alone. One device has no collective: what is measured is the model's.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

import dimsolve as ds
from dimsolve.partition.saved import TEMPORARIES
from tests.exec.peaks import Peak

ROWS, WIDTH = 256, 96


def bloom(z: Tensor) -> Tensor:
    """The GELU of Bloom, which goes back by a function of its own."""
    from transformers.models.bloom.modeling_bloom import GeLUFunction

    made: Tensor = GeLUFunction.apply(z)
    return made


OF: dict[str, Callable[[Tensor], Tensor]] = {
    "einsum": lambda z: torch.einsum("bi,bj->ij", z, z).square().mean(),
    "logsumexp": lambda z: z.logsumexp(-1).sum(),
    "std": lambda z: z.std(-1).sum(),
    "var": lambda z: z.var(-1).sum(),
    "std_mean": lambda z: torch.std_mean(z, -1)[0].sum(),
    "var_mean": lambda z: torch.var_mean(z, -1)[0].sum(),
    "binary_cross_entropy_with_logits": lambda z: functional.binary_cross_entropy_with_logits(
        z, z.sigmoid().detach()
    ),
    "group_norm": lambda z: functional.group_norm(z, 4).square().sum(),
    "batch_norm": lambda z: functional.batch_norm(z, None, None, training=True).square().sum(),
    "instance_norm": lambda z: functional.instance_norm(z[None]).square().sum(),
    "normalize": lambda z: functional.normalize(z, dim=-1).square().mean(),
    "kl_div": lambda z: functional.kl_div(z.log_softmax(-1), z.softmax(-1)),
    "cdist": lambda z: torch.cdist(z, z).mean(),
    "pow": lambda z: z.pow(3).sum(),
    "square": lambda z: z.square().sum(),
    "rms_norm": lambda z: functional.rms_norm(z, (WIDTH,)).square().mean(),
    "autograd_function_apply": lambda z: bloom(z).sum(),
    "cosine_similarity": lambda z: functional.cosine_similarity(z, z.flip(0)).sum(),
    "cumprod": lambda z: z.sigmoid().cumprod(-1).sum(),
    "prod": lambda z: z.prod(-1).sum(),
}


def mixed(z: Tensor, *, weighed: bool, probabilities: bool) -> Tensor:
    """A loss with smoothed labels."""
    weight = torch.linspace(1, 2, WIDTH, dtype=z.dtype) if weighed else None
    target = z.detach().softmax(-1) if probabilities else torch.arange(ROWS) % WIDTH
    return functional.cross_entropy(z, target, weight, label_smoothing=0.1)


LOSSES: dict[str, Callable[[Tensor], Tensor]] = {
    "labels": partial(mixed, weighed=False, probabilities=False),
    "weighed labels": partial(mixed, weighed=True, probabilities=False),
    "probabilities": partial(mixed, weighed=False, probabilities=True),
    "weighed probabilities": partial(mixed, weighed=True, probabilities=True),
}


def attended(
    z: Tensor, *, keys: int = 4, width: int = 8, dropout: float = 0.0, mask: str = ""
) -> Tensor:
    """An attention of 8 rows of 32 positions, and 4 heads of 8 numbers."""
    query, key, value = (each.view(8, 32, 4, 8).transpose(1, 2) for each in z.chunk(3, 1))
    key, value = key[:, :keys], value[:, :keys, :, :width]
    numbers = query[:, :1].mean(-1, keepdim=True).expand(-1, -1, -1, 32)
    truths = torch.ones(8, 1, 32, 32, dtype=torch.bool).tril()
    found: Tensor = functional.scaled_dot_product_attention(
        query,
        key,
        value,
        {"": None, "truths": truths, "numbers": numbers}[mask],
        dropout,
        enable_gqa=keys == 2,
    )
    return found.square().sum()


ATTENTIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "attention": attended,
    "attention that drops": partial(attended, dropout=0.1),
    "attention that drops and masks": partial(attended, dropout=0.1, mask="truths"),
    "attention with a mask": partial(attended, mask="truths"),
    "attention with a gradient of its mask": partial(attended, mask="numbers"),
    "attention with one head of keys": partial(attended, keys=1),
    "attention with groups of heads": partial(attended, keys=2),
    "attention with shorter values": partial(attended, width=4),
    "layer norm": lambda z: functional.layer_norm(z, (WIDTH,)).square().sum(),
}


class Applied(nn.Module):
    """A layer, and a function of what it makes."""

    def __init__(self, function: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.linear, self.function = nn.Linear(16, WIDTH), function

    def forward(self, x: Tensor) -> Tensor:
        return self.function(self.linear(x))


def test_all_of_them_are_measured() -> None:
    assert TEMPORARIES.keys() == OF.keys()


@pytest.mark.parametrize("name", [*OF, *LOSSES, *ATTENTIONS])
def test_what_is_said_is_no_less_than_what_is_measured(name: str) -> None:
    x = torch.randn(ROWS, 16, dtype=torch.float64)
    model = Applied({**OF, **LOSSES, **ATTENTIONS}[name]).double()
    plan = ds.plan(ds.trace(model, args=(x,)), {"dp": 1})
    model(x).backward()
    gradients = [parameter.grad for parameter in model.parameters()]
    with Peak(x, *model.parameters(), *[each for each in gradients if each is not None]) as peak:
        model(x).backward()
    seed = 8  # the gradient of the loss itself
    assert peak.most <= plan.memory(optimizer_states=0).total + seed
