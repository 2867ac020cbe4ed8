"""What an annotation says, as data.

``m k+, k+ n -> m n`` is read once (`dimsolve.ir.read_annotation`) into the frozen classes of this
file; everything after it works on them and never on text. Each node knows the span it was read
from, so that an error found much later can still point at the place.

    m k+, k+ n -> m n
    inputs   Tensor(dims=(Dim(m), Dim(k+)))   Tensor(dims=(Dim(k+), Dim(n)))
    outputs  Tensor(dims=(Dim(m), Dim(n)))

``str()`` of an annotation reads back to an equal annotation: spans and the text they point into
take no part in equality.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import Enum
from typing import assert_never

from .display import Displayed
from .errors import Span


class Mark(Enum):
    """What a split of the marked dimension does: see `docs/annotations.md`."""

    NONE = ""
    SUM = "+"
    FROZEN = "^"

    @property
    def meaning(self) -> str:
        """What the mark says, in words."""
        match self:
            case Mark.NONE:
                return "may be split"
            case Mark.SUM:
                return "may be split; outputs without it are then partial sums"
            case Mark.FROZEN:
                return "never split"
            case _:
                assert_never(self)

    @property
    def splits(self) -> bool:
        """Whether the dimension may be split at all."""
        match self:
            case Mark.NONE | Mark.SUM:
                return True
            case Mark.FROZEN:
                return False
            case _:
                assert_never(self)

    @property
    def joins(self) -> bool:
        """Whether the annotation says how outputs without the dimension are joined."""
        match self:
            case Mark.SUM:
                return True
            case Mark.NONE | Mark.FROZEN:
                return False
            case _:
                assert_never(self)


MARKS = "".join(mark.value for mark in Mark)
"""The characters of all marks."""


@dataclass(frozen=True, slots=True)
class Identifier:
    """A named length: the same name is the same length everywhere in the operator."""

    name: str
    mark: Mark
    span: Span = field(compare=False)

    def __str__(self) -> str:
        return self.name + self.mark.value


@dataclass(frozen=True, slots=True)
class Number:
    """A length that is written out; never split, so a mark on it changes nothing."""

    value: int
    span: Span = field(compare=False)

    def __str__(self) -> str:
        return str(self.value)


@dataclass(frozen=True, slots=True)
class Star:
    """``*``: any number of dimensions, the same ones in every tensor that has it."""

    mark: Mark
    span: Span = field(compare=False)

    def __str__(self) -> str:
        return "*" + self.mark.value


Atom = Identifier | Number


@dataclass(frozen=True, slots=True)
class Dim:
    """One dimension: the product of its atoms, outermost first; ``grouped``: within brackets."""

    atoms: tuple[Atom, ...]
    grouped: bool
    span: Span = field(compare=False)

    def __str__(self) -> str:
        text = " ".join(str(atom) for atom in self.atoms)
        return f"({text})" if self.grouped else text


@dataclass(frozen=True, slots=True)
class Tensor:
    """A tensor's dimensions, in order. ``()`` is a scalar: no dimensions."""

    dims: tuple[Dim | Star, ...]
    span: Span = field(compare=False)

    def __str__(self) -> str:
        return " ".join(str(dim) for dim in self.dims) or "()"


@dataclass(frozen=True, slots=True)
class Opaque:
    """``?``: a value, tensor or not, that is only ever replicated; its shape is not looked at."""

    span: Span = field(compare=False)

    def __str__(self) -> str:
        return "?"


Operand = Tensor | Opaque


@dataclass(frozen=True, slots=True)
class Annotation(Displayed):
    """An operator's inputs and outputs. ``text`` is what was read; spans are offsets into it."""

    inputs: tuple[Operand, ...]
    outputs: tuple[Operand, ...]
    text: str = field(compare=False)

    def __str__(self) -> str:
        inputs = ", ".join(str(operand) for operand in self.inputs)
        outputs = ", ".join(str(operand) for operand in self.outputs)
        return f"{inputs} -> {outputs}".strip()

    @property
    def operands(self) -> tuple[Operand, ...]:
        """The inputs, then the outputs."""
        return (*self.inputs, *self.outputs)


def atoms_of(operand: Operand) -> Iterator[Atom | Star]:
    """Yields what stands in a tensor's dimensions, in the order of reading; nothing for ``?``."""
    if isinstance(operand, Tensor):
        for dim in operand.dims:
            yield from (dim,) if isinstance(dim, Star) else dim.atoms
