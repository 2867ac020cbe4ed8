"""Where a run that differs from one device begins to: the first operator, or conversion, that does.

    linear_3       mlp.down, model.py:33: return self.down(x)
      x            float32[batch, seq, 256]  S(2)        equal until here
      linear_3     float32[batch, seq, 64]   P(sum)      off by 3.1e-01 on rank 1, in float64

The batch is run once more, value by value: the traced graph on one device, and every rank's
program. What a rank has of a value is compared with what it should have of one device's; summands
are added first. Both run in float64 to begin with, where a right program is within 1e-9. If no
value differs there, they run in the model's own dtype, and a value differs that is further from one
device's float64 than rounding takes one device (`dimsolve.exec.running.against_float64`). Where all
values agree, their gradients are compared, from the last value to the first. A gradient is taken
for right as a whole and as a summand, since which of both it is depends on who uses the value.

What is found is where to look, and decides nothing: that the run differs is known before.
"""

from __future__ import annotations

import operator
from collections.abc import Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from functools import partial
from itertools import chain, combinations
from math import inf
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from dimsolve.ir.graph import Input, Node, Region, map_argument
from dimsolve.partition.inlining import inlined
from dimsolve.partition.placement import Grouped, Partial, Placement, Reduction, Replicate
from dimsolve.solver.graphs.builder import TypedGraph

from ..capture.argument_objects import mapped
from ..distributed.gathering import regathering
from ..lowering.program import Body, Program, origin_of
from ..lowering.setting import placement_of
from ..modes import restoring
from ..parallel.parallelize import ParallelModule
from ..parallel.state import Held
from ..run import Frame
from .against_float64 import EXACT, FACTOR, MOVES, ROUNDINGS, as_double, own_double, with_weights
from .comparable import (
    difference,
    handed_out,
    is_wide,
    largest,
    loss_of,
    with_own_memory,
    without_narrowing,
)

if TYPE_CHECKING:
    from torch import fx

SHARE = 1e-3
"""A value that nearly cancels is measured by this share of the largest that it is made of."""


@dataclass(frozen=True, slots=True)
class FirstDifference:
    """What differs first. ``kind``: "operator", "conversion" (of what an operator made, on the way
    to who uses it), "gradient" (of a value or a parameter, as the backward of who uses it gives
    it), "parameter", "graph" (what was traced is not what the model computes) or "none".

    name: of the value, or the parameter. node, operator, module, source: of the operator that made
    it, or, of a gradient, uses it; line: its text. values: what the operator takes and makes, each
    with its type and how the ranks hold it. off: the largest difference, relative to the largest
    element. one_device: how far one device is there from its own float64. dtype: what both ran in.
    rank: where. reason: of "none".
    """

    kind: str
    name: str = ""
    node: str = ""
    operator: str = ""
    module: str = ""
    source: str = ""
    line: str = ""
    values: dict[str, str] = field(default_factory=dict)
    off: float = 0.0
    one_device: float = 0.0
    dtype: str = ""
    rank: int | None = None
    reason: str = ""


def first_difference(
    part: ParallelModule,
    model: torch.nn.Module,
    buffers: Mapping[str, Tensor],
    batch: Mapping[str, Any],
    allowed: float,
) -> FirstDifference:
    """Returns where a call of the part begins to differ from the model; all ranks call it alike.

    buffers: the model's, before the call. batch: as it was then. allowed: of the model's dtype.
    """
    look = _Look(part, model, buffers, batch, allowed)
    return look.parameters() or look.found()


@dataclass(frozen=True, slots=True)
class _Place:
    """A step of the program whose result is compared. ``name``: of one device's value. ``moved``:
    from which placements to which a conversion goes, and along which axis.
    """

    kind: str
    name: str
    node: Node | None
    layout: tuple[Placement, ...]
    moved: str = ""


