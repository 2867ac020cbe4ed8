"""What a model was when it was traced, as far as its graph depends on it and does not hold it.

    Sequential(Linear(4, 8), GELU())     {"": Sequential, "0": Linear, "1": GELU approximate='none'}

    Net(act=torch.nn.functional.gelu)    {"": Net act=torch.nn.functional.gelu}

Two models may have the same parameters and compute something else. So the modules' classes and
settings, the functions that they hold, their modes and their hooks are noted, and compared where a
plan is given a model. A function of torch is told by its name, any other by its name and its code.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import Enum
from hashlib import sha256
from types import BuiltinFunctionType, CodeType, FunctionType, MethodType
from typing import Any

import torch
from torch import nn
from torch.nn.parameter import is_lazy

from .errors import a_part, backward_hook

FORWARD = ("_forward_hooks", "_forward_pre_hooks")
"""Where a module keeps the hooks that tracing sees: what they compute is part of the graph."""

OUTPUT_HOOKS = "output_capturing"
"""Where transformers has the hooks that hand out what is computed on the way."""

BACKWARD = ("_backward_hooks", "_backward_pre_hooks")
"""The same of those that no graph can hold."""


@dataclass(frozen=True, slots=True)
class TracedModule:
    """One module. settings: what it holds that is no tensor and can be told, and what it prints of
    itself in torch's own. code: of its class's forward. hooks: the names of its forward hooks'
    functions.
    """

    kind: str
    code: str
    settings: str
    training: bool
    hooks: tuple[str, ...]


def traced_model(model: Any) -> dict[str, TracedModule]:
    """Returns every module of a model by its qualified name; nothing for a function."""
    return {path: _traced(module) for path, module in _modules(model)}


def refuse_backward_hooks(model: Any) -> None:
    """Raises TraceError where a module of a model has a hook on its gradients, or is a part."""
    for path, module in _modules(model):
        if "_held" in vars(module) and hasattr(module, "device_mesh"):
            raise a_part()
        if any(getattr(module, place, None) for place in BACKWARD):
            raise backward_hook(module=path or "the model")


def _modules(model: Any) -> Iterable[tuple[str, nn.Module]]:
    return model.named_modules() if isinstance(model, nn.Module) else ()


def _traced(module: nn.Module) -> TracedModule:
    hooks = tuple(
        str(getattr(hook, "__qualname__", type(hook).__qualname__))
        for place in FORWARD
        for hook in getattr(module, place).values()
        if not getattr(hook, "__module__", "").endswith(OUTPUT_HOOKS)
    )
    kind = type(module)
    code = "" if _is_torchs(kind) else _code_of(kind.forward, 0)
    return TracedModule(kind.__qualname__, code, _settings(module), module.training, hooks)


def install_output_hooks(model: Any) -> None:
    """Installs the hooks with which transformers' models hand out hidden states and attentions.
    They do it themselves when they are first asked, under a lock, which no capture can enter. A
    call that asks for nothing passes by them.
    """
    for _, module in _modules(model):
        if _captures_outputs(type(module)):
            capturing: Any = sys.modules[f"transformers.utils.{OUTPUT_HOOKS}"]
            capturing.maybe_install_capturing_hooks(module)


def _captures_outputs(kind: type) -> bool:
    """Whether a module's forward is one that transformers' decorator stands around."""
    function = vars(kind).get("forward")
    while function is not None:
        code = getattr(function, "__code__", None)
        if code is not None and code.co_qualname.startswith("capture_outputs."):
            return True
        function = getattr(function, "__wrapped__", None)
    return False


def _settings(module: nn.Module) -> str:
    printed = str(_without_values(module).extra_repr()) if _is_torchs(type(module)) else ""
    found = settings_of(module)
    if printed:
        found = {name: said for name, said in found.items() if callable(vars(module)[name])}
    return ", ".join(filter(None, (printed, *(f"{n}={v}" for n, v in sorted(found.items())))))


def _without_values(module: nn.Module) -> nn.Module:
    """The module with tensors that have shapes only, as some print what they hold."""
    if not (module._parameters or module._buffers):
        return module
    bare = object.__new__(type(module))
    vars(bare).update(vars(module))
    for place in ("_parameters", "_buffers"):
        held = getattr(module, place).items()
        vars(bare)[place] = {
            name: item
            if item is None or is_lazy(item)
            else torch.empty(item.shape, dtype=item.dtype, device="meta")
            for name, item in held
        }
    return bare


_OWN = frozenset(vars(nn.Module())) | {"_compiled_call_impl"}

_BOOKKEEPING = frozenset({"name_or_path", "warnings_issued"})
"""What transformers' models note of where they come from, and of what was said."""


