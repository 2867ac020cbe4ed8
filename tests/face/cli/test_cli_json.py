"""Law: what ``--json`` prints is what Python answers, and its texts read back."""

from __future__ import annotations

import json

import dimsolve as ds
from dimsolve.ir.read_expression import read_dimension, read_relation

from .command_line import VIEW, ask


def test_json_of_parse_has_places_in_what_was_read() -> None:
    answer = json.loads(ask("parse", "(h+  2), ? -> 2", "--json").out)
    assert answer["text"] == "(h+ 2), ? -> 2"
    assert answer["identifiers"] == {"h": "+"}
    tensor, opaque = answer["inputs"]
    assert [operand["kind"] for operand in (tensor, opaque)] == ["tensor", "opaque"]
    (dim,) = tensor["dims"]
    assert [answer["source"][slice(*atom["span"])] for atom in dim["atoms"]] == ["h+", "2"]
    assert [atom["kind"] for atom in dim["atoms"]] == ["identifier", "number"]


def test_json_of_infer_reads_back() -> None:
    answer = json.loads(ask("infer", VIEW, "--input", "8*s, k", "--arg", "h=3", "--json").out)
    solution = ds.infer(VIEW, ["8*s, k"], arguments={"h": 3})
    assert answer["outputs"] == [[str(dim) for dim in row or ()] for row in solution.output_dims]
    assert answer["conditions"] == list(solution.conditions) == ["s % 3 == 0"]
    assert answer["explanation"] == solution.explain().splitlines()
    for text in (*answer["bindings"].values(), *answer["outputs"][0]):
        read_dimension(text)
    for text in answer["conditions"]:
        read_relation(text)


def test_json_of_infer_lists_finite_choices() -> None:
    answer = json.loads(
        ask("infer", "(h t), ? -> h t, ?", "--input", "4", "--input", "", "--json").out
    )
    assert answer["outputs"][1] is None
    assert answer["free"] == ["h", "t"]
    assert answer["solutions"] == [{"h": 1, "t": 4}, {"h": 2, "t": 2}, {"h": 4, "t": 1}]
    assert answer["solutions_complete"] is True
    endless = json.loads(ask("infer", "(h t) -> h t", "--input", "8*s", "--json").out)
    assert endless["solutions"] is None
    assert endless["solutions_complete"] is False
    many = json.loads(ask("infer", "(h t d) -> h t d", "--input", str(2**60), "--json").out)
    assert len(many["solutions"]) == 1000
    assert many["solutions_complete"] is False


def test_json_of_check() -> None:
    words = ("check", VIEW, "--input", "8*s, k", "--arg", "h=8", "--split", "h", "--parts", "n")
    answer = json.loads(ask(*words, "--json").out)
    legality = ds.check(VIEW, ["8*s, k"], "h", "n", arguments={"h": 8})
    assert answer == {
        "verdict": "conditional",
        "reason": legality.reason,
        "split": "h",
        "parts": "n",
        "conditions": list(legality.conditions),
        "counterexample": dict(legality.counterexample or {}),
        "inputs": ["S(0)"],
        "outputs": ["S(0)"],
        "local_inputs": [[str(dim) for dim in legality.local_input_dims[0] or ()]],
        "local_outputs": [["8//n", "s", "k"]],
        "arguments": {"h": "8//n"},
        "solution": {
            "outputs": [["8", "s", "k"]],
            "bindings": {"h": "8", "t": "s", "k": "k"},
            "conditions": [],
            "free": [],
            "expansions": {},
        },
    }


def test_json_of_legal_parts() -> None:
    words = ("legal-parts", "a b -> a b", "--input", "8*s, 6", "--up-to", "3", "--split", "a")
    assert json.loads(ask(*words, "--json").out) == {
        "split": "a",
        "fixed_divisor": 8,
        "always": [1, 2, 4, 8],
        "conditional": {"3": "s % 3 == 0"},
        "forbidden": {},
        "unknown": {},
        "up_to": 3,
    }


def test_json_of_prove() -> None:
    answer = json.loads(ask("prove", "n % 2 == 0", "--json").out)
    assert answer["verdict"] == "refuted"
    assert answer["counterexample"]["n"] % 2 == 1
    assert answer["conditions"] == ["n % 2 == 0"]
