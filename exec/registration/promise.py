"""The promise of a registered function, laid on the arguments of one call.

    @register_op("(h t) k -> h t k")
    def reshape(tensor: torch.Tensor, h: int = 8): ...

    reshape(x)     "(h t) k -> h t k", inputs (x,), arguments {"h": 8}, sizes {"h": "h"}

The first parameters are the annotated inputs, the others are keyword arguments. One whose name is
an identifier of the annotation gives its length, and is made anew from the length on a rank.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from dimsolve.ir.annotation import Annotation
from dimsolve.ir.operator import Declaration, ReductionName
from dimsolve.ir.read_annotation import read_annotation
from dimsolve.partition.transform import TransformRule
from dimsolve.solver.layout import identifiers_of

from . import registration_errors as errors
from .parameters import Parameter


@dataclass(frozen=True, slots=True)
class Promise:
    """Gives the Declaration of a call. ``value_split``: names, or numbers, of inputs."""

    name: str
    signature: inspect.Signature
    parameters: tuple[Parameter, ...]
    annotation: str | Callable[..., str]
    value_split: tuple[str | int, ...] = ()
    reduction: ReductionName = "sum"
    transform_rules: tuple[TransformRule, ...] = ()

    def __call__(self, *args: Any, **kwargs: Any) -> Declaration:
        """Returns the declaration. Raises OperatorError where the call does not fit."""
        values = self._values(args, kwargs)
        text = self.annotation_for(values)
        annotation = read_annotation(text)
        count = len(annotation.inputs)
        if count > len(values):
            names = [parameter for parameter, _ in values]
            raise errors.too_many_inputs(text, self.name, count, names)
        for parameter, value in values[count:]:
            if is_tensor(value):
                raise errors.unannotated_tensor(text, self.name, parameter)
        inputs = values[:count]
        lengths = _lengths(annotation, values)
        return Declaration(
            annotation=text,
            inputs=tuple(value for _, value in inputs),
            arguments=lengths,
            sizes={name: name for name in lengths},
            value_split=self._summands([name for name, _ in inputs]),
            reduction=self.reduction,
            returns=_returns(annotation),
            transform_rules=self.transform_rules,
        )

    def annotation_for(self, values: Sequence[tuple[str, Any]]) -> str:
        """Returns the text for these values and the names of their parameters.

        A function of ``(*inputs, **kwargs)`` gets all up to the last tensor as inputs.
        """
        if isinstance(self.annotation, str):
            return self.annotation
        tensors = {
            parameter.name
            for parameter in self.parameters
            if parameter.is_tensor or parameter.kind is inspect.Parameter.VAR_POSITIONAL
        }
        count = max(
            (i + 1 for i, (name, v) in enumerate(values) if name in tensors or is_tensor(v)),
            default=0,
        )
        inputs = [value for _, value in values[:count]]
        try:
            text = self.annotation(*inputs, **dict(values[count:]))
        except Exception as error:
            raise errors.annotation_function_failed(self.name, error) from error
        if not isinstance(text, str):
            raise errors.annotation_function_gave(self.name, text)
        return text

    def _values(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[tuple[str, Any]]:
        """The call's values with the names of their parameters, defaults included, in order."""
        try:
            bound = self.signature.bind(*args, **kwargs)
        except TypeError as error:
            raise errors.call_does_not_fit(self.name, error) from error
        bound.apply_defaults()
        values: list[tuple[str, Any]] = []
        for parameter in self.parameters:
            value = bound.arguments[parameter.name]
            match parameter.kind:
                case inspect.Parameter.VAR_POSITIONAL:
                    values.extend((parameter.name, item) for item in value)
                case inspect.Parameter.VAR_KEYWORD:
                    values.extend(value.items())
                case _:
                    values.append((parameter.name, value))
        return values

    def _summands(self, inputs: Sequence[str]) -> tuple[int, ...]:
        numbers: list[int] = []
        for given in self.value_split:
            if isinstance(given, int) and 0 <= given < len(inputs):
                numbers.append(given)
            elif given in inputs:
                numbers.append(inputs.index(str(given)))
            else:
                raise errors.unknown_value_split(self.name, str(given), inputs)
        return tuple(sorted(numbers))


def is_tensor(value: Any) -> bool:
    """Whether the value is a tensor, or stands for one: it has a shape and a dtype."""
    return hasattr(value, "shape") and hasattr(value, "dtype")


def _lengths(annotation: Annotation, values: Sequence[tuple[str, Any]]) -> dict[str, Any]:
    identifiers = identifiers_of(annotation)
    return {
        name: value
        for name, value in values
        if name in identifiers and value is not None and not is_tensor(value)
    }


def _returns(annotation: Annotation) -> Literal["tensor", "tuple", "nothing"]:
    match len(annotation.outputs):
        case 0:
            return "nothing"
        case 1:
            return "tensor"
        case _:
            return "tuple"
