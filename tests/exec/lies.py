"""Annotations that do not tell the truth, each in its own way."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional

import dimsolve as ds


@ds.register_op("a b -> b")
def unmarked_sum(x: Tensor) -> Tensor:
    return x.sum(0)


@ds.register_op("a+ b -> b")
def mean_as_sum(x: Tensor) -> Tensor:
    return x.mean(0)


@ds.register_op("a+ b -> b", partial="avg")
def mean_as_average(x: Tensor) -> Tensor:
    return x.mean(0)


@ds.register_op("m k+, n k+, n -> m n")
def linear_without_value_split(x: Tensor, w: Tensor, bias: Tensor) -> Tensor:
    return functional.linear(x, w, bias)


@ds.register_op("m k+, n k+, n -> m n", value_split=("bias",))
def linear(x: Tensor, w: Tensor, bias: Tensor) -> Tensor:
    return functional.linear(x, w, bias)


@ds.register_op("m k+, k+ n, n -> m n", value_split=("scale",))
def scaled_with_value_split(x: Tensor, w: Tensor, scale: Tensor) -> Tensor:
    return (x @ w) * scale


def _classes(node):  # type: ignore[no-untyped-def]
    x = node.inputs[0]
    target = torch.arange(x.numel() // x.shape[1]).reshape(x.shape[0], *x.shape[2:]) % x.shape[1]
    return [x, target]


@ds.register_op("n c^ h w, n h w -> ?", input_gen_fn=_classes)
def cross_entropy_replicated(x: Tensor, target: torch.LongTensor) -> Tensor:
    return functional.cross_entropy(x, target)


@ds.register_op(
    "n ci+ h^ w^, ci+ co 1 1, co -> n co h^ w^",
)
def transposed_convolution(x: Tensor, w: Tensor, bias: Tensor) -> Tensor:
    return functional.conv_transpose2d(x, w, bias)


@ds.register_op("a b, a -> a b")
def masked_from_the_left(x: Tensor, mask: torch.BoolTensor) -> Tensor:
    return x.masked_fill(mask, 0.0)


@ds.register_op("a b -> a b")
def rolled(x: Tensor) -> Tensor:
    return torch.roll(x, 1, dims=-1)


@ds.register_op("a b -> b a")
def not_transposed(x: Tensor) -> Tensor:
    return x * 2


@ds.register_op("a b -> a b, ?")
def sum_as_opaque(x: Tensor) -> tuple[Tensor, Tensor]:
    return x * 2, x.sum()


@ds.register_op("* -> *")
def softmax_everywhere(x: Tensor) -> Tensor:
    return x.softmax(-1)


@ds.register_op("a b -> a b")
def wrong_only_in_backward(x: Tensor) -> Tensor:
    return _Scaled.apply(x)  # type: ignore[no-any-return, no-untyped-call]


class _Scaled(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):  # type: ignore[no-untyped-def]
        ctx.rows = x.shape[0]
        return x.clone()

    @staticmethod
    def backward(ctx, gradient):  # type: ignore[no-untyped-def]
        return gradient / ctx.rows


@ds.register_op("a b, a b -> a b")
def writes_and_hides(x: Tensor, y: Tensor) -> Tensor:
    x.add_(y)
    return x * y


@ds.register_op("a+ b -> b")
def largest_as_sum(x: Tensor) -> Tensor:
    return x.amax(0)


@ds.register_op("a b -> a b, b")
def returns_less(x: Tensor) -> Tensor:
    return x


@ds.register_op("a+ b -> b")
def different_each_time(x: Tensor) -> Tensor:
    return x.sum(0) + torch.randn(x.shape[1])


@ds.register_op("a b -> a b")
def reads_its_length(x: Tensor) -> Tensor:
    return x / x.shape[0]


@ds.register_op("m k+, k+ n, n, n -> m n", value_split=("b", "c"))
def with_two_biases(x: Tensor, w: Tensor, b: Tensor, c: Tensor) -> Tensor:
    return x @ w + b + c


@ds.register_op("m k+, k+ n, n, n -> m n")
def two_biases_forgotten(x: Tensor, w: Tensor, b: Tensor, c: Tensor) -> Tensor:
    return x @ w + b + c


@ds.register_op("v^ d, * -> * d")
def picks_rows(weight: Tensor, ids: Tensor) -> Tensor:
    """Its ids are integers, which its types do not say."""
    return functional.embedding(ids, weight)


@ds.register_op("a^ -> a^")
def all_frozen(x: Tensor) -> Tensor:
    return x.flip(0)


@ds.register_op("a -> a")
def wants_a_word(x: Tensor, word: str) -> Tensor:
    return x * 2 if word == "twice" else x


@ds.register_op("a -> a")
def sizes_of_powers_only(x: Tensor) -> Tensor:
    if x.shape[0] & (x.shape[0] - 1):
        raise ValueError("not a power of 2")
    return x


@ds.register_op("a b -> a b")
def never_runs(x: Tensor) -> Tensor:
    raise TypeError("not these")


@ds.register_op("a+ b -> b", partial="max")
def largest_as_largest(x: Tensor) -> Tensor:
    return x.amax(0)


def _convolution(*inputs, **kwargs):  # type: ignore[no-untyped-def]
    image, kernel = inputs[0].shape, inputs[1].shape
    rows, columns = image[2] - kernel[2] + 1, image[3] - kernel[3] + 1
    return f"n c+ h^ w^, o c+ p^ q^, o -> n o {rows} {columns}"


@ds.register_op(_convolution, value_split=("bias",))
def convolution(x: Tensor, kernel: Tensor, bias: Tensor) -> Tensor:
    return functional.conv2d(x, kernel, bias)


@ds.register_op("a b+, b+ -> a")
def product_in_float32(x: Tensor, y: Tensor) -> Tensor:
    return (x.float() @ y.float()).to(x.dtype)


@ds.register_op("a b+, b+ -> a")
def almost_a_product(x: Tensor, y: Tensor) -> Tensor:
    return x @ y + 1e-6


@ds.register_op("(h t) -> h t")
def length_not_told(x: Tensor) -> Tensor:
    return x.reshape(2, -1)


@ds.register_op("n c^, n -> ()", transform_rules=(ds.TransformRule(split="n", outputs=("R",)),))
def loss_said_replicated(x: Tensor, target: torch.LongTensor) -> Tensor:
    return functional.cross_entropy(x, target)


@ds.register_op("a b -> a b")
def writes_and_returns(x: Tensor) -> Tensor:
    return x.add_(1)


@ds.register_op("a b, a b -> a b, a b, a b", writes=["y", "x"])
def writes_to_both(x: Tensor, y: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    return y.mul_(2), x.add_(y), x * y


@ds.register_op("a b -> a b", writes=["x"])
def said_to_write_and_copies(x: Tensor) -> Tensor:
    return x.add_(1) * 1


@ds.register_op("a b -> a b")
def writes_without_a_trace(x: Tensor) -> Tensor:
    return x.add_(1)


@ds.register_op("a b -> a b", writes=["x"])
def writes_as_it_says(x: Tensor) -> Tensor:
    x.data.add_(1)
    return x


@ds.register_op("a b -> a b")
def writes_unseen_and_returns(x: Tensor) -> Tensor:
    x.data.add_(1)
    return x


@ds.register_op("a b -> a b")
def counts_zeros(x: Tensor) -> Tensor:
    return x + (x == 0).sum() * (x == 0).sum().eq(1)


@ds.register_op("a b -> a b")
def sees_infinity(x: Tensor) -> Tensor:
    return x.nan_to_num(posinf=0.0) + x.isinf().sum()


@ds.register_op("a b -> a b")
def wrong_in_float32(x: Tensor) -> Tensor:
    return x * 1.01 if x.dtype is torch.float32 and x.shape[0] < 4 else x.clone()
