"""Every way to share out state, sequence and experts, on real ranks: equal to one device?

    python -m tests.exec.matrix                       all models, 2, 4 and 8 ranks: an hour
    python -m tests.exec.matrix --ranks 2 llama opt   some
    python -m tests.exec.matrix --into FILE           adds lines to a file, without the cells there

Three AdamW steps on two batches each, their norm clipped, in float64 throughout, what layers make
computed again in the backward pass. A line a cell: the largest difference of any parameter after
the steps, relative to its largest element, and of the norms.
"""

from __future__ import annotations

import argparse
import copy
import json
import tempfile
import time
import warnings
from collections.abc import Iterator, Mapping
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest.mock import patch

import torch
from torch import nn

import dimsolve as ds
from dimsolve.exec.experts import exchanged_experts
from dimsolve.exec.running.comparable import without_narrowing
from tests.exec.stored import difference, steps
from tests.oracles.ranks import Ranks
from tests.partition.planning import test_experts
from tests.partition.planning.models import EIGHT, OTHERS, Example


def of_experts(name: str) -> Example:
    """A small model of experts."""
    import transformers as tf

    settings = {**test_experts.SMALL, "vocab_size": 128, **test_experts.MODELS[name]}
    config = getattr(tf, f"{name}Config")(**settings)
    ids = torch.randint(0, 128, (4, 16), generator=torch.Generator().manual_seed(1))
    dims = {0: "batch", 1: "seq"}
    batch = {"input_ids": ids, "labels": ids}
    return getattr(tf, f"{name}ForCausalLM")(config), batch, dict.fromkeys(batch, dims)


EXPERTS = {"qwen2_moe": "Qwen2Moe", "deepseek_v3": "DeepseekV3"}
MODELS = {**EIGHT, **OTHERS, **{key: lambda n=name: of_experts(n) for key, name in EXPERTS.items()}}
SENT = {f"{name}, one operator": name for name in ("mixtral", *EXPERTS)}
"""Models whose experts are traced as one operator, to which tokens may be sent."""
NO_SEQUENCE = ("vit",)
ROWS = 24


@dataclass(frozen=True)
class Way:
    """How a model is cut."""

    name: str
    mesh: dict[str, int]
    policy: str | None = None
    state: str | None = None

    @property
    def count(self) -> int:
        total = 1
        for size in self.mesh.values():
            total *= size
        return total


WAYS = [
    Way("ZeRO-1", {"dp": 2}, state="optimizer"),
    Way("ZeRO-3", {"fsdp": 2}),
    Way("tensor+sequence", {"tp": 2}, "tensor+sequence"),
    Way("cp all-gather", {"cp": 2}, "sequence+all-gather"),
    Way("cp all-to-all", {"cp": 2}, "sequence+all-to-all"),
    Way("ep", {"ep": 2}),
    Way("ZeRO-1", {"dp": 4}, state="optimizer"),
    Way("ZeRO-3", {"fsdp": 4}),
    Way("ZeRO-3 x tp", {"fsdp": 2, "tp": 2}),
    Way("ZeRO-3 x tensor+sequence", {"fsdp": 2, "tp": 2}, "tensor+sequence"),
    Way("cp all-gather", {"cp": 4}, "sequence+all-gather"),
    Way("cp all-to-all", {"cp": 4}, "sequence+all-to-all"),
    Way("ZeRO-3 x ep", {"fsdp": 2, "ep": 2}),
    Way("ep", {"ep": 4}),
    Way("ZeRO-1", {"dp": 8}, state="optimizer"),
    Way("ZeRO-3", {"fsdp": 8}),
    Way("ZeRO-3 x tp", {"fsdp": 4, "tp": 2}),
    Way("dp x ZeRO-3 x tensor+sequence", {"dp": 2, "fsdp": 2, "tp": 2}, "tensor+sequence"),
    Way("ZeRO-3 x cp", {"fsdp": 2, "cp": 4}),
    Way("dp x ep", {"dp": 2, "ep": 4}),
]


