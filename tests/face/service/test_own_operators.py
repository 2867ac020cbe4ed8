"""An operator of one's own is planned by the service as it is here, by what the graph says of it; a
question's answer depends on no other question.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import Any

import pytest
import torch

import dimsolve as ds
from dimsolve.ir.operator import Operator, ScopedRegistry, operator_at, register, registered
from tests.exec import registered as ours
from tests.face.running import Service, serving


@pytest.fixture(scope="module")
def client(service: Service) -> Iterator[ds.Client]:
    with ds.Client(service.url) as made:
        yield made


class Calls(torch.nn.Module):
    """Calls a function on x and a parameter."""

    def __init__(self, function: Callable[..., Any], *shape: int, **options: Any) -> None:
        super().__init__()
        self.w = torch.nn.Parameter(torch.randn(*shape))
        self.function, self.options = function, options

    def forward(self, x: torch.Tensor) -> Any:
        return self.function(x, self.w, **self.options)


class Reshapes(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return ours.same_plain(x, h=4) * 2


@lru_cache(maxsize=1)
def graphs() -> dict[str, ds.Graph]:
    rows = {"x": {0: "batch"}}
    x = torch.randn(4, 8)
    return {
        "an annotation": ds.trace(Calls(ours.matmul, 8, 16), args=(x,), dynamic=rows),
        "a size": ds.trace(Reshapes(), args=(torch.randn(16),), dynamic={"x": {0: "n"}}),
        "a function that annotates": ds.trace(Calls(ours.reduced, 4, 8), args=(x,)),
        "another option": ds.trace(Calls(ours.reduced, 4, 8, keep=True), args=(x,)),
    }


@pytest.mark.parametrize("name", graphs())
@pytest.mark.parametrize("policy", ["tensor", "data", None])
def test_the_plan_of_a_client_is_the_plan(client: ds.Client, name: str, policy: Any) -> None:
    graph = graphs()[name]
    outcomes = []
    for ask in (client.plan, ds.plan):
        try:
            outcomes.append(ask(graph, {"tp": 2}, policy))
        except ds.PlanError as error:
            outcomes.append(error.diagnostic)
    assert outcomes[0] == outcomes[1]


def test_it_is_cut_and_not_merely_whole(client: ds.Client) -> None:
    plan = client.plan(graphs()["an annotation"], {"tp": 2}, "tensor")
    assert [parameter.placements for parameter in plan.parameters] == [["S(1)"]]


def test_rules_stay_behind_and_that_is_said(client: ds.Client) -> None:
    with ds.Graph("looks") as graph:
        weight = graph.input("w", "v, d", "float32")
        graph.output(graph.call(ours.lookup, weight, graph.input("ids", "n", "int64")))
    with pytest.raises(ds.ServiceError) as caught:
        client.plan(graph, {"tp": 2}, {"*": {"tp": "v"}})
    assert str(caught.value) == (
        "the service cannot plan this operator\n"
        "  tests.exec.registered.lookup has transform rules, which are functions of your process: "
        "S(0), R -> P(sum); of others the promise is enough\n"
        "  hint: plan it where they are: dimsolve.plan(graph, mesh, policy)"
    )


def test_a_plan_does_not_depend_on_earlier_questions() -> None:
    with ds.Graph("own") as graph:
        x = graph.input("x", "batch, 64", "float32")
        w = graph.input("w", "64, 64", "float32")
        graph.output(graph.call(ours.matmul, x, w))
    data = graph.to_json()
    data["nodes"][0]["operator"] = "dimsolve.examples.custom_operator.matmul_custom"
    silent = {**data, "nodes": [{k: v for k, v in data["nodes"][0].items() if k != "promise"}]}
    questions = [{"graph": each, "mesh": {"tp": 2}, "policy": "tensor"} for each in (data, silent)]
    with serving("--workers", "1") as service:
        before = [service.ask("plan", question).body for question in questions]
        example = {"example": "custom_operator:tiny", "mesh": {"tp": 2}}
        assert service.ask("plan", example).status == 200
        after = []
        for question in questions:  # as new questions, for answers are remembered
            again = service.request("POST", "/v1/plan", _spaced(question))
            after.append(again.body)
        assert before == after
        assert before[0] != before[1]


def _spaced(question: Any) -> bytes:
    return json.dumps(question).encode() + b" "


def test_a_graph_that_was_read_says_it_again() -> None:
    """Read where the function is not known, written, and read again."""
    data = graphs()["an annotation"].to_json()
    text = "elsewhere.matmul"
    data["nodes"][0]["operator"] = text
    read = ds.Graph.from_json(data, trust=(text,))
    assert read.to_json() == data
    assert read.nodes()[0].annotation == "m k+, k+ n -> m n"
    with pytest.raises(ds.GraphError) as caught:
        ds.Graph.from_json(data)
    assert caught.value.diagnostic.code == "not-trusted"


def test_a_promise_about_torch_is_not_taken_on_trust() -> None:
    """torch's functions may be called; what they promise, a file cannot say."""
    data = graphs()["an annotation"].to_json()
    data["nodes"][0]["operator"] = "torch.dsmm"
    with pytest.raises(ds.GraphError) as caught:
        ds.Graph.from_json(data)
    assert str(caught.value) == (
        "the graph says itself what a function promises\n"
        "  torch.dsmm is not registered here, so nothing but the graph's word "
        "vouches for it\n"
        "  hint: register it, or if you trust it: "
        'Graph.from_json(data, trust=("torch.dsmm",))'
    )


@pytest.mark.parametrize(
    "change",
    [
        {"inputs": [0, 7]},
        {"inputs": [0]},
        {"inputs": [True, 1]},
        {"annotation": "m k+, k+ n -> "},
        {"annotation": "m ((", "sizes": {"h": "("}},
        {"reduction": "mul"},
        {"returns": "value"},
        {"arguments": {"m": {"dim": "9**9**9"}}},
        {"mutates": [9]},
        {"value_split": [9]},
        {"linear": [[9]]},
        {"fresh": ["m"]},
        {"dtypes": ["no"]},
    ],
    ids=str,
)
def test_a_promise_that_is_none_is_no_defect(service: Service, change: dict[str, Any]) -> None:
    data = graphs()["an annotation"].to_json()
    data["nodes"][0]["operator"] = "elsewhere.matmul"
    data["nodes"][0]["promise"].update(change)
    for policy in ("tensor", {"*": {"tp": "k"}}):
        reply = service.ask("plan", {"graph": data, "mesh": {"tp": 2}, "policy": policy})
        assert reply.status in (200, 422)


def test_a_scoped_registry_holds_registrations_apart() -> None:
    before = registered()
    scoped = ScopedRegistry()
    operator = Operator("f", "m.f", lambda: None)  # type: ignore[arg-type, return-value]
    for _ in range(2):
        with scoped.open():
            if operator_at("m.f") is None:
                register(operator, len)
            assert operator_at("m.f") is operator
        assert operator_at("m.f") is None and registered() == before
