"""Runs every split of a call, alone and in pairs, and keeps what was found."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from itertools import product
from typing import Any

from dimsolve.ir.annotation import Mark
from dimsolve.ir.operator import Operator
from dimsolve.partition.rules import NoRule

from ..arguments import Arguments
from ..operator_call import Call
from .check_whole import Lie, checked_whole, draws, hidden_writes
from .cuts import NoCut, cut, partial_sums, rule_for
from .diagnosis import culprit_of, not_linear
from .split_run import run_split
from .verification import Culprit, Verification
from .whole_run import Whole, in_float64

Splits = tuple[tuple[str, int], ...]
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

    def verification(self) -> Verification:
        """Returns what was found."""
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

    def call(self, operator: Operator, arguments: Arguments) -> None:
        """Checks every split of one given call."""
        call = Call(operator, in_float64(arguments))
        try:
            whole = self.whole(call)
        except Lie as lie:
            self.blame(lie.culprit)
            return
        self.all_splits(lambda splits: whole, whole)

    def all_splits(self, whole_for: Callable[[Splits], Whole | None], base: Whole) -> None:
        """Checks every identifier alone, then pairs of those that hold; ``whole_for`` gives a call
        whose lengths can be split so.
        """
        declaration = base.call.declaration
        if declaration.returns == "value":
            self.note("gives a value that is known without running: nothing is split")
            return
        if declaration.frozen:
            self.note(f"not split: {declaration.frozen}")
        if declaration.random:
            self.note("draws random numbers: splits are not compared")
            return
        drawn = draws(base, self.seed)
        if drawn is not None:
            self.blame(drawn)
            return
        if base.no_gradient:
            self.note(f"gradients are not compared: {base.no_gradient}")
        self._linear(base)
        holding = [
            name for name in base.solution.layout.marks if self._alone(name, whole_for, base)
        ]
        pairs = list(product(holding, repeat=2))[:_MAX_PAIRS]
        for outer, inner in pairs:
            self._together(((outer, 2), (inner, 2)), whole_for)
        if holding:
            self._together(((holding[0], 2), (holding[-1], 3)), whole_for)
            self._together(tuple((name, 2) for name in (holding * 3)[:3]), whole_for)

    def ties(self, whole_for: Callable[[Splits], Whole | None]) -> None:
        """Notes where elements that tie have other gradients than on one device."""
        for name in self.splits:
            split = ((name, self.counts[0]),)
            whole = whole_for(split)
            cuts = (
                NoCut("") if whole is None else cut(whole.solution, whole.call.declaration, split)
            )
            if whole is None or isinstance(cuts, NoCut):
                continue
            if any(not d.ok for d in run_split(whole, cuts, self.seed).differences):
                self.note(
                    f"where elements of several parts of {name} tie, each part has an equal share "
                    "of the gradient, not each element: a transform rule can count them"
                )

    def whole(self, call: Call) -> Whole:
        """Runs on one device, compared with the annotation. Raises Lie, or what the call raises."""
        whole = checked_whole(call, self.seed)
        for culprit in hidden_writes(whole):
            self.blame(culprit)
        return whole

    def _linear(self, whole: Whole) -> None:
        """Checks that partial sums of the inputs that are said to be linear give partial sums."""
        declaration = whole.call.declaration
        for summands in declaration.linear:
            cuts = partial_sums(whole.solution, summands, self.counts[0])
            outcome = run_split(whole, cuts, self.seed)
            if outcome.ok:
                self._keep(outcome.differences)
            else:
                self.blame(not_linear(whole, summands, outcome))

    def _alone(self, name: str, whole_for: Callable[[Splits], Whole | None], base: Whole) -> bool:
        """Splits one identifier into every count; returns whether it holds where it is legal."""
        rule = rule_for(base.solution, base.call.declaration, name)
        if isinstance(rule, NoRule):
            if _is_unjoined(base, name):
                self.blame(Culprit(name, f"'{name}' cannot be split: {rule.reason}"))
            else:
                self.frozen.setdefault(name, rule.reason)
            return False
        held, ran = False, False
        for count in self.counts:
            whole = whole_for(((name, count),))
            if whole is None:
                continue
            ran = True
            cuts = cut(whole.solution, whole.call.declaration, ((name, count),))
            if isinstance(cuts, NoCut):
                self.frozen.setdefault(name, cuts.reason)
                continue
            outcome = run_split(whole, cuts, self.seed)
            if not outcome.ok:
                self.blame(culprit_of(whole, cuts, outcome, self.seed))
                return False
            self._keep(outcome.differences)
            self.splits.setdefault(name, set()).add(count)
            held = True
        if not ran:
            self.blame(_untried(name, self.counts))
        return held

    def _together(self, splits: Splits, whole_for: Callable[[Splits], Whole | None]) -> None:
        whole = whole_for(splits)
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
