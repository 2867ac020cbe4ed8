"""Law: a method of the model gives on a part what it gives on one device, or is refused."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

import dimsolve as ds
from dimsolve.exec.distributed.simulated import Member, SimulatedWorld
from dimsolve.exec.lowering.setting import LoweringError
from dimsolve.exec.parallel.agreement import Agreement
from dimsolve.exec.parallel.given_inputs import GivenInputs, lower_for
from dimsolve.exec.parallel.mesh import RankMesh
from dimsolve.exec.parallel.on_demand import OnDemand
from dimsolve.exec.parallel.parallelize import class_of


class Autoencoder(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.up, self.down = nn.Linear(6, 16), nn.Linear(16, 6)
        self.register_buffer("mean", torch.zeros(16, 6))

    def forward(self, x: Tensor) -> Tensor:
        return functional.mse_loss(self.down(torch.tanh(self.up(x))), x)

    def encode(self, x: Tensor) -> Tensor:
        result: Tensor = torch.tanh(self.up(x))
        return result

    def narrow(self) -> None:
        for parameter in self.parameters():
            parameter.data.clamp_(-0.1, 0.1)

    def groups(self) -> list[list[str]]:
        marked = {n for n, p in self.named_parameters() if getattr(p, "_no_decay", False)}
        decayed = [n for n, p in self.named_parameters() if p.dim() >= 2 and n not in marked]
        return [sorted(marked), decayed, [str(self.up.weight.dtype)]]

    def step(self, x: Tensor, optimizer: Any) -> Tensor:
        loss = self(x)
        loss.backward()
        nn.utils.clip_grad_norm_(self.parameters(), 0.5)
        optimizer.step()
        return self.encode(x)

    def penalty(self) -> Tensor:
        w = self.up.weight
        return (w.t() @ w).pow(2).sum()

    def total(self, x: Tensor) -> Tensor:
        return self(x) + sum(p.norm() for p in self.parameters())

    def tied(self, x: Tensor) -> Tensor:
        return functional.linear(x, self.up.weight)

    @torch.no_grad()
    def normalise(self) -> None:
        self.up.weight.data /= self.up.weight.data.norm(dim=0, keepdim=True)

    def largest(self) -> Tensor:
        self(torch.ones(8, 6, dtype=torch.float64)).backward()
        assert self.up.weight.grad is not None
        return self.up.weight.grad.max()


def on_ranks(work: Callable[[Any], Any], mesh: dict[str, int]) -> tuple[Any, Any]:
    """What work gives of the model, and on rank 0."""
    torch.manual_seed(0)
    model = Autoencoder().to(torch.float64)
    model.up.weight._no_decay = True  # type: ignore[attr-defined]  # as Mamba marks its own
    x = torch.randn(8, 6, dtype=torch.float64)
    plan = ds.plan(ds.trace(model, kwargs={"x": x}, dynamic={"x": {0: "batch"}}), mesh)
    on_part = on_parts(work, model, plan, mesh)
    return work(model), on_part


def on_parts(work: Callable[[Any], Any], model: nn.Module, plan: Any, mesh: dict[str, int]) -> Any:
    """What work gives on rank 0."""

    def program(member: Member) -> Any:
        ends = RankMesh({axis: member[axis] for axis in mesh}, torch.device("cpu"))
        given = GivenInputs.of(plan, ends.communicators, "whole")
        lowered, agreement = lower_for(plan, ends, given), Agreement(plan, None)
        make = class_of(type(model))
        on_demand = OnDemand(model, plan, given)
        return work(make(model, plan, lowered, ends, agreement, given, on_demand))

    return SimulatedWorld[Any](mesh).run(program)[0]


X = torch.randn(8, 6, dtype=torch.float64, generator=torch.Generator().manual_seed(1))


@pytest.mark.parametrize("mesh", [{"tp": 2}, {"fsdp": 2}], ids=str)
def test_a_method_that_calls_modules_or_goes_by_elements_is_that_of_one_device(
    mesh: dict[str, int],
) -> None:
    def work(model: Any) -> list[Any]:
        groups = model.groups()
        model.narrow()
        moved = model.step(X, torch.optim.SGD(model.parameters(), 0.5))
        return [groups, moved.detach(), model.encode(X).detach()]

    one, part = on_ranks(work, mesh)
    assert part[0] == one[0] == [["up.weight"], ["down.weight"], ["torch.float64"]]
    torch.testing.assert_close(part[1:], one[1:])


@pytest.mark.parametrize(
    ("method", "name", "function"),
    [
        (lambda m: m.penalty(), "penalty", "t"),
        (lambda m: m.total(X), "total", "norm"),
        (lambda m: m.tied(X), "tied", "linear"),
        (lambda m: m.normalise(), "normalise", "norm"),
        (lambda m: m.largest(), "largest", "max"),
    ],
)
def test_a_method_that_computes_with_a_part_is_refused(
    method: Callable[[Any], Any], name: str, function: str
) -> None:
    def work(model: Any) -> str:
        try:
            method(model)
        except LoweringError as error:
            return str(error)
        return ""

    one, part = on_ranks(work, {"tp": 2})
    assert one == ""
    assert part == (
        f"{name}() of the model computes with up.weight, of which this rank has a part\n"
        f"  it is (8, 6) here and (16, 6) in all, and {function} of a part is not that of the "
        "whole\n"
        "  hint: compute it in the model's forward, which is traced, or in the script of "
        "part.state_dict()['up.weight'].full_tensor()"
    )


def test_a_method_of_what_every_rank_has_is_not_refused() -> None:
    one, part = on_ranks(lambda m: [m.penalty().detach(), m.total(X).detach()], {"dp": 2})
    torch.testing.assert_close(part, one)


def test_methods_of_transformers_count_wholes_and_refuse_to_change_modules() -> None:
    transformers = pytest.importorskip("transformers")
    sizes = {"vocab_size": 16, "hidden_size": 8, "intermediate_size": 8, "num_hidden_layers": 1}
    heads = {"num_attention_heads": 2, "num_key_value_heads": 2}
    model = transformers.LlamaForCausalLM(transformers.LlamaConfig(**sizes, **heads))
    model.model.norm.weight.requires_grad_(False)
    ids = torch.ones(2, 4, dtype=torch.int64)
    plan = ds.plan(ds.trace(model, kwargs={"input_ids": ids}), {"tp": 2}, "tensor")

    def counts(model: Any) -> list[int]:
        settings: list[dict[str, bool]] = [{}, {"only_trainable": True}]
        settings += [{**each, "exclude_embeddings": True} for each in settings]
        return [model.num_parameters(**each) for each in settings]

    def refused(part: Any) -> tuple[list[int], str, str]:
        words = []
        for method in (
            lambda: part.resize_token_embeddings(20),
            lambda: part.gradient_checkpointing_enable(),
        ):
            with pytest.raises(LoweringError) as caught:
                method()
            words.append(str(caught.value))
        return counts(part), words[0], words[1]

    found, resized, checkpointed = on_parts(refused, model, plan, {"tp": 2})
    assert found == counts(model)
    assert resized == (
        "resize_token_embeddings of a part changes nothing that its program runs\n"
        "  the program is what was traced, of modules as they were then\n"
        "  hint: call it on the model, then trace, plan and parallelize the model again; weights "
        "that the part has trained: model.load_state_dict of whole ones"
    )
    assert checkpointed == (
        "gradient_checkpointing_enable of a part changes nothing that its program runs\n"
        "  the program is what was traced, of modules as they were then\n"
        "  hint: call it on the model, then trace, plan and parallelize the model again"
    )
