"""Law: facts flow both ways through a graph; contradictions name both sides; nothing is
concluded that need not hold.
"""

from __future__ import annotations

import pytest
import torch

from dimsolve import Graph, ShapeError
from dimsolve.ir.types import TupleType
from dimsolve.solver.graphs.reading import read_type

HERE = "tests/solver/graphs/test_deduction.py"


def text(value: object) -> str:
    return str(value.type)  # type: ignore[attr-defined]


class TestBackward:
    """What a later call asks tells what an earlier value is."""

    def test_an_unknown_dimension_is_pinned_down_by_a_later_call(self) -> None:
        g = Graph()
        x = g.input("x", "n, ?", "float32")
        y = g.call("relu", x)
        g.call("torch.nn.functional.linear", y, g.input("w", "16, 8", "float32"))
        assert text(x) == "float32[n, 8]"

    def test_an_unknown_rank_is_told_by_a_permutation(self) -> None:
        g = Graph()
        x = g.input("x")
        g.call("permute", g.call("exp", x), (0, 2, 1))
        assert x.rank == 3

    def test_a_chain_of_unknown_values_is_told_at_once(self) -> None:
        g = Graph(strict=True)
        x = g.input("x")
        y = x
        for name in ("exp", "sin", "log", "relu"):
            y = g.call(name, y)
        g.call("ewise_mul", y, g.input("w", "n, 4", "float16"))
        assert text(x) == "float16[n, 4]"
        assert {text(node.output) for node in g.nodes()} == {"float16[n, 4]"}

    def test_concatenation_tells_the_other_dimensions(self) -> None:
        g = Graph()
        x = g.input("x", None, "float32")
        y = g.call("cat", [x, g.input("y", "n, m", "float32")], 0)
        assert x.rank == 2
        assert str(x.dims[1]) == "m"  # type: ignore[index]
        assert g.prove("m == m").verdict == "proved"
        assert y.rank == 2

    def test_equal_unknown_dimensions_stay_equal(self) -> None:
        g = Graph()
        x = g.input("x", "?, 4", "float32")
        y = g.call("mul", g.call("exp", x), x)
        assert y.dims == x.dims

    def test_a_refinement_flows_on(self) -> None:
        g = Graph()
        x = g.input("x", None, "float32")
        y = g.call("flatten", g.call("exp", x))
        g.refine(x, "n, m")
        assert text(y) == "float32[m*n]"

    def test_a_refinement_that_contradicts_is_refused(self) -> None:
        g = Graph()
        x = g.input("x", "n, 4", "float32")
        with pytest.raises(ShapeError) as caught:
            g.refine(x, "n, 5")
        assert str(caught.value) == "\n".join(
            [
                "%x dim 1 has two lengths",
                "  4 (the input x), but 5 (refinement of %x)",
            ]
        )


class TestUnknown:
    """Nothing is concluded that need not hold."""

    def test_only_the_dimension_that_is_not_known_is_lost(self) -> None:
        g = Graph()
        x = g.input("x", "n, ?, 8", "float32")
        y = g.call("transpose", x, 0, 2)
        assert y.dims is not None
        assert (str(y.dims[0]), str(y.dims[2])) == ("8", "n")

    def test_results_of_known_rank_have_it_whatever_the_input_is(self) -> None:
        g = Graph()
        x = g.input("x", None, "float32")
        assert text(g.call("sum", x)) == "float32[]"
        assert g.call("flatten", x).rank == 1
        assert text(g.call("reshape", x, (2, "n"))) == "float32[2, n]"
        assert text(g.call("sum", x, 0)) == "float32[*]"

    def test_dtypes_are_known_without_a_shape(self) -> None:
        g = Graph()
        x = g.input("x", None, "float16")
        assert g.call("gt", x, 0).dtype == "bool"
        assert g.call("argmax", x, 0).dtype == "int64"
        assert g.call("sum", g.input("y", None, "int32")).dtype == "int64"

    def test_a_function_without_an_annotation_gives_an_unknown_tensor(self) -> None:
        g = Graph()
        y = g.call("torch.a_function_of_tomorrow", g.input("x", "n", "float32"))
        assert text(y) == "?[*]"
        assert g.propagation.missing == {"torch.a_function_of_tomorrow": "no annotation is known"}

    def test_a_rank_that_is_possible_nowhere_is_refused(self) -> None:
        g = Graph()
        x = g.input("x", None, "float32")
        with pytest.raises(ShapeError):
            g.call("permute", x, (0, 1, 1))


