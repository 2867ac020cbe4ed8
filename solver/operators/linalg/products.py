"""Matrix products, products of vectors, and products that are added to a tensor.

    linear(x, w, b)       * k+, n k+, n -> * n           b is a summand
    matmul(x, y)          a b k+, k+ n -> a b n          batches broadcast
    tensordot(x, y, 2)    a b+ c+, b+ c+ d -> a d
    cross(x, y)           a 3, a 3 -> a 3
    block_diag(x, y)      a^ b^, c^ d^ -> e^ f^          e = a + c, f = b + d
    addmm(b, x, y)        n, m k+, k+ n -> m n           b is a summand: one rank adds it
    addbmm(b, x, y)       m n, b+ m k+, b+ k+ n -> m n   the batch is summed too

Products that are written in letters are in `einsum`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from dimsolve.ir.operator import Declaration

from ...algebra.poly import Dim
from ..declare import errors
from ..declare.dtypes import dtype_of, result_type
from ..declare.entry import Form, entries, entry, example, functional, shapes, t, torch_entry
from ..declare.forms import declared
from ..declare.needs import NE, need
from ..declare.writing import (
    Lengths,
    Names,
    NotKnown,
    Pattern,
    as_tuple,
    axes,
    axis,
    dims_of,
    freeze_some,
    known,
    length_word,
)
from ..elementwise.pointwise import broadcast, laid_on


def cross(input: Any, other: Any, dim: Any = None) -> Declaration:
    """Declares torch.cross; the dimension is written out, for without it the
    first of length 3 is taken.
    """
    shapes = [dims_of(input), dims_of(other, "the other tensor")]
    if dim is None:
        dim = next((n for n, length in enumerate(shapes[0]) if length == 3), None)
        if dim is None or None in shapes[0]:
            raise NotKnown("which dimension has length 3 is not known")
    return _crossed([input, other], dim, fixed=True)


def linalg_cross(input: Any, other: Any, *, dim: int = -1) -> Declaration:
    """Declares torch.linalg.cross."""
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
    return declared(
        tensors,
        rows[:2],
        rows[2:],
        arguments=spread.arguments,
        fresh=tuple(spread.fresh),
        fixed={"dim": place} if fixed else {},
        dtypes=(result_type(tensors),),
        linear=((0,), (1,)),
        frozen="" if spread.output else "the two vectors are seen whole",
    )


def vecdot(x: Any, y: Any, *, dim: int = -1) -> Declaration:
    """Declares inner products along a dimension."""
    shapes = [dims_of(x), dims_of(y, "the other tensor")]
    if len(shapes[0]) != len(shapes[1]):
        raise NotKnown("vecdot of tensors with different numbers of dimensions is not supported")
    place = axis(dim, len(shapes[0]))
    names = Names()
    spread = broadcast([shape[:place] + shape[place + 1 :] for shape in shapes], names)
    along = broadcast([(shape[place],) for shape in shapes], names, "+")
    rows = [
        [*row[:place], *word, *row[place:]]
        for row, word in zip(spread.inputs, along.inputs, strict=True)
    ]
    return declared(
        (x, y),
        rows,
        [spread.output],
        arguments=spread.arguments,
        fresh=tuple(spread.fresh),
        dtypes=(result_type((x, y)),),
        linear=((0,), (1,)),
    )


def block_diag(*tensors: Any) -> Declaration:
    """Declares matrices along a diagonal."""
    names, arguments = Names(), dict[str, Any]()
    rows: list[list[str]] = []
    totals: list[Dim] = [0, 0]
    for tensor in tensors:
        dims = dims_of(tensor)
        if len(dims) > 2:
            raise NotKnown("only vectors and matrices are supported")
        rows.append(names.take(len(dims), "^"))
        sides = (*(1,) * (2 - len(dims)), *known(dims))
        totals = [a + b for a, b in zip(totals, sides, strict=True)]
    target = [length_word(names, arguments, total) for total in totals]
    return declared(
        tensors,
        rows,
        [target],
        arguments=arguments,
        dtypes=(result_type(tensors),),
        linear=(tuple(range(len(tensors))),),
        frozen="a part of a block does not lie on the diagonal of the parts",
    )


def covariance(input: Any, **options: Any) -> Declaration:
    """Declares cov and corrcoef: rows are compared with each other over all columns."""
    if len(dims_of(input)) != 2 or any(value is not None for value in options.values()):
        raise NotKnown("only a matrix without weights is supported")
    rows = dims_of(input)[0]
    if rows is not None and rows != 1:
        need(rows, NE, 1)  # of one row torch returns a number
    return Declaration(
        "1 b^ -> ()" if rows == 1 else "a^ b^ -> a^ a^",
        (input,),
        dtypes=(dtype_of(input),),
        frozen="every row meets every other",
    )


_EACH = ((0,), (1,))


def contraction(
    tensors: Sequence[Any], inputs: Sequence[Pattern], output: Pattern, **more: Any
) -> Declaration:
    """Declares a product that is linear in each factor."""
    linear = more.pop("linear", tuple((n,) for n in range(len(tensors))))
    return declared(
        tensors, inputs, [output], dtypes=(result_type(tensors),), linear=linear, **more
    )


def linear(input: Any, weight: Any, bias: Any = None) -> Declaration:
    """Declares ``input @ weight.T + bias``; a weight with one dimension is one row."""
    rank = len(dims_of(weight, "the weight"))
    if not dims_of(input):
        raise errors.wrong_rank("linear", "input", (), "at least 1 dimension")
    row, out = ("n k+", "n") if rank == 2 else ("k+", "()")
    if bias is None:
        result = "* n" if rank == 2 else "*"
        return Declaration(
            f"* k+, {row} -> {result}", (input, weight), dtypes=(dtype_of(input),), linear=_EACH
        )
    whole: set[str] = set()
    if rank == 2:
        out, whole = _bias(dims_of(bias, "the bias"), dims_of(weight)[0])
    result = "* n" if rank == 2 else "*"
    return Declaration(
        freeze_some(f"* k+, {row}, {out} -> {result}", whole),
        (input, weight, bias),
        value_split=(2,),
        dtypes=(dtype_of(input),),
        linear=((0, 2), (1, 2)),
    )


def _bias(dims: Lengths, columns: Dim | None) -> tuple[str, set[str]]:
    """The annotation of a bias, which is broadcast, and what stays whole; NotKnown for one with
    rows of its own.
    """
    if len(dims) > 2 or any(dim != 1 for dim in dims[:-1]):
        raise NotKnown("a bias with rows of its own is not known")
    last, whole = laid_on(dims[-1:], [columns], ["n"], Names({"k", "n"}))
    return " ".join(["1"] * (len(dims) - 1) + last) or "()", whole


def matmul(input: Any, other: Any) -> Declaration:
    """Declares a product of vectors, matrices or batches of matrices, batches broadcast."""
    a, b = dims_of(input), dims_of(other, "the other tensor")
    if not a or not b:
        raise errors.wrong_rank("matmul", "a tensor", (), "at least 1 dimension")
    names = Names()
    batch = broadcast([a[:-2], b[:-2]], names)
    m = [names.one()] if len(a) > 1 else []
    k = names.one("+")
    n = [names.one()] if len(b) > 1 else []
    left = [*batch.inputs[0], *m, k]
    right = [*batch.inputs[1], k, *n]
    return contraction(
        (input, other),
        [left, right],
        [*batch.output, *m, *n],
        arguments=batch.arguments,
        fresh=tuple(batch.fresh),
    )


def fixed_product(text: str) -> Form:
    """Declares a product of two tensors with one annotation: mm, bmm, mv, dot."""

    def declare(input: Any, mat2: Any) -> Declaration:
        return Declaration(text, (input, mat2), dtypes=(result_type((input, mat2)),), linear=_EACH)

    return declare


mm = fixed_product("m k+, k+ n -> m n")
bmm = fixed_product("b m k+, b k+ n -> b m n")


def mv(input: Any, vec: Any) -> Declaration:
    """Declares a matrix times a vector."""
    return fixed_product("m k+, k+ -> m")(input, vec)


def dot(input: Any, tensor: Any) -> Declaration:
    """Declares the inner product of two vectors."""
    return fixed_product("k+, k+ -> ()")(input, tensor)


def inner(input: Any, other: Any) -> Declaration:
    """Declares inner products over the last dimensions."""
    a, b = dims_of(input), dims_of(other, "the other tensor")
    if not a or not b:
        return Declaration(
            "*, () -> *" if a else "(), * -> *",
            (input, other),
            dtypes=(result_type((input, other)),),
            linear=_EACH,
        )
    names = Names()
    left, right, k = names.take(len(a) - 1), names.take(len(b) - 1), names.one("+")
    return contraction((input, other), [[*left, k], [*right, k]], [*left, *right])


def outer(input: Any, vec2: Any) -> Declaration:
    """Declares all products of two vectors' elements."""
    return contraction((input, vec2), [["m"], ["n"]], ["m", "n"])


