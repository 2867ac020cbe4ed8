"""Inputs for a registered function, made from its annotation: lengths, then random tensors.

    "(h t) k -> h t k", def reshape(tensor: torch.Tensor, h: int = 8), t to be split by 3
    h = 2, t = 6, k = 5          reshape(randn(12, 5), h=2)

Lengths are primes that differ, so that a dimension in another's place is seen, and what is split is
a multiple of its counts. A promise is about every length that a count divides, and a function that
works in blocks of 2, or squeezes a dimension of length 1, keeps it for some only. So parts have
other lengths too:

    "m k+, k+ n -> m n", k into 4        m = 2, k = 12, n = 5        parts of 3
    parts of 1, the others differ        m = 3, k = 4,  n = 7
    parts of 2, the others as long       m = 8, k = 8,  n = 8
    parts of 5, the others 1             m = 1, k = 20, n = 1

So do the elements have values that random numbers never have, and data does (`UNUSUAL`):

    x.nanmean(0), partial="avg"             true of random numbers, false where one is NaN
    cross_entropy(x, target), "avg"         true until a target is -100, which is ignored
    (x @ w).clamp(-30, 30), "k+"            true until a product is larger
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations, cycle, islice
from math import lcm, prod
from typing import Any, Literal

import torch
from torch import Tensor

from dimsolve.ir.annotation import Annotation, Opaque
from dimsolve.ir.checks import written
from dimsolve.ir.errors import OperatorError, Problem
from dimsolve.ir.operator import Operator
from dimsolve.ir.read_annotation import read_annotation
from dimsolve.solver.layout import Layout, Pattern, layout_of, star_position

from ..calls import Arguments
from ..registration.promise import Parameter, Promise
from .verification import Refuted

BASE = (2, 3, 5, 7)
"""The lengths of the first identifiers; more than four begin again, so that tensors stay small."""

OTHER_PARTS = (1, 2, 3, 5)
"""The lengths of parts that are run beside the one of ``BASE``: 1, an even one, odd primes."""

Others = Literal["base", "differ", "equal", "one"]


@dataclass(frozen=True, slots=True)
class Sizes:
    """How lengths are chosen: ``step`` divides all; ``equal`` names are as long as each other."""

    step: int = 1
    equal: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Parts:
    """How long a part is of what is split, and how long the other identifiers are.

    length: None: as ``BASE`` gives. others: as ``BASE`` gives, differing in another way, as long as
    what is split, or 1. stepped: whether the part is a multiple of the step too.
    """

    length: int | None = None
    others: Others = "base"
    stepped: bool = True

    def attempts(self, step: int) -> tuple[Parts, ...]:
        """Returns what to try in turn, for functions that do not run on every length."""
        if self.length is None:
            return (self,)
        steps = (False, True) if step > 1 else (False,)
        others: tuple[Others, ...] = (self.others, "base")
        return tuple(Parts(self.length, each, stepped) for stepped in steps for each in others)


SMALL, PLAIN = Sizes(), Parts()
"""Lengths as ``BASE`` gives them."""


def other_parts(layout: Layout, name: str) -> tuple[Parts, ...]:
    """Returns the parts of an identifier that are run beside the one that ``BASE`` gives."""
    own = lengths_for(layout, {})[name]
    lengths = [length for length in OTHER_PARTS if length != own][:3]
    others: tuple[Others, ...] = ("differ", "equal", "one")
    return tuple(Parts(n, each) for n, each in zip(lengths, others, strict=True))


def lengths_for(
    layout: Layout,
    multiples: Mapping[str, int],
    sizes: Sizes = SMALL,
    parts: Parts = PLAIN,
) -> dict[str, int]:
    """Returns a length for every identifier: a multiple of what it is split into, else a prime.

    >>> from dimsolve.solver.layout import layout_of
    >>> matmul = layout_of("m k+, k+ n -> m n", None)
    >>> lengths_for(matmul, {"k": 4})
    {'m': 2, 'k': 12, 'n': 5}
    >>> lengths_for(matmul, {"k": 4}, parts=Parts(2, "equal"))
    {'m': 8, 'k': 8, 'n': 8}
    """
    one_length = 6 * sizes.step * lcm(*(multiples.get(name, 1) for name in sizes.equal))
    found: dict[str, int] = {}
    for place, name in enumerate(layout.marks):
        if name in sizes.equal:
            found[name] = one_length
        elif name in multiples:
            step = sizes.step if parts.stepped else 1
            found[name] = (parts.length or BASE[place % 4]) * step * multiples[name]
    longest = max(found.values(), default=1)
    shift = 1 if parts.others == "differ" else 0
    for name, base in zip(layout.marks, islice(cycle(BASE), shift, None), strict=False):
        match parts.others:
            case "base" | "differ":
                length = base * sizes.step
            case "equal":
                length = longest
            case "one":
                length = sizes.step
        found.setdefault(name, length)
    return {name: found[name] for name in layout.marks}


Values = Literal["plain", "ties", "nan", "infinite", "zero", "large", "ignored", "float32"]

UNUSUAL: dict[Values, str] = {
    "ties": "where many elements are equal",
    "nan": "where an element is NaN",
    "large": "where elements are large",
    "ignored": "where an integer is -100, which losses ignore",
    "infinite": "where an element is infinite",
    "zero": "where an element is 0",
    "float32": "in float32",
}
"""What is tried beside plain values, in the words of a report. A function that does not run on such
values on one device makes no promise about them."""

_FIRST = {"nan": float("nan"), "infinite": float("inf"), "zero": 0.0, "ignored": -100}
"""What the first element of a tensor is replaced by."""


def with_values(tensor: Tensor, values: Values) -> Tensor:
    """Returns the tensor with such values; itself where its dtype has none.

    >>> with_values(torch.tensor([1.5, -2.0]), "ties")
    tensor([1., 0.])
    """
    real = tensor.is_floating_point()
    integers = not real and not tensor.is_complex() and tensor.dtype is not torch.bool
    if values == "ties" and real:
        return (tensor > 0).to(tensor.dtype)
    if values == "large" and real:
        return tensor * 100
    if values in _FIRST and tensor.numel() and (integers if values == "ignored" else real):
        tensor = tensor.clone()
        tensor.view(-1)[0] = _FIRST[values]
    return tensor


def in_float32(arguments: Arguments) -> Arguments:
    """Returns the arguments with float64 tensors as float32, each a tensor of its own."""
    return arguments.with_values(
        {
            place: (tensor.float() if tensor.dtype is torch.float64 else tensor).detach().clone()
            for place, tensor in arguments.tensors()
        }
    )


STAR_RANKS: tuple[int, ...] = (2, 1, 3, 0, 4)
"""How many dimensions ``*`` stands for, in the order of trying."""

RANKS = (2, 1, 3, 4, 5)
"""The ranks of the tensors that an annotation function is shown, in the order of trying."""


@dataclass(frozen=True, slots=True)
class Variant:
    """One way to call: how many dimensions ``*`` has (or the tensors that an annotation function
    is shown), which optional tensors are absent, and which tensors hold integers, where their types
    do not say. ``values``: what is unusual in the elements.
    """

    star: int = 2
    absent: frozenset[int] = frozenset()
    whole: frozenset[int] = frozenset()
    values: Values = "plain"

    def __str__(self) -> str:
        dimensions = f"dimension{'s' * (self.star != 1)}"
        words = [f"tensors have {self.star} {dimensions}"] if self.star != 2 else []
        words += [f"input {number} is None" for number in sorted(self.absent)]
        words += [f"input {number} holds integers" for number in sorted(self.whole)]
        return ", ".join(words)


def variants(operator: Operator) -> Iterator[Variant]:
    """Yields the ways to call a registered function: ranks of ``*``, optional tensors."""
    promise = operator.declare
    assert isinstance(promise, Promise)
    tensors = [i for i, p in enumerate(promise.parameters) if p.is_tensor and p.is_optional]
    text = promise.annotation
    stars = RANKS if callable(text) else STAR_RANKS
    if isinstance(text, str) and not has_star(read_annotation(text)):
        stars = (2,)
    for absent in (frozenset[int](), frozenset(tensors)) if tensors else (frozenset[int](),):
        for star in stars:
            yield Variant(star, absent)


def has_star(annotation: Annotation) -> bool:
    """Whether a ``*`` stands in the annotation."""
    return any(star_position(operand) is not None for operand in annotation.operands)


def integer_guesses(count: int) -> Iterator[frozenset[int]]:
    """Yields which inputs may hold integers, none first: for functions that do not say."""
    for size in range(min(count, 2) + 1):
        yield from (frozenset(chosen) for chosen in combinations(range(count), size))


@dataclass(frozen=True, slots=True)
class Sketch:
    """What an input_gen_fn is given: the call that inputs are wanted for.

    inputs: the annotated inputs, each with shape and dtype, None for ``?``; kwargs: the rest.
    """

    name: str
    signature: str
    annotation: str
    inputs: tuple[Any, ...]
    kwargs: Mapping[str, Any]


_NO_VALUE = Problem(
    OperatorError,
    "no-inputs",
    "inputs cannot be made",
    "no sensible value is known for '{parameter}' of '{name}'",
    "give a call: verify(target, args=..., kwargs=...), or register with input_gen_fn",
)

_DEFAULT_OF_TYPE = {"bool": False, "float": 0.5, "int": 2, "": 2}
"""Values for parameters by their type; some autograd.Functions do not say it."""

_LEFT_OUT: Any = object()


@dataclass(frozen=True)
class Sampler:
    """Makes calls of one registered function. All randomness is that of ``seed``."""

    operator: Operator
    seed: int
    device: str = "cpu"

    @property
    def promise(self) -> Promise:
        """The promise of the function."""
        promise = self.operator.declare
        assert isinstance(promise, Promise)
        return promise

    def text(self, variant: Variant) -> str:
        """Returns the annotation for a way to call; a function of inputs is shown plain ones."""
        promise = self.promise
        if isinstance(promise.annotation, str):
            return promise.annotation
        values = [
            (parameter.name, self._stand_in(number, parameter, variant))
            for number, parameter in enumerate(promise.parameters)
            if parameter.kind is not inspect.Parameter.VAR_KEYWORD
        ]
        return promise.annotation_for(values)

    def _stand_in(self, number: int, parameter: Parameter, variant: Variant) -> Any:
        if number in variant.absent:
            return None
        if parameter.is_tensor or parameter.kind is inspect.Parameter.VAR_POSITIONAL:
            return torch.zeros((6,) * variant.star, dtype=torch.float64, device=self.device)
        if parameter.has_default:
            return parameter.default
        return _DEFAULT_OF_TYPE.get(parameter.type)

    def repeats(self, variant: Variant, seen: set[tuple[str, Variant]]) -> bool:
        """Whether an annotation function gives nothing new for tensors of this rank.

        Raises OperatorError where it cannot answer for them.
        """
        text = self.text(variant)
        starred = has_star(read_annotation(text))
        if starred and variant.star not in STAR_RANKS:
            return True
        key = (text, replace(variant, star=variant.star if starred else 2))
        repeated = key in seen
        seen.add(key)
        return repeated

    def layout(self, variant: Variant) -> Layout:
        """Returns the layout of that annotation."""
        text = self.text(variant)
        return layout_of(text, variant.star if has_star(read_annotation(text)) else None)

    def sample(
        self,
        variant: Variant,
        multiples: Mapping[str, int],
        sizes: Sizes = SMALL,
        parts: Parts = PLAIN,
    ) -> Arguments:
        """Returns the arguments of one call. Raises OperatorError where a value is not known."""
        promise, layout, text = self.promise, self.layout(variant), self.text(variant)
        lengths = lengths_for(layout, multiples, sizes, parts)
        operands = read_annotation(text).inputs
        generator = torch.Generator("cpu").manual_seed(self.seed)
        shapes = [
            None if patterns is None else shape_of(patterns, lengths) for patterns in layout.inputs
        ]
        highest = min((n for shape in shapes if shape for n in shape), default=2)
        inputs: list[Any] = []
        for number, parameter in enumerate(_input_parameters(promise.parameters, len(operands))):
            if number in variant.absent:
                inputs.append(None)
            elif isinstance(operands[number], Opaque):
                inputs.append(self._opaque(parameter, shapes, lengths, generator))
            else:
                element = "whole" if number in variant.whole else parameter.element
                tensor = _tensor(shapes[number] or (), element, highest, generator).to(self.device)
                inputs.append(with_values(tensor, variant.values))
        values = {
            parameter.name: self._value(parameter, lengths)
            for parameter in promise.parameters[len(operands) :]
            if not parameter.takes_rest
        }
        kwargs = {name: value for name, value in values.items() if value is not _LEFT_OUT}
        if self.operator.input_gen_fn is not None:
            pairs = zip(shapes, inputs, strict=True)
            likes = tuple(None if shape is None else value for shape, value in pairs)
            sketch = Sketch(self.operator.name, self.operator.path, text, likes, kwargs)
            inputs = _generated(self.operator.input_gen_fn, sketch, inputs)
        return Arguments(tuple(inputs), kwargs)

    def _opaque(
        self,
        parameter: Parameter,
        shapes: Sequence[Any],
        lengths: Mapping[str, int],
        generator: torch.Generator,
    ) -> Any:
        if not parameter.is_tensor:
            value = self._value(parameter, lengths)
            return parameter.default if value is _LEFT_OUT else value
        shape = next((shape for shape in shapes if shape is not None), ())
        return _tensor(shape, parameter.element, 2, generator).to(self.device)

    def _value(self, parameter: Parameter, lengths: Mapping[str, int]) -> Any:
        if parameter.name in lengths:
            return lengths[parameter.name]
        if parameter.has_default:
            return _LEFT_OUT
        if parameter.is_optional:
            return None
        if parameter.type in _DEFAULT_OF_TYPE:
            return _DEFAULT_OF_TYPE[parameter.type]
        raise _NO_VALUE(parameter=parameter.name, name=self.operator.name)


def shape_of(patterns: Sequence[Pattern], lengths: Mapping[str, int]) -> tuple[int, ...]:
    """Returns the shape of a tensor with these lengths."""
    return tuple(prod((p.constant, *(lengths[name] for name in p.names))) for p in patterns)


def _input_parameters(parameters: Sequence[Parameter], count: int) -> list[Parameter]:
    """One parameter per annotated input; ``*parameter`` gives as many as are wanted."""
    named: list[Parameter] = []
    for parameter in parameters:
        named.extend([parameter] * (count - len(named) if parameter.takes_rest else 1))
    return named[:count]


def _tensor(shape: Sequence[int], element: str, highest: int, generator: torch.Generator) -> Tensor:
    if element == "bool":
        return torch.rand(tuple(shape), generator=generator, device="cpu") < 0.5
    if element == "whole":
        high = max(highest, 1)
        return torch.randint(high, tuple(shape), generator=generator, device="cpu")
    return torch.randn(tuple(shape), generator=generator, dtype=torch.float64, device="cpu")


def _generated(generate: Callable[..., Any], sketch: Sketch, inputs: list[Any]) -> list[Any]:
    """What an input_gen_fn gives: all annotated inputs, or those that are tensors."""
    try:
        made = generate(sketch)
    except Exception as error:
        raise _bad_generator(f"it raised {type(error).__name__}: {error}") from error
    if not isinstance(made, Tensor | list | tuple):
        raise _bad_generator(f"it gave {written(made)}, of type {type(made).__name__}")
    values = list(made) if isinstance(made, list | tuple) else [made]
    if len(values) == len(inputs):
        return values
    tensors = [place for place, value in enumerate(inputs) if isinstance(value, Tensor)]
    if len(values) != len(tensors):
        count = f"{len(values)} value{'s' * (len(values) != 1)}"
        wanted = "1 input is" if len(inputs) == 1 else f"{len(inputs)} inputs are"
        raise _bad_generator(f"it gave {count}, and {wanted} annotated")
    for place, value in zip(tensors, values, strict=True):
        inputs[place] = value
    return inputs


def _bad_generator(reason: str) -> Refuted:
    hint = "it is given what `verify` wants inputs for, and returns a list of them"
    return Refuted("input_gen_fn", f"input_gen_fn makes no inputs: {reason}", hint)
