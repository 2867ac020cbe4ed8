"""Whisper and DETR, a day's work with a part of each, and flex_attention, beside one device.

    whisper     sound in, tokens out: a cache of two kinds, of which one is filled once
    detr        pictures in, boxes out: a loss that pairs them with what is there is the caller's

DETR in training mode asks its data whether all are finite, and clamps them where not: that is
refused, and what trains is the model in evaluation mode, which drops nothing and asks nothing.
"""

from __future__ import annotations

import warnings
from copy import deepcopy
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn.attention.flex_attention import create_block_mask, flex_attention

import dimsolve as ds
from tests.exec.programs import difference
from tests.oracles.traces import shared_on_demand, shared_trace

ROWS, NEW = 4, 32


def whisper() -> tuple[Any, dict[str, Tensor], dict[str, Any]]:
    """A model, a batch, and the names of its dimensions."""
    from transformers import WhisperConfig, WhisperForConditionalGeneration

    torch.manual_seed(0)
    config = WhisperConfig(
        vocab_size=96, num_mel_bins=8, d_model=32, encoder_layers=1, decoder_layers=1,
        encoder_attention_heads=4, decoder_attention_heads=4, encoder_ffn_dim=48,
        decoder_ffn_dim=48, max_source_positions=16, max_target_positions=64,
        pad_token_id=0, bos_token_id=1, eos_token_id=None, decoder_start_token_id=1, dropout=0.0,
    )  # fmt: skip
    model = WhisperForConditionalGeneration(config).double()
    drawn = torch.Generator().manual_seed(1)
    batch = {
        "input_features": torch.randn(ROWS, 8, 32, generator=drawn).double(),
        "labels": torch.randint(3, 96, (ROWS, 6), generator=drawn),
    }
    return model, batch, {"input_features": {0: "batch"}, "labels": {0: "batch", 1: "seq"}}


def detr() -> tuple[Any, dict[str, Tensor], dict[str, Any]]:
    """A model of pictures, a batch, and the names of its dimensions."""
    from transformers import DetrConfig, DetrForObjectDetection, ResNetConfig

    torch.manual_seed(0)
    backbone = ResNetConfig(
        embedding_size=8, hidden_sizes=[16, 32], depths=[1, 1], layer_type="basic",
        out_features=["stage2"],
    )  # fmt: skip
    config = DetrConfig(
        use_timm_backbone=False, backbone_config=backbone, use_pretrained_backbone=False,
        backbone=None, num_queries=6, d_model=32, encoder_layers=1, decoder_layers=1,
        encoder_attention_heads=4, decoder_attention_heads=4, encoder_ffn_dim=48,
        decoder_ffn_dim=48, num_labels=5, dropout=0.0, init_xavier_std=1.0,
    )  # fmt: skip
    model = DetrForObjectDetection(config).double().eval()
    drawn = torch.Generator().manual_seed(1)
    batch = {"pixel_values": torch.randn(ROWS, 3, 32, 32, generator=drawn).double()}
    return model, batch, {"pixel_values": {0: "batch"}}


MODELS = {"whisper": whisper, "detr": detr}


def loss_of(name: str, result: Any, rows: int) -> Tensor:
    """The mean over all rows of the batch, of however many are given here."""
    if name == "whisper":
        loss: Tensor = result.loss
        return loss
    logits, boxes = result.logits, result.pred_boxes
    return logits.square().sum() / rows + boxes.sin().sum() / rows


def day(name: str, model: Any, batch: dict[str, Tensor], rows: int) -> dict[str, Any]:
    """Three steps, an evaluation, and of sound 32 tokens with a cache."""
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    for _ in range(3):
        loss_of(name, model(**batch), rows).backward()
        optimizer.step()
        optimizer.zero_grad()
    model.eval()
    found: dict[str, Any] = {}
    with torch.no_grad():
        evaluated = model(**batch)
    found["logits"] = evaluated.logits
    if name == "detr":
        found["boxes"] = evaluated.pred_boxes
        return found
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found["tokens"] = model.generate(
            batch["input_features"], max_new_tokens=NEW, min_new_tokens=NEW, do_sample=False
        )
    return found


def days(name: str) -> dict[str, dict[str, float]]:
    """A day on ``tp`` with whole batches and one on ``dp`` with rows of its own on every rank: the
    differences to one device.
    """
    whole, batch, dynamic = MODELS[name]()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        graph = shared_trace(f"day of {name}", whole, kwargs=batch, dynamic=dynamic)
    wanted = day(name, deepcopy(whole), batch, ROWS)
    found: dict[str, dict[str, float]] = {}
    with shared_on_demand(name):
        for axis, way in (("tp", "whole"), ("dp", "local")):
            part = ds.parallelize(whole, ds.plan(graph, {axis: 2}), inputs=way)
            first = ROWS // 2 * dist.get_rank()
            rows = slice(first, first + ROWS // 2) if axis == "dp" else slice(None)
            given = day(name, part, {k: v[rows] for k, v in batch.items()}, ROWS)
            found[axis] = {k: difference(given[k], wanted[k][rows]) for k in given}
    return found


HEADS, KEYS = 3, 160


class ThreeHeads(nn.Module):
    """flex_attention of three heads, with a slope for each, which is not the place of a head."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.q, self.k, self.v = (nn.Linear(8, 4 * HEADS) for _ in range(3))
        self.o = nn.Linear(4 * HEADS, 8)
        self.slopes = nn.Parameter(torch.rand(HEADS))

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = (
            layer(x).unflatten(-1, (HEADS, 4)).transpose(1, 2) for layer in (self.q, self.k, self.v)
        )
        slopes = self.slopes
        mask = create_block_mask(_causal, None, None, KEYS, KEYS, device="cpu")
        found = flex_attention(q, k, v, lambda s, b, h, i, j: s + slopes[h] * (j - i), mask)
        assert isinstance(found, Tensor)
        result: Tensor = self.o(found.transpose(1, 2).flatten(-2))
        return result


def _causal(b: Tensor, h: Tensor, q: Tensor, k: Tensor) -> Tensor:
    return q >= k


def three_heads() -> dict[str, tuple[list[str], float]]:
    """How flex_attention's result lies along ``dp`` and, in unequal parts, along ``tp``; and the
    difference to one device.
    """
    model = ThreeHeads().double().requires_grad_(False)
    x = torch.randn(4, KEYS, 8, generator=torch.Generator().manual_seed(3)).double()
    with warnings.catch_warnings(), torch.no_grad():
        warnings.simplefilter("ignore")
        graph = ds.trace(model, args=(x,), dynamic={"x": {0: "batch"}})
        wanted = model(x)
        found = {}
        for axis in ("dp", "tp"):
            plan = ds.plan(graph, {axis: 2}, uneven="allow")
            (entry,) = (each for each in plan.operators if each.name == "flex_attention")
            given = ds.parallelize(model, plan)(x)
            found[axis] = entry.outputs[0].placements, difference(given, wanted)
    return found
