"""What the tests' ranks do with data of their own: samplers, DTensors, wrong batches."""

from __future__ import annotations

import copy
import time
import warnings
from collections.abc import Callable, Sequence
from typing import Any
from unittest.mock import patch

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch._dynamo.testing import CompileCounterWithBackend
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.distributed.tensor import DTensor, Partial, Replicate, Shard, distribute_tensor
from torch.nn.functional import cross_entropy, gelu
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

import dimsolve as ds
from dimsolve.exec.parallel import passes
from dimsolve.exec.parallel.parallelize import ParallelModule
from tests.oracles.traces import shared_trace

IGNORED = -100
BATCH = 8
"""The length of the whole batch."""

IN_PARTS = ("scores", "rows", "1")
"""Outputs that have a row for each of the batch."""


class Classifier(nn.Module):
    """(batch, 6), (batch,) -> (), (batch, 8): most targets of some parts are ignored."""

    def __init__(self) -> None:
        super().__init__()
        self.up = nn.Linear(6, 8, bias=False)  # a bias before the norm has gradients of rounding
        self.norm = nn.BatchNorm1d(8)
        self.head = nn.Linear(8, 8)
        self.register_buffer("weight", torch.linspace(0.5, 2.0, 8))

    def forward(self, x: Tensor, y: Tensor, *, scale: Tensor) -> dict[str, Tensor]:
        found = self.head(gelu(self.norm(self.up(x)))) * scale
        loss = cross_entropy(found, y, weight=self.weight, ignore_index=IGNORED)
        return {"loss": loss, "scores": found, "mean": found.mean(0)}


