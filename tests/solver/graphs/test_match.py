"""Law: matching lengths to patterns finds what is determined, and its conditions are exact."""

from __future__ import annotations

from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dimsolve.solver.algebra.dims import evaluate, symbols_of
from dimsolve.solver.algebra.poly import Dim
from dimsolve.solver.graphs.match import Mismatch, match
from dimsolve.solver.graphs.reading import read_dims


def lengths(text: str) -> list[Dim]:
    dims = read_dims(text)
    assert dims is not None
    return [dim for dim in dims if dim is not None]


def run(patterns: str, given_: str, known: dict[str, Dim] | None = None) -> tuple[str, list[str]]:
    dims = lengths(patterns)
    unknown = set().union(*map(symbols_of, dims))
    found = match(dims, lengths(given_), unknown, known=known)
    bindings = ", ".join(f"{name}={found.bindings[name]}" for name in sorted(found.bindings))
    return bindings, [str(claim) for _, claim in found.conditions]


@pytest.mark.parametrize(
    ("patterns", "given_", "bindings", "conditions"),
    [
        ("n, m", "10, 11", "m=11, n=10", []),
        ("n, n", "a, b", "n=a", ["b == a"]),
        ("h*t, h", "768, 12", "h=12, t=64", []),
        ("h, h*t", "12, 768", "h=12, t=64", []),
        ("h*t", "768", "", []),
        ("h*t, h*d, t*d", "1024, 512, 2048", "d=32, h=16, t=64", []),
        ("2*n", "k", "n=k//2", ["k % 2 == 0"]),
        ("m + n, n", "k, 2", "m=k - 2, n=2", ["k - 2 >= 1"]),
        ("n*n", "16", "n=4", []),
        ("1, 2*n, n, m", "1, 8, 4, q", "m=q, n=4", []),
        ("n", "0", "n=0", []),
        ("3*n + 2", "3*k + 5", "n=k + 1", []),
        ("(n + 1)//2, n", "3, 5", "n=5", []),
    ],
)
def test_what_is_determined_is_found(
    patterns: str, given_: str, bindings: str, conditions: list[str]
) -> None:
    assert run(patterns, given_) == (bindings, conditions)


def test_a_length_that_is_given_outright_helps() -> None:
    assert run("h*t", "768", {"h": 12}) == ("h=12, t=64", [])


@pytest.mark.parametrize(
    ("patterns", "given_", "place"),
    [
        ("2*n", "7", 0),
        ("n, n", "3, 4", 1),
        ("n*n", "15", 0),
        ("n + 1", "1", 0),
        ("n, 4", "3, 5", 1),
        ("h*t, h", "768, 5", 0),
        ("n, n + 1", "k, k", 1),
    ],
)
def test_what_can_never_match_names_its_place(patterns: str, given_: str, place: int) -> None:
    with pytest.raises(Mismatch) as caught:
        run(patterns, given_)
    assert caught.value.place == place


FACTORS = st.sampled_from(["a", "b", "c", "2", "3"])
PATTERN = st.lists(st.lists(FACTORS, min_size=1, max_size=3), min_size=1, max_size=3)


@given(PATTERN, st.tuples(*[st.integers(1, 4)] * 3))
@settings(max_examples=150)
def test_numbers_that_fit_are_never_refused_and_what_is_found_is_the_only_choice(
    pattern: list[list[str]], values: tuple[int, int, int]
) -> None:
    """Brute force: every choice of small symbols that gives these lengths has the bindings that
    were found.
    """
    names = dict(zip("abc", values, strict=True))
    dims = lengths(", ".join("*".join(words) for words in pattern))
    sizes = [evaluate(dim, names) for dim in dims]
    unknown = set().union(*map(symbols_of, dims))
    found = match(dims, sizes, unknown)
    assert found.conditions == []
    for choice in product(range(1, 13), repeat=3):
        other = dict(zip("abc", choice, strict=True))
        if [evaluate(dim, other) for dim in dims] == sizes:
            assert all(other[name] == length for name, length in found.bindings.items())