def kron(input: Any, other: Any) -> Declaration:
    """Declares the Kronecker product."""
    a, b = len(dims_of(input)), len(dims_of(other, "the other tensor"))
    names = Names()
    left, right = names.take(a), names.take(b)
    rank = max(a, b)
    padded = [["1"] * (rank - len(row)) + row for row in (left, right)]
    joined = [
        f"({x} {y})" if "1" not in (x, y) else x if y == "1" else y
        for x, y in zip(*padded, strict=True)
    ]
    return contraction((input, other), [left, right], joined)


def tensordot(a: Any, b: Any, dims: Any = 2) -> Declaration:
    """Declares a contraction of given dimensions."""
    ranks = len(dims_of(a)), len(dims_of(b, "the other tensor"))
    if isinstance(dims, int):
        pairs = (tuple(range(ranks[0] - dims, ranks[0])), tuple(range(dims)))
    elif isinstance(dims, list | tuple) and len(dims) == 2:
        pairs = (
            axes(as_tuple(dims[0]), ranks[0], empty_means_all=False),
            axes(as_tuple(dims[1]), ranks[1], empty_means_all=False),
        )
    else:
        raise NotKnown("the dimensions of tensordot are not known")
    if len(pairs[0]) != len(pairs[1]):
        raise errors.wrong_number("contracted dimensions", len(pairs[1]), len(pairs[0]))
    names = Names()
    lengths = [
        [dims_of(tensor)[place] for place in places]
        for tensor, places in zip((a, b), pairs, strict=True)
    ]
    shared = broadcast([tuple(side) for side in lengths], names, "+")
    rows, output = [], []
    for rank, places, words in zip(ranks, pairs, shared.inputs, strict=True):
        row = names.take(rank)
        output += [word for place, word in enumerate(row) if place not in places]
        for place, word in zip(places, words, strict=True):
            row[place] = word
        rows.append(row)
    return contraction((a, b), rows, output)


