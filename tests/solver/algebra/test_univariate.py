"""Law: the runs of equal sign are exact, for coefficients of any size."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given, settings
from hypothesis import strategies as st

from dimsolve.solver.algebra.budget import Budget
from dimsolve.solver.algebra.signs import Run, sign_runs, value_at


@settings(max_examples=200)
@given(
    st.lists(st.integers(-20, 20), min_size=1, max_size=5),
    st.integers(-6, 4),
    st.none() | st.integers(0, 30),
)
def test_runs_by_brute_force(coefficients: list[int], start: int, length: int | None) -> None:
    stop = None if length is None else start + length
    runs = sign_runs(coefficients, start, stop, Budget(10**6))
    assert (runs[0].start, runs[-1].stop) == (start, stop)
    for one, following in pairwise(runs):
        assert one.stop is not None
        assert following.start == one.stop + 1
        assert following.sign != one.sign
    for run in runs:
        for x in range(run.start, (run.start + 40 if run.stop is None else run.stop) + 1):
            value = value_at(coefficients, x)
            assert (value > 0) - (value < 0) == run.sign


def test_huge_coefficients() -> None:
    root = 10**40
    assert sign_runs([-(root**2), 0, 1], 1, None, Budget(10**6)) == [
        Run(1, root - 1, -1),
        Run(root, root, 0),
        Run(root + 1, None, 1),
    ]
