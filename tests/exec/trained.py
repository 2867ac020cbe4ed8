"""What the tests' ranks train with: Hugging Face's Trainer, accelerate, DDP around a part."""

from __future__ import annotations

import copy
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.device_mesh import init_device_mesh
from torch.nn.parallel import DistributedDataParallel

import dimsolve as ds
from dimsolve.examples import gpt2, llama, mixtral
from dimsolve.exec.running.comparable import loss_of
from dimsolve.exec.running.compare import relative
from tests.oracles.traces import shared_on_demand, shared_trace

MODELS = {"llama": llama.tiny, "gpt2": gpt2.tiny, "mixtral": mixtral.tiny}
ROWS = 4
"""The length of a whole batch."""


def data_of(count: int = 24, length: int = 12) -> list[dict[str, Tensor]]:
    """Sequences of which a part has no label, more in some rows than in others."""
    generator = torch.Generator().manual_seed(1)
    found = []
    for row in range(count):
        ids = torch.randint(256, (length,), generator=generator)
        labels = torch.where(torch.arange(length) < row % 7, -100, ids)
        found.append({"input_ids": ids, "labels": labels})
    return found


def batch_of(data: list[dict[str, Tensor]]) -> dict[str, Tensor]:
    return {name: torch.stack([row[name] for row in data]) for name in data[0]}


def model_of(name: str) -> tuple[nn.Module, Any]:
    torch.manual_seed(0)
    model, _, names = MODELS[name]()
    for module in model.modules():  # the curve of one device is looked at, not what it draws
        if isinstance(module, nn.Dropout):
            module.p = 0.0
    return model, names


@lru_cache
def traced(name: str, items: bool) -> Any:
    """The graph, traced once for all ranks. items: whether the number of all items is an input."""
    model, names = model_of(name)
    example = batch_of(data_of()[:ROWS])
    if items:
        example["num_items_in_batch"] = torch.tensor(1.0)
    return shared_trace(f"trained {name} {items}", model, kwargs=example, dynamic=names)


def part_of(name: str, mesh: Mapping[str, int], way: Any, *, items: bool = False) -> Any:
    plan = ds.plan(traced(name, items), mesh)
    return ds.parallelize(model_of(name)[0], plan, inputs=way)


def arguments(folder: str, steps: int, parts: int = 1, **more: Any) -> Any:
    from transformers import TrainingArguments

    return TrainingArguments(
        folder,
        per_device_train_batch_size=ROWS // parts,
        per_device_eval_batch_size=ROWS // parts,
        gradient_accumulation_steps=2,
        max_steps=steps,
        logging_steps=1,
        save_steps=2,
        eval_strategy="steps",
        eval_steps=2,
        learning_rate=1e-2,
        lr_scheduler_type="constant_with_warmup",  # it does not know when the training ends
        warmup_steps=1,
        weight_decay=0.1,
        max_grad_norm=0.5,
        report_to=[],
        use_cpu=True,
        disable_tqdm=True,
        dataloader_pin_memory=False,
        **more,
    )


@contextmanager
def launched() -> Iterator[None]:
    """What torchrun tells a rank, by which accelerate knows of the others."""
    from accelerate.state import AcceleratorState, GradientState

    AcceleratorState._reset_state(reset_partial_state=True)
    GradientState._reset_state()
    before = dict(os.environ)
    if "RANK" not in before and dist.get_world_size() > 1:
        rank, count = str(dist.get_rank()), str(dist.get_world_size())
        os.environ.update({"RANK": rank, "LOCAL_RANK": rank, "WORLD_SIZE": count})
        os.environ.update({"LOCAL_WORLD_SIZE": count, "MASTER_ADDR": "localhost"})
        os.environ["MASTER_PORT"] = "1"  # nobody connects: the process group is there
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)
        AcceleratorState._reset_state(reset_partial_state=True)


Curve = list[dict[str, float]]


