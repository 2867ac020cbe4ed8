"""What the tests' ranks do to use a part with torch's own tools: compilers, FSDP, optimisers."""

from __future__ import annotations

import copy
import weakref
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode

import dimsolve as ds
from dimsolve.exec.running.comparable import loss_of
from dimsolve.exec.running.compare import relative
from tests.oracles.traces import shared_trace

from . import training

LLAMA = "dimsolve.examples.llama:tiny"


def part_of(
    target: str, mesh: dict[str, int], policy: Any, device_mesh: Any = None, state: Any = None
) -> Any:
    """Returns the part, the model and an example, in float64."""
    model, example, names = training.load(target, "float64")
    example = {
        key: value.double() if value.is_floating_point() else value
        for key, value in example.items()
    }
    graph = shared_trace(f"composed {target}", model, kwargs=example, dynamic=names)
    plan = ds.plan(graph, mesh, policy, state)
    return ds.parallelize(model, plan, device_mesh), model, example


def compiled(target: str, backend: str, state: str | None = None) -> float:
    """The largest difference of loss and gradients between a part and the same part compiled, at
    three sizes of the batch. state: how it stores parameters along dp, in place of tp.
    """
    mesh, policy = ({"dp": 2}, "data") if state else ({"tp": 2}, "tensor")
    part, _, example = part_of(target, mesh, policy, None, state)
    torch._dynamo.reset()
    fast = torch.compile(part, backend=backend)
    found = []
    for rows in (4, 2) if state else (4, 2, 3):
        batch = {key: value[:rows] for key, value in example.items()}
        kept = []
        for module in (part, fast):
            part.zero_grad()
            loss = loss_of(module(**batch))
            loss.backward()
            kept.append([loss.detach(), *[p.grad.clone() for p in part.parameters()]])
        found += [relative(b, a) for a, b in zip(*kept, strict=True)]
    return max(found)


