"""What the arguments of a call hold: tensors inside of lists, dicts and objects of any class.

    model(ids, past_key_values=cache)      cache: a DynamicCache of two layers
    past_key_values.layers.0.keys          a tensor, an input of the graph like others
    past_key_values.layers.0.is_initialized  True, a setting: the program is for this value
    past_key_values.layers.0               an object of DynamicLayer, which must be one again

A place is a tuple of keys that starts with the argument's name: an attribute by its name, an item
of a list by its number, an item of a dict by its key. An object is read by its attributes, whatever
its class, and copied without calling its ``__init__``. An object that is met again is the same one:
it is read where it was met first.
"""

from __future__ import annotations

import copy
import dataclasses
import enum
import functools
import types
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from dimsolve.ir.errors import Diagnostic
from dimsolve.ir.graph import Constant, Device
from dimsolve.solver.graphs.names import path_of

from .errors import TraceError

Place = tuple[str | int, ...]

PLAIN = (bool, int, float, complex, str, bytes, type(None))
_OPAQUE = (
    *(*PLAIN, type, enum.Enum, type(...), slice, range),
    *(types.ModuleType, types.FunctionType, types.BuiltinFunctionType, types.MethodType),
    functools.partial,
)
"""Values without parts."""


def place_name(place: Place) -> str:
    """Returns a place as text.

    >>> place_name(("past_key_values", "layers", 0, "keys"))
    'past_key_values.layers.0.keys'
    """
    return ".".join(map(str, place))


def parts_of(value: Any) -> dict[Any, Any] | None:
    """Returns the parts of a container or an object by key, index or attribute; None for a value
    that has none.

    >>> parts_of([7, None]), parts_of(7)
    ({0: 7, 1: None}, None)
    """
    import torch

    if isinstance(value, (torch.Tensor, torch.nn.Module, *_OPAQUE)):
        return None
    if isinstance(value, dict):
        return dict(value)
    fields = getattr(value, "_fields", None)
    if fields is not None and isinstance(value, tuple):
        return dict(zip(fields, value, strict=True))
    if isinstance(value, list | tuple):
        return dict(enumerate(value))
    if type(value).__module__ in ("torch", "builtins") or _is_a_value(value):
        return None
    return attributes_of(value)


def attributes_of(value: Any) -> dict[str, Any] | None:
    """Returns what an object's own attributes are, by name; None where it can have none."""
    found: dict[str, Any] = dict(getattr(value, "__dict__", {}))
    slots = [
        name
        for cls in type(value).__mro__
        for name in _names_of_slots(cls)
        if name not in ("__dict__", "__weakref__")
    ]
    for name in slots:
        if hasattr(value, name):
            found[name] = getattr(value, name)
    return found if slots or hasattr(value, "__dict__") else None


def _names_of_slots(cls: type) -> tuple[str, ...]:
    slots = cls.__dict__.get("__slots__", ())
    return (slots,) if isinstance(slots, str) else tuple(slots)


def _is_a_value(value: Any) -> bool:
    """Whether an object is one that never changes, such as a date, equal to others by value."""
    cls: Any = type(value)
    equal, hashed, plain = cls.__eq__, cls.__hash__, object()
    if equal == type(plain).__eq__ or hashed is None or hashed == type(plain).__hash__:
        return False
    return not dataclasses.is_dataclass(cls)


def is_plain_container(value: Any) -> bool:
    """Whether a container is one of Python's own, whose class says nothing more."""
    return type(value) in (list, tuple, dict)


def walk(place: Place, value: Any, met: dict[int, Place]) -> Iterator[tuple[Place, Any, bool]]:
    """Yields what a value holds: place, value, and whether it has parts; containers before their
    parts. met: the places of the containers that were met so far, by id.
    """
    parts = parts_of(value)
    if parts is None:
        yield place, value, False
        return
    if not isinstance(value, tuple):
        if id(value) in met:
            return
        met[id(value)] = place
    yield place, value, True
    for key, item in parts.items():
        yield from walk((*place, key), item, met)


