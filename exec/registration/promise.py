"""The promise of a registered function, laid on the arguments of one call.

    @register_op("(h t) k -> h t k")
    def reshape(tensor: torch.Tensor, h: int = 8): ...

    reshape(x)     "(h t) k -> h t k", inputs (x,), arguments {"h": 8}, sizes {"h": "h"}

The first parameters are the annotated inputs, the others are keyword arguments. One whose name is
an identifier of the annotation gives its length, and is made anew from the length on a rank.

Type annotations are read as text: ``torch.Tensor``, ``Optional[torch.Tensor]``, ``Tensor | None``,
``torch.LongTensor`` and ``Float[Tensor, "m k"]`` all mean a tensor.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from dimsolve.ir.operator import Declaration, ReductionName
from dimsolve.ir.read_annotation import read_annotation
from dimsolve.partition.rules.rule import TransformRule
from dimsolve.solver.layout import identifiers_of

from . import errors

_TENSOR = re.compile(r"\b\w*Tensor\b")
_NONE = re.compile(r"\b(Optional|None|NoneType)\b")
_WHOLE = re.compile(r"\b(Long|Int|Short|Char|Byte)Tensor\b")
_BOOL = re.compile(r"\bBoolTensor\b")


@dataclass(frozen=True, slots=True)
class Parameter:
    """One parameter. ``type``: its annotation as text, "" where there is none."""

    name: str
    type: str
    kind: inspect._ParameterKind
    default: Any = inspect.Parameter.empty

    @property
    def is_tensor(self) -> bool:
        """Whether the type annotation means a tensor."""
        return _TENSOR.search(self.type) is not None

    @property
    def is_optional(self) -> bool:
        """Whether None may stand for the value."""
        return self.default is None or _NONE.search(self.type) is not None

    @property
    def has_default(self) -> bool:
        """Whether a call may leave it out."""
        return self.default is not inspect.Parameter.empty

    @property
    def takes_rest(self) -> bool:
        """Whether it is ``*args`` or ``**kwargs``."""
        return self.kind in (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)

    @property
    def element(self) -> str:
        """What numbers a tensor is said to hold: "whole", "bool" or "real"."""
        if _BOOL.search(self.type):
            return "bool"
        return "whole" if _WHOLE.search(self.type) else "real"


def parameters_of(signature: inspect.Signature) -> tuple[Parameter, ...]:
    """Returns the parameters of a signature in order.

    >>> def scaled(x: Tensor, by: float = 1.0): ...
    >>> [(p.name, p.type, p.is_tensor) for p in parameters_of(inspect.signature(scaled))]
    [('x', 'Tensor', True), ('by', 'float', False)]
    """
    return tuple(
        Parameter(p.name, _type_text(p.annotation), p.kind, p.default)
        for p in signature.parameters.values()
    )


def _type_text(annotation: Any) -> str:
    if annotation is inspect.Parameter.empty:
        return ""
    return annotation if isinstance(annotation, str) else inspect.formatannotation(annotation)


def forward_signature(function_class: Any) -> inspect.Signature:
    """Returns the signature of an autograd.Function's ``apply``: forward's, without ctx."""
    signature = inspect.signature(function_class.forward)
    # Where a class sets up ctx by itself, forward has none.
    home = next(base for base in function_class.__mro__ if "setup_context" in vars(base))
    parameters = list(signature.parameters.values())
    if not str(home.__module__).startswith("torch.autograd"):
        return signature
    if parameters and parameters[0].kind is not inspect.Parameter.VAR_POSITIONAL:
        parameters = parameters[1:]
    return signature.replace(parameters=parameters)


@dataclass(frozen=True, slots=True)
class Promise:
    """Gives the Declaration of a call. ``value_split``, ``writes``: names, or numbers, of inputs;
    those that it writes to are its first outputs; where none are said it may be the first input.
    noted: empty until the function is seen to write to them and to return them; then whether its
    other results never shared memory with an argument.
    """

    name: str
    signature: inspect.Signature
    parameters: tuple[Parameter, ...]
    annotation: str | Callable[..., str]
    value_split: tuple[str | int, ...] = ()
    reduction: ReductionName = "sum"
    transform_rules: tuple[TransformRule, ...] = ()
    writes: tuple[str | int, ...] = ()
    noted: list[bool] = field(default_factory=list, compare=False)

    def note_write(self, separate: bool) -> None:
        """Says that the function writes to its inputs, and returns these first."""
        self.noted[:] = [all([separate, *self.noted])]

    def __call__(self, *args: Any, **kwargs: Any) -> Declaration:
        """Returns the declaration. Raises OperatorError where the call does not fit."""
        values = self.values(args, kwargs)
        text = self.annotation_for(values)
        annotation = read_annotation(text)
        count = len(annotation.inputs)
        names = [name for name, _ in values]
        if count > len(values):
            raise errors.too_many_inputs(text, self.name, count, names)
        for parameter, value in values[count:]:
            if is_tensor(value):
                raise errors.REFUSED["unannotated-tensor"](
                    text, parameter=parameter, name=self.name
                )
        identifiers = identifiers_of(annotation)
        lengths = {
            name: value
            for name, value in values
            if name in identifiers and value is not None and not is_tensor(value)
        }
        returns: Mapping[int, Literal["nothing", "tensor"]] = {0: "nothing", 1: "tensor"}
        mutates = self.written(names[:count], text)
        for number in mutates:
            if not is_tensor(values[number][1]):
                raise errors.REFUSED["writes (absent)"](parameter=names[number], name=self.name)
        return Declaration(
            annotation=text,
            inputs=tuple(value for _, value in values[:count]),
            arguments=lengths,
            sizes={name: name for name in lengths},
            value_split=self._summands(names[:count]),
            reduction=self.reduction,
            mutates=mutates,
            separate=bool(mutates)
            and (len(mutates) == len(annotation.outputs) or all(self.noted or [False])),
            returns=returns.get(len(annotation.outputs), "tuple"),
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
            raise errors.REFUSED["annotation-function (failed)"](
                name=self.name, type=type(error).__name__, message=error
            ) from error
        if not isinstance(text, str):
            raise errors.REFUSED["annotation-function (no text)"](
                name=self.name, **errors.of_value(text)
            )
        return text

    def values(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[tuple[str, Any]]:
        """Returns a call's values with their parameters' names, defaults included, in order."""
        try:
            bound = self.signature.bind(*args, **kwargs)
        except TypeError as error:
            raise errors.REFUSED["call"](name=self.name, message=error) from error
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

    def written(self, inputs: Sequence[str], text: str) -> tuple[int, ...]:
        """Returns the numbers of the inputs that the function writes to, of the names of a call's.

        Raises OperatorError for a name of none, and where there are not as many outputs.
        """
        found: list[int] = []
        for given in self.writes:
            number = number_of(given, inputs)
            if number is None:
                raise errors.unknown_written(self.name, str(given), inputs)
            found.append(number)
        outputs = len(read_annotation(text).outputs)
        if len(found) > outputs:
            raise errors.too_few_outputs(text, self.name, len(found), outputs)
        return tuple(found) or (0,) * bool(self.noted)

    def _summands(self, inputs: Sequence[str]) -> tuple[int, ...]:
        return tuple(sorted(summand(given, self.name, inputs) for given in self.value_split))


def summand(given: str | int, name: str, inputs: Sequence[str]) -> int:
    """Returns the number of the input that an entry of value_split means; OperatorError for none.

    name: of the operator. inputs: the names of its annotated inputs.
    """
    number = number_of(given, inputs)
    if number is None:
        raise errors.unknown_summand(name, str(given), inputs)
    return number


def number_of(given: str | int, inputs: Sequence[str]) -> int | None:
    """Returns the number of the input that a name, or a number, means; None where it is none."""
    if isinstance(given, int) and 0 <= given < len(inputs):
        return given
    return inputs.index(str(given)) if given in inputs else None


def is_tensor(value: Any) -> bool:
    """Whether the value is a tensor, or stands for one: it has a shape and a dtype."""
    return hasattr(value, "shape") and hasattr(value, "dtype")
