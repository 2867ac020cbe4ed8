"""Law: a name in a fact is the caller's symbol where the caller has one, else an identifier that is
written in the annotation; never a name that was made up for ``*``.

The oracle is brute force: at every small size, is the count really a divisor?
"""

from __future__ import annotations

from itertools import product

import pytest

import dimsolve as ds


@pytest.mark.parametrize(
    ("fact", "parts", "holds"),
    [
        ("t % (2*h) == 0", 4, lambda n, h: n % (2 * h) == 0),
        ("t % h == 0", 2, lambda n, h: n % h == 0),
        ("t % (4*h) == 0", 4, lambda n, h: n % (4 * h) == 0),
        ("h % 2 == 0", 2, lambda n, h: h % 2 == 0),
    ],
)
def test_the_caller_s_symbol_is_meant_where_there_is_one(fact, parts, holds) -> None:  # type: ignore[no-untyped-def]
    legality = ds.check("t h -> t h", ["n, 2*h"], "t", parts, facts=[fact])
    admitted = [(n, h) for n, h in product(range(1, 25), repeat=2) if holds(n, h)]
    assert (legality.verdict == "legal") is all(n % parts == 0 for n, _ in admitted)


def test_both_readings_of_a_name_in_one_fact() -> None:
    solution = ds.infer("t h -> t", ["4, 6*h"], facts=["t == 2*h"])
    assert solution.conditions == ("h == 2",)
    assert ds.infer("t h -> t", ["n, 2*h"], facts=["t == 2*h"]).conditions == ("n == 2*h",)


def test_names_that_stand_for_a_star_are_nobody_s() -> None:
    for second in ("3", "a"):
        legality = ds.check("* k -> * k", [f"s, {second}"], (0, 0), 8, facts=["a % 8 == 0"])
        assert legality.conditions == ("s % 8 == 0",)
    assert ds.infer("* k -> * k", ["12, 3"], facts=["a <= 5"]).conditions == ()
