"""Values that random numbers never have, and data does: equal ones, NaN, large ones, ignored ones.

    x.nanmean(0), partial="avg"             true of random numbers, false where one is NaN
    cross_entropy(x, target), "avg"         true until a target is -100, which is ignored
    (x @ w).clamp(-30, 30), "k+"            true until a product is larger
    x.amax(0), partial="max"                the gradient is another where elements tie
    x * 1 if float64 else x.cumsum(0)       in float32, which models run in

A function that does not run on such values on one device makes no promise about them.
"""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor

from ..arguments import Arguments

Values = Literal["plain", "ties", "nan", "large", "ignored", "float32"]

UNUSUAL: dict[Values, str] = {
    "ties": "where many elements are equal",
    "nan": "where an element is NaN",
    "large": "where elements are large",
    "ignored": "where an integer is -100, which losses ignore",
    "float32": "in float32",
}
"""What is tried beside plain values, in the words of a report."""


def with_values(tensor: Tensor, values: Values) -> Tensor:
    """Returns the tensor with such values; itself where its kind of numbers has none.

    >>> with_values(torch.tensor([1.5, -2.0]), "ties")
    tensor([1., 0.])
    """
    real = tensor.is_floating_point()
    whole = not real and not tensor.is_complex() and tensor.dtype is not torch.bool
    match values:
        case "ties" if real:
            return (tensor > 0).to(tensor.dtype)
        case "large" if real:
            return tensor * 100
        case "nan" if real and tensor.numel():
            return _first_replaced(tensor, float("nan"))
        case "ignored" if whole and tensor.numel():
            return _first_replaced(tensor, -100)
        case _:
            return tensor


def in_float32(arguments: Arguments) -> Arguments:
    """Returns the arguments with float64 tensors as float32, each a tensor of its own."""
    return arguments.with_values(
        {
            place: (tensor.float() if tensor.dtype is torch.float64 else tensor).detach().clone()
            for place, tensor in arguments.tensors()
        }
    )


def _first_replaced(tensor: Tensor, value: float) -> Tensor:
    tensor = tensor.clone()
    tensor.view(-1)[0] = value
    return tensor
