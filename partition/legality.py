"""`Legality`: whether a split is legal, and what every rank holds then.

The verdict is a theorem about all values that satisfy the facts: *legal*; or the exact condition
under which it is: *conditional*; or *illegal*, with an evaluated counterexample where a length is
to blame; or *unknown*, with what was left to show. `dimsolve.partition.check` makes it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

from dimsolve.solver.algebra.dims import floor_div
from dimsolve.solver.algebra.poly import Dim, TooLarge, product
from dimsolve.solver.layout import Pattern
from dimsolve.solver.problems import shape_text, too_large
from dimsolve.solver.proof.divisibility import exact_quotient
from dimsolve.solver.proof.facts import Facts
from dimsolve.solver.solution import Solution
from dimsolve.solver.symbolic import to_sympy

from .placement import Placement, Shard
from .rules import Rule

Verdict = Literal["legal", "conditional", "illegal", "unknown"]


@dataclass(frozen=True, eq=False)
class Legality:
    """May ``split`` be cut into ``parts``? Made by `dimsolve.check`.

    ``inputs`` and ``outputs`` are placements, one per tensor, () where no placement exists.
    ``conditions`` are texts in the dimension language that hold exactly where the split is legal.
    ``counterexample`` is a value of the symbols at which it is not. Answers to one question are
    equal, wherever they were made.
    """

    solution: Solution
    split: str | None
    parts: Dim
    verdict: Verdict
    reason: str
    conditions: tuple[str, ...] = ()
    counterexample: Mapping[str, int] | None = None
    rule: Rule | None = None
    given_arguments: tuple[tuple[str, Any], ...] = ()

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Legality):
            return NotImplemented
        return self._key == other._key and self.solution == other.solution

    def __hash__(self) -> int:
        return hash((self.solution, self.split, self.verdict, self.conditions))

    @property
    def _key(self) -> tuple[Any, ...]:
        """What tells two answers to questions of one solution apart."""
        asked = self.split, self.parts, self.given_arguments
        told = self.verdict, self.reason, self.conditions, self.counterexample
        return *asked, *told, self.inputs, self.outputs

    @property
    def inputs(self) -> tuple[Placement, ...]:
        """The placement of every input."""
        return self.rule.inputs if self.rule else ()

    @property
    def outputs(self) -> tuple[Placement, ...]:
        """The placement of every output."""
        return self.rule.outputs if self.rule else ()

    @cached_property
    def local_values(self) -> dict[str, Dim]:
        """The length of every identifier on one rank, as Dims."""
        values = dict(self.solution.values)
        if self.rule is not None and self.split is not None:
            try:
                values[self.split] = _part(values[self.split], self.parts, self.solution.facts)
            except TooLarge:
                raise too_large(self.solution.text) from None
        return values

    @cached_property
    def local_input_dims(self) -> tuple[tuple[Dim, ...] | None, ...]:
        """The inputs' shapes on one rank as Dims; None for ``?`` and unknown shapes, () where
        nothing is legal. Where no shapes were given, the identifiers are the sizes.
        """
        if self.rule is None:
            return ()
        solution = self.solution
        rows = zip(solution.layout.inputs, solution.inputs, self.rule.inputs, strict=True)
        return tuple(
            self._local(patterns, placement)
            if patterns is not None
            and (solution.explored or (shape is not None and None not in shape))
            else None
            for patterns, shape, placement in rows
        )

    @cached_property
    def local_output_dims(self) -> tuple[tuple[Dim, ...] | None, ...]:
        """The outputs' shapes on one rank as Dims."""
        if self.rule is None:
            return ()
        rows = zip(self.solution.layout.outputs, self.rule.outputs, strict=True)
        return tuple(None if p is None else self._local(p, placement) for p, placement in rows)

    def _local(self, patterns: tuple[Pattern, ...], placement: Placement) -> tuple[Dim, ...]:
        try:
            return self._cut(patterns, placement)
        except TooLarge:
            raise too_large(self.solution.text) from None

    def _cut(self, patterns: tuple[Pattern, ...], placement: Placement) -> tuple[Dim, ...]:
        whole = self.solution.values
        dims = [product([p.constant, *(whole[name] for name in p.names)]) for p in patterns]
        if isinstance(placement, Shard):
            cut = patterns[placement.dim]
            if self.split in cut.names:
                local = self.local_values
                dims[placement.dim] = product([cut.constant, *(local[name] for name in cut.names)])
            else:
                facts = self.solution.facts
                dims[placement.dim] = _part(dims[placement.dim], self.parts, facts)
        return tuple(dims)

    @cached_property
    def local_inputs(self) -> tuple[tuple[Any, ...] | None, ...]:
        """The inputs' shapes on one rank as SymPy expressions."""
        return _to_sympy(self.local_input_dims)

    @cached_property
    def local_outputs(self) -> tuple[tuple[Any, ...] | None, ...]:
        """The outputs' shapes on one rank as SymPy expressions."""
        return _to_sympy(self.local_output_dims)

    @cached_property
    def arguments(self) -> dict[str, Any]:
        """The operator's arguments on one rank: one named as the split identifier is divided."""
        local = dict(self.given_arguments)
        if self.rule is not None and self.split in local:
            dim = self.local_values[self.split]
            local[self.split] = dim if isinstance(dim, int) else to_sympy(dim)
        return local

    def explain(self) -> str:
        """Returns the verdict, its reason, and a line per tensor with its placement and local
        shape.
        """
        conditions = f" if {' and '.join(self.conditions)}" if self.conditions else ""
        lines = [
            f"{self.solution.text}   split {self.split} into {self.parts}",
            f"  {self.verdict}{conditions}: {self.reason}",
        ]
        if self.rule is not None:
            for kind, placements, shapes in (
                ("input", self.inputs, self.local_input_dims),
                ("output", self.outputs, self.local_output_dims),
            ):
                for number, (placement, dims) in enumerate(zip(placements, shapes, strict=True)):
                    shape = "?" if dims is None else shape_text(dims)
                    lines.append(f"  {kind} {number}: {placement!s:<16} {shape}")
        return "\n".join(lines)

    def __str__(self) -> str:
        conditions = f" if {' and '.join(self.conditions)}" if self.conditions else ""
        return f"{self.verdict}{conditions}: {self.reason}"

    def __repr__(self) -> str:
        return f"<Legality {self}>"

    def _repr_svg_(self) -> str:
        from .draw_legality import legality_svg

        return legality_svg(self)

    def __rich__(self) -> Any:
        from .terminal import legality_view

        return legality_view(self)


def _to_sympy(rows: tuple[tuple[Dim, ...] | None, ...]) -> tuple[tuple[Any, ...] | None, ...]:
    return tuple(None if row is None else tuple(to_sympy(dim) for dim in row) for row in rows)


def _part(length: Dim, parts: Dim, facts: Facts) -> Dim:
    quotient = exact_quotient(length, parts, facts)
    return floor_div(length, parts) if quotient is None else quotient
