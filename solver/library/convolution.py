"""Convolutions, and what takes windows apart and puts them together.

conv2d(x, w, b)            n c+ h^ w^, o c+ k^ l^, o -> n o i^ j^       b is a summand
conv2d(x, w, b, groups=4)  n (g c+) h^ w^, (g o) c+ k^ l^, (g o) -> n (g o) i^ j^
depthwise                  n g h^ w^, g 1 k^ l^, g -> n g i^ j^         a rank's groups: its g
patches, 16 by 16          n c+ (h 16) (w 16), o c+ 16 16 -> n o h w    stride 16
conv_transpose2d           n (g c+) h^ w^, (g c+) o k^ l^, (g o) -> n (g o) i^ j^
pixel_shuffle(x, 2)        n (c 2 2) h w -> n c (h 2) (w 2)
"""

from __future__ import annotations

from typing import Any

from dimsolve.ir.operator import Declaration
from dimsolve.solver.algebra.dims import floor_div
from dimsolve.solver.algebra.poly import Dim

from . import errors
from .dtypes import result_type
from .entry import Form, entry
from .lengths import quotient
from .needs import EQ, GE, need
from .samples import example, t
from .values import NotKnown, dims_of, per_dim
from .windows import Window, slide, slide_back
from .writing import Names, annotation, group


def windows_of(sizes: Any, stride: Any, padding: Any, dilation: Any, spatial: int) -> list[Window]:
    """The windows of a convolution; ``"same"`` keeps lengths, the odd padding is behind."""
    strides, dilations = per_dim(stride, spatial), per_dim(dilation, spatial)
    if padding == "same":
        spans = [d * (k - 1) for k, d in zip(sizes, dilations, strict=True)]
        for stride in strides:
            refusal = errors.not_understood("a convolution", "padding='same' with a stride")
            need(stride, EQ, 1, refusal)
        pairs = [(floor_div(span, 2), span - floor_div(span, 2)) for span in spans]
    else:
        pads = per_dim(0 if padding == "valid" else padding, spatial)
        for pad in pads:
            need(pad, GE, 0, errors.not_understood("a convolution", f"the padding is {pad}"))
        pairs = [(pad, pad) for pad in pads]
    return [
        Window(k, s, before, after, d)
        for k, s, (before, after), d in zip(sizes, strides, pairs, dilations, strict=True)
    ]


def _channels(
    names: Names, groups: Any, inner: Dim, outer: Dim, arguments: dict[str, Any]
) -> tuple[str, str, str]:
    """The words of the groups, of a group's input channels and of its output channels."""
    group_word = "1" if groups == 1 else names.one()
    input_word = "1" if inner == 1 else names.one("+")
    output_word = "1" if outer == 1 else names.one()
    if group_word != "1":
        arguments[group_word] = groups
    return group_word, input_word, output_word


def convolution(spatial: int) -> Form:
    """Returns the declaration of conv1d, conv2d, conv3d."""

    def declare(
        input: Any,
        weight: Any,
        bias: Any = None,
        stride: Any = 1,
        padding: Any = 0,
        dilation: Any = 1,
        groups: Any = 1,
    ) -> Declaration:
        dims, kernel = _checked(input, weight, spatial)
        names, arguments = Names(), dict[str, Any]()
        batch = names.take(len(dims) - spatial - 1)
        out = quotient("a group of output channels", kernel[0], groups)
        g, c, o = _channels(names, groups, kernel[1], out, arguments)
        windows = windows_of(kernel[2:], stride, padding, dilation, spatial)
        pairs = [
            slide(n, w, names, arguments) for n, w in zip(dims[-spatial:], windows, strict=True)
        ]
        sides = _kernel_words(kernel[2:], names)
        inputs = [
            [*batch, group(g, c), *(before for before, _ in pairs)],
            [group(g, o), c, *sides],
        ]
        output = [*batch, group(g, o), *(after for _, after in pairs)]
        return _joined(input, weight, bias, inputs, output, group(g, o), g, arguments)

    return declare


