"""numpy's functions as torch's capture runs them: tensors in, tensors out.

    h / np.sqrt(8)         in a model: dimsolve.exec.numpy_functions.sqrt(8), a float64 tensor
    np.log(1e4) / 5        numpy_functions.operator_truediv(log, 5)
    np.arange(6).sum()     numpy_functions.method_sum(arange)

A capture replaces ``np.sqrt`` by an object that has no import path. Here each such function has
one, so that a graph that calls it can be run, written as JSON, and emitted. What writes to an array
in place has none.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

OPERATORS = frozenset(
    {
        *("abs", "add", "and_", "eq", "floordiv", "ge", "getitem", "gt", "invert", "le", "lshift"),
        *("lt", "matmul", "mod", "mul", "ne", "neg", "or_", "pos", "pow", "rshift", "sub"),
        *("truediv", "xor"),
    }
)
"""Python's operators that give a new array, by their names in ``operator``."""

METHODS = frozenset(
    {
        *("all", "any", "argmax", "argmin", "argsort", "astype", "clip", "conj", "conjugate"),
        *("copy", "cumprod", "cumsum", "diagonal", "dot", "flatten", "item", "max", "mean", "min"),
        *("nonzero", "prod", "ptp", "ravel", "repeat", "reshape", "round", "searchsorted"),
        *("squeeze", "std", "sum", "swapaxes", "take", "tolist", "trace", "transpose", "var"),
    }
)
"""Methods of an array that leave it as it is."""


def __getattr__(name: str) -> Callable[..., Any]:
    """Returns numpy's function of that name over tensors, ``operator_NAME`` for one of Python's
    operators, ``method_NAME`` for an array's method; AttributeError where torch has none.

    >>> from dimsolve.exec import numpy_functions
    >>> numpy_functions.sqrt(16)
    tensor(4., dtype=torch.float64)
    >>> numpy_functions.operator_truediv(numpy_functions.array([1.0, 3.0]), 2)
    tensor([0.5000, 1.5000], dtype=torch.float64)
    """
    of_arrays = _of_arrays(name)
    if of_arrays is not None:
        return of_arrays
    import torch._numpy as functions
    from torch._dynamo.utils import numpy_to_tensor_wrapper

    hidden = name.startswith(("_", "set_"))  # what sets numpy's defaults computes nothing
    function = None if hidden else getattr(functions, name, None)
    if not callable(function):
        raise AttributeError(f"torch runs no numpy function {name!r}")
    wrapped: Callable[..., Any] = numpy_to_tensor_wrapper(function)
    return wrapped


def attribute(array: Any, name: str) -> Any:
    """Returns one of an array's attributes that are arrays; AttributeError for another.

    >>> from dimsolve.exec import numpy_functions
    >>> numpy_functions.attribute(numpy_functions.array([[1, 2]]), "T").shape
    torch.Size([2, 1])
    """
    from torch._dynamo.utils import numpy_attr_wrapper

    if name not in ("T", "real", "imag"):
        raise AttributeError(f"a program takes no attribute {name!r} of an array")
    return numpy_attr_wrapper(array, name)


def _of_arrays(name: str) -> Callable[..., Any] | None:
    kind, _, own = name.partition("_")
    if kind == "operator" and own in OPERATORS:
        from torch._dynamo.utils import numpy_operator_wrapper

        return numpy_operator_wrapper(getattr(operator, own))
    if kind == "method" and own in METHODS:
        from torch._dynamo.utils import numpy_method_wrapper

        return numpy_method_wrapper(own)
    return None
