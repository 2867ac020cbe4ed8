"""What a loader gives a rank of a parameter that it makes of other tensors of a checkpoint.

    checkpoint   experts.0.w1 (I, H), experts.0.w3 (I, H), ...
    parameter    gate_up_proj (E, 2 I, H): concatenated while loading
    a rank       its part of w1, then its part of w3: S(1, blocks=2), whatever the style says

    checkpoint   q_proj (heads * 2 * half, H), in pairs of rows
    parameter    q_proj (heads * half * 2, H): permuted for RoPE while loading
    a rank       permutes its part as if that had all heads: rows of other places, and no error

transformers cuts what it reads from the checkpoint as the parameter is cut, and converts the parts.
A conversion only moves numbers: so it is followed with the places of the numbers in place of the
numbers, by the loader's own operations, whole (which must give what is there) and on every rank's
parts. The parts that come out lie as the style says, or in another way that has a name (in blocks),
or they are rows of other places.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from typing import Any

import torch
from torch import Tensor, nn

from dimsolve.partition.engines.tp_plan import ALL_STYLES, Resolved
from dimsolve.partition.placement import Placement, Replicate, Shard

BLOCKS = (1, 2, 3, 4)
"""Of so many blocks a parameter that is put together has its parts."""

LARGEST = 1 << 27
"""So many numbers are followed through a conversion: 1 GiB of their places."""


def part_lengths(length: int, count: int) -> list[int]:
    """Returns the lengths of torch's chunks, empty ones included.

    >>> part_lengths(10, 4), part_lengths(4, 3)
    ([3, 3, 3, 1], [2, 2, 0])
    """
    most = -(-length // count)
    return [max(min(most, length - most * rank), 0) for rank in range(count)]


def part_of(tensor: Tensor, placement: Placement, rank: int, count: int) -> Tensor:
    """Returns what a rank has of a parameter."""
    if not isinstance(placement, Shard):
        return tensor
    blocks: Any = placement.blocks  # a plan of an engine has numbers
    rows = []
    for block in tensor.tensor_split(blocks, placement.dim):
        lengths = part_lengths(block.shape[placement.dim], count)
        rows.append(block.narrow(placement.dim, sum(lengths[:rank]), lengths[rank]))
    return torch.cat(rows, placement.dim) if blocks > 1 else rows[0]


@dataclass(frozen=True, slots=True)
class Loaded:
    """What ranks get of one parameter. held: how it lies, None where the parts are nothing of the
    kind. names: the parameters whose numbers the parts have; places: for every rank, where the
    numbers of its part stand in those, one after another. wrong: what is so about it, in words.
    failed: why it cannot be loaded at all; doubt: why nothing is known of it.
    """

    held: Placement | None = None
    names: tuple[str, ...] = ()
    places: tuple[Tensor, ...] = ()
    wrong: str = ""
    failed: str = ""
    doubt: str = ""

    def part(self, wholes: Mapping[str, Tensor], rank: int) -> Tensor:
        """Returns what a rank has."""
        flat = torch.cat([wholes[name].reshape(-1) for name in self.names])
        return flat[self.places[rank].to(flat.device)]


def loaded_parameters(model: nn.Module, plan: Resolved, count: int) -> dict[str, Loaded]:
    """Returns what ranks get of parameters that a loader of transformers makes otherwise than their
    style says, by name; {} for a model that is none of transformers'.
    """
    if not type(model).__module__.startswith("transformers."):
        return {}
    converters = _converters(model)
    said = {
        name: ALL_STYLES[style].placement(name.rpartition(".")[2], parameter.ndim)
        for name, parameter in model.named_parameters()
        if (style := plan.parameters.get(name, "")) in ALL_STYLES
    }
    cut = {n: p for n, p in said.items() if isinstance(p, Shard) and p.dim < _ndim(model, n)}
    if not any(_makes(converters, name) for name in cut):
        return {}
    own = [name for name in cut if _makes(converters, name)]
    places = _places(model, converters)
    if places is None:
        return dict.fromkeys(own, Loaded(doubt="it is too large for its conversion to be followed"))
    try:
        checkpoint = _loader().revert_weight_conversion(model, dict(places))
        whole = _converted(model, converters, checkpoint, {}, 0, 1)
    except Exception as error:  # operations that do more than moving what they are given
        return dict.fromkeys(own, Loaded(doubt=f"its conversion raised {_first_line(error)}"))
    try:
        ranks = [_converted(model, converters, checkpoint, cut, r, count) for r in range(count)]
    except Exception as error:  # operations that a part does not fit
        failed = f"the loader's conversion of what it has cut raised {_first_line(error)}"
        return dict.fromkeys(own, Loaded(failed=failed))
    found: dict[str, Loaded] = {}
    for name, at in places.items():
        if name in whole and _equal(whole[name], at):
            if any(name not in rank for rank in ranks):
                found[name] = Loaded(doubt="its conversion gives some rank nothing of it")
                continue
            got = [rank[name] for rank in ranks]
            wanted = [part_of(at, cut[name], r, count) if name in cut else at for r in range(count)]
            if not all(map(_equal, got, wanted)):
                found[name] = _described(at, got, wanted, places)
        elif name in cut:
            found[name] = Loaded(doubt="its conversion does more than moving numbers")
    return found


def _first_line(error: Exception) -> str:
    return f"{type(error).__name__}: {str(error).partition(chr(10))[0]}"


def _loader() -> Any:
    return import_module("transformers.core_model_loading")


def _ndim(model: nn.Module, name: str) -> int:
    return model.get_parameter(name).ndim


def _converters(model: nn.Module) -> list[Any]:
    """The conversions that make tensors of tensors."""
    mapping = import_module("transformers.conversion_mapping").get_model_conversion_mapping
    return [each for each in mapping(model) if isinstance(each, _loader().WeightConverter)]


def _makes(converters: list[Any], name: str) -> bool:
    """Whether a conversion makes this parameter."""
    patterns = (pattern for each in converters for pattern in each.target_patterns)
    return any(re.search(pattern.replace("^", ""), name) for pattern in patterns)


def _places(model: nn.Module, converters: list[Any]) -> dict[str, Tensor] | None:
    """A number for every number of the parameters that are converted; None for too many."""
    made = {n: p.shape for n, p in model.named_parameters() if _makes(converters, n)}
    if sum(shape.numel() for shape in made.values()) > LARGEST:
        return None
    places, start = {}, 0
    for name, shape in made.items():
        places[name] = torch.arange(start, start + shape.numel()).view(shape)
        start += shape.numel()
    return places


def _converted(
    model: Any,
    converters: list[Any],
    checkpoint: Mapping[str, Tensor],
    cut: Mapping[str, Placement],
    rank: int,
    count: int,
) -> dict[str, Tensor]:
    """What the loader makes of a checkpoint for one rank, by the names of parameters."""
    loader = _loader()
    mapping = import_module("transformers.conversion_mapping").get_model_conversion_mapping(model)
    renamings = [each for each in mapping if isinstance(each, loader.WeightRenaming)]
    by_pattern = {pattern: each for each in converters for pattern in each.source_patterns}
    state = model.state_dict()
    targets: dict[str, Any] = {}
    made: dict[str, Tensor] = {}
    for key, tensor in sorted(checkpoint.items(), key=lambda item: loader.dot_natural_key(item[0])):
        name, pattern = loader.rename_source_key(
            key, renamings, converters, model.base_model_prefix, state
        )
        if name not in state:
            continue
        if pattern is None:
            made[name] = part_of(tensor, cut.get(name, Replicate()), rank, count)
            continue
        target = targets.setdefault(name, copy.deepcopy(by_pattern[pattern]))
        number = len(target.collected_tensors.get(pattern, []))
        placement = cut.get(name)
        read = partial(_read, tensor, placement, state[name], number, rank, count)
        target.add_tensor(name, key, pattern, read)
    for name, target in targets.items():
        for full, tensor in target.convert(name, model=model, config=model.config).items():
            made[full] = tensor[0] if isinstance(tensor, list) else tensor
    return made


def _read(
    source: Tensor, placement: Any, parameter: Tensor, number: int, rank: int, count: int
) -> Tensor | None:
    """A rank's part of a tensor of the checkpoint: cut in the dimension that is the parameter's.

    A tensor of one dimension less is the ``number``-th of a stack; of a stack that is cut a rank
    has some, and inside of one tensor no blocks are looked at.
    """
    if placement is None:
        return source
    if source.ndim != parameter.ndim - 1:
        return part_of(source, placement, rank, count)
    if placement.dim > 0:
        return part_of(source, Shard(placement.dim - 1), rank, count)
    lengths = part_lengths(parameter.shape[0], count)
    start = sum(lengths[:rank])
    return source if start <= number % parameter.shape[0] < start + lengths[rank] else None


def _equal(one: Tensor, other: Tensor) -> bool:
    return one.shape == other.shape and torch.equal(one, other)


def _described(
    at: Tensor, got: list[Tensor], wanted: list[Tensor], places: Mapping[str, Tensor]
) -> Loaded:
    count = len(got)
    for rank, (own, part) in enumerate(zip(got, wanted, strict=True)):
        if own.shape != part.shape:
            failed = f"the loader makes {tuple(own.shape)} of what it has cut for rank {rank}, "
            return Loaded(failed=f"{failed}and its part is {tuple(part.shape)}")
    starts = torch.tensor([int(each.flatten()[0]) for each in places.values()])
    owners = [torch.bucketize(own, starts, right=True) - 1 for own in got]
    used = torch.cat([each.flatten() for each in owners]).unique()
    names = tuple(list(places)[number] for number in used.tolist())
    lengths = torch.tensor([places[name].numel() for name in names])
    shift = torch.zeros_like(starts)
    shift[used] = lengths.cumsum(0) - lengths - starts[used]
    moved = tuple(own + shift[owner] for own, owner in zip(got, owners, strict=True))
    held = next(
        (p for p in _others(at, count) if all(map(_equal, got, _all_parts(at, p, count)))), None
    )
    return Loaded(held, names, moved, _first_wrong(got, wanted, places))


def _others(at: Tensor, count: int) -> Iterator[Shard]:
    for dim, length in enumerate(at.shape):
        for blocks in BLOCKS:
            if length % (blocks * count) == 0 or blocks == 1:
                yield Shard(dim, blocks)


def _all_parts(at: Tensor, placement: Placement, count: int) -> list[Tensor]:
    return [part_of(at, placement, rank, count) for rank in range(count)]


def _first_wrong(got: list[Tensor], wanted: list[Tensor], places: Mapping[str, Tensor]) -> str:
    """The first number of a rank's part that stands elsewhere, in words."""
    for rank, (own, part) in enumerate(zip(got, wanted, strict=True)):
        if not torch.equal(own, part):
            place = int((own != part).flatten().nonzero()[0])
            has, belongs = (_row(int(each.flatten()[place]), places) for each in (own, part))
            return f"rank {rank} has {has}, where {belongs} belongs"
    return ""


def _row(number: int, places: Mapping[str, Tensor]) -> str:
    for name, numbers in places.items():
        first = int(numbers.flatten()[0])
        if first <= number < first + numbers.numel():
            at = torch.unravel_index(torch.tensor(number - first), numbers.shape)
            return f"{name}[{', '.join(str(int(i)) for i in at)}]"
    return "nothing"
