"""Law: what a model runs again in the backward pass, a rank runs again: it keeps as little as one
device does, computes as much twice, and gives the same outputs, gradients and buffers.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from copy import deepcopy
from functools import partial
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.utils.checkpoint import (
    checkpoint,
    create_selective_checkpoint_contexts,
    noop_context_fn,
)

import dimsolve as ds
from tests.exec import recomputed
from tests.exec.recomputed import (
    Counting,
    Nested,
    Normed,
    NormedBlock,
    Several,
    Stack,
    Switching,
    Twice,
)
from tests.oracles.one_device import parts
from tests.oracles.ranks import world

ALL_ARGUMENTS: dict[str, Any] = {
    "early_stop": False,
    "determinism_check": "none",
    "preserve_rng_state": False,
}
MODELS: dict[str, Callable[[], nn.Module]] = {
    "not a region": lambda: Stack(None),
    "blocks": lambda: Stack({"use_reentrant": False}),
    "reentrant blocks": lambda: Stack({"use_reentrant": True}),
    "blocks, as torch has it": lambda: Stack({}),
    "blocks, all arguments": lambda: Stack({"use_reentrant": False, **ALL_ARGUMENTS}),
    "several arguments and results": Several,
    "nested": Nested,
    "nested, both reentrant": lambda: Nested(True, True),
    "nested, the inner reentrant": lambda: Nested(False, True),
    "nested, the outer reentrant": lambda: Nested(True, False),
    "one module, three regions": Twice,
    "gradients not recorded within": lambda: Switching(False),
    "gradients not recorded within, reentrant": lambda: Switching(True),
    "batch norm": Normed,
    "batch norm, reentrant": lambda: Normed(reentrant=True),
    "batch norm last": lambda: Normed(last=True),
    "batch norm in a block": NormedBlock,
    "a count at the end": lambda: Counting(early_stop=True),
    "a count at the end, run to it": lambda: Counting(early_stop=False),
}
MESHES = [{"tp": 2}, {"dp": 2}, {"dp": 2, "tp": 2}]


def planned(model: nn.Module, x: Tensor, mesh: dict[str, int]) -> ds.Plan:
    torch._dynamo.reset()
    return ds.plan(ds.trace(model, kwargs={"x": x}, dynamic={"x": {0: "batch"}}), mesh)


def steps(module: nn.Module, x: Tensor, *, wants_gradient: bool) -> recomputed.Step:
    """The second of two steps, so that gradients add up and buffers are carried."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch asks for use_reentrant
        recomputed.step(module, x, wants_gradient=wants_gradient)
        return recomputed.step(module, x, wants_gradient=wants_gradient)


@pytest.mark.parametrize("mesh", MESHES, ids=str)
@pytest.mark.parametrize("name", MODELS)
def test_a_rank_runs_again_what_one_device_does(name: str, mesh: dict[str, int]) -> None:
    torch.manual_seed(0)
    model = MODELS[name]().double()
    x = torch.randn(4, 8, dtype=torch.float64)
    for wants_gradient in (False, True):
        plan = planned(model, x, mesh)
        one = steps(deepcopy(model), x, wants_gradient=wants_gradient)

        def work(
            part: Any,
            one: recomputed.Step = one,
            wants_gradient: bool = wants_gradient,
            plan: ds.Plan = plan,
        ) -> None:
            mine = steps(part, x, wants_gradient=wants_gradient)
            found = recomputed.differences(part, mine, one)
            assert max(found.values()) <= 1e-12, found
            assert mine.again == one.again
            if plan.regions:  # beside what one device keeps, its part of x, and a number
                assert mine.saved <= one.saved + x.nbytes // 2 + 8

        parts(model, plan, mesh, work)


