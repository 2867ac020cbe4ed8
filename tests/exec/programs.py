"""What a part hands out and what it draws, beside one device."""

from __future__ import annotations

from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn

import dimsolve as ds
from tests.oracles.traces import shared_on_demand, shared_trace

VOCABULARY = 96
TOKENS = {0: "batch", 1: "seq"}
SMALL = {
    "vocab_size": VOCABULARY,
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 1,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 128,
}


def llama() -> Any:
    from transformers import LlamaConfig, LlamaForCausalLM

    torch.manual_seed(0)
    config: Any = LlamaConfig(**SMALL, eos_token_id=None, bos_token_id=None)
    return LlamaForCausalLM(config).double()


def prompts() -> Tensor:
    return torch.randint(VOCABULARY, (4, 6), generator=torch.Generator().manual_seed(1))


def train(model: nn.Module, ids: Tensor) -> list[float]:
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    losses = []
    for _ in range(3):
        loss = model(input_ids=ids, labels=ids).loss
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        losses.append(loss.item())
    return losses


def bytes_of(module: nn.Module) -> int:
    return sum(t.numel() * t.element_size() for t in [*module.parameters(), *module.buffers()])


def difference(a: Any, b: Any) -> float:
    first, second = (torch.as_tensor(x, dtype=torch.float64) for x in (a, b))
    assert first.shape == second.shape
    return float((first - second).abs().max())


def handed_out(outputs: Any) -> dict[str, str]:
    """What a part hands out, in words; the backward pass is that of the whole."""
    model, ids = llama(), prompts()
    kwargs = {"input_ids": ids, "labels": ids, "use_cache": False}
    names = {"input_ids": TOKENS, "labels": TOKENS}
    graph = shared_trace("handed out", model, kwargs=kwargs, dynamic=names)
    part = ds.parallelize(model, ds.plan(graph, {"tp": 2}), outputs=outputs)
    given, wanted = part(**kwargs), model(**kwargs)
    (given.loss * 2).backward()
    (wanted.loss * 2).backward()
    norm, whole = part.get_parameter("model.norm.weight"), model.model.norm.weight
    assert difference(norm.grad, whole.grad) < 1e-12
    words = {}
    for name, value in given.items():
        full = value.full_tensor() if hasattr(value, "full_tensor") else value
        assert difference(full.detach(), wanted[name].detach()) < 1e-12
        words[name] = f"{type(value).__name__} {tuple(value.shape)} "
        words[name] += " ".join(map(str, getattr(value, "placements", ())))
    return {name: text.strip() for name, text in words.items()}


def windowed() -> Any:
    """A model whose first layer attends to a window of 4 tokens, and its last to all."""
    from transformers import Gemma3ForCausalLM, Gemma3TextConfig

    torch.manual_seed(0)
    layers = ["sliding_attention", "full_attention"]
    others = {"head_dim": 8, "query_pre_attn_scalar": 8, "sliding_window": 4}
    sizes = {**SMALL, "num_hidden_layers": 2, "layer_types": layers, "eos_token_id": None}
    config: Any = Gemma3TextConfig(**{**sizes, **others})
    return Gemma3ForCausalLM(config).double()


def with_static_cache(mesh: dict[str, int], sampled: bool, windows: bool = False) -> list[str]:
    """Generates with a cache of one length, which every step writes to; asserts that the tokens are
    one device's. Returns the placements of keys. windows: a layer forgets what has left its window.
    """
    model, ids = (windowed() if windows else llama()).eval(), prompts()
    names = {"input_ids": TOKENS}
    kwargs = {"input_ids": ids, "use_cache": False}
    graph = shared_trace(f"static cache {windows}", model, kwargs=kwargs, dynamic=names)
    part: Any = ds.parallelize(model, ds.plan(graph, mesh))
    found = []
    for module in (model, part):
        torch.manual_seed(3)
        with shared_on_demand(f"static cache {windows}"):
            found.append(
                module.generate(
                    ids,
                    max_new_tokens=8,
                    do_sample=sampled,
                    cache_implementation="static",
                    return_dict_in_generate=True,
                )
            )
    wanted, given = found
    assert torch.equal(wanted.sequences, given.sequences)
    keys, whole = (each.past_key_values.layers[-1].keys for each in (given, wanted))
    assert difference(keys.full_tensor(), whole) < 1e-12
    return [str(placement) for placement in keys.placements]


