"""Inference: the design's own examples, and every error word for word."""

from __future__ import annotations

from itertools import permutations
from typing import Any

import pytest

from dimsolve.ir.errors import AnnotationError, DimsolveError, ShapeError
from dimsolve.solver.infer import infer
from dimsolve.solver.symbolic import sympy_symbol


def texts(values: dict[str, Any]) -> dict[str, str]:
    return {name: str(value) for name, value in values.items()}


ANSWERS: list[tuple[str, list[Any], dict[str, Any], list[str], dict[str, str], tuple[str, ...]]] = [
    # annotation, inputs, arguments, facts, bindings, conditions
    ("m k+, k+ n -> m n", ["4*s, k", "k, 16"], {}, [], {"m": "4*s", "k": "k", "n": "16"}, ()),
    ("(h t) k -> h t k", ["8*s, k"], {"h": 8}, [], {"h": "8", "t": "s", "k": "k"}, ()),
    (
        "(h t) k -> h t k",
        ["8*s, k"],
        {"h": 3},
        [],
        {"h": "3", "t": "8*s//3", "k": "k"},
        ("s % 3 == 0",),
    ),
    (
        "(h t) k -> h t k",
        ["8*s, k"],
        {},
        [],
        {"h": "h", "t": "8*s//h", "k": "k"},
        ("8*s % h == 0",),
    ),
    (
        "(h t), (h d), (t d) -> h t d",
        [(1024,), (512,), (2048,)],
        {},
        [],
        {"h": "16", "t": "64", "d": "32"},
        (),
    ),
    (
        "(h t), (h d), (t d) -> h",
        ["6*a", "10*a", "15"],
        {},
        [],
        {"h": "2*a", "t": "3", "d": "5"},
        (),
    ),
    ("(h t) -> h t", [(13,)], {}, ["h >= 2"], {"h": "13", "t": "1"}, ()),
    ("(h t) -> h t", ["n"], {}, ["h == 8", "n % 16 == 0"], {"h": "8", "t": "n//8"}, ()),
    ("(h t) -> h t", ["n"], {}, ["h*t == n", "h == 4"], {"h": "4", "t": "n//4"}, ("n % 4 == 0",)),
    ("(h t) -> h t", ["n"], {"h": "m"}, ["n == m*k"], {"h": "m", "t": "k"}, ()),
    ("(x x) -> x", ["4*s**2"], {}, [], {"x": "2*s"}, ()),
    ("(x x) -> x", ["s**2 + 2*s + 1"], {}, [], {"x": "s + 1"}, ()),
    ("a b -> b a", ["b, a"], {}, [], {"a": "b", "b": "a"}, ()),
    ("a b, b c -> a c", ["n, m", "k, j"], {}, [], {"a": "n", "b": "m", "c": "j"}, ("m == k",)),
    ("a b, b c -> a c", ["n, m", "k, j"], {}, ["k == m"], {"a": "n", "b": "m", "c": "j"}, ()),
    ("a 16 -> a", ["2, s"], {}, [], {"a": "2"}, ("s == 16",)),
    ("(h t) -> h t", ["8*h"], {}, [], {"h": "h_1", "t": "8*h//h_1"}, ("8*h % h_1 == 0",)),
    ("a, ? -> a, ?", ["s", None], {}, [], {"a": "s"}, ()),
    ("() -> ()", [()], {}, [], {}, ()),
    ("a b -> a b", [(0, 3)], {}, [], {"a": "0", "b": "3"}, ()),
]


@pytest.mark.parametrize(
    ("annotation", "inputs", "arguments", "facts", "bindings", "conditions"), ANSWERS
)
def test_answers(
    annotation: str,
    inputs: list[Any],
    arguments: dict[str, Any],
    facts: list[str],
    bindings: dict[str, str],
    conditions: tuple[str, ...],
) -> None:
    solution = infer(annotation, inputs, arguments=arguments, facts=facts)
    assert {name: str(dim) for name, dim in solution.values.items()} == bindings
    assert solution.conditions == conditions


@pytest.mark.parametrize("order", permutations(range(3)))
def test_the_order_of_inputs_never_matters(order: tuple[int, ...]) -> None:
    rows = [("(a b)", "24*n"), ("(b c)", "12*n"), ("c", "2*n")]
    annotation = ", ".join(rows[i][0] for i in order) + " -> a b c"
    solution = infer(annotation, [rows[i][1] for i in order])
    assert [str(dim) for dim in solution.outputs[0] or ()] == ["4*n", "6", "2*n"]


def test_star_is_written_out_with_fresh_names() -> None:
    solution = infer("* t -> a * t", [(2, 3, 4)], arguments={"a": 5})
    assert solution.outputs == ((5, 2, 3, 4),)
    assert solution.expansions == {"*": ("b", "c")}
    many = infer("* x -> * x", [tuple(range(1, 42))])
    assert len(set(many.expansions["*"])) == 40
    assert "x" not in many.expansions["*"]


