"""A plan as text, as a sentence and as a picture: what every rank holds, and what is communicated.

    LlamaForCausalLM   [dp=2] [tp=2]   a rank has 0.51 of the parameters
    [2 times] model.layers.0 to 1
    self_attn.q_proj   linear   weight 64, 64 [tp S(0)]   batch//2, seq, 32 [dp S(0)] [tp S(2)]
    self_attn.o_proj   linear   weight 64, 64 [tp S(1)]   batch//2, seq, 64 [dp S(0)] [tp P(sum)]
        [tp]  all-reduce  P(sum) -> R  256*(batch//2)*seq bytes

Layers that are planned alike are drawn once, with their number. Each mesh axis has its colour.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict
from itertools import zip_longest
from typing import TYPE_CHECKING

from dimsolve.ir.characters import visible
from dimsolve.partition.checkpoints import region_texts
from dimsolve.partition.placement import read_placement
from dimsolve.partition.plan import Plan
from dimsolve.partition.plan_data import (
    ConversionPlan,
    Gradient,
    InputPlan,
    LocalTensor,
    OperatorPlan,
    PlanError,
)
from dimsolve.partition.reshard import SENT, Collective
from dimsolve.solver.shapes import dim_of_text

from .cost import spent
from .graph import Section, names_text, runs_of, sections
from .picture import (
    EMPTY,
    Picture,
    badge,
    begun,
    chip,
    clipped,
    column,
    faint,
    paragraph,
    row,
    table,
    table_rows,
    words,
)
from .placement import miniature
from .svg import FAINT, HUES, INK, PALE, hues, rect
from .terminal import COLOURS

if TYPE_CHECKING:
    from rich.text import Text

Row = Sequence[str]
RUNS: dict[Gradient, str] = {
    "always": " | {}",
    "inputs": " | {} if an input requires a gradient",
    "never": "",
}
"""How the way back of a conversion is told: `Plan.communication` leaves out what is sent only for
the gradient of an input, unless it is asked for it.
"""


def explain(plan: Plan) -> str:
    """Returns what is cut and what is communicated: a line per input, operator and conversion."""
    split = [operator for operator in plan.operators if operator.splits]
    lines = _head(plan)
    lines += _table(f"operators {len(plan.operators)}, split {len(split)}", map(_operator, split))
    lines += _table(f"conversions {len(plan.conversions)}", map(_conversion, plan.conversions))
    inside = list(_inside(plan))
    lines += _table(f"communicated inside operators {len(inside)}", inside)
    lines += _table(f"run again in the backward pass {len(plan.regions)}", region_texts(plan))
    return "\n".join(lines)


def summary(plan: Plan) -> str:
    """Returns the plan in a few lines: what it needs, what a rank holds, what is communicated."""
    split = sum(1 for operator in plan.operators if operator.splits)
    counts = Counter(collectives(plan))
    rows = [(axis, direction, each, str(n)) for (axis, direction, each), n in counts.items()]
    lines = [*_head(plan), "", f"operators {len(plan.operators)}, split {split}"]
    lines += _table("collectives in a step", rows)
    if plan.regions:
        lines += ["", f"run again in the backward pass {len(plan.regions)}, see explain()"]
    return "\n".join(lines)


def memory_text(plan: Plan, sizes: Mapping[str, int]) -> str:
    """Returns what a rank holds in a training step at these sizes, or why that is not known."""
    known = {name: size for name, size in sizes.items() if name in plan.symbols}
    at = ", ".join(f"{name} = {size}" for name, size in known.items())
    title = f"bytes of one rank in a step{f', {at}' if at else ''}"
    try:
        found = plan.memory(known)
    except PlanError as error:
        return "\n" + "\n".join(_table(title, [(error.diagnostic.reason,)]))
    amounts = {**asdict(found), "in all": found.total}
    most = max(len(f"{amount:,}") for amount in amounts.values())
    rows = [(name, f"{amount:>{most},}") for name, amount in amounts.items()]
    return "\n" + "\n".join(_table(title, rows))


def _over(plan: Plan) -> str:
    mesh = ", ".join(f"{axis}={size}" for axis, size in plan.mesh.items())
    return f"{plan.graph.name} over {mesh or 'one rank'}"


def _head(plan: Plan) -> list[str]:
    needs = [(text, plan.reasons.get(text, "")) for text in plan.conditions]
    state = ", ".join(f"{axis} {word}" for axis, word in plan.state.items())
    return [
        f"{_over(plan)}, policy {plan.policy}{f', state {state}' if state else ''}",
        *_table("search", [(line,) for line in _searched(plan)]),
        *_table("needs", needs),
        *_table("notes", [(note,) for note in plan.notes]),
        *_table(f"inputs {len(plan.inputs)}", _inputs(plan)),
    ]


def _searched(plan: Plan) -> list[str]:
    return [] if plan.search is None else plan.search.explain().splitlines()


def collectives(plan: Plan) -> Iterator[tuple[str, str, Collective]]:
    """Yields what a training step sends: the axis, forward or backward, and the collective."""
    for conversion in plan.conversions:
        for collective in _sent(conversion.forward):
            yield conversion.axis, "forward", collective
        if conversion.backward_runs == "always":
            for collective in _sent(conversion.backward):
                yield conversion.axis, "backward", collective
    for operator in plan.operators:
        for each in operator.sends:
            if each.runs == "always":
                yield each.axis, each.direction, each.collective


def _sent(names: Iterable[Collective]) -> list[Collective]:
    """Without the collectives in name only: nothing is sent."""
    return [name for name in names if SENT[name][0]]


def _inputs(plan: Plan) -> Iterable[Row]:
    for entry in plan.inputs:
        if entry.kind != "size":
            yield (
                entry.kind,
                entry.name,
                shape_text(entry.whole),
                ", ".join(entry.placements),
                shape_text(entry.shape),
            )


def _operator(operator: OperatorPlan) -> Row:
    splits = [f"{axis}: {split}" for axis, split in operator.splits.items()]
    inputs = [operator.operands[n] for n in operator.inputs if n is not None]
    return (
        operator.node,
        operator.module,
        operator.annotation,
        ", ".join(splits),
        " ".join(f"({shape_text(each.shape)})" for each in inputs),
        "->",
        " ".join(f"({shape_text(each.shape)})" for each in operator.outputs),
    )


def _conversion(conversion: ConversionPlan) -> Row:
    changes = zip(conversion.before, conversion.after, strict=True)
    first = (conversion.before[0], conversion.after[0])
    before, after = next((pair for pair in changes if pair[0] != pair[1]), first)
    ways = [" + ".join(way) or "identity" for way in (conversion.forward, conversion.backward)]
    back = RUNS[conversion.backward_runs].format(ways[1])
    return (
        conversion.id,
        f"{conversion.axis}: {before} -> {after}",
        f"{ways[0]}{back}",
        f"{conversion.bytes_forward} + {conversion.bytes_backward} bytes",
        f"for {', '.join(conversion.uses)}" if conversion.uses else "",
    )


def _inside(plan: Plan) -> Iterator[Row]:
    for operator in plan.operators:
        for each in operator.sends:
            if_asked = " if an input requires a gradient" if each.runs == "inputs" else ""
            yield (
                operator.node,
                operator.module,
                each.axis,
                f"{each.collective} {each.direction}{if_asked}",
                f"{each.bytes} bytes",
            )


def shape_text(shape: Sequence[str | None] | None) -> str:
    """Returns the lengths of a shape as one text, ``?`` where they are not known."""
    if shape is None:
        return "?"
    return ", ".join("?" if text is None else text for text in shape)


def _table(title: str, rows: Iterable[Row]) -> list[str]:
    """Returns the rows in columns under a title; nothing for no rows."""
    listed = [list(row) for row in rows]
    widths = [max(map(len, column)) for column in zip_longest(*listed, fillvalue="")]
    lines = ["  " + "  ".join(map(str.ljust, texts, widths)).rstrip() for texts in listed]
    return ["", title, *lines] if lines else []


def share(plan: Plan) -> str:
    """Returns how much of the parameters one rank has, in words; "" where that is no number."""
    whole = held = 0
    for entry in plan.parameters:
        sizes = [_elements(shape) for shape in (entry.whole, entry.shape)]
        if sizes[0] is None or sizes[1] is None:
            return ""
        whole, held = whole + sizes[0], held + sizes[1]
    return f"a rank has {held / whole:.2f} of the parameters" if whole else ""


def _elements(shape: Sequence[str | None] | None) -> int | None:
    count = 1
    for text in shape if shape is not None else (None,):
        length = None if text is None else dim_of_text(text)
        if not isinstance(length, int):
            return None
        count *= length
    return count


def described(plan: Plan) -> str:
    """Returns how the parameters lie, and what a step communicates."""
    counts: Mapping[tuple[str, str, str], int] = Counter(collectives(plan))
    sent = [f"{n} {name} over {axis} {way}" for (axis, way, name), n in counts.items()]
    placed = Counter(", ".join(entry.placements) for entry in plan.parameters)
    lies = [f"{count} parameters as {text}" for text, count in placed.items()]
    needs = [f"needs {text}" for text in plan.conditions]
    return "; ".join([f"policy {plan.policy}", *needs, *lies, *sent])


_MOST_LINES = 120
_MOST_WEIGHT = 260
"""Pixels of a weight's line, so that the whole is not wider than a notebook's cell."""


def plan_svg(plan: Plan) -> str:
    """Returns the picture of a plan as SVG text."""
    drawing = _Drawing(plan)
    picture = column(drawing.head(), spent(plan), *drawing.body(), drawing.foot(), gap=14)
    return picture.card(f"plan of {_over(plan)}", described(plan))


class _Drawing:
    """One picture: what of the plan is looked up by name."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.colours = hues(plan.mesh)
        self.parameters = {entry.value: entry for entry in plan.parameters}
        self.conversions = {conversion.id: conversion for conversion in plan.conversions}
        self.made_of: dict[str, list[ConversionPlan]] = {}
        for conversion in plan.conversions:
            if conversion.value not in self.parameters:
                self.made_of.setdefault(conversion.value, []).append(conversion)

    def head(self) -> Picture:
        """The name, the mesh, and what the plan needs."""
        plan = self.plan
        mesh = [badge(f"{axis}={size}", self.colours[axis]) for axis, size in plan.mesh.items()]
        needs = [
            [
                faint("needs"),
                chip(clipped(text, 60), INK, size=12),
                paragraph(plan.reasons.get(text, ""), width=64, size=11, fill=FAINT),
            ]
            for text in plan.conditions[:12]
        ]
        if len(plan.conditions) > 12:
            needs.append([faint(f"and {len(plan.conditions) - 12} more")])
        title = row(
            words(clipped(plan.graph.name, 60), size=15, bold=True),
            *mesh,
            faint(f"policy {clipped(plan.policy, 40)}"),
            faint(share(plan)),
            gap=12,
        )
        return column(title, table(needs), gap=10)

    def body(self) -> Iterator[Picture]:
        """What becomes of the inputs, then the sections of the operators."""
        given = [entry.value for entry in self.plan.inputs]
        bands = [self._band(c) for value in given for c in self.made_of.get(value, ())]
        inputs = [entry for entry in self.plan.inputs if entry.kind == "input"]
        rows = [
            [
                faint("input"),
                words(clipped(entry.name, 30), size=12),
                self._result(entry),
            ]
            for entry in inputs[:24]
        ]
        more = f"and {len(inputs) - 24} inputs more" if len(inputs) > 24 else ""
        yield column(table(rows), faint(more) if more else EMPTY, *bands, gap=4)
        found = sections(self.plan.operators, lambda operator: operator.module, self._key)
        for section in found:
            yield self._section(section)

    def foot(self) -> Picture:
        """The collectives of a step, and how many notes there are."""
        counts = Counter(collectives(self.plan))
        rows = [
            [
                chip(axis, self.colours[axis]),
                words(name, size=12),
                faint(direction),
                faint(f"{count} times" if count > 1 else "once"),
            ]
            for (axis, direction, name), count in counts.items()
        ]
        head = words("collectives in a step" if rows else "no collectives", bold=True)
        notes = self.plan.notes
        left = f"{len(notes)} note{'s' * (len(notes) != 1)}, see explain()" if notes else ""
        return column(head, table(rows), faint(left, 11) if left else EMPTY)

    def _key(self, operator: OperatorPlan, path: str) -> Hashable:
        """What must be equal for two layers to be drawn as one."""
        made = [c for each in operator.outputs for c in self.made_of.get(each.value, ())]
        taken = [
            c
            for operand in operator.operands
            if operand.value in self.parameters
            for c in self._chain(operand.source)
        ]
        return (
            path,
            operator.name,
            operator.annotation,
            tuple((axis, str(split)) for axis, split in operator.splits.items()),
            *(
                tuple((shape_text(each.shape), *each.placements) for each in side)
                for side in (operator.outputs, operator.operands)
            ),
            *(tuple(map(_way, conversions)) for conversions in (made, taken)),
        )

    def _section(self, section: Section[OperatorPlan]) -> Picture:
        lines: list[Picture | Sequence[Picture]] = []
        for module, operators in runs_of(section.items, lambda operator: operator.module):
            name = section.within(module) or ("the layer" if section.numbers else "the model")
            lines.append(self._line(name, operators))
            made = [output.value for operator in operators for output in operator.outputs]
            lines += [self._band(c) for value in made for c in self.made_of.get(value, ())]
        if len(lines) > _MOST_LINES:
            more = faint(f"and {len(lines) - _MOST_LINES} lines more")
            lines = [*lines[:_MOST_LINES], more]
        head = EMPTY
        if section.numbers:
            head = row(
                badge(f"{len(section.numbers)} times", HUES[4]), words(section.title, bold=True)
            )
        return column(head, _laid(lines), gap=6)

    def _line(self, name: str, operators: Sequence[OperatorPlan]) -> Sequence[Picture]:
        made = [output for operator in operators for output in operator.outputs]
        return (
            faint(clipped(name, 24)),
            words(begun(names_text([operator.name for operator in operators]), 19), size=12),
            self._weights(operators),
            self._result(made[-1]) if made else EMPTY,
        )

    def _weights(self, operators: Sequence[OperatorPlan]) -> Picture:
        entries: dict[str, tuple[InputPlan, list[ConversionPlan]]] = {}
        for operand in (operand for operator in operators for operand in operator.operands):
            entry = self.parameters.get(operand.value)
            if entry is not None:
                entries.setdefault(operand.value, (entry, self._chain(operand.source)))
        return column(*(self._weight(*found) for found in entries.values()), gap=3)

    def _weight(self, entry: InputPlan, chain: Sequence[ConversionPlan]) -> Picture:
        placements = [read_placement(text) for text in entry.placements]
        counts = [dim_of_text(size) for size in self.plan.mesh.values()]
        title = f"{entry.name}: {', '.join(entry.placements)}"
        picture = miniature(len(entry.whole or ()), placements, counts, 34, 20).named(title)
        name = f"{entry.name.rpartition('.')[2]} {shape_text(entry.whole)}"
        sums = [
            chip(f"grad {way} {conversion.axis}", self.colours[conversion.axis], size=9)
            for conversion in chain
            if conversion.backward_runs == "always"
            for way in _sent(conversion.backward)
        ]
        line = row(picture, words(clipped(name, 22), size=12), *self._chips(entry), gap=4)
        whole = row(line, *sums, gap=4)
        if whole.width <= _MOST_WEIGHT:
            return whole
        return column(line, row(Picture(34, 1), *sums, gap=4), gap=2)

    def _result(self, output: LocalTensor) -> Picture:
        return row(
            words(clipped(shape_text(output.shape) or "()", 24), size=12),
            *self._chips(output),
            gap=5,
        )

    def _chips(self, tensor: LocalTensor) -> list[Picture]:
        """The placements that are not R, each in its axis' colour."""
        placed = zip(self.plan.mesh, tensor.placements, strict=True)
        return [
            chip(f"{axis} {clipped(text, 24)}", self.colours[axis], size=10)
            for axis, text in placed
            if text != "R"
        ]

    def _chain(self, source: str) -> list[ConversionPlan]:
        """The conversions that lead to what an operand takes, the first one first."""
        chain: list[ConversionPlan] = []
        while source in self.conversions:
            chain.insert(0, self.conversions[source])
            source = chain[0].source
        return chain

    def _band(self, conversion: ConversionPlan) -> Picture:
        """What is communicated, there and on the way back."""
        colour = self.colours[conversion.axis]
        there, back = _sent(conversion.forward), _sent(conversion.backward)
        place = list(self.plan.mesh).index(conversion.axis)
        change = words(f"{conversion.before[place]} → {conversion.after[place]}", size=12)
        parts = [chip(conversion.axis, colour, size=11)]
        if conversion.forward:
            names = " + ".join(there or conversion.forward)
            parts += [words(names, size=12, fill=colour, bold=bool(there)), change]
        if there:
            parts.append(faint(f"{clipped(conversion.bytes_forward, 40)} bytes", 11))
        if back and conversion.backward_runs != "never":
            text = f"backward: {' + '.join(back)}, {clipped(conversion.bytes_backward, 40)} bytes"
            if conversion.backward_runs == "inputs":
                text += ", if an input requires a gradient"
            parts.append(words(text, size=11, fill=colour))
        inner = row(*parts, gap=10)
        width, height = inner.width + 16, inner.height + 6
        ground = rect(0, 0, width, height, fill=PALE, rx=4)
        return Picture(width, height, (ground, inner.at(8, 3)))