class Sequences(nn.Module):
    """(batch, seq) twice -> (), (batch, seq, 16)."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(16, 8)
        self.up = nn.Linear(8, 16)
        self.down = nn.Linear(16, 8)
        self.head = nn.Linear(8, 16, bias=False)

    def forward(self, ids: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
        hidden = self.embed(ids)
        scores = self.head(hidden + self.down(gelu(self.up(hidden))))
        loss = cross_entropy(scores.flatten(0, 1), labels.flatten(), ignore_index=IGNORED)
        return loss, scores


class Nested(nn.Module):
    """A dictionary of inputs, one that nothing uses, and a mask that all rows share."""

    def __init__(self) -> None:
        super().__init__()
        self.up = nn.Linear(6, 6)

    def forward(self, batch: dict[str, Tensor], mask: Tensor) -> dict[str, Tensor]:
        found = self.up(batch["x"]) * mask
        return {"loss": (found - batch["y"]).square().mean(), "rows": found.sum(1)}


def drawn(*shape: int, seed: int = 1) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(*shape, dtype=torch.float64, generator=generator)


def classes(*shape: int, of: int = 8) -> Tensor:
    """Classes, of which the first half of the rows ignores most."""
    found = torch.randint(of, shape, generator=torch.Generator().manual_seed(2))
    found[: shape[0] // 2] = torch.where(drawn(*shape)[: shape[0] // 2] > 1.0, found[0], IGNORED)
    return found


Make = Callable[[], tuple[nn.Module, list[Tensor], Callable[..., Any], dict[str, Any]]]


def classifier() -> Any:
    scale = torch.tensor(1.5, dtype=torch.float64)
    data = [drawn(3 * BATCH, 6), classes(3 * BATCH)]
    dynamic = {"x": {0: "batch"}, "y": {0: "batch"}}
    return Classifier, data, lambda x, y: {"x": x, "y": y, "scale": scale}, dynamic


def sequences() -> Any:
    ids = torch.randint(16, (3 * BATCH, 4), generator=torch.Generator().manual_seed(3))
    names = {0: "batch", 1: "seq"}
    call = {"ids": names, "labels": names}
    return (
        Sequences,
        [ids, classes(3 * BATCH, 4, of=16)],
        lambda ids, labels: {"ids": ids, "labels": labels},
        call,
    )


def nested() -> Any:
    mask = drawn(6, seed=5)
    dynamic = {"batch": {"x": {0: "b"}, "y": {0: "b"}, "unused": {0: "b"}}}
    return (
        Nested,
        [drawn(3 * BATCH, 6), drawn(3 * BATCH, 6, seed=7), drawn(3 * BATCH, seed=8)],
        lambda x, y, unused: {"batch": {"x": x, "y": y, "unused": unused}, "mask": mask},
        dynamic,
    )


MODELS = {"classifier": classifier, "sequences": sequences, "nested": nested}


def model_of(make: type[nn.Module]) -> nn.Module:
    torch.manual_seed(0)
    return make().double()


def planned(name: str, mesh: dict[str, int], policy: Any = None) -> tuple[Any, ...]:
    """The model, its data, what makes a call of a batch, and the plan."""
    make, data, call, dynamic = MODELS[name]()
    model = model_of(make)
    example = call(*[each[:BATCH] for each in data])
    graph = shared_trace(f"given {name}", model, kwargs=example, dynamic=dynamic)
    return model, data, call, ds.plan(graph, mesh, policy)


def loss_of(found: Any) -> Tensor:
    loss: Tensor = found["loss"] if isinstance(found, dict) else found[0]
    return loss


def difference(found: Tensor, wanted: Tensor) -> float:
    assert found.shape == wanted.shape, (found.shape, wanted.shape)
    with torch.no_grad():
        return float((found - wanted).abs().max() / wanted.abs().max().clamp_min(1e-30))


def trained(name: str, mesh: dict[str, int], policy: Any = None) -> dict[str, float]:
    """Three AdamW steps on what a DistributedSampler gives each rank, beside one device on the
    ranks' batches one after the other. Returns the largest relative differences.
    """
    model, data, call, plan = planned(name, mesh, policy)
    part = ds.parallelize(model, plan, inputs="local")
    assert part.device_mesh is not None
    axes = plan.data_axes
    sizes = [part.device_mesh[axis].size() for axis in axes]
    own = [part.device_mesh.get_local_rank(axis) for axis in axes]
    count, place = 1, 0
    for size, index in zip(sizes, own, strict=True):
        count, place = count * size, place * size + index

    def loader(rank: int) -> DataLoader[Any]:
        dataset = TensorDataset(*data)
        sampler = DistributedSampler(dataset, count, rank, shuffle=True, seed=4)
        return DataLoader(dataset, batch_size=BATCH // count, sampler=sampler)

    whole = copy.deepcopy(model)
    optimizers = [torch.optim.AdamW(m.parameters(), lr=0.01) for m in (part, whole)]
    worst: dict[str, float] = {}

    def note(kind: str, found: Tensor, wanted: Tensor) -> None:
        worst[kind] = max(worst.get(kind, 0.0), difference(found, wanted))

    steps = 0
    for batches in zip(*[loader(rank) for rank in range(count)], strict=True):
        steps += 1
        joined = [torch.cat(parts) for parts in zip(*batches, strict=True)]
        results = part(**call(*batches[place])), whole(**call(*joined))
        for found in results:
            loss_of(found).backward()
        note("loss", *map(loss_of, results))
        rows = len(batches[0][0])
        for key, found, wanted in named(*results):
            note(key, found, wanted[place * rows :][:rows] if key in IN_PARTS else wanted)
        for key, parameter in whole.named_parameters():
            mine = part.get_parameter(key)
            assert mine.grad is not None
            assert parameter.grad is not None
            note("gradients", mine.grad, part.held(key).part(parameter.grad))
        for optimizer in optimizers:
            optimizer.step()
            optimizer.zero_grad()
        for key, tensor in [*whole.named_parameters(), *whole.named_buffers()]:
            held = part.held(key).part(tensor)
            note("weights", _of(part, key), held)
    assert steps == 3
    return worst


def _of(part: ParallelModule, name: str) -> Tensor:
    return {**dict(part.named_parameters()), **dict(part.named_buffers())}[name].detach()


def named(found: Any, wanted: Any) -> Sequence[tuple[str, Tensor, Tensor]]:
    if isinstance(found, dict):
        return [(key, found[key].detach(), wanted[key].detach()) for key in wanted]
    return [
        (str(i), a.detach(), b.detach()) for i, (a, b) in enumerate(zip(found, wanted, strict=True))
    ]


def raised(call: Callable[..., Any], *args: Any, **kwargs: Any) -> str:
    try:
        call(*args, **kwargs)
    except ds.DimsolveError as error:
        return f"{type(error).__name__}: {error}"
    return ""


def part_of(name: str, mesh: dict[str, int], way: str = "whole") -> tuple[ParallelModule, Any]:
    """A part, and what makes its call of the rows from one place to another."""
    model, data, call, plan = planned(name, mesh)
    part = ds.parallelize(model, plan, inputs=way)  # type: ignore[arg-type]
    return part, lambda start, stop: call(*[each[start:stop] for each in data])


def own_batches(mesh: dict[str, int], way: str, *, alike: Sequence[str] = ()) -> str:
    """Every rank gives rows of its own; alike: axes along which they give the same."""
    part, rows = part_of("sequences", mesh, way)
    ends = part.ends.communicators
    place = sum(end.rank * 2**i for i, (axis, end) in enumerate(ends.items()) if axis not in alike)
    return raised(part, **rows(4 * place, 4 * place + 4))


def own_scale() -> str:
    part, rows = part_of("classifier", {"dp": 2}, "local")
    batch = rows(0, 4)
    return raised(part, **{**batch, "scale": batch["scale"] + dist.get_rank()})


def own_lengths() -> tuple[str, float]:
    """Refused; and the next batch runs."""
    part, rows = part_of("sequences", {"dp": 2}, "local")
    text = raised(part, **rows(0, 4 - dist.get_rank()))
    return text, float(part(**rows(0, 4))[0])


def other_widths() -> str:
    part, rows = part_of("sequences", {"dp": 2}, "local")
    batch = {name: each[:, : 4 - dist.get_rank()] for name, each in rows(0, 4).items()}
    return raised(part, **batch)


def both_ways() -> str:
    return raised(part_of, "sequences", {"dp": 2}, "local" if dist.get_rank() else "whole")


class Views(nn.Module):
    """(2*items, 6) -> (), (items,): the first half of the rows beside the second."""

    def __init__(self) -> None:
        super().__init__()
        self.up = nn.Linear(6, 6)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        one, other = self.up(x).unflatten(0, (2, -1)).unbind(0)
        distance = (one - other).square().sum(-1)
        return distance.logsumexp(0), distance


def part_of_views() -> tuple[nn.Module, ParallelModule]:
    model = model_of(Views)
    graph = ds.trace(model, kwargs={"x": drawn(8, 6)}, dynamic={"x": {0: "2*items"}})
    plan = ds.plan(graph, {"dp": 2}, {"unflatten": {"dp": "b"}})
    return model, ds.parallelize(model, plan, inputs="local")


def rows_of_views(rows: int) -> str:
    """The conditions are those of the whole: of 3 rows on each of 2 ranks, no half can be cut."""
    return raised(part_of_views()[1], drawn(rows, 6))


def views() -> float:
    """Every rank gives both views of its own items."""
    model, part = part_of_views()
    own = [drawn(2, 3, 6, seed=rank) for rank in range(2)]
    wanted, distances = model(torch.cat(own, 1).flatten(0, 1))
    loss, mine = part(own[dist.get_rank()].flatten(0, 1))
    loss.backward()
    wanted.backward()
    return max(
        difference(loss, wanted),
        difference(mine, distances),
        difference(part.get_parameter("up.weight").grad, model.up.weight.grad),  # type: ignore
    )


class Rows(nn.Module):
    """(batch, 6), (n,) -> (): a number for each row, in an operator without annotation."""

    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        return x.square().sum(1).mean() * y.unfold(0, 2, 2).sum()


def uncut_given_in_parts() -> str:
    model, x, y = Rows(), drawn(8, 6), drawn(4, seed=2)
    graph = ds.trace(model, kwargs={"x": x, "y": y}, dynamic={"x": {0: "batch"}})
    part = ds.parallelize(model, ds.plan(graph, {"dp": 2}), inputs="local")
    return raised(part, x[:4], y[:2])


def own_rows_of_what_is_needed_whole() -> float:
    """The error of the loss and of the gradients of both inputs, of which each rank gives rows."""
    names = {"x": {0: "batch"}, "y": {0: "batch"}}
    model, x, y = Rows(), drawn(8, 6).requires_grad_(), drawn(8, seed=2).requires_grad_()
    graph = ds.trace(model, kwargs={"x": x, "y": y}, dynamic=names)
    part = ds.parallelize(model, ds.plan(graph, {"dp": 2}), inputs="local")
    assert {e.name: e.placements for e in part.plan.inputs}["y"] == ["R"]
    rows = slice(4 * dist.get_rank(), 4 * dist.get_rank() + 4)
    mine = [each.detach()[rows].requires_grad_() for each in (x, y)]
    loss, found = model(x, y), part(*mine)
    loss.backward()
    found.backward()
    pairs = [(found, loss), *[(m.grad, w.grad[rows]) for m, w in zip(mine, (x, y), strict=True)]]
    return max(float((a - b).abs().max()) for a, b in pairs)


def unusual() -> list[str]:
    """What is warned of where the plan cuts another dimension than the first."""
    model = Scaled()
    graph = ds.trace(model, kwargs={"x": drawn(4, 6)}, dynamic={"x": {1: "columns"}})
    node = graph.nodes()[0]
    plan = ds.plan(graph, {"dp": 2}, {node.name: {"dp": (0, 1)}})
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        part = ds.parallelize(model, plan, inputs="local")
    x, place = drawn(4, 6), 3 * dist.get_rank()
    assert torch.equal(part(x[:, place:][:, :3]), x[:, place:][:, :3])
    return [str(each.message) for each in said if each.category is UserWarning]


def drifting(way: str) -> list[str]:
    """Equal batches in four calls, and others from the fifth on: what each call raised."""
    part, rows = part_of("sequences", {"tp": 2}, way)
    texts = [raised(part, **rows(0, 4)) for _ in range(4)]
    return [*texts, *[raised(part, **rows(dist.get_rank(), dist.get_rank() + 4)) for _ in range(4)]]


def sent(way: str) -> tuple[list[int], list[int]]:
    """Of calls 1 to 9: how many collectives torch's profiler sees, and how many exchanges."""
    part, rows = part_of("sequences", {"dp": 2}, way)
    start, stop = (0, 8) if way == "whole" else (4 * dist.get_rank(), 4 * dist.get_rank() + 4)
    exchange, exchanges = part.programs[0].agreement._exchange, [0]

    def counted(*args: Any) -> Any:
        exchanges[0] += 1
        return exchange(*args)

    part.programs[0].agreement._exchange = counted  # type: ignore[method-assign]
    collectives, agreements = [], []
    for _ in range(9):
        exchanges[0] = 0
        with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profile:
            part(**rows(start, stop))[0].backward()
        collectives.append(sum(event.name.startswith("c10d::") for event in profile.events()))
        agreements.append(exchanges[0])
    return collectives, agreements


