"""Predicted beside measured: the seconds and the peak bytes of a training step on gloo ranks.

    python -m tests.benchmarks.prediction [--minutes 8] [--ranks 2] [MODEL ...]

For every model and mesh the operators and collectives of the named policies' plans are measured,
the policy "auto" searches with what was measured, and every plan trains. Seconds are those of the
fastest of some steps, forward and backward: what else the machine does only adds to them. A table
is printed, the rank correlation of predicted and measured seconds in all and within each mesh, and
how much longer auto took than the fastest plan that was measured. What does not fit into the
minutes is left out, and said.
"""

from __future__ import annotations

import argparse
import tempfile
import time
import warnings
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import torch
import torch.distributed as dist

import dimsolve as ds
from dimsolve.exec.running.profiling import device_of, profile
from dimsolve.partition.plan import Plan
from tests.exec.peaks import peak_of
from tests.oracles.ranks import Ranks

BATCH, SEQUENCE = 8, 64
STEPS = 12
WIDE: dict[str, Any] = {
    "vocab_size": 512, "hidden_size": 256, "intermediate_size": 512, "num_hidden_layers": 2,
    "num_attention_heads": 8, "max_position_embeddings": 64,
}  # fmt: skip
MODELS: dict[str, tuple[str, dict[str, Any]]] = {
    "llama": ("LlamaForCausalLM", {**WIDE, "num_key_value_heads": 4, "use_cache": False}),
    "bert": ("BertForMaskedLM", WIDE),
    "gpt2": (
        "GPT2LMHeadModel",
        {
            "vocab_size": 512, "n_embd": 256, "n_layer": 2, "n_head": 8, "n_positions": 64,
            "use_cache": False, "bos_token_id": 0, "eos_token_id": 0,
        },
    ),
    "opt": (
        "OPTForCausalLM",
        {**WIDE, "ffn_dim": 512, "word_embed_proj_dim": 256, "use_cache": False},
    ),
    "qwen2": ("Qwen2ForCausalLM", {**WIDE, "num_key_value_heads": 4, "use_cache": False}),
    "phi3": (
        "Phi3ForCausalLM",
        {**WIDE, "num_key_value_heads": 4, "use_cache": False, "pad_token_id": 0},
    ),
}  # fmt: skip
MESHES: dict[int, tuple[dict[str, int], ...]] = {
    2: ({"tp": 2},),
    4: ({"tp": 4}, {"dp": 2, "tp": 2}),
}
POLICIES = ("data", "tensor", "data+tensor", "replicate")


class Row(NamedTuple):
    """One plan that was trained."""

    model: str
    mesh: str
    policy: str
    predicted: float
    measured: float
    timed: str
    peak: int
    said: int


@lru_cache(maxsize=8)
def traced(name: str) -> tuple[Any, dict[str, Any], Any]:
    """The model, a batch, and its graph."""
    import transformers as tf

    kind, options = MODELS[name]
    torch.manual_seed(0)
    cls = getattr(tf, kind)
    model = cls(cls.config_class(**options)).eval()
    ids = torch.randint(0, 512, (BATCH, SEQUENCE))
    batch = {"input_ids": ids, "labels": ids}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return model, batch, ds.trace(model, kwargs=batch)


def trained(name: str, text: str, database: str) -> tuple[str, float, int]:
    """On a rank: profiles a plan and trains; returns the device, the seconds of a step and the
    peak.
    """
    warnings.simplefilter("ignore")
    model, batch, graph = traced(name)
    plan = ds.Plan.from_json(text).for_graph(graph)
    part: Any = ds.parallelize(model, plan, outputs={"logits": "placed"})
    profile(part, batch, {}, database)
    peak = peak_of(part, batch)
    times = []
    for _ in range(STEPS):
        dist.barrier()
        start = time.perf_counter()
        part(**batch).loss.backward()
        times.append(time.perf_counter() - start)
        part.zero_grad()
    every: list[Any] = [None] * dist.get_world_size()
    dist.all_gather_object(every, min(times))
    return device_of(part).device, max(every), peak


