"""numpy's functions as torch's capture runs them: tensors in, tensors out.

    h / np.sqrt(8)        in a model: dimsolve.exec.numpy_functions.sqrt(8), a float64 tensor

A capture replaces ``np.sqrt`` by an object that has no import path. Here each such function has
one, so that a graph that calls it can be run, written as JSON, and emitted.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


def __getattr__(name: str) -> Callable[..., Any]:
    """Returns numpy's function of that name over tensors; AttributeError where torch has none.

    >>> from dimsolve.exec import numpy_functions
    >>> numpy_functions.sqrt(16)
    tensor(4., dtype=torch.float64)
    """
    import torch._numpy as functions
    from torch._dynamo.utils import numpy_to_tensor_wrapper

    hidden = name.startswith(("_", "set_"))  # what sets numpy's defaults computes nothing
    function = None if hidden else getattr(functions, name, None)
    if not callable(function):
        raise AttributeError(f"torch runs no numpy function {name!r}")
    wrapped: Callable[..., Any] = numpy_to_tensor_wrapper(function)
    return wrapped
