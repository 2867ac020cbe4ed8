"""Law: expressions mean what Python means by them, nothing is evaluated, and trees read back."""

from __future__ import annotations

import ast
from typing import assert_never

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dimsolve.ir import AnnotationError, read_dimension, read_relation, read_relations, read_shape
from dimsolve.ir.errors import Span
from dimsolve.ir.expression import Comparison, Expression, Literal, Name, Operation, Operator
from dimsolve.ir.read_expression import (
    MAX_CHARACTERS,
    MAX_DEPTH,
    MAX_DIGITS,
    MAX_EXPONENT,
    MAX_HEIGHT,
    MAX_OPERANDS,
    parse_dimension,
    parse_relations,
    parse_shape,
)
from tests.oracles.strategies import expression_trees, valid_texts

Tree = int | str | tuple[object, ...]


def tree_of(expression: Expression) -> Tree:
    match expression:
        case Literal(value):
            return value
        case Name(name):
            return name
        case Operation(operator, operands):
            return (operator.value, *(tree_of(operand) for operand in operands))
        case _:
            assert_never(expression)


PYTHON = {
    ast.Add: "+",
    ast.Sub: "-",
    ast.Mult: "*",
    ast.FloorDiv: "//",
    ast.Mod: "%",
    ast.Pow: "**",
    ast.USub: "neg",
    ast.Eq: "==",
    ast.NotEq: "!=",
    ast.LtE: "<=",
    ast.Lt: "<",
    ast.GtE: ">=",
    ast.Gt: ">",
}


def python_tree(node: ast.expr) -> Tree:
    """Returns the tree that Python's own grammar gives."""
    match node:
        case ast.Constant(value=int(value)):
            return value
        case ast.Name(id=name):
            return name
        case ast.UnaryOp(op=ast.UAdd(), operand=operand):
            return python_tree(operand)
        case ast.UnaryOp(op=op, operand=operand):
            return (PYTHON[type(op)], python_tree(operand))
        case ast.BinOp(left=left, op=op, right=right):
            return (PYTHON[type(op)], python_tree(left), python_tree(right))
        case ast.Call(func=ast.Name(id=name), args=operands):
            return (name, *map(python_tree, operands))
    raise AssertionError(ast.dump(node))


_SIGNS = st.sampled_from(("", "", "", "-", "+", "- -"))
_POWERS = st.sampled_from(("", "", "", "**2", "** 3"))


@st.composite
def flat_texts(draw: st.DrawFn, depth: int = 2) -> str:
    """Operands and operators in a row, with few brackets, so that precedence has work to do."""

    def operand() -> str:
        atom = draw(st.sampled_from(("a", "b", "s1", "0", "7", "64", "()", "min()")))
        if atom in ("()", "min()"):
            inner = draw(flat_texts(depth - 1)) if depth else "c"
            atom = f"({inner})" if atom == "()" else f"min({inner}, {inner})"
        return draw(_SIGNS) + atom + draw(_POWERS)

    text = operand()
    for _ in range(draw(st.integers(0, 4))):
        text += draw(st.sampled_from((" + ", "-", "*", " // ", "%"))) + operand()
    return text


@given(flat_texts())
def test_precedence_is_that_of_python(text: str) -> None:
    assert tree_of(parse_dimension(text)) == python_tree(ast.parse(text, mode="eval").body)


@given(flat_texts(1), st.lists(st.tuples(st.sampled_from(Comparison), flat_texts(1)), min_size=1))
def test_chains_of_comparisons_are_those_of_python(
    first: str, rest: list[tuple[Comparison, str]]
) -> None:
    text = first + "".join(f" {comparison.value} {side}" for comparison, side in rest)
    node = ast.parse(text, mode="eval").body
    assert isinstance(node, ast.Compare)
    sides = [python_tree(side) for side in (node.left, *node.comparators)]
    signs = [PYTHON[type(op)] for op in node.ops]
    relations = parse_relations(text)
    assert [(tree_of(r.left), r.comparison.value, tree_of(r.right)) for r in relations] == list(
        zip(sides, signs, sides[1:], strict=False)
    )
    for relation in relations:
        assert relation.text == text
        again = read_relation(text[slice(*relation.span)])
        assert (again.left, again.right) == (relation.left, relation.right)


@given(expression_trees())
def test_written_expressions_read_back_equal(expression: Expression) -> None:
    text = str(expression)
    again = parse_dimension(text)
    assert again == expression
    assert str(again) == text


@given(flat_texts())
def test_spans_point_at_what_they_were_read_from(text: str) -> None:
    todo = [parse_dimension(text)]
    while todo:
        expression = todo.pop()
        assert parse_dimension(text[slice(*expression.span)]) == expression
        if isinstance(expression, Operation):
            todo += expression.operands


