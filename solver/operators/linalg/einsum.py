"""``torch.einsum`` in torch's own notation: its letters are the identifiers.

einsum("bhqd,bhkd->bhqk", q, k)   b h q d+, b h k d+ -> b h q k
einsum("...ij,jk", x, y)          a i j+, j+ k -> a i k    no arrow: single letters, sorted
einsum("ii->i", x)                i^ i^ -> i^              no diagonal of parts is a part of it
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from string import ascii_letters
from typing import Any

from dimsolve.ir.operator import Declaration

from ...algebra.poly import Dim
from ..declare import errors
from ..declare.dtypes import result_type
from ..declare.entry import example, t, torch_entry
from ..declare.forms import declared
from ..declare.needs import never_equal
from ..declare.writing import Lengths, Names, NotKnown, dims_of
from ..elementwise.pointwise import broadcast


def einsum(equation: Any, *operands: Any) -> Declaration:
    """Declares an einsum. Raises ShapeError for an equation that does not fit its operands."""
    if not isinstance(equation, str):
        raise NotKnown("einsum with lists of numbers is not supported")
    tensors = (
        list(operands[0])
        if len(operands) == 1 and isinstance(operands[0], list | tuple)
        else list(operands)
    )
    left, arrow, right = equation.replace(" ", "").partition("->")
    terms = left.split(",")
    if len(terms) != len(tensors):
        raise errors.not_understood("einsum", f"{len(terms)} terms for {len(tensors)} tensors")
    letters = Counter(letter for term in terms for letter in term.replace("...", ""))
    unknown = [letter for letter in letters if letter not in ascii_letters]
    if unknown:
        raise errors.not_understood("einsum", f"'{unknown[0]}' in {equation!r} is no letter")
    if not arrow:
        right = ("..." if "..." in left else "") + "".join(
            sorted(n for n in letters if letters[n] == 1)
        )
    return _declaration(terms, right, tensors, letters)


def _declaration(
    terms: Sequence[str], result: str, tensors: Sequence[Any], letters: Counter[str]
) -> Declaration:
    shapes = [dims_of(tensor, f"operand {n}") for n, tensor in enumerate(tensors)]
    rests = []
    for term, shape in zip(terms, shapes, strict=True):
        named = len(term.replace("...", ""))
        if len(shape) < named or ("..." not in term and len(shape) != named):
            raise errors.wrong_rank(
                "einsum", f"the operand of {term!r}", shape, f"{named} dimensions"
            )
        start = term.index("...") if "..." in term else len(shape)
        rests.append(shape[start : start + len(shape) - named])
    names = Names(letters)
    spread = broadcast(rests, names, "" if "..." in result else "+")
    marks = _marks(terms, result, letters)
    lengths: dict[str, Dim] = {}
    rows = []
    for term, shape, rest in zip(terms, shapes, spread.inputs, strict=True):
        rows.append(_row(term, shape, rest, marks, lengths))
    arguments = dict(spread.arguments)
    _broadcast_letters(terms, shapes, rows, marks, arguments, names)
    output: list[str] = []
    for part in _parts(result):
        output += (
            spread.output if part == "..." else [marks[part] if lengths.get(part) != 1 else "1"]
        )
    return declared(
        tensors,
        rows,
        [output],
        arguments=arguments,
        fresh=tuple(spread.fresh),
        dtypes=(result_type(tensors),),
        linear=tuple((n,) for n in range(len(tensors))),
    )


def _parts(term: str) -> list[str]:
    head, dots, tail = term.partition("...")
    return [*head, *([dots] if dots else []), *tail]


def _marks(terms: Sequence[str], result: str, letters: Counter[str]) -> dict[str, str]:
    twice = {
        letter
        for term in (*terms, result)
        for letter in term
        if letter != "." and term.count(letter) > 1
    }
    return {
        letter: letter + ("^" if letter in twice else "" if letter in result else "+")
        for letter in letters
    }


def _broadcast_letters(
    terms: Sequence[str],
    shapes: Sequence[Lengths],
    rows: list[list[str]],
    marks: dict[str, str],
    arguments: dict[str, Any],
    names: Names,
) -> None:
    """Letters whose lengths are not known to agree: each of them may be 1, so each operand has a
    word of its own.
    """
    for letter in marks:
        if any(term.count(letter) > 1 for term in terms):
            continue
        found = [
            (row, place, shape[place])
            for shape, row in zip(shapes, rows, strict=True)
            for place in range(len(row))
            if row[place] == marks[letter]
        ]
        given = list(dict.fromkeys(length for *_, length in found))
        if len(given) < 2 or None in given:
            continue
        one = broadcast([(length,) for *_, length in found], names, "^")
        for (row, place, _), word in zip(found, one.inputs, strict=True):
            row[place] = word[0]
        numbers = [n for n in given if isinstance(n, int)]
        arguments[letter] = [*one.arguments.values(), *numbers][0]
        marks[letter] = f"{letter}^"


def _row(
    term: str,
    shape: Sequence[Dim | None],
    rest: list[str],
    marks: dict[str, str],
    lengths: dict[str, Dim],
) -> list[str]:
    """The words of one operand; a length of 1 beside another one is broadcast. Lengths are noted
    for the output.
    """
    row: list[str] = []
    for part in _parts(term):
        if part == "...":
            row += rest
            continue
        length = shape[len(row)]
        if length is not None:
            before = lengths.get(part, 1)
            if before != 1 and length != 1 and never_equal(before, length):
                raise errors.lengths_differ(f"'{part}' of an einsum", before, length)
            if before == 1:
                lengths[part] = length
        row.append("1" if length == 1 else marks[part])
    return row


ENTRIES = (
    torch_entry(
        einsum,
        example("bhqd,bhkd->bhqk", t(2, 4, 12, 6), t(2, 4, 3, 6)),
        example("...ij,jk", t(2, 12, 6), t(6, 4)),
        example("ij,ij->i", t(12, 6), t(12, 6)),
        example("ab,bc,cd->ad", t(12, 4), t(4, 6), t(6, 2)),
        example("bij->bji", t(2, 12, 6)),
        example("ii->i", t(6, 6)),
        example("b...,b...->...", t(12, 4, 6), t(12, 6)),
    ),
)
