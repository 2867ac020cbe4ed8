"""Regions of a program: steps that run again in the backward pass, as functions that it calls.

    linear = torch.nn.functional.linear(x, w)         region = region(x, w)
    gelu = torch.nn.functional.gelu(linear)     ->
    all_reduce = all_reduce(gelu)                     called under torch's checkpoint

torch's own machinery does what it does on one device: it keeps what the function takes, runs it
again when something in it is needed, checks that the same is made, and stops early. Collectives in
it are run again too, by all ranks in the same order, since all run the same program. Lengths, and
conversions of what the region takes that make it no larger, are moved out of the region.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import torch

from dimsolve.ir.graph import Region
from dimsolve.partition.checkpoints import extents, stays_out
from dimsolve.partition.plan import Plan

from ..modes import is_switch, restoring
from ..recompute import run_again
from .calls import Draws
from .lengths import ARITHMETIC
from .program import Body, Origin, origin_of
from .setting import Setting, identifier, reserve
from .together import send_together

if TYPE_CHECKING:
    from torch import fx


HELD = frozenset({"parameter", "buffer", "constant"})
"""Slots whose tensors a model does not pass on, but has."""


class Regions:
    """The regions of a program that is being made. ``bodies``: the functions that they became."""

    def __init__(self, setting: Setting, draws: Draws) -> None:
        self._setting = setting
        self._draws = draws
        self._regions = setting.plan.regions
        self._extents = extents(setting.plan)
        self._last: Any = None
        self.bodies: list[Body] = []

    def around(self, plan: Plan) -> dict[str, int]:
        """Returns the innermost region of each operator that is in one, by the operator's node."""
        found: dict[str, int] = {}
        for number, extent in enumerate(self._extents):
            for entry in plan.operators[extent.start : extent.stop]:
                found[entry.node] = number
        return found

    def begin(self) -> None:
        """Says that the steps of a node are made from here on."""
        self._last = self._setting.fx._root.prev

    def end(self, region: int | None) -> None:
        """Says that they have been made, in this region."""
        step = self._setting.fx._root.prev
        while region is not None and step is not self._last:
            step.meta["region"] = region
            step = step.prev

    def take_out(self) -> None:
        """Makes functions of the regions, and calls of these in their place."""
        for number in reversed(range(len(self._regions))):  # a part stands after its whole
            self._move_out(number)
            members = list(self._members(number))
            if members:
                self._call(number, members)

    def _members(self, number: int) -> Iterator[fx.Node]:
        return (step for step in self._setting.fx.nodes if step.meta.get("region") == number)

    def _move_out(self, number: int) -> None:
        """Moves what need not be run again to before the region."""
        first: fx.Node | None = None
        for step in list(self._members(number)):
            inside = any(given.meta.get("region") == number for given in step.all_input_nodes)
            if inside or not _is_free(step) or self._keeps_more(step, number):
                first = first or step
                continue
            self._put_around(step, number)
            if first is not None:
                first.prepend(step)

    def _keeps_more(self, step: fx.Node, number: int) -> bool:
        """Whether the region takes what a sum is made of anyway: the sum would be kept too."""
        origin = origin_of(step)
        if origin is None or origin.move is None or origin.move[1] == origin.move[2]:
            return False
        given = {user for each in step.all_input_nodes for user in each.users if user is not step}
        return any(user.meta.get("region") == number for user in given)

    def _put_around(self, step: fx.Node, number: int) -> None:
        """Puts a step into the region that this one is a part of, if there is one."""
        around = self._extents[number].within
        if around is None:
            step.meta.pop("region", None)
        else:
            step.meta["region"] = around

    def _call(self, number: int, members: list[fx.Node]) -> None:
        inside = set(members)
        taken = list(
            dict.fromkeys(g for step in members for g in step.all_input_nodes if g not in inside)
        )
        given = [step for step in members if any(user not in inside for user in step.users)]
        contract = self._regions[number].contract()
        body = self._body(contract, members, taken, given)
        self.bodies.append(body)
        program = self._setting.fx
        with program.inserting_before(members[0]):
            call = program.create_node(
                "call_function",
                self._function(contract, body, taken),
                tuple(taken),
                {},
                name=identifier(contract.name),
            )
            results = [call]
            if len(given) > 1:
                results = [
                    program.create_node("call_function", operator.getitem, (call, n), {}, step.name)
                    for n, step in enumerate(given)
                ]
        for step in {call: None, **dict.fromkeys(results)}:
            step.meta["origin"] = Origin("region", contract.name, region=body)
            step.meta["region"] = number
            self._put_around(step, number)
        for old, new in zip(given, results, strict=True):
            new.meta["held"] = _is_held(old)
            for user in list(old.users):
                if user not in inside:
                    user.replace_input_with(old, new)
        for step in reversed(members):
            program.erase_node(step)

    def _body(
        self,
        region: Region,
        members: Iterable[fx.Node],
        taken: Iterable[fx.Node],
        given: Sequence[fx.Node],
    ) -> Body:
        """The region as a function: from what it takes to what others use of it."""
        from torch import fx

        made = fx.Graph()
        reserve(made, self._setting.plan.mesh)
        twins: dict[fx.Node, fx.Node] = {}
        for step in taken:
            twin = twins[step] = made.placeholder(step.name)
            origin = step.meta.get("origin")
            twin.meta = {} if origin is None else {"origin": origin}
        for step in members:
            twins[step] = made.node_copy(step, twins.__getitem__)
        results = tuple([twins[step] for step in given])
        made.output(results[0] if len(results) == 1 else results)
        send_together(made, self._setting.communicators)
        return Body(made, {}, identifier(region.name), region)

    def _function(self, region: Region, body: Body, taken: Sequence[fx.Node]) -> Callable[..., Any]:
        """What the program calls: the region, to be run again."""
        run = _plain(body)
        if any(is_switch(step.target) for step in body.steps()):
            run = _switching(run)
        held = tuple([n for n, step in enumerate(taken) if _is_held(step)])
        draws = self._draws if body.draws else None

        def call(*args: Any) -> Any:
            anew = not region.preserve_rng_state
            function = run if draws is None else draws.repeating(run, anew=anew)
            return run_again(region, function, args, held)

        # Compiled code keeps no seeds from the forward pass to the backward pass.
        whole: Callable[..., Any] = call if draws is None else torch.compiler.disable(call)
        whole.__name__ = identifier(region.name)
        return whole


