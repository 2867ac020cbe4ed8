"""Pooling: with windows that slide, to a size, and back.

max_pool2d(x, 2)                n c (h 2) (w 2) -> n c h w    windows do not overlap: split
max_pool2d(x, 3, 1, 1)          n c h^ w^ -> n c i^ j^
adaptive_avg_pool2d(x, 1)       n c h+ w+ -> n c 1 1          P(avg)
adaptive_avg_pool2d(x, (4, 1))  n c (h 6) w+ -> n c h 1       of (24, w): a rank asks for (h, 1)
adaptive_max_pool2d(x, 3)       n c h^ w^ -> n c i^ j^        windows of different lengths
max_unpool2d(x, places, 2)      n c h^ w^, n c h^ w^ -> n c i^ j^
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from dimsolve.ir.operator import Declaration

from ...algebra.poly import Dim, divide_exactly
from ..declare import errors
from ..declare.dtypes import dtype_of
from ..declare.entry import Entry, Form, constant, distinct, entry, example, places, t
from ..declare.forms import declared
from ..declare.needs import EQ, GE, GT, LE, LT, need
from ..declare.writing import (
    Lengths,
    Names,
    NotKnown,
    bare,
    dims_of,
    group,
    is_dim,
    length_word,
    per_dim,
)
from .convolution import Window, slide


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
    """Declares windows that slide; indices count in the whole image, which then stays whole."""
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
    return declared(
        (input,),
        [source],
        [target] * (1 + indices),
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
    """Declares max_pool1d, 2d, 3d."""

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
    """Declares avg_pool1d, 2d, 3d."""

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
                    refusal = errors.window_too_long(window.size, 1, length, 0)
                    need(length, GE, window.size, refusal)
        return pooled(input, spatial, windows, linear=True)

    return declare


def lp_pool(spatial: int) -> Form:
    """Declares lp_pool1d, 2d, 3d."""

    def declare(
        input: Any, norm_type: Any, kernel_size: Any, stride: Any = None, ceil_mode: bool = False
    ) -> Declaration:
        return pooled(
            input, spatial, windows_of(kernel_size, stride, 0, 1, ceil_mode, spatial), linear=False
        )

    return declare


SHAPES = {1: (12, 8), 2: (12, 8, 6), 3: (12, 4, 6, 4)}
"""Channels and lengths of an example by the number of spatial dimensions."""


def _adaptive_word(
    length: Dim | None, size: Dim | None, names: Names, arguments: dict[str, Any], *, mean: bool
) -> tuple[str, str]:
    """The words of a dimension before and after it is pooled to a size; None keeps its length."""
    if size is None or size == length:
        word = "1" if length == 1 else names.one()
        return word, word
    if not is_dim(size) or length is None:
        raise NotKnown("a size of the result is not known")
    if size == 1:
        return names.one("+" if mean else "^"), "1"
    width = divide_exactly(length, size)
    if isinstance(width, int):
        word = names.one()
        return group(word, str(width)), word
    return names.one("^"), length_word(names, arguments, size)


def adaptive_pool(spatial: int, *, mean: bool, with_indices: bool = False) -> Form:
    """Declares adaptive_avg_pool and adaptive_max_pool in so many dimensions."""

    def declare(input: Any, output_size: Any, return_indices: bool = False) -> Declaration:
        dims, names, leading = image_words(input, spatial)
        arguments: dict[str, Any] = {}
        sizes = per_dim(output_size, spatial)
        pairs = [
            _adaptive_word(length, size, names, arguments, mean=mean)
            for length, size in zip(dims[-spatial:], sizes, strict=True)
        ]
        indices = with_indices or return_indices
        source, target = [b for b, _ in pairs], [a for _, a in pairs]
        remade = isinstance(output_size, list | tuple) and len(output_size) == spatial
        if indices or not (remade or spatial == 1 or all(after == "1" for after in target)):
            source, target, arguments = _whole_image(dims[-spatial:], sizes, names)
            remade = False
        dtype = dtype_of(input)
        return declared(
            (input,),
            [[*leading, *source]],
            [[*leading, *target]] * (1 + indices),
            arguments=arguments,
            sizes={"output_size": " ".join(target)} if remade or spatial == 1 else {},
            reduction="avg" if mean else "sum",
            dtypes=(dtype, "int64") if indices else (dtype,),
            linear=((0,),) if mean else (),
            returns="tuple" if indices else "tensor",
        )

    return declare


def _whole_image(
    lengths: Lengths, sizes: Sequence[Any], names: Names
) -> tuple[list[str], list[str], dict[str, Any]]:
    """The words of an image that stays whole: one written size for all dimensions cannot be made
    anew.
    """
    arguments: dict[str, Any] = {}
    source, target = [], []
    for length, size in zip(lengths, sizes, strict=True):
        word = "1" if length == 1 else names.one("^")
        source.append(word)
        target.append(word if size is None else length_word(names, arguments, size))
    return source, target, arguments


def max_unpool(spatial: int) -> Form:
    """Declares max_unpool1d, 2d, 3d: values put back to their places in the whole image."""

    def declare(
        input: Any,
        indices: Any,
        kernel_size: Any,
        stride: Any = None,
        padding: Any = 0,
        output_size: Any = None,
    ) -> Declaration:
        dims, names, leading = image_words(input, spatial)
        sizes: list[Any] = [None] * spatial
        if output_size is not None:
            sizes = list(output_size)[-spatial:]
            if not all(map(is_dim, sizes)) or len(sizes) < spatial:
                raise NotKnown("a size of the result is not known")
        arguments: dict[str, Any] = {}
        source, target = [], []
        windows = windows_of(kernel_size, stride, padding, 1, False, spatial)
        for length, window, size in zip(dims[-spatial:], windows, sizes, strict=True):
            if length is None:
                raise NotKnown("the length of a dimension with windows is not known")
            if spatial == 3:  # in one and two dimensions torch takes an empty window
                refusal = errors.out_of_range("the kernel_size", window.size, length)
                need(window.size, GE, 1, refusal)
            source.append("1" if length == 1 else names.one("^"))
            result = (length - 1) * window.stride - 2 * window.before + window.size
            if size is not None:
                refusal = errors.out_of_range("the output_size", size, result)
                need(size, GT, result - window.stride, refusal)
                need(size, LT, result + window.stride, refusal)
            target.append(length_word(names, arguments, result if size is None else size))
        row = [*leading, *source]
        return declared(
            (input, indices),
            [row, row],
            [[*leading, *target]],
            arguments={k: v for k, v in arguments.items() if k in map(bare, target)},
        )

    return declare


def max_pool2d_backward(
    grad_output: Any,
    input: Any,
    kernel_size: Any,
    stride: Any,
    padding: Any,
    dilation: Any,
    ceil_mode: bool,
    indices: Any,
) -> Declaration:
    """Declares the gradient of a max_pool2d, given back to the places of the maxima."""
    dims, names, leading = image_words(input, 2)
    image = ["1" if length == 1 else names.one("^") for length in dims[-2:]]
    given = dims_of(grad_output)[-2:]
    windows = windows_of(kernel_size, stride, padding, dilation, ceil_mode, 2)
    for length, window, result in zip(dims[-2:], windows, given, strict=True):
        if length is not None and result is not None:
            wanted = window.result(length)
            need(result, EQ, wanted, errors.lengths_differ("the gradient", result, wanted))
    pooled_image = ["1" if d == 1 else names.one("^") for d in given]
    row, small = [*leading, *image], [*leading, *pooled_image]
    return declared((grad_output, input, indices), [small, row, small], [row], linear=((0,),))


def fractional(spatial: int) -> Form:
    """Declares fractional_max_pool2d, 3d, whose windows are drawn."""

    def declare(
        input: Any,
        kernel_size: Any,
        output_size: Any = None,
        output_ratio: Any = None,
        return_indices: bool = False,
        _random_samples: Any = None,
    ) -> Declaration:
        if output_size is None or _random_samples is not None:
            raise NotKnown("only an output_size and drawn windows are supported")
        dims, names, leading = image_words(input, spatial)
        _need_windows(dims[-spatial:], per_dim(kernel_size, spatial), per_dim(output_size, spatial))
        source, target, arguments = _whole_image(
            dims[-spatial:], per_dim(output_size, spatial), names
        )
        found = declared(
            (input,), [[*leading, *source]], [[*leading, *target]], arguments=arguments, random=True
        )
        if not return_indices:
            return found
        text = f"{found.annotation}, {found.annotation.split(' -> ')[1]}"
        return replace(found, annotation=text, dtypes=(dtype_of(input), "int64"), returns="tuple")

    return declare


def _need_windows(lengths: Lengths, kernel: Sequence[Any], sizes: Sequence[Any]) -> None:
    """Windows that are drawn lie in the image, each at a place of its own."""
    for length, window, size in zip(lengths, kernel, sizes, strict=True):
        if length is not None and is_dim(window) and is_dim(size):
            refusal = errors.out_of_range("the output_size", size, length)
            # In three dimensions torch wants one element more.
            need(size + window - 1 + (len(lengths) == 3), LE, length, refusal)


def _entries(n: int) -> list[Entry]:
    """The pools over ``n`` dimensions."""
    image, peaks = t(2, *SHAPES[n]), distinct(2, *SHAPES[n])
    plain = (example(peaks, 2), example(peaks, 3, 1, 1))
    sizes = ((1,), ((2,) * n,), (3,))
    found = {
        f"max_pool{n}d": (max_pool(n), (*plain, example(peaks, 2, return_indices=True))),
        f"max_pool{n}d_with_indices": (max_pool(n, with_indices=True), plain[:1]),
        f"avg_pool{n}d": (
            avg_pool(n),
            (example(image, 2), example(image, 3, 2, 1), example(image, 3, 2, ceil_mode=True)),
        ),
        f"lp_pool{n}d": (lp_pool(n), (example(image, 3, 2), example(image, 1, 3, 2))),
        f"adaptive_avg_pool{n}d": (
            adaptive_pool(n, mean=True),
            tuple(example(image, *size) for size in sizes),
        ),
        f"adaptive_max_pool{n}d": (
            adaptive_pool(n, mean=False),
            (*[example(peaks, *s) for s in sizes[:2]], example(peaks, 3, return_indices=True)),
        ),
        f"adaptive_max_pool{n}d_with_indices": (
            adaptive_pool(n, mean=False, with_indices=True),
            plain[:1],
        ),
        f"max_unpool{n}d": (max_unpool(n), (example(t(12, *[3] * n), places(n, 12, *[3] * n), 2),)),
    }
    return [
        entry(f"torch.max_pool{n}d", max_pool(n), *plain),
        *[entry(f"torch.nn.functional.{name}", form, *c) for name, (form, c) in found.items()],
    ]


ENTRIES = (
    entry(
        "torch.ops.aten.max_pool2d_with_indices_backward",
        max_pool2d_backward,
        example(
            constant(t(2, 12, 4, 3)),
            constant(distinct(2, 12, 8, 6)),
            [2, 2],
            [2, 2],
            [0, 0],
            [1, 1],
            False,
            places(2, 2, 12, 4, 3),
        ),
    ),
    *_entries(1),
    *_entries(2),
    *_entries(3),
    *(
        entry(
            f"torch.nn.functional.fractional_max_pool{n}d",
            fractional(n),
            example(t(2, 12, *[8] * n), 2, 3),
        )
        for n in (2, 3)
    ),
    entry(
        "torch.adaptive_max_pool1d",
        adaptive_pool(1, mean=False, with_indices=True),
        example(distinct(2, *SHAPES[1]), 2),
    ),
)
