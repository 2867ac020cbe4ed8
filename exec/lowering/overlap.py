"""What ranks send while they compute: sums of gradients, and results that only the caller looks at.

    a parameter's gradient over dp     its sum is waited for when the backward pass has ended
    logits S(2) -> R, only returned    gathered while the loss is computed, waited for at the end

Both are found in the finished program: a parameter that nothing but the conversion of its gradient
uses, and a gathered value that nothing but the output uses. Where the model writes to tensors no
gather is put off: what is sent must not change meanwhile.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dimsolve.partition.placement import Replicate, Shard

from ..distributed.gradient_buckets import GradientBuckets
from .conversion_steps import begin_gather_step, end_gather_step, share_gradient_later_step
from .program import Origin
from .setting import Setting
from .values import labelled

if TYPE_CHECKING:
    from torch import fx


def overlap(setting: Setting, *, gather: bool = True) -> None:
    """Changes a finished program so that it waits for what it sends as late as it can.

    gather: whether results may be gathered late too.
    """
    _sum_gradients_later(setting)
    if gather and not any(_writes(node) for node in setting.fx.nodes):
        _gather_results_later(setting)


def _sum_gradients_later(setting: Setting) -> None:
    buckets: dict[str, GradientBuckets] = {}
    for argument in setting.fx.nodes:
        origin = _origin(argument)
        if origin is None or origin.kind != "parameter" or len(argument.users) != 1:
            continue
        (user,) = argument.users
        move = _move(user)
        if move is None or move[1:] != (Replicate(), Replicate(), True):
            continue
        end = labelled(setting.communicators[move[0]], "the gradients")
        if hasattr(end, "begin_sum"):
            user.target = share_gradient_later_step(
                buckets.setdefault(move[0], GradientBuckets(end))
            )


def _gather_results_later(setting: Setting) -> None:
    *steps, output = setting.fx.nodes
    places = {step: place for place, step in enumerate(steps)}
    for step in steps:
        move, origin = _move(step), _origin(step)
        if move is None or origin is None or list(step.users) != [output]:
            continue
        axis, source, target, shared = move
        given: Any = step.args[0]
        end = labelled(setting.communicators[axis], origin.label)
        waits = any(_is_work(later) for later in steps[places[given] + 1 :])
        whole = target == Replicate() and not shared and len(step.args) == 1
        if isinstance(source, Shard) and whole and waits and hasattr(end, "begin_gather"):
            with setting.fx.inserting_after(given):
                begun = setting.fx.call_function(begin_gather_step(end), (given,))
            begun.meta["origin"] = Origin("begun", origin.label)
            step.target = end_gather_step(source, end)
            step.kwargs = {"begun": begun}
            output.prepend(step)


def _origin(step: fx.Node) -> Origin | None:
    origin: Origin | None = step.meta.get("origin")
    return origin


def _move(step: fx.Node) -> tuple[str, object, object, bool] | None:
    origin = _origin(step)
    return None if origin is None else origin.move


def _is_work(step: fx.Node) -> bool:
    """Whether a step computes with tensors."""
    origin = _origin(step)
    return origin is not None and origin.kind == "operator"


def _writes(step: fx.Node) -> bool:
    """Whether a step may change a tensor that it is given."""
    origin = _origin(step)
    if origin is None or origin.node is None:
        return False
    declaration = origin.node.declaration
    return declaration is None or bool(declaration.mutates)