WRITTEN = [
    # text, its tree, how it is written
    ("8*s", ("*", 8, "s"), "8*s"),
    ("-a//2", ("//", ("neg", "a"), 2), "-a//2"),
    ("a//2*2", ("*", ("//", "a", 2), 2), "a//2*2"),
    ("a*(b//2)", ("*", "a", ("//", "b", 2)), "a*(b//2)"),
    ("-a**2", ("neg", ("**", "a", 2)), "-a**2"),
    ("(-a)**2", ("**", ("neg", "a"), 2), "(-a)**2"),
    ("a-(b-c)", ("-", "a", ("-", "b", "c")), "a - (b - c)"),
    ("a-b-c", ("-", ("-", "a", "b"), "c"), "a - b - c"),
    ("a*-b", ("*", "a", ("neg", "b")), "a*-b"),
    ("--+a", ("neg", ("neg", "a")), "--a"),
    ("a%2*3", ("*", ("%", "a", 2), 3), "(a % 2)*3"),
    ("1+a%2", ("+", 1, ("%", "a", 2)), "1 + a % 2"),
    ("((a))", "a", "a"),
    ("007", 7, "7"),
    ("\u0664\u0662", 42, "42"),
    ("min", "min", "min"),
    ("min + max", ("+", "min", "max"), "min + max"),
    ("lambda", "lambda", "lambda"),
    ("\u03b1*\u957f", ("*", "\u03b1", "\u957f"), "\u03b1*\u957f"),
    ("a\u00a0+\n b", ("+", "a", "b"), "a + b"),
    ("min (a, b,3)", ("min", "a", "b", 3), "min(a, b, 3)"),
    ("Min(a, b)", ("min", "a", "b"), "min(a, b)"),
    ("Max(1, s0)", ("max", 1, "s0"), "max(1, s0)"),
    ("ceildiv(a, 2)", ("ceildiv", "a", 2), "ceildiv(a, 2)"),
    ("CeilDiv(a, 2)", ("ceildiv", "a", 2), "ceildiv(a, 2)"),
    ("Mod(a + 1, 8)", ("%", ("+", "a", 1), 8), "(a + 1) % 8"),
    ("mod(a, b)", ("%", "a", "b"), "a % b"),
    ("FloorDiv(s, 2)", ("//", "s", 2), "s//2"),
    ("floordiv(s, 2)", ("//", "s", 2), "s//2"),
    ("a**0", ("**", "a", 0), "a**0"),
    ("a**(2)", ("**", "a", 2), "a**2"),
]


@pytest.mark.parametrize(("text", "tree", "written"), WRITTEN)
def test_expressions_are_read_and_written(text: str, tree: Tree, written: str) -> None:
    expression = read_dimension(text)
    assert tree_of(expression) == tree
    assert str(expression) == written
    assert read_dimension(written) == expression


@pytest.mark.parametrize(
    ("text", "dims"),
    [
        ("8*s, k", ["8*s", "k"]),
        ("k", ["k"]),
        ("k,", ["k"]),
        ("", []),
        (" \n", []),
        ("()", []),
        ("( )", []),
        ("(8*s, k)", ["8*s", "k"]),
        ("(8*s, k,)", ["8*s", "k"]),
        ("(k,)", ["k"]),
        ("(k)", ["k"]),
        ("(a + b)*2, (c)", ["(a + b)*2", "c"]),
        ("(a), (b)", ["a", "b"]),
        ("(min(a, b))", ["min(a, b)"]),
        ("min(a, b)", ["min(a, b)"]),
        ("(min(a, b), c)", ["min(a, b)", "c"]),
        ("2, 3, 0", ["2", "3", "0"]),
    ],
)
def test_shapes_are_read(text: str, dims: list[str]) -> None:
    assert [str(dim) for dim in read_shape(text)] == dims


def test_relations_are_read() -> None:
    assert str(read_relation("k%64==0")) == "k % 64 == 0"
    assert [str(r) for r in read_relations("1<=s<=8")] == ["1 <= s", "s <= 8"]
    assert [str(r) for r in read_relations("a != b > c")] == ["a != b", "b > c"]
    relation = read_relation(" h*t ==n")
    assert (relation.comparison, relation.span, relation.text) == (
        Comparison.EQ,
        Span(1, 8),
        " h*t ==n",
    )


def test_recorded_claims_and_expressions_are_read() -> None:
    recorded = [text for text in valid_texts() if "->" not in text]
    assert len(recorded) > 300
    for text in recorded:
        if any(comparison.value in text for comparison in Comparison):
            for relation in read_relations(text):
                again = read_relation(str(relation))
                assert again == relation
        else:
            assert read_dimension(str(read_dimension(text))) == read_dimension(text)


def test_what_sympy_prints_is_read() -> None:
    from sympy import Max, Min, Symbol

    a, b = (Symbol(name, integer=True, positive=True) for name in "ab")
    for expression in (8 * a, a**2 - b, -a * (b + 1) ** 2, Min(a, b), Max(1, a - b)):
        tree = python_tree(ast.parse(str(expression).lower(), mode="eval").body)
        assert tree_of(read_dimension(str(expression))) == tree


