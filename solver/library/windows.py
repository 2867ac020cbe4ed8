"""Windows that slide along a dimension: how long the result is, and whether the dimension may be
cut.

length 32, window 3, padding 1     h^ -> o^            o = 32: neighbouring windows share elements
length 32, window 1                h -> h length 32, window 4, stride 4      (h 4) -> h
windows that do not overlap a transposed one, 4 and 4          h -> (h 4)
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from dimsolve.solver.algebra.dims import ceil_div, floor_div
from dimsolve.solver.algebra.poly import Dim, divide_exactly

from . import errors
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
        room = length + self.before + self.after - self.dilation * (self.size - 1) - 1
        divide = ceil_div if self.ceil_mode else floor_div
        count = divide(room, self.stride) + 1
        if isinstance(count, int) and count < 1:
            raise errors.window_too_long(length, self.size, self.before + self.after, self.dilation)
        if not self.ceil_mode:
            return count
        if not (isinstance(count, int) and isinstance(length, int)):
            raise NotKnown("the number of windows, rounded up, is not known")
        # torch drops a last window that would begin in the padding behind the end
        return count - 1 if (count - 1) * self.stride >= length + self.before else count

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
    if window.plain and divide_exactly(length, window.size) is not None:
        word = names.one()
        return group(word, str(window.size)), word
    before = "1" if length == 1 else names.one("^")
    return before, length_word(names, arguments, window.result(length))


def slide_back(
    length: Dim | None, window: Window, extra: Any, names: Names, arguments: dict[str, Any]
) -> tuple[str, str]:
    """Returns the words of a dimension before and after a transposed convolution; ``extra`` is its
    output_padding.
    """
    if window.plain and extra == 0:
        word = names.one()
        return word, group(word, str(window.size))
    if length is None:
        raise NotKnown("the length of a dimension with windows is not known")
    result = (
        (length - 1) * window.stride
        - window.before
        - window.after
        + window.dilation * (window.size - 1)
    )
    before = "1" if length == 1 else names.one("^")
    return before, length_word(names, arguments, result + extra + 1)
