"""From the tree that a program returns to the class that the model returns.

{"loss": ..., "logits": ...}    transformers' CausalLMOutput(loss=..., logits=...)
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import is_dataclass
from typing import Any

from ..resolve import resolve


def rebuilder(path: str) -> Callable[[Any], Any]:
    """Returns what makes the container of an import path: a dict, a tuple or a dataclass of a class
    of its own. ``""``, and whatever is none of these, leaves trees as they are.
    """
    if not path:
        return lambda tree: tree
    container: Any = resolve(path)
    if not isinstance(container, type) or not (
        issubclass(container, tuple | dict) or is_dataclass(container)
    ):
        return lambda tree: tree
    if hasattr(container, "_fields"):
        return lambda tree: container(*tree)

    make: Callable[..., Any] = container

    def rebuild(tree: Any) -> Any:
        return make(**tree) if isinstance(tree, Mapping) else make(tree)

    return rebuild
