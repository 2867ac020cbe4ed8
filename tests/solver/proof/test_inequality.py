"""Law: what is called contradictory, empty, bounded or a sum of squares is so, by brute force."""

from __future__ import annotations

from contextlib import suppress
from fractions import Fraction
from itertools import product

from hypothesis import given, settings
from hypothesis import strategies as st

from dimsolve.ir.read_expression import read_dimension
from dimsolve.solver.algebra.budget import Budget
from dimsolve.solver.algebra.dims import evaluate, from_expression
from dimsolve.solver.algebra.linear import is_contradictory
from dimsolve.solver.algebra.poly import Dim, symbol
from dimsolve.solver.algebra.signs import is_sum_of_squares
from dimsolve.solver.proof.cells import Cell, range_of
from dimsolve.solver.proof.emptiness import is_empty
from dimsolve.solver.proof.relaxation import is_nonnegative
from tests.oracles.claim_texts import lengths, polynomials

texts = polynomials(3, 3)
bounds = st.fixed_dictionaries({name: st.none() | st.integers(-3, 3) for name in "abc"})
POINTS = [dict(zip("abc", p, strict=True)) for p in product(range(-5, 7), repeat=3)]


def dim(text: str) -> Dim:
    return from_expression(read_dimension(text))


@settings(max_examples=200)
@given(st.lists(st.lists(st.integers(-5, 5), min_size=4, max_size=4), min_size=1, max_size=6))
def test_contradictory_rows_have_no_rational_point(rows: list[list[int]]) -> None:
    if not is_contradictory(rows, Budget(10**6)):
        return
    for numerators in product(range(0, 13, 2), repeat=3):
        x = [Fraction(n, 3) for n in numerators]
        sums = [row[0] + sum(a * b for a, b in zip(row[1:], x, strict=True)) for row in rows]
        assert any(total < 0 for total in sums)


@settings(max_examples=200)
@given(texts, bounds, bounds)
def test_ranges_contain_all_values(
    text: str, lower: dict[str, int | None], width: dict[str, int | None]
) -> None:
    upper = {
        name: (low if low is not None else 0) + abs(wide)
        for name, wide in width.items()
        if wide is not None and (low := lower[name], True)
    }
    low, high = range_of(dim(text), lower, upper)
    for point in POINTS:
        inside = all(
            (least is None or point[name] >= least) and point[name] <= upper.get(name, 6)
            for name, least in lower.items()
        )
        if inside:
            value = evaluate(dim(text), point)
            assert (low is None or low <= value) and (high is None or value <= high)


@settings(max_examples=150)
@given(st.lists(texts, min_size=1, max_size=3), st.lists(texts, max_size=1), bounds)
def test_empty_charts_are_empty(
    nonnegative: list[str], zero: list[str], lower: dict[str, int | None]
) -> None:
    cell = Cell(
        lower=lower,
        nonnegative=tuple(map(dim, nonnegative)),
        zero=tuple(map(dim, zero)),
    )
    if not is_empty(cell, Budget(20_000)):
        return
    for point in POINTS:
        if all(least is None or point[name] >= least for name, least in lower.items()):
            assert any(evaluate(d, point) < 0 for d in cell.nonnegative) or any(
                evaluate(d, point) != 0 for d in cell.zero
            )


@settings(max_examples=200)
@given(lengths(), lengths(1), st.integers(-3, 9), bounds)
def test_what_is_shown_by_relaxation_holds(
    one: str, other: str, offset: int, lower: dict[str, int | None]
) -> None:
    cell = Cell(lower=lower)
    try:
        difference = dim(f"{one} - ({other})") + offset
    except ZeroDivisionError:
        return
    if not is_nonnegative(difference, cell):
        return
    for point in POINTS:
        if all(least is None or point[name] >= least for name, least in lower.items()):
            with suppress(ZeroDivisionError):
                assert evaluate(difference, point) >= 0


@settings(max_examples=200)
@given(texts, texts, st.integers(-2, 2))
def test_sums_of_squares_are_never_negative(one: str, other: str, offset: int) -> None:
    p, q = dim(one), dim(other)
    candidate = p * p + q * q + offset
    if is_sum_of_squares(candidate):
        assert all(evaluate(candidate, point) >= 0 for point in POINTS)
    assert is_sum_of_squares((3 * symbol("a") - 2 * symbol("b") + 1) ** 2)
