"""What cannot be registered is refused in designed words, that say what to write instead."""

from __future__ import annotations

import types
from typing import Any

import pytest
import torch
from torch import Tensor

import dimsolve as ds
from dimsolve.ir.operator import operator_of, registered
from tests.exec import registered as functions


def two(x: Tensor, w: Tensor) -> Tensor:
    return x @ w


def three(x: Tensor, w: Tensor, bias: Tensor) -> Tensor:
    return x @ w + bias


def with_number(x: Tensor, h: int) -> Tensor:
    return x * h


def untyped(x, w: Tensor) -> Tensor:  # type: ignore[no-untyped-def]
    return x @ w


def all_untyped(x, w, h=8):  # type: ignore[no-untyped-def]
    return x @ w


class Holder:
    @staticmethod
    def method(x: Tensor) -> Tensor:
        return x


def local_function() -> Any:
    def inner(x: Tensor) -> Tensor:
        return x

    return inner


def of_main(x: Tensor) -> Tensor:
    return x


MAIN = types.FunctionType(of_main.__code__, {"__name__": "__main__", "Tensor": Tensor}, "of_main")
MAIN.__annotations__ = of_main.__annotations__
MAIN.__module__ = "__main__"

CASES: list[tuple[str, Any, dict[str, Any], str]] = [
    (
        "a -> a",
        lambda x: x,
        {},
        "a lambda cannot be an operator\n"
        "  the code of a plan calls its operators by name, and a lambda has none\n"
        "  hint: write `def name(x: torch.Tensor): ...` at the top of a module and register that",
    ),
    (
        "a -> a",
        local_function(),
        {},
        "a nested function cannot be an operator\n"
        "  'inner' is defined inside local_function, and the code of a plan imports its operators "
        "from a module\n"
        "  hint: move 'inner' to the top of a module",
    ),
    (
        "a -> a",
        Holder.method,
        {},
        "a nested function cannot be an operator\n"
        "  'method' is defined inside Holder, and the code of a plan imports its operators from a "
        "module\n"
        "  hint: move 'method' to the top of a module",
    ),
    (
        "a -> a",
        MAIN,
        {},
        "a function of __main__ cannot be imported elsewhere\n"
        "  'of_main' is defined in the program that was started, and the ranks of a plan are "
        "others\n"
        "  hint: move 'of_main' to a module, "
        'or write code_impl_pattern="source" to copy its text',
    ),
    (
        "a -> a",
        torch.nn.Linear,
        {},
        "a torch.nn.Module cannot be an operator\n"
        "  'Linear' may hold weights, and those of a model are cut by its plan\n"
        "  hint: register the function that the module calls, with the weights among its arguments",
    ),
    (
        "a -> a",
        torch.nn.ReLU(),
        {},
        "a torch.nn.Module cannot be an operator\n"
        "  'ReLU' may hold weights, and those of a model are cut by its plan\n"
        "  hint: register the function that the module calls, with the weights among its arguments",
    ),
    (
        "a -> a",
        print,
        {},
        "this is not a function\n"
        "  <built-in function print> is of type builtin_function_or_method\n"
        "  hint: write a function at the top of a module that calls it, and register that",
    ),
    (
        "a -> a",
        3,
        {},
        "this is not a function\n"
        "  3 is of type int\n"
        "  hint: write a function at the top of a module that calls it, and register that",
    ),
    (
        "m k+, k+ n -> m n",
        two,
        {"writes": ["y"]},
        "writes names no input\n"
        "  'y' is not an annotated input of 'two'; its inputs are x, w\n"
        "  hint: writes takes the names of parameters that the function writes to",
    ),
    (
        "a b, b -> a",
        two,
        {"writes": ["x", "w"]},
        "what a function writes to, it returns first\n"
        "  'two' writes to 2 inputs, and 'a b, b -> a' has 1 output\n"
        "  hint: return what is written to, itself and no copy, before other results",
    ),
    (
        "m k+, k+ n -> m n",
        untyped,
        {},
        "a type annotation is missing\n"
        "  parameter 'x' of 'untyped' has none, so it is not known what is a tensor\n"
        "  hint: write for instance `x: torch.Tensor`, `x: int` or `x: Optional[torch.Tensor]`",
    ),
    (
        "m k+, k+ n -> m n",
        all_untyped,
        {},
        "type annotations are missing\n"
        "  parameters 'x', 'w', 'h' of 'all_untyped' have none, so it is not known what is a "
        "tensor\n"
        "  hint: write for instance `x: torch.Tensor`, `x: int` or `x: Optional[torch.Tensor]`",
    ),
    (
        "m k+, k+ n, n, n -> m n",
        two,
        {},
        "the number of inputs does not match\n"
        "  m k+, k+ n, n, n -> m n\n"
        "  4 inputs annotated, and 'two' has 2 parameters: x, w\n"
        "  hint: annotate the first parameters, in order; leave out those at the end that are no "
        "tensors",
    ),
    (
        "m k -> m k",
        two,
        {},
        "the number of inputs does not match\n"
        "  m k -> m k\n"
        "  1 input is annotated, and 'w', the next parameter of 'two', is a tensor\n"
        "  hint: annotate 'w' too; '?' if it may only be replicated",
    ),
    (
        "m k, h -> m k",
        with_number,
        {},
        "a value that is no tensor has dimensions\n"
        "  m k, h -> m k\n"
        "  'h' is annotated for 'h: int' of 'with_number'\n"
        "  hint: write '?' for 'h', or leave it out if no tensor follows it",
    ),
    (
        "m k+, k+ n -> m n",
        two,
        {"partial": "mean"},
        "there is no such reduction\n"
        "  partial is 'mean'\n"
        "  hint: partial is one of sum, max, min, prod, avg: what joins the parts of a '+' split",
    ),
    (
        "m k+, k+ n -> m n",
        two,
        {"code_impl_pattern": "inline"},
        "there is no such code_impl_pattern\n"
        "  code_impl_pattern is 'inline'\n"
        '  hint: write "import" to import the function where it runs, "source" to copy its text',
    ),
    (
        "m k+, k+ n, n -> m n",
        three,
        {"value_split": ("b",)},
        "value_split names no input\n"
        "  'b' is not an annotated input of 'three'; its inputs are x, w, bias\n"
        "  hint: value_split takes the names of parameters that are summands, such as a bias",
    ),
    (
        "m k+, k+ n -> m n",
        two,
        {"transform_rules": ["S(0)"]},
        "this is not a transform rule\n"
        "  'S(0)' is of type str\n"
        '  hint: write TransformRule(("S(0)", "R"), ("P(sum)",))',
    ),
    (
        "m k+, k+ n -> m n",
        two,
        {"transform_rules": ds.TransformRule(("S(0)",), ("S(0)",))},
        "a transform rule fits no tensor\n"
        "  m k+, k+ n -> m n\n"
        "  the rule is S(0) -> S(0); it places 1 input and the annotation has 2\n"
        "  hint: give one placement per annotated tensor; the dim of S(dim) is one that it has",
    ),
    (
        "m k+, k+ n -> m n",
        two,
        {"transform_rules": (ds.TransformRule(("S(2)", "R"), ("S(0)",)),)},
        "a transform rule fits no tensor\n"
        "  m k+, k+ n -> m n\n"
        "  the rule is S(2), R -> S(0); it places input 0 as S(2), but it has 2 dimensions\n"
        "  hint: give one placement per annotated tensor; the dim of S(dim) is one that it has",
    ),
    (
        "m k+, k+ n -> m n",
        two,
        {"transform_rules": (ds.TransformRule(("R", "R"), ("P(sum)",)),)},
        "a transform rule fits no tensor\n"
        "  m k+, k+ n -> m n\n"
        "  the rule is R, R -> P(sum); no placement of it cuts a dimension at an identifier\n"
        "  hint: give one placement per annotated tensor; the dim of S(dim) is one that it has",
    ),
    (
        "m k+, k+ n -> m n",
        two,
        {"transform_rules": (ds.TransformRule(split="q"),)},
        "a transform rule fits no tensor\n"
        "  m k+, k+ n -> m n\n"
        "  the rule is q: as marked -> as marked; 'q' is not an identifier of the annotation\n"
        "  hint: give one placement per annotated tensor; the dim of S(dim) is one that it has",
    ),
]


