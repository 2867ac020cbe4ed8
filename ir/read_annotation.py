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
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache

from . import annotation_errors as errors
from .annotation import (
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
from .character_errors import lookalikes, too_long, too_many_digits
from .lookalikes import find_lookalikes
from .span import Span
from .wrong_types import wrong_type

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
_MARKS = {"": Mark.NONE, "+": Mark.SUM, "^": Mark.FROZEN}

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
        raise errors.no_arrow(text)
    second = text.find("->", arrow + 2)
    if second >= 0:
        raise errors.two_arrows(text, arrow, second)
    marked: _Marked = {}
    inputs = _operands(text, 0, arrow, marked)
    outputs = _operands(text, arrow + 2, len(text), marked)
    if (count := len(inputs) + len(outputs)) > MAX_TENSORS:
        where = (inputs + outputs)[MAX_TENSORS].span
        raise errors.too_many_tensors(text, where, count, MAX_TENSORS)
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
        raise errors.empty_tensor(text, start, stop)
    if written == "?" or (written[0] == "(" and written[-1] == ")" and not written[1:-1].strip()):
        begin = text.index(written, start)
        span = Span(begin, begin + len(written))
        return Opaque(span) if written == "?" else Tensor((), span)
    dims = _dims(text, start, stop, marked)
    if len(dims) > MAX_DIMS:
        where = dims[MAX_DIMS].span
        raise errors.too_many_dims(text, where, len(dims), MAX_DIMS, in_group=False)
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
                raise errors.no_space(text, span)
            end = span.stop
            atom = _atom(text, token, span, marked)
            if not isinstance(atom, Star):
                dims.append(Dim((atom,), False, span))
            elif any(isinstance(dim, Star) for dim in dims):
                raise errors.misplaced_star(text, span, in_group=False)
            else:
                dims.append(atom)
        elif token[0] == "(":
            dims.append(_group(text, span.start, stop, tokens, marked))
        elif token[0] == ")":
            raise errors.unopened_bracket(text, span)
        else:
            raise errors.unknown_character(text, span.start)
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
                raise errors.no_space(text, span)
            end = span.stop
            atom = _atom(text, token, span, marked)
            if isinstance(atom, Star):
                raise errors.misplaced_star(text, span, in_group=True)
            if isinstance(atom, Number) and atom.value == 0:
                raise errors.zero_in_product(text, span)
            atoms.append(atom)
        elif token[0] == ")":
            return _hidden_product(text, atoms, Span(opened, span.stop))
        elif token[0] == "(":
            raise errors.nested_brackets(text, opened, span)
        else:
            raise errors.unknown_character(text, span.start)
    raise errors.unclosed_bracket(text, opened, stop)


def _hidden_product(text: str, atoms: list[Atom], span: Span) -> Dim:
    if not atoms:
        raise errors.empty_group(text, span)
    if len(atoms) > MAX_DIMS:
        where = atoms[MAX_DIMS].span
        raise errors.too_many_dims(text, where, len(atoms), MAX_DIMS, in_group=True)
    return Dim(tuple(atoms), True, span)


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
        raise errors.bad_word(text, Span(span.start, span.start + len(word)))
    elif len(word) > MAX_DIGITS:
        raise too_many_digits(text, span, len(word), MAX_DIGITS)
    else:
        return Number(int(word), span)
    first = marked.setdefault(word, atom)
    if first.mark is not mark:
        raise errors.two_marks(text, first, atom)
    return atom
