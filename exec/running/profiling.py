"""What the operators and collectives of a part take on its ranks, measured while all of them work.

    linear     (32, 64), (16, 64) -> (32, 16)      forward 11 us, backward 25 us
    all-reduce of 65536 bytes over 4 ranks         410 us

One step is run with what the model is given, and every call of its program with lengths of its own
is kept with what it is called with: a lookup has the rows that it looks up, and a router its
tokens. Then every call is run alone, forward and backward, again and again on all ranks at once, as
in a step; so are the collectives, at a ladder of sizes along every axis. A median is that of the
ranks' medians. What the start of a backward pass takes is measured and left out.

Left out: calls that communicate themselves (their rules' collectives are priced one by one), and
those of regions that are run again in the backward pass.
"""

from __future__ import annotations

import platform
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from math import ceil, prod
from os import cpu_count, sysconf
from pathlib import Path
from statistics import median, quantiles
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, fx
from torch.utils._pytree import tree_leaves, tree_map

from dimsolve.partition.aliasing import VIEWS
from dimsolve.partition.cost import NOTHING, PRODUCTS, kind_of, times_of
from dimsolve.partition.machine import timed_as
from dimsolve.partition.plan_data import OperatorPlan
from dimsolve.partition.profiles import CollectiveTime, Device, OperatorTime, known, write
from dimsolve.partition.sizes import Sizes

from ..distributed.communicator import Communicator
from ..lowering.program import Origin, origin_of
from ..parallel.parallelize import ParallelModule

RUNS = 12
"""So often a call is run for its median, and more often where it is short, up to MOST_RUNS."""

MOST_RUNS = 60
ENOUGH = 0.02
"""Seconds of a call after which RUNS are enough."""

LADDER = tuple(1 << power for power in range(8, 23, 2))
"""Bytes that a rank gives to a collective."""


@dataclass(frozen=True, slots=True)
class Timing:
    """A median in seconds, and the distance between the quartiles as a part of it."""

    seconds: float
    spread: float

    @staticmethod
    def of(times: list[float]) -> Timing:
        """Returns that of several runs."""
        middle = median(times)
        low, _, high = quantiles(times, n=4)
        return Timing(middle, (high - low) / middle if middle else 0.0)


@dataclass(frozen=True, slots=True)
class Kept:
    """One call of the program, with what it was called with."""

    entry: OperatorPlan
    call: Callable[..., Any]
    args: tuple[Any, ...]
    kwargs: Mapping[str, Any]


def profile(
    part: ParallelModule, batch: Mapping[str, Any], sizes: Mapping[str, int], database: str
) -> str:
    """Measures what the database does not have yet, on all ranks; the first one writes it there.
    Returns how many operators and sizes of collectives were measured, in words.
    """
    device = device_of(part)
    seen = known(database, device.device) if dist.get_rank() == 0 else None
    shared = [seen]
    dist.broadcast_object_list(shared)
    operators, collectives = shared[0] or (set(), set())
    lengths = Sizes(
        part.plan, {n: s for n, s in sizes.items() if n in part.plan.symbols}, {}, "cost"
    )
    found = [*_operators(part, batch, lengths, device.device, operators)]
    sent = [*_collectives(part.ends.communicators, part.ends.device, device.device, collectives)]
    if dist.get_rank() == 0:
        write(database, device, found, sent)
    dist.barrier()
    return f"measured {len(found)} operators, and collectives at {len(sent)} sizes, in {database}"


def device_of(part: ParallelModule) -> Device:
    """Returns what the ranks run on."""
    ranks = part.ends.count
    if part.ends.device.type == "cuda":
        name, memory = torch.cuda.get_device_name(), torch.cuda.mem_get_info()[1]
    else:
        name = f"{_processor()} with {cpu_count()} cores"
        memory = sysconf("SC_PAGE_SIZE") * sysconf("SC_PHYS_PAGES") // ranks
    software = f"torch {torch.__version__}, Python {'.'.join(map(str, sys.version_info[:3]))}"
    return Device(f"{name}, {ranks} ranks", ranks, memory, software)


def _processor() -> str:
    try:
        with Path("/proc/cpuinfo").open(encoding="utf-8") as lines:
            return next(x.partition(":")[2].strip() for x in lines if x.startswith("model name"))
    except (OSError, StopIteration):
        return platform.machine()


