"""Ranks agree on tensors of every kind of number, and see where they differ."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

import dimsolve as ds
from dimsolve.exec.distributed.digests import digests
from tests.oracles.ranks import world

DTYPES = [
    torch.float64,
    torch.float32,
    torch.float16,
    torch.bfloat16,
    torch.float8_e4m3fn,
    torch.complex128,
    torch.complex64,
    torch.int64,
    torch.uint16,
    torch.int8,
    torch.bool,
]


def digest(tensor: Tensor) -> str:
    module = nn.Module()
    module.register_buffer("x", tensor)
    return digests(module)["x"]


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_values_of_every_dtype_tell_themselves_apart(dtype: torch.dtype) -> None:
    drawn = torch.arange(12).reshape(3, 4)
    values = (drawn % 2 if dtype is torch.bool else drawn).to(dtype)
    other = values.clone()
    other[1, 1] = 0
    other[2, 1] = 0
    assert digest(values) == digest(values.clone()) == digest(values.t().contiguous().t())
    assert digest(values) not in (digest(other), digest(values.reshape(4, 3)))


def test_equal_values_tell_themselves_apart() -> None:
    found = {digest(torch.full((4, 4), value)) for value in (0.0, 1.0, 2.0, float("nan"))}
    assert len(found) == 4


@pytest.mark.parametrize("length", [6, 2**16 + 3, 2**18 + 2**16 + 1])
@pytest.mark.parametrize("dtype", [torch.uint8, torch.int16, torch.float32, torch.float64], ids=str)
def test_the_order_of_values_counts(dtype: torch.dtype, length: int) -> None:
    values = torch.arange(length).remainder(251).to(dtype)
    swapped = values.clone()
    swapped[[1, length - 1]] = values[[length - 1, 1]]
    others = [values, swapped, values.flip(0), values.roll(2**16), values.roll(251)]
    for one in others:
        for other in others:
            assert (digest(one) == digest(other)) == torch.equal(one, other)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.int8], ids=str)
def test_signs_of_any_two_values_count(dtype: torch.dtype) -> None:
    """A sum of 64-bit words alone is blind to two changed signs."""
    values = torch.ones(8).to(dtype)
    found = {digest(values)}
    for one in range(8):
        for other in range(one):
            changed = values.clone()
            changed[[one, other]] *= -1
            found.add(digest(changed))
    assert len(found) == 29


def test_where_values_lie_does_not_count() -> None:
    values = torch.arange(9, dtype=torch.uint8)
    assert digest(values[1:8]) == digest(values[1:8].clone())
    assert digest(torch.tensor([2, 0, 255], dtype=torch.uint8).view(torch.bool)) == digest(
        torch.tensor([True, False, True])
    )
    numbers = torch.randn(4, 4, dtype=torch.complex64)
    assert digest(numbers.conj()) == digest(numbers.conj().resolve_conj())
    assert digest(numbers.conj().imag) == digest(numbers.conj().imag.resolve_neg().clone())


def test_what_has_no_values() -> None:
    assert digest(torch.ones(0, 4)) == "torch.float32 (0, 4)"
    assert digest(torch.ones(2, 4, device="meta")) == "torch.float32 (2, 4)"


class Odd(nn.Module):
    """A complex parameter and an empty one."""

    def __init__(self) -> None:
        super().__init__()
        self.w = nn.Parameter(torch.complex(torch.ones(4), torch.arange(4.0)).to(torch.complex128))
        self.e = nn.Parameter(torch.ones(0, 4, dtype=torch.float64))

    def forward(self, x: Tensor) -> Tensor:
        return (x * self.w).abs().square().sum(-1) + self.e.sum()


def of_odd_parameters() -> bool:
    """Whether a step's gradients over dp are those of one device."""
    whole, x = Odd(), torch.arange(16, dtype=torch.float64).reshape(4, 4)
    graph = ds.trace(whole, kwargs={"x": x}, dynamic={"x": {0: "batch"}})
    part = ds.parallelize(whole, ds.plan(graph, {"dp": 2}, "data"))
    for module in (part, whole):
        module(x).square().mean().backward()
    return all(
        torch.allclose(part.get_parameter(name).grad, parameter.grad)  # type: ignore[arg-type]
        for name, parameter in whole.named_parameters()
    )


def test_complex_and_empty_parameters() -> None:
    assert world(2).run(of_odd_parameters) == [True, True]


class Encoder(nn.Module):
    """Attention that is asked for no weights returns None in their place."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.attention = nn.MultiheadAttention(4, 2, batch_first=True, dtype=torch.float64)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor | None]:
        found: tuple[Tensor, Tensor | None] = self.attention(x, x, x, need_weights=False)
        return found


def none_returned(mesh: dict[str, int]) -> bool:
    whole, x = Encoder(), torch.rand(4, 3, 4, dtype=torch.float64)
    graph = ds.trace(whole, kwargs={"x": x}, dynamic={"x": {0: "batch"}})
    part = ds.parallelize(whole, ds.plan(graph, mesh, "data"))
    (found, none), (wanted, _) = part(x), whole(x)
    return none is None and torch.allclose(found, wanted)


def test_what_is_none_stays_none() -> None:
    assert world(2).run(none_returned, {"dp": 2}) == [True, True]
