"""Law: a value of the wrong type is an error that names the parameter, what came, what is expected.

Every parameter of every question is given every value; nothing but a `DimsolveError` comes out, and
what comes out can be printed.
"""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
import sympy
import torch

import dimsolve as ds
from dimsolve.solver.symbolic import sympy_symbol


class Unprintable:
    def __repr__(self) -> str:
        raise RuntimeError("no text")


VALUES: dict[str, Callable[[], Any]] = {
    "None": lambda: None,
    "nan": lambda: float("nan"),
    "inf": lambda: float("inf"),
    "1.5": lambda: 1.5,
    "True": lambda: True,
    "complex": lambda: 2j,
    "ellipsis": lambda: ...,
    "huge": lambda: 10**5000,
    "minus huge": lambda: -(10**5000),
    "bytes": lambda: b"ab",
    "bytearray": lambda: bytearray(b"ab"),
    "dict": lambda: {"a": 2},
    "set": lambda: {2, 3},
    "generator": lambda: (number for number in (2, 3)),
    "function": lambda: len,
    "class": lambda: int,
    "object": object,
    "unprintable": Unprintable,
    "nested": lambda: [[2]],
    "numpy float": lambda: np.float32(2),
    "numpy bool": lambda: np.bool_(True),
    "numpy array": lambda: np.array([2, 3]),
    "tensor": lambda: torch.ones(2),
    "scalar tensor": lambda: torch.tensor(3),
    "fraction": lambda: Fraction(2),
    "decimal": lambda: Decimal(2),
    "half": lambda: sympy.Rational(1, 2),
    "pi": lambda: sympy.pi,
    "infinity": lambda: sympy.oo,
    "foreign symbol": lambda: sympy.Symbol("x"),
    "foreign function": lambda: sympy.Function("f")(sympy_symbol("s")),
    "empty": lambda: "",
    "blank": lambda: "  ",
    "null byte": lambda: "a\0b",
    "minus sign": lambda: "s \u2212 1",
    "unfinished": lambda: "s +",
    "long": lambda: "9" * 5000,
    "deep": lambda: "(" * 5000,
}

PARAMETERS: dict[str, Callable[[Any], object]] = {
    "parse annotation": ds.parse,
    "infer annotation": lambda v: ds.infer(v, [(2,)]),
    "infer inputs": lambda v: ds.infer("a, b -> a b", v),
    "infer shape": lambda v: ds.infer("a b -> a", [v]),
    "infer dim": lambda v: ds.infer("a b -> a", [(v, 3)]),
    "infer arguments": lambda v: ds.infer("a b -> a", [(2, 3)], arguments=v),
    "infer argument": lambda v: ds.infer("a b -> a", [(None, 3)], arguments={"a": v}),
    "infer facts": lambda v: ds.infer("a b -> a", [(2, 3)], facts=v),
    "infer fact": lambda v: ds.infer("a b -> a", [(2, 3)], facts=[v]),
    "solutions limit": lambda v: ds.infer("(h t) -> h t", [(12,)]).solutions(v),
    "check split": lambda v: ds.check("a b -> a b", [(6, 4)], v, 2),
    "check index": lambda v: ds.check("a b -> a b", [(6, 4)], (v, 0), 2),
    "check dim": lambda v: ds.check("a b -> a b", [(6, 4)], (0, v), 2),
    "check parts": lambda v: ds.check("a b -> a b", [(6, 4)], "a", v),
    "check contiguous": lambda v: ds.check("a b -> a b", [(6, 4)], "a", 2, contiguous=v),
    "check value_split": lambda v: ds.check("a b -> a b", [(6, 4)], "a", 2, value_split=v),
    "check entry": lambda v: ds.check("a b -> a b", [(6, 4)], "a", 2, value_split=[v]),
    "check partial": lambda v: ds.check("a b -> a b", [(6, 4)], "a", 2, partial=v),
    "legal_parts up_to": lambda v: ds.legal_parts("a b -> a b", [(6, 4)], "a", up_to=v),
    "legal_parts contiguous": lambda v: ds.legal_parts("a -> a", [(6,)], "a", contiguous=v),
    "prove claim": ds.prove,
    "prove facts": lambda v: ds.prove("s >= 1", facts=v),
    "prove fact": lambda v: ds.prove("s >= 1", facts=[v]),
}

