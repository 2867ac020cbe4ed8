"""Small modules for audits: each has one thing that a plan can get wrong."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import gelu, scaled_dot_product_attention, silu

WIDTH, HEADS, HEAD = 16, 4, 4


class Mlp(nn.Module):
    """Two linear layers, an activation between them."""

    def __init__(self, bias: bool = True) -> None:
        super().__init__()
        self.up = nn.Linear(WIDTH, 24, bias=bias)
        self.down = nn.Linear(24, WIDTH, bias=bias)

    def forward(self, x: Tensor) -> Tensor:
        return self.down(gelu(self.up(x)))


class Nonlinear(Mlp):
    """What leaves the second layer is squared at once."""

    def forward(self, x: Tensor) -> Tensor:
        return self.down(gelu(self.up(x))) ** 2


class GateUp(nn.Module):
    """Gate and up are one weight: all rows of the gate, then all rows of up."""

    def __init__(self, bias: bool = False) -> None:
        super().__init__()
        self.fc1 = nn.Linear(WIDTH, 48, bias=bias)
        self.fc2 = nn.Linear(24, WIDTH, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        gate, up = self.fc1(x).chunk(2, dim=-1)
        return self.fc2(silu(gate) * up)


class Attention(nn.Module):
    """Attention with queries, keys and values in one weight.

    per_head: the rows of a head stand together, [q, k, v] of head 0, then of head 1; else all
    queries, all keys, all values. fixed: the number of heads is written in the model's code.
    """

    def __init__(self, per_head: bool, fixed: bool = False) -> None:
        super().__init__()
        self.qkv_proj = nn.Linear(WIDTH, 3 * WIDTH, bias=False)
        self.o_proj = nn.Linear(WIDTH, WIDTH, bias=False)
        self.per_head, self.heads = per_head, HEADS if fixed else -1

    def forward(self, x: Tensor) -> Tensor:
        batch, seq, _ = x.shape
        qkv = self.qkv_proj(x)
        if self.per_head:
            q, k, v = qkv.view(batch, seq, self.heads, 3 * HEAD).split(HEAD, dim=-1)
        else:
            q, k, v = (each.view(batch, seq, self.heads, HEAD) for each in qkv.chunk(3, dim=-1))
        found = scaled_dot_product_attention(*(each.transpose(1, 2) for each in (q, k, v)))
        return self.o_proj(found.transpose(1, 2).reshape(batch, seq, -1))


class Block(nn.Module):
    """A block of MiniMax-H3: rows of queries, keys and values per head, then [gate; up]."""

    def __init__(self) -> None:
        super().__init__()
        self.attn = Attention(per_head=True)
        self.mlp = GateUp()

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.attn(x)
        return x + self.mlp(x)


class Blocks(nn.Module):
    """Two blocks."""

    def __init__(self) -> None:
        super().__init__()
        self.blocks = nn.ModuleList([Block(), Block()])

    def forward(self, x: Tensor) -> Tensor:
        for block in self.blocks:
            x = block(x)
        return x


class Normed(nn.Module):
    """A scale between two layers, that works on what ranks have parts of."""

    def __init__(self) -> None:
        super().__init__()
        self.up = nn.Linear(WIDTH, 24)
        self.norm = nn.LayerNorm(HEAD)
        self.down = nn.Linear(24, WIDTH)

    def forward(self, x: Tensor) -> Tensor:
        heads = self.up(x).view(*x.shape[:-1], -1, HEAD)
        return self.down(self.norm(heads).flatten(-2))


class Tied(nn.Module):
    """The table of the embedding is the weight of the head."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(24, WIDTH)
        self.head = nn.Linear(WIDTH, 24, bias=False)
        self.head.weight = self.embed.weight

    def forward(self, ids: Tensor) -> Tensor:
        return self.head(self.embed(ids).tanh())


def example() -> dict[str, Any]:
    """Returns the input of all but `Tied`."""
    torch.manual_seed(0)
    return {"x": torch.randn(2, 3, WIDTH)}
