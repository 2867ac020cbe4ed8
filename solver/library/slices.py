"""One slice of one dimension: the words of the dimension before and after, and the bounds of a
rank's slice.

Where the bounds and the length have a common divisor w, the dimension is so many blocks of w and
the slice takes whole blocks: w may be cut, each rank has its part of every block.

    [:, :64] of 128           (2 w) -> w        stop: w
    [..., 64:96] of 128       (4 w) -> w        start: (2 w), stop: (3 w)
    [..., 0::2] of 64         (w 2) -> w
    [:, 1:] of n              n^ -> m^          m = n - 1
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from dimsolve.solver.algebra.dims import ceil_div, maximum, minimum
from dimsolve.solver.algebra.poly import Dim, divide_exactly

from . import errors
from .lengths import at_least, common_divisor
from .needs import GE, need
from .values import NotKnown, is_dim
from .writing import Names, group, length_word


@dataclass(slots=True)
class Sliced:
    """The words of a dimension before and after a slice; ``sizes`` are the bounds by name, as text
    of one dimension.
    """

    before: str
    after: str
    sizes: dict[str, str] = field(default_factory=dict)


def slice_dim(length: Dim | None, part: slice, names: Names, arguments: dict[str, Any]) -> Sliced:
    """Returns how a slice cuts a dimension. Raises NotKnown for bounds that are no lengths."""
    if any(bound is not None and not is_dim(bound) for bound in (part.start, part.stop, part.step)):
        raise NotKnown("a bound of a slice is not known")
    step = 1 if part.step is None else part.step
    need(step, GE, 1, errors.not_understood("a slice", f"its step is {step}"))
    if length is None:
        return _open_length(part, step, names)
    if length == 1 and _whole(part, 1, step):
        return Sliced("1", "1")
    if _whole(part, length, step):
        word = names.one()
        return Sliced(word, word)
    start, stop = _bound(part.start, 0, length), _bound(part.stop, length, length)
    if step == 1:
        blocks = _blocks(length, start, stop, part, names)
        if blocks is not None:
            return blocks
    elif _every_one(length, start, stop, step):
        word = names.one()
        # A start counted from the end is another place in a part.
        sizes = {"start": str(start)} if part.start not in (None, start) else {}
        return Sliced(group(word, str(step)), word, sizes)
    before = "1" if length == 1 else names.one("^")
    return Sliced(before, length_word(names, arguments, slice_length(length, part)))


def slice_length(length: Dim, part: slice) -> Dim:
    """Returns how many elements a slice with bounds that are lengths takes of a length.

    >>> slice_length(10, slice(-3, None)), slice_length(10, slice(2, 9, 3))
    (3, 3)
    """
    step = 1 if part.step is None else part.step
    start, stop = _bound(part.start, 0, length), _bound(part.stop, length, length)
    if at_least(start, stop):
        return 0
    count: Dim = stop - start if at_least(stop, start) else maximum(stop - start, 0)
    return ceil_div(count, step)


def _every_one(length: Dim, start: Dim, stop: Dim, step: Any) -> bool:
    """Whether the slice takes one element of every block of ``step``."""
    whole = stop == length and divide_exactly(length, step) is not None
    return whole and isinstance(start, int) and start < step


def _open_length(part: slice, step: Any, names: Names) -> Sliced:
    if part.start in (None, 0) and part.stop is None and step == 1:
        word = names.one()
        return Sliced(word, word)
    raise NotKnown("the length of a dimension that is sliced is not known")


def _whole(part: slice, length: Dim, step: Any) -> bool:
    """Whether the slice takes everything, also where the length shrinks on a rank."""
    if step != 1 or part.start not in (None, 0):
        return False
    if part.stop is None or part.stop == length:
        return True
    return isinstance(part.stop, int) and part.stop >= 0 and at_least(part.stop, length)


def _bound(bound: Any, default: Dim, length: Dim) -> Dim:
    """The bound counted from the start and held inside the dimension, as Python does it."""
    if bound is None:
        return default
    place = from_start(bound, length)
    if not at_least(place, 0):
        place = maximum(place, 0)
    return place if at_least(length, place) else minimum(place, length)


def from_start(place: Dim, length: Dim) -> Dim:
    """Returns a place counted from the start where one below 0 is counted from the end, as Python
    does it. It may lie outside of the length.

    >>> from dimsolve.solver.algebra.poly import symbol
    >>> n = symbol("n")
    >>> print(from_start(-2, n), from_start(-n, 8), from_start(n, 8))
    n - 2 -n + 8 n
    >>> print(from_start(n - 4, 8))
    8*min(1, max(0, -n + 4)) + n - 4
    """
    if at_least(place, 0):
        return place
    if at_least(-1, place):
        return length + place
    return place + length * minimum(1, maximum(0, -place))


def _blocks(length: Dim, start: Dim, stop: Dim, part: slice, names: Names) -> Sliced | None:
    """The slice as whole blocks of a common divisor, None where there is none but 1."""
    width = common_divisor((length, start, stop))
    if width in (0, 1) or not at_least(stop, start) or stop == start:
        return None
    counts = [divide_exactly(value, width) for value in (length, start, stop, stop - start)]
    if not all(isinstance(count, int) for count in counts):
        return None
    total, first, last, taken = map(str, counts)
    word = names.one()
    sizes = {}
    if part.start is not None and first != "0":
        sizes["start"] = group(first, word)
    if part.stop is not None:
        sizes["stop"] = group(last, word)
    return Sliced(group(total, word), group(taken, word), sizes)
