"""Law: unequal parts that are called legal are those of torch's ``chunk``, and join to it."""

from __future__ import annotations

from collections import Counter
from itertools import product
from typing import Any

import pytest
import torch

import dimsolve as ds
from dimsolve.api.results import LegalityModel
from tests.exec.verification.unequal import failures, reason_of, splits_of
from tests.oracles.all_ranks import compare


def test_parts_have_the_lengths_that_chunk_makes() -> None:
    for length, count in product(range(1, 13), range(1, 8)):
        shapes = [f"m, {length}", f"{length}, n"]
        answer = ds.check("m k+, k+ n -> m n", shapes, "k", count, uneven=True)
        assert answer.verdict == "legal" and answer.uneven is bool(length % count)
        most = -(-length // count)
        assert answer.waste * length == most * count
        part = answer.part_length
        names = part.free_symbols
        found = [int(part.subs(dict.fromkeys(names, place + 1))) for place in range(count)]
        assert found == [min(max(length - place * most, 0), most) for place in range(count)]


def test_a_count_that_divides_has_the_same_answer_as_without_the_word() -> None:
    asked = "m k+, k+ n -> m n", ["m, 8", "8, n"], "k"
    for count in (1, 2, 4, 8):
        assert ds.check(*asked, count) == ds.check(*asked, count, uneven=True)


def test_heads_are_dealt_out_whole() -> None:
    answer = ds.check("(h d) k -> h d k", ["112, 4"], "h", 3, arguments={"h": 7}, uneven=True)
    assert [str(each) for each in (*answer.inputs, *answer.outputs)] == [
        "S(0, of=112, unit=16)",
        "S(0, of=7)",
    ]


@pytest.mark.parametrize(
    ("function", "count", "reason"),
    [
        (
            {"annotation": "a+ b -> b", "partial": "avg"},
            3,
            "a = 10 is never a multiple of 3; "
            "the parts of a must be equal: what they give is weighed alike",
        ),
        (
            {"annotation": "a+ b -> b", "partial": "max"},
            7,
            "a = 10, cut into unequal parts, the longest of 2, leaves a part empty",
        ),
    ],
)
def test_what_weighs_its_parts_or_needs_something_is_refused(
    function: dict[str, Any], count: int, reason: str
) -> None:
    """Of an average that only its annotation tells nothing is known for parts of other lengths."""
    annotation, more = function["annotation"], {**function}
    del more["annotation"]
    answer = ds.check(annotation, ["10, 4"], "a", count, uneven=True, **more)
    assert (answer.verdict, answer.reason) == ("illegal", reason)


def test_a_mean_weighs_unequal_parts_by_what_they_have() -> None:
    answer = ds.check("torch.mean", ["10, 4"], "a", 7, arguments={"dim": 0}, uneven=True)
    assert (answer.verdict, str(answer.outputs[0])) == ("legal", "P(sum)")
    even = ds.check("torch.mean", ["10, 4"], "a", 5, arguments={"dim": 0}, uneven=True)
    assert (even.verdict, str(even.outputs[0])) == ("legal", "P(avg)")


def test_a_symbolic_length_has_the_condition_that_no_part_is_empty() -> None:
    answer = ds.check("a+ b -> b", ["n, 4"], "a", 3, partial="max", uneven=True)
    assert answer.conditions == ("2*ceildiv(n, 3) < n",)


@pytest.mark.parametrize("dtype", ["float64", "int64"])
def test_of_extremes_of_the_library_some_parts_may_be_empty(dtype: str) -> None:
    """As plans have it: a rank with nothing gives what changes nothing."""
    answer = ds.check("torch.amax", ["n, 4"], "a", 3, arguments={"dim": 0}, uneven=True)
    assert (answer.verdict, str(answer.outputs[0])) == ("legal", "R")
    with ds.Graph("largest") as g:
        x = g.input("x", "n, 4", dtype)
        g.output(g.call("torch.amax", x, dim=0))
    plan = ds.plan(g, {"dp": 3}, "data", uneven="allow")
    assert plan.conditions == [] and plan.operators[0].splits["dp"].of == "n"
    values = torch.arange(8).reshape(2, 4).to(getattr(torch, dtype))
    assert compare(plan, g, {}, {"x": values}, {"n": 2}).ok


def test_counts_are_even_uneven_or_never() -> None:
    found = ds.legal_parts("a b -> a b", ["10, s"], "a", up_to=4, uneven=True)
    assert (found.always, found.forbidden) == ((1, 2, 5, 10), {})
    assert found.uneven == dict.fromkeys((3, 4), "the longest has 6/5 of an equal share")


def test_json_says_the_part_and_the_waste_of_unequal_parts_only() -> None:
    shapes = ["m, 10", "10, n"]
    answer = ds.check("m k+, k+ n -> m n", shapes, "k", 3, uneven=True)
    written = LegalityModel.of(answer).model_dump_json()
    read = LegalityModel.model_validate_json(written)
    assert (read.part, read.waste) == ("min(4, max(0, -4*part_of_k + 14))", "6/5")
    assert read.result(answer.solution, {}) == answer
    even = LegalityModel.of(ds.check("m k+, k+ n -> m n", shapes, "k", 2, uneven=True))
    assert "waste" not in even.model_dump_json()


@pytest.mark.parametrize(
    "name",
    [
        *("torch.matmul", "torch.nn.functional.embedding", "torch.tril"),
        *("torch.nn.functional.linear", "torch.argmax", "torch.gather"),
        *("torch.nn.functional.group_norm", "torch.mean", "torch.var", "torch.gru"),
        *("torch.nn.functional.batch_norm", "torch.nn.functional.kl_div"),
    ],
)
def test_unequal_and_empty_parts_of_the_library_are_equal_to_the_whole(name: str) -> None:
    """A sample of `python -m tests.exec.verification.unequal`: of lengths, and of operators."""
    found: Counter[str] = Counter()
    assert list(failures(name, found, (0, 1, 7, 12))) == []
    assert found["unequal"] + found["with an empty part"] > 0


@pytest.mark.parametrize("name", ["torch.softmax", "torch.cumsum"])
def test_counts_that_are_refused_fail(name: str) -> None:
    """What is marked ^ and what is weighed alike, in parts all the same: other numbers, or none."""
    refused = [
        found
        for _, _, run in splits_of(name, (5, 6))
        for found in ([run()] if run is not None else [])
        if found.refused and reason_of(found) != "a part would be empty"
    ]
    assert refused and all(found.ran in ("raises", "differs") for found in refused)


def test_a_rule_that_needs_something_has_no_parts_of_nothing() -> None:
    answer = ds.check("torch.nn.functional.cross_entropy", ["4, 0", "4, 0"], "c", 2)
    assert (answer.verdict, answer.reason) == ("illegal", "c = 0 leaves every part empty")
    assert ds.check("torch.nn.functional.linear", ["4, 0", "2, 0"], "k", 2).verdict == "legal"