class _Keeping(fx.Interpreter):
    """Runs the program, and keeps its operators' calls."""

    def __init__(self, part: ParallelModule) -> None:
        super().__init__(part.program.module)
        self.entries = {entry.node: entry for entry in part.plan.operators}
        self.kept: list[Kept] = []

    def run_node(self, n: fx.Node) -> Any:
        origin = origin_of(n)
        if origin is not None and self._is_alone(origin):
            args, kwargs = self.fetch_args_kwargs_from_env(n)
            target: Any = n.target
            call = getattr(type(args[0]), target) if n.op == "call_method" else target
            args, kwargs = tree_map(_copied, (args, kwargs))
            self.kept.append(Kept(self.entries[origin.label], call, tuple(args), kwargs))
        return super().run_node(n)

    def _is_alone(self, origin: Origin) -> bool:
        entry = self.entries.get(origin.label) if origin.kind == "operator" else None
        call = origin.call
        return (
            entry is not None
            and call is not None
            and call.local is None
            and (entry.name not in VIEWS)
        )


def _copied(leaf: Any) -> Any:
    """What a call is given, as it was: a call may write to it."""
    if not isinstance(leaf, Tensor):
        return leaf
    own = torch.empty_like(leaf, requires_grad=False).copy_(leaf.detach())
    return own.requires_grad_(leaf.requires_grad)


def calls_of(part: ParallelModule, batch: Mapping[str, Any]) -> list[Kept]:
    """Returns the calls of one step, which is run."""
    program, keeping = part.program, _Keeping(part)
    before = program._forward, program._switching

    def run(_: Any, *values: Any) -> Any:
        return keeping.run(*values)

    program._forward = program._switching = run
    try:
        part(**batch)
    finally:
        program._forward, program._switching = before
    return keeping.kept


def _operators(
    part: ParallelModule,
    batch: Mapping[str, Any],
    sizes: Sizes,
    device: str,
    seen: set[tuple[str, str]],
) -> Iterator[OperatorTime]:
    start = _start_of_backward()
    for kept in calls_of(part, batch):
        entry = kept.entry
        lengths = {name: sizes.of(length) for name, length in entry.lengths.items()}
        dtype, gradient = kind_of(entry.outputs)
        shapes = _shapes(entry, sizes)
        key = timed_as(entry.name, lengths, dtype)
        if (key, shapes) in seen:
            continue
        seen.add((key, shapes))
        trains = gradient == "always"
        timings = _timed_on_all(kept, trains)
        if timings is None:
            continue
        forward, backward, runs = timings
        tensors = [*[entry.operands[n] for n in entry.inputs if n is not None], *entry.outputs]
        factor = PRODUCTS.get(entry.name, 0 if entry.name in NOTHING else 1)
        yield OperatorTime(
            device,
            str(dtype),
            entry.name,
            " ".join(f"{name}={length}" for name, length in sorted(lengths.items())),
            shapes,
            key,
            entry.name in PRODUCTS,
            factor * prod(lengths.values()),
            sum(sizes.bytes(each.shape, each.dtype) for each in tensors),
            times_of(entry.name, gradient),
            forward.seconds,
            max(backward.seconds - start, 0.0) if trains else 0.0,
            forward.spread,
            backward.spread,
            runs,
        )


def _shapes(entry: OperatorPlan, sizes: Sizes) -> str:
    def text(tensor: Any) -> str:
        lengths = ["?"] if tensor.shape is None else tensor.shape
        return f"({', '.join('?' if n in (None, '?') else str(sizes.of(n)) for n in lengths)})"

    inputs = [entry.operands[n] for n in entry.inputs if n is not None]
    return f"{', '.join(map(text, inputs))} -> {', '.join(map(text, entry.outputs))}"


def _timed_on_all(kept: Kept, trains: bool) -> tuple[Timing, Timing, int] | None:
    """The medians of all ranks, forward and backward, and how many runs they are of; None where a
    call cannot be run alone on some rank.
    """
    dist.barrier()
    try:
        own: Any = timed(kept, trains)
    except Exception:  # whatever a function of the user's raises
        own = None
    every: list[Any] = [None] * dist.get_world_size()
    dist.all_gather_object(every, own)
    if any(each is None for each in every):
        return None
    forward, backward = (
        Timing(median(each[n].seconds for each in every), median(each[n].spread for each in every))
        for n in (0, 1)
    )
    return forward, backward, every[0][2] * len(every)


