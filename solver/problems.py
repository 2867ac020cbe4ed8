"""The contradictions that inference can meet, in words.

Every function makes one ShapeError: what cannot match, with which numbers, from where, and what
would work. Numbers come with their origins, so that neither side of a contradiction has to be
looked for.
"""

from __future__ import annotations

from collections.abc import Sequence

from dimsolve.ir.errors import AnnotationError, Diagnostic, ShapeError, Span, written

from .algebra.integers import divisors
from .algebra.poly import Dim


def shape_text(dims: Sequence[Dim | None]) -> str:
    """Returns ``(8*s, k)`` as people write a shape; an unknown dimension is ``?``."""
    inner = ", ".join("?" if dim is None else str(dim) for dim in dims)
    return f"({inner},)" if len(dims) == 1 else f"({inner})"


def wrong_count(text: str, annotated: int, given: int) -> ShapeError:
    """As many shapes must be given as inputs are annotated."""
    return ShapeError(
        Diagnostic(
            code="input-count",
            title="the number of inputs does not match",
            text=text,
            reason=f"{_count(annotated, 'input is', 'inputs are')} annotated, {given} given",
            hint="give one shape per annotated input, and None for '?' or an absent tensor",
        )
    )


def wrong_rank(
    text: str, span: Span, operand: int, pattern: str, minimum: int, dims: Sequence[Dim | None]
) -> ShapeError:
    """A tensor has another number of dimensions than its annotation."""
    wants = _count(minimum, "dimension", "dimensions")
    atleast = "at least " if "*" in pattern else ""
    hint = f"give {wants}, or None where the shape is not known"
    if atleast:
        hint = "'*' may stand for no dimension; each of the others needs a length"
    return ShapeError(
        Diagnostic(
            code="rank",
            title=f"input {operand} has the wrong rank",
            text=text,
            spans=(span,),
            reason=f"'{pattern}' has {atleast}{wants}, "
            f"input {operand} has {len(dims)}: {shape_text(dims)}",
            hint=hint,
        )
    )


def star_ranks(
    text: str, spans: tuple[Span, Span], first: tuple[int, int], second: tuple[int, int]
) -> ShapeError:
    """``*`` stands for different numbers of dimensions in two tensors."""
    return ShapeError(
        Diagnostic(
            code="star-rank",
            title="'*' stands for different numbers of dimensions",
            text=text,
            spans=spans,
            reason=f"'*' is {_count(first[1], 'dimension', 'dimensions')} in input {first[0]} "
            f"and {second[1]} in input {second[0]}; it is the same dimensions everywhere",
        )
    )


def two_lengths(
    text: str, spans: tuple[Span, ...], name: str, first: str, second: str
) -> ShapeError:
    """One identifier would have two lengths."""
    return ShapeError(
        Diagnostic("two-lengths", f"{name} has two lengths", text, spans, f"{first}, but {second}")
    )


