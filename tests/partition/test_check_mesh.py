"""Several splits on one mesh are legal where each of them is, and not elsewhere."""

from __future__ import annotations

import pytest

from dimsolve.partition.legality import check, check_mesh
from tests.oracles.python_value import all_hold

SIZES = [
    ("x", "y"),
    ("x", "x + 1"),
    ("x", "2*x + 1"),
    ("3*x", "x + 1"),
    ("8*x", "6*y"),
    ("x", "4*x"),
    ("x*y", "x + y"),
]


@pytest.mark.parametrize(("a", "b"), SIZES)
@pytest.mark.parametrize("parts", [(2, 2), (4, 3), (2, 6)])
def test_a_mesh_is_legal_where_every_split_is(a: str, b: str, parts: tuple[int, int]) -> None:
    found = check_mesh("a b -> b a", [f"{a}, {b}"], {"a": parts[0], "b": parts[1]})
    legal = {}
    for x in range(1, 25):
        for y in range(1, 25):
            values = {"x": x, "y": y}
            cuts = [f"({text}) % {count} == 0" for text, count in zip((a, b), parts, strict=True)]
            legal[x, y] = all_hold(cuts, values)
            if found.verdict in ("conditional", "legal"):
                told = all_hold(found.conditions, values)
                assert told == legal[x, y], (values, found.conditions)
    wanted = {True: "legal", False: "illegal" if not any(legal.values()) else "conditional"}
    assert found.verdict == wanted[all(legal.values())]


def test_one_split_is_what_check_says() -> None:
    question = ("m k+, k+ n -> m n", ["m, k", "k, n"])
    found, alone = check_mesh(*question, {"k": 8}), check(*question, "k", 8)
    assert (found.verdict, found.reason, found.conditions) == (
        alone.verdict,
        alone.reason,
        alone.conditions,
    )
    assert found.explain() == alone.explain()


def test_an_illegal_split_makes_the_mesh_illegal_and_says_which() -> None:
    found = check_mesh("a b^ -> b^ a", ["x, 6"], [("a", 2), ("b", 2)])
    assert found.verdict == "illegal" and found.conditions == ()
    assert "; b: " in found.reason and "a: " not in found.reason
