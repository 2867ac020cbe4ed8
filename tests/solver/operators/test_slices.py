"""Laws of slices: as long as Python's, and a part sliced with its own bounds is the part of the
slice.
"""

from __future__ import annotations

import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from dimsolve.exec.calls import lengths_of
from dimsolve.exec.distributed.sharding import slice_part
from dimsolve.partition.placement import Shard
from dimsolve.partition.rules.rule import Rule, rule_of
from dimsolve.solver.algebra.dims import evaluate
from dimsolve.solver.algebra.poly import symbol
from dimsolve.solver.infer import infer
from dimsolve.solver.operators.declare.writing import Names
from dimsolve.solver.operators.shape.indexing import slice_dim

BOUNDS = st.none() | st.integers(-30, 30)
STEPS = st.none() | st.integers(1, 5)


@settings(max_examples=500)
@given(st.integers(1, 24), BOUNDS, BOUNDS, STEPS)
def test_a_slice_of_a_number(
    length: int, start: int | None, stop: int | None, step: int | None
) -> None:
    part = slice(start, stop, step)
    arguments: dict[str, object] = {}
    found = slice_dim(length, part, Names(), arguments)
    text = f"{found.before} -> {found.after}"
    solution = infer(text, [(length,)], arguments=arguments)
    whole = torch.arange(length)
    assert solution.output_dims == ((len(whole[part]),),), text
    for name, value in solution.values.items():
        rule = rule_of(solution, name)
        for count in range(2, 25):
            if not isinstance(rule, Rule) or not isinstance(value, int) or value % count:
                continue
            bounds = {"start": start, "stop": stop, "step": step}
            for bound, size in found.sizes.items():
                (bounds[bound],) = lengths_of(size, {name: value // count}, ())
            (before,), (after,) = rule.inputs, rule.outputs
            assert isinstance(before, Shard) and isinstance(after, Shard)
            for index in range(count):
                mine = slice_part(whole, before, index, count)
                wanted = slice_part(whole[part], after, index, count)
                assert torch.equal(mine[slice(*bounds.values())], wanted), (text, found.sizes)


@settings(max_examples=300)
@given(st.integers(1, 3), st.integers(0, 3), BOUNDS, BOUNDS, STEPS)
def test_a_slice_of_a_symbol_has_the_length_for_every_value(
    factor: int, rest: int, start: int | None, stop: int | None, step: int | None
) -> None:
    part = slice(start, stop, step)
    length = factor * symbol("n") + rest
    arguments: dict[str, object] = {}
    found = slice_dim(length, part, Names(), arguments)
    solution = infer(f"{found.before} -> {found.after}", [(length,)], arguments=arguments)
    for n in range(1, 13):
        numbers = range(factor * n + rest)[part]
        ((result,),) = (row or () for row in solution.output_dims)
        assert evaluate(result, {"n": n}) == len(numbers)
