"""The pictures of answers say what the answers say, and survive hostile names."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dimsolve import check, legal_parts, prove
from dimsolve.partition.legality import Legality
from dimsolve.partition.placement import Partial, Placement, Reduction, Replicate, Shard
from dimsolve.partition.rules.rule import Rule, TransformRule
from dimsolve.show.legality import ranges
from dimsolve.show.placement import miniature
from tests.oracles.pictures import SPACE, read_picture, texts

MATMUL = "m k+, k+ n -> m n"
QUESTIONS: dict[str, Legality] = {
    "conditional": check(MATMUL, ["m, k", "k, n"], "k", 8),
    "legal": check(MATMUL, ["m, k", "k, n"], "k", 8, facts=["k % 8 == 0"]),
    "illegal": check("a b -> b", ["x, y"], "a", 2),
    "a count that is a symbol": check(MATMUL, ["m, k", "k, n"], "m", "n"),
    "blocks that are a symbol": check("(q h) -> (q h)", ["q*8"], "h", 4, arguments={"h": 8}),
    "many parts": check("a -> a", ["4096"], "a", 1024),
    "a scalar": check("a+ -> ()", ["8*n"], "a", 4),
    "opaque": check("a, ? -> a", ["8", None], "a", 2),
    "never": check("a -> a", ["7"], "a", 2),
    "a wide name": check("長 -> 長", ["8*s"], "長", 2),
}


@pytest.mark.parametrize("name", QUESTIONS)
def test_a_legality_shows_its_verdict_reason_and_every_placement(name: str) -> None:
    legality = QUESTIONS[name]
    svg = legality._repr_svg_()
    shown = texts(read_picture(svg))
    assert legality.verdict in shown
    assert legality.reason.split()[0] in " ".join(shown).split()
    assert all(condition in shown for condition in legality.conditions)
    for placement in (*legality.inputs, *legality.outputs):
        assert str(placement) in shown
    assert svg == legality._repr_svg_()


def test_what_is_drawn_smaller_than_it_is_says_so() -> None:
    assert "n parts are drawn as 3" in texts(
        read_picture(QUESTIONS["a count that is a symbol"]._repr_svg_())
    )
    assert "q blocks are drawn as 3" in texts(
        read_picture(QUESTIONS["blocks that are a symbol"]._repr_svg_())
    )
    assert "1024 parts are drawn as 3" in texts(read_picture(QUESTIONS["many parts"]._repr_svg_()))
    assert not any("drawn as" in t for t in texts(read_picture(QUESTIONS["legal"]._repr_svg_())))


@pytest.mark.parametrize("parts", [1, 2, 3, 8, 16])
@pytest.mark.parametrize("blocks", [1, 3, 8])
def test_a_small_picture_has_a_colour_for_every_part_in_every_block(
    parts: int, blocks: int
) -> None:
    picture = miniature(2, [Shard(1, blocks)], [parts])
    root = read_picture(picture.card("a tensor", "a tensor"))
    cells = [rect for rect in root.iter(f"{SPACE}rect") if rect.find(f"{SPACE}title") is not None]
    fills = [cell.attrib["fill"] for cell in cells]
    if parts == 1:
        assert len(set(fills)) == 1
    else:
        assert len(cells) == parts * blocks
        assert fills == fills[:parts] * blocks and len(set(fills)) == parts


def placements() -> st.SearchStrategy[Placement]:
    """Any placement, also of many dimensions, blocks and segments."""
    segments = st.sampled_from([(), (2, 1), (4, 1, 1), (500, 1)])
    return st.one_of(
        st.just(Replicate()),
        st.builds(Partial, st.sampled_from(Reduction)),
        st.builds(Shard, st.integers(0, 6), st.integers(1, 100), segments),
    )


@settings(max_examples=60)
@given(placements(), st.lists(placements(), max_size=4), st.lists(placements(), max_size=3))
def test_placements_and_rules_are_pictures(
    one: Placement, inputs: list[Placement], outputs: list[Placement]
) -> None:
    assert str(one)[:28] in " ".join(texts(read_picture(one._repr_svg_())))
    read_picture(Rule("h", tuple(inputs), tuple(outputs))._repr_svg_())
    read_picture(TransformRule(tuple(inputs), tuple(outputs), split="h")._repr_svg_())
    read_picture(TransformRule(split=("a", "*"), local=print)._repr_svg_())


def boxes(svg: str) -> dict[int, str]:
    """Count -> what its box says."""
    found = {}
    for rect in read_picture(svg).iter(f"{SPACE}rect"):
        title = rect.find(f"{SPACE}title")
        if title is not None:
            count, _, verdict = (title.text or "").partition(": ")
            found[int(count)] = verdict
    return found


@pytest.mark.parametrize("length", ["360", "8*s", "n*(n + 1)", "p*q"])
def test_every_count_has_a_box_with_its_own_verdict(length: str) -> None:
    counts = legal_parts("a -> a", [length], "a", up_to=30)
    expected = {
        **dict.fromkeys((n for n in counts.always if n <= 30), "always"),
        **dict.fromkeys(counts.conditional, "conditional"),
        **dict.fromkeys(counts.forbidden, "never"),
        **dict.fromkeys(counts.unknown, "unknown"),
    }
    assert boxes(counts._repr_svg_()) == expected
    assert sorted(expected) == list(range(1, 31))


def test_equal_reasons_are_said_once() -> None:
    counts = legal_parts("a -> a", ["6"], "a", up_to=9)
    shown = texts(read_picture(counts._repr_svg_()))
    assert "a = 6 is never a multiple of that count" in shown
    assert "4-5, 7-9" in shown


def test_a_range_is_written_as_people_do() -> None:
    assert ranges([1, 2, 3, 5, 8, 9]) == "1-3, 5, 8-9"


@pytest.mark.parametrize(
    ("claim", "verdict"),
    [("n*(n + 1) % 2 == 0", "proved"), ("8*s % 3 == 0", "refuted"), ("a*b == 7", "refuted")],
)
def test_a_proof_shows_its_verdict(claim: str, verdict: str) -> None:
    proof = prove(claim)
    shown = texts(read_picture(proof._repr_svg_()))
    assert shown[0] == proof.verdict == verdict
    if proof.counterexample:
        point = ", ".join(f"{name} = {value}" for name, value in proof.counterexample.items())
        assert point in shown


_DIGEST = """
import hashlib, dimsolve as ds
drawn = [
    ds.parse("* (h t) k+, k+ n -> * h t n"),
    ds.check("(q h) -> (q h)", ["q*8"], "h", "n", arguments={"h": 8}),
    ds.infer("(h t), (h d) -> h t d", ["a*b", "a*c"]),
    ds.legal_parts("a -> a", ["n*(n + 1)"], "a", up_to=20),
    ds.held((8, 8), ["S(0)", "P(sum)", "S(1)"], "a=2, b=2, c=4"),
]
print(hashlib.sha256("".join(each._repr_svg_() for each in drawn).encode()).hexdigest())
"""


def test_pictures_do_not_depend_on_hashes() -> None:
    digests = {
        subprocess.run(
            [sys.executable, "-c", _DIGEST],
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("0", "1", "2")
    }
    assert len(digests) == 1
    assert len(digests.pop().strip()) == 2 * hashlib.sha256().digest_size
