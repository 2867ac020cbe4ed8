"""What is split: a name, or (index, dim) as ``graph.partition(idx=, dim=)`` says it."""

from __future__ import annotations

from difflib import get_close_matches

from dimsolve.ir.annotation import Opaque
from dimsolve.ir.errors import AnnotationError, Diagnostic
from dimsolve.ir.excerpt import shown
from dimsolve.ir.wrong_types import written, wrong_type
from dimsolve.solver.parameters import as_whole
from dimsolve.solver.solution import Solution

_SPLIT = "an identifier or (index, dim)"
_HINT = 'name an identifier, such as "k", or give (index, dim)'


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
    index, dim = _pair(solution, split)
    count = len(solution.layout.inputs)
    tensor = f"input {index}" if index < count else f"output {index - count}"
    operand = (*solution.annotation.inputs, *solution.annotation.outputs)[index]
    if isinstance(operand, Opaque):
        return f"{tensor} is '?': it is only ever replicated"
    patterns = (*solution.layout.inputs, *solution.layout.outputs)[index]
    if patterns is None:
        return f"the rank of {tensor} is not known"
    if not -len(patterns) <= dim < len(patterns):
        return (
            f"{tensor} has no dimension {written(dim)}: '{operand}' has {_counted(len(patterns))}"
        )
    if any(isinstance(atom, str) for atom in patterns[dim].atoms):
        return f"dimension {dim} of {tensor} has length 1: there is nothing to split"
    number = patterns[dim]
    return f"dimension {dim} of {tensor} is the number {number}: a written length is never split"


def _counted(rank: int) -> str:
    """Returns how many dimensions there are and how they are numbered."""
    match rank:
        case 0:
            return "none"
        case 1:
            return "only dimension 0 (or -1)"
        case _:
            return f"dimensions 0 to {rank - 1} (or -{rank} to -1)"


def _pair(solution: Solution, split: object) -> tuple[int, int]:
    if not isinstance(split, tuple | list) or len(split) != 2:
        raise wrong_type("split", split, _SPLIT, _HINT)
    index, dim = map(as_whole, split)
    if index is None or dim is None:
        raise wrong_type("split", split, _SPLIT, _HINT)
    inputs, outputs = len(solution.layout.inputs), len(solution.layout.outputs)
    if 0 <= index < inputs + outputs:
        return index, dim
    there = [
        _numbered(first, count, kind)
        for first, count, kind in ((0, inputs, "input"), (inputs, outputs, "output"))
        if count
    ]
    reason = f"index {written(index)} names no tensor: {' and '.join(there) or 'there is none'}"
    raise AnnotationError(
        Diagnostic("unknown-split", "there is no such split", solution.text, (), reason, _HINT)
    )


def _numbered(first: int, count: int, kind: str) -> str:
    if count == 1:
        return f"{first} is the {kind}"
    return f"{first} to {first + count - 1} are the {kind}s"


def _unknown_name(solution: Solution, name: str) -> AnnotationError:
    names = list(solution.layout.marks)
    close = get_close_matches(name, names, n=1)
    known = ", ".join(names) or "none"
    return AnnotationError(
        Diagnostic(
            code="unknown-split",
            title="there is no such identifier",
            text=solution.text,
            reason=f"'{shown(name)}' is no identifier of the annotation; "
            f"its identifiers are {known}",
            hint=f"did you mean '{close[0]}'?" if close else "",
        )
    )