@launched()
def curve(
    folder: str, mesh: Mapping[str, int] | None, way: str, steps: int, name: str = "llama"
) -> Curve:
    """What a Trainer logs of its steps; it goes on from the last checkpoint where there is one."""
    from transformers import set_seed

    set_seed(0)
    data = data_of()
    if mesh is None:
        from transformers import Trainer

        parts, (model, _) = 1, model_of(name)
    else:
        from dimsolve.trainers import Trainer

        parts = mesh.get("dp", 1) if way == "local" else 1
        model = part_of(name, mesh, way, items=True)
    trainer = Trainer(
        model=model,
        args=arguments(folder, steps, parts),
        train_dataset=data,
        eval_dataset=data[: 2 * ROWS],
        compute_metrics=_metrics,
    )
    with shared_on_demand(f"trained {name}"):
        trainer.train(resume_from_checkpoint=any(Path(folder).glob("checkpoint-*")) or None)
    keys = ("step", "loss", "grad_norm", "eval_loss", "eval_sum", "eval_rows")
    return [{key: row[key] for key in keys if key in row} for row in trainer.state.log_history[:-1]]


def _metrics(found: Any) -> dict[str, float]:
    """Numbers that depend on every row once: of the predictions, and how many there are."""
    return {"sum": float(abs(found.predictions).sum()), "rows": len(found.label_ids)}


@launched()
def stock_trainer(folder: str) -> str:
    """What is said where a part is given to transformers' own Trainer."""
    from transformers import Trainer

    return _raised(
        lambda: Trainer(model=part_of("llama", {"dp": 2}, "local"), args=arguments(folder, 1))
    )


@launched()
def refused(folder: str) -> list[str]:
    """What is said of settings that a Trainer of parts cannot do with."""
    from dimsolve.trainers import Trainer

    part = part_of("llama", {"dp": 2}, "local")
    return [
        _raised(
            lambda: Trainer(model=part, args=arguments(folder, 1, gradient_checkpointing=True))
        ),
        _raised(lambda: Trainer(model=part, args=arguments(folder, 1, label_smoothing_factor=0.1))),
    ]


def _raised(call: Any) -> str:
    try:
        call()
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return ""


