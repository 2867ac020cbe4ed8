"""Runs every split of the calls of one operator, alone and in pairs, and keeps what was found.

    "m k+, k+ n -> m n", counts (2, 3, 4)
    m, k, n into 2, 3 and 4, in parts of several lengths; on unusual values; m beside k, ...

`CheckSplits` asks the same questions of one given call (`GivenCall`, whose lengths are cut into the
counts that divide them) and of sampled ones (`SampledCalls`, whose lengths are chosen anew for each
split).

Where the function does not run on lengths that all differ, it is tried with integers, with even
lengths, and with equal ones. If it needs two lengths to be equal, the annotation is wrong: it gives
them two names. The splits are still checked on what runs.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations, product
from typing import Any, TypeAlias

import torch
from torch import Tensor

from dimsolve.ir.errors import DimsolveError, OperatorError
from dimsolve.ir.operator import Operator
from dimsolve.partition.mesh import has_empty_part
from dimsolve.partition.rules.rule import NoRule

from ..calls import Arguments, Call
from .check_whole import (
    checked_whole,
    differs_without_gradients,
    draws,
    hidden_writes,
    input_name,
    written_to,
)
from .compare import Difference
from .diagnosis import culprit_of, not_linear
from .samples import (
    PLAIN,
    UNUSUAL,
    Parts,
    Sampler,
    Sizes,
    Values,
    Variant,
    in_float32,
    integer_guesses,
    lengths_for,
    other_parts,
    variants,
)
from .split_run import NoCut, cut, cut_beside, first_line, partial_sums, rule_for, run_split
from .verification import Culprit, Refuted, Verification
from .whole import Whole, in_float64

Splits = tuple[tuple[str, int], ...]

_MAX_PAIRS = 25


Calls: TypeAlias = "GivenCall | SampledCalls"
"""Calls of one form that can be split: one that is given, or as many as are wanted."""


@dataclass(frozen=True)
class GivenCall:
    """One call, on the lengths and the values that it has.

    shortest: the lengths that parts must have too, where more counts than the wanted ones give
    them.
    """

    base: Whole
    shortest: tuple[int, ...] = ()

    def tries(self, name: str, counts: Sequence[int]) -> list[tuple[int, Parts]]:
        """The wanted counts, and those that leave the shortest parts."""
        length = self.base.solution.values.get(name)
        more = []
        if isinstance(length, int):
            more = [length // n for n in self.shortest if length % n == 0 and 1 < length // n <= 12]
        return [(count, PLAIN) for count in dict.fromkeys((*counts, *more))]

    def whole_for(self, splits: Splits, parts: Parts = PLAIN) -> Whole | None:
        """The run of the call."""
        return self.base

    def unusual(self, splits: Splits) -> Iterator[tuple[Values, Whole]]:
        """None: the values are given."""
        return iter(())


@dataclass
class CheckSplits:
    """Collects what holds and what does not, over all calls of one operator."""

    target: str
    counts: tuple[int, ...]
    seed: int
    differences: dict[str, float] = field(default_factory=dict)
    culprits: dict[str, Culprit] = field(default_factory=dict)
    splits: dict[str, set[int]] = field(default_factory=dict)
    frozen: dict[str, str] = field(default_factory=dict)
    notes: dict[str, None] = field(default_factory=dict)
    uncut: dict[str, str] = field(default_factory=dict)
    finite: dict[int, bool] = field(default_factory=dict)

    def verification(self) -> Verification:
        """Returns what was found; what was not compared does not hold."""
        if self.uncut and not self.splits:
            for name, reason in self.uncut.items():
                self._blame_unsplit(name, reason)
        for number, finite in self.finite.items():
            if not finite:
                subject = f"output {number}"
                reason = f"{subject} was not compared: all of it is NaN or infinite, in every run"
                hint = "give inputs on which it is finite: verify(target, args=...), "
                self.blame(Culprit(subject, reason, f"{hint}or an input_gen_fn"))
        blamed = {culprit.subject for culprit in self.culprits.values()}
        splits = {n: tuple(sorted(c)) for n, c in self.splits.items() if n not in blamed}
        return Verification(
            self.target,
            {kind: self.differences.get(kind, 0.0) for kind in ("outputs", "gradients", "inputs")},
            tuple(self.culprits.values()),
            splits,
            {n: why for n, why in self.frozen.items() if n not in splits and n not in blamed},
            tuple(self.notes),
        )

    def blame(self, culprit: Culprit) -> None:
        """Keeps the first complaint of each subject and hint."""
        self.culprits.setdefault(f"{culprit.subject}: {culprit.hint}", culprit)

    def _blame_unsplit(self, name: str, reason: str) -> None:
        hint = f"give a call whose '{name}' can be split, or other counts; "
        hint += f"write '{name}^' if it cannot"
        self.blame(Culprit(name, f"'{name}' was not split: {reason}", hint))

    def note(self, text: str) -> None:
        """Keeps a remark."""
        self.notes.setdefault(text)

    def call(
        self, operator: Operator, arguments: Arguments, shortest: tuple[int, ...] = ()
    ) -> None:
        """Checks every split of one given call."""
        try:
            whole = self.whole(Call(operator, in_float64(arguments)))
        except Refuted as refuted:
            self.blame(refuted.culprit)
        else:
            self.all_splits(GivenCall(whole, shortest))

    def whole(self, call: Call) -> Whole:
        """Runs on one device, compared with the annotation. Raises Refuted, or the call's error."""
        whole = checked_whole(call, self.seed)
        for culprit in hidden_writes(whole):
            self.blame(culprit)
        for number in written_to(whole):
            if number in whole.returned:
                what = f"{input_name(whole, number)} is written to"
                self.note(f"{what}: later uses read what was written")
        return whole

    def all_splits(self, calls: Calls) -> None:
        """Checks every identifier alone, then pairs of those that hold."""
        base = calls.base
        declaration = base.call.declaration
        if declaration.returns == "value":
            self.note("gives a value that is known without running: nothing is split")
            return
        if declaration.frozen:
            self.note(f"not split: {declaration.frozen}")
        if declaration.random:
            self.note("draws random numbers: splits are not compared")
            return
        if not base.outputs and not self.culprits:
            reason = "nothing was compared: the call returns nothing"
            hint = "an operator returns what it computes, also the inputs that it writes to"
            self.blame(Culprit("outputs", reason, hint))
        culprit = draws(base, self.seed) or differs_without_gradients(base, self.seed)
        if culprit is not None:
            self.blame(culprit)
            return
        if base.no_gradient:
            self.note(f"gradients are not compared: {base.no_gradient}")
        self._linear(base)
        holding = [name for name in base.solution.layout.marks if self._alone(name, calls)]
        holding = [name for name in holding if self._unusual(name, calls)]
        for outer, inner in list(product(holding, repeat=2))[:_MAX_PAIRS]:
            self._together(((outer, 2), (inner, 2)), calls)
        if holding:
            self._together(((holding[0], 2), (holding[-1], 3)), calls)
            self._together(tuple((name, 2) for name in (holding * 3)[:3]), calls)

    def _linear(self, whole: Whole) -> None:
        """Checks that partial sums of the inputs that are declared linear give partial sums."""
        declaration = whole.call.declaration
        if declaration.linear and not _all_finite(whole):
            self.note("partial sums are not compared: not all values are finite")
            return
        for summands in declaration.linear:
            cuts = partial_sums(whole.solution, summands, self.counts[0])
            outcome = run_split(whole, cuts, self.seed)
            if outcome.ok:
                self._keep(outcome.differences)
            else:
                self.blame(not_linear(whole, summands, outcome))

    def _alone(self, name: str, calls: Calls) -> bool:
        """Splits one identifier into every count; returns whether it holds where it is legal."""
        base = calls.base
        rule = rule_for(base.solution, base.call.declaration, name)
        if isinstance(rule, NoRule):
            if _is_unjoined(base, name):
                self.blame(Culprit(name, f"'{name}' cannot be split: {rule.reason}"))
            else:
                self.frozen.setdefault(name, rule.reason)
            return False
        compared, ran = False, False
        for count, parts in calls.tries(name, self.counts):
            whole = calls.whole_for(((name, count),), parts)
            if whole is None:
                continue
            ran = True
            holds = self._holds(whole, ((name, count),), parts.length)
            if isinstance(holds, NoCut):
                self.frozen.setdefault(name, holds.reason)
                self.uncut.setdefault(name, holds.reason)
                continue
            if not holds:
                return False
            self._note_finite(whole)
            self.splits.setdefault(name, set()).add(count)
            compared = True
        if not ran:
            multiples = " or ".join(map(str, self.counts))
            reason = f"'{name}' was not split: the function does not run where its length is "
            hint = f"give a call whose '{name}' can be split: verify(target, args=...)"
            self.blame(Culprit(name, f"{reason}a multiple of {multiples}", hint))
        elif not compared and not isinstance(calls, GivenCall):
            self._blame_unsplit(name, self.uncut[name])
        return compared and self._unequal(name, base)

    def _unequal(self, name: str, whole: Whole) -> bool:
        """Splits one identifier into parts that are not equal, and into so many that one is empty,
        as far as its rule holds for these; returns whether they are equal to the whole.
        """
        length = whole.solution.values[name]
        assert isinstance(length, int)
        counts = [n for n in range(2, length) if length % n and not has_empty_part(length, n)]
        for count in (*counts[:1], length + 1):
            split = ((name, count),)
            cuts = cut(whole.solution, whole.call.declaration, split, uneven=True)
            if isinstance(cuts, NoCut) or not cuts.dealt:
                continue
            outcome = run_split(whole, cuts, self.seed)
            if outcome.ok:
                self._keep(outcome.differences)
                continue
            found = outcome.error or str(outcome.worst)
            reason = f"'{name}' = {length}, split into {count} unequal parts: {found}"
            hint = (
                f"write '{name}^', or a TransformRule, whose parts are equal where it says no more"
            )
            self.blame(Culprit(name, reason, hint))
            return False
        return True

    def _unusual(self, name: str, calls: Calls) -> bool:
        """Splits one identifier on values that random numbers never have."""
        split = ((name, self.counts[0]),)
        for values, whole in calls.unusual(split):
            cuts = cut(whole.solution, whole.call.declaration, split)
            if isinstance(cuts, NoCut):
                continue
            outcome = run_split(whole, cuts, self.seed)
            if outcome.ok:
                continue
            if values in ("nan", "infinite") and not _all_finite(whole, inputs=False):
                # The function was not made for them: how far they spread is no promise.
                self.note(f"{UNUSUAL[values]}, a split of {name} spreads it further")
                continue
            self.blame(culprit_of(whole, cuts, outcome, self.seed, words=UNUSUAL[values]))
            return False
        return True

    def _together(self, splits: Splits, calls: Calls) -> None:
        whole = calls.whole_for(splits)
        if whole is not None:
            self._holds(whole, splits)

    def _holds(self, whole: Whole, splits: Splits, length: int | None = None) -> bool | NoCut:
        """Whether a call is equal to the whole when it is split; blames what is not. length: of a
        part, where it is not the first one that is tried.
        """
        cuts = cut(whole.solution, whole.call.declaration, splits)
        if isinstance(cuts, NoCut):
            return cuts
        outcome = run_split(whole, cuts, self.seed)
        if outcome.ok:
            self._keep(outcome.differences)
        else:
            self.blame(culprit_of(whole, cuts, outcome, self.seed, length))
        return outcome.ok

    def _note_finite(self, whole: Whole) -> None:
        """Notes which outputs had a number to compare."""
        for number, output in enumerate(whole.outputs):
            if isinstance(output, Tensor) and output.numel():
                finite = bool(output.detach().isfinite().any())
                self.finite[number] = self.finite.get(number, False) or finite

    def _keep(self, differences: Iterable[Difference]) -> None:
        for difference in differences:
            kind = f"{difference.kind}s"
            self.differences[kind] = max(self.differences.get(kind, 0.0), difference.amount)


