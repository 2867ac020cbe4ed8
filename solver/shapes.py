"""Shapes as callers give them, made into tuples of Dims.

A shape is a sequence of dimensions (an int, dimension text, a SymPy expression made by dimsolve,
``None`` for an unknown one), or one text for all of them (`dimsolve.ir.read_expression.read_shape`
says how it is written), or a tensor or array, whose shape is taken, or ``None`` for a value whose
shape is not known or not looked at.

    "8*s, k"   "[8, k]"   [8, "k"]   (8*s, k)   torch.Size([8, 64])   torch.ones(8, 64)   None

What makes an expression a length: the claims under which it is at least 1, as plain as can be.

n - 5            n - 5 >= 1
n//2             n >= 2
n % 4            n % 4 != 0
max(0, n - 5)    n - 5 >= 1
min(n, s - 2)    n >= 1, s - 2 >= 1

The parameters that questions share, checked before anything is solved.

    infer("a -> a", 3)                 inputs is not a list of shapes
    infer("a -> a", "8*s")             a text is one shape: give ["8*s"]
    prove("s > 0", facts={"s": 2})     facts is not a list of relations

    infer("h t -> t", arguments={"H": 8})       no identifier is named H: did you mean 'h'?
    prove("k % 8 == 0", facts=["K % 8 == 0"])   the claim has no K: did you mean 'k'?

Types are told apart here, once; what the values mean is read in `dimsolve.solver.shapes` and
`dimsolve.ir.read_expression`.

An argument must be named as an identifier. A fact may speak of other symbols than the question, for
two reasons: one that is connected with it by facts (``n == 8*m`` in a question about n), and one
list of facts that is given to several questions. Facts that are not connected change no answer. But
one whose name is a slip of the pen for a name in the question is refused: a name that differs only
in case or underscores, or by one letter inside a word of four letters or more, unless the facts use
both spellings.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from difflib import get_close_matches
from functools import lru_cache
from operator import index
from typing import Any, TypeAlias

from dimsolve.ir.errors import (
    AnnotationError,
    Diagnostic,
    DimsolveError,
    ShapeError,
    described,
    shown,
    wrong_type,
)
from dimsolve.ir.expression import Comparison, Expression, Relation
from dimsolve.ir.read_expression import MAX_DIGITS, read_dimension, read_shape

from .algebra.dims import Call, Function, from_expression, surely_positive
from .algebra.poly import UNIT, Dim, Poly, TooLarge, atoms_of, symbol, terms_of
from .proof.claims import Claim

_DIVISIONS = (Function.FLOORDIV, Function.MOD, Function.CEILDIV)


def has_value(dim: Dim) -> Iterator[Claim]:
    """Yields claims that hold together exactly where no divisor in the dim is 0.

    >>> from dimsolve.solver.shapes import to_dim
    >>> [str(claim) for claim in has_value(to_dim("8//(n - 1) + n//2"))]
    ['n - 1 != 0']
    """
    for atom in sorted(atoms_of(dim)):
        if not isinstance(atom, Call):
            continue
        for argument in atom.arguments:
            yield from has_value(argument)
        divisor = atom.arguments[-1]
        if atom.function in _DIVISIONS and not surely_positive(divisor):
            yield Claim(divisor, Comparison.NE, 0)


def is_length(dim: Dim) -> Iterator[Claim]:
    """Yields claims that hold together exactly where the dim has a value and is at least 1."""
    if not surely_positive(dim):
        yield from has_value(dim)
        yield from at_least(dim, 1)


def at_least(dim: Dim, least: Dim) -> Iterator[Claim]:
    """Yields claims that hold together exactly where ``dim >= least``, if it has a value.

    >>> from dimsolve.solver.shapes import to_dim
    >>> [str(claim) for claim in at_least(to_dim("2*(n//3) - 1"), 1)]
    ['n >= 3']
    """
    line = _line_in_call(dim)
    if line is None or not isinstance(least, int):
        yield Claim(dim, Comparison.GE, least)
        return
    slope, call, offset = line
    bound = -((offset - least) // slope)
    match call.function:
        case Function.FLOORDIV if surely_positive(call.arguments[1]):
            dividend, divisor = call.arguments
            yield from at_least(dividend, divisor * bound)
        case Function.CEILDIV if surely_positive(call.arguments[1]):
            dividend, divisor = call.arguments
            yield from at_least(dividend, divisor * (bound - 1) + 1)
        case Function.MOD if bound == 1 and surely_positive(call.arguments[1]):
            yield Claim(symbol(call), Comparison.NE, 0)
        case Function.MIN:
            for argument in call.arguments:
                yield from at_least(argument, bound)
        case Function.MAX:
            yield from _any_at_least(call, bound)
        case _:
            yield Claim(symbol(call), Comparison.GE, bound)


def _any_at_least(call: Call, least: int) -> Iterator[Claim]:
    """A maximum: a number in it decides at once, or says nothing."""
    open_ = [dim for dim in call.arguments if not isinstance(dim, int)]
    if any(isinstance(dim, int) and dim >= least for dim in call.arguments):
        return
    if len(open_) == 1:
        yield from at_least(open_[0], least)
    else:
        yield Claim(symbol(call), Comparison.GE, least)


def _line_in_call(dim: Dim) -> tuple[int, Call, int] | None:
    """(a, call, b) where the dim is a*call + b with a positive; None for another form."""
    terms = dict(terms_of(dim))
    offset = terms.pop(UNIT, 0)
    if len(terms) != 1:
        return None
    ((monomial, slope),) = terms.items()
    if slope < 1 or len(monomial) != 1 or monomial[0][1] != 1:
        return None
    call = monomial[0][0]
    return (slope, call, offset) if isinstance(call, Call) else None


Shape: TypeAlias = "tuple[Dim | None, ...]"
DimLike: TypeAlias = Any
"""An int (or what has ``__index__``), dimension text, a SymPy expression made by dimsolve, a Dim,
or None.
"""
ShapeLike: TypeAlias = "str | Sequence[DimLike] | Any | None"
MAX_NUMBER = 10**MAX_DIGITS
"""A number has as many digits as a written one: then it can be printed and multiplied."""


def to_dim(value: DimLike, place: str = "") -> Dim:
    """Returns the Dim of an int, a text or a SymPy expression.

    place: what it is, in words, for errors. Raises AnnotationError for what is no dimension and
    ShapeError for a negative number.

    >>> to_dim("8*s"), to_dim(12)
    (Poly(8*s), 12)
    """
    if value.__class__ is int:
        dim: Dim = value
    elif isinstance(value, str):
        dim = dim_of_text(value)
    elif isinstance(value, Poly):
        return value
    elif isinstance(value, bool):
        raise _not_a_dimension(value, place)
    else:
        dim = _dim_of_object(value, place)
    if isinstance(dim, int) and not 0 <= dim < MAX_NUMBER:
        raise _negative(dim, place) if -MAX_NUMBER < dim < 0 else _too_long(place)
    return dim


def _negative(dim: int, place: str) -> ShapeError:
    return ShapeError(
        Diagnostic(
            code="negative-dimension",
            title="a dimension is negative",
            reason=f"{place} is {dim}, less than 0" if place else f"{dim} is less than 0",
            hint="a size is 0 or more; write an unknown dimension as None",
        )
    )


def _too_long(place: str) -> AnnotationError:
    return AnnotationError(
        Diagnostic(
            code="too-many-digits",
            title="a number that is too long",
            reason=f"{place or 'a dimension'} has more than {MAX_DIGITS} digits",
        )
    )


@lru_cache(maxsize=8192)
def dim_of_text(text: str) -> Dim:
    """Returns the Dim of dimension text; the common ``s`` and ``8*s`` take a shortcut past the
    reader.
    """
    if text.isascii() and len(text) <= 64:
        if text.isdigit():
            return int(text)
        factor, times, name = text.partition("*")
        if not times and text.isidentifier():
            return symbol(text)
        if factor.isdigit() and name.isidentifier():
            return int(factor) * symbol(name)
    return dim_of_expression(read_dimension(text), text)


def dim_of_expression(expression: Expression, text: str) -> Dim:
    """Returns the canonical Dim; AnnotationError where it divides by 0 or grows past the limits."""
    try:
        return from_expression(expression)
    except ZeroDivisionError:
        reason, hint = "it divides by 0, so it has no value", ""
        code, title = "division-by-zero", "a division by zero"
    except TooLarge:
        reason, hint = "multiplied out it has too many terms", "write a smaller expression"
        code, title = "too-large", "the expression is too large"
    diagnostic = Diagnostic(code, title, text, (expression.span,), reason, hint)
    raise AnnotationError(diagnostic)


def _dim_of_object(value: Any, place: str) -> Dim:
    try:
        return index(value)
    except TypeError:
        pass
    if str(type(value).__module__).startswith(("sympy.", "dimsolve.")):
        from .symbolic import from_sympy

        try:
            return from_sympy(value)
        except AnnotationError as error:
            diagnostic = error.diagnostic
        reason = f"{place} is {diagnostic.reason}" if place else diagnostic.reason
        raise AnnotationError(replace(diagnostic, reason=reason))
    raise _not_a_dimension(value, place)


def _not_a_dimension(value: object, place: str) -> AnnotationError:
    return AnnotationError(
        Diagnostic(
            code="not-a-dimension",
            title=f"{place or 'this'} is not a dimension",
            reason=f"{place or 'it'} is {described(value)}",
            hint='give an int, a text such as "8*s", or a SymPy expression made by dimsolve',
        )
    )


def to_shape(value: ShapeLike, place: str = "") -> Shape | None:
    """Returns the dimensions of a shape in any of its forms; None stays None.

    place: which shape it is, in words, for errors. Raises AnnotationError for what cannot be read
    as a shape and ShapeError for a negative dimension.

    >>> to_shape("8*s, k")
    (Poly(8*s), Poly(k))
    """
    kind = value.__class__
    if value is None:
        return None
    if isinstance(value, str):
        dims: Shape = shape_of_text(value)
        if any(dim.__class__ is int and not 0 <= dim < MAX_NUMBER for dim in dims):
            _with_places(dims, place)
        return dims
    if kind is not tuple and kind is not list and not _is_sequence(value):
        shape = getattr(value, "shape", None)  # of a tensor of torch, NumPy or JAX
        number = any(base.__name__ == "generic" for base in type(value).__mro__)  # NumPy's
        if not isinstance(shape, tuple) or number:
            raise _not_a_shape(value, place)
        value = shape
    try:
        return tuple(
            [
                dim if dim.__class__ is int and 0 <= dim < MAX_NUMBER else to_optional_dim(dim)
                for dim in value
            ]
        )
    except DimsolveError as error:
        failed = error
    _with_places(value, place)
    raise failed


def _is_sequence(value: object) -> bool:
    return isinstance(value, Sequence) and not isinstance(value, bytes | bytearray | memoryview)


def _with_places(dims: Sequence[DimLike], place: str) -> None:
    """Reads the dimensions once more, to say of the wrong one which it is."""
    for number, dim in enumerate(dims):
        if dim is not None:
            to_dim(dim, f"{place}, dim {number}" if place else f"dim {number}")


def _not_a_shape(value: object, place: str) -> AnnotationError:
    return AnnotationError(
        Diagnostic(
            code="not-a-shape",
            title=f"{place or 'this'} is not a shape",
            reason=f"{place or 'it'} is {described(value)}",
            hint='give a sequence such as (8, "k"), a text such as "8*s, k", or None',
        )
    )


def to_optional_dim(value: DimLike) -> Dim | None:
    """Returns the Dim, or None for an unknown one."""
    return None if value is None else to_dim(value)


@lru_cache(maxsize=4096)
def shape_of_text(text: str) -> tuple[Dim, ...]:
    """Returns the Dims of a text such as ``8*s, k``."""
    if "(" not in text and "," in text:
        parts = [part.strip() for part in text.split(",")]
        if all(parts) and all(part.isascii() and part.isalnum() for part in parts):
            return tuple(dim_of_text(part) for part in parts)
    return tuple(dim_of_expression(dimension, text) for dimension in read_shape(text))


LEAST_SLIP = 4
"""Letters of a word; of shorter ones every two differ by a letter or so."""

_BYTES = bytes | bytearray | memoryview
_SHAPES_HINT = 'give one shape per annotated input, such as ["8*s, k", (8, "k")]'
_FACTS_HINT = 'give relations as text, such as ["k % 64 == 0", "s >= 2"]'


def to_inputs(inputs: Any) -> Sequence[Any]:
    """Returns the inputs where they are a sequence; AnnotationError for anything else."""
    if isinstance(inputs, str):
        hint = f"a text is one shape; give a list of shapes: [{inputs[:40]!r}]"
        raise wrong_type("inputs", inputs, "a list of shapes", hint)
    if not isinstance(inputs, Sequence) or isinstance(inputs, _BYTES):
        raise wrong_type("inputs", inputs, "a list of shapes", _SHAPES_HINT)
    return inputs


def to_arguments(arguments: Any) -> Mapping[str, Any]:
    """Returns the arguments by name, none for None; AnnotationError for what is no mapping."""
    if arguments is None:
        return {}
    hint = 'give lengths by name, such as {"h": 8}'
    if not isinstance(arguments, Mapping):
        raise wrong_type("arguments", arguments, "a mapping of names to lengths", hint)
    for name in arguments:
        if not isinstance(name, str):
            raise wrong_type("a name in arguments", name, "a text", hint)
    return arguments


def to_facts(facts: Any) -> tuple[str | Relation, ...]:
    """Returns the facts, one for a single text; AnnotationError for what are no facts."""
    if isinstance(facts, str | Relation):
        return (facts,)
    if not isinstance(facts, Iterable) or isinstance(facts, _BYTES | Mapping):
        raise wrong_type("facts", facts, "a list of relations", _FACTS_HINT)
    try:
        found = tuple(facts)
    except TypeError:  # such as a tensor without dimensions
        raise wrong_type("facts", facts, "a list of relations", _FACTS_HINT) from None
    for number, fact in enumerate(found):
        if not isinstance(fact, str | Relation):
            raise wrong_type(f"fact {number}", fact, "a relation", _FACTS_HINT)
    return found


def to_claim(claim: Any) -> str:
    """Returns the text of a claim; AnnotationError for anything else."""
    if not isinstance(claim, str):
        hint = "write a relation as text, such as 'n*(n + 1) % 2 == 0'"
        raise wrong_type("claim", claim, "a relation", hint)
    return claim


def as_whole(value: Any) -> int | None:
    """Returns the integer that a value is, also NumPy's or torch's; None for anything else.

    >>> as_whole(8), as_whole(True), as_whole(8.0)
    (8, None, None)
    """
    try:
        return None if isinstance(value, bool) else index(value)
    except TypeError:
        return None


def to_whole(parameter: str, value: Any, least: int, most: int | None = None) -> int:
    """Returns a whole number within bounds, from an int or what has ``__index__``.

    >>> to_whole("up_to", 8, 1)
    8
    """
    expected = f"a whole number from {least}"
    expected += " on" if most is None else f" to {most:,}"
    number = as_whole(value)
    if number is None or number < least or (most is not None and number > most):
        raise wrong_type(parameter, value, expected)
    return number


def to_flag(parameter: str, value: Any) -> bool:
    """Returns True or False, from a bool or NumPy's; AnnotationError for anything else."""
    if isinstance(value, bool):
        return value
    if type(value).__module__ == "numpy" and type(value).__name__ in ("bool", "bool_"):
        return bool(value)
    raise wrong_type(parameter, value, "True or False")


