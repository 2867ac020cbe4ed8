"""torch as the oracle of a declaration: the same call with symbols for sizes, and with numbers.

A call of the catalogue, ``cat([t(12, 6), t(12, 6)], 1)``, has places where a size stands: the
lengths of its tensors, and the whole numbers among its arguments. Symbols are put into one or two
of these places (the others keep the example's number) and the call is deduced; then torch is asked
at all small values of the symbols.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from importlib import import_module
from itertools import combinations, product
from typing import Any

from dimsolve.ir.errors import ShapeError
from dimsolve.ir.graph import Constant, Value
from dimsolve.ir.types import TensorType
from dimsolve.solver.algebra.dims import evaluate
from dimsolve.solver.algebra.poly import Dim, symbol
from dimsolve.solver.graphs.deduction import Call, Outcome, StandIn, deduce
from dimsolve.solver.operators import find
from dimsolve.solver.operators.declare.entry import DType, Example, Sample

SIZES = range(1, 8)
REFUSALS = (ArithmeticError, AssertionError, IndexError, RuntimeError, TypeError, ValueError)
NAMES = ("s", "t")
Place = tuple[Any, ...]
"""Where a size stands: the keys and numbers that lead to it from (args, kwargs)."""


def places(call: Example) -> tuple[list[Place], list[Place]]:
    """The places of lengths of tensors, and those of whole numbers among the arguments."""
    lengths: list[Place] = []
    numbers: list[Place] = []

    def walk(value: Any, place: Place) -> None:
        if isinstance(value, Sample):
            lengths.extend((*place, n) for n in range(len(value.shape)))
        elif isinstance(value, list | tuple):
            for n, item in enumerate(value):
                walk(item, (*place, n))
        elif isinstance(value, dict):
            for key, item in value.items():
                walk(item, (*place, key))
        elif isinstance(value, slice):
            for n, item in enumerate((value.start, value.stop, value.step)):
                walk(item, (*place, n))
        elif isinstance(value, int) and not isinstance(value, bool):
            numbers.append(place)

    walk([call.args, call.kwargs], ())
    return lengths, numbers


def variants(call: Example, *, pairs: bool = True) -> Iterator[dict[Place, Dim]]:
    """Puts ``s`` in one place, or in every place of one length; ``s`` and ``t`` in two places."""
    lengths, numbers = places(call)
    one, two = (symbol(name) for name in NAMES)
    for place in (*lengths, *numbers):
        yield {place: one}
    for place in numbers:
        yield {place: one - 4}
    for length in sorted({_at(call, place) for place in lengths}):
        same = [place for place in lengths if _at(call, place) == length]
        if len(same) > 1:
            yield dict.fromkeys(same, one)
            yield from ({**dict.fromkeys(same, one), place: two} for place in numbers)
    if pairs:
        for a, b in combinations((*lengths, *numbers), 2):
            yield {a: one, b: two}


def _at(call: Example, place: Place) -> int:
    value: Any = [call.args, call.kwargs]
    for step in place:
        if isinstance(value, slice):
            value = (value.start, value.stop, value.step)
        value = value.shape[step] if isinstance(value, Sample) else value[step]
    found: int = value
    return found


def laid(call: Example, sizes: Mapping[Place, Any], make: Any) -> tuple[Any, dict[str, Any]]:
    """The arguments with sizes put in; ``make(sample, shape)`` makes the tensors, each once."""

    def walk(value: Any, place: Place) -> Any:
        if isinstance(value, Sample):
            shape = tuple([sizes.get((*place, n), d) for n, d in enumerate(value.shape)])
            return make(value, shape)
        if isinstance(value, DType):
            return make(value, None)
        if isinstance(value, list | tuple):
            return type(value)(walk(item, (*place, n)) for n, item in enumerate(value))
        if isinstance(value, dict):
            return {key: walk(item, (*place, key)) for key, item in value.items()}
        if isinstance(value, slice):
            bounds = enumerate((value.start, value.stop, value.step))
            return slice(*[walk(item, (*place, n)) for n, item in bounds])
        return sizes.get(place, value)

    args, kwargs = walk([call.args, call.kwargs], ())
    return args, kwargs


def deduced(path: str, call: Example, sizes: Mapping[Place, Dim]) -> Outcome | ShapeError:
    """What a graph deduces of the call with symbols, or that it can never match."""
    operator = find(path)
    assert operator is not None, path
    values: list[Value] = []

    def make(sample: Any, shape: Any) -> Any:
        if shape is None:
            return Constant(f"torch.{sample.name}")
        type = TensorType(len(shape), sample.dtype)
        values.append(Value(None, f"x{len(values)}", type, None))  # type: ignore[arg-type]
        return StandIn(shape, sample.dtype, len(values) - 1)

    args, kwargs = laid(call, sizes, make)
    try:
        return deduce(operator, Call(args, kwargs, (), values))
    except ShapeError as error:
        return error


@lru_cache(maxsize=4096)
def tensor(kind: str, dtype: str, low: float, high: float, shape: tuple[int, ...]) -> Any:
    """A tensor of this shape whose values no call objects to."""
    import torch

    real = getattr(torch, dtype)
    if kind == "definite" and len(shape) > 1 and shape[-1] == shape[-2]:
        return torch.eye(shape[-1], dtype=real).expand(shape).clone()
    if kind == "whole" or kind == "places":
        return torch.full(shape, int(low), dtype=real)
    if kind == "uniform":
        return torch.full(shape, (low + high) / 2, dtype=real)
    generator = torch.Generator().manual_seed(len(shape))
    return torch.randn(shape, generator=generator, dtype=torch.float64).abs().to(real)


def accepted(path: str, call: Example, sizes: Mapping[Place, int]) -> list[tuple[int, ...]] | None:
    """The shapes of the tensors that torch returns, None where it refuses the call."""
    import torch

    def make(sample: Any, shape: Any) -> Any:
        if shape is None:
            return getattr(torch, sample.name)
        return tensor(sample.kind, sample.dtype, sample.low, sample.high, shape).clone()

    args, kwargs = laid(call, sizes, make)
    try:
        result = function(path)(*args, **kwargs)
    except REFUSALS:
        return None
    if result is None:
        return []
    return [tuple(found.shape) for found in _tensors(result)]


def _tensors(value: Any) -> list[Any]:
    if isinstance(value, list | tuple):
        return [tensor for item in value for tensor in _tensors(item)]
    return [value] if hasattr(value, "shape") else []


@lru_cache(maxsize=2048)
def function(path: str) -> Any:
    """The callable of a path."""
    names = path.split(".")
    for count in range(len(names) - 1, 0, -1):
        try:
            found: Any = import_module(".".join(names[:count]))
        except ImportError:
            continue
        for name in names[count:]:
            found = getattr(found, name)
        return found
    raise ImportError(path)


@dataclass(frozen=True, slots=True)
class Disagreement:
    """A call at numbers where torch and the deduction differ."""

    path: str
    variant: str
    sizes: str
    said: str
    torch: str

    def __str__(self) -> str:
        return f"{self.path} {self.variant} at {self.sizes}: said {self.said}, torch {self.torch}"


def disagreements(path: str, call: Example, sizes: Mapping[Place, Dim]) -> Iterator[Disagreement]:
    """Yields where torch accepts what the deduction refuses, refuses what it accepts, or gives
    another shape."""
    outcome = deduced(path, call, sizes)
    if isinstance(outcome, Outcome) and not all(isinstance(t, TensorType) for t in outcome.types):
        return
    known = not isinstance(outcome, Outcome) or _is_known(outcome)
    names = [name for name in NAMES if any(name in str(dim) for dim in sizes.values())]
    text = ", ".join(f"{list(place)}: {dim}" for place, dim in sizes.items())
    for numbers in product(SIZES, repeat=len(names)):
        values = dict(zip(names, numbers, strict=True))
        at = {place: evaluate(dim, values) for place, dim in sizes.items()}
        actual = accepted(path, call, at)
        said = _said(outcome, values) if isinstance(outcome, Outcome) else None
        if said is None and actual is not None and isinstance(outcome, Outcome):
            ranks = [len(getattr(type, "dims", None) or ()) for type in outcome.types]
            if [len(shape) for shape in actual] != ranks:
                continue  # a type says how many results there are, and of which ranks
        if (said is None and actual is not None) or (known and not _agree(said, actual)):
            why = str(outcome).splitlines()[0] if isinstance(outcome, ShapeError) else ""
            why = why or " and ".join(map(str, getattr(outcome, "conditions", ())))
            yield Disagreement(path, text, str(values), f"{said} ({why})", str(actual))


def _is_known(outcome: Outcome) -> bool:
    return (
        not outcome.missing
        and all(isinstance(type, TensorType) and type.dims is not None for type in outcome.types)
        and (outcome.declaration is None or "?" not in outcome.declaration.annotation)
    )


def _said(outcome: Outcome, values: Mapping[str, int]) -> list[Sequence[int | None]] | None:
    for claim in outcome.conditions:
        if claim.symbols() <= values.keys() and not claim.test(values):
            return None
    return [
        tuple([_size(dim, values, outcome.fresh) for dim in getattr(type, "dims", None) or ()])
        for type in outcome.types
    ]


def _size(dim: Any, values: Mapping[str, int], fresh: Sequence[str]) -> int | None:
    try:
        return None if dim is None else evaluate(dim, values)
    except (KeyError, ZeroDivisionError):
        return None


def _agree(said: Any, actual: Any) -> bool:
    if said is None or actual is None:
        return said is actual
    if not said:
        return True  # the call returns nothing that is new
    return len(said) == len(actual) and all(
        len(a) == len(b) and all(x is None or x == y for x, y in zip(a, b, strict=True))
        for a, b in zip(said, actual, strict=True)
    )
