"""Law: the programs of the shape computation design are built, typed as its text says or more
precisely, and run.

What the design calls `R.Tensor[(n, m * 2), "f32"]` is `float32[n, 2*m]` here; `_` is `?` or `*`.
"""

from __future__ import annotations

import pytest
import torch

from dimsolve import Graph, ShapeError


def types(graph: Graph) -> dict[str, str]:
    return {name: str(value.type) for name, value in graph.values.items()}


def named(graph: Graph, value: object, name: str) -> object:
    graph.rename(value, name)  # type: ignore[arg-type]
    return value


def test_g0_symbolic_shapes() -> None:
    with Graph("shape_example") as g:
        x = g.input("x", "n, m, 2", "float32")
        lv0 = named(g, g.call("reshape", x, ("n", "m*2")), "lv0")
        lv1 = named(g, g.call("flatten", lv0), "lv1")
        g.output(lv1)
    assert types(g) == {
        "x": "float32[n, m, 2]",
        "lv0": "float32[n, 2*m]",
        "lv1": "float32[2*m*n]",
    }
    assert g.conditions == ()
    assert g.run(torch.ones(3, 5, 2)).shape == (30,)


def known_computed_and_unknown() -> Graph:
    with Graph("shape_example") as g:
        x = g.input("x", "n, 2, 2", "float32")
        lv0 = named(g, g.call("reshape", x, ("n", 4)), "lv0")
        lv1 = named(g, g.call("flatten", lv0), "lv1")
        lv2 = named(g, g.shape("n*4"), "lv2")
        lv3 = named(g, g.external("myshape_func", lv2), "lv3")
        lv4 = named(g, g.external("custom_func", lv1, shape=lv3, dtype="float32"), "lv4")
        lv5 = named(g, g.call("unique", lv4), "lv5")
        lv6 = named(g, g.match_shape(lv5, "m"), "lv6")
        g.output(named(g, g.call("exp", lv6), "gv0"))
    return g


def test_v0_known_v1_computed_v2_unknown() -> None:
    assert types(known_computed_and_unknown()) == {
        "x": "float32[n, 2, 2]",
        "lv0": "float32[n, 4]",
        "lv1": "float32[4*n]",
        "lv2": "shape(4*n)",
        "lv3": "shape(*)",
        "lv4": "float32[%lv3]",
        "lv5": "float32[m]",  # the text says `_`: the pattern that follows tells it
        "lv6": "float32[m]",
        "gv0": "float32[m]",
    }


def test_before_the_pattern_a_data_dependent_length_is_a_symbol_of_its_own() -> None:
    with Graph() as g:
        lv4 = g.input("lv4", None, "float32")
        lv5 = g.call("unique", lv4)
        g.output(lv5)
    assert str(lv5.type) == "float32[_unique_u]"
    assert g.dim(lv5, 0) is not None
    assert g.evaluate({})["unique"] == (None,)


def test_the_program_of_three_cases_runs() -> None:
    externals = {"myshape_func": lambda s: (s[0] - 1,), "custom_func": lambda x: x[:-1]}
    x = torch.arange(12.0).reshape(3, 2, 2) % 5
    result = known_computed_and_unknown().run(x, externals=externals)
    torch.testing.assert_close(result, torch.arange(5.0).exp())


def test_an_external_function_that_breaks_its_word_is_caught_when_it_runs() -> None:
    externals = {"myshape_func": lambda s: (s[0] - 1,), "custom_func": lambda x: x[:-2]}
    with pytest.raises(ShapeError, match="does not have the shape") as caught:
        known_computed_and_unknown().run(torch.zeros(3, 2, 2), externals=externals)
    assert "%lv4" in str(caught.value)


def no_shape() -> Graph:
    with Graph("shape_example") as g:
        x = g.input("x")
        lv0 = named(g, g.call("log", x), "lv0")
        lv1 = named(g, g.call("flatten", lv0), "lv1")
        lv2 = named(g, g.match_shape(lv1, "m"), "lv2")
        g.output(named(g, g.call("exp", lv2), "gv0"))
    return g


def test_d0_nothing_is_known_until_a_pattern_brings_it_back() -> None:
    assert types(no_shape()) == {
        "x": "?[*]",
        "lv0": "?[*]",
        "lv1": "?[m]",  # the text says `_`: a flattened tensor has one dimension
        "lv2": "?[m]",
        "gv0": "?[m]",
    }


@pytest.mark.parametrize("shape", [(), (4,), (2, 3), (2, 1, 3, 2)])
def test_d0_the_safety_net_runs_at_any_rank(shape: tuple[int, ...]) -> None:
    x = torch.rand(shape) + 1
    torch.testing.assert_close(no_shape().run(x), x.flatten())


def test_a0_a_later_operator_tells_the_shape_and_dtype_of_an_earlier_input() -> None:
    with Graph("before", strict=True) as g:
        x = g.input("x")
        y = g.input("y", "m, n", "float32")
        lv0 = g.call("log", x)
        assert types(g)["x"] == "?[*]"
        assert types(g)["log"] == "?[*]"
        gv0 = g.call("ewise_add", lv0, y)
        g.output(gv0)
    assert types(g) == {
        "x": "float32[m, n]",
        "y": "float32[m, n]",
        "log": "float32[m, n]",
        "ewise_add": "float32[m, n]",
    }


