"""Random questions against brute force: `infer` says no more and no less.

    python -m tests.solver.fuzz_infer 20000 [seed]

A small part runs with the tests (`test_infer_fuzz.py`).
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from itertools import product
from random import Random

from dimsolve.ir.errors import ShapeError
from dimsolve.solver.infer import infer
from dimsolve.solver.solution import Solution
from tests.oracles.brute_force import evaluate, holds
from tests.oracles.questions import LARGEST, Question, random_question, readable


def wrongs_of_infer(question: Question) -> Iterator[str]:
    """Yields in words everything that is wrong with the answer to a question."""
    try:
        solution = infer(
            question.text, question.inputs, arguments=question.arguments, facts=question.facts
        )
    except RecursionError as error:
        yield f"{error}"
        return
    except ShapeError as error:
        for point in question.points():
            if fits := question.fits(point):
                yield f"refused, but at {point} it is {fits[0]}: {error.diagnostic.reason}"
                return
        return
    for point in question.points():
        yield from _wrongs_at(question, solution, point)


def symbols_of_free(solution: Solution) -> dict[str, str]:
    """The symbol of each free identifier: its own name, or one that the caller does not use."""
    return {name: str(solution.values[name]) for name in solution.free}


def choices_of(solution: Solution, point: dict[str, int]) -> Iterator[dict[str, int]]:
    """The point with all small values of the free identifiers' symbols."""
    names = list(symbols_of_free(solution).values())
    for choice in product(range(1, LARGEST + 1), repeat=len(names)):
        yield {**point, **dict(zip(names, choice, strict=True))}


def lengths_at(solution: Solution, values: dict[str, int]) -> dict[str, int]:
    """The lengths of all identifiers; -1 for one that has no value there."""
    found = {}
    for name, dim in solution.values.items():
        try:
            found[name] = evaluate(dim, values)
        except ZeroDivisionError:
            found[name] = -1
    return found


def _wrongs_at(question: Question, solution: Solution, point: dict[str, int]) -> Iterator[str]:
    fits = question.fits(point)
    symbols = symbols_of_free(solution)
    for lengths in fits:
        values = {**point, **{symbols[name]: lengths[name] for name in symbols}}
        if not holds(solution.conditions, values):
            yield f"{solution.conditions} fail at {values}, where {lengths} fits"
            return
        found = lengths_at(solution, values)
        if found != lengths:
            yield f"at {values} it says {found}, and {lengths} fits"
            return
    for values in choices_of(solution, point):
        if not holds(solution.conditions, values):
            continue
        found = lengths_at(solution, values)
        if holds(question.facts, {**values, **found}) and found not in fits:
            yield f"{solution.conditions} hold at {values}, but {found} does not fit"
            return


def wrongs_of_choices(question: Question) -> Iterator[str]:
    """The same for the listed choices, where the shapes are numbers."""
    point = next(question.points(), None)
    if point is None or question.names == []:
        return
    sizes = tuple(
        tuple(str(evaluate_text(dim, point)) for dim in shape) for shape in question.inputs
    )
    facts = tuple(f for f in question.facts if not {"s", "t"} & set(f.replace("*", " ").split()))
    asked = Question(
        question.text, question.tensors, question.outputs, question.marks, sizes, {}, facts
    )
    if not readable(asked):
        return
    try:
        solution = infer(asked.text, asked.inputs, facts=asked.facts)
    except ShapeError:
        return
    choices = solution.solutions()
    fits = [{n: lengths[n] for n in solution.free} for lengths in asked.fits({})]
    wanted = sorted(fits, key=lambda case: [case[n] for n in solution.free])
    if choices is None or not choices.complete:
        yield f"{asked} leaves {len(wanted)} choices, listed: {choices}"
    elif [dict(choice) for choice in choices] != wanted:
        yield f"{asked}: {choices} instead of {wanted}"


def evaluate_text(text: str, point: dict[str, int]) -> int:
    from dimsolve.solver.shapes import to_dim

    try:
        return evaluate(to_dim(text), point)
    except ZeroDivisionError:
        return -1


def main(count: int, seed: int) -> int:
    """Asks so many questions; prints what is wrong and returns how many times."""
    wrongs = 0
    for number in range(seed, seed + count):
        question = random_question(Random(number))
        if not readable(question):
            continue
        for wrong in (*wrongs_of_infer(question), *wrongs_of_choices(question)):
            wrongs += 1
            print(number, question, wrong, sep="\n    ", flush=True)
    print(f"{count} questions, {wrongs} wrong")
    return wrongs


if __name__ == "__main__":
    sys.exit(bool(main(int(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 0)))
