"""Why a split is not equal to the whole, and what to write instead: by trying what would be right.

x @ w + b, k split, P(sum)      right when b is given as summands      value_split=("b",)
x.mean(0), a split, P(sum)      right when the parts are averaged      partial="avg"
neither                         k stays whole                          "k^"
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import combinations
from math import inf

from torch import Tensor

from dimsolve.partition.placement import Reduction, Replicate

from .check_whole import input_name
from .compare import Difference
from .split_run import Cuts, Outcome, cut, run_split
from .verification import Culprit
from .whole import Whole


def culprit_of(
    whole: Whole,
    cuts: Cuts,
    outcome: Outcome,
    seed: int,
    length: int | None = None,
    words: str = "",
) -> Culprit:
    """Returns the identifier that is to blame, how far off it is, and what would be right.

    length: of a part, where parts of another length are equal to the whole. words: what is unusual
    in the values, where others are equal to the whole.
    """
    star = whole.solution.layout.star
    names = list(dict.fromkeys(name for name, _ in cuts.splits))
    shown = " and ".join(
        f"'{name}' (dimension {star.index(name)} of '*')" if name in star else f"'{name}'"
        for name in names
    )
    counts = " and ".join(str(count) for _, count in cuts.splits)
    what = f"{shown} split into {counts} parts"
    if length is not None:
        what += f" of {cuts.lengths[cuts.splits[0][0]]}"
    if words:
        what += f", {words}"
        hint = _hint_for_values(whole, cuts, outcome)
    elif length is not None:
        hint = f"parts of other lengths hold; write {_frozen(names[0], whole)}: it cannot be split"
    else:
        hint = _hint(whole, cuts, outcome, seed)
    return Culprit(names[0], f"{what}: {_found(outcome, whole)}", hint, _amount(outcome))


def not_linear(whole: Whole, summands: Sequence[int], outcome: Outcome) -> Culprit:
    """Returns that inputs which are declared linear are not."""
    which = " and ".join(input_name(whole, number) for number in summands)
    reason = f"not linear in {which}: of partial sums, {_found(outcome, whole)}"
    hint = f"leave {tuple(summands)} out of the declaration's linear"
    return Culprit("linear", reason, hint, _amount(outcome))


def _amount(outcome: Outcome) -> float:
    return inf if outcome.worst is None else outcome.worst.amount


def _found(outcome: Outcome, whole: Whole) -> str:
    """What a rank raised, or the worst difference, in words."""
    worst = outcome.worst
    return outcome.error or ("" if worst is None else _off(worst, whole))


def _off(difference: Difference, whole: Whole) -> str:
    match difference.kind:
        case "output":
            what = f"output {difference.number}"
        case "history":
            return f"output {difference.number} has a gradient on a rank, and none on one device"
        case "input":
            what = f"{input_name(whole, difference.number)}, as the call leaves it,"
        case _:
            what = f"the gradient of {input_name(whole, difference.number)}"
    if difference.what:
        return f"{what} {difference.what}"
    if difference.amount == inf:
        return f"{what} is something else"
    if difference.factor is not None:
        return f"{what} comes out {difference.factor:.3g} times what it is whole"
    return f"{what} is off by {difference.amount:.2g} of its largest element"


def _hint_for_values(whole: Whole, cuts: Cuts, outcome: Outcome) -> str:
    """What to write where only unusual values are not equal to the whole."""
    name, _ = cuts.splits[0]
    worst = outcome.worst
    extreme = whole.call.declaration.reduction in ("max", "min") and cuts.rules[0].transform is None
    if extreme and worst is not None and worst.kind == "gradient":
        return (
            "elements that tie in several parts share the gradient as on one device only where "
            f'they are counted: TransformRule(split="{name}", outputs=("R",), local=...)'
        )
    return (
        f"other values hold; write {_frozen(name, whole)}, "
        f'or a rule that joins the parts: TransformRule(split="{name}", local=...)'
    )


def _hint(whole: Whole, cuts: Cuts, outcome: Outcome, seed: int) -> str:
    if len(set(cuts.splits)) > 1:
        return "each split holds alone; keep one of them whole with '^'"
    name, _ = cuts.splits[0]
    worst, layout = outcome.worst, whole.solution.layout
    is_output = worst is not None and worst.kind == "output" and not outcome.error
    if worst is not None and is_output and layout.outputs[worst.number] is None:
        return (
            f"output {worst.number} is '?' and changes with '{name}': "
            f"write {_frozen(name, whole)}, or annotate its dimensions"
        )
    if layout.marks[name].joins:
        right = [hint for hint, other in _summands(whole, cuts) if run_split(whole, other, seed).ok]
        if right:
            return right[0]
        # One value on every rank is its own maximum, minimum and average: several prove nothing.
        joined = [
            f'the parts are joined by {reduction}: write partial="{reduction}"'
            for reduction, other in _reductions(whole, cuts)
            if run_split(whole, other, seed).ok
        ]
        if len(joined) == 1:
            return joined[0]
    return f"write {_frozen(name, whole)}: it cannot be split"


def _frozen(name: str, whole: Whole) -> str:
    return "'*^'" if name in whole.solution.layout.star else f"'{name}^'"


def _reductions(whole: Whole, cuts: Cuts) -> Iterator[tuple[str, Cuts]]:
    """Other reductions that may join the parts."""
    declaration = whole.call.declaration
    for reduction in Reduction:
        if reduction.value != declaration.reduction:
            other = cut(whole.solution, declaration, cuts.splits, reduction=reduction.value)
            if isinstance(other, Cuts):
                yield reduction.value, other


def _summands(whole: Whole, cuts: Cuts) -> Iterator[tuple[str, Cuts]]:
    """Other declarations of a ``+`` split: inputs as summands, or not."""
    declaration = whole.call.declaration
    given = set(declaration.value_split)
    replicated = [
        number
        for number, tensor in enumerate(whole.inputs)
        if isinstance(tensor, Tensor)
        and tensor.is_floating_point()
        and (number in given or isinstance(cuts.inputs(number)[0], Replicate))
    ]
    for chosen in (*combinations(replicated, 1), *combinations(replicated, 2)):
        summands = sorted(given ^ set(chosen))
        other = cut(whole.solution, declaration, cuts.splits, value_split=summands)
        if isinstance(other, Cuts):
            yield _value_split_hint(whole, chosen, summands, added=not given & set(chosen)), other


def _value_split_hint(
    whole: Whole, chosen: tuple[int, ...], summands: list[int], *, added: bool
) -> str:
    which = " and ".join(input_name(whole, number) for number in chosen)
    one = len(chosen) == 1
    role = ("a summand" if one else "summands") if added else "no summand"
    names = whole.call.operator.parameters
    words = [f'"{names[n]}"' if n < len(names) else str(n) for n in summands]
    listed = f"({', '.join(words)}{',' * (len(words) == 1)})"
    return f"{which} {'is' if one else 'are'} {role}: write value_split={listed}"
