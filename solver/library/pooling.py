"""Pooling.

max_pool2d(x, 2)                n c (h 2) (w 2) -> n c h w    windows do not overlap: cut
max_pool2d(x, 3, 1, 1)          n c h^ w^ -> n c i^ j^
adaptive_avg_pool2d(x, 1)       n c h+ w+ -> n c 1 1          P(avg)
adaptive_avg_pool2d(x, (4, 1))  n c (h 6) w+ -> n c h 1       of (24, w): a rank asks for (h, 1)
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from dimsolve.ir.operator import Declaration

from . import errors
from .dtypes import dtype_of
from .entry import Entry, Form, entry
from .needs import GE, LE, need
from .samples import Sample, distinct, example, t
from .values import Lengths, NotKnown, dims_of, per_dim
from .windows import Window, slide
from .writing import Names, annotation, length_word


def image_words(input: Any, spatial: int) -> tuple[Lengths, Names, list[str]]:
    """The lengths of an image, and words for its batch and channels."""
    dims = dims_of(input)
    if len(dims) not in (spatial + 1, spatial + 2):
        raise errors.wrong_rank(
            "pooling", "input", dims, f"{spatial + 1} or {spatial + 2} dimensions"
        )
    names = Names()
    return dims, names, names.take(len(dims) - spatial)


def pooled(
    input: Any, spatial: int, windows: Sequence[Window], *, linear: bool, indices: bool = False
) -> Declaration:
    """Returns the declaration of windows that slide; indices count in the whole image, so that one
    stays whole then.
    """
    dims, names, leading = image_words(input, spatial)
    arguments: dict[str, Any] = {}
    pairs = []
    for length, window in zip(dims[-spatial:], windows, strict=True):
        if indices:
            (number,) = (length,)
            if number is None:
                raise NotKnown("the length of a dimension with windows is not known")
            result = length_word(names, arguments, window.result(number))
            pairs.append(("1" if number == 1 else names.one("^"), result))
        else:
            pairs.append(slide(length, window, names, arguments))
    source = [*leading, *(before for before, _ in pairs)]
    target = [*leading, *(after for _, after in pairs)]
    dtype = dtype_of(input)
    return Declaration(
        annotation([source], [target] * (1 + indices)),
        (input,),
        arguments=arguments,
        dtypes=(dtype, "int64") if indices else (dtype,),
        linear=((0,),) if linear else (),
        returns="tuple" if indices else "tensor",
    )


def windows_of(
    sizes: Any, stride: Any, padding: Any, dilation: Any, ceil_mode: bool, spatial: int
) -> list[Window]:
    kernel = per_dim(sizes, spatial)
    strides = kernel if stride in (None, [], ()) else per_dim(stride, spatial)
    pads, dilations = per_dim(padding, spatial), per_dim(dilation, spatial)
    for k, pad, d in zip(kernel, pads, dilations, strict=True):
        refusal = errors.not_understood("pooling", f"the padding is {pad}, of windows of {k}")
        need(pad, GE, 0, refusal)
        need(2 * pad, LE, d * (k - 1) + 1, refusal)
    return [
        Window(k, s, p, p, d, ceil_mode)
        for k, s, p, d in zip(kernel, strides, pads, dilations, strict=True)
    ]


def max_pool(spatial: int, *, with_indices: bool = False) -> Form:
    """Returns the declaration of max_pool1d, 2d, 3d."""

    def declare(
        input: Any,
        kernel_size: Any,
        stride: Any = None,
        padding: Any = 0,
        dilation: Any = 1,
        ceil_mode: bool = False,
        return_indices: bool = False,
    ) -> Declaration:
        windows = windows_of(kernel_size, stride, padding, dilation, ceil_mode, spatial)
        return pooled(input, spatial, windows, linear=False, indices=with_indices or return_indices)

    return declare


def avg_pool(spatial: int) -> Form:
    """Returns the declaration of avg_pool1d, 2d, 3d."""

    def declare(
        input: Any,
        kernel_size: Any,
        stride: Any = None,
        padding: Any = 0,
        ceil_mode: bool = False,
        count_include_pad: bool = True,
        divisor_override: Any = None,
    ) -> Declaration:
        windows = windows_of(kernel_size, stride, padding, 1, ceil_mode, spatial)
        if spatial == 3:  # there torch wants a window to fit without the padding
            for length, window in zip(dims_of(input)[-3:], windows, strict=True):
                if length is not None:
                    refusal = errors.window_too_long(length, window.size, 0, 1)
                    need(length, GE, window.size, refusal)
        return pooled(input, spatial, windows, linear=True)

    return declare


def lp_pool(spatial: int) -> Form:
    """Returns the declaration of lp_pool1d, 2d, 3d."""

    def declare(
        input: Any, norm_type: Any, kernel_size: Any, stride: Any = None, ceil_mode: bool = False
    ) -> Declaration:
        return pooled(
            input, spatial, windows_of(kernel_size, stride, 0, 1, ceil_mode, spatial), linear=False
        )

    return declare


SHAPES = {1: (12, 8), 2: (12, 8, 6), 3: (12, 4, 6, 4)}
"""Channels and lengths of an example by the number of spatial dimensions."""


def image_of(spatial: int) -> Sample:
    return t(2, *SHAPES[spatial])


def _entries() -> list[Entry]:
    entries: list[Entry] = []
    for n in (1, 2, 3):
        place, image, peaks = (
            f"torch.nn.functional.{{}}{n}d",
            image_of(n),
            distinct(2, *SHAPES[n]),
        )
        plain = (example(peaks, 2), example(peaks, 3, 1, 1), example(peaks, 2, return_indices=True))
        entries += [
            entry(place.format("max_pool"), max_pool(n), *plain),
            entry(
                place.format("max_pool") + "_with_indices",
                max_pool(n, with_indices=True),
                example(peaks, 2),
            ),
            entry(
                place.format("avg_pool"),
                avg_pool(n),
                example(image, 2),
                example(image, 3, 2, 1),
                example(image, 3, 2, ceil_mode=True),
            ),
            entry(f"torch.max_pool{n}d", max_pool(n), *plain[:2]),
            entry(
                place.format("lp_pool"), lp_pool(n), example(image, 3, 2), example(image, 1, 3, 2)
            ),
        ]
    return entries


ENTRIES = tuple(_entries())