def not_the_number(text: str, span: Span, written: str, given: str) -> ShapeError:
    """A dimension is not the number that the annotation says."""
    return ShapeError(
        Diagnostic("not-the-number", f"a dimension is not {written}", text, (span,), given)
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
    """A hidden identifier's length would be a fraction."""
    known = "".join(f" and {factor} = {value} ({why})" for factor, value, why in factors)
    hint = ""
    if isinstance(given, int) and len(factors) == 1 and isinstance(factors[0][1], int):
        scale = divisor // factors[0][1] if isinstance(divisor, int) else 1
        choices = divisors(given // scale) if given % scale == 0 else None
        if choices:
            hint = f"{factors[0][0]} can be {_either(choices)}"
    return ShapeError(
        Diagnostic(
            code="no-whole-length",
            title=f"{name} has no whole length",
            text=text,
            spans=(span,),
            reason=f"{equation} = {given} ({origin}){known}; "
            f"{given} is not a multiple of {divisor}{assuming}",
            hint=hint,
        )
    )


def no_root(text: str, span: Span, name: str, degree: int, value: Dim, why: str) -> ShapeError:
    """An identifier's power is known and is not a power of a whole number."""
    return ShapeError(
        Diagnostic(
            code="no-whole-length",
            title=f"{name} has no whole length",
            text=text,
            spans=(span,),
            reason=f"{name}**{degree} = {value} ({why}), "
            f"and {value} is no whole number to the power of {degree}",
        )
    )


def zero_product(text: str, span: Span, pattern: str, origin: str) -> ShapeError:
    """A hidden product is zero, so none of its factors can be told."""
    return ShapeError(
        Diagnostic(
            code="zero-product",
            title="a hidden product is zero",
            text=text,
            spans=(span,),
            reason=f"{pattern} = 0 ({origin}) names no length of its factors",
            hint="a dimension of size 0 can only match an identifier that stands alone",
        )
    )


def no_positive_length(
    text: str, span: Span, name: str, why: str, claim: str, known: Sequence[str]
) -> ShapeError:
    """An identifier's length would be 0 or negative, or have no value, whatever the symbols are."""
    where = f" where {' and '.join(known)}" if known else ""
    return ShapeError(
        Diagnostic(
            code="no-positive-length",
            title=f"{name} is no positive length",
            text=text,
            spans=(span,),
            reason=f"{why} needs {claim}, which never holds{where}",
            hint="an empty dimension is written 0, and matches an identifier that stands alone",
        )
    )


def too_large(text: str) -> AnnotationError:
    """The lengths, multiplied out, are past the limits of polynomials."""
    return AnnotationError(
        Diagnostic(
            code="too-large",
            title="the lengths are too large",
            text=text,
            reason="multiplied out they have too many terms or digits",
            hint="give smaller expressions, or one symbol for a whole length",
        )
    )


def no_solution(text: str, spans: tuple[Span, ...], equations: Sequence[str]) -> ShapeError:
    """Several equations have no common solution in positive integers."""
    return ShapeError(
        Diagnostic(
            code="no-solution",
            title="no whole lengths satisfy all dimensions",
            text=text,
            spans=spans,
            reason="no positive whole numbers satisfy " + " and ".join(equations),
        )
    )


def bad_argument(text: str, span: Span, name: str, value: object, elsewhere: str) -> ShapeError:
    """A same-named argument is not a positive integer."""
    also = f"; '{name}' is a length in the annotation{elsewhere}"
    return ShapeError(
        Diagnostic(
            code="bad-argument",
            title=f"argument {name} is not a length",
            text=text,
            spans=(span,),
            reason=f"{name} = {written(value)} (argument {name}) is not a positive integer{also}",
            hint=f"pass a positive integer or dimension text as {name}, or rename the identifier",
        )
    )


def fact_contradicts(text: str, fact: str, found: str) -> ShapeError:
    """A fact about identifiers is false for the lengths that the inputs give."""
    return ShapeError(
        Diagnostic(
            "fact-contradicts",
            "a fact contradicts the inputs",
            text,
            (),
            f"'{fact}' is false for {found}",
        )
    )


def conditions_exclude(text: str, conditions: Sequence[str]) -> ShapeError:
    """The conditions under which the inputs match exclude each other, or the facts."""
    return ShapeError(
        Diagnostic(
            code="conditions-exclude",
            title="these inputs can never match",
            text=text,
            reason="they match only if " + " and ".join(conditions) + ", which no values satisfy",
        )
    )


def unbound_output(text: str, span: Span, name: str) -> AnnotationError:
    """An output needs a length that nothing gives."""
    return AnnotationError(
        Diagnostic(
            code="unbound-output",
            title=f"the length of {name} is given by nothing",
            text=text,
            spans=(span,),
            reason=f"'{name}' stands in an output and in no input",
            hint=f"pass it as the argument {name}, write a number, or name it in an input",
        )
    )


def _count(number: int, one: str, many: str) -> str:
    return f"{number} {one if number == 1 else many}"


def _either(choices: Sequence[int]) -> str:
    if len(choices) == 1:
        return str(choices[0])
    shown = list(map(str, choices if len(choices) <= 8 else [*choices[:6], "...", choices[-1]]))
    return f"{', '.join(shown[:-1])} or {shown[-1]}"
