"""Law: recorded claims are decided, and decided right; what JAX decides, we decide too."""

from __future__ import annotations

import json
import re
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from dimsolve.ir.errors import ShapeError
from dimsolve.solver.proof.facts import read_facts
from dimsolve.solver.proof.prove import prove
from tests.oracles.python_value import all_hold, box, says

DATA = Path(__file__).parents[2] / "data"
CLAIMS: list[dict[str, Any]] = json.loads((DATA / "claims.json").read_text())["claims"]
JAX: dict[str, Any] = json.loads((DATA / "jax_questions.json").read_text())
SIZES = {0: 1, 1: 60, 2: 20, 3: 9, 4: 6, 5: 4}

DECIDED = {"eq": 1.0, "div": 1.0, "prod": 1.0, "floormod": 0.9, "ineq": 0.8}
"""Category -> the share of its claims that must be decided."""


def names_in(texts: list[str]) -> set[str]:
    words = set(re.findall(r"\b[A-Za-z]\w*\b", " ".join(texts)))
    return words - {"min", "max", "Min", "Max", "mod", "floordiv", "ceildiv"}


@pytest.mark.parametrize("row", CLAIMS, ids=lambda row: " if ".join((row["claim"], *row["facts"])))
def test_nothing_is_decided_wrong(row: dict[str, Any]) -> None:
    proof = prove(row["claim"], facts=row["facts"])
    assert proof.verdict != ("refuted" if row["truth"] else "proved")
    if proof.verdict == "refuted":
        assert proof.counterexample is not None
        assert all_hold(row["facts"], proof.counterexample)
        assert says(row["claim"], proof.counterexample) is False


def test_enough_is_decided() -> None:
    every: Counter[str] = Counter()
    decided: Counter[str] = Counter()
    for row in CLAIMS:
        every[row["category"]] += 1
        verdict = prove(row["claim"], facts=row["facts"]).verdict
        decided[row["category"]] += verdict == ("proved" if row["truth"] else "refuted")
    for category, share in DECIDED.items():
        assert decided[category] >= share * every[category], (category, decided, every)


def contradictory(facts: list[str]) -> bool:
    try:
        read_facts(facts)
    except ShapeError:
        return True
    return False


def test_what_jax_decides_is_decided() -> None:
    """Where it answers on top of facts that contradict each other, we say that they do; where it
    divides by what can be 0, we say where the claim has no value.
    """
    asked = [q for q in JAX["questions"] if q["jax"] == "proved" and not contradictory(q["facts"])]
    assert len(asked) > 600
    left = [q for q in asked if prove(q["claim"], facts=q["facts"]).verdict != "proved"]
    assert len(left) < 5
    for q in left:
        proof = prove(q["claim"], facts=q["facts"])
        assert proof.verdict == "conditional"
        assert proof.counterexample is not None
        assert says(q["claim"], proof.counterexample) is None
        for v in box(names_in([q["claim"], *q["facts"]]), SIZES):
            if all_hold(q["facts"], v):
                assert all_hold(proof.conditions, v) == (says(q["claim"], v) is True)
                assert says(q["claim"], v) is not False


def test_facts_that_jax_did_not_find_contradictory_have_no_values() -> None:
    found = {tuple(q["facts"]) for q in JAX["questions"] if contradictory(q["facts"])}
    assert len(found) == 1
    for facts in found:
        assert not any(all_hold(facts, v) for v in box(names_in(list(facts)), SIZES))


@pytest.mark.parametrize("facts", JAX["contradictions"], ids=", ".join)
def test_contradictions_that_jax_finds(facts: list[str]) -> None:
    assert contradictory(facts)


def test_what_jax_leaves_open_is_decided_right() -> None:
    asked = [q for q in JAX["questions"] if q["jax"] == "open" and not contradictory(q["facts"])]
    decided = 0
    for q in asked:
        proof = prove(q["claim"], facts=q["facts"])
        points = box(names_in([q["claim"], *q["facts"]]), SIZES)
        answers = {says(q["claim"], v) for v in points if all_hold(q["facts"], v)}
        decided += proof.verdict in ("proved", "refuted")
        assert not (proof.verdict == "proved" and False in answers), q
        assert not (proof.verdict == "refuted" and answers == {True}), q
    assert decided == len(asked)