def rows_of(name: str, ranks: Ranks, mesh: dict[str, int], database: str) -> list[Row]:
    """All plans of one model on one mesh."""
    graph = traced(name)[2]
    plans: dict[str, Plan] = {}
    for policy in POLICIES:
        try:
            made = ds.plan(graph, mesh, policy)
        except ds.PlanError:
            continue
        if not any(made.operators == each.operators for each in plans.values()):
            plans[policy] = made
    found = {
        policy: ranks.run(trained, name, p.to_json(), database)[0] for policy, p in plans.items()
    }
    device = next(iter(found.values()))[0]
    auto = ds.plan(graph, mesh, "auto", machine=ds.Machine.measured(database, device), sizes={})
    plans["auto"] = auto
    found["auto"] = ranks.run(trained, name, auto.to_json(), database)[0]
    machine = ds.Machine.measured(database, device)
    rows = []
    for policy, made in plans.items():
        cost, memory = made.cost({}, machine=machine), made.memory({})
        _, seconds, peak = found[policy]
        timed = f"{cost.measured}+{cost.modelled}"
        shape = ",".join(f"{axis}={size}" for axis, size in mesh.items())
        rows.append(Row(name, shape, policy, cost.seconds, seconds, timed, peak, memory.total))
    return rows


def correlation(pairs: list[tuple[float, float]]) -> float:
    """Spearman's rank correlation."""

    def places(values: list[float]) -> list[float]:
        return [sum(v < own for v in values) + (values.count(own) - 1) / 2 for own in values]

    xs, ys = (places([pair[n] for pair in pairs]) for n in (0, 1))
    middle = (len(pairs) - 1) / 2
    top = sum((x - middle) * (y - middle) for x, y in zip(xs, ys, strict=True))
    square = sum((x - middle) ** 2 for x in xs) * sum((y - middle) ** 2 for y in ys)
    return top / square**0.5 if square else float("nan")


def line_of(row: Row) -> str:
    """One line of the table."""
    return (
        f"{row.model:6} {row.mesh:10} {row.policy:12} predicted {row.predicted * 1e3:7.2f} ms, "
        f"measured {row.measured * 1e3:7.2f} ms, times {row.timed:8} "
        f"peak {row.peak:,}, said {row.said:,}"
    )


def report(rows: list[Row]) -> None:
    """Prints what follows from all rows."""
    print(f"rank correlation of all: {correlation([(r.predicted, r.measured) for r in rows]):.3f}")
    worse = []
    for key in dict.fromkeys((row.model, row.mesh) for row in rows):
        own = [row for row in rows if (row.model, row.mesh) == key]
        pairs = [(row.predicted, row.measured) for row in own]
        auto = next(row for row in own if row.policy == "auto").measured
        worse.append(auto / min(row.measured for row in own))
        print(
            f"  {key[0]} {key[1]}: correlation {correlation(pairs):.2f}, "
            f"auto {worse[-1]:.2f} times the fastest measured"
        )
    print(f"auto within 5 % of the fastest in {sum(w <= 1.05 for w in worse)} of {len(worse)}")
    shares = [row.said / row.peak for row in rows]
    print(f"peak bytes said / measured: {min(shares):.3f} to {max(shares):.3f}")


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--minutes", type=float, default=8.0)
    parser.add_argument("--ranks", type=int, choices=[2, 4])
    parser.add_argument("models", nargs="*", choices=[[], *MODELS])
    given = parser.parse_args()
    until = time.monotonic() + 60 * given.minutes
    rows: list[Row] = []
    with tempfile.TemporaryDirectory() as folder:
        database = str(Path(folder) / "profile.db")
        for count in [given.ranks] if given.ranks else [2, 4]:
            ranks = Ranks(count)
            for name in given.models or MODELS:
                for mesh in MESHES[count]:
                    if time.monotonic() > until:
                        print(f"left out: {name} on {mesh}")
                        continue
                    for row in rows_of(name, ranks, mesh, database):
                        rows.append(row)
                        print(line_of(row), flush=True)
            ranks.close()
    report(rows)


if __name__ == "__main__":
    main()