FINE = {
    "infer inputs": {"None"},
    "infer shape": {"None"},
    "infer dim": {"None", "scalar tensor"},
    "infer arguments": {"None", "dict"},
    "infer argument": {"scalar tensor"},
    "solutions limit": {"huge", "scalar tensor"},
    "check dim": {"huge", "minus huge", "scalar tensor"},
    "check parts": {"scalar tensor"},
    "check contiguous": {"True", "numpy bool"},
    "legal_parts up_to": {"None", "scalar tensor"},
    "legal_parts contiguous": {"True", "numpy bool"},
}
"""What is no mistake: an unknown length, what may be left out, a whole number of torch's."""


@pytest.mark.parametrize("parameter", PARAMETERS)
def test_every_parameter_refuses_every_wrong_value(parameter: str) -> None:
    accepted = set()
    for name, make in VALUES.items():
        try:
            str(PARAMETERS[parameter](make()))
            accepted.add(name)
        except ds.DimsolveError as error:
            assert str(error).strip() and error.diagnostic.reason, (parameter, name)
    assert accepted == FINE.get(parameter, set())


WHOLE = {
    "numpy integer": lambda: np.int64(2),
    "SymPy integer": lambda: sympy.Integer(2),
    "torch scalar": lambda: torch.tensor(2),
}


@pytest.mark.parametrize("make", WHOLE.values(), ids=WHOLE)
def test_whole_numbers_of_other_libraries_are_numbers(make: Callable[[], Any]) -> None:
    two = make()
    assert ds.infer("a b -> (a b)", [(two, 3)]).outputs == ((6,),)
    assert ds.infer("(a b) -> b", [(6,)], arguments={"a": two}).outputs == ((3,),)
    assert ds.check("a b -> a b", [(6, 4)], "a", two).verdict == "legal"
    assert ds.check("a b, c -> a b c", [(6, 4), (2,)], (make() - 1, 0), 2).split == "c"
    assert ds.legal_parts("a -> a", [(6,)], "a", up_to=two).up_to == 2


def test_torch_sizes_and_symbols_are_shapes() -> None:
    s = sympy_symbol("s")
    assert ds.infer("a b -> b a", [torch.Size([2, 3])]).outputs == ((3, 2),)
    assert ds.infer("a b -> b a", [torch.ones(2, 3).shape]).outputs == ((3, 2),)
    assert ds.infer("a b -> b a", [(s, 8 * s + 1)]).outputs == ((8 * s + 1, s),)
    assert ds.check("a -> a", [(8 * s,)], "a", s).verdict == "legal"
    half = ds.infer("a -> a", ["s//2"]).bindings["a"]
    assert ds.check("a -> a", ["s"], "a", half).conditions == ("s >= 2", "s % (s//2) == 0")


