"""What registering costs at a call: the registered function beside the bare one."""

from __future__ import annotations

import torch
from torch import Tensor

import dimsolve as ds

from .conftest import Measure


def bare(x: Tensor, w: Tensor, h: int = 8) -> Tensor:
    return x


def function(x: Tensor, w: Tensor, h: int = 8) -> Tensor:
    return x


registered = ds.register_op("(h t) k, k -> (h t) k")(function)
X, W = torch.ones(16, 4), torch.ones(4)


def test_a_bare_function(measure: Measure) -> None:
    measure("a call of a bare function", 2e-6, lambda: bare(X, W))


def test_a_registered_function(measure: Measure) -> None:
    measure("a call of a registered function", 2e-6, lambda: registered(X, W))


def test_a_registered_function_with_keywords(measure: Measure) -> None:
    measure("the same with a keyword argument", 2e-6, lambda: registered(X, W, h=4))
