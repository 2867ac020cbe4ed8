"""Law: a call gives its result in the caller's symbols; what cannot be told is lost dimension
by dimension, and checked when it runs.
"""

from __future__ import annotations

import pytest
import torch

from dimsolve import DimsolveError, Graph, ShapeError


def split_heads() -> Graph:
    with Graph("split_heads") as f:
        x = f.input("x", "h*t", "float32")
        f.output(f.call("reshape", x, ("h", "t")))
    return f


def plus_two() -> Graph:
    """(n, m) -> (m + 2, n)"""
    with Graph("plus_two") as f:
        x = f.input("x", "n, m", "float32")
        pad = f.call("torch.nn.functional.pad", x, (0, 2))
        f.output(f.call("transpose", pad, 0, 1))
    return f


def test_a_product_is_solved_with_a_length_that_is_given() -> None:
    with Graph() as g:
        x = g.input("x", "768", "float32")
        y = g.call(split_heads(), x, h=12)
        g.output(y)
    assert str(y.type) == "float32[12, 64]"
    assert g.run(torch.ones(768)).shape == (12, 64)


def test_a_product_is_solved_with_symbols() -> None:
    g = Graph()
    y = g.call(split_heads(), g.input("x", "8*s", "float32"), h=8)
    assert str(y.type) == "float32[8, s]"
    assert g.conditions == ()


def test_a_product_that_is_not_whole_is_refused() -> None:
    g = Graph()
    with pytest.raises(ShapeError, match="split_heads cannot take this argument") as caught:
        g.call(split_heads(), g.input("x", "768", "float32"), h=5)
    assert "h*t" in str(caught.value) or "5*t" in str(caught.value)


def test_a_product_that_may_be_whole_is_a_condition() -> None:
    g = Graph()
    g.call(split_heads(), g.input("x", "s", "float32"), h=8)
    assert g.conditions == ("s % 8 == 0",)


def test_the_result_is_in_the_symbols_of_the_caller() -> None:
    g = Graph()
    y = g.call(plus_two(), g.input("x", "m, n", "float32"))
    assert str(y.type) == "float32[n + 2, m]"  # the callee's n is the caller's m


def test_one_unknown_dimension_loses_that_dimension_only() -> None:
    g = Graph()
    y = g.call(plus_two(), g.input("x", "10, ?", "float32"))
    assert y.dims is not None
    assert str(y.dims[1]) == "10"
    assert g.evaluate({})["plus_two"] == (None, 10)


def test_a_caller_that_knows_nothing_gets_a_check_in_the_callee() -> None:
    with Graph() as g:
        x = g.input("x", None, "float32")
        g.output(g.call(plus_two(), x))
    assert g.values["plus_two"].rank == 2
    assert g.run(torch.ones(3, 4)).shape == (6, 3)
    with pytest.raises(ShapeError) as caught:
        g.run(torch.ones(3, 4, 5))
    assert "input x does not have the shape that the graph expects" in str(caught.value)


def test_conditions_of_the_callee_are_the_callers_too() -> None:
    with Graph("halves") as f:
        x = f.input("x", "n", "float32")
        f.output(f.call("reshape", x, (2, -1)))
    assert f.conditions == ("n % 2 == 0",)
    g = Graph()
    g.call(f, g.input("a", "4*s", "float32"))
    assert g.conditions == ()
    g.call(f, g.input("b", "s", "float32"))
    assert g.conditions == ("s % 2 == 0",)
    with pytest.raises(ShapeError):
        g.call(f, g.input("c", "7", "float32"))


@pytest.mark.parametrize(
    ("shape", "dtype", "reason"),
    [
        ("n", "float32", "it is float32[n, m], the argument %a is float32[n]"),
        ("n, m", "float16", "it is float32, the argument %a is float16"),
    ],
)
def test_arguments_of_another_rank_or_dtype_are_refused(
    shape: str, dtype: str, reason: str
) -> None:
    g = Graph()
    with pytest.raises(ShapeError) as caught:
        g.call(plus_two(), g.input("a", shape, dtype))
    assert reason in str(caught.value)


def test_the_number_of_arguments_is_checked() -> None:
    g = Graph()
    with pytest.raises(ShapeError, match="plus_two takes 1, 2 given"):
        g.call(plus_two(), g.input("a", "n, m"), g.input("b", "n, m"))