@pytest.mark.parametrize(("annotation", "function", "options", "text"), CASES)
def test_refused(annotation: str, function: Any, options: dict[str, Any], text: str) -> None:
    before = registered()
    with pytest.raises(ds.OperatorError) as raised:
        ds.register_op(annotation, **options)(function)
    assert str(raised.value) == text
    assert registered() == before


def test_main_may_be_copied_or_emitted() -> None:
    for options in ({"code_impl_pattern": "source"}, {"emit_fn": lambda *_: "f(x)"}):
        registered_main = ds.register_op("a -> a", **options)(MAIN)  # type: ignore[arg-type]
        assert registered_main(torch.ones(2)).tolist() == [1, 1]


def test_an_annotation_that_cannot_be_read() -> None:
    with pytest.raises(ds.AnnotationError):
        ds.register_op("m k+, k n -> m n")(two)
    with pytest.raises(ds.AnnotationError) as raised:
        ds.register_op(3)(two)  # type: ignore[arg-type]
    assert str(raised.value) == (
        "this is not an annotation\n"
        "  3 is of type int\n"
        "  hint: give text, or a function of (*inputs, **kwargs) that returns it"
    )


def test_a_rule_that_splits_nothing() -> None:
    with pytest.raises(ds.OperatorError) as raised:
        ds.TransformRule(outputs=("R",))
    assert str(raised.value) == (
        "a transform rule splits nothing\n"
        "  it names no identifier and gives no placements of inputs\n"
        '  hint: give split="n", or all placements: TransformRule(("S(0)", "R"), ("P(sum)",))'
    )


