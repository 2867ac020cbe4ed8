"""A user's own `torch.autograd.Function`, as torch.compile captures it: two graphs.

    y = applied(forward, backward, x)    y (4, 8) of x (4, 8), which is saved as the user saves it

torch runs them by a class that it makes anew for every call, which keeps what is saved beside
autograd: hooks of saved tensors do not see it, so a region that is run again lets nothing of it go,
and as classes are garbage in a circle it lives until the collector runs. Here it is saved as
autograd saves, where the user's function did, and else kept by the call, as on one device.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.autograd import Function
from torch.compiler import is_compiling
from torch.fx import Interpreter

NAME = "autograd_function_apply"


def applied(forward: Any, backward: Any, *given: Any, **settings: Any) -> Any:
    """Returns what the forward graph makes of what is given; gradients go back by the other one.

    settings: which results have no gradient, are written to, and are saved, by number. Builds of
    torch that say it otherwise run the two graphs themselves, as torch.compile does.
    """
    known = {"non_differentiable_idx", "saved_for_backward_idx"}
    if is_compiling() or not known <= settings.keys() <= known | {"dirty_idx"}:
        return torch.ops.higher_order.autograd_function_apply(forward, backward, *given, **settings)
    names = ("saved_for_backward_idx", "dirty_idx", "non_differentiable_idx")
    places = tuple(frozenset(settings.get(name, ())) for name in names)
    apply: Any = _Applied.apply
    return apply(forward, backward, places, *given)


class _Applied(Function):
    """Runs the two graphs."""

    @staticmethod
    def forward(ctx: Any, forward: Any, backward: Any, places: Any, *given: Any) -> Any:
        output, kept = Interpreter(forward).run(*given)
        saved, dirty, plain = places
        outputs = output if isinstance(output, tuple | list) else (output,)
        ctx.mark_dirty(*(each for n, each in enumerate(outputs) if n in dirty))
        ctx.mark_non_differentiable(*(each for n, each in enumerate(outputs) if n in plain))
        own = [n in saved and isinstance(each, Tensor) for n, each in enumerate(kept)]
        ctx.save_for_backward(*(each for each, is_saved in zip(kept, own, strict=True) if is_saved))
        ctx.graph = backward
        ctx.kept = [None if is_saved else each for each, is_saved in zip(kept, own, strict=True)]
        ctx.own = own
        return output

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Any:
        saved = iter(ctx.saved_tensors)
        pairs = zip(ctx.kept, ctx.own, strict=True)
        kept = [next(saved) if is_saved else each for each, is_saved in pairs]
        found = Interpreter(ctx.graph).run(*gradients, *kept)
        return (None, None, None, *(found if isinstance(found, tuple | list) else (found,)))