def test_data_dependent_lengths_of_a_callee_are_new_symbols_in_the_caller() -> None:
    with Graph("distinct") as f:
        x = f.input("x", "n", "float32")
        f.output(f.match_shape(f.call("unique", x), "k"))
    with Graph() as g:
        a = g.call(f, g.input("a", "s", "float32"))
        b = g.call(f, g.input("b", "s", "float32"))
        g.output(a, b)
    assert a.dims != b.dims
    first, second = g.run(torch.tensor([1.0, 1.0]), torch.tensor([1.0, 2.0]))
    assert (first.shape, second.shape) == ((1,), (2,))


def test_a_shape_function_takes_shapes_to_shapes_without_data() -> None:
    shapes = plus_two().shape_function()
    assert [str(entry.value.type) for entry in shapes.inputs] == ["shape(n, m)"]
    assert shapes.run((10, 11)) == (13, 10)
    with pytest.raises(ShapeError):
        split_heads().shape_function().run((1, 2))


def test_there_is_no_shape_function_where_a_length_depends_on_data() -> None:
    with Graph("distinct") as f:
        x = f.input("x", "n", "float32")
        f.output(f.call("unique", x))
    with pytest.raises(DimsolveError) as caught:
        f.shape_function()
    assert str(caught.value) == "\n".join(
        [
            "distinct has no shape function",
            "  %unique has the length _unique_u, which depends on data",
            "  hint: the safety net holds: the shapes are looked up where the graph runs",
        ]
    )


def test_a_subgraph_that_becomes_a_function_keeps_what_was_known() -> None:
    with Graph("whole") as g:
        x = g.input("x", "n, 8", "float32")
        w = g.input("w", "16, 8", "float32")
        a = g.call("torch.nn.functional.linear", x, w)
        b = g.call("relu", a)
        c = g.call("exp", b)
        g.output(c)
    before = {name: str(value.type) for name, value in g.values.items()}
    given = torch.rand(3, 8), torch.rand(16, 8)
    wanted = g.run(*given)
    node = g.outline([g.node("linear"), g.node("relu")], "fused")
    g.verify()
    assert node.signature == "fused"
    assert [n.signature for n in g.nodes()] == ["fused", "torch.exp"]
    assert {name: str(value.type) for name, value in g.values.items()}.items() <= before.items()
    assert [str(e.value.type) for e in g.functions["fused"].inputs] == [
        "float32[n, 8]",
        "float32[16, 8]",
    ]
    torch.testing.assert_close(g.run(*given), wanted)
    back = Graph.from_json(g.to_json())
    assert str(back) == str(g)


def test_replacing_a_call_keeps_the_types_of_its_results() -> None:
    """After a high-level call is lowered to one that says less, its shape is still known."""
    with Graph() as g:
        x = g.input("x", "n, 8", "float32")
        a = g.call("relu", x)
        b = g.call("exp", a)
        g.output(b)
    g.replace(g.node("relu"), "my_kernels.relu", x)
    g.verify()
    assert [n.signature for n in g.nodes()] == ["my_kernels.relu", "torch.exp"]
    assert str(g.nodes()[0].output.type) == "float32[n, 8]"
    assert str(b.type) == "float32[n, 8]"


def test_replacing_a_call_by_one_of_another_shape_is_refused() -> None:
    g = Graph()
    x = g.input("x", "n, 8", "float32")
    g.output(g.call("relu", x))
    with pytest.raises(ShapeError):
        g.replace(g.node("relu"), "torch.sum", x, 1)


def test_two_functions_of_one_name_are_refused() -> None:
    g = Graph()
    g.call(plus_two(), g.input("a", "n, m", "float32"))
    with pytest.raises(DimsolveError, match="two functions of one name"):
        g.call(plus_two(), g.input("b", "n, m", "float32"))


def test_nested_calls() -> None:
    inner = plus_two()
    with Graph("twice") as f:
        x = f.input("x", "a, b", "float32")
        f.output(f.call(inner, f.call(inner, x)))
    with Graph("outer") as g:
        y = g.call(f, g.input("z", "3, q", "float32"))
        g.output(y)
    assert str(y.type) == "float32[5, q + 2]"
    assert g.run(torch.ones(3, 4)).shape == (5, 6)
    assert str(Graph.from_json(g.to_json())) == str(g)
