"""What ranks do with DTensors in tests of rules that are written for DTensor."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor


def run_operator(name: str, annotation: str, shapes: Any, placements: Any) -> tuple[bool, str]:
    """Registers an operator with our rule, and runs it on DTensors that lie so; returns whether
    the result is the whole one's, and how it lies.
    """
    import torch.distributed as dist
    import torch.distributed.tensor as dt
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor.experimental import register_sharding

    import dimsolve as ds

    def compute(x: Tensor, y: Tensor) -> Tensor:
        return torch.mm(x, y) if name == "product" else (x * y).sum(0)

    def fake(x: Tensor, y: Tensor) -> Tensor:
        return x.new_empty(x.shape[0], y.shape[1]) if name == "product" else y.new_empty(y.shape[1])

    if not hasattr(torch.ops.dimsolve_tests, name):
        torch.library.custom_op(
            f"dimsolve_tests::{name}",
            compute,
            mutates_args=(),
            schema="(Tensor x, Tensor y) -> Tensor",
        ).register_fake(fake)
    operator: Any = getattr(torch.ops.dimsolve_tests, name).default
    register_sharding(operator)(ds.to_register_sharding(annotation))
    mesh = init_device_mesh("cpu", (dist.get_world_size(),))
    torch.manual_seed(0)
    wholes = [torch.randn(shape) for shape in shapes]
    words = {"R": dt.Replicate(), "S0": dt.Shard(0), "S1": dt.Shard(1)}
    given = [
        dt.distribute_tensor(whole, mesh, [words[word]])
        for whole, word in zip(wholes, placements, strict=True)
    ]
    result: Any = operator(*given)
    return bool(torch.allclose(result.full_tensor(), compute(*wholes), atol=1e-5)), str(
        result.placements[0]
    )


def run_parallelized(folder: str) -> dict[str, float]:
    """Runs our plan of a model by torch's parallelize_module, in float64; returns how far off
    outputs and gradients are.
    """
    import torch.distributed as dist
    from torch.distributed.device_mesh import init_device_mesh

    import dimsolve as ds
    from dimsolve.exec.engines.audit import outputs_of, prepared
    from dimsolve.exec.engines.written import run_graph

    from . import tiny
    from .engine import _difference, _gradients

    count = dist.get_world_size()
    inputs = tiny.inputs_of(folder)
    whole, ours = (prepared(tiny.model_of(folder)).double() for _ in range(2))
    outputs = outputs_of(whole, ((), inputs))
    gradients = _gradients(whole, outputs)
    plan = ds.plan(run_graph(tiny.model_of(folder), (), inputs), {"tp": count}, "tensor")
    mesh = init_device_mesh("cpu", (count,), mesh_dim_names=("tp",))
    plan.to_parallelize_module().apply(ours, mesh["tp"])
    given = outputs_of(ours, ((), inputs))
    found = _gradients(ours, given)
    least = 1e-4 * max(float(g.abs().max()) for g in gradients.values())
    return {
        "outputs": max(map(_difference, outputs, given)),
        "gradients": max(_difference(g, found[name], least) for name, g in gradients.items()),
    }
