"""One call of an operator, and the same call on a rank.

    Call(matmul_custom, (x, w, 4))           x: (24, 8)   w: (8, 6)    (h m) k+, k+ n -> h m n
    on a rank, k over 2                      x: (24, 4)   w: (4, 6)    the same arguments
    on a rank, h over 2                      x: (12, 8)   w: (8, 6)    h = 2

What an annotation gives for the whole, it gives for a rank: sizes among the arguments are made anew
from the lengths there.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import prod
from typing import Any

from torch import Tensor

from dimsolve.ir.annotation import Number, Opaque, Star
from dimsolve.ir.operator import Declaration, Operator
from dimsolve.ir.read_annotation import read_annotation
from dimsolve.partition.transform import Part

from .arguments import Arguments, Place
from .resolve import resolve


def function_of(operator: Operator) -> Callable[..., Any]:
    """Returns the function itself, imported from its path where nobody has it yet."""
    function: Callable[..., Any] = operator.function or resolve(operator.path)
    return function


def invoke(function: Callable[..., Any], arguments: Arguments, parameters: Sequence[str]) -> Any:
    """Calls the function; an autograd.Function's ``apply`` takes positional arguments only."""
    args, kwargs = arguments.args, dict(arguments.kwargs)
    if kwargs and getattr(function, "__name__", "") == "apply":
        names = [name for name in parameters[len(args) :] if name in kwargs]
        args = (*args, *(kwargs.pop(name) for name in names))
    return function(*args, **kwargs)


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
        wants_list = _is_list(given, parameters, name, sizes)
        value = sizes if wants_list else sizes[0]
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


def _is_list(
    given: Mapping[str, Any], parameters: Sequence[str], name: str, sizes: tuple[int, ...]
) -> bool:
    """Whether a size parameter is a list of lengths: as it was given, else as it is written."""
    first, _, inside = name.partition(".")
    if inside:
        return len(sizes) != 1
    if first in given and f"*{first}" not in parameters:
        return isinstance(given[first], list | tuple)
    return f"*{first}" in parameters or len(sizes) != 1
