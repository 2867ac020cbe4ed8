"""The annotation reader: one line of text in, an `Annotation` out, or an error that shows where.

    operator = tensors "->" tensors            m k+, k+ n -> m n
    tensors  = [ tensor { "," tensor } ]       m k+, k+ n
    tensor   = "?" | "()" | dim { space dim }  m k+
    dim      = "*" [mark] | atom | "(" atom { space atom } ")"
    atom     = ( identifier | number ) [mark]  k+
    mark     = "+" | "^"

The arrow and the commas cut the text into operands, one regular expression cuts an operand into
tokens, and one pass over them builds the tree. What needs no shapes is checked here: one mark per
identifier, one ``*`` per tensor, no zero in a hidden product, no two identifiers that look the
same. Whether an output's identifier is known is checked later, because a same-named argument may
give it.

What can be wrong stands in a table of `Problem`, and a small function where words need computing:

    AnnotationError: '*' twice in one tensor
      * a * -> a
      ^   ^
      input 0 has two '*', and nothing says how its dimensions are shared out between them
      hint: name the dimensions of one of them
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache

from .annotation import (
    MARKS,
    Annotation,
    Atom,
    Dim,
    Identifier,
    Mark,
    Number,
    Opaque,
    Operand,
    Star,
    Tensor,
)
from .characters import (
    HYPHENS,
    describe,
    find_lookalikes,
    hint_for,
    is_multiplication,
    replacement,
    shown,
)
from .checks import SHARED, lookalikes, too_long, wrong_type
from .errors import AnnotationError, Span, problems

_INSTEAD_OF_ARROW = re.compile(rf"=>|-\s+>|<-|>|\s[{HYPHENS}]+\s|=|:")
_HEADS = (">", "\uff1e")
_TOKENS = frozenset({"->", "(", ")", ",", "*", "+", "^", "?"})


_WRONG = problems(
    AnnotationError,
    """
    no-arrow: no '->'
      '->' separates the inputs from the outputs
      hint: {hint}
    no-arrow (empty): empty annotation
      an annotation names the inputs and the outputs of an operator
      hint: write them around '->', as in 'm k+, k+ n -> m n'
    two-arrows: '->' twice
      one '->' separates the inputs from the outputs; ',' separates one output from the next
    empty-tensor: a tensor without text
      nothing is written for {place}
      hint: write () for a scalar, ? for a value that is only replicated, or leave out the ','
    no-space: no space between two dimensions
      {reason}
      hint: write a space between dimensions, and (h t) for the product of h and t
    star-in-brackets: '*' within brackets
      brackets hold identifiers and numbers, whose product is one dimension
      hint: write '*' outside the brackets: it stands for whole dimensions
    two-stars: '*' twice in one tensor
      {place} has two '*', and nothing says how its dimensions are shared out between them
      hint: name the dimensions of one of them
    nested-brackets: brackets within brackets
      brackets do not nest: they hold identifiers and numbers, whose product is one dimension
      hint: leave out the inner brackets: (a (b c)) is the same product as (a b c)
    unopened-bracket: ')' without '('
      no bracket is open in {place}
      hint: brackets open and close within one tensor
    unclosed-bracket: '(' without ')'
      this bracket is not closed in {place}
      hint: {hint}
    empty-brackets: () among dimensions
      () is a tensor without dimensions, so it stands alone
      hint: a dimension of length one is written 1
    zero-in-product: 0 within brackets
      a product that is 0 says nothing of its other factors
      hint: a dimension of length zero is written 0, without brackets
    question-not-alone: '?' among dimensions
      '?' stands for a whole value, and {place} has more than it
      hint: write ? alone, or a name for the dimension
    misplaced-mark: '{mark}' marks nothing
      {reason}
      hint: {hint}
    too-many-tensors: too many tensors
      an annotation has at most {limit:,} inputs and outputs; this one has {count:,}
    too-many-dimensions: too many dimensions
      a tensor has at most {limit} dimensions; here are {count:,}
    too-many-dimensions (factors): too many factors
      brackets hold at most {limit} factors; here are {count:,}
    two-marks: one identifier, two marks
      '{name}' is {first} {between} {second} in {place}; write the same mark at both
    bad-identifier: neither an identifier nor a number
      '{word}' begins with {char}, and an identifier with a letter or '_'
      hint: write a space between a number and an identifier
    unknown-character: a character that no annotation has
      {char} is no part of the annotation language
      hint: {hint}
    """,
)


def place(text: str, offset: int) -> str:
    """Returns in which operand of an annotation an offset lies.

    >>> place("a b, b -> a", 5), place("a b, b -> a", 10)
    ('input 1', 'output 0')
    """
    arrow = text.rfind("->", 0, offset)
    side = "input" if arrow < 0 else "output"
    return f"{side} {text.count(',', max(arrow, 0), offset)}"


def _no_arrow(text: str) -> AnnotationError:
    """``m k+, k+ n``: also finds what was written in place of the arrow."""
    if not text.strip():
        return _WRONG["no-arrow (empty)"](text)
    for offset, char in enumerate(text):
        if replacement(char) == "->" or (char in HYPHENS and text.startswith(_HEADS, offset + 1)):
            return _unknown_character(text, offset)
    if match := _INSTEAD_OF_ARROW.search(text):
        return _WRONG["no-arrow"](text, Span(*match.span()), hint="write '->'")
    end = len(text.rstrip())
    hint = "write '->' between them; an operator without outputs ends in '->'"
    return _WRONG["no-arrow"](text, Span(end, end), hint=hint)


def _no_space(text: str, span: Span) -> AnnotationError:
    """``a*b -> a``: the span is that of the second of two words that touch."""
    start, stop = span
    while start > 0 and not text[start - 1].isspace() and text[start - 1] not in "(),>":
        start -= 1
    if "*" in (text[span.start - 1], text[span.start]):
        reason = "'*' stands for any number of dimensions; it does not multiply"
    elif text[span.start - 1] == "+":
        reason = "'+' marks the identifier before it; it does not add"
    else:
        reason = "'^' marks the identifier before it; it is no power"
    return _WRONG["no-space"](text, Span(start, stop), reason=reason)


def _two_stars(text: str, span: Span) -> AnnotationError:
    """``* a * -> a``"""
    start = max(text.rfind(",", 0, span.start), text.rfind("->", 0, span.start)) + 1
    first = text.index("*", start)
    spans = Span(first, first + 1), Span(span.start, span.start + 1)
    return _WRONG["two-stars"](text, *spans, place=place(text, first))


def _unclosed_bracket(text: str, opened: int, stop: int) -> AnnotationError:
    """``(a b -> a`` or ``(a, b) -> a``"""
    hint = "brackets open and close within one tensor"
    if text.startswith(",", stop) and ")" in text[stop:]:
        hint = "',' separates tensors; write spaces within brackets, as in (h t)"
    return _WRONG["unclosed-bracket"](
        text, Span(opened, opened + 1), place=place(text, opened), hint=hint
    )


def _misplaced_mark(text: str, offset: int) -> AnnotationError:
    """``k + -> k``, ``(h t)+ -> h``, ``k+^ -> k`` or ``+ -> k``"""
    mark, before = text[offset], text[:offset].rstrip()
    reason, hint = "a mark stands right after an identifier, and none stands here", ""
    if before.endswith(("+", "^")):
        reason = "an identifier has one mark"
        hint = f"write '{mark}' once" if before[-1] == mark else "write '+' or '^'"
    elif before.endswith(")"):
        reason = "a mark belongs to an identifier, not to a product"
        hint = f"mark the identifiers within the brackets, as in (h{mark} t)"
    elif before and not before.endswith((",", "->", "(")):
        word = shown(before.replace("(", " ").replace(",", " ").replace("->", " ").split()[-1])
        hint = f"write '{word}{mark}' without a space"
    return _WRONG["misplaced-mark"](
        text, Span(offset, offset + 1), mark=mark, reason=reason, hint=hint
    )


def _two_marks(text: str, one: Identifier | Star, other: Identifier | Star) -> AnnotationError:
    """``m k+, k n -> m n``"""
    name = "*" if isinstance(one, Star) else shown(one.name)
    at, also_at = place(text, one.span.start), place(text, other.span.start)
    between = "and" if at == also_at else f"in {at} and"
    first, second = (
        "not marked" if mark is Mark.NONE else f"marked '{mark.value}'"
        for mark in (one.mark, other.mark)
    )
    words = {"first": first, "second": second, "between": between, "place": also_at}
    return _WRONG["two-marks"](text, one.span, other.span, name=name, **words)


def _bad_word(text: str, span: Span) -> AnnotationError:
    """``2a -> a``, or a word with a character that no identifier has."""
    word = text[span.start : span.stop]
    for offset, char in enumerate(word, span.start):
        if not ("a" + char).isidentifier():
            return _unknown_character(text, offset)
    return _WRONG["bad-identifier"](text, span, word=shown(word), char=describe(word[0]))


def _unknown_character(text: str, offset: int) -> AnnotationError:
    """``m k → m``: a character of no token; also a ``?`` or a mark that stands wrong."""
    char, after = text[offset], text[offset + 1 : offset + 2]
    span = Span(offset, offset + 1)
    if char == "?":
        return _WRONG["question-not-alone"](text, span, place=place(text, offset))
    if char in MARKS:
        return _misplaced_mark(text, offset)
    hint = hint_for(char, _TOKENS)
    if char in HYPHENS and after in _HEADS:
        hint, span = "write '->'", Span(offset, offset + 2)
    elif char in HYPHENS and after.isidentifier():
        hint = "write '_' within a name"
    elif is_multiplication(char):
        hint = "write (h t) for the product of h and t"
    elif char == "\u2026" or text.startswith("..", offset):
        hint = "write '*' for any number of dimensions"
    return _WRONG["unknown-character"](text, span, char=describe(char), hint=hint)


MAX_CHARACTERS = 10_000
MAX_TENSORS = 256
MAX_DIMS = 64
MAX_DIGITS = 100
_CACHED_CHARACTERS = 160
"""Longer texts are read each time, so that hostile ones cannot fill the memory."""

_TOKEN = re.compile(
    r"""
    ( [^\s\x00-/:-@\[-^`{-\x7f]+ | \* ) ( [+^]? )   # a word or *, and its mark
    | \S                                            # a bracket, or what no tensor has
    """,
    re.VERBOSE,
)
_WORD = 2
"""The index of the last group of a match that is a word."""
_MARKS = {mark.value: mark for mark in Mark}

_Marked = dict[str, Identifier | Star]
"""Where each identifier, and ``*``, was first read."""


def read_annotation(text: str) -> Annotation:
    """Returns the annotation that the text says.

    Raises AnnotationError, with the place and what would work, for text that says none. The same
    short text is read only once.

    >>> annotation = read_annotation("(h t) k+,k+ n->h t n")
    >>> str(annotation)
    '(h t) k+, k+ n -> h t n'
    >>> annotation.inputs[0].dims[0].span
    Span(start=0, stop=5)
    """
    if not isinstance(text, str):
        raise wrong_type("annotation", text, "a text", "write it as in 'm k+, k+ n -> m n'")
    return _read_cached(text) if len(text) <= _CACHED_CHARACTERS else parse_annotation(text)


def parse_annotation(text: str) -> Annotation:
    """Returns what `read_annotation` returns, and reads the text each time."""
    if len(text) > MAX_CHARACTERS:
        raise too_long("an annotation", text, MAX_CHARACTERS)
    arrow = text.find("->")
    if arrow < 0:
        raise _no_arrow(text)
    second = text.find("->", arrow + 2)
    if second >= 0:
        raise _WRONG["two-arrows"](text, Span(second, second + 2), Span(arrow, arrow + 2))
    marked: _Marked = {}
    inputs = _operands(text, 0, arrow, marked)
    outputs = _operands(text, arrow + 2, len(text), marked)
    if (count := len(inputs) + len(outputs)) > MAX_TENSORS:
        where = (inputs + outputs)[MAX_TENSORS].span
        raise _WRONG["too-many-tensors"](text, where, count=count, limit=MAX_TENSORS)
    if not text.isascii() and (alike := find_lookalikes(marked)):
        raise lookalikes(text, alike, (marked[alike[0]].span, marked[alike[1]].span))
    return Annotation(inputs, outputs, text)


_read_cached = lru_cache(maxsize=1024)(parse_annotation)


def _operands(text: str, start: int, stop: int, marked: _Marked) -> tuple[Operand, ...]:
    """Reads the operands between two offsets: none where there is nothing but space."""
    if not text[start:stop].strip():
        return ()
    operands: list[Operand] = []
    while (comma := text.find(",", start, stop)) >= 0:
        operands.append(_operand(text, start, comma, marked))
        start = comma + 1
    operands.append(_operand(text, start, stop, marked))
    return tuple(operands)


def _operand(text: str, start: int, stop: int, marked: _Marked) -> Operand:
    """Reads one operand: ``?``, ``()`` or dimensions."""
    written = text[start:stop].strip()
    if not written:
        middle = (start + stop) // 2
        raise _WRONG["empty-tensor"](text, Span(middle, middle), place=place(text, start))
    if written == "?" or (written[0] == "(" and written[-1] == ")" and not written[1:-1].strip()):
        begin = text.index(written, start)
        span = Span(begin, begin + len(written))
        return Opaque(span) if written == "?" else Tensor((), span)
    dims = _dims(text, start, stop, marked)
    if len(dims) > MAX_DIMS:
        where = dims[MAX_DIMS].span
        raise _WRONG["too-many-dimensions"](text, where, count=len(dims), limit=MAX_DIMS)
    return Tensor(tuple(dims), Span(dims[0].span.start, dims[-1].span.stop))


def _dims(text: str, start: int, stop: int, marked: _Marked) -> list[Dim | Star]:
    """Reads the dimensions of one tensor."""
    dims: list[Dim | Star] = []
    end = -1
    tokens = _TOKEN.finditer(text, start, stop)
    for token in tokens:
        span = Span(*token.span())
        if token.lastindex == _WORD:
            if span.start == end:
                raise _no_space(text, span)
            end = span.stop
            atom = _atom(text, token, span, marked)
            if not isinstance(atom, Star):
                dims.append(Dim((atom,), False, span))
            elif any(isinstance(dim, Star) for dim in dims):
                raise _two_stars(text, span)
            else:
                dims.append(atom)
        elif token[0] == "(":
            dims.append(_group(text, span.start, stop, tokens, marked))
        elif token[0] == ")":
            raise _WRONG["unopened-bracket"](text, span, place=place(text, span.start))
        else:
            raise _unknown_character(text, span.start)
    return dims


def _group(
    text: str, opened: int, stop: int, tokens: Iterator[re.Match[str]], marked: _Marked
) -> Dim:
    """Reads the hidden dimensions after an open bracket, up to the closing one."""
    atoms: list[Atom] = []
    end = -1
    for token in tokens:
        span = Span(*token.span())
        if token.lastindex == _WORD:
            if span.start == end:
                raise _no_space(text, span)
            end = span.stop
            atom = _atom(text, token, span, marked)
            if isinstance(atom, Star):
                raise _WRONG["star-in-brackets"](text, span)
            if isinstance(atom, Number) and atom.value == 0:
                raise _WRONG["zero-in-product"](text, span)
            atoms.append(atom)
        elif token[0] == ")":
            whole = Span(opened, span.stop)
            if not atoms:
                raise _WRONG["empty-brackets"](text, whole)
            if len(atoms) > MAX_DIMS:
                where = atoms[MAX_DIMS].span
                raise _WRONG["too-many-dimensions (factors)"](
                    text, where, count=len(atoms), limit=MAX_DIMS
                )
            return Dim(tuple(atoms), True, whole)
        elif token[0] == "(":
            raise _WRONG["nested-brackets"](text, span, Span(opened, opened + 1))
        else:
            raise _unknown_character(text, span.start)
    raise _unclosed_bracket(text, opened, stop)


def _atom(text: str, token: re.Match[str], span: Span, marked: _Marked) -> Atom | Star:
    """Makes a word an identifier, a number or ``*``; two different marks on it are an error."""
    word, sign = token.group(1, 2)
    mark = _MARKS[sign]
    atom: Identifier | Star
    if word.isidentifier():
        atom = Identifier(word, mark, span)
    elif word == "*":
        atom = Star(mark, span)
    elif not word.isdecimal():
        raise _bad_word(text, Span(span.start, span.start + len(word)))
    elif len(word) > MAX_DIGITS:
        raise SHARED["too-many-digits"](text, span, count=len(word), limit=MAX_DIGITS)
    else:
        return Number(int(word), span)
    first = marked.setdefault(word, atom)
    if first.mark is not mark:
        raise _two_marks(text, first, atom)
    return atom
