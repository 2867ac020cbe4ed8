"""The arguments of one call of an operator as data, and the function that computes it.

    Call(matmul_custom, (x, w, 4))           x: (24, 8)   w: (8, 6)    (h m) k+, k+ n -> h m n
    on a rank, k over 2                      x: (24, 4)   w: (4, 6)    the same arguments
    on a rank, h over 2                      x: (12, 8)   w: (8, 6)    h = 2

What an annotation gives for the whole, it gives for a rank: sizes among the arguments are made anew
from the lengths there. Everything is replaced in copies; nothing here changes what it was given.

    torch.cat([x, y], dim=1)         places (0, 0) and (0, 1) are tensors
    x.view(2, -1, 8)                 the parameter "*shape" is (2, -1, 8), to be made anew on a rank
    x[:, 0:64]                       "index.1.stop" is 64

A place is a path: the position or the keyword of an argument, then positions inside it.

    resolve("torch.Tensor.view")     torch.Tensor.view
    resolve("dimsolve.ewise_add")    torch.add, of tensors of one shape only
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from importlib import import_module
from math import prod
from typing import Any, TypeAlias

from torch import Tensor

from dimsolve.ir.annotation import Number, Opaque, Star
from dimsolve.ir.errors import DimsolveError, Problem, ShapeError
from dimsolve.ir.operator import Declaration, Operator, operator_at
from dimsolve.ir.read_annotation import read_annotation
from dimsolve.partition.rules.rule import Part
from dimsolve.solver.graphs.deduction import EWISE, PREFIX

_UNRESOLVED = Problem(
    DimsolveError,
    "unresolved",
    "there is no {path}",
    "it can neither be imported nor is it a registered operator",
)
_SHAPES_DIFFER = Problem(
    ShapeError, "shapes-differ", "{operator} takes two tensors of one shape", "{shapes}"
)

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
        for path, value in values.items():
            key, *inside = path
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
            kwargs[first] = _with_inside(given, inside, value)
            return replace(self, kwargs=kwargs)
        args = list(self.args)
        args[position] = _with_inside(args[position], inside, value)
        return replace(self, args=tuple(args))

    def _with_rest(self, start: int, inside: str, value: Any) -> Arguments:
        rest = self.args[start:]
        if len(rest) == 1 and isinstance(rest[0], list | tuple):
            new: tuple[Any, ...] = (_with_inside(rest[0], inside, value),)
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

    def positional(self, names: Sequence[str]) -> Arguments:
        """Returns the arguments by position as far as names lead: as an ``apply`` takes them."""
        kwargs = dict(self.kwargs)
        rest = [kwargs.pop(name) for name in names[len(self.args) :] if name in kwargs]
        return Arguments((*self.args, *rest), kwargs)


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
            if isinstance(container, tuple) and hasattr(container, "_fields"):
                return type(container)(*items)
            return items if isinstance(container, list) else tuple(items)


def _steps(inside: str) -> list[int | str]:
    return [int(step) if step.isdecimal() else step for step in inside.split(".") if step]


def _with_inside(given: Any, inside: str, value: Any) -> Any:
    """What was given with another value inside; all of it in its own form, a list or a tuple."""
    if not inside and isinstance(given, list) and isinstance(value, tuple):
        return list(value)
    return _replaced(given, _steps(inside), value)


def resolve(path: str) -> Any:
    """Returns the function, or the constant, of a path; DimsolveError where there is none."""
    operator = operator_at(path)
    if operator is not None and operator.function is not None:
        return operator.function
    return _imported(path)


@lru_cache(maxsize=4096)
def _imported(path: str) -> Any:
    name = path.removeprefix(f"{PREFIX}ewise_")
    if name != path and name in EWISE:
        return _ewise(name)
    parts = path.replace("torch._ops.", "torch.ops.").split(".")
    for length in range(len(parts) - 1, 0, -1):
        try:
            found: Any = import_module(".".join(parts[:length]))
        except ImportError:
            continue
        try:
            for part in parts[length:]:
                found = getattr(found, part)
        except AttributeError:
            break
        return found
    raise _UNRESOLVED(path=path)


def _ewise(name: str) -> Callable[[Any, Any], Any]:
    import torch

    compute = getattr(torch, name)

    def call(input: Any, other: Any) -> Any:
        if input.shape != other.shape:
            shapes = f"{tuple(input.shape)} and {tuple(other.shape)}"
            raise _SHAPES_DIFFER(operator=f"{PREFIX}ewise_{name}", shapes=shapes)
        return compute(input, other)

    return call


def function_of(operator: Operator) -> Callable[..., Any]:
    """Returns the function itself, imported from its path where nobody has it yet."""
    function: Callable[..., Any] = operator.function or resolve(operator.path)
    return function


def invoke(function: Callable[..., Any], arguments: Arguments, parameters: Sequence[str]) -> Any:
    """Calls the function; an autograd.Function's ``apply`` takes positional arguments only."""
    if arguments.kwargs and getattr(function, "__name__", "") == "apply":
        arguments = arguments.positional(parameters)
    return function(*arguments.args, **arguments.kwargs)


