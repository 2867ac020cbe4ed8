"""Law: inference says what brute force over small integers says, no more and no less."""

from __future__ import annotations

from itertools import product

from hypothesis import given, settings
from hypothesis import strategies as st

from dimsolve.ir.errors import ShapeError
from dimsolve.solver.algebra.dims import evaluate
from dimsolve.solver.algebra.poly import Dim, symbol
from dimsolve.solver.infer import infer
from tests.oracles.brute_force import NAMES, Case, annotations, assignments, at, holds, layout_of

CALLER = ("s", "t")
BOX = [dict(zip(CALLER, values, strict=True)) for values in product(range(1, 5), repeat=2)]


def numbers(case: Case, values: dict[str, int]) -> list[tuple[int, ...]]:
    rows = []
    for tensor in case.dims:
        row = []
        for dim in tensor:
            length = 1
            for atom in dim:
                length *= atom if isinstance(atom, int) else values[atom]
            row.append(length)
        rows.append(tuple(row))
    return rows


@settings(max_examples=150)
@given(annotations(), st.fixed_dictionaries({n: st.integers(1, 4) for n in NAMES}), st.data())
def test_true_lengths_are_never_contradicted(
    case: Case, true: dict[str, int], data: st.DataObject
) -> None:
    shapes = numbers(case, true)
    layout = layout_of(case.text)
    known = (
        data.draw(st.sets(st.sampled_from(sorted(layout.input_names))))
        if layout.input_names
        else set()
    )
    solution = infer(case.text, shapes, arguments={n: true[n] for n in known})
    here = {n: true[n] for n in layout.marks}
    assert holds(solution.conditions, here)
    for name, dim in solution.values.items():
        assert evaluate(dim, here) == true[name]
    largest = max([1, *(size for shape in shapes for size in shape)])
    every = list(assignments(layout, shapes, {n: true[n] for n in known}, min(largest, 24)))
    for name, dim in solution.values.items():
        if name not in solution.free:
            assert {values[name] for values in every} == {dim}
    if largest <= 24 and len(layout.input_names) <= 3:
        assert [dict(c) for c in solution.solutions() or ()] == sorted(
            ({n: v[n] for n in solution.free} for v in every),
            key=lambda c: [c[n] for n in solution.free],
        )


@settings(max_examples=150)
@given(annotations(), st.data())
def test_a_contradiction_is_one(case: Case, data: st.DataObject) -> None:
    """Random sizes: ShapeError exactly where no lengths fit."""
    size = st.sampled_from((1, 2, 3, 4, 6, 8, 12))
    shapes = [tuple(data.draw(size) for _ in tensor) for tensor in case.dims]
    layout = layout_of(case.text)
    fits = next(assignments(layout, shapes, {}, 12), None)
    try:
        solution = infer(case.text, shapes)
    except ShapeError:
        assert fits is None
    else:
        assert fits is not None
        assert holds(solution.conditions, fits)


@st.composite
def lengths(draw: st.DrawFn) -> Dim:
    s, t = symbol("s"), symbol("t")
    constant = draw(st.sampled_from((1, 2, 3, 4, 6)))
    return draw(
        st.sampled_from(
            (
                constant,
                constant * s,
                constant * t,
                constant * s * t,
                s + constant,
                2 * s + 2 * t,
                s * s,
                s * s + s,
            )
        )
    )


@settings(max_examples=150)
@given(annotations(), st.data())
def test_conditions_are_exact(case: Case, data: st.DataObject) -> None:
    """At every value of the symbols: the conditions can be met exactly where the shapes match."""
    shapes = [tuple(data.draw(lengths()) for _ in tensor) for tensor in case.dims]
    layout = layout_of(case.text)
    if len(layout.input_names) > 3:
        return
    try:
        solution = infer(case.text, shapes)
    except ShapeError:
        for values in BOX:
            assert next(assignments(layout, at(shapes, values), {}, 24), None) is None
        return
    for values in BOX:
        sizes = at(shapes, values)
        largest = max([1, *(size for shape in sizes for size in shape)])
        every = list(assignments(layout, sizes, {}, largest))
        met = [
            fit
            for fit in every
            if holds(solution.conditions, {**fit, **values})
            and all(evaluate(d, {**fit, **values}) == fit[n] for n, d in solution.values.items())
        ]
        assert met == every
        if not every and not solution.free:
            assert not holds(solution.conditions, values)
        if not every and solution.free:
            for choice in product(range(1, largest + 1), repeat=len(solution.free)):
                chosen = {**dict(zip(solution.free, choice, strict=True)), **values}
                assert not holds(solution.conditions, chosen) or not _fits(
                    solution, layout, sizes, chosen
                )


def _fits(solution: object, layout: object, sizes: object, chosen: dict[str, int]) -> bool:
    """Whether the bindings, at this choice of the free lengths, make the shapes."""
    values = {n: evaluate(d, chosen) for n, d in solution.values.items()}  # type: ignore[attr-defined]
    return bool(list(assignments(layout, sizes, values, 1)))  # type: ignore[arg-type]
