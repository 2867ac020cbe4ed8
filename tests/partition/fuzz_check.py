"""Random splits against brute force: `check` and `legal_parts` say no more and no less.

    python -m tests.partition.fuzz_check 20000 [seed]

What is legal is written out here once more: the inputs match, the count is positive and divides the
length, the marks allow it, and the layout is contiguous where that is asked. A small part runs with
the tests (`test_check_fuzz.py`).
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from math import prod
from random import Random

from dimsolve.ir.errors import ShapeError
from dimsolve.partition.legality import Legality, check, legal_parts
from tests.oracles.brute_force import holds
from tests.oracles.questions import Question, number, random_question, readable
from tests.solver.fuzz_infer import choices_of, lengths_at

COUNTS = (1, 2, 2, 3, 4, 6, "s", "t", "2*s", "s - 1", "n", "4 - s", "s//2", "s % 3", "t + 1")
MOST = 6


def allowed(question: Question, name: str) -> bool:
    """Whether the marks allow a split of this name into more than one part."""
    tensors = (*question.tensors, *question.outputs)
    if question.marks[name] == "^":
        return False
    if any(sum(dim.count(name) for dim in tensor) > 1 for tensor in tensors):
        return False
    inside = [any(name in dim for dim in tensor) for tensor in question.outputs]
    return question.marks[name] == "+" or all(inside)


def contiguous(question: Question, name: str, lengths: dict[str, int]) -> bool:
    """Whether a part of every tensor is one run: nothing but ones before the name."""
    for dim in (d for tensor in (*question.tensors, *question.outputs) for d in tensor):
        if name in dim:
            before = dim[: dim.index(name)]
            if prod(a if isinstance(a, int) else lengths[a] for a in before) != 1:
                return False
    return True


def wrongs_of_check(question: Question, name: str, parts: int | str, run: bool) -> Iterator[str]:
    """Yields in words what is wrong with one verdict."""
    try:
        legality = check(
            question.text,
            question.inputs,
            name,
            parts,
            arguments=question.arguments,
            facts=question.facts,
            contiguous=run,
        )
    except ShapeError:
        return  # `fuzz_infer` looks after those
    for point in question.points():
        for values in choices_of(legality.solution, point):
            for count in range(1, MOST + 1) if parts == "n" else (None,):
                at = values if count is None else {**values, "n": count}
                wrong = _wrong_at(question, legality, name, parts, run, at)
                if wrong:
                    yield f"{name} into {parts}, contiguous={run}: {legality} {wrong}"
                    return
    yield from _wrong_counterexample(question, legality, name, parts, run)
    if legality.verdict == "unknown" and not legality.conditions:
        yield f"{name} into {parts}: unknown, and nothing is left: {legality}"


def is_legal(
    question: Question,
    legality: Legality,
    name: str,
    parts: int | str,
    run: bool,
    at: dict[str, int],
) -> bool | None:
    """Whether the split is legal at these values; None where the facts exclude them."""
    count = parts if isinstance(parts, int) else number(parts, at)
    lengths = lengths_at(legality.solution, at)
    if not holds(question.facts, {**at, **lengths}):
        return None
    point = {name: value for name, value in at.items() if name in ("s", "t")}
    if lengths not in question.fits(point) or count is None or count < 1:
        return False
    if lengths[name] % count:
        return False
    if parts == 1:
        return True
    return allowed(question, name) and (not run or contiguous(question, name, lengths))


def _wrong_at(
    question: Question,
    legality: Legality,
    name: str,
    parts: int | str,
    run: bool,
    at: dict[str, int],
) -> str:
    right = is_legal(question, legality, name, parts, run, at)
    if right is None:
        return ""
    match legality.verdict:
        case "legal":
            return "" if right else f"is not legal at {at}"
        case "illegal":
            return f"is legal at {at}" if right else ""
        case _:
            said = holds(legality.conditions, at)
            if said == right:
                return ""
            return f"the conditions are {said} at {at}, and legal is {right}"


def _wrong_counterexample(
    question: Question, legality: Legality, name: str, parts: int | str, run: bool
) -> Iterator[str]:
    found = legality.counterexample
    if found is None:
        return
    at = {"s": 1, "t": 1, "n": 1, **dict.fromkeys(_free(legality), 1), **found}
    if is_legal(question, legality, name, parts, run, at) is not False:
        yield f"{name} into {parts}, contiguous={run}: {legality}; no counterexample: {found}"


def _free(legality: Legality) -> list[str]:
    return [str(legality.solution.values[name]) for name in legality.solution.free]


def wrongs_of_counts(question: Question, name: str, run: bool) -> Iterator[str]:
    """Every count of `legal_parts` is judged as `check` judges it; the divisor is the greatest."""
    asked = (question.text, question.inputs, name)
    known = {"arguments": question.arguments, "facts": question.facts, "contiguous": run}
    try:
        counts = legal_parts(*asked, up_to=MOST, **known)  # type: ignore[arg-type]
    except ShapeError:
        return
    kinds = {
        "legal": counts.always,
        "conditional": counts.conditional,
        "illegal": counts.forbidden,
        "unknown": counts.unknown,
    }
    for count in range(1, MOST + 1):
        verdict = check(*asked, count, **known).verdict  # type: ignore[arg-type]
        if [kind for kind, found in kinds.items() if count in found] != [verdict]:
            yield f"{name} into {count}: {verdict}, and legal_parts says {counts}"
    top = counts.fixed_divisor
    if top and counts.always and check(*asked, top, **known).verdict != "legal":  # type: ignore[arg-type]
        yield f"{name} into the fixed divisor {top} is not legal"
    for more in (2 * top, 3 * top, 5 * top) if top and counts.always else ():
        if check(*asked, more, **known).verdict == "legal":  # type: ignore[arg-type]
            yield f"{name} into {more} is legal, and the fixed divisor is {top}"


def wrongs(number_: int) -> Iterator[str]:
    """Everything that is wrong with one random question."""
    draw = Random(number_)
    question = random_question(draw, marks=draw.random() < 0.7)
    if not question.names or not readable(question):
        return
    name, run = draw.choice(question.names), draw.random() < 0.4
    parts: int | str = draw.choice(COUNTS)
    for wrong in wrongs_of_check(question, name, parts, run):
        yield f"{number_} {question}\n    {wrong}"
    if draw.random() < 0.2:
        for wrong in wrongs_of_counts(question, name, run):
            yield f"{number_} {question}\n    {wrong}"


def main(count: int, seed: int) -> int:
    """Asks so many questions; prints what is wrong and returns how many times."""
    total = 0
    for number_ in range(seed, seed + count):
        try:
            found = list(wrongs(number_))
        except RecursionError as error:
            found = [f"{number_} {error}"]
        for wrong in found:
            total += 1
            print(wrong, flush=True)
    print(f"{count} questions, {total} wrong")
    return total


if __name__ == "__main__":
    sys.exit(bool(main(int(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 0)))
