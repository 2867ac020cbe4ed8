"""Dtypes, devices, copies: the values stay, whatever is cut.

x.to(torch.float16)     * -> *
x.type_as(y)            * -> *          y only lends its dtype
expand(x, (b, 8, s))    a 1 b -> a c b  in `expansion`
"""

from __future__ import annotations

import re
from typing import Any

from dimsolve.ir.operator import Declaration

from ..declare.dtypes import complex_of, dtype_name, dtype_of, kind, real_of
from ..declare.entry import DType, Form, entries, entry, example, shapes, t
from ..declare.writing import NotKnown, is_tensor

_DTYPE = re.compile(r"torch\.(bool|u?int\d+|b?float\d+\w*|complex\d+)")


def cast(input: Any, dtype: str | None) -> Declaration:
    """Declares the same values in another dtype; linear where they stay real."""
    linear = dtype is not None and kind(dtype) >= 2
    return Declaration("* -> *", (input,), dtypes=(dtype,), linear=((0,),) if linear else ())


def to(input: Any, *args: Any, **kwargs: Any) -> Declaration:
    """Declares Tensor.to: a dtype, a device, or another tensor's."""
    dtype = kwargs.get("dtype")
    other = kwargs.get("other")
    for value in args:
        if is_tensor(value):
            other = value
        elif _is_dtype(value):
            dtype = value
    if dtype is None and other is not None:
        return cast(input, dtype_of(other))
    return cast(input, dtype_name(dtype) or dtype_of(input))


def _is_dtype(value: Any) -> bool:
    """Whether a positional argument is a dtype: devices and memory formats are other words of
    torch.
    """
    return not isinstance(value, str) and _DTYPE.fullmatch(str(value)) is not None


def as_type(dtype: str) -> Form:
    """Declares float, half, long, bool and their kin."""

    def declare(input: Any, memory_format: Any = None) -> Declaration:
        return cast(input, dtype)

    return declare


def typed(input: Any, dtype: Any = None, non_blocking: bool = False) -> Declaration:
    """Declares Tensor.type with a dtype."""
    if dtype is None or isinstance(dtype, str):
        raise NotKnown("only a torch dtype is supported")
    return cast(input, dtype_name(dtype))


def type_as(input: Any, other: Any) -> Declaration:
    """Declares another tensor's dtype."""
    return cast(input, dtype_of(other))


def same(input: Any, *args: Any, **kwargs: Any) -> Declaration:
    """Declares clone, contiguous, detach, cpu and what else leaves the values as they are."""
    return cast(input, dtype_of(input))


def as_complex(input: Any) -> Declaration:
    """Declares pairs read as complex numbers."""
    dtype = complex_of(dtype_of(input))
    return Declaration("* 2 -> *", (input,), dtypes=(dtype,), linear=((0,),))


def as_real(input: Any) -> Declaration:
    """Declares complex numbers read as pairs."""
    return Declaration("* -> * 2", (input,), dtypes=(real_of(dtype_of(input)),), linear=((0,),))


_METHODS = {
    "float": "float32",
    "double": "float64",
    "half": "float16",
    "bfloat16": "bfloat16",
    "int": "int32",
    "long": "int64",
    "short": "int16",
    "char": "int8",
    "byte": "uint8",
    "bool": "bool",
    "chalf": "complex32",
    "cfloat": "complex64",
    "cdouble": "complex128",
}
"""Methods that name a dtype."""

_SAME = "contiguous clone detach cpu cuda pin_memory requires_grad_ resolve_neg retain_grad"

ENTRIES = (
    entry(
        "torch.Tensor.to",
        to,
        example(t(12, 6), DType("float32")),
        example(t(12, 6), dtype=DType("int64")),
        example(t(12, 6), t(2, dtype="float32")),
        example(t(12, 6), "cpu"),
    ),
    *(
        # Halves of complex numbers can be made, but not compared.
        entry(f"torch.Tensor.{name}", as_type(dtype), *shapes("12 6") * (name != "chalf"))
        for name, dtype in _METHODS.items()
    ),
    entry("torch.Tensor.type", typed, example(t(12, 6), DType("float32"))),
    entry("torch.Tensor.type_as", type_as, example(t(12, 6), t(2, dtype="float32"))),
    *(
        entry(
            f"torch.Tensor.{name}",
            same,
            *(
                [example(t(12, 6))]
                if name not in ("cuda", "pin_memory", "retain_grad", "requires_grad_")
                else []
            ),
        )
        for name in _SAME.split()
    ),
    *entries("torch. clone detach", same, *shapes("12 6")),
    entry("torch.view_as_complex", as_complex, *shapes("12 6 2")),
    entry("torch.view_as_real", as_real, example(t(12, 6, dtype="complex128"))),
)
