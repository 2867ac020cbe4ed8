"""Laws: an operator of torch's dispatcher and the function it is read as compute the same; a model
that torch.export took apart is traced and cut as the model itself.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import dimsolve as ds
from dimsolve.exec.calls import resolve
from dimsolve.exec.capture.aten import PREFIX, plain_call
from dimsolve.solver.operators import examples
from dimsolve.solver.operators.catalogue import entries
from tests.oracles.all_ranks import compare

UNTOLD = ("rrelu", "multinomial", "empty")
"""Operators whose results are not the same each time."""


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def outcome(function: Any, args: Any, kwargs: Any) -> list[Tensor]:
    torch.manual_seed(0)
    found = function(*args, **kwargs)
    parts = found if isinstance(found, tuple | list) else [found]
    return [part.detach() for part in parts if isinstance(part, Tensor)]


def overloads(name: str) -> Iterator[tuple[str, Any]]:
    packet = getattr(torch.ops.aten, name, None)
    for overload in packet.overloads() if packet is not None else ():
        if "out" not in overload:
            yield f"{PREFIX}{name}.{overload}", getattr(packet, overload)


def calls() -> Iterator[tuple[str, Any, Any, Any]]:
    """Operators of the dispatcher with arguments that they take."""
    for path in entries():
        if path.startswith("torch."):
            for args, kwargs in examples(path):
                for spelled, operator in overloads(path.rpartition(".")[2]):
                    variance = spelled.endswith((".std.default", ".var.default", "_mean.default"))
                    if variance and len(args) > 1 and not isinstance(args[1], bool):
                        continue  # a dimension, which this overload takes for a bool
                    try:
                        operator(*args, **kwargs)
                    except (RuntimeError, TypeError, ValueError, NotImplementedError):
                        continue  # these arguments are another overload's
                    yield spelled, operator, args, kwargs


def test_an_operator_computes_what_the_function_it_is_read_as_does() -> None:
    compared: set[str] = set()
    for path, operator, args, kwargs in calls():
        plain = plain_call(path, tuple(args), kwargs)
        if plain.path == path or any(word in path for word in UNTOLD):
            continue
        wanted = outcome(operator, args, kwargs)
        found = outcome(resolve(plain.path), plain.args, plain.kwargs)
        assert len(found) == len(wanted), (path, plain.path)
        for one, other in zip(found, wanted, strict=True):
            assert torch.equal(one.nan_to_num(), other.nan_to_num()), (path, plain)
        compared.add(path)
    assert len(compared) > 300, len(compared)


class Layer(nn.Module):
    """What torch.export writes with views, slices, sizes, indices and losses of its own."""

    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Embedding(24, 16, padding_idx=3)
        self.norm = nn.LayerNorm(16)
        self.up, self.down = nn.Linear(16, 48), nn.Linear(16, 16)

    def forward(self, ids: Tensor) -> Any:
        batch, seq = ids.shape
        x = self.norm(self.table(ids))
        q, k, v = self.up(x).view(batch, seq, 3, 4, 4).permute(2, 0, 3, 1, 4).unbind(0)
        mixed = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.down(mixed.transpose(1, 2).reshape(batch, seq, 16)[..., :16])
        loss = nn.functional.mse_loss(x, self.table(ids).detach(), reduction="sum")
        wanted = ids[:, 1:].flatten()
        scores = x[:, :-1].flatten(0, 1)
        return x[:, [0, 2]], loss + nn.functional.cross_entropy(scores, wanted % 16)


@pytest.mark.parametrize("policy, mesh", [("tensor", {"tp": 2}), ("data", {"dp": 2})])
def test_an_exported_model_is_cut_as_the_model_is(policy: str, mesh: dict[str, int]) -> None:
    torch.manual_seed(0)
    model = Layer().double()
    ids = torch.randint(0, 24, (2, 6))
    free = torch.export.Dim.AUTO
    exported = torch.export.export(model, (ids,), dynamic_shapes=({0: free, 1: free},)).module()
    plans = []
    for each in (model, exported):
        graph = ds.trace(each, (ids,), dynamic={"ids": {0: "batch", 1: "seq"}})
        plan = ds.plan(graph, mesh, policy)
        plans.append({entry.name: entry.placements for entry in plan.inputs})
        state = dict(each.named_parameters(remove_duplicate=False)) | dict(each.named_buffers())
        given = {"ids": torch.randint(0, 24, (4, 8))}
        given |= {e.target: 4 for e in graph.inputs if e.kind == "input" and e.target != "ids"}
        assert compare(plan, graph, state, given, {"batch": 4, "seq": 8}).ok
    assert plans[0] == {name: plans[1][name] for name in plans[0]}