class TestContradictions:
    """Both origins are named: operator, source line, tensor, dimension."""

    def test_two_lengths_of_one_identifier(self) -> None:
        g = Graph()
        x = g.input("x", "n, 8", "float32")
        y = g.call("relu", x)
        with pytest.raises(ShapeError) as caught:
            g.call("torch.nn.functional.linear", y, g.input("w", "16, 9", "float32"))
        lines = str(caught.value).splitlines()
        assert lines[0].startswith(f"linear at {HERE}:")
        assert lines[0].endswith(": k has two lengths")
        assert lines[3] == "  k = 8 (%relu dim 1), but k = 9 (%w dim 1)"
        assert lines[4].startswith(f"  %relu: float32[n, 8] is made by relu at {HERE}:")
        assert lines[5] == "  %w: float32[16, 9] is the input w"

    def test_conditions_that_exclude_each_other(self) -> None:
        g = Graph()
        x = g.input("x", "n", "float32")
        g.match_shape(x, "2*k")
        with pytest.raises(ShapeError) as caught:
            g.match_shape(x, "2*j + 1")
        assert "n" in str(caught.value)
        assert "match_shape at" in str(caught.value)

    def test_sizes_that_break_a_condition_name_where_it_is_needed(self) -> None:
        g = Graph()
        g.call("matmul", g.input("a", "n, k", "float32"), g.input("b", "l, m", "float32"))
        with pytest.raises(ShapeError) as caught:
            g.evaluate({"n": 1, "k": 2, "l": 3, "m": 4})
        assert f"k == l is needed by matmul at {HERE}:" in str(caught.value)
        assert str(caught.value).endswith("it fails at k = 2, l = 3")

    def test_a_graph_that_refused_a_call_is_as_before(self) -> None:
        g = Graph()
        x = g.input("x", "n, 8", "float32")
        before = str(g), g.conditions, g.symbols
        with pytest.raises(ShapeError):
            g.match_shape(x, "k, k, k")
        with pytest.raises(ShapeError):
            g.call("view", x, (3, 7, 0))
        assert (str(g), g.conditions, g.symbols) == before

    def test_strict_dtypes_name_both(self) -> None:
        g = Graph(strict=True)
        x, y = g.input("x", "n", "float32"), g.input("y", "n", "float16")
        with pytest.raises(ShapeError) as caught:
            g.call("add", x, y)
        assert "%x is float32, %y is float16" in str(caught.value)


class TestSizes:
    """Integers computed from shapes are symbols like any other."""

    def test_sizes_stay_exact_through_arithmetic(self) -> None:
        g = Graph()
        x = g.input("x", "n, m", "float32")
        rows, columns = g.shape_of(x)
        half = columns * 2 // 4
        assert text(half) == "int m//2"
        assert text(rows + 1 - columns) == "int -m + n + 1"
        assert text(g.call("torch.zeros", rows * columns)) == "float32[m*n]"
        assert text(rows / 2) == "float"
        assert text(g.call("_operator.gt", rows, 0)) == "bool 1"

    def test_comparisons_that_depend_are_not_decided(self) -> None:
        g = Graph()
        rows = g.shape_of(g.input("x", "n", "float32"))[0]
        assert text(g.call("_operator.gt", rows, 3)) == "bool"

    def test_a_shape_can_be_sliced_and_unpacked(self) -> None:
        g = Graph()
        size = g.shape_of(g.input("x", "n, m, 8", "float32"))
        assert text(size[1:]) == "shape(m, 8)"
        assert [text(part) for part in size] == ["int n", "int m", "int 8"]


class TestQuestions:
    """A graph answers at any time."""

    def test_dimensions_claims_and_evaluation(self) -> None:
        g = Graph(facts=["n % 8 == 0"])
        x = g.input("x", "n, m", "float32")
        y = g.call("view", x, (8, -1))
        assert str(g.dim(y, 1)) == "m*n/8" or str(g.dim(y, 1)) == "FloorDiv(m*n, 8)"
        assert g.conditions == ()
        assert g.prove("n*m == m*n").verdict == "proved"
        assert g.prove("n % 4 == 0").verdict == "proved"
        assert g.prove("m % 2 == 0").counterexample is not None
        assert g.evaluate({"n": 16, "m": 3})[y.name] == (8, 6)
        assert g.evaluate({"n": 16})[x.name] == (16, None)

    def test_facts_that_contradict_are_refused(self) -> None:
        g = Graph(facts=["n >= 4"])
        with pytest.raises(ShapeError):
            g.assume("n <= 3")
        assert g.prove("n >= 4").verdict == "proved"

    def test_repeated_calls_are_solved_once(self) -> None:
        g = Graph()
        x = g.input("x", "b, s, 64", "float32")
        w = g.input("w", "64, 64", "float32")
        for _ in range(20):
            x = g.call("relu", g.call("torch.nn.functional.linear", x, w))
        assert len(g.propagation.outcomes) == 2

    def test_types_print_and_read_back(self) -> None:
        g = Graph()
        parts = g.call("split", g.input("x", "n, 6", "float32"), 2, 1)
        type = TupleType(tuple(part.type for part in parts))
        assert str(type) == "(float32[n, 2], float32[n, 2], float32[n, 2])"
        assert read_type(str(type)) == type


def test_torch_functions_build_nodes() -> None:
    """A value can be given to torch's own functions."""
    g = Graph()
    x = g.input("x", "n, 8", "float32")
    y = torch.exp(x)
    z = torch.cat([x, y], dim=1) * 2 - y.graph.call("sum", y)
    assert [node.name for node in g.nodes()] == ["exp", "cat", "mul", "sum", "sub"]
    assert text(z) == "float32[n, 16]"
