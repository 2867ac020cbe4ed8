"""Plans for other calls of a model than the one that it was traced with, made when they come.

    the part's plan: training       input_ids (batch, seq), labels (batch, seq)
    part.eval(); part(ids)          input_ids (batch, seq)
    a token, and a cache            input_ids (batch, 1), keys and values (batch, 2, past, 16)

A part keeps a skeleton of its model: all modules and settings, with parameters and buffers that
have shapes and no bytes. It is traced in the mode and with the arguments of the call, and cut as
the part's parameters are held (`dimsolve.partition.planning.follow`).

Which dimensions are dynamic is told by names. An input of the first plan's graph keeps those that
it has there, but for a dimension of length 1 that is not its first: a token is decoded by another
program than a prompt. The keys and values of a cache of transformers are ``(batch, heads, past,
size)``. A dimension of another input is taken for one of these where it has the same length. A
length that turns out to change from call to call is dynamic from then on.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from inspect import signature
from threading import Lock
from typing import Any, TypeAlias

import torch
from torch import Tensor, nn

from dimsolve.ir.errors import DimsolveError
from dimsolve.ir.types import TensorType
from dimsolve.partition.plan import Plan
from dimsolve.partition.plan import plan as plan_of
from dimsolve.partition.planning.follow import following
from dimsolve.partition.sizes import check_conditions

from ..capture.argument_objects import mapped
from ..capture.dynamic import Leaf
from ..capture.trace import trace
from ..lowering.lengths import InputLengths
from .given_inputs import GivenInputs, is_dtensor

Modes: TypeAlias = Mapping[str, bool]
Names: TypeAlias = dict[str, dict[int, str]]


TARGETS = "decoder_input_ids"
"""What transformers' models call the tokens so far where an encoder has read the rest: a batch."""


