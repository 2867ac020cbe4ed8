"""What is split: a name, or (index, dim) as ``graph.partition(idx=, dim=)`` says it."""

from __future__ import annotations

from difflib import get_close_matches

from dimsolve.ir.annotation import Opaque
from dimsolve.ir.errors import AnnotationError, Diagnostic
from dimsolve.solver.solution import Solution


def split_name(solution: Solution, split: str | tuple[int, int]) -> str | None:
    """Returns the identifier that a split names; None where that dimension has none to split.

    (index, dim): inputs count from 0, outputs go on after them; a negative dim counts from the end;
    the first identifier of that dimension whose length is not 1. Raises AnnotationError for a name
    or an index that does not exist.
    """
    if isinstance(split, str):
        if split not in solution.layout.marks:
            raise _unknown_name(solution, split)
        return split
    index, dim = _pair(solution, split)
    patterns = (*solution.layout.inputs, *solution.layout.outputs)[index]
    if patterns is None or not -len(patterns) <= dim < len(patterns):
        return None
    names = (atom for atom in patterns[dim].atoms if isinstance(atom, str))
    return next((name for name in names if solution.values[name] != 1), None)


def nothing_to_split(solution: Solution, split: tuple[int, int]) -> str:
    """Returns why (index, dim) names no identifier, in words."""
    index, dim = split
    count = len(solution.layout.inputs)
    tensor = f"input {index}" if index < count else f"output {index - count}"
    operand = (*solution.annotation.inputs, *solution.annotation.outputs)[index]
    if isinstance(operand, Opaque):
        return f"{tensor} is '?': it is only ever replicated"
    patterns = (*solution.layout.inputs, *solution.layout.outputs)[index]
    if patterns is None:
        return f"the rank of {tensor} is not known"
    if not -len(patterns) <= dim < len(patterns):
        dimensions = "1 dimension" if len(patterns) == 1 else f"{len(patterns)} dimensions"
        return f"{tensor} has {dimensions}, so no dimension {dim}"
    if any(isinstance(atom, str) for atom in patterns[dim].atoms):
        return f"dimension {dim} of {tensor} has length 1: there is nothing to split"
    number = patterns[dim]
    return f"dimension {dim} of {tensor} is the number {number}: a written length is never split"


def _pair(solution: Solution, split: object) -> tuple[int, int]:
    match split:
        case (int() as index, int() as dim):
            count = len(solution.layout.inputs) + len(solution.layout.outputs)
            if 0 <= index < count:
                return index, dim
            reason = (
                f"index {index} names no tensor: there are {count}, inputs first, counted from 0"
            )
        case _:
            reason = f"{split!r:.60} is neither a name nor (index, dim)"
    raise AnnotationError(
        Diagnostic(
            "unknown-split",
            "there is no such split",
            solution.text,
            (),
            reason,
            'name an identifier, such as "k", or give (index, dim)',
        )
    )


def _unknown_name(solution: Solution, name: str) -> AnnotationError:
    names = list(solution.layout.marks)
    close = get_close_matches(name, names, n=1)
    known = ", ".join(names) or "none"
    return AnnotationError(
        Diagnostic(
            code="unknown-split",
            title="there is no such identifier",
            text=solution.text,
            reason=f"'{name:.60}' is no identifier of the annotation; its identifiers are {known}",
            hint=f"did you mean '{close[0]}'?" if close else "",
        )
    )
