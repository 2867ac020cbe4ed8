"""Law: families of true claims are proved, and what is changed in them is refuted or still true.

Each family is filled with random numbers; the truth is brute force over small values.
"""

from __future__ import annotations

import random
import re

import pytest

from dimsolve.ir.errors import DimsolveError
from dimsolve.solver.proof.prove import prove
from tests.oracles.python_value import all_hold, box, says

SIZES = {1: 90, 2: 24, 3: 9}

FAMILIES: list[tuple[str, tuple[str, ...]]] = [
    ("(n//{q})//{r} == n//({q}*{r})", ()),
    ("(n//{q})//m == n//({q}*m)", ()),
    ("(n//m)//k == n//(m*k)", ()),
    ("-(-n//{q}) == (n + {q} - 1)//{q}", ()),
    ("-(-n//k) == (n - 1)//k + 1", ()),
    ("ceildiv(ceildiv(n, {q}), {r}) == ceildiv(n, {q}*{r})", ()),
    ("(n//{q}) % {r} == (n % ({q}*{r}))//{q}", ()),
    ("(n//k) % m == (n % (m*k))//k", ()),
    ("(-n) % k == ceildiv(n, k)*k - n", ()),
    ("(n % k + m % k) % k == (n + m) % k", ()),
    ("((n % {q})*(m % {q})) % {q} == (n*m) % {q}", ()),
    ("({a}*n + {b})//{q} == {a}*(n//{q}) + ({a}*(n % {q}) + {b})//{q}", ()),
    ("({a}*n + {b}) % {q} == ({a}*{j} + {b}) % {q}", ("n % {q} == {j}",)),
    ("n*m % ({q}*{r}) == 0", ("n % {q} == 0", "m % {r} == 0")),
    ("n % {q} == {j}", ("n % ({q}*{r}) == {j}",)),
    ("(n*n - m*m) % {q} == 0", ("n % {q} == m % {q}",)),
    ("(n - n % {q}) % {q} == 0", ()),
    ("(n + k - n % k) % k == 0", ()),
    ("(n*m)//k == n*(m//k)", ("m % k == 0",)),
    ("({a}*n + {b})//{q} <= ({a}*m + {b})//{q}", ("n <= m",)),
    ("ceildiv(n, k) <= ceildiv(m, k)", ("n <= m",)),
    ("(n + m)//k <= n//k + m//k + 1", ()),
    ("n*(m//k) <= (n*m)//k", ()),
    ("(n//{q})*(m//{r}) <= n*m//({q}*{r})", ()),
    ("n//k <= n - 1", ("k >= 2",)),
    ("(n - {q})//{r} + 1 >= 1", ("n >= {q}",)),
    ("((n - k)//m)*m + k <= n", ()),
    ("max(n + {a}, m + {a}) == max(n, m) + {a}", ()),
    ("min({q}*n, {q}*m) == {q}*min(n, m)", ()),
    ("max(n//{q}, m//{q}) == max(n, m)//{q}", ()),
    ("max(n, min(m, k)) == min(max(n, m), max(n, k))", ()),
    ("min(n, k) <= min(m, k)", ("n <= m",)),
    ("n == m", ("n//k == m//k", "n % k == m % k")),
    ("n == {q}*m", ("n**2 == {q}**2*m**2",)),
]


def filled(seed: int) -> list[tuple[str, list[str]]]:
    draw = random.Random(seed)
    found: list[tuple[str, list[str]]] = []
    for claim, facts in FAMILIES:
        q = draw.randint(2, 9)
        numbers = {
            "q": q,
            "r": draw.randint(2, 7),
            "a": draw.randint(1, 7),
            "b": draw.randint(0, 9),
            "j": draw.randint(0, q - 1),
        }
        found.append((claim.format(**numbers), [fact.format(**numbers) for fact in facts]))
    return found


def points(texts: list[str]) -> list[dict[str, int]]:
    return list(box(set(re.findall(r"\b[nmk]\b", " ".join(texts))), SIZES))


@pytest.mark.parametrize("seed", range(3))
def test_true_claims_are_proved(seed: int) -> None:
    for claim, facts in filled(seed):
        assert prove(claim, facts=facts).verdict == "proved", (claim, facts)
        for values in points([claim, *facts]):
            assert says(claim, values) is True or not all_hold(facts, values), (claim, facts)


@pytest.mark.parametrize("seed", range(3, 6))
def test_changed_claims_are_decided_right(seed: int) -> None:
    draw = random.Random(seed)
    for claim, facts in filled(seed):
        number = draw.choice(list(re.finditer(r"\b[0-9]\b", claim + " + 1")))
        text = claim + " + 1"
        changed = text[: number.start()] + str(draw.randint(1, 9)) + text[number.end() :]
        values = [v for v in points([changed, *facts]) if all_hold(facts, v)]
        answers = [says(changed, v) is True for v in values]
        try:
            proof = prove(changed, facts=facts)
        except DimsolveError:
            assert not any(answers), changed
            continue
        assert proof.verdict != "proved" or all(answers), (changed, facts)
        if not all(answers):
            assert proof.verdict in ("refuted", "conditional"), (changed, facts)
        for v, answer in zip(values, answers, strict=True) if proof.conditions else ():
            assert all_hold(proof.conditions, v) == answer, (changed, facts, v)
