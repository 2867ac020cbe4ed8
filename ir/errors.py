"""Errors that show where: one record makes the caret text, a problem+json and a highlight.

    AnnotationError: one identifier, two marks
      m k+, k n -> m n
        ^~  ^
      'k' is marked '+' in input 0 and not marked in input 1; write the same mark at both

A `Diagnostic` is data; the exceptions only carry it. ``str()`` of one is all of the above but the
name of its class, which Python writes itself at the end of a traceback. Illegal partitions are
answers, not exceptions.
"""

from __future__ import annotations

from dataclasses import dataclass

from .excerpt import excerpt
from .span import Span


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


_UNREADABLE = frozenset(
    {
        "unknown-operator",
        "no-inputs",
        "unresolved",
        "not-a-mesh",
        "unknown-policy",
        "unreadable-file",
        "not-a-plan",
        "another-version",
    }
)
"""Codes of errors that say that a name, a mesh, a policy or a file gives nothing to ask about."""


def is_unreadable(error: DimsolveError) -> bool:
    """Whether an error says that the question itself cannot be read; otherwise it is an answer.

    >>> is_unreadable(DimsolveError(Diagnostic("not-a-mesh", "this is not a mesh")))
    True
    """
    return isinstance(error, AnnotationError) or error.diagnostic.code in _UNREADABLE
