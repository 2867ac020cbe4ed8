"""Errors that show where: one record makes the caret text, the service's problem and the playground's highlight.

    AnnotationError: one identifier, two marks
      m k+, k n -> m n
        ^~  ^
      'k' is marked '+' in input 0 and not marked in input 1; write the same mark at both

A `Diagnostic` is data; the exceptions only carry it. Illegal partitions are answers, not exceptions.
"""

from __future__ import annotations

from dataclasses import dataclass

from .span import Span


@dataclass(frozen=True, slots=True)
class Diagnostic:
    """What went wrong, where, with which numbers, and what would work.

    code: a stable kebab-case name, e.g. ``"two-marks"``. title: one line. text: what was read, or "" where no
    text is to blame. spans: the places in it, the first is the main one. reason: the full sentence with names
    and numbers. hint: what would work, or "".
    """

    code: str
    title: str
    text: str = ""
    spans: tuple[Span, ...] = ()
    reason: str = ""
    hint: str = ""


class DimsolveError(Exception):
    """The base of everything dimsolve raises on purpose."""

    diagnostic: Diagnostic

    def __init__(self, diagnostic: Diagnostic) -> None:
        self.diagnostic = diagnostic
        super().__init__(diagnostic)


class AnnotationError(DimsolveError):
    """Text that cannot be read: an annotation, a dimension, a fact, a claim."""


class ShapeError(DimsolveError):
    """A contradiction: these inputs, arguments and facts can never match the annotation."""
