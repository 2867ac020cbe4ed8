"""Dtypes of results without torch, and the dtypes that torch's functions refuse.

A dtype is its name, ``"float32"``; None is one that is not known, and what depends on it is not
known either. Only what torch refuses on every device is refused here.

    promote_types("int64", "float16")       float16
    result_type((float16 tensor, 3.0))      float16     a number does not widen its own class
    result_type((int64 tensor, 3.0))        float32     but a higher class counts
    mean(bool[n])                           refused, unless a dtype is given
    matmul(float32[n], int64[n])            refused
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ...algebra.poly import Poly
from . import errors
from .writing import is_tensor, tensors_in

DEFAULT = "float32"
"""What torch makes of whole numbers in a function of reals, unless its default dtype was changed.
"""

_KINDS = {"bool": 0, "uint": 1, "int": 1, "float": 2, "bfloat": 2, "complex": 3}
_HALF = {"float32": "complex64", "float64": "complex128", "float16": "complex32"}
_REAL = {complex_: real for real, complex_ in _HALF.items()}


def dtype_name(dtype: Any) -> str | None:
    """Returns the name of a dtype; Python's number types stand for what torch takes them for.

    >>> dtype_name("torch.float16"), dtype_name(int), dtype_name(None)
    ('float16', 'int64', None)
    """
    if dtype is None:
        return None
    if isinstance(dtype, type):
        return {bool: "bool", int: "int64", float: DEFAULT, complex: "complex64"}.get(dtype)
    return str(dtype).removeprefix("torch.")


def dtype_of(tensor: Any) -> str | None:
    """Returns the name of a tensor's dtype."""
    return dtype_name(tensor.dtype)


def kind(dtype: str) -> int:
    """Returns 0 for bool, 1 for whole numbers, 2 for reals, 3 for complex numbers.

    >>> kind("uint8"), kind("bfloat16")
    (1, 2)
    """
    return _KINDS.get(dtype.rstrip("0123456789"), 2)


def bits(dtype: str) -> int:
    """Returns the number of bits of a dtype; 8 for bool."""
    return int(dtype.lstrip("abcdefghijklmnopqrstuvwxyz").split("_")[0] or 8)


def promote_types(a: str | None, b: str | None) -> str | None:
    """Returns the dtype that holds both, as torch.promote_types says.

    >>> promote_types("uint8", "int8"), promote_types("float16", "bfloat16")
    ('int16', 'float32')
    >>> promote_types("float64", "complex64")
    'complex128'
    """
    if a is None or b is None or a == b:
        return a if a == b else None
    if "float8" in a + b:
        return None
    low, high = sorted((a, b), key=kind)
    if kind(low) != kind(high):
        real = _REAL.get(high)
        if real is None or kind(low) < 2:
            return high
        wide = promote_types(low, real)
        return _HALF.get(wide or "", high)
    if kind(a) == 1:
        return _promote_whole(a, b)
    if bits(a) == bits(b):
        return "float32"  # float16 and bfloat16
    return a if bits(a) > bits(b) else b


def _promote_whole(a: str, b: str) -> str | None:
    """Signed holds unsigned only with more bits; torch defines no promotion among wide unsigned
    ones.
    """
    if a.startswith("u") == b.startswith("u"):
        return a if bits(a) > bits(b) else b
    unsigned, signed = (a, b) if a.startswith("u") else (b, a)
    if unsigned != "uint8":
        return None
    return "int16" if signed == "int8" else signed


def result_type(operands: Iterable[Any]) -> str | None:
    """Returns the dtype of an element-wise operation on tensors and Python numbers, as
    torch.result_type says.

    Tensors with dimensions count before scalar tensors, and those before Python numbers: what comes
    later widens the result only where it is of a higher kind.
    """
    ranks: tuple[list[str], list[str], list[str]] = ([], [], [])
    for operand in operands:
        if is_tensor(operand):
            dtype = dtype_of(operand)
            if dtype is None or operand.shape is None:
                return dtype if operand.shape is None and not any(ranks) else None
            ranks[0 if len(operand.shape) else 1].append(dtype)
        elif operand is not None:
            ranks[2].append(_number_type(operand))
    joined = [_join(group) for group in ranks]
    if any(group and dtype is None for group, dtype in zip(ranks, joined, strict=True)):
        return None
    return _combine(joined[0], _combine(joined[1], joined[2]))


def _join(dtypes: list[str]) -> str | None:
    joined: str | None = dtypes[0] if dtypes else None
    for dtype in dtypes[1:]:
        joined = promote_types(joined, dtype)
    return joined