def transposed_convolution(spatial: int) -> Form:
    """Returns the declaration of conv_transpose1d, 2d, 3d, whose weight has its input channels
    first.
    """

    def declare(
        input: Any,
        weight: Any,
        bias: Any = None,
        stride: Any = 1,
        padding: Any = 0,
        output_padding: Any = 0,
        groups: Any = 1,
        dilation: Any = 1,
    ) -> Declaration:
        dims, kernel = _checked(input, weight, spatial)
        names, arguments = Names(), dict[str, Any]()
        batch = names.take(len(dims) - spatial - 1)
        inner = quotient("a group of input channels", kernel[0], groups)
        g, c, o = _channels(names, groups, inner, kernel[1], arguments)
        windows = windows_of(kernel[2:], stride, padding, dilation, spatial)
        extras = per_dim(output_padding, spatial)
        pairs = [
            slide_back(n, w, extra, names, arguments)
            for n, w, extra in zip(dims[-spatial:], windows, extras, strict=True)
        ]
        inputs = [
            [*batch, group(g, c), *(before for before, _ in pairs)],
            [group(g, c), o, *_kernel_words(kernel[2:], names)],
        ]
        output = [*batch, group(g, o), *(after for _, after in pairs)]
        return _joined(input, weight, bias, inputs, output, group(g, o), g, arguments)

    return declare


def _checked(input: Any, weight: Any, spatial: int) -> tuple[Any, tuple[Dim, ...]]:
    dims, kernel = dims_of(input), dims_of(weight, "the weight")
    if len(dims) not in (spatial + 1, spatial + 2):
        raise errors.wrong_rank(
            "a convolution", "input", dims, f"{spatial + 1} or {spatial + 2} dimensions"
        )
    if len(kernel) != spatial + 2:
        raise errors.wrong_rank("a convolution", "the weight", kernel, f"{spatial + 2} dimensions")
    if None in kernel:
        raise NotKnown("a length of the weight is not known")
    return dims, tuple(k for k in kernel if k is not None)


def _kernel_words(sizes: Any, names: Names) -> list[str]:
    return [str(size) if isinstance(size, int) else names.one("^") for size in sizes]


def _joined(
    input: Any,
    weight: Any,
    bias: Any,
    inputs: list[list[str]],
    output: list[str],
    channels: str,
    groups: str,
    arguments: dict[str, Any],
) -> Declaration:
    tensors = [input, weight]
    linear: tuple[tuple[int, ...], ...] = ((0,), (1,))
    if bias is not None:
        tensors.append(bias)
        inputs.append([channels])
        linear = ((0, 2), (1, 2))
    return Declaration(
        annotation(inputs, [output]),
        tuple(tensors),
        arguments=arguments,
        sizes={} if groups == "1" else {"groups": groups},
        value_split=() if bias is None else (2,),
        dtypes=(result_type(tensors),),
        linear=linear,
    )


ENTRIES = (
    entry(
        "torch.nn.functional.conv1d",
        convolution(1),
        example(t(2, 12, 8), t(6, 12, 3), t(6), padding=1),
        example(t(2, 12, 8), t(24, 2, 2), t(24), 2, 0, 1, 6),
        example(t(12, 6, 8), t(6, 1, 3), None, 1, "same", 1, 6),
    ),
    entry(
        "torch.nn.functional.conv2d",
        convolution(2),
        example(t(2, 12, 6, 4), t(6, 12, 3, 3), t(6), 1, 1),
        example(t(2, 3, 24, 8), t(12, 3, 2, 4), None, (2, 4)),
        example(t(2, 12, 6, 4), t(24, 3, 2, 2), t(24), groups=4),
        example(t(2, 12, 6, 4), t(12, 1, 3, 3), t(12), padding=(1, 0), dilation=(1, 1), groups=12),
        example(t(12, 6, 4), t(6, 12, 1, 1), t(6)),
    ),
    entry(
        "torch.nn.functional.conv3d",
        convolution(3),
        example(t(2, 4, 6, 3, 3), t(6, 4, 2, 2, 2), t(6), (2, 1, 1)),
    ),
    entry(
        "torch.nn.functional.conv_transpose1d",
        transposed_convolution(1),
        example(t(2, 12, 6), t(12, 6, 3), t(6), 2, 1, 1),
        example(t(2, 12, 6), t(12, 2, 4), t(8), 4, groups=4),
    ),
    entry(
        "torch.nn.functional.conv_transpose2d",
        transposed_convolution(2),
        example(t(2, 12, 4, 3), t(12, 6, 3, 3), t(6), 2, 1),
        example(t(2, 6, 4, 3), t(6, 4, 2, 2), t(4), 2),
    ),
    entry(
        "torch.nn.functional.conv_transpose3d",
        transposed_convolution(3),
        example(t(2, 4, 2, 3, 2), t(4, 6, 2, 2, 2), t(6)),
    ),
)
