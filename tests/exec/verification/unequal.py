"""Every length and every count, of every operator of the library: joined, equal to the whole?

    python -m tests.exec.verification.unequal [NAME ...]

Each identifier of each example takes every length from 0 to 12 (the other lengths stay those of
the example), and each such call is cut into 1 to 7 parts as `dimsolve.check(uneven=True)` says.
What it calls legal is run on all ranks in this process, and joined it must be equal to the whole,
outputs and gradients. What it refuses is run too, in the parts of torch's ``chunk`` with whatever
rule there is, or, where nothing says how parts are joined, with every way to join them: a refusal
that *works* at this length is counted beside its reason, and what is refused of one annotation,
identifier and count, and fails at no length above 1, is listed.

    torch.amax, a = 5 into 4   refused: it leaves a part empty     raises: no maximum of nothing
    torch.mean, a = 5 into 2   refused: means of 3 and of 2 rows   differs by 0.1

Each operator runs in a child process: some end the process that they run in where a part is empty.
"""

from __future__ import annotations

import json
import os
import sys
import warnings
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal, TypeAlias

from dimsolve.exec.calls import Arguments, Call, lengths_of, takes_several
from dimsolve.exec.verification.check_whole import checked_whole, draws
from dimsolve.exec.verification.samples import shape_of
from dimsolve.exec.verification.split_run import Cuts, cut, rule_for, run_split
from dimsolve.exec.verification.verification import Refuted
from dimsolve.exec.verification.verify import operator_for
from dimsolve.exec.verification.whole import Whole, fixed_random, in_float64
from dimsolve.ir.errors import DimsolveError
from dimsolve.ir.operator import Declaration, Operator
from dimsolve.partition.mesh import has_empty_part
from dimsolve.partition.placement import Partial, Reduction
from dimsolve.partition.rules.rule import (
    NoRule,
    Rule,
    dealt_rule,
    default_placements,
)
from dimsolve.solver.infer import infer, same_named
from dimsolve.solver.operators import specimens
from dimsolve.solver.operators.catalogue import entries
from dimsolve.solver.operators.declare.entry import Example, Sample, example, t
from dimsolve.solver.operators.declare.entry import whole as integers
from dimsolve.solver.operators.paths import IN_PLACE
from dimsolve.solver.solution import Solution

LENGTHS = range(13)
COUNTS = range(1, 8)

Kind = Literal["equal", "unequal", "with an empty part"]
Ran = Literal["equal", "raises", "differs", "ends the process"]


@dataclass(frozen=True, slots=True)
class Split:
    """One identifier of one example call of an operator."""

    path: str
    example: int
    text: str
    name: str

    def __str__(self) -> str:
        return f"{self.path}: {self.text}, {self.name}"


@dataclass(frozen=True, slots=True)
class Found:
    """What one count gave. refused: why it is not legal, "" where it is; ran: what its parts are
    beside the whole; what: the difference, or the error.
    """

    length: int
    count: int
    kind: Kind
    refused: str
    ran: Ran
    what: str = ""

    def __str__(self) -> str:
        return f"{self.length} into {self.count}, {self.kind}: {self.ran} {self.what}".strip()


def declared(operator: Operator, call: Example) -> tuple[Declaration, Solution] | None:
    """Returns what an example promises, read from its samples; None for what is never split."""
    declaration = operator.declare(*call.args, **call.kwargs)
    if declaration.returns == "value" or declaration.random:
        return None
    shapes = [getattr(value, "shape", None) for value in declaration.inputs]
    arguments = {**declaration.arguments, **dict.fromkeys(declaration.fresh, 1)}
    arguments = same_named(declaration.annotation, arguments)
    try:
        return declaration, infer(declaration.annotation, shapes, arguments=arguments)
    except DimsolveError:
        return None


def at_length(operator: Operator, call: Example, name: str, length: int) -> Whole | None:
    """Returns the example run on one device with another length of an identifier; None where torch
    or the declaration refuses that, or where it is another annotation.

    torch.cat([a 12, a 6], 1), a of 3     tensors of (3, 12) and (3, 6)
    """
    found = declared(operator, call)
    if found is None:
        return None
    declaration, solution = found
    lengths: dict[str, Any] = {**solution.values, name: length}
    rows = zip(declaration.inputs, solution.layout.inputs, strict=True)
    shapes = {id(v): shape_of(row, lengths) for v, row in rows if row is not None and v is not None}
    if length < solution.values[name] and (operator.path, name) in READ_UNCHECKED:
        return None
    for most in (None, max(length, 1)):
        args, kwargs = _resized((call.args, call.kwargs), shapes, most)
        try:
            made = Example(args, kwargs).build(grad=False)
            arguments = _with_sizes(operator, declaration, Arguments(*made), lengths, solution)
            whole = checked_whole(Call(operator, in_float64(arguments)), 0)
        except (Refuted, DimsolveError, *_REFUSALS):
            continue
        same = whole.solution.text == solution.text
        if not same or whole.solution.values.get(name) != length:
            return None
        # Of nothing some functions of torch return memory that nobody wrote to.
        return whole if length or draws(whole, 0) is None else None
    return None


