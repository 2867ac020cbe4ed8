"""The reader of placements: ``S(0)``, ``S(0, blocks=3)``, ``R``, ``P(sum)``, as they print.

The blocks are a length in the dimension language: a fused ``(q h e)`` cut by h is
``S(0, blocks=q)``. Segments are proportions: ``S(0, segments=4:1:1)``; equal ones are blocks.
"""

from __future__ import annotations

import re

from dimsolve.ir.errors import AnnotationError, Diagnostic
from dimsolve.ir.excerpt import shown
from dimsolve.solver.shapes import dim_of_text

from .placement import Partial, Placement, Reduction, Replicate
from .segments import segmented

_SHARD = re.compile(
    r"S\(\s*(\d{1,3})\s*(?:,\s*blocks\s*=\s*([^:]{1,1000}?)\s*)?"
    r"(?:,\s*segments\s*=\s*(\d{1,9}(?:\s*:\s*\d{1,9}){1,255})\s*)?\)",
    re.ASCII,
)
_PARTIAL = re.compile(r"P(?:\(\s*(sum|max|min|prod|avg)\s*\))?", re.ASCII)


def read_placement(text: str) -> Placement:
    """Returns the placement that prints as ``text``; ``P`` is ``P(sum)``. Raises AnnotationError.

    >>> print(read_placement("S(0, blocks=3)"), read_placement("P(max)"))
    S(0, blocks=3) P(max)
    >>> print(read_placement("S(0, segments=8:2:2)"), read_placement("S(0, segments=2:2)"))
    S(0, segments=4:1:1) S(0, blocks=2)
    """
    stripped = text.strip()
    if stripped == "R":
        return Replicate()
    if shard := _SHARD.fullmatch(stripped):
        blocks = dim_of_text(shard[2].strip()) if shard[2] else 1
        segments = tuple(map(int, shard[3].split(":"))) if shard[3] else ()
        if 0 not in segments:
            return segmented(int(shard[1]), blocks, segments)
    if partial := _PARTIAL.fullmatch(stripped):
        return Partial(Reduction(partial[1] or "sum"))
    raise AnnotationError(
        Diagnostic(
            code="not-a-placement",
            title="this is not a placement",
            reason=f"'{shown(text)}' cannot be read",
            hint="write S(0), S(0, blocks=3), S(0, segments=4:1:1), R, or P(sum): sum, max, min, "
            "prod or avg",
        )
    )