SAID: list[tuple[Callable[[], object], str]] = [
    (
        lambda: ds.parse(None),
        "annotation is not a text\n"
        "  annotation is None\n"
        "  hint: write it as in 'm k+, k+ n -> m n'",
    ),
    (
        lambda: ds.infer("a -> a", 3),
        "inputs is not a list of shapes\n"
        "  inputs is 3, an int\n"
        '  hint: give one shape per annotated input, such as ["8*s, k", (8, "k")]',
    ),
    (
        lambda: ds.infer("a -> a", "8*s"),
        "inputs is not a list of shapes\n"
        "  inputs is '8*s', a str\n"
        "  hint: a text is one shape; give a list of shapes: ['8*s']",
    ),
    (
        lambda: ds.infer("a -> a, a", [{"a": 2}]),
        "input 0 is not a shape\n"
        "  input 0 is {'a': 2}, a dict\n"
        '  hint: give a sequence such as (8, "k"), a text such as "8*s, k", or None',
    ),
    (
        lambda: ds.infer("a, b c -> a", [(2,), ("s", 3.5)]),
        "input 1, dim 1 is not a dimension\n"
        "  input 1, dim 1 is 3.5, a float\n"
        '  hint: give an int, a text such as "8*s", or a SymPy expression made by dimsolve',
    ),
    (
        lambda: ds.infer("a -> a", [(sympy.pi,)]),
        "this SymPy expression is not a dimension\n"
        "  input 0, dim 0 is pi: it is not made of integers, symbols, + - * **, and dimsolve's own "
        "functions\n"
        '  hint: write it as text ("8*s"), or make it of Symbol(name, integer=True, positive=True)',
    ),
    (
        lambda: ds.infer("a -> a", [(10**100,)]),
        "a number that is too long\n  input 0, dim 0 has more than 100 digits",
    ),
    (
        lambda: ds.infer("a -> a", [(2,)], arguments=[("a", 2)]),
        "arguments is not a mapping of names to lengths\n"
        "  arguments is [('a', 2)], a list\n"
        '  hint: give lengths by name, such as {"h": 8}',
    ),
    (
        lambda: ds.prove("s > 0", facts={"s": 2}),
        "facts is not a list of relations\n"
        "  facts is {'s': 2}, a dict\n"
        '  hint: give relations as text, such as ["k % 64 == 0", "s >= 2"]',
    ),
    (
        lambda: ds.prove(None),
        "claim is not a relation\n"
        "  claim is None\n"
        "  hint: write a relation as text, such as 'n*(n + 1) % 2 == 0'",
    ),
    (
        lambda: ds.check("a -> a", [(6,)], "a", 1.5),
        "parts is not a count\n"
        "  parts is 1.5, a float\n"
        '  hint: give a positive integer, or a dimension expression such as "n"',
    ),
    (
        lambda: ds.check("a -> a", [(6,)], "a", ""),
        "parts is not a count\n"
        "  parts is '', a str\n"
        '  hint: give a positive integer, or a dimension expression such as "n"',
    ),
    (
        lambda: ds.check("a, b -> a b", [(6,), (2,)], (5, 0), 2),
        "there is no such split\n"
        "  a, b -> a b\n"
        "  index 5 names no tensor: 0 to 1 are the inputs and 2 is the output\n"
        '  hint: name an identifier, such as "k", or give (index, dim)',
    ),
    (
        lambda: ds.check("* k -> * k", [(6, 4, 8)], "*", 2),
        "there is no such identifier\n"
        "  * k -> * k\n"
        "  '*' is no identifier of the annotation; its identifiers are k, a, b\n"
        "  hint: '*' stands for a, b here: split one of these",
    ),
    (
        lambda: ds.check("* k -> * k", [(8,)], "*", 2),
        "there is no such identifier\n"
        "  * k -> * k\n"
        "  '*' is no identifier of the annotation; its identifiers are k\n"
        "  hint: '*' stands for no dimension here: give inputs that have more",
    ),
    (
        lambda: ds.check("a, b -> a b", [(6,), (2,)], "a", 2, value_split=[2]),
        "an entry of value_split is not the number of an input\n"
        "  an entry of value_split is 2, an int\n"
        "  hint: inputs are counted from 0; there are 2",
    ),
    (
        lambda: ds.check("a -> a", [(6,)], "a", 2, partial="mean"),
        "partial is not one of sum, max, min, prod and avg\n  partial is 'mean', a str",
    ),
    (
        lambda: ds.legal_parts("a -> a", [(6,)], "a", up_to=0),
        "up_to is not a whole number from 1 to 10,000\n  up_to is 0, an int",
    ),
    (
        lambda: (
            ds.infer("a b c -> (a b c)", [", ".join([_sum("x"), _sum("y"), _sum("z")])]).outputs
        ),
        "the lengths are too large\n"
        "  a b c -> (a b c)\n"
        "  multiplied out they have too many terms or digits\n"
        "  hint: give smaller expressions, or one symbol for a whole length",
    ),
]


def _sum(name: str) -> str:
    return " + ".join(f"{name}{number}" for number in range(60))


@pytest.mark.parametrize(("ask", "text"), SAID, ids=[text.splitlines()[0] for _, text in SAID])
def test_words(ask: Callable[[], object], text: str) -> None:
    with pytest.raises(ds.DimsolveError) as caught:
        ask()
    assert str(caught.value) == text


def test_a_dimension_that_is_not_there_is_an_illegal_split_that_says_what_is() -> None:
    def reason(annotation: str, shape: tuple[int, ...], dim: int) -> str:
        legality = ds.check(annotation, [shape], (0, dim), 2)
        assert legality.verdict == "illegal"
        return legality.reason

    assert reason("a b -> a b", (6, 4), 7) == (
        "input 0 has no dimension 7: 'a b' has dimensions 0 to 1 (or -2 to -1)"
    )
    assert reason("a -> a", (6,), -2) == (
        "input 0 has no dimension -2: 'a' has only dimension 0 (or -1)"
    )
    assert reason("() -> ()", (), 0) == "input 0 has no dimension 0: '()' has none"