class Writing(nn.Module):
    """Writes to what it is given: to one tensor as a whole, to a view of another one."""

    def __init__(self) -> None:
        super().__init__()
        self.up, self.down = nn.Linear(8, 16, dtype=torch.double), nn.Linear(16, 8).double()

    def forward(self, x: Tensor, seen: Tensor, first: Tensor) -> Tensor:
        hidden = self.up(x)
        seen.add_(hidden)
        first[0] += 1
        return self.down(seen * 2) + first


def written(axis: str, placed: bool) -> list[str]:
    """Calls a part that writes to its arguments, twice; asserts that the caller sees what one
    device writes. Returns how the plan cuts them.
    """
    from torch.distributed.tensor import Shard, distribute_tensor

    torch.manual_seed(0)
    model = Writing()
    shapes = {"x": (4, 8), "seen": (4, 16), "first": (4, 8)}
    example = {name: torch.randn(shape).double() for name, shape in shapes.items()}
    names = {name: {0: "batch"} for name in shapes}
    plan = ds.plan(ds.trace(model, kwargs=example, dynamic=names), {axis: 2})
    part: Any = ds.parallelize(model, plan)
    given: dict[str, Any] = {name: value.clone() for name, value in example.items()}
    if placed:
        for name, dim in (("seen", 1), ("first", 0)):
            given[name] = distribute_tensor(given[name], part.device_mesh, [Shard(dim)])
    with torch.no_grad():
        for _ in range(2):
            assert difference(model(**example), part(**given)) < 1e-12
    for name, value in given.items():
        whole = value.full_tensor() if hasattr(value, "full_tensor") else value
        assert difference(whole, example[name]) < 1e-12
    inputs = {entry.name: entry.placements[0] for entry in plan.inputs}
    return [inputs["seen"], inputs["first"]]


class Dropping(nn.Module):
    """Dropout of what is cut by columns, of what is whole, and of rows in another order; and
    numbers of which there are as many as something cut has rows or elements.
    """

    def __init__(self, kind: str = "") -> None:
        super().__init__()
        self.kind = kind
        self.up, self.down = nn.Linear(16, 32), nn.Linear(32, 16)

    def forward(self, x: Tensor) -> Tensor:
        h = nn.functional.dropout(self.up(x), 0.5, self.training)
        if self.kind == "turned":
            h = nn.functional.dropout(h.transpose(0, 1), 0.25, self.training).transpose(0, 1)
        if self.kind == "in place":
            h = nn.functional.dropout(h * 2, 0.25, self.training, inplace=True)
        if self.kind == "rows":
            h = h * torch.rand(x.shape[0], 1) + torch.rand(4, 1)[:1] * torch.randn(8)[:1]
        if self.kind == "like":
            h = h + torch.randn_like(h) + torch.normal(0.0, 1.0, h.shape)
        if self.kind == "filled":
            h = h * h.new_empty(h.shape[0], 1).bernoulli_(0.5) + torch.empty_like(h).uniform_(-1, 1)
        if self.kind == "alpha":
            h = nn.functional.alpha_dropout(h, 0.25, self.training)
        return nn.functional.dropout(self.down(h), 0.5, self.training)


