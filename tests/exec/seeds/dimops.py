"""Seed 000: its operator and its model."""
# fmt: off
# ruff: noqa
# mypy: ignore-errors

import torch

import dimsolve as nnscaler


@nnscaler.register_op('(h^ m^) kd+, kd+ n -> h^ m^ n', name='matmul_custom')
def operator(x: torch.Tensor, w: torch.Tensor, h: float) -> torch.Tensor:
    out = torch.matmul(x, w)
    out = out.view(h, out.size(0) // h, out.size(1))
    return out
