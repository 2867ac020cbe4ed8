"""Law: shapes are broadcast as torch broadcasts them, and lengths share an identifier exactly where
they are equal.
"""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from dimsolve.ir.errors import ShapeError
from dimsolve.solver.algebra.dims import evaluate
from dimsolve.solver.algebra.poly import symbol
from dimsolve.solver.infer import infer
from dimsolve.solver.operators.declare.writing import Lengths, Names, annotation
from dimsolve.solver.operators.elementwise.pointwise import broadcast

SHAPES = st.lists(st.sampled_from([0, 1, 1, 2, 3]), max_size=4).map(tuple)


@settings(max_examples=400)
@given(st.lists(SHAPES, min_size=1, max_size=3))
def test_numbers(shapes: list[tuple[int, ...]]) -> None:
    try:
        wanted = tuple(torch.broadcast_shapes(*shapes))  # type: ignore[no-untyped-call]
    except RuntimeError:
        with pytest.raises(ShapeError):
            broadcast(shapes, Names())
        return
    found = broadcast(shapes, Names())
    text = annotation(found.inputs, [found.output])
    solution = infer(text, shapes, arguments=found.arguments)
    assert solution.output_dims == (wanted,) and not found.fresh
    assert "^" not in text


VALUES = st.sampled_from([1, 2, 5])


@settings(max_examples=200)
@given(VALUES, VALUES, st.sampled_from([None, 1, 2]))
def test_symbols_have_the_right_length_wherever_they_can_be_broadcast(
    n: int, m: int, number: int | None
) -> None:
    shapes: list[Lengths] = [(symbol("n"),), (symbol("m"),)]
    shapes += [(number,)] if number else []
    values = [n, m, *([number] if number else [])]
    found = broadcast(shapes, Names())
    try:
        (wanted,) = torch.broadcast_shapes(*[(v,) for v in values])  # type: ignore[no-untyped-call]
    except RuntimeError:
        return
    length = found.arguments.get(found.output[0].rstrip("^"), number)
    assert length is not None
    assert evaluate(length, {"n": n, "m": m}) == wanted
    assert all(word.endswith("^") or word == "1" for row in found.inputs for word in row)
