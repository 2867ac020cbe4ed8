"""From a call's arguments to the tensors that a program takes, and from its tree to what the model
returns.

    CallInputs(graph, forward)(input_ids=ids)       the tensors, in the order of the graph's inputs
    rebuilder("transformers...CausalLMOutput")      makes the class that the model returns
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import is_dataclass
from typing import TYPE_CHECKING, Any

from torch import Tensor

from dimsolve.ir.errors import Diagnostic, DimsolveError

from ..calls import resolve
from ..capture.dynamic import leaves_of

if TYPE_CHECKING:
    pass


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
        for name in self.names:
            if not isinstance(found[name], Tensor):
                raise _no_tensor(name, found[name])
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


def _no_tensor(name: str, value: object) -> CallError:
    return CallError(
        Diagnostic(
            code="no-tensor",
            title=f"{name} is a {type(value).__name__}",
            reason="the model was traced with a tensor there",
            hint=f"give a tensor: torch.as_tensor({name})",
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
