"""Factorisations whose factors are kept, systems solved with them, and what has an ``info``.

cholesky_ex(A)             * n^ n^ -> * n^ n^, *
lu(A)                      * m^ n^ -> * m^ m^, * m^ k^, * k^ n^      k = min(m, n)
lu_solve(LU, pivots, B)    * n^ n^, * n^, * n^ k -> * n^ k           columns are solved one by one
ldl_solve(LD, pivots, B)   the same
ormqr(A, tau, C)           * m^ k^, * k^, * m^ n -> * m^ n
householder_product(A, t)  * m^ n^, * k^ -> * m^ n^
tensorsolve(A, B)          a^ b^ c^, a^ -> b^ c^                     one system
linalg.vander(x, N=4)      * n -> * n 4                              powers of each element
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from dimsolve.ir.operator import Declaration

from ...algebra.dims import minimum
from ...algebra.poly import product
from ..declare import errors
from ..declare.dtypes import dtype_of, real_of
from ..declare.entry import Entry, Form, constant, entry, example, t, whole
from ..declare.forms import declared
from ..declare.needs import EQ, GE, LE, need
from ..declare.writing import Names, NotKnown, axes, dims_of, known, length_word
from .linalg import RECTANGLES, SQUARES, definite, matrices, shortest, square

_ONE_SYSTEM = "one system is solved as a whole"


def batches_alike(first: Any, second: Any, inner: tuple[int, int]) -> None:
    """Says that two tensors have one batch, before their ``inner`` last dimensions."""
    a, b = (dims_of(x)[: len(dims_of(x)) - n] for x, n in zip((first, second), inner, strict=True))
    if len(a) != len(b):
        raise errors.wrong_rank("a factorisation", "its second tensor", b, f"{len(a)} dimensions")
    for one, other in zip(a, b, strict=True):
        if one is not None and other is not None:
            need(one, EQ, other, errors.lengths_differ("the batches", one, other))


def _last(tensor: Any, place: int = -1) -> Any:
    dims = dims_of(tensor)
    return dims[place] if len(dims) >= -place else None


def _need(left: Any, comparison: Any, right: Any, what: str) -> None:
    if left is not None and right is not None:
        need(left, comparison, right, errors.out_of_range(what, left, right))


def lu(*, tuple_of: str) -> Form:
    """Declares functions of one matrix (m, n) with pivots: ``tuple_of`` names their results."""
    rows = {"factor": "m^ n^", "pivots": "k", "info": "", "P": "m^ m^", "L": "m^ k", "U": "k n^"}

    def declare(A: Any, *, pivot: bool = True, check_errors: bool = False) -> Declaration:
        if not pivot and "P" in tuple_of:
            raise NotKnown("lu without pivots gives an empty matrix of no batch")
        arguments: dict[str, Any] = {}
        k, dtype = shortest(A, arguments), dtype_of(A)
        words = [[k if w == "k" else w for w in rows[r].split()] for r in tuple_of.split()]
        dtypes = ["int32" if r in ("pivots", "info") else dtype for r in tuple_of.split()]
        return matrices([A], [["m^", "n^"]], words, dtypes, arguments)

    return declare


def torch_lu(A: Any, pivot: bool = True, get_infos: bool = False, out: Any = None) -> Declaration:
    """Declares torch.lu."""
    return lu(tuple_of="factor pivots info" if get_infos else "factor pivots")(A, pivot=pivot)


def lu_unpack(
    LU_data: Any, LU_pivots: Any, unpack_data: bool = True, unpack_pivots: bool = True
) -> Declaration:
    """Declares the three factors of a factorisation in one matrix."""
    if not (unpack_data and unpack_pivots):
        raise NotKnown("what is not unpacked comes back as an empty tensor of no batch")
    arguments: dict[str, Any] = {}
    k = shortest(LU_data, arguments)
    batches_alike(LU_data, LU_pivots, (2, 1))
    _need(_last(LU_pivots), EQ, minimum(*known(dims_of(LU_data)[-2:])), "the number of pivots")
    dtype = dtype_of(LU_data)
    pivots = "1" if _last(LU_pivots) == 1 else "p^"
    return matrices(
        [LU_data, LU_pivots],
        [["m^", "n^"], [pivots]],
        [["m^", "m^"], ["m^", k], [k, "n^"]],
        [dtype] * 3,
        arguments,
    )


def geqrf(input: Any) -> Declaration:
    """Declares a QR decomposition as Householder reflectors."""
    arguments: dict[str, Any] = {}
    k, dtype = shortest(input, arguments), dtype_of(input)
    return matrices([input], [["m^", "n^"]], [["m^", "n^"], [k]], [dtype] * 2, arguments)


def qr(input: Any, some: bool = True) -> Declaration:
    """Declares torch.qr."""
    arguments: dict[str, Any] = {}
    k, dtype = shortest(input, arguments), dtype_of(input)
    side = k if some else "m^"
    arguments = arguments if some else {}
    return matrices([input], [["m^", "n^"]], [["m^", side], [side, "n^"]], [dtype] * 2, arguments)


def svd(input: Any, some: bool = True, compute_uv: bool = True) -> Declaration:
    """Declares torch.svd, whose third factor is not transposed; without vectors they are zeros."""
    arguments: dict[str, Any] = {}
    k, dtype = shortest(input, arguments), dtype_of(input)
    left, right = (k, k) if some and compute_uv else ("m^", "n^")
    outputs = [["m^", left], [k], ["n^", right]]
    return matrices([input], [["m^", "n^"]], outputs, [dtype, real_of(dtype), dtype], arguments)


def low_rank(A: Any, q: Any = 6, niter: int = 2, M: Any = None) -> Declaration:
    """Declares svd_lowrank, which multiplies by a random matrix."""
    if M is not None:
        raise NotKnown("a matrix that is subtracted is not supported")
    arguments: dict[str, Any] = {}
    rank = minimum(6 if q is None else q, *known(dims_of(A)[-2:]))
    k, dtype = length_word(Names({"m", "n"}), arguments, rank), dtype_of(A)
    outputs, dtypes = [["m^", k], [k], ["n^", k]], [dtype, real_of(dtype), dtype]
    return matrices([A], [["m^", "n^"]], outputs, dtypes, arguments, random=True)


def pca_lowrank(A: Any, q: Any = None, center: bool = True, niter: int = 2) -> Declaration:
    """Declares pca_lowrank, which takes the mean off before."""
    for length in dims_of(A)[-2:] if q is not None else ():
        _need(q, LE, length, "the rank")
    return low_rank(A, q)


def pinverse(input: Any, rcond: float = 1e-15) -> Declaration:
    """Declares torch.pinverse."""
    return matrices([input], [["m^", "n^"]], [["n^", "m^"]], [dtype_of(input)])


def ormqr(
    input: Any, tau: Any, other: Any, left: bool = True, transpose: bool = False
) -> Declaration:
    """Declares a product with an orthogonal matrix of reflectors; the other sides of the matrices
    are multiplied one by one.
    """
    batches_alike(input, tau, (2, 1))
    batches_alike(input, other, (2, 2))
    k = _last(tau)
    _need(k, EQ, _last(input), "the number of reflectors")
    _need(_last(other, -2 if left else -1), GE, k, "the number of rows")
    count = "1" if k == 1 else "k^"
    side = ["m^", "n"] if left else ["n", "m^"]
    return matrices(
        [input, tau, other], [["m^", count], [count], side], [side], [dtype_of(other)],
        linear=((2,),),
    )  # fmt: skip


def householder_product(input: Any, tau: Any) -> Declaration:
    """Declares the first columns of a product of reflectors."""
    batches_alike(input, tau, (2, 1))
    rows, columns = dims_of(input)[-2:] if len(dims_of(input)) > 1 else (None, None)
    _need(rows, GE, columns, "the number of rows")
    _need(_last(tau), LE, columns, "the number of reflectors")
    count = "1" if _last(tau) == 1 else "k^"
    return matrices([input, tau], [["m^", "n^"], [count]], [["m^", "n^"]], [dtype_of(input)])


def factored(tensors: Sequence[Any], right: Any, *, left: bool = True) -> Declaration:
    """Declares a system whose factors and pivots are given."""
    factors, pivots = tensors
    batches_alike(factors, pivots, (2, 1))
    side = ["n^", "k"] if left else ["k", "n^"]
    return matrices(
        [factors, pivots, right], [["n^", "n^"], ["n^"], side], [side], [dtype_of(right)],
        linear=((2,),),
    )  # fmt: skip


def lu_solve(
    LU: Any, pivots: Any, B: Any, *, left: bool = True, adjoint: bool = False
) -> Declaration:
    """Declares torch.linalg.lu_solve."""
    return factored([LU, pivots], B, left=left)


def torch_lu_solve(b: Any, LU_data: Any, LU_pivots: Any) -> Declaration:
    """Declares torch.lu_solve, whose right side comes first."""
    batches_alike(LU_data, LU_pivots, (2, 1))
    rows = [["n^", "k"], ["n^", "n^"], ["n^"]]
    return matrices([b, LU_data, LU_pivots], rows, [rows[0]], [dtype_of(b)], linear=((0,),))


def ldl_solve(LD: Any, pivots: Any, B: Any, *, hermitian: bool = False) -> Declaration:
    """Declares torch.linalg.ldl_solve."""
    return factored([LD, pivots], B)


def triangular_solve(
    b: Any, A: Any, upper: bool = True, transpose: bool = False, unitriangular: bool = False
) -> Declaration:
    """Declares torch.triangular_solve, which returns its matrix too."""
    return matrices(
        [b, A], [["n^", "k^"], ["n^", "n^"]], [["n^", "k^"], ["n^", "n^"]], [dtype_of(b)] * 2
    )


def solve_ex(A: Any, B: Any, *, left: bool = True, check_errors: bool = False) -> Declaration:
    """Declares torch.linalg.solve_ex: one info for each matrix of A."""
    a, b = dims_of(A), dims_of(B, "the right side")
    side = ["n^", "k^"] if left else ["k^", "n^"]
    if len(b) != len(a):
        if len(b) != 1 and b != a[:-1]:
            raise NotKnown("a right side of another rank may be taken for vectors")
        side = ["n^"]
    found = matrices([A, B], [["n^", "n^"], side], [side, []], [dtype_of(B), "int32"])
    batch = found.annotation.partition(", ")[0].split(" ")[:-2]
    results = found.annotation.rpartition(", ")[0]
    return replace(found, annotation=f"{results}, {' '.join(batch) or '()'}")


def linalg_vander(x: Any, *, N: Any = None) -> Declaration:
    """Declares powers of each element, in a new last dimension."""
    dims = dims_of(x)
    names = Names()
    row = names.take(len(dims))
    if not dims and N is None:
        raise NotKnown("one number has no other power")
    width = dims[-1] if N is None else N
    _need(width, GE, 2, "the number of powers")
    if N is None:  # a part of the elements would have fewer powers
        row[-1] += "^"
        return declared((x,), [row], [[*row, row[-1]]])
    arguments: dict[str, Any] = {}
    word = length_word(names, arguments, width)
    return declared((x,), [row], [[*(row or ["1"]), word]], arguments=arguments)


def tensorinv(A: Any, ind: int = 2) -> Declaration:
    """Declares the inverse of a tensor taken for one matrix."""
    dims = known(dims_of(A))
    need(ind, GE, 1, errors.not_understood("tensorinv", f"ind is {ind}"))
    rows, columns = product(dims[:ind]), product(dims[ind:])
    need(rows, EQ, columns, errors.lengths_differ("the two sides of the matrix", rows, columns))
    row = Names().take(len(dims), "^")
    return declared((A,), [row], [[*row[ind:], *row[:ind]]], frozen=_ONE_SYSTEM)


def tensorsolve(A: Any, B: Any, dims: Any = None) -> Declaration:
    """Declares a system whose unknowns are a tensor."""
    lengths, given = known(dims_of(A)), known(dims_of(B, "the right side"))
    names = Names()
    row = names.take(len(lengths), "^")
    order = list(range(len(lengths)))
    for dim in axes(dims, len(lengths)) if dims is not None else ():
        order.remove(dim)
        order.append(dim)
    turned = [row[n] for n in order]
    rest = [lengths[n] for n in order[len(given) :]]
    total, wanted = product(given), product(rest)
    need(total, EQ, wanted, errors.lengths_differ("the equations and the unknowns", total, wanted))
    left = [lengths[n] for n in order[: len(given)]]
    side = turned[: len(given)]
    if left != list(given):
        side = ["1" if length == 1 else names.one("^") for length in given]
        need(product(left), EQ, total, errors.lengths_differ("both sides", product(left), total))
    return declared((A, B), [row, side], [turned[len(given) :]], frozen=_ONE_SYSTEM)


_SIDE = t(2, 4, 12)
_PIVOTS = constant(whole(2, 2, 4, low=1, dtype="int32"))
_FACTORS = constant(definite(2, 4, 4))
_WIDE = constant(whole(2, 12, 3, low=1, dtype="int32"))


def _square_entries() -> list[Entry]:
    forms: dict[str, tuple[Form, Sequence[Any]]] = {
        "torch.cholesky": (square("n^ n^"), SQUARES),
        "torch.cholesky_inverse": (square("n^ n^"), SQUARES),
        "torch.linalg.cholesky_ex": (square("n^ n^", "", whole=(1,)), SQUARES),
        "torch.linalg.inv_ex": (square("n^ n^", "", whole=(1,)), SQUARES),
        "torch.linalg.ldl_factor": (square("n^ n^", "n^", whole=(1,)), SQUARES),
        "torch.linalg.ldl_factor_ex": (square("n^ n^", "n^", "", whole=(1, 2)), SQUARES),
        "torch.linalg.lu": (lu(tuple_of="P L U"), RECTANGLES),
        "torch.linalg.lu_factor_ex": (lu(tuple_of="factor pivots info"), RECTANGLES),
        "torch.lu": (torch_lu, RECTANGLES),
        "torch.geqrf": (geqrf, [example(constant(t(12, 4, 3)))]),
        "torch.qr": (qr, [*RECTANGLES[:1], example(t(12, 3, 3), some=False)]),
        "torch.svd": (svd, [*RECTANGLES, example(constant(t(12, 4, 3)), some=False)]),
        "torch.pinverse": (pinverse, RECTANGLES),
    }
    return [entry(path, form, *calls) for path, (form, calls) in forms.items()]


ENTRIES = (
    *_square_entries(),
    entry("torch.svd_lowrank", low_rank, example(t(12, 8, 6), 2), note="random"),
    entry("torch.pca_lowrank", pca_lowrank, example(t(12, 8, 6), 2), note="random"),
    entry("torch.lu_unpack", lu_unpack, example(t(12, 4, 3), _WIDE)),
    entry("torch.linalg.lu_solve", lu_solve, example(_FACTORS, _PIVOTS, _SIDE)),
    entry("torch.lu_solve", torch_lu_solve, example(_SIDE, _FACTORS, _PIVOTS)),
    entry("torch.linalg.ldl_solve", ldl_solve, example(_FACTORS, _PIVOTS, constant(_SIDE))),
    entry("torch.triangular_solve", triangular_solve, example(_SIDE, definite(2, 4, 4))),
    entry("torch.linalg.solve_ex", solve_ex, example(definite(12, 4, 4), t(12, 4, 6))),
    entry("torch.ormqr", ormqr, example(t(2, 4, 3), t(2, 3), t(2, 4, 12))),
    entry("torch.linalg.householder_product", householder_product, example(t(12, 4, 3), t(12, 3))),
    entry("torch.linalg.vander", linalg_vander, example(t(12, 6), N=4), example(t(12, 3))),
    entry("torch.linalg.tensorinv", tensorinv, example(t(4, 6, 8, 3), ind=2)),
    entry("torch.linalg.tensorsolve", tensorsolve, example(t(2, 3, 6), t(2, 3))),
)
