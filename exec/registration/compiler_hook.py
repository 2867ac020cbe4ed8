"""Tells torch.compile that a registered function is one operator, without loading its compiler.

Dynamo takes one to two seconds to import, and most programs that register operators never compile.
So what is to be told is kept until somebody imports it.

In a graph a registered function stands as its leaf (`dimsolve.exec.registration.leaf`), also where
the model calls the function that was registered by a call, ``register_op(annotation)(function)``.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from importlib.util import find_spec
from types import ModuleType
from typing import Any

_DYNAMO = "torch._dynamo"
_waiting: list[tuple[Any, Any]] = []


def one_operator(leaf: Any, function: Callable[..., Any] | None = None) -> None:
    """Lets ``leaf`` stand in graphs as it is, and stand there for calls of ``function`` too."""
    if _DYNAMO in sys.modules and not _being_imported():
        _tell(leaf, function)
        return
    if not _waiting:
        sys.meta_path.insert(0, _Watch())
    _waiting.append((leaf, function))


def _being_imported() -> bool:
    spec = sys.modules[_DYNAMO].__spec__
    return bool(getattr(spec, "_initializing", False))


def _tell(leaf: Any, function: Callable[..., Any] | None) -> None:
    import torch

    allow: Any = torch.compiler.allow_in_graph
    allow(leaf)
    if function is None or (function.__module__ or "").partition(".")[0] == "torch":
        return

    def stands_for(*args: Any, **kwargs: Any) -> Any:
        return leaf(*args, **kwargs)

    # ValueError: it was registered before, and the older leaf stands for it just as well.
    with suppress(ValueError):
        torch.compiler.substitute_in_graph(function, skip_signature_check=True)(stands_for)


class _Watch(MetaPathFinder):
    """Sees the import of Dynamo, lets the ordinary finders do it, and tells it what has waited."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname != _DYNAMO:
            return None
        sys.meta_path.remove(self)
        spec = find_spec(fullname)
        if spec is None or spec.loader is None:
            return spec
        run = spec.loader.exec_module

        def exec_module(module: ModuleType) -> None:
            run(module)
            told, _waiting[:] = list(_waiting), []
            for leaf, function in told:
                _tell(leaf, function)

        spec.loader.exec_module = exec_module  # type: ignore[method-assign]  # torch's own loader, and then ours
        return spec
