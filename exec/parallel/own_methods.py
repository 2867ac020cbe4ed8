"""The methods of a model's own class, called on a part.

    part.encode(x)                 calls modules: each call has a program, as on one device
    part.configure_optimizers()    takes parameters as they are: an optimiser goes by elements
    part.penalty()                 self.up.weight.norm(): of this rank's rows another number

A method runs as it is written, on what a rank holds. So while one of the user's own runs, what the
model's code computes with a tensor of which the rank holds a part is refused by name, but for what
treats every element alone, in place. What torch's optimisers and utilities do is theirs.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from functools import wraps
from inspect import iscoroutinefunction, isgeneratorfunction
from types import FunctionType
from typing import Any
from weakref import ref

import torch
from torch.overrides import TorchFunctionMode, _get_current_function_mode, _pop_mode_temporarily

from dimsolve.ir.errors import Problem

from ..lowering.setting import LoweringError
from .state import Held

_OF_A_PART = Problem(
    LoweringError,
    "method-of-parts",
    "{method} of the model computes with {name}, of which this rank has a part",
    "it is {shape} here and {whole} in all, and {function} of a part is not that of the whole",
    "compute it in the model's forward, which is traced, or in the script of "
    "part.state_dict()[{name!r}].full_tensor()",
)

_ASKS = frozenset(
    {
        *("dim", "ndimension", "size", "numel", "nelement", "stride", "storage_offset"),
        *("element_size", "is_floating_point", "is_complex", "is_contiguous", "data_ptr"),
        *("requires_grad_", "register_hook", "register_post_accumulate_grad_hook"),
        *("untyped_storage", "__repr__", "__format__", "__hash__", "__len__"),
    }
)
"""Methods that compute nothing of what a tensor holds."""

_SAME = frozenset({"data", "grad", "detach"})
"""What gives the part once more."""

_EACH = frozenset(
    {
        *("zero_", "fill_", "neg_", "abs_", "sqrt_", "square_", "reciprocal_", "nan_to_num_"),
        *("clamp_", "clamp_min_", "clamp_max_", "mul_", "div_", "add_", "sub_", "pow_"),
    }
)
"""What treats every element alone, in place, where no other tensor is given."""

_LIBRARIES = ("torch.", "dimsolve.")
_WRITTEN_IN_PYTHON = frozenset(
    {"torch", "torch._tensor", "torch.overrides", "torch.functional", "torch.nn.functional"}
)
"""Modules in which functions of torch's are, that model code calls."""


class _Guard(TorchFunctionMode):
    """Refuses to compute with these tensors. names: of the parts, by their ids."""

    def __init__(self, method: str, held: Mapping[str, Held], parts: Mapping[str, Any]) -> None:
        super().__init__()
        self.method, self.held = method, held
        self.names = {id(tensor): name for name, tensor in parts.items()}
        self.kept: dict[int, Any] = {}

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        name = next(filter(None, map(self._name, (*args, *kwargs.values()))), "")
        if not name:
            return func(*args, **kwargs)
        getter = (
            getattr(func, "__self__", None) if func.__name__ in ("__get__", "__set__") else None
        )
        called = str(getattr(getter, "__name__", func.__name__))
        if called in _SAME and func.__name__ != "__set__":
            result = func(*args, **kwargs)
            if result is not None:
                self.kept[id(result)] = ref(result)
                self.names[id(result)] = name
            return result
        asks = called in _ASKS or (getter is not None and called not in ("T", "mT", "H", "mH"))
        tensors = sum(isinstance(each, torch.Tensor) for each in (*args, *kwargs.values()))
        if asks or (called in _EACH and tensors == 1) or _of_a_library():
            return func(*args, **kwargs)
        shape = tuple(next(x for x in (*args, *kwargs.values()) if self._name(x)).shape)
        raise _OF_A_PART(
            method=self.method,
            name=name,
            shape=shape,
            whole=tuple(self.held[name].whole_shape(shape)),
            function=called,
        )

    def _name(self, value: Any) -> str:
        """The name of a tensor of which the rank has a part."""
        if not isinstance(value, torch.Tensor):
            if isinstance(value, list | tuple):
                return next(filter(None, map(self._name, value)), "")
            return ""
        made = self.kept.get(id(value))
        return self.names.get(id(value), "") if made is None or made() is value else ""


def _of_a_library() -> bool:
    """Whether it is not the model's own code that calls a function of torch's."""
    frame = sys._getframe(2)
    while frame.f_back is not None and frame.f_globals.get("__name__") in _WRITTEN_IN_PYTHON:
        frame = frame.f_back
    module = str(frame.f_globals.get("__name__", ""))
    return f"{module}.".startswith(_LIBRARIES)


def guarded(kind: type[torch.nn.Module], own: type) -> dict[str, Any]:
    """Returns the methods that users wrote in a class and those it is derived from, guarded. own:
    the class of parts, whose methods are others.
    """
    found: dict[str, Any] = {}
    for cls in reversed(kind.__mro__):
        if cls.__module__.partition(".")[0] in ("torch", "builtins", "transformers", "peft"):
            continue
        for name, function in vars(cls).items():
            runs = isinstance(function, FunctionType) and not name.startswith("__")
            if runs and not hasattr(own, name) and not _is_lazy(function):
                found[name] = _guarded(function)
    return found


def _is_lazy(function: Any) -> bool:
    return isgeneratorfunction(function) or iscoroutinefunction(function)


def _guarded(function: Any) -> Callable[..., Any]:
    @wraps(function)
    def call(self: Any, *args: Any, **kwargs: Any) -> Any:
        if torch.compiler.is_compiling() or _is_guarded():
            return function(self, *args, **kwargs)
        parts = self._in_parts()
        if not parts:
            return function(self, *args, **kwargs)
        with _Guard(f"{function.__name__}()", self._held, parts):
            return function(self, *args, **kwargs)

    return call


def _is_guarded() -> bool:
    current: Any = _get_current_function_mode
    return isinstance(current(), _Guard)


def unguarded() -> AbstractContextManager[object]:
    """Returns a context in which programs run, which know what the parts are."""
    is_guarded = _is_guarded()
    found: AbstractContextManager[object] = _pop_mode_temporarily() if is_guarded else nullcontext()
    return found
