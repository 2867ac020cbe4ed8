"""Law: tokens that are sent to their experts, and back, give what one device gives, however they
are spread; and what cannot be sent is refused in words.
"""

from __future__ import annotations

import copy
from functools import lru_cache
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import dimsolve as ds
from dimsolve.exec.distributed.routes import RankRoutes
from dimsolve.exec.distributed.simulated import Member, SimulatedCommunicator, SimulatedWorld
from dimsolve.exec.experts import exchanged_experts
from dimsolve.exec.parallel.parallelize import ParallelModule
from tests.oracles.one_device import parts
from tests.partition.planning.test_auto import SLOW
from tests.partition.planning.test_experts import MODELS, SMALL

pytest.importorskip("transformers")

OSS = {
    "num_local_experts": 8, "head_dim": 8, "sliding_window": 8,
    "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2,
}  # fmt: skip


@lru_cache(maxsize=4)
def model_of(name: str, **more: int) -> tuple[Any, dict[str, Tensor], ds.Graph]:
    """A model in float64, a batch with labels, and its graph, in which experts are one operator."""
    import transformers as tf

    torch.manual_seed(0)
    settings = {**SMALL, **(OSS if name == "GptOss" else MODELS[name]), **more}
    model = getattr(tf, f"{name}ForCausalLM")(getattr(tf, f"{name}Config")(**settings)).double()
    model.set_experts_implementation("eager")  # one device's own way
    with torch.no_grad():
        for key, parameter in model.named_parameters():
            if "bias" in key:
                parameter.normal_()
    ids = torch.randint(0, 32, (8, 6))
    batch = {"input_ids": ids, "labels": ids}
    with exchanged_experts(model):
        graph = ds.trace(model, kwargs=batch)
    assert model.config._experts_implementation == "eager"
    return model, batch, graph


def differences(model: nn.Module, batch: Any, plan: ds.Plan, mesh: dict[str, int]) -> list[float]:
    """The largest difference of a gradient on each rank, relative to its largest element."""
    whole = copy.deepcopy(model)
    loss = whole(**batch).loss
    loss.backward()

    def work(part: ParallelModule) -> float:
        own, found = dict(part.named_parameters()), part(**batch).loss
        found.backward()
        most = float((found - loss).abs() / loss)
        for key, parameter in whole.named_parameters():
            gradient, wanted = own[key].grad, parameter.grad
            assert gradient is not None and wanted is not None
            apart = (gradient - part.held(key).part(wanted)).abs()
            most = max(most, float(apart.max() / wanted.abs().max().clamp(min=1e-3)))
        return most

    return parts(model, plan, mesh, work)


@pytest.mark.parametrize(
    ("name", "mesh", "policy"),
    [
        ("Mixtral", {"ep": 4}, None),
        ("GptOss", {"fsdp": 2, "ep": 2}, None),
        ("GptOss", {"ep": 2, "tp": 2}, None),
        ("Qwen2Moe", {"dp": 2, "ep": 4}, {"dp": "experts", "ep": "experts"}),
    ],
    ids=["gates", "biases", "biases and tp", "over two axes"],
)
def test_sent_tokens_have_the_gradients_of_one_device(
    name: str, mesh: dict[str, int], policy: Any
) -> None:
    model, batch, graph = model_of(name)
    plan = ds.plan(graph, mesh, policy)
    assert ds.Plan.from_json(plan.to_json()).for_graph(graph) == plan
    assert any(row.collective == "all-to-all" for row in plan.communication())
    assert max(differences(model, batch, plan, mesh)) <= 1e-9


def to_the_first(model: Any) -> Any:
    """A copy whose routers choose the first two experts for all tokens, on rank 0 of four."""
    model = copy.deepcopy(model)
    with torch.no_grad():
        for layer in model.model.layers:
            layer.mlp.gate.weight.zero_()
    return model


def test_all_tokens_may_go_to_the_experts_of_one_rank() -> None:
    model, batch, graph = model_of("Mixtral")
    plan = ds.plan(graph, {"ep": 4})
    assert max(differences(to_the_first(model), batch, plan, {"ep": 4})) <= 1e-9


