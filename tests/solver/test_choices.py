"""Law: the choices of free identifiers are all there are, or say that they are the first."""

from __future__ import annotations

from itertools import islice, product
from math import isqrt
from time import thread_time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dimsolve.ir.errors import AnnotationError
from dimsolve.solver.algebra.integers import MAX_PRIME, is_prime, split_factors
from dimsolve.solver.choices import Search, _ascending
from dimsolve.solver.infer import infer


@given(
    st.lists(
        st.tuples(
            st.dictionaries(st.sampled_from("abc"), st.integers(1, 2), min_size=1),
            st.integers(1, 12),
        ),
        min_size=1,
        max_size=3,
    )
)
def test_a_search_finds_what_brute_force_finds(equations: list[tuple[dict[str, int], int]]) -> None:
    names = sorted({name for exponents, _ in equations for name in exponents})
    every = []
    for choice in product(range(1, 13), repeat=len(names)):
        case = dict(zip(names, choice, strict=True))
        if all(_power(exponents, case) == value for exponents, value in equations):
            every.append(case)
    search = Search(equations, lambda case: True, names=names)
    assert list(search) == every
    assert search.complete


def _power(exponents: dict[str, int], case: dict[str, int]) -> int:
    result = 1
    for name, exponent in exponents.items():
        result *= case[name] ** exponent
    return result


def test_a_limit_is_met_and_said() -> None:
    solution = infer("(h t) -> h t", [(12,)])
    every = solution.solutions()
    assert every is not None and every.complete and len(every) == 6
    for limit in range(1, 9):
        first = solution.solutions(limit)
        assert first == every[:limit]
        assert first is not None and first.complete == (limit >= 6)


def test_finite_is_told_from_endless() -> None:
    assert infer("(h t) -> h t", ["8*s"]).solutions() is None
    assert infer("h -> h").solutions() is None
    assert infer("h -> h", facts=["h <= 3"]).solutions() == ({"h": 1}, {"h": 2}, {"h": 3})
    assert infer("h t -> h t", facts=["2*h + t == 6"]).solutions() == (
        {"h": 1, "t": 4},
        {"h": 2, "t": 2},
    )
    assert infer("h t -> h t", facts=["h*t < 3"]).solutions() == (
        {"h": 1, "t": 1},
        {"h": 1, "t": 2},
        {"h": 2, "t": 1},
    )
    assert infer("h t -> h t", facts=["h <= 3"]).solutions() is None
    assert infer("a -> a", ["s"]).solutions() == ({},)


def test_facts_about_several_identifiers_narrow_the_choices() -> None:
    solution = infer("(h t), k -> h t k", [(12,), (3,)], facts=["h <= k"])
    assert solution.solutions() == ({"h": 1, "t": 12}, {"h": 2, "t": 6}, {"h": 3, "t": 4})


LARGE = [
    ("(a b c d e f) -> a", [(2**60 * 3**30,)], [], 1000),
    ("(a b c d e f g h) -> a", [(720720**8,)], ["a >= 1"], 500),
    ("(h t) -> h", [(int("9" * 99),)], [], 21),
    ("(h t) -> h", [((10**9 + 7) * (10**9 + 9),)], [], 1),
    ("(a b c d e f) -> a", [(2**60 * 3**30,)], ["a*b*c % 7 == 3"], 0),
]


@pytest.mark.parametrize(("annotation", "inputs", "facts", "count"), LARGE)
def test_large_products_are_finitely_many_and_the_first_are_listed(
    annotation: str, inputs: list[tuple[int, ...]], facts: list[str], count: int
) -> None:
    start = thread_time()
    choices = infer(annotation, inputs, facts=facts).solutions()
    spent = thread_time() - start
    assert choices is not None and not choices.complete
    assert len(choices) >= count
    assert list(choices) == sorted(choices, key=lambda case: list(case.values()))
    assert spent < 2, "a hang, not a figure"


def test_a_large_prime_is_known_to_be_one() -> None:
    choices = infer("(h t) -> h t", [(2 * (10**9 + 7),)]).solutions()
    assert choices is not None and choices.complete
    assert [case["h"] for case in choices] == [1, 2, 10**9 + 7, 2 * (10**9 + 7)]
    small = [n for n in range(3, 3000, 2) if all(n % d for d in range(3, isqrt(n) + 1, 2))]
    assert [n for n in range(3, 3000, 2) if is_prime(n)] == small
    assert not is_prime(3215031751) and not is_prime(MAX_PRIME)


@given(st.dictionaries(st.sampled_from((2, 3, 5, 7)), st.integers(1, 4)))
def test_divisors_ascend(powers: dict[int, int]) -> None:
    number = 1
    for prime, exponent in powers.items():
        number *= prime**exponent
    every = list(_ascending(powers))
    assert every == sorted(set(every))
    assert all(number % divisor == 0 for divisor in every)
    count = 1
    for exponent in powers.values():
        count *= exponent + 1
    assert len(every) == count
    assert split_factors(number) == (powers, 1)


def test_many_divisors_are_not_all_made() -> None:
    assert list(islice(_ascending({2: 400, 3: 400}), 6)) == [1, 2, 3, 4, 6, 8]


@pytest.mark.parametrize("limit", [0, -1, 2.5, True, None, "3"])
def test_a_limit_is_a_positive_integer(limit: object) -> None:
    with pytest.raises(AnnotationError) as caught:
        infer("(h t) -> h t", [(12,)]).solutions(limit)  # type: ignore[arg-type]
    assert caught.value.diagnostic.title == "limit is not a whole number from 1 on"
