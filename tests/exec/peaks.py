"""A training step's peak on ranks, every storage that is alive counted, beside what its plan says.

    python -m tests.exec.peaks                  all models, meshes and states on 2 and 4 ranks
    python -m tests.exec.peaks --ranks 2 llama "mixtral, exchanged" "gpt2, checkpointed"
    python -m tests.exec.peaks --into FILE      adds lines to a file, without the cells there

A line a cell, with the least and the largest of said / measured over the ranks; 1.00 to 1.10 is
right. Where parameters are shared by all ranks, also what FSDP2 needs / what is measured; at least
1 is right.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from contextlib import nullcontext
from functools import lru_cache
from math import prod
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor
from torch.multiprocessing.reductions import StorageWeakRef
from torch.utils._python_dispatch import TorchDispatchMode

import dimsolve as ds
from dimsolve.exec.experts import exchanged_experts
from tests.oracles.ranks import Ranks
from tests.oracles.traces import shared_trace

COMMON = {
    "hidden_size": 64, "num_hidden_layers": 4, "num_attention_heads": 4, "vocab_size": 256,
    "max_position_embeddings": 64, "use_cache": False, "pad_token_id": 0, "bos_token_id": 0,
    "eos_token_id": 0,
}  # fmt: skip
GROUPED = {"num_key_value_heads": 4, "intermediate_size": 128}
EXPERTS = {"num_key_value_heads": 4, "intermediate_size": 64, "moe_intermediate_size": 64}
MODELS: dict[str, tuple[str, str, dict[str, Any]]] = {
    "llama": ("Llama", "CausalLM", GROUPED),
    "gpt2": ("GPT2", "LMHeadModel", {"n_inner": 256}),
    "mixtral": ("Mixtral", "CausalLM", EXPERTS | {"num_local_experts": 4}),
    "qwen2": ("Qwen2", "CausalLM", GROUPED),
    "gemma2": ("Gemma2", "CausalLM", GROUPED | {"head_dim": 16, "sliding_window": 16}),
    "opt": ("OPT", "CausalLM", {"ffn_dim": 256, "word_embed_proj_dim": 64}),
    "bert": ("Bert", "MaskedLM", {"intermediate_size": 256}),
    "phi3": ("Phi3", "CausalLM", GROUPED),
    "falcon": ("Falcon", "CausalLM", {}),
    "gpt_neox": ("GPTNeoX", "CausalLM", {"intermediate_size": 256}),
    "bloom": ("Bloom", "CausalLM", {"n_layer": 4, "n_head": 4}),
    "qwen2_moe": (
        "Qwen2Moe",
        "CausalLM",
        EXPERTS | {"num_experts": 4, "shared_expert_intermediate_size": 64},
    ),
}
"""The configuration's name, the model's, and what it has for sizes beside what all have."""

OF_EXPERTS = ("mixtral", "qwen2_moe")
TESTED = ("llama", "gpt2", "mixtral")
"""Those that are measured in the suite, along ``dp``."""


def model_of(name: str) -> tuple[Any, dict[str, Tensor]]:
    """A model in float32 and a batch of 8 rows with labels. name: "llama, checkpointed" computes
    what layers make again in the backward pass.
    """
    import transformers as tf

    torch.manual_seed(0)
    name, _, how = name.partition(", ")
    kind, head, sizes = MODELS[name]
    config = getattr(tf, f"{kind}Config")(**COMMON, **sizes)
    made = getattr(tf, f"{kind}{head}" if head == "LMHeadModel" else f"{kind}For{head}")(config)
    made.config.use_cache = False
    if how == "checkpointed":
        made.train()
        made.gradient_checkpointing_enable({"use_reentrant": False})
    ids = torch.randint(1, 256, (8, 32))
    return made, {"input_ids": ids, "labels": ids}


@lru_cache(maxsize=1)
def traced(name: str) -> tuple[Any, dict[str, Tensor], ds.Graph]:
    """A model, its batch, and its graph. name: "mixtral, exchanged" sends tokens to experts."""
    model, batch = model_of(name)
    with exchanged_experts(model) if name.endswith("exchanged") else nullcontext():
        return model, batch, shared_trace(f"peaks of {name}", model, kwargs=batch)


DIGESTS = 8 * 2**16
"""Bytes that ranks compare what they are given with: the same for every model."""


STEPS = 3
"""The least peak of so many steps is that of a step: a thread of gloo may hold for a moment longer
what it has sent.
"""


class Peak(TorchDispatchMode):
    """Counts the bytes of the storages that are alive: those that calls are given or make.

    bound: of all that have been seen since they were counted last; where it is no more than the
    most, nobody need count. resized: whether storages may grow meanwhile, as those of FSDP2 do.
    """

    def __init__(self, *given: Tensor, resized: bool = False) -> None:
        super().__init__()
        self.alive: dict[int, StorageWeakRef] = {}
        self.bound = 0
        self.resized = resized
        self.most = 0
        self.where = ""
        for tensor in given:
            self.see(tensor)

    def see(self, tensor: Tensor) -> None:
        storage = tensor.untyped_storage()
        if storage.device.type != "meta" and storage._cdata not in self.alive:
            self.alive[storage._cdata] = StorageWeakRef(storage)
            self.bound += storage.nbytes()

    def bytes(self) -> int:
        total = 0
        for key, reference in list(self.alive.items()):
            storage = torch.UntypedStorage._new_with_weak_ptr(reference.cdata)
            if storage is None:
                del self.alive[key]
            else:
                total += storage.nbytes()
        return total

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        for tensor in (*tensors(args), *tensors(result)):
            self.see(tensor)
        if self.resized or self.bound > self.most:
            self.bound = self.bytes()
            if self.bound > self.most:
                self.most, self.where = self.bound, str(func)
        return result


def tensors(tree: Any) -> Iterator[Tensor]:
    """The tensors of a tree, those of distributed ones as they lie here."""
    if isinstance(tree, Tensor):
        yield getattr(tree, "_local_tensor", tree)
    elif isinstance(tree, dict):
        for each in tree.values():
            yield from tensors(each)
    elif isinstance(tree, tuple | list):
        for each in tree:
            yield from tensors(each)


def peak_of(part: Any, batch: dict[str, Tensor], *, resized: bool = False) -> int:
    """The most bytes in a training step that adds to gradients, with the states of Adam that one
    before has made.
    """
    optimizer = torch.optim.AdamW(part.parameters(), lr=1e-3)
    part(**batch).loss.backward()
    optimizer.step()
    gradients = [parameter.grad for parameter in part.parameters()]
    found = []
    for _ in range(STEPS):
        held = tensors([*part.parameters(), *part.buffers(), gradients])
        with Peak(*held, resized=resized) as peak:
            for state in optimizer.state.values():
                for each in tensors(state):
                    peak.see(each)
            result = part(**batch)
            result.loss.backward()
        found.append(peak.most)
        del result
    return min(found) - DIGESTS


def planned(
    name: str,
    state: str,
    outputs: str = "whole",
    mesh: dict[str, int] | None = None,
    policy: Any = None,
) -> tuple[int, Any]:
    """Bytes at the peak, measured and as the plan says."""
    model, batch, graph = traced(name)
    count = dist.get_world_size()
    plan = ds.plan(graph, mesh or {"dp": count}, policy, state)
    part = ds.parallelize(model, plan, outputs=outputs)
    return peak_of(part, batch), plan.memory()


def fully_sharded(name: str) -> int:
    """Bytes at the peak of the same model sharded by FSDP2, a layer at a time."""
    from torch.distributed.fsdp import fully_shard

    model, batch = model_of(name)
    layers = next(each for each in model.modules() if isinstance(each, torch.nn.ModuleList))
    for layer in layers:
        fully_shard(layer)
    fully_shard(model)
    rank, count = dist.get_rank(), dist.get_world_size()
    own = {key: value.chunk(count)[rank] for key, value in batch.items()}
    return peak_of(model, own, resized=True) + DIGESTS


STATES = ("whole", "optimizer", "shared")
WAYS: list[tuple[dict[str, int], str | None, tuple[str, ...]]] = [
    ({"dp": 2}, None, STATES),
    ({"tp": 2}, None, STATES[:1]),
    ({"tp": 2}, "tensor+sequence", STATES[:1]),
    ({"cp": 2}, None, STATES),
    ({"ep": 2}, None, STATES[:1]),
    ({"dp": 2, "tp": 2}, None, STATES),
    ({"dp": 2, "tp": 2}, "tensor+sequence", STATES),
    ({"dp": 2, "cp": 2}, None, STATES),
    ({"cp": 4}, None, STATES),
    ({"cp": 2, "tp": 2}, None, STATES),
    ({"dp": 2, "ep": 2}, None, STATES),
]
"""Meshes and policies, with the states that mean something there."""


def cells(names: list[str], count: int, done: str) -> Iterator[str]:
    """A line for each cell that has none in what is done."""
    ranks = Ranks(count)
    for name in names:
        for mesh, policy, states in WAYS:
            if prod(mesh.values()) != count or ("ep" in mesh and not name.startswith(OF_EXPERTS)):
                continue
            for state in states:
                head = f"{name:23} {mesh!s:20} {policy!s:15} {state:9} "
                if head in done:
                    continue
                try:
                    found = ranks.run(planned, name, state, "whole", mesh, policy)
                except Exception as error:
                    lines = str(error).strip().splitlines() or [repr(error)]
                    yield head + lines[-1][:160]
                    ranks.close()
                    ranks = Ranks(count)
                    continue
                shares = [memory.total / measured for measured, memory in found]
                line = f"{head}{min(shares):.3f} to {max(shares):.3f}"
                if mesh == {"dp": count} and state == "shared":
                    placed = ranks.run(planned, name, state, "placed")
                    theirs = ranks.run(fully_sharded, name)
                    pairs = zip(theirs, placed, strict=True)
                    line += f"  FSDP2 {min(other / own for other, (own, _) in pairs):.3f}"
                yield line
    ranks.close()


def main() -> None:
    """Prints a line a cell."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--ranks", type=int, choices=[2, 4])
    parser.add_argument("--into", type=Path)
    every = [*MODELS, *(f"{name}, exchanged" for name in OF_EXPERTS)]
    parser.add_argument(
        "models", nargs="*", default=[*every, *(f"{n}, checkpointed" for n in MODELS)]
    )
    given = parser.parse_args()
    done = given.into.read_text() if given.into and given.into.exists() else ""
    for count in [given.ranks] if given.ranks else [2, 4]:
        for line in cells(given.models, count, done):
            print(line, flush=True)
            if given.into:
                with given.into.open("a") as file:
                    file.write(line + "\n")


if __name__ == "__main__":
    main()
