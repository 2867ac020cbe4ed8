"""Writing an annotation for one call, from what the values of the call are.

A tensor is anything with ``shape`` and ``dtype``: real, fake, or a stand-in whose lengths are
symbols. Its shape, or a length, is None where it is not known. A pattern is a list of dimensions as
text; a mark belongs to the word, so that every use of it has the mark.

    dims_of(x)            (batch, seq, 512)
    axis(-1, 3)           2
    names = Names()
    m, k, n = names.take(2, ""), names.one("+"), names.one()
    annotation([[*m, k], [n, k]], [[*m, n]])        "a b c+, d c+ -> a b d"
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from dataclasses import replace
from operator import index
from typing import Any, TypeAlias

from dimsolve.ir.annotation import MARKS
from dimsolve.ir.operator import Declaration

from ...algebra.poly import Dim, Poly
from ...layout import fresh_names
from ...shapes import to_dim
from . import errors
from .needs import GE, need

_WORD = re.compile(r"([^\W\d]\w*)[+^]?")
Pattern: TypeAlias = "Sequence[str]"


class Names:
    """Gives the identifiers of one annotation: a, b, c, ..."""

    def __init__(self, taken: Collection[str] = ()) -> None:
        self._names = fresh_names(set(taken))

    def one(self, mark: str = "") -> str:
        """Returns a new identifier with its mark."""
        return next(self._names) + mark

    def take(self, count: int, mark: str = "") -> list[str]:
        """Returns that many new identifiers."""
        return [self.one(mark) for _ in range(count)]


def bare(word: str) -> str:
    """Returns an identifier without its mark.

    >>> bare("k+")
    'k'
    """
    return word.rstrip(MARKS)


def group(*words: str) -> str:
    """Returns one dimension that is a product, outermost first; ones are left out.

    >>> group("a", "1", "8"), group("a"), group("1")
    ('(a 8)', 'a', '1')
    """
    factors = [word for word in words if word != "1"]
    return f"({' '.join(factors)})" if len(factors) > 1 else factors[0] if factors else "1"


def tensor(pattern: Pattern | None) -> str:
    """Returns the text of one tensor: ``a b``, ``()`` for no dimensions, ``?`` for None."""
    return "?" if pattern is None else " ".join(pattern) or "()"


def annotation(inputs: Sequence[Pattern | None], outputs: Sequence[Pattern | None]) -> str:
    """Returns the text of an annotation.

    >>> annotation([["a", "b+"], []], [["a"]])
    'a b+, () -> a'
    """
    left, right = (", ".join(map(tensor, side)) for side in (inputs, outputs))
    return f"{left} -> {right}"


def freeze(pattern: Pattern) -> list[str]:
    """Returns the pattern with every identifier marked ``^``."""
    return [freeze_word(word) for word in pattern]


def freeze_word(dim: str) -> str:
    """Returns one dimension with its identifiers marked ``^``.

    >>> freeze_word("(a 8 b+)"), freeze_word("1")
    ('(a^ 8 b^)', '1')
    """
    inner = dim[1:-1] if dim.startswith("(") else dim
    words = [word if word.isdecimal() else bare(word) + "^" for word in inner.split(" ")]
    return f"({' '.join(words)})" if dim.startswith("(") else words[0]


def freeze_text(text: str) -> str:
    """Returns an annotation with every identifier marked ``^``.

    >>> freeze_text("a (b 2), c+ -> a, ()")
    'a^ (b^ 2), c^ -> a^, ()'
    """
    return _WORD.sub(r"\1^", text)


def identifiers_in(word: str) -> list[str]:
    """Returns the identifiers of one dimension, without marks.

    >>> identifiers_in("(g 2 r^)")
    ['g', 'r']
    """
    return [found[1] for found in _WORD.finditer(word)]


def freeze_some(text: str, identifiers: Collection[str]) -> str:
    """Returns an annotation with these identifiers marked ``^``.

    >>> freeze_some("a (b 2), c+ -> a, b", {"b"})
    'a (b^ 2), c+ -> a, b^'
    """
    if not identifiers:
        return text
    return _WORD.sub(lambda m: f"{m[1]}^" if m[1] in identifiers else m[0], text)


def length_word(
    names: Names, arguments: dict[str, Any], length: Dim | None, mark: str = "^"
) -> str:
    """Returns a word for a length that no input gives: a number, or an identifier bound in
    ``arguments``.

    None gives an identifier that stays open: only running can tell it. A length is 0 or more: where
    it is less, the call is not possible.
    """
    if length is not None:
        need(length, GE, 0, errors.negative_length(length))
    if isinstance(length, int) and length < 2:
        return str(length)
    word = names.one(mark)
    if length is not None:
        arguments[bare(word)] = length
    return word


_IDENTIFIER = re.compile(r"(?:[^\W\d]\w*|\*)([+^]?)")
WHOLE = "each part of the result needs all of the input"


def with_reason(declaration: Declaration) -> Declaration:
    """Returns the declaration with a reason exactly where it has identifiers and all are frozen.

    >>> with_reason(Declaration("a^ -> a^", ())).frozen
    'each part of the result needs all of the input'
    """
    marks = _IDENTIFIER.findall(declaration.annotation)
    if not marks or all(mark == "^" for mark in marks) is bool(declaration.frozen):
        return declaration
    return replace(declaration, frozen="" if declaration.frozen else WHOLE)


def opaque(tensors: Sequence[Any], outputs: int, reason: str, **more: Any) -> Declaration:
    """Returns a declaration that says nothing but ``?``, and why: all is replicated."""
    text = annotation([None] * len(tensors), [None] * outputs)
    return Declaration(text, tuple(tensors), frozen=reason, **more)


Lengths: TypeAlias = "tuple[Dim | None, ...]"


class NotKnown(Exception):
    """A declaration needs what is not known of the call; its text says what."""


class PartsNotKnown(NotKnown):
    """How many tensors a call gives is not known."""


def is_tensor(value: Any) -> bool:
    """Whether the value has a shape and a dtype.

    >>> is_tensor(3), is_tensor([1])
    (False, False)
    """
    return hasattr(value, "dtype") and hasattr(value, "shape")


def is_dim(value: Any) -> bool:
    """Whether the value is a length: an int or a Poly, and no bool."""
    return isinstance(value, int | Poly) and not isinstance(value, bool)


def dims_of(tensor: Any, what: str = "a tensor") -> Lengths:
    """Returns the lengths of a tensor, None for unknown ones. Raises NotKnown where not even their
    number is known.
    """
    shape = tensor.shape
    if shape is None:
        raise NotKnown(f"the rank of {what} is not known")
    return tuple([d if d is None or d.__class__ is int else to_dim(d) for d in shape])


def tensors_in(values: Any) -> list[Any]:
    """Returns the tensors among values, looking into lists and tuples, in order."""
    if isinstance(values, list | tuple):
        return [tensor for value in values for tensor in tensors_in(value)]
    return [values] if is_tensor(values) else []


def axis(dim: Any, rank: int) -> int:
    """Returns a dimension counted from 0. Raises ShapeError for one that does not exist.

    >>> axis(-1, 3)
    2
    """
    number = index(dim)
    room = max(rank, 1)  # torch lets 0 and -1 name the dimension that a scalar has not
    if not -room <= number < room:
        raise errors.no_such_dim(number, rank)
    return number % room


def axes(dims: Any, rank: int, *, empty_means_all: bool = True) -> tuple[int, ...]:
    """Returns dimensions counted from 0, in the order given; None means all of them.

    Raises ShapeError for one that does not exist or stands twice.

    >>> axes((-1, 0), 3), axes(None, 2)
    ((2, 0), (0, 1))
    """
    if dims is None:
        return tuple(range(rank))
    listed = tuple(dims) if isinstance(dims, list | tuple) else (dims,)
    if not listed and empty_means_all:
        return tuple(range(rank))
    found = tuple(axis(dim, rank) for dim in listed)
    if len(set(found)) < len(found):
        raise errors.dim_twice(listed)
    return found if rank else ()


def listed(sizes: Sequence[Any]) -> tuple[Any, ...]:
    """Returns the sizes of a call that takes them one by one or as one sequence.

    >>> listed((2, 3)), listed(([2, 3],)), listed(((),))
    ((2, 3), (2, 3), ())
    """
    if len(sizes) == 1 and isinstance(sizes[0], list | tuple):
        return tuple(sizes[0])
    return tuple(sizes)


def rest_of(values: Sequence[Any], named: dict[str, Any], name: str) -> tuple[Any, ...]:
    """Returns what ``*name`` takes, also where it is given by its name. Raises NotKnown for other
    names.
    """
    if set(named) - {name}:
        raise NotKnown(f"the argument '{min(set(named) - {name})}' is not supported")
    return listed((named[name],) if name in named else values)


def known(dims: Lengths, what: str = "a tensor") -> tuple[Dim, ...]:
    """Returns the lengths where all are known; raises NotKnown otherwise."""
    if any(dim is None for dim in dims):
        raise NotKnown(f"a length of {what} is not known")
    return tuple(dim for dim in dims if dim is not None)


def as_tuple(value: Any) -> tuple[Any, ...]:
    """Returns a list or a tuple as a tuple, and any other value as a tuple of one."""
    return tuple(value) if isinstance(value, list | tuple) else (value,)


def per_dim(value: Any, count: int) -> tuple[Any, ...]:
    """Returns one value per spatial dimension: ``2`` and ``(2,)`` stand for ``(2, 2)``.

    >>> per_dim(2, 2), per_dim((1, 3), 2)
    ((2, 2), (1, 3))
    """
    if not isinstance(value, list | tuple):
        return (value,) * count
    if len(value) == 1:
        return (value[0],) * count
    if len(value) != count:
        raise errors.wrong_number("sizes", len(value), count)
    return tuple(value)
