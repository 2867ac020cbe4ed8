"""An annotation as a picture: a box for every dimension, the same colour for the same identifier.

(h t) k+, k+ n -> h t n

[[h] [t]] [k+] ,  [k+] [n]  ->  [h] [t] [n]
h, t, n   may be split
k+        may be split; outputs without it are then partial sums
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import assert_never

from dimsolve.ir.annotation import (
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
    atoms_of,
)

from .picture import EMPTY, Picture, chip, column, faint, flow, row, table, words
from .svg import CARD, FAINT, HUES, INK, hues, rect

_TWICE = "cannot be split: it stands twice in one tensor"
_UNJOINED = "cannot be split: it is missing from an output and has no mark"

_SIZE = 15


def annotation_svg(annotation: Annotation) -> str:
    """Returns the picture of an annotation as SVG text."""
    picture = column(annotation_picture(annotation), _legend(annotation), gap=12)
    return picture.card(f"annotation {annotation}", description(annotation))


def annotation_picture(annotation: Annotation) -> Picture:
    """Returns the tensors of an annotation, their dimensions as coloured boxes."""
    colours = colours_of(annotation)
    arrow = words("→", size=_SIZE, fill=FAINT)
    parts = [
        *_side(annotation.inputs, colours),
        *([arrow] if annotation.inputs or annotation.outputs else []),
        *_side(annotation.outputs, colours),
    ]
    return flow(parts, gap=12)


def operand_picture(operand: Operand, colours: Mapping[str, str], size: float = _SIZE) -> Picture:
    """Returns one tensor as boxes."""
    match operand:
        case Opaque():
            return chip("?", FAINT, size=size)
        case Tensor(dims=()):
            return chip("()", FAINT, size=size)
        case Tensor():
            return flow([_dim(dim, colours, size) for dim in operand.dims], gap=3)
        case _:
            assert_never(operand)


def colours_of(annotation: Annotation, colours: Sequence[str] = HUES) -> dict[str, str]:
    """Returns the colour of every identifier."""
    return hues((name for name, _ in marks_of(annotation)), colours)


def labelled(annotation: Annotation) -> Iterator[tuple[str, Operand]]:
    """Yields every tensor with its name: ``input 0``."""
    for kind, operands in (("input", annotation.inputs), ("output", annotation.outputs)):
        for number, operand in enumerate(operands):
            yield f"{kind} {number}", operand


def shape_text(dims: Sequence[object] | None) -> str:
    """Returns a shape as text: ``m, k``, ``()`` for a scalar, ``?`` for what is not known."""
    if dims is None:
        return "?"
    return ", ".join("?" if dim is None else str(dim) for dim in dims) or "()"


def meanings(annotation: Annotation) -> list[tuple[str, Mark, str]]:
    """Returns each identifier, its mark, and what may be done with it, in words.

    >>> from dimsolve.ir.read_annotation import read_annotation
    >>> [(name, says) for name, _, says in meanings(read_annotation("a b^ -> b^"))][1]
    ('b', 'never split')
    """
    return [(name, mark, _meaning(annotation, name, mark)) for name, mark in marks_of(annotation)]


def _meaning(annotation: Annotation, name: str, mark: Mark) -> str:
    if not mark.splits:
        return mark.meaning
    if any(_names(operand).count(name) > 1 for operand in annotation.operands):
        return _TWICE
    missing = any(
        isinstance(output, Tensor) and name not in _names(output) for output in annotation.outputs
    )
    if not missing:
        return Mark.NONE.meaning
    return mark.meaning if mark.joins else _UNJOINED


def _names(operand: Operand) -> list[str]:
    """The identifiers of one tensor, as often as they occur."""
    return [name_of(atom) for atom in atoms_of(operand) if not isinstance(atom, Number)]


def name_of(atom: Identifier | Star) -> str:
    """Returns an identifier's name; that of ``*`` is ``*``."""
    return "*" if isinstance(atom, Star) else atom.name


def marks_of(annotation: Annotation) -> Iterator[tuple[str, Mark]]:
    """Yields each identifier with its mark, in the order of reading; ``*`` is one of them.

    >>> from dimsolve.ir.read_annotation import read_annotation
    >>> [name for name, mark in marks_of(read_annotation("* k+, k+ n -> * n"))]
    ['*', 'k', 'n']
    """
    marks: dict[str, Mark] = {}
    for operand in annotation.operands:
        for atom in atoms_of(operand):
            if not isinstance(atom, Number):
                marks.setdefault(name_of(atom), atom.mark)
    yield from marks.items()


def description(annotation: Annotation) -> str:
    """Returns what the picture shows, in words."""
    parts = [f"{label}: {operand}" for label, operand in labelled(annotation)]
    parts += [f"{name} {says}" for name, _, says in meanings(annotation)]
    return "; ".join(parts) or "no tensors"


def _side(operands: Sequence[Operand], colours: Mapping[str, str]) -> Iterator[Picture]:
    for number, operand in enumerate(operands):
        comma = words(",", size=_SIZE, fill=FAINT) if number + 1 < len(operands) else EMPTY
        yield row(operand_picture(operand, colours), comma, gap=2)


def _dim(dim: Dim | Star, colours: Mapping[str, str], size: float) -> Picture:
    if isinstance(dim, Star):
        return chip(str(dim), colours["*"], size=size)
    atoms = [_atom(atom, colours, size) for atom in dim.atoms]
    return _grouped(row(*atoms, gap=3)) if dim.grouped else atoms[0]


def _atom(atom: Atom, colours: Mapping[str, str], size: float) -> Picture:
    match atom:
        case Number():
            return chip(str(atom), FAINT, size=size)
        case Identifier(name=name):
            return chip(str(atom), colours[name], size=size)
        case _:
            assert_never(atom)


def _grouped(inner: Picture) -> Picture:
    """A frame around the atoms of a hidden dimension: they are one dimension."""
    width, height = inner.width + 8, inner.height + 8
    frame = rect(0.5, 0.5, width - 1, height - 1, fill=CARD, stroke=INK, rx=6)
    return Picture(width, height, (frame, inner.at(4, 4)))


def _legend(annotation: Annotation) -> Picture:
    """One line per meaning, with the identifiers that have it."""
    colours = colours_of(annotation)
    groups: dict[str, list[Picture]] = {}
    for name, mark, says in meanings(annotation):
        chip_ = words(name + mark.value, fill=colours[name], bold=True)
        groups.setdefault(says, []).append(chip_)
    return table([flow(names, width=300, gap=10), faint(says)] for says, names in groups.items())