def with_fsdp(mesh: dict[str, int], policy: str) -> tuple[list[float], list[float], float]:
    """Losses of a part that torch's FSDP shards over dp, those of one device, and the share of the
    model that this rank holds.

    mesh: of the plan. Where it has no dp each rank of dp is given its own rows, as FSDP wants it.
    """
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard

    tp = mesh.get("tp", 1)
    devices = init_device_mesh(
        "cpu", (dist.get_world_size() // tp, tp), mesh_dim_names=("dp", "tp")
    )
    part, model, example = part_of("tests.exec.composing:table", mesh, policy, devices)
    whole = copy.deepcopy(model)
    fully_shard(part, mesh=devices["dp"])
    own = example
    if "dp" not in mesh:
        count, place = devices["dp"].size(), devices["dp"].get_local_rank()
        own = {key: value.chunk(count)[place] for key, value in example.items()}
    found = torch.tensor(_adam(part, own))
    if "dp" not in mesh:
        dist.all_reduce(found, group=devices["dp"].get_group())
        found /= devices["dp"].size()
    held = sum(p.to_local().numel() for p in part.parameters())
    return (
        found.tolist(),
        _adam(whole, example),
        held / sum(p.numel() for p in whole.parameters()),
    )


def order_of_gather() -> tuple[list[str], bool]:
    """What Llama's program does from the gathering of its logits on, and whether they are whole."""
    part, model, example = part_of(LLAMA, {"tp": 2}, "tensor")
    names = [step.name for step in part.program.module.graph.nodes if step.op != "output"]
    with torch.no_grad():
        same = relative(part(**example).logits, model(**example).logits) <= 1e-12
    return [n for n in names if n in ("loss", "begin_gather", "logits_all_gather")], same


def _adam(module: nn.Module, batch: Any) -> list[float]:
    return _steps(module, torch.optim.AdamW(module.parameters(), lr=1e-2), batch, 4)


class Table(nn.Module):
    """A linear model with an MLP; the loss is a mean over the rows."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.up = nn.Linear(16, 32)
        self.down = nn.Linear(32, 16)

    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        return nn.functional.mse_loss(self.down(self.up(x).relu()), y)


def table() -> tuple[Any, dict[str, Any], dict[str, Any]]:
    """The factory."""
    generator = torch.Generator().manual_seed(0)
    example = {name: torch.randn(8, 16, generator=generator) for name in "xy"}
    return Table(), example, {"x": {0: "batch"}, "y": {0: "batch"}}


class Dropped(nn.Module):
    """(batch, 6) times a scale of ones, and half of it dropped."""

    def __init__(self) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.ones(6))

    def forward(self, x: Tensor) -> Tensor:
        return nn.functional.dropout(x * self.scale, 0.5, True)


def kept(mesh: dict[str, int], policy: Any, seed: int) -> list[tuple[Tensor, Tensor]]:
    """What two runs keep of ones, (8, 6), and the gradient of the scale: of each column the sum."""
    model, ones = Dropped(), torch.ones(8, 6)
    graph = ds.trace(model, kwargs={"x": ones}, dynamic={"x": {0: "batch"}})
    part = ds.parallelize(model, ds.plan(graph, mesh, policy))
    torch.manual_seed(seed)
    runs = []
    for _ in range(2):
        part.zero_grad()
        found = part(x=ones)
        found.sum().backward()
        runs.append((found.detach(), part.get_parameter("scale").grad.clone()))
    return runs


class Wide(nn.Module):
    """Twelve linears of 1 MiB each."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(512, 512, bias=False) for _ in range(12))

    def forward(self, x: Tensor) -> Tensor:
        for up, down in zip(self.layers[::2], self.layers[1::2], strict=True):
            x = down(up(x).relu())
        return x


def from_meta() -> tuple[int, int, int]:
    """Bytes of the part, of the whole, and the most that were held while the part was made."""
    with torch.device("meta"):
        model = Wide()
    graph = ds.trace(model, kwargs={"x": torch.empty(4, 512, device="meta")})
    plan = ds.plan(graph, {"tp": 2}, "tensor")
    with _Peak() as peak:
        part = ds.parallelize(model, plan)
    held = sum(p.numel() * p.element_size() for p in part.parameters())
    assert not any(p.is_meta or p.isnan().any() for p in part.parameters())
    return held, sum(p.numel() * p.element_size() for p in model.parameters()), peak.most


class _Peak(TorchDispatchMode):
    """Counts the bytes of storages that are alive."""

    def __init__(self) -> None:
        super().__init__()
        self.alive: dict[int, int] = {}
        self.most = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        if isinstance(result, Tensor) and not result.is_meta:
            storage = result.untyped_storage()
            key = storage._cdata
            if key not in self.alive:
                self.alive[key] = storage.nbytes()
                weakref.finalize(storage, self.alive.pop, key, None)
            self.most = max(self.most, sum(self.alive.values()))
        return result


def save_at_tp(folder: str) -> list[float]:
    """Trains Llama at tp over all ranks, saves model and optimiser, and returns the next losses."""
    return _checkpoint(folder, {"tp": dist.get_world_size()}, "tensor", save=True)


def load_at(folder: str, mesh: dict[str, int], policy: str) -> list[float]:
    """Loads what was saved at another mesh, and returns the next losses."""
    return _checkpoint(folder, mesh, policy, save=False)


def _checkpoint(folder: str, mesh: dict[str, int], policy: str, *, save: bool) -> list[float]:
    import torch.distributed.checkpoint as dcp
    from torch.distributed.checkpoint.state_dict import get_state_dict, set_state_dict

    part, _, example = part_of(LLAMA, mesh, policy)
    optimizer = torch.optim.AdamW(part.parameters(), lr=1e-2)
    if save:
        _steps(part, optimizer, example, 2)
        state, moments = get_state_dict(part, optimizer)
        dcp.save({"model": state, "optimizer": moments}, checkpoint_id=folder)
    else:
        with torch.no_grad():
            for parameter in part.parameters():
                parameter.zero_()
        state, moments = get_state_dict(part, optimizer)
        dcp.load({"model": state, "optimizer": moments}, checkpoint_id=folder)
        set_state_dict(part, optimizer, model_state_dict=state, optim_state_dict=moments)
    return _steps(part, optimizer, example, 3)


def _steps(module: nn.Module, optimizer: Any, batch: Any, count: int) -> list[float]:
    losses = []
    for _ in range(count):
        optimizer.zero_grad()
        loss = loss_of(module(**batch))
        loss.backward()
        optimizer.step()
        losses.append(float(loss.detach()))
    return losses


def device_of_part() -> str:
    """The type of the device that a part is on, and its model is not."""
    part, model, _ = part_of("tests.exec.composing:table", {"tp": 1}, "tensor")
    assert {p.device.type for p in model.parameters()} == {"cpu"}
    (device,) = {p.device.type for p in part.parameters()}
    return device


def collectives_alone() -> None:
    """Every collective of one rank gives back what it is given, of every dtype, on the GPU."""
    from torch.distributed.device_mesh import init_device_mesh

    from dimsolve.exec.distributed.communicator import communicators_of
    from dimsolve.partition.placement import Reduction

    end = communicators_of(init_device_mesh("cuda", (1,), mesh_dim_names=("a",)))["a"]
    for dtype in (torch.float64, torch.bfloat16, torch.int16, torch.bool, torch.complex64):
        x = torch.arange(6, device="cuda").remainder(2).reshape(2, 3).to(dtype)
        found = [end.all_gather(x)[0], end.all_to_all(x[None])[0], end.broadcast(x, 0)]
        found += [end.all_reduce(x), end.reduce_scatter(x[None])]
        if not dtype.is_complex:
            found += [end.all_reduce(x, Reduction.MAX), end.all_reduce(x, Reduction.PROD)]
        assert all(torch.equal(y, x) and y.dtype is dtype for y in found), dtype
