"""What `verify` did not run, in words: a yes is about what was run, and no more.

scaled(x: Tensor, *, by: float = 1.0)
not run: other values of by=1.0; dtypes but float64 and float32, state that earlier calls leave
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from dimsolve.ir.operator import Operator
from dimsolve.ir.read_annotation import read_annotation
from dimsolve.ir.wrong_types import written
from dimsolve.solver.layout import identifiers_of

from ..registration.parameters import Parameter
from ..registration.promise import Promise
from .sample_inputs import RANKS, STAR_RANKS, has_star

_GIVEN = "dtypes but float64, state that earlier calls leave"
ALWAYS = "dtypes but float64 and float32, state that earlier calls leave"
"""What is never run, in words: of a given call, and of inputs that are made."""


def not_run(operator: Operator, calls: Sequence[Any]) -> Iterator[str]:
    """Yields notes on what was not run."""
    promise = operator.declare
    if calls:
        yield f"not run: other lengths and values than those of the given call; {_GIVEN}"
        return
    if not isinstance(promise, Promise):
        yield f"not run: other lengths and values than those of the library's examples; {_GIVEN}"
        return
    missed = [*_ranks(promise), *_values(promise), ALWAYS]
    if operator.input_gen_fn is not None:
        missed.insert(0, "values that input_gen_fn does not make")
    yield f"not run: {'; '.join(missed)}"


def _ranks(promise: Promise) -> Iterator[str]:
    text = promise.annotation
    if not isinstance(text, str):
        yield f"tensors of more than {max(RANKS)} dimensions"
    elif has_star(read_annotation(text)):
        yield f"more than {max(STAR_RANKS)} dimensions for '*'"


def _values(promise: Promise) -> Iterator[str]:
    """Parameters that are no lengths keep the one value that they were called with."""
    text = promise.annotation
    names = identifiers_of(read_annotation(text)) if isinstance(text, str) else {}
    kept = [p for p in promise.parameters if _is_value(p) and p.name not in names]
    if kept:
        yield f"other values of {' and '.join(_shown(p) for p in kept)}"


def _is_value(parameter: Parameter) -> bool:
    return not parameter.is_tensor and not parameter.takes_rest


def _shown(parameter: Parameter) -> str:
    if not parameter.has_default:
        return parameter.name
    return f"{parameter.name}={written(parameter.default)}"