@pytest.mark.parametrize("backend", ["", "aot_eager"])
@pytest.mark.parametrize("mesh", MESHES[:2], ids=str)
@pytest.mark.parametrize(
    "name", ["blocks", "reentrant blocks", "nested, the outer reentrant", "batch norm"]
)
def test_real_ranks_run_it_again_together(name: str, mesh: dict[str, int], backend: str) -> None:
    for found, mine, one in world(2).run(recomputed.on_this_rank, name, mesh, backend):
        assert max(v for k, v in found.items() if not (backend and "norm." in k)) <= 1e-12, found
        if not backend:
            assert mine.again == one.again


@pytest.mark.parametrize("settings", [{}, {"use_reentrant": True}])
@pytest.mark.parametrize("mesh", MESHES, ids=str)
def test_what_is_drawn_again_is_the_same(mesh: dict[str, int], settings: dict[str, Any]) -> None:
    """Also where other runs have begun before the backward pass."""
    torch.manual_seed(0)
    models = [
        Stack(None, rate=0.5).double(),
        Stack({"use_reentrant": False, **settings}, rate=0.5).double(),
    ]
    models[1].load_state_dict(models[0].state_dict())
    x = torch.randn(4, 8, dtype=torch.float64)
    kept = []
    for model in models:
        plan = planned(model, x, mesh)

        def work(part: Any) -> list[Tensor]:
            if part.ends.rank == 0:
                torch.manual_seed(7)
            first, second = part(x=x), part(x=2 * x)
            part(x=3 * x)
            (first + 2 * second).backward()
            return [first.detach(), second.detach(), *[p.grad for p in part.parameters()]]

        kept.append(parts(model, plan, mesh, work))
    for plain, again in zip(*kept, strict=True):
        for a, b in zip(plain, again, strict=True):
            torch.testing.assert_close(a, b, rtol=0, atol=1e-12)


@pytest.mark.parametrize("reentrant", [False, True])
def test_nothing_is_run_again_where_nothing_is_recorded(reentrant: bool) -> None:
    model = Stack({"use_reentrant": reentrant}, rate=0.5).double().eval()
    x = torch.randn(4, 8, dtype=torch.float64)

    def work(part: Any) -> None:
        with torch.no_grad(), recomputed.Ops() as ops:
            found = part(x=x)
        assert not found.requires_grad and ops.counts["aten.gelu"] == 3
        torch.testing.assert_close(found, model(x), rtol=0, atol=1e-12)
        again = recomputed.step(part, x).again
        assert again["gelu"] == 3  # in evaluation with gradients it is, as on one device

    parts(model, planned(model, x, {"tp": 2}), {"tp": 2}, work)


@pytest.mark.parametrize("name", [name for name in MODELS if name != "batch norm, reentrant"])
def test_a_graph_that_is_run_runs_it_again(name: str) -> None:
    torch.manual_seed(0)
    torch._dynamo.reset()
    model = MODELS[name]().double()
    x = torch.randn(4, 8, dtype=torch.float64)
    graph = ds.trace(model, kwargs={"x": x})
    one = steps(deepcopy(model), x, wants_gradient=True)
    for made in (graph, ds.Graph.from_json(graph.to_json())):
        copy = deepcopy(model)
        copy.forward = lambda x, made=made, copy=copy: made.run(x=x, state=copy)  # type: ignore
        mine = steps(copy, x, wants_gradient=True)
        assert mine.again == one.again and mine.saved <= one.saved + 8
        for name, gradient in one.gradients.items():
            torch.testing.assert_close(mine.gradients[name], gradient, rtol=0, atol=1e-12)
        for name, buffer in one.buffers.items():
            torch.testing.assert_close(mine.buffers[name], buffer, rtol=0, atol=1e-12)


