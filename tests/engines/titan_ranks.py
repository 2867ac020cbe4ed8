"""What is written for torchtitan, run by torchtitan 0.3 on gloo ranks beside one device.

    python -m tests.engines.titan_ranks 2

torchtitan and spmd_types are the extra ``engines``, which no test needs. Says how far every rank's
outputs and gradients are from those of one device.
"""

from __future__ import annotations

import os
import sys
from importlib import util
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import silu


def net() -> Any:
    """Returns a small model of torchtitan's modules: a table, a norm, a gated pair, a head."""
    from torchtitan.protocols.module import Module

    # The package that torchtitan's embedding stands in imports triton; its own file does not.
    package = util.find_spec("torchtitan")
    assert package is not None
    assert package.submodule_search_locations is not None
    home = Path(package.submodule_search_locations[0])
    spec = util.spec_from_file_location("titan_embedding", home / "models/common/embedding.py")
    assert spec is not None
    assert spec.loader is not None
    sys.modules["titan_embedding"] = library = util.module_from_spec(spec)
    spec.loader.exec_module(library)

    class Linear(nn.Linear, Module):
        pass

    class LayerNorm(nn.LayerNorm, Module):
        pass

    class Net(Module):
        def __init__(self) -> None:
            super().__init__()
            table = library.Embedding.Config(num_embeddings=24, embedding_dim=16)
            self.embed, self.norm = library.Embedding(table), LayerNorm(16)
            self.up, self.gate = Linear(16, 24), Linear(16, 24, bias=False)
            self.down, self.head = Linear(24, 16, bias=False), Linear(16, 24, bias=False)

        def forward(self, ids: Tensor) -> Tensor:
            x = self.embed(ids)
            y = self.norm(x)
            return self.head(x + self.down(silu(self.gate(y)) * self.up(y)))

    torch.manual_seed(0)
    return Net()


def rank(number: int, count: int, port: int) -> None:
    """Runs one rank."""
    import torch.distributed as dist

    import dimsolve as ds
    from dimsolve.exec.engines.written import run_graph

    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port))
    dist.init_process_group("gloo", rank=number, world_size=count)
    from torchtitan.distributed import parallel_dims
    from torchtitan.distributed.spmd_types import set_current_spmd_mesh

    parallel_dims.device_type = "cpu"
    ids, whole = torch.arange(24).view(2, 12), net()
    outputs = whole(ids)
    weights = torch.randn(outputs.shape, generator=torch.Generator().manual_seed(1))
    (outputs * weights).sum().backward()
    plan = ds.plan(run_graph(net(), (), {"ids": ids}), {"tp": count}, "tensor").to_torchtitan()
    model = plan.apply(net())
    one = dict.fromkeys(("dp_replicate", "dp_shard", "cp", "pp", "ep"), 1)
    dims = parallel_dims.ParallelDims(**one, tp=count, world_size=count, spmd_backend="spmd_types")
    dims.build_mesh()
    model.parallelize(dims)
    with set_current_spmd_mesh(dims.get_optional_mesh(["tp"], include_singleton_axes=True)):
        given = model(ids)
        (given * weights).sum().backward()
    far = {"outputs": float((given - outputs).detach().abs().max())}
    found = dict(model.named_parameters())
    for name, parameter in whole.named_parameters():
        module, _, short = name.rpartition(".")
        word, gradient = plan.states[module][short], parameter.grad
        if word != "I":
            gradient = gradient.chunk(count, int(word[2]))[number]
        far[name] = float((gradient - found[name].grad).abs().max())
    print(f"rank {number}: at most {max(far.values()):.1e} of {', '.join(far)}", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    ranks = int(sys.argv[1])
    torch.multiprocessing.spawn(rank, (ranks, 29500 + os.getpid() % 1000), ranks)