class _Seen:
    """What one run has made: values by name, and their gradients after a backward pass; what it
    hands out; and the gradients of parameters.
    """

    def __init__(self) -> None:
        self.handed: dict[str, Tensor] = {}
        self.of_parameters: dict[str, Tensor] = {}
        self.values: dict[Any, Tensor] = {}
        self.gradients: dict[Any, Tensor] = {}

    def note(self, key: Any, item: Any) -> None:
        """Keeps what a value is now; it may be written to later."""
        if not isinstance(item, Tensor) or torch._C._functorch.is_batchedtensor(item):
            return
        self.values[key] = item.detach().clone()
        if item.requires_grad:
            item.register_hook(partial(self._note_gradient, key))

    def _note_gradient(self, key: Any, gradient: Tensor) -> None:
        self.gradients[key] = gradient.detach().clone()


class _OneDevice(Frame):
    """A run of the graph that keeps what it makes. Regions run once: nothing is made again."""

    def __init__(self, graph: TypedGraph, model: torch.nn.Module, seen: _Seen, wide: bool) -> None:
        super().__init__(graph, model, {})
        self._seen = seen
        self._wide = wide

    def _held(self, entry: Input) -> Any:
        found = super()._held(entry)
        return as_double(found) if self._wide else found

    def _check_dtype(self, entry: Input) -> None:
        if not self._wide:
            super()._check_dtype(entry)

    def _run_region(self, region: Region, nodes: Sequence[Node], depth: int) -> None:
        self._run_nodes(nodes, depth)

    def run(self, node: Node) -> None:
        super().run(node)
        for value in node.outputs:
            self._seen.note(value.name, self.env.get(value))

    @restoring
    def returned(self, batch: Mapping[str, Any]) -> Any:
        """The tree that the graph returns."""
        named = self._arguments
        self.bind_inputs((), {name: value for name, value in batch.items() if name in named})
        for entry in self.graph.inputs:
            given = self.env[entry.value]
            if isinstance(given, Tensor):
                self._seen.values[entry.value.name] = given.detach()
        self.run_all()
        return map_argument(self.graph.returned(), self.value)


