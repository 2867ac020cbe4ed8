"""What the tests' ranks do with safetensors."""

from __future__ import annotations

from math import prod
from pathlib import Path
from typing import Any

import safetensors
import torch
import torch.distributed as dist
from safetensors.torch import load_file, save_file, save_model
from torch.distributed.checkpoint.state_dict import StateDictOptions, get_model_state_dict

import dimsolve as ds
from dimsolve.examples import gpt2, llama
from dimsolve.exec.running.compare import relative
from tests.oracles.traces import shared_trace

from . import composing, segment_saving


def save(folder: str, shard: str) -> None:
    torch.manual_seed(1)
    model, *_ = llama.tiny()
    model.save_pretrained(folder, max_shard_size=shard)
    assert (len([*Path(folder).glob("*.safetensors")]) > 1) is (shard == "50KB")


def saved_by_a_part(folder: str) -> tuple[bool, list[str], bool]:
    """Whether what a part has saved is the model again, for transformers and for torch; and what
    ranks say of a folder that cannot be written, and of what is not cut by the plan.
    """
    torch.manual_seed(1)
    model, example, names = llama.tiny()
    graph = shared_trace("filed llama", model, kwargs=example, dynamic=names)
    part: Any = ds.parallelize(model, ds.plan(graph, {"tp": 2}))
    part.save_pretrained(f"{folder}/whole", max_shard_size="50KB")
    again, wanted = type(model).from_pretrained(f"{folder}/whole"), model.state_dict()
    equal = all(torch.equal(value, wanted[name]) for name, value in again.state_dict().items())
    options = StateDictOptions(full_state_dict=True, cpu_offload=True)
    whole = get_model_state_dict(part, options=options)
    asked = all(torch.equal(value, wanted[name]) for name, value in whole.items())
    said = []
    Path(folder, "file").touch()
    for kwargs in ({"save_directory": f"{folder}/file/x"}, {"distributed_checkpoint": True}):
        try:
            part.save_pretrained(**{"save_directory": f"{folder}/x", **kwargs})
        except Exception as error:
            said.append(f"{type(error).__name__}: {error}")
    return equal, said, asked and bool(whole) == (dist.get_rank() == 0)


class Counting:
    """A file of safetensors that counts the elements that are read of each tensor."""

    read: dict[str, int]

    def __init__(self, file: Any, **options: Any) -> None:
        self.opened = OPEN(file, **options)

    def __enter__(self) -> Counting:
        self.opened.__enter__()
        return self

    def __exit__(self, *given: Any) -> None:
        self.opened.__exit__(*given)

    def keys(self) -> list[str]:
        return list(self.opened.keys())

    def get_slice(self, name: str) -> Counted:
        return Counted(self.opened.get_slice(name), name)


class Counted:
    def __init__(self, source: Any, name: str) -> None:
        self.source, self.name = source, name

    def get_shape(self) -> list[int]:
        return list(self.source.get_shape())

    def __getitem__(self, place: Any) -> torch.Tensor:
        found: torch.Tensor = self.source[place]
        Counting.read[self.name] = Counting.read.get(self.name, 0) + found.numel()
        return found


OPEN = safetensors.safe_open


def loaded(folder: str, mesh: dict[str, int]) -> tuple[float, int, int]:
    """The largest difference of a meta model's loss and parameters to those in the files, how many
    elements were read, and how many the rank holds.
    """
    with torch.device("meta"):
        model, example, names = llama.tiny()
    graph = shared_trace("filed llama on meta", model, kwargs=example, dynamic=names)
    part = ds.parallelize(model, ds.plan(graph, mesh))
    Counting.read = {}
    safetensors.safe_open = Counting  # type: ignore[assignment,misc]
    try:
        part.load_safetensors(folder)
    finally:
        safetensors.safe_open = OPEN  # type: ignore[misc]
    whole = {
        k: v for file in Path(folder).glob("*.safetensors") for k, v in load_file(file).items()
    }
    own = dict(part.named_parameters())
    assert whole.keys() == own.keys()
    worst = max(relative(own[name], part.held(name).part(whole[name])) for name in whole)
    real, batch, _ = llama.tiny()
    real.load_state_dict(whole)
    worst = max(worst, relative(part(**batch).loss.detach(), real(**batch).loss.detach()))
    return worst, sum(Counting.read.values()), sum(prod(p.shape) for p in own.values())


def runs(folder: str, cut: str) -> bool:
    """Whether a part has its parameters again after they were read from a file of the model's."""
    if cut == "segments":
        model, example = segment_saving.model_and_input()
        plan = ds.plan(ds.trace(model, kwargs=example), {"tp": 2})
    else:
        model, example, names = gpt2.tiny()
        plan = ds.plan(ds.trace(model, kwargs=example, dynamic=names), {"tp": 2})
    part = ds.parallelize(model, plan)
    assert any(cut in str(held) for held in part._held.values())
    if dist.get_rank() == 0:
        save_model(model, f"{folder}/model.safetensors")
    dist.barrier()
    before = [p.detach().clone() for p in part.parameters()]
    with torch.no_grad():
        for parameter in part.parameters():
            parameter.zero_()
    part.load_safetensors(folder)
    return all(torch.equal(a, b) for a, b in zip(before, part.parameters(), strict=True))


def refused(folder: str) -> tuple[str, str, str, bool]:
    """What is said of a folder without files, of other names, and of another shape; and whether
    the part is as it was.
    """
    part, _, _ = composing.part_of("tests.exec.composing:table", {"tp": 2}, "tensor")
    before = [p.detach().clone() for p in part.parameters()]
    said = [raised(part, folder)]
    dist.barrier()
    whole = composing.Table().state_dict()
    if dist.get_rank() == 0:
        save_file({"left.weight": torch.ones(2)}, f"{folder}/other.safetensors")
        save_file({**whole, "up.weight": torch.ones(32, 15)}, f"{folder}/shape.safetensors")
    dist.barrier()
    said += [raised(part, f"{folder}/{name}.safetensors") for name in ("other", "shape")]
    same = all(torch.equal(a, b) for a, b in zip(before, part.parameters(), strict=True))
    return said[0], said[1], said[2], same


def raised(part: Any, path: str) -> str:
    try:
        part.load_safetensors(path)
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return ""
