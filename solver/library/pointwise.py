"""Element-wise operators: one declaration for all of them, with broadcasting, dtypes and linearity
from a table.

Pointwise(("input", "other", "alpha"), tensors=2, dtype="same", linear="together")      torch.add
add(x, y)    (batch, seq, d) (d,)      a b c, c -> a b c      linear in both together
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from dimsolve.ir.operator import Declaration

from . import errors
from .broadcast import broadcast
from .dtypes import (
    complex_of,
    dtype_name,
    dtype_of,
    floating,
    kind,
    promote_types,
    real_of,
    result_type,
)
from .needs import need_equal_or_one
from .values import NotKnown, dims_of, is_tensor
from .writing import Names, annotation, bare

DTYPES: dict[str, Callable[[Sequence[Any]], str | None]] = {
    "same": result_type,
    "real": lambda operands: floating(result_type(operands)),
    "bool": lambda operands: "bool",
    "abs": lambda operands: real_of(result_type(operands)),
    "first": lambda operands: dtype_of(operands[0]),
    "choice": lambda operands: result_type(operands[1:]),
    "complex": lambda operands: complex_of(result_type(operands)),
    "wide": lambda operands: promote_types("float64", result_type(operands)),
}
"""Output dtype by name of the rule, from the operands (tensors and numbers)."""

LINEAR: dict[str, Callable[[Sequence[bool]], tuple[tuple[int, ...], ...]]] = {
    "no": lambda tensors: (),
    "together": lambda tensors: (tuple(range(len(tensors))),) if all(tensors) else (),
    "each": lambda tensors: tuple((n,) for n in range(sum(tensors))),
    "first": lambda tensors: ((0,),) if tensors[0] else (),
    "pair": lambda tensors: ((0, 1),) if all(tensors[:2]) else (),
    "sum of product": lambda tensors: ((0, 1), (0, 2)) if all(tensors) else (),
    "choice": lambda tensors: ((1, 2),) if all(tensors) else (),
}
"""Which sets of tensors the output is linear in, by name of the rule, from which operands are
tensors (the others are numbers).
"""


def bind(parameters: Sequence[str], args: Sequence[Any], kwargs: dict[str, Any]) -> dict[str, Any]:
    """Returns the arguments of a call by name. Raises NotKnown for one that has no place."""
    if len(args) > len(parameters):
        raise NotKnown(f"{len(args)} arguments are given, {len(parameters)} are known of")
    bound = dict(zip(parameters, args, strict=False))
    for name, value in kwargs.items():
        if name not in parameters or name in bound:
            raise NotKnown(f"the argument '{name}' is not known of")
        bound[name] = value
    return bound


@dataclass(frozen=True, slots=True)
class Pointwise:
    """An element-wise function. The first ``tensors`` of its parameters may be tensors, which are
    broadcast, or numbers.

    dtype, linear: names of rules. An argument ``inplace=True`` makes it write to its first input.
    """

    parameters: tuple[str, ...]
    tensors: int = 1
    dtype: str = "same"
    linear: str = "no"

    def __call__(self, *args: Any, **kwargs: Any) -> Declaration:
        """Returns the declaration of one call."""
        bound = bind(self.parameters, args, kwargs)
        operands = [
            bound[name] for name in self.parameters[: self.tensors] if bound.get(name) is not None
        ]
        tensors = [operand for operand in operands if is_tensor(operand)]
        if not tensors:
            raise NotKnown("no argument is a tensor")
        dtype = DTYPES[self.dtype](operands)
        if bound.get("dtype") is not None:
            dtype = dtype_name(bound["dtype"])
        declaration = spread(tensors)
        return replace(
            declaration,
            dtypes=(dtype,),
            linear=LINEAR[self.linear]([is_tensor(operand) for operand in operands]),
            mutates=(0,) if bound.get("inplace") is True else (),
        )


def spread(tensors: Sequence[Any], outputs: int = 1) -> Declaration:
    """Returns the declaration of tensors that are broadcast together, with ``outputs`` results of
    the common shape.
    """
    if len(tensors) == 1:
        return Declaration(f"* -> {', '.join(['*'] * outputs)}", tuple(tensors))
    shapes = [dims_of(tensor, f"input {number}") for number, tensor in enumerate(tensors)]
    if None not in shapes[0] and all(shape == shapes[0] for shape in shapes):
        stars = (", ".join(["*"] * count) for count in (len(shapes), outputs))
        return Declaration(" -> ".join(stars), tuple(tensors))
    result = broadcast(shapes, Names())
    return Declaration(
        annotation(result.inputs, [result.output] * outputs),
        tuple(tensors),
        arguments=result.arguments,
        fresh=tuple(result.fresh),
    )


def in_place(declaration: Declaration) -> Declaration:
    """Returns the declaration of the variant that writes the result to its first input.

    Raises ShapeError where the first input would have to be broadcast.
    """
    before, after = declaration.annotation.split(" -> ")
    first = before.split(", ")[0]
    first_words, words = first.split(" "), after.split(" ")
    if first != after:
        wrong = len(first_words) != len(words) or any(
            a == "1" != b for a, b in zip(first_words, words, strict=True)
        )
        if wrong:
            shapes = [dims_of(tensor) for tensor in declaration.inputs]
            raise errors.in_place_broadcast(shapes)
    _need_room(declaration.inputs)
    dtype, result = (
        dtype_of(declaration.inputs[0]),
        declaration.dtypes[0] if declaration.dtypes else None,
    )
    if dtype is not None and result is not None and kind(result) > kind(dtype):
        raise errors.in_place_dtype(result, dtype)
    unused = {bare(word) for word in words} - {bare(word) for word in first_words}
    return replace(
        declaration,
        annotation=f"{before} -> {first}",
        arguments={k: v for k, v in declaration.arguments.items() if k not in unused},
        fresh=tuple(name for name in declaration.fresh if name not in unused),
        dtypes=(dtype,),
        mutates=(0,),
        # What is written to must be partial too, where partial sums are written.
        linear=tuple(inputs for inputs in declaration.linear if 0 in inputs),
    )


def _need_room(tensors: Sequence[Any]) -> None:
    """What is written to the first tensor has its shape: the others are broadcast to it."""
    shapes = [tensor.shape for tensor in tensors if is_tensor(tensor)]
    if any(shape is None for shape in shapes):
        return
    first, *others = [dims_of(tensor) for tensor in tensors if is_tensor(tensor)]
    for other in others:
        for whole, length in zip(reversed(first), reversed(other), strict=False):
            if whole is not None and length is not None and length != whole:
                need_equal_or_one(length, whole, one=(length,))