def bilinear(input1: Any, input2: Any, weight: Any, bias: Any = None) -> Declaration:
    """Declares ``x1 @ W @ x2 + b`` for every row."""
    tensors = (input1, input2, weight) if bias is None else (input1, input2, weight, bias)
    text = "* i+, * j+, o i+ j+" + (", o" if bias is not None else "")
    each = (0, 1, 2)
    return Declaration(
        f"{text} -> * o",
        tensors,
        value_split=() if bias is None else (3,),
        dtypes=(result_type(tensors),),
        linear=tuple((n,) if bias is None else (n, 3) for n in each),
    )


def chain(*matrices: Any) -> Declaration:
    """Declares a product of several matrices: the lengths between two of them are summed."""
    listed = (
        list(matrices[0])
        if len(matrices) == 1 and isinstance(matrices[0], list | tuple)
        else list(matrices)
    )
    names = Names()
    ranks = [len(dims_of(matrix)) for matrix in listed]
    words = [names.one("+" if 0 < n < len(listed) else "") for n in range(len(listed) + 1)]
    rows = [words[n : n + 2] for n in range(len(listed))]
    if ranks[0] == 1:
        rows[0] = [words[1]]
    if ranks[-1] == 1:
        rows[-1] = [words[-2]]
    output = [words[0]] * (ranks[0] == 2) + [words[-1]] * (ranks[-1] == 2)
    return contraction(listed, rows, output)


def grouped_mm(
    input: Any, weight: Any, offs: Any = None, bias: Any = None, out_dtype: Any = None
) -> Declaration:
    """Declares a product of row groups with one matrix each; ``offs`` is where the groups end."""
    if offs is None or bias is not None or len(dims_of(input)) != 2 or len(dims_of(weight)) != 3:
        raise NotKnown("only (rows, k) by (groups, k, n) with offs is supported")
    return Declaration(
        "s^ k+, g^ k+ n, g^ -> s^ n", (input, weight, offs), dtypes=(dtype_of(input),), linear=_EACH
    )


def sum_of_product(product: Sequence[Pattern], output: Sequence[str]) -> Form:
    """Declares ``beta * input + alpha * (x @ y)``: addmm, baddbmm, addmv, addr, addbmm.

    ``input`` is a summand and is broadcast to the output.
    """

    def declare(input: Any, x: Any, y: Any, beta: Any = 1, alpha: Any = 1) -> Declaration:
        dims = dims_of(input)
        lengths: dict[str, Dim | None] = {}
        for tensor, pattern in zip((x, y), product, strict=True):
            lengths.update(zip(pattern, dims_of(tensor), strict=True))
        offset = len(output) - len(dims)
        if offset < 0:
            raise errors.wrong_rank("this sum", "input", dims, f"at most {len(output)} dimensions")
        names = Names({"b", "k", "m", "n"})
        row, whole = laid_on(dims, [lengths[word] for word in output], output, names)
        found = contraction(
            (input, x, y), [row, *product], output, value_split=(0,), linear=((0, 1), (0, 2))
        )
        return replace(found, annotation=freeze_some(found.annotation, whole))

    return declare


