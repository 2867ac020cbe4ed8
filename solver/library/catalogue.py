"""The library: `find` an operator by the path that a captured model speaks, and its example calls.

    find("torch.nn.functional.linear").declare(x, w, b).annotation      "* k+, n k+, n -> * n"
    find("torch.Tensor.add_")       add, and it writes to its first input

Entries live in families, each of which is imported when something of it is first looked up;
spellings are in the alias table.
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
from dimsolve.solver.algebra.poly import Poly

from . import errors
from .aliases import ALIASES, IN_PLACE, canonical_path
from .dtypes_taken import check_dtypes
from .entry import Entry
from .families import FAMILIES, family_of
from .needs import collecting, with_needs
from .pointwise import Pointwise, in_place
from .samples import Example, Sample
from .values import NotKnown, PartsNotKnown, tensors_in
from .writing import opaque, with_reason

_ODD = (AttributeError, IndexError, KeyError, TypeError, ValueError, ZeroDivisionError)
"""What a declaration raises when it is given what is no tensor, no length and no dimension."""

NUMPY_NAMES = {"axis": "dim", "keepdims": "keepdim", "x": "input", "a": "input", "x2": "other"}
"""Names of parameters that torch takes from NumPy beside its own."""


@lru_cache(maxsize=64)
def _family(name: str) -> dict[str, Entry]:
    """The entries of one family by path."""
    return {item.path: item for item in import_module(f"{__package__}.{name}").ENTRIES}


def entries() -> dict[str, Entry]:
    """Returns every entry by its path; all families are imported."""
    return {path: item for name in FAMILIES for path, item in _family(name).items()}


def _locate(path: str) -> tuple[str, bool] | None:
    """The path of the entry that a path stands for, and whether it names its in-place variant."""
    path = canonical_path(path)
    for _ in range(3):
        if family_of(path) is not None:
            return path, False
        if path in IN_PLACE:
            located = _locate(IN_PLACE[path])
            return None if located is None else (located[0], True)
        if path not in ALIASES:
            return None
        path = canonical_path(ALIASES[path])
    return None


def _resolve(path: str) -> tuple[Entry, bool] | None:
    """The entry that a path stands for, and whether the path names its in-place variant."""
    located = _locate(path)
    family = None if located is None else family_of(located[0])
    if located is None or family is None:
        return None
    return _family(family)[located[0]], located[1]


def canonical(path: str) -> str | None:
    """Returns the path of the entry that a path stands for, None where there is none.

    >>> canonical("torch._C._nn.linear")
    'torch.nn.functional.linear'
    """
    located = _locate(path)
    return None if located is None else located[0]


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


@dataclass(frozen=True, slots=True)
class Declare:
    """Gives the Declaration of one call; what the entry does not know of is declared as ``?``, with
    the reason.
    """

    entry: Entry
    writes: bool = False

    def __call__(self, *args: Any, **kwargs: Any) -> Declaration:
        """Returns the declaration. Raises ShapeError where the arguments contradict each other."""
        if not NUMPY_NAMES.keys().isdisjoint(kwargs):
            kwargs = self._named_by_torch(kwargs)
        check_dtypes(self.entry.path, args, kwargs)
        with collecting() as needs:
            declaration = self._declared(args, kwargs)
        return with_needs(declaration, needs)

    def _declared(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Declaration:
        try:
            declaration = self.entry.declare(*args, **kwargs)
        except PartsNotKnown as problem:
            tensors = tensors_in([*args, *kwargs.values()])
            return opaque(tensors, 1, str(problem), returns="parts")
        except NotKnown as problem:
            self._check_operands(args)
            return opaque(tensors_in([*args, *kwargs.values()]), 1, str(problem))
        except _ODD as problem:
            missing = self._missing(args, kwargs)
            if missing:
                raise errors.missing_argument(self.entry.path, missing) from None
            reason = f"{self.entry.path} is not known with these arguments: {problem}"
            return opaque(tensors_in([*args, *kwargs.values()]), 1, reason)
        return with_reason(in_place(declaration) if self.writes else declaration)

    def _check_operands(self, args: tuple[Any, ...]) -> None:
        """An element-wise function of torch takes tensors: numbers and texts alone are refused."""
        if isinstance(self.entry.declare, Pointwise) and self.entry.path.startswith("torch."):
            plain = [isinstance(a, str | int | Poly) or type(a) is float for a in args]
            if args and all(plain):
                raise errors.no_tensor(self.entry.path, args)

    def _missing(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> str:
        """The first parameter that has no default and is not given; "" where there is none, or a
        keyword may stand for it that is not known of.
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

    def _named_by_torch(self, kwargs: dict[str, Any]) -> dict[str, Any]:
        """The arguments with torch's own names, which it lets NumPy's stand for."""
        own = _parameters(self.entry.declare)
        names = {name: NUMPY_NAMES.get(name, name) for name in kwargs}
        return {name if name in own else names[name]: kwargs[name] for name in kwargs}


def _parameters(declare: Callable[..., Declaration]) -> tuple[str, ...]:
    """The names of the parameters in order, ``*name`` for one that takes the rest."""
    if isinstance(declare, Pointwise):
        return declare.parameters
    parameters = inspect.signature(declare).parameters.values()
    return tuple(str(parameter).partition(":")[0].partition("=")[0] for parameter in parameters)


def names() -> tuple[str, ...]:
    """Returns the path of every callable that the library knows, sorted: entries and their other
    spellings.
    """
    own = (path for paths in FAMILIES.values() for path in paths.split())
    return tuple(sorted({*own, *(p for p in (*ALIASES, *IN_PLACE) if _locate(p))}))


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
    reasons = dict.fromkeys(
        declaration.frozen for declaration in declarations if declaration.frozen
    )
    return Summary(path, tuple(texts), replace_empty(resolved[0].note, reasons))


def replace_empty(note: str, reasons: Any) -> str:
    """Returns the note, followed by the reasons why nothing can be split."""
    return "; ".join([note] * bool(note) + list(reasons))
