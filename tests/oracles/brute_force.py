"""Brute force over small integers: the oracle of inference and legality."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from math import prod

from hypothesis import strategies as st

from dimsolve.ir.expression import Comparison, Expression, Literal, Name, Operation, Operator
from dimsolve.ir.read_annotation import read_annotation
from dimsolve.ir.read_expression import read_relation
from dimsolve.solver.algebra.dims import evaluate
from dimsolve.solver.algebra.poly import Dim
from dimsolve.solver.layout import Layout, lay_out

NAMES = ("a", "b", "c", "d")


def layout_of(text: str) -> Layout:
    return lay_out(read_annotation(text), None)


def assignments(
    layout: Layout, shapes: Sequence[Sequence[int]], fixed: Mapping[str, int], largest: int
) -> Iterator[dict[str, int]]:
    """Yields every choice of lengths, 1 to ``largest``, that gives the annotation these shapes."""
    names = [name for name in layout.marks if name in layout.input_names or name in fixed]
    ranges = [(fixed[n],) if n in fixed else range(1, largest + 1) for n in names]
    for choice in product(*ranges):
        values = dict(zip(names, choice, strict=True))
        if all(
            p.constant * prod(values[n] for n in p.names) == given
            for patterns, shape in zip(layout.inputs, shapes, strict=True)
            for p, given in zip(patterns or (), shape, strict=True)
        ):
            yield values


OPERATORS: dict[Operator, Callable[..., int]] = {
    Operator.ADD: operator.add,
    Operator.SUBTRACT: operator.sub,
    Operator.MULTIPLY: operator.mul,
    Operator.FLOORDIV: operator.floordiv,
    Operator.MOD: operator.mod,
    Operator.POWER: operator.pow,
    Operator.NEGATE: operator.neg,
    Operator.MIN: min,
    Operator.MAX: max,
    Operator.CEILDIV: lambda a, b: -(-a // b),
}
COMPARISONS: dict[Comparison, Callable[[int, int], bool]] = {
    Comparison.EQ: operator.eq,
    Comparison.NE: operator.ne,
    Comparison.LE: operator.le,
    Comparison.LT: operator.lt,
    Comparison.GE: operator.ge,
    Comparison.GT: operator.gt,
}


def value(expression: Expression, values: Mapping[str, int]) -> int:
    """The value of what was written, computed from the tree alone."""
    match expression:
        case Literal(number):
            return number
        case Name(name):
            return values[name]
        case Operation(op, operands):
            return OPERATORS[op](*(value(operand, values) for operand in operands))


def holds(relations: Iterable[str], values: Mapping[str, int]) -> bool:
    """Whether all relations are true; one that has no value, because it divides by 0, is not."""
    for text in relations:
        relation = read_relation(text)
        try:
            left, right = value(relation.left, values), value(relation.right, values)
        except ZeroDivisionError:
            return False
        if not COMPARISONS[relation.comparison](left, right):
            return False
    return True


def at(shapes: Sequence[Sequence[Dim]], values: Mapping[str, int]) -> list[tuple[int, ...]]:
    return [tuple(evaluate(dim, values) for dim in shape) for shape in shapes]


@dataclass(frozen=True)
class Case:
    """An annotation whose outputs need nothing that the inputs do not name."""

    text: str
    dims: tuple[tuple[tuple[str | int, ...], ...], ...]


@st.composite
def annotations(draw: st.DrawFn, marks: bool = False) -> Case:
    """Draws annotations with shared, hidden and repeated identifiers and numbers."""
    atom = st.one_of(st.sampled_from(NAMES), st.sampled_from(NAMES), st.sampled_from((1, 2, 3)))
    dim = st.lists(atom, min_size=1, max_size=3).map(tuple)
    tensors = tuple(
        tuple(t)
        for t in draw(st.lists(st.lists(dim, min_size=1, max_size=2), min_size=1, max_size=3))
    )
    names = sorted({a for t in tensors for d in t for a in d if isinstance(a, str)})
    mark = {n: draw(st.sampled_from(("", "", "+", "^"))) if marks else "" for n in names}
    outputs = draw(st.lists(st.sampled_from(names), max_size=3)) if names else []

    def write(dim: tuple[str | int, ...]) -> str:
        atoms = " ".join(f"{a}{mark.get(a, '') if isinstance(a, str) else ''}" for a in dim)
        return f"({atoms})" if len(dim) > 1 else atoms

    inputs = ", ".join(" ".join(write(d) for d in t) for t in tensors)
    return Case(f"{inputs} -> {' '.join(n + mark[n] for n in outputs) or '()'}", tensors)
