"""Convolutions, and images taken apart into windows or channels and put together.

    conv2d(x, w, b)            n c+ h^ w^, o c+ k^ l^, o -> n o i^ j^       b is a summand
    conv2d(x, w, b, groups=4)  n (g c+) h^ w^, (g o) c+ k^ l^, (g o) -> n (g o) i^ j^
    depthwise                  n g h^ w^, g 1 k^ l^, g -> n g i^ j^         a rank's groups: its g
    patches, 16 by 16          n c+ (h 16) (w 16), o c+ 16 16 -> n o h w    stride 16
    conv_transpose2d           n (g c+) h^ w^, (g c+) o k^ l^, (g o) -> n (g o) i^ j^
    pixel_shuffle(x, 2)        n (c 2 2) h w -> n c (h 2) (w 2)
    channel_shuffle(x, 4)      n (g c) a b -> n (c g) a b                   g=4
    unfold(x, 3)               n c h^ w^ -> n (c 3 3) a^

A `Window` says how long the result of a dimension is, and whether the dimension may be split:
neighbouring windows share elements, so only windows that do not overlap leave it free.

    length 32, window 3, padding 1     h^ -> o^      o = 32
    length 32, window 4, stride 4      (h 4) -> h
    a transposed one, 4 and 4          h -> (h 4)
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from dimsolve.ir.operator import Declaration

from ...algebra.dims import ceil_div, floor_div, maximum, minimum
from ...algebra.poly import Dim, divide_exactly, product
from ..declare import errors
from ..declare.dtypes import result_type
from ..declare.entry import Form, entry, example, functional, shapes, t
from ..declare.forms import declared, moved
from ..declare.needs import EQ, GE, LT, at_least, need, quotient
from ..declare.writing import Names, NotKnown, dims_of, group, is_dim, length_word, per_dim


@dataclass(frozen=True, slots=True)
class Window:
    """One dimension of a convolution or a pooling. ``before`` and ``after`` are the padding on each
    side.
    """

    size: Any
    stride: Any = 1
    before: Any = 0
    after: Any = 0
    dilation: Any = 1
    ceil_mode: bool = False

    def result(self, length: Dim) -> Dim:
        """Returns how many windows there are. Raises ShapeError where not even one fits."""
        refusal = errors.window_too_long(self.size, self.dilation, length, self.before + self.after)
        for number in (self.size, self.stride, self.dilation):
            need(number, GE, 1, refusal)
        room = length + self.before + self.after - self.dilation * (self.size - 1) - 1
        if not self.ceil_mode:
            need(room, GE, 0, refusal)
            return floor_div(room, self.stride) + 1
        count = ceil_div(room, self.stride) + 1
        # torch drops a last window that would begin in the padding behind the end
        beyond = (count - 1) * self.stride - length - self.before
        if not at_least(-1, beyond):
            count = count - minimum(1, maximum(0, beyond + 1))
        need(count, GE, 1, refusal)
        return count

    @property
    def plain(self) -> bool:
        """Whether windows neither overlap nor leave gaps nor reach over the ends."""
        side_by_side = self.size == self.stride and self.before == self.after == 0
        return bool(side_by_side and (self.dilation == 1 or self.size == 1))


def slide(
    length: Dim | None, window: Window, names: Names, arguments: dict[str, Any]
) -> tuple[str, str]:
    """Returns the words of a dimension before and after windows slide along it."""
    if not all(
        is_dim(x)
        for x in (window.size, window.stride, window.before, window.after, window.dilation)
    ):
        raise NotKnown("a size of a window is not known")
    if window.plain and window.size == 1:
        word = names.one()
        return word, word
    if length is None:
        raise NotKnown("the length of a dimension with windows is not known")
    if window.plain and isinstance(window.size, int) and divides(window.size, length):
        window.result(length)
        word = names.one()
        return group(word, str(window.size)), word
    before = "1" if length == 1 else names.one("^")
    return before, length_word(names, arguments, window.result(length))


def divides(size: int, length: Dim) -> bool:
    """Whether a length is a multiple of a size for all values of its symbols."""
    return size > 0 and divide_exactly(length, size) is not None


def slide_back(
    length: Dim | None, window: Window, extra: Any, names: Names, arguments: dict[str, Any]
) -> tuple[str, str]:
    """Returns the words of a dimension before and after a transposed convolution; ``extra`` is its
    output_padding.
    """
    for number in (window.size, window.stride, window.dilation):
        need(number, GE, 1, errors.not_understood("a window", f"a size of it is {number}"))
    if window.plain and extra == 0 and isinstance(window.size, int):
        word = names.one()
        return word, group(word, str(window.size))
    if length is None:
        raise NotKnown("the length of a dimension with windows is not known")
    refusal = errors.not_understood(
        "a transposed convolution", f"output_padding is {extra}, beside a stride of {window.stride}"
    )
    need(extra, GE, 0, refusal)
    need(extra, LT, maximum(window.stride, window.dilation), refusal)
    result = (
        (length - 1) * window.stride
        - window.before
        - window.after
        + window.dilation * (window.size - 1)
    )
    total = result + extra + 1
    need(total, GE, 1, errors.window_too_long(window.size, window.dilation, length, 0))
    before = "1" if length == 1 else names.one("^")
    return before, length_word(names, arguments, total)


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
    """Declares conv1d, conv2d, conv3d."""

    def declare(
        input: Any,
        weight: Any,
        bias: Any = None,
        stride: Any = 1,
        padding: Any = 0,
        dilation: Any = 1,
        groups: Any = 1,
    ) -> Declaration:
        return _convolved(input, weight, bias, (stride, padding, dilation), groups, spatial)

    return declare


def transposed_convolution(spatial: int) -> Form:
    """Declares conv_transpose1d, 2d, 3d, whose weight has its input channels first."""

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
        steps = (stride, padding, dilation)
        return _convolved(input, weight, bias, steps, groups, spatial, True, output_padding)

    return declare


def _convolved(
    input: Any,
    weight: Any,
    bias: Any,
    steps: tuple[Any, Any, Any],
    groups: Any,
    spatial: int,
    transposed: bool = False,
    output_padding: Any = 0,
) -> Declaration:
    """The declaration of a convolution. steps: stride, padding and dilation."""
    dims, kernel = _checked(input, weight, spatial)
    names, arguments = Names(), dict[str, Any]()
    batch = names.take(len(dims) - spatial - 1)
    share = quotient(f"a group of {'in' if transposed else 'out'}put channels", kernel[0], groups)
    inner, outer = (share, kernel[1]) if transposed else (kernel[1], share)
    g, c, o = _channels(names, groups, inner, outer, arguments)
    windows = windows_of(kernel[2:], *steps, spatial)
    slides = zip(dims[-spatial:], windows, strict=True)
    if transposed:
        extras = per_dim(output_padding, spatial)
        pairs = [
            slide_back(n, w, extra, names, arguments)
            for (n, w), extra in zip(slides, extras, strict=True)
        ]
    else:
        pairs = [slide(n, w, names, arguments) for n, w in slides]
    sides = [str(size) if isinstance(size, int) else names.one("^") for size in kernel[2:]]
    channels = group(g, o)
    rows = [
        [*batch, group(g, c), *(before for before, _ in pairs)],
        [*((group(g, c), o) if transposed else (channels, c)), *sides],
    ]
    tensors = [input, weight]
    if bias is not None:
        tensors, rows = [*tensors, bias], [*rows, [channels]]
    return declared(
        tensors,
        rows,
        [[*batch, channels, *(after for _, after in pairs)]],
        arguments=arguments,
        sizes={} if g == "1" else {"groups": g},
        value_split=() if bias is None else (2,),
        dtypes=(result_type(tensors),),
        linear=((0,), (1,)) if bias is None else ((0, 2), (1, 2)),
    )


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


def pixel_shuffle(input: Any, upscale_factor: int) -> Declaration:
    """Declares channels laid out as larger images."""
    rank, arguments = len(dims_of(input)), dict[str, Any]()
    names = Names({"c", "h", "w"})
    batch, r = names.take(rank - 3), _factor_word(upscale_factor, names, arguments)
    return moved(
        input,
        [*batch, group("c", r, r), "h", "w"],
        [*batch, "c", group("h", r), group("w", r)],
        arguments=arguments,
    )


def pixel_unshuffle(input: Any, downscale_factor: int) -> Declaration:
    """Declares images laid out as channels."""
    rank, arguments = len(dims_of(input)), dict[str, Any]()
    names = Names({"c", "h", "w"})
    batch, r = names.take(rank - 3), _factor_word(downscale_factor, names, arguments)
    return moved(
        input,
        [*batch, "c", group("h", r), group("w", r)],
        [*batch, group("c", r, r), "h", "w"],
        arguments=arguments,
    )


def _factor_word(factor: Any, names: Names, arguments: dict[str, Any]) -> str:
    """The word of a factor inside of a product: a number, or an identifier for a symbol."""
    need(factor, GE, 1, errors.not_understood("an image", f"a factor of its lengths is {factor}"))
    return str(factor) if isinstance(factor, int) else length_word(names, arguments, factor)


def channel_shuffle(input: Any, groups: Any) -> Declaration:
    """Declares channels dealt out over the groups."""
    dims = dims_of(input)
    need(groups, GE, 1, errors.not_understood("channel_shuffle", f"groups is {groups}"))
    names = Names({"n", "g", "c"})
    rest = names.take(len(dims) - 2)
    return moved(
        input,
        ["n", "(g c)", *rest],
        ["n", "(c g)", *rest],
        arguments={"g": groups},
        sizes={"groups": "g"},
    )


def unfold(
    input: Any, kernel_size: Any, dilation: Any = 1, padding: Any = 0, stride: Any = 1
) -> Declaration:
    """Declares F.unfold: every window a column."""
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
    return moved(
        input, [*batch, "c", *sides], [*batch, group("c", *kernel), word], arguments=arguments
    )


def fold(
    input: Any,
    output_size: Any,
    kernel_size: Any,
    dilation: Any = 1,
    padding: Any = 0,
    stride: Any = 1,
) -> Declaration:
    """Declares F.fold: columns added up into images."""
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
    return moved(
        input, [*batch, group("c", *kernel), column], [*batch, "c", *sides], arguments=arguments
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
        *shapes("12 6 4, 6 12 1 1, 6"),
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
        *shapes("2 4 2 3 2, 4 6 2 2 2, 6"),
    ),
    functional(pixel_shuffle, example(t(2, 24, 6, 4), 2)),
    functional(pixel_unshuffle, example(t(2, 6, 12, 8), 2)),
    functional(channel_shuffle, example(t(2, 12, 4, 3), 4)),
    functional(unfold, example(t(2, 12, 6, 4), (2, 3)), example(t(2, 6, 4, 4), 2, stride=2)),
    functional(fold, example(t(2, 24, 9), (4, 4), (2, 2))),
)