def _all_finite(whole: Whole, *, inputs: bool = True) -> bool:
    """Whether all outputs, and inputs, are finite: partial sums are about numbers only."""
    tensors = (*(whole.inputs if inputs else ()), *whole.outputs)
    return all(bool(t.detach().isfinite().all()) for t in tensors if isinstance(t, Tensor))


def _is_unjoined(whole: Whole, name: str) -> bool:
    """Whether the annotation promises a split that it does not say how to join."""
    layout = whole.solution.layout
    inputs, outputs = (
        [[pattern.names.count(name) for pattern in row] for row in rows if row is not None]
        for rows in (layout.inputs, layout.outputs)
    )
    once = all(sum(counts) <= 1 for counts in (*inputs, *outputs))
    mark = layout.marks[name]
    return mark.splits and not mark.joins and once and not all(map(any, outputs))


def check_samples(operator: Operator, check: CheckSplits, device: str) -> None:
    """Checks every way to call the function. Raises OperatorError where no inputs can be made."""
    sampler = Sampler(operator, check.seed, device)
    failures: list[tuple[Variant, Exception]] = []
    refused: OperatorError | None = None
    seen: set[tuple[str, Variant]] = set()
    ran = False
    for variant in variants(operator):
        try:
            if sampler.repeats(variant, seen):
                continue
        except OperatorError as problem:
            refused = refused or problem
            continue
        try:
            samples = _working(sampler, variant, check)
        except Refuted as refuted:
            check.blame(refuted.culprit)
            ran = True
            continue
        if isinstance(samples, Exception):
            failures.append((variant, samples))
            continue
        ran = True
        if samples.variant.whole - variant.whole:
            check.note(f"run where {replace(samples.variant, star=2)}")
        check.all_splits(samples)
        for note in samples.refusals():
            check.note(note)
    if refused is not None and not ran and not failures:
        raise refused
    for variant, error in failures:
        if ran:
            check.note(f"not run where {variant}: {first_line(error)}")
        else:
            reason = f"the function does not run on what is annotated: {first_line(error)}"
            check.blame(Culprit("inputs", reason, "give a call: verify(target, args=(x, w))"))


