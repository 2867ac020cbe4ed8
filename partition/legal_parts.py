"""`legal_parts`: all counts at once.

The counts that are legal for every value are the divisors of one number, the fixed divisor of the
length: ``8*s`` may always be split by 1, 2, 4 and 8, ``n*(n + 1)`` by 1 and 2. The other counts up
to a bound are legal under a condition or never.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from math import lcm
from typing import Any

from dimsolve.ir.annotation import Annotation
from dimsolve.ir.expression import Relation
from dimsolve.solver.algebra.integers import divisors
from dimsolve.solver.algebra.poly import TooLarge
from dimsolve.solver.infer import Inputs, infer
from dimsolve.solver.parameters import to_whole
from dimsolve.solver.proof.divisibility import fixed_divisor

from .check import judge, to_manner
from .counts_said import ranges, said_once, together
from .legality import Legality

DEFAULT_BOUND = 64
MAX_BOUND = 10_000
MAX_DIVISORS = 4_096


@dataclass(frozen=True)
class LegalParts:
    """The counts an identifier may be split into.

    ``fixed_divisor``: the greatest count that is legal for every value; its divisors are ``always``
    (0: the length is 0 and every count up to the bound is; where it is too large to be taken apart,
    those up to the bound are listed; where even one part asks for a condition, it is 1 and
    ``always`` is empty). ``conditional``: {count: condition} and ``forbidden``:
    {count: reason}, for the other counts up to ``up_to``; ``unknown``: {count: what was left to
    show}. ``left_whole``: {count: which parameters of a model stay whole at this count, where
    another would cut them, and why}.
    """

    split: str | None
    fixed_divisor: int
    always: tuple[int, ...]
    conditional: Mapping[int, str]
    forbidden: Mapping[int, str]
    unknown: Mapping[int, str]
    up_to: int
    left_whole: Mapping[int, str] = field(default_factory=dict)

    def __str__(self) -> str:
        lines = [f"always: {', '.join(map(str, self.always))}"]
        for word, texts in (
            (", where", self.left_whole),
            (" if", self.conditional),
            (" never:", said_once(self.forbidden)),
            (" unknown:", self.unknown),
        ):
            groups = together(texts).items()
            lines += [f"{ranges(counts)}{word} {text}" for text, counts in groups]
        return "\n".join(lines)

    def _repr_svg_(self) -> str:
        from .draw_legal_parts import legal_parts_svg

        return legal_parts_svg(self)

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        printer.text(str(self))

    def __rich__(self) -> Any:
        from .terminal import legal_parts_view

        return legal_parts_view(self)


def legal_parts(
    annotation: str | Annotation,
    inputs: Inputs,
    split: str | tuple[int, int],
    *,
    arguments: Mapping[str, Any] | None = None,
    facts: Iterable[str | Relation] = (),
    up_to: int | None = None,
    contiguous: bool = False,
    value_split: Collection[int] = (),
    partial: str = "sum",
) -> LegalParts:
    """Returns which counts ``split`` may be cut into: always, under a condition, never. ``up_to``
    bounds the last two (64; at most 10,000).

    Raises AnnotationError for a question that cannot be read and ShapeError where the inputs can
    never match.

    >>> legal_parts("a b -> a b", ["8*s, 6"], "a", up_to=3).conditional
    {3: 's % 3 == 0'}
    """
    bound = DEFAULT_BOUND if up_to is None else to_whole("up_to", up_to, 1, MAX_BOUND)
    solution = infer(annotation, inputs, arguments=arguments, facts=facts)
    manner = to_manner(solution, contiguous, value_split, partial)
    always: list[int] = []
    conditional: dict[int, str] = {}
    forbidden: dict[int, str] = {}
    unknown: dict[int, str] = {}
    name: str | None = None

    def judged(count: int) -> Legality:
        return judge(solution, split, count, arguments=arguments or {}, **manner)

    for count in range(1, bound + 1):
        legality = judged(count)
        name = legality.split
        match legality.verdict:
            case "legal":
                always.append(count)
            case "conditional":
                conditional[count] = " and ".join(legality.conditions)
            case "illegal":
                forbidden[count] = legality.reason
            case "unknown":
                unknown[count] = " and ".join(legality.conditions)
    greatest = 1
    if name is not None and always:
        found = [1, lcm(*always)]
        with suppress(TooLarge):
            found.append(fixed_divisor(solution.values[name], solution.facts))
        if 0 in found and len(always) == bound:
            greatest = 0
        else:
            greatest = max(n for n in found if n == 1 or judged(n).verdict == "legal")
    every = set(divisors(greatest, MAX_DIVISORS) or ()) if greatest > 0 and always else set()
    return LegalParts(
        name, greatest, tuple(sorted(every | set(always))), conditional, forbidden, unknown, bound
    )
