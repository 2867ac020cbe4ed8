"""One call of an operator, and the same call on a rank.

    Call(matmul_custom, (x, w, 4))           x: (24, 8)   w: (8, 6)    (h m) k+, k+ n -> h m n
    on a rank, k over 2                      x: (24, 4)   w: (4, 6)    the same arguments
    on a rank, h over 2                      x: (12, 8)   w: (8, 6)    h = 2

What an annotation gives for the whole, it gives for a rank: sizes among the arguments are made anew
from the lengths there.

The modes of torch that a model may switch: recording of gradients, autocast, and mapping.

    torch._C._set_grad_enabled(False)         a program switches them as the model does,
    sigmoid = linear.sigmoid()
    torch._C._set_grad_enabled(outer)         and back to what its caller had

Where a step between the two fails, nothing would switch back: the model's ``with`` is gone. So what
runs a program notes the modes first, and brings them back when there is an error.

What can be wrong when a graph runs, in words: inputs, patterns, conditions, functions that
are not there.

The arguments of one call as data: where its tensors are, and how one of them is replaced.

    torch.cat([x, y], dim=1)        places (0, 0) and (0, 1) are tensors
    x.view(2, -1, 8)                the parameter "*shape" is (2, -1, 8), to be made anew on a rank
    x[:, 0:64]                      "index.1.stop" is 64

A place is a path: the position or the keyword of an argument, then positions inside it. Everything
is replaced in copies; nothing here changes what it was given.

From an operator's path to the function that computes it.

resolve("torch.Tensor.view")     torch.Tensor.view
resolve("dimsolve.ewise_add")    torch.add, of tensors of one shape only
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache, wraps
from importlib import import_module
from math import prod
from typing import Any, ParamSpec, Self, TypeAlias, TypeVar

from torch import Tensor

from dimsolve.ir.annotation import Number, Opaque, Star
from dimsolve.ir.errors import Diagnostic, DimsolveError, ShapeError
from dimsolve.ir.graph import Input, Node
from dimsolve.ir.operator import Declaration, Operator, operator_at
from dimsolve.ir.read_annotation import read_annotation
from dimsolve.partition.rules.rule import Part
from dimsolve.solver.graphs.deduction import EWISE, PREFIX
from dimsolve.solver.graphs.problems import broken_condition, place
from dimsolve.solver.problems import shape_text

P = ParamSpec("P")
R = TypeVar("R")

DEVICES = ("cpu", "cuda")
"""The kinds of device that autocast is switched for."""

OUTER = "torch.is_grad_enabled"
"""Whether the caller of a model records gradients; the model's switches go back to that."""


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
        import torch

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
        import torch

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
    import torch

    return {
        kind: str(torch.get_autocast_dtype(kind)).removeprefix("torch.")
        for kind in DEVICES
        if torch.is_autocast_enabled(kind)
    }


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
    import torch

    level: int | None = torch._C._functorch.maybe_current_level()
    return level or 0


def is_switch(function: object) -> bool:
    """Returns whether a function switches a mode.

    >>> import torch
    >>> is_switch(torch._C._set_grad_enabled), is_switch(torch.relu)
    (True, False)
    """
    import torch

    switches: tuple[object, ...] = (
        torch._functorch.predispatch._vmap_increment_nesting,
        torch._C._set_grad_enabled,
        torch.amp.autocast_mode._enter_autocast,
        torch.amp.autocast_mode._exit_autocast,
    )
    return function in switches


__all__ = [
    "broken_condition",
    "broken_type",
    "input_dtype",
    "input_shape",
    "no_argument",
    "no_external",
    "no_size",
    "no_state",
    "pattern",
    "shapes_differ",
    "too_many_arguments",
    "unresolved",
]


def input_shape(entry: Input, actual: Sequence[int], reason: str) -> ShapeError:
    """An input has another shape than the graph says."""
    return ShapeError(
        Diagnostic(
            code="input-shape",
            title=f"{entry.kind} {entry.target} does not have the shape that the graph expects",
            reason=f"it is {entry.value.type}, given {shape_text(actual)}: {reason}",
        )
    )


