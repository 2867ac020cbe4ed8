"""The library of torch's own callables: `find` an operator by its path, and its example calls.

    find("torch.nn.functional.linear").declare(x, w, b).annotation      "* k+, n k+, n -> * n"
    find("torch.Tensor.add_")       add, and it writes to its first input
    summary("torch.eye")            one line for ``dimsolve ops``

Entries stand in families, each of which is imported when something of it is first looked up;
`paths` says which family has what, and under which other names.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from importlib import import_module
from typing import Any

from dimsolve.ir.errors import ShapeError
from dimsolve.ir.operator import Declaration, Operator
from dimsolve.ir.read_annotation import read_annotation

from ..algebra.poly import Poly
from .declare import errors
from .declare.dtypes import check_dtypes
from .declare.entry import Entry, Example, Sample
from .declare.needs import collecting, with_needs
from .declare.writing import NotKnown, PartsNotKnown, opaque, tensors_in, with_reason
from .elementwise.pointwise import Pointwise, in_place
from .paths import FAMILIES, canonical_path, family_of, locate

_ODD = (AttributeError, IndexError, KeyError, TypeError, ValueError, ZeroDivisionError)
"""What a declaration raises when it is given what is no tensor, no length and no dimension."""

_ONLY_ITS_DTYPE = ("torch.Tensor.to", "torch.Tensor.type_as")
"""Functions that take nothing of a second tensor but its dtype and device."""

NUMPY_NAMES = {"axis": "dim", "keepdims": "keepdim", "x": "input", "a": "input", "x2": "other"}
"""Names of parameters that torch takes from NumPy beside its own."""


@lru_cache(maxsize=64)
def _family(name: str) -> dict[str, Entry]:
    """The entries of one family by path."""
    return {item.path: item for item in import_module(f"{__package__}.{name}").ENTRIES}


def entries() -> dict[str, Entry]:
    """Returns every entry by its path; all families are imported."""
    return {path: item for name in FAMILIES for path, item in _family(name).items()}


def _resolve(path: str) -> tuple[Entry, bool] | None:
    """The entry that a path stands for, and whether the path names its variant in place."""
    located = locate(path)
    family = None if located is None else family_of(located[0])
    if located is None or family is None:
        return None
    return _family(family)[located[0]], located[1]


@lru_cache(maxsize=4096)
def find(path: str) -> Operator | None:
    """Returns the operator of a torch callable, None for one that the library does not know.

    path: ``"torch.matmul"``, ``"torch.Tensor.view"``, ``"operator.add"``, or any spelling of the
    alias table, such as ``"torch._C._nn.linear"`` or ``"torch.Tensor.add_"``.

    >>> find("torch.Tensor.add_").mutates
    (0,)
    """
    resolved = _resolve(path)
    if resolved is None:
        return None
    item, writes = resolved
    return Operator(
        name=path.rpartition(".")[2].rstrip("_") or path,
        path=path,
        declare=Declare(item, writes),
        mutates=(0,) if writes else (),
        parameters=_parameters(item.declare),
    )


def is_pointwise(path: str) -> bool:
    """Returns whether a callable treats every element by itself.

    >>> is_pointwise("torch.Tensor.add_"), is_pointwise("torch.matmul")
    (True, False)
    """
    resolved = _resolve(path)
    return resolved is not None and isinstance(resolved[0].declare, Pointwise)


def _parameters(declare: Callable[..., Declaration]) -> tuple[str, ...]:
    """The names of the parameters in order, ``*name`` for one that takes the rest."""
    if isinstance(declare, Pointwise):
        return declare.parameters
    parameters = inspect.signature(declare).parameters.values()
    return tuple(str(parameter).partition(":")[0].partition("=")[0] for parameter in parameters)


@dataclass(frozen=True, slots=True)
class Declare:
    """Gives the Declaration of one call; ``?``, with the reason, where the entry cannot say more.

    writes: the result is written to the first input.
    """

    entry: Entry
    writes: bool = False

    def __call__(self, *args: Any, **kwargs: Any) -> Declaration:
        """Returns the declaration. Raises ShapeError where the arguments contradict each other."""
        if not NUMPY_NAMES.keys().isdisjoint(kwargs):
            own = _parameters(self.entry.declare)
            kwargs = {k if k in own else NUMPY_NAMES.get(k, k): v for k, v in kwargs.items()}
        check_dtypes(self.entry.path, args, kwargs)
        with collecting() as needs:
            declaration = self._declared(args, kwargs)
        return with_needs(declaration, needs)

    def _declared(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Declaration:
        outputs, returns = 1, "tensor"
        try:
            declaration = self.entry.declare(*args, **kwargs)
        except PartsNotKnown as problem:
            reason, returns = str(problem), "parts"
        except NotKnown as problem:
            self._check_operands(args)
            reason = str(problem)
        except _ODD as problem:
            missing = self._missing(args, kwargs)
            if missing:
                raise errors.missing_argument(self.entry.path, missing) from None
            reason = f"{self.entry.path} is not known with these arguments: {problem}"
        else:
            reason = self._left_out(declaration, args, kwargs)
            if not reason:
                return with_reason(in_place(declaration) if self.writes else declaration)
            outputs, returns = (
                len(read_annotation(declaration.annotation).outputs),
                declaration.returns,
            )
        return opaque(tensors_in([*args, *kwargs.values()]), outputs, reason, returns=returns)

    def _left_out(
        self, declaration: Declaration, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> str:
        """Why a call with a tensor that its annotation leaves out stays whole: a rank would have
        all of that tensor beside a part of the others. "" where there is none.
        """
        if not declaration.inputs or self.entry.path in _ONLY_ITS_DTYPE:
            return ""
        inputs = {id(value) for value in declaration.inputs}
        for place, value in [*enumerate(args), *kwargs.items()]:
            if any(id(tensor) not in inputs for tensor in tensors_in(value)):
                return f"argument {place} of {self.entry.path} is a tensor, which is not known of"
        return ""

    def _check_operands(self, args: tuple[Any, ...]) -> None:
        """An element-wise function of torch takes tensors: numbers and texts alone are refused."""
        if isinstance(self.entry.declare, Pointwise) and self.entry.path.startswith("torch."):
            plain = [isinstance(a, str | int | Poly) or type(a) is float for a in args]
            if args and all(plain):
                raise errors.no_tensor(self.entry.path, ", ".join(map(repr, args)))

    def _missing(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> str:
        """The first parameter that has no default and is not given; "" where there is none, or
        where an unknown keyword may stand for it.
        """
        if isinstance(self.entry.declare, Pointwise):
            return ""
        parameters = inspect.signature(self.entry.declare).parameters
        if not parameters.keys() >= kwargs.keys():
            return ""
        for place, (name, parameter) in enumerate(parameters.items()):
            if parameter.kind is not parameter.POSITIONAL_OR_KEYWORD:
                return ""
            if parameter.default is parameter.empty and place >= len(args) and name not in kwargs:
                return name
        return ""


def specimens(path: str) -> tuple[Example, ...]:
    """Returns the example calls of a callable as data, which needs no torch; () for one that is not
    known.
    """
    resolved = _resolve(path)
    if resolved is None:
        return ()
    item, writes = resolved
    if path == item.path:
        return item.examples
    calls = tuple(call for call in item.examples if "inplace" not in call.kwargs)
    if writes:
        return tuple(call for call in calls if _can_write(item, call))
    if canonical_path(path).startswith("torch.Tensor."):
        return tuple(call for call in calls if _first_is_tensor(call))
    return calls


def _first_is_tensor(call: Example) -> bool:
    """Whether the call can be one of a method."""
    return bool(call.args) and isinstance(call.args[0], Sample)


def _can_write(item: Entry, call: Example) -> bool:
    """Whether the first argument can hold the result."""
    try:
        declaration = Declare(item, True)(*call.args, **call.kwargs)
        return _first_is_tensor(call) and bool(declaration.mutates)
    except ShapeError:
        return False


def examples(path: str) -> list[tuple[tuple[Any, ...], dict[str, Any]]]:
    """Returns example calls ``(args, kwargs)`` with new torch tensors, the same values each time.

    Tensors in which torch has a gradient require one, but not where the call writes to its inputs.
    """
    operator = find(path)
    if operator is None:
        return []
    calls = specimens(path)
    writes = [bool(operator.declare(*call.args, **call.kwargs).mutates) for call in calls]
    return [call.build(grad=not w) for call, w in zip(calls, writes, strict=True)]


@dataclass(frozen=True, slots=True)
class Summary:
    """One line of ``dimsolve ops``: the annotations of the example calls, and why nothing can be
    split, or what to know.
    """

    path: str
    annotations: tuple[str, ...]
    note: str


def summary(path: str) -> Summary | None:
    """Returns what the library says of a callable, None where it does not know it.

    >>> summary("torch.add").annotations
    ('*, * -> *', 'a b, b -> a b', 'a 1 c, b c -> a b c', '* -> *')
    """
    operator, resolved = find(path), _resolve(path)
    if operator is None or resolved is None:
        return None
    declarations = [operator.declare(*call.args, **call.kwargs) for call in specimens(path)]
    texts = dict.fromkeys(declaration.annotation for declaration in declarations)
    notes = [resolved[0].note, *[declaration.frozen for declaration in declarations]]
    return Summary(path, tuple(texts), "; ".join(dict.fromkeys(filter(None, notes))))
