"""Law: the readable text of a claim says the same as the claim, at every small integer."""

from __future__ import annotations

from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dimsolve.ir.read_expression import read_relation
from dimsolve.solver.proof.claims import Claim, claim_of
from dimsolve.solver.proof.readable import readable


def claim(text: str) -> Claim:
    return claim_of(read_relation(text))


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("max(0, 2048 - s) + s == 2048", "s <= 2048"),
        ("((s + 1)//2 + s - 1)//((s + 1)//2) == 2", "s >= 2"),
        ("(a - b)*(a - 1)*(b - 1) == 0", "(a - b)*(a - 1)*(b - 1) == 0"),
        ("n*n == 16", "n == 4"),
        ("min(128, s) != 1", "s >= 2"),
        ("s % 2 == 0", "s % 2 == 0"),
        ("n**2 - 5*n + 6 == 0", "n**2 - 5*n + 6 == 0"),
        ("a*b == 6", "a*b == 6"),
        ("b*s % (4*b) == 0", "s % 4 == 0"),
        ("8*s % 12 == 0", "s % 3 == 0"),
        ("b*s == 2*(s//2)*b", "s % 2 == 0"),
        ("b*min(4, s) == 4*b", "s >= 4"),
        ("b - 2 >= 1", "b >= 3"),
        ("8*s != 8", "s != 1"),
        ("h + 2 >= 5", "h >= 3"),
        ("3 <= s", "s >= 3"),
        ("3*s - 4 >= 1", "s >= 2"),
        ("10 - s >= 0", "s <= 10"),
        ("m - k >= 0", "m >= k"),
        ("b >= s - b", "2*b >= s"),
        ("x*x + 5 == 6*x", "(x - 5)*(x - 1) == 0"),
        ("s*s - 13*s + 12 == 0", "(s - 12)*(s - 1) == 0"),
    ],
)
def test_the_text_is_the_one_that_a_person_would_write(text: str, wanted: str) -> None:
    assert readable(claim(text)) == wanted


TERMS = st.sampled_from(
    ["n", "n//2", "n//3", "n % 3", "n % 4", "max(n, 7)", "min(n, 9)", "n*n", "max(0, 12 - n)", "5"]
)
SHARED = st.builds(
    "{0}*({2}) {4} {1}*({3})".format,
    *[st.sampled_from(["a", "b", "2*a", "6", "a*b"])] * 2,
    *[st.sampled_from(["a", "b + 2", "a//2", "min(a, 4)", "3*a - 4", "b*a % (4*b)", "7"])] * 2,
    st.sampled_from(["==", "!=", "<=", ">"]),
)
TEXTS = st.builds(
    "{} {} {} {} {}".format,
    TERMS,
    st.sampled_from("+-*"),
    TERMS,
    st.sampled_from(["==", "!=", "<=", ">"]),
    st.one_of(TERMS, st.integers(0, 90).map(str)),
)
PRODUCTS = st.builds(
    "({})*({})*({}) == 0".format,
    *[st.sampled_from(["a - b", "a - 1", "b - 1", "c - a", "c - 1", "a + b - c"])] * 3,
)


@settings(max_examples=300)
@given(st.one_of(TEXTS, PRODUCTS, SHARED))
def test_both_hold_at_the_same_integers(text: str) -> None:
    before = claim(text)
    after = claim(readable(before))
    names = sorted(before.symbols())
    limit = 150 if len(names) == 1 else 7
    for values in product(range(1, limit), repeat=len(names)):
        point = dict(zip(names, values, strict=True))
        assert before.test(point) is after.test(point)
