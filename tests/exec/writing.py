"""Models that write in place: to inputs, to buffers, through views, where gradients are off."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

WIDTH = 8


class Writing(nn.Module):
    """``step(self, x)`` makes what is returned; two weights and two buffers to make it of."""

    def __init__(self, step: Callable[[Any, Tensor], Tensor]) -> None:
        super().__init__()
        generator = torch.Generator().manual_seed(0)
        for name in ("a", "b"):
            drawn = torch.randn(WIDTH, WIDTH, generator=generator, dtype=torch.float64)
            setattr(self, name, nn.Parameter(drawn * 0.5))
        self.count = nn.Buffer(torch.zeros(WIDTH, dtype=torch.float64))
        self.cache = nn.Buffer(torch.ones(4, WIDTH, dtype=torch.float64))
        self.step = step

    def forward(self, x: Tensor) -> Tensor:
        return self.step(self, x)


def value(m: Any, x: Tensor) -> Tensor:
    h = x @ m.a
    h.add_(1)
    return h @ m.b


def view_after(m: Any, x: Tensor) -> Tensor:
    h = x @ m.a
    v = h[:, :4]
    v.mul_(2)
    return h @ m.b


def view_before(m: Any, x: Tensor) -> Tensor:
    h = x @ m.a
    v = h.view(-1, 2, 4)
    h.mul_(2.0)
    return (v.sum(1) @ m.b[:4]) + h


def einsum_view(m: Any, x: Tensor) -> Tensor:
    h = x @ m.a
    v = torch.einsum("ij->ji", h)
    h.mul_(2.0)
    return v.T @ m.b


def assigned(m: Any, x: Tensor) -> Tensor:
    h = torch.zeros_like(x)
    h[:, :4] = (x @ m.a)[:, :4]
    h[:, 4:] = (x @ m.b)[:, 4:]
    return h @ m.b


def the_input(m: Any, x: Tensor) -> Tensor:
    x.add_(1.0)
    return x @ m.a


def a_view_of_the_input(m: Any, x: Tensor) -> Tensor:
    x[:, 0] = 0.0
    return x @ m.a


def moving_average(m: Any, x: Tensor) -> Tensor:
    h = torch.relu(x @ m.a)
    m.count.mul_(0.9).add_(h.detach().sum(0))
    return h @ m.b


def scattered(m: Any, x: Tensor) -> Tensor:
    h = x @ m.a
    places = torch.zeros(h.shape[0], dtype=torch.long)
    m.cache.index_add_(0, places, h.detach())
    return h @ m.b


def kept(m: Any, x: Tensor) -> Tensor:
    h = x @ m.a
    m.cache.copy_(h.detach()[:4])
    return (h + m.cache.sum(0)) @ m.b


def unrecorded(m: Any, x: Tensor) -> Tensor:
    h = x @ m.a
    with torch.no_grad():
        h.mul_(3.0)
    return h @ m.b


def half_recorded(m: Any, x: Tensor) -> Tensor:
    h = x @ m.a
    with torch.no_grad():
        k = h.exp() @ m.b
    return h * k


def inplace_activation(m: Any, x: Tensor) -> Tensor:
    h = torch.nn.functional.relu(x @ m.a, inplace=True)
    h = torch.nn.functional.dropout(h @ m.b, 0.0, inplace=True)
    return h.mul_(0.5) @ m.a


def residual(m: Any, x: Tensor) -> Tensor:
    h = x @ m.a
    h += torch.relu(h) @ m.b
    h += torch.relu(h) @ m.a
    return h


def filled_by_hand(m: Any, x: Tensor) -> Tensor:
    h = x @ m.a
    k = torch.zeros(h.shape[0], 2, WIDTH, dtype=h.dtype)
    k[:, 0] = h
    k[:, 1] = 2 * h
    return k @ m.b


def filled_through_a_view(m: Any, x: Tensor) -> Tensor:
    h = x @ m.a
    k = torch.zeros(h.shape[0], 2, WIDTH, dtype=h.dtype)
    k[:, 0].add_(h)
    k.view(-1, 2 * WIDTH)[:, WIDTH:].copy_(h.exp())
    return torch.relu(k @ m.b) @ m.a


def given_out(m: Any, x: Tensor) -> Tensor:
    h = torch.relu(x @ m.a)
    k = torch.ones(2, h.shape[0], WIDTH, dtype=h.dtype)
    early = k[0]
    k.mul_(h)
    return (early @ m.b) @ m.a


ALL = {
    step.__name__: step
    for step in (
        value, view_after, view_before, einsum_view, assigned, the_input, a_view_of_the_input,
        moving_average, scattered, kept, unrecorded, half_recorded, inplace_activation, residual,
        filled_by_hand, filled_through_a_view, given_out,
    )
}  # fmt: skip


def example() -> dict[str, Tensor]:
    return {"x": torch.linspace(-1, 1, 4 * WIDTH, dtype=torch.float64).reshape(4, WIDTH)}


def run(model: nn.Module, steps: int = 2) -> dict[str, Any]:
    """Two steps: what is returned, what is left of the input, the gradients and the buffers."""
    found: dict[str, Any] = {}
    for number in range(steps):
        given = example()["x"]
        returned = model(x=given)
        returned.square().sum().backward()
        found |= {f"returned {number}": returned.detach(), f"input {number}": given}
    found |= {f"gradient {name}": p.grad for name, p in model.named_parameters()}
    return found | {f"buffer {name}": b for name, b in model.named_buffers()}