READ_UNCHECKED = {("torch.nn.functional.ctc_loss", "c")}
"""Identifiers whose length torch does not hold against the labels of the example, and reads on."""

_REFUSALS = (ArithmeticError, AssertionError, LookupError, RuntimeError, TypeError, ValueError)


def _resized(value: Any, shapes: Mapping[int, tuple[int, ...]], most: int | None) -> Any:
    """The arguments with samples of other shapes; ``most``: above all integers in them."""
    if isinstance(value, Sample):
        shape = shapes.get(id(value), value.shape)
        bounded = most is not None and value.kind == "whole" and value.low >= 0
        high = min(value.high, most) if bounded and most is not None else value.high
        key = id(value), shape, high
        return _SAMPLES.setdefault(key, (value, replace(value, shape=shape, high=high)))[1]
    if isinstance(value, list | tuple):
        return type(value)(_resized(item, shapes, most) for item in value)
    if isinstance(value, dict):
        return {key: _resized(item, shapes, most) for key, item in value.items()}
    return value


_SAMPLES: dict[Any, tuple[Sample, Sample]] = {}
"""A sample that stands twice in a call is one tensor: its copies must be one, too."""


def _with_sizes(
    operator: Operator,
    declaration: Declaration,
    arguments: Arguments,
    lengths: Mapping[str, int],
    solution: Solution,
) -> Arguments:
    given = arguments.parameters(operator.parameters)
    for name, text in declaration.sizes.items():
        sizes = lengths_of(text, lengths, solution.layout.star)
        several = takes_several(given, operator.parameters, name, len(sizes))
        value = sizes if several else sizes[0]
        arguments = arguments.with_parameter(operator.parameters, name, value)
    return arguments


def forced(whole: Whole, name: str, count: int) -> list[Cuts]:
    """Returns the ways to run a split that is refused: the rule that there is, in the parts of
    ``chunk``; where there is none, the identifier cut wherever it stands, joined in every way.
    """
    solution, declaration = whole.solution, whole.call.declaration
    rule = rule_for(solution, declaration, name)
    rules = [rule] if isinstance(rule, Rule) else []
    if isinstance(rule, NoRule):
        for reduction in Reduction:
            sides = default_placements(solution, name, declaration.value_split, reduction)
            rules.append(Rule(name, *sides))
            if not any(isinstance(each, Partial) for side in sides for each in side):
                break
    known = {n: v for n, v in solution.values.items() if isinstance(v, int)}
    found = []
    for each in rules:
        dealt = dealt_rule(each, solution)
        if isinstance(dealt, Rule):
            lengths = ((name, known[name], 1),)
            found.append(Cuts(((name, count),), (dealt,), known, lengths))
    return found


def found_of(whole: Whole, name: str, count: int) -> Found:
    """Returns what is said of one count, and what running it gives."""
    length = whole.solution.values[name]
    assert isinstance(length, int)
    kind: Kind = "equal" if length % count == 0 else "unequal"
    if length and has_empty_part(length, count):
        kind = "with an empty part"
    split = ((name, count),)
    cuts = cut(whole.solution, whole.call.declaration, split, uneven=True)
    if isinstance(cuts, Cuts):
        ran, what = _ran(whole, cuts)
        return Found(length, count, kind, "", ran, what)
    ways = [_ran(whole, each) for each in forced(whole, name, count)]
    if not ways:
        return Found(length, count, kind, cuts.reason, "raises", "no placements cut it so")
    ran, what = min(ways, key=lambda way: ("equal", "differs", "raises").index(way[0]))
    return Found(length, count, kind, cuts.reason, ran, what)


def _ran(whole: Whole, cuts: Cuts) -> tuple[Ran, str]:
    try:
        outcome = run_split(whole, cuts, 0)
    except Exception as error:
        return "raises", f"{type(error).__name__}: {error}".partition("\n")[0]
    if outcome.ok:
        return "equal", str(cuts.rules[0].outputs[0]) if cuts.rules[0].outputs else ""
    return ("raises", outcome.error) if outcome.error else ("differs", str(outcome.worst))


