"""Every count, of every operator of the library: unequal and empty parts, run and compared.

    python -m tests.exec.verification.unequal [NAME ...]

Every identifier of every example is cut into 1 to 7 parts of the lengths that torch's ``chunk``
makes. What `dimsolve.check` calls legal must be equal to the whole, outputs and gradients.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterator

from dimsolve.exec.calls import Call
from dimsolve.exec.verification.check_whole import checked_whole
from dimsolve.exec.verification.split_run import NoCut, cut, run_split
from dimsolve.exec.verification.verification import Refuted
from dimsolve.exec.verification.verify import library_examples, operator_for
from dimsolve.exec.verification.whole import Whole, fixed_random, in_float64
from dimsolve.ir.errors import OperatorError
from dimsolve.ir.operator import Operator
from dimsolve.solver.operators import names

COUNTS = range(1, 8)


def wholes(operator: Operator) -> Iterator[Whole]:
    """The examples of an operator, run on one device, as far as they can be split."""
    try:
        given = library_examples(operator, "cpu")
    except OperatorError:  # nothing to run on
        return
    for arguments in given:
        try:
            whole = checked_whole(Call(operator, in_float64(arguments)), 0)
        except Refuted:
            continue
        declaration = whole.call.declaration
        if declaration.returns != "value" and not declaration.random:
            yield whole


def failures(name: str, found: Counter[str]) -> Iterator[str]:
    """What is called legal and is not equal; ``found``: how many cuts were run, and of which."""
    operator = operator_for(name)
    for whole in wholes(operator):
        for identifier, length in whole.solution.values.items():
            for count in COUNTS:
                split = ((identifier, count),)
                cuts = cut(whole.solution, whole.call.declaration, split, uneven=True)
                if isinstance(cuts, NoCut):
                    found["refused"] += 1
                    continue
                assert isinstance(length, int)
                empty = (count - 1) * -(-length // count) >= length
                kind = "equal" if not cuts.dealt else "with an empty part" if empty else "unequal"
                found[kind] += 1
                outcome = run_split(whole, cuts, 0)
                if not outcome.ok:
                    what = outcome.error or str(outcome.worst)
                    text = whole.solution.text
                    yield f"{name}: {text}, {identifier} = {length} into {count}, {kind}: {what}"


def main(chosen: list[str]) -> int:
    found: Counter[str] = Counter()
    failed = 0
    with fixed_random(0):
        for name in chosen or names():
            for line in failures(name, found):
                failed += 1
                print(line, flush=True)
    print(", ".join(f"{count} {kind}" for kind, count in sorted(found.items())), f"{failed} failed")
    return failed


if __name__ == "__main__":
    sys.exit(min(main(sys.argv[1:]), 1))