@launched()
def accelerated(folder: str, mesh: dict[str, int] | None, way: str) -> tuple[list[float], int]:
    """Losses of two steps, of two more, and of two from the state after the first, which is loaded,
    with what the sampler draws then; and the rows that are gathered of an epoch.

    mesh: None on one device, with accelerate's own class.
    """
    from torch.utils.data import DataLoader

    if mesh is None:
        model, _ = model_of("llama")
        from accelerate import Accelerator

        parts = 1
    else:
        from dimsolve.trainers import Accelerator

        model = part_of("llama", mesh, way)
        parts = mesh.get("dp", 1) if way == "local" else 1
    torch.manual_seed(3)
    accelerator = Accelerator(cpu=True, gradient_accumulation_steps=2)
    groups = [{"params": [p for p in model.parameters() if p.ndim > 1], "weight_decay": 0.1}]
    groups += [{"params": [p for p in model.parameters() if p.ndim == 1], "weight_decay": 0.0}]
    optimizer = torch.optim.AdamW(groups, lr=1e-2)
    order = torch.Generator().manual_seed(4)
    data = DataLoader(data_of(16), batch_size=ROWS // parts, shuffle=True, generator=order)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: 1 / (1 + step))
    model, optimizer, loader = accelerator.prepare(model, optimizer, data)

    def epoch() -> list[float]:
        losses = []
        for batch in loader:
            with accelerator.accumulate(model):
                loss = model(**batch).loss
                accelerator.backward(loss)
                if accelerator.sync_gradients:
                    accelerator.clip_grad_norm_(model.parameters(), 0.5)
                    schedule.step()
                optimizer.step()
                optimizer.zero_grad()
            losses.append(float(loss.detach()))
        return losses

    losses = epoch()
    accelerator.save_state(folder)
    losses += epoch()
    accelerator.load_state(folder)
    losses += epoch()
    rows = sum(len(accelerator.gather_for_metrics(batch["input_ids"])) for batch in loader)
    return losses, rows


def looped(folder: str, mesh: dict[str, int] | None, way: str, steps: range) -> list[float]:
    """Losses of a loop as people write it: a DistributedSampler over the data axes, groups of
    AdamW, two batches a step, clipping, a schedule. It loads the checkpoint of the step before
    ``steps``, and saves one after them.
    """
    import torch.distributed.checkpoint as dcp
    from torch.distributed.checkpoint.state_dict import get_state_dict, set_state_dict
    from torch.utils.data import DataLoader, DistributedSampler

    parts, place = 1, 0
    model = model_of("llama")[0] if mesh is None else part_of("llama", mesh, way)
    if mesh is not None and way == "local":
        axis = model.device_mesh["dp"]
        parts, place = axis.size(), axis.get_local_rank()
    data = data_of()
    sampler = DistributedSampler(data, parts, place, shuffle=False)
    loader = DataLoader(data, ROWS // parts, sampler=sampler, drop_last=True)
    groups = [{"params": [p for p in model.parameters() if p.ndim > 1], "weight_decay": 0.1}]
    groups += [{"params": [p for p in model.parameters() if p.ndim == 1], "weight_decay": 0.0}]
    optimizer = torch.optim.AdamW(groups, lr=1e-2)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 6)
    batches = list(loader)

    def state() -> dict[str, Any]:
        weights, moments = get_state_dict(model, optimizer)
        return {"model": weights, "optimizer": moments, "schedule": schedule.state_dict()}

    if steps.start:
        found = state()
        dcp.load(found, checkpoint_id=folder)
        set_state_dict(
            model,
            optimizer,
            model_state_dict=found["model"],
            optim_state_dict=found["optimizer"],
        )
        schedule.load_state_dict(found["schedule"])
    losses = []
    for step in steps:
        optimizer.zero_grad()
        total = 0.0
        for batch in (batches[2 * step], batches[2 * step + 1]):
            loss = model(**batch).loss / 2
            loss.backward()
            total += float(loss.detach())
        torch.nn.utils.clip_grad_norm_(model.parameters(), 0.5)
        optimizer.step()
        schedule.step()
        losses.append(total)
    if folder and not steps.start:
        dcp.save(state(), checkpoint_id=folder)
    return losses


def with_ddp(over_all: bool, axis: str = "tp") -> Any:
    """DDP around a part of two ranks, along an axis of 2 that the plan does not have: the largest
    difference of three steps to one device. over_all: what is said of DDP over all four ranks.
    """
    model, _ = model_of("llama")
    whole = copy.deepcopy(model)
    data = batch_of(data_of(8))
    for labels in data["labels"]:
        labels[:6] = -100  # means of halves are the mean where as many labels count
    mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("outer", axis))
    part = ds.parallelize(model, ds.plan(traced("llama", False), {axis: 2}), mesh)
    if over_all:
        return _raised(lambda: DistributedDataParallel(part))
    wrapped = DistributedDataParallel(part, process_group=mesh["outer"].get_group())
    place = mesh["outer"].get_local_rank()
    own = {name: value.chunk(2)[place] for name, value in data.items()}
    optimizers = [torch.optim.AdamW(m.parameters(), lr=1e-2) for m in (wrapped, whole)]
    worst = 0.0
    for _ in range(3):
        losses = []
        for module, batch, optimizer in zip((wrapped, whole), (own, data), optimizers, strict=True):
            optimizer.zero_grad()
            loss = loss_of(module(**batch))
            loss.backward()
            optimizer.step()
            losses.append(loss.detach())
        mean = losses[0].clone()
        dist.all_reduce(mean, group=mesh["outer"].get_group())
        worst = max(worst, relative(mean / 2, losses[1]))
    return worst
