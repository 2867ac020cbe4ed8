"""A graph as a picture: a line for every call, and beside it who uses what it makes.

    f    n, m
    o    input %x       float32[n, m]
    |-o  %y = exp(%x)   float32[n, m]
    +-o  add(%x, %y)    float32[n, m]

A long graph has a line for every module instead, and layers that are all the same are drawn once,
with their number.

Repeated layers found: a long list of calls becomes a few sections, each written once.

model.embed_tokens, model.layers.0.mlp, model.layers.1.mlp, lm_head
    ""              embed_tokens     ""
    model.layers    mlp              layers 0, 1
    ""              lm_head          ""

Two layers are one section only where all their items have equal keys: what is drawn once is true
of each.

A graph as text: one line per node, each value with its type.

shape_example(%x: float32[n, m, 2]):
  %lv0: float32[n, m*2] = reshape(%x, (n, m*2))
  return %lv0

What is run again in the backward pass stands under a line that says so:

  checkpoint block(use_reentrant=False):
    %linear: float32[n, 8] = linear(%x, %w)
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass
from types import EllipsisType
from typing import TYPE_CHECKING, Any, Generic, TypeAlias, TypeVar

from dimsolve.ir.characters import visible
from dimsolve.ir.graph import (
    Argument,
    ExternalCall,
    FunctionCall,
    Graph,
    Input,
    MakeShape,
    MatchShape,
    Node,
    OperatorCall,
    Region,
    Value,
    values_in,
)
from dimsolve.ir.types import dims_text

from .picture import EMPTY, Picture, badge, begun, clipped, column, faint, row, table, words
from .svg import HUES, Element, number, path
from .terminal import COLOURS

if TYPE_CHECKING:
    from rich.text import Text

Item = TypeVar("Item")
Layer: TypeAlias = "tuple[str, int] | None"


@dataclass(frozen=True, slots=True)
class Section(Generic[Item]):
    """Items of the layers ``numbers`` of ``path``: those of the first one. Outside of repeated
    layers the path is "" and there are no numbers.
    """

    path: str
    numbers: tuple[int, ...]
    items: tuple[Item, ...]

    def within(self, module: str) -> str:
        """Returns the path of an item's module within its layer: ``mlp.gate_proj``."""
        return _within(module, (self.path, self.numbers[0]) if self.numbers else None)

    @property
    def title(self) -> str:
        """Which layers these are: ``model.layers.0 to 31``."""
        if not self.numbers:
            return ""
        first, last = self.numbers[0], self.numbers[-1]
        return f"{self.path}.{first} to {last}".removeprefix(".")


def sections(
    items: Iterable[Item],
    module: Callable[[Item], str],
    key: Callable[[Item, str], Hashable],
) -> list[Section[Item]]:
    """Returns the items in sections, in order.

    module: the path of an item. key: what must be equal in repeated layers; it is given the item's
    path within its layer.

    >>> found = sections(["a", "l.0.x", "l.1.x", "b"], str, lambda item, path: path)
    >>> [(section.title, section.items) for section in found]
    [('', ('a',)), ('l.0 to 1', ('l.0.x',)), ('', ('b',))]
    """
    merged: list[tuple[Layer, list[int], list[Item], list[Hashable]]] = []
    for layer, run in _runs(list(items), module):
        keys = [key(item, _within(module(item), layer)) for item in run]
        last = merged[-1] if merged else None
        if layer and last and last[0] and last[0][0] == layer[0] and last[3] == keys:
            last[1].append(layer[1])
        else:
            merged.append((layer, [layer[1]] if layer else [], run, keys))
    found: list[Section[Item]] = []
    for layer, numbers, run, _ in merged:
        if layer and len(numbers) > 1:
            found.append(Section(layer[0], tuple(numbers), tuple(run)))
        elif found and not found[-1].numbers:
            found[-1] = Section("", (), (*found[-1].items, *run))
        else:
            found.append(Section("", (), tuple(run)))
    return found


def runs_of(items: Iterable[Item], module: Callable[[Item], str]) -> list[tuple[str, list[Item]]]:
    """Returns the items in runs of one module each.

    >>> runs_of(["a.x", "a.x", "b"], str)
    [('a.x', ['a.x', 'a.x']), ('b', ['b'])]
    """
    runs: list[tuple[str, list[Item]]] = []
    for item in items:
        if not runs or runs[-1][0] != module(item):
            runs.append((module(item), []))
        runs[-1][1].append(item)
    return runs


def _runs(items: Sequence[Item], module: Callable[[Item], str]) -> list[tuple[Layer, list[Item]]]:
    """Runs of one layer each; an item without a module stays in the run that it stands in."""
    runs: list[tuple[Layer, list[Item]]] = []
    for item in items:
        path = module(item)
        layer = _layer(path)
        if runs and (layer == runs[-1][0] or not path):
            runs[-1][1].append(item)
        else:
            runs.append((layer, [item]))
    return runs


def _layer(path: str) -> Layer:
    """The outermost numbered module of a path: ``model.layers.0.mlp`` is in (model.layers, 0)."""
    names = path.split(".")
    for place, name in enumerate(names):
        if name.isdecimal() and name.isascii():
            return ".".join(names[:place]), int(name)
    return None


