"""The plans of ``"auto"`` on real ranks: equal to one device, and within what was predicted?

    python -m tests.exec.auto_plans                       all models, 2 and 4 ranks: minutes each
    python -m tests.exec.auto_plans --ranks 4 llama gpt2  some

Each model is planned without a limit of memory, and within the least of some limits that any plan
fits: there parameters are stored in parts, and layers run again, where that is what it takes. Three
AdamW steps on two batches each, their norm clipped, in float64, as `tests.exec.matrix` has them. A
line a plan: the largest difference of any parameter after the steps, relative to its largest
element, and of the norms; what was decided; the gap of the search.
"""

from __future__ import annotations

import argparse
import copy
import json
import tempfile
from collections.abc import Iterator
from math import prod
from pathlib import Path

import torch

import dimsolve as ds
from tests.exec.matrix import EXPERTS, MODELS, ROWS, model_of, prepare
from tests.exec.stored import difference, steps
from tests.oracles.ranks import Ranks

MESHES = ({"dp": 2}, {"tp": 2}, {"dp": 4}, {"dp": 2, "tp": 2})
LIMITS = (0.5, 0.55, 0.6, 0.65, 0.7, 0.75, 0.8, 0.85, 0.9, 0.95)
"""Parts of the memory of the plan without a limit."""
SECONDS = 20.0
"""Of each search; the gap says what that leaves open."""
NO_SEQUENCE = ("vit",)


def plans(graph: ds.Graph, mesh: dict[str, int], sizes: dict[str, int]) -> Iterator[ds.Plan]:
    """The plan without a limit, and the one within the least limit."""
    machine = ds.Machine.named("h100").model_copy(update={"floor": 0.0})
    free = ds.plan(graph, mesh, "auto", machine=machine, sizes=sizes, seconds=SECONDS)
    yield free
    most = free.memory(sizes).total
    for part in LIMITS:
        try:
            yield ds.plan(
                graph,
                mesh,
                "auto",
                machine=machine,
                sizes=sizes,
                memory=int(part * most),
                seconds=SECONDS,
            )
        except ds.PlanError:
            continue
        return


def cell(folder: str, name: str) -> tuple[float, float]:
    """On a rank: the differences of parameters and of norms."""
    model, batch, _ = model_of(name, False)
    here = Path(folder)
    data = json.loads((here / "graph.json").read_text())
    graph = ds.Graph.from_json(data, trust=("torch.Size",))
    plan = ds.Plan.from_json((here / "plan.json").read_text()).for_graph(graph)
    part = ds.parallelize(model, plan)
    norms = steps(part, batch)
    wanted = torch.load(here / "whole.pt")
    whole = copy.deepcopy(model)
    with torch.no_grad():
        for key, parameter in whole.named_parameters():
            parameter.copy_(wanted["state"][key])
    apart = max(abs(a - b) / b for a, b in zip(norms, wanted["norms"], strict=True))
    return difference(whole, part), apart


def decided(plan: ds.Plan) -> str:
    """What a plan decided beside its cuts, and how far it is from the best."""
    assert plan.search is not None
    state = " ".join(f"{axis}:{word}" for axis, word in plan.state.items()) or "whole"
    again = f", {len(plan.regions)} regions again" if plan.regions else ""
    limit = f", within {plan.search.memory} bytes" if plan.search.memory else ""
    return f"{state}{again}{limit}, gap {plan.search.gap:.2%}"


def lines(folder: Path, name: str, ranks: int) -> Iterator[str]:
    """A line for each plan of a model on so many ranks."""
    prepare(folder, name, False)
    data = json.loads((folder / "graph.json").read_text())
    graph = ds.Graph.from_json(data, trust=("torch.Size",))
    sizes = {"batch": ROWS, **({} if name in NO_SEQUENCE else {"seq": 16})}
    world = Ranks(ranks, timeout=600)
    for mesh in MESHES:
        if prod(mesh.values()) != ranks:
            continue
        head = f"{name:<20} {' '.join(f'{a}={n}' for a, n in mesh.items()):<12}"
        for plan in plans(graph, mesh, {n: sizes[n] for n in plan_symbols(graph, sizes)}):
            (folder / "plan.json").write_text(plan.to_json())
            try:
                found = world.run(cell, str(folder), name)
            except Exception as error:
                text = str(error).strip().splitlines()
                yield f"{head} {decided(plan)}: {text[0][:80]} | {text[-1][:160]}"
                world.close()
                world = Ranks(ranks, timeout=600)
                continue
            most, norms = (max(each[n] for each in found) for n in (0, 1))
            bound = 1e-5 if name in EXPERTS else 1e-9
            verdict = "equal" if max(most, norms) <= bound else "DIFFERENT"
            yield f"{head} {verdict:<9} {most:.1e} {norms:.1e}  {decided(plan)}"
    world.close()


def plan_symbols(graph: ds.Graph, sizes: dict[str, int]) -> list[str]:
    """The names of sizes that a graph has."""
    return [name for name in sizes if name in graph.symbols]


def main() -> None:
    """Prints a line a plan, and how many were equal."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("models", nargs="*", default=list(MODELS))
    parser.add_argument("--ranks", default="2,4")
    given = parser.parse_args()
    every, equal = 0, 0
    with tempfile.TemporaryDirectory() as folder:
        for count in map(int, given.ranks.split(",")):
            for name in given.models or MODELS:
                for line in lines(Path(folder), name, count):
                    print(line, flush=True)
                    every, equal = every + 1, equal + (" equal " in line)
    print(f"{equal} of {every} plans equal to one device")


if __name__ == "__main__":
    main()
