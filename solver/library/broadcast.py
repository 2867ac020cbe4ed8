"""Broadcasting: the shapes of one element-wise call as patterns that share identifiers.

Lengths at one place, counted from the end, that are equal share an identifier; a length of 1 beside
another is the number 1; a missing leading dimension is missing. Symbols that are not known to agree
may each be 1, so nothing is split there: each keeps a frozen identifier of its own, and the output
has the only length that can be right.

    (batch, 1, d)  (seq, d)      a 1 b, c b -> a c b
    (n,)  (m,)                   a^, b^ -> c^         c = max(n, m): n == m, n == 1 or m == 1
    (n,)  (8,)                   a^, b^ -> b^         n is 8 or 1
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import combinations
from typing import Any

from dimsolve.solver.algebra.dims import maximum, minimum, surely_positive
from dimsolve.solver.algebra.poly import Dim, Poly, product

from . import errors
from .lengths import never_equal
from .needs import need_equal_or_one
from .values import Lengths
from .writing import Names, bare, identifiers_in


@dataclass(slots=True)
class Broadcast:
    """Patterns of all shapes and of the result. ``arguments`` and ``fresh`` are what a Declaration
    needs besides.
    """

    inputs: list[list[str]]
    output: list[str] = field(default_factory=list)
    arguments: dict[str, Any] = field(default_factory=dict)
    fresh: list[str] = field(default_factory=list)


def broadcast(shapes: Sequence[Lengths], names: Names, mark: str = "") -> Broadcast:
    """Returns the patterns of shapes that are broadcast together. Raises ShapeError where they can
    never be.

    >>> result = broadcast([(2, 1, 8), (3, 8)], Names())
    >>> result.inputs, result.output
    ([['a', '1', 'c'], ['b', 'c']], ['a', 'b', 'c'])
    """
    rank = max((len(shape) for shape in shapes), default=0)
    result = Broadcast([[] for _ in shapes])
    for position in range(-rank, 0):
        present = [i for i, shape in enumerate(shapes) if len(shape) >= -position]
        lengths = [shapes[i][position] for i in present]
        words, output = _one_place(shapes, position, lengths, names, mark, result)
        for i, word in zip(present, words, strict=True):
            result.inputs[i].append(word)
        result.output.append(output)
    return result


def _one_place(
    shapes: Sequence[Lengths],
    position: int,
    lengths: Sequence[Dim | None],
    names: Names,
    mark: str,
    result: Broadcast,
) -> tuple[list[str], str]:
    """Returns the word of every length at one place, and of the result."""
    distinct = list(dict.fromkeys(length for length in lengths if length != 1))
    if not distinct:
        return ["1"] * len(lengths), "1"
    if len(distinct) == 1 and (distinct[0] is not None or lengths.count(None) == 1):
        word = names.one(mark)
        return ["1" if length == 1 else word for length in lengths], word
    numbers = [length for length in distinct if isinstance(length, int)]
    if len(numbers) > 1 or never_broadcast(distinct):
        raise errors.cannot_broadcast(shapes, position, distinct)
    for a, b in combinations([length for length in distinct if length is not None], 2):
        need_equal_or_one(a, b, one=[length for length in (a, b) if isinstance(length, Poly)])
    # Unknown lengths need not agree with each other, so each has a word of its own.
    known = {length: names.one("^") for length in distinct if length is not None}
    each = [
        names.one("^") if length is None else "1" if length == 1 else known[length]
        for length in lengths
    ]
    if numbers:
        return each, known[numbers[0]]
    output = names.one("^")
    if None in distinct:
        result.fresh.append(bare(output))
    else:
        result.arguments[bare(output)] = common_length([d for d in distinct if d is not None])
    return each, output


def common_length(lengths: Sequence[Dim]) -> Dim:
    """Returns the length that lengths which broadcast have together: 0 where one of them is 0, and
    the greatest otherwise.

    >>> from dimsolve.solver.algebra.dims import floor_div
    >>> from dimsolve.solver.algebra.poly import symbol
    >>> n = symbol("n")
    >>> print(common_length([n, symbol("m")]), common_length([n, floor_div(n, 2)]), sep=" and ")
    max(m, n) and max(n, n//2)*min(1, n//2)
    """
    may_be_empty = [minimum(1, length) for length in lengths if not surely_positive(length)]
    return product([maximum(*lengths), *may_be_empty])


def laid_on(
    dims: Lengths, wanted: Sequence[Dim | None], words: Sequence[str], names: Names
) -> tuple[list[str], set[str]]:
    """Returns the words of a tensor that is broadcast to lengths with words of their own, and the
    identifiers that must stay whole: where symbols decide whether a length is 1 or the wanted one.

    >>> laid_on((1, 6), (2, 12, 6), ["a", "b", "c+"], Names())
    (['1', 'c+'], set())
    """
    row: list[str] = []
    doubtful: set[str] = set()
    offset = len(wanted) - len(dims)
    for length, whole, word in zip(dims, wanted[offset:], words[offset:], strict=True):
        if length == 1 and whole != 1:
            row.append("1")
        elif length is None or whole is None or length == whole or never_equal(length, 1):
            row.append(word)
        else:
            need_equal_or_one(length, whole, one=(length,))
            row.append(names.one("^"))
            doubtful.update(identifiers_in(word))
    return row, doubtful


def never_broadcast(lengths: Sequence[Dim | None]) -> bool:
    """Whether two of the lengths can neither be equal nor be 1, for any values of the symbols."""
    fixed = [length for length in lengths if length is not None and never_equal(length, 1)]
    return any(never_equal(a, b) for n, a in enumerate(fixed) for b in fixed[:n])