@pytest.mark.parametrize(
    ("largest", "too_large", "code"),
    [
        ("a" * MAX_CHARACTERS, "a" * (MAX_CHARACTERS + 1), "text-too-long"),
        ("9" * MAX_DIGITS, "9" * (MAX_DIGITS + 1), "too-many-digits"),
        (f"a**{MAX_EXPONENT}", f"a**{MAX_EXPONENT + 1}", "bad-exponent"),
        ("((a**4)**4)**4", "((a**4)**4)**5", "power-too-large"),
        ("(" * MAX_DEPTH + "a" + ")" * MAX_DEPTH, "(" * (MAX_DEPTH + 1) + "a", "too-deep"),
        ("-" * MAX_DEPTH + "a", "-" * (MAX_DEPTH + 1) + "a", "too-deep"),
        ("a" + "*a" * MAX_HEIGHT, "a" + "*a" * (MAX_HEIGHT + 1), "too-many-operations"),
        ("a," * MAX_OPERANDS, "a," * (MAX_OPERANDS + 1), "too-many-operands"),
    ],
)
def test_limits_are_where_they_are_said_to_be(largest: str, too_large: str, code: str) -> None:
    parse_shape(largest)
    with pytest.raises(AnnotationError) as caught:
        parse_shape(too_large)
    assert caught.value.diagnostic.code == code


def test_the_largest_trees_can_be_compared_hashed_written_and_canonicalised() -> None:
    from dimsolve.solver.algebra.dims import from_expression

    long = "a" + "+a" * (MAX_HEIGHT - MAX_DEPTH)
    nested = "(1-" * MAX_DEPTH + long + ")" * MAX_DEPTH
    for text, value in (("a" + "+a" * MAX_HEIGHT, "129*a"), (nested, "-63*a")):
        expression = parse_dimension(text)
        assert expression == parse_dimension(str(expression))
        assert hash(expression) == hash(parse_dimension(text))
        assert str(from_expression(expression)) == value


def test_the_same_short_text_is_read_once() -> None:
    assert read_dimension("8*s") is read_dimension("8*s")
    assert read_shape("8*s, k") is read_shape("8*s, k")
    assert read_relations("k >= 2") is read_relations("k >= 2")
    assert parse_dimension("8*s") is not parse_dimension("8*s")


@pytest.mark.parametrize("read", [read_dimension, read_shape, read_relation, read_relations])
def test_text_is_required(read: object) -> None:
    with pytest.raises(AnnotationError) as caught:
        read(8)  # type: ignore[operator]
    assert str(caught.value) == (
        "the dimension, shape, fact or claim is not a text\n"
        "  the dimension, shape, fact or claim is 8, an int\n"
        "  hint: write it in the dimension language, such as '8*s' or 'k % 64 == 0'"
    )


def test_operators_and_comparisons_are_all_reachable() -> None:
    """Each operation and comparison of the closed sets is in the tables above."""
    found = {str(part) for row in WRITTEN for part in _flat(row[1])}
    assert {operator.value for operator in Operator} <= found


def _flat(tree: object) -> list[object]:
    return [part for item in tree for part in _flat(item)] if isinstance(tree, tuple) else [tree]


@pytest.mark.parametrize(
    "text",
    ["2, 3, s", "(2, 3, s)", "[2, 3, s]", "[2,3,s]", " [ 2, 3, s, ] ", "torch.Size([2, 3, s])"],
)
def test_a_shape_is_written_with_commas_in_any_brackets(text: str) -> None:
    assert [str(dim) for dim in read_shape(text)] == ["2", "3", "s"]


@pytest.mark.parametrize("text", ["", "()", "[]", "torch.Size([])"])
def test_the_shape_of_a_scalar_is_empty(text: str) -> None:
    assert read_shape(text) == ()


@pytest.mark.parametrize(
    ("text", "dims"),
    [
        ("2 3 4", "2, 3, 4"),
        ("2x3x4", "2, 3, 4"),
        ("2X3", "2, 3"),
        ("2 x s x 4", "2, s, 4"),
        ("2\u00d73", "2, 3"),
        ("b; s", "b, s"),
        ("(2 3)", "2, 3"),
        ("[2 3]", "2, 3"),
    ],
)
def test_dimensions_without_commas_are_refused_with_commas(text: str, dims: str) -> None:
    with pytest.raises(AnnotationError) as caught:
        read_shape(text)
    assert caught.value.diagnostic.hint == f"write commas between the dimensions: {dims}"
    assert caught.value.diagnostic.text == text
    assert ", ".join(str(dim) for dim in read_shape(dims)) == dims


@pytest.mark.parametrize(
    "text", ["[[2, 3]]", "[2, 3", "2, 3]", "[2], [3]", "torch.Size([2)]", "[2/3]"]
)
def test_brackets_that_hold_no_shape_are_refused(text: str) -> None:
    with pytest.raises(AnnotationError) as caught:
        read_shape(text)
    assert caught.value.diagnostic.text == text
