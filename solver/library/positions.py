"""Tensors in which every element depends on where it stands: a part of one is not one of its part.

arange(n)             -> a^                a part begins at another number
tril(x)               a b^ c^ -> a b^ c^   which elements stay depends on where they stand
diagonal(x, 0, 1, 2)  a b^ c^ -> a d^      d = min(b, c)
meshgrid(x, y)        a, b -> a b, a b     each result is one of its inputs, repeated
"""

from __future__ import annotations

from dataclasses import replace
from math import comb
from typing import Any

from dimsolve.ir.operator import Declaration
from dimsolve.solver.algebra.dims import ceil_div, maximum, minimum
from dimsolve.solver.algebra.poly import product

from . import errors
from .creation import POSITIONS, made
from .dtypes import DEFAULT, dtype_name, dtype_of
from .entry import Form, entry
from .lengths import at_least
from .needs import EQ, GE, NE, need
from .samples import constant, example, t
from .values import NotKnown, axis, dims_of, is_dim, is_tensor, known
from .writing import Names, annotation, bare, length_word


def arange(*bounds: Any, dtype: Any = None, **rest: Any) -> Declaration:
    """Returns the declaration of a sequence of numbers: end; start, end; or start, end, step."""
    given = [*bounds, *(rest[name] for name in ("start", "end", "step") if name in rest)]
    start, end, step = (0, given[0], 1) if len(given) == 1 else (*given, 1)[:3]
    numbers = (start, end, step)
    if any(is_tensor(x) for x in numbers):
        raise NotKnown("a bound of arange is a tensor")
    guessed = DEFAULT if any(isinstance(x, float) for x in numbers) else "int64"
    return made(
        (_count(start, end, step),), "", dtype_name(dtype) or guessed, mark="^", frozen=POSITIONS
    )


def _count(start: Any, end: Any, step: Any) -> Any:
    if all(isinstance(x, int | float) for x in (start, end, step)):
        if step == 0 or (end - start) * step < 0:
            raise errors.not_understood("arange", f"from {start} to {end} in steps of {step}")
        return (
            int(-((start - end) // step))
            if not isinstance(step, float)
            else _ceil((end - start) / step)
        )
    if not all(is_dim(x) for x in (start, end, step)):
        raise NotKnown("the bounds of arange are not known")
    refusal = errors.not_understood("arange", f"from {start} to {end} in steps of {step}")
    need(step, NE, 0, refusal)
    if isinstance(step, int) and step < 0:
        start, end, step = -start, -end, -step
    need((end - start) * step if not at_least(step, 1) else end - start, GE, 0, refusal)
    return ceil_div(end - start, step)


def _ceil(value: float) -> int:
    from math import ceil

    return ceil(value)


def linspace(
    start: Any, end: Any, steps: Any, *rest: Any, dtype: Any = None, **more: Any
) -> Declaration:
    """Returns the declaration of linspace and logspace."""
    return made((steps,), "", dtype_name(dtype) or DEFAULT, mark="^", frozen=POSITIONS)


def eye(n: Any, m: Any = None, *, dtype: Any = None, **rest: Any) -> Declaration:
    """Returns the declaration of an identity matrix."""
    sizes = (n, n if m is None else m)
    return made(sizes, "", dtype_name(dtype) or DEFAULT, mark="^", frozen=POSITIONS)


def window(window_length: Any, *args: Any, dtype: Any = None, **rest: Any) -> Declaration:
    """Returns the declaration of hann_window and its kin."""
    return made((window_length,), "", dtype_name(dtype) or DEFAULT, mark="^", frozen=POSITIONS)


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


def combinations(input: Any, r: int = 2, with_replacement: bool = False) -> Declaration:
    """Returns the declaration of all choices of r elements, one a row."""
    (length,) = known(dims_of(input))
    if not isinstance(length, int):
        raise NotKnown("how many combinations there are is not known")
    count = comb(length + r - 1, r) if with_replacement else comb(length, r)
    return Declaration(
        "a^ -> b^ " + str(r),
        (input,),
        arguments={"b": count},
        dtypes=(dtype_of(input),),
        frozen=POSITIONS,
    )


def meshgrid(*tensors: Any, indexing: str | None = None) -> Declaration:
    """Returns the declaration of coordinates: one result per tensor, each with all dimensions."""
    rows = (
        list(tensors[0])
        if len(tensors) == 1 and isinstance(tensors[0], list | tuple)
        else list(tensors)
    )
    words = Names().take(len(rows))
    inputs = [[word] if dims_of(row) else [] for word, row in zip(words, rows, strict=True)]
    target = [word if row else "1" for word, row in zip(words, inputs, strict=True)]
    if indexing == "xy" and len(target) > 1:
        target[:2] = target[1::-1]
    return Declaration(
        annotation(inputs, [target] * len(rows)),
        tuple(rows),
        dtypes=tuple(dtype_of(row) for row in rows),
        returns="tuple",
    )


def cartesian_prod(*tensors: Any) -> Declaration:
    """Returns the declaration of all combinations of elements, one a row."""
    words = Names().take(len(tensors))
    target = [f"({' '.join(words)})", str(len(tensors))] if len(tensors) > 1 else words
    return Declaration(
        annotation([[word] for word in words], [target]),
        tuple(tensors),
        dtypes=(dtype_of(tensors[0]),),
    )


def vander(x: Any, N: Any = None, increasing: bool = False) -> Declaration:
    """Returns the declaration of a Vandermonde matrix: powers of each element in a row."""
    (length,) = dims_of(x)
    width = length if N is None else N
    if width is None:
        raise NotKnown("the number of powers is not known")
    arguments: dict[str, Any] = {}
    word = length_word(Names({"a"}), arguments, width)
    fixed = {"N": N} if N is not None else {}
    mark = "" if N is not None else "^"
    return Declaration(
        annotation([[f"a{mark}"]], [[f"a{mark}", word]]),
        (x,),
        arguments=arguments,
        fixed=fixed,
        dtypes=(dtype_of(x),),
    )


ENTRIES = (
    entry("torch.arange", arange, example(12), example(1, 13, 3), example(0.0, 3.0, 0.5)),
    entry("torch.linspace", linspace, example(0.0, 1.0, 12)),
    entry("torch.logspace", linspace, example(0.0, 1.0, 12)),
    entry("torch.eye", eye, example(6), example(4, 6)),
    *(
        entry(f"torch.{name}_window", window, example(12))
        for name in ("hann", "hamming", "blackman", "bartlett")
    ),
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
    entry("torch.combinations", combinations, example(t(6)), example(t(4), 3, True)),
    entry(
        "torch.meshgrid",
        meshgrid,
        example(t(12), t(6), indexing="ij"),
        example(t(12), t(6), t(4), indexing="xy"),
    ),
    entry("torch.cartesian_prod", cartesian_prod, example(t(12), t(6)), example(t(12))),
    entry("torch.vander", vander, example(constant(t(12)), 4), example(constant(t(6)))),
)
