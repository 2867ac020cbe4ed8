"""Random plans against the whole graph: ``python -m tests.partition.planning.sweep 2000``.

``python -m tests.partition.planning.sweep 2000 0 unequal`` runs meshes whose counts divide nothing.
"""

from __future__ import annotations

import sys
from collections import Counter
from random import Random

from dimsolve.ir.errors import DimsolveError
from dimsolve.partition.plan import Plan, plan
from dimsolve.partition.plan_data import PlanError
from tests.oracles.all_ranks import compare

from .random_graphs import chaos, random_graph, random_mesh

NAMED = ("data", "tensor", "data+tensor", "replicate")


def one(seed: int, *, unequal: bool = False) -> str:
    """Runs one random plan; returns what came of it: ``ok``, or what went wrong. unequal: over
    counts that do not divide what is cut.
    """
    random = Random(seed)
    grown = random_graph(random, random.randint(2, 10))
    mesh = random_mesh(random)
    if unequal:
        mesh = {axis: random.choice((2, 3, 3, 5)) for axis in list(mesh)[:2]}
    policy = chaos(random) if random.random() < 0.75 else random.choice(NAMED)
    try:
        made = plan(grown.graph, mesh, policy, uneven="allow" if unequal else "parameters")
    except PlanError:
        return "refused"
    # Whatever is planned is derived again from what it writes.
    again = Plan.from_json(made.to_json()).for_graph(grown.graph)
    if again != made:
        return "not read back"
    found = compare(made, grown.graph, grown.state, grown.inputs, {})
    return "ok" if found.ok else f"wrong: {found}"


def main() -> None:
    first, count = (int(text) for text in (sys.argv[2:3] or ["0"]) + sys.argv[1:2])
    unequal = "unequal" in sys.argv
    results: Counter[str] = Counter()
    for seed in range(first, first + count):
        try:
            result = one(seed, unequal=unequal)
        except Exception as error:
            text = str(error) if isinstance(error, DimsolveError) else repr(error)
            result = f"{type(error).__name__}: {text}"
        results[result.split(":")[0]] += 1
        if result not in ("ok", "refused"):
            print(seed, result[:1500], flush=True)
    print(dict(results))


if __name__ == "__main__":
    main()
