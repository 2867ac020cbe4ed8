"""Which of torch's own operators failed in a backward pass, found when it has failed.

    RuntimeError: one of the variables needed for gradient computation has been modified ...
      the backward of sin        saved self (4, 8)

Nothing is noted while a pass runs. An operator that has run its backward has let go of what it
saved; the one that failed still has it, and whatever comes before it on the way back has not. The
pass runs the latest operator first, so of several the latest is meant.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from types import TracebackType
from typing import Any

from torch import Tensor

_ENGINE = "_engine_run_backward"
_GONE = "a second time"
"""What torch says of a saved tensor that was let go."""


def failed_in_backward(traceback: TracebackType | None) -> tuple[str, dict[str, str]] | None:
    """Returns the operator and the shapes of what it saved; None where no such pass failed."""
    roots: Any = ()
    while traceback is not None:
        if traceback.tb_frame.f_code.co_name == _ENGINE:
            roots = traceback.tb_frame.f_locals.get("t_outputs", ())
        traceback = traceback.tb_next
    held = list(_first_held([root.grad_fn for root in roots if isinstance(root, Tensor)]))
    if not held:
        return None
    node = max(held, key=lambda found: int(found._sequence_nr()))
    return operator_of(node.name()), dict(_shapes(node))


def operator_of(name: str) -> str:
    """Returns the operator of a node of the autograd graph.

    >>> operator_of("AddmmBackward0"), operator_of("NativeLayerNormBackward0")
    ('addmm', 'native_layer_norm')
    """
    plain = re.sub(r"Backward\d*$", "", name.rpartition("::")[2])
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", plain).lower()


def _first_held(nodes: list[Any]) -> Iterator[Any]:
    """The nodes that still hold what they saved, behind nodes that do not."""
    seen: set[Any] = set()
    while nodes:
        node = nodes.pop()
        if node is None or node in seen:
            continue
        seen.add(node)
        if _holds(node):
            yield node
        else:
            nodes.extend(child for child, _ in node.next_functions)


def _holds(node: Any) -> bool:
    """Whether a node of torch's own has saved tensors and has not let go of them."""
    for name in dir(node):
        if name.startswith("_saved_"):
            try:
                if isinstance(getattr(node, name), Tensor):
                    return True
            except RuntimeError as error:
                return _GONE not in str(error)
    return False


def _shapes(node: Any) -> Iterator[tuple[str, str]]:
    for name in dir(node):
        if not name.startswith("_saved_"):
            continue
        try:
            value = getattr(node, name)
        except RuntimeError:
            yield name.removeprefix("_saved_"), "changed since it was saved"
            continue
        if isinstance(value, Tensor):
            dtype = str(value.dtype).removeprefix("torch.")
            yield name.removeprefix("_saved_"), f"{dtype} {tuple(value.shape)}"
