"""Arguments of calls as people write them, made into what a graph holds.

(2, "m*2")         (2, 2*m)              texts inside a list of sizes are dimensions
torch.float32      Constant(torch.float32)
"mean"             "mean"                a text alone stays a text
"""

from __future__ import annotations

from typing import Any

from dimsolve.ir.node import Argument, Constant, Device, Value

from ..algebra.poly import Poly
from .read_type import read_dim

SIZED = frozenset(
    {
        "broadcast_to",
        "empty",
        "expand",
        "full",
        "new_empty",
        "new_full",
        "new_ones",
        "new_zeros",
        "ones",
        "rand",
        "randn",
        "repeat",
        "reshape",
        "tile",
        "unflatten",
        "view",
        "zeros",
    }
)
"""Functions whose texts are sizes wherever they stand: ``view(x, "n", 8)``."""


def read_argument(argument: Any, *, nested: bool = False) -> Argument:
    """Returns the argument with dimensions read, and torch's constants and devices by name.

    >>> read_argument(("n", 2)), read_argument("mean")
    ((Poly(n), 2), 'mean')
    """
    kind = argument.__class__
    if kind in (Value, int, float, bool, Poly) or argument is None:
        return argument
    if isinstance(argument, tuple):
        return tuple([read_argument(item, nested=True) for item in argument])
    if isinstance(argument, list):
        return [read_argument(item, nested=True) for item in argument]
    if isinstance(argument, dict):
        return {key: read_argument(item) for key, item in argument.items()}
    if isinstance(argument, slice):
        bounds = (argument.start, argument.stop, argument.step)
        return slice(*[read_argument(bound, nested=True) for bound in bounds])
    module = kind.__module__.partition(".")[0]
    if module == "torch" and kind.__name__ == "device":
        return Device(str(argument))
    if module == "torch" and kind.__name__ in ("dtype", "memory_format", "layout"):
        return Constant(str(argument))
    if module == "sympy" or (nested and kind is str):
        return read_dim(argument)
    return argument