def _named(form: Form, x: str, y: str) -> Form:
    """Returns the declaration with torch's names of the two factors."""

    def declare(input: Any, *args: Any, **kwargs: Any) -> Declaration:
        renamed = {{x: "x", y: "y"}.get(name, name): value for name, value in kwargs.items()}
        if len(args) > 2:
            raise NotKnown("the old order of arguments is not supported")
        return form(input, *args, **renamed)

    return declare


_ADDMM = sum_of_product([["m", "k+"], ["k+", "n"]], ["m", "n"])


_BADDBMM = sum_of_product([["b", "m", "k+"], ["b", "k+", "n"]], ["b", "m", "n"])


_ADDBMM = sum_of_product([["b+", "m", "k+"], ["b+", "k+", "n"]], ["m", "n"])


_ADDMV = sum_of_product([["m", "k+"], ["k+"]], ["m"])


_ADDR = sum_of_product([["m"], ["n"]], ["m", "n"])


ENTRIES = (
    entry(
        "torch.linalg.cross", linalg_cross, *shapes("12 3, 12 3"), example(t(3, 12), t(3, 1), dim=0)
    ),
    entry("torch.linalg.vecdot", vecdot, *shapes("12 6, 12 6"), example(t(12, 6), t(12, 1), dim=0)),
    torch_entry(cross, *shapes("12 3, 12 3", "3 12, 3 12"), example(t(3, 3), t(3, 3), 1)),
    torch_entry(block_diag, *shapes("2 3, 4 4")),
    *entries("torch. cov corrcoef", covariance, *shapes("4 12")),
    functional(
        linear,
        *shapes(
            "2 12 24, 6 24, 6", "12 24, 12 24", "24, 6 24, 6", "12 24, 6 24, 1", "12 24, 6 24, 1 6"
        ),
    ),
    torch_entry(
        matmul,
        *shapes("12 24, 24 6", "2 12 6, 6 4", "2 1 12 6, 4 6 3", "12 6, 6", "6, 6 12", "12, 12"),
    ),
    entry("torch.mm", mm, *shapes("12 24, 24 6")),
    entry("torch.bmm", bmm, *shapes("4 12 24, 4 24 6")),
    torch_entry(mv, *shapes("12 24, 24")),
    torch_entry(dot, *shapes("12, 12")),
    entry("torch.vdot", inner, *shapes("12, 12")),
    torch_entry(inner, *shapes("2 12 6, 4 6", "12, 12")),
    torch_entry(outer, *shapes("12, 6")),
    torch_entry(kron, *shapes("2 12, 6 4", "12, 2 6")),
    torch_entry(
        tensordot, *shapes("12 4 6, 4 6 2"), example(t(12, 4, 6), t(6, 3, 12), ([0, 2], [2, 0]))
    ),
    functional(bilinear, *shapes("12 4, 12 6, 3 4 6, 3", "2 6 4, 2 6 3, 12 4 3")),
    entry("torch.chain_matmul", chain, *shapes("12 4, 4 6, 6 24")),
    entry(
        "torch.linalg.multi_dot",
        chain,
        example([t(12, 4), t(4, 6), t(6, 24)]),
        example([t(12), t(12, 6), t(6)]),
    ),
    functional(grouped_mm, note="rows of a group are neighbours: rows stay whole"),
    entry(
        "torch.ops.transformers.grouped_mm_fallback",
        grouped_mm,
        note="rows of a group are neighbours: rows stay whole",
    ),
    entry(
        "torch.addmm",
        _named(_ADDMM, "mat1", "mat2"),
        *shapes("6, 12 24, 24 6"),
        example(t(12, 6), t(12, 24), t(24, 6), beta=2, alpha=3),
        *shapes("12 1, 12 24, 24 6"),
    ),
    entry(
        "torch.baddbmm",
        _named(_BADDBMM, "batch1", "batch2"),
        *shapes("4 12 6, 4 12 24, 4 24 6", "1 6, 4 12 24, 4 24 6"),
    ),
    entry("torch.addbmm", _named(_ADDBMM, "batch1", "batch2"), *shapes("12 6, 4 12 24, 4 24 6")),
    entry("torch.addmv", _named(_ADDMV, "mat", "vec"), *shapes("12, 12 24, 24")),
    entry(
        "torch.addr",
        _named(_ADDR, "vec1", "vec2"),
        *shapes("12 6, 12, 6"),
        note="nothing is summed but input",
    ),
)
