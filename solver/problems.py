"""The contradictions that inference can meet, in words.

    ShapeError: t has no whole length
      (h t) -> h t
         ^
      h*t = 8 (input 0, dim 0) and h = 3 (argument h); 8 is not a multiple of 3
      hint: h can be 1, 2, 4 or 8

Each row says what cannot match, with which numbers, from where, and what would work. Numbers come
with their origins, so that neither side of a contradiction has to be looked for.
"""

from __future__ import annotations

from collections.abc import Sequence

from dimsolve.ir.characters import shown
from dimsolve.ir.checks import nearest, written
from dimsolve.ir.errors import AnnotationError, ShapeError, Span, problems

from .algebra.integers import divisors
from .algebra.poly import Dim

CONTRADICTIONS = problems(
    ShapeError,
    """
    input-count: the number of inputs does not match
      {annotated} annotated, {given} given
      hint: give one shape per annotated input, and None for '?' or an absent tensor
    rank: input {number} has the wrong rank
      '{pattern}' has {wants}, input {number} has {rank}: {shape}
      hint: {hint}
    star-rank: '*' stands for different numbers of dimensions
      '*' is {first} in input {one} and {second} in input {other}; it is the same dimensions
      everywhere
    two-lengths: {name} has two lengths
      {first}, but {second}
    not-the-number: a dimension is not {number}
      {origin} is {given}, the annotation says {number}
    no-whole-length: {name} has no whole length
      {equation} = {given} ({origin}){known}; {given} is not a multiple of {divisor}{assuming}
      hint: {hint}
    no-whole-length (no root): {name} has no whole length
      {name}**{degree} = {value} ({why}), and {value} is no whole number to the power of {degree}
    zero-product: a hidden product is zero
      {pattern} = 0 ({origin}) names no length of its factors
      hint: a dimension of size 0 can only match an identifier that stands alone
    no-positive-length: {name} is no positive length
      {why} needs {claim}, which never holds{where}
      hint: an empty dimension is written 0, and matches an identifier that stands alone
    no-solution: no whole lengths satisfy all dimensions
      no positive whole numbers satisfy {equations}
    bad-argument: argument {name} is not a length
      {name} = {value} (argument {name}) is not a positive integer; '{name}' is a length in the
      annotation{elsewhere}
      hint: pass a positive integer or dimension text as {name}, or rename the identifier
    fact-contradicts: a fact contradicts the inputs
      '{fact}' is false for {found}
    conditions-exclude: these inputs can never match
      they match only if {conditions}, which no values satisfy
    """,
)
UNANSWERABLE = problems(
    AnnotationError,
    """
    too-large: the lengths are too large
      multiplied out they have too many terms or digits
      hint: give smaller expressions, or one symbol for a whole length
    unbound-output: the length of {name} is given by nothing
      '{name}' stands in an output and in no input
      hint: pass it as the argument {name}, write a number, or name it in an input
    unknown-argument: there is no such identifier
      an argument gives the length of '{name}', which is no identifier of the annotation; its
      identifiers are {known}
      hint: {hint}
    """,
)


def shape_text(dims: Sequence[Dim | None]) -> str:
    """Returns ``(8*s, k)`` as people write a shape; an unknown dimension is ``?``."""
    inner = ", ".join("?" if dim is None else str(dim) for dim in dims)
    return f"({inner},)" if len(dims) == 1 else f"({inner})"


def wrong_count(text: str, annotated: int, given: int) -> ShapeError:
    """As many shapes must be given as inputs are annotated."""
    return CONTRADICTIONS["input-count"](
        text, annotated=_count(annotated, "input is", "inputs are"), given=given
    )


def wrong_rank(
    text: str, span: Span, number: int, pattern: str, minimum: int, dims: Sequence[Dim | None]
) -> ShapeError:
    """A tensor has another number of dimensions than its annotation."""
    wants = _count(minimum, "dimension", "dimensions")
    hint = f"give {wants}, or None where the shape is not known"
    if "*" in pattern:
        wants = f"at least {wants}"
        hint = "'*' may stand for no dimension; each of the others needs a length"
    words = {"pattern": pattern, "wants": wants, "shape": shape_text(dims), "hint": hint}
    return CONTRADICTIONS["rank"](text, span, number=number, rank=len(dims), **words)


def star_ranks(
    text: str, spans: tuple[Span, Span], first: tuple[int, int], second: tuple[int, int]
) -> ShapeError:
    """``*`` stands for different numbers of dimensions in two tensors."""
    (one, rank), (other, other_rank) = first, second
    count = _count(rank, "dimension", "dimensions")
    return CONTRADICTIONS["star-rank"](
        text, *spans, one=one, first=count, other=other, second=other_rank
    )


def no_whole_length(
    text: str,
    span: Span,
    name: str,
    equation: str,
    origin: str,
    given: Dim,
    factors: Sequence[tuple[str, Dim, str]],
    divisor: Dim,
    assuming: str,
) -> ShapeError:
    """A hidden identifier's length would be a fraction. factors: name, value and origin of each."""
    known = "".join(f" and {factor} = {value} ({why})" for factor, value, why in factors)
    hint = ""
    if isinstance(given, int) and len(factors) == 1 and isinstance(factors[0][1], int):
        scale = divisor // factors[0][1] if isinstance(divisor, int) else 1
        choices = divisors(given // scale) if given % scale == 0 else None
        if choices:
            hint = f"{factors[0][0]} can be {_either(choices)}"
    words = {"name": name, "equation": equation, "origin": origin, "known": known, "hint": hint}
    return CONTRADICTIONS["no-whole-length"](
        text, span, given=given, divisor=divisor, assuming=assuming, **words
    )


def no_solution(text: str, spans: Sequence[Span], equations: Sequence[object]) -> ShapeError:
    """Several equations have no common solution in positive integers."""
    return CONTRADICTIONS["no-solution"](text, *spans, equations=" and ".join(map(str, equations)))


def bad_argument(text: str, span: Span, name: str, value: object, elsewhere: str) -> ShapeError:
    """A same-named argument is not a positive integer."""
    return CONTRADICTIONS["bad-argument"](
        text, span, name=name, value=written(value), elsewhere=elsewhere
    )


def conditions_exclude(text: str, conditions: Sequence[str]) -> ShapeError:
    """The conditions under which the inputs match exclude each other, or the facts."""
    return CONTRADICTIONS["conditions-exclude"](text, conditions=" and ".join(conditions))


def unknown_argument(text: str, name: str, known: Sequence[str]) -> AnnotationError:
    """An argument that no identifier of the annotation is named as."""
    close = nearest(name, known)
    hint = f"did you mean '{close}'?" if close else ""
    return UNANSWERABLE["unknown-argument"](
        text, name=shown(name), known=", ".join(known) or "none", hint=hint
    )


def _count(number: int, one: str, many: str) -> str:
    return f"{number} {one if number == 1 else many}"


def _either(choices: Sequence[int]) -> str:
    if len(choices) == 1:
        return str(choices[0])
    listed = list(map(str, choices if len(choices) <= 8 else [*choices[:6], "...", choices[-1]]))
    return f"{', '.join(listed[:-1])} or {listed[-1]}"
