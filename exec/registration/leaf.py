"""What is called in the place of a registered function: one operator in every graph.

    matmul_custom(x, w)                      runs; a try costs nothing, the call about 0.1 µs
    matmul_custom(x.to("meta"), ...)         runs on meta tensors if it can, else the annotation
                                             gives the result's shape (`without_data`)

torch.compile takes the leaf whole, also where a model calls the function that was
registered by a call, ``register_op(annotation)(function)``. Dynamo takes one to two seconds to
import, and most programs that register operators never compile: what it needs to know is kept until
somebody imports it.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from functools import wraps
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from importlib.util import find_spec
from types import ModuleType
from typing import Any, TypeAlias

import torch

from dimsolve.ir.operator import Operator, operator_of

from .errors import REFUSED
from .promise import Promise, number_of
from .without_data import lack_data, outputs_without_data

_MARK, _LEAF = "__dimsolve_function__", "__dimsolve_leaf__"


def bare_function(function: Any) -> Any:
    """Returns the function that a leaf stands for; another function is its own."""
    return getattr(function, _MARK, function)


def leaf_function(function: Callable[..., Any]) -> Callable[..., Any]:
    """Returns what is called in the function's place, and has torch.compile take it whole.

    A function has one leaf, however often it is registered.
    """
    known: Callable[..., Any] | None = getattr(function, _LEAF, None)
    if known is not None and getattr(known, _MARK, None) is function:
        return known
    bare = getattr(function, "_torchdynamo_orig_callable", None)

    @wraps(function, updated=())
    def leaf(*args: Any, **kwargs: Any) -> Any:
        if bare is None:
            return call(function, function, args, kwargs)
        # Compiled code must not see fake tensors: it reads their memory.
        if lack_data(args, kwargs):
            return call(function, bare, args, kwargs)
        return function(*args, **kwargs)

    setattr(leaf, _MARK, function)
    setattr(function, _LEAF, leaf)
    _one_operator(leaf, function)
    return leaf


def leaf_class(function_class: Any) -> None:
    """Does the same for the ``apply`` of an autograd.Function class."""
    if _MARK in vars(function_class):
        return

    def apply(cls: Any, *args: Any, **kwargs: Any) -> Any:
        # torch 2.10 traces into the apply that a module holds, and takes that of a class whole.
        if torch.compiler.is_dynamo_compiling():
            return cls.apply(*args, **kwargs)
        # The promise is that of ``cls``: a class derived from this one has its own, or none.
        return call(cls, super(function_class, cls).apply, args, kwargs)

    function_class.apply = classmethod(apply)
    setattr(function_class, _MARK, function_class)
    _one_operator(function_class)


def call(
    target: Any, run: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
) -> Any:
    """Returns what ``run`` returns, or tensors of the annotated shapes where it lacks data.

    target: what was registered; it may have been taken out of the table since.
    """
    promise = getattr(operator_of(target), "declare", None) if _is_traced() else None
    before = versions(args, kwargs) if isinstance(promise, Promise) else ()
    try:
        result = run(*args, **kwargs)
    except Exception as error:
        operator = operator_of(target) if lack_data(args, kwargs) else None
        if operator is None:
            raise
        return outputs_without_data(operator, error, args, kwargs)
    if before:
        _note_write(promise, args, kwargs, result, before)
    return result


def _is_traced() -> bool:
    # Dynamo takes the first for True where it traces into this file, and goes no further.
    return not torch.compiler.is_dynamo_compiling() and bool(torch._C._len_torch_dispatch_stack())


Versions: TypeAlias = tuple[tuple[torch.Tensor, int], ...]
"""Tensors, and how often each has been written to."""


def versions(args: Iterable[Any], kwargs: Mapping[str, Any]) -> Versions:
    """Returns the tensors among arguments with their versions."""
    return tuple(
        [
            (value, value._version)
            for value in (*args, *kwargs.values())
            if isinstance(value, torch.Tensor) and not value.is_inference()
        ]
    )


def written_since(before: Versions) -> list[torch.Tensor]:
    """Returns the tensors that have been written to since."""
    return [tensor for tensor, version in before if tensor._version != version]


def refuse_unsaid(
    promise: Any,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    said: Collection[int],
    written: Sequence[torch.Tensor],
) -> None:
    """Raises OperatorError where a call wrote to another input than those, by number."""
    values = promise.values(args, kwargs)
    known = _memory([value for number, (_, value) in enumerate(values) if number in said])
    for name, value in values:
        if any(value is each for each in written) and _memory([value]).isdisjoint(known):
            raise REFUSED["writes (unsaid)"](parameter=name, name=promise.name)


def _note_write(
    promise: Any, args: tuple[Any, ...], kwargs: dict[str, Any], result: Any, before: Versions
) -> None:
    """Notes that a function writes to its first argument and returns it first, or to what it says:
    a plan lets later uses of it read what was written. Raises OperatorError where it writes to
    another one.
    """
    written = written_since(before)
    if not written:
        return
    results = list(result) if isinstance(result, list | tuple) else [result]
    names = [name for name, _ in promise.values(args, kwargs)]
    said = {number for each in promise.writes if (number := number_of(each, names)) is not None}
    first = args[0] if args and any(args[0] is each for each in written) else None
    if not said and first is not None and results and results[0] is first:
        said = {0}
    refuse_unsaid(promise, args, kwargs, said, written)
    given = _memory([*args, *kwargs.values()])
    promise.note_write(_memory(results[len(said) :]).isdisjoint(given))


def _memory(values: Sequence[Any]) -> set[int]:
    """The memory of tensors, stand-ins too; it is compared and never read."""
    return {value.untyped_storage()._cdata for value in values if hasattr(value, "_version")}


def sees_write(operator: Operator, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    """Whether tracing sees that a registered function writes to its first input and returns it
    first. Arguments without data are given, as when a model is traced.
    """
    target: Any = operator.function
    function = getattr(target, "_torchdynamo_orig_callable", target)
    # What it raises without data is nothing that it wrote.
    with suppress(Exception):
        before = versions(args, kwargs)
        _note_write(operator.declare, args, kwargs, function(*args, **kwargs), before)
    return bool(getattr(operator.declare, "noted", ()))


_DYNAMO = "torch._dynamo"
_waiting: list[tuple[Any, Any]] = []


def _one_operator(leaf: Any, function: Callable[..., Any] | None = None) -> None:
    """Lets ``leaf`` stand in graphs as it is, and stand there for calls of ``function`` too."""
    dynamo = sys.modules.get(_DYNAMO)
    if dynamo is not None and not getattr(dynamo.__spec__, "_initializing", False):
        _announce(leaf, function)
        return
    if not _waiting:
        sys.meta_path.insert(0, _Watch())
    _waiting.append((leaf, function))


def _announce(leaf: Any, function: Callable[..., Any] | None) -> None:
    allow: Any = torch.compiler.allow_in_graph
    allow(leaf)
    if function is None or (function.__module__ or "").partition(".")[0] == "torch":
        return

    def stands_for(*args: Any, **kwargs: Any) -> Any:
        return leaf(*args, **kwargs)

    # torch 2.10 looks into a compiled function first.
    if hasattr(function, "_torchdynamo_inline"):
        vars(function)["_torchdynamo_inline"] = stands_for
    # ValueError: it was registered before, and the older leaf stands for it just as well.
    with suppress(ValueError):
        torch.compiler.substitute_in_graph(function, skip_signature_check=True)(stands_for)


class _Watch(MetaPathFinder):
    """Sees the import of Dynamo, lets the ordinary finders do it, and announces what has waited."""

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
            waiting, _waiting[:] = list(_waiting), []
            for leaf, function in waiting:
                _announce(leaf, function)

        spec.loader.exec_module = exec_module  # type: ignore[method-assign]  # torch's own loader, and then ours
        return spec
