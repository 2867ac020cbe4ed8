"""Laws: what a graph says of its symbols is what running it shows; what cannot be is refused where
it is written, in words.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from typing import Any

import pytest
import torch

from dimsolve import DimsolveError, Graph, ShapeError
from dimsolve.ir.expression import Comparison
from dimsolve.solver.algebra.poly import symbol
from dimsolve.solver.graphs.system import System
from dimsolve.solver.proof.claims import Claim


def read_again(graph: Graph) -> Graph:
    return Graph.from_json(json.loads(json.dumps(graph.to_json())))


# ---- names that stand for lengths


def matched() -> Graph:
    graph = Graph()
    z = graph.match_shape(graph.input("x", "3, k"), "3, q")
    graph.output(graph.call("reshape", z, ("q", -1)), graph.call("zeros", ("q",)))
    return graph


@pytest.mark.parametrize("graph", [matched(), read_again(matched())])
def test_a_bound_name_is_the_length_that_it_was_bound_to(graph: Graph) -> None:
    assert graph.conditions == () and graph.prove("q == k").verdict == "proved"
    for k in range(1, 7):
        first, second = graph.run(torch.zeros(3, k))
        sizes = graph.evaluate({"k": k})
        assert sizes["reshape"] == first.shape and sizes["zeros"] == second.shape
        for q in range(1, 7):
            try:
                graph.evaluate({"k": k, "q": q})
            except ShapeError as error:
                assert q != k and f"q is k; it is given as {q}" in str(error)
            else:
                assert q == k


def test_a_pattern_of_two_new_names_is_a_condition() -> None:
    graph = Graph()
    graph.match_shape(graph.input("x", "n"), "a + b")
    assert graph.conditions == read_again(graph).conditions == ("n == a + b",)


def test_a_size_that_a_call_names_first_is_what_makes_it_possible() -> None:
    graph = Graph()
    graph.output(graph.call("reshape", graph.input("x", "n, m"), ("k", "n")))
    assert graph.conditions == () and graph.run(torch.zeros(2, 3)).shape == (3, 2)
    assert read_again(graph).run(torch.zeros(2, 3)).shape == (3, 2)


def test_an_equation_is_divided_by_nothing_that_may_be_zero() -> None:
    n, m, k = symbol("n"), symbol("m"), symbol("k")
    system = System(given={"n": "", "m": ""}, open={"k": ""})
    system.require(Claim((n - 1) * k, Comparison.EQ, (n - 1) * m), "a test")
    assert system.solved == {} and len(system.conditions) == 1
    system = System(given={"n": "", "m": ""}, open={"k": ""})
    system.require(Claim((n + 1) * k, Comparison.EQ, (n + 1) * m), "a test")
    assert system.solved == {"k": m}


def test_a_broadcast_of_unknown_ranks_runs() -> None:
    graph = Graph()
    x, y = graph.input("x", None, "float32"), graph.input("y", "?, m", "float32")
    z = graph.input("z", "?", "float32")
    first = graph.call("add", x, z)
    graph.output(first, graph.call("matmul", z, graph.call("matmul", y, graph.call("flatten", x))))
    found = graph.run(torch.ones(2, 2), torch.ones(1, 4), torch.ones(1))
    assert found[0].shape == (2, 2) and found[1].shape == ()


# ---- what is refused where it is written


def refusals() -> dict[str, tuple[Callable[[Graph], Any], str]]:
    return {
        "an operator": (
            lambda g: g.call("frobnicate", g.input("x", "n")),
            "no operator is named 'frobnicate'",
        ),
        "a slip": (lambda g: g.call("matmull", g.input("x", "n")), "did you mean 'matmul'?"),
        "an argument": (
            lambda g: g.call("matmul", g.input("x", "n")),
            "torch.matmul is called without other",
        ),
        "a text": (lambda g: g.call("exp", "x"), "torch.exp is given 'x'"),
        "a number": (lambda g: g.call("exp", 3), "torch.exp is given 3"),
        "a dtype": (lambda g: g.input("x", "n", "flot32"), "did you mean 'float32'?"),
        "a name": (lambda g: g.input("x y", "n"), "'x y' is no name of a value"),
        "itself": (lambda g: g.call(g, g.input("x", "n")), "main would call itself"),
        "a dimension": (lambda g: g.dim(g.input("x", "n"), 5), "%x has no dimension 5"),
        "a value": (lambda g: g.dim("nope", 0), "main has no value %nope"),
        "a view": (
            lambda g: g.call("reshape", g.input("x", "k"), ("k", 2, -1)),
            "-1 stands for no whole length",
        ),
    }


@pytest.mark.parametrize("name", refusals())
def test_what_cannot_be_is_refused_where_it_is_written(name: str) -> None:
    write, words = refusals()[name]
    with pytest.raises(DimsolveError) as caught:
        write(Graph())
    assert words in str(caught.value)


def test_a_graph_calls_no_graph_that_calls_it() -> None:
    outer, inner = Graph("outer"), Graph("inner")
    inner.output(inner.call("exp", inner.input("x", "n")))
    outer.output(outer.call(inner, outer.input("x", "n")))
    with pytest.raises(DimsolveError, match="inner would call itself through inner -> outer"):
        inner.call(outer, inner.values["x"])


def test_a_short_name_means_the_operator_that_takes_the_arguments() -> None:
    graph = Graph()
    windows = graph.call("unfold", graph.input("x", "n"), 0, 3, 2)
    image = graph.call("unfold", graph.input("y", "1, 2, 4, 5"), 2)
    for n in range(3, 8):
        assert graph.evaluate({"n": n})[windows.name] == torch.zeros(n).unfold(0, 3, 2).shape
    assert image.dims == torch.nn.functional.unfold(torch.zeros(1, 2, 4, 5), 2).shape


@pytest.mark.parametrize("call", [("split", 3), ("tensor_split", 2), ("unbind",)])
def test_as_many_tensors_as_only_running_tells_are_a_tuple(call: tuple[Any, ...]) -> None:
    graph = Graph()
    parts = graph.call(call[0], graph.input("x", "n", "float32"), *call[1:])
    graph.output(parts)
    assert str(parts.type) == "object tuple"
    assert isinstance(graph.run(torch.zeros(7)), tuple)


# ---- data that describe no graph


def changes() -> dict[str, tuple[Callable[[Any], None], str]]:
    def second(data: Any) -> None:
        kind = {"tensor": {"rank": 1, "dtype": "float32", "shape": ["n"]}}
        data["nodes"][0]["outputs"].append({"name": "zz", "type": kind})

    return {
        "kind": (lambda d: d["inputs"][0].update(kind="foo"), "main, input 0: an input is input"),
        "result": (lambda d: d.update(result="zzz"), "the output exp is %exp, which is not"),
        "outputs": (second, "makes 2 values, and it returns 1"),
        "value": (
            lambda d: d["nodes"][0].update(args=[{"value": "q"}]),
            "main, node 0: %q is made by nothing before",
        ),
        "nodes": (lambda d: d.update(nodes=7), "main: the data have another form than a graph's"),
        "name": (lambda d: d["inputs"][0].update(name=None), "main, input 0: None is no name"),
        "number": (lambda d: d["nodes"][0].update(id=7), "main, node 0: 7 is no name"),
        "missing": (lambda d: d["nodes"][0].pop("args"), "main, node 0: 'args' is missing"),
    }


@pytest.mark.parametrize("name", changes())
def test_data_of_no_graph_are_refused_with_their_place(name: str) -> None:
    graph = Graph()
    graph.output(graph.call("exp", graph.input("x", "n")))
    data = copy.deepcopy(graph.to_json())
    change, words = changes()[name]
    change(data)
    with pytest.raises(DimsolveError) as caught:
        Graph.from_json(json.loads(json.dumps(data)))
    assert words in str(caught.value)