class _Look:
    """One search. ``axes``: this rank's ends of the mesh, as the plan orders its axes."""

    def __init__(
        self,
        part: ParallelModule,
        model: torch.nn.Module,
        buffers: Mapping[str, Tensor],
        batch: Mapping[str, Any],
        allowed: float,
    ) -> None:
        self.part = part
        self.model = model
        self.buffers = buffers
        self.batch = batch
        self.allowed = allowed
        modes = {path: module.training for path, module in part.named_modules()}
        self.entry, _, _ = part._programs.find((), mapped(batch, with_own_memory), modes)
        self.plan = self.entry.plan
        graph = self.plan.planned
        assert isinstance(graph, TypedGraph)
        whole = inlined(graph)
        assert isinstance(whole, TypedGraph)
        self.graph = whole
        self.ends = tuple(part.ends.communicators[axis] for axis in self.plan.mesh)
        self.narrow = not is_wide(model)

    # ---- what is looked at

    def parameters(self) -> FirstDifference | None:
        """The first parameter of which a rank does not have its part."""
        whole = dict(self.model.named_parameters(remove_duplicate=False))
        names = [name for name, _ in self.part.named_parameters() if name in whole]
        held = dict(self.part.named_parameters())
        gaps = [
            _gap(held[name].detach(), self.part.held(name).part(whole[name].to(held[name].dtype)))
            for name in names
        ]
        place, rank = self._worst([gap / self.allowed for gap in gaps])
        if place is None:
            return None
        off = self._largest(gaps)[place]
        return FirstDifference("parameter", names[place], off=off, rank=rank)

    def found(self) -> FirstDifference:
        """The first value, else the first gradient on the way back, that differs."""
        try:
            model = self._of_the_model()
            truth = self._on_one_device(wide=True)
            own = self._on_one_device(wide=False) if self.narrow else truth
            step = ROUNDINGS * torch.finfo(torch.float32).eps / 2
            seeds = range(1, MOVES + 1) if self.narrow else ()
            moved = [self._on_one_device(wide=True, step=step, seed=seed) for seed in seeds]
        except Exception as error:  # of every rank alike: nothing has been sent
            reason = f"one device does not run value by value: {type(error).__name__}: {error}"
            return FirstDifference("none", reason=reason.splitlines()[0])
        off = max((_gap(truth.handed.get(n), t) for n, t in model.items()), default=0.0)
        if off > EXACT:
            return FirstDifference("graph", off=off, dtype="float64")
        for wide in (True, False) if self.narrow else (True,):
            mine, places = self._on_ranks(wide=wide)
            first = self._first(places, mine, truth, own, moved, wide)
            if first is not None:
                return first
        return FirstDifference(
            "none",
            reason="a second run of the same batch has no value that differs by more than rounding",
        )

    def _first(
        self,
        places: Mapping[Any, _Place],
        mine: _Seen,
        truth: _Seen,
        own: _Seen,
        moved: Sequence[_Seen],
        wide: bool,
    ) -> FirstDifference | None:
        """The first difference of two runs in one dtype."""
        dtype = "float64" if wide else self._dtype()
        keys = [key for key, place in places.items() if place.name in truth.values]
        keys = [key for key in keys if key in mine.values]
        gaps, limits = [], []
        for key in keys:
            place = places[key]
            size = self._size(place, truth)
            wanted = truth.values[place.name]
            distance = self._distance(place.name, size, truth, own, moved)
            limits.append(self._limit(distance, wide))
            gaps.append(self._off(mine.values[key], wanted, place.layout, size))
        number, rank = self._worst([g / limit for g, limit in zip(gaps, limits, strict=True)])
        if number is not None:
            place = places[keys[number]]
            size = self._size(place, truth)
            one = self._distance(place.name, size, truth, own, ())
            off = self._largest(gaps)[number]
            return self._said(place, off, one, dtype, rank)
        return self._first_gradient(places, mine, truth, own, moved, wide)

    def _first_gradient(
        self,
        places: Mapping[Any, _Place],
        mine: _Seen,
        truth: _Seen,
        own: _Seen,
        moved: Sequence[_Seen],
        wide: bool,
    ) -> FirstDifference | None:
        floor = SHARE * max((largest(g) for g in truth.gradients.values()), default=0.0)
        operators = [k for k, p in places.items() if p.kind == "operator" and p.node is not None]
        keys = [key for key in reversed(operators) if places[key].name in truth.gradients]
        gaps, limits, ones = [], [], []
        for key in keys:
            place = places[key]
            wanted = truth.gradients[place.name]
            size = max(largest(wanted), floor)
            distance = max(
                (_gap(s.gradients.get(place.name), wanted, size) for s in (own, *moved)),
                default=0.0,
            )
            ones.append(_gap(own.gradients.get(place.name), wanted, size))
            limits.append(self._limit(distance, wide))
            found = mine.gradients.get(key)
            if found is None:
                found = torch.zeros_like(mine.values[key], dtype=wanted.dtype)
            gaps.append(self._off_gradient(found, wanted, place.layout, size))
        number, rank = self._worst([g / limit for g, limit in zip(gaps, limits, strict=True)])
        if number is None:
            return self._first_parameter(mine, truth, own, moved, wide)
        off, dtype = self._largest(gaps)[number], "float64" if wide else self._dtype()
        return self._said(places[keys[number]], off, ones[number], dtype, rank, "gradient")

    def _first_parameter(
        self, mine: _Seen, truth: _Seen, own: _Seen, moved: Sequence[_Seen], wide: bool
    ) -> FirstDifference | None:
        """The first parameter whose gradient differs where that of no value does."""
        floor = SHARE * max((largest(g) for g in truth.of_parameters.values()), default=0.0)
        names = [name for name in truth.of_parameters if name in mine.of_parameters]
        gaps, limits, ones = [], [], []
        for name in names:
            wanted = truth.of_parameters[name]
            size = max(largest(wanted), floor)
            far = [_gap(s.of_parameters.get(name), wanted, size) for s in (own, *moved)]
            ones.append(far[0])
            limits.append(self._limit(max(far), wide))
            gaps.append(_gap(mine.of_parameters[name], self.part.held(name).part(wanted), size))
        number, rank = self._worst([g / limit for g, limit in zip(gaps, limits, strict=True)])
        if number is None:
            return None
        entry = next(e for e in self.graph.inputs if e.target == names[number])
        users = [node for node in self.graph.nodes() if entry.value in node.operands()]
        place = _Place("gradient", names[number], users[0] if users else None, ())
        off, dtype = self._largest(gaps)[number], "float64" if wide else self._dtype()
        return self._said(place, off, ones[number], dtype, rank)

    def _said(
        self,
        place: _Place,
        off: float,
        one: float,
        dtype: str,
        rank: int | None,
        kind: str = "",
    ) -> FirstDifference:
        node = place.node
        users = [node] if node is not None else []
        if kind == "gradient" and node is not None:  # who has it right, and gives it back wrong
            users = [
                user
                for user in self.graph.nodes()
                if place.name in [value.name for value in user.operands()]
            ]
            node = users[0] if users else node
        if node is None:
            values = {place.name: place.moved} if place.moved else {}
            kind = kind or place.kind
            return FirstDifference(
                kind, place.name, values=values, off=off, one_device=one, dtype=dtype, rank=rank
            )
        entry = next((e for e in self.plan.operators if e.node == node.id), None)
        values = {}
        if entry is not None:
            takes = zip(node.operands(), entry.operands, strict=False)
            held = [(value, operand.placements) for value, operand in takes]
            made = {out.value: out.placements for out in entry.outputs}
            held += [(value, made.get(value.name, [])) for value in node.outputs]
            values = {v.name: " ".join([str(v.type), *placed]) for v, placed in held}
        if place.moved:
            values = {place.name: place.moved}
        source = node.source
        return FirstDifference(
            kind or place.kind,
            place.name,
            node=node.id,
            operator=", ".join(user.signature for user in users),
            module=node.module,
            source="" if source is None else str(source),
            line="" if source is None else source.code,
            values=values,
            off=off,
            one_device=one,
            dtype=dtype,
            rank=rank,
        )

    # ---- how far

    def _dtype(self) -> str:
        real = {str(p.dtype) for p in self.model.parameters() if p.is_floating_point()}
        return min(real, default="torch.float32").removeprefix("torch.")

    def _limit(self, distance: float, wide: bool) -> float:
        """How far a rank may be from one device's float64."""
        if wide:
            return EXACT
        finest = torch.finfo(getattr(torch, self._dtype())).eps / 2
        return FACTOR * max(distance, ROUNDINGS * finest)

    def _distance(
        self, name: str, size: float, truth: _Seen, own: _Seen, moved: Sequence[_Seen]
    ) -> float:
        wanted = truth.values[name]
        return max(_gap(seen.values.get(name), wanted, size) for seen in (own, *moved))

    def _size(self, place: _Place, truth: _Seen) -> float:
        """What a difference is relative to."""
        takes = [] if place.node is None else [v.name for v in place.node.operands()]
        given = max((largest(truth.values[n]) for n in takes if n in truth.values), default=0.0)
        return max(largest(truth.values[place.name]), SHARE * given)

    def _off(
        self, found: Tensor, wanted: Tensor, layout: Sequence[Placement], size: float
    ) -> float:
        for placement, end in zip(layout, self.ends, strict=True):
            if isinstance(placement, Partial):
                found = end.all_reduce(found, placement.reduction)
        return _gap(found, self._part_of(wanted, layout), size)

    def _off_gradient(
        self, found: Tensor, wanted: Tensor, layout: Sequence[Placement], size: float
    ) -> float:
        """The least over the ways in which a gradient may lie: whole, or a summand, per axis."""
        whole = tuple(Replicate() if isinstance(p, Partial) else p for p in layout)
        target = self._part_of(wanted, whole)
        axes = [
            n for n, p in enumerate(whole) if isinstance(p, Replicate) and self.ends[n].size > 1
        ]
        ways = chain.from_iterable(combinations(axes, n) for n in range(len(axes) + 1))
        least = inf
        for way in ways:
            summed = found
            for axis in way:
                summed = self.ends[axis].all_reduce(summed, Reduction.SUM)
            (far,) = self._largest([_gap(summed, target, size)])
            least = min(least, far)
        return least

    def _part_of(self, whole: Tensor, layout: Sequence[Placement]) -> Tensor:
        cut = tuple(Replicate() if isinstance(p, Partial) else p for p in layout)
        return Held(cut, self.ends).part(whole)

    def _largest(self, mine: Sequence[float]) -> list[float]:
        """The largest of every number over all ranks."""
        found = torch.tensor(mine, dtype=torch.float64, device=self.part.ends.device)
        for end in self.ends if mine else ():
            found = end.all_reduce(found, Reduction.MAX)
        numbers: list[float] = found.tolist()
        return numbers

    def _worst(self, excess: Sequence[float]) -> tuple[int | None, int]:
        """The first number that is above 1 on some rank, and the first rank where it is largest."""
        everywhere = self._largest(excess)
        first = next((n for n, amount in enumerate(everywhere) if amount > 1.0), None)
        if first is None:
            return None, 0
        rank = self.part.ends.rank
        (found,) = self._largest([-rank if excess[first] == everywhere[first] else -inf])
        return first, int(-found)

    # ---- the runs

    def _of_the_model(self) -> dict[str, Tensor]:
        """What the model itself hands out in float64."""
        twin, given = with_weights(self.model, self.buffers), mapped(self.batch, own_double)
        with without_narrowing():
            return handed_out(twin(**given), given)

    def _on_one_device(self, *, wide: bool, step: float = 0.0, seed: int = 0) -> _Seen:
        seen = _Seen()
        twin = with_weights(self.model, self.buffers, step, seed, wide=wide)
        given = mapped(self.batch, own_double if wide else with_own_memory)
        modes = {path: module.training for path, module in self.part.named_modules()}
        with without_narrowing() if wide else nullcontext():
            tree = _OneDevice(self.graph, twin, seen, wide).returned(given)
            entry, _, objects = self.part._programs.find((), given, modes)
            result = entry.rebuild(tree, objects)
            seen.handed = handed_out(result, given)
            _backward(result)
        seen.of_parameters = {n: p.grad for n, p in twin.named_parameters() if p.grad is not None}
        return seen

    def _on_ranks(self, *, wide: bool) -> tuple[_Seen, dict[Any, _Place]]:
        """This rank's program with one device's weights; what it made by its steps."""
        seen, program = _Seen(), self.entry.first.program
        values = self._weights(program, wide)
        given = mapped(self.batch, own_double if wide else with_own_memory)
        modes = {path: module.training for path, module in self.part.named_modules()}
        entry, inputs, objects = self.part._programs.find((), given, modes)
        places = dict(self._places(program))
        if program.draws is not None:
            program.draws.begin()
        with without_narrowing() if wide else nullcontext():
            run = restoring(partial(_run, program.bodies[0], [*inputs, *values], places, seen))
            with regathering() if program.gathers else nullcontext():
                tree = run()
            _backward(entry.rebuild(tree, objects))
        parameters = [slot.target for slot in program.slots if slot.kind != "input"]
        leaves = zip(parameters, values, strict=True)
        seen.of_parameters = {n: t.grad for n, t in leaves if getattr(t, "grad", None) is not None}
        return seen, places

    def _weights(self, program: Program, wide: bool) -> list[Any]:
        whole = dict(self.model.named_parameters(remove_duplicate=False))
        stored = dict(self.part.named_parameters(remove_duplicate=False))
        leaves: dict[int, Tensor] = {}
        values: list[Any] = []
        for slot in program.slots:
            name = slot.target
            if slot.kind == "parameter":
                own = whole[name]
                if id(own) not in leaves:
                    cut = self.part.held(name).part(own.detach())
                    cut = cut.double() if wide else cut.to(stored[name].dtype)
                    leaves[id(own)] = cut.clone().requires_grad_(own.requires_grad)
                values.append(leaves[id(own)])
            elif slot.kind == "buffer":
                cut = self.part.held(name).part(self.buffers[name])
                values.append(as_double(cut) if wide else cut)
            elif slot.kind == "constant":
                constant = program.constants[name]
                values.append(as_double(constant) if wide else constant)
        return values

    def _places(self, program: Program) -> Iterator[tuple[Any, _Place]]:
        """The steps whose results are compared, in order."""
        sizes = tuple(self.entry.mesh_sizes.items())
        made = {out.value: out.placements for entry in self.plan.operators for out in entry.outputs}
        conversions = {entry.id: entry for entry in self.plan.conversions}
        makers = {value.name: node for node in self.graph.nodes() for value in node.outputs}
        for step in _steps(program.bodies[0]):
            origin = origin_of(step)
            if origin is None:
                continue
            name, node, kind, moved = "", origin.node, "operator", ""
            texts: Sequence[str] | None = None
            if origin.kind == "operator" and node is not None and len(node.outputs) == 1:
                name = node.outputs[0].name
                texts = made.get(name)
            elif origin.kind == "part" and node is not None:
                name = node.outputs[int(str(step.args[1]))].name
                texts = made.get(name)
            elif origin.kind in ("conversion", "part") and origin.label in conversions:
                entry = conversions[origin.label]
                name, texts, kind = entry.value, entry.after, "conversion"
                node = makers.get(name)
                number = list(self.plan.mesh).index(entry.axis)
                moved = f"{entry.before[number]} -> {entry.after[number]} along {entry.axis}"
            if name and texts is not None:
                layout = tuple(placement_of(text, sizes) for text in texts)
                if not any(isinstance(placement, Grouped) for placement in layout):
                    yield step, _Place(kind, name, node, layout, moved)


