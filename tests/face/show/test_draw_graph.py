"""The picture of a graph: a line for every call, an arc for every use, equal layers once."""

from __future__ import annotations

import re

import dimsolve as ds
from dimsolve.show.graph import sections
from tests.oracles.pictures import SPACE, placed, read_picture, texts


def chain(count: int) -> ds.Graph:
    """A graph of so many calls, each on the value before and on the input."""
    with ds.Graph("chain") as graph:
        value = x = graph.input("x", "n, 4", "float32")
        for _ in range(count):
            value = graph.call("torch.add", value, x)
        graph.output(value)
    return graph


def arcs(svg: str) -> set[tuple[int, int]]:
    """(line that makes a value, line that uses it), read off the drawn arcs."""
    found = set()
    for _, _, element in placed(read_picture(svg), 0, 0):
        if element.tag != f"{SPACE}path":
            continue
        points = element.attrib["d"]
        start = re.match(r"M\S+ (\S+)H", points)
        assert start is not None
        ends = re.findall(r"M\S+ (\S+)H\S+m-4", points)
        found |= {
            (round((float(start[1]) - 4) / 22 - 0.5), round((float(y) + 4) / 22 - 0.5))
            for y in ends
        }
    return found


def test_every_call_of_a_small_graph_has_a_line_with_its_type() -> None:
    shown = texts(read_picture(chain(3)._repr_svg_()))
    assert "%add_1 = add(%add, %x)" in shown
    assert shown.count("float32[n, 4]") == 4


def test_arcs_lead_from_what_makes_a_value_to_all_that_use_it() -> None:
    # line 0 is the input, 1 to 3 the calls, 4 the return
    assert arcs(chain(3)._repr_svg_()) == {(0, 1), (0, 2), (0, 3), (1, 2), (2, 3), (3, 4)}


def test_a_large_graph_is_summarised() -> None:
    svg = chain(3000)._repr_svg_()
    assert "3000 calls: add" in texts(read_picture(svg))
    assert len(svg) < 20_000


def test_the_picture_is_the_same_after_json() -> None:
    graph = chain(3)
    assert ds.Graph.from_json(graph.to_json())._repr_svg_() == graph._repr_svg_()


def test_functions_of_the_module_are_drawn_too() -> None:
    with ds.Graph("callee") as callee:
        x = callee.input("x", "n", "float32")
        callee.output(callee.call("torch.exp", x))
    with ds.Graph("caller") as caller:
        y = caller.input("y", "8", "float32")
        caller.output(caller.call(callee, y))
    shown = texts(read_picture(caller._repr_svg_()))
    assert "caller" in shown and "callee" in shown and "%exp = exp(%x)" in shown


def keyed(items: list[str]) -> list[tuple[str, tuple[str, ...]]]:
    """Sections of paths whose key is the path alone."""
    found = sections(items, str, lambda item, path: path.rstrip("!"))
    return [(section.title, section.items) for section in found]


def test_layers_with_other_keys_are_not_merged() -> None:
    assert keyed(["l.0.a", "l.1.a", "l.2.b", "l.3.b", "l.4.a"]) == [
        ("l.0 to 1", ("l.0.a",)),
        ("l.2 to 3", ("l.2.b",)),
        ("", ("l.4.a",)),
    ]


def test_what_has_no_module_stays_where_it_stands() -> None:
    assert keyed(["l.0.a", "", "l.1.a", "", "z"]) == [("l.0 to 1", ("l.0.a", "")), ("", ("z",))]


def test_an_empty_list_has_no_sections() -> None:
    assert keyed([]) == []
