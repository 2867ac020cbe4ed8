"""The parameters of a function that is registered: their names, and which of them are tensors.

    def operator(x: torch.Tensor, w: torch.Tensor, h: float) -> torch.Tensor: ...
    x, w: tensors    h: another value

Type annotations are read as text: ``torch.Tensor``, ``Optional[torch.Tensor]``, ``Tensor | None``,
``torch.LongTensor`` and ``Float[Tensor, "m k"]`` all tell a tensor.
"""

from __future__ import annotations

import inspect
import re
from dataclasses import dataclass
from typing import Any

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
        """Whether the annotation tells a tensor."""
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
        """What kind of numbers a tensor is said to hold: "whole", "bool" or "real"."""
        if _BOOL.search(self.type):
            return "bool"
        return "whole" if _WHOLE.search(self.type) else "real"


def parameters_of(signature: inspect.Signature) -> tuple[Parameter, ...]:
    """Returns the parameters of a signature in order."""
    return tuple(
        Parameter(p.name, _type_text(p.annotation), p.kind, p.default)
        for p in signature.parameters.values()
    )


def forward_signature(function_class: Any) -> inspect.Signature:
    """Returns the signature of an autograd.Function's ``apply``: forward's, without ctx."""
    signature = inspect.signature(function_class.forward)
    if _sets_up_context(function_class):
        return signature
    parameters = list(signature.parameters.values())
    if parameters and parameters[0].kind is not inspect.Parameter.VAR_POSITIONAL:
        parameters = parameters[1:]
    return signature.replace(parameters=parameters)


def _sets_up_context(function_class: Any) -> bool:
    """Whether ctx goes to ``setup_context``; then ``forward`` has none."""
    for base in function_class.__mro__:
        if "setup_context" in vars(base):
            return not str(base.__module__).startswith("torch.autograd")
    return False


def _type_text(annotation: Any) -> str:
    if annotation is inspect.Parameter.empty:
        return ""
    return annotation if isinstance(annotation, str) else inspect.formatannotation(annotation)
