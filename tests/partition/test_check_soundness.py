"""Laws: a verdict is a theorem (brute force), and a legal split gives the whole again."""

from __future__ import annotations

from itertools import product
from math import prod

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from dimsolve.ir.errors import ShapeError
from dimsolve.partition.legality import Legality, check
from dimsolve.partition.placement import Placement, Shard
from dimsolve.solver.algebra.dims import evaluate
from dimsolve.solver.algebra.poly import Dim, symbol
from tests.oracles.brute_force import annotations, holds

BOX = [dict(zip(("s", "t"), values, strict=True)) for values in product(range(1, 7), repeat=2)]


@st.composite
def lengths(draw: st.DrawFn) -> Dim:
    s, t = symbol("s"), symbol("t")
    terms = draw(
        st.lists(st.sampled_from((1, s, t, s * t, s * s, t * t * t)), min_size=1, max_size=3)
    )
    total: Dim = 0
    for term in terms:
        total = total + draw(st.integers(1, 6)) * term
    return total


FACTS = (
    (),
    ("s % 2 == 0",),
    ("s % 6 == 3",),
    ("s == 2*t",),
    ("s % t == 0",),
    ("s >= 3", "t <= 4"),
    ("s*t == 12",),
)


@settings(max_examples=500)
@given(lengths(), st.integers(1, 12), st.sampled_from(FACTS))
def test_divisibility_verdicts_are_theorems(
    length: Dim, parts: int, facts: tuple[str, ...]
) -> None:
    legality = check("a -> a", [(length,)], "a", parts, facts=facts)
    values = [v for v in BOX if holds(facts, v)]
    right = {tuple(v.items()): evaluate(length, v) % parts == 0 for v in values}
    match legality.verdict:
        case "legal":
            assert all(right.values())
        case "illegal":
            assert not any(right.values())
        case "conditional":
            for v in values:
                assert holds(legality.conditions, v) == right[tuple(v.items())]
    if legality.counterexample is not None:
        assert holds(facts, legality.counterexample)
        assert evaluate(length, legality.counterexample) % parts != 0
    assert legality.verdict != "unknown", (str(length), parts, facts)


def test_residues_that_bounds_leave_out_are_refuted() -> None:
    """9 divides 3*s**2 + 4*t where t is 0 or 6 modulo 9, for some s."""
    length = 3 * symbol("s") ** 2 + 4 * symbol("t")
    asked = {most: check("a -> a", [(length,)], "a", 9, facts=(f"t <= {most}",)) for most in (5, 6)}
    assert (asked[5].verdict, asked[5].counterexample) == ("illegal", {"s": 1, "t": 1})
    assert asked[6].verdict == "conditional"


@settings(max_examples=200)
@given(lengths(), lengths(), st.sampled_from(FACTS))
def test_symbolic_counts_are_theorems(length: Dim, parts: Dim, facts: tuple[str, ...]) -> None:
    legality = check("a -> a", [(length,)], "a", str(parts), facts=facts)
    for v in (v for v in BOX if holds(facts, v)):
        right = evaluate(length, v) % evaluate(parts, v) == 0
        match legality.verdict:
            case "legal":
                assert right
            case "illegal":
                assert not right
            case "conditional":
                assert holds(legality.conditions, v) == right


def shard(whole: np.ndarray, placement: Placement, rank: int, parts: int) -> np.ndarray:
    """What one rank holds: of every block of the dimension, the rank's part."""
    if not isinstance(placement, Shard):
        return whole
    blocks = evaluate(placement.blocks, {})
    shape = whole.shape
    size = shape[placement.dim]
    split = whole.reshape(
        *shape[: placement.dim], blocks, parts, size // blocks // parts, *shape[placement.dim + 1 :]
    )
    return split.take(rank, axis=placement.dim + 1).reshape(
        *shape[: placement.dim], size // parts, *shape[placement.dim + 1 :]
    )


REARRANGEMENTS = (
    "a b -> b a",
    "(a b) c -> a b c",
    "(a b) c -> b a c",
    "(a b c) d -> (c a) (d b)",
    "a (b 2 c) -> (2 a c) b",
    "a b c d -> (a b) (c d)",
    "(a 3) (b c) -> c (3 a b)",
)