def _ties(*shape: int) -> Sample:
    """A sample in which many elements are equal: to which of them does the gradient go?"""
    return integers(3, *shape, dtype="float64")


_POOL = "torch.nn.functional.adaptive_max_pool"
HARDER: dict[str, tuple[Example, ...]] = {
    "torch.cdist": (example(_ties(12, 6), _ties(4, 6), p=float("inf")),),
    "torch.isin": (example(integers(1, 2), integers(3, 6, low=1), assume_unique=True),),
    "torch.searchsorted": (example(t(6), t(12, 4)),),
    "torch.bucketize": (example(t(12, 4), t(6)),),
    "torch.nn.functional.embedding_bag": (
        example(integers(6, 4, 6), _ties(6, 4), mode="max"),
        example(integers(6, 4, 6), _ties(6, 4), mode="mean", padding_idx=2),
    ),
    f"{_POOL}1d": (example(_ties(12, 3, 4), 1),),
    f"{_POOL}2d": (example(_ties(12, 3, 4, 6), 1),),
    f"{_POOL}3d": (example(_ties(12, 3, 4, 2, 6), 1),),
}
"""Calls beside those that show an operator, of values with which a split that is refused does fail:
equal elements, borders that are not sorted.
"""


Asked: TypeAlias = "tuple[str, str, str, str]"
"""Path, annotation and identifier of a split, and the kind of reason for which it is refused."""

Step: TypeAlias = "tuple[Split, int, Callable[[], Found] | None]"
"""A split at one length, and what runs one of its counts; None where the whole is about to run."""


def splits_of(
    path: str, lengths: Iterable[int] = LENGTHS, ending: Collection[tuple[Split, int]] = ()
) -> Iterator[Step]:
    """Yields every split of an operator's examples; ``ending``: lengths at which the whole ends the
    process.
    """
    operator = operator_for(path)
    for number, call in enumerate((*specimens(path), *HARDER.get(path, ()))):
        found = declared(operator, call)
        for name in found[1].values if found else ():
            assert found is not None
            split = Split(path, number, found[0].annotation, name)
            for length in lengths:
                yield split, length, None
                if (split, length) in ending:
                    continue
                whole = at_length(operator, call, name, length)
                for count in COUNTS if whole is not None else ():
                    assert whole is not None
                    yield split, length, _run_of(whole, name, count)


def _run_of(whole: Whole, name: str, count: int) -> Callable[[], Found]:
    return lambda: found_of(whole, name, count)


def reason_of(found: Found) -> str:
    """Returns the kind of reason for which a count is refused."""
    for words, kind in _REASONS.items():
        if words in found.refused:
            return kind
    return "the operator's own condition"


_REASONS = {
    "is marked '^'": "marked ^: never split",
    "leaves a part empty": "a part would be empty",
    "must be equal": "parts are weighed alike, or a rule for equal parts",
    "stands ": "stands twice in one tensor",
    "has no mark": "nothing joins the parts",
    "which must have equal parts": "another dimension is cut beside it",
}


class Tally:
    """Counts of everything that was run, and the lines worth reading."""

    def __init__(self) -> None:
        self.legal: Counter[tuple[Kind, Ran]] = Counter()
        self.refused: Counter[tuple[str, Ran]] = Counter()
        self.wrong: list[str] = []
        self.by_count: dict[tuple[Asked, int], Counter[Ran]] = {}
        self.operators: set[str] = set()
        self.short: Counter[tuple[str, int]] = Counter()

    def add(self, split: Split, found: Found) -> None:
        """Adds one run."""
        self.operators.add(split.path)
        if found.refused:
            reason = reason_of(found)
            self.refused[reason, found.ran] += 1
            asked = split.path, split.text, split.name, reason
            runs = self.by_count.setdefault((asked, found.count), Counter())
            if found.length > 1:
                runs[found.ran] += 1
            elif found.ran == "equal":
                self.short[reason, found.length] += 1
            return
        self.legal[found.kind, found.ran] += 1
        if found.ran != "equal":
            self.wrong.append(f"{split} = {found}")

    def never_fails(self) -> Iterator[tuple[Asked, int, int]]:
        """Yields what is refused, with the count and how many runs, and fails at no length above 1:
        of one row, or of none, a single rank has all that there is.
        """
        for (asked, count), runs in self.by_count.items():
            if runs and not runs.keys() - {"equal"}:
                yield asked, count, runs["equal"]

    def works(self) -> Iterator[str]:
        """Yields why what is refused works all the same, with the number of runs, by reason."""
        never = {(asked, count) for asked, count, _ in self.never_fails()}
        found = Counter({(reason, f"length {n}"): runs for (reason, n), runs in self.short.items()})
        for key, runs in self.by_count.items():
            why = "fails at no length" if key in never else "fails at other lengths"
            found[key[0][-1], why] += runs["equal"]
        for (reason, why), number in sorted(found.items()):
            if number:
                yield f"works all the same, {reason}, {why}: {number}"

    def __str__(self) -> str:
        lines = [f"{len(self.operators)} operators"]
        lines.append("| legal | equal to the whole | not |\n|---|---:|---:|")
        for kind in ("equal", "unequal", "with an empty part"):
            runs = {ran: n for (k, ran), n in self.legal.items() if k == kind}
            lines.append(f"| {kind} | {runs.pop('equal', 0)} | {sum(runs.values())} |")
        heads: tuple[Ran, ...] = ("raises", "differs", "ends the process", "equal")
        lines.append("| refused | raises | differs | ends the process | works |")
        lines.append("|---|---:|---:|---:|---:|")
        for reason in sorted({reason for reason, _ in self.refused}):
            counted = [str(self.refused[reason, head]) for head in heads]
            lines.append(f"| {reason} | {' | '.join(counted)} |")
        return "\n".join(lines)