def timed(kept: Kept, trains: bool) -> tuple[Timing, Timing, int]:
    """Returns the times of a call forward and backward on this rank, and how many runs they are
    of.
    """
    forward: list[float] = []
    backward: list[float] = []
    spent, number = 0.0, 0
    while number < RUNS + 2 or (spent < ENOUGH and number < MOST_RUNS):
        there, back = _once(kept, trains)
        if number >= 2:  # the first ones warm up
            forward.append(there)
            backward.append(back)
            spent += there + back
        number += 1
    return Timing.of(forward), Timing.of(backward), len(forward)


def _once(kept: Kept, trains: bool) -> tuple[float, float]:
    """The seconds of one call, forward and backward."""
    args, kwargs = tree_map(_given, (kept.args, kept.kwargs))
    leaves = [x for x in tree_leaves((args, kwargs)) if isinstance(x, Tensor) and x.requires_grad]
    with torch.set_grad_enabled(trains):
        forward, made = _seconds(lambda: kept.call(*args, **kwargs))
    outputs = [x for x in tree_leaves(made) if isinstance(x, Tensor) and x.requires_grad]
    if not trains or not outputs or not leaves:
        return forward, 0.0
    grads = [torch.ones_like(output) for output in outputs]
    return forward, _backward(outputs, leaves, grads)


def _backward(outputs: list[Tensor], leaves: list[Tensor], grads: list[Tensor]) -> float:
    return _seconds(lambda: torch.autograd.grad(outputs, leaves, grads, allow_unused=True))[0]


def _given(leaf: Any) -> Any:
    """A tensor of its own, which is no leaf: a call may write to it."""
    return leaf.clone() if isinstance(leaf, Tensor) else leaf


def _seconds(call: Callable[[], Any]) -> tuple[float, Any]:
    gpu = torch.cuda.is_available() and torch.cuda.is_initialized()
    if gpu:
        torch.cuda.synchronize()
    start = time.perf_counter()
    made = call()
    if gpu:
        torch.cuda.synchronize()
    return time.perf_counter() - start, made


def _start_of_backward() -> float:
    """What a backward pass takes that does nothing but begin."""
    one = torch.ones(1, requires_grad=True)
    return median(_backward([one.view(1)], [one], [torch.ones(1)]) for _ in range(MOST_RUNS))


def _collectives(
    ends: Mapping[str, Communicator], device: torch.device, name: str, seen: set[tuple[str, int]]
) -> Iterator[CollectiveTime]:
    for end in ends.values():
        count = end.size
        if count == 1:
            continue
        for collective, call, share in _ways(end):
            if (collective, count) in seen:
                continue
            seen.add((collective, count))
            for given in LADDER:
                tensor = torch.ones(ceil(given / 4 / count) * count, device=device)
                rows = tensor.view(count, -1)
                timing, runs = _timed_collective(call, tensor, rows)
                sent = int(tensor.numel() * 4 * share)
                yield CollectiveTime(
                    name, collective, count, sent, timing.seconds, timing.spread, runs
                )


def _ways(end: Communicator) -> list[tuple[str, Callable[[Tensor, Tensor], Any], float]]:
    """The collectives of an end, and how many of the bytes that a rank gives it sends."""
    n = end.size
    return [
        ("all-reduce", lambda tensor, rows: end.all_reduce(tensor), 2 * (n - 1) / n),
        ("all-gather", lambda tensor, rows: end.all_gather(tensor), n - 1),
        ("reduce-scatter", lambda tensor, rows: end.reduce_scatter(rows), (n - 1) / n),
        ("all-to-all", lambda tensor, rows: end.all_to_all(rows), (n - 1) / n),
        ("broadcast", lambda tensor, rows: end.broadcast(tensor, 0), (n - 1) / n),
    ]


def _timed_collective(
    call: Callable[[Tensor, Tensor], Any], tensor: Tensor, rows: Tensor
) -> tuple[Timing, int]:
    times = []
    for number in range(RUNS + 2):
        seconds, _ = _seconds(lambda: call(tensor, rows))
        if number >= 2:
            times.append(seconds)
    own = Timing.of(times)
    every: list[Any] = [None] * dist.get_world_size()
    dist.all_gather_object(every, own)
    middle = Timing(median(t.seconds for t in every), median(t.spread for t in every))
    return middle, RUNS * len(every)
