"""Errors that show where: one record makes the caret text, a problem+json and a highlight.

    AnnotationError: one identifier, two marks
      m k+, k n -> m n
        ^~  ^
      'k' is marked '+' in input 0 and not marked in input 1; write the same mark at both

A `Diagnostic` is data; the exceptions only carry it. ``str()`` of one is all of the above but the
name of its class, which Python writes itself at the end of a traceback. A module's errors are rows
of a table, `Problem`. Illegal partitions are answers, not exceptions.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from textwrap import dedent
from typing import Generic, NamedTuple, TypeVar

from .excerpt import excerpt, user_lines


class Span(NamedTuple):
    """Offsets into the text that was read, in characters: ``start`` is included, ``stop`` is not.

    >>> "m k+ -> m"[slice(*Span(2, 4))]
    'k+'
    """

    start: int
    stop: int


@dataclass(frozen=True, slots=True)
class Diagnostic:
    """What went wrong, where, with which numbers, and what would work.

    code: a stable kebab-case name, e.g. ``"two-marks"``. title: one line. text: what was read, or
    "" where no text is to blame. spans: the places in it, the first is the main one. reason: the
    full sentence with names and numbers. hint: what would work, or "".
    """

    code: str
    title: str
    text: str = ""
    spans: tuple[Span, ...] = ()
    reason: str = ""
    hint: str = ""

    def render(self) -> str:
        """Returns the title, the text over its carets, the reason and the hint, a line each.

        >>> spans = Span(2, 4), Span(6, 7)
        >>> title = "one identifier, two marks"
        >>> print(Diagnostic("two-marks", title, "m k+, k n -> m n", spans).render())
        one identifier, two marks
          m k+, k n -> m n
            ^~  ^
        """
        lines = [self.title]
        if self.text.strip():
            lines += [f"  {line}" for line in excerpt(self.text, self.spans) if line]
        if self.reason:
            lines.append(f"  {self.reason}")
        if self.hint:
            lines.append(f"  hint: {self.hint}")
        return "\n".join(lines)


class DimsolveError(Exception):
    """The base of everything dimsolve raises on purpose."""

    __module__ = "dimsolve"
    """Tracebacks name the place from which users import it."""

    diagnostic: Diagnostic

    def __init__(self, diagnostic: Diagnostic) -> None:
        self.diagnostic = diagnostic
        super().__init__(diagnostic)

    def __str__(self) -> str:
        return self.diagnostic.render()

    def _render_traceback_(self, *_: object) -> list[str]:
        """What IPython shows in place of a traceback: the user's own lines, and the message.

        The frames in between are dimsolve's and torch's, and explain nothing that the message does
        not. Python's own traceback has them all, and so has ``%debug``.
        """
        message = f"{type(self).__name__}: {self}".splitlines()
        lines = [f"  {line}" for line in user_lines(self)]
        return [*lines, *message, *getattr(self, "__notes__", ())]


class AnnotationError(DimsolveError):
    """Text that cannot be read: an annotation, a dimension, a fact, a claim."""

    __module__ = "dimsolve"


class ShapeError(DimsolveError):
    """A contradiction: these inputs, arguments and facts can never match the annotation."""

    __module__ = "dimsolve"


class GraphError(DimsolveError):
    """A graph that is not well formed, or a node asked for what it has not."""

    __module__ = "dimsolve"


class OperatorError(DimsolveError):
    """A function that cannot be an operator, or an operator that breaks its promise."""

    __module__ = "dimsolve"


E = TypeVar("E", bound=DimsolveError)


@dataclass(frozen=True, slots=True)
class Problem(Generic[E]):
    """One kind of error, as a row of a table: its class, its code, and its words.

    ``{name}`` in the words is filled in when the error is made, so that a module's errors stand
    together and read as they are shown.

    >>> no_root = Problem(ShapeError, "no-root", "{n} has no root", "{n}**2 = {value}", "try 9")
    >>> print(no_root("n n", Span(0, 1), n="n", value=8))
    n has no root
      n n
      ^
      n**2 = 8
      hint: try 9
    """

    error: type[E]
    code: str
    title: str
    reason: str = ""
    hint: str = ""

    def __call__(self, text: str = "", *spans: Span, **words: object) -> E:
        """Returns the error. text, spans: what was read, and the places in it."""
        title, reason, hint = (
            template.format_map(words) for template in (self.title, self.reason, self.hint)
        )
        return self.error(Diagnostic(self.code, title, text, spans, reason, hint))


def problems(error: type[E], table: str) -> dict[str, Problem[E]]:
    """Returns the rows of a table of errors by their codes, written as they are shown.

    Two rows with one code are told apart by words in brackets, which belong to the key only.

    >>> found = problems(
    ...     ShapeError,
    ...     '''
    ...     no-root: {n} has no root
    ...       {n}**2 = {value}
    ...       hint: try 9
    ...     no-root (of unity): {n} is 1
    ...     ''',
    ... )
    >>> found["no-root"].reason, found["no-root (of unity)"].code
    ('{n}**2 = {value}', 'no-root')
    """
    found: dict[str, Problem[E]] = {}
    for block in re.split(r"\n(?=\S)", dedent(table).strip()):
        head, *rest = block.split("\n  ")
        key, title = head.split(": ", 1)
        reason, _, hint = " ".join(rest).partition("hint: ")
        code = key.partition(" (")[0]
        found[key] = Problem(error, code, title, reason.strip(), hint)
    return found


_UNREADABLE = frozenset(
    [
        "unknown-operator",
        "no-inputs",
        "unresolved",
        "not-a-mesh",
        "unknown-policy",
        "unreadable-file",
        "not-a-plan",
        "another-version",
        "not-a-tp-plan",
        "no-tp-plan",
        "no-ep-plan",
    ]
)
"""Codes of errors that say that a name, a mesh, a policy, a plan or a file gives nothing to ask
about.
"""


def is_unreadable(error: DimsolveError) -> bool:
    """Whether an error says that the question itself cannot be read; otherwise it is an answer.

    >>> is_unreadable(DimsolveError(Diagnostic("not-a-mesh", "this is not a mesh")))
    True
    """
    return isinstance(error, AnnotationError) or error.diagnostic.code in _UNREADABLE
