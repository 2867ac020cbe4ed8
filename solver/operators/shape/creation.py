"""Tensors made from sizes: every rank makes its part, unless elements depend on their place.

zeros(b, s)           -> a b               a=b, b=s; a rank's sizes are its a and b
zeros_like(x)         * -> *
x.new_ones(b, s)      -> a b               x only gives its dtype: it is no annotated input
arange(n)             -> a^                a part begins at another number
vander(x)             a^ -> a^ b^          b = a: a part would have fewer powers
meshgrid(x, y)        a, b -> a b, a b     each result is one of its inputs, repeated
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import wraps
from math import comb
from typing import Any

from dimsolve.ir.operator import Declaration

from ...algebra.dims import ceil_div
from ..declare import errors
from ..declare.dtypes import DEFAULT, dtype_name, dtype_of, result_type
from ..declare.entry import (
    DType,
    Form,
    between,
    constant,
    entries,
    entry,
    example,
    shapes,
    t,
    torch_entry,
    whole,
)
from ..declare.forms import declared
from ..declare.needs import GE, GT, LE, NE, at_least, need
from ..declare.writing import (
    Names,
    NotKnown,
    annotation,
    dims_of,
    is_dim,
    is_tensor,
    known,
    length_word,
    listed,
)
from ..elementwise.pointwise import Pointwise, in_place, spread

POSITIONS = "every element depends on where it stands in the whole"


def made(
    sizes: Sequence[Any], parameter: str, dtype: str | None, *, mark: str = "", **more: Any
) -> Declaration:
    """Declares a tensor of these sizes, which stand in ``parameter``."""
    if not all(is_dim(size) for size in sizes):
        raise NotKnown("a size is not known")
    for size in sizes:
        if isinstance(size, int) and size < 0:
            raise errors.negative_size(size, sizes)
    names = Names()
    arguments: dict[str, Any] = {}
    row = [length_word(names, arguments, size, mark) for size in sizes]
    return Declaration(
        annotation([], [row]).strip(),
        (),
        arguments=arguments,
        sizes={parameter: " ".join(row) or "()"} if parameter else {},
        dtypes=(dtype,),
        **more,
    )


def filled(*size: Any, dtype: Any = None, **rest: Any) -> Declaration:
    """Declares zeros, ones, empty: sizes one by one or as a sequence."""
    given = rest.pop("size", None)
    return made(
        listed((given,) if given is not None else size), "size", dtype_name(dtype) or DEFAULT
    )


def uninitialised(form: Form) -> Form:
    """Declares empty and its kin: what is in it is as undetermined as what is drawn."""

    def declare(*args: Any, **kwargs: Any) -> Declaration:
        return replace(form(*args, **kwargs), random=True)

    return wraps(form)(declare)


def full(size: Any, fill_value: Any, *, dtype: Any = None, **rest: Any) -> Declaration:
    """Declares a tensor of one value."""
    guessed = result_type((fill_value,)) if not is_tensor(fill_value) else dtype_of(fill_value)
    return made(listed((size,)), "size", dtype_name(dtype) or guessed)


def drawn(*size: Any, dtype: Any = None, **rest: Any) -> Declaration:
    """Declares rand and randn."""
    return replace(filled(*size, dtype=dtype, **rest), random=True)


def randint(*args: Any, dtype: Any = None, **rest: Any) -> Declaration:
    """Declares randint(high, size) and randint(low, high, size)."""
    size = rest.get("size", args[-1] if args else None)
    if not isinstance(size, list | tuple):
        raise NotKnown("the sizes of randint are not known")
    low, high = (args[0], args[1]) if len(args) > 2 else (0, args[0] if args else None)
    need_range(rest.get("low", low), rest.get("high", high))
    return made(tuple(size), "", dtype_name(dtype) or "int64", mark="^", random=True)


def need_range(low: Any, high: Any) -> None:
    """Says that there is a whole number to draw, where both bounds are known."""
    if is_dim(low) and is_dim(high):
        need(high, GT, low, errors.not_understood("randint", f"no number is in {low} to {high}"))


def like(input: Any, *, dtype: Any = None, **rest: Any) -> Declaration:
    """Declares zeros_like, ones_like, empty_like."""
    return Declaration("* -> *", (input,), dtypes=(dtype_name(dtype) or dtype_of(input),))


def full_like(input: Any, fill_value: Any, *, dtype: Any = None, **rest: Any) -> Declaration:
    """Declares full_like."""
    return like(input, dtype=dtype)


def drawn_like(input: Any, *args: Any, dtype: Any = None, **rest: Any) -> Declaration:
    """Declares rand_like, randn_like, randint_like, bernoulli: elements drawn one by one."""
    return replace(like(input, dtype=dtype), random=True)


def randint_like(input: Any, *args: Any, dtype: Any = None, **rest: Any) -> Declaration:
    """Declares randint_like(input, high) and randint_like(input, low, high)."""
    low, high = (args[0], args[1]) if len(args) > 1 else (0, args[0] if args else None)
    need_range(rest.get("low", low), rest.get("high", high))
    return drawn_like(input, dtype=dtype)


def new_filled(input: Any, *size: Any, dtype: Any = None, **rest: Any) -> Declaration:
    """Declares Tensor.new_zeros, new_ones, new_empty."""
    given = rest.pop("size", None)
    sizes = listed((given,) if given is not None else size)
    return made(sizes, "size", dtype_name(dtype) or dtype_of(input))


def new_full(
    input: Any, size: Any, fill_value: Any, *, dtype: Any = None, **rest: Any
) -> Declaration:
    """Declares Tensor.new_full."""
    return made(listed((size,)), "size", dtype_name(dtype) or dtype_of(input))


def new_tensor(input: Any, data: Any, *, dtype: Any = None, **rest: Any) -> Declaration:
    """Declares Tensor.new_tensor."""
    return tensor(data, dtype=dtype or input.dtype)


def randperm(n: Any, *, dtype: Any = None, **rest: Any) -> Declaration:
    """Declares a random order."""
    found = made((n,), "", dtype_name(dtype) or "int64", mark="^", frozen=POSITIONS)
    return replace(found, random=True)


def tensor(data: Any, *, dtype: Any = None, **rest: Any) -> Declaration:
    """Declares a tensor written out: every rank has all of it."""
    if is_tensor(data):
        return Declaration("* -> *", (data,), dtypes=(dtype_name(dtype) or dtype_of(data),))
    sizes: list[int] = []
    inner = data
    while isinstance(inner, list | tuple):
        sizes.append(len(inner))
        inner = inner[0] if inner else 0.0
    guessed = dtype_of(inner) if is_tensor(inner) else result_type((inner,))
    return made(
        sizes, "", dtype_name(dtype) or guessed, mark="^", frozen="the values are written out"
    )


def normal(mean: Any, std: Any = 1.0, size: Any = None, **rest: Any) -> Declaration:
    """Declares torch.normal, drawn from sizes or element by element."""
    if size is not None:
        return replace(
            made(listed((size,)), "size", dtype_name(rest.get("dtype")) or DEFAULT), random=True
        )
    return replace(Pointwise(("mean", "std"), 2)(mean, std), random=True)


def binomial(count: Any, prob: Any, generator: Any = None) -> Declaration:
    """Declares binomial draws, element by element."""
    return replace(spread([count, prob]), dtypes=(dtype_of(count),), random=True)


def multinomial(
    input: Any, num_samples: Any, replacement: bool = False, **rest: Any
) -> Declaration:
    """Declares draws from rows of probabilities."""
    dims = dims_of(input)
    names = Names()
    batch, classes = names.take(len(dims) - 1), names.one("^")
    arguments: dict[str, Any] = {}
    if is_dim(num_samples) and dims[-1] is not None:
        refusal = errors.out_of_range("the number of draws", num_samples, dims[-1])
        need(num_samples, GE, 1, refusal)
        if not replacement:
            need(num_samples, LE, dims[-1], refusal)
    word = length_word(names, arguments, num_samples)
    return declared(
        (input,),
        [[*batch, classes]],
        [[*batch, word]],
        arguments=arguments,
        dtypes=("int64",),
        random=True,
    )


def written(dtype_rule: Callable[[Any], str | None] = dtype_of, *, random: bool = False) -> Form:
    """Declares zero_, fill_, normal_ and their kin: every element is written, and none is read."""

    def declare(input: Any, *args: Any, **kwargs: Any) -> Declaration:
        return Declaration(
            "* -> *", (input,), dtypes=(dtype_rule(input),), mutates=(0,), random=random
        )

    return declare


def copy(input: Any, src: Any, non_blocking: bool = False) -> Declaration:
    """Declares copy_: the other tensor is broadcast to this one."""
    return in_place(spread([input, src]))


_STRIDES = "the strides are written for the whole"
_EMPTY = "what is in it is not determined, so it is not compared"
_SIZES = (example(12, 6), example((2, 12)), example(12, dtype=DType("int64")))


def arange(*bounds: Any, dtype: Any = None, **rest: Any) -> Declaration:
    """Declares a sequence of numbers: end; start, end; or start, end, step."""
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
    """Declares linspace and logspace; a bound may be a tensor that is one number."""
    found = made((steps,), "", dtype_name(dtype) or DEFAULT, mark="^", frozen=POSITIONS)
    bounds = tuple(x for x in (start, end) if is_tensor(x))
    given = ", ".join(["()"] * len(bounds))
    return replace(found, annotation=f"{given} {found.annotation}".strip(), inputs=bounds)


def eye(n: Any, m: Any = None, *, dtype: Any = None, **rest: Any) -> Declaration:
    """Declares an identity matrix."""
    sizes = (n, n if m is None else m)
    return made(sizes, "", dtype_name(dtype) or DEFAULT, mark="^", frozen=POSITIONS)


def window(window_length: Any, *args: Any, dtype: Any = None, **rest: Any) -> Declaration:
    """Declares hann_window and its kin."""
    return made((window_length,), "", dtype_name(dtype) or DEFAULT, mark="^", frozen=POSITIONS)


def empty_permuted(
    size: Any, physical_layout: Any, *, dtype: Any = None, **rest: Any
) -> Declaration:
    """Declares empty with its dimensions in another order in memory."""
    return filled(size, dtype=dtype)


def empty_strided(size: Any, stride: Any, *, dtype: Any = None, **rest: Any) -> Declaration:
    """Declares empty with strides, which are written for the whole."""
    for step in stride:
        need(step, GE, 0, errors.negative_size(step, stride))
    return made(listed((size,)), "", dtype_name(dtype) or DEFAULT, mark="^", frozen=_STRIDES)


def new_empty_strided(
    input: Any, size: Any, stride: Any, *, dtype: Any = None, **rest: Any
) -> Declaration:
    """Declares Tensor.new_empty_strided."""
    return replace(empty_strided(size, stride), dtypes=(dtype_name(dtype) or dtype_of(input),))


def scalar_tensor(s: Any, *, dtype: Any = None, **rest: Any) -> Declaration:
    """Declares a number as a tensor."""
    return made((), "", dtype_name(dtype) or DEFAULT)


_WINDOWS: dict[str, dict[str, Any]] = {
    **{name: {} for name in ["bartlett", "blackman", "cosine", "exponential", "gaussian"]},
    **{name: {} for name in ["general_hamming", "hamming", "hann", "kaiser", "nuttall"]},
    "general_cosine": {"a": [0.5, 0.5]},
}
"""Windows of torch.signal with what they must be given."""


def combinations(input: Any, r: int = 2, with_replacement: bool = False) -> Declaration:
    """Declares all choices of r elements, one a row."""
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
    """Declares coordinates: one result per tensor, each with all dimensions."""
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
    return declared(
        rows,
        inputs,
        [target] * len(rows),
        dtypes=tuple(dtype_of(row) for row in rows),
        returns="tuple",
    )


def cartesian_prod(*tensors: Any) -> Declaration:
    """Declares all combinations of elements, one a row."""
    words = Names().take(len(tensors))
    target = [f"({' '.join(words)})", str(len(tensors))] if len(tensors) > 1 else words
    return declared(tensors, [[word] for word in words], [target])


def vander(x: Any, N: Any = None, increasing: bool = False) -> Declaration:
    """Declares a Vandermonde matrix: powers of each element in a row."""
    (length,) = dims_of(x)
    width = length if N is None else N
    if width is None:
        raise NotKnown("the number of powers is not known")
    arguments: dict[str, Any] = {}
    word = length_word(Names({"a"}), arguments, width)
    fixed = {"N": N} if N is not None else {}
    mark = "" if N is not None else "^"
    return declared((x,), [[f"a{mark}"]], [[f"a{mark}", word]], arguments=arguments, fixed=fixed)


ENTRIES = (
    *(entry(f"torch.{name}", filled, *_SIZES) for name in ("zeros", "ones")),
    entry("torch.empty", uninitialised(filled), *_SIZES, note=_EMPTY),
    torch_entry(full, example((12, 6), 2.5), example((4, 12), 3)),
    *entries("torch. rand randn", drawn, example(12, 6)),
    torch_entry(randint, example(9, (12, 6)), example(3, 9, (12,))),
    torch_entry(randperm, example(12)),
    torch_entry(normal, example(0.0, 1.0, (12, 6)), example(t(12, 6), 1.0)),
    *(
        entry(f"torch.{name}", like, *shapes("12 6"), example(t(12, 6), dtype=DType("int64")))
        for name in ("zeros_like", "ones_like")
    ),
    entry("torch.empty_like", uninitialised(like), *shapes("12 6"), note=_EMPTY),
    entry("torch.Tensor.new_empty", uninitialised(new_filled), example(t(2), 12, 6), note=_EMPTY),
    torch_entry(full_like, example(t(12, 6), 2.0)),
    *entries("torch. rand_like randn_like", drawn_like, *shapes("12 6")),
    torch_entry(randint_like, example(t(12, 6), 9)),
    entry("torch.bernoulli", drawn_like, example(whole(2, 12, 6, dtype="float64"))),
    torch_entry(multinomial, example(whole(9, 12, 6, low=1, dtype="float64"), 3)),
    *(
        entry(
            f"torch.Tensor.{name}",
            new_filled,
            example(t(2), 12, 6),
            example(t(2), (4, 12), dtype=DType("bool")),
        )
        for name in ("new_zeros", "new_ones")
    ),
    entry("torch.Tensor.new_full", new_full, example(t(2), (12, 6), 1.5)),
    entry("torch.Tensor.new_tensor", new_tensor, example(t(2), [1.0, 2.0])),
    torch_entry(tensor, example([[1.0, 2.0], [3.0, 4.0]]), example(3)),
    entry("torch.as_tensor", tensor, example([1, 2, 3])),
    entry("torch.poisson", drawn_like, example(between(1, 9, 12, 6))),
    torch_entry(binomial, example(whole(9, 12, 6, dtype="float64"), between(0.1, 0.9, 12, 6))),
    entry("torch.Tensor.zero_", written(), *shapes("12 6")),
    entry("torch.Tensor.fill_", written(), example(t(12, 6), 2.0)),
    *entries("torch.Tensor. normal_ uniform_ bernoulli_", written(random=True), *shapes("12 6")),
    *(
        entry(f"torch.Tensor.{name}", written(random=True), *shapes("12 6"))
        for name in ("random_", "cauchy_", "log_normal_")
    ),
    entry("torch.Tensor.geometric_", written(random=True), example(t(12, 6), 0.5)),
    entry("torch.Tensor.exponential_", written(random=True), *shapes("12 6")),
    entry("torch.Tensor.copy_", copy, *shapes("12 6, 12 6", "12 6, 6")),
    torch_entry(arange, example(12), example(1, 13, 3), example(0.0, 3.0, 0.5)),
    *entries("torch. linspace logspace", linspace, example(0.0, 1.0, 12)),
    torch_entry(eye, example(6), example(4, 6)),
    *(
        entry(f"torch.{name}_window", window, example(12))
        for name in ("hann", "hamming", "blackman", "bartlett")
    ),
    torch_entry(scalar_tensor, example(2.5)),
    *(
        entry(f"torch.{form.__name__}", uninitialised(form), example(*sizes), note=_EMPTY)
        for form, sizes in (
            (empty_permuted, ((12, 6), (1, 0))),
            (empty_strided, ((12, 6), (1, 12))),
        )
    ),
    entry(
        "torch.Tensor.new_empty_strided",
        uninitialised(new_empty_strided),
        example(t(2), (12, 6), (6, 1)),
        note=_EMPTY,
    ),
    *(
        entry(f"torch.signal.windows.{name}", window, example(12, **more))
        for name, more in _WINDOWS.items()
    ),
    torch_entry(combinations, *shapes("6"), example(t(4), 3, True)),
    torch_entry(
        meshgrid, example(t(12), t(6), indexing="ij"), example(t(12), t(6), t(4), indexing="xy")
    ),
    torch_entry(cartesian_prod, *shapes("12, 6", "12")),
    torch_entry(vander, example(constant(t(12)), 4), example(constant(t(6)))),
)
