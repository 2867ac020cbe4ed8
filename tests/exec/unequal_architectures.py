"""Twelve architectures at counts that no even cut serves: equal to one device?

    python -m tests.exec.unequal_architectures [--gloo] [NAME ...]

Tiny widths, but a real vocabulary, few key-value heads, odd heads, prime widths. For every count
from 2 to 8 that a plan serves in unequal parts, all ranks run, on threads or as processes with
gloo, in float64: three AdamW steps, with batches of 3, 2 and 5 rows; the largest difference of loss
and logits to one device is printed, and what the fullest rank holds of an equal share of the
parameters. Likewise along three data ranks, one of which has nothing of 2 rows. Then, of ranks on
threads, a checkpoint: three gloo ranks train and save, two and one load, and give what these gave.
"""

from __future__ import annotations

import json
import sys
import tempfile
import warnings
from collections.abc import Iterator
from contextlib import nullcontext
from copy import deepcopy
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

import dimsolve as ds
from dimsolve.exec.running.comparable import without_narrowing
from tests.oracles.one_device import parts

ROWS = (3, 2, 5)
COUNTS = range(2, 9)
TOLERANCE = 1e-9

LENGTHS = {"num_hidden_layers": 1, "max_position_embeddings": 32, "attention_dropout": 0.0}
ARCHITECTURES: dict[str, tuple[str, dict[str, Any]]] = {
    "gpt2": ("GPT2LMHeadModel", {"vocab_size": 50257, "n_embd": 20, "n_head": 5, "n_layer": 1}),
    "llama": ("LlamaForCausalLM", {"num_attention_heads": 8, "num_key_value_heads": 2}),
    "llama_7": ("LlamaForCausalLM", {"num_attention_heads": 7, "hidden_size": 56}),
    "qwen2": ("Qwen2ForCausalLM", {"num_attention_heads": 6, "num_key_value_heads": 2}),
    "qwen3": ("Qwen3ForCausalLM", {"num_attention_heads": 8, "num_key_value_heads": 4}),
    "mistral": ("MistralForCausalLM", {"num_attention_heads": 6, "num_key_value_heads": 3}),
    "gemma2": ("Gemma2ForCausalLM", {"num_attention_heads": 6, "num_key_value_heads": 2}),
    "phi": ("PhiForCausalLM", {"num_attention_heads": 5, "hidden_size": 40}),
    "gpt_neox": ("GPTNeoXForCausalLM", {"num_attention_heads": 7, "hidden_size": 56}),
    "opt": ("OPTForCausalLM", {"num_attention_heads": 5, "hidden_size": 40, "ffn_dim": 53}),
    "starcoder2": ("Starcoder2ForCausalLM", {"num_attention_heads": 6, "num_key_value_heads": 2}),
    "bert": ("BertForMaskedLM", {"num_attention_heads": 5, "hidden_size": 40}),
}


class Model(NamedTuple):
    """A model in float64, an example call, and the names of its dimensions."""

    model: nn.Module
    example: dict[str, Tensor]
    names: dict[str, dict[int, str]]


class Outcome(NamedTuple):
    """What one count gave. difference: the largest one of all steps and ranks. share: of the
    fullest rank, in equal shares of all parameters.
    """

    difference: float
    share: float


def built(name: str) -> Model:
    """Returns the model, with the same weights each time."""
    import transformers

    kind, own = ARCHITECTURES[name]
    settings = own
    if name != "gpt2":
        wide = {"hidden_size": 48, "intermediate_size": 53, "vocab_size": 97, "head_dim": 8}
        heads = {"num_key_value_heads": own["num_attention_heads"]}
        settings = {**LENGTHS, **wide, **heads, **own}
    if name == "opt":
        settings = {**settings, "word_embed_proj_dim": 40}
    config = getattr(transformers, kind).config_class(**settings, pad_token_id=None)
    config.use_cache = False
    torch.manual_seed(0)
    model = getattr(transformers, kind)(config).double().eval()
    names = {key: {0: "batch", 1: "seq"} for key in ("input_ids", "labels")}
    return Model(model, batch(model, 2, 0), names)


def batch(model: nn.Module, rows: int, seed: int) -> dict[str, Tensor]:
    """Returns one call of so many rows of six tokens."""
    config: Any = model.config
    draw = torch.Generator().manual_seed(seed)
    ids = torch.randint(config.vocab_size, (rows, 6), generator=draw)
    return {"input_ids": ids, "labels": ids.clone()}


def counts_of(graph: ds.Graph) -> list[int]:
    """Returns the counts that are not legal evenly and that a plan serves."""
    return sorted(graph.legal_parts("tp", "tensor", up_to=max(COUNTS)).uneven)


def trained(given: Model, plan: ds.Plan, *, wide: bool = True) -> Outcome:
    """Trains every rank's part beside the whole model. wide: in float64 also where the model goes
    to float32 by itself.
    """
    mesh = {axis: int(size) for axis, size in plan.mesh.items()}
    ranks = parts(given.model, plan, mesh, lambda part: beside(given, part, wide))
    return outcome_of(given, ranks)


