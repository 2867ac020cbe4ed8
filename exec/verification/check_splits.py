"""Runs every split of a call, alone and in pairs, and keeps what was found."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import product
from typing import Any

from torch import Tensor

from dimsolve.ir.annotation import Mark
from dimsolve.ir.operator import Operator
from dimsolve.partition.rules import NoRule

from ..arguments import Arguments
from ..operator_call import Call
from .check_whole import Lie, checked_whole, draws, hidden_writes, no_grad_lie
from .cuts import NoCut, cut, partial_sums, rule_for
from .diagnosis import culprit_of, not_linear
from .split_run import run_split
from .splittable import Calls, GivenCall, Splits
from .unusual_values import UNUSUAL
from .verification import Culprit, Verification
from .whole_run import Whole, in_float64

_MAX_PAIRS = 25


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
                self.blame(_unsplit(name, reason))
        for number, finite in self.finite.items():
            if not finite:
                self.blame(_nothing_finite(number))
        lying = {culprit.subject for culprit in self.culprits.values()}
        splits = {n: tuple(sorted(c)) for n, c in self.splits.items() if n not in lying}
        frozen = {n: reason for n, reason in self.frozen.items() if n not in splits}
        return Verification(
            self.target,
            {kind: self.differences.get(kind, 0.0) for kind in ("outputs", "gradients", "inputs")},
            tuple(self.culprits.values()),
            splits,
            {n: reason for n, reason in frozen.items() if n not in lying},
            tuple(self.notes),
        )

    def blame(self, culprit: Culprit) -> None:
        """Keeps the first lie of each subject and kind of reason."""
        self.culprits.setdefault(f"{culprit.subject}: {culprit.hint}", culprit)

    def note(self, text: str) -> None:
        """Keeps a remark."""
        self.notes.setdefault(text)

    def call(
        self, operator: Operator, arguments: Arguments, shortest: tuple[int, ...] = ()
    ) -> None:
        """Checks every split of one given call."""
        call = Call(operator, in_float64(arguments))
        try:
            whole = self.whole(call)
        except Lie as lie:
            self.blame(lie.culprit)
            return
        self.all_splits(GivenCall(whole, shortest))

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
            self.blame(_nothing_returned())
        lie = draws(base, self.seed) or no_grad_lie(base, self.seed)
        if lie is not None:
            self.blame(lie)
            return
        if base.no_gradient:
            self.note(f"gradients are not compared: {base.no_gradient}")
        self._linear(base)
        holding = [name for name in base.solution.layout.marks if self._alone(name, calls)]
        holding = [name for name in holding if self._unusual(name, calls)]
        pairs = list(product(holding, repeat=2))[:_MAX_PAIRS]
        for outer, inner in pairs:
            self._together(((outer, 2), (inner, 2)), calls)
        if holding:
            self._together(((holding[0], 2), (holding[-1], 3)), calls)
            self._together(tuple((name, 2) for name in (holding * 3)[:3]), calls)

    def whole(self, call: Call) -> Whole:
        """Runs on one device, compared with the annotation. Raises Lie, or what the call raises."""
        whole = checked_whole(call, self.seed)
        for culprit in hidden_writes(whole):
            self.blame(culprit)
        return whole

    def _linear(self, whole: Whole) -> None:
        """Checks that partial sums of the inputs that are said to be linear give partial sums."""
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
        held, ran = False, False
        for count, parts in calls.tries(name, self.counts):
            whole = calls.whole_for(((name, count),), parts)
            if whole is None:
                continue
            ran = True
            cuts = cut(whole.solution, whole.call.declaration, ((name, count),))
            if isinstance(cuts, NoCut):
                self.frozen.setdefault(name, cuts.reason)
                self.uncut.setdefault(name, cuts.reason)
                continue
            outcome = run_split(whole, cuts, self.seed)
            if not outcome.ok:
                self.blame(culprit_of(whole, cuts, outcome, self.seed, parts.length))
                return False
            self._keep(outcome.differences)
            self._see(whole)
            self.splits.setdefault(name, set()).add(count)
            held = True
        if not ran:
            self.blame(_untried(name, self.counts))
        elif not held and not isinstance(calls, GivenCall):
            self.blame(_unsplit(name, self.uncut[name]))
        return held

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
            if values == "nan" and not _all_finite(whole, inputs=False):
                # The function was not made for them: how far they spread is no promise.
                self.note(f"{UNUSUAL[values]}, a split of {name} spreads it further")
                continue
            self.blame(culprit_of(whole, cuts, outcome, self.seed, words=UNUSUAL[values]))
            return False
        return True

    def _together(self, splits: Splits, calls: Calls) -> None:
        whole = calls.whole_for(splits)
        if whole is None:
            return
        cuts = cut(whole.solution, whole.call.declaration, splits)
        if isinstance(cuts, NoCut):
            return
        outcome = run_split(whole, cuts, self.seed)
        if outcome.ok:
            self._keep(outcome.differences)
        else:
            self.blame(culprit_of(whole, cuts, outcome, self.seed))

    def _see(self, whole: Whole) -> None:
        """Notes which outputs had a number to compare."""
        for number, output in enumerate(whole.outputs):
            if isinstance(output, Tensor) and output.numel():
                finite = bool(output.detach().isfinite().any())
                self.finite[number] = self.finite.get(number, False) or finite

    def _keep(self, differences: Iterable[Any]) -> None:
        for difference in differences:
            kind = f"{difference.kind}s"
            self.differences[kind] = max(self.differences.get(kind, 0.0), difference.amount)


def _untried(name: str, counts: Sequence[int]) -> Culprit:
    return Culprit(
        name,
        f"'{name}' was not split: the function does not run where its length is a multiple "
        f"of {' or '.join(map(str, counts))}",
        f"give a call whose '{name}' can be split: verify(target, args=...)",
    )


def _unsplit(name: str, reason: str) -> Culprit:
    return Culprit(
        name,
        f"'{name}' was not split: {reason}",
        f"give a call whose '{name}' can be split, or other counts; write '{name}^' if it cannot",
    )


def _nothing_finite(number: int) -> Culprit:
    return Culprit(
        f"output {number}",
        f"output {number} was not compared: all of it is NaN or infinite, in every run",
        "give inputs on which it is finite: verify(target, args=...), or an input_gen_fn",
    )


def _nothing_returned() -> Culprit:
    return Culprit(
        "outputs",
        "nothing was compared: the call returns nothing",
        "an operator returns what it computes, also the inputs that it writes to",
    )


def _all_finite(whole: Whole, *, inputs: bool = True) -> bool:
    """Whether all outputs, and inputs, are finite: partial sums are about numbers only."""
    tensors = (*(whole.inputs if inputs else ()), *whole.outputs)
    return all(bool(t.detach().isfinite().all()) for t in tensors if isinstance(t, Tensor))


def _is_unjoined(whole: Whole, name: str) -> bool:
    """Whether the annotation promises a split that it does not say how to join."""
    layout = whole.solution.layout
    if layout.marks[name] is not Mark.NONE:
        return False
    once = all(
        sum(pattern.names.count(name) for pattern in row or ()) <= 1
        for row in (*layout.inputs, *layout.outputs)
    )
    return once and any(
        row is not None and not any(name in pattern.names for pattern in row)
        for row in layout.outputs
    )
