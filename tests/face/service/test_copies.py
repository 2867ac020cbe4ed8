"""What the playground says to copy is what is asked: run, it gives the same answer."""

from __future__ import annotations

import json
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, expect

import dimsolve as ds
from tests.face.browser import fragment, opened
from tests.face.running import Service

QUESTIONS: dict[str, dict[str, Any]] = {
    "check": {"a": "m k+, k+ n -> m n", "i": ["m, k", "k, n"], "split": "k:8"},
    "two splits": {
        "a": "n k+, (q h e) k+ -> n (q h e)",
        "i": ["tokens, 4096", "3*heads*128, 4096"],
        "arg": "q=3, e=128",
        "fact": "heads % 8 == 0, tokens >= min(2, heads)",
        "split": ["h:4", "k:2"],
        "contiguous": 1,
    },
    "unequal parts": {
        "a": "m k+, k+ n -> m n",
        "i": ["m, 10", "10, n"],
        "uneven": 1,
        "split": "k:3",
    },
    "two splits that exclude each other": {
        "a": "a b -> b a",
        "i": ["x, x + 1"],
        "split": ["a:2", "b:2"],
    },
    "a bias": {
        "a": "m k+, n k+, n -> m n",
        "i": ["m, 8", "n, 8", "n"],
        "summand": [2],
        "split": "k:2",
    },
    "a maximum": {"a": "m k+ -> m", "i": "m, k", "partial": "max", "split": "k:2"},
    "a call": {
        "a": "torch.nn.functional.conv2d",
        "i": ["n, 64, 56, 56", "128, 64, 3, 3", "128"],
        "arg": "stride=2, padding=1",
        "split": ["a:2", "b:4"],
    },
    "infer": {"a": "(h t) k -> h t k", "i": "8*s, k", "arg": "h=8"},
    "no shapes": {"a": "(h t) -> t h"},
    "no shapes, split": {"a": "(h t) -> t h", "split": "t:n*2"},
    "some open": {"a": "n c+, ?, () -> n", "i": ["n, 8", "", "()"], "split": "c:2"},
    "no inputs": {"a": "-> a", "arg": "a=4", "split": "a:2"},
    "other letters": {"a": "größe \N{GREEK SMALL LETTER ALPHA}+ -> größe", "split": "größe:2"},
    "a split that was": {"a": "a b -> b a", "i": "x, 6", "split": ["k:8", "b:2"]},
    "hostile": {
        "a": "a b -> b a",
        "i": "x, 'y$(touch pwned)`touch pwned`\\\"",
    },
}


@pytest.fixture(scope="module")
def page(browser: Browser, service: Service) -> Iterator[Page]:
    with opened(browser, service.url, permissions=["clipboard-read", "clipboard-write"]) as page:
        yield page


def copied(page: Page, kind: str) -> str:
    """Clicks on Copy, and returns what the clipboard has."""
    code = page.locator(".copied")
    expect(code).to_contain_text("dimsolve")
    expect(page.locator(".problem, .summary:not(:empty)").first).to_be_attached()
    page.get_by_role("radio", name=kind).check(force=True)
    page.get_by_role("button", name="Copy").click()
    expect(page.get_by_role("status")).to_have_text(f"copied as {kind}")
    text: str = page.evaluate("navigator.clipboard.readText()")
    assert text == code.inner_text()
    return text


CALL = {
    "a": "a b+ d^ f^, c b+ 3 3, c -> a c e^ g^",
    "arg": "e=28, g=28",
    "value_split": [2],
}
"""What the convolution promises with a stride of 2."""


def answers(question: dict[str, Any]) -> Any:
    """What dimsolve answers in Python: the legality of all splits, a solution, an error."""
    if "." in question["a"]:
        question = question | CALL
    texts = question.get("i", [])
    texts = [texts] if isinstance(texts, str) else texts
    inputs = [text or None for text in texts] or None
    pairs = [pair.split("=") for pair in question.get("arg", "").split(", ") if pair]
    facts = question.get("fact", "")
    known: dict[str, Any] = {
        "arguments": {name: int(size) for name, size in pairs},
        "facts": [facts.partition(", ")[0], facts.partition(", ")[2]] if facts else [],
    }
    splits = question.get("split", [])
    asked = (text.partition(":") for text in ([splits] if isinstance(splits, str) else splits))
    cuts = {name: parts for name, _, parts in asked if name in question["a"]}
    manner = {
        "contiguous": "contiguous" in question,
        "uneven": "uneven" in question,
        "value_split": question.get("value_split", question.get("summand", [])),
        "partial": question.get("partial", "sum"),
    }
    try:
        if cuts:
            return ds.check_mesh(question["a"], inputs, cuts, **known, **manner)
        return ds.infer(question["a"], inputs, **known)
    except ds.DimsolveError as error:
        return error


def run(program: list[str], directory: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(program, cwd=directory, capture_output=True, text=True, timeout=300)


@pytest.mark.parametrize("name", QUESTIONS)
def test_what_is_copied_runs_and_asks_the_same(
    page: Page, service: Service, name: str, tmp_path: Path
) -> None:
    question = QUESTIONS[name]
    wanted = answers(question)
    page.goto("about:blank")
    page.goto(f"{service.url}/{fragment(**question)}")
    run_python(copied(page, "Python"), wanted, tmp_path)
    (line,) = copied(page, "command line").splitlines()
    compare(run_command(line, tmp_path), wanted)
    (line,) = copied(page, "curl").splitlines()
    answer = json.loads(run(["sh", "-c", line], tmp_path).stdout)
    compare(
        {"axes": [row["answer"] for row in answer["answers"]]} if "answers" in answer else answer,
        wanted,
    )
    assert list(tmp_path.iterdir()) == []  # no part of a text was taken for a command


def run_python(text: str, wanted: list[Any], directory: Path) -> None:
    done = run([sys.executable, "-P", "-c", text], directory)
    if isinstance(wanted, ds.DimsolveError):
        assert done.stderr.endswith(f"{type(wanted).__name__}: {wanted}\n")
    else:
        assert done.stdout == f"{wanted.explain()}\n", done.stderr


def run_command(line: str, directory: Path) -> Any:
    """Runs ``dimsolve ...`` in a shell, with --json beside its own options."""
    python = shlex.quote(sys.executable)
    before, dashes, rest = line.partition(" -- ")
    program = f'dimsolve() {{ {python} -P -m dimsolve "$@"; }}; {before} --json{dashes}{rest}'
    return json.loads(run(["sh", "-c", program], directory).stdout)


def compare(answer: dict[str, Any], wanted: Any) -> None:
    """The JSON says what Python says."""
    if isinstance(wanted, ds.DimsolveError):
        assert answer["error"] == type(wanted).__name__
        assert answer["detail"] == wanted.diagnostic.reason
    elif isinstance(wanted, ds.MeshLegality):
        axes = answer.get("axes", [answer])
        for axis, legality in zip(axes, wanted.axes, strict=True):
            compare(axis, legality)
        if "verdict" in answer:
            assert answer["verdict"] == wanted.verdict
    elif isinstance(wanted, ds.Legality):
        assert answer["verdict"] == wanted.verdict
        assert answer["reason"] == wanted.reason
        assert answer["split"] == wanted.split and answer["parts"] == str(wanted.parts)
    else:
        assert answer["explanation"] == wanted.explain().splitlines()
