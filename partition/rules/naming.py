"""What is split: a name, or (index, dim) as ``graph.partition(idx=, dim=)`` says it.

"m k+, k+ n -> m n"    "k" is k, (0, 1) is k, (2, -1) is n
"""

from __future__ import annotations

from dimsolve.ir.annotation import Opaque, Operand
from dimsolve.ir.characters import shown
from dimsolve.ir.checks import as_whole, nearest, written, wrong_type
from dimsolve.ir.errors import AnnotationError, Problem
from dimsolve.solver.layout import star_position
from dimsolve.solver.solution import Solution

_HINT = 'name an identifier, such as "k", or give (index, dim)'
_STAR = "'*' stands for {star} here: split one of these"
_NO_STAR = "'*' stands for no dimension here: give inputs that have more"
UNKNOWN_NAME = Problem(
    AnnotationError,
    "unknown-split",
    "there is no such identifier",
    "'{name}' is no identifier of the annotation; its identifiers are {known}",
    "{hint}",
)
UNKNOWN_TENSOR = Problem(
    AnnotationError,
    "unknown-split",
    "there is no such split",
    "index {index} names no tensor: {tensors}",
    _HINT,
)


def split_name(solution: Solution, split: str | tuple[int, int]) -> str | None:
    """Returns the identifier that a split names; None where that dimension has none to split.

    (index, dim): inputs count from 0, outputs go on after them; a negative dim counts from the end;
    the first identifier of that dimension whose length is not 1. Raises AnnotationError for a name
    or an index that does not exist.
    """
    if isinstance(split, str):
        names = list(solution.layout.marks)
        if split not in names:
            close = nearest(split, names)
            hint = f"did you mean '{close}'?" if close else ""
            if split == "*" and any(map(_has_star, solution.annotation.operands)):
                star = ", ".join(solution.layout.star)
                hint = _STAR.format(star=star) if star else _NO_STAR
            known = ", ".join(names) or "none"
            raise UNKNOWN_NAME(solution.text, name=shown(split), known=known, hint=hint)
        return split
    index, dim = _pair(solution, split)
    patterns = (*solution.layout.inputs, *solution.layout.outputs)[index]
    if patterns is None or not -len(patterns) <= dim < len(patterns):
        return None
    found = (atom for atom in patterns[dim].atoms if isinstance(atom, str))
    return next((name for name in found if solution.values[name] != 1), None)


def _has_star(operand: Operand) -> bool:
    return star_position(operand) is not None


def nothing_to_split(solution: Solution, split: tuple[int, int]) -> str:
    """Returns why (index, dim) names no identifier, in words."""
    index, dim = _pair(solution, split)
    count = len(solution.layout.inputs)
    tensor = f"input {index}" if index < count else f"output {index - count}"
    operand = (*solution.annotation.inputs, *solution.annotation.outputs)[index]
    if isinstance(operand, Opaque):
        return f"{tensor} is '?': it is only ever replicated"
    patterns = (*solution.layout.inputs, *solution.layout.outputs)[index]
    if patterns is None:
        return f"the rank of {tensor} is not known"
    rank = len(patterns)
    if not -rank <= dim < rank:
        has = {0: "none", 1: "only dimension 0 (or -1)"}.get(
            rank, f"dimensions 0 to {rank - 1} (or -{rank} to -1)"
        )
        return f"{tensor} has no dimension {written(dim)}: '{operand}' has {has}"
    if patterns[dim].names:
        return f"dimension {dim} of {tensor} has length 1: there is nothing to split"
    number = patterns[dim]
    return f"dimension {dim} of {tensor} is the number {number}: a written length is never split"


def _pair(solution: Solution, split: object) -> tuple[int, int]:
    pair = (
        map(as_whole, split) if isinstance(split, tuple | list) and len(split) == 2 else (None,) * 2
    )
    index, dim = pair
    if index is None or dim is None:
        raise wrong_type("split", split, "an identifier or (index, dim)", _HINT)
    inputs, outputs = len(solution.layout.inputs), len(solution.layout.outputs)
    if 0 <= index < inputs + outputs:
        return index, dim
    tensors = [
        f"{first} is the {kind}"
        if count == 1
        else f"{first} to {first + count - 1} are the {kind}s"
        for first, count, kind in ((0, inputs, "input"), (inputs, outputs, "output"))
        if count
    ]
    listed = " and ".join(tensors) or "there is none"
    raise UNKNOWN_TENSOR(solution.text, index=written(index), tensors=listed)