def test_a_placement_that_cannot_be_read() -> None:
    with pytest.raises(ds.AnnotationError) as raised:
        ds.TransformRule(("S", "R"), ("P(sum)",))
    assert str(raised.value) == (
        "this is not a placement\n"
        "  'S' cannot be read\n"
        "  hint: write S(0), S(0, blocks=3), S(0, segments=4:1:1), R, or P(sum): sum, max, min, "
        "prod or avg"
    )


def _fails(*inputs: Any, **kwargs: Any) -> str:
    return inputs[7]  # type: ignore[no-any-return]


def _gives_a_number(*inputs: Any, **kwargs: Any) -> Any:
    return 7


def by_failing(x: Tensor) -> Tensor:
    return x


def by_number(x: Tensor) -> Tensor:
    return x


@pytest.mark.parametrize(
    ("annotate", "function", "text"),
    [
        (
            _fails,
            by_failing,
            "the annotation function failed\n"
            "  that of 'by_failing' raised IndexError: tuple index out of range\n"
            "  hint: it is called as (*inputs, **kwargs); inputs are tensors, or None for absent "
            "ones",
        ),
        (
            _gives_a_number,
            by_number,
            "the annotation function gave no annotation\n"
            "  that of 'by_number' returned 7, of type int\n"
            "  hint: return text such as 'm k+, k+ n -> m n'",
        ),
    ],
)
def test_annotation_functions(annotate: Any, function: Any, text: str) -> None:
    operator = operator_of(ds.register_op(annotate)(function))
    assert operator is not None
    with pytest.raises(ds.OperatorError) as raised:
        operator.declare(torch.ones(2))
    assert str(raised.value) == text


def test_calls_that_do_not_fit() -> None:
    operator = operator_of(functions.matmul)
    assert operator is not None
    with pytest.raises(ds.OperatorError) as raised:
        operator.declare(torch.ones(2))
    assert str(raised.value) == (
        "'matmul' cannot be called like this\n  missing a required argument: 'w'"
    )


@ds.register_op("a -> a")
def with_anything(x: Tensor, other: Any = None) -> Tensor:
    return x


def test_a_tensor_where_none_is_annotated() -> None:
    operator = operator_of(with_anything)
    assert operator is not None
    with pytest.raises(ds.OperatorError) as raised:
        operator.declare(torch.ones(2), torch.ones(2))
    assert str(raised.value) == (
        "a tensor was given where none is annotated\n"
        "  a -> a\n"
        "  'other' of 'with_anything' is a tensor in this call\n"
        "  hint: annotate 'other'; '?' if it may only be replicated"
    )