@dataclass
class SampledCalls:
    """Calls of one variant; ``known``: the runs on one device, by the lengths that were wanted."""

    sampler: Sampler
    variant: Variant
    sizes: Sizes
    check: CheckSplits
    base: Whole
    known: dict[tuple[Any, ...], Whole | None] = field(default_factory=dict)
    refused: dict[tuple[str, ...], tuple[list[str], Exception]] = field(default_factory=dict)

    def tries(self, name: str, counts: Sequence[int]) -> list[tuple[int, Parts]]:
        """Into how many parts an identifier is cut, and how long they are: of all lengths."""
        plain = [(count, PLAIN) for count in counts]
        if self.sizes.equal:
            return plain
        others = other_parts(self.base.solution.layout, name)
        return plain + [(count, parts) for parts in others for count in counts]

    def whole_for(self, splits: Splits, parts: Parts = PLAIN) -> Whole | None:
        """Returns a run whose lengths can be split so; None where the function does not run."""
        multiples: dict[str, int] = {}
        for name, count in splits:
            for each in (name, *cut_beside(self.base.solution, self.base.call.declaration, name)):
                multiples[each] = multiples.get(each, 1) * count
        key = (*sorted(multiples.items()), parts)
        if key not in self.known:
            self.known[key] = self._first(multiples, parts)
        return self.known[key]

    def _first(self, multiples: Mapping[str, int], parts: Parts) -> Whole | None:
        first: Exception | None = None
        for each in parts.attempts(self.sizes.step):
            try:
                return _run(self.sampler, self.variant, multiples, self.sizes, self.check, each)
            except Refuted as refuted:
                self.check.blame(refuted.culprit)
                return None
            except Exception as error:
                first = first or error
        assert first is not None
        lengths = lengths_for(self.base.solution.layout, multiples, self.sizes, parts)
        at, _ = self.refused.setdefault(tuple(multiples), ([], first))
        at.append(" and ".join(f"{name} = {lengths[name]}" for name in multiples))
        return None

    def unusual(self, splits: Splits) -> Iterator[tuple[Values, Whole]]:
        """Yields runs on values that random numbers never have, where the function runs on them."""
        plain = self.whole_for(splits)
        if plain is None:
            return
        own = self.sampler.operator.input_gen_fn is not None
        tried: tuple[Values, ...] = ("float32",) if own else tuple(UNUSUAL)
        for values in tried:
            variant = replace(self.variant, values=values)
            whole = replace(self, variant=variant, known={}, refused={}).whole_for(splits)
            if whole is not None and _differ(plain, whole):
                yield values, whole

    def refusals(self) -> Iterator[str]:
        """Yields on which lengths the function did not run, and what it said to the first."""
        for at, error in self.refused.values():
            yield f"not run where {', '.join(dict.fromkeys(at))}: {first_line(error)}"