def _combine(higher: str | None, lower: str | None) -> str | None:
    """The dtype of what counts first and what counts after it; the width of the first is kept."""
    if higher is None or lower is None:
        return higher or lower
    if kind(higher) == 2 and kind(lower) == 3:
        return _HALF.get(higher, "complex64")
    if kind(higher) >= 2:
        return higher
    if kind(higher) == 0 or kind(lower) >= 2:
        return promote_types(higher, lower)
    return higher


def _number_type(value: Any) -> str:
    if isinstance(value, bool):
        return "bool"
    if isinstance(value, int | Poly):
        return "int64"
    return "complex64" if isinstance(value, complex) else DEFAULT


def floating(dtype: str | None) -> str | None:
    """Returns the dtype of a function of reals: whole numbers become the default.

    >>> floating("int64"), floating("float16")
    ('float32', 'float16')
    """
    return DEFAULT if dtype is not None and kind(dtype) < 2 else dtype


def real_of(dtype: str | None) -> str | None:
    """Returns the dtype of an absolute value or a real part.

    >>> real_of("complex128"), real_of("float32")
    ('float64', 'float32')
    """
    return dtype if dtype is None else _REAL.get(dtype, dtype)


def complex_of(dtype: str | None) -> str | None:
    """Returns the complex dtype whose parts have this dtype.

    >>> complex_of("float64")
    'complex128'
    """
    dtype = floating(dtype)
    return None if dtype is None else dtype if kind(dtype) == 3 else _HALF.get(dtype)


def summed(dtype: str | None) -> str | None:
    """Returns the dtype of a sum: whole numbers and bools become int64."""
    return "int64" if dtype is not None and kind(dtype) < 2 else dtype


_REALS = """
    torch.mean torch.nanmean torch.std torch.var torch.std_mean torch.var_mean torch.quantile
    torch.softmax torch.log_softmax torch.nn.functional.softmax torch.nn.functional.log_softmax
    torch.nn.functional.softmin torch.nn.functional.gelu torch.nn.functional.silu
    torch.nn.functional.elu torch.nn.functional.celu torch.nn.functional.selu
    torch.nn.functional.mish torch.nn.functional.softplus torch.nn.functional.logsigmoid
    torch.nn.functional.layer_norm torch.nn.functional.group_norm torch.nn.functional.rms_norm
    torch.nn.functional.scaled_dot_product_attention torch.linalg.cholesky torch.linalg.det
    torch.linalg.inv torch.linalg.qr torch.linalg.svd torch.linalg.eigh torch.linalg.solve
"""
REALS = frozenset(_REALS.split())
"""Functions of real and complex numbers, which take neither bools nor whole numbers."""

_NUMBERS = """
    torch.neg torch.sub torch.rsub operator.neg operator.sub operator.isub
"""
NUMBERS = frozenset(_NUMBERS.split())
"""Functions that take no bools."""

_PRODUCTS = """
    torch.matmul torch.mm torch.bmm torch.mv torch.dot torch.vdot torch.inner torch.tensordot
    torch.addmm torch.baddbmm torch.addbmm torch.addmv torch.chain_matmul torch.linalg.multi_dot
    torch.nn.functional.linear torch.nn.functional.bilinear torch.nn.functional.conv1d
    torch.nn.functional.conv2d torch.nn.functional.conv3d torch.nn.functional.conv_transpose1d
    torch.nn.functional.conv_transpose2d torch.nn.functional.conv_transpose3d operator.matmul
"""
PRODUCTS = frozenset(_PRODUCTS.split())
"""Functions whose tensors are of one kind: two kinds of reals may be made one by autocast, reals
and whole numbers never.
"""


def check_dtypes(path: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    """Checks the dtypes of a call. Raises ShapeError for one that torch refuses; what is not known
    is not checked.
    """
    if path not in REALS and path not in NUMBERS and path not in PRODUCTS:
        return
    tensors = tensors_in([*args, *kwargs.values()])
    dtypes = [found for found in map(dtype_of, tensors) if found is not None]
    if path in PRODUCTS:
        other = next((d for d in dtypes if kind(d) // 2 != kind(dtypes[0]) // 2), None)
        if other is not None:
            raise errors.mixed_dtypes(path, dtypes[0], other)
        return
    least = 2 if path in REALS else 1
    if not dtypes or not is_tensor(args[0] if args else None) or _converted(args, kwargs):
        return
    first = dtype_of(args[0])
    refused = dtypes if path in NUMBERS else [] if first is None else [first]
    for dtype in refused:
        if kind(dtype) < least:
            raise errors.refused_dtype(
                path.rpartition(".")[2], dtype, path, "real numbers" if least == 2 else "numbers"
            )


def _converted(args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    """Whether the call names a dtype to convert to."""
    texts = [str(arg) for arg in args if not is_tensor(arg)]
    return kwargs.get("dtype") is not None or any(t.startswith("torch.") for t in texts)
