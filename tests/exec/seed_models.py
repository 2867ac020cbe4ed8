"""The seeds' examples inside of models, so that they can be planned and run on ranks.

Each factory returns the model, an example, the dynamic names, and the splits that are asked for.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from .seeds import custom_ops, customised

F64 = torch.float64
Model = tuple[nn.Module, dict[str, Any], dict[str, Any], dict[str, Any]]


class Calls(nn.Module):
    """A linear, then a function of its result and of more parameters, then a linear."""

    def __init__(self, function: Callable[..., Any], width: int, out: int, **parameters: Any):
        super().__init__()
        torch.manual_seed(0)
        self.before = nn.Linear(width, width, bias=False, dtype=F64)
        self.after = nn.Linear(out, 4, bias=False, dtype=F64)
        self.function = function
        for name, shape in parameters.items():
            self.register_parameter(name, nn.Parameter(torch.randn(shape, dtype=F64)))
        self.names = tuple(parameters)

    def forward(self, x: Tensor) -> Tensor:
        more = [getattr(self, name) for name in self.names]
        result: Tensor = self.after(self.function(self.before(x), *more))
        return result


def rows(*shape: int) -> dict[str, Any]:
    return {"x": torch.randn(shape, dtype=F64, generator=torch.Generator().manual_seed(1))}


def _matmul(x: Tensor, w: Tensor) -> Tensor:
    result: Tensor = custom_ops.operator(x, w, 2)
    return result


def matmul_over_kd() -> Model:
    return Calls(_matmul, 8, 6, w=(8, 6)), rows(4, 8), {}, {"matmul_custom": "kd"}


def matmul_over_n() -> Model:
    return Calls(_matmul, 8, 6, w=(8, 6)), rows(4, 8), {}, {"matmul_custom": "n"}


def instance_norm(split: str) -> Model:
    model = Calls(customised.my_instance_norm, 6, 6, weight=(4,), bias=(4,))
    dynamic = {"x": {0: "batch"}}
    return model, rows(4, 4, 5, 6), dynamic, {"my_instance_norm": split}


def instance_norm_over_n() -> Model:
    return instance_norm("n")


def instance_norm_over_c() -> Model:
    return instance_norm("c")


def _hidden(x: Tensor) -> Tensor:
    return customised.reshape(x, 4)


def reshape_over_h() -> Model:
    return Calls(_hidden, 6, 6), rows(24, 6), {}, {"reshape": "h"}


def reshape_over_t() -> Model:
    """Interleaved: of each of the 4 blocks every rank has a part."""
    return Calls(_hidden, 6, 6), rows(24, 6), {}, {"reshape": "t"}


def _expanded(x: Tensor) -> Tensor:
    return (x[:, None, :, None] * 2).expand(-1, 3, -1, 5).sum((1, 3)).sin()


def expand_over_rows() -> Model:
    return Calls(_expanded, 6, 6), rows(4, 6), {"x": {0: "n"}}, {"expand": (0, 0)}


def expand_over_new() -> Model:
    """A dimension that is made by expanding is cut too: each rank makes its part."""
    return Calls(_wide, 6, 6), rows(4, 6), {"x": {0: "n"}}, {"expand": (1, 0)}


def _wide(x: Tensor) -> Tensor:
    return (x * 2).expand(6, -1, -1).sum(0).sin()


def _repeated(x: Tensor) -> Tensor:
    return (x * 2).repeat(3, 2, 1).sum(0).sin()


def repeat_over_last() -> Model:
    return Calls(_repeated, 6, 6), rows(4, 6), {"x": {0: "n"}}, {"repeat": (0, 1)}


def _constant(x: Tensor) -> Tensor:
    y, ten = customised.op1_constant(x)
    return y * ten


def opaque_constant() -> Model:
    return Calls(_constant, 6, 6), rows(4, 6), {"x": {0: "n"}}, {"op1": "a"}


def optional_present() -> Model:
    model = Calls(customised.optional_op, 6, 6, y=(4, 6))
    return model, rows(4, 6), {}, {"optional_tensor": (0, 0)}


def _absent(x: Tensor) -> Tensor:
    return customised.optional_op(x, None)


def optional_absent() -> Model:
    return Calls(_absent, 6, 6), rows(4, 6), {"x": {0: "n"}}, {"optional_tensor": (0, 0)}


def autograd_function() -> Model:
    model = Calls(customised.MyFunction.apply, 6, 6)
    return model, rows(4, 6), {"x": {0: "n"}}, {"MyFunction": (0, 0)}


def autograd_matmul() -> Model:
    model = Calls(customised.ThirdFunction.apply, 8, 6, w=(8, 6))
    return model, rows(4, 8), {"x": {0: "n"}}, {"ThirdFunction": "k"}


def compiled_function() -> Model:
    model = Calls(customised.my_function, 6, 6)
    return model, rows(4, 6), {"x": {0: "n"}}, {"my_function": (0, 0)}


def written_in_place() -> Model:
    return Calls(_written, 6, 6, y=(4, 6)), rows(4, 6), {}, {"inplace_operator": (0, 0)}


def _written(x: Tensor, y: Tensor) -> Tensor:
    x, z = customised.inplace_right(x * 1, y)
    return x * z


ALL = [
    matmul_over_kd,
    matmul_over_n,
    instance_norm_over_n,
    instance_norm_over_c,
    reshape_over_h,
    reshape_over_t,
    expand_over_rows,
    expand_over_new,
    repeat_over_last,
    opaque_constant,
    optional_present,
    optional_absent,
    autograd_function,
    autograd_matmul,
    compiled_function,
    written_in_place,
]
