"""A graph as a picture: a line for every call, and beside it who uses what it makes.

    f    n, m
    o    input %x       float32[n, m]
    |-o  %y = exp(%x)   float32[n, m]
    +-o  add(%x, %y)    float32[n, m]

A long graph has a line for every module instead, and layers that are all the same are drawn once,
with their number.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass

from .graph import Graph
from .graph_text import argument_text, call_text
from .node import Node, Value, values_in
from .palette import FAINT, HUES
from .picture import EMPTY, Picture, badge, begun, clipped, column, row, table, words
from .sections import Section, runs_of, sections
from .svg import Element, number, path

_LINE_BY_LINE = 48
"""A graph of at most so many calls is drawn call by call."""
_MOST_LINES = 200
_LANE = 9.0
_LANES = 8
_HEIGHT = 22.0
_WIDTHS = 26, 46, 34
"""Letters of the columns: a notebook's cell is about 840 pixels wide, and cuts what is wider."""


@dataclass(frozen=True, slots=True)
class _Line:
    """One line: its cells, the values that it uses and those that it makes."""

    cells: tuple[Picture, ...]
    uses: frozenset[str]
    makes: frozenset[str]


def graph_svg(graph: Graph) -> str:
    """Returns the picture of a graph as SVG text."""
    called = [function for name, function in graph.functions.items() if name != graph.name]
    parts = [part for each in (graph, *called) for part in (_head(each), *_body(each))]
    picture = column(*parts, gap=12)
    return picture.card(f"graph {graph.name}", _description(graph))


def _head(graph: Graph) -> Picture:
    kinds = [entry.kind for entry in graph.inputs]
    counts = [_counted(len(graph.nodes()), "call")]
    counts += [
        _counted(kinds.count(kind), kind) for kind in ("parameter", "buffer") if kind in kinds
    ]
    return row(
        words(clipped(graph.name, 60), bold=True), words(", ".join(counts), fill=FAINT), gap=16
    )


def _counted(count: int, word: str) -> str:
    return f"{count} {word}" if count == 1 else f"{count} {word}s"


def _body(graph: Graph) -> list[Picture]:
    nodes = graph.nodes()
    inputs = [entry for entry in graph.inputs if entry.kind in ("input", "size")]
    held = [entry for entry in graph.inputs if entry.kind not in ("input", "size")]
    shown = [*inputs, *held] if len(held) <= 8 else inputs
    first = [
        _line(entry.kind, f"%{entry.value.name}", str(entry.value.type), (), (entry.value,))
        for entry in shown
    ]
    last = _line("return", argument_text(graph.result), "", values_in(graph.result), ())
    if len(nodes) <= _LINE_BY_LINE:
        return [_lines([*first, *(_call(node) for node in nodes), last])]
    return [
        _lines(first),
        *(_section(section) for section in sections(nodes, lambda node: node.module, _key)),
        _lines([last]),
    ]


def _line(kind: str, text: str, type: str, uses: Iterable[Value], makes: Iterable[Value]) -> _Line:
    cells = (
        words(clipped(kind, _WIDTHS[0]), size=12, fill=FAINT),
        words(clipped(text, _WIDTHS[1]), size=12),
        words(clipped(type, _WIDTHS[2]), size=12, fill=HUES[0]),
    )
    names = frozenset(value.name for value in uses), frozenset(value.name for value in makes)
    return _Line(cells, *names)


def _call(node: Node) -> _Line:
    made = ", ".join(f"%{value.name}" for value in node.outputs)
    types = ", ".join(str(value.type) for value in node.outputs)
    text = f"{made} = {call_text(node)}" if made else call_text(node)
    return _line(node.module, text, types, node.operands(), node.outputs)


def _key(node: Node, path: str) -> Hashable:
    return path, node.signature, tuple(str(value.type) for value in node.outputs)