def setting_of(value: Any) -> Any:
    """Returns what a graph notes of a value that is no tensor: itself, or for what no JSON can say
    its import path.

    >>> import torch
    >>> setting_of(7), setting_of(torch.float32), setting_of(torch.device("cpu"))
    (7, Constant(path='torch.float32'), Device(name='cpu'))
    """
    import torch

    if isinstance(value, PLAIN) and not isinstance(value, enum.Enum):
        return value
    if isinstance(value, torch.device):
        return Device(value.type)
    if isinstance(value, torch.dtype | torch.layout | torch.memory_format):
        return Constant(str(value))
    if isinstance(value, type):
        return Constant(class_path(value))
    if isinstance(value, enum.Enum):
        return Constant(f"{class_path(type(value))}.{value.name}")
    if isinstance(value, types.FunctionType | types.BuiltinFunctionType) and not _local(value):
        return Constant(path_of(value))
    return value


def _local(function: Any) -> bool:
    return "<" in str(getattr(function, "__qualname__", "<"))


def class_path(cls: type) -> str:
    """Returns the import path of a class."""
    return f"{cls.__module__}.{cls.__qualname__}"


# ---- copies


class Copy:
    """A copy of a call's arguments for one capture, which may change it. ``containers``: its lists,
    dicts and objects by place, with the parts that they had.
    """

    def __init__(self, names: list[str], change: Callable[[Place, Any], Any]) -> None:
        self._names = names
        self._change = change
        self._made: dict[int, Any] = {}
        self._kept: list[Any] = []
        self.containers: dict[Place, tuple[Any, dict[Any, Any]]] = {}

    def call(
        self, args: tuple[Any, ...], kwargs: Mapping[str, Any]
    ) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Returns the arguments of the call; ``change`` gives what stands for each leaf."""
        positional = tuple([self.of((self._names[i],), arg) for i, arg in enumerate(args)])
        named = {name: self.of((name,), item) for name, item in kwargs.items()}
        return positional, named

    def of(self, place: Place, value: Any) -> Any:
        """Returns the copy of one value."""
        parts = parts_of(value)
        if parts is None:
            return self._change(place, value)
        if isinstance(value, tuple):
            items = [self.of((*place, key), item) for key, item in parts.items()]
            return type(value)(*items) if hasattr(value, "_fields") else type(value)(items)
        if id(value) in self._made:
            return self._made[id(value)]
        made = self._made[id(value)] = _empty(value)
        self._kept.append(value)
        inside = {key: self.of((*place, key), item) for key, item in parts.items()}
        fill(made, inside)
        self.containers[place] = (made, inside)
        return made


def _empty(value: Any) -> Any:
    """A container of the same class without its parts."""
    if type(value) in (list, dict):
        return type(value)()
    if isinstance(value, list | dict):
        return copy.copy(value)
    return object.__new__(type(value))


def fill(container: Any, parts: Mapping[Any, Any], removed: tuple[Any, ...] = ()) -> None:
    """Puts parts into a container: all of a list's, those of a dict or an object that are named."""
    if isinstance(container, list):
        container[:] = parts.values()
    elif isinstance(container, dict):
        for key in removed:
            container.pop(key, None)
        for key, item in parts.items():
            container[key] = item
    else:
        for name in removed:
            object.__delattr__(container, name)
        for name, item in parts.items():
            object.__setattr__(container, name, item)


def mapped(arguments: Mapping[str, Any], change: Callable[[Any], Any]) -> dict[str, Any]:
    """Returns a copy of arguments, and of the objects among them, with every leaf changed.

    >>> mapped({"x": [1, (2, None)]}, lambda leaf: leaf and leaf + 1)
    {'x': [2, (3, None)]}
    """
    return Copy([], lambda _, leaf: change(leaf)).call((), arguments)[1]


@dataclass(frozen=True, slots=True)
class Change:
    """What a call left of a container of its arguments. ``parts``: of a list all, else those that
    are others than before; ``removed``: the keys that are gone.
    """

    parts: dict[Any, Any] = field(default_factory=dict)
    removed: tuple[Any, ...] = ()