LOST_ARGUMENT = (
    "there is no such identifier\n"
    "  (h t) k -> h t k\n"
    "  an argument gives the length of 'H', which is no identifier of the annotation; its "
    "identifiers are h, t, k\n"
    "  hint: did you mean 'h'?"
)


@pytest.mark.parametrize(
    "ask",
    [
        lambda given: ds.infer("(h t) k -> h t k", ["8*s, k"], arguments=given),
        lambda given: ds.infer("(h t) k -> h t k", arguments=given),
        lambda given: ds.check("(h t) k -> h t k", ["8*s, k"], "h", 2, arguments=given),
        lambda given: ds.legal_parts("(h t) k -> h t k", ["8*s, k"], "h", arguments=given),
    ],
)
def test_an_argument_that_no_identifier_is_named_as_is_refused(ask: Any) -> None:
    with pytest.raises(ds.AnnotationError) as caught:
        ask({"H": 8})
    assert str(caught.value) == LOST_ARGUMENT
    assert ask({"h": 8}) is not None


LOST_NAME = (
    "a fact about a name that the question does not have\n"
    "  K % 8 == 0\n"
    "  ^~~~~~~~~~\n"
    "  'K % 8 == 0' speaks of 'K', which is not in the question and not connected with it by "
    "facts\n"
    "  hint: did you mean 'k'?"
)


@pytest.mark.parametrize(
    "ask",
    [
        lambda facts: ds.prove("k % 2 == 0", facts=facts),
        lambda facts: ds.infer("a b -> b a", ["k, 3"], facts=facts),
        lambda facts: ds.infer("k b -> b k", facts=facts),
        lambda facts: ds.infer("a b -> b a", [(None, 3)], arguments={"a": "k"}, facts=facts),
        lambda facts: ds.check("a b -> b a", ["k, 3"], "a", 2, facts=facts),
        lambda facts: ds.check("a b -> b a", ["s, 3"], "a", "k", facts=facts),
        lambda facts: ds.legal_parts("a b -> b a", ["k, 3"], "a", facts=facts),
    ],
)
def test_a_fact_whose_name_is_a_slip_for_one_of_the_question_is_refused(ask: Any) -> None:
    with pytest.raises(ds.AnnotationError) as caught:
        ask(["K % 8 == 0"])
    assert str(caught.value) == LOST_NAME
    assert ask(["k % 8 == 0"]) is not None
    assert ask(["k == 8*K", "K >= 2"]) is not None, "connected with the question"
    assert ask(["K % 8 == 0", "k % 8 == 0"]) is not None, "two names that are both meant"


@pytest.mark.parametrize(
    ("name", "is_one"),
    [
        ("Batch", True),
        ("bacth", True),
        ("btch", True),
        ("battch", True),
        ("bitch", True),
        ("ba_tch", True),
        ("batch2", False),
        ("batches", False),
        ("seq", False),
        ("b", False),
        ("latch", False),
    ],
)
def test_one_list_of_facts_serves_many_questions(name: str, is_one: bool) -> None:
    facts = [f"{name} % 8 == 0"]
    if is_one:
        with pytest.raises(ds.AnnotationError, match="did you mean 'batch'"):
            ds.prove("batch % 2 == 0", facts=facts)
    else:
        assert ds.prove("batch % 2 == 0", facts=facts).verdict == "refuted"


def test_names_with_numbers_and_endings_are_names_of_their_own() -> None:
    for one, other in (("seq1", "seq2"), ("seq_q", "seq_k"), ("d_in", "d_out"), ("h1w", "h2w")):
        assert ds.prove(f"{one} >= 1", facts=[f"{other} >= 2"]).verdict == "proved"


@pytest.mark.parametrize("dtype", ["float32", "int64"])
def test_of_a_tensor_the_shape_is_taken(dtype: str) -> None:
    tensor = torch.ones(2, 3, dtype=getattr(torch, dtype))
    for given in (tensor, tensor.numpy(), tensor.shape, tensor.to("meta"), "2, 3", "[2, 3]"):
        assert ds.infer("a b -> b a", [given]).outputs == ((3, 2),)
    assert ds.infer("() -> ()", [torch.tensor(3)]).outputs == ((),)
    with pytest.raises(ds.AnnotationError, match="input 0 is not a shape"):
        ds.infer("() -> ()", [tensor.numpy()[0, 0]])