def input_dtype(entry: Input, actual: str) -> ShapeError:
    """An input has another dtype than the graph says."""
    return ShapeError(
        Diagnostic(
            code="input-dtype",
            title=f"{entry.kind} {entry.target} does not have the dtype that the graph expects",
            reason=f"it is {entry.value.type}, given {actual}",
        )
    )


def pattern(
    node: Node, wanted: Sequence[Any], actual: Sequence[int] | None, reason: str
) -> ShapeError:
    """A shape does not match its pattern."""
    given = "no shape" if actual is None else shape_text(actual)
    return ShapeError(
        Diagnostic(
            code="pattern",
            title=f"{place(node)}: the pattern {shape_text(wanted)} does not match",
            reason=f"%{node.operands()[0].name} is {given}: {reason}",
        )
    )


def broken_type(what: str, wanted: Sequence[Any], actual: Sequence[int], reason: str) -> ShapeError:
    """A result has another shape than was deduced, or than an external function was said to
    give.
    """
    return ShapeError(
        Diagnostic(
            code="result-shape",
            title="a result does not have the shape that the graph expects",
            reason=f"{what}: {shape_text(actual)} is not {shape_text(wanted)}: {reason}",
            hint="an operator, or an external function, does not do what is said of it",
        )
    )


def no_argument(function: str, entry: Input) -> DimsolveError:
    """An input is not given."""
    return DimsolveError(
        Diagnostic(
            code="no-argument",
            title=f"{function} is called without {entry.target}",
            reason=f"{entry.target} is {entry.value.type}",
        )
    )


def too_many_arguments(function: str, wanted: int, given: int) -> DimsolveError:
    """More arguments than inputs."""
    return DimsolveError(
        Diagnostic(
            code="input-count",
            title="the number of arguments does not match",
            reason=f"{function} takes {wanted}, {given} given",
        )
    )


def no_state(entry: Input) -> DimsolveError:
    """A parameter or buffer is not in what was given as state."""
    return DimsolveError(
        Diagnostic(
            code="no-state",
            title=f"the {entry.kind} {entry.target} is not given",
            reason=f"{entry.target} is {entry.value.type}",
            hint="pass the module, or a mapping such as its state_dict, as state",
        )
    )


def no_external(function: str) -> DimsolveError:
    """An external function is not given."""
    return DimsolveError(
        Diagnostic(
            code="no-external",
            title=f"the external function {function} is not given",
            reason="the graph knows it by its name only",
            hint=f'pass it: run(..., externals={{"{function}": function}})',
        )
    )


def no_size(function: str, dim: object, missing: Sequence[str]) -> DimsolveError:
    """A size depends on a symbol that nothing has bound."""
    return DimsolveError(
        Diagnostic(
            code="no-size",
            title=f"{function} needs a size that nothing gives",
            reason=f"{dim} depends on {', '.join(missing)}, which no input or pattern binds",
        )
    )


def shapes_differ(operator: str, shapes: str) -> ShapeError:
    """An operator that never broadcasts is given two shapes."""
    return ShapeError(
        Diagnostic("shapes-differ", f"{operator} takes two tensors of one shape", reason=shapes)
    )


def unresolved(path: str) -> DimsolveError:
    """A path leads to no function."""
    return DimsolveError(
        Diagnostic(
            code="unresolved",
            title=f"there is no {path}",
            reason="it can neither be imported nor is it a registered operator",
        )
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
    raise unresolved(path)


def _ewise(name: str) -> Callable[[Any, Any], Any]:
    import torch

    compute = getattr(torch, name)

    def call(input: Any, other: Any) -> Any:
        if input.shape != other.shape:
            shapes = f"{tuple(input.shape)} and {tuple(other.shape)}"
            raise shapes_differ(f"{PREFIX}ewise_{name}", shapes)
        return compute(input, other)

    return call


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
