"""A transform rule comes before the table of marks, and is as legal as the lengths that it cuts."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from dimsolve.partition.legality import Legality, judge
from dimsolve.partition.placement import Partial, Reduction, Replicate, Shard, read_placement
from dimsolve.partition.rules.rule import TransformRule
from dimsolve.solver.infer import infer

EMBEDDING = TransformRule(("R", "S(0)"), ("P(sum)",))


def judged(
    annotation: str, inputs: Sequence[str], split: str, parts: object, *rules: TransformRule
) -> Legality:
    solution = infer(annotation, list(inputs))
    return judge(solution, split, parts, arguments={}, transform_rules=rules)


def test_it_splits_what_marks_forbid() -> None:
    assert judged("n, v^ d -> n d", ["n", "v, d"], "v", 2).verdict == "illegal"
    legality = judged("n, v^ d -> n d", ["n", "8*v, d"], "v", 2, EMBEDDING)
    assert legality.verdict == "legal"
    assert [str(p) for p in (*legality.inputs, *legality.outputs)] == ["R", "S(0)", "P(sum)"]
    assert [str(dims) for dims in legality.local_inputs] == ["(n,)", "(4*v, d)"]
    assert [str(dims) for dims in legality.local_outputs] == ["(n, d)"]
    assert legality.rule is not None and legality.rule.transform is EMBEDDING


def test_its_count_must_divide() -> None:
    legality = judged("n, v^ d -> n d", ["n", "v, d"], "v", 4, EMBEDDING)
    assert (legality.verdict, legality.conditions) == ("conditional", ("v % 4 == 0",))
    assert judged("n, v^ d -> n d", ["n", "6, d"], "v", 4, EMBEDDING).verdict == "illegal"


def test_other_identifiers_keep_the_rules_of_their_marks() -> None:
    legality = judged("n, v^ d -> n d", ["8", "6, 4"], "d", 2, EMBEDDING)
    assert [str(p) for p in (*legality.inputs, *legality.outputs)] == ["R", "S(1)", "S(1)"]


def test_placements_that_are_left_out_are_those_of_the_marks() -> None:
    rule = TransformRule(split="n", outputs=("R",))
    legality = judged("n+ c^, n+ -> ()", ["8, c", "8"], "n", 4, rule)
    assert [str(p) for p in (*legality.inputs, *legality.outputs)] == ["S(0)", "S(0)", "R"]
    summed = judged("n+ c^, n+ -> ()", ["8, c", "8"], "n", 4, TransformRule(split="n"))
    assert summed.outputs == (Partial(Reduction.SUM),)


def test_what_it_cuts_beside_its_identifier_must_divide_too() -> None:
    both = TransformRule(("S(0)", "S(0)"), ("R",))
    assert judged("a^, b^ -> ()", ["8", "6"], "a", 2, both).verdict == "legal"
    illegal = judged("a^, b^ -> ()", ["8", "6"], "a", 4, both)
    assert illegal.verdict == "illegal"
    assert illegal.reason.endswith("b = 6 is never a multiple of 4")
    open_ = judged("a^, b^ -> ()", ["8", "b"], "a", 4, both)
    assert open_.conditions == ("b % 4 == 0",)
    assert [str(dims) for dims in open_.local_input_dims] == ["(2,)", "(Poly(b//4),)"]


def test_a_star_stands_for_all_its_dimensions() -> None:
    rule = TransformRule(split="*", outputs=("R",))
    for split in ("a", "b"):
        legality = judged("*+ -> ()", ["4, 6"], split, 2, rule)
        assert (legality.verdict, legality.outputs) == ("legal", (Replicate(),))


def test_blocks_tell_an_inner_identifier() -> None:
    rule = TransformRule(("S(0, blocks=3)",), ("S(0, blocks=3)",))
    solution = infer("(q^ h^ e^) -> (q^ h^ e^)", ["24"], arguments={"q": 3, "h": 4})
    assert rule.names(solution) == ("h",)


@pytest.mark.parametrize("text", ["S(0)", "S(1, blocks=3)", "R", "P(sum)", "P(max)", "P(avg)"])
def test_placements_read_back(text: str) -> None:
    assert str(read_placement(text)) == text


def test_short_placements() -> None:
    assert read_placement(" P ") == Partial(Reduction.SUM)
    assert read_placement("S( 2 , blocks = 4 )") == Shard(2, blocks=4)
