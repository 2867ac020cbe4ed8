"""A plan says what it costs without being asked: gathered outputs, and heavy operators that a count
leaves whole or cuts another way, each with its bytes and what would remove it.
"""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn

import dimsolve as ds


class Words(nn.Module):
    """(batch, seq) ids -> (batch, seq, words) logits, twice through an attention of some heads."""

    def __init__(self, words: int, heads: int, width: int = 24) -> None:
        super().__init__()
        self.heads = heads
        self.embed = nn.Embedding(words, width)
        self.qkv = nn.ModuleList([nn.Linear(width, 3 * width) for _ in range(2)])
        self.out = nn.ModuleList([nn.Linear(width, width) for _ in range(2)])
        self.head = nn.Linear(width, words)

    def forward(self, ids: Tensor) -> Tensor:
        x = self.embed(ids)
        for qkv, out in zip(self.qkv, self.out, strict=True):
            parts = qkv(x).unflatten(-1, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
            mixed = nn.functional.scaled_dot_product_attention(*parts.unbind(0))
            x = x + out(mixed.transpose(1, 2).flatten(2))
        return self.head(x)


def notes(
    model: nn.Module, mesh: dict[str, int], policy: Any = None, *, length: str | None = "seq"
) -> list[str]:
    ids = torch.zeros(4, 6, dtype=torch.long)
    names = {0: "batch"} if length is None else {0: "batch", 1: length}
    graph = ds.trace(model, kwargs={"ids": ids}, dynamic={"ids": names})
    made = ds.plan(graph, mesh, policy, uneven="refuse")
    return [note for note in made.notes if "the batch is" not in note]


GATHERED = (
    " is returned whole: every rank gathers {} bytes along {}; "
    'parallelize(..., outputs="placed") leaves it cut'
)


def test_outputs_that_every_rank_gathers_are_said() -> None:
    (graph_output,) = notes(Words(64, 4), {"dp": 4}, "data")
    assert graph_output.endswith(GATHERED.format("768*(batch//4)*seq", "dp"))
    policy = {"linear_4": {"tp": "n"}}
    (graph_output,) = notes(Words(64, 4), {"tp": 2}, policy)
    assert graph_output.endswith(GATHERED.format("128*batch*seq", "tp"))


class Layers(nn.Module):
    """Returns what four layers make, as caches are returned."""

    def forward(self, x: Tensor) -> dict[str, Any]:
        return {"kept": [x * n for n in range(4)], "sum": x.exp()}


def test_outputs_of_one_container_share_a_note() -> None:
    graph = ds.trace(Layers(), kwargs={"x": torch.zeros(4, 64)}, dynamic={"x": {0: "batch"}})
    assert ds.plan(graph, {"dp": 2}).notes[1:] == [
        "kept.0 and 3 more like it are returned whole: every rank gathers 256*(batch//2) bytes of "
        'each along dp; parallelize(..., outputs="placed") leaves them cut',
        "sum" + GATHERED.format("256*(batch//2)", "dp"),
    ]


def test_a_vocabulary_that_forbids_a_cut_is_said_with_the_next_that_allows_it() -> None:
    assert notes(Words(53, 4), {"tp": 2}, "tensor") == [
        "tp: v = 53 of embedding (embed) is not cut, because 2 does not divide it "
        "(54 would be cut): d is cut instead, and 48*batch*seq bytes are sent",
        "tp: n = 53 of linear (head) is not cut, because 2 does not divide it "
        "(54 would be cut): k is cut instead, and 212*batch*seq bytes are sent",
    ]


def test_an_attention_that_stays_whole_is_said_once_for_all_layers() -> None:
    found = [note for note in notes(Words(64, 3), {"tp": 2}, "tensor") if "scaled_dot" in note]
    assert found == [
        "tp: b = 3 of scaled_dot_product_attention (the model) is not cut, because 2 does not "
        "divide it (4 would be cut): every rank computes all of it, 96*batch*seq bytes"
    ]


@pytest.mark.parametrize("policy", ["replicate", "data"])
def test_a_policy_that_cuts_no_parameter_is_not_told_of_them(policy: str) -> None:
    assert not [n for n in notes(Words(53, 3), {"dp": 2}, policy) if "not cut" in n]


class Mapped(nn.Module):
    """A recurrent layer, a mapped product, and one that is cut."""

    def __init__(self, kind: str) -> None:
        super().__init__()
        self.kind = kind
        self.encoder = nn.LSTM(24, 24, batch_first=True)
        self.weight = nn.Parameter(torch.randn(24, 24))
        self.head = nn.Linear(24, 32)

    def forward(self, ids: Tensor) -> Tensor:
        x = nn.functional.one_hot(ids, 24).float()
        if self.kind == "recurrent":
            x = self.encoder(x)[0]
        else:
            x = torch.func.vmap(lambda row: row @ self.weight, randomness="different")(x)
        result: Tensor = self.head(x).relu()
        return result


def test_a_recurrent_layer_that_no_count_cuts_is_said_with_its_bytes() -> None:
    model = Mapped("recurrent")
    (note,) = [n for n in notes(model, {"tp": 2}, "tensor", length=None) if "lstm" in n]
    assert note == (
        "tp: lstm (encoder) is whole, and every rank holds and uses all of its 19200 bytes of "
        "parameters: 'e' is marked '^': no split of it is legal; an axis that cuts the batch "
        "divides its work"
    )
    assert not [n for n in notes(model, {"dp": 2}, "data", length=None) if "lstm" in n]


def test_what_runs_inside_of_vmap_is_said_to_be_whole() -> None:
    found = notes(Mapped("mapped"), {"tp": 2}, "tensor", length=None)
    assert [note for note in found if "vmap" in note] == [
        "tp: matmul (the model) is whole, and every rank holds and uses all of its 2304 bytes of "
        "parameters: it runs inside torch.vmap; an axis that cuts the batch divides its work",
        "tp: what runs inside of torch.vmap (the model) is whole: every rank computes all of it; "
        "a batch that is a dimension of the tensors is cut",
    ]
