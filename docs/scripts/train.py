"""A small Llama on four ranks: data, mesh, train, evaluate, save, resume, generate.

torchrun --nproc-per-node 4 train.py --dp 2 --tp 2 --steps 20
torchrun --nproc-per-node 4 train.py --dp 2 --tp 2 --steps 40      goes on where that ended
torchrun --nproc-per-node 2 train.py --dp 1 --tp 2 --steps 60      on another mesh, too
"""

import argparse
from pathlib import Path

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from torch.distributed.checkpoint.state_dict import get_state_dict, set_state_dict
from torch.distributed.device_mesh import init_device_mesh
from torch.utils.data import DataLoader, Dataset, DistributedSampler
from transformers import LlamaConfig, LlamaForCausalLM

import dimsolve as ds

BATCH, LENGTH = 8, 32
TEXT = "A partition is legal for all sizes, or the plan says for which. " * 40


class Blocks(Dataset):
    """Bytes of a text in blocks of one length, each its own label."""

    def __init__(self, text: str) -> None:
        tokens = torch.tensor(list(text.encode()))
        self.blocks = tokens[: len(tokens) // LENGTH * LENGTH].reshape(-1, LENGTH)

    def __len__(self) -> int:
        return len(self.blocks)

    def __getitem__(self, index: int) -> dict[str, torch.Tensor]:
        return {"input_ids": self.blocks[index], "labels": self.blocks[index]}


def loader_of(data: Dataset, mesh, epoch: int = 0) -> DataLoader:
    """Batches of this rank: ranks that differ along dp get different rows, others the same."""
    sampler = DistributedSampler(
        data, mesh["dp"].size(), mesh["dp"].get_local_rank(), seed=0, drop_last=True
    )
    sampler.set_epoch(epoch)
    return DataLoader(data, BATCH // mesh["dp"].size(), sampler=sampler, drop_last=True)


def endless(data: Dataset, mesh, start: int):
    """The batches from a step on, epoch after epoch."""
    step = epoch = 0
    while True:
        for batch in loader_of(data, mesh, epoch):
            if step >= start:
                yield batch
            step += 1
        epoch += 1


def evaluate(part, data: Dataset, mesh) -> float:
    """The mean loss of the data, the same on all ranks."""
    part.eval()
    with torch.no_grad():
        losses = [part(**batch).loss for batch in loader_of(data, mesh)]
    part.train()
    return torch.stack(losses).mean().item()


def generate(part, prompts: list[str], count: int) -> list[str]:
    """Greedy, with a cache that is cut by heads. The prompts have one length."""
    ids = torch.tensor([list(prompt.encode()) for prompt in prompts])
    part.eval()
    ids = part.generate(ids, max_new_tokens=count, do_sample=False, use_cache=True, pad_token_id=0)
    part.train()
    return [bytes(row).decode(errors="replace") for row in ids.tolist()]


def main() -> None:
    options = argparse.ArgumentParser()
    for name, usual in (("dp", 2), ("tp", 2), ("steps", 20)):
        options.add_argument(f"--{name}", type=int, default=usual)
    options.add_argument("--folder", type=Path, default=Path("checkpoint"))
    given = options.parse_args()

    # The ranks, and a mesh that names its axes: dp cuts the batch, tp cuts parameters.
    dist.init_process_group("gloo")
    mesh = init_device_mesh("cpu", (given.dp, given.tp), mesh_dim_names=("dp", "tp"))
    say = print if dist.get_rank() == 0 else lambda *_: None

    # The model, as it is, with the same weights on every rank.
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=256,
        hidden_size=64,
        intermediate_size=128,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        use_cache=False,
    )
    model = LlamaForCausalLM(config)

    # Traced once, for all sizes; planned without a device; this rank's part.
    data = Blocks(TEXT)
    names = {0: "batch", 1: "seq"}
    example = {name: value[None].repeat(2, 1) for name, value in data[0].items()}
    graph = ds.trace(model, kwargs=example, dynamic={"input_ids": names, "labels": names})
    plan = ds.plan(graph, {"dp": given.dp, "tp": given.tp})
    part = ds.parallelize(model, plan, mesh, inputs="local")
    optimizer = torch.optim.AdamW(part.parameters(), lr=3e-3)

    # Resume: a checkpoint is of the whole model, so the mesh may be another one.
    step = 0
    if (given.folder / ".metadata").exists():
        state, moments = get_state_dict(part, optimizer)
        saved = {"model": state, "optimizer": moments, "step": torch.tensor(0)}
        dcp.load(saved, checkpoint_id=given.folder)
        set_state_dict(part, optimizer, model_state_dict=state, optim_state_dict=moments)
        step = int(saved["step"])
        say(f"resumed at step {step}")

    batches = endless(data, mesh, step)
    while step < given.steps:
        loss = part(**next(batches)).loss  # the loss of the whole batch, on every rank
        loss.backward()
        torch.nn.utils.clip_grad_norm_(part.parameters(), 1.0)  # the norm of the whole gradients
        optimizer.step()
        optimizer.zero_grad()
        step += 1
        say(f"step {step} loss {loss.item():.4f}")

    state, moments = get_state_dict(part, optimizer)
    dcp.save(
        {"model": state, "optimizer": moments, "step": torch.tensor(step)},
        checkpoint_id=given.folder,
    )

    say(f"mean loss {evaluate(part, data, mesh):.4f}")
    say("generated", generate(part, ["A part", "or the"], 24))
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
