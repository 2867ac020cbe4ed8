"""Windows that slide along a dimension: how long the result is, and whether the dimension may be
cut.

    length 32, window 3, padding 1     h^ -> o^      o = 32: neighbouring windows share elements
    length 32, window 1                h -> h
    length 32, window 4, stride 4      (h 4) -> h    windows that do not overlap
    a transposed one, 4 and 4          h -> (h 4)
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from dimsolve.solver.algebra.dims import ceil_div, floor_div, maximum, minimum
from dimsolve.solver.algebra.poly import Dim, divide_exactly

from . import errors
from .lengths import at_least
from .needs import GE, LT, need
from .values import NotKnown, is_dim
from .writing import Names, group, length_word


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
        refusal = errors.window_too_long(length, self.size, self.before + self.after, self.dilation)
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
        "a transposed convolution",
        f"output_padding is {extra}, beside a stride of {window.stride}",
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
    need(total, GE, 1, errors.window_too_long(length, window.size, 0, window.dilation))
    before = "1" if length == 1 else names.one("^")
    return before, length_word(names, arguments, total)
