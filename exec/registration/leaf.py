"""A registered function as it is called: itself, and where it has no data to run on, its shapes.

    matmul_custom(x, w)                      runs; a try costs nothing, the call about 0.1 µs
    matmul_custom(x.to("meta"), ...)         runs on meta tensors if it can
                                             else the annotation gives the result's shape

Functions that read data (a kernel of a C library, ``.item()``, NumPy) cannot run on meta and fake
tensors, yet tracing needs their shapes. Where torch.compile traces *into* a function, on its way to
machine code, made-up results would become wrong programs: there the function's own error is raised.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

from dimsolve.ir.registry import operator_of

from .compiler_hook import one_operator

_MARK, _LEAF = "__dimsolve_function__", "__dimsolve_leaf__"


def bare_function(function: Any) -> Any:
    """Returns the function that a leaf stands for; another function is its own."""
    return getattr(function, _MARK, function)


def leaf_function(function: Callable[..., Any]) -> Callable[..., Any]:
    """Returns what is called in the function's place, and tells torch.compile to take it whole.

    A function has one leaf, however often it is registered.
    """
    known: Callable[..., Any] | None = getattr(function, _LEAF, None)
    if known is not None and getattr(known, _MARK, None) is function:
        return known
    bare = getattr(function, "_torchdynamo_orig_callable", None)
    leaf = _leaf(function) if bare is None else _compiled_leaf(function, bare)
    setattr(leaf, _MARK, function)
    setattr(function, _LEAF, leaf)
    one_operator(leaf, function)
    return leaf


def _leaf(function: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(function, updated=())
    def call(*args: Any, **kwargs: Any) -> Any:
        try:
            return function(*args, **kwargs)
        except Exception as error:
            if not _lack_data(args, kwargs):
                raise
            return _shapes_only(function, error, args, kwargs)

    return call


def _compiled_leaf(function: Callable[..., Any], bare: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(function, updated=())
    def call(*args: Any, **kwargs: Any) -> Any:
        # Compiled code must not see fake tensors: it reads their memory.
        if not _lack_data(args, kwargs):
            return function(*args, **kwargs)
        try:
            return bare(*args, **kwargs)
        except Exception as error:
            return _shapes_only(function, error, args, kwargs)

    return call


def leaf_class(function_class: Any) -> None:
    """Does the same for the ``apply`` of an autograd.Function class."""
    if _MARK in vars(function_class):
        return
    inherited = super(function_class, function_class).apply.__func__

    def apply(cls: Any, *args: Any, **kwargs: Any) -> Any:
        try:
            return inherited(cls, *args, **kwargs)
        except Exception as error:
            # A class derived from it has a promise of its own, or none.
            if cls is not function_class or not _lack_data(args, kwargs):
                raise
            return _shapes_only(cls, error, args, kwargs)

    function_class.apply = classmethod(apply)
    setattr(function_class, _MARK, function_class)
    one_operator(function_class)


def _lack_data(args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    from .shape_only import lack_data

    return lack_data(args, kwargs)


def _shapes_only(
    function: Any, error: Exception, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> Any:
    """The annotation's answer; the error where the function is no operator any more."""
    from .shape_only import outputs_without_data

    operator = operator_of(function)
    if operator is None:
        raise error
    return outputs_without_data(operator, error, args, kwargs)
