"""The policy "auto" beside every named policy: never dearer where one fits.

    python -m tests.partition.search.beside_named                       all, which takes hours
    python -m tests.partition.search.beside_named --models llama,gpt2 --meshes tp=2 --seconds 20

For architectures, meshes, sizes and limits of memory (none, and a part of what the best plan
without a limit needs): a line for each, and 1 where a named policy that fits is cheaper than
"auto", or fits where "auto" finds nothing.
"""

from __future__ import annotations

import argparse
import sys

import dimsolve as ds
from dimsolve.partition.inlining import inlined
from dimsolve.partition.planning.network import Network
from tests.partition.planning.models import traced
from tests.partition.planning.test_auto import SLOW

MODELS = "llama,qwen2,mistral,gpt2,opt,bert,vit,mixtral,tied_llama,one_key_value_head,phi3,falcon"
MESHES = "tp=2;tp=3;dp=4;dp=2,tp=2;dp=2,tp=4"
NAMED = ("data", "tensor", "sequence", "data+tensor", "replicate")
STATES = ("whole", "optimizer", "shared")
BATCHES = (4, 8, 16)


def named_best(graph: ds.Graph, mesh: str, sizes: dict[str, int], limit: int | None) -> int | None:
    """The least cost of a named policy, with each way to store parameters, that fits."""
    found = []
    for policy in NAMED:
        for state in STATES:
            try:
                made = ds.plan(graph, mesh, policy, state)
                cost = made.cost(sizes, machine=SLOW).picoseconds
                held = made.memory(sizes).total
            except ds.PlanError:
                continue
            if limit is None or held <= limit:
                found.append(cost)
    return min(found, default=None)


def line(name: str, mesh: str, batch: int, part: float, seconds: float) -> tuple[bool, str]:
    """Whether "auto" is no dearer, and what is said of it. part: of what the best plan needs."""
    graph, _, _, given = traced(name)
    known = Network(inlined(graph)).classes.known
    sizes = {n: s for n, s in {**given, "batch": batch}.items() if n in known}
    asked = {"machine": SLOW, "sizes": sizes, "seconds": seconds}
    best = ds.plan(graph, mesh, "auto", **asked)
    limit = None if part >= 1 else int(best.memory(sizes).total * part)
    named = named_best(graph, mesh, sizes, limit)
    where = f"{name:20} {mesh:10} batch {batch:2} {'no limit' if limit is None else limit:>10}"
    try:
        made = best if limit is None else ds.plan(graph, mesh, "auto", memory=limit, **asked)
    except ds.PlanError as error:
        return named is None, f"{where} {error.diagnostic.code}, named {named}"
    assert made.search is not None
    cost = made.search.cost
    text = f"{where} auto {cost} gap {made.search.gap:.3%} named {named}"
    return (named is None or cost <= named) and ds.verify(made).ok, text


def main() -> int:
    """Compares all; returns 1 where "auto" is dearer once."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--models", default=MODELS)
    parser.add_argument("--meshes", default=MESHES)
    parser.add_argument("--batches", default=",".join(map(str, BATCHES)))
    parser.add_argument("--limits", default="1,0.8")
    parser.add_argument("--seconds", type=float, default=60.0)
    asked = parser.parse_args()
    failed = 0
    for name in asked.models.split(","):
        for mesh in asked.meshes.split(";"):
            for batch in map(int, asked.batches.split(",")):
                for part in map(float, asked.limits.split(",")):
                    ok, text = line(name, mesh, batch, part, asked.seconds)
                    failed += not ok
                    print(text if ok else f"{text}  FAILED", flush=True)
    print(f"{failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