def rearrange(tensor: np.ndarray, text: str, values: dict[str, int]) -> np.ndarray:
    """Does what a rearrangement's annotation says, by names: split dimensions, permute, join."""
    left, right = (
        side.replace("(", " ( ").replace(")", " ) ").split() for side in text.split("->")
    )
    atoms = [atom for atom in left if atom not in "()"]
    goal = [atom for atom in right if atom not in "()"]

    def size(atom: str) -> int:
        return int(atom) if atom.isdigit() else values[atom]

    moved = tensor.reshape([size(a) for a in atoms]).transpose([atoms.index(a) for a in goal])
    shape, group = [], None
    for atom in right:
        if atom == "(":
            group = []
        elif atom == ")":
            shape.append(prod(group or [1]))
            group = None
        elif group is not None:
            group.append(size(atom))
        else:
            shape.append(size(atom))
    return moved.reshape(shape)


@settings(max_examples=300)
@given(
    st.sampled_from(REARRANGEMENTS),
    st.fixed_dictionaries({name: st.sampled_from((1, 2, 3, 4, 6)) for name in "abcd"}),
    st.sampled_from("abcd"),
    st.sampled_from((1, 2, 3)),
)
def test_split_then_run_is_run_then_split(
    text: str, values: dict[str, int], split: str, parts: int
) -> None:
    names = {name for name in "abcd" if name in text}
    if split not in names:
        return
    sizes = {name: values[name] for name in names}
    whole = _input(text, sizes)
    legality = check(text, [whole.shape], split, parts, arguments=sizes)
    assert (legality.verdict == "legal") == (sizes[split] % parts == 0)
    if legality.verdict != "legal":
        return
    result = rearrange(whole, text, sizes)
    for rank in range(parts):
        local = shard(whole, legality.inputs[0], rank, parts)
        assert local.shape == tuple(legality.local_inputs[0] or ())
        out = rearrange(local, text, legality.arguments)
        assert out.shape == tuple(legality.local_outputs[0] or ())
        assert (out == shard(result, legality.outputs[0], rank, parts)).all()
        asked = check(text, [whole.shape], split, parts, arguments=sizes, contiguous=True)
        if asked.verdict == "legal" and parts > 1:
            assert all(
                p.contiguous for p in (*legality.inputs, *legality.outputs) if isinstance(p, Shard)
            )


def _input(text: str, sizes: dict[str, int]) -> np.ndarray:
    left = text.split("->")[0].replace("(", " ( ").replace(")", " ) ").split()
    shape, group = [], None
    for atom in left:
        if atom == "(":
            group = []
        elif atom == ")":
            shape.append(prod(group or [1]))
            group = None
        elif group is not None:
            group.append(int(atom) if atom.isdigit() else sizes[atom])
        else:
            shape.append(int(atom) if atom.isdigit() else sizes[atom])
    return np.arange(prod(shape)).reshape(shape)


@settings(max_examples=400)
@given(annotations(marks=True), st.data())
def test_every_random_annotation_is_judged_by_the_table_of_marks(
    case: object, data: st.DataObject
) -> None:
    """The placements follow page 2's table, written out here once more from the text alone."""
    text: str = case.text  # type: ignore[attr-defined]
    sizes = dict.fromkeys("abcd", 6)
    shapes = [
        tuple(prod(a if isinstance(a, int) else sizes[a] for a in dim) for dim in tensor)
        for tensor in case.dims  # type: ignore[attr-defined]
    ]
    names = sorted({a for t in case.dims for d in t for a in d if isinstance(a, str)})  # type: ignore[attr-defined]
    if not names:
        return
    split = data.draw(st.sampled_from(names))
    known = dict.fromkeys(names, 6)
    try:
        legality: Legality = check(text, shapes, split, 2, arguments=known)
    except ShapeError as error:
        raise AssertionError(text) from error
    mark = next(m for m in "+^ " if m == " " or f"{split}{m}" in text)
    output = text.split("->")[1]
    counts = [sum(d.count(split) for d in t) for t in case.dims]  # type: ignore[attr-defined]
    in_output = sum(atom.strip("+^") == split for atom in output.split())
    legal = mark != "^" and max(*counts, in_output, 0) <= 1 and (mark == "+" or in_output == 1)
    assert legality.verdict == ("legal" if legal else "illegal"), (text, split, legality.reason)
    if legal:
        assert [isinstance(p, Shard) for p in legality.inputs] == [count == 1 for count in counts]
        assert str(legality.outputs[0])[0] == ("S" if in_output else "P")
