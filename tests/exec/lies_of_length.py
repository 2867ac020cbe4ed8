"""Promises that are kept on some lengths, values or modes only, and rules that are not what they
seem.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

import dimsolve as ds


@ds.register_op("b s d^ -> b s d^")
def windows_of_three(x: Tensor) -> Tensor:
    b, s, d = x.shape
    y = functional.pad(x, (0, 0, 0, -s % 3)).reshape(b, -1, 3, d)
    return (y - y.mean(2, keepdim=True)).reshape(b, -1, d)[:, :s]


@ds.register_op("b d^ -> b d^")
def swapped_pairs(x: Tensor) -> Tensor:
    return x.reshape(-1, 2, x.shape[1]).flip(1).reshape(x.shape)


@ds.register_op("a b -> a b")
def squeezed(x: Tensor) -> Tensor:
    return x.squeeze() * 2


@ds.register_op("n c h^ -> n c h^")
def groups_of_three(x: Tensor) -> Tensor:
    return functional.group_norm(x, x.shape[1] // 3)


@ds.register_op("s+ d -> d")
def largest_of_pairs(x: Tensor) -> Tensor:
    return x.reshape(-1, 2, x.shape[1]).amax(1).sum(0)


@ds.register_op("a b -> a b")
def nothing_of_one_row(x: Tensor) -> Tensor:
    return x * 1 if x.shape[0] > 1 else torch.zeros_like(x)


@ds.register_op("a b -> a b")
def turned_where_square(x: Tensor) -> Tensor:
    return x.T * 1 if x.shape[0] == x.shape[1] else x * 1


@ds.register_op("n+ c^, n+ -> ()", partial="avg")
def ignoring_loss(x: Tensor, target: torch.LongTensor) -> Tensor:
    return functional.cross_entropy(x, target)


@ds.register_op("k+ n -> n", partial="avg")
def mean_without_nan(x: Tensor) -> Tensor:
    return x.nanmean(0)


@ds.register_op("n+ -> ()")
def count_of_values(x: Tensor) -> Tensor:
    return torch.tensor(float(x.unique().numel()))


@ds.register_op("m k+, k+ n -> m n")
def clipped(x: Tensor, w: Tensor) -> Tensor:
    return (x @ w).clamp(-30, 30)


@ds.register_op("m k+, k+ n -> m n")
def closely_clipped(x: Tensor, w: Tensor) -> Tensor:
    return (x @ w).clamp(-8, 8)


@ds.register_op("a+ b -> b")
def never_a_number(x: Tensor) -> Tensor:
    return (x.mean(0) - 1e3).sqrt()


@ds.register_op("k+ n -> n")
def always_infinite(x: Tensor) -> Tensor:
    return x.exp().mean(0) * 1e300 * 1e300


@ds.register_op("a ->")
def returns_more(x: Tensor) -> Tensor:
    return x.cumsum(0)


@ds.register_op("a ->")
def returns_nothing(x: Tensor) -> None:
    return None


@ds.register_op("a b -> a b")
def gradient_of_short_ones(x: Tensor) -> Tensor:
    return x.detach() if x.shape[0] > 2 else x * 1


@ds.register_op("* a -> * a")
def turned_as_a_vector(x: Tensor) -> Tensor:
    return x.flip(0) if x.ndim == 1 else x * 1


@ds.register_op("* -> *")
def turned_with_four(x: Tensor) -> Tensor:
    return x.flip(1) if x.ndim == 4 else x * 1


@ds.register_op("m k+, k+ n -> m n")
def with_a_constant(x: Tensor, w: Tensor, c: float = 0.0, *, flip: bool = False) -> Tensor:
    return x @ w + c


@ds.register_op("a b -> a b")
def true_in_training(x: Tensor) -> Tensor:
    return x * 1 if torch.is_grad_enabled() else x.cumsum(0)


@ds.register_op("a b -> a b, a b")
def returns_a_copy(x: Tensor) -> tuple[Tensor, Tensor]:
    x.add_(1)
    return x * 2, x.clone()


def _five(_: Any) -> list[Tensor]:
    return [torch.randn(5)]


@ds.register_op("a -> a", input_gen_fn=_five)
def always_five(x: Tensor) -> Tensor:
    return x.cumsum(0)


def _raises(_: Any) -> list[Tensor]:
    raise KeyError("boo")


@ds.register_op("a -> a", input_gen_fn=_raises)
def raising_generator(x: Tensor) -> Tensor:
    return x * 1


def _nothing(_: Any) -> None:
    return None


@ds.register_op("a -> a", input_gen_fn=_nothing)
def empty_generator(x: Tensor) -> Tensor:
    return x * 1


def _two(_: Any) -> list[Tensor]:
    return [torch.ones(4), torch.ones(4)]


@ds.register_op("a -> a", input_gen_fn=_two)
def generous_generator(x: Tensor) -> Tensor:
    return x * 1


@ds.register_op("k+ n -> n, n", partial="max")
def largest_and_where(x: Tensor) -> tuple[Tensor, Tensor]:
    largest = x.max(0)
    return largest.values, largest.indices


@ds.register_op("k+ n -> n", partial="avg")
def average_of_integers(x: Tensor) -> Tensor:
    return (x > 0).sum(0)


@ds.register_op("a b -> a b")
def on_meta(x: Tensor) -> Tensor:
    return x.to("meta")


@ds.register_op("a b -> a b")
def narrower_on_a_rank(x: Tensor) -> Tensor:
    return x.float() if x.shape[0] == 2 else x * 1


@ds.register_op("a b -> a b")
def cumulates_in_float32(x: Tensor) -> Tensor:
    return x * 1 if x.dtype == torch.float64 else x.cumsum(0)


@ds.register_op("-> a b")
def ones(a: int, b: int) -> Tensor:
    return torch.ones(a, b)


@ds.register_op("-> n")
def numbered(n: int) -> Tensor:
    return torch.arange(n)


@ds.register_op("a -> a")
def wants_integers(x: Tensor) -> Tensor:
    return torch.ones(9)[x]


@ds.register_op("a b -> a b")
def cumulated(x: Tensor) -> Tensor:
    return x.cumsum(0)


def rows(part: Any, x: Tensor, w: Tensor) -> Tensor:
    k = x.shape[1]
    return x @ w[part.index * k : (part.index + 1) * k]


@ds.register_op(
    "m^ k^, k^ n -> m^ n",
    transform_rules=(ds.TransformRule(("S(1)", "R"), ("P(sum)",), local=rows),),
)
def slices_for_itself(x: Tensor, w: Tensor) -> Tensor:
    return x @ w


def shifted(arguments: dict[str, Any], part: Any) -> dict[str, Any]:
    start = arguments["start"] + part["a"].index * arguments["x"].shape[0]
    return {**arguments, "start": start}


@ds.register_op(
    "a^ b -> a^ b", transform_rules=(ds.TransformRule(("S(0)",), ("S(0)",), modifier=shifted),)
)
def with_row_numbers(x: Tensor, start: int = 0) -> Tensor:
    numbers = torch.arange(start, start + x.shape[0], dtype=x.dtype, device=x.device)
    return x + numbers[:, None]


def both_cut(part: Any, x: Tensor, y: Tensor) -> Tensor:
    return part.all_reduce(x.sum()) * y.sum()


@ds.register_op(
    "a^, b^ -> ()",
    transform_rules=(ds.TransformRule(("S(0)", "S(0)"), ("P(sum)",), local=both_cut),),
)
def cuts_two(x: Tensor, y: Tensor) -> Tensor:
    return x.sum() * y.sum()
