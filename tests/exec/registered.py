"""Functions that tests register: they must stand at the top of a module."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

import dimsolve as ds

T = torch.Tensor


@ds.register_op("m k+, k+ n -> m n")
def matmul(x: Tensor, w: Tensor) -> Tensor:
    """Multiplies."""
    return x @ w


@ds.register_op("(h t) k -> h t k")
def through_numpy(x: Tensor, h: int = 8) -> Tensor:
    """Reads data: it cannot run without."""
    return torch.from_numpy(x.detach().numpy()).reshape(h, -1, x.shape[1])


@ds.register_op("a b -> a, b")
def two_results(x: Tensor) -> tuple[Tensor, Tensor]:
    if x.sum().item() > 0:
        return x.sum(1), x.sum(0)
    return x.sum(1), x.sum(0)


@ds.register_op("a -> a, ?")
def opaque_result(x: Tensor) -> tuple[Tensor, float]:
    return x, float(x.sum())


@ds.register_op("* -> *")
class ReadsData(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        return x * 2 if x.sum().item() > 0 else x * 3

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Tensor:
        return gradients[0] * 2


class Derived(ReadsData):
    pass


@torch.compile(backend="eager")
def compiled(x: Tensor) -> Tensor:
    return x.sin()


ds.register_op("* -> *")(compiled)


def plain(x: Tensor, h: int = 2) -> Tensor:
    return x.unflatten(0, (h, -1))


same_plain = ds.register_op("(h t) -> h t")(plain)


def raises(x: Tensor) -> Tensor:
    raise ValueError("always")


ds.register_op("a -> a")(raises)
raises_registered = ds.register_op("a -> a")(raises)


def _by_inputs(*inputs: Any, **kwargs: Any) -> str:
    rank = len(inputs[0].shape)
    mark = "" if kwargs["keep"] else "+"
    dims = " ".join(f"d{i}{mark}" for i in range(rank))
    mask = "?" if inputs[1] is None else dims
    return f"{dims}, {mask} -> {dims if kwargs['keep'] else '()'}"


@ds.register_op(_by_inputs)
def reduced(x: Tensor, mask: Tensor | None = None, *, keep: bool = False) -> Tensor:
    x = x if mask is None else x * mask
    return x * 2 if keep else x.sum()


@ds.register_op("a, a, a -> a")
def added(*tensors: Tensor) -> Tensor:
    return torch.stack(tensors).sum(0)


def rows_held(part: Any, weight: Tensor, ids: Tensor) -> Tensor:
    low = part.index * weight.shape[0]
    held = (ids >= low) & (ids < low + weight.shape[0])
    rows = weight[torch.where(held, ids - low, 0)]
    return rows.masked_fill(~held.unsqueeze(-1), 0)


@ds.register_op(
    "v^ d, * -> * d",
    transform_rules=(ds.TransformRule(("S(0)", "R"), ("P(sum)",), local=rows_held),),
)
def lookup(weight: Tensor, ids: torch.LongTensor) -> Tensor:
    return weight[ids]


def mean_of_kept(part: Any, x: Tensor, keep: Tensor) -> Tensor:
    return (x * keep).sum() / part.all_reduce(keep.sum())


@ds.register_op(
    "a+ b+, a+ b+ -> ()", transform_rules=[ds.TransformRule(split=("a", "b"), local=mean_of_kept)]
)
def masked_mean(x: Tensor, keep: torch.BoolTensor) -> Tensor:
    return (x * keep).sum() / keep.sum()


def normalised(part: Any, x: Tensor) -> Tensor:
    top = part.all_reduce(x.detach().amax(1, keepdim=True), "max")
    exp = (x - top).exp()
    return exp / part.all_reduce(exp.sum(1, keepdim=True))


@ds.register_op(
    "n c^ -> n c^", transform_rules=(ds.TransformRule(("S(1)",), ("S(1)",), local=normalised),)
)
def softmax(x: Tensor) -> Tensor:
    return x.softmax(1)


def largest_with_ties(part: Any, x: Tensor) -> Tensor:
    top = part.all_reduce(x.detach().amax(0), "max")
    ties = (x == top).to(x.dtype)
    return (x * ties).sum(0) / part.all_reduce(ties.sum(0))


@ds.register_op(
    "a+ b -> b", transform_rules=(ds.TransformRule(split="a", local=largest_with_ties),)
)
def largest(x: Tensor) -> Tensor:
    return x.amax(0)


def total_everywhere(part: Any, x: Tensor) -> Tensor:
    return part.all_reduce(x.sum(0))


@ds.register_op(
    "a+ b -> b", transform_rules=(ds.TransformRule(("S(0)",), ("R",), local=total_everywhere),)
)
def total(x: Tensor) -> Tensor:
    return x.sum(0)


def fewer_heads(arguments: dict[str, Any], part: Any) -> dict[str, Any]:
    return {**arguments, "heads": arguments["heads"] // part.count}


@ds.register_op(
    "a b^ -> a b^", transform_rules=(ds.TransformRule(("S(1)",), ("S(1)",), modifier=fewer_heads),)
)
def scaled_by_width(x: Tensor, heads: int = 12) -> Tensor:
    return x * (x.shape[1] / heads)