def _run(body: Body, given: Sequence[Any], places: Mapping[Any, _Place], seen: _Seen) -> Any:
    """Runs a program, or a region, step by step; regions are run once."""
    left, env = iter(given), dict[Any, Any]()

    def value(item: Any) -> Any:
        from torch import fx

        return fx.node.map_arg(item, env.__getitem__)

    for step in body.steps():
        origin = origin_of(step)
        region = None if origin is None else origin.region
        match step.op:
            case "placeholder":
                made: Any = next(left)
            case "get_attr":
                made = getattr(body.module, str(step.target))
            case "output":
                return value(step.args[0])
            case "call_method":
                owner, *rest = value(step.args)
                made = getattr(owner, str(step.target))(*rest, **value(step.kwargs))
            case _ if region is not None and step.target is not operator.getitem:
                made = _run(region, value(step.args), places, seen)
            case _:
                function: Any = step.target
                made = function(*value(step.args), **value(step.kwargs))
        env[step] = made
        if step in places:
            seen.note(step, made)
    raise AssertionError("a program has an output")


def _steps(body: Body) -> Iterator[fx.Node]:
    """The steps of a program, those of its regions in their place."""
    for step in body.steps():
        origin = origin_of(step)
        region = None if origin is None else origin.region
        if region is not None and step.target is not operator.getitem:
            yield from _steps(region)
        else:
            yield step


def _backward(result: Any) -> None:
    loss = loss_of(result)
    if loss is not None and loss.requires_grad:
        loss.backward()


def _gap(found: Tensor | None, wanted: Tensor, size: float | None = None) -> float:
    """The largest difference over a size, by default the largest element; inf where there is none
    to take, or not a number.
    """
    gap = inf if found is None else difference(found, wanted)
    return gap / ((largest(wanted) if size is None else size) or 1.0) if gap == gap else inf
