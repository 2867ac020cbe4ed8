"""What is wrong with a call before it is split: its outputs, what it writes to, what it draws."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from torch import Tensor

from dimsolve.solver.algebra.poly import Dim
from dimsolve.solver.infer import infer
from dimsolve.solver.layout import Pattern
from dimsolve.solver.solution import Solution

from ..operator_call import Call
from .diagnosis import input_name
from .differences import relative
from .fixed_random import fixed_random
from .verification import Culprit
from .whole_run import Whole, run_whole


class Lie(Exception):
    """The annotation does not fit what the function does on one device."""

    def __init__(self, culprit: Culprit) -> None:
        self.culprit = culprit
        super().__init__(str(culprit))


def checked_whole(call: Call, seed: int) -> Whole:
    """Runs on one device. Raises Lie for other outputs than annotated, or what the call raises."""
    whole = run_whole(call, _solution(call), seed)
    wanted, declaration = whole.solution.output_dims, call.declaration
    if len(whole.outputs) != len(wanted):
        count = len(whole.outputs)
        values = f"{count} value{'s' * (count != 1)}"
        reason = f"the function returns {values}, and {len(wanted)} are annotated"
        raise Lie(Culprit("outputs", reason))
    if declaration.returns == "value":
        _check_value(whole.outputs[0], declaration.value)
        return whole
    for number, (output, dims) in enumerate(zip(whole.outputs, wanted, strict=True)):
        patterns = whole.solution.layout.outputs[number]
        if dims is not None and patterns is not None:
            _check_output(number, output, dims, patterns, declaration.fresh)
    return whole


def _solution(call: Call) -> Solution:
    declaration = call.declaration
    shapes = [
        tuple(value.shape) if place is not None else None
        for value, place in zip(declaration.inputs, call.input_places, strict=True)
    ]
    # Lengths that only running tells are not compared; any number stands for them.
    arguments = {**declaration.arguments, **dict.fromkeys(declaration.fresh, 1)}
    solution = infer(declaration.annotation, shapes, arguments=arguments)
    if solution.free:
        first, names = solution.free[0], ", ".join(f"'{name}'" for name in solution.free)
        reason = f"the call does not give the length of {names}"
        hint = f"give the function a parameter '{first}', or write the length as a number"
        raise Lie(Culprit(first, reason, hint))
    return solution


def _check_value(found: Any, declared: Any) -> None:
    if isinstance(declared, bool | int | float) and found != declared:
        raise Lie(Culprit("value", f"the value is {found}, and {declared} is declared"))


def _check_output(
    number: int,
    output: Any,
    dims: Sequence[Dim],
    patterns: Sequence[Pattern],
    fresh: Sequence[str],
) -> None:
    if any(set(fresh) & set(pattern.names) for pattern in patterns):
        return
    if not isinstance(output, Tensor):
        kind = type(output).__name__
        reason = f"output {number} is of type {kind}, and dimensions are annotated for it"
        raise Lie(Culprit(f"output {number}", reason, "write '?' for it"))
    if tuple(output.shape) != tuple(dims):
        found, wanted = tuple(output.shape), tuple(dims)
        reason = f"output {number} has shape {found}, and its annotation gives {wanted}"
        raise Lie(Culprit(f"output {number}", reason))


def hidden_writes(whole: Whole) -> Iterator[Culprit]:
    """Yields the inputs that the call changes, does not return, and is not declared to write to."""
    returned = [output for output in whole.outputs if isinstance(output, Tensor)]
    names = whole.call.operator.parameters
    for number, (before, after) in enumerate(zip(whole.inputs, whole.after, strict=True)):
        if before is None or after is None or number in whole.call.declaration.mutates:
            continue
        if relative(after, before) == 0.0:
            continue
        if any(o.shape == after.shape and relative(o.detach(), after) == 0 for o in returned):
            continue
        yield Culprit(
            names[number] if number < len(names) else f"input {number}",
            f"{input_name(whole, number)} is changed by the call and not returned",
            "return it among the outputs, and annotate it there",
        )


def draws(whole: Whole, seed: int) -> Culprit | None:
    """Returns the complaint that two runs on the same inputs differ; None where they do not."""
    with fixed_random(seed + 1):
        again = run_whole(whole.call, whole.solution, seed)
    for a, b in zip(whole.outputs, again.outputs, strict=True):
        both = isinstance(a, Tensor) and isinstance(b, Tensor)
        if both and relative(b.detach(), a.detach()) > 1e-9:
            return Culprit(
                "random numbers",
                "two runs on the same inputs differ: the function draws random numbers, or keeps "
                "state",
                "what it draws cannot be compared; give it the numbers as an input",
            )
    return None
