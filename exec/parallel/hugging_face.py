"""What methods of transformers' models do at a part.

    part.generate(ids, max_new_tokens=64)    the cache stays cut from call to call
    part.save_pretrained("checkpoint/")      the first rank writes whole tensors

Whatever else a model's class defines works on a part as it is: it calls the part, and reads the
settings that the part has from its model.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from inspect import signature
from math import prod
from typing import Any, TypeAlias

import torch
from torch import Tensor
from torch.nn import Embedding
from torch.overrides import TorchFunctionMode

from dimsolve.ir.errors import Problem

from ..lowering.setting import LoweringError
from .files import whole_state
from .given_inputs import Way, is_dtensor

Method: TypeAlias = Callable[..., Any]

CACHES = ("past_key_values*", "cache_params*")
"""What transformers' models return to be given again."""


def _generating(kind: Any) -> Method:
    """Returns the model's ``generate`` for a part: a cache stays cut, as DTensors, from call to
    call; and where ranks generate from their own prompts they all go on until the last is done.
    """

    @wraps(kind.generate)
    def generate(self: Any, *args: Any, **kwargs: Any) -> Any:
        way = self._programs.entries[0].first.given.way
        if way == "local" and "synced_gpus" in signature(kind.generate).parameters:
            kwargs.setdefault("synced_gpus", True)
        with self.returning(dict.fromkeys(CACHES, "placed")):
            return kind.generate(self, *args, **kwargs)

    return generate


def _preparing(kind: Any) -> Method:
    """Returns what makes the cache of ``generate``, without layers that count tokens in Python: a
    layer that forgets what has left its window keeps it, and masks leave it out as before.
    """

    @wraps(kind._prepare_cache_for_generation)
    def prepare(
        self: Any, config: Any, arguments: dict[str, Any], *args: Any, **kwargs: Any
    ) -> Any:
        given = arguments.get("past_key_values")
        result = kind._prepare_cache_for_generation(self, config, arguments, *args, **kwargs)
        made = arguments.get("past_key_values")
        if made is not given:
            longest = getattr(self, "_previous_max_cache_length", 0)
            for cache in (made, *[getattr(made, f"{n}_attention_cache", None) for n in _CACHES]):
                _keep_all(getattr(cache, "layers", ()), longest)
        return result

    return prepare


def _reordering(kind: Any) -> Method:
    """Returns what gives the rows of a cache the order of the beams that are kept."""

    def reorder(self: Any, cache: Any, beams: Tensor) -> Any:
        with _PickingRows(self._programs.entries[0].first.given.way):
            if hasattr(kind, "_reorder_cache"):
                return kind._reorder_cache(self, cache, beams)
            cache.reorder_cache(beams)
        return cache

    return reorder


class _PickingRows(TorchFunctionMode):
    """Lets a DTensor's rows be picked by the numbers that a rank knows: of all rows where each rank
    is given whole inputs, of its own where it is given its own.
    """

    def __init__(self, way: Way) -> None:
        super().__init__()
        self._way = way

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        if func is not Tensor.index_select or not is_dtensor(args[0]) or len(args) != 3:
            return func(*args, **(kwargs or {}))
        from torch.distributed.tensor import DTensor, Replicate

        held, dim, rows = args
        mesh, placements = held.device_mesh, held.placements
        if self._way == "whole":
            known = DTensor.from_local(rows, mesh, [Replicate()] * mesh.ndim, run_check=False)
            return held.index_select(dim, known).redistribute(mesh, placements)
        picked = held.to_local().index_select(dim, rows)
        shape, stride = held.size(), held.stride()
        return DTensor.from_local(
            picked, mesh, placements, run_check=False, shape=shape, stride=stride
        )


_CACHES = ("self", "cross")


def _keep_all(layers: Any, longest: int) -> None:
    """Puts plain layers in place of those of transformers that forget: growing ones, and static
    ones of the longest length that is generated.
    """
    for number, layer in enumerate(layers):
        kind = type(layer)
        if kind.__name__ == "DynamicSlidingWindowLayer":
            layers[number] = kind.__mro__[1]()
        elif kind.__name__ == "StaticSlidingWindowLayer":
            layers[number] = kind.__mro__[1](max_cache_len=longest)


_NOT_WRITTEN = Problem(
    LoweringError,
    "not-written",
    "rank 0 has not written the checkpoint",
    "save_pretrained raised an error there, and the other ranks have waited for it",
    "rank 0 says why; it needs a folder that it can write to",
)
_NO_STATE = Problem(
    LoweringError,
    "no-state-dict",
    "save_pretrained of {name} writes what the model itself holds",
    "it takes no state_dict, and this rank holds parts",
    "get_model_state_dict(part, options=StateDictOptions(full_state_dict=True, cpu_offload=True)) "
    "of torch.distributed.checkpoint.state_dict gives the first rank the whole one",
)
_PARTS_OF_FILES = Problem(
    LoweringError,
    "distributed-checkpoint",
    "a part writes no distributed_checkpoint of transformers",
    "that one holds the state as transformers has cut it",
    "torch.distributed.checkpoint.save(part.state_dict(), checkpoint_id=folder), or "
    "part.save_pretrained(folder) for a whole one",
)


