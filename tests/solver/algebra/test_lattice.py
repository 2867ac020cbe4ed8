"""Law: equations said to have no whole solution have none, and all others have one."""

from __future__ import annotations

from itertools import product

from hypothesis import given, settings
from hypothesis import strategies as st

from dimsolve.solver.algebra.budget import Budget
from dimsolve.solver.algebra.linear import has_no_whole_solution
from dimsolve.solver.proof.prove import prove
from tests.oracles.python_value import all_hold, box, says

small = st.integers(-4, 4)


@settings(max_examples=300)
@given(st.lists(st.tuples(small, small, small, small), min_size=1, max_size=3))
def test_small_systems(rows: list[tuple[int, ...]]) -> None:
    points = product(range(-7, 8), repeat=3)
    found = any(all(r[0] + r[1] * x + r[2] * y + r[3] * z == 0 for r in rows) for x, y, z in points)
    none = has_no_whole_solution(rows, Budget(10_000))
    assert not (found and none)
    if not none and not found:
        far = product(range(-200, 201), repeat=2)  # 2x + 3y = 3z with y = -63 has been drawn
        assert any(_completes(rows, x, y) for x, y in far), rows


def _completes(rows: list[tuple[int, ...]], x: int, y: int) -> bool:
    """Whether some z solves all rows at this x and y."""
    values: set[int] = set()
    for constant, a, b, c in rows:
        rest = constant + a * x + b * y
        if c == 0 and rest:
            return False
        if c and rest % c:
            return False
        if c:
            values.add(-rest // c)
    return len(values) < 2


def test_congruences_of_polynomials_follow_from_each_other() -> None:
    for claim, facts in (
        ("(6*a**3 + a*b) % 4 == 0", ["(6*a**3 + a*b) % 8 == 0"]),
        ("(2*a*b + b*b) % 3 == 0", ["(5*a*b + b*b) % 9 == 3"]),
        ("(3*a + 2*b) % 5 == 0", ["a % 5 == b % 5"]),
        ("(a*a + 2*b) % 6 == (b*b - 4*a) % 6", ["(a*a - b*b) % 6 == 0", "(2*a + b) % 3 == 0"]),
        ("(a*b + a) % 4 == 3", ["a*b % 8 == 6", "a % 4 == 1"]),
        ("(a*b + b*b*a) % 2 == 0", ["(3*a*b + 5*b*b*a) % 8 == 4"]),
    ):
        assert prove(claim, facts=facts).verdict == "proved"
        for values in box("ab", {2: 24}):
            assert says(claim, values) is True or not all_hold(facts, values)