def test_sympy_in_and_out() -> None:
    s, k = sympy_symbol("s"), sympy_symbol("k")
    assert infer("m k+, k+ n -> m n", [(8 * s, k), (k, s * k + 1)]).outputs == ((8 * s, s * k + 1),)


def test_without_inputs_the_identifiers_are_the_symbols() -> None:
    solution = infer("(h t) k+, k+ n -> h t n", arguments={"h": 4})
    assert [str(dim) for dim in solution.outputs[0] or ()] == ["4", "t", "n"]
    assert solution.free == ("t", "k", "n")


def test_unknown_dimensions_give_no_equation() -> None:
    solution = infer("a b, b c -> a c", [(None, "k"), None])
    assert texts(solution.bindings) == {"a": "a", "b": "k", "c": "c"}
    assert solution.free == ("a", "c")


def test_solutions_are_listed_where_they_are_finite() -> None:
    assert infer("(h t), (h d) -> h t d", [(12,), (18,)]).solutions() == (
        {"h": 1, "t": 12, "d": 18},
        {"h": 2, "t": 6, "d": 9},
        {"h": 3, "t": 4, "d": 6},
        {"h": 6, "t": 2, "d": 3},
    )
    assert infer("(h t) -> h t", [(12,)], facts=["h % 2 == 0", "t >= 2"]).solutions() == (
        {"h": 2, "t": 6},
        {"h": 4, "t": 3},
        {"h": 6, "t": 2},
    )
    assert infer("(h t) -> h t", ["8*s"]).solutions() is None
    assert infer("a -> a", ["s"]).solutions() == ({},)


def test_explain_gives_every_step_its_origin() -> None:
    solution = infer("(h t) k -> h t k", ["8*s, k"], arguments={"h": 3}, facts=["k >= 2"])
    assert solution.explain() == (
        "(h t) k -> h t k\n"
        "  fact k >= 2              speaks of the caller's k, not of the identifier\n"
        "  h = 3                    argument h\n"
        "  k = k                    input 0, dim 1\n"
        "  if s % 3 == 0            h*t = 8*s (input 0, dim 0) and h = 3 (argument h)\n"
        "  t = 8*s//3               h*t = 8*s (input 0, dim 0) and h = 3 (argument h)\n"
        "  -> (3, 8*s//3, k)"
    )


