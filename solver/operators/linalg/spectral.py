"""Fourier transforms: the dimensions that are transformed stay whole.

fft(x, dim=-1)        a b^ -> a b^
rfft(x)               a b^ -> a c^          c = b//2 + 1
irfft(x)              a b^ -> a c^          c = 2*b - 2
fft2(x)               a b^ c^ -> a b^ c^
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

from dimsolve.ir.operator import Declaration

from ...algebra.dims import floor_div
from ...algebra.poly import Dim
from ..declare import errors
from ..declare.dtypes import complex_of, dtype_of, floating, real_of
from ..declare.entry import Entry, Form, entry, example, shapes, t
from ..declare.forms import moved, words
from ..declare.needs import GE, need
from ..declare.writing import Names, NotKnown, axes, axis, dims_of, length_word

Kind = Literal["full", "half", "real"]
"""full: as many frequencies as elements; half: the frequencies of reals; real: back from those to
reals.
"""


def transformed(
    input: Any, places: Sequence[int], sizes: Sequence[Any] | None, kind: Kind
) -> Declaration:
    """Declares a transform of these dimensions, padded or cut to ``sizes``."""
    dims = dims_of(input)
    names, arguments = Names(), dict[str, Any]()
    row = [names.one("^" if n in places else "") for n in range(len(dims))]
    target = list(row)
    for number, place in enumerate(places):
        length, size = dims[place], None if sizes is None else sizes[number]
        last = number == len(places) - 1
        result = _length(length, size, kind if last else "full")
        given: Any = length if size in (None, -1) else size
        need(given, GE, 1, errors.not_understood("a transform", f"its length is {given}"))
        need(result, GE, 1, errors.not_understood("a transform", f"its length is {result}"))
        if result != length or length is None:
            target[place] = length_word(names, arguments, result)
    dtype = floating(dtype_of(input))
    return moved(
        input,
        row,
        target,
        arguments=arguments,
        dtypes=(real_of(dtype) if kind == "real" else complex_of(dtype),),
        frozen="" if len(places) < len(dims) else "every frequency needs all elements",
    )


def _length(length: Dim | None, size: Any, kind: Kind) -> Dim:
    if length is None:
        raise NotKnown("the length of a dimension that is transformed is not known")
    match kind:
        case "full":
            return length if size in (None, -1) else size
        case "half":
            return floor_div(length if size in (None, -1) else size, 2) + 1
        case "real":
            return 2 * (length - 1) if size in (None, -1) else size


def _one(kind: Kind) -> Form:
    """Declares a transform of one dimension."""

    def declare(input: Any, n: Any = None, dim: int = -1, norm: Any = None) -> Declaration:
        return transformed(
            input, [axis(dim, len(dims_of(input)))], None if n is None else [n], kind
        )

    return declare


def _two(kind: Kind) -> Form:
    """Declares a transform of two dimensions."""

    def declare(input: Any, s: Any = None, dim: Any = (-2, -1), norm: Any = None) -> Declaration:
        return transformed(input, axes(dim, len(dims_of(input))), s, kind)

    return declare


def _many(kind: Kind) -> Form:
    """Declares a transform of any dimensions; sizes alone mean the last ones."""

    def declare(input: Any, s: Any = None, dim: Any = None, norm: Any = None) -> Declaration:
        rank = len(dims_of(input))
        if dim is None and s is not None:
            dim = tuple(range(rank - len(s), rank))
        return transformed(input, axes(dim, rank), s, kind)

    return declare


def shift(input: Any, dim: Any = None) -> Declaration:
    """Declares fftshift and ifftshift: a roll by half a dimension."""
    rank = len(dims_of(input))
    places = axes(dim, rank)
    row = words(rank, places)
    return moved(input, row, row)


_FORMS = {"": _one, "2": _two, "n": _many}
_KINDS: dict[str, Kind] = {
    "fft": "full",
    "ifft": "full",
    "rfft": "half",
    "irfft": "real",
    "hfft": "real",
    "ihfft": "half",
}


def _entries() -> list[Entry]:
    entries: list[Entry] = []
    for name, kind in _KINDS.items():
        sample = t(12, 4, 6, dtype="complex128") if kind == "real" else t(12, 4, 6)
        for suffix, form in _FORMS.items():
            calls = (
                [example(sample, dim=(1,) if suffix else 1)] if suffix != "2" else [example(sample)]
            )
            if not suffix:
                calls += [example(sample), example(sample, 8)]
            entries.append(entry(f"torch.fft.{name}{suffix}", form(kind), *calls))
    return entries


ENTRIES = (
    *_entries(),
    entry("torch.fft.fftshift", shift, example(t(12, 6), 1), *shapes("12 6")),
    entry("torch.fft.ifftshift", shift, example(t(12, 6), (1,))),
)