def to_choice(parameter: str, value: Any, choices: Collection[str]) -> str:
    """Returns one of a few words; AnnotationError that names them for anything else."""
    if isinstance(value, str) and value in choices:
        return value
    *others, last = choices
    raise wrong_type(parameter, value, f"one of {', '.join(others)} and {last}")


def nearest(name: str, known: Iterable[str]) -> str | None:
    """Returns the known name that looks most like one that is not known; None where none does.

    >>> nearest("K", ["m", "k"]), nearest("hedas", ["heads", "k"]), nearest("q", ["heads"])
    ('k', 'heads', None)
    """
    names = list(known)
    alike = [each for each in names if _folded(each) == _folded(name)]
    close = alike or get_close_matches(name, names, n=1)
    return close[0] if close else None


def unknown_argument(text: str, name: str, known: Sequence[str]) -> AnnotationError:
    """Returns the error for an argument that no identifier of the annotation is named as."""
    close = nearest(name, known)
    return AnnotationError(
        Diagnostic(
            code="unknown-argument",
            title="there is no such identifier",
            text=text,
            reason=f"an argument gives the length of '{shown(name)}', which is no identifier of "
            f"the annotation; its identifiers are {', '.join(known) or 'none'}",
            hint=f"did you mean '{close}'?" if close else "",
        )
    )


def _folded(name: str) -> str:
    return name.replace("_", "").casefold()


def is_slip(name: str, meant: str) -> bool:
    """Whether one name is the other with another case, or with one letter inside a word dropped,
    added, changed, or changed places with the next.
    """
    if _folded(name) == _folded(meant):
        return True
    before = 0
    while before < min(len(name), len(meant)) and name[before] == meant[before]:
        before += 1
    after = 0
    most = min(len(name), len(meant)) - before
    while after < most and name[-1 - after] == meant[-1 - after]:
        after += 1
    one, other = name[before : len(name) - after], meant[before : len(meant) - after]
    inside = before and after and name[before - 1].isalpha() and name[-after].isalpha()
    if not inside or min(len(name), len(meant)) < LEAST_SLIP or not (one + other).isalpha():
        return False
    return max(len(one), len(other)) == 1 or (len(one) == 2 and one == other[::-1])
