"""From what `verify` is given to the operator that it means: a function, a class, a path, or data.

    torch.nn.functional.linear, "torch.matmul", "ops.py:my_op", MyFunction.apply

What is no operator is told with what it is instead, and what was probably meant.
"""

from __future__ import annotations

from difflib import get_close_matches
from importlib.util import find_spec
from types import ModuleType
from typing import Any

from dimsolve.ir.errors import Diagnostic, DimsolveError, OperatorError
from dimsolve.ir.operator import Operator
from dimsolve.ir.registry import operator_of
from dimsolve.ir.wrong_types import written
from dimsolve.partition.transforms import with_rules
from dimsolve.solver.graphs.deduction import find_operator
from dimsolve.solver.graphs.paths import path_of

from ..resolve import resolve

_REGISTER = 'register it: ds.register_op("m k+, k+ n -> m n")(function)'


def operator_for(target: Any) -> Operator:
    """Returns the operator that a function, a class or a path names. Raises OperatorError."""
    if isinstance(target, Operator):
        return target
    found = _at(target) if isinstance(target, str) else _of(target)
    if found is None:
        raise _unknown(target)
    return with_rules(found)


def _at(target: str) -> Operator | None:
    path = target.strip().replace(":", ".")
    found = find_operator(path)
    if found is not None:
        return found
    if not all(part.isidentifier() for part in path.split(".")):
        raise _no_path(target)
    try:
        value = resolve(path)
    except DimsolveError as error:
        raise (_module if "." not in path and find_spec(path) else _no_path)(target) from error
    if isinstance(value, ModuleType):
        raise _module(target)
    return _of(value) if callable(value) else None


def _of(function: Any) -> Operator | None:
    return operator_of(function) or find_operator(path_of(function))


def _error(title: str, reason: str, hint: str) -> OperatorError:
    return OperatorError(Diagnostic(code="unknown-operator", title=title, reason=reason, hint=hint))


def _unknown(target: Any) -> OperatorError:
    name = target if isinstance(target, str) else getattr(target, "__name__", written(target))
    reason = f"'{name}' is neither registered nor in the library"
    return _error("nothing is known of this function", reason, _REGISTER)


def _module(target: str) -> OperatorError:
    reason = f"'{target}' is a module, and a function is wanted"
    return _error("this is not a function", reason, f"write {target}:function")


def _no_path(target: str) -> OperatorError:
    if not target.strip(" .:"):
        reason, hint = "the target is empty", 'write "torch.matmul", or "module:function"'
    elif target.endswith(".py"):
        reason = f"'{target}' is a file, and a function is wanted"
        hint = f"write {target}:name"
    else:
        reason = f"'{target:.80}' can neither be imported nor is it registered"
        hint = _meant(target)
    return _error("there is no such function", reason, hint)


def _meant(target: str) -> str:
    from dimsolve.solver.library import names

    known = names()
    last = target.rpartition(".")[2]
    close = [path for path in known if path.rpartition(".")[2] == last]
    close = close or get_close_matches(target, known, n=2)
    return f"did you mean {' or '.join(sorted(close, key=len)[:2])}?" if close else _REGISTER
