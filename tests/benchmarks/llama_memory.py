"""What a rank holds in a step of Llama-3-8B on the meta device, and how long planning takes.

    python -m tests.benchmarks.llama_memory

bfloat16, stored in float32, a batch of 64 x 4096 tokens, Adam. Prints the table of
`docs/memory.md`.
"""

from __future__ import annotations

import warnings
from dataclasses import asdict
from time import perf_counter
from typing import Any

import torch

import dimsolve as ds

from .test_trace import TOKENS, llama

MESHES = ({"dp": 64}, {"dp": 8, "tp": 8})
STATES = ("whole", "optimizer", "shared")
SIZES = {"batch": 64, "seq": 4096}


def main() -> None:
    """Prints a row for each mesh and state, in GiB."""
    ids = torch.zeros(2, 16, dtype=torch.long)
    kwargs = {"input_ids": ids, "labels": ids.clone(), "use_cache": False}
    warnings.simplefilter("ignore")
    names: dict[str, Any] = {"input_ids": TOKENS, "labels": TOKENS}
    graph = ds.trace(llama(32).to(torch.bfloat16), kwargs=kwargs, dynamic=names)
    columns = ["parameters", "gradients", "optimizer", "activations", "gathered", "in all"]
    print(f"| mesh | state | {' | '.join(columns)} | planned in |")
    print("|---|---|" + "--:|" * (len(columns) + 1))
    for mesh in MESHES:
        for state in STATES:
            start = perf_counter()
            plan = ds.plan(graph, mesh, state=state, precision={"stored": "float32"})
            taken = perf_counter() - start
            memory = plan.memory(SIZES)
            amounts = {**asdict(memory), "in all": memory.total}
            cells = [f"{amounts[name] / 2**30:.2f}" for name in columns]
            text = ", ".join(f"{axis}={size}" for axis, size in mesh.items())
            print(f"| {text} | `{state}` | {' | '.join(cells)} | {taken:.1f} s |", flush=True)


if __name__ == "__main__":
    main()
