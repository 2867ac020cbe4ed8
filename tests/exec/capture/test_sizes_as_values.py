"""Law: a size that is one computed value, such as ``(4, *x.shape)``, is what its lengths are: equal
to one device, however the operator takes it.
"""

# ruff: noqa: RUF005   a tuple that is added up is one value in a graph, (4, *x.shape) is several

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

from tests.exec.losses import noise
from tests.oracles.one_device import assert_equal, train

F64 = torch.float64


def _size(x: Tensor) -> tuple[int, ...]:
    return (x.shape[0], 1, *x.shape[1:])


CALLS: dict[str, Callable[[Tensor], Tensor]] = {
    "Tensor.broadcast_to": lambda x: x[:, None].broadcast_to((x.shape[0], 4) + x.shape[1:]) * 2,
    "broadcast_to": lambda x: torch.broadcast_to(x[:, None], (x.shape[0], 4) + x.shape[1:]) * 2,
    "Tensor.expand": lambda x: x[:, None].expand((x.shape[0], 4) + x.shape[1:]) * 2,
    "full": lambda x: torch.full((x.shape[0], 1) + x.shape[1:], 2.0, dtype=F64) * x[:, None],
    "zeros": lambda x: torch.zeros((x.shape[0], 1) + x.shape[1:], dtype=F64) + x[:, None],
    "Tensor.new_full": lambda x: x.new_full((x.shape[0], 1) + x.shape[1:], 2.0) * x[:, None],
    "Tensor.new_zeros": lambda x: x.new_zeros(x.shape[:1])[:, None, None] + x,
    "reshape": lambda x: torch.reshape(x, (x.shape[0], 1) + x.shape[1:]),
    "Tensor.reshape": lambda x: x.reshape((x.shape[0], 1) + x.shape[1:]),
    "Tensor.view": lambda x: x.view(x.shape[:1] + (-1,)),
    "Tensor.view of a Size": lambda x: x.flatten(1).view(x.shape),
    "Tensor.view of a list": lambda x: x.view([*_size(x)]),
    "Tensor.unflatten": lambda x: x.flatten(0, 1).unflatten(0, x.shape[:2]),
    "Tensor.repeat": lambda x: x[0, 0].repeat(x.shape[:2] + (1,)),
    "tile": lambda x: torch.tile(x[0, 0], x.shape[:2] + (1,)),
    "Tensor.split": lambda x: torch.cat(
        x.flatten(0, 1).split(x.shape[:1] + (x.shape[0] * (x.shape[1] - 1),))[::-1]
    ),
    "adaptive_avg_pool2d": lambda x: functional.adaptive_avg_pool2d(x[:, None], x.shape[-2:]),
    "interpolate": lambda x: functional.interpolate(x[:, None], size=x.shape[1:]),
    "layer_norm": lambda x: functional.layer_norm(x, x.shape[1:]),
}


class Calls(nn.Module):
    """A layer, and a call of its output."""

    def __init__(self, call: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.layer = nn.Linear(8, 8, dtype=F64)
        self.call = call

    def forward(self, x: Tensor) -> Tensor:
        return self.call(self.layer(x))


@pytest.mark.parametrize("dims", [{0: "b", 1: "s"}, {0: "b"}], ids=str)
@pytest.mark.parametrize("name", CALLS)
def test_a_size_that_is_one_value(name: str, dims: dict[int, str]) -> None:
    model, example = Calls(CALLS[name]), {"x": noise(4, 6, 8)}
    for mesh, policy in (({"dp": 2}, "data"), ({"tp": 2}, "tensor")):
        assert_equal(train(model, example, {"x": dims}, mesh, policy))
