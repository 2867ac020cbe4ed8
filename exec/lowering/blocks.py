"""Gathers of a program's parameters, in blocks that begin one block ahead.

    q = all_gather(q_part)            block_0 = begin_block([q_part, k_part])
    k = all_gather(k_part)            q = gathered(q_part, block_0, 0)
    ... attention ...           ->    block_1 = begin_block([up_part], after=block_0)
    up = all_gather(up_part)          k = gathered(k_part, block_0, 1)
                                      ... attention, while block_1 is gathered ...
                                      up = gathered(up_part, block_1, 0)

Which parameters are a block is said by the plan. Those that are stored along other axes, or have
another dtype, are a block of their own. A block that a region uses begins before the region, and is
gathered again by the region's second run.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import torch

from dimsolve.partition.checkpoints import Extent, extents
from dimsolve.partition.placement import Shard
from dimsolve.partition.plan_data import REAL, ConversionPlan

from ..distributed.gathering import Block, Cut, begin_block, gathered, have_changed
from .program import Origin, origin_of
from .setting import Setting
from .values import labelled

if TYPE_CHECKING:
    from torch import fx


@dataclass(eq=False)
class _Block:
    """The steps of a block. members: the parts, and how they are cut; sums: the axes along which
    their gradients are summed after that; takes: (step, member).
    """

    number: int
    keeps: bool
    dtype: str | None
    members: dict[fx.Node, tuple[Cut, ...]] = field(default_factory=dict)
    sums: list[str] = field(default_factory=list)
    takes: list[tuple[fx.Node, fx.Node]] = field(default_factory=list)


def gather_in_blocks(setting: Setting) -> bool:
    """Changes the gathers of parameters in a program; returns whether there are any."""
    found: dict[Any, _Block] = {}
    for part, chain, entry in list(_chains(setting)):
        axes = [_move(step)[0] for step in chain]
        gathers = [step for step in chain if isinstance(_move(step)[1], Shard)]
        keeps = all(setting.plan.state[_move(step)[0]] == "optimizer" for step in gathers)
        key = entry.block, entry.dtype, len(gathers), *axes
        block = found.setdefault(key, _Block(len(found), keeps, entry.dtype))
        block.members[part] = tuple([_cut(setting, step) for step in gathers])
        block.sums = axes[: len(axes) - len(gathers)]
        block.takes.append((chain[-1], part))
        for step, after in pairwise(chain):
            after.replace_input_with(step, part)
            setting.fx.erase_node(step)
    blocks = list(found.values())
    order = {step: number for number, step in enumerate(setting.fx.nodes)}
    starts = [_start(setting, block.takes[0][0], order) for block in blocks]
    begun: fx.Node | None = None
    changed = _changed(setting, blocks, starts[0]) if blocks else None
    for number, block in enumerate(blocks):
        # What has come is copied and freed before more comes; a region cannot begin what is used
        # after it.
        start = starts[max(number - 1, 0)]
        outside = start.meta.get("region") is None
        alone = number > 0 and outside and start is blocks[number - 1].takes[0][0]
        begun = _begin(setting, block, start.next if alone else start, begun, changed)
    return bool(blocks)


def _changed(setting: Setting, blocks: list[_Block], start: fx.Node) -> fx.Node | None:
    """The step that asks whether what is kept must be gathered; None where nothing is kept."""
    parts = {part: cuts for each in blocks for part, cuts in each.members.items() if each.keeps}
    axes = {cut.axis: cut.end for cuts in parts.values() for cut in cuts}
    if not parts:
        return None
    ends = [labelled(end, "changed parts") for end in axes.values()]

    def changed(*given: Any) -> bool:
        return have_changed(given, *ends)

    with setting.fx.inserting_before(start):
        step = setting.fx.create_node("call_function", changed, tuple(parts), {}, name="changed")
    step.meta["origin"] = Origin("changed", ", ".join(axes))
    return step


def _chains(setting: Setting) -> Iterator[tuple[fx.Node, list[fx.Node], ConversionPlan]]:
    """Of each use of a parameter that is stored in parts: the part, the steps that share its
    gradient and then those that gather it, and what the plan says of it.
    """
    entries = {entry.id: entry for entry in setting.plan.conversions if entry.block is not None}
    gathers: dict[fx.Node, ConversionPlan] = {}
    for step in setting.fx.nodes:
        origin = origin_of(step)
        if origin is not None and origin.move is not None and origin.label in entries:
            gathers[step] = entries[origin.label]
    for step, entry in gathers.items():
        chain: list[fx.Node] = [step]
        part: Any = step.args[0]
        while _is_share(part) and len(part.users) == 1:
            chain.insert(0, part)
            part = part.args[0]
        origin = origin_of(part)
        if origin is None or origin.kind != "parameter":
            continue
        while len(chain[-1].users) == 1 and next(iter(chain[-1].users)) in gathers:
            chain.append(next(iter(chain[-1].users)))
        yield part, chain, entry


def _is_share(step: Any) -> bool:
    """Whether a step only sums the gradient on the way back."""
    origin = origin_of(step)
    return origin is not None and origin.move is not None and origin.move[1] == origin.move[2]


def _move(step: fx.Node) -> Any:
    origin = origin_of(step)
    assert origin is not None
    return origin.move


def _cut(setting: Setting, step: fx.Node) -> Cut:
    axis, shard, _, shared = _move(step)
    assert isinstance(shard, Shard)
    return Cut(shard, setting.communicators[axis], shared, axis)


def _start(setting: Setting, step: fx.Node, order: dict[fx.Node, int]) -> fx.Node:
    """The first step of the outermost region that a step is in; else itself."""
    region = step.meta.get("region")
    if region is None:
        return step
    places = extents(setting.plan)
    while places[region].within is not None:
        region = places[region].within
    inside = [each for each in order if _within(each.meta.get("region"), region, places)]
    return min(inside, key=order.__getitem__)


def _within(region: int | None, outer: int, places: list[Extent]) -> bool:
    while region is not None and region != outer:
        region = places[region].within
    return region is not None


def _begin(
    setting: Setting,
    block: _Block,
    start: fx.Node,
    before: fx.Node | None,
    changed: fx.Node | None,
) -> fx.Node:
    """Makes the step that begins a block before another step, and those that wait for it."""
    members, name = list(block.members), f"block_{block.number}"
    ends = {cut.axis: labelled(cut.end, name) for cuts in block.members.values() for cut in cuts}
    cuts = [[replace(cut, end=ends[cut.axis]) for cut in each] for each in block.members.values()]
    again = any(take.meta.get("region") is not None for take, _ in block.takes)
    used, reduced = dtypes(setting, block.dtype)
    gathers = Block(
        tuple(map(tuple, cuts)),
        again and not block.keeps,
        block.keeps,
        used,
        reduced,
        tuple([labelled(setting.communicators[axis], name) for axis in block.sums]),
    )

    def begin(parts: list[Any], after: Any, changed: bool = True) -> Any:
        return begin_block(parts, gathers, after, changed)

    arguments = (members, before, changed) if block.keeps else (members, before)
    with setting.fx.inserting_before(start):
        step = setting.fx.create_node("call_function", begin, arguments, {}, name=name)
    step.meta["origin"] = Origin("block", name, block=gathers)
    for take, part in block.takes:
        take.target, take.args = gathered, (part, step, members.index(part))
    return step


def dtypes(setting: Setting, used: str | None) -> tuple[torch.dtype | None, torch.dtype | None]:
    """Returns in which dtypes a parameter is used that is stored in another one, and its gradient
    summed; None for that of the stored part.
    """
    precision = setting.plan.precision
    if precision is None or used not in REAL:
        return None, None
    return getattr(torch, used), getattr(torch, precision.reduced)


def use_in_graphs_dtype(setting: Setting) -> None:
    """Casts parameters that are stored in another dtype, where they are not gathered."""
    narrow = {
        entry.name: dtypes(setting, entry.dtype)[0]
        for entry in setting.plan.parameters
        if entry.dtype != setting.plan.stored_dtype(entry.dtype)
    }
    for step in list(setting.fx.nodes):
        origin = origin_of(step)
        if origin is not None and origin.kind == "parameter" and origin.label in narrow:
            used = narrow[origin.label]
            assert used is not None
            _cast_uses(setting, step, used)


def _cast_uses(setting: Setting, step: fx.Node, used: torch.dtype) -> None:
    """Casts what a parameter has become after its conversions."""
    others = []
    for user in list(step.users):
        origin = origin_of(user)
        kind = "" if origin is None else origin.kind
        if user.target is gathered or kind in ("block", "changed"):
            continue
        if kind == "conversion":
            _cast_uses(setting, user, used)
        else:
            others.append(user)
    if not others:
        return
    with setting.fx.inserting_after(step):
        cast = setting.fx.create_node(
            "call_method", "to", (step, used), {}, name=f"{step.name}_used"
        )
    cast.meta["origin"] = Origin("size", "cast")
    if "region" in step.meta:
        cast.meta["region"] = step.meta["region"]
    for user in others:
        user.replace_input_with(step, cast)
