"""Operators that take windows of a dimension, or put windows together: slices, split, chunk, cat.

    q = qkv[..., :64]         a b (2 c) -> a b c      the window 0 to 1/2
    k = qkv[..., 64:96]       a b (4 c) -> a b c      1/2 to 3/4
    cat((q, k), -1)           a b (2 c), a b c -> a b (3 c)

Each window may be cut on its own. What a slice leaves out is cut as the other slices of the same
value want it: q in one piece wants qkv as S(2, segments=2:1:1) where k and v are sliced off too.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence, Set
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import lru_cache
from itertools import pairwise

from dimsolve.ir.graph import Node, Value
from dimsolve.ir.operator import Declaration
from dimsolve.solver.layout import Pattern, layout_of
from dimsolve.solver.operators import canonical

from ..placement import ends_of

SLICES = frozenset({"operator.getitem", "torch.narrow"})

_APART = "split split_with_sizes unsafe_split chunk tensor_split hsplit vsplit dsplit"

_TOGETHER = "cat hstack vstack dstack"

APART = frozenset(f"torch.{name}" for name in _APART.split())

TOGETHER = frozenset(f"torch.{name}" for name in _TOGETHER.split())

_UNITS = re.compile(r"\(?(?:(\d+) )?(\w+)\)?")


@dataclass(frozen=True, slots=True)
class Window:
    """One tensor that is a window of the whole: from ``start`` to ``stop`` of it, as fractions."""

    tensor: int
    dim: int
    start: Fraction
    stop: Fraction


@dataclass(frozen=True, slots=True)
class Windows:
    """Windows of one dimension, (units name). ``bounds``: where the windows of this operator, and
    those of other operators on the same value, begin and end, 0 and 1 included.
    """

    name: str
    tensor: int
    dim: int
    units: int
    parts: tuple[Window, ...]
    bounds: tuple[Fraction, ...]
    _hash: int = field(init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        own = (self.name, self.tensor, self.dim, self.units, self.parts, self.bounds)
        object.__setattr__(self, "_hash", hash(own))

    def __hash__(self) -> int:
        # A hash of fractions takes long, and every call of a model asks for it.
        return self._hash

    def bounded(self, bounds: Set[Fraction]) -> Windows:
        """Returns the windows with these bounds."""
        if len(bounds) == len(self.bounds):
            return self
        return replace(self, bounds=tuple(sorted(bounds)))

    def part(self, tensor: int, dim: int) -> Window | None:
        """Returns the window that a dimension of a tensor is."""
        return next((w for w in self.parts if (w.tensor, w.dim) == (tensor, dim)), None)

    def around(self, part: Window, lengths: Sequence[Fraction]) -> tuple[Fraction, ...]:
        """Returns the segments of the whole where one window has these segments, as fractions of
        itself, and the rest is cut at the bounds.
        """
        inside = [each * (part.stop - part.start) for each in lengths]
        before = [*(b for b in self.bounds if b < part.start), part.start]
        after = [part.stop, *(b for b in self.bounds if b > part.stop)]
        return (*_between(before), *inside, *_between(after))

    def inside(self, lengths: Sequence[Fraction]) -> list[list[Fraction]] | None:
        """Returns the segments of each window where the whole has these; None where one of them
        lies in two windows.
        """
        ends = ends_of(lengths)
        places = {end: number for number, end in enumerate(ends)}
        if any(w.start not in places or w.stop not in places for w in self.parts):
            return None
        return [list(lengths[places[w.start] : places[w.stop]]) for w in self.parts]


def _between(bounds: Sequence[Fraction]) -> list[Fraction]:
    return [stop - start for start, stop in pairwise(bounds)]


def windows_of(node: Node, declaration: Declaration) -> tuple[Windows, ...]:
    """Returns the windows that a call takes or puts together; () for most calls."""
    path = canonical(node.signature)
    if path in SLICES:
        return _sliced(declaration.annotation, tuple(declaration.sizes.items()))
    if path in APART or path in TOGETHER:
        return _in_order(declaration.annotation, path in TOGETHER)
    return ()


def _units(pattern: Pattern) -> tuple[int, str] | None:
    """(4, "c") for the dimension (4 c)."""
    match pattern.atoms:
        case (int() as count, str() as name):
            return count, name
        case (str() as name,):
            return 1, name
        case _:
            return None


@lru_cache(maxsize=1024)
def _sliced(annotation: str, sizes: tuple[tuple[str, str], ...]) -> tuple[Windows, ...]:
    layout = layout_of(annotation, None)
    starts = dict(_starts(sizes))
    windows: list[Windows] = []
    source, target = layout.inputs[0] or (), layout.outputs[0] or ()
    for dim, pattern in enumerate(source):
        found = _units(pattern)
        if found is None or found[0] == 1:
            continue
        total, name = found
        for place, cut in enumerate(target):
            taken = _units(cut)
            if taken is not None and taken[1] == name:
                first = starts.get(name, 0)
                window = Window(
                    len(layout.inputs),
                    place,
                    Fraction(first, total),
                    Fraction(first + taken[0], total),
                )
                windows.append(_windows(name, 0, dim, total, (window,)))
    return tuple(windows)


def _starts(sizes: Sequence[tuple[str, str]]) -> Iterator[tuple[str, int]]:
    """The identifiers of slices that do not start at 0, with the unit at which they start."""
    for parameter, text in sizes:
        if parameter.rpartition(".")[2] == "start":
            found = _UNITS.fullmatch(text)
            if found is not None:
                yield found[2], int(found[1] or 1)


@lru_cache(maxsize=1024)
def _in_order(annotation: str, together: bool) -> tuple[Windows, ...]:
    """All windows of a dimension, in order: the outputs of an input, or the inputs of an output."""
    layout = layout_of(annotation, None)
    inputs = len(layout.inputs)
    tensors = (*layout.inputs, *layout.outputs)
    whole = inputs if together else 0
    parts = range(inputs) if together else range(1, len(tensors))
    for dim, pattern in enumerate(tensors[whole] or ()):
        found = _units(pattern)
        if found is None or found[0] == 1:
            continue
        total, name = found
        windows: list[Window] = []
        passed = 0
        for tensor in parts:
            row = tensors[tensor] or ()
            taken = _units(row[dim]) if dim < len(row) else None
            if taken is None or taken[1] != name:
                return ()
            start, passed = passed, passed + taken[0]
            windows.append(Window(tensor, dim, Fraction(start, total), Fraction(passed, total)))
        if passed == total:
            return (_windows(name, whole, dim, total, tuple(windows)),)
    return ()


def _windows(name: str, tensor: int, dim: int, units: int, parts: tuple[Window, ...]) -> Windows:
    ends = {Fraction(0), Fraction(1), *(w.start for w in parts), *(w.stop for w in parts)}
    return Windows(name, tensor, dim, units, parts, tuple(sorted(ends)))


class SlicedValues:
    """Where the windows of all slices of a value begin and end, by value and dimension; windows of
    windows too.
    """

    def __init__(self, nodes: Sequence[Node]) -> None:
        self._windows: dict[int, tuple[Windows, ...]] = {}
        self._bounds: dict[tuple[Value, int], set[Fraction]] = {}
        for node in reversed(nodes):
            if node.declaration is None:
                continue
            found = tuple(self._with_inner(node, w) for w in windows_of(node, node.declaration))
            if not found:
                continue
            self._windows[id(node)] = found
            for windows, value in self._of_inputs(node, found):
                self._bounds.setdefault((value, windows.dim), set()).update(windows.bounds)

    def _with_inner(self, node: Node, windows: Windows) -> Windows:
        """The windows with the bounds of those that are taken of them."""
        inputs = len(node.declaration.inputs) if node.declaration is not None else 0
        bounds = set(windows.bounds)
        for part in windows.parts:
            if 0 <= part.tensor - inputs < len(node.outputs):
                inner = self._bounds.get((node.outputs[part.tensor - inputs], part.dim), ())
                bounds.update(part.start + each * (part.stop - part.start) for each in inner)
        return windows.bounded(bounds)

    @staticmethod
    def _of_inputs(node: Node, found: Sequence[Windows]) -> Iterator[tuple[Windows, Value]]:
        inputs = node.declaration.inputs if node.declaration is not None else ()
        for windows in found:
            if windows.tensor < len(inputs) and isinstance(inputs[windows.tensor], Value):
                yield windows, inputs[windows.tensor]

    def of(self, node: Node) -> tuple[Windows, ...]:
        """Returns the windows of a node, with the bounds of those that others take of the value."""
        found = self._windows.get(id(node), ())
        taken = {w.dim: w.bounded(self._bounds[v, w.dim]) for w, v in self._of_inputs(node, found)}
        return tuple(taken.get(windows.dim, windows) for windows in found)