def modified(
    arguments: Arguments,
    names: Sequence[str],
    defaults: Mapping[str, Any],
    modifier: Callable[..., Any],
    part: Part,
) -> Arguments:
    """Returns the arguments as a transform rule's modifier changes them; it sees defaults too.

    names: of the function's parameters in order; defaults: of those that have one.
    """
    values = {**defaults, **arguments.parameters(names)}
    for name, value in modifier(dict(values), part).items():
        if name not in values or value is not values[name]:
            arguments = arguments.with_parameter(names, name, value)
    return arguments


def outputs_of(result: Any, declaration: Declaration) -> list[Any]:
    """Returns the outputs that are annotated, one each; () of them where nothing is returned."""
    match declaration.returns:
        case "tuple" if isinstance(result, list | tuple):
            return list(result)
        case "tuple":
            return [result]
        case "nothing":
            return []
        case "parts":
            return [result]
        case "tensor" | "value":
            one = isinstance(result, list | tuple) and len(result) == 1
            return [result[0] if one else result]


@dataclass(frozen=True)
class Call:
    """An operator with the arguments of one call."""

    operator: Operator
    arguments: Arguments

    @cached_property
    def declaration(self) -> Declaration:
        """What the operator promises for these arguments."""
        return self.operator.declare(*self.arguments.args, **self.arguments.kwargs)

    @cached_property
    def input_places(self) -> tuple[Place | None, ...]:
        """Where each annotated input stands among the arguments; None for what is no tensor."""
        tensors = self.arguments.tensors()
        free = [True] * len(tensors)
        places: list[Place | None] = []
        for value in self.declaration.inputs:
            found = next((i for i, (_, t) in enumerate(tensors) if free[i] and t is value), None)
            if found is not None:
                free[found] = False
            places.append(None if found is None else tensors[found][0])
        return tuple(places)


def local_arguments(
    call: Call, tensors: Mapping[Place, Tensor], lengths: Mapping[str, int], star: Sequence[str]
) -> Arguments:
    """Returns the arguments on a rank: its tensors, and its sizes from the lengths there.

    lengths: of every identifier on the rank. star: the names that ``*`` stands for.
    """
    declaration, parameters = call.declaration, call.operator.parameters
    arguments = call.arguments.with_values(tensors)
    given = call.arguments.parameters(parameters)
    for name, value in declaration.fixed.items():
        arguments = arguments.with_parameter(parameters, name, value)
    for name, text in declaration.sizes.items():
        sizes = lengths_of(text, lengths, star)
        value = sizes if takes_several(given, parameters, name, len(sizes)) else sizes[0]
        arguments = arguments.with_parameter(parameters, name, value)
    return arguments


def lengths_of(text: str, lengths: Mapping[str, int], star: Sequence[str]) -> tuple[int, ...]:
    """Returns the lengths of a tensor's dimensions written as in an annotation.

    >>> lengths_of("b (h d) 3", {"b": 2, "h": 4, "d": 5}, ())
    (2, 20, 3)
    """
    operand = read_annotation(f"-> {text}").outputs[0]
    if isinstance(operand, Opaque):
        raise TypeError(f"sizes cannot be '?': {text}")
    found: list[int] = []
    for dim in operand.dims:
        if isinstance(dim, Star):
            found.extend(lengths[name] for name in star)
        else:
            found.append(
                prod(a.value if isinstance(a, Number) else lengths[a.name] for a in dim.atoms)
            )
    return tuple(found)


def takes_several(
    given: Mapping[str, Any], parameters: Sequence[str], name: str, count: int
) -> bool:
    """Whether a size parameter is a list of lengths: as it was given, else by their number."""
    first, _, inside = name.partition(".")
    if inside:
        return count != 1
    if first in given and f"*{first}" not in parameters:
        return isinstance(given[first], list | tuple)
    return f"*{first}" in parameters or count != 1
