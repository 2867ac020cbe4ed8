"""What is wrong with a call before it is split: its outputs, what it writes to, what it draws.

"m k+, k+ n -> m n", x @ w.T       output 0 has shape (2, 3), and its annotation gives (2, 5)
"a b -> a b", x.add_(1).clone()    input 0 ('x') is changed by the call and not returned
"a b -> a b", x * torch.rand(())   two runs on the same inputs differ
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensorMode

from dimsolve.solver.algebra.poly import Dim
from dimsolve.solver.infer import infer, same_named
from dimsolve.solver.layout import Pattern
from dimsolve.solver.solution import Solution

from ..calls import Call
from ..registration.leaf import sees_write
from ..registration.promise import Promise
from .compare import relative
from .verification import Culprit, Refuted
from .whole import Whole, fixed_random, is_same_memory, plain_outputs, run_whole


def checked_whole(call: Call, seed: int) -> Whole:
    """Runs on one device. Raises Refuted for other outputs than annotated, or the call's error."""
    whole = run_whole(call, _solution(call), seed)
    wanted, declaration = whole.solution.output_dims, call.declaration
    if declaration.returns == "nothing" and whole.extra is not None:
        reason = f"the function returns {whole.extra}, and no output is annotated"
        raise Refuted("outputs", reason, "annotate what it returns after '->'")
    if len(whole.outputs) != len(wanted):
        count = len(whole.outputs)
        values = f"{count} value{'s' * (count != 1)}"
        raise Refuted("outputs", f"the function returns {values}, and {len(wanted)} are annotated")
    if declaration.returns == "value":
        found, value = whole.outputs[0], declaration.value
        if isinstance(value, bool | int | float) and found != value:
            raise Refuted("value", f"the value is {found}, and {value} is declared")
        return whole
    for number, (output, dims) in enumerate(zip(whole.outputs, wanted, strict=True)):
        problem = lack_of_values(output)
        if problem:
            raise Refuted(f"output {number}", f"output {number} {problem}")
        patterns = whole.solution.layout.outputs[number]
        if dims is not None and patterns is not None:
            _check_output(number, output, dims, patterns, declaration.fresh)
    return whole


def lack_of_values(value: Any) -> str:
    """Returns why a tensor cannot be compared, "" where it can."""
    if not isinstance(value, Tensor):
        return ""
    if value.is_meta:
        return "is a meta tensor, which holds no values: there is nothing to compare"
    if value.layout is not torch.strided or value.is_nested:
        layout = "nested" if value.is_nested else str(value.layout).removeprefix("torch.")
        return f"is a tensor of layout {layout}, which has no parts"
    return ""


def _solution(call: Call) -> Solution:
    declaration = call.declaration
    shapes = [
        tuple(value.shape) if place is not None else None
        for value, place in zip(declaration.inputs, call.input_places, strict=True)
    ]
    # Lengths that are known only at run time are not compared; any number stands for them.
    arguments = {**declaration.arguments, **dict.fromkeys(declaration.fresh, 1)}
    arguments = same_named(declaration.annotation, arguments)
    solution = infer(declaration.annotation, shapes, arguments=arguments)
    if solution.free:
        first, names = solution.free[0], ", ".join(f"'{name}'" for name in solution.free)
        reason = f"the call does not give the length of {names}"
        hint = f"give the function a parameter '{first}', or write the length as a number"
        raise Refuted(first, reason, hint)
    return solution


def _check_output(
    number: int,
    output: Any,
    dims: Sequence[Dim],
    patterns: Sequence[Pattern],
    fresh: Sequence[str],
) -> None:
    if any(set(fresh) & set(pattern.names) for pattern in patterns):
        return
    subject = f"output {number}"
    if not isinstance(output, Tensor):
        reason = (
            f"{subject} is of type {type(output).__name__}, and dimensions are annotated for it"
        )
        raise Refuted(subject, reason, "write '?' for it")
    shape, wanted = tuple(output.shape), tuple(dims)
    if shape != wanted:
        raise Refuted(subject, f"{subject} has shape {shape}, and its annotation gives {wanted}")


def input_name(whole: Whole, number: int) -> str:
    """Returns ``input 2 ('bias')``."""
    names = whole.call.operator.parameters
    if number < len(names) and not names[number].startswith("*"):
        return f"input {number} ('{names[number]}')"
    return f"input {number}"


def hidden_writes(whole: Whole) -> Iterator[Culprit]:
    """Yields the inputs that the call changes and is not said to write to, and those that it is
    said to write to and does not return.
    """
    declaration, names = whole.call.declaration, whole.call.operator.parameters
    for number in written_to(whole):
        is_returned = number in whole.returned
        if number in declaration.mutates or (is_returned and _is_seen(whole, number)):
            continue
        name = names[number] if number < len(names) else number
        what = f"{input_name(whole, number)} is changed by the call and"
        hint = f"write writes=[{name!r}], and return it first, itself and no copy"
        if is_returned:
            what = f"{what} returned, and tracing does not see it: later uses would read it as it "
            yield Culprit(_subject(whole, number), f"{what}was", hint)
        else:
            yield Culprit(_subject(whole, number), f"{what} not returned", hint)
    if not isinstance(whole.call.operator.declare, Promise):
        return
    for place, number in enumerate(declaration.mutates):
        given, output = whole.after[number], whole.outputs[place]
        if given is not None and given.numel() and not is_same_memory(given, output):
            what = f"{input_name(whole, number)} is said to be written to, and output {place} is"
            hint = f"return it as output {place}, itself and no copy"
            yield Culprit(f"output {place}", f"{what} another tensor", hint)


def _subject(whole: Whole, number: int) -> str:
    names = whole.call.operator.parameters
    return names[number] if number < len(names) else f"input {number}"


def written_to(whole: Whole) -> list[int]:
    """Returns the inputs that the call leaves with other values, by number."""
    return [
        number
        for number, (before, after) in enumerate(zip(whole.inputs, whole.after, strict=True))
        if before is not None and after is not None and relative(after, before) != 0.0
    ]


def _is_seen(whole: Whole, number: int) -> bool:
    """Whether a plan knows that the input is written to, as tracing finds out."""
    call = whole.call
    if not isinstance(call.operator.declare, Promise):
        return True
    if number != 0 or call.operator.declare.writes:
        return False
    with FakeTensorMode() as mode:
        fake = {place: mode.from_tensor(tensor) for place, tensor in call.arguments.tensors()}
        given = call.arguments.with_values(fake)
        return sees_write(call.operator, given.args, dict(given.kwargs))


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


def differs_without_gradients(whole: Whole, seed: int) -> Culprit | None:
    """Returns the complaint that the function gives something else under ``torch.no_grad``; None
    where it does not.
    """
    with fixed_random(seed), torch.no_grad():
        try:
            outputs = plain_outputs(whole)
        except Exception as error:
            first = str(error).partition("\n")[0]
            found = f"raises {type(error).__name__}: {first}"
        else:
            pairs = zip(whole.outputs, outputs, strict=False)
            apart = [number for number, (a, b) in enumerate(pairs) if _differ(a, b)]
            if not apart:
                return None
            found = f"gives another output {apart[0]}"
    return Culprit(
        "gradients",
        f"where no gradients are recorded (torch.no_grad) the function {found}",
        "a function gives the same in training and in evaluation; make the mode an argument",
    )


def _differ(a: Any, b: Any) -> bool:
    if not isinstance(a, Tensor) or not isinstance(b, Tensor):
        return isinstance(a, Tensor) is not isinstance(b, Tensor)
    return relative(b.detach(), a.detach()) > 1e-6
