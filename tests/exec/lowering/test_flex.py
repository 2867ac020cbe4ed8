"""Law: flex_attention is cut by batch and by heads, and equal to one device, whatever its functions
of scores and masks do with the places of rows, heads and keys.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn.attention.flex_attention import create_block_mask, flex_attention

import dimsolve as ds
from tests.oracles.all_ranks import compare

HEADS, WIDTH, LENGTH = 4, 8, 160
"""Two blocks of keys, the second one not full."""


class Attention(nn.Module):
    """Attention between linear layers. heads: of keys. mask, score: what makes a function of the
    documents (batch, seq). sums: whether the logsumexp of the scores is wanted too.
    """

    def __init__(
        self,
        heads: int = HEADS,
        mask: Callable[..., Any] | None = None,
        score: Callable[..., Any] | None = None,
        by: tuple[bool, bool] = (False, False),
        sums: bool = False,
    ) -> None:
        super().__init__()
        self.q, self.o = nn.Linear(WIDTH, HEADS * 4), nn.Linear(HEADS * 4, WIDTH)
        self.k, self.v = nn.Linear(WIDTH, heads * 4), nn.Linear(WIDTH, heads * 4)
        self.slopes = nn.Parameter(torch.rand(HEADS))
        self.table = nn.Parameter(torch.rand(2))
        self.mask, self.score, self.by, self.sums = mask, score, by, sums

    def forward(self, x: Tensor, documents: Tensor) -> Tensor:
        batch, seq, _ = x.shape
        q, k, v = (
            layer(x).view(batch, seq, -1, 4).transpose(1, 2) for layer in (self.q, self.k, self.v)
        )
        block = None
        if self.mask is not None:
            rows, heads = (n if b else None for n, b in zip((batch, HEADS), self.by, strict=True))
            made = self.mask(self, documents)
            block = create_block_mask(made, rows, heads, seq, seq, device=x.device.type)
        score = None if self.score is None else self.score(self, documents)
        grouped = k.shape[1] != HEADS
        found: Any = flex_attention(q, k, v, score, block, enable_gqa=grouped, return_lse=self.sums)
        if self.sums:
            found = found[0] * found[1].unsqueeze(-1)
        result: Tensor = self.o(found.transpose(1, 2).flatten(-2))
        return result


def causal(model: Any, documents: Tensor) -> Callable[..., Any]:
    return lambda b, h, q, k: q >= k


def window(model: Any, documents: Tensor) -> Callable[..., Any]:
    return lambda b, h, q, k: (q >= k) & (q - k <= 16)


def by_document(model: Any, documents: Tensor) -> Callable[..., Any]:
    return lambda b, h, q, k: (documents[b, q] == documents[b, k]) & (q >= k)


def window_by_head(model: Any, documents: Tensor) -> Callable[..., Any]:
    return lambda b, h, q, k: q - k <= 8 * (h + 1) + 4 * b


def alibi(model: Any, documents: Tensor) -> Callable[..., Any]:
    return lambda score, b, h, q, k: score + model.slopes[h] * (k - q)


def alibi_by_place(model: Any, documents: Tensor) -> Callable[..., Any]:
    return lambda score, b, h, q, k: score + torch.exp2(-(h + 1.0)) * (k - q)


def softcap(model: Any, documents: Tensor) -> Callable[..., Any]:
    return lambda score, b, h, q, k: 2 * torch.tanh(score / 2)


def by_table(model: Any, documents: Tensor) -> Callable[..., Any]:
    """Slopes as they are and by half of the place, documents row by row, and a row's number."""

    def score(score: Any, b: Any, h: Any, q: Any, k: Any) -> Any:
        same = documents[b][q] == documents[b][k]
        return score + model.slopes[h] * model.table[h // 2] * same + 0.1 * b

    return score


def last_of(model: Any, documents: Tensor) -> Callable[..., Any]:
    """A tensor that is looked up in two ways is whole."""
    return lambda score, b, h, q, k: score + model.slopes[h] * model.slopes[3 - h]


CASES: dict[str, tuple[dict[str, Any], tuple[str, ...]]] = {
    "plain": ({}, ()),
    "causal": ({"mask": causal}, ()),
    "window": ({"mask": window}, ()),
    "window by head, in a mask of all": ({"mask": window_by_head, "by": (True, True)}, ()),
    "documents": ({"mask": by_document, "by": (True, False)}, ("b.",)),
    "alibi": ({"mask": causal, "score": alibi}, ("h",)),
    "alibi by place": ({"mask": causal, "score": alibi_by_place}, ()),
    "softcap": ({"mask": causal, "score": softcap}, ()),
    "by table": ({"score": by_table}, ("b.", "h", ".")),
    "last of": ({"score": last_of}, (".",)),
    "grouped": ({"heads": 2, "mask": causal, "score": alibi}, ("h",)),
    "logsumexp": ({"mask": causal, "sums": True}, ()),
    "one head of keys": ({"heads": 1, "mask": window, "score": alibi_by_place}, ()),
}


def traced(name: str) -> tuple[Attention, Any]:
    torch.manual_seed(0)
    model = Attention(**CASES[name][0]).double().requires_grad_(False)
    given = {
        "x": torch.randn(4, LENGTH, WIDTH).double(),
        "documents": torch.zeros(4, LENGTH).long(),
    }
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return model, ds.trace(model, kwargs=given, dynamic={k: {0: "batch"} for k in given})


@pytest.mark.parametrize("name", CASES)
def test_it_is_cut_by_batch_and_heads_and_equal(name: str) -> None:
    model, graph = traced(name)
    (node,) = (node for node in graph.nodes() if node.name == "flex_attention")
    reads = sorted((*node.kwargs["score_reads"], *node.kwargs["mask_reads"]))
    assert reads == sorted(CASES[name][1])
    x = torch.randn(4, LENGTH, WIDTH).double()
    documents = torch.randint(3, (4, LENGTH)).sort(1).values
    for mesh, policy in (
        ({"dp": 2}, "data"),
        ({"tp": 2}, "tensor"),
        ({"dp": 2, "tp": 2}, "data+tensor"),
    ):
        plan = ds.plan(graph, mesh, policy)
        (entry,) = (entry for entry in plan.operators if entry.node == node.id)
        assert set(entry.splits) == set(mesh)
        given = {"x": x, "documents": documents}
        found = compare(plan, graph, dict(model.state_dict()), given, {"batch": 4})
        assert found.ok, found


class Given(nn.Module):
    """Attention with a block mask that the caller made."""

    def forward(self, x: Tensor, block: Any = None) -> Any:
        return flex_attention(x, x, x, block_mask=block)


def for_rows(rows: int) -> Any:
    return create_block_mask(lambda b, h, q, k: q >= k, rows, None, 16, 16, device="cpu")


def test_a_block_mask_is_an_input_that_is_cut_with_the_batch() -> None:
    model, x, block = Given(), torch.randn(4, 2, 16, 4), for_rows(4)
    graph = ds.trace(model, args=(x, block))
    plan = ds.plan(graph, {"dp": 2}, "data")
    assert {entry.placements[0] for entry in plan.inputs} == {"S(0)"}
    part = ds.parallelize(model, ds.plan(graph, {"dp": 1}))
    assert torch.equal(part(x, for_rows(4)), model(x, block))
    assert torch.equal(torch.compile(part, backend="aot_eager")(x, block), model(x, block))


def test_a_block_mask_for_other_rows_is_said_to_keep_all_whole() -> None:
    x = torch.randn(4, 2, 16, 4)
    with pytest.warns(UserWarning) as caught:
        graph = ds.trace(Given(), args=(x, for_rows(4)), dynamic={"x": {0: "batch"}})
    assert "(its block mask is for 4 rows of the batch, and there are batch)" in str(
        caught[0].message
    )
    assert [node.declaration for node in graph.nodes() if node.name == "flex_attention"] == [None]


def test_tensors_in_a_function_of_the_caller_are_refused() -> None:
    documents = torch.zeros(4, 16)
    block = create_block_mask(
        lambda b, h, q, k: documents[b, q] == documents[b, k], 4, None, 16, 16, device="cpu"
    )
    with pytest.raises(ds.TraceError) as caught:
        ds.trace(Given(), args=(torch.randn(4, 2, 16, 4), block))
    assert str(caught.value) == (
        "block.mask_mod holds tensors that no call can give anew\n"
        "  it is a function, and it holds a tensor: documents of its closure; a program would keep "
        "what it is now\n"
        "  hint: give the model the tensor itself, and let the model make the function"
    )