class OnDemand:
    """Makes plans of other calls. ``model``: the skeleton; None where there is none, and ``why``.

    plan: the one whose parameters the part holds. given: how its inputs are given.
    """

    def __init__(self, model: nn.Module, plan: Plan, given: GivenInputs) -> None:
        self.plan = plan
        self.given = given
        self.model: nn.Module | None = None
        self.why = ""
        self._lock = Lock()
        try:
            self.model = skeleton_of(model)
        except Exception as error:
            self.why = f"{type(error).__name__}: {error}"
        self.known = {
            entry.target: entry.value.type
            for entry in getattr(plan.planned, "inputs", ())
            if entry.kind == "input" and isinstance(entry.value.type, TensorType)
        }

    def plan_for(
        self,
        args: tuple[Any, ...],
        kwargs: Mapping[str, Any],
        modes: Modes,
        names: Names,
        shapes: Mapping[str, Sequence[int]],
    ) -> Plan:
        """Returns the plan of a call. Raises DimsolveError where it cannot be traced.

        modes: of the model's modules, by name. names: of dynamic dimensions, by leaf. shapes: of
        the tensors of the call. Data are cut where the plan can be run at these.
        """
        assert self.model is not None
        with self._lock:
            for path, module in self.model.named_modules():
                module.training = modes.get(path, module.training)
            return self._plan(args, kwargs, names, shapes)

    def _plan(
        self, args: Any, kwargs: Any, names: Names, shapes: Mapping[str, Sequence[int]]
    ) -> Plan:
        assert self.model is not None
        refusal: DimsolveError | None = None
        for dynamic in (names, {}) if names else ({},):
            try:
                graph = trace(self.model, args, kwargs, dynamic=dynamic)
                plan = self._planned(graph, following(self.plan))
                if not _runs(plan, graph, shapes):
                    without = following(self.plan, self.plan.data_axes)
                    plan = self._planned(graph, without)
            except DimsolveError as error:
                refusal = refusal or error
                continue
            return plan
        assert refusal is not None
        raise refusal

    def inside(self, path: str) -> OnDemand:
        """Returns the same for calls of one module."""
        made = copy.copy(self)
        made.model = None if self.model is None else Inside(self.model, path)
        return made

    def _planned(self, graph: Any, policy: Any) -> Plan:
        """The plan of a graph whose parameters are stored as those of the part are."""
        mesh, state = self.plan.mesh, self.plan.state
        stored = {axis: state.get(axis, "whole") for axis in mesh}
        return plan_of(graph, mesh, policy, stored, self.plan.precision)

    def names(self, parts: Sequence[Leaf]) -> Names:
        """Returns the names of the dynamic dimensions of a call, by leaf."""
        return _Naming(self.known, parts).names

    def whole(self, args: Any, kwargs: Any, parts: Sequence[Leaf]) -> tuple[Any, Any]:
        """Returns a call with wholes, of no bytes, in place of what only a part is given of:
        DTensors, and where each rank gives its own part of the data, what is as long as the known
        inputs' parts.
        """
        tensors = [part for part in parts if isinstance(part.value, Tensor)]
        rows = self.given.rows({p.name: p.value.shape for p in tensors if p.name in self.known})
        rows = rows or self._rows_of_targets(tensors)

        def whole(leaf: Any) -> Any:
            if not isinstance(leaf, Tensor):
                return leaf
            shape = list(leaf.shape)
            if not is_dtensor(leaf) and shape and shape[0] in rows:
                shape[0] *= rows[shape[0]]
            elif not is_dtensor(leaf):
                return leaf
            return _without_bytes(torch.empty(shape, dtype=leaf.dtype, device="meta"), leaf.device)

        found = mapped({"args": args, "kwargs": dict(kwargs)}, whole)
        named = {name: _in_order(value) for name, value in found["kwargs"].items()}
        return _in_order(found["args"]), named

    def _rows_of_targets(self, tensors: Sequence[Leaf]) -> dict[int, int]:
        """The same of a call that has no known input, but a batch: that of a decoder alone."""
        targets = next((p.value for p in tensors if p.name == TARGETS), None)
        cut = next((name for name in self.known if self.given.is_cut(name, 0)), None)
        if targets is None or cut is None or is_dtensor(targets) or not len(targets):
            return {}
        return {len(targets): self.given.whole(cut, targets.shape)[0] // len(targets)}


class Inside(nn.Module):
    """Runs one module of a model, whose names its parameters keep."""

    def __init__(self, model: nn.Module, path: str) -> None:
        super().__init__()
        for name in ("_parameters", "_buffers", "_modules", "_non_persistent_buffers_set"):
            self.__dict__[name] = model.__dict__[name]
        self.training = model.training
        inner = model.get_submodule(path)

        def forward(*args: Any, **kwargs: Any) -> Any:
            return inner(*args, **kwargs)

        made: Any = forward
        with suppress(TypeError, ValueError):
            made.__signature__ = signature(inner.forward)
        self.__dict__["forward"] = made


def _runs(plan: Plan, graph: Any, shapes: Mapping[str, Sequence[int]]) -> bool:
    try:
        check_conditions(plan, InputLengths(graph.inputs).sizes(shapes))
    except DimsolveError:
        return False
    return True


def skeleton_of(model: nn.Module) -> nn.Module:
    """Returns a copy of a model whose parameters and buffers have no bytes. Other tensors are the
    model's own.
    """
    memo: dict[int, Any] = {}
    for tensor in [*model.parameters(), *model.buffers()]:
        empty = _without_bytes(tensor)
        if isinstance(tensor, nn.Parameter):
            empty = nn.Parameter(empty, requires_grad=tensor.requires_grad)
        memo[id(tensor)] = empty
    for module in model.modules():
        for value in vars(module).values():
            if isinstance(value, Tensor):
                memo[id(value)] = value
    return copy.deepcopy(model, memo)


def _without_bytes(tensor: Tensor, device: torch.device | None = None) -> Tensor:
    """A tensor of the same shape, dtype and device, whose memory was given back. It is on its own
    device, because models ask for it: on a CPU some call other functions than on a GPU. Numbers,
    which torch may read while it traces, are kept.
    """
    if not tensor.ndim:
        return tensor.detach().clone()
    empty = torch.empty_like(tensor.detach(), device=device)
    if not empty.is_meta:
        empty.untyped_storage().resize_(0)
    return empty


_PAST = "past"


class _Naming:
    """``names``: of the dynamic dimensions of a call's tensors, by leaf. longer: the known inputs
    that are as long as what is in the cache and what is new, as a mask of both.
    """

    def __init__(self, known: Mapping[str, TensorType], parts: Sequence[Leaf]) -> None:
        self.names: Names = {}
        self.sizes: dict[str, int] = {}
        self.longer: set[str] = set()
        self.batch = next((n for t in known.values() if (n := _lone(t, 0))), None)
        leaves = [part for part in parts if isinstance(part.value, Tensor)]
        holders = {part.place: part.value for part in parts if part.whole}
        layers = [x for x in leaves if _is_layer(holders.get(x.place[:-1]))]
        self.queries = next(
            (int(x.value.shape[1]) for x in leaves if x.name in known and x.value.ndim > 1), 0
        )
        for leaf in leaves:
            self._known(leaf, known.get(leaf.name), self.queries + _past_of(layers))
        targets = next((leaf for leaf in leaves if leaf.name == TARGETS), None)
        if targets is not None and self.batch is not None and self.batch not in self.sizes:
            self._name(targets, 0, self.batch)
        for leaf in layers:
            if leaf.name not in self.names:
                self._cached(leaf, holders[leaf.place[:-1]])
        for leaf in leaves:
            if leaf.name not in self.names or leaf.name in self.longer:
                self._other(leaf)

    def _name(self, leaf: Leaf, dim: int, name: str) -> None:
        size = int(leaf.value.shape[dim])
        if name.isidentifier() and self.sizes.setdefault(name, size) != size:
            return
        self.names.setdefault(leaf.name, {})[dim] = name

    def _known(self, leaf: Leaf, type: TensorType | None, longer: int) -> None:
        dims = None if type is None else type.dims
        if dims is None or len(dims) != leaf.value.ndim:
            return
        for index, dim in enumerate(dims):
            if dim is None or isinstance(dim, int) or (index and leaf.value.shape[index] == 1):
                continue
            if index and leaf.value.shape[index] == longer != self.queries:
                self.longer.add(leaf.name)
            else:
                self._name(leaf, index, str(dim))
        self.names.setdefault(leaf.name, {})

    def _cached(self, leaf: Leaf, layer: Any) -> None:
        """Keys and values of a layer of transformers' caches."""
        if self.batch is not None and leaf.value.ndim > 1:
            self._name(leaf, 0, self.batch)
        if leaf.value.ndim == 4 and not getattr(layer, "is_compileable", True):
            size = int(leaf.value.shape[2])
            found = [n for n, s in self.sizes.items() if n.startswith(_PAST) and s == size]
            count = sum(n.startswith(_PAST) for n in self.sizes)
            self._name(leaf, 2, found[0] if found else f"{_PAST}_{count}" if count else _PAST)

    def _other(self, leaf: Leaf) -> None:
        """Another input: its dimensions are those that have the same length."""
        queries = self.queries
        lengths = {size: name for name, size in self.sizes.items() if size > 1}
        if self.batch in self.sizes:
            lengths.pop(self.sizes[self.batch], None)
        past = self.sizes.get(_PAST)
        if past is not None:
            now = next((n for n, s in self.sizes.items() if s == queries and n != _PAST), queries)
            lengths.setdefault(past + queries, f"{_PAST} + {now}")
        for index, size in enumerate(leaf.value.shape):
            if index == 0 and self.sizes.get(self.batch or "", 1) == size > 1:
                self._name(leaf, 0, str(self.batch))
            elif index and index not in self.names.get(leaf.name, {}) and int(size) in lengths:
                self._name(leaf, index, lengths[int(size)])


def _in_order(value: Any) -> Any:
    """An argument whose dicts are in the order of their keys: one that is made of a set, as
    transformers makes the masks of layers, is in another order on each rank.

    >>> _in_order([{"sliding": 1, "full": 2}])
    [{'full': 2, 'sliding': 1}]
    """
    if type(value) is dict and all(isinstance(key, str) for key in value):
        return {key: _in_order(value[key]) for key in sorted(value)}
    if type(value) in (list, tuple):
        return value.__class__(_in_order(item) for item in value)
    return value


def _lone(type: TensorType, index: int) -> str | None:
    """The name that a dimension is, where it is nothing else."""
    dims = type.dims
    text = str(dims[index]) if dims is not None and len(dims) > index else ""
    return text if text.isidentifier() else None


def _past_of(layers: Sequence[Leaf]) -> int:
    """The length of what the first layer of a cache holds that grows."""
    return next((int(x.value.shape[2]) for x in layers if x.value.ndim == 4), 0)


def _is_layer(holder: Any) -> bool:
    """Whether an object is a layer of a cache of transformers."""
    return any(cls.__name__ == "CacheLayerMixin" for cls in type(holder).__mro__)


def widened(
    names: Names, before: Mapping[str, Sequence[int]], now: Mapping[str, Sequence[int]]
) -> Names:
    """Returns the names with one more for each length that differs between two calls; equal lengths
    that changed alike are one.

    >>> widened({"x": {0: "batch"}}, {"x": (4, 7), "y": (7,)}, {"x": (4, 9), "y": (9,)})
    {'x': {0: 'batch', 1: 'length'}, 'y': {0: 'length'}}
    """
    found = {leaf: dict(dims) for leaf, dims in names.items()}
    given: dict[tuple[int, int], str] = {}
    taken = {name for dims in names.values() for name in dims.values()}
    for leaf, shape in now.items():
        for index, (old, new) in enumerate(zip(before.get(leaf, ()), shape, strict=False)):
            if old != new and index not in found.get(leaf, {}):
                name = given.setdefault((old, new), _fresh("length", taken))
                found.setdefault(leaf, {})[index] = name
    return found


def _fresh(preferred: str, taken: Iterable[str]) -> str:
    used = set(taken)
    number, name = 0, preferred
    while name in used:
        number += 1
        name = f"{preferred}_{number}"
    if isinstance(taken, set):
        taken.add(name)
    return name
