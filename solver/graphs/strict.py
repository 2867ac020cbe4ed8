"""Strict dtypes: element-wise operators take and give one dtype, as typed intermediate languages
do.

torch promotes: float16 + int64 is float16, and the logarithm of whole numbers is real. A strict
graph asks for equal dtypes instead, so that a dtype that is known of one operand is known of all.
"""

from __future__ import annotations

from collections.abc import Iterator

from dimsolve.ir.node import Node, Value
from dimsolve.ir.types import TensorType

from . import graph_problems
from .builtin_operators import SAME_TYPE

_NAMES = """
    abs acos acosh add addcdiv addcmul addmm asin asinh atan atan2 atanh baddbmm bmm cat ceil
    concat conv1d conv2d conv3d conv_transpose1d conv_transpose2d conv_transpose3d cos cosh div
    divide erf exp floor floor_divide fmax fmin fmod gelu group_norm hypot layer_norm lerp linear
    log log2 log10 matmul maximum minimum mul multiply neg negative pow relu remainder rsqrt sigmoid
    sign silu sin sinh sqrt square stack sub subtract tan tanh true_divide truediv where
"""
ONE_DTYPE = frozenset(_NAMES.split())
"""Names of operators whose operands and result have one dtype in a strict graph."""


def strict_dtype(node: Node) -> Iterator[tuple[Value, str]]:
    """Yields tensors of a call whose dtype follows from another's; ShapeError where two differ."""
    path = node.signature
    if path not in SAME_TYPE and path.rpartition(".")[2] not in ONE_DTYPE:
        return
    operands = [v for v in node.operands() if isinstance(v.type, TensorType)]
    if path.rpartition(".")[2] == "where":
        operands = operands[1:]
    tensors = [*operands, *[v for v in node.outputs if isinstance(v.type, TensorType)]]
    known = [value for value in operands if value.dtype is not None]
    known = known or [value for value in tensors if value.dtype is not None]
    for value in known[1:]:
        if value.dtype != known[0].dtype:
            raise graph_problems.dtypes_differ(node, known[0], value)
    if known:
        dtype = known[0].dtype
        assert dtype is not None
        yield from ((value, dtype) for value in tensors if value.dtype is None)
