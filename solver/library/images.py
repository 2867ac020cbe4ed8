"""Images taken apart into windows or channels, and put together.

pixel_shuffle(x, 2)       n (c 2 2) h w -> n c (h 2) (w 2)
channel_shuffle(x, 4)     n (g c) a b -> n (c g) a b          g=4, a rank's groups are its g
unfold(x, 3)              n c h^ w^ -> n (c 3 3) a^
fold(x, (4, 4), 2)        n (c 2 2) a^ -> n c h^ w^
"""

from __future__ import annotations

from typing import Any

from dimsolve.ir.operator import Declaration
from dimsolve.solver.algebra.poly import product

from . import errors
from .convolution import windows_of
from .dtypes import dtype_of
from .entry import entry
from .needs import EQ, GE, need
from .samples import example, t
from .values import NotKnown, dims_of, per_dim
from .writing import Names, annotation, group, length_word


def pixel_shuffle(input: Any, upscale_factor: int) -> Declaration:
    """Returns the declaration of channels laid out as larger images."""
    rank, arguments = len(dims_of(input)), dict[str, Any]()
    names = Names({"c", "h", "w"})
    batch, r = names.take(rank - 3), _factor_word(upscale_factor, names, arguments)
    return Declaration(
        annotation(
            [[*batch, group("c", r, r), "h", "w"]], [[*batch, "c", group("h", r), group("w", r)]]
        ),
        (input,),
        arguments=arguments,
        dtypes=(dtype_of(input),),
        linear=((0,),),
    )


def pixel_unshuffle(input: Any, downscale_factor: int) -> Declaration:
    """Returns the declaration of images laid out as channels."""
    rank, arguments = len(dims_of(input)), dict[str, Any]()
    names = Names({"c", "h", "w"})
    batch, r = names.take(rank - 3), _factor_word(downscale_factor, names, arguments)
    return Declaration(
        annotation(
            [[*batch, "c", group("h", r), group("w", r)]], [[*batch, group("c", r, r), "h", "w"]]
        ),
        (input,),
        arguments=arguments,
        dtypes=(dtype_of(input),),
        linear=((0,),),
    )


def _factor_word(factor: Any, names: Names, arguments: dict[str, Any]) -> str:
    """The word of a factor inside of a product: a number, or an identifier for a symbol."""
    need(factor, GE, 1, errors.not_understood("an image", f"a factor of its lengths is {factor}"))
    return str(factor) if isinstance(factor, int) else length_word(names, arguments, factor)


def channel_shuffle(input: Any, groups: Any) -> Declaration:
    """Returns the declaration of channels dealt out over the groups."""
    dims = dims_of(input)
    need(groups, GE, 1, errors.not_understood("channel_shuffle", f"groups is {groups}"))
    names = Names({"n", "g", "c"})
    rest = names.take(len(dims) - 2)
    return Declaration(
        annotation([["n", "(g c)", *rest]], [["n", "(c g)", *rest]]),
        (input,),
        arguments={"g": groups},
        sizes={"groups": "g"},
        dtypes=(dtype_of(input),),
        linear=((0,),),
    )


def unfold(
    input: Any, kernel_size: Any, dilation: Any = 1, padding: Any = 0, stride: Any = 1
) -> Declaration:
    """Returns the declaration of F.unfold: every window a column."""
    dims = dims_of(input)
    if len(dims) not in (3, 4):
        raise errors.wrong_rank("unfold", "input", dims, "3 or 4 dimensions")
    sizes = per_dim(kernel_size, 2)
    windows = windows_of(sizes, stride, padding, dilation, 2)
    if any(n is None for n in dims[-2:]):
        raise NotKnown("the lengths of an image are not known")
    count = product(w.result(n) for n, w in zip(dims[-2:], windows, strict=True) if n is not None)
    names, arguments = Names({"c"}), dict[str, Any]()
    batch = names.take(len(dims) - 3)
    sides = names.take(2, "^")
    word = length_word(names, arguments, count)
    kernel = [_factor_word(size, names, arguments) for size in sizes]
    return Declaration(
        annotation([[*batch, "c", *sides]], [[*batch, group("c", *kernel), word]]),
        (input,),
        arguments=arguments,
        dtypes=(dtype_of(input),),
        linear=((0,),),
    )


def fold(
    input: Any,
    output_size: Any,
    kernel_size: Any,
    dilation: Any = 1,
    padding: Any = 0,
    stride: Any = 1,
) -> Declaration:
    """Returns the declaration of F.fold: columns added up into images."""
    dims = dims_of(input)
    if len(dims) not in (2, 3):
        raise errors.wrong_rank("fold", "input", dims, "2 or 3 dimensions")
    sizes = per_dim(kernel_size, 2)
    names, arguments = Names({"c"}), dict[str, Any]()
    batch, column = names.take(len(dims) - 2), names.one("^")
    windows = windows_of(sizes, stride, padding, dilation, 2)
    wanted = per_dim(output_size, 2)
    count = product(w.result(size) for size, w in zip(wanted, windows, strict=True))
    if dims[-1] is not None:
        need(dims[-1], EQ, count, errors.lengths_differ("the columns of a fold", dims[-1], count))
    sides = [length_word(names, arguments, size) for size in wanted]
    kernel = [_factor_word(size, names, arguments) for size in sizes]
    return Declaration(
        annotation([[*batch, group("c", *kernel), column]], [[*batch, "c", *sides]]),
        (input,),
        arguments=arguments,
        dtypes=(dtype_of(input),),
        linear=((0,),),
    )


ENTRIES = (
    entry("torch.nn.functional.pixel_shuffle", pixel_shuffle, example(t(2, 24, 6, 4), 2)),
    entry("torch.nn.functional.pixel_unshuffle", pixel_unshuffle, example(t(2, 6, 12, 8), 2)),
    entry("torch.nn.functional.channel_shuffle", channel_shuffle, example(t(2, 12, 4, 3), 4)),
    entry(
        "torch.nn.functional.unfold",
        unfold,
        example(t(2, 12, 6, 4), (2, 3)),
        example(t(2, 6, 4, 4), 2, stride=2),
    ),
    entry("torch.nn.functional.fold", fold, example(t(2, 24, 9), (4, 4), (2, 2))),
)