def _within(path: str, layer: Layer) -> str:
    if layer is None:
        return path
    start = f"{layer[0]}.{layer[1]}" if layer[0] else str(layer[1])
    return path.removeprefix(start).removeprefix(".") if path else path


def graph_text(graph: Graph) -> str:
    """Returns the functions of the module, called ones first, then the graph itself."""
    written: dict[str, str] = {}
    _write(graph, written)
    return "\n\n".join(written.values())


def _write(graph: Graph, written: dict[str, str]) -> None:
    for function in graph.functions.values():
        if function.name not in written:
            _write(function, written)
    written[graph.name] = function_text(graph)


def function_text(graph: Graph) -> str:
    """Returns one function: its inputs, its nodes, its parameters last because they are many."""
    arguments = [entry for entry in graph.inputs if entry.kind in ("input", "size")]
    held = [entry for entry in graph.inputs if entry.kind not in ("input", "size")]
    head = ", ".join(_input_text(entry) for entry in arguments)
    lines = [f"{graph.name}({head}):"]
    lines += [f"  {entry.kind} {_input_text(entry)}{_target(entry)}" for entry in held]
    module = ""
    open_regions: tuple[Region, ...] = ()
    for node in graph.nodes():
        around = graph.regions_around(node)
        for depth, region in enumerate(around):
            if around[: depth + 1] != open_regions[: depth + 1]:
                lines.append(f"  {'  ' * depth}{region}:")
        open_regions, indent = around, "  " * (len(around) + 1)
        if node.module != module:
            module = node.module
            lines.append(f"{indent}# {module}" if module else f"{indent}#")
        lines.append(f"{indent}{node_text(node)}")
    for place, left in graph.left.items():
        name = ".".join(map(str, place))
        lines += [f"  {name}.{key} = {argument_text(x)}" for key, x in left.parts.items()]
        lines += [f"  del {name}.{key}" for key in left.removed]
    lines.append(f"  return {argument_text(graph.result)}")
    return "\n".join(lines)


def _input_text(entry: Input) -> str:
    return f"%{entry.value.name}: {entry.value.type}"


def _target(entry: Input) -> str:
    return f" = {entry.target}" if entry.target != entry.value.name else ""


def node_text(node: Node) -> str:
    """Returns ``%y: float32[n] = exp(%x)``, with the annotation where there is one."""
    made = ", ".join(f"%{value.name}: {value.type}" for value in node.outputs)
    left = f"{made} = " if made else ""
    note = f"    # {node.annotation}" if node.annotation else ""
    return f"{left}{call_text(node)}{note}"


def call_text(node: Node) -> str:
    """Returns the call alone."""
    arguments = [argument_text(argument) for argument in node.args]
    arguments += [f"{name}={argument_text(argument)}" for name, argument in node.kwargs.items()]
    match node.operation:
        case OperatorCall(path):
            registered = node.name != path.rpartition(".")[2]
            return f"{node.name if registered else _short(path)}({', '.join(arguments)})"
        case FunctionCall(function, symbols):
            arguments += [f"{name}={dim}" for name, dim in symbols]
            return f"call {function}({', '.join(arguments)})"
        case ExternalCall(function):
            return f"external {function}({', '.join(arguments)})"
        case MatchShape(pattern):
            return f"match_shape({', '.join(arguments)}, {argument_text(pattern)})"
        case MakeShape(dims):
            return f"shape({dims_text(dims)})"


def _short(path: str) -> str:
    if path.startswith("torch.Tensor."):
        return path.removeprefix("torch.Tensor")
    return path.rpartition(".")[2]


def argument_text(argument: Argument) -> str:
    """Returns an argument tree as it would be written."""
    match argument:
        case Value():
            return f"%{argument.name}"
        case tuple():
            inner = ", ".join(map(argument_text, argument))
            return f"({inner},)" if len(argument) == 1 else f"({inner})"
        case list():
            return f"[{', '.join(map(argument_text, argument))}]"
        case dict():
            inner = ", ".join(f"{key}: {argument_text(item)}" for key, item in argument.items())
            return f"{{{inner}}}"
        case slice():
            return _slice_text(argument)
        case str():
            return repr(argument)
        case EllipsisType():
            return "..."
        case _:
            return str(argument)


def _slice_text(part: slice) -> str:
    def text(bound: Any) -> str:
        return "" if bound is None else argument_text(bound)

    step = f":{text(part.step)}" if part.step is not None else ""
    return f"{text(part.start)}:{text(part.stop)}{step}"


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
    return row(words(clipped(graph.name, 60), bold=True), faint(", ".join(counts), 13), gap=16)


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
        faint(clipped(kind, _WIDTHS[0])),
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
        note = faint(f"{left_out} further values are used; no arcs show it", 11)
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


def graph_line(graph: Graph) -> str:
    """Returns a graph in one line, for an interactive session."""
    return repr(graph)


def graph_view(graph: Graph) -> Text:
    """Returns the text for rich: names bold, types blue, annotations and modules quiet."""
    from rich.text import Text

    lines = [Text(visible(line)) for line in graph_text(graph).split("\n")]
    for line in lines:
        line.highlight_regex(r"%[\w.]+", "bold")
        line.highlight_regex(r"(?<=: )\w+\[[^\]]*\]", COLOURS[0])
        line.highlight_regex(r"#.*", "dim")
    return Text("\n").join(lines)
