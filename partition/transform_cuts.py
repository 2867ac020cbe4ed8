"""Whether the placements of a transform rule are about one split: what can be told before a call.

    m k, k n -> m n     S(0), S(0) -> S(0)      cuts m and k: input 0 has k too
    a b -> a b          S(0) -> S(0), split b   cuts a
    v d, * -> * d       S(0), R -> P(sum)       one split, of v

A rule with a function of its own may place tensors as that function wants them. A rule without runs
the operator itself, on parts that must match the annotation.
"""

from __future__ import annotations

from collections.abc import Sequence

from dimsolve.ir.errors import Diagnostic, OperatorError
from dimsolve.solver.layout import Pattern
from dimsolve.solver.solution import Solution

from .placement import Placement, Shard
from .read_placement import read_placement
from .transform import TransformRule, identifier_cut


def check_cuts(rule: TransformRule, solution: Solution) -> None:
    """Raises OperatorError for a rule whose placements cannot be those of its split.

    >>> from dimsolve.solver.infer import infer
    >>> check_cuts(TransformRule(("S(0)", "R"), ("S(0)",)), infer("m k, k n -> m n"))
    """
    inputs = _cuts(rule.inputs, solution.layout.inputs, solution)
    outputs = _cuts(rule.outputs, solution.layout.outputs, solution)
    names = rule.names(solution)
    found = [name for name in inputs.values() if name is not None]
    if rule.split is not None and found and not set(found) & set(names):
        said = " and ".join(f"'{name}'" for name in names)
        raise _wrong(rule, solution, f"it is said to split {said}, and its inputs cut '{found[0]}'")
    if rule.local is not None or rule.modifier is not None:
        return
    for kind, cuts, given, rows in (
        ("input", inputs, rule.inputs, solution.layout.inputs),
        ("output", outputs, rule.outputs, solution.layout.outputs),
    ):
        for number, row in enumerate(rows if given is not None else ()):
            for name in dict.fromkeys(found):
                if cuts.get(number) != name and _has(row, name):
                    reason = f"it cuts '{name}', which {kind} {number} has too"
                    raise _wrong(rule, solution, f"{reason}, and places that as {given[number]}")  # type: ignore[index]


def _has(row: Sequence[Pattern] | None, name: str) -> bool:
    return any(name in pattern.names for pattern in row or ())


def _cuts(
    given: Sequence[Placement | str] | None,
    rows: Sequence[Sequence[Pattern] | None],
    solution: Solution,
) -> dict[int, str | None]:
    """The identifier that each placement cuts, by the number of the tensor."""
    found: dict[int, str | None] = {}
    for number, (placement, row) in enumerate(zip(given or (), rows, strict=False)):
        read = read_placement(placement) if isinstance(placement, str) else placement
        if isinstance(read, Shard) and row is not None:
            found[number] = identifier_cut(solution, read, row)
    return found


def _wrong(rule: TransformRule, solution: Solution, reason: str) -> OperatorError:
    return OperatorError(
        Diagnostic(
            code="transform-rule",
            title="the placements of a transform rule are not those of one split",
            text=solution.text,
            reason=f"the rule is {rule}; {reason}",
            hint="cut the identifier in every tensor that has it, or give a local function "
            "that computes with these parts",
        )
    )
