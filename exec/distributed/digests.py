"""What ranks tell of tensors: each one's dtype, shape and a number for its values in their places.

    q_proj.weight      torch.float32 (64, 64) 3f0a9c5d1e2b7746

Equal values tell the same, whatever their layout in memory; values that are only in another order
do not. The number is made of bits, so nan is equal to nan, and on the tensor's own device, in one
pass that needs no copy of it.
"""

from __future__ import annotations

from functools import cache

import torch
from torch import Tensor

_WORDS = 1 << 16
"""How many words are hashed with numbers of their own; of longer tensors the hashes are hashed."""

_AT_ONCE = 1 << 18
"""How many words are multiplied at once: what is made meanwhile stays in a cache."""


def digests(model: torch.nn.Module) -> dict[str, str]:
    """Returns what every parameter and buffer is, in short."""
    tensors = {**dict(model.named_parameters()), **dict(model.named_buffers())}
    return {name: digest(tensor) for name, tensor in tensors.items()}


@torch.no_grad()
def digest(tensor: Tensor) -> str:
    """Returns a tensor's dtype and shape, and 64 bits for its values."""
    said = f"{tensor.dtype} {tuple(tensor.shape)}"
    if tensor.is_meta or not tensor.numel():
        return said
    flat = _bytes(tensor.detach())
    if flat.storage_offset() % 4:
        flat = flat.clone()
    whole = flat.numel() // 4 * 4
    hashes = torch.cat([_hashes(flat[:whole].view(torch.int32)), flat[whole:].long()])
    while hashes.numel() > 1:
        hashes = _hashes(hashes.view(torch.int32))
    return f"{said} {int(hashes) & (1 << 64) - 1:016x}"


def _bytes(tensor: Tensor) -> Tensor:
    """The values as they lie in memory, one after the other: (n,) of uint8."""
    if tensor.layout is not torch.strided:
        tensor = tensor.to_dense()
    if tensor.is_quantized:
        tensor = tensor.int_repr()
    if tensor.dtype is torch.bool:
        tensor = tensor.view(torch.uint8).ne(0)  # any byte but 0 is true
    values = tensor.resolve_conj().resolve_neg().contiguous()
    return values.view(-1).view(torch.uint8)


def _hashes(words: Tensor) -> Tensor:
    """(n,) of int32 -> one number of int64 for each 2**16 words: their sum, each times a random
    number of its place. Words that differ have equal sums with a chance of 2**-32 at most
    (multilinear hashing: Lemire and Kaser, "Strongly universal string hashing is fast", 2014).
    """
    places = _random(words.device)
    found = []
    for part in words.split(_AT_ONCE):
        rows = part.numel() // _WORDS
        full = part[: rows * _WORDS].view(rows, _WORDS)
        rest = part[rows * _WORDS :]
        found.append((full * places).sum(1))
        if rest.numel():
            found.append((rest * places[: rest.numel()]).sum(0, keepdim=True))
    return torch.cat(found)


@cache
def _random(device: torch.device) -> Tensor:
    """One number for each place, the same in every process."""
    drawn = torch.Generator("cpu").manual_seed(0x5EED)
    with torch.inference_mode(False):
        made = torch.randint(
            -(1 << 63), (1 << 63) - 1, (_WORDS,), generator=drawn, dtype=torch.int64, device="cpu"
        )
        return made.to(device)