def changes(copied: Copy) -> dict[Place, Change]:
    """Returns what a call changed in the copy of its arguments, by the container's place."""
    found: dict[Place, Change] = {}
    for place, (container, before) in copied.containers.items():
        after = parts_of(container) or {}
        removed = tuple(key for key in before if key not in after)
        other = {
            key: item
            for key, item in after.items()
            if key not in before or not _same(before[key], item)
        }
        if other or removed:
            is_list = isinstance(container, list)
            found[place] = Change(after, ()) if is_list else Change(other, removed)
    return found


def _same(before: Any, after: Any) -> bool:
    if before is after:
        return True
    if isinstance(before, tuple) and type(before) is type(after) and len(before) == len(after):
        return all(map(_same, before, after))
    return type(before) is type(after) and isinstance(before, PLAIN) and bool(before == after)


# ---- what cannot be seen


def refuse_hidden(place: Place, value: Any) -> None:
    """Raises TraceError for a leaf of an argument that holds tensors where nobody sees them: a
    function's closure, a module, an object of a class written in C.
    """
    import torch

    if isinstance(value, (torch.Tensor, *PLAIN)):
        return
    if isinstance(value, torch.nn.Module):
        held = next(iter([*value.named_parameters(), *value.named_buffers()]), None)
        if held is not None:
            raise _hidden(place, value, f"it holds the tensor {held[0]}")
        return
    inside = _tensor_inside(value, set())
    if inside:
        raise _hidden(place, value, f"it holds a tensor: {inside}")


def _tensor_inside(value: Any, met: set[int]) -> str:
    """Where a value holds a tensor, ``""`` where it holds none that can be seen."""
    import torch

    if isinstance(value, PLAIN) or id(value) in met:
        return ""
    met.add(id(value))
    for name, item in _hidden_parts(value):
        if isinstance(item, torch.Tensor):
            return name
        found = _tensor_inside(item, met)
        if found:
            return f"{name}, {found}"
    return ""


def _hidden_parts(value: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(value, types.ModuleType | type):
        return
    if isinstance(value, functools.partial):
        yield "its function", value.func
        yield from ((f"argument {n}", item) for n, item in enumerate(value.args))
        yield from value.keywords.items()
    elif isinstance(value, types.MethodType):
        yield "the object of the method", value.__self__
    elif isinstance(value, types.FunctionType):
        names = value.__code__.co_freevars
        for name, cell in zip(names, value.__closure__ or (), strict=True):
            try:
                yield f"{name} of its closure", cell.cell_contents
            except ValueError:
                continue
        yield from ((f"default {n}", item) for n, item in enumerate(value.__defaults__ or ()))
        yield from (value.__kwdefaults__ or {}).items()
    elif isinstance(value, list | tuple | set | frozenset):
        yield from ((f"item {n}", item) for n, item in enumerate(value))
    elif isinstance(value, dict):
        yield from ((str(key), item) for key, item in value.items())
    else:
        yield from (attributes_of(value) or {}).items()


def _hidden(place: Place, value: Any, why: str) -> TraceError:
    hint = "pass the tensor itself: in a list, a dict, or as an attribute of an object"
    if isinstance(value, types.FunctionType):
        hint = "give the model the tensor itself, and let the model make the function"
    return TraceError(
        Diagnostic(
            code="hidden-tensor",
            title=f"{place_name(place)} holds tensors that no call can give anew",
            reason=f"it is a {type(value).__name__}, and {why}; a program would keep what it is "
            "now",
            hint=hint,
        )
    )


def not_seen(name: str) -> TraceError:
    """A tensor that torch found in an argument, where nobody else sees it."""
    return TraceError(
        Diagnostic(
            code="hidden-tensor",
            title=f"the model takes a tensor from {name}, which is no part of its arguments",
            reason="no list, dict or attribute holds it; a program would keep what it is now",
            hint="pass the tensor itself: in a list, a dict, or as an attribute of an object",
        )
    )
