"""Law: what SymPy 1.14 gets wrong about divisibility, we get right (page 3 of the design)."""

from __future__ import annotations

import pytest

from dimsolve.solver.proof.prove import prove


@pytest.mark.parametrize(
    ("claim", "facts", "counterexample"),
    [
        # Mod(z*(2*x + 2), 6) is 0 in SymPy; at x = z = 1 it is 4
        ("z*(2*x + 2) % 6 == 0", (), {"x": 1, "z": 1}),
        # with Symbol("e", even=True), Mod(e, 6) is 0 and (e/6).is_integer is True
        ("e % 6 == 0", ("e % 2 == 0",), {"e": 2}),
        ("e//6*6 == e", ("e % 2 == 0",), {"e": 2}),
        ("(2*x + 2)*z % 4 == 0", ("z % 3 == 0",), {"x": 2, "z": 3}),
    ],
)
def test_false_in_spite_of_sympy(
    claim: str, facts: tuple[str, ...], counterexample: dict[str, int]
) -> None:
    proof = prove(claim, facts=facts)
    assert (proof.verdict, proof.counterexample) == ("refuted", counterexample)


@pytest.mark.parametrize(
    ("claim", "facts"),
    [
        ("e % 6 == 0", ("e % 2 == 0", "e % 3 == 0")),
        ("z*(2*x + 2) % 2 == 0", ()),
        ("z*(2*x + 2) % 6 == 0", ("x % 3 == 2",)),
    ],
)
def test_true_beside_them(claim: str, facts: tuple[str, ...]) -> None:
    assert prove(claim, facts=facts).verdict == "proved"