def _way(conversion: ConversionPlan) -> Hashable:
    """What a conversion does, without the names of values."""
    lists = conversion.before, conversion.after, conversion.forward, conversion.backward
    bytes = conversion.bytes_forward, conversion.bytes_backward, conversion.backward_runs
    return conversion.axis, bytes, tuple(tuple(each) for each in lists)


def _laid(lines: Sequence[Picture | Sequence[Picture]]) -> Picture:
    """Lines in columns, with bands between them that run across."""
    bands = [row(Picture(10, 1), line) for line in lines if isinstance(line, Picture)]
    cells = [line for line in lines if not isinstance(line, Picture)]
    rows = iter(table_rows(cells, gap=10, least=22.0))
    across = iter(bands)
    laid = [next(across if isinstance(line, Picture) else rows) for line in lines]
    return column(*laid, gap=4)


def plan_view(plan: Plan) -> Text:
    """Returns the plan in short for rich, each mesh axis in its colour; ``explain()`` says all."""
    from rich.text import Text

    first, *others = summary(plan).split("\n")
    lines = [Text(visible(first), "bold"), *(Text(visible(line)) for line in others)]
    for axis, colour in hues(plan.mesh, COLOURS).items():
        for line in lines[1:]:
            line.highlight_words([f"  {axis}  "], colour)
    return Text("\n").join(lines)
