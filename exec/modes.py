"""The modes of torch that a model may switch: recording of gradients, autocast, and mapping.

    torch._C._set_grad_enabled(False)         a program switches them as the model does,
    sigmoid = linear.sigmoid()
    torch._C._set_grad_enabled(outer)         and back to what its caller had

Where a step between the two fails, nothing would switch back: the model's ``with`` is gone. So what
runs a program notes the modes first, and brings them back when there is an error.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import wraps
from typing import Any, ParamSpec, Self, TypeVar

import torch

P = ParamSpec("P")
R = TypeVar("R")

DEVICES = ("cpu", "cuda")
"""The kinds of device that autocast is switched for."""

OUTER = "torch.is_grad_enabled"
"""Whether the caller of a model records gradients; the model's switches go back to that."""


_SWITCHES: tuple[object, ...] = (
    torch._functorch.predispatch._vmap_increment_nesting,
    torch._C._set_grad_enabled,
    torch.amp.autocast_mode._enter_autocast,
    torch.amp.autocast_mode._exit_autocast,
)


@dataclass(frozen=True, slots=True)
class Modes:
    """The modes at one moment. autocast: of each kind of device, whether it is on, and to what.
    level: how many function transforms, such as torch.vmap, are running.
    """

    gradients: bool
    autocast: tuple[tuple[str, bool, Any], ...]
    cached: bool
    depth: int
    level: int

    @classmethod
    def now(cls) -> Self:
        """Returns the modes of this thread."""
        depth = torch.autocast_increment_nesting() - 1
        torch.autocast_decrement_nesting()
        kinds = tuple(
            (kind, torch.is_autocast_enabled(kind), torch.get_autocast_dtype(kind))
            for kind in DEVICES
        )
        cached = torch.is_autocast_cache_enabled()
        return cls(torch.is_grad_enabled(), kinds, cached, depth, _level())

    def restore(self) -> None:
        """Makes them this thread's modes again, and leaves every autocast, and every mapping,
        entered since.
        """
        while _level() > self.level:
            torch._C._functorch._vmap_decrement_nesting()
        torch._C._set_grad_enabled(self.gradients)
        depth = torch.autocast_increment_nesting()
        while depth > self.depth:
            depth = torch.autocast_decrement_nesting()
            if depth == 0:
                torch.clear_autocast_cache()
        for kind, enabled, dtype in self.autocast:
            torch.set_autocast_enabled(kind, enabled)
            torch.set_autocast_dtype(kind, dtype)
        torch.set_autocast_cache_enabled(self.cached)


def autocast_now() -> dict[str, str]:
    """Returns what autocast casts to on the kinds of device for which it is on.

    >>> import torch
    >>> with torch.autocast("cpu", torch.bfloat16):
    ...     autocast_now()
    {'cpu': 'bfloat16'}
    """
    return {
        kind: str(torch.get_autocast_dtype(kind)).removeprefix("torch.")
        for kind in DEVICES
        if torch.is_autocast_enabled(kind)
    }


def state_of(cast: dict[str, str], kind: str) -> str:
    """Returns what autocast casts to on a kind of device, in words.

    >>> state_of({"cpu": "bfloat16"}, "cpu"), state_of({}, "cpu")
    ('cpu bfloat16', 'cpu off')
    """
    return f"{kind} {cast.get(kind, 'off')}"


@contextmanager
def modes_kept() -> Iterator[None]:
    """Runs what is in it, and makes the modes as they were: steps of a model switch them.

    >>> import torch
    >>> with modes_kept():
    ...     torch._C._set_grad_enabled(False)
    >>> torch.is_grad_enabled()
    True
    """
    modes = Modes.now()
    try:
        yield
    finally:
        modes.restore()


def restoring(function: Callable[P, R]) -> Callable[P, R]:
    """Returns the function; where it raises, the modes are again as they were when it was called.

    >>> import torch
    >>> @restoring
    ... def fails():
    ...     torch._C._set_grad_enabled(False)
    ...     raise ValueError
    >>> try: fails()
    ... except ValueError: torch.is_grad_enabled()
    True
    """

    @wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> R:
        modes = Modes.now()
        try:
            return function(*args, **kwargs)
        except BaseException:
            modes.restore()
            raise

    return call


def _level() -> int:
    level: int | None = torch._C._functorch.maybe_current_level()
    return level or 0


def is_switch(function: object) -> bool:
    """Returns whether a function switches a mode.

    >>> import torch
    >>> is_switch(torch._C._set_grad_enabled), is_switch(torch.relu)
    (True, False)
    """
    return function in _SWITCHES
