"""What can be wrong with an annotation's text, one function for each: it makes the error, the reader raises it.

    AnnotationError: '*' twice in one tensor
      * a * -> a
      ^   ^
      input 0 has two '*', and nothing says how its dimensions are shared out between them
      hint: name the dimensions of one of them

A reason says what stands where; a hint says what would work. Texts are tested word for word.
"""

from __future__ import annotations

from .annotation import Identifier, Mark, Star
from .character_errors import HYPHENS, describe, difference, replacement
from .errors import AnnotationError, Diagnostic
from .excerpt import shown
from .span import Span


def _error(
    code: str, title: str, text: str, spans: tuple[Span, ...], reason: str, hint: str = ""
) -> AnnotationError:
    return AnnotationError(Diagnostic(code, title, text, spans, reason, hint))


def place(text: str, offset: int) -> str:
    """Returns in which operand of an annotation an offset lies: ``input 0``, ``output 2``."""
    before = text[:offset]
    arrow = before.rfind("->")
    side = "input" if arrow < 0 else "output"
    return f"{side} {before.count(',', max(arrow, 0))}"


def too_long(text: str, limit: int) -> AnnotationError:
    return _error(
        "text-too-long",
        "text too long",
        text[:limit],
        (Span(limit, limit),),
        f"an annotation has at most {limit:,} characters; this text has {len(text):,}",
    )


def no_arrow(text: str) -> AnnotationError:
    if not text.strip():
        return _error(
            "no-arrow", "empty annotation", text, (), "an annotation names inputs and outputs",
            "write them around '->', as in 'm k+, k+ n -> m n'",
        )  # fmt: skip
    for offset, char in enumerate(text):
        if replacement(char) == "->" or (char in HYPHENS and text[offset + 1 : offset + 2] == ">"):
            return unknown_character(text, offset)
    for wrong in ("=>", "- >", "<-", ">"):
        if (offset := text.find(wrong)) >= 0:
            span = Span(offset, offset + len(wrong))
            break
    else:
        span = Span(len(text), len(text))
    return _error(
        "no-arrow", "no '->'", text, (span,), "'->' separates the inputs from the outputs",
        "write '->' between them; an operator without outputs ends in '->'",
    )  # fmt: skip


def two_arrows(text: str, first: int, second: int) -> AnnotationError:
    return _error(
        "two-arrows", "'->' twice", text, (Span(first, first + 2), Span(second, second + 2)),
        "one '->' separates the inputs from the outputs; several outputs are separated by ','",
    )  # fmt: skip


def empty_tensor(text: str, start: int, stop: int) -> AnnotationError:
    middle = (start + stop) // 2
    return _error(
        "empty-tensor", "a tensor without dimensions", text, (Span(middle, middle),),
        f"nothing is written for {place(text, start)}",
        "write () for a scalar, ? for a value that is only replicated, or remove the ','",
    )  # fmt: skip


def no_space(text: str, span: Span) -> AnnotationError:
    start = span.start - 1
    while start > 0 and not text[start - 1].isspace() and text[start - 1] not in "(),>":
        start -= 1
    stop = span.stop
    words = shown(text[start:stop])
    joint = text[span.start - 1]
    reasons = {
        "+": "a '+' marks the identifier before it, it does not add",
        "^": "a '^' marks the identifier before it, it is no power",
    }
    if "*" in (joint, text[span.start]):
        reason = f"'*' stands for any number of dimensions, it does not multiply; '{words}' is no dimension"
    else:
        reason = f"{reasons[joint]}; '{words}' is no dimension"
    return _error(
        "no-space", "no space between two dimensions", text, (Span(start, stop),), reason,
        "write a space between dimensions, and (h t) for the product of h and t",
    )  # fmt: skip


def misplaced_star(text: str, span: Span, *, in_group: bool) -> AnnotationError:
    if in_group:
        return _error(
            "star-in-group", "'*' within brackets", text, (span,),
            "a hidden product is of identifiers and numbers; '*' stands for whole dimensions",
        )  # fmt: skip
    where = place(text, span.start)
    start = max(text.rfind(",", 0, span.start), text.rfind("->", 0, span.start)) + 1
    first = text.index("*", start)
    return _error(
        "two-stars", "'*' twice in one tensor", text, (Span(first, first + 1), span),
        f"{where} has two '*', and nothing says how its dimensions are shared out between them",
        "name the dimensions of one of them",
    )  # fmt: skip


def nested_brackets(text: str, opened: int, span: Span) -> AnnotationError:
    return _error(
        "nested-brackets", "brackets within brackets", text, (span, Span(opened, opened + 1)),
        "brackets do not nest: a hidden product is flat",
        "(a (b c)) is the same product as (a b c)",
    )  # fmt: skip


def unopened_bracket(text: str, span: Span) -> AnnotationError:
    return _error(
        "unopened-bracket", "')' without '('", text, (span,),
        f"no bracket is open in {place(text, span.start)}; brackets open and close within one tensor",
    )  # fmt: skip


def unclosed_bracket(text: str, opened: int, stop: int) -> AnnotationError:
    spans = (Span(opened, opened + 1),)
    hint = ""
    if text[stop : stop + 1] == "," and ")" in text[stop:]:
        hint = "',' separates tensors; within brackets write spaces, as in (h t)"
    return _error(
        "unclosed-bracket", "'(' without ')'", text, spans,
        f"this bracket is not closed in {place(text, opened)}; brackets open and close within one tensor",
        hint,
    )  # fmt: skip


