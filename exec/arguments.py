"""The arguments of one call as data: where its tensors are, and how one of them is replaced.

    torch.cat([x, y], dim=1)        places (0, 0) and (0, 1) are tensors
    x.view(2, -1, 8)                the parameter "*shape" is (2, -1, 8), to be made anew on a rank
    x[:, 0:64]                      "index.1.stop" is 64

A place is a path: the position or the keyword of an argument, then positions inside it. Everything
is replaced in copies; nothing here changes what it was given.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

from torch import Tensor

Place: TypeAlias = "tuple[int | str, ...]"


@dataclass(frozen=True, slots=True)
class Arguments:
    """What a function is called with."""

    args: tuple[Any, ...]
    kwargs: Mapping[str, Any]

    def tensors(self) -> list[tuple[Place, Tensor]]:
        """Returns every tensor with its place, in order."""
        found: list[tuple[Place, Tensor]] = []
        for position, value in enumerate(self.args):
            found.extend(_tensors(value, (position,)))
        for name, value in self.kwargs.items():
            found.extend(_tensors(value, (name,)))
        return found

    def with_values(self, values: Mapping[Place, Any]) -> Arguments:
        """Returns the arguments with other values at some places."""
        args, kwargs = list(self.args), dict(self.kwargs)
        for place, value in values.items():
            key, *inside = place
            if isinstance(key, int):
                args[key] = _replaced(args[key], inside, value)
            else:
                kwargs[key] = _replaced(kwargs[key], inside, value)
        return Arguments(tuple(args), kwargs)

    def with_parameter(self, parameters: Sequence[str], name: str, value: Any) -> Arguments:
        """Returns the arguments with another value of a parameter, which the call may leave out.

        parameters: the names in order, ``"*shape"`` for one that takes the rest. A value for such a
        one is a sequence. A dotted name reaches inside.
        """
        first, _, inside = name.partition(".")
        kwargs = dict(self.kwargs)
        if f"*{first}" in parameters and first not in kwargs:
            return self._with_rest(parameters.index(f"*{first}"), inside, value)
        position = parameters.index(first) if first in parameters else len(self.args)
        if first in kwargs or position >= len(self.args):
            given = kwargs.get(first)
            kwargs[first] = _replaced(given, _steps(inside), _like(given, value, inside))
            return replace(self, kwargs=kwargs)
        args = list(self.args)
        args[position] = _replaced(
            args[position], _steps(inside), _like(args[position], value, inside)
        )
        return replace(self, args=tuple(args))

    def _with_rest(self, start: int, inside: str, value: Any) -> Arguments:
        rest = self.args[start:]
        if len(rest) == 1 and isinstance(rest[0], list | tuple):
            new: tuple[Any, ...] = (
                _replaced(rest[0], _steps(inside), _like(rest[0], value, inside)),
            )
        else:
            new = tuple(_replaced(rest, _steps(inside), value))
        return replace(self, args=(*self.args[:start], *new))

    def parameters(self, names: Sequence[str]) -> dict[str, Any]:
        """Returns the values of the call by parameter name; the rest of ``*name`` as a tuple."""
        values: dict[str, Any] = {}
        for position, name in enumerate(names):
            if name.startswith("**"):
                continue
            if name.startswith("*"):
                values[name[1:]] = self.args[position:]
                break
            if position < len(self.args):
                values[name] = self.args[position]
        return {**values, **self.kwargs}


def _tensors(value: Any, place: Place) -> Iterator[tuple[Place, Tensor]]:
    match value:
        case Tensor():
            yield place, value
        case list() | tuple():
            for index, item in enumerate(value):
                yield from _tensors(item, (*place, index))
        case dict():
            for key, item in value.items():
                yield from _tensors(item, (*place, key))


def _replaced(container: Any, steps: Sequence[int | str], value: Any) -> Any:
    if not steps:
        return value
    step, *rest = steps
    match container:
        case slice():
            bounds = {"start": container.start, "stop": container.stop, "step": container.step}
            bounds[str(step)] = _replaced(bounds[str(step)], rest, value)
            return slice(bounds["start"], bounds["stop"], bounds["step"])
        case dict():
            return {**container, step: _replaced(container[step], rest, value)}
        case _:
            items = list(container)
            items[int(step)] = _replaced(items[int(step)], rest, value)
            return _as_sequence(container, items)


def _as_sequence(container: Any, items: list[Any]) -> Any:
    if isinstance(container, tuple) and hasattr(container, "_fields"):
        return type(container)(*items)
    return items if isinstance(container, list) else tuple(items)


def _steps(inside: str) -> list[int | str]:
    return [int(step) if step.isdecimal() else step for step in inside.split(".") if step]


def _like(given: Any, value: Any, inside: str) -> Any:
    """A list of lengths in the form of what is replaced: a list, a tuple, or one number."""
    if inside or not isinstance(value, tuple):
        return value
    if isinstance(given, list):
        return list(value)
    return value