def odd_inputs() -> list[str]:
    """Batches that are equal though no comparison of values says so, and some that are not."""
    found = []
    nan = torch.tensor([float("nan"), 0.0, -0.0, float("inf")]).repeat(4, 2)
    for one, other in [
        (nan, nan.t().contiguous().t()),
        (nan, nan.repeat_interleave(2, dim=1)[:, ::2]),
        (nan, nan.abs()),
        (nan, nan.flip(0, 1)),
        (nan > 0, (nan > 0).clone()),
        (nan > 0, nan <= 0),
        (nan[:0], nan[:0].clone()),
    ]:
        model = Scaled()
        graph = ds.trace(model, kwargs={"x": one})
        part = ds.parallelize(model, ds.plan(graph, {"a": 2}, "replicate"))
        found.append(raised(part, other if dist.get_rank() else one).partition("\n")[0])
    return found


class Scaled(nn.Module):
    """(a, b) -> (a, b)."""

    def __init__(self) -> None:
        super().__init__()
        self.by = nn.Parameter(torch.ones(()))

    def forward(self, x: Tensor) -> Tensor:
        return x * self.by


def late_rank() -> tuple[str, str]:
    """A rank that is alive and late is waited for; a rank that never comes is named."""
    part, rows = part_of("sequences", {"tp": 2})
    part.programs[0].agreement.timeout, part.programs[0].agreement.patience = 1.0, 30.0
    if dist.get_rank():
        time.sleep(4.0)
    first = raised(part, **rows(0, 4))
    part.programs[0].agreement.timeout, part.programs[0].agreement.patience = 1.0, 2.5
    if dist.get_rank():
        time.sleep(6.0)
        return first, ""
    return first, raised(part, **rows(0, 6))


