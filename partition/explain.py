"""A plan as a table that people read.

LlamaForCausalLM over dp=2, tp=2, policy data+tensor
needs      batch % 2 == 0                                 dp cuts dimension 0 of input_ids

parameters 22, 0.51 of 369.5 kB on a rank
  lm_head.weight   128, 64   R, S(0)   64, 64

operators 185, split 160
  linear   model.layers.0.mlp.gate_proj   * k+, n k+ -> * n   dp: a   tp: n   ...
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

from .plan import Collective, ConversionPlan, Gradient, OperatorPlan, Plan
from .reshard import SENT

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
    mesh = ", ".join(f"{axis}={size}" for axis, size in plan.mesh.items())
    lines = [f"{plan.graph.name} over {mesh or 'one rank'}, policy {plan.policy}"]
    lines += _table("needs", [(text, plan.reasons.get(text, "")) for text in plan.conditions])
    lines += _table("left whole", [(note,) for note in plan.notes])
    lines += _table(f"inputs {len(plan.inputs)}", _inputs(plan))
    split = [operator for operator in plan.operators if operator.splits]
    lines += _table(f"operators {len(plan.operators)}, split {len(split)}", map(_operator, split))
    lines += _table(f"conversions {len(plan.conversions)}", map(_conversion, plan.conversions))
    return "\n".join(lines)


def summary(plan: Plan) -> str:
    """Returns the plan in a few lines: what it needs, what a rank holds, what is communicated."""
    mesh = ", ".join(f"{axis}={size}" for axis, size in plan.mesh.items())
    lines = [f"{plan.graph.name} over {mesh or 'one rank'}, policy {plan.policy}"]
    lines += _table("needs", [(text, plan.reasons.get(text, "")) for text in plan.conditions])
    lines += _table("left whole", [(note,) for note in plan.notes])
    lines += _table(f"inputs {len(plan.inputs)}", _inputs(plan))
    split = sum(1 for operator in plan.operators if operator.splits)
    lines += ["", f"operators {len(plan.operators)}, split {split}"]
    counts = Counter(collectives(plan))
    rows = [(axis, direction, each, str(n)) for (axis, direction, each), n in counts.items()]
    return "\n".join([*lines, *_table("collectives in a step", rows)])


def collectives(plan: Plan) -> Iterator[tuple[str, str, Collective]]:
    """Yields what a training step sends: the axis, forward or backward, and the collective."""
    for conversion in plan.conversions:
        for direction, found in _ways(conversion):
            for collective in found:
                yield conversion.axis, direction, collective


def _ways(conversion: ConversionPlan) -> Iterator[tuple[str, list[Collective]]]:
    yield "forward", [each for each in conversion.forward if SENT[each][0]]
    if conversion.backward_runs == "always":
        yield "backward", [each for each in conversion.backward if SENT[each][0]]


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
    axis = conversion.axis
    position = _changed(conversion)
    before, after = conversion.before[position], conversion.after[position]
    ways = [" + ".join(way) or "identity" for way in (conversion.forward, conversion.backward)]
    back = RUNS[conversion.backward_runs].format(ways[1])
    return (
        conversion.id,
        f"{axis}: {before} -> {after}",
        f"{ways[0]}{back}",
        f"{conversion.bytes_forward} + {conversion.bytes_backward} bytes",
        f"for {', '.join(conversion.uses)}" if conversion.uses else "",
    )


def _changed(conversion: ConversionPlan) -> int:
    pairs = zip(conversion.before, conversion.after, strict=True)
    return next((n for n, (before, after) in enumerate(pairs) if before != after), 0)


def shape_text(shape: Sequence[str | None] | None) -> str:
    """Returns the lengths of a shape as one text, ``?`` where they are not known."""
    if shape is None:
        return "?"
    return ", ".join("?" if text is None else text for text in shape)


def _table(title: str, rows: Iterable[Row]) -> list[str]:
    """Returns the rows in columns under a title; nothing for no rows."""
    listed = [list(row) for row in rows]
    if not listed:
        return []
    count = max(len(row) for row in listed)
    widths = [max(len(row[n]) if n < len(row) else 0 for row in listed) for n in range(count)]
    lines = ["", title]
    for row in listed:
        cells = [cell.ljust(width) for cell, width in zip(row, widths, strict=False)]
        lines.append("  " + "  ".join(cells).rstrip())
    return lines
