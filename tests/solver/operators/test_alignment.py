"""Laws of reshapes: a factor that two shapes share may be cut in both alike, and symbols are
aligned as numbers are.
"""

from __future__ import annotations

from math import prod
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from dimsolve.exec.distributed.sharding import slice_part
from dimsolve.ir.errors import ShapeError
from dimsolve.partition.placement import Shard
from dimsolve.partition.rules.rule import Rule, rule_of
from dimsolve.solver.algebra.dims import evaluate
from dimsolve.solver.algebra.poly import Dim, symbol
from dimsolve.solver.infer import infer
from dimsolve.solver.operators.declare.writing import annotation
from dimsolve.solver.operators.shape.reshape import align, reshape, resolve_sizes

B, S, H, D = map(symbol, "bshd")


@st.composite
def two_shapes(draw: st.DrawFn) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Two shapes with as many elements: one list of prime factors, grouped twice."""
    primes = draw(st.lists(st.sampled_from([2, 2, 2, 3, 3, 5]), max_size=6))

    def shape(factors: list[int]) -> tuple[int, ...]:
        sizes, group = [], 1
        for factor in factors:
            group *= factor
            if draw(st.booleans()):
                sizes.append(group)
                group = 1
            if draw(st.integers(0, 5)) == 0:
                sizes.append(1)
        return (*sizes, group) if group > 1 or draw(st.booleans()) else tuple(sizes)

    return shape(primes), shape(draw(st.permutations(primes)))


@settings(max_examples=400)
@given(two_shapes())
def test_every_shared_factor_may_be_cut(shapes: tuple[tuple[int, ...], tuple[int, ...]]) -> None:
    dims, sizes = shapes
    found = align(dims, sizes)
    text = annotation([found.input], [found.output])
    solution = infer(text, [dims], arguments=found.arguments)
    assert solution.output_dims == (sizes,) and not solution.conditions and not solution.free
    whole = torch.arange(prod(dims)).reshape(dims)
    for name, length in solution.values.items():
        rule = rule_of(solution, name)
        for count in (n for n in range(2, 31) if isinstance(length, int) and length % n == 0):
            if not isinstance(rule, Rule):
                break
            (before,), (after,) = rule.inputs, rule.outputs
            assert isinstance(before, Shard) and isinstance(after, Shard)
            for index in range(count):
                part = slice_part(whole, before, index, count)
                wanted = slice_part(whole.reshape(sizes), after, index, count)
                assert torch.equal(part.reshape(wanted.shape), wanted), (text, name, count)


@settings(max_examples=200)
@given(two_shapes())
def test_the_first_dimension_is_cut_by_every_common_divisor(
    shapes: tuple[tuple[int, ...], tuple[int, ...]],
) -> None:
    dims, sizes = (tuple(d for d in shape if d > 1) for shape in shapes)
    if not dims:
        return
    found = align(dims, sizes)
    first = found.input[0].strip("()").split()[0]
    leads = first.isalpha() and found.output[0].strip("()").split()[0] == first
    length = found.arguments.get(first, dims[0]) if leads else 1
    for count in range(2, 31):
        if dims[0] % count == 0 and sizes[0] % count == 0:
            assert length % count == 0, (dims, sizes, count)


SYMBOLIC: list[tuple[tuple[Dim, ...], tuple[Dim, ...], str]] = [
    ((B, S, 512), (B, S, 8, 64), "a b (c d) -> a b c d"),
    ((B, S, H * D), (B, S, H, D), "a b (c d) -> a b c d"),
    ((B * S, D), (B, S, D), "(a b) c -> a b c"),
    ((B, S, H, D), (B, S, H * D), "a b c d -> a b (c d)"),
    ((B, S, D), (B * S, D), "a b c -> (a b) c"),
    ((B, 2 * S, D), (2 * B, S, D), "a (b c) d -> (a b) c d"),
    ((B, S, 12), (B, S, 3, 4), "a b (c d) -> a b c d"),
    ((B, 1, S), (B, S, 1), "a 1 b -> a b 1"),
    ((8 * B, S), (4 * B, 2 * S), "(a b) c -> a (b c)"),
    ((B, S), (S, B), "a^ b^ -> c^ d^"),
    ((B, H), (S, D), "a^ b^ -> c^ d^"),
]


@pytest.mark.parametrize("dims, sizes, text", SYMBOLIC, ids=lambda value: str(value))
def test_symbols_are_aligned(dims: Any, sizes: Any, text: str) -> None:
    found = align(dims, sizes)
    assert annotation([found.input], [found.output]) == text
    values = {"b": 2, "s": 6, "h": 4, "d": 3}
    solution = infer(text, [dims], arguments=found.arguments)
    assert [evaluate(dim, values) for dim in solution.output_dims[0] or ()] == [
        evaluate(size, values) for size in sizes
    ]


@pytest.mark.parametrize(
    "dims, sizes, result",
    [
        ((B, S, D), (-1, D), (B * S, D)),
        ((B, 12), (B, -1, 4), (B, 3, 4)),
        ((6, 4), (2, -1), (2, 12)),
        ((0, 4), (-1, 4), (0, 4)),
    ],
)
def test_a_size_of_minus_one_is_what_is_left(dims: Any, sizes: Any, result: Any) -> None:
    assert resolve_sizes(dims, sizes) == result


class StandIn:
    dtype = "float32"

    def __init__(self, *shape: Any) -> None:
        self.shape = shape


def test_an_unknown_length_stays_open_and_what_is_known_is_cut() -> None:
    declaration = reshape(StandIn(None, 64), -1, 8, 8)
    assert declaration.annotation == "a (b c) -> a b c"
    assert declaration.arguments == {"b": 8, "c": 8}
    solution = infer(declaration.annotation, [(None, 64)], arguments=declaration.arguments)
    assert solution.free == ("a",)


ERRORS: list[tuple[tuple[Any, ...], tuple[Any, ...], str]] = [
    (
        (4, 3),
        (5, 2),
        """the sizes do not hold as many elements
  (4, 3) has 12 elements, (5, 2) has 10""",
    ),
    (
        (4, 3),
        (5, -1),
        """-1 stands for no whole length
  (4, 3) has 12 elements, and 5 of (5, -1) does not divide it""",
    ),
    (
        (4, 3),
        (-1, -1),
        """more than one size is -1
  the sizes are (-1, -1)
  hint: leave one size open, not more""",
    ),
    (
        (4, 3),
        (-2, 6),
        """a size is negative
  -2 in (-2, 6)
  hint: a size is 0 or more""",
    ),
    (
        (B, 3),
        (B + 1, 3),
        """the sizes do not hold as many elements
  (b, 3) has 3*b elements, (b + 1, 3) has 3*b + 3""",
    ),
]


@pytest.mark.parametrize("dims, sizes, text", ERRORS, ids=lambda value: str(value)[:20])
def test_sizes_that_cannot_be_are_told(dims: Any, sizes: Any, text: str) -> None:
    with pytest.raises(ShapeError) as caught:
        reshape(StandIn(*dims), *sizes)
    assert str(caught.value) == text
