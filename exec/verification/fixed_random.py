"""Surroundings that are the same each time, and leave those of the program as they are."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch


@contextmanager
def fixed_random(seed: int) -> Iterator[None]:
    """Seeds the CPU's generator inside, for functions that draw from it, and restores it after.

    Gradients are recorded inside, whatever mode the program is in.
    """
    before = torch.random.get_rng_state()
    torch.default_generator.manual_seed(seed)
    try:
        with torch.inference_mode(False), torch.enable_grad():
            yield
    finally:
        torch.random.set_rng_state(before)
