"""What torch's autocast does to a function, done by the code that a rank runs in its place.

    with torch.autocast("cpu", torch.bfloat16):
        cross_entropy(logits, target)           torch casts logits (8, 32) to float32
        cross_entropy_parts(part, logits, ...)  so does this, logits (8, 16); the rest runs as it is

Autocast knows functions, not what they are made of: torch computes ``var`` in the dtype of its
argument, and nothing inside of it is cast; a sum of ours would be, on a GPU. So our own code runs
with autocast off, on arguments that are cast as torch casts those of the function that it stands
for. Code that calls the same torch function, and that of a user's rule, is left under autocast: it
is cast there as it is on one device.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, TypeVar

from .rule import Part

F = TypeVar("F", bound=Callable[..., Any])

ALL = ("cpu", "cuda")
"""The kinds of device that autocast has lists for, as far as a plan runs on them."""

MARK = "_cast_to_float32_on"


def cast_as_torch(float32: tuple[str, ...] = ()) -> Callable[[F], F]:
    """Returns a decorator for what a rank runs in a torch function's place, ``(part, *args)``.

    float32: the kinds of device on which autocast casts the function's arguments to float32;
    elsewhere it leaves them as they are. float64 is never cast. Source of the kinds: torch's
    registrations for AutocastCPU and AutocastCUDA (``aten/src/ATen/autocast_mode.h``); no function
    with code of ours is among those that autocast casts to lower precision or to the widest type.
    """

    def decorate(function: F) -> F:
        @wraps(function)
        def call(part: Part, *args: Any, **kwargs: Any) -> Any:
            import torch

            kind = _kind((*args, *kwargs.values()))
            if kind not in ALL or not torch.is_autocast_enabled(kind):
                return function(part, *args, **kwargs)
            with torch.autocast(kind, enabled=False):
                if kind in float32:
                    args = tuple([_single(value, kind) for value in args])
                    kwargs = {name: _single(value, kind) for name, value in kwargs.items()}
                return function(part, *args, **kwargs)

        setattr(call, MARK, float32)
        return call  # type: ignore[return-value]

    return decorate


def _kind(values: tuple[Any, ...]) -> str:
    """The kind of device of the first tensor."""
    import torch

    return next((v.device.type for v in values if isinstance(v, torch.Tensor)), "cpu")


def _single(value: Any, kind: str) -> Any:
    """A real tensor of this kind of device in float32, float64 and anything else as it is."""
    import torch

    if not isinstance(value, torch.Tensor) or value.device.type != kind:
        return value
    cast = value.is_floating_point() and value.dtype is not torch.float64
    return value.float() if cast else value