def settings_of(module: nn.Module) -> dict[str, str]:
    """Returns in words what a module holds besides tensors and modules, by its name: functions, and
    numbers, texts and containers of them, but for what a name with an underscore keeps private.

    >>> settings_of(nn.Dropout(0.5))
    {'p': '0.5', 'inplace': 'False'}
    """
    found = {}
    for name, value in vars(module).items():
        if name in _OWN or name in _BOOKKEEPING or value is None:
            continue
        said = said_of(value)
        if said is not None and (callable(value) or not name.startswith("_")):
            found[name] = said
    return found


def said_of(value: object, depth: int = 0) -> str | None:
    """Returns a value in words, alike for values that are alike in every process; None for what is
    no function, no number, no text and no container of them.

    >>> said_of(torch.sin), said_of(nn.functional.gelu), said_of((1, "a")), said_of(object())
    ('torch.sin', 'torch.nn.functional.gelu', "(1, 'a')", None)
    """
    if value is None or isinstance(value, bool | int | float | complex | str | Enum | torch.dtype):
        return repr(value)
    if depth > _DEPTH or isinstance(value, torch.Tensor | nn.Module | type):
        return None
    if isinstance(value, functools.partial):
        parts = [value.func, *value.args, *(value.keywords or {}).items()]
        return f"partial({', '.join(_item(each, depth) for each in parts)})"
    if isinstance(value, tuple | list):
        opened, closed = "[]" if isinstance(value, list) else "()"
        return f"{opened}{', '.join(_item(each, depth) for each in value)}{closed}"
    if isinstance(value, Mapping):
        items = (f"{_item(k, depth)}: {_item(v, depth)}" for k, v in value.items())
        return f"{{{', '.join(items)}}}"
    if isinstance(value, set | frozenset):
        return f"{{{', '.join(sorted(_item(each, depth) for each in value))}}}"
    return _function(value, depth) if callable(value) else None


_DEPTH = 6
"""So deep are containers, and what functions hold, looked into."""


def _item(value: object, depth: int) -> str:
    said = said_of(value, depth + 1)
    return type(value).__qualname__ if said is None else said


def _function(value: Any, depth: int) -> str:
    """A function's name, and where another may have the same name a digest of its code."""
    torchs = _torchs_name(value)
    if torchs:
        return torchs
    name = str(getattr(value, "__qualname__", type(value).__qualname__))
    code = _code_of(value, depth)
    if not code and not isinstance(value, BuiltinFunctionType) and hasattr(value, "__dict__"):
        held = {k: _item(v, depth) for k, v in vars(value).items() if not k.startswith("__")}
        code = _code_of(type(value).__call__, depth) + ", ".join(
            f"{k}={v}" for k, v in held.items()
        )
    return f"{name} {code}".strip()


def _torchs_name(value: Any) -> str:
    """Where torch has a function, ``""`` for one that is not torch's."""
    name = getattr(value, "__name__", "")
    for path, home in _TORCHS.items():
        if getattr(home, name, None) is value:
            return f"{path}.{name}"
    return ""


_TORCHS: dict[str, Any] = {"torch.nn.functional": nn.functional, "torch": torch}


def _code_of(value: Any, depth: int) -> str:
    """A digest of what a function computes with, and of what it was given: its code, defaults and
    the values around it; ``""`` for what is no function of Python.
    """
    if isinstance(value, MethodType):
        value = value.__func__
    if not isinstance(value, FunctionType):
        return ""
    around = []
    for cell in value.__closure__ or ():
        try:
            around.append(_item(cell.cell_contents, depth))
        except ValueError:  # a name that has no value yet
            around.append("")
    given = [*(value.__defaults__ or ()), *(value.__kwdefaults__ or {}).items()]
    said = [_text(value.__code__), *around, *(_item(each, depth) for each in given)]
    return sha256("\n".join(said).encode()).hexdigest()[:8]


def _text(code: CodeType) -> str:
    constants = [
        _text(each) if isinstance(each, CodeType) else _item(each, 0) for each in code.co_consts
    ]
    return f"{code.co_code.hex()} {code.co_names} {code.co_freevars} {constants}"


def _is_torchs(kind: type) -> bool:
    return kind.__module__.startswith("torch.nn.modules.")
