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
from ..declare.forms import LINEAR, declared, moved, words
from ..declare.needs import EQ, GE, GT, LE, need
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
        frozen="" if len(places) < len(dims) else _EVERY,
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


def stft(
    input: Any,
    n_fft: Any,
    hop_length: Any = None,
    win_length: Any = None,
    window: Any = None,
    center: bool = True,
    pad_mode: str = "reflect",
    normalized: bool = False,
    onesided: Any = None,
    return_complex: Any = None,
    align_to_window: Any = None,
) -> Declaration:
    """Declares the spectra of windows that slide over signals."""
    dims = dims_of(input)
    length = dims[-1]
    if length is None:
        raise NotKnown("the length of a signal is not known")
    _need_window(n_fft, win_length, window)
    hop = floor_div(n_fft, 4) if hop_length is None else hop_length
    need(hop, GE, 1, errors.not_understood("stft", f"hop_length is {hop}"))
    half = floor_div(n_fft, 2)
    if center and pad_mode == "reflect":
        need(length, GT, half, errors.out_of_range("the padding", half, length))
    padded = length + 2 * half if center else length
    need(padded, GE, n_fft, errors.out_of_range("n_fft", n_fft, padded))
    real = not _is_complex(input) and not (window is not None and _is_complex(window))
    half_of = real if onesided is None else onesided
    lengths = (half + 1 if half_of else n_fft), floor_div(padded - n_fft, hop) + 1
    return _windowed(input, window, lengths, pairs=return_complex is False)


def istft(
    input: Any,
    n_fft: Any,
    hop_length: Any = None,
    win_length: Any = None,
    window: Any = None,
    center: bool = True,
    normalized: bool = False,
    onesided: Any = None,
    length: Any = None,
    return_complex: bool = False,
) -> Declaration:
    """Declares signals from the spectra of their windows."""
    dims = dims_of(input)
    if len(dims) < 2 or dims[-1] is None or dims[-2] is None:
        raise NotKnown("the number of windows is not known")
    _need_window(n_fft, win_length, window)
    hop = floor_div(n_fft, 4) if hop_length is None else hop_length
    half = floor_div(n_fft, 2)
    need(hop, GE, 1, errors.not_understood("istft", f"hop_length is {hop}"))
    if onesided is None:
        onesided = dims[-2] != n_fft
    wanted = half + 1 if onesided else n_fft
    need(dims[-2], EQ, wanted, errors.lengths_differ("the frequencies", dims[-2], wanted))
    found = n_fft + hop * (dims[-1] - 1) - (2 * half if center else 0)
    names, arguments = Names(), dict[str, Any]()
    batch = names.take(len(dims) - 2)
    row = [*batch, *("1" if d == 1 else names.one("^") for d in dims[-2:])]
    target = [*batch, length_word(names, arguments, found if length is None else length)]
    tensors, rows = _with_window(input, row, window, names)
    dtype = dtype_of(input) if return_complex else real_of(dtype_of(input))
    frozen = "" if batch else _EVERY
    return declared(
        tensors, rows, [target], arguments=arguments, dtypes=(dtype,), linear=LINEAR, frozen=frozen
    )


def _windowed(input: Any, window: Any, lengths: Sequence[Dim], *, pairs: bool) -> Declaration:
    names, arguments = Names(), dict[str, Any]()
    batch = names.take(len(dims_of(input)) - 1)
    row = [*batch, "1" if dims_of(input)[-1] == 1 else names.one("^")]
    target = [*batch, *(length_word(names, arguments, length) for length in lengths)]
    tensors, rows = _with_window(input, row, window, names)
    dtype = complex_of(dtype_of(input))
    return declared(
        tensors,
        rows,
        [[*target, "2"] if pairs else target],
        arguments=arguments,
        dtypes=(real_of(dtype) if pairs else dtype,),
        linear=LINEAR,
        frozen="" if batch else _EVERY,
    )


_EVERY = "every frequency needs all elements"


def _with_window(
    input: Any, row: list[str], window: Any, names: Names
) -> tuple[list[Any], list[list[str]]]:
    if window is None:
        return [input], [row]
    return [input, window], [row, ["1" if dims_of(window) == (1,) else names.one("^")]]


def _need_window(n_fft: Any, win_length: Any, window: Any) -> None:
    need(n_fft, GE, 1, errors.not_understood("stft", f"n_fft is {n_fft}"))
    width = n_fft if win_length is None else win_length
    need(width, GE, 1, errors.not_understood("stft", f"win_length is {width}"))
    need(width, LE, n_fft, errors.out_of_range("win_length", width, n_fft))
    given = None if window is None else dims_of(window)[0]
    if given is not None:
        need(given, EQ, width, errors.lengths_differ("the window and win_length", given, width))


def _is_complex(tensor: Any) -> bool:
    return (dtype_of(tensor) or "").startswith("complex")


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
    entry(
        "torch.stft",
        stft,
        example(t(12, 40), 8, return_complex=True),
        example(t(2, 40), 8, 3, 6, t(6), center=False, return_complex=True),
    ),
    entry("torch.istft", istft, example(t(12, 5, 9, dtype="complex128"), 8)),
    entry("torch.fft.fftshift", shift, example(t(12, 6), 1), *shapes("12 6")),
    entry("torch.fft.ifftshift", shift, example(t(12, 6), (1,))),
)
