"""In which precision a function computes inside, whatever it is given.

    rms_norm(x) = (x.float() * ...).to(x.dtype)        float32: differences up to 1e-4 are rounding

Many functions change to float32 for a sum or an exponential. Their split results differ from the
whole by what float32 rounds, though all they are given and return is float64.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

ROUNDING = {
    torch.float64: 1e-9,
    torch.complex128: 1e-9,
    torch.float32: 1e-4,
    torch.complex64: 1e-4,
    torch.float16: 2e-2,
    torch.bfloat16: 2e-2,
}
"""The largest difference that rounding explains, relative to the largest element."""


def rounding_of(run: Callable[[], object]) -> float:
    """Returns the largest difference that the narrowest type explains which appears in a run."""
    seen = _Seen()
    with seen:
        run()
    return max((ROUNDING.get(dtype, 0.0) for dtype in seen.dtypes), default=0.0)


class _Seen(TorchDispatchMode):
    """Notes the types of all results."""

    def __init__(self) -> None:
        super().__init__()
        self.dtypes: set[torch.dtype] = set()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        for item in result if isinstance(result, list | tuple) else (result,):
            if isinstance(item, Tensor):
                self.dtypes.add(item.dtype)
        return result
