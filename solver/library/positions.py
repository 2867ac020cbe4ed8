"""Tensors in which every element depends on where it stands: a part of one is not one of its part.

arange(n)             -> a^                a part begins at another number
vander(x)             a^ -> a^ b^          b = a: a part would have fewer powers
meshgrid(x, y)        a, b -> a b, a b     each result is one of its inputs, repeated
"""

from __future__ import annotations

from math import comb
from typing import Any

from dimsolve.ir.operator import Declaration
from dimsolve.solver.algebra.dims import ceil_div

from . import errors
from .creation import POSITIONS, made
from .dtypes import DEFAULT, dtype_name, dtype_of
from .entry import entry
from .lengths import at_least
from .needs import GE, NE, need
from .samples import constant, example, t
from .values import NotKnown, dims_of, is_dim, is_tensor, known
from .writing import Names, annotation, length_word


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
