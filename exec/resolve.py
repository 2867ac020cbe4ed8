"""From an operator's path to the function that computes it.

resolve("torch.Tensor.view")     torch.Tensor.view
resolve("dimsolve.ewise_add")    torch.add, of tensors of one shape only
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from importlib import import_module
from typing import Any

from dimsolve.ir.registry import operator_at
from dimsolve.solver.graphs.builtin_operators import EWISE, PREFIX

from . import run_errors as errors


def resolve(path: str) -> Any:
    """Returns the function, or the constant, of a path; DimsolveError where there is none."""
    operator = operator_at(path)
    if operator is not None and operator.function is not None:
        return operator.function
    return _imported(path)


@lru_cache(maxsize=4096)
def _imported(path: str) -> Any:
    name = path.removeprefix(f"{PREFIX}ewise_")
    if name != path and name in EWISE:
        return _ewise(name)
    parts = path.replace("torch._ops.", "torch.ops.").split(".")
    for length in range(len(parts) - 1, 0, -1):
        try:
            found: Any = import_module(".".join(parts[:length]))
        except ImportError:
            continue
        try:
            for part in parts[length:]:
                found = getattr(found, part)
        except AttributeError:
            break
        return found
    raise errors.unresolved(path)


def _ewise(name: str) -> Callable[[Any, Any], Any]:
    import torch

    compute = getattr(torch, name)

    def call(input: Any, other: Any) -> Any:
        if input.shape != other.shape:
            shapes = f"{tuple(input.shape)} and {tuple(other.shape)}"
            raise errors.shapes_differ(f"{PREFIX}ewise_{name}", shapes)
        return compute(input, other)

    return call
