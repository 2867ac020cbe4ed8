"""From a call's arguments to the tensors that a program takes, and from its tree to what the model
returns.

    CallInputs(...)((ids,), {"use_cache": False})    [ids]; use_cache is as it was traced
    rebuilder("transformers...CausalLMOutput")       makes the class that the model returns

What was no tensor when the model was traced is part of the program: the same value may be given
again, or nothing, and another one is an error that names it. Which argument goes where is worked
out once for each way of calling.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import is_dataclass
from typing import Any

from torch import Tensor

from dimsolve.ir.errors import DimsolveError, Problem

from ..calls import resolve
from ..capture.dynamic import leaves_of


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


_FLAT = (Tensor, int, float, str, bool, type(None))


class CallError(DimsolveError):
    """A call that the program was not made for."""

    __module__ = "dimsolve"


_ABSENT = Problem(
    CallError,
    "no-argument",
    "the call lacks {missing}",
    "the model was traced with a tensor there",
    "give a tensor, or trace the model without it",
)
_NO_TENSOR = Problem(
    CallError,
    "no-tensor",
    "{name} is a {value}",
    "the model was traced with a tensor there",
    "give a tensor: torch.as_tensor({name})",
)
_NEW_TENSOR = Problem(
    CallError,
    "new-tensor",
    "the program takes no tensor named {name}",
    "the model was traced with {names}",
    "trace the model with {name} in the example call",
)
_OTHER_SETTING = Problem(
    CallError,
    "other-setting",
    "{name} is {value!r:.60}, and the model was traced with {traced!r:.60}",
    "what is no tensor is part of the program",
    "trace the model with this value",
)


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
            raise _ABSENT(missing=", ".join(missing))
        for name in self.names:
            if not isinstance(found[name], Tensor):
                raise _NO_TENSOR(name=name, value=type(found[name]).__name__)
        return found

    def _check(self, name: str, value: Any) -> None:
        """An argument that the program does not take must say what it was traced with."""
        if isinstance(value, Tensor):
            raise _NEW_TENSOR(name=name, names=", ".join(self.names) or "no tensors")
        known = name in self.settings or name in self.defaults
        traced = self.settings[name] if name in self.settings else self.defaults.get(name)
        if not known or type(traced) is not type(value) or traced != value:
            raise _OTHER_SETTING(name=name, value=value, traced=traced if known else None)


def _defaults(forward: Callable[..., Any]) -> dict[str, Any]:
    try:
        parameters = inspect.signature(forward).parameters.values()
    except (TypeError, ValueError):
        return {}
    return {p.name: p.default for p in parameters if p.default is not inspect.Parameter.empty}
