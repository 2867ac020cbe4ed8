"""What a call asks of lengths beyond its annotation: as many elements, indices that exist, shapes
that broadcast.

An annotation says which lengths are equal. That ``view(n, m)`` to ``(8, k)`` needs ``8*k == n*m``,
that ``x[:, 3]`` needs four columns, and that ``n`` and ``m`` broadcast only where they are equal or
one of them is 1, is said here: for known numbers it was checked when the operator was declared, for
symbols it becomes a condition of the graph.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import combinations
from typing import Any, TypeAlias

from dimsolve.ir.expression import Comparison
from dimsolve.ir.types import TensorType, Type

from ..algebra.dims import ceil_div, mod
from ..algebra.poly import Dim, Poly, divide_exactly, product
from ..proof.claims import Claim
from .stand_ins import Call, StandIn

Claims: TypeAlias = Iterator[Claim]
Dims: TypeAlias = "tuple[Dim, ...]"


def requirements(path: str, call: Call, types: Sequence[Type]) -> tuple[Claim, ...]:
    """Returns what the call asks of its lengths. ``types``: of its results.

    A claim between numbers is left out: the declaration has checked it.
    """
    find = ASKS.get(path.rpartition(".")[2].rstrip("_"))
    if find is None:
        return ()
    claims = find(call, types)
    symbolic = [c for c in claims if isinstance(c.left, Poly) or isinstance(c.right, Poly)]
    return tuple(c for c in dict.fromkeys(symbolic) if not _trivial(c))


def _trivial(claim: Claim) -> bool:
    return claim.left == claim.right and claim.comparison in (
        Comparison.EQ,
        Comparison.LE,
        Comparison.GE,
    )


def _dims(value: Any) -> Dims | None:
    """The dimensions of a tensor argument, where all are known."""
    shape = value.shape if isinstance(value, StandIn) else None
    if shape is None or any(dim is None for dim in shape):
        return None
    return tuple(dim for dim in shape if dim is not None)


def _result(types: Sequence[Type]) -> Dims | None:
    dims = types[0].dims if len(types) == 1 and isinstance(types[0], TensorType) else None
    return None if dims is None else tuple(dim for dim in dims if dim is not None)


def _argument(call: Call, place: int, name: str, default: Any = None) -> Any:
    if len(call.args) > place:
        return call.args[place]
    return call.kwargs.get(name, default)


def _sizes(call: Call, name: str) -> tuple[Any, ...]:
    """The sizes of a call that takes them one by one or as one sequence."""
    rest = call.args[1:]
    if not rest:
        rest = (call.kwargs.get(name, ()),)
    if len(rest) == 1 and isinstance(rest[0], tuple | list):
        return tuple(rest[0])
    return tuple(rest)


def _is_length(value: Any) -> bool:
    return isinstance(value, int | Poly) and not isinstance(value, bool)


def _same_elements(call: Call, types: Sequence[Type]) -> Claims:
    """A view holds as many elements; with a -1, the others divide them."""
    before, after = _dims(call.args[0]), _result(types)
    sizes = _sizes(call, "shape")
    if before is None or after is None or len(sizes) != len(after):
        return
    if not all(_is_length(size) for size in sizes):
        return
    left, right = _without_common(before, tuple(s for s in sizes if s != -1))
    if -1 not in sizes:
        yield Claim(product(left), Comparison.EQ, product(right))
    elif product(right) != 1:
        yield Claim(mod(product(left), product(right)), Comparison.EQ, 0)


def _without_common(a: Dims, b: Dims) -> tuple[Dims, Dims]:
    """Both without the dimensions that stand in both: what is left must have equal products all
    the same.
    """
    left, right = list(a), []
    for dim in b:
        if dim in left and dim != 0:
            left.remove(dim)
        else:
            right.append(dim)
    return tuple(left), tuple(right)


def _expanded(call: Call, types: Sequence[Type]) -> Claims:
    """A length becomes a size that it is, or is 1; the result has the sizes that were asked for."""
    before, after = _dims(call.args[0]), _result(types)
    sizes = _sizes(call, "size")
    if before is None or after is None or len(sizes) != len(after):
        return
    for size, length in zip(sizes, after, strict=True):
        if _is_length(size) and size != -1:
            yield Claim(length, Comparison.EQ, size)
    for size, length in zip(reversed(sizes), reversed(before), strict=False):
        if _is_length(size) and size != -1:
            yield from _equal_or_one(length, size, one=(length,))


def _equal_or_one(a: Dim, b: Dim, *, one: Sequence[Dim]) -> Claims:
    """a == b, or one of ``one`` is 1, as one equation."""
    if a == b or 1 in one:
        return
    factors = [a - b, *[length - 1 for length in one]]
    yield Claim(product(factors), Comparison.EQ, 0)


def _broadcast(call: Call, types: Sequence[Type]) -> Claims:
    """Lengths at one place are equal, or all but one of them 1."""
    shapes = [
        dims
        for argument in (*call.args, *call.kwargs.values())
        for dims in [_dims(argument)]
        if dims is not None
    ]
    yield from _broadcast_shapes(shapes)


def _broadcast_shapes(shapes: Sequence[Dims]) -> Claims:
    rank = max((len(shape) for shape in shapes), default=0)
    for place in range(1, rank + 1):
        lengths = [shape[-place] for shape in shapes if len(shape) >= place]
        distinct = [length for length in dict.fromkeys(lengths) if length != 1]
        for a, b in combinations(distinct, 2):
            symbols = [length for length in (a, b) if isinstance(length, Poly)]
            yield from _equal_or_one(a, b, one=symbols)


def _normalised(call: Call, types: Sequence[Type]) -> Claims:
    """The last dimensions are those that are normalised."""
    dims = _dims(call.args[0])
    shape = _argument(call, 1, "normalized_shape", ())
    if dims is None or not isinstance(shape, tuple | list):
        return
    for length, size in zip(reversed(dims), reversed(shape), strict=False):
        if _is_length(size):
            yield Claim(length, Comparison.EQ, size)


def _indexed(call: Call, types: Sequence[Type]) -> Claims:
    """Every index by a number exists."""
    dims = _dims(call.args[0])
    if dims is None:
        return
    index = call.args[1] if isinstance(call.args[1], tuple) else (call.args[1],)
    if any(isinstance(part, StandIn) and part.dtype in (None, "bool") for part in index):
        return
    taken = sum(part is not None and part is not ... for part in index)
    place = 0
    for part in index:
        if part is ...:
            place += len(dims) - taken
        elif part is not None:
            if isinstance(part, int) and not isinstance(part, bool) and place < len(dims):
                yield Claim(dims[place], Comparison.GE, part + 1 if part >= 0 else -part)
            place += 1


def _narrowed(call: Call, types: Sequence[Type]) -> Claims:
    """start + length lies within the dimension."""
    dims = _dims(call.args[0])
    dim, start, length = (
        _argument(call, i, n) for i, n in ((1, "dim"), (2, "start"), (3, "length"))
    )
    if dims is None or not all(isinstance(v, int) or _is_length(v) for v in (dim, start, length)):
        return
    if isinstance(start, int) and start < 0:
        yield Claim(dims[dim], Comparison.GE, -start)
    else:
        yield Claim(start + length, Comparison.LE, dims[dim])


def _selected(call: Call, types: Sequence[Type]) -> Claims:
    dims = _dims(call.args[0])
    dim, index = _argument(call, 1, "dim"), _argument(call, 2, "index")
    if dims is None or not isinstance(dim, int) or not isinstance(index, int):
        return
    yield Claim(dims[dim], Comparison.GE, index + 1 if index >= 0 else -index)


def _squeezed(call: Call, types: Sequence[Type]) -> Claims:
    """A dimension that is kept, though it was to go if it is 1, is longer than 1."""
    dims = _dims(call.args[0])
    which = _argument(call, 1, "dim")
    if dims is None:
        return
    listed = (
        which
        if isinstance(which, tuple | list)
        else range(len(dims))
        if which is None
        else (which,)
    )
    for dim in listed:
        if isinstance(dim, int) and isinstance(dims[dim], Poly):
            yield Claim(dims[dim], Comparison.GE, 2)


def _batched(call: Call, types: Sequence[Type]) -> Claims:
    """The batch dimensions of a product of matrices broadcast."""
    shapes = [dims[:-2] for argument in call.args for dims in [_dims(argument)] if dims is not None]
    yield from _broadcast_shapes(shapes)


def _split(call: Call, types: Sequence[Type]) -> Claims:
    """The sizes of the parts add up to the dimension."""
    dims, sizes = _dims(call.args[0]), _argument(call, 1, "split_size_or_sections")
    sizes = call.kwargs.get("split_size", sizes)
    dim = _argument(call, 2, "dim", 0)
    if dims is None or not isinstance(sizes, tuple | list) or not isinstance(dim, int):
        return
    if all(_is_length(size) for size in sizes):
        yield Claim(sum(sizes[1:], sizes[0]), Comparison.EQ, dims[dim])


def _chunked(call: Call, types: Sequence[Type]) -> Claims:
    """There are as many chunks as were asked for."""
    dims, count = _dims(call.args[0]), _argument(call, 1, "chunks")
    dim = _argument(call, 2, "dim", 0)
    if dims is None or not isinstance(dim, int) or not isinstance(count, int) or count < 2:
        return
    length = dims[dim]
    if isinstance(length, Poly) and divide_exactly(length, count) is None:
        yield Claim((count - 1) * ceil_div(length, count), Comparison.LT, length)


ASKS: dict[str, Callable[[Call, Sequence[Type]], Claims]] = {
    **dict.fromkeys(("reshape", "view"), _same_elements),
    **dict.fromkeys(("expand", "broadcast_to"), _expanded),
    **dict.fromkeys(("split", "split_with_sizes"), _split),
    **dict.fromkeys(("chunk", "unsafe_chunk"), _chunked),
    "layer_norm": _normalised,
    "rms_norm": _normalised,
    "getitem": _indexed,
    "matmul": _batched,
    "narrow": _narrowed,
    "squeeze": _squeezed,
    "select": _selected,
}
"""By name of the function."""

_NAMES = """
    add sub mul div divide true_divide truediv floor_divide floordiv remainder mod fmod pow atan2
    maximum minimum fmax fmin eq ne lt le gt ge where logical_and logical_or logical_xor bitwise_and
    bitwise_or bitwise_xor and_ or_ xor subtract multiply lerp addcmul addcdiv hypot xlogy iadd isub
    imul itruediv and or
"""
BROADCASTING = frozenset(_NAMES.split())
"""Names of functions whose result has the shape that their operands broadcast to."""

ASKS.update(dict.fromkeys(BROADCASTING, _broadcast))
