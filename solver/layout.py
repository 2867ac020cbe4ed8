"""An annotation with its ``*`` written out: patterns that can be laid beside given shapes.

``* t -> a * t`` beside a rank-3 input is ``b c t -> a b c t``: a `Layout` holds the expanded
patterns of all operands, sorted by how much work they are to solve. It depends on the annotation
and the ranks only, so it is made once and serves every size.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from string import ascii_lowercase

from dimsolve.ir.annotation import (
    Annotation,
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
from dimsolve.ir.errors import Span
from dimsolve.ir.read_annotation import read_annotation


@dataclass(frozen=True, slots=True)
class Pattern:
    """One annotated dimension: the product of names and numbers, outermost first.

    ``names`` and ``constant`` are the same product sorted for arithmetic: (4, "h", 2) has constant
    8 and names ("h",).
    """

    atoms: tuple[str | int, ...]
    names: tuple[str, ...]
    constant: int
    span: Span
    atom_spans: tuple[Span, ...]

    def span_of(self, name: str) -> Span:
        """Returns where the name stands in this dimension."""
        return self.atom_spans[self.atoms.index(name)]

    def __str__(self) -> str:
        return "*".join(str(atom) for atom in self.atoms)


@dataclass(frozen=True, slots=True)
class Layout:
    """The patterns of every operand; None for ``?`` and for a tensor whose ``*`` has no known rank.

    ``singles``, ``numbers`` and ``products`` list the input dimensions as (input, dim, ...),
    cheapest first: ``m``, then ``16``, then ``(h t)``. ``star`` are the names given to the
    dimensions of ``*``; ``marks`` is the mark of every name.
    """

    inputs: tuple[tuple[Pattern, ...] | None, ...]
    outputs: tuple[tuple[Pattern, ...] | None, ...]
    singles: tuple[tuple[int, int, str], ...]
    numbers: tuple[tuple[int, int, int], ...]
    products: tuple[tuple[int, int, tuple[str, ...], int], ...]
    star: tuple[str, ...]
    marks: dict[str, Mark]
    input_names: frozenset[str]


def identifiers_of(annotation: Annotation) -> dict[str, Identifier]:
    """Returns the first occurrence of every identifier, in the order of reading.

    >>> list(identifiers_of(read_annotation("* k+, k+ n -> * n")))
    ['k', 'n']
    """
    found: dict[str, Identifier] = {}
    for operand in annotation.operands:
        for atom in atoms_of(operand):
            if isinstance(atom, Identifier):
                found.setdefault(atom.name, atom)
    return found


@lru_cache(maxsize=4096)
def names_in(text: str) -> tuple[str, ...]:
    """Returns the names of a text's identifiers, in the order of reading; looked up again."""
    return tuple(identifiers_of(read_annotation(text)))


def star_position(operand: Operand) -> int | None:
    """Returns which dimension of the operand is ``*``, or None."""
    if isinstance(operand, Opaque):
        return None
    return next((i for i, dim in enumerate(operand.dims) if isinstance(dim, Star)), None)


def fresh_names(taken: set[str]) -> Iterator[str]:
    """Yields a, b, ..., z, a1, b1, ... without end, leaving out what is taken.

    >>> names = fresh_names({"a", "c"})
    >>> next(names), next(names)
    ('b', 'd')
    """
    round_ = 0
    while True:
        for letter in ascii_lowercase:
            name = f"{letter}{round_ or ''}"
            if name not in taken:
                yield name
        round_ += 1


@lru_cache(maxsize=4096)
def layout_of(text: str, star_rank: int | None) -> Layout:
    """Returns the layout of an annotation's text: hashing a text is cheaper than hashing a tree."""
    return lay_out(read_annotation(text), star_rank)


def lay_out(annotation: Annotation, star_rank: int | None) -> Layout:
    """Returns the layout for ``*`` standing for this many dimensions, None if not known."""
    identifiers = identifiers_of(annotation)
    marks = {name: identifier.mark for name, identifier in identifiers.items()}
    names = fresh_names(set(identifiers))
    star = tuple(next(names) for _ in range(star_rank or 0))
    for operand in annotation.operands:
        if isinstance(operand, Tensor):
            marks.update({s: d.mark for d in operand.dims if isinstance(d, Star) for s in star})
    unknown = star_rank is None
    inputs = tuple(_patterns(operand, star, unknown) for operand in annotation.inputs)
    outputs = tuple(_patterns(operand, star, unknown) for operand in annotation.outputs)
    dims = [(i, d, p) for i, row in enumerate(inputs) if row for d, p in enumerate(row)]
    return Layout(
        inputs,
        outputs,
        singles=tuple((i, d, p.names[0]) for i, d, p in dims if len(p.atoms) == len(p.names) == 1),
        numbers=tuple((i, d, p.constant) for i, d, p in dims if not p.names),
        products=tuple(
            (i, d, p.names, p.constant) for i, d, p in dims if p.names and len(p.atoms) > 1
        ),
        star=star,
        marks=marks,
        input_names=frozenset(name for _, _, p in dims for name in p.names),
    )


def _patterns(operand: Operand, star: tuple[str, ...], unknown: bool) -> tuple[Pattern, ...] | None:
    if isinstance(operand, Opaque) or (unknown and star_position(operand) is not None):
        return None
    patterns: list[Pattern] = []
    for dim in operand.dims:
        if isinstance(dim, Star):
            patterns.extend(Pattern((name,), (name,), 1, dim.span, (dim.span,)) for name in star)
        else:
            patterns.append(_pattern(dim))
    return tuple(patterns)


def _pattern(dim: Dim) -> Pattern:
    constant = 1
    for atom in dim.atoms:
        if isinstance(atom, Number):
            constant *= atom.value
    atoms = tuple(atom.value if isinstance(atom, Number) else atom.name for atom in dim.atoms)
    names = tuple(atom.name for atom in dim.atoms if isinstance(atom, Identifier))
    return Pattern(atoms, names, constant, dim.span, tuple(atom.span for atom in dim.atoms))
