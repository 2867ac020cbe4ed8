"""Answers that others have published, found again by the search, each with its paper's cost model.

    python -m tests.partition.search.known_answers

A cost model is a `Machine`: Alpa's examples count what is sent, so computing takes no time there; a
machine on which computing takes long leaves only the question of what is sent least. A row says
what was published, what the search finds, and whether it is the same; where it is not, why.
"""

from __future__ import annotations

import sys
import warnings
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

import dimsolve as ds
from dimsolve.partition.machine import Link, Machine
from dimsolve.partition.plan import Plan

SENDS = Machine(
    name="sends",
    flops={"": 1e30},
    memory=1 << 60,
    bandwidth=1e30,
    inside=Link(bandwidth=1e9, latency=0.0),
    outside=Link(bandwidth=1e9, latency=0.0),
    floor=0.0,
    efficiency=1.0,
)
"""Alpa's alpha = beta = 1 for long messages: a step takes what is sent."""

BALANCED = SENDS.model_copy(update={"name": "balanced", "flops": {"": 1e6}, "bandwidth": 1e30})
"""Computing takes long: every product is cut, and then as little is sent as may be."""


@dataclass(frozen=True)
class Answer:
    """One row."""

    case: str
    published: str
    found: str
    same: bool
    why: str = ""


class Linears(nn.Module):
    def __init__(self, width: int, count: int = 6) -> None:
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(width, width, bias=False) for _ in range(count)])

    def forward(self, x: Any) -> Any:
        for layer in self.layers:
            x = layer(x)
        return x.sum()


def sent(plan: Plan, sizes: dict[str, int]) -> Counter[tuple[str, str]]:
    """The collectives of a step, by kind and direction."""
    found: Counter[tuple[str, str]] = Counter()
    for each in plan.communication(sizes):
        found[each.collective, each.direction] += each.count
    return found


PRODUCTS_ONLY = BALANCED.model_copy(update={"name": "products", "flops": {"": 1e9}})
"""Products are worth cutting, and what is between them is not worth a message."""


def text(counts: Counter[tuple[str, str]]) -> str:
    return ", ".join(f"{n} {kind} {way}" for (kind, way), n in sorted(counts.items())) or "nothing"


def cuts(plan: Plan, name: str) -> list[str]:
    """What is cut of every operator of a name."""
    return [
        "+".join(sorted(str(s.identifier) for s in entry.splits.values())) or "whole"
        for entry in plan.operators
        if entry.name == name
    ]


def six_linears(batch: int, width: int) -> Answer:
    graph = ds.trace(Linears(width), (torch.randn(batch, width),), dynamic={"x": {0: "batch"}})
    sizes = {"batch": batch}
    plan = ds.plan(graph, {"x": 4}, "auto", machine=BALANCED, sizes=sizes)
    assert plan.search is not None and plan.search.optimal
    counts = sent(plan, sizes)
    bytes_sent = sum(each.bytes for each in plan.communication(sizes))
    if batch > width:
        published, words = 6 * width * width, "data parallel: 6 all-reduces of width * width"
    else:
        published, words = 5 * batch * width, "column and row in turn: 5 all-reduces of batch*width"
    # An all-reduce of n elements over 4 ranks sends 2 * 3/4 of them, of 4 bytes.
    wanted = published * 4 * 2 * 3 // 4
    slack = 8 * 2 * 3 // 4  # the loss itself
    same = wanted <= bytes_sent <= wanted + slack
    return Answer(
        f"6 linears, batch {batch}, width {width}, 4 ranks (Alpa)",
        words,
        f"{text(counts)}; {bytes_sent:,} bytes of a rank, published {wanted:,}; "
        f"linears cut {' '.join(cuts(plan, 'linear'))}",
        same,
    )


