"""Where gradients lie, followed backwards through a run whose values are known to lie right.

    o_proj.weight      S(1)    its own part, whole
    share(x)           R       summands behind it, whole before it: the style's all-reduce
    q_norm.weight      R       summands: each rank has the gradient of its own heads

A replicated value has its whole gradient on every rank, or every rank has a summand of it. Where a
rule of ours splits a call, the gradient of what is whole there is a sum over the ranks; where every
rank does the same, it is as its result's. A value that is used in both ways has neither.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal, TypeAlias

from dimsolve.partition.placement import Placement, Replicate

from .follow import Followed
from .record import Recorder, Step

Gradient: TypeAlias = Literal["whole", "summand", "wrong"] | tuple[tuple[str, int], ...]
"""A value that is split along its last dimension may have one of each: (("whole", 16), ...)."""


def parameter_gradients(whole: Recorder, found: Followed) -> dict[str, Gradient]:
    """Returns how the gradient of every parameter lies, by name; of those that have one.

    ``whole``: as the parameter itself lies. ``summand``: the sum over the ranks would.
    """
    gradients: dict[int, Gradient] = {}
    used = {value for step in whole.steps for value in step.before}
    for step in reversed(list(enumerate(whole.steps))):
        _back(*step, whole, found, gradients, used)
    return {
        name: gradients[value]
        for value, name in whole.given.items()
        if name and value in gradients and whole.values[value].gradient
    }


def _back(
    number: int,
    step: Step,
    whole: Recorder,
    found: Followed,
    gradients: dict[int, Gradient],
    used: set[int],
) -> None:
    known = {
        value: gradients.get(value, "whole")
        for value in step.results
        if whole.values[value].gradient and (value in gradients or value not in used)
    }
    of_results = list(known.values())
    if not of_results:
        return
    result: Gradient = of_results[0] if len(set(of_results)) == 1 else "wrong"
    if result == "wrong" and len(step.before) == 1 and len(known) == len(step.results):
        lengths = [whole.values[value].tensor.shape[-1] for value in known]
        if sum(lengths) == whole.values[step.before[0]].tensor.shape[-1]:
            result = tuple((str(g), n) for g, n in zip(of_results, lengths, strict=True))
    choice = found.choices.get(number)
    for value in step.before:
        if whole.values[value].gradient:
            placed = found.placements.get(value)
            one = _through(step, placed, result, choice is not None and not choice.whole)
            before = gradients.get(value)
            gradients[value] = one if before in (None, one) else "wrong"


def _through(step: Step, placed: Placement | None, result: Gradient, split: bool) -> Gradient:
    """The gradient of an operand, from that of the results."""
    match step.kind:
        case "share":
            return "whole" if result == "summand" else "wrong"
        case "divide":
            return "summand" if result == "whole" else "wrong"
        case "rope":
            parts = [part for part in result if isinstance(part, tuple)]
            turned = parts[-1:] == [("summand", step.width)]
            passed = len(parts) == 2 and parts[0][0] == "whole"
            return "whole" if passed and turned else "wrong"
        case "sum" | "gather" | "slice":
            return "whole" if result == "whole" else "wrong"
        case _ if isinstance(result, tuple) and step.function is None:
            return "wrong"
        case _ if not split:
            return result
        case _ if result != "whole":
            return "wrong"
        case _:
            return "summand" if isinstance(placed, Replicate) else "whole"


def right(gradient: Gradient, placement: Placement, summed: bool) -> bool:
    """Whether a parameter ends with the gradient of one device."""
    if summed:
        return gradient == "summand" and isinstance(placement, Replicate)
    return gradient == "whole"


def uses(whole: Recorder, name: str) -> Iterator[Step]:
    """Yields the calls that use a parameter."""
    numbers = {value for value, own in whole.given.items() if own == name}
    for step in whole.steps:
        if numbers & set(step.before):
            yield step
