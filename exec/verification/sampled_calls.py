"""Checks a registered function on inputs made from its annotation, for every split anew.

Where the function does not run on lengths that all differ, it is tried with integers, with even
lengths, and with equal ones. That it needs two lengths to be equal is a lie of the annotation,
which gives them two names; the splits are still checked on what runs.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from itertools import combinations

from dimsolve.ir.errors import Diagnostic, DimsolveError, OperatorError
from dimsolve.ir.operator import Operator

from ..arguments import Arguments
from ..operator_call import Call
from .check_splits import CheckSplits, Splits
from .check_whole import Lie
from .sample_inputs import CannotSample, Sampler, Sizes, Variant, integer_guesses, variants
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
        try:
            samples = _working(sampler, variant, check)
        except Lie as lie:
            check.blame(lie.culprit)
            ran = True
            continue
        except CannotSample as problem:
            raise _no_value(operator, str(problem)) from problem
        if isinstance(samples, Exception):
            failures.append((variant, samples))
            continue
        ran = True
        if samples.variant.whole - variant.whole:
            check.note(f"run with {samples.variant}")
        check.all_splits(samples.whole_for, samples.base)
        if samples.base.call.declaration.reduction in ("max", "min"):
            tied = replace(samples, variant=replace(samples.variant, ties=True), known={})
            check.ties(tied.whole_for)
    if refused is not None and not ran and not failures:
        raise refused
    for variant, error in failures:
        if ran:
            check.note(f"not run where {variant}: {_first_line(error)}")
        else:
            reason = f"the function does not run on what is annotated: {_first_line(error)}"
            check.blame(Culprit("inputs", reason, "give a call: verify(target, args=(x, w))"))


@dataclass
class _Samples:
    """Calls of one variant; ``known``: the runs on one device, by the multiples of lengths."""

    sampler: Sampler
    variant: Variant
    sizes: Sizes
    check: CheckSplits
    base: Whole
    known: dict[tuple[tuple[str, int], ...], Whole | None] = field(default_factory=dict)

    def whole_for(self, splits: Splits) -> Whole | None:
        """Returns a run whose lengths can be split so; None where the function does not run."""
        multiples: dict[str, int] = {}
        for name, count in splits:
            multiples[name] = multiples.get(name, 1) * count
        key = tuple(sorted(multiples.items()))
        if key not in self.known:
            try:
                self.known[key] = _run(
                    self.sampler, self.variant, multiples, self.sizes, self.check
                )
            except Exception as error:
                lengths = ", ".join(f"{name} a multiple of {count}" for name, count in key)
                self.check.note(f"not run with {lengths}: {_first_line(error)}")
                self.known[key] = None
        return self.known[key]


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
    yield variant, Sizes(equal=frozenset(names))


def _run(
    sampler: Sampler, variant: Variant, multiples: dict[str, int], sizes: Sizes, check: CheckSplits
) -> Whole:
    args, kwargs = sampler.sample(variant, multiples, sizes)
    return check.whole(Call(sampler.operator, in_float64(Arguments(args, kwargs))))


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