def beside(given: Model, part: Any, wide: bool = True) -> tuple[float, int]:
    """Trains a rank's part beside the whole model; returns the largest difference, and how many
    elements of parameters the rank has.
    """
    whole = deepcopy(given.model)
    runs = [(net, torch.optim.AdamW(net.parameters(), lr=1e-2)) for net in (part, whole)]
    largest = 0.0
    with without_narrowing() if wide else nullcontext():
        for step, rows in enumerate(ROWS):
            found = []
            for net, optimizer in runs:
                optimizer.zero_grad()
                output = net(**batch(given.model, rows, step))
                output.loss.backward()
                optimizer.step()
                found.append((output.loss.detach(), output.logits.detach()))
            for one, other in zip(*found, strict=True):
                largest = max(largest, float((one - other).abs().max()))
    return largest, sum(each.numel() for each in part.parameters())


def outcome_of(given: Model, ranks: list[tuple[float, int]]) -> Outcome:
    """What all ranks gave."""
    total = sum(each.numel() for each in given.model.parameters())
    fullest = max(held for _, held in ranks)
    return Outcome(max(largest for largest, _ in ranks), fullest * len(ranks) / total)


def on_gloo(name: str, graph: str, axis: str, count: int) -> tuple[float, int]:
    """What a rank of gloo does; graph: as JSON."""
    given, read = built(name), ds.Graph.from_json(json.loads(graph), trust=("torch.Size",))
    policy, uneven = ("data", "allow") if axis == "dp" else ("tensor", "parameters")
    plan = ds.plan(read, {axis: count}, policy, uneven=uneven)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return beside(given, ds.parallelize(given.model, plan))


def rows_on_gloo(name: str) -> Iterator[tuple[str, Outcome]]:
    """Yields every count along tp and three ranks along dp, and what gloo's ranks gave."""
    from tests.oracles.ranks import Ranks

    given = built(name)
    graph = ds.trace(given.model, kwargs=given.example, dynamic=given.names)
    text = json.dumps(graph.to_json())
    for axis, count in (*(("tp", count) for count in counts_of(graph)), ("dp", 3)):
        ranks = Ranks(count)
        try:
            found = ranks.run(on_gloo, name, text, axis, count)
        finally:
            ranks.close()
        yield f"{axis}={count}", outcome_of(given, found)


def outcomes(name: str) -> Iterator[tuple[int, Outcome]]:
    """Yields every count that is served in unequal parts, and what it gave."""
    given = built(name)
    graph = ds.trace(given.model, kwargs=given.example, dynamic=given.names)
    for count in counts_of(graph):
        yield count, trained(given, ds.plan(graph, {"tp": count}, "tensor"))


def batches(given: Model) -> ds.Plan:
    """Returns a plan along three data ranks that takes batches of any size."""
    graph = ds.trace(given.model, kwargs=given.example, dynamic=given.names)
    return ds.plan(graph, {"dp": 3}, "data", uneven="allow")


def stored(name: str, folder: str, count: int, *, save: bool) -> list[float]:
    """What a rank of gloo does: trains a step and saves, or loads; returns some of the logits."""
    from torch.distributed.checkpoint.state_dict_loader import load
    from torch.distributed.checkpoint.state_dict_saver import save as store

    given = built(name)
    if not save:
        with torch.no_grad():
            for each in given.model.parameters():
                each.zero_()
    graph = ds.trace(given.model, kwargs=given.example, dynamic=given.names)
    part = ds.parallelize(given.model, ds.plan(graph, {"tp": count}, "tensor"))
    if save:
        optimizer = torch.optim.AdamW(part.parameters(), lr=1e-2)
        with without_narrowing():
            part(**given.example).loss.backward()
        optimizer.step()
        store(part.state_dict(), checkpoint_id=folder)
    else:
        state = part.state_dict()
        load(state, checkpoint_id=folder)
        part.load_state_dict(state)
    with without_narrowing():
        logits: Tensor = part(**given.example).logits
    return [float(each) for each in logits.detach().flatten()[:50]]


def loaded(name: str) -> float:
    """Saves at three ranks, loads at two and at one; returns the largest difference."""
    from tests.oracles.ranks import world

    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        saved = world(3).run(stored, name, folder, 3, save=True)[0]
        found = world(2).run(stored, name, folder, 2, save=False)
        found.append(stored(name, folder, 1, save=False))
    return float(max(abs(a - b) for each in found for a, b in zip(saved, each, strict=True)))


def main(names: list[str], *, gloo: bool = False) -> int:
    """Prints a row for every count; returns how many differ."""
    wrong = 0
    print("| model | ranks | largest difference | share of the fullest rank |\n|---|---|---|---|")
    for name in names if gloo else ():
        for place, (difference, share) in rows_on_gloo(name):
            wrong += difference > TOLERANCE
            print(f"| {name} | {place} | {difference:.1e} | {share:.3f} |", flush=True)
    for name in () if gloo else names:
        for count, (difference, share) in outcomes(name):
            wrong += difference > TOLERANCE
            print(f"| {name} | tp={count} | {difference:.1e} | {share:.3f} |", flush=True)
        given = built(name)
        plan = batches(given)
        difference = trained(given, plan).difference
        wrong += difference > TOLERANCE or any("%" in each for each in plan.conditions)
        print(f"| {name} | dp=3, {plan.conditions} | {difference:.1e} | |", flush=True)
        difference = loaded(name)
        wrong += difference > TOLERANCE
        print(f"| {name} | saved at 3, loaded at 2 and 1 | {difference:.1e} | |", flush=True)
    return wrong


if __name__ == "__main__":
    named = [word for word in sys.argv[1:] if word != "--gloo"]
    sys.exit(min(main(named or list(ARCHITECTURES), gloo="--gloo" in sys.argv), 1))
