"""Inputs for a registered function, made from its annotation: lengths, then random tensors.

    "(h t) k -> h t k", def reshape(tensor: torch.Tensor, h: int = 8), t to be split by 3
    h = 2, t = 6, k = 5          reshape(randn(12, 5), h=2)

Lengths differ where they may, so that a dimension in another's place is seen, and what is split is
a multiple of its counts. Where the function cannot run on such lengths they are made even, and at
last equal, which is told: an annotation should say it by one name.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Any

import torch
from torch import Tensor

from dimsolve.ir.annotation import Annotation, Opaque
from dimsolve.ir.operator import Operator
from dimsolve.ir.read_annotation import read_annotation
from dimsolve.ir.wrong_types import written
from dimsolve.solver.layout import Layout, layout_of, star_position

from ..registration.parameters import Parameter
from ..registration.promise import Promise
from .check_whole import Lie
from .lengths import PLAIN, SMALL, Parts, Sizes, lengths_for, shape_of
from .unusual_values import Values, with_values
from .verification import Culprit

STAR_RANKS: tuple[int, ...] = (2, 1, 3, 0, 4)
"""How many dimensions ``*`` stands for, in the order of trying."""

RANKS = (2, 1, 3, 4, 5)
"""The ranks of the tensors that an annotation function is shown, in the order of trying."""


@dataclass(frozen=True, slots=True)
class Variant:
    """One way to call: how many dimensions ``*`` has (or the tensors that an annotation function
    is shown), which optional tensors are absent, and which tensors hold integers, where their types
    do not tell. ``values``: of which kind the elements are.
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


def variants(operator: Operator) -> Iterator[Variant]:
    """Yields the ways to call a registered function: ranks of ``*``, optional tensors."""
    promise = operator.declare
    assert isinstance(promise, Promise)
    tensors = [i for i, p in enumerate(promise.parameters) if p.is_tensor and p.is_optional]
    absences = [frozenset[int]()] + ([frozenset(tensors)] if tensors else [])
    text = promise.annotation
    stars = RANKS if callable(text) else STAR_RANKS
    if isinstance(text, str) and not has_star(read_annotation(text)):
        stars = (2,)
    for absent in absences:
        for star in stars:
            yield Variant(star, absent)


def has_star(annotation: Annotation) -> bool:
    """Whether a ``*`` stands in the annotation."""
    operands = (*annotation.inputs, *annotation.outputs)
    return any(star_position(operand) is not None for operand in operands)


def integer_guesses(count: int) -> Iterator[frozenset[int]]:
    """Yields which inputs may hold integers, none first: for functions that do not say."""
    for size in range(min(count, 2) + 1):
        yield from (frozenset(chosen) for chosen in combinations(range(count), size))


class CannotSample(Exception):
    """No sensible value is known for a parameter."""


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

    def repeats(self, variant: Variant, seen: set[tuple[str, Variant]]) -> bool:
        """Whether an annotation function gives nothing new for tensors of this rank.

        Raises OperatorError where it cannot answer for them.
        """
        text = self.text(variant)
        starred = has_star(read_annotation(text))
        if starred and variant.star not in STAR_RANKS:
            return True
        key = (text, replace(variant, star=variant.star if starred else 2))
        if key in seen:
            return True
        seen.add(key)
        return False

    def layout(self, variant: Variant) -> Layout:
        """Returns the layout of that annotation."""
        text = self.text(variant)
        star = variant.star if has_star(read_annotation(text)) else None
        return layout_of(text, star)

    def sample(
        self,
        variant: Variant,
        multiples: Mapping[str, int],
        sizes: Sizes = SMALL,
        parts: Parts = PLAIN,
    ) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Returns the arguments of one call. Raises CannotSample where a value is not known."""
        promise, layout = self.promise, self.layout(variant)
        text = self.text(variant)
        lengths = lengths_for(layout, multiples, sizes, parts)
        annotation = read_annotation(text)
        generator = torch.Generator("cpu").manual_seed(self.seed)
        shapes = [
            None if patterns is None else shape_of(patterns, lengths) for patterns in layout.inputs
        ]
        highest = min((n for shape in shapes if shape for n in shape), default=2)
        inputs: list[Any] = []
        names = _names(promise.parameters, len(annotation.inputs))
        for number, parameter in enumerate(names):
            operand = annotation.inputs[number]
            if number in variant.absent:
                inputs.append(None)
            elif isinstance(operand, Opaque):
                inputs.append(self._opaque(parameter, shapes, lengths, generator))
            else:
                shape = shapes[number] or ()
                element = "whole" if number in variant.whole else parameter.element
                tensor = _tensor(shape, element, highest, generator).to(self.device)
                inputs.append(with_values(tensor, variant.values))
        rest = promise.parameters[len(annotation.inputs) :]
        kwargs = {
            parameter.name: value
            for parameter in rest
            if not parameter.takes_rest and (value := self._value(parameter, lengths)) is not _LEAVE
        }
        return self._given(inputs, kwargs, shapes, text), kwargs

    def _given(
        self, inputs: list[Any], kwargs: dict[str, Any], shapes: Sequence[Any], text: str
    ) -> tuple[Any, ...]:
        """The inputs of the function's own input_gen_fn, where it has one."""
        if self.operator.input_gen_fn is None:
            return tuple(inputs)
        likes = tuple(
            None if shape is None else value for shape, value in zip(shapes, inputs, strict=True)
        )
        sketch = Sketch(self.operator.name, self.operator.path, text, likes, kwargs)
        return tuple(_generated(self.operator.input_gen_fn, sketch, inputs))

    def _stand_in(self, number: int, parameter: Parameter, variant: Variant) -> Any:
        if number in variant.absent:
            return None
        if parameter.is_tensor or parameter.kind is inspect.Parameter.VAR_POSITIONAL:
            return torch.zeros((6,) * variant.star, dtype=torch.float64, device=self.device)
        return parameter.default if parameter.has_default else _PLAIN.get(parameter.type)

    def _opaque(
        self,
        parameter: Parameter,
        shapes: Sequence[Any],
        lengths: Mapping[str, int],
        generator: torch.Generator,
    ) -> Any:
        if not parameter.is_tensor:
            value = self._value(parameter, lengths)
            return parameter.default if value is _LEAVE else value
        shape = next((shape for shape in shapes if shape is not None), ())
        return _tensor(shape, parameter.element, 2, generator).to(self.device)

    def _value(self, parameter: Parameter, lengths: Mapping[str, int]) -> Any:
        if parameter.name in lengths:
            return lengths[parameter.name]
        if parameter.has_default:
            return _LEAVE
        if parameter.is_optional:
            return None
        if parameter.type in _PLAIN:
            return _PLAIN[parameter.type]
        raise CannotSample(parameter.name)


_PLAIN = {"bool": False, "float": 0.5, "int": 2, "": 2}
"""Values for parameters by their type; of some autograd.Functions it is not said."""

_LEAVE: Any = object()


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


def _bad_generator(reason: str) -> Lie:
    hint = "it is given what `verify` wants inputs for, and returns a list of them"
    return Lie(Culprit("input_gen_fn", f"input_gen_fn makes no inputs: {reason}", hint))


def _names(parameters: Sequence[Parameter], count: int) -> list[Parameter]:
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
