"""What inference answers: shapes, bindings, conditions, and on request the reasons.

A `Solution` holds Dims and makes SymPy expressions only where they are looked at. ``explain()``
solves the question once more with all reasons kept: the usual question never pays for them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from dimsolve.ir.annotation import Annotation
from dimsolve.ir.checks import to_whole
from dimsolve.ir.display import Displayed
from dimsolve.ir.read_annotation import read_annotation

from .algebra.poly import Dim, TooLarge, product
from .choices import Choices
from .layout import Layout, Pattern
from .problems import UNANSWERABLE, shape_text
from .proof.facts import NO_FACTS, Facts
from .shapes import Shape
from .symbolic import to_sympy

if TYPE_CHECKING:
    from .equations import Step


def _length(pattern: Pattern, values: Mapping[str, Dim]) -> Dim:
    if pattern.constant == 1 and len(pattern.names) == 1:
        return values[pattern.names[0]]  # the usual dimension, without multiplying by one
    return product([pattern.constant, *(values[name] for name in pattern.names)])


@dataclass(frozen=True, eq=False)
class Solution(Displayed):
    """The shapes of one operator. Made by `dimsolve.infer`.

    ``values``: the Dim of every identifier, in reading order; ``conditions``: texts that must still
    hold of the symbols for these inputs to match; ``free``: identifiers that the inputs leave open,
    each its own symbol in ``values``; ``explored``: no shapes were given, the identifiers are the
    sizes. Solutions of one question are equal, wherever they were made.
    """

    text: str
    layout: Layout
    inputs: tuple[Shape | None, ...]
    values: Mapping[str, Dim]
    conditions: tuple[str, ...] = ()
    free: tuple[str, ...] = ()
    facts: Facts = NO_FACTS
    trace: Callable[[], tuple[Step, ...]] = tuple
    choices: Callable[[int], Choices | None] = lambda limit: Choices([{}])
    explored: bool = False

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Solution):
            return NotImplemented
        return self._key == other._key

    def __hash__(self) -> int:
        return hash((self.text, self.inputs, self.conditions, self.free))

    @property
    def _key(self) -> tuple[Any, ...]:
        """What tells two solutions apart: what was asked and what was found."""
        asked = self.text, self.layout, self.inputs, self.explored, self.facts.relations
        return *asked, dict(self.values), self.conditions, self.free

    @property
    def annotation(self) -> Annotation:
        """The annotation that was asked about."""
        return read_annotation(self.text)

    @cached_property
    def output_dims(self) -> tuple[tuple[Dim, ...] | None, ...]:
        """The outputs' shapes as Dims; None for ``?``. AnnotationError where one is too large."""
        values = self.values
        try:
            return tuple(
                [
                    None if row is None else tuple([_length(pattern, values) for pattern in row])
                    for row in self.layout.outputs
                ]
            )
        except TooLarge:
            raise UNANSWERABLE["too-large"](self.text) from None

    @cached_property
    def outputs(self) -> tuple[tuple[Any, ...] | None, ...]:
        """The outputs' shapes as SymPy expressions; None for ``?``."""
        return tuple(
            None if row is None else tuple(to_sympy(dim) for dim in row) for row in self.output_dims
        )

    @cached_property
    def bindings(self) -> dict[str, Any]:
        """The length of every identifier as a SymPy expression."""
        return {name: to_sympy(dim) for name, dim in self.values.items()}

    @property
    def expansions(self) -> dict[str, tuple[str, ...]]:
        """The names that the dimensions of ``*`` were given."""
        return {"*": self.layout.star} if self.layout.star else {}

    def solutions(self, limit: int = 1000) -> Choices | None:
        """Returns the choices of the free identifiers, ascending; None where not finitely many.

        ``complete`` of the result says whether these are all. Raises AnnotationError for a limit
        that is no positive integer.

        >>> from dimsolve import infer
        >>> infer("(h t) -> h t", [(4,)]).solutions()
        ({'h': 1, 't': 4}, {'h': 2, 't': 2}, {'h': 4, 't': 1})
        >>> infer("(h t) -> h t", [(4,)]).solutions(2).complete
        False
        """
        return self.choices(to_whole("limit", limit, 1))

    def explain(self) -> str:
        """Returns one line per step, each with its reason and where it came from."""
        lines = [str(step) for step in self.trace()]
        shapes = ["?" if row is None else shape_text(row) for row in self.output_dims]
        return "\n".join([self.text, *(f"  {line}" for line in lines), f"  -> {', '.join(shapes)}"])

    def __str__(self) -> str:
        shapes = ", ".join("?" if row is None else shape_text(row) for row in self.output_dims)
        conditions = f" if {' and '.join(self.conditions)}" if self.conditions else ""
        return f"{self.text}: {shapes}{conditions}"

    def __repr__(self) -> str:
        return f"<Solution {self}>"
