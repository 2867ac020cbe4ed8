"""From a call's arguments to the tensors that a program takes, in its order.

    module(ids, labels=labels, use_cache=False)      [ids, labels]; use_cache is as it was traced

What was no tensor when the model was traced is part of the program: the same value may be given
again, or nothing, and another one is an error that names it. Which argument goes where is worked
out once for each way of calling.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from torch import Tensor

from dimsolve.ir.errors import Diagnostic, DimsolveError

from ..capture.dynamic import leaves_of

_FLAT = (Tensor, int, float, str, bool, type(None))


class CallError(DimsolveError):
    """A call that the program was not made for."""

    __module__ = "dimsolve"


class CallInputs:
    """``names``: the inputs in the program's order. settings: the other arguments as traced."""

    def __init__(
        self, forward: Callable[..., Any], names: Sequence[str], settings: Mapping[str, Any]
    ) -> None:
        self.forward = forward
        self.names = tuple(names)
        self.settings = dict(settings)
        self.defaults = _defaults(forward)
        self._ways: dict[Any, list[int]] = {}

    def __call__(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> list[Any]:
        """Returns the tensors; CallError where the call has other arguments than the program."""
        given = [*args, *kwargs.values()]
        if not all(isinstance(value, _FLAT) for value in given):
            found = self._read(args, kwargs)
            return [found[name] for name in self.names]
        kinds = [Tensor if isinstance(v, Tensor) else (v.__class__, v) for v in given]
        way = (len(args), *kwargs, *kinds)
        places = self._ways.get(way)
        if places is None:
            order = list(self._read(args, kwargs))
            places = self._ways[way] = [order.index(name) for name in self.names]
        return [given[place] for place in places]

    def _read(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> dict[str, Any]:
        """The leaves of the arguments by name, in order, once they are known to fit."""
        found = {leaf.name: leaf.value for leaf in leaves_of(self.forward, args, kwargs, None)}
        for name, value in found.items():
            if name not in self.names:
                self._check(name, value)
        missing = [name for name in self.names if found.get(name) is None]
        if missing:
            raise _absent(missing)
        return found

    def _check(self, name: str, value: Any) -> None:
        """An argument that the program does not take must say what it was traced with."""
        if isinstance(value, Tensor):
            raise _new_tensor(name, self.names)
        known = name in self.settings or name in self.defaults
        traced = self.settings[name] if name in self.settings else self.defaults.get(name)
        if not known or type(traced) is not type(value) or traced != value:
            raise _other_setting(name, value, traced if known else None)


def _defaults(forward: Callable[..., Any]) -> dict[str, Any]:
    try:
        parameters = inspect.signature(forward).parameters.values()
    except (TypeError, ValueError):
        return {}
    return {p.name: p.default for p in parameters if p.default is not inspect.Parameter.empty}


def _absent(missing: Sequence[str]) -> CallError:
    return CallError(
        Diagnostic(
            code="no-argument",
            title=f"the call lacks {', '.join(missing)}",
            reason="the model was traced with a tensor there",
            hint="give a tensor, or trace the model without it",
        )
    )


def _new_tensor(name: str, names: Sequence[str]) -> CallError:
    return CallError(
        Diagnostic(
            code="new-tensor",
            title=f"the program takes no tensor named {name}",
            reason=f"the model was traced with {', '.join(names) or 'no tensors'}",
            hint=f"trace the model with {name} in the example call",
        )
    )


def _other_setting(name: str, value: Any, traced: Any) -> CallError:
    return CallError(
        Diagnostic(
            code="other-setting",
            title=f"{name} is {value!r:.60}, and the model was traced with {traced!r:.60}",
            reason="what is no tensor is part of the program",
            hint="trace the model with this value",
        )
    )