def test_a0_without_strict_dtypes_the_logarithm_may_be_of_whole_numbers() -> None:
    with Graph("before") as g:
        x = g.input("x")
        g.output(g.call("ewise_add", g.call("log", x), g.input("y", "m, n", "float32")))
    assert str(x.type) == "?[m, n]"


def test_a_broadcast_tells_nothing_of_an_unknown_operand_and_goes_through_a_shape_call() -> None:
    """torch.add broadcasts: x may be (m, n), (n,), (1, n) or a number, so no shape may be
    concluded.
    """
    with Graph("f") as g:
        x = g.input("x", None, "float32")
        y = g.input("y", "m, n", "float32")
        g.output(g.call("add", x, y))
    assert str(x.type) == "float32[*]"
    assert str(g.values["add"].type) == "float32[broadcast_shapes(%x, (m, n))]"
    for shape in [(), (4,), (3, 1), (3, 4), (2, 3, 4)]:
        left, right = torch.rand(shape), torch.rand(3, 4)
        torch.testing.assert_close(g.run(left, right), left + right)


class TestMatchShape:
    """A pattern binds symbols that it sees first, and asserts the rest."""

    def test_a_symbol_seen_first_is_bound_to_what_stands_there(self) -> None:
        g = Graph()
        x = g.input("x", "n, m", "float32")
        flat = g.call("flatten", x)
        matched = g.match_shape(flat, "k")
        assert str(matched.type) == "float32[m*n]"
        assert g.prove("k == n*m").verdict == "proved"
        assert g.conditions == ()

    def test_what_is_known_is_proved_away(self) -> None:
        g = Graph()
        x = g.input("x", "n, m, 2", "float32")
        g.match_shape(g.call("flatten", x), "2*n*m")
        assert g.conditions == ()

    def test_what_can_never_match_is_refused_when_it_is_built(self) -> None:
        g = Graph()
        x = g.input("x", "n, 4", "float32")
        with pytest.raises(ShapeError) as caught:
            g.match_shape(x, "k, 5")
        text = str(caught.value)
        assert "match_shape at tests/solver/graphs/test_deduction_seed.py:" in text
        assert "the pattern (k, 5) can never match\n  dim 1: 5 is never 4" in text
        assert text.endswith("%x: float32[n, 4] is the input x")

    def test_a_pattern_of_another_rank_is_refused(self) -> None:
        g = Graph()
        x = g.input("x", "n, 4", "float32")
        with pytest.raises(ShapeError, match=r"the pattern \(k,\) can never match"):
            g.match_shape(x, "k")

    def test_the_rest_is_checked_when_it_runs_naming_the_pattern(self) -> None:
        with Graph() as g:
            x = g.input("x", "n, m", "float32")
            g.output(g.match_shape(x, "k, k"))
        assert g.conditions == ("m == n",)
        assert g.run(torch.ones(3, 3)).shape == (3, 3)
        with pytest.raises(ShapeError, match="m == n is needed by match_shape"):
            g.run(torch.ones(3, 4))

    def test_a_pattern_of_a_data_dependent_shape_is_checked_when_it_runs(self) -> None:
        with Graph() as g:
            x = g.input("x", "n", "float32")
            g.output(g.match_shape(g.call("unique", x), "2*k"))
        assert g.run(torch.tensor([1.0, 2.0, 1.0])).shape == (2,)
        with pytest.raises(ShapeError) as caught:
            g.run(torch.tensor([1.0, 2.0, 3.0]))
        assert "2*k" in str(caught.value)

    def test_a_shape_is_matched_as_a_tensor_is(self) -> None:
        with Graph() as g:
            x = g.input("x", "n, 8", "float32")
            size = g.shape_of(x)
            matched = g.match_shape(size, "b, 2*c")
            g.output(matched)
        assert str(matched.type) == "shape(n, 8)"
        assert g.prove("c == 4").verdict == "proved"
        assert g.run(torch.ones(5, 8)) == (5, 8)

    def test_products_in_a_pattern_are_solved(self) -> None:
        g = Graph()
        x = g.input("x", "12, 768", "float32")
        g.match_shape(x, "h, h*t")
        assert g.prove("t == 64").verdict == "proved"

    def test_an_unknown_dimension_of_a_pattern_keeps_what_was_known(self) -> None:
        g = Graph()
        x = g.input("x", "n, 4", "float32")
        assert str(g.match_shape(x, "?, 4").type) == "float32[n, 4]"

    def test_a_pattern_brings_a_value_of_unknown_rank_back(self) -> None:
        g = Graph()
        x = g.input("x", None, "float32")
        y = g.match_shape(x, "n, m")
        assert str(g.call("matmul", y, g.input("w", "m, 8", "float32")).type) == "float32[n, 8]"
