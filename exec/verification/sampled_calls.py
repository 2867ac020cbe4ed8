"""Checks a registered function on inputs made from its annotation, for every split anew.

Parts are of several lengths (`dimsolve.exec.verification.lengths`), and values of several kinds
(`dimsolve.exec.verification.unusual_values`).

Where the function does not run on lengths that all differ, it is tried with integers, with even
lengths, and with equal ones. That it needs two lengths to be equal is a lie of the annotation,
which gives them two names; the splits are still checked on what runs.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations
from typing import Any

import torch

from dimsolve.ir.errors import Diagnostic, DimsolveError, OperatorError
from dimsolve.ir.operator import Operator

from ..arguments import Arguments
from ..operator_call import Call
from .check_splits import CheckSplits
from .check_whole import Lie
from .cuts import cut_beside
from .lengths import PLAIN, Parts, Sizes, lengths_for, other_parts
from .sample_inputs import CannotSample, Sampler, Variant, integer_guesses, variants
from .splittable import Splits
from .unusual_values import UNUSUAL, Values, in_float32
from .verification import Culprit
from .whole_run import Whole, in_float64


def check_samples(operator: Operator, check: CheckSplits, device: str) -> None:
    """Checks every way to call the function. Raises OperatorError where no inputs can be made."""
    sampler = Sampler(operator, check.seed, device)
    failures: list[tuple[Variant, Exception]] = []
    refused: OperatorError | None = None
    texts: set[tuple[str, Variant]] = set()
    ran = False
    for variant in variants(operator):
        try:
            if sampler.repeats(variant, texts):
                continue
        except OperatorError as problem:
            refused = refused or problem
            continue
        failure = _check_variant(sampler, variant, check)
        if failure is None:
            ran = True
        else:
            failures.append((variant, failure))
    if refused is not None and not ran and not failures:
        raise refused
    for variant, error in failures:
        if ran:
            check.note(f"not run where {variant}: {_first_line(error)}")
        else:
            reason = f"the function does not run on what is annotated: {_first_line(error)}"
            check.blame(Culprit("inputs", reason, "give a call: verify(target, args=(x, w))"))


def _check_variant(sampler: Sampler, variant: Variant, check: CheckSplits) -> Exception | None:
    """Checks one way to call the function; returns what it raised where it does not run so."""
    try:
        samples = _working(sampler, variant, check)
    except Lie as lie:
        check.blame(lie.culprit)
        return None
    except CannotSample as problem:
        raise _no_value(sampler.operator, str(problem)) from problem
    if isinstance(samples, Exception):
        return samples
    if samples.variant.whole - variant.whole:
        check.note(f"run where {replace(samples.variant, star=2)}")
    check.all_splits(samples)
    for note in samples.refusals():
        check.note(note)
    return None


@dataclass
class _Samples:
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

    def unusual(self, splits: Splits) -> Iterator[tuple[Values, Whole]]:
        """Yields runs on values that random numbers never have, where the function runs on them."""
        plain = self.whole_for(splits)
        own = self.sampler.operator.input_gen_fn is not None
        kinds: tuple[Values, ...] = ("float32",) if own else tuple(UNUSUAL)
        for values in kinds:
            other = replace(
                self, variant=replace(self.variant, values=values), known={}, refused={}
            )
            whole = other.whole_for(splits) if plain is not None else None
            if whole is not None and plain is not None and _differ(plain, whole):
                yield values, whole

    def _first(self, multiples: Mapping[str, int], parts: Parts) -> Whole | None:
        error: Exception | None = None
        for each in parts.attempts(self.sizes.step):
            try:
                return _run(self.sampler, self.variant, multiples, self.sizes, self.check, each)
            except Lie as lie:
                self.check.blame(lie.culprit)
                return None
            except Exception as problem:
                error = error or problem
        if error is not None:
            lengths = lengths_for(self.base.solution.layout, multiples, self.sizes, parts)
            at, _ = self.refused.setdefault(tuple(multiples), ([], error))
            at.append(" and ".join(f"{name} = {lengths[name]}" for name in multiples))
        return None

    def refusals(self) -> Iterator[str]:
        """Yields on which lengths the function did not run, and what it said to the first."""
        for at, error in self.refused.values():
            yield f"not run where {', '.join(dict.fromkeys(at))}: {_first_line(error)}"


def _differ(plain: Whole, other: Whole) -> bool:
    """Whether the values are not those of the plain run: a kind of numbers may have none."""
    return any(
        a is not None and b is not None and (a.dtype is not b.dtype or not torch.equal(a, b))
        for a, b in zip(plain.inputs, other.inputs, strict=True)
    )


def _working(sampler: Sampler, variant: Variant, check: CheckSplits) -> _Samples | Exception:
    """Finds inputs that the function runs on; the first error where there are none."""
    first: Exception | None = None
    for chosen, sizes in _attempts(sampler, variant):
        try:
            base = _run(sampler, chosen, {}, sizes, check)
        except (Lie, CannotSample):
            raise
        except Exception as error:
            if isinstance(error, DimsolveError):
                raise
            first = first or error
            continue
        if sizes.equal:
            check.blame(_equal(sizes, first))
        return _Samples(sampler, chosen, sizes, check, base)
    assert first is not None
    return first


def _attempts(sampler: Sampler, variant: Variant) -> Iterator[tuple[Variant, Sizes]]:
    layout = sampler.layout(variant)
    steps = [Sizes(step) for step in (1, 2, 4)]
    for whole in integer_guesses(len(layout.inputs)):
        for sizes in steps:
            yield replace(variant, whole=whole), sizes
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
    args, kwargs = sampler.sample(variant, multiples, sizes, parts)
    precise = in_float32 if variant.values == "float32" else in_float64
    return check.whole(Call(sampler.operator, precise(Arguments(args, kwargs))))


def _equal(sizes: Sizes, error: Exception | None) -> Culprit:
    names = sorted(sizes.equal)
    listed = f"{', '.join(repr(name) for name in names[:-1])} and '{names[-1]}'"
    why = f": {_first_line(error)}" if error is not None else ""
    return Culprit(
        names[0],
        f"the function runs only where {listed} are equally long{why}",
        "lengths that must be equal have one name, and a length that must be 1 is written 1",
    )


def _first_line(error: BaseException) -> str:
    text = str(error).partition("\n")[0]
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def _no_value(operator: Operator, parameter: str) -> OperatorError:
    return OperatorError(
        Diagnostic(
            code="no-inputs",
            title="inputs cannot be made",
            reason=f"no sensible value is known for '{parameter}' of '{operator.name}'",
            hint="give a call: verify(target, args=..., kwargs=...), or register with input_gen_fn",
        )
    )