def as_one_device(kind: str, axis: str, seed: int = 7, rows: int = 4) -> tuple[float, bool] | str:
    """How far outputs and gradients of two steps are from one device's, and whether torch's
    generator is left in the same state; or the error in words.
    """
    torch.manual_seed(0)
    model = Dropping(kind).double()
    x = torch.randn(4, 16).double()
    plan = ds.plan(ds.trace(model, kwargs={"x": x}, dynamic={"x": {0: "batch"}}), {axis: 2})
    x = x[:rows]
    results, states = [], []
    try:
        part = ds.parallelize(model, plan, randomness="one-device")
        for module in (part, model):
            torch.manual_seed(seed + (dist.get_rank() if seed != 7 else 0))
            outs = [module(x=x) for _ in range(2)]
            (outs[0] * outs[1]).sum().backward()
            results.append(outs)
            states.append(torch.get_rng_state())
    except ds.DimsolveError as error:
        return f"{type(error).__name__}: {error}"
    worst = max(difference(a.detach(), b.detach()) for a, b in zip(*results, strict=True))
    held = part.held("up.weight")
    grads = [part.get_parameter("up.weight").grad, held.part(model.up.weight.grad)]  # type: ignore[arg-type]
    return max(worst, difference(*grads)), torch.equal(*states)


def caught(bad: int | None) -> list[str]:
    """What is raised by a batch with a token that is too large, in the rows of one rank or of all,
    and by what follows: the call of a good batch, and another part.
    """
    torch.manual_seed(0)
    model = nn.Sequential(nn.Embedding(12, 8), nn.Linear(8, 8))
    good = torch.ones(4, 6, dtype=torch.long)
    graph = ds.trace(model, args=(good,))
    part = ds.parallelize(model, ds.plan(graph, {"dp": 2}))
    wrong = good.clone()
    wrong[slice(None) if bad is None else slice(2 * bad, 2 * bad + 2)] = 50
    said = []
    for batch in (wrong, good, good):
        try:
            part(batch)
            ds.parallelize(model, ds.plan(graph, {"tp": 2}))
            said.append("")
        except Exception as error:
            said.append(f"{type(error).__name__}: {error}")
    return said


def generated(name: str, mesh: dict[str, int]) -> list[str]:
    """Generates with an encoder and a decoder, greedily, by beams and drawn; returns the ways whose
    tokens are not those of one device, and the methods that find another module.
    """
    import transformers

    torch.manual_seed(0)
    lengths = {"vocab_size": 31, "d_model": 12, "decoder_start_token_id": 2, "pad_token_id": 0}
    heads = {f"{side}_attention_heads": 2 for side in ("encoder", "decoder")}
    layers = {f"{side}_layers": 1 for side in ("encoder", "decoder")}
    widths = {f"{side}_ffn_dim": 20 for side in ("encoder", "decoder")}
    own: dict[str, Any] = {**heads, **layers, **widths, "forced_eos_token_id": None}
    if name == "T5":
        own = {"d_kv": 4, "d_ff": 20, "num_layers": 1, "num_heads": 2}
    config = getattr(transformers, f"{name}Config")(**lengths, **own)
    model = getattr(transformers, f"{name}ForConditionalGeneration")(config).double().eval()
    ids = torch.randint(3, 31, (2, 5))
    given = {"input_ids": ids, "decoder_input_ids": ids[:, :3]}
    dynamic = {"input_ids": {0: "batch", 1: "seq"}, "decoder_input_ids": {0: "batch", 1: "t"}}
    graph = shared_trace(f"generates {name}", model, kwargs=given, dynamic=dynamic)
    part = ds.parallelize(model, ds.plan(graph, mesh)).eval()
    wrong = []
    for way in ({"do_sample": False}, {"num_beams": 2, "do_sample": False}, {"do_sample": True}):
        tokens = []
        for module in (part, model):
            torch.manual_seed(1)
            with shared_on_demand(f"generates {name}"):
                tokens.append(module.generate(ids, max_new_tokens=6, **way))
        wrong += [] if torch.equal(*tokens) else [str(way)]
    paths = {each: path for path, each in model.named_modules()}
    for method in ("get_encoder", "get_decoder", "get_input_embeddings", "get_output_embeddings"):
        found = getattr(part, method)()
        if found is not part.get_submodule(paths[getattr(model, method)()]):
            wrong.append(method)
    return wrong
