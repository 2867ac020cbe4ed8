"""What a model was when it was traced, as far as its graph depends on it and does not hold it.

    Sequential(Linear(4, 8), GELU())     {"": Sequential, "0": Linear, "1": GELU approximate='none'}

Two models may have the same parameters and compute something else. So the modules' classes and
settings, their modes and their hooks are noted, and compared where a plan is given a model.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from torch import nn

from .errors import backward_hook

FORWARD = ("_forward_hooks", "_forward_pre_hooks")
"""Where a module keeps the hooks that tracing sees: what they compute is part of the graph."""

BACKWARD = ("_backward_hooks", "_backward_pre_hooks")
"""The same of those that no graph can hold."""


@dataclass(frozen=True, slots=True)
class TracedModule:
    """One module. settings: numbers that it holds, and what it prints of itself in torch's own.

    hooks: the names of its forward hooks' functions.
    """

    kind: str
    settings: str
    training: bool
    hooks: tuple[str, ...]


def traced_model(model: Any) -> dict[str, TracedModule]:
    """Returns every module of a model by its qualified name; nothing for a function."""
    return {path: _traced(module) for path, module in _modules(model)}


def refuse_backward_hooks(model: Any) -> None:
    """Raises TraceError where a module of a model has a hook on its gradients."""
    for path, module in _modules(model):
        if any(getattr(module, place, None) for place in BACKWARD):
            raise backward_hook(module=path or "the model")


def _modules(model: Any) -> Iterable[tuple[str, nn.Module]]:
    return model.named_modules() if isinstance(model, nn.Module) else ()


def _traced(module: nn.Module) -> TracedModule:
    hooks = tuple(
        str(getattr(hook, "__qualname__", type(hook).__qualname__))
        for place in FORWARD
        for hook in getattr(module, place).values()
    )
    return TracedModule(type(module).__qualname__, _settings(module), module.training, hooks)


def _settings(module: nn.Module) -> str:
    if type(module).__module__.startswith("torch.nn.modules."):
        return str(module.extra_repr())
    numbers = {
        name: value
        for name, value in vars(module).items()
        if type(value) in (bool, int, float) and name != "training" and not name.startswith("_")
    }
    return ", ".join(f"{name}={value}" for name, value in sorted(numbers.items()))
