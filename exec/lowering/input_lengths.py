"""The symbols of a program's inputs: which dimension tells each, and what sizes given tensors have.

input_ids (batch, seq), pixels (batch, 3, 8*s)
reading("seq")       dimension 1 of input_ids
reading("s")         dimension 2 of pixels, over 8
sizes({"input_ids": (2, 16), "pixels": (2, 3, 64)})        batch = 2, seq = 16, s = 8
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from dimsolve.ir.errors import Diagnostic, ShapeError
from dimsolve.ir.node import Input
from dimsolve.ir.types import TensorType
from dimsolve.solver.algebra.dims import symbols_of
from dimsolve.solver.algebra.poly import Dim
from dimsolve.solver.graphs.match import Mismatch, linear_in, match


@dataclass(frozen=True, slots=True)
class Reading:
    """Where a symbol is read: (dimension ``index`` of ``value`` - rest) // divisor."""

    value: str
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
        self._find()

    def reading(self, name: str) -> Reading | None:
        """Returns where a symbol is read; None where no input tells it."""
        return self._readings.get(name)

    def _find(self) -> None:
        """Symbols that stand alone first, then those that the ones found so far leave alone."""
        rows = [
            (entry.value.name, index, dim)
            for entry in self.inputs.values()
            for index, dim in enumerate(entry.value.dims or ())
            if dim is not None and not isinstance(dim, int)
        ]
        rows.sort(key=lambda row: len(str(row[2])))
        found = True
        while found:
            found = False
            for value, index, dim in rows:
                left = symbols_of(dim) - self._readings.keys()
                form = linear_in(dim, next(iter(left))) if len(left) == 1 else None
                if form is not None:
                    self._readings[left.pop()] = Reading(value, index, *form)
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
            raise _other_shape(self.inputs[owner], shapes[owner], mismatch.reason) from None
        return {name: size for name, size in found.bindings.items() if isinstance(size, int)}

    def check_dtypes(self, dtypes: Mapping[str, object]) -> None:
        """Raises ShapeError where a tensor has another dtype than the program was made for."""
        for name, entry in self.inputs.items():
            found = str(dtypes[name]).removeprefix("torch.")
            if entry.value.dtype not in (None, found):
                raise _other_dtype(entry, found)


def _other_dtype(entry: Input, found: str) -> ShapeError:
    return ShapeError(
        Diagnostic(
            code="input-dtype",
            title=f"{entry.target} is {found}",
            reason=f"the program was made for {entry.value.dtype}",
            hint=f"convert it: {entry.target}.to(torch.{entry.value.dtype})",
        )
    )


def _other_shape(entry: Input, shape: Sequence[int], reason: str) -> ShapeError:
    return ShapeError(
        Diagnostic(
            code="input-shape",
            title=f"{entry.target} has another shape than the program was made for",
            reason=f"it is {tuple(shape)}, and the program takes {entry.value.type}: {reason}",
        )
    )
