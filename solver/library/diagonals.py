"""Diagonals and triangles of matrices: what stays, or is read, depends on row and column together.

tril(x)               a b^ c^ -> a b^ c^   which elements stay depends on where they stand
diagonal(x, 0, 1, 2)  a b^ c^ -> a d^      d = min(b, c)
diag_embed(x)         a b^ -> a b^ b^

A part of a matrix has another diagonal, so matrices stay whole and batches of them may be cut.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from dimsolve.ir.operator import Declaration
from dimsolve.solver.algebra.dims import maximum, minimum
from dimsolve.solver.algebra.poly import product

from . import errors
from .creation import POSITIONS, made
from .dtypes import dtype_name, dtype_of
from .entry import Form, entry
from .needs import EQ, need
from .samples import example, t
from .values import NotKnown, axis, dims_of, known
from .writing import Names, annotation, bare, length_word


def _triangle_indices(*, lower: bool) -> Form:
    """Returns the declaration of tril_indices, triu_indices: one column for each place of a
    triangle.
    """

    def declare(
        row: Any, col: Any, offset: int = 0, *, dtype: Any = None, **rest: Any
    ) -> Declaration:
        if not isinstance(row, int) or not isinstance(col, int):
            raise NotKnown("how many places a triangle has is not known")
        below = sum(min(max(n + offset + lower, 0), col) for n in range(row))
        count = below if lower else row * col - below
        return made((2, count), "", dtype_name(dtype) or "int64", mark="^", frozen=POSITIONS)

    return declare


def triangle(input: Any, diagonal: int = 0) -> Declaration:
    """Returns the declaration of tril and triu: batches may be cut, matrices not."""
    rank = len(dims_of(input))
    if rank < 2:
        raise errors.wrong_rank("a triangle", "input", dims_of(input), "at least 2 dimensions")
    names = Names()
    row = [names.one("^" if n >= rank - 2 else "") for n in range(rank)]
    return Declaration(
        annotation([row], [row]),
        (input,),
        dtypes=(dtype_of(input),),
        linear=((0,),),
        frozen=POSITIONS if rank == 2 else "",
    )


def diagonal(input: Any, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Declaration:
    """Returns the declaration of the elements on a diagonal, as a last dimension."""
    dims = dims_of(input)
    a, b = axis(dim1, len(dims)), axis(dim2, len(dims))
    rows, columns = dims[a], dims[b]
    names = Names()
    row = [names.one("^" if n in (a, b) else "") for n in range(len(dims))]
    arguments: dict[str, Any] = {}
    length = None
    if rows is not None and columns is not None:
        down, right = max(-offset, 0), max(offset, 0)
        length = minimum(rows - down, columns - right)
        length = (
            max(length, 0) if isinstance(length, int) else maximum(length, 0) if offset else length
        )
    word = length_word(names, arguments, length)
    rest = [w for n, w in enumerate(row) if n not in (a, b)]
    return Declaration(
        annotation([row], [[*rest, word]]),
        (input,),
        arguments=arguments,
        fresh=(bare(word),) if length is None else (),
        dtypes=(dtype_of(input),),
        linear=((0,),),
        frozen="" if rest else POSITIONS,
    )


_diagonal = diagonal


def torch_diagonal_of_linalg(
    A: Any, *, offset: int = 0, dim1: int = -2, dim2: int = -1
) -> Declaration:
    """Returns the declaration of torch.linalg.diagonal, by default of the last dimensions."""
    return diagonal(A, offset, dim1, dim2)


def diag(input: Any, diagonal: int = 0) -> Declaration:
    """Returns the declaration of torch.diag: a vector to a matrix, or a matrix to its diagonal."""
    dims = dims_of(input)
    if len(dims) == 2:
        return _diagonal(input, diagonal)
    return diag_embed(input, diagonal)


def diag_embed(input: Any, offset: int = 0, dim1: int = -2, dim2: int = -1) -> Declaration:
    """Returns the declaration of vectors laid on the diagonals of matrices."""
    dims = dims_of(input)
    names = Names()
    batch, last = names.take(len(dims) - 1), names.one("^")
    arguments: dict[str, Any] = {}
    length = None if dims[-1] is None else dims[-1] + abs(offset)
    side = last if offset == 0 else length_word(names, arguments, length)
    rank = len(dims) + 1
    a, b = axis(dim1, rank), axis(dim2, rank)
    rest = iter(batch)
    target = [side if n in (a, b) else next(rest) for n in range(rank)]
    return Declaration(
        annotation([[*batch, last]], [target]),
        (input,),
        arguments=arguments,
        dtypes=(dtype_of(input),),
        linear=((0,),),
        frozen="" if batch else POSITIONS,
    )


def diagflat(input: Any, offset: int = 0) -> Declaration:
    """Returns the declaration of a flattened tensor on a diagonal."""
    dims = known(dims_of(input))
    side = product(dims) + abs(offset)
    names, arguments = Names(), dict[str, Any]()
    row = names.take(len(dims), "^")
    word = length_word(names, arguments, side)
    return Declaration(
        annotation([row], [[word, word]]),
        (input,),
        arguments=arguments,
        dtypes=(dtype_of(input),),
        linear=((0,),),
        frozen=POSITIONS,
    )


def diagonal_scatter(
    input: Any, src: Any, offset: int = 0, dim1: int = 0, dim2: int = 1
) -> Declaration:
    """Returns the declaration of a diagonal replaced."""
    found = diagonal(input, offset, dim1, dim2)
    row, target = found.annotation.split(" -> ")
    word, given = target.rpartition(" ")[2], dims_of(src, "the source")[-1]
    length = int(word) if word.isdecimal() else found.arguments.get(bare(word))
    if length is not None and given is not None:
        need(given, EQ, length, errors.lengths_differ("the diagonal and the source", length, given))
    return replace(
        found,
        annotation=f"{row}, {target} -> {row}",
        inputs=(input, src),
        arguments={},
        fresh=(),
        linear=((0, 1),),
    )


ENTRIES = (
    entry("torch.tril", triangle, example(t(12, 4, 6)), example(t(6, 6), -1)),
    entry("torch.triu", triangle, example(t(12, 4, 6), 1), example(t(6, 6))),
    entry("torch.tril_indices", _triangle_indices(lower=True), example(4, 6), example(6, 4, -1)),
    entry("torch.triu_indices", _triangle_indices(lower=False), example(4, 6), example(3, 5, 2)),
    entry("torch.diagonal", diagonal, example(t(12, 4, 6), 0, 1, 2), example(t(4, 6), 1)),
    entry("torch.linalg.diagonal", torch_diagonal_of_linalg, example(t(12, 4, 6))),
    entry("torch.diag", diag, example(t(6)), example(t(4, 6), -1)),
    entry("torch.diag_embed", diag_embed, example(t(12, 6)), example(t(12, 6), 1)),
    entry("torch.diagflat", diagflat, example(t(4, 3)), example(t(6), 1)),
    entry("torch.diagonal_scatter", diagonal_scatter, example(t(12, 4, 6), t(12, 4), 0, 1, 2)),
)
