"""torch.nn.init at a parameter that a rank has a part of.

    torch.nn.init.xavier_uniform_(part.get_parameter("up.weight"))     refused, at tp = 2
    torch.nn.init.zeros_(part.get_parameter("up.bias"))                every rank fills its part

The fan would be that of the part, and all ranks would draw the same numbers for parts that are
different. A parameter that is whole on every rank can be drawn anew: all draw it alike.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, wraps
from typing import Any

from dimsolve.ir.errors import Problem

from ..lowering.setting import LoweringError
from .optimizers import MARK

_CUT = Problem(
    LoweringError,
    "init-of-a-part",
    "torch.nn.init of {name}, which is in parts",
    "this rank holds {shape} of {whole}, so its fan would be another, and all ranks would draw the "
    "same numbers",
    "initialise the model, then part.load_state_dict(model.state_dict())",
)

_LOOKING = (
    *("_no_grad_uniform_", "_no_grad_normal_", "_no_grad_trunc_normal_"),
    *("_calculate_fan_in_and_fan_out", "eye_", "dirac_", "orthogonal_", "sparse_"),
)
"""What in torch.nn.init draws, or looks at a whole: all others fill with one number."""


@cache
def watch_init() -> None:
    """Puts a check before torch's functions that initialise."""
    import torch.nn.init

    module: Any = torch.nn.init
    for name in _LOOKING:
        if hasattr(module, name):
            setattr(module, name, _checked(getattr(module, name)))


def _checked(function: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(function)
    def call(tensor: Any, *args: Any, **kwargs: Any) -> Any:
        where, name = getattr(tensor, MARK, (None, ""))
        part = None if where is None else where()
        held = None if part is None else part._held.get(name)
        if held is not None and not held.whole:
            whole = held.whole_shape(tensor.shape)
            raise _CUT(name=name, shape=tuple(tensor.shape), whole=whole)
        return function(tensor, *args, **kwargs)

    return call
