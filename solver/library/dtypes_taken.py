"""The dtypes that torch's functions refuse: a mean of whole numbers, the negative of a bool, a
product of matrices of two kinds.

Shapes would fit, and the call is still impossible. Only what torch refuses on every device is here;
what a device merely has no kernel for is seen when it runs.

    mean(bool[n])                     refused, unless a dtype is given
    matmul(float32[n], int64[n])      refused
"""

from __future__ import annotations

from typing import Any

from . import errors
from .dtypes import dtype_of, kind
from .values import is_tensor, tensors_in

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
            raise errors.refused_dtype(path, dtype, "real numbers" if least == 2 else "numbers")


def _converted(args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    """Whether the call names a dtype to convert to."""
    texts = [str(arg) for arg in args if not is_tensor(arg)]
    return kwargs.get("dtype") is not None or any(t.startswith("torch.") for t in texts)
