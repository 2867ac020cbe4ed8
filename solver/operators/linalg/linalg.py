"""Linear algebra: batches of matrices may be cut, and columns that are solved for one by one.

inv(A)              * n^ n^ -> * n^ n^
solve(A, B)         * n^ n^, * n^ k -> * n^ k
svd(A)              * m^ n^ -> * m^ k^, * k^, * k^ n^       k = min(m, n)
cross(x, y)         a b^, a b^ -> a b^
vecdot(x, y)        a b+, a b+ -> a
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from dimsolve.ir.operator import Declaration

from ...algebra.dims import minimum
from ..declare import errors
from ..declare.dtypes import complex_of, dtype_of, real_of
from ..declare.entry import (
    Entry,
    Form,
    Sample,
    between,
    constant,
    entry,
    example,
    shapes,
    t,
    torch_entry,
)
from ..declare.forms import declared
from ..declare.writing import Names, NotKnown, bare, dims_of, freeze_text, is_tensor, length_word
from ..elementwise.pointwise import broadcast

_VECTORS_OR_MATRIX = "a part of the batch may be taken for another kind of right side"
_ONE_MATRIX = "one matrix is seen whole"


def matrices(
    tensors: Sequence[Any],
    inner: Sequence[Sequence[str]],
    outputs: Sequence[Sequence[str]],
    dtypes: Sequence[str | None],
    arguments: Mapping[str, Any] | None = None,
    **more: Any,
) -> Declaration:
    """Declares functions of matrices, whose batch dimensions are broadcast.

    inner: the words of the last dimensions of each tensor; outputs: those of each result.
    """
    shapes = [dims_of(tensor) for tensor in tensors]
    for shape, words in zip(shapes, inner, strict=True):
        if len(shape) < len(words):
            raise errors.wrong_rank(
                "this function", "a tensor", shape, f"at least {len(words)} dimensions"
            )
    taken = {bare(word) for row in (*inner, *outputs) for word in row}
    batches = [shape[: len(shape) - len(words)] for shape, words in zip(shapes, inner, strict=True)]
    spread = broadcast(batches, Names(taken))
    rows = [[*batch, *words] for batch, words in zip(spread.inputs, inner, strict=True)]
    open_ = bool(spread.output) or any(
        bare(w) == w and not w.isdecimal() for row in inner for w in row
    )
    return declared(
        tensors,
        rows,
        [[*spread.output, *words] for words in outputs],
        arguments={**spread.arguments, **(arguments or {})},
        fresh=tuple(spread.fresh),
        dtypes=tuple(dtypes),
        frozen="" if open_ else _ONE_MATRIX,
        returns="tuple" if len(outputs) > 1 else "tensor",
        **more,
    )


def square(
    *outputs: str, real: Sequence[int] = (), whole: Sequence[int] = (), whole_as: str = "int32"
) -> Any:
    """Declares a function of one square matrix; ``real`` results have real
    dtypes, ``whole`` integers.
    """

    def declare(A: Any, *args: Any, **kwargs: Any) -> Declaration:
        dtype = dtype_of(A)
        dtypes = [
            real_of(dtype) if n in real else whole_as if n in whole else dtype
            for n in range(len(outputs))
        ]
        return matrices([A], [["n^", "n^"]], [output.split() for output in outputs], dtypes)

    return declare


def shortest(A: Any, arguments: dict[str, Any]) -> str:
    """The word for the smaller side of a matrix."""
    rows, columns = dims_of(A)[-2:]
    if rows is None or columns is None:
        raise NotKnown("the lengths of a matrix are not known")
    return length_word(Names({"m", "n"}), arguments, minimum(rows, columns))


def svd(A: Any, full_matrices: bool = True, *, driver: Any = None) -> Declaration:
    """Declares the singular value decomposition."""
    arguments: dict[str, Any] = {}
    k = shortest(A, arguments)
    left, right = ("m^", "n^") if full_matrices else (k, k)
    dtype = dtype_of(A)
    outputs = [["m^", left], [k], [right, "n^"]]
    return matrices([A], [["m^", "n^"]], outputs, [dtype, real_of(dtype), dtype], arguments)


def svdvals(A: Any, *, driver: Any = None) -> Declaration:
    """Declares the singular values."""
    arguments: dict[str, Any] = {}
    k = shortest(A, arguments)
    return matrices([A], [["m^", "n^"]], [[k]], [real_of(dtype_of(A))], arguments)


def qr(A: Any, mode: str = "reduced") -> Declaration:
    """Declares the QR decomposition."""
    arguments: dict[str, Any] = {}
    k = shortest(A, arguments)
    if mode == "r":
        raise NotKnown("qr without q is not supported")
    side = "m^" if mode == "complete" else k
    dtype = dtype_of(A)
    if mode == "complete":
        arguments = {}
    return matrices([A], [["m^", "n^"]], [["m^", side], [side, "n^"]], [dtype, dtype], arguments)


def pinv(
    A: Any, rcond: Any = None, hermitian: bool = False, *, atol: Any = None, rtol: Any = None
) -> Declaration:
    """Declares the pseudo-inverse; a tolerance may be one of each matrix."""
    return _tolerant(A, (rcond, atol, rtol), ["n^", "m^"], dtype_of(A))


def matrix_rank(
    A: Any, tol: Any = None, hermitian: bool = False, *, atol: Any = None, rtol: Any = None
) -> Declaration:
    """Declares the rank of each matrix; a tolerance may be one of each."""
    return _tolerant(A, (tol, atol, rtol), [], "int64")


def _tolerant(
    A: Any, tolerances: Sequence[Any], output: Sequence[str], dtype: str | None
) -> Declaration:
    """The declaration of a function of one matrix, and of tolerances that are tensors: they are
    broadcast with the batch, as torch does.
    """
    given = [tolerance for tolerance in tolerances if is_tensor(tolerance)]
    return matrices([A, *given], [["m^", "n^"], *([] for _ in given)], [output], [dtype])


def condition(A: Any, p: Any = None) -> Declaration:
    """Declares the condition number of each matrix."""
    return matrices([A], [["m^", "n^"]], [[]], [real_of(dtype_of(A))])


def eig(*outputs: str) -> Form:
    """Declares eig and eigvals, whose results are complex."""

    def declare(A: Any) -> Declaration:
        dtype = complex_of(dtype_of(A))
        return matrices([A], [["n^", "n^"]], [o.split() for o in outputs], [dtype] * len(outputs))

    return declare


def solve(A: Any, B: Any, *, left: bool = True) -> Declaration:
    """Declares a linear system: the columns of B are solved one by one."""
    a, b = dims_of(A), dims_of(B, "the right side")
    if len(b) == 1 or (len(b) == len(a) - 1 and b == a[:-1]):
        return matrices([A, B], [["n^", "n^"], ["n^"]], [["n^"]], [dtype_of(B)], linear=((1,),))
    side = ["n^", "k"] if left else ["k", "n^"]
    found = matrices([A, B], [["n^", "n^"], side], [side], [dtype_of(B)], linear=((1,),))
    if len(b) != len(a) - 1:
        return found
    # Where a part of A's batch has the lengths of B, torch takes B for a batch of vectors.
    return replace(found, annotation=freeze_text(found.annotation), frozen=_VECTORS_OR_MATRIX)


def solve_triangular(
    A: Any, B: Any, *, upper: bool, left: bool = True, unitriangular: bool = False
) -> Declaration:
    """Declares a triangular system."""
    side = ["n^", "k"] if left else ["k", "n^"]
    return matrices([A, B], [["n^", "n^"], side], [side], [dtype_of(B)], linear=((1,),))


def cholesky_solve(B: Any, L: Any, upper: bool = False) -> Declaration:
    """Declares a system whose Cholesky factor is given."""
    return matrices(
        [B, L], [["n^", "k"], ["n^", "n^"]], [["n^", "k"]], [dtype_of(B)], linear=((0,),)
    )


def lu_factor(A: Any, *, pivot: bool = True) -> Declaration:
    """Declares an LU decomposition in one matrix, with its pivots."""
    arguments: dict[str, Any] = {}
    k = shortest(A, arguments)
    return matrices([A], [["m^", "n^"]], [["m^", "n^"], [k]], [dtype_of(A), "int32"], arguments)


def matrix_power(A: Any, n: int) -> Declaration:
    """Declares a power of each matrix."""
    return matrices([A], [["n^", "n^"]], [["n^", "n^"]], [dtype_of(A)])


def definite(*shape: int) -> Sample:
    return Sample(shape, kind="definite")


SQUARES = (example(definite(12, 4, 4)), example(definite(3, 3)))
RECTANGLES = shapes("12 4 3", "2 3 4")
_EACH = constant(between(0.2, 0.9, 12))
_TOLERANT = (*RECTANGLES, example(t(12, 4, 3), atol=_EACH))
_BOTH = example(t(2, 12, 3, 4), atol=constant(between(0.2, 0.9, 2, 1)), rtol=_EACH)


def _entries() -> list[Entry]:
    one: list[tuple[str, Any, Sequence[Any]]] = [
        ("inv", square("n^ n^"), SQUARES),
        ("det", square(""), SQUARES),
        ("slogdet", square("", "", real=(1,)), SQUARES),
        ("cholesky", square("n^ n^"), SQUARES),
        ("eigh", square("n^", "n^ n^", real=(0,)), SQUARES),
        ("eigvalsh", square("n^", real=(0,)), SQUARES),
        ("eig", eig("n^", "n^ n^"), (example(constant(t(12, 4, 4))),)),
        ("eigvals", eig("n^"), SQUARES),
        ("matrix_exp", square("n^ n^"), SQUARES),
        ("matrix_power", matrix_power, (example(t(12, 4, 4), 3),)),
        ("svd", svd, (*RECTANGLES[1:], example(t(12, 4, 3), full_matrices=False))),
        ("svdvals", svdvals, RECTANGLES),
        ("qr", qr, RECTANGLES[:1]),
        ("pinv", pinv, (*_TOLERANT, _BOTH)),
        ("matrix_rank", matrix_rank, _TOLERANT),
        ("cond", condition, RECTANGLES),
        ("lu_factor", lu_factor, RECTANGLES),
        (
            "solve",
            solve,
            (example(definite(2, 4, 4), t(2, 4, 12)), example(definite(12, 4, 4), t(12, 4))),
        ),
        (
            "solve_triangular",
            solve_triangular,
            (
                example(definite(2, 4, 4), t(2, 4, 12), upper=True),
                example(definite(4, 4), t(12, 4), upper=False, left=False),
            ),
        ),
    ]
    return [entry(f"torch.linalg.{name}", declare, *calls) for name, declare, calls in one]


ENTRIES = (
    *_entries(),
    entry("torch.logdet", square(""), *SQUARES),
    torch_entry(cholesky_solve, example(t(2, 4, 12), definite(2, 4, 4))),
)
