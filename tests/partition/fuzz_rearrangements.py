"""Random rearrangements on real arrays: what the ranks hold is the whole again, interleaved or not.

    python -m tests.partition.fuzz_rearrangements 20000 [seed]

A rearrangement splits dimensions, permutes and joins them; NumPy runs it on the whole and on what
every rank has. A small part runs with the tests (`test_check_fuzz.py`).
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from itertools import pairwise
from math import prod
from random import Random

import numpy as np

from dimsolve.partition.legality import Legality, check
from dimsolve.partition.placement import Placement, Shard

from .test_check_soundness import rearrange, shard

NAMES = "abcd"


def random_rearrangement(draw: Random) -> tuple[str, dict[str, int], tuple[int, ...]]:
    """Draws an annotation, the lengths of its identifiers, and the input's shape."""
    names = list(NAMES[: draw.randint(1, 4)])
    atoms: list[str] = [*names, *draw.sample(["2", "3"], draw.randint(0, 1))]
    draw.shuffle(atoms)
    left = _grouped(draw, atoms)
    draw.shuffle(atoms)
    right = _grouped(draw, atoms)
    lengths = {name: draw.choice((1, 2, 3, 4, 6)) for name in names}
    shape = tuple(prod(int(a) if a.isdigit() else lengths[a] for a in group) for group in left)
    return f"{_written(left)} -> {_written(right)}", lengths, shape


def _grouped(draw: Random, atoms: list[str]) -> list[list[str]]:
    groups: list[list[str]] = []
    for atom in atoms:
        if groups and draw.random() < 0.5:
            groups[-1].append(atom)
        else:
            groups.append([atom])
    return groups


def _written(groups: list[list[str]]) -> str:
    return " ".join(g[0] if len(g) == 1 else f"({' '.join(g)})" for g in groups)


def wrongs(number: int) -> Iterator[str]:
    """Yields in words everything that is wrong with one split of one rearrangement."""
    draw = Random(number)
    text, lengths, shape = random_rearrangement(draw)
    name, parts = draw.choice(list(lengths)), draw.choice((1, 2, 3))
    asked = (text, [shape], name, parts)
    legality = check(*asked, arguments=lengths)
    divides = lengths[name] % parts == 0
    if (legality.verdict == "legal") != divides:
        yield f"{number} {asked}: {legality}"
    if not divides:
        return
    whole = np.arange(prod(shape)).reshape(shape)
    result = rearrange(whole, text, lengths)
    yield from (f"{number} {asked}: {wrong}" for wrong in _differs(legality, text, whole, result))
    runs = all(
        _is_one_run(placement, size, parts)
        for placement, array in ((legality.inputs[0], whole), (legality.outputs[0], result))
        if isinstance(placement, Shard)
        for size in [array.shape[placement.dim]]
    )
    run = check(*asked, arguments=lengths, contiguous=True)
    if (run.verdict == "legal") != (runs or parts == 1):
        yield f"{number} {asked} contiguous: {run}"


def _differs(legality: Legality, text: str, whole: np.ndarray, result: np.ndarray) -> Iterator[str]:
    parts = int(str(legality.parts))
    for rank in range(parts):
        local = shard(whole, legality.inputs[0], rank, parts)
        if local.shape != tuple(legality.local_inputs[0] or ()):
            yield f"rank {rank} has {local.shape}, not {legality.local_inputs}"
            return
        out = rearrange(local, text, legality.arguments)
        if out.shape != tuple(legality.local_outputs[0] or ()):
            yield f"rank {rank} makes {out.shape}, not {legality.local_outputs}"
        elif not (out == shard(result, legality.outputs[0], rank, parts)).all():
            yield f"rank {rank} computes something else"


def _is_one_run(placement: Placement, size: int, parts: int) -> bool:
    """Whether every rank's part of this dimension is one run of it, by looking at the indices."""
    return all(
        all(after == before + 1 for before, after in pairwise(held.tolist()))
        for rank in range(parts)
        for held in [shard(np.arange(size), _first(placement), rank, parts)]
    )


def _first(placement: Placement) -> Placement:
    assert isinstance(placement, Shard)
    return Shard(0, placement.blocks)


def main(count: int, seed: int) -> int:
    """Tries so many; prints what is wrong and returns how many times."""
    total = 0
    for number in range(seed, seed + count):
        for wrong in wrongs(number):
            total += 1
            print(wrong, flush=True)
    print(f"{count} rearrangements, {total} wrong")
    return total


if __name__ == "__main__":
    sys.exit(bool(main(int(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 0)))
