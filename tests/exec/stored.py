"""Training on parts and on one device: the steps, and what is compared after them."""

from __future__ import annotations

from collections.abc import Mapping

import torch

from dimsolve.exec.parallel.parallelize import ParallelModule
from tests.oracles.all_ranks import loss_of, tensors


def steps(model: torch.nn.Module, batch: Mapping[str, torch.Tensor]) -> list[float]:
    """Three AdamW steps on two batches each, the norm clipped; returns the norms.

    eps: a key's bias has no gradient but rounding, which must not be made a step.
    """
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2, eps=1e-4)
    norms = []
    for number in range(3):
        for turn in (2 * number, 2 * number + 1):
            loss = loss_of(tensors(dict(model(**{k: v.roll(turn, 0) for k, v in batch.items()}))))
            (loss / 2).backward()
        norms.append(float(torch.nn.utils.clip_grad_norm_(model.parameters(), 0.1)))
        optimizer.step()
        optimizer.zero_grad()
    return norms


def difference(whole: torch.nn.Module, part: ParallelModule) -> float:
    """The largest of any parameter's part, relative to the largest element of the whole, which may
    be zero as a whole.
    """
    most = 0.0
    own = dict(part.named_parameters())
    for name, parameter in whole.named_parameters():
        wanted = part.held(name).part(parameter)
        assert own[name].shape == wanted.shape, name
        if wanted.numel():
            largest = parameter.detach().abs().max().clamp(min=1e-3)
            most = max(most, float((own[name].detach() - wanted).abs().max() / largest))
    return most
