"""Products of vectors, and what sets them beside each other.

cross(x, y)         a 3, a 3 -> a 3
vecdot(x, y)        a b+, a b+ -> a
block_diag(x, y)    a^ b^, c^ d^ -> e^ f^        e = a + c, f = b + d
"""

from __future__ import annotations

from typing import Any

from dimsolve.ir.operator import Declaration
from dimsolve.solver.algebra.poly import Dim

from . import errors
from .broadcast import broadcast
from .dtypes import dtype_of, result_type
from .entry import entry
from .needs import NE, need
from .samples import example, t
from .values import NotKnown, axis, dims_of, known
from .writing import Names, annotation, length_word


def cross(input: Any, other: Any, dim: Any = None) -> Declaration:
    """Returns the declaration of torch.cross; the dimension is written out, for without it the
    first of length 3 is taken.
    """
    shapes = [dims_of(input), dims_of(other, "the other tensor")]
    if dim is None:
        dim = next((n for n, length in enumerate(shapes[0]) if length == 3), None)
        if dim is None or None in shapes[0]:
            raise NotKnown("which dimension has length 3 is not known")
    return _crossed([input, other], dim, fixed=True)


def linalg_cross(input: Any, other: Any, *, dim: int = -1) -> Declaration:
    """Returns the declaration of torch.linalg.cross."""
    return _crossed([input, other], dim, fixed=False)


def _crossed(tensors: list[Any], dim: int, *, fixed: bool) -> Declaration:
    shapes = [dims_of(tensor) for tensor in tensors]
    place = axis(dim, len(shapes[0]))
    if len(shapes[0]) != len(shapes[1]):
        raise errors.wrong_rank(
            "cross", "the other tensor", shapes[1], f"{len(shapes[0])} dimensions"
        )
    names = Names()
    rests = [shape[:place] + shape[place + 1 :] for shape in shapes]
    spread = broadcast(rests, names)
    rows = [[*row[:place], "3", *row[place:]] for row in (*spread.inputs, spread.output)]
    return Declaration(
        annotation(rows[:2], rows[2:]),
        tuple(tensors),
        arguments=spread.arguments,
        fresh=tuple(spread.fresh),
        fixed={"dim": place} if fixed else {},
        dtypes=(result_type(tensors),),
        linear=((0,), (1,)),
        frozen="" if spread.output else "the two vectors are seen whole",
    )


def vecdot(x: Any, y: Any, *, dim: int = -1) -> Declaration:
    """Returns the declaration of inner products along a dimension."""
    shapes = [dims_of(x), dims_of(y, "the other tensor")]
    if len(shapes[0]) != len(shapes[1]):
        raise NotKnown("vecdot of tensors with different numbers of dimensions is not known of")
    place = axis(dim, len(shapes[0]))
    names = Names()
    spread = broadcast([shape[:place] + shape[place + 1 :] for shape in shapes], names)
    along = broadcast([(shape[place],) for shape in shapes], names, "+")
    rows = [
        [*row[:place], *word, *row[place:]]
        for row, word in zip(spread.inputs, along.inputs, strict=True)
    ]
    return Declaration(
        annotation(rows, [spread.output]),
        (x, y),
        arguments=spread.arguments,
        fresh=tuple(spread.fresh),
        dtypes=(result_type((x, y)),),
        linear=((0,), (1,)),
    )


def block_diag(*tensors: Any) -> Declaration:
    """Returns the declaration of matrices along a diagonal."""
    names, arguments = Names(), dict[str, Any]()
    rows: list[list[str]] = []
    totals: list[Dim] = [0, 0]
    for tensor in tensors:
        dims = dims_of(tensor)
        if len(dims) > 2:
            raise NotKnown("only vectors and matrices are known of")
        rows.append(names.take(len(dims), "^"))
        sides = (*(1,) * (2 - len(dims)), *known(dims))
        totals = [a + b for a, b in zip(totals, sides, strict=True)]
    target = [length_word(names, arguments, total) for total in totals]
    return Declaration(
        annotation(rows, [target]),
        tuple(tensors),
        arguments=arguments,
        dtypes=(result_type(tensors),),
        linear=(tuple(range(len(tensors))),),
        frozen="a part of a block does not lie on the diagonal of the parts",
    )


def covariance(input: Any, **options: Any) -> Declaration:
    """Returns the declaration of cov and corrcoef: rows are compared with each other over all
    columns.
    """
    if len(dims_of(input)) != 2 or any(value is not None for value in options.values()):
        raise NotKnown("only a matrix without weights is known of")
    rows = dims_of(input)[0]
    if rows is not None and rows != 1:
        need(rows, NE, 1)  # of one row torch returns a number
    return Declaration(
        "1 b^ -> ()" if rows == 1 else "a^ b^ -> a^ a^",
        (input,),
        dtypes=(dtype_of(input),),
        frozen="every row meets every other",
    )


ENTRIES = (
    entry(
        "torch.linalg.cross",
        linalg_cross,
        example(t(12, 3), t(12, 3)),
        example(t(3, 12), t(3, 1), dim=0),
    ),
    entry(
        "torch.linalg.vecdot",
        vecdot,
        example(t(12, 6), t(12, 6)),
        example(t(12, 6), t(12, 1), dim=0),
    ),
    entry(
        "torch.cross",
        cross,
        example(t(12, 3), t(12, 3)),
        example(t(3, 12), t(3, 12)),
        example(t(3, 3), t(3, 3), 1),
    ),
    entry("torch.block_diag", block_diag, example(t(2, 3), t(4, 4))),
    entry("torch.cov", covariance, example(t(4, 12))),
    entry("torch.corrcoef", covariance, example(t(4, 12))),
)
