"""Seed 001, its examples in their order and in its words; only the package's name is another."""
# fmt: off
# ruff: noqa
# mypy: ignore-errors

from typing import Optional, Tuple

import torch
import torch.nn as nn

import dimsolve as nnscaler


@nnscaler.register_op('n c h^ w^, c, c -> n c h^ w^', name='my_instance_norm')
def my_instance_norm(input: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor):
    return nn.functional.instance_norm(input, weight=weight, bias=bias)


from .custom_ops import operator

nnscaler.register_op('(h^ m^) kd+, kd+ n -> h^ m^ n', name='matmul_custom')(operator)


@nnscaler.register_op("* -> *")
class MyFunction(torch.autograd.Function):
    @staticmethod
    def forward(ctx, *args, **kwargs):
        ctx.save_for_backward(*args)
        return args[0] * args[0]

    @staticmethod
    def backward(ctx, *grad_outputs):
        return 2 * ctx.saved_tensors[0] * grad_outputs[0]


class SecondFunction(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, factor):
        ctx.factor = factor
        return x * factor

    @staticmethod
    def backward(ctx, gradient):
        return gradient * ctx.factor, None


class ThirdFunction(torch.autograd.Function):
    @staticmethod
    def forward(x, w):
        return x @ w

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(*inputs)

    @staticmethod
    def backward(ctx, gradient):
        x, w = ctx.saved_tensors
        return gradient @ w.T, x.T @ gradient


nnscaler.register_op("* -> *")(SecondFunction)
nnscaler.register_op("m k+, k+ n -> m n")(ThirdFunction.apply)


@torch.compile
def my_function(x: torch.Tensor) -> torch.Tensor:
    return x * 2

nnscaler.register_op('* -> *')(my_function)


def some_func(x):
    return x.sum()


@nnscaler.register_op('a^ b^ -> a^ b^, ?')
def op1(x: torch.Tensor):
    x = x * 2
    y = some_func(x)
    return x, y

op1_depends = op1


@nnscaler.register_op('a b -> a b, ?')
def op1(x: torch.Tensor):
    x = x * 2
    y = 10
    return x, y

op1_constant = op1


# annotation: (h t) k -> h t k
def reshape(tensor: torch.Tensor, h : int = 8) -> torch.Tensor:
    out = tensor.reshape(h, tensor.size(0) // h, tensor.size(-1))
    return out

reshape = nnscaler.register_op('(h t) k -> h t k')(reshape)


# this is wrong
# because x is changed inplace, but it is not returned.
@nnscaler.register_op('*, * -> *', name='inplace_operator')
def inplace_operator(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    x.add_(y)
    z = x + y
    return z

inplace_wrong = inplace_operator


# this is correct
@nnscaler.register_op('*, * -> *, *', name='inplace_operator')
def inplace_operator(x: torch.Tensor, y: torch.Tensor) -> Tuple[torch.Tensor, torch.Tensor]:
    x.add_(y)
    z = x + y
    return x, z

inplace_right = inplace_operator


@nnscaler.register_op('a^ b^, ? -> a^ b^', name='optional_tensor')
def optional_op(x: torch.Tensor, y: Optional[torch.Tensor]) -> torch.Tensor:
    out = torch.triu(x)
    if y is not None:
        out += y
    return out

optional_replicated = optional_op


def anno_fn(*inputs, **kwargs):
    if inputs[1] is None:
        return '*, ? -> *'
    else:
        return '*, * -> *'

@nnscaler.register_op(anno_fn, name='optional_tensor')
def optional_op(x: torch.Tensor, y: Optional[torch.Tensor]) -> torch.Tensor:
    if y is None:
        return x
    return x + y

optional_partitioned = optional_op