ERRORS: list[tuple[type[DimsolveError], str, Any, dict[str, Any], list[str], str]] = [
    (
        ShapeError,
        "(h t) k -> h t k",
        ["7, k"],
        {"h": 2},
        [],
        "t has no whole length\n"
        "  (h t) k -> h t k\n"
        "     ^\n"
        "  h*t = 7 (input 0, dim 0) and h = 2 (argument h); 7 is not a multiple of 2\n"
        "  hint: h can be 1 or 7",
    ),
    (
        ShapeError,
        "(h t) -> h t",
        ["2*s + 1"],
        {"h": 2},
        [],
        "t has no whole length\n"
        "  (h t) -> h t\n"
        "     ^\n"
        "  h*t = 2*s + 1 (input 0, dim 0) and h = 2 (argument h); 2*s + 1 is not a multiple of 2",
    ),
    (
        ShapeError,
        "(3 a b) -> a b",
        [(4,)],
        {},
        [],
        "a*b has no whole length\n"
        "  (3 a b) -> a b\n"
        "  ^~~~~~~\n"
        "  3*a*b = 4 (input 0, dim 0); 4 is not a multiple of 3",
    ),
    (
        ShapeError,
        "a b, b c -> a c",
        [(2, 3), (4, 5)],
        {},
        [],
        "b has two lengths\n"
        "  a b, b c -> a c\n"
        "    ^  ^\n"
        "  b = 3 (input 0, dim 1), but b = 4 (input 1, dim 0)",
    ),
    (
        ShapeError,
        "(a b), a, b -> a",
        [(24,), (2,), (8,)],
        {},
        [],
        "a*b has two lengths\n"
        "  (a b), a, b -> a\n"
        "  ^~~~~  ^  ^\n"
        "  a*b = 24 (input 0, dim 0), "
        "but a = 2 (input 1, dim 0) and b = 8 (input 2, dim 0) make it 16",
    ),
    (
        ShapeError,
        "(h t), (h d), (t d) -> h t d",
        [(2,), (3,), (5,)],
        {},
        [],
        "no whole lengths satisfy all dimensions\n"
        "  (h t), (h d), (t d) -> h t d\n"
        "  ^~~~~  ^~~~~  ^~~~~\n"
        "  no positive whole numbers satisfy h*t = 2 (input 0, dim 0) and h*d = 3 (input 1, dim 0) "
        "and t*d = 5 (input 2, dim 0)",
    ),
    (
        ShapeError,
        "(x x) -> x",
        [(8,)],
        {},
        [],
        "x has no whole length\n"
        "  (x x) -> x\n"
        "   ^\n"
        "  x**2 = 8 (x*x = 8 (input 0, dim 0)), and 8 is no whole number to the power of 2",
    ),
    (
        ShapeError,
        "a 16 -> a",
        [(2, 12)],
        {},
        [],
        "a dimension is not 16\n  a 16 -> a\n    ^~\n"
        "  input 0, dim 1 is 12, the annotation says 16",
    ),
    (
        ShapeError,
        "(a b) -> a b",
        [(0,)],
        {},
        [],
        "a hidden product is zero\n"
        "  (a b) -> a b\n"
        "  ^~~~~\n"
        "  a*b = 0 (input 0, dim 0) names no length of its factors\n"
        "  hint: a dimension of size 0 can only match an identifier that stands alone",
    ),
    (
        ShapeError,
        "a b -> a",
        [(2, 3, 4)],
        {},
        [],
        "input 0 has the wrong rank\n"
        "  a b -> a\n"
        "  ^~~\n"
        "  'a b' has 2 dimensions, input 0 has 3: (2, 3, 4)\n"
        "  hint: give 2 dimensions, or None where the shape is not known",
    ),
    (
        ShapeError,
        "* a b -> a",
        [(2,)],
        {},
        [],
        "input 0 has the wrong rank\n"
        "  * a b -> a\n"
        "  ^~~~~\n"
        "  '* a b' has at least 2 dimensions, input 0 has 1: (2,)\n"
        "  hint: '*' may stand for no dimension; each of the others needs a length",
    ),
    (
        ShapeError,
        "* a, * -> *",
        [(2, 3), (2, 3)],
        {},
        [],
        "'*' stands for different numbers of dimensions\n"
        "  * a, * -> *\n"
        "  ^~~  ^\n"
        "  '*' is 1 dimension in input 0 and 2 in input 1; it is the same dimensions everywhere",
    ),
    (
        ShapeError,
        "a, b -> a",
        [(2,)],
        {},
        [],
        "the number of inputs does not match\n"
        "  a, b -> a\n"
        "  2 inputs are annotated, 1 given\n"
        "  hint: give one shape per annotated input, and None for '?' or an absent tensor",
    ),
    (
        ShapeError,
        "a h -> a h",
        [(2, 4)],
        {"h": 0},
        [],
        "argument h is not a length\n"
        "  a h -> a h\n"
        "    ^\n"
        "  h = 0 (argument h) is not a positive integer; "
        "'h' is a length in the annotation, 4 at input 0, dim 1\n"
        "  hint: pass a positive integer or dimension text as h, or rename the identifier",
    ),
    (
        ShapeError,
        "a h -> a h",
        [(2, 4)],
        {"h": 8},
        [],
        "h has two lengths\n  a h -> a h\n    ^\n  h = 8 (argument h), but h = 4 (input 0, dim 1)",
    ),
    (
        AnnotationError,
        "a -> b",
        [(3,)],
        {},
        [],
        "the length of b is given by nothing\n"
        "  a -> b\n"
        "       ^\n"
        "  'b' stands in an output and in no input\n"
        "  hint: pass it as the argument b, write a number, or name it in an input",
    ),
    (
        ShapeError,
        "(h t) -> h t",
        [(24,)],
        {"h": 4},
        ["t % 4 == 0"],
        "a fact contradicts the inputs\n  (h t) -> h t\n  't % 4 == 0' is false for t = 6",
    ),
    (
        ShapeError,
        "(h t), (h d) -> h t d",
        ["s", "s + 1"],
        {"h": 2},
        [],
        "d has no whole length\n"
        "  (h t), (h d) -> h t d\n"
        "            ^\n"
        "  h*d = s + 1 (input 1, dim 0) and h = 2 (argument h); s + 1 is not a multiple of 2, "
        "where s % 2 == 0, which the other dimensions need",
    ),
    (
        AnnotationError,
        "a -> a",
        [(2.5,)],
        {},
        [],
        "input 0, dim 0 is not a dimension\n"
        "  input 0, dim 0 is 2.5, a float\n"
        '  hint: give an int, a text such as "8*s", or a SymPy expression made by dimsolve',
    ),
    (
        ShapeError,
        "a -> a",
        [(-2,)],
        {},
        [],
        "a dimension is negative\n"
        "  input 0, dim 0 is -2, less than 0\n"
        "  hint: a size is 0 or more; write an unknown dimension as None",
    ),
    (
        AnnotationError,
        "a -> a",
        [7],
        {},
        [],
        "input 0 is not a shape\n"
        "  input 0 is 7, an int\n"
        '  hint: give a sequence such as (8, "k"), a text such as "8*s, k", or None',
    ),
]


@pytest.mark.parametrize(("kind", "annotation", "inputs", "arguments", "facts", "text"), ERRORS)
def test_errors_word_for_word(
    kind: type[DimsolveError],
    annotation: str,
    inputs: Any,
    arguments: dict[str, Any],
    facts: list[str],
    text: str,
) -> None:
    with pytest.raises(kind) as caught:
        infer(annotation, inputs, arguments=arguments, facts=facts)
    assert str(caught.value) == text
