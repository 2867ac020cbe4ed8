"""What is solved and what comes out: equations, bindings and the steps between them, each with its
origin.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from dimsolve.ir.span import Span

from .algebra.poly import Dim, divide_exactly, product


@dataclass(frozen=True, slots=True)
class Equation:
    """constant * product of names = given, and where that was said: in the annotation and in words.

    ``places``: the span of each name, where they are known one by one.
    """

    names: tuple[str, ...]
    constant: int
    given: Dim
    span: Span
    origin: str
    places: Mapping[str, Span] = field(default_factory=dict, compare=False)

    @property
    def left(self) -> str:
        """The product as text: ``2*h*t``."""
        numbers = [str(self.constant)] if self.constant != 1 or not self.names else []
        return "*".join([*numbers, *self.names])

    def place(self, name: str) -> Span:
        """Returns where the name stands, or the whole dimension."""
        return self.places.get(name, self.span)

    def exponents_of(
        self, unknown: Collection[str], known: Mapping[str, Dim]
    ) -> tuple[dict[str, int], Dim | None]:
        """Returns the exponents of the unknown names, and their product if that is a polynomial."""
        exponents = {name: self.names.count(name) for name in self.names if name in unknown}
        factors = [known[name] for name in self.names if name not in unknown]
        return exponents, divide_exactly(self.given, product([self.constant, *factors]))

    def __str__(self) -> str:
        return f"{self.left} = {self.given} ({self.origin})"


@dataclass(frozen=True, slots=True)
class Binding:
    """A name's length and why: ``origin`` is where it was read, or what it was computed from."""

    value: Dim
    origin: str
    span: Span


@dataclass(frozen=True, slots=True)
class Step:
    """One line of an explanation: what was concluded and from what."""

    conclusion: str
    reason: str

    def __str__(self) -> str:
        return f"{self.conclusion:<24} {self.reason}"
