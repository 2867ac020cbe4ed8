"""Recurrent layers over no rows: torch refuses them, or ends the process.

    gru(x, h, weights, ...)     x (5, 0, 4), h (1, 0, 3)     a row of zeros runs, and is left out

The result depends on all that is given, so that a rank without rows takes part in the sums of
gradients: its own are zeros.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from dimsolve.ir.operator import Declaration

from .rule import Part, TransformRule


def row_rules(local: Callable[..., Any], declaration: Declaration) -> tuple[TransformRule, ...]:
    """Returns the rule over the batch for unequal parts, of which some may be empty."""
    rule = TransformRule(
        split="n", local=local, sends=(), parts="any", placed=False, only_unequal=True
    )
    return (rule,)


def _of_rows(name: str) -> Callable[..., Any]:
    """Returns what a rank calls in place of a layer of torch."""

    def local(part: Part, input: Any, hx: Any, *more: Any) -> Any:
        import torch

        function, dim = getattr(torch, name), 0 if more[-1] else 1
        if input.shape[dim]:
            return function(input, hx, *more)
        state = [_with_a_row(each, 1) for each in hx] if isinstance(hx, list | tuple) else None
        first = _with_a_row(hx, 1) if state is None else state
        output, *states = function(_with_a_row(input, dim), first, *more)
        return (output.narrow(dim, 0, 0), *(each.narrow(1, 0, 0) for each in states))

    local.__name__ = local.__qualname__ = f"{name}_parts"
    local.__doc__ = f"Returns torch.{name} of this rank's rows, of which there may be none."
    return local


def _with_a_row(tensor: Any, dim: int) -> Any:
    from torch.nn.functional import pad

    return pad(tensor, [0, 0] * (tensor.dim() - 1 - dim) + [0, 1])


LOCAL = {name: _of_rows(name) for name in ("lstm", "gru", "rnn_tanh", "rnn_relu")}
"""What a rank calls in place of the layers, by torch's name."""

globals().update({each.__name__: each for each in LOCAL.values()})  # programs import them