MESH_OF_FOUR = {"dp": 2, "tp": 2}

PLACEMENTS: dict[str, tuple[tuple[str, ...], tuple[Any, ...]]] = {
    "as the plan": (("dp", "tp"), (Shard(0), Replicate())),
    "of the data axis": (("dp",), (Shard(0),)),
    "whole": (("dp", "tp"), (Replicate(), Replicate())),
    "of another dimension": (("dp", "tp"), (Shard(1), Replicate())),
    "of both axes": (("dp", "tp"), (Shard(0), Shard(0))),
    "of the other axis": (("tp",), (Shard(0),)),
    "summands": (("dp", "tp"), (Shard(0), Replicate())),
}


def dtensors(way: str) -> dict[str, tuple[float, int]]:
    """DTensors of one batch in many placements: the largest difference to one device, and how many
    collectives more than for plain tensors a step takes.
    """
    model, data, call, plan = planned("classifier", MESH_OF_FOUR)
    part = ds.parallelize(model, plan, inputs=way)  # type: ignore[arg-type]
    mesh = part.device_mesh
    assert mesh is not None
    x, y = (each[:BATCH] for each in data)
    place = 4 * mesh.get_local_rank("dp")
    mine = (lambda z: z) if way == "whole" else (lambda z: z[place:][:4])
    wanted = model(**call(x.requires_grad_(), y))
    wanted["loss"].backward()
    plain, _ = counted(part, call(mine(x.detach()), mine(y)))
    found = {}
    for name, (axes, placements) in PLACEMENTS.items():
        given = distribute_tensor(x.detach(), mesh[axes], placements, src_data_rank=None)
        if name == "summands":
            summand = given.to_local() * (0.25 + 0.5 * mesh.get_local_rank("tp"))
            given = DTensor.from_local(summand, mesh[axes], (Shard(0), Partial("sum")))
        labels = mine(y)
        if name in ("as the plan", "of the data axis", "whole"):
            labels = distribute_tensor(y, mesh[axes], placements, src_data_rank=None)
        count, results = counted(part, call(given, labels))
        worst = max(
            difference(results["loss"], wanted["loss"]),
            difference(results["scores"], mine(wanted["scores"])),
        )
        part.zero_grad()
        given.requires_grad_()
        part(**call(given, labels))["loss"].backward()
        assert given.grad is not None
        worst = max(worst, difference(given.grad.full_tensor(), x.grad))  # type: ignore
        for key, parameter in model.named_parameters():
            gradient = part.get_parameter(key).grad
            worst = max(worst, difference(gradient, part.held(key).part(parameter.grad)))  # type: ignore
        found[name] = worst, count - plain
    return found


