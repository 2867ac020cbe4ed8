"""What one rank computes: every call of a torch function that makes tensors, in order, as data.

    with Recorder(model) as record:
        model(**inputs)
    record.steps[7]    linear   self_attn.q_proj   operands (31, 4, 5)   results (32,)

Values are numbered as they are first seen, so where two ranks run the same code a value has the
same number on both. What a model computes beside its modules' boundaries is recorded as it is
called; what an engine does at a boundary (`note`) is a step of its own kind. Sizes that are read
from tensors are numbers to Python and are no steps: what a model makes of them shows in the
arguments of later calls.

A value that is written to is a new value from then on. What comes from a part of a parameter is
kept as a copy, so that it can be compared after all ranks have ended; of what does not, every rank
has the same.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from ..registration.without_data import tensors_in

READS = frozenset({"item", "tolist", "__bool__", "__int__", "__float__", "__index__", "numpy"})
"""Methods that hand numbers of a tensor to Python."""

_OWN = ("dimsolve", "torch")

COPIED = 1 << 16
"""Larger tensors are not copied."""


@dataclass(frozen=True, slots=True)
class At:
    """Where something is called: the module, and the line of the model's code."""

    module: str
    file: str
    line: int


@dataclass(frozen=True, slots=True)
class Step:
    """One call. ``kind``: ``call``, ``read``, or the name of what happens at a boundary.
    ``before``: the value of every tensor among the arguments; ``results``: of what it makes.
    rank, width: the number of dimensions, at a boundary, and how long a last part it is about.
    """

    kind: str
    function: Any
    args: tuple[Any, ...]
    kwargs: Mapping[str, Any]
    before: tuple[int, ...]
    results: tuple[int, ...]
    at: At
    rank: int = 0
    width: int = 0


@dataclass(frozen=True, slots=True)
class Seen:
    """One value: a copy, and whether a gradient flows through it."""

    tensor: Tensor
    gradient: bool
    storage: int


@dataclass(frozen=True, slots=True)
class Refused:
    """What the engine's tensors would raise. ``training``: only where gradients are recorded."""

    at: At
    reason: str
    training: bool


