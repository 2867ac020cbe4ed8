"""Every way to share out state, sequence and experts, on real ranks: equal to one device?

    python -m tests.exec.matrix                       all models, 2, 4 and 8 ranks: tens of minutes
    python -m tests.exec.matrix --ranks 2 llama opt   some

Three AdamW steps on two batches each, their norm clipped, in float64 (models of experts in float32:
torch multiplies their matrices in no other). A line a cell: the largest difference of any parameter
after the steps, relative to its largest element, and of the norms.
"""

from __future__ import annotations

import argparse
import copy
import json
import tempfile
import time
import warnings
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import nn

import dimsolve as ds
from tests.exec.stored import difference, steps
from tests.oracles.ranks import Ranks
from tests.partition.planning.models import EIGHT, OTHERS

MODELS = {**EIGHT, **OTHERS}
EXPERTS = ("mixtral",)
NO_SEQUENCE = ("vit",)
ROWS = 24


@dataclass(frozen=True)
class Way:
    """How a model is cut. regions: whether its layers are run again in the backward pass."""

    name: str
    mesh: dict[str, int]
    policy: str | None = None
    state: str | None = None
    regions: bool = False

    @property
    def count(self) -> int:
        total = 1
        for size in self.mesh.values():
            total *= size
        return total


WAYS = [
    Way("ZeRO-1", {"dp": 2}, state="optimizer"),
    Way("ZeRO-3", {"fsdp": 2}),
    Way("ZeRO-3, regions", {"fsdp": 2}, regions=True),
    Way("tensor+sequence", {"tp": 2}, "tensor+sequence"),
    Way("cp", {"cp": 2}),
    Way("ep", {"ep": 2}),
    Way("ZeRO-1", {"dp": 4}, state="optimizer"),
    Way("ZeRO-3", {"fsdp": 4}),
    Way("ZeRO-3 x tp", {"fsdp": 2, "tp": 2}),
    Way("ZeRO-3 x tensor+sequence", {"fsdp": 2, "tp": 2}, "tensor+sequence"),
    Way("cp", {"cp": 4}),
    Way("ZeRO-3 x ep", {"fsdp": 2, "ep": 2}),
    Way("ZeRO-1", {"dp": 8}, state="optimizer"),
    Way("ZeRO-3", {"fsdp": 8}),
    Way("ZeRO-3 x tp", {"fsdp": 4, "tp": 2}),
    Way("dp x ZeRO-3 x tensor+sequence", {"dp": 2, "fsdp": 2, "tp": 2}, "tensor+sequence"),
    Way("ZeRO-3 x cp", {"fsdp": 2, "cp": 4}),
    Way("dp x ep", {"dp": 2, "ep": 4}),
]


def fits(name: str, way: Way) -> bool:
    """Whether the model has what the way cuts."""
    if "ep" in way.mesh and name not in EXPERTS:
        return False
    sequence = "cp" in way.mesh or way.policy == "tensor+sequence"
    return not (name in NO_SEQUENCE and (sequence or way.regions))


def model_of(name: str, regions: bool) -> tuple[nn.Module, dict[str, Any], Any]:
    """A model that draws no random numbers, a batch, and the names of its lengths."""
    torch.manual_seed(0)
    model, inputs, dynamic = MODELS[name]()
    dtype = torch.float32 if name in EXPERTS else torch.float64
    model = model.to(dtype).eval()
    if regions:
        for module in model.modules():
            for key in ("p", "dropout", "attention_dropout", "dropout_prob"):
                if isinstance(getattr(module, key, None), float):
                    setattr(module, key, 0.0)
        model.train()
        model.gradient_checkpointing_enable({"use_reentrant": False})
    batch = {
        key: torch.cat([value.roll(n, -1) for n in range(ROWS // len(value))])
        for key, value in inputs.items()
    }
    batch = {k: v.to(dtype) if v.is_floating_point() else v for k, v in batch.items()}
    return model, batch, dynamic


def prepare(folder: Path, name: str, regions: bool) -> None:
    """Traces a model and trains it on one device; writes what the ranks need."""
    model, batch, dynamic = model_of(name, regions)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        graph = ds.trace(model, kwargs={k: v[:4] for k, v in batch.items()}, dynamic=dynamic)
    (folder / "graph.json").write_text(json.dumps(graph.to_json()))
    whole = copy.deepcopy(model)
    norms = steps(whole, batch)
    state = {key: value.detach() for key, value in whole.named_parameters()}
    torch.save({"norms": norms, "state": state}, folder / "whole.pt")


def cell(folder: str, name: str, way: Way) -> tuple[float, float, str]:
    """On a rank: the differences of parameters and norms, and the collectives of the plan."""
    model, batch, _ = model_of(name, way.regions)
    data = json.loads((Path(folder) / "graph.json").read_text())
    graph = ds.Graph.from_json(data, trust=("torch.Size",))
    plan = ds.plan(graph, way.mesh, way.policy, way.state)
    part = ds.parallelize(model, plan)
    norms = steps(part, batch)
    wanted = torch.load(Path(folder) / "whole.pt")
    whole = copy.deepcopy(model)
    with torch.no_grad():
        for key, parameter in whole.named_parameters():
            parameter.copy_(wanted["state"][key])
    apart = max(abs(a - b) / b for a, b in zip(norms, wanted["norms"], strict=True))
    sizes = {"batch": ROWS, **({} if name in NO_SEQUENCE else {"seq": 16})}
    sent = {row.collective for row in plan.communication(**sizes)}
    return difference(whole, part), apart, ", ".join(sorted(sent))


def cells(folder: Path, name: str, ways: list[Way], worlds: Mapping[int, Ranks]) -> Iterator[str]:
    """A line for each way to cut a model."""
    for regions in (False, True):
        alike = [way for way in ways if way.regions == regions and fits(name, way)]
        if alike:
            prepare(folder, name, regions)
        for way in alike:
            begun = time.monotonic()
            mesh = " ".join(f"{axis}={size}" for axis, size in way.mesh.items())
            head = f"{name:<20} {way.name:<30} {mesh:<20}"
            try:
                found = worlds[way.count].run(cell, str(folder), name, way)
            except Exception as error:
                text = str(error).strip().splitlines()
                yield f"{head} {text[0][:80]} | {text[-1][:160]}"
                worlds[way.count].close()
                worlds[way.count].__init__(way.count)  # type: ignore[misc]
                continue
            most, norms = (max(each[n] for each in found) for n in (0, 1))
            took = time.monotonic() - begun
            yield f"{head} {most:.1e} {norms:.1e}  {took:5.1f} s  {found[0][2]}"


def main() -> None:
    """Prints the matrix."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("models", nargs="*", default=list(MODELS))
    parser.add_argument("--ranks", default="2,4,8")
    given = parser.parse_args()
    counts = [int(count) for count in given.ranks.split(",")]
    with tempfile.TemporaryDirectory() as folder:
        for count in counts:
            worlds = {count: Ranks(count, timeout=600)}
            ways = [way for way in WAYS if way.count == count]
            for name in given.models or MODELS:
                for line in cells(Path(folder), name, ways, worlds):
                    print(line, flush=True)
            worlds[count].close()


if __name__ == "__main__":
    main()