def fits(name: str, way: Way) -> bool:
    """Whether the model has what the way cuts."""
    if name in SENT:
        return "ep" in way.mesh
    if "ep" in way.mesh and name not in SENT.values():
        return False
    sequence = "cp" in way.mesh or way.policy == "tensor+sequence"
    return not (name in NO_SEQUENCE and sequence)


def model_of(name: str) -> tuple[nn.Module, dict[str, Any], Any]:
    """A model that draws no random numbers, a batch, and the names of its lengths."""
    torch.manual_seed(0)
    model, inputs, dynamic = MODELS[SENT.get(name, name)]()
    model = model.double()
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
    return model, batch, dynamic


def in_float64() -> Any:
    """torch has no kernel that multiplies groups in float64: transformers then uses its own."""
    return patch("transformers.integrations.moe._can_use_grouped_mm", lambda *_: False)


def prepare(folder: Path, name: str) -> None:
    """Traces a model and trains it on one device; writes what the ranks need."""
    model, batch, dynamic = model_of(name)
    sending = exchanged_experts(model) if name in SENT else nullcontext()
    with warnings.catch_warnings(), in_float64(), sending:
        warnings.simplefilter("ignore")
        graph = ds.trace(model, kwargs={k: v[:4] for k, v in batch.items()}, dynamic=dynamic)
    (folder / "graph.json").write_text(json.dumps(graph.to_json()))
    whole = copy.deepcopy(model)
    with in_float64(), without_narrowing():
        norms = steps(whole, batch)
    state = {key: value.detach() for key, value in whole.named_parameters()}
    torch.save({"norms": norms, "state": state}, folder / "whole.pt")


def cell(folder: str, name: str, way: Way) -> tuple[float, float, str]:
    """On a rank: the differences of parameters and norms, and the collectives of the plan."""
    model, batch, _ = model_of(name)
    data = json.loads((Path(folder) / "graph.json").read_text())
    graph = ds.Graph.from_json(data, trust=("torch.Size",))
    plan = ds.plan(graph, way.mesh, way.policy, way.state)
    part = ds.parallelize(model, plan)
    with without_narrowing():
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


def head_of(name: str, way: Way) -> str:
    """How the line of a cell begins."""
    mesh = " ".join(f"{axis}={size}" for axis, size in way.mesh.items())
    return f"{name:<25} {way.name:<30} {mesh:<20}"


def cells(
    folder: Path, name: str, ways: list[Way], worlds: Mapping[int, Ranks], done: str = ""
) -> Iterator[str]:
    """A line for each way to cut a model that has none in what is done."""
    alike = [way for way in ways if fits(name, way) and head_of(name, way) not in done]
    if alike:
        prepare(folder, name)
    for way in alike:
        begun = time.monotonic()
        head = head_of(name, way)
        try:
            found = worlds[way.count].run(cell, str(folder), name, way)
        except Exception as error:
            text = str(error).strip().splitlines() or [repr(error)]
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
    parser.add_argument("models", nargs="*", default=[*MODELS, *SENT])
    parser.add_argument("--ranks", default="2,4,8")
    parser.add_argument("--into", type=Path)
    given = parser.parse_args()
    done = given.into.read_text() if given.into and given.into.exists() else ""
    counts = [int(count) for count in given.ranks.split(",")]
    with tempfile.TemporaryDirectory() as folder:
        for count in counts:
            worlds = {count: Ranks(count, timeout=600)}
            ways = [way for way in WAYS if way.count == count]
            for name in given.models:
                for line in cells(Path(folder), name, ways, worlds, done):
                    print(line, flush=True)
                    if given.into:
                        with given.into.open("a") as file:
                            file.write(line + "\n")
            worlds[count].close()


if __name__ == "__main__":
    main()
