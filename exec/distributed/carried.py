"""What a backend cannot move or reduce as it is goes as something that it can.

bool (4, 8)         bytes (32,) on the way, bool (4, 8) again
int16 (4,)          is reduced as int32
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

PLAIN = frozenset(
    {
        torch.float32,
        torch.float64,
        torch.float16,
        torch.bfloat16,
        torch.int32,
        torch.int64,
        torch.uint8,
        torch.int8,
    }
)
"""The dtypes that every backend moves and reduces as they are."""

WIDER = {
    torch.int16: torch.int32,
    torch.uint16: torch.int32,
    torch.uint32: torch.int64,
}
"""The integers that are reduced as wider ones."""


def carried(tensor: Tensor) -> Tensor:
    """The tensor in one piece, as bytes where its dtype is not moved everywhere."""
    given = tensor.detach().contiguous()
    return given if given.dtype in PLAIN else given.view(-1).view(torch.uint8)


def restored(moved: Tensor, like: Tensor, shape: Any) -> Tensor:
    """The tensor that was carried, with the dtype of `like` and this shape."""
    if moved.dtype is like.dtype:
        return moved
    return moved.view(-1).view(like.dtype).view(shape)
