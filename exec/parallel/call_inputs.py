"""From a call's arguments to the tensors that a program takes.

    module(ids, labels=labels, use_cache=False)      [ids, labels]; use_cache is as it was traced

What was no tensor when the model was traced is part of the program: the same value may be given
again, or nothing, and another one is an error that names it. Which argument goes where is worked
out once for each way of calling.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import Any

from torch import Tensor

from dimsolve.ir.checks import nearest
from dimsolve.ir.errors import DimsolveError, problems
from dimsolve.ir.graph import Constant, Device

from ..capture.argument_objects import class_path, is_plain_container, setting_of
from ..capture.dynamic import Leaf, parts_and_leaves


class CallError(DimsolveError):
    """A call that the program was not made for."""

    __module__ = "dimsolve"


_REFUSED = problems(
    CallError,
    """
    other-class: {name} is a {given}, and the model was traced with {was}
      what a model does with an object is part of the program
      hint: trace the model with an object of this class
    left-out: {above} holds no {name}, which was {traced} when the model was traced
      what an argument holds is part of the program
      hint: trace the model with this argument
    no-argument: the call lacks {missing}
      the model was traced with {what} there
      hint: give {what}, or trace the model without it
    no-such-argument: forward takes no argument named {name}
      it takes {takes}
      hint: {hint}
    no-tensor: {name} is a {kind}
      the model was traced with a tensor there
      hint: give a tensor: torch.as_tensor({name})
    new-tensor: the program takes no tensor named {name}
      the model was traced with {names}
      hint: trace the model with {name} in the example call
    other-setting: {name} is {value}, and the model was traced with {traced}
      what is no tensor is part of the program
      hint: trace the model with this value
    """,
)


class CallInputs:
    """``names``: the inputs in the program's order. settings: the other arguments as traced, and
    the classes of objects. device: of the rank.
    """

    def __init__(
        self,
        forward: Callable[..., Any],
        names: Sequence[str],
        settings: Mapping[str, Any],
        device: Any = None,
    ) -> None:
        self.device = device
        self.forward = forward
        self.names = tuple(names)
        self.settings = dict(settings)
        self.defaults = _defaults(forward)
        self.takes = _names(forward)

    def __call__(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> list[Any]:
        """Returns the tensors; CallError where the call has other arguments than the program."""
        found = self.read(parts_and_leaves(self.forward, args, kwargs, None))
        return [found[name] for name in self.names]

    def read(self, parts: Sequence[Leaf]) -> dict[str, Any]:
        """Returns the leaves of a call's arguments by name, in order, once they are known to fit;
        CallError where they do not.
        """
        given = {part.name for part in parts}
        for part in parts:
            self._check_name(part.name.partition(".")[0])
            if part.whole:
                self._check_class(part.name, part.value)
            elif part.name not in self.names:
                self._check(part.name, part.value)
        for name in self.settings:
            argument = name.partition(".")[0]
            if name not in given and argument in given:
                self._check_left_out(name, given)
            elif argument not in given and argument != name and argument in self.settings:
                raise _REFUSED["no-argument"](missing=argument, what="an object")
        found = {part.name: part.value for part in parts if not part.whole}
        missing = [name for name in self.names if found.get(name) is None]
        if missing:
            needed = [name for name in missing if name not in self.defaults] or missing
            raise _REFUSED["no-argument"](missing=", ".join(needed), what="a tensor")
        for name in self.names:
            if not isinstance(found[name], Tensor):
                raise _REFUSED["no-tensor"](name=name, kind=type(found[name]).__name__)
        return found

    def _check_name(self, name: str) -> None:
        """An argument must be one of forward's, as on one device."""
        if self.takes is None or name in self.takes:
            return
        close = nearest(name, self.takes)
        hint = f"did you mean '{close}'?" if close else "leave it out"
        raise _REFUSED["no-such-argument"](name=name, takes=", ".join(self.takes), hint=hint)

    def _check(self, name: str, value: Any) -> None:
        """An argument that the program does not take must say what it was traced with."""
        if isinstance(value, Tensor):
            raise _REFUSED["new-tensor"](name=name, names=", ".join(self.names) or "no tensors")
        known = name in self.settings or name in self.defaults
        traced = self.settings[name] if name in self.settings else self.defaults.get(name)
        given = setting_of(value)
        if isinstance(given, Device) and isinstance(traced, Device) and value == self.device:
            return
        if not known or type(traced) is not type(given) or traced != given:
            was = _shown(traced) if known else None
            raise _REFUSED["other-setting"](name=name, value=_shown(given), traced=was)

    def _check_class(self, name: str, value: Any) -> None:
        """An object must be of the class with which the model was traced."""
        traced = self.settings.get(name)
        given = None if is_plain_container(value) else Constant(class_path(type(value)))
        if traced != given or (name in self.settings and traced is None):
            was = _was(traced, name in self.settings)
            raise _REFUSED["other-class"](name=name, given=type(value).__name__, was=was)

    def _check_left_out(self, name: str, given: AbstractSet[str]) -> None:
        """What an argument held when the model was traced, it must hold still."""
        if self.settings[name] is None:
            return
        above = name.rpartition(".")[0]
        while above not in given:
            above = above.rpartition(".")[0]
        inside, traced = name.removeprefix(f"{above}."), _shown(self.settings[name])
        raise _REFUSED["left-out"](above=above, name=inside, traced=traced)


def _defaults(forward: Callable[..., Any]) -> dict[str, Any]:
    try:
        parameters = inspect.signature(forward).parameters.values()
    except (TypeError, ValueError):
        return {}
    return {p.name: p.default for p in parameters if p.default is not inspect.Parameter.empty}


def _names(forward: Callable[..., Any]) -> list[str] | None:
    """The names of what a function takes; None where it takes any."""
    try:
        parameters = inspect.signature(forward).parameters.values()
    except (TypeError, ValueError):
        return None
    any_kind = inspect.Parameter.VAR_KEYWORD, inspect.Parameter.VAR_POSITIONAL
    return None if any(p.kind in any_kind for p in parameters) else [p.name for p in parameters]


def _shown(setting: Any) -> str:
    return str(setting) if isinstance(setting, Constant | Device) else f"{setting!r:.60}"


def _was(traced: Any, known: bool) -> str:
    """What an argument was when the model was traced, in words."""
    if isinstance(traced, Constant):
        return f"a {traced.path.rpartition('.')[2]}"
    return f"{traced!r:.60}" if known else "no object of a class there"
