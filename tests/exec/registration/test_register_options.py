"""What register_op and TransformRule are given is checked at once; the words say what to write."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from torch import Tensor

import dimsolve as ds
from dimsolve import TransformRule as Rule


def one(x: Tensor) -> Tensor:
    return x * 1


def two(x: Tensor, w: Tensor) -> Tensor:
    return x + w


async def later(x: Tensor) -> Tensor:
    return x


def bit_by_bit(x: Tensor) -> Iterator[Tensor]:
    yield x


OPTIONS: list[tuple[str, Any, dict[str, Any], str]] = [
    (
        "a -> a",
        one,
        {"emit_fn": "x"},
        "emit_fn is not a function\n  emit_fn is 'x', a str\n  hint: it writes the call as text",
    ),
    (
        "a -> a",
        one,
        {"input_gen_fn": [1]},
        "input_gen_fn is not a function\n"
        "  input_gen_fn is [1], a list\n"
        "  hint: it is given what `verify` wants inputs for, and returns a list of them",
    ),
    (
        "a -> a",
        one,
        {"name": 5},
        "name is not a name\n"
        "  name is 5, an int\n"
        "  hint: policies and plans call the operator by it; leave it out for the function's own",
    ),
    ("a -> a", one, {"name": " "}, "name is not a name\n"),
    (
        "a -> a",
        later,
        {},
        "a coroutine or generator cannot be an operator\n"
        "  a call of 'later' returns before anything is computed\n"
        "  hint: write a plain function that returns tensors",
    ),
    ("a -> a", bit_by_bit, {}, "a coroutine or generator cannot be an operator\n"),
    (
        "a+ b, b -> b",
        two,
        {"value_split": 1},
        "value_split is not a list of parameters\n"
        "  value_split is 1, an int\n"
        '  hint: give the summands among the parameters, such as ("bias",)',
    ),
    ("a+ b, b -> b", two, {"value_split": None}, "value_split is not a list of parameters\n"),
    (
        "a+ b, b -> b",
        two,
        {"value_split": (1.0,)},
        "an entry of value_split is not a parameter's name\n",
    ),
    (
        "a+ b, ? -> b",
        two,
        {"value_split": ("w",)},
        "value_split names an input that is only replicated\n"
        "  a+ b, ? -> b\n"
        "  'w' of 'two' is annotated '?'\n"
        "  hint: annotate its dimensions, or leave it out of value_split",
    ),
    (
        "a+ b, a+ b -> b",
        two,
        {"value_split": ("x",)},
        "value_split names an input that is cut itself\n"
        "  a+ b, a+ b -> b\n"
        "  'x' of 'two' has 'a': each rank has a part of it, and no summand\n"
        "  hint: value_split takes the inputs without the '+' identifier, such as a bias",
    ),
    (
        "m k, k n -> m n",
        two,
        {"transform_rules": (Rule(("S(0)", "S(0)"), ("S(0)",)),)},
        "the placements of a transform rule are not those of one split\n"
        "  m k, k n -> m n\n"
        "  the rule is S(0), S(0) -> S(0); it cuts 'k', which input 0 has too, and places that as "
        "S(0)\n"
        "  hint: cut the identifier in every tensor that has it, or give a local function that "
        "computes with these parts",
    ),
    (
        "a b, a b -> a b",
        two,
        {"transform_rules": (Rule(("S(0)", "S(1)"), ("S(0)",)),)},
        "the placements of a transform rule are not those of one split\n",
    ),
    (
        "a b -> a b",
        one,
        {"transform_rules": (Rule(("S(0)",), ("S(0)",), split="b"),)},
        "the placements of a transform rule are not those of one split\n"
        "  a b -> a b\n"
        "  the rule is b: S(0) -> S(0); it is said to split 'b', and its inputs cut 'a'\n",
    ),
    (
        "a b -> a b",
        one,
        {"transform_rules": (Rule(("S(0)",), ("R",)),)},
        "the placements of a transform rule are not those of one split\n"
        "  a b -> a b\n"
        "  the rule is S(0) -> R; it cuts 'a', which output 0 has too, and places that as R\n",
    ),
]


@pytest.mark.parametrize(("annotation", "function", "options", "text"), OPTIONS)
def test_options_are_checked_when_registering(
    annotation: str, function: Any, options: dict[str, Any], text: str
) -> None:
    with pytest.raises(ds.DimsolveError) as raised:
        ds.register_op(annotation, **options)(function)
    assert str(raised.value).startswith(text)


def test_the_annotation_is_not_forgotten() -> None:
    with pytest.raises(ds.AnnotationError) as raised:
        ds.register_op(one)  # type: ignore[arg-type]
    assert str(raised.value) == (
        "register_op wants an annotation\n"
        "  'one' stands in its place\n"
        '  hint: write @ds.register_op("a b -> a b") above def one(...)'
    )


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (
            lambda: Rule("S(0)", "S(0)"),  # type: ignore[arg-type]
            "inputs is not a tuple of placements\n"
            "  inputs is 'S(0)', a str\n"
            "  hint: give one placement per tensor in a tuple: "
            'TransformRule(("S(0)", "R"), ("P(sum)",))',
        ),
        (lambda: Rule((5,), ("R",)), "an entry of a transform rule is not a placement\n"),  # type: ignore[arg-type]
        (lambda: Rule(("S(0)",), ("S(0)",), modifier=5), "modifier is not a function\n"),  # type: ignore[arg-type]
        (lambda: Rule(("S(0)",), ("S(0)",), local="f"), "local is not a function\n"),  # type: ignore[arg-type]
    ],
)
def test_rules_are_checked_when_they_are_made(make: Any, text: str) -> None:
    with pytest.raises(ds.AnnotationError) as raised:
        make()
    assert str(raised.value).startswith(text)