def failures(name: str, found: Counter[str], lengths: Iterable[int] = LENGTHS) -> Iterator[str]:
    """Yields what is called legal and is not equal; ``found``: how many counts were run, of which
    kind.
    """
    with fixed_random(0):
        for split, _, run in splits_of(name, lengths):
            if run is None:
                continue
            result = run()
            found["refused" if result.refused else result.kind] += 1
            if not result.refused and result.ran != "equal":
                yield f"{split} = {result}"


def in_child(path: str) -> Iterator[tuple[Split, Found]]:
    """Yields what a child process finds of an operator, and of a run that ends it says so."""
    done, ending = 0, set[tuple[Split, int]]()
    while True:
        read, write = os.pipe()
        child = os.fork()
        if not child:
            os.close(read)
            _tell(path, done, ending, write)
        os.close(write)
        begun: tuple[Split, int, bool] | None = None
        with os.fdopen(read) as lines:
            for line in lines:
                names, length, runs, found = json.loads(line)
                split, begun = Split(*names), None
                if found is None:
                    begun = split, length, runs
                else:
                    done += 1
                    yield split, Found(*found)
        _, status = os.waitpid(child, 0)
        if not status:
            return
        assert begun is not None and os.WIFSIGNALED(status), f"{path}: {status} after {begun}"
        split, length, runs = begun
        if runs:
            done += 1
            yield split, Found(length, 0, "unequal", "?", "ends the process")
        else:
            ending.add((split, length))


def _tell(path: str, done: int, ending: Collection[tuple[Split, int]], write: int) -> None:
    """What the child does: the runs after the first ones; it writes what it is about to run, and
    what it found.
    """
    warnings.simplefilter("ignore")
    code, number = 1, 0
    try:
        with os.fdopen(write, "w") as lines, fixed_random(0):
            for split, length, run in splits_of(path, ending=ending):
                number += run is not None
                if run is not None and number <= done:
                    continue
                names = [getattr(split, field) for field in Split.__slots__]
                lines.write(json.dumps([names, length, run is not None, None]) + "\n")
                lines.flush()
                if run is not None:
                    found = run()
                    row = [getattr(found, field) for field in Found.__slots__]
                    lines.write(json.dumps([names, length, True, row]) + "\n")
        code = 0
    finally:
        os._exit(code)


def distinct() -> list[str]:
    """Returns the paths of the library without those that are another name of the same function."""
    return [*entries(), *IN_PLACE]


def main(chosen: list[str]) -> int:
    import torch.fx.experimental.symbolic_shapes  # noqa: F401, for autograd, in all children

    tally, paths = Tally(), chosen or distinct()
    try:
        for number, path in enumerate(paths):
            wrong = len(tally.wrong)
            for split, found in in_child(path):
                tally.add(split, found)
            for line in tally.wrong[wrong:]:
                print(line, flush=True)
            if number % 50 == 49:
                print(f"{number + 1} of {len(paths)}", file=sys.stderr, flush=True)
    except KeyboardInterrupt:
        print(f"ended before {path}")
    for (name, text, split_name, reason), count, runs in tally.never_fails():
        where = f"{name}: {text}, {split_name} into {count}"
        print(f"refused, and works in all {runs} runs: {where} ({reason})")
    for line in tally.works():
        print(line)
    print(tally)
    return len(tally.wrong)


if __name__ == "__main__":
    sys.exit(min(main(sys.argv[1:]), 1))
