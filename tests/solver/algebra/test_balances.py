"""Law: the parametrisation of equations between products has all their solutions and no others."""

from __future__ import annotations

from itertools import product
from math import prod

from hypothesis import given, settings
from hypothesis import strategies as st

from dimsolve.solver.algebra.budget import Budget
from dimsolve.solver.algebra.products import Balance, minimal_solutions, solve_balances

rows = st.lists(st.lists(st.integers(-2, 2), min_size=3, max_size=3), min_size=1, max_size=2)
LARGEST = 6


@settings(max_examples=120)
@given(rows, st.none() | st.lists(st.integers(-3, 3), min_size=2, max_size=2))
def test_minimal_solutions_by_brute_force(matrix: list[list[int]], sides: list[int] | None) -> None:
    right = [0, 0] if sides is None else sides
    solutions = [
        v
        for v in product(range(LARGEST + 1), repeat=3)
        if (sides is not None or any(v))
        and all(
            sum(a * b for a, b in zip(row, v, strict=True)) == side
            for row, side in zip(matrix, right, strict=False)
        )
    ]
    least = [
        v
        for v in solutions
        if not any(w != v and all(a <= b for a, b in zip(w, v, strict=True)) for w in solutions)
    ]
    found = minimal_solutions(
        matrix, None if sides is None else right[: len(matrix)], Budget(10**6)
    )
    assert found is not None
    assert [v for v in found if max(v) <= LARGEST] == sorted(least)


@settings(max_examples=150)
@given(
    st.lists(
        st.tuples(
            st.dictionaries(st.sampled_from("abc"), st.sampled_from((-2, -1, 1, 2)), min_size=1),
            st.integers(1, 12),
            st.integers(1, 4),
        ),
        min_size=1,
        max_size=2,
    )
)
def test_families_have_all_solutions(given_balances: list[tuple[dict[str, int], int, int]]) -> None:
    balances = [Balance(*balance) for balance in given_balances]
    family = solve_balances(balances, Budget(10**6))
    assert family is not None

    def solves(point: dict[str, int]) -> bool:
        return all(
            prod(point[a] ** e for a, e in b.exponents.items() if e > 0) * b.denominator
            == prod(point[a] ** -e for a, e in b.exponents.items() if e < 0) * b.numerator
            for b in balances
        )

    made = set()
    for case in family.cases:
        for values in product(range(1, 7), repeat=len(family.powers)):
            point = tuple(
                factor * prod(v ** p[i] for v, p in zip(values, family.powers, strict=True))
                for i, factor in enumerate(case)
            )
            assert solves(dict(zip(family.atoms, point, strict=True)))
            made.add(point)
    for point in product(range(1, 7), repeat=len(family.atoms)):
        if solves(dict(zip(family.atoms, point, strict=True))):
            assert point in made