def _plain(body: Body) -> Callable[..., Any]:
    forward, module = body.forward, body.module

    def run(*args: Any) -> Any:
        return forward(module, *args)

    return run


def _switching(run: Callable[..., Any]) -> Callable[..., Any]:
    """Brings modes back: torch leaves a recomputation in its midst when it has what it needs."""
    guarded = restoring(run)

    def call(*args: Any) -> Any:
        return run(*args) if torch.compiler.is_compiling() else guarded(*args)

    return call


def _is_held(step: fx.Node) -> bool:
    """Whether a step is a tensor of the model, what a conversion makes of one, or one that has been
    written to, as batch norm counts its calls.
    """
    if step.meta.get("held"):
        return True
    if step.op == "call_method" and str(step.target).endswith("_") and step.all_input_nodes:
        return _is_held(step.all_input_nodes[0])
    origin = origin_of(step)
    if origin is None:
        return False
    if origin.kind == "conversion":
        return all(_is_held(given) for given in step.all_input_nodes)
    if origin.kind == "block":
        return True
    return origin.kind in HELD


def _is_free(step: fx.Node) -> bool:
    """Whether a step makes nothing more to keep: a length, a sum of what is kept, an object."""
    origin = origin_of(step)
    if step.op == "get_attr":
        return True
    if origin is None:
        return step.target in ARITHMETIC
    if origin.kind == "size":
        return True
    if origin.move is None:
        return False
    _, before, after, shared = origin.move
    return stays_out(str(before), str(after), shared=shared)
