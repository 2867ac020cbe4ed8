"""Where the seconds and the bytes of a step are, as bars and as a table; a plan beside others.

    linear                ▇▇▇▇▇▇▇▇▇▇▇▇ 312 us
    all-reduce along tp   ▇▇▇▇▇ 126 us
    gelu                  ▇ 24 us

A cost without sizes is a table of expressions.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import TypeAlias

from dimsolve.partition.cost import Cost
from dimsolve.partition.machine import bytes_text
from dimsolve.partition.memory import Memory
from dimsolve.partition.plan import Plan
from dimsolve.partition.plan_data import PlanError, seconds_text
from dimsolve.solver.algebra.poly import Dim

from .picture import EMPTY, Picture, column, faint, row, table, words
from .svg import HUES, hues, rect

Bar: TypeAlias = tuple[str, int, str, str]
"""A name, an amount, its text and its colour."""

_MOST = 12
_WIDTH = 220.0


def cost_svg(cost: Cost) -> str:
    """Returns the picture of a cost as SVG text."""
    if _symbols(cost):
        lines = [words(line, size=11) for line in cost_text(cost).splitlines()[:_MOST]]
        return column(*lines, gap=2).card("cost of a training step", cost_text(cost))
    return column(_head(cost), _seconds(cost)).card("cost of a training step", cost_text(cost))


def cost_text(cost: Cost) -> str:
    """Returns a cost as a table, the dearest first; of one without sizes the expressions."""
    if _symbols(cost):
        parts: dict[str, Dim] = {}
        for term in cost.terms:
            parts[_name(term.name, term.axis)] = (
                parts.get(_name(term.name, term.axis), 0) + term.picoseconds
            )
        return "\n".join(
            ["picoseconds of a training step", *(f"{n}: {p}" for n, p in parts.items())]
        )
    lines = [f"{seconds_text(cost.picoseconds)} for a training step on {cost.machine.name}"]
    rows = [(name, text) for name, _, text, _ in _bars(cost)]
    width = max((len(name) for name, _ in rows), default=0)
    lines += [f"  {name.ljust(width)}  {text}" for name, text in rows]
    if cost.machine.times or cost.machine.links:
        lines.append(_measured(cost))
    return "\n".join(lines)


def spent(plan: Plan) -> Picture:
    """Returns where the seconds and the bytes of a plan are that was searched for."""
    record = plan.search
    if record is None:
        return EMPTY
    cost = plan.cost()
    memory = plan.memory(record.sizes, optimizer_states=record.optimizer_states)
    sizes = ", ".join(f"{name} = {size}" for name, size in sorted(record.sizes.items()))
    at = faint(f"on {record.machine.name}{f' at {sizes}' if sizes else ''}", 11)
    seconds = column(words("seconds of a step", bold=True), at, _head(cost), _seconds(cost))
    held = column(
        words("bytes of a rank", bold=True),
        faint(f"{bytes_text(memory.total)} at their peak", 11),
        _drawn(_bytes(memory), memory.total),
    )
    return row(seconds, held, gap=40, middle=False)


def beside(
    plan: Plan, others: Mapping[str, Callable[[], Plan]]
) -> Iterator[tuple[str, str, str, str]]:
    """Yields the plan that was searched for, and others that are made, with their seconds and bytes
    at the sizes of the search: (name, seconds, bytes, remark). One that is refused, or does not
    serve these sizes, has the reason as its remark.
    """
    record = plan.search
    if record is None:
        return
    for name, make in {"auto": lambda: plan, **others}.items():
        try:
            made = make()
            cost = made.cost(record.sizes, machine=record.machine).picoseconds
            held = made.memory(record.sizes, optimizer_states=record.optimizer_states).total
        except PlanError as error:
            yield name, "", "", error.diagnostic.title
            continue
        over = record.memory is not None and held > record.memory
        more = f"{cost / record.cost:.2f} times" if record.cost and made is not plan else ""
        remark = "does not fit" if over else more
        yield name, seconds_text(cost), bytes_text(held), remark


def _symbols(cost: Cost) -> bool:
    return any(not isinstance(term.picoseconds, int) for term in cost.terms)


def _measured(cost: Cost) -> str:
    return f"{cost.measured} of these measured, {cost.modelled} modelled"


def _head(cost: Cost) -> Picture:
    share = cost.communication / cost.seconds if cost.picoseconds else 0.0
    said = f"{seconds_text(cost.picoseconds)}, of which communication {share:.0%}"
    if cost.machine.times or cost.machine.links:
        said += f"; {_measured(cost)}"
    return faint(said, 11)


def _name(name: str, axis: str) -> str:
    return f"{name} along {axis}" if axis else name


def _bars(cost: Cost) -> list[Bar]:
    colours = hues(cost.plan.mesh)
    found: dict[tuple[str, str], int] = {}
    for term in cost.terms:
        if isinstance(term.picoseconds, int) and term.picoseconds:
            key = term.name, term.axis
            found[key] = found.get(key, 0) + term.picoseconds
    ordered = sorted(found.items(), key=lambda item: (-item[1], item[0]))
    bars = [
        (_name(name, axis), own, seconds_text(own), colours.get(axis, HUES[8]))
        for (name, axis), own in ordered
    ]
    rest = sum(own for _, own, _, _ in bars[_MOST:])
    others = [(f"{len(bars) - _MOST} others", rest, seconds_text(rest), HUES[8])] if rest else []
    return [*bars[:_MOST], *others]


def _seconds(cost: Cost) -> Picture:
    return _drawn(_bars(cost), cost.picoseconds)


def _bytes(memory: Memory) -> list[Bar]:
    parts = {
        "parameters": memory.parameters,
        "gradients": memory.gradients,
        "optimiser states": memory.optimizer,
        "activations": memory.activations,
        "gathered parameters": memory.gathered,
    }
    return [(name, own, bytes_text(own), HUES[2]) for name, own in parts.items() if own]


def _drawn(bars: list[Bar], whole: int) -> Picture:
    most = max([own for _, own, _, _ in bars], default=1)
    return table(
        [
            [
                words(name, size=11),
                Picture(_WIDTH, 12, (rect(0, 0, max(_WIDTH * own / most, 1.0), 12, fill=colour),)),
                faint(f"{text}  {own / whole:.0%}", 11),
            ]
            for name, own, text, colour in bars
        ],
        gap=10,
        line_gap=2,
    )