def test_ranks_send_the_rows_that_the_plan_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever the router does, of rows that all go to one of four ranks a quarter stays. Beside
    the rows each rank tells the others how many come: 8 bytes, of which a plan counts a quarter.
    """
    model, batch, graph = model_of("Mixtral")
    plan, count = ds.plan(graph, {"ep": 4}), 4
    sent = [0] * count
    exchange, all_to_all = SimulatedCommunicator.exchange, SimulatedCommunicator.all_to_all

    def rows(self: Any, tensor: Tensor, given: Any, got: Any) -> Tensor:
        size = tensor.element_size() * tensor[:1].numel() if len(tensor) else 0
        sent[self.rank] += size * (sum(given) - given[self.rank])
        return exchange(self, tensor, given, got)

    def lengths(self: Any, tensor: Tensor) -> Tensor:
        if tensor.shape == (count, 1):
            sent[self.rank] += 8 * (count - 1) // count
        return all_to_all(self, tensor)

    monkeypatch.setattr(SimulatedCommunicator, "exchange", rows)
    monkeypatch.setattr(SimulatedCommunicator, "all_to_all", lengths)
    parts(to_the_first(model), plan, {"ep": 4}, lambda part: part(**batch).loss.backward())
    said = [row.bytes for row in plan.communication() if row.collective == "all-to-all"]
    assert sum(sent) == count * sum(said)


def test_every_rank_is_given_all_tokens_where_that_sends_less() -> None:
    """A token has four experts: of two ranks, one more is given it, or two rows and two ids."""
    model, batch, graph = model_of("Mixtral", num_experts_per_tok=4)
    plan = ds.plan(graph, {"ep": 2})
    assert not any(row.collective == "all-to-all" for row in plan.communication())
    assert "every rank is given all tokens (the other way sends 1." in plan.notes[0]
    assert max(differences(to_the_first(model), batch, plan, {"ep": 2})) <= 1e-9
    assert ds.Plan.from_json(plan.to_json()).for_graph(graph) == plan


def test_the_best_plan_may_send_tokens() -> None:
    """Of four ranks each computes as many rows as where the batch is cut, and sends less than the
    gradients of all experts.
    """
    model, batch, graph = model_of("Mixtral")
    best = ds.plan(graph, {"ep": 4}, "auto", machine=SLOW)
    assert any(row.collective == "all-to-all" for row in best.communication())
    by_policy = ds.plan(graph, {"ep": 4})
    assert best.cost(machine=SLOW).picoseconds <= by_policy.cost(machine=SLOW).picoseconds
    assert max(differences(model, batch, best, {"ep": 4})) <= 1e-9


def test_rows_are_sent_where_that_is_less_than_to_gather_tokens() -> None:
    """A token has two experts: of four ranks, three more are given it, or one and a half rows."""
    model, batch, graph = model_of("Mixtral")
    plain = copy.deepcopy(model).float()
    plain.set_experts_implementation("grouped_mm")
    gathered = ds.plan(ds.trace(plain, kwargs=batch), {"ep": 4})

    def sent(plan: ds.Plan, width: int) -> float:
        kinds = ("all-to-all", "all-gather", "reduce-scatter")
        rows = plan.communication()
        return sum(row.bytes for row in rows if row.collective in kinds) / width

    assert sent(ds.plan(graph, {"ep": 4}), 8) < sent(gathered, 4)


@pytest.mark.parametrize("mesh", [{"a": 3}, {"a": 2, "b": 3}], ids=str)
def test_rows_arrive_and_come_back_in_order_with_gradients_of_every_order(
    mesh: dict[str, int],
) -> None:
    def work(member: Member) -> None:
        ends = [member[axis] for axis in mesh]
        count = torch.tensor([end.size for end in ends]).prod().item()
        torch.manual_seed(member.rank)
        to = torch.randint(0, int(count), (5 * member.rank,))
        rows = torch.randn(len(to), 3, dtype=torch.float64, requires_grad=True)
        routes = RankRoutes(to, ends)
        assert bool((routes.there(to) == member.rank).all())
        made = routes.back(routes.there(rows) ** 3 * (member.rank + 1))
        torch.testing.assert_close(made, rows**3 * (to + 1).unsqueeze(1))
        (first,) = torch.autograd.grad(made.sum(), rows, create_graph=True)
        torch.testing.assert_close(first, 3 * rows**2 * (to + 1).unsqueeze(1))
        (second,) = torch.autograd.grad(first.sum(), rows)
        torch.testing.assert_close(second, 6 * rows * (to + 1).unsqueeze(1))

    SimulatedWorld[None](mesh).run(work)


def test_a_model_without_experts_is_refused() -> None:
    with pytest.raises(ds.OperatorError) as raised, exchanged_experts(nn.Linear(2, 2)):
        pass
    assert str(raised.value) == (
        "these experts are not known as one operator\n"
        "  Linear has no experts that transformers can replace\n"
        "  hint: trace it without exchanged_experts: tokens are gathered"
    )


def test_experts_with_a_gate_of_their_own_are_refused_and_left_as_they_were() -> None:
    model = copy.deepcopy(model_of("Mixtral")[0])
    kind = type(model.model.layers[0].mlp.experts)
    own = type("OwnExperts", (kind,), {"_apply_gate": lambda self, rows: rows})
    for layer in model.model.layers:
        layer.mlp.experts.__class__ = own
    with pytest.raises(ds.OperatorError) as raised, exchanged_experts(model):
        pass
    assert str(raised.value) == (
        "these experts are not known as one operator\n"
        "  OwnExperts has a gate of its own\n"
        "  hint: trace it without exchanged_experts: tokens are gathered"
    )
    assert model.config._experts_implementation == "eager"