def empty_group(text: str, span: Span) -> AnnotationError:
    return _error(
        "empty-group", "empty brackets among dimensions", text, (span,),
        "() alone is a scalar, a tensor without dimensions; it is no dimension of another tensor",
        "a dimension of length one is written 1",
    )  # fmt: skip


def zero_in_product(text: str, span: Span) -> AnnotationError:
    return _error(
        "zero-in-product", "zero in a hidden product", text, (span,),
        "a product that is 0 names nothing: its other factors could be anything",
        "a dimension of length zero is written 0, without brackets",
    )  # fmt: skip


def question_not_alone(text: str, span: Span) -> AnnotationError:
    return _error(
        "question-not-alone", "'?' among dimensions", text, (span,),
        f"'?' is a whole value, and {place(text, span.start)} has more than it",
        "write ? alone, or name the dimension",
    )  # fmt: skip


def misplaced_mark(text: str, offset: int) -> AnnotationError:
    mark = text[offset]
    before = text[:offset].rstrip()
    if before and before[-1] in "+^":
        reason, hint = "an identifier has one mark", "write '+' or '^', not both"
        if before[-1] == mark:
            hint = f"write '{mark}' once"
    elif before.endswith(")"):
        reason, hint = "a mark belongs to an identifier, not to a product", f"mark the identifiers: (h{mark} t)"
    elif before and not before.endswith((",", "->", "(", "?")):
        word = shown(before.replace("(", " ").replace(",", " ").split()[-1])
        reason, hint = "a mark stands right after its identifier", f"write '{word}{mark}' without a space"
    else:
        reason, hint = "a mark stands right after an identifier, and there is none", ""
    return _error(
        "misplaced-mark", f"'{mark}' marks nothing", text, (Span(offset, offset + 1),), reason, hint
    )


def too_many_tensors(text: str, count: int, limit: int) -> AnnotationError:
    return _error(
        "too-many-tensors", "too many tensors", text, (),
        f"an annotation has at most {limit} inputs and outputs; this one has {count:,}",
    )  # fmt: skip


def too_many_dims(text: str, span: Span, count: int, limit: int) -> AnnotationError:
    return _error(
        "too-many-dimensions", "too many dimensions", text, (span,),
        f"a tensor has at most {limit} dimensions, and a product {limit} factors; here are {count:,}",
    )  # fmt: skip


def too_many_digits(text: str, span: Span, count: int, limit: int) -> AnnotationError:
    return _error(
        "too-many-digits", "number too long", text, (span,),
        f"a number has at most {limit} digits; this one has {count:,}",
    )  # fmt: skip


def two_marks(text: str, first: Identifier | Star, second: Identifier | Star) -> AnnotationError:
    name = "*" if isinstance(first, Star) else shown(first.name)
    return _error(
        "two-marks", "one identifier, two marks", text, (first.span, second.span),
        f"'{name}' is {_marked(first.mark)} in {place(text, first.span.start)} and "
        f"{_marked(second.mark)} in {place(text, second.span.start)}; write the same mark at both",
    )  # fmt: skip


def _marked(mark: Mark) -> str:
    return f"marked '{mark.value}'" if mark is not Mark.NONE else "not marked"


def lookalikes(text: str, first: Identifier | Star, second: Identifier | Star) -> AnnotationError:
    assert isinstance(first, Identifier)
    assert isinstance(second, Identifier)
    return lookalike_names(text, first.name, first.span, second.name, second.span)


def lookalike_names(text: str, first: str, at: Span, second: str, second_at: Span) -> AnnotationError:
    one, other = difference(first, second)
    return _error(
        "lookalikes", "two names that look the same", text, (at, second_at),
        f"'{shown(first)}' has {one} where '{shown(second)}' has {other}",
        "write one of them at both places, or rename one",
    )  # fmt: skip


def bad_word(text: str, span: Span) -> AnnotationError:
    """A word that is neither an identifier nor a number: a foreign character, or a digit first."""
    word = text[span.start : span.stop]
    for offset, char in enumerate(word, span.start):
        if not ("a" + char).isidentifier():
            return unknown_character(text, offset)
    return _error(
        "bad-identifier", "neither an identifier nor a number", text, (span,),
        f"'{shown(word)}' starts with {describe(word[0])}, and an identifier starts with a letter or '_'",
        "write a space between a number and an identifier, or the letter first",
    )  # fmt: skip


def unknown_character(text: str, offset: int) -> AnnotationError:
    char = text[offset]
    if char == "?":
        return question_not_alone(text, Span(offset, offset + 1))
    if char in "+^":
        return misplaced_mark(text, offset)
    hint = ""
    stop = offset + 1
    if char in HYPHENS and text[offset + 1 : offset + 2] == ">":
        hint, stop = "write '->'", offset + 2
    elif char in HYPHENS and text[offset + 1 : offset + 2].isidentifier():
        hint = "write '_' within a name"
    elif wanted := replacement(char):
        hint = f"write '{wanted}'"
    elif char in "'\"`":
        hint = "remove the quotes"
    elif char in ".\u2026":
        hint = "write '*' for any number of dimensions"
    return _error(
        "unknown-character", "a character that no annotation has", text, (Span(offset, stop),),
        f"{describe(char)} is no part of the annotation language", hint,
    )  # fmt: skip
