"""How long the dimensions of made inputs are: primes that differ, then parts of other lengths.

    "m k+, k+ n -> m n", k into 4        m = 2, k = 12, n = 5        parts of 3
    parts of 1, the others differ        m = 3, k = 4,  n = 7
    parts of 2, the others as long       m = 8, k = 8,  n = 8
    parts of 5, the others 1             m = 1, k = 20, n = 1

A promise is about every length that a count divides. A function that works in blocks of 2, or
squeezes a dimension of length 1, keeps it for some parts only.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import cycle, islice
from math import lcm, prod
from typing import Literal

from dimsolve.solver.layout import Layout, Pattern

BASE = (2, 3, 5, 7)
"""The lengths of the first identifiers; more than four begin again, so that tensors stay small."""

OTHER_PARTS = (1, 2, 3, 5)
"""The lengths of parts that are run beside the one of ``BASE``: 1, an even one, odd primes."""

Others = Literal["base", "differ", "equal", "one"]


@dataclass(frozen=True, slots=True)
class Sizes:
    """How lengths are chosen: ``step`` divides all; ``equal`` names are as long as each other."""

    step: int = 1
    equal: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Parts:
    """How long a part is of what is split, and how long the other identifiers are.

    length: None: as ``BASE`` gives. others: as ``BASE`` gives, differing in another way, as long as
    what is split, or 1. stepped: whether the part is a multiple of the step too.
    """

    length: int | None = None
    others: Others = "base"
    stepped: bool = True

    def attempts(self, step: int) -> tuple[Parts, ...]:
        """Returns what to try in turn, for functions that do not run on every length."""
        if self.length is None:
            return (self,)
        steps = (False, True) if step > 1 else (False,)
        kinds: tuple[Others, ...] = (self.others, "base")
        return tuple(Parts(self.length, others, stepped) for stepped in steps for others in kinds)


SMALL, PLAIN = Sizes(), Parts()
"""Lengths as ``BASE`` gives them."""


def other_parts(layout: Layout, name: str) -> tuple[Parts, ...]:
    """Returns the parts of an identifier that are run beside the one that ``BASE`` gives."""
    own = lengths_for(layout, {})[name]
    lengths = [length for length in OTHER_PARTS if length != own][:3]
    kinds: tuple[Others, ...] = ("differ", "equal", "one")
    return tuple(Parts(n, others) for n, others in zip(lengths, kinds, strict=True))


def lengths_for(
    layout: Layout,
    multiples: Mapping[str, int],
    sizes: Sizes = SMALL,
    parts: Parts = PLAIN,
) -> dict[str, int]:
    """Returns a length for every identifier: a multiple of what it is split into, else a prime.

    >>> from dimsolve.solver.layout import layout_of
    >>> matmul = layout_of("m k+, k+ n -> m n", None)
    >>> lengths_for(matmul, {"k": 4})
    {'m': 2, 'k': 12, 'n': 5}
    >>> lengths_for(matmul, {"k": 4}, parts=Parts(2, "equal"))
    {'m': 8, 'k': 8, 'n': 8}
    """
    one_length = 6 * sizes.step * lcm(*(multiples.get(name, 1) for name in sizes.equal))
    found: dict[str, int] = {}
    for place, name in enumerate(layout.marks):
        if name in sizes.equal:
            found[name] = one_length
        elif name in multiples:
            step = sizes.step if parts.stepped else 1
            found[name] = (parts.length or BASE[place % 4]) * step * multiples[name]
    longest = max(found.values(), default=1)
    shift = 1 if parts.others == "differ" else 0
    for name, base in zip(layout.marks, islice(cycle(BASE), shift, None), strict=False):
        match parts.others:
            case "base" | "differ":
                length = base * sizes.step
            case "equal":
                length = longest
            case "one":
                length = sizes.step
        found.setdefault(name, length)
    return {name: found[name] for name in layout.marks}


def shape_of(patterns: Sequence[Pattern], lengths: Mapping[str, int]) -> tuple[int, ...]:
    """Returns the shape of a tensor with these lengths."""
    return tuple(prod((p.constant, *(lengths[name] for name in p.names))) for p in patterns)