def _saving(kind: Any) -> Method:
    """Returns the model's ``save_pretrained`` for a part: all ranks of the mesh call it and gather
    one tensor after another, the first one writes, and the others wait until it has.
    """

    parameters = signature(kind.save_pretrained)

    @wraps(kind.save_pretrained)
    def save_pretrained(self: Any, *args: Any, **kwargs: Any) -> Any:
        whole = self._programs.on_demand.model if _is_of_peft(kind) else self
        if whole is None or (whole is self and "state_dict" not in parameters.parameters):
            raise _NO_STATE(name=kind.__name__)
        given = parameters.bind(self, *args, **kwargs).arguments
        if given.get("state_dict") is not None:  # whole already, as a Trainer gives it
            return kind.save_pretrained(self, *args, **kwargs)
        if given.get("distributed_checkpoint"):
            raise _PARTS_OF_FILES()
        given.pop("self")
        others = given.pop("kwargs", {})
        first = self.ends.rank == 0
        state = whole_state(self, keep=first)
        problem: BaseException | None = None
        if first:
            try:
                kind.save_pretrained(whole, **{**given, **others, "state_dict": state})
            except Exception as error:
                problem = error
        written = torch.tensor(int(problem is None), device=self.ends.device)
        for end in self.ends.communicators.values():
            if end.size > 1:
                written = end.broadcast(written, 0)
        if problem is not None:
            raise problem
        if not written:
            raise _NOT_WRITTEN()
        return None

    return save_pretrained


def _finding(name: str) -> Callable[[Any], Method]:
    """Returns what makes a method that finds a module of the model, as ``get_encoder`` does, for a
    part: modules of a part have no methods, and transformers asks them, so the model's modules are
    asked, and the part's of that path is given.
    """

    def make(kind: Any) -> Method:
        method: Method = getattr(kind, name)

        @wraps(method)
        def find(self: Any, *args: Any, **kwargs: Any) -> Any:
            whole = self._programs.on_demand.model
            if whole is None:
                return method(self, *args, **kwargs)
            found = method(whole, *args, **kwargs)
            path = next((path for path, each in whole.named_modules() if each is found), None)
            return found if path is None else self.get_submodule(path)

        return find

    return make


_CHANGES = Problem(
    LoweringError,
    "changes-model",
    "{name} of a part changes nothing that its program runs",
    "the program is what was traced, of modules as they were then",
    "call it on the model, then trace, plan and parallelize the model again{more}",
)
_WHOLE_WEIGHTS = "; weights that the part has trained: model.load_state_dict of whole ones"


def _refusing(name: str) -> Callable[[Any], Method]:
    """Returns what makes a method that is refused, for it would change modules."""

    def make(kind: Any) -> Method:
        @wraps(getattr(kind, name))
        def refuse(self: Any, *args: Any, **kwargs: Any) -> Any:
            raise _CHANGES(name=name, more=_WHOLE_WEIGHTS if name in _OF_WEIGHTS else "")

        return refuse

    return make


_OF_WEIGHTS = frozenset({"resize_token_embeddings", "merge_and_unload", "merge_adapter", "unload"})
_CHANGING = (
    *("resize_token_embeddings", "resize_position_embeddings", "init_weights", "dequantize"),
    *("gradient_checkpointing_enable", "gradient_checkpointing_disable"),
    *("enable_input_require_grads", "set_attn_implementation"),
    *("add_adapter", "load_adapter", "set_adapter", "delete_adapter", "enable_adapters"),
    *("disable_adapters", "merge_adapter", "unmerge_adapter", "merge_and_unload", "unload"),
)
"""Methods of transformers' and peft's models that change modules, or which of them are called."""

_THEIRS = frozenset({"num_parameters", *_CHANGING})
"""What other classes may define for themselves."""


def _counting(kind: Any) -> Method:
    """Returns the model's ``num_parameters`` for a part: of the wholes, as on one device."""

    @wraps(kind.num_parameters)
    def num_parameters(
        self: Any, only_trainable: bool = False, exclude_embeddings: bool = False
    ) -> int:
        model = getattr(self._programs.on_demand, "model", None) if exclude_embeddings else None
        modules = () if model is None else model.named_modules()
        tables = {f"{path}.weight" for path, each in modules if isinstance(each, Embedding)}
        return sum(
            prod(self.held(name).whole_shape(tuple(parameter.shape)))
            for name, parameter in self.named_parameters()
            if name not in tables and (parameter.requires_grad or not only_trainable)
        )

    return num_parameters


def _is_of_peft(kind: Any) -> bool:
    """Whether a class is one of peft's, which asks the modules of a model which weights to write:
    the model that the part keeps, without bytes.
    """
    return any(base.__module__.partition(".")[0] == "peft" for base in kind.__mro__)


_FINDING = ("get_encoder", "get_decoder", "get_input_embeddings", "get_output_embeddings")
"""Methods that return a module of the model, or none."""

_METHODS = (
    ("generate", "generate", _generating),
    ("_prepare_cache_for_generation", "_prepare_cache_for_generation", _preparing),
    ("_reorder_cache", "generate", _reordering),
    *((name, name, _finding(name)) for name in _FINDING),
    ("save_pretrained", "save_pretrained", _saving),
    ("num_parameters", "num_parameters", _counting),
    *((name, name, _refusing(name)) for name in _CHANGING),
)
"""What a part has, of classes that have what, and what makes it."""


def methods_of(kind: Any) -> dict[str, Any]:
    """Returns the methods that a part has in place of its model's, for a class of models."""
    theirs = {base.__module__.partition(".")[0] for base in kind.__mro__} & {"transformers", "peft"}
    found = [
        each
        for each in _METHODS
        if (theirs or each[0] not in _THEIRS) and callable(getattr(kind, each[1], None))
    ]
    return {name: make(kind) for name, _, make in found}