def _section(section: Section[Node]) -> Picture:
    """The modules of a section, a line each."""
    lines = []
    for module, nodes in runs_of(section.items, lambda node: node.module):
        outputs = [value for node in nodes for value in node.outputs]
        last = str(outputs[-1].type) if outputs else ""
        used = [value for node in nodes for value in node.operands()]
        name = section.within(module) or ("the layer" if section.numbers else "the model")
        lines.append(
            _line(
                name,
                begun(names_text([node.name for node in nodes]), _WIDTHS[1]),
                last,
                used,
                outputs,
            )
        )
    if len(lines) > _MOST_LINES:
        more = _line("", f"and {len(lines) - _MOST_LINES} lines more", "", (), ())
        lines = [*lines[:_MOST_LINES], more]
    head = EMPTY
    if section.numbers:
        head = row(badge(f"{len(section.numbers)} times", HUES[4]), words(section.title, bold=True))
    return column(head, _lines(lines), gap=6)


def names_text(names: Sequence[str]) -> str:
    """Returns the names of some calls in short.

    >>> names_text(["linear"]), names_text(["view", "view", "transpose"])
    ('linear', '3 calls: view, transpose')
    """
    if len(names) == 1:
        return names[0]
    return f"{len(names)} calls: {', '.join(dict.fromkeys(names))}"


def _lines(lines: Sequence[_Line]) -> Picture:
    """The lines in columns; to their left an arc from what makes a value to all that use it."""
    texts = table([_tall(line) for line in lines], line_gap=0)
    arcs, width, left_out = _arcs(lines)
    note = EMPTY
    if left_out:
        note = words(f"{left_out} further values are used; no arcs show it", size=11, fill=FAINT)
    gutter = Picture(width, _HEIGHT * len(lines), tuple(arcs))
    return column(row(gutter, texts, gap=10, middle=False), note, gap=2)


def _tall(line: _Line) -> list[Picture]:
    return [
        Picture(cell.width, _HEIGHT, (cell.at(0, (_HEIGHT - cell.height) / 2),))
        for cell in line.cells
    ]


def _arcs(lines: Sequence[_Line]) -> tuple[list[Element], float, int]:
    spans = []
    for start, line in enumerate(lines):
        users = [n for n in range(start + 1, len(lines)) if lines[n].uses & line.makes]
        if users:
            spans.append((start, users))
    free: list[int] = []
    placed = []
    for start, users in spans:
        lane = next((n for n, end in enumerate(free) if end <= start), len(free))
        if lane == len(free):
            free.append(0)
        free[lane] = users[-1]
        placed.append((lane, start, users))
    width = _LANE * (min(len(free), _LANES) + 1)
    arcs = [_arc(width, *place) for place in placed if place[0] < _LANES]
    return arcs, width, sum(1 for lane, _, _ in placed if lane >= _LANES)


def _arc(right: float, lane: int, start: int, users: Sequence[int]) -> Element:
    """From below the middle of the line that makes a value to above the middle of those that use
    it, with an arrow at each.
    """
    x = number(right - _LANE * (lane + 1))
    end = number(right)
    first = number(_HEIGHT * (start + 0.5) + 4)
    last = number(_HEIGHT * (users[-1] + 0.5) - 4)
    points = [f"M{end} {first}H{x}V{last}"]
    for user in users:
        y = _HEIGHT * (user + 0.5) - 4
        points.append(f"M{x} {number(y)}H{end}m-4 -3l4 3l-4 3")
    return path("".join(points), stroke=HUES[lane % len(HUES)])


def _description(graph: Graph) -> str:
    arguments = ", ".join(
        f"%{entry.value.name}: {entry.value.type}"
        for entry in graph.inputs
        if entry.kind in ("input", "size")
    )
    results = ", ".join(f"%{name}: {value.type}" for name, value in graph.outputs.items())
    return f"{graph.name}({arguments}) of {len(graph.nodes())} calls returns {results}"
