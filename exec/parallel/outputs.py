"""From the tree that a program returns to the class that the model returns.

{"loss": ..., "logits": ...}    transformers' CausalLMOutput(loss=..., logits=...)
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from ..resolve import resolve


def rebuilder(path: str) -> Callable[[Any], Any]:
    """Returns what makes the container of an import path; ``""`` leaves trees as they are."""
    if not path:
        return lambda tree: tree
    container = resolve(path)
    if hasattr(container, "_fields"):
        return lambda tree: container(*tree)

    def rebuild(tree: Any) -> Any:
        return container(**tree) if isinstance(tree, Mapping) else container(tree)

    return rebuild