def _differ(plain: Whole, other: Whole) -> bool:
    """Whether the values are not those of the plain run: a dtype may have no unusual ones."""
    return any(
        a is not None and b is not None and (a.dtype is not b.dtype or not torch.equal(a, b))
        for a, b in zip(plain.inputs, other.inputs, strict=True)
    )


def _working(sampler: Sampler, variant: Variant, check: CheckSplits) -> SampledCalls | Exception:
    """Finds inputs that the function runs on; the first error where there are none."""
    first: Exception | None = None
    for chosen, sizes in _attempts(sampler, variant):
        try:
            base = _run(sampler, chosen, {}, sizes, check)
        except (Refuted, DimsolveError):
            raise
        except Exception as error:
            first = first or error
            continue
        if sizes.equal:
            *names, last = sorted(sizes.equal)
            why = f": {first_line(first)}" if first is not None else ""
            listed = f"{', '.join(map(repr, names))} and '{last}'"
            reason = f"the function runs only where {listed} are equally long{why}"
            hint = "lengths that must be equal have one name, and a length that must be 1 is "
            check.blame(Culprit(names[0], reason, f"{hint}written 1"))
        return SampledCalls(sampler, chosen, sizes, check, base)
    assert first is not None
    return first


def _attempts(sampler: Sampler, variant: Variant) -> Iterator[tuple[Variant, Sizes]]:
    layout = sampler.layout(variant)
    for whole in integer_guesses(len(layout.inputs)):
        for step in (1, 2, 4):
            yield replace(variant, whole=whole), Sizes(step)
    names = list(layout.marks)
    for pair in combinations(names, 2):
        yield variant, Sizes(equal=frozenset(pair))
    if len(names) > 2:
        yield variant, Sizes(equal=frozenset(names))


def _run(
    sampler: Sampler,
    variant: Variant,
    multiples: Mapping[str, int],
    sizes: Sizes,
    check: CheckSplits,
    parts: Parts = PLAIN,
) -> Whole:
    arguments = sampler.sample(variant, multiples, sizes, parts)
    precise = in_float32 if variant.values == "float32" else in_float64
    return check.whole(Call(sampler.operator, precise(arguments)))
