"""Models that no even count cuts: prime vocabularies and widths, odd heads, few key-value heads."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional


class Tiny(nn.Module):
    """Rows of a table, a feed-forward layer and logits: every length is what the caller says."""

    def __init__(self, vocabulary: int = 10, width: int = 6, inner: int = 7) -> None:
        super().__init__()
        self.embed = nn.Embedding(vocabulary, width)
        self.norm = nn.LayerNorm(width)
        self.up, self.down = nn.Linear(width, inner), nn.Linear(inner, width)
        self.head = nn.Linear(width, vocabulary, bias=False)

    def forward(self, ids: Tensor, target: Tensor) -> tuple[Tensor, Tensor]:
        x = self.embed(ids)
        x = x + self.down(functional.gelu(self.up(self.norm(x))))
        logits = self.head(x)
        return functional.cross_entropy(logits.flatten(0, 1), target.flatten()), logits


class Loss(Tiny):
    """The same, of which only the loss is returned."""

    def forward(self, ids: Tensor, target: Tensor) -> Tensor:  # type: ignore[override]
        return super().forward(ids, target)[0]


def tiny(**lengths: int) -> Tiny:
    """Returns the model in float64, with the same weights each time."""
    torch.manual_seed(0)
    return Tiny(**lengths).double()


def batch(rows: int = 2, seed: int = 0, vocabulary: int = 10) -> dict[str, Tensor]:
    """Returns one call."""
    draw = torch.Generator().manual_seed(seed)
    return {
        name: torch.randint(vocabulary, (rows, 5), generator=draw) for name in ("ids", "target")
    }


class Biased(nn.Module):
    """Attention with a bias that is learned, over rows of 6."""

    def __init__(self) -> None:
        super().__init__()
        self.q, self.k, self.v = (nn.Linear(8, 8) for _ in range(3))
        self.bias = nn.Parameter(torch.randn(2, 6, 6))

    def forward(self, x: Tensor) -> Tensor:
        shape = x.shape[0], x.shape[1], 2, 4
        q, k, v = (each(x).view(shape).transpose(1, 2) for each in (self.q, self.k, self.v))
        mixed = functional.scaled_dot_product_attention(q, k, v, attn_mask=self.bias)
        return mixed.transpose(1, 2).flatten(2).square().sum()


def biased_attention() -> tuple[nn.Module, dict[str, Tensor]]:
    """Returns the model in float64, with a call."""
    torch.manual_seed(0)
    return Biased().double(), {"x": torch.randn(6, 6, 8, dtype=torch.float64)}


class Pictures(nn.Module):
    """Rows of pictures, of which each is convolved, normalised, searched, sorted, scanned and
    transformed.
    """

    def __init__(self) -> None:
        super().__init__()
        self.conv, self.norm = nn.Conv2d(2, 4, 3), nn.GroupNorm(2, 4)

    def forward(self, x: Tensor) -> Tensor:
        x = functional.max_pool2d(self.norm(self.conv(x)), 2).flatten(1)
        best = x.gather(1, x.argmax(1, keepdim=True)) - x.amax(1, keepdim=True)
        top = x.topk(3).values.sort().values.cumsum(1)
        waves = torch.fft.rfft(functional.pixel_shuffle(x.view(-1, 8, 2, 1), 2), dim=2).abs()
        margins = functional.multi_margin_loss(x, torch.ones_like(x[:, 0], dtype=torch.long))
        spread = functional.adaptive_avg_pool2d(waves, 1).mean() + margins + x.amax(0).sum()
        return (top * x.mean(1, keepdim=True) + best).square().sum() + spread


def pictures() -> tuple[nn.Module, dict[str, Tensor]]:
    """Returns the model in float64, with a call."""
    torch.manual_seed(0)
    return Pictures().double(), {"x": torch.randn(6, 2, 6, 6, dtype=torch.float64)}


ROWS = {"ids": {0: "batch"}, "target": {0: "batch"}}
"""Both tensors have as many rows as there are."""


def grouped(**changes: Any) -> tuple[nn.Module, dict[str, Tensor], dict[str, Any]]:
    """Returns a Llama of 1 layer, 8 query heads and 2 key-value heads, with a call."""
    from transformers import LlamaConfig, LlamaForCausalLM

    lengths = {"hidden_size": 64, "intermediate_size": 96, "vocab_size": 64}
    heads = {"num_attention_heads": 8, "num_key_value_heads": 2, "num_hidden_layers": 1}
    usual = {**lengths, **heads, "max_position_embeddings": 32, "use_cache": False}
    torch.manual_seed(0)
    model = LlamaForCausalLM(LlamaConfig(**{**usual, **changes})).double()
    vocabulary = int(model.config.vocab_size)
    ids = torch.randint(vocabulary, (2, 6), generator=torch.Generator().manual_seed(0))
    names = {0: "batch", 1: "seq"}
    return model, {"input_ids": ids, "labels": ids}, {"input_ids": names, "labels": names}


def odd_heads() -> tuple[nn.Module, dict[str, Tensor], dict[str, Any]]:
    """Returns a GPT-2 of 1 layer, 5 heads and a prime vocabulary, with a call."""
    from transformers import GPT2Config, GPT2LMHeadModel

    torch.manual_seed(0)
    quiet = {"resid_pdrop": 0.0, "embd_pdrop": 0.0, "attn_pdrop": 0.0, "use_cache": False}
    tokens = {"bos_token_id": 0, "eos_token_id": 0}
    config = GPT2Config(
        vocab_size=97, n_embd=40, n_head=5, n_layer=1, n_positions=32, **quiet, **tokens
    )
    ids = torch.randint(97, (2, 6), generator=torch.Generator().manual_seed(0))
    names = {0: "batch", 1: "seq"}
    model = GPT2LMHeadModel(config)
    model.loss_type = "ForCausalLM"
    return model.double(), {"input_ids": ids, "labels": ids}, {"input_ids": names, "labels": names}


class Averaged(nn.Module):
    """Batch norm, a recurrent layer, and a loss that is a mean or a deviation over the batch."""

    def __init__(self, kind: str) -> None:
        super().__init__()
        self.kind = kind
        self.up, self.norm = nn.Linear(6, 8), nn.BatchNorm1d(8)
        self.layer, self.down = nn.LSTM(8, 8, batch_first=True), nn.Linear(8, 6)

    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        h = self.norm(self.up(x).transpose(1, 2)).transpose(1, 2)
        out = self.down(self.layer(h)[0])
        match self.kind:
            case "mean":
                return ((out - y) ** 2).mean()
            case "losses":
                likely = nn.functional.kl_div(
                    out.log_softmax(-1), y.softmax(-1), reduction="batchmean"
                )
                smooth = nn.functional.smooth_l1_loss(input=out, target=y)
                return likely + smooth + nn.functional.mse_loss(out, y)
            case _:
                return ((out - y) ** 2).mean(dim=(1, 2)).std() + out.var()


def averaged(kind: str) -> tuple[Averaged, dict[str, Tensor]]:
    """Returns the model in float64, and a call with six rows."""
    torch.manual_seed(0)
    given = {name: torch.randn(6, 5, 6).double() for name in ("x", "y")}
    return Averaged(kind).double(), given