def epochs() -> list[int]:
    """Epochs of three steps on two batches each, with an evaluation of five; in which backward
    passes ranks ask each other, or compare, after the first epoch.
    """
    model, data, call, plan = planned("classifier", {"dp": 2})
    part = ds.parallelize(model, plan, inputs="local")
    compared = part.programs[0].agreement.passes
    assert compared is not None
    batch = call(*[each[: BATCH // 2] for each in data])
    asked: list[int] = []

    def noted(original: Callable[..., Any]) -> Callable[..., Any]:
        def asks(*given: Any) -> Any:
            asked.append(compared._count)
            return original(*given)

        return asks

    with (
        patch.object(passes, "_is_common", noted(passes._is_common)),
        patch.object(compared, "_ask", noted(compared._ask)),
    ):
        for epoch in range(4):
            if epoch == 2:
                asked.clear()
            for _ in range(3):
                first, second = (loss_of(part(**batch)) for _ in range(2))
                (first + second).backward()
            with torch.no_grad():
                for _ in range(5):
                    part(**batch)
    return asked


def counted(part: ParallelModule, batch: dict[str, Any]) -> tuple[int, Any]:
    """How many collectives a step takes that compares nothing by one, and what it returns."""
    agreement = part.programs[0].agreement
    agreement.calls += 1025 - agreement.calls % 1024
    assert agreement.passes is not None
    agreement.passes.begin_anew()
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profile:
        found = part(**batch)
        found["loss"].backward()
    return sum(event.name.startswith("c10d::") for event in profile.events()), found


def refused_dtensors() -> list[str]:
    part, rows = part_of("classifier", {"dp": 2})
    batch, mesh = rows(0, 8), part.device_mesh
    assert mesh is not None
    other = init_device_mesh("cpu", (2,), mesh_dim_names=("other",))
    turned = DeviceMesh("cpu", torch.tensor([1, 0]), mesh_dim_names=("dp",))
    texts = []
    for where, tensor, placement in [
        (other, batch["x"], Shard(0)),
        (turned, batch["x"], Shard(0)),
        (mesh, batch["x"][:5], Shard(0)),
        (mesh, batch["x"], Partial("sum")),
    ]:
        made = DTensor.from_local(tensor, where, [placement]) if placement.is_partial() else None
        given = made if made is not None else distribute_tensor(tensor, where, [placement])
        texts.append(raised(part, **{**batch, "x": given, "y": batch["y"][: len(tensor)]}))
    own = distribute_tensor(
        drawn(8, 6, seed=dist.get_rank()), mesh, [Replicate()], src_data_rank=None
    )
    texts.append(raised(part, **{**batch, "x": own}))
    return texts


def unequal_dtensors() -> tuple[float, str]:
    """Columns 3 and 2 of a batch along an axis: the largest difference to one device, in the output
    and in the gradients; and what is said of a cut along both axes.
    """
    torch.manual_seed(0)
    model, x = nn.Linear(5, 4).double(), drawn(8, 5, seed=1)
    graph = ds.trace(model, args=(x,), dynamic={"input": {0: "batch"}})
    part = ds.parallelize(model, ds.plan(graph, MESH_OF_FOUR))
    mesh = part.device_mesh
    assert mesh is not None
    wanted = model(x.requires_grad_())
    wanted.square().sum().backward()
    given = distribute_tensor(x.detach(), mesh["tp"], [Shard(1)], src_data_rank=None)
    result = part(given.requires_grad_())
    result.square().sum().backward()
    assert given.grad is not None
    worst = max(difference(result, wanted), difference(given.grad.full_tensor(), x.grad))  # type: ignore
    both = distribute_tensor(x.detach(), mesh, [Shard(1), Shard(1)], src_data_rank=None)
    return worst, raised(part, both)


def compiled(way: str) -> tuple[float, list[int]]:
    """torch.compile of parts that are given parts: the largest difference of the loss, and in how
    many graphs each part was compiled. Every part has communicators of its own.
    """
    model, data, call, plan = planned("sequences", {"dp": 2})
    batch = [each[:8] for each in data]
    wanted = model(**call(*batch))[0]
    rows = slice(None) if way == "whole" else slice(4 * dist.get_rank(), 4 * dist.get_rank() + 4)
    torch._dynamo.reset()
    worst, counts = 0.0, []
    for _ in range(3):
        part = ds.parallelize(model, plan, inputs=way)  # type: ignore[arg-type]
        counting = CompileCounterWithBackend("aot_eager")
        run = torch.compile(part, backend=counting)
        found = run(**call(*[each[rows] for each in batch]))[0]
        worst = max(worst, difference(found, wanted))
        counts.append(counting.frame_count)
    return worst, counts


def not_a_tensor() -> str:
    part, rows = part_of("classifier", {"dp": 2})
    return raised(part, **{**rows(0, 8), "scale": "large"})


def outer_mesh() -> str:
    """A device mesh with an axis that the plan has not: what ranks along it are given is not
    compared.
    """
    model, data, call, plan = planned("sequences", {"dp": 2})
    mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("replica", "dp"))
    part = ds.parallelize(model, plan, mesh)
    start = 8 * mesh.get_local_rank("replica")
    rows = call(*[each[start:][:8] for each in data])
    loss = part(**rows)[0]
    assert difference(loss, model(**rows)[0]) <= 1e-12
    place = 4 * mesh.get_rank()
    return raised(part, **call(*[each[place:][:8] for each in data]))


def refused_plans() -> list[str]:
    model, _, _, plan = planned("sequences", {"tp": 2})
    return [
        raised(ds.parallelize, model, plan, inputs="local"),
        raised(ds.parallelize, model, plan, inputs="parts"),
    ]
