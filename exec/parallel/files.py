"""A part's tensors in files: whole ones written together, safetensors read slice by slice.

    load_safetensors(part, "checkpoint/")      model.safetensors, or the files that its index names
    rank 1 of tp = 2, q_proj.weight (64, 64)   reads rows 32 to 64 of it, and nothing else
    whole_state(part)                          every rank calls it; the first one gets the wholes
    save_optimizer(part, adamw, "optimizer/")  each rank writes its part, for any other mesh

What is cut in blocks or segments is read run by run. Files are memory-mapped, so a rank holds no
more than its part, also of a checkpoint larger than its memory.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from dimsolve.ir.errors import Problem

from ..lowering.setting import LoweringError
from .state import Held

_NAMES = ("model.safetensors.index.json", "model.safetensors")

_NO_FILE = Problem(
    LoweringError,
    "no-safetensors",
    "there are no safetensors at {path}",
    "a file is read, or a folder that holds {names}",
    "write them with model.save_pretrained({path!r}), or safetensors.torch.save_model",
)
_OTHER_SHAPE = Problem(
    LoweringError,
    "other-shape",
    "{name} has another shape",
    "it is {found} in {file} and {whole} in the model",
    "make the model of the config that is beside the files, or load files of this model",
)
_OTHER_NAMES = Problem(
    LoweringError,
    "other-names",
    "the files at {path} hold other tensors than the model",
    "{reason}",
    "load the model with its own from_pretrained, and parallelize it; or strict=False",
)


def load_safetensors(part: Any, path: str | Path, *, strict: bool = True) -> None:
    """Reads this rank's parts of a model's parameters and buffers. Nothing is sent: ranks call it
    by themselves, and read only what they hold.

    path: a file, or a folder as ``save_pretrained`` writes it. strict: whether every tensor of the
    files must be the model's, and every one of the model's state be there, under one of its names
    where it has several. Raises LoweringError otherwise, before anything is changed.
    """
    from safetensors import safe_open

    named = _tensors_of(part)
    found: dict[str, Path] = {}
    for file in _files(Path(path)):
        with safe_open(file, framework="pt") as opened:
            for name in opened.keys():  # noqa: SIM118  # it is no mapping
                if name in named:
                    whole = part.held(name).whole_shape(named[name].shape)
                    shape = tuple(opened.get_slice(name).get_shape())
                    if shape != whole:
                        raise _OTHER_SHAPE(name=name, found=shape, file=file.name, whole=whole)
                found[name] = file
    if strict:
        _check_names(named, set(found), named.keys() - _not_saved(part), Path(path))
    for file in dict.fromkeys(found.values()):
        with safe_open(file, framework="pt") as opened, torch.no_grad():
            for name in found:
                if found[name] == file and name in named:
                    _read(opened.get_slice(name), named[name], part.held(name))
    part.__dict__["_loads"] = part._loads + 1


def _tensors_of(part: Any) -> dict[str, Tensor]:
    """Parameters and buffers under all of their names."""
    return {
        **dict(part.named_parameters(remove_duplicate=False)),
        **dict(part.named_buffers(remove_duplicate=False)),
    }


def _not_saved(part: Any) -> set[str]:
    """The buffers that no state holds. (To ask for the state itself may send something.)"""
    return {
        f"{path}.{name}" if path else name
        for path, module in part.named_modules()
        for name in module._non_persistent_buffers_set
    }


def _files(path: Path) -> list[Path]:
    if path.is_file() and path.suffix != ".json":
        return [path]
    index, single = (path / name for name in _NAMES)
    index = path if path.suffix == ".json" else index
    if index.is_file():
        names = json.loads(index.read_text())["weight_map"].values()
        return [index.parent / name for name in dict.fromkeys(names)]
    if not single.is_file():
        raise _NO_FILE(path=str(path), names=" or ".join(_NAMES))
    return [single]


def _check_names(named: dict[str, Tensor], found: set[str], saved: set[str], path: Path) -> None:
    present = {id(named[name]) for name in found & named.keys()}
    missing = sorted(name for name in saved if id(named[name]) not in present)
    unknown = sorted(found - named.keys())
    told = [
        f"{what} {', '.join(names[:5])}{f' and {len(names) - 5} more' if len(names) > 5 else ''}"
        for what, names in (("they lack", missing), ("the model has no", unknown))
        if names
    ]
    if told:
        raise _OTHER_NAMES(path=str(path), reason="; ".join(told))


def _read(source: Any, part: Tensor, held: Held) -> None:
    """Copies the runs of a part from a slice of safetensors."""
    shape = tuple(source.get_shape())
    if not shape:
        part.copy_(source[...])
        return
    for run in held.runs(shape):
        to = tuple(slice(o, o + n) for o, n in zip(run.local, run.sizes, strict=True))
        of = tuple(slice(o, o + n) for o, n in zip(run.offsets, run.sizes, strict=True))
        part[to].copy_(source[of])


def whole_state(part: Any, *, keep: bool = True) -> dict[str, Tensor]:
    """Returns the state of the model with whole tensors on the CPU. All ranks of the mesh call it.

    One tensor after another is gathered. keep: whether this rank wants them; others get {}. Tied
    parameters share their memory.
    """
    own = _tensors_of(part)
    state: dict[str, Tensor] = {}
    for name, given in part.state_dict().items():
        gather: Any = getattr(given, "full_tensor", None)
        whole = given if gather is None else gather()
        if keep and isinstance(whole, Tensor):
            tied = next((n for n in state if own.get(n) is own.get(name, n)), None)
            state[name] = state[tied] if tied else whole.detach().to("cpu", copy=True)
    return state


def save_optimizer(part: Any, optimizer: Any, folder: str | Path) -> None:
    """Writes an optimiser's state as a checkpoint of torch.distributed, each rank its part."""
    from torch.distributed.checkpoint import state_dict_saver
    from torch.distributed.checkpoint.state_dict import get_optimizer_state_dict

    state_dict_saver.save(get_optimizer_state_dict(part, optimizer), checkpoint_id=str(folder))


def load_optimizer(part: Any, optimizer: Any, folder: str | Path) -> None:
    """Reads what `save_optimizer` wrote, also at another mesh."""
    from torch.distributed.checkpoint import state_dict_loader
    from torch.distributed.checkpoint.state_dict import (
        get_optimizer_state_dict,
        set_optimizer_state_dict,
    )

    state = get_optimizer_state_dict(part, optimizer)
    state_dict_loader.load(state, checkpoint_id=str(folder))
    set_optimizer_state_dict(part, optimizer, state)