@dataclass
class Recorder(TorchFunctionMode):
    """Records the calls of one run of a module.

    cut: the names of the parameters that ranks have parts of. distributed: the ids of tensors that
    are DTensors in the engine, and whether they are so only in training; views: of those that it
    hands out. replaced: by the id of a weight, what is called in place of the function that gets
    it, and the kind under which that is recorded. sized: values of which something was asked that
    is no tensor, such as a shape. of_parts: values that come from a part of a parameter, or through
    a boundary. failed: the last error that a call raised, and
    the call.
    """

    model: nn.Module
    cut: frozenset[str] = frozenset()
    steps: list[Step] = field(default_factory=list)
    values: list[Seen] = field(default_factory=list)
    given: dict[int, str] = field(default_factory=dict)
    refused: list[Refused] = field(default_factory=list)
    distributed: dict[int, bool] = field(default_factory=dict)
    views: set[int] = field(default_factory=set)
    replaced: dict[int, Any] = field(default_factory=dict)
    sized: set[int] = field(default_factory=set)
    of_parts: set[int] = field(default_factory=set)
    failed: tuple[Exception, partial[Any]] | None = None

    def __post_init__(self) -> None:
        super().__init__()
        self._numbers: dict[int, int] = {}
        self._kept: list[Any] = []
        self._modules: list[str] = []
        self._names = {
            id(tensor): name
            for name, tensor in [
                *self.model.named_buffers(remove_duplicate=False),
                *self.model.named_parameters(remove_duplicate=False),
            ][::-1]
        }
        self._last = At("", "", 0)

    @contextmanager
    def inside(self) -> Iterator[None]:
        """Keeps the names of the modules that run, and records."""
        handles = []
        for name, module in self.model.named_modules():
            enter = module.register_forward_pre_hook(partial(self._enter, name))
            handles += [enter, module.register_forward_hook(self._leave, always_call=True)]
        try:
            with self:
                yield
        finally:
            for handle in handles:
                handle.remove()

    def _enter(self, name: str, *_: Any) -> None:
        self._modules.append(name)

    def _leave(self, *_: Any) -> None:
        if self._modules:
            self._modules.pop()

    @property
    def at(self) -> At:
        """The innermost module, and the line of the model that runs."""
        module = self._modules[-1] if self._modules else ""
        frame = sys._getframe(1)
        while frame is not None:
            if frame.f_globals.get("__name__", "").partition(".")[0] not in _OWN:
                return At(module, frame.f_code.co_filename, frame.f_lineno)
            if frame.f_back is None:
                break
            frame = frame.f_back
        return At(module, "", 0)

    def failed_at(self) -> At:
        """Where the last call began: where the run failed, if it failed in one."""
        return self._last

    def number(self, tensor: Tensor) -> int:
        """Returns the number of a value, a new one for what was given from outside."""
        found = self._numbers.get(id(tensor))
        if found is None:
            name = self._names.get(id(tensor), "")
            found = self._new(tensor, name in self.cut)
            self.given[found] = name
        return found

    def _new(self, tensor: Tensor, of_parts: bool) -> int:
        with torch._C.DisableTorchFunction():
            plain = _plain(tensor)
            copy = tensor.detach() if plain else torch.empty(0)
            if plain and of_parts:
                self.of_parts.add(len(self.values))
                copy = copy.clone() if copy.numel() <= COPIED else copy
            seen = Seen(copy, plain and tensor.requires_grad, _storage(tensor))
        self.values.append(seen)
        self._kept.append(tensor)
        self._numbers[id(tensor)] = len(self.values) - 1
        return len(self.values) - 1

    def note_kept(self, tensor: Tensor) -> None:
        """Keeps a tensor, so that no other has its id."""
        self._kept.append(tensor)

    def note(self, kind: str, before: Tensor, after: Tensor, width: int = 0) -> Tensor:
        """Records what happened to a value at a boundary, and returns what is there now."""
        number = self.number(before)
        if after is before:
            with torch._C.DisableTorchFunction():
                after = before.view_as(before)
        made = self._new(after, True)
        step = Step(kind, None, (), {}, (number,), (made,), self.at, before.ndim, width)
        self.steps.append(step)
        return after

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        given = list(tensors_in((args, kwargs)))
        self._last = at = self.at
        kind, called = "call", func
        for tensor in given if self.replaced else ():
            if id(tensor) in self.replaced:
                kind, replacement = self.replaced[id(tensor)]
                called = partial(replacement, func)
        before = tuple(self.number(tensor) for tensor in given)
        versions = [tensor._version for tensor in given if _plain(tensor)]
        try:
            result = called(*args, **kwargs)
        except Exception as error:
            self.failed = error, partial(called, *args, **kwargs)
            raise
        if getattr(func, "__name__", "") == "__get__":
            func, args = getattr, (*args[:1], func.__self__.__name__)
        made = [t for t in tensors_in(result) if not isinstance(t, nn.Parameter)]
        written = [
            tensor
            for tensor, version in zip([t for t in given if _plain(t)], versions, strict=True)
            if tensor._version != version
        ]
        if not made and not written and getattr(func, "__name__", "") not in READS:
            self.sized.update(before)
            return result
        if not made and not written:
            kind = "read"
            if not given:
                return result
        of_parts = not self.of_parts.isdisjoint(before)
        self._mixed(given, made, written, at)
        fresh: dict[int, int] = {}
        for tensor in (*made, *written):
            if id(tensor) not in fresh:
                fresh[id(tensor)] = self._new(tensor, of_parts)
        results = tuple(fresh.values())
        self.steps.append(Step(kind, func, args, kwargs, before, results, at))
        return result

    def _mixed(
        self, given: list[Tensor], made: list[Tensor], written: list[Tensor], at: At
    ) -> None:
        """DTensors and tensors do not mix; what a DTensor hands out is a view of it."""
        known = [self.distributed[id(t)] for t in given if id(t) in self.distributed]
        if known:
            others = [t for t in given if id(t) not in self.distributed and t.numel() > 1]
            if others:
                reason = "a DTensor and a tensor in one call: transformers' DTensors do not mix"
                self.refused.append(Refused(at, reason, all(known)))
            else:
                self.distributed.update((id(t), all(known)) for t in made)
        if any(id(t) in self.views and t.requires_grad for t in written):
            reason = "it writes to what a DTensor handed out, a view whose gradient torch refuses"
            self.refused.append(Refused(at, reason, True))


def _plain(tensor: Tensor) -> bool:
    """Whether it is an ordinary tensor: none of a function transform's."""
    return not torch._C._functorch.is_functorch_wrapped_tensor(tensor)


def _storage(tensor: Tensor) -> int:
    return tensor.untyped_storage()._cdata if _plain(tensor) else 0