class Chained(nn.Module):
    """What the second region takes is a sum over ranks of what the first gives."""

    def __init__(self, settings: dict[str, Any] | None) -> None:
        super().__init__()
        self.lin = nn.ModuleList([nn.Linear(8, 8, bias=False) for _ in range(4)])
        self.settings = settings

    def pair(self, x: Tensor, first: int) -> Tensor:
        return self.lin[first + 1](self.lin[first](x).tanh())

    def forward(self, x: Tensor) -> Tensor:
        for first in (0, 2):
            if self.settings is None:
                x = self.pair(x, first)
            else:
                x = checkpoint(self.pair, x, first, **self.settings)
        return x.pow(2).mean()


@pytest.mark.parametrize("reentrant", [False, True])
def test_sums_of_what_a_region_takes_are_not_sent_again(reentrant: bool) -> None:
    """They need no more memory than what they are sums of."""
    x, sent = torch.randn(4, 8, dtype=torch.float64, requires_grad=True), []
    for settings in (None, {"use_reentrant": reentrant}):
        model = Chained(settings).double()
        plan = planned(model, x.detach(), {"tp": 2})

        def work(part: Any) -> int:
            calls = 0
            end = part.ends.communicators["tp"]
            ask = end._ask

            def counted(*args: Any) -> Tensor:
                nonlocal calls
                calls += 1
                return ask(*args)  # type: ignore[no-any-return]

            end._ask = counted
            part(x=x).backward()
            return calls

        sent.append(parts(model, plan, {"tp": 2}, work))
    assert sent[0] == sent[1] == [4, 4]


@pytest.mark.parametrize("name", ["blocks", "nested", "gradients not recorded within"])
def test_the_emitted_program_runs_it_again(name: str) -> None:
    torch.manual_seed(0)
    model = MODELS[name]().double()
    x = torch.randn(4, 8, dtype=torch.float64)

    def work(part: Any) -> None:
        space: dict[str, Any] = {}
        exec(compile(part.source(), "emitted", "exec"), space)  # what a reader of it would run
        state = part.tensors_of(part.program)
        ends = part.ends.communicators
        one = recomputed.step(part, x)
        wanted = {n: None if p.grad is None else p.grad.clone() for n, p in part.named_parameters()}
        part.zero_grad()
        loss = space["forward"](x, *state, **ends)
        with recomputed.Ops() as ops:
            loss.backward()
        assert torch.equal(loss, one.loss)
        assert {each: ops.counts[f"aten.{each}"] for each in recomputed.NAMES} == one.again
        for n, p in part.named_parameters():
            torch.testing.assert_close(p.grad, wanted[n], rtol=0, atol=0)

    parts(model, planned(model, x, {"tp": 2}), {"tp": 2}, work)


def test_the_emitted_program_names_what_is_drawn() -> None:
    model = Stack({"use_reentrant": False, "early_stop": False}, rate=0.5)
    part = ds.parallelize(model, planned(model, torch.randn(4, 8), {"tp": 1}))
    lines = [line.strip() for line in part.source().splitlines()]
    assert "from torch.utils.checkpoint import checkpoint" in lines
    assert any(line.startswith("def run_tag_activation_checkpoint(") for line in lines)
    call = next(line for line in lines if line.startswith("tag_activation_checkpoint = "))
    assert "checkpoint(draws.repeating(run_tag_activation_checkpoint), " in call
    assert "use_reentrant=False, early_stop=False)" in call


def select() -> Any:
    return create_selective_checkpoint_contexts([torch.ops.aten.addmm.default])


class Choosing(nn.Module):
    """Says what is kept of a region: by a function, by what a partial makes, or as torch does."""

    def __init__(self, how: str) -> None:
        super().__init__()
        self.block, self.how, self.kept = recomputed.Block(), how, {"context_fn": select}

    def forward(self, x: Tensor) -> Tensor:
        if self.how == "a function":
            return checkpoint(self.block, x, use_reentrant=False, context_fn=select)
        if self.how == "looked up":
            return checkpoint(self.block, x, use_reentrant=False, **self.kept)
        if self.how == "a partial":
            return checkpoint(self.block, x, use_reentrant=False, context_fn=partial(select))
        return checkpoint(self.block, x, use_reentrant=False, context_fn=noop_context_fn)