def bert(layers: int) -> Answer:
    import transformers as tf

    config = tf.BertConfig(
        vocab_size=127, hidden_size=64, intermediate_size=256, num_hidden_layers=layers,
        num_attention_heads=8, max_position_embeddings=64, hidden_dropout_prob=0.0,
        attention_probs_dropout_prob=0.0,
    )  # fmt: skip
    model = tf.BertModel(config, add_pooling_layer=False)
    ids = torch.zeros(1, 13, dtype=torch.int64)

    class Encoder(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.encoder = model.encoder

        def forward(self, x: Any) -> Any:
            return self.encoder(x).last_hidden_state

    with torch.no_grad():
        hidden = model.embeddings(ids)
    graph = ds.trace(Encoder(), (hidden,))
    plan = ds.plan(graph, {"x": 4}, "auto", machine=PRODUCTS_ONLY)
    assert plan.search is not None and plan.search.optimal
    counts = sent(plan, {})
    one = 13 * 64 * 4 * 2 * 3 // 4  # what a rank sends in an all-reduce of 13 * 64 numbers
    bytes_sent = sum(each.bytes for each in plan.communication({}))
    return Answer(
        f"BERT of {layers} layers, one sequence, 4 ranks (Alpa)",
        f"4L - 1 = {4 * layers - 1} all-reduces",
        f"{text(counts)}; as much as {bytes_sent / one:.4g} all-reduces",
        bytes_sent == (4 * layers - 1) * one,
        "a reduce-scatter and an all-gather send what an all-reduce does",
    )


def experts() -> Answer:
    import transformers as tf

    config = tf.MixtralConfig(
        vocab_size=128, hidden_size=64, intermediate_size=128, num_hidden_layers=1,
        num_attention_heads=8, num_key_value_heads=8, num_local_experts=16, use_cache=False,
        max_position_embeddings=64,
    )  # fmt: skip
    model = tf.MixtralForCausalLM(config)
    ids = torch.randint(0, 128, (8, 16))
    dims = {0: "batch", 1: "seq"}
    graph = ds.trace(
        model, kwargs={"input_ids": ids, "labels": ids}, dynamic={"input_ids": dims, "labels": dims}
    )
    sizes = {"batch": 8, "seq": 16}
    plan = ds.plan(graph, {"x": 4}, "auto", machine=BALANCED, sizes=sizes)
    counts = sent(plan, sizes)
    exchanged = sum(n for (kind, _), n in counts.items() if kind == "all-to-all")
    held = {p.name: p.placements for p in plan.parameters if "experts" in p.name}
    return Answer(
        "mixture of 16 experts, 4 ranks (Alpa)",
        "4 all-to-all, 1 all-reduce, experts cut",
        f"{text(counts)}; {'; '.join(f'{n} {p}' for n, p in list(held.items())[:2])}",
        exchanged == 4,
        ""
        if exchanged == 4
        else "transformers computes experts on rows in groups (G), which a rank takes from the "
        "whole batch: dispatch is no all-to-all in this graph",
    )


def llama(name: str, **sizes_of: int) -> Answer:
    import transformers as tf

    config = tf.LlamaConfig(
        vocab_size=1024, num_hidden_layers=1, use_cache=False, max_position_embeddings=8192,
        **sizes_of,
    )  # fmt: skip
    with torch.device("meta"):
        model = tf.LlamaForCausalLM(config).to(torch.bfloat16)
        ids = torch.zeros((1, 8192), dtype=torch.int64)
    graph = ds.trace(model, kwargs={"input_ids": ids, "labels": ids})
    machine = Machine.named("h100")
    plan = ds.plan(graph, {"tp": 8}, "auto", machine=machine, sizes={})
    assert plan.search is not None
    own = {
        entry.module.rpartition(".")[2]: "+".join(str(s) for s in entry.splits.values()) or "whole"
        for entry in plan.operators
        if entry.name == "linear"
    }
    tensor = ds.plan(graph, {"tp": 8}, "tensor").cost(machine=machine)
    columns = ("q_proj", "k_proj", "v_proj", "gate_proj", "up_proj")
    megatron = (
        all(own[each] == "n" for each in columns) and own["down_proj"] == own["o_proj"] == "k"
    )
    # b is the product of batch and sequence; the batch is 1
    wanted = own["o_proj"] == "b" if name == "8B" else megatron
    return Answer(
        f"Llama-3-{name}, one layer, sequence 8192, 8 ranks, h100 (AutoParallel)",
        "wo cut along the sequence" if name == "8B" else "Megatron throughout",
        f"{', '.join(f'{m}: {cut}' for m, cut in own.items())}; {text(sent(plan, {}))}; "
        f"{plan.search.seconds * 1e3:.3f} ms, proved {plan.search.optimal}; tensor "
        f"{tensor.seconds * 1e3:.3f} ms",
        wanted,
        "by our own model of an H100, without a limit of memory. A layer's input may be cut along "
        "its width, so that q, k and v are cut along it (k) for one reduce-scatter each"
        if not wanted
        else "by our own model of an H100, without a limit of memory",
    )


ROWS: dict[str, Callable[[], Answer]] = {
    "wide batch": lambda: six_linears(256, 32),
    "wide layers": lambda: six_linears(32, 256),
    "bert 1": lambda: bert(1),
    "bert 3": lambda: bert(3),
    "experts": experts,
    "llama 8B": lambda: llama(
        "8B", hidden_size=4096, intermediate_size=14336, num_attention_heads=32,
        num_key_value_heads=8,
    ),
    "llama 70B": lambda: llama(
        "70B", hidden_size=8192, intermediate_size=28672, num_attention_heads=64,
        num_key_value_heads=8,
    ),
}  # fmt: skip


def main(names: list[str]) -> None:
    for name in names or ROWS:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            row = ROWS[name]()
        print(f"{'same  ' if row.same else 'other '} {row.case}")
        for label, said in (("published", row.published), ("found", row.found), ("why", row.why)):
            if said:
                print(f"       {label}: {said}")
        sys.stdout.flush()


if __name__ == "__main__":
    main(sys.argv[1:])
