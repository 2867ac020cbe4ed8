"""The registered operators: which promise belongs to a function, a path or a graph's target.

    register(operator, matmul_custom)
    operator_of(matmul_custom).name        "matmul_custom"
    operator_at("custom_ops.operator")     the same by the path it is imported from

The table is keyed by the functions themselves, so that a call of one does not pass through here. A
function that is registered again, by a notebook's cell for one, has its newest promise.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from .operator import Operator

_BY_FUNCTION: dict[Any, Operator] = {}
_BY_PATH: dict[str, Operator] = {}


def register(operator: Operator, *functions: Any) -> None:
    """Gives the functions, and the path of the operator, this promise."""
    for function in functions:
        _BY_FUNCTION[function] = operator
    _BY_PATH[operator.path] = operator


def operator_of(target: Any) -> Operator | None:
    """Returns the operator of a function, of an autograd.Function class or its ``apply``, or None.

    ``target`` may also be what `torch.compile` writes into a graph for one of them.
    """
    for candidate in (target, _class_of(target)):
        try:
            found = _BY_FUNCTION.get(candidate)
        except TypeError:  # not hashable, so never registered
            continue
        if found is not None:
            return found
    return None


def operator_at(path: str) -> Operator | None:
    """Returns the operator that was registered with this path, ``"module.function"``."""
    return _BY_PATH.get(path)


def registered() -> tuple[Operator, ...]:
    """Returns all registered operators by path."""
    return tuple(operator for _, operator in sorted(_BY_PATH.items()))


def unregister(operator: Operator) -> None:
    """Forgets an operator; its functions are ordinary functions again. For tests and notebooks."""
    _BY_PATH.pop(operator.path, None)
    for function in [f for f, known in _BY_FUNCTION.items() if known is operator]:
        del _BY_FUNCTION[function]


@dataclass(frozen=True, slots=True)
class Shelf:
    """Registrations that are only there while they are needed: ``with shelf.open(): ...``"""

    by_function: dict[Any, Operator] = field(default_factory=dict)
    by_path: dict[str, Operator] = field(default_factory=dict)

    @contextmanager
    def open(self) -> Iterator[None]:
        """Adds what lies on the shelf; at the end the registry is as it was, and what has been
        registered meanwhile lies on the shelf.
        """
        pairs: Any = ((_BY_FUNCTION, self.by_function), (_BY_PATH, self.by_path))
        before = [dict(registry) for registry, _ in pairs]
        for registry, ours in pairs:
            registry.update(ours)
        try:
            yield
        finally:
            for (registry, ours), old in zip(pairs, before, strict=True):
                ours.update({k: v for k, v in registry.items() if old.get(k) is not v})
                registry.clear()
                registry.update(old)


def _class_of(target: Any) -> Any:
    """The class whose ``apply`` this is: a bound method, or the closure of torch.compile."""
    if getattr(target, "__name__", "") == "apply":
        return getattr(target, "__self__", None)
    if getattr(target, "__name__", "") == "trampoline_autograd_apply":
        cells: tuple[Any, ...] = getattr(target, "__closure__", None) or ()
        return cells[0].cell_contents if cells else None
    return None
