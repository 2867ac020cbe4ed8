"""Lengths in a program: from polynomials over the symbols to nodes that compute them.

    batch*seq//2    with batch and seq read from input_ids (4, 16)
        batch = input_ids.size(0);  seq = input_ids.size(1)
        mul = batch * seq;  floordiv = mul // 2                       32

Every expression is computed once and every symbol is read once, where it is first needed. The nodes
are made from the structure of the expression; no text is evaluated. `InputLengths` knows which
dimension of which input tells a symbol:

    input_ids (batch, seq), pixels (batch, 3, 8*s)         s is dimension 2 of pixels, over 8
    sizes({"input_ids": (2, 16), "pixels": (2, 3, 64)})    batch = 2, seq = 16, s = 8
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from itertools import chain, count
from typing import TYPE_CHECKING, Any, TypeAlias

from dimsolve.ir.errors import Problem, ShapeError
from dimsolve.ir.graph import Input
from dimsolve.ir.types import TensorType
from dimsolve.solver.algebra.dims import Call, Function, symbols_of
from dimsolve.solver.algebra.poly import Dim, Poly
from dimsolve.solver.graphs.match import Mismatch, linear_in, match

if TYPE_CHECKING:
    from torch.fx import Graph, Node


Length: TypeAlias = "int | Node"


_OTHER_DTYPE = Problem(
    ShapeError,
    "input-dtype",
    "{entry.target} is {found}",
    "the program was made for {entry.value.dtype}",
    "convert it: {entry.target}.to(torch.{entry.value.dtype})",
)
_OTHER_SHAPE = Problem(
    ShapeError,
    "input-shape",
    "{entry.target} has another shape than the program was made for",
    "it is {shape}, and the program takes {entry.value.type}: {reason}",
    "{hint}",
)


def ceil_divide(a: int, b: int) -> int:
    """Returns a / b, rounded up.

    >>> ceil_divide(7, 2)
    4
    """
    return -(-a // b)


_FUNCTIONS: dict[Function, Callable[..., Any]] = {
    Function.FLOORDIV: operator.floordiv,
    Function.MOD: operator.mod,
    Function.CEILDIV: ceil_divide,
    Function.MIN: min,
    Function.MAX: max,
}

ARITHMETIC: frozenset[Callable[..., Any]] = frozenset(
    {operator.add, operator.sub, operator.mul, *_FUNCTIONS.values()}
)
"""What the steps that compute lengths call."""


class Lengths:
    """Makes the nodes of lengths in an fx graph. ``read`` makes the node of a symbol."""

    def __init__(self, graph: Graph, read: Callable[[str], Length]) -> None:
        self.graph = graph
        self.read = read
        self._made: dict[Any, Length] = {}

    def __call__(self, dim: Dim) -> Length:
        """Returns the length: an int where it is known, else the node that computes it."""
        if not isinstance(dim, Poly):
            return int(dim)
        if dim not in self._made:
            terms = sorted(dim.terms.items(), key=lambda term: (-len(term[0]), str(term[0])))
            self._made[dim] = self._sum([self._term(*term) for term in terms])
        return self._made[dim]

    def _sum(self, parts: list[Length]) -> Length:
        return reduce(lambda a, b: self._apply(operator.add, a, b), parts)

    def _term(self, monomial: tuple[tuple[str, int], ...], coefficient: int) -> Length:
        factors = [self._atom(atom) for atom, exponent in monomial for _ in range(exponent)]
        if coefficient != 1 or not factors:
            factors.append(coefficient)
        return reduce(lambda a, b: self._apply(operator.mul, a, b), factors)

    def _atom(self, atom: str) -> Length:
        if atom not in self._made:
            if isinstance(atom, Call):
                arguments = [self(argument) for argument in atom.arguments]
                self._made[atom] = self._apply(_FUNCTIONS[atom.function], *arguments)
            else:
                self._made[atom] = self.read(atom)
        return self._made[atom]

    def _apply(self, function: Callable[..., Any], *arguments: Length) -> Length:
        if all(isinstance(argument, int) for argument in arguments):
            return int(function(*arguments))
        return self.graph.call_function(function, arguments)


@dataclass(frozen=True, slots=True)
class Reading:
    """Where a symbol is read: (dimension ``index`` of ``value`` - rest) // divisor. ``input``: the
    name under which callers give the value.
    """

    value: str
    input: str
    index: int
    divisor: Dim = 1
    rest: Dim = 0


class InputLengths:
    """The dimensions of the inputs that callers give."""

    def __init__(self, inputs: Sequence[Input]) -> None:
        self.inputs = {
            entry.target: entry
            for entry in inputs
            if entry.kind == "input" and isinstance(entry.value.type, TensorType)
        }
        self._readings: dict[str, Reading] = {}
        self._read_inputs()

    def reading(self, name: str) -> Reading | None:
        """Returns where a symbol is read; None where no input tells it."""
        return self._readings.get(name)

    def _read_inputs(self) -> None:
        """Symbols that stand alone first, then those that the ones found so far leave alone."""
        rows = [
            (entry, index, dim)
            for entry in self.inputs.values()
            for index, dim in enumerate(entry.value.dims or ())
            if dim is not None and not isinstance(dim, int)
        ]
        rows.sort(key=lambda row: len(str(row[2])))
        found = True
        while found:
            found = False
            for entry, index, dim in rows:
                left = symbols_of(dim) - self._readings.keys()
                form = linear_in(dim, next(iter(left))) if len(left) == 1 else None
                if form is not None:
                    value = entry.value.name
                    self._readings[left.pop()] = Reading(value, entry.target, index, *form)
                    found = True

    def sizes(self, shapes: Mapping[str, Sequence[int]]) -> dict[str, int]:
        """Returns the sizes of the symbols for given shapes, by input; ShapeError where a shape is
        not what the program was made for.
        """
        patterns: list[Dim | None] = []
        lengths: list[int] = []
        owners: list[str] = []
        for name, entry in self.inputs.items():
            dims, shape = entry.value.dims, tuple(shapes[name])
            if dims is None:
                continue
            if len(dims) != len(shape):
                reason = f"it has {len(shape)} dimensions, not {len(dims)}"
                raise _other_shape(entry, shape, reason)
            patterns += dims
            lengths += shape
            owners += [name] * len(shape)
        unknown = {name for dim in patterns if dim is not None for name in symbols_of(dim)}
        try:
            found = match(patterns, lengths, unknown)
        except Mismatch as mismatch:
            owner = owners[mismatch.place]
            hint = self._dynamic(shapes, owner, mismatch.place - owners.index(owner))
            raise _other_shape(self.inputs[owner], shapes[owner], mismatch.reason, hint) from None
        return {name: size for name, size in found.bindings.items() if isinstance(size, int)}

    def _dynamic(self, shapes: Mapping[str, Sequence[int]], owner: str, index: int) -> str:
        """How to trace for other lengths, where a length is another than the example's; all inputs
        of which the same is said are named.
        """
        dims = self.inputs[owner].value.dims or ()
        traced, now = dims[index], shapes[owner][index]
        if not isinstance(traced, int):
            return ""
        used = {str(dim) for entry in self.inputs.values() for dim in entry.value.dims or ()}
        word = "length" if index else "batch"
        others = (f"{word}_{number}" for number in count(2))
        name = next(name for name in chain([word], others) if name not in used)
        found = [
            f'"{each}": {{{place}: "{name}"}}'
            for each, entry in self.inputs.items()
            for place, dim in enumerate(entry.value.dims or ())
            if isinstance(dim, int)
            and (dim, shapes[each][place]) == (traced, now)
            and each.isidentifier()
            and (place == 0) == (index == 0)
        ]
        listed = f"{{{', '.join(found)}}}"
        return f"trace for all lengths: dimsolve.trace(..., dynamic={listed})" if found else ""

    def check_dtypes(self, dtypes: Mapping[str, object]) -> None:
        """Raises ShapeError where a tensor has another dtype than the program was made for."""
        for name, entry in self.inputs.items():
            found = str(dtypes[name]).removeprefix("torch.")
            if entry.value.dtype not in (None, found):
                raise _OTHER_DTYPE(entry=entry, found=found)


def _other_shape(entry: Input, shape: Sequence[int], reason: str, hint: str = "") -> ShapeError:
    return _OTHER_SHAPE(entry=entry, shape=tuple(shape), reason=reason, hint=hint)
