"""Conversions of a program that stand side by side and go the same way become one collective.

    q_1 = all_to_all(q)               together = convert_together(q, k, v)
    k_1 = all_to_all(k)         ->    q_1 = together[0]
    v_1 = all_to_all(v)               k_1 = together[1]
    attention(q_1, k_1, v_1)          v_1 = together[2]

Side by side means that no operator is between them: nothing is kept for longer.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from torch import Tensor

from dimsolve.partition.placement import Placement

from ..distributed.collectives import pair_of
from ..distributed.communicator import Communicator
from ..distributed.together import goes_together, together
from .lengths import ARITHMETIC
from .program import Origin, origin_of
from .values import labelled

if TYPE_CHECKING:
    from torch import fx


def send_together(program: fx.Graph, ends: Mapping[str, Communicator]) -> None:
    """Changes a finished program, or a region of one."""
    for members in list(_alike(program, ends)):
        origins = [origin_of(step) for step in members]
        moves = [origin.move for origin in origins if origin is not None]
        label = ", ".join(origin.label for origin in origins if origin is not None)
        assert moves[0] is not None
        axis, source, target, shared = moves[0]
        function = _together(source, target, labelled(ends[axis], label), shared)
        with program.inserting_before(members[0]):
            given = tuple([step.args[0] for step in members])
            made = program.create_node("call_function", function, given, {}, name="together")
            made.meta["origin"] = Origin("conversions", label, move=moves[0])
        for number, step in enumerate(members):
            step.target, step.args = operator.getitem, (made, number)
            step.meta["origin"] = Origin("part", label)
            if any(user.op == "output" for user in step.users):
                _hand_out(program, step, label)


def _hand_out(program: fx.Graph, step: fx.Node, label: str) -> None:
    """Gives what is handed out a place of its own in the backward pass: whether a gradient comes to
    it is no matter of what else has come with it.
    """
    with program.inserting_after(step):
        own = program.call_function(_itself, (step,))
    own.meta["origin"] = Origin("part", label)
    step.replace_all_uses_with(own, delete_user_cb=lambda user: user is not own)


def _itself(x: Tensor) -> Tensor:
    return x.view_as(x)


def _alike(program: fx.Graph, ends: Mapping[str, Communicator]) -> Iterator[list[fx.Node]]:
    """The conversions that stand side by side, and go the same way; at least two."""
    groups: dict[Any, list[fx.Node]] = {}
    places: dict[Any, int] = {step: place for place, step in enumerate(program.nodes)}
    for step in program.nodes:  # the output comes last
        if not _is_between(step):
            yield from (members for members in groups.values() if len(members) > 1)
            groups = {}
        elif (move := _move(step, ends)) is not None:
            members = groups.setdefault(move, [])
            if not members or places[step.args[0]] < places[members[0]]:
                members.append(step)


def _is_between(step: fx.Node) -> bool:
    """Whether a step is a conversion, or computes lengths."""
    origin = origin_of(step)
    if origin is None:
        return step.target in ARITHMETIC
    return origin.kind in ("conversion", "size")


def _move(step: fx.Node, ends: Mapping[str, Communicator]) -> Any:
    """The way of a conversion that may go together with others; None of other steps."""
    origin = origin_of(step)
    if origin is None or origin.move is None or not origin.recorded:
        return None
    axis, source, target, shared = origin.move
    alone = len(step.args) > 1 or bool(step.kwargs)
    may = goes_together(source, target, ends[axis], shared_gradient=shared)
    return origin.move if may and not alone else None


def _together(
    source: Placement, target: Placement, end: Communicator, shared: bool
) -> Callable[..., tuple[Tensor, ...]]:
    pair = pair_of(source, target, end, shared)
    assert pair is not None
    function, *rest = pair
    arguments = tuple(rest)

    def call(*given: Tensor) -> tuple[Tensor, ...]:
        return together(function, arguments, given)

    return call