@pytest.mark.parametrize("how", ["a function", "looked up", "a partial", "torch's own"])
def test_a_choice_of_what_is_kept_is_refused(how: str) -> None:
    torch._dynamo.reset()
    with pytest.raises(ds.TraceError) as caught:
        ds.trace(Choosing(how), args=(torch.randn(4, 8),))
    first, code, *rest = str(caught.value).splitlines()
    assert first.startswith("torch.utils.checkpoint is given a context_fn at ")
    assert "return checkpoint(self.block, x, use_reentrant=False, " in code
    assert rest == [
        "  it chooses among the operators that run on one device, and a rank runs others; a region "
        "is run again as a whole",
        "  hint: leave context_fn out, or checkpoint smaller parts of the model",
    ]


def test_a_reentrant_region_that_takes_no_gradient_is_refused() -> None:
    """One device gives its parameters none, and warns, unless they are arguments."""

    class First(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.block = recomputed.Block()

        def forward(self, x: Tensor) -> Tensor:
            return checkpoint(self.block, x, use_reentrant=True).sum()

    model, x = First().double(), torch.randn(4, 8, dtype=torch.float64)

    def work(part: Any) -> str:
        recomputed.step(part, x, wants_gradient=True)
        with torch.no_grad():
            part(x=x)
        with pytest.raises(ds.DimsolveError) as caught:
            part(x=x)
        return str(caught.value)

    assert parts(model, planned(model, x, {"tp": 2}), {"tp": 2}, work) == 2 * [
        "nothing that tag_activation_checkpoint takes has a gradient, and its parameters have\n"
        "  it is checkpointed with use_reentrant=True: torch gives such parameters no gradient, "
        "unless they are arguments\n"
        "  hint: checkpoint(..., use_reentrant=False), or an input that requires a gradient"
    ]


def test_a_failure_within_names_its_step() -> None:
    """In the forward pass, and when it is run again."""
    from dimsolve.exec.parallel.faults import failure_of

    model, x = Stack({"use_reentrant": False}), torch.randn(4, 8)
    part = ds.parallelize(model, planned(model, x, {"tp": 1}))
    weight = part.get_parameter("blocks.1.up.weight")
    shape, found = weight.shape, []
    with pytest.raises(RuntimeError) as forward:
        weight.data = torch.ones(7, 7)
        part(x=x)
    weight.data = torch.ones(shape)
    loss = part(x=x)
    with pytest.raises(RuntimeError) as backward:
        weight.data = torch.ones(7, 7)
        loss.backward()
    for caught, program in ((forward, part.program), (backward, None)):
        found.append(failure_of(caught.value, 0, "rank 0", program).node)
    assert found == ["tag_activation_checkpoint_1_linear"] * 2


@pytest.mark.parametrize("settings", [None, {"use_reentrant": True}], ids=str)
@pytest.mark.parametrize("mesh", MESHES[:2], ids=str)
def test_llama_with_gradient_checkpointing(mesh: dict[str, int], settings: Any) -> None:
    from transformers import LlamaConfig, LlamaForCausalLM

    torch.manual_seed(0)
    torch._dynamo.reset()
    sizes = {"vocab_size": 64, "hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2}
    heads = {"num_attention_heads": 4, "num_key_value_heads": 2, "use_cache": False}
    model = LlamaForCausalLM(LlamaConfig(**sizes, **heads)).double().train()
    model.gradient_checkpointing_enable(gradient_checkpointing_kwargs=settings)
    ids = torch.randint(0, 64, (4, 16))
    batch = {"input_ids": ids, "labels": ids}
    names = {name: {0: "batch", 1: "seq"} for name in batch}
    plan = ds.plan(ds.trace(model, kwargs=batch, dynamic=names), mesh)
    assert len(plan.regions) == 2
    one = deepcopy(model)
    loss = one(**batch).loss
    with recomputed.Ops() as ops:
        loss.backward()

    def work(part: Any) -> None:
        mine = part(**batch).loss
        with recomputed.Ops() as again:
            mine.backward()
        assert abs(float(mine - loss)) <= 1e-12
        assert again.counts["aten.silu"] == ops.counts["aten.silu"] == 2
        for name, parameter in one.named_parameters():
            wanted = part.held(name).part(parameter.grad)
            found = part.get_parameter(name).grad
            torch.testing.assert_close(found, wanted, rtol=0, atol=1e-12)

    parts(model, plan, mesh, work)


class Masked(nn.Module):
    """Its output is the mask that the forward pass drew, its gradient that of the backward pass."""

    def __init__(self, **settings: Any) -> None:
        super().__init__()
        self.weight, self.settings = nn.Parameter(torch.ones(64, dtype=torch.float64)), settings

    def forward(self, x: Tensor) -> Tensor:
        def part(x: Tensor, weight: Tensor) -> Tensor:
            return torch.dropout(x, 0.5, True) * weight

        found: Tensor = checkpoint(part, x, self.weight, use_reentrant=False, **self.settings)
        return found


@pytest.mark.parametrize("kept", [True, False])
def test_another_mask_is_drawn_again_where_torch_draws_another(kept: bool) -> None:
    x = torch.ones(64, dtype=torch.float64)
    model = Masked(preserve_rng_state=kept)

    def passes(net: nn.Module) -> list[Tensor]:
        mask = net(x)
        mask.sum().backward()
        return [mask.detach(), net.weight.grad]  # type: ignore[list-item]

    torch.manual_seed(0)
    forward, backward = passes(deepcopy(model))
    assert torch.equal(forward, backward) is kept
    plan = ds.plan(ds.trace(model, args=(x,)), {"tp": 2}, "replicate")
    found = parts(model, plan, {"tp": 2}, passes)
    assert all(torch.equal(*pair) is kept for pair in found)
    for mine, other in zip(*found, strict=True):
        assert torch.equal(mine, other)  # on both ranks alike


class Closing(nn.Module):
    """A reentrant region that takes ``h`` by a closure, in a dict, or as an argument."""

    def __init__(self, kind: str) -> None:
        super().__init__()
        self.first, self.kind = nn.Linear(8, 8, dtype=torch.float64), kind

    def forward(self, x: Tensor) -> Tensor:
        h = self.first(x)
        given = {"closure": (x,), "dict": (x, {"h": h}), "argument": (x, h)}[self.kind]

        def part(x: Tensor, *more: Any) -> Tensor:
            held = more[0] if more else h
            return (x * (held["h"] if isinstance(held, dict) else held)).sin()

        found: Tensor = checkpoint(part, *given, use_reentrant=True)
        return found.sum()


@pytest.mark.parametrize("kind", ["closure", "dict", "argument"])
def test_a_reentrant_region_without_gradients_of_its_arguments_is_refused(kind: str) -> None:
    model, x = Closing(kind), torch.randn(4, 8, dtype=torch.float64)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        learns = model(x).requires_grad
    assert learns is (kind == "argument")
    if learns:
        assert len(ds.trace(model, args=(x,)).regions) == 1
        return
    with pytest.raises(ds.TraceError) as caught:
        ds.trace(model, args=(x,))
    title, code, *rest = str(caught.value).splitlines()
    assert title.startswith(
        "a checkpoint that is reentrant takes its gradients by a closure at tests/exec/lowering/"
    )
    assert code == "    found: Tensor = checkpoint(part, *given, use_reentrant=True)"
    assert rest == [
        "  torch gives none to a tensor that is no argument of checkpoint, and on a rank it would "
        "have one",
        "  hint: checkpoint(..., use_reentrant=False), or give the tensor as an argument",
    ]
