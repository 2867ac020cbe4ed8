"""Names in a captured program: the paths of what it calls, the lines that called it, a module's
parts.

    torch.ops.aten.celu.default     "torch.ops.aten.celu.default"
    np.sqrt, as torch wraps it      "dimsolve.exec.numpy_functions.sqrt"
    method "__and__"                "_operator.and_"
    a stack trace                   modeling_llama.py:269
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Iterator
from typing import Any

from dimsolve.ir.node import Source
from dimsolve.solver.graphs.paths import path_of
from dimsolve.solver.graphs.sources import source

TRANSFORMS = re.compile(r"functorch|_saved_tensors_hooks_|\b_(add|remove)_batch_dim$")
"""Paths of what torch.vmap and torch.func call, by a part of them."""


def named(model: Any, method: str) -> Iterator[tuple[str, Any]]:
    """Yields what ``named_parameters`` and its kin give; nothing for what is no module."""
    walk: Callable[..., Iterator[tuple[str, Any]]] | None = getattr(model, method, None)
    return iter(()) if walk is None else walk()


def method_path(name: str) -> str:
    """Returns the path of a Tensor method; Python's own operators are found as such."""
    if name.startswith("__") and name.endswith("__"):
        for plain in (name[2:-2], f"{name[2:-2]}_"):
            if hasattr(operator, plain):
                return f"_operator.{plain}"
    return f"torch.Tensor.{name}"


def target_path(target: Any) -> str:
    """Returns the path of what a graph calls; operators of torch.library and higher-order ones have
    their own names.
    """
    match type(target).__name__:
        case "OpOverload" | "OpOverloadPacket":
            return f"torch.ops.{target}"
        case "numpy_to_tensor_wrapper":
            return f"dimsolve.exec.numpy_functions.{target.f.__name__}"
        case _ if getattr(target, "__name__", "") == "_get_data_attr":
            return "torch.Tensor.detach"
        case _ if hasattr(target, "namespace") and callable(getattr(target, "name", None)):
            return f"torch.ops.{target.namespace}.{target.name()}"
        case _:
            return path_of(target)


def line_of_the_model(node: Any) -> Source | None:
    """Returns the innermost line that is not torch's own, of a step or of the first after it that
    has one: switches have none.
    """
    while node.op != "output":
        for frame in reversed((node.meta.get("stack_trace") or "").split('File "')[1:]):
            if "/torch/" not in frame.partition('"')[0]:
                return source_of(f'File "{frame}')
        node = node.next
    return None


def source_of(trace: str | None) -> Source | None:
    """Returns the innermost line of a stack trace; None where there is none."""
    if not trace:
        return None
    start = trace.rfind('File "')
    if start < 0:
        return None
    end = trace.index('"', start + 6)
    number, _, _ = trace[end + len('", line ') :].partition(",")
    filename = trace[start + 6 : end]
    return source(filename, int(number)) if number.isdecimal() else None
