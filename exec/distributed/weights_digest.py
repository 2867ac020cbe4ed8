"""What ranks tell of their weights: each tensor's dtype, shape and a number for its values.

    q_proj.weight      torch.float32 (64, 64) 1729 -5040

Equal weights tell the same, whatever their layout in memory.
"""

from __future__ import annotations

import torch

_BITS = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}
"""Whole numbers by their size in bytes, which stand for any others of that size."""


def digests(model: torch.nn.Module) -> dict[str, str]:
    """What every parameter and buffer is, in short."""
    tensors = {**dict(model.named_parameters()), **dict(model.named_buffers())}
    return {name: _digest(tensor.detach()) for name, tensor in tensors.items()}


def _digest(tensor: torch.Tensor) -> str:
    """The dtype, the shape, and of the values' bits torch's hash and their sum: the hash alone is 0
    for every even number of equal values. Neither depends on the order of summation.
    """
    said = f"{tensor.dtype} {tuple(tensor.shape)}"
    if tensor.is_meta or not tensor.numel():
        return said
    if tensor.layout is not torch.strided:
        tensor = tensor.to_dense()
    values = torch.view_as_real(tensor.resolve_conj()) if tensor.is_complex() else tensor
    bits = values.resolve_neg().contiguous().view(_BITS[values.element_size()])
    return f"{said} {int(torch.hash_tensor(bits).view(torch.int64))} {int(bits.sum())}"
