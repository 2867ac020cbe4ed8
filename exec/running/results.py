"""What of a model's result is trained and compared: its loss, and its tensors by their places.

{"loss": 2.5, "logits": (4, 16, 32)}     loss_of: 2.5     tensors_of: loss, logits
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeAlias

import torch
from torch import Tensor

from ..capture.argument_objects import place_name, walk

Handed: TypeAlias = tuple[Any, Mapping[str, Any]]
"""What a call returns, and its arguments as it leaves them."""


def loss_of(result: Any) -> Tensor | None:
    """Returns what is trained: the result's loss, or a scalar, or the mean square of what is real.
    None where nothing has a gradient.

    >>> loss_of({"loss": torch.tensor(2.0)})
    tensor(2.)
    """
    loss = result.get("loss") if isinstance(result, Mapping) else getattr(result, "loss", None)
    if isinstance(loss, Tensor):
        return loss if loss.ndim == 0 else loss.mean()
    real = [t for _, t in tensors_of(result) if t.is_floating_point() and t.requires_grad]
    if len(real) == 1 and real[0].ndim == 0:
        return real[0]
    if not real:
        return None
    return torch.stack([tensor.square().mean() for tensor in real]).sum()


def tensors_of(result: Any) -> list[tuple[str, Tensor]]:
    """Returns the tensors of a result with their places, in order."""
    if isinstance(result, Tensor):
        return [("", result)]
    items: Any = ()
    if isinstance(result, Mapping):
        items = result.items()
    elif isinstance(result, list | tuple):
        items = enumerate(result)
    return [
        (f"{key}.{place}".rstrip("."), tensor)
        for key, item in items
        for place, tensor in tensors_of(item)
    ]


def handed_out(result: Any, arguments: Mapping[str, Any]) -> dict[str, Tensor]:
    """Returns the tensors of a result, and of arguments as a call has left them, also those inside
    of objects.

    >>> list(handed_out({"logits": torch.ones(2)}, {"cache": [torch.ones(3)]}))
    ['output logits', 'left cache.0']
    """
    found = {f"output {place}": tensor for place, tensor in _all_tensors(result)}
    return found | {f"left {place}": tensor for place, tensor in _all_tensors(dict(arguments))}


def _all_tensors(value: Any) -> list[tuple[str, Tensor]]:
    leaves = walk((), value, {})
    return [(place_name(place), leaf) for place, leaf, _ in leaves if isinstance(leaf, Tensor)]


def with_own_memory(leaf: Any) -> Any:
    """Returns a leaf of arguments for another call: a tensor of the same values."""
    if not isinstance(leaf, Tensor):
        return leaf
    return leaf.detach().clone().requires_grad_(leaf.requires_grad)
