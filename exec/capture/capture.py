"""Captures the torch functions that a model calls, through torch.compile's public backend hook.

The model is not run: the backend keeps the graph and hands out stand-ins for its outputs, and where
these are found again in what the model returns tells the outputs' names. Parameters may be on the
meta device. Logging is left out, everything else that torch.compile cannot capture whole is refused
with its line.

What a model returns besides outputs of the program: captured as values, not as the example's.

torch hands a tensor of the program out as a stand-in that can be found again. A length it makes
anew, as a plain integer of the example. So a model whose result holds integers is captured once
more, with each of them given to `hand_out` on the way out: a call in the program that stands for
its argument.

    return x + 1, x.shape        (%add, (hand_out(batch), hand_out(8)))

So is a tensor that the program has no output for: torch gives ``x.T`` of an argument back as the
attribute of the argument that it was called with.

Why a model's shapes contradict, in the model's own terms.

torch names two sizes and no tensors. So a call that failed is looked for once more: the model runs
on fake tensors, every torch function that it calls is added to a graph of our own, and where one
fails the graph says which values it was given, where they come from, and what its annotation asks.

    ShapeError: linear at model.py:12 (down): k has two lengths
      * k+, n k+, n -> * n
        ^~    ^~
      k = 32 (%relu dim 2), but k = 16 (%down.weight dim 1)
"""

from __future__ import annotations

import dataclasses
import logging
import sys
import types
import warnings
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from copy import copy
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from dimsolve.ir.checks import without_numpy
from dimsolve.ir.errors import DimsolveError, ShapeError
from dimsolve.ir.graph import Argument, Node, OperatorCall, Value
from dimsolve.ir.types import Known, TensorType
from dimsolve.solver.algebra.poly import Dim
from dimsolve.solver.graphs.names import caller, path_of
from dimsolve.solver.graphs.problems import broken_condition
from dimsolve.solver.graphs.reading import note_symbols, read_argument

from ..graph import Graph
from ..modes import Modes
from .argument_objects import PLAIN, Change, Copy, Place, changes, place_name, refuse_hidden
from .aten import named
from .confirm import dtype_of
from .dtype_reads import Read, noting_reads
from .dynamic import (
    Dynamic,
    Leaf,
    captured_shape,
    leaves_of,
    parameter_names,
    parts_and_leaves,
    size_choices,
)
from .errors import TraceError, nothing_captured, refused
from .mapped import write_out
from .settling import (
    Steps,
    bring_back,
    compute_alike,
    drop_kept,
    has_lengths,
    kept_values,
    settle,
)
from .side_effects import Settling, refusal_of, unchanged
from .torch_python import read_through
from .traced_model import OUTPUT_HOOKS, install_output_hooks

if TYPE_CHECKING:
    from torch.fx import GraphModule


HAND_OUT = "dimsolve.exec.capture.capture.hand_out"


class StandIn(int):
    """An integer that a program returns, as it is handed out while the program is captured."""


def holds_lengths(result: Any, given: Collection[int] = ()) -> bool:
    """Returns whether a result holds integers outside of objects of unknown classes, and of those
    that the caller has given, by their ids.
    """
    found = leaves_in(result, given)
    return any(isinstance(item, int) and not isinstance(item, bool) for item in found)


def holds_others(result: Any, known: Collection[int], given: Collection[int] = ()) -> bool:
    """Returns whether a result holds tensors whose ids are not known, outside of objects of unknown
    classes and of those that the caller has given, by their ids.
    """
    return any(is_tensor(item) and id(item) not in known for item in leaves_in(result, given))


def is_tensor(value: Any) -> bool:
    """Returns whether a value is a tensor."""
    import torch

    return isinstance(value, torch.Tensor)


def leaves_in(result: Any, given: Collection[int] = ()) -> Iterator[Any]:
    """Yields what stands in a result's dicts, lists, tuples and dataclasses, but not in those that
    the caller has given, by their ids.
    """
    if id(result) in given:
        return
    if isinstance(result, Mapping):
        result = list(result.values())
    elif dataclasses.is_dataclass(result) and not isinstance(result, type):
        result = [getattr(result, f.name) for f in dataclasses.fields(result)]
    if isinstance(result, list | tuple):
        for item in result:
            yield from leaves_in(item, given)
    else:
        yield result


def _is_one_of(value: Any, found: list[Any]) -> bool:
    return any(value is each for each in found)


def _containers(value: Any, found: list[Any]) -> None:
    """Adds the containers and dataclasses of an argument."""
    if hasattr(value, "dtype") or isinstance(value, PLAIN):
        return
    if isinstance(value, tuple):
        for item in value:
            _containers(item, found)
        return
    if _is_one_of(value, found):
        return
    if isinstance(value, list):
        found.append(value)
        for item in value:
            _containers(item, found)
    elif isinstance(value, dict):
        found.append(value)
        for item in value.values():
            _containers(item, found)
    elif dataclasses.is_dataclass(value) and not isinstance(value, type):
        found.append(value)
        for f in dataclasses.fields(value):
            _containers(getattr(value, f.name), found)


def with_lengths(model: Callable[..., Any]) -> Callable[..., Any]:
    """Returns the model as a function that hands out its lengths, and its tensors, as tensors.
    What it returns is made of dicts, lists and tuples.
    """
    hand_out = _hand_out()

    def given(result: Any, own: list[Any]) -> Any:
        if isinstance(result, bool) or _is_one_of(result, own):
            return result
        if isinstance(result, int) or is_tensor(result):
            return hand_out(result)
        if isinstance(result, dict):
            return {key: given(item, own) for key, item in result.items()}
        if isinstance(result, list):
            return [given(item, own) for item in result]
        if isinstance(result, tuple):
            items = [given(item, own) for item in result]
            return type(result)(*items) if hasattr(result, "_fields") else tuple(items)
        if dataclasses.is_dataclass(result):
            return {f.name: given(getattr(result, f.name), own) for f in dataclasses.fields(result)}
        return result

    def call(*args: Any, **kwargs: Any) -> Any:
        own: list[Any] = []
        _containers(args, own)
        for item in kwargs.values():
            _containers(item, own)
        return given(model(*args, **kwargs), own)

    return call


@lru_cache(maxsize=1)
def _hand_out() -> Callable[[Any], Any]:
    import torch

    found: Callable[[Any], Any] = torch.compiler.allow_in_graph(hand_out)
    return found


def hand_out(value: Any) -> Any:
    """Returns a tensor without meaning that stands for the length, or the tensor."""
    import torch

    return torch.empty(0)


class Watch:
    """Adds the torch functions that run to a graph. ``found`` is the error of the first that
    cannot.
    """

    def __init__(self, model: Any, leaves: Sequence[Leaf], tensors: Sequence[Any]) -> None:
        self.graph = Graph(getattr(model, "__name__", type(model).__name__))
        self.found: ShapeError | None = None
        self.values: dict[int, Value] = {}
        self.kept: list[Any] = list(tensors)
        self.modules = {id(m): n for n, m in _named(model, "named_modules")}
        for leaf, tensor in zip(leaves, tensors, strict=True):
            if hasattr(tensor, "dtype"):
                dims = [leaf.dims.get(i, int(s)) for i, s in enumerate(tensor.shape)]
                self._input(leaf.name, tensor, tuple(dims), "input")
        for name, tensor in _named(model, "named_parameters"):
            self._input(name, tensor, _sizes(tensor), "parameter")
        for name, tensor in _named(model, "named_buffers"):
            self._input(name, tensor, _sizes(tensor), "buffer")

    def _input(self, name: str, tensor: Any, dims: tuple[Dim, ...], kind: Any) -> None:
        type = TensorType(len(dims), dtype_of(tensor), Known(dims))
        value = self.graph.add_input(self.graph.fresh_name(name), type, kind, name)
        note_symbols(self.graph.system, type, f"the {kind} {name}")
        self.values[id(tensor)] = value

    def call(
        self, function: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]
    ) -> None:
        """Notes a call before it runs; raises ShapeError where our solver refutes it."""
        path = path_of(function)
        given = tuple(self._argument(argument) for argument in args)
        named = {name: self._argument(argument) for name, argument in kwargs.items()}
        node = Node("", OperatorCall(path), given, named, source=caller(), module=self._module())
        node.id = self.graph.fresh_name(node.name.strip("_"))
        self.graph.propagation.append(node)
        self._last = node

    def returned(self, result: Any) -> None:
        """Notes what the last call gave; a shape that we cannot tell is torch's."""
        items = result if isinstance(result, tuple | list) else (result,)
        for value, item in zip(self._last.outputs, items, strict=False):
            if hasattr(item, "dtype") and hasattr(item, "shape"):
                self.values[id(item)] = value
                self.kept.append(item)  # an id is a name as long as its object lives
                dims = value.dims
                if dims is None or None in dims or len(dims) != len(item.shape):
                    sizes = _sizes(item)
                    value.type = TensorType(len(sizes), dtype_of(item), Known(sizes))

    def _argument(self, argument: Any) -> Argument:
        if hasattr(argument, "dtype") and hasattr(argument, "shape"):
            if id(argument) not in self.values:
                self.kept.append(argument)
                self._input(
                    self.graph.fresh_name("constant"), argument, _sizes(argument), "constant"
                )
            return self.values[id(argument)]
        if isinstance(argument, tuple | list):
            return type(argument)(self._argument(item) for item in argument)
        return read_argument(argument)

    def _module(self) -> str:
        """The module whose forward runs, by the nearest frame that belongs to one."""
        frame = sys._getframe(2)
        while frame is not None:
            name = self.modules.get(id(frame.f_locals.get("self")))
            if name is not None:
                return name
            if frame.f_back is None:
                return ""
            frame = frame.f_back
        return ""


def diagnose(
    model: Callable[..., Any],
    leaves: Sequence[Leaf],
    tensors: Sequence[Any],
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
    sizes: Mapping[str, int],
) -> ShapeError | None:
    """Returns why a call of the model contradicts itself, or asks for other sizes than those of the
    call; None where our solver finds neither.
    """
    import torch
    from torch._subclasses.fake_tensor import FakeTensorMode
    from torch.overrides import TorchFunctionMode

    state = [*model.parameters(), *model.buffers()] if isinstance(model, torch.nn.Module) else []
    if any(
        each.numel() and not each.untyped_storage().nbytes() and not each.is_meta for each in state
    ):
        return None  # a model without its bytes cannot be run
    watch = Watch(model, leaves, tensors)

    class Mode(TorchFunctionMode):
        def __torch_function__(
            self, function: Any, types: Any, args: Any = (), kwargs: Any = None
        ) -> Any:
            if getattr(function, "__name__", "") == "__get__":
                return function(*args, **(kwargs or {}))
            watch.call(function, args, kwargs or {})
            result = function(*args, **(kwargs or {}))
            watch.returned(result)
            return result

    try:
        with torch.no_grad(), FakeTensorMode(allow_non_fake_inputs=True), Mode():
            model(*args, **kwargs)
    except ShapeError as error:
        return error
    except Exception:
        return _broken(watch.graph, sizes)
    return None


def _broken(graph: Graph, sizes: Mapping[str, int]) -> ShapeError | None:
    """The first condition of the calls so far that fails at these sizes."""
    for condition in graph.system.conditions:
        if condition.claim.symbols() <= sizes.keys() and condition.claim.test(sizes) is False:
            return broken_condition(condition, sizes)
    return None


def _sizes(tensor: Any) -> tuple[int, ...]:
    return tuple(int(size) for size in tensor.shape)


def _named(model: Any, method: str) -> list[tuple[str, Any]]:
    walk = getattr(model, method, None)
    return [] if walk is None else list(walk())


_LOGGING = ("debug", "info", "warn", "error", "critical", "exception", "log")


@dataclass(slots=True)
class Capture:
    """What was captured. ``examples`` are the values behind the placeholders, ``outputs`` the
    stand-ins that the model returned.

    objects: the containers and objects among the call's arguments; leaves: the others, with their
    dynamic dimensions; tensors: what was passed for each of them. result: what the model returned,
    made of stand-ins; kind: the class that it had. copied: the copy of the arguments that the call
    was given; what it has changed there is ``changed``. reads: where it reads dtypes.
    """

    module: GraphModule
    examples: list[Any]
    objects: list[Leaf]
    leaves: list[Leaf]
    tensors: list[Any]
    sizes: dict[str, int]
    copied: Copy
    changed: dict[Place, Change]
    stand_ins: tuple[Any, ...] = ()
    result: Any = None
    kind: type = tuple
    reads: Sequence[Read] = ()
    device: str = "cpu"


@dataclass(slots=True)
class _Backend:
    """The hook: called once with the graph, it returns what runs in its place."""

    model: Any
    captured: list[tuple[GraphModule, list[Any]]] = field(default_factory=list)
    stand_ins: tuple[Any, ...] = ()
    settling: list[Settling] = field(default_factory=list)
    reads: list[Read] = field(default_factory=list)

    @property
    def steps(self) -> Steps:
        """Returns what was captured."""
        return Steps(*self.captured[0], self.settling)

    def __call__(self, module: GraphModule, examples: Sequence[Any]) -> Callable[..., Any]:
        import torch

        taken = set(module.graph.find_nodes(op="placeholder"))
        refusal = refusal_of(self.model, self.settling)
        if refusal is not None:
            return _raising(refusal)  # when it runs, so that nothing is changed
        for node in module.graph.find_nodes(op="placeholder"):
            if node not in taken:  # what the model holds and does not use, as it was looked at
                module.graph.erase_node(node)
        try:
            write_out(module)
        except TraceError as hindered:
            return _raising(hindered)
        self.captured.append((module, list(examples)))
        for node in module.graph.nodes:  # torch forgets it after the compilation
            node.meta["source"] = getattr(node.meta.get("grapharg"), "source", None)
        output = next(node for node in module.graph.nodes if node.op == "output")
        self.stand_ins = tuple(
            torch.empty(0) if _is_tensor(node) else StandIn() for node in output.args[0]
        )
        stand_ins = self.stand_ins
        return lambda *_: stand_ins


class _Hook:
    """What torch is given in a backend's place: torch keeps every backend that it has seen, and
    with it what the backend holds, until it is told of another one.
    """

    def __init__(self, backend: _Backend) -> None:
        self.backend: _Backend | None = backend

    def __call__(self, module: GraphModule, examples: Sequence[Any]) -> Callable[..., Any]:
        assert self.backend is not None
        return self.backend(module, examples)


def _raising(error: Exception) -> Callable[..., Any]:
    def run(*_: Any) -> Any:
        raise error

    return run


def _is_tensor(node: Any) -> bool:
    import torch

    meta = getattr(node, "meta", {})
    return isinstance(meta.get("example_value"), torch.Tensor)


def captures(
    model: Callable[..., Any],
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
    dynamic: Dynamic | None,
) -> Iterator[Capture]:
    """Yields the graph of torch functions that a call of the model makes, as it is captured with
    other and other sizes. Raises TraceError, when asked for the first, where there is no such graph
    at any of them.
    """
    leaves = leaves_of(model, args, kwargs, dynamic)
    refusal: DimsolveError | None = None
    found = False
    for sizes in size_choices(leaves):
        modes = Modes.now()
        try:
            captured = _capture_with_hooks(sizes, leaves, model, args, kwargs)
        except DimsolveError as error:
            refusal = refusal or error
            continue
        finally:
            modes.restore()
        found = True
        yield captured
    if refusal is not None and not found:
        raise refusal


def _capture_with_hooks(
    sizes: dict[str, int], leaves: list[Leaf], model: Any, *given: Any
) -> Capture:
    """Captures a call, once more with hooks where transformers would install them in its midst."""
    try:
        with unchanged(model):
            return _capture_at(sizes, leaves, model, *given)
    except TraceError as error:
        if OUTPUT_HOOKS not in str(error):
            raise
    with unchanged(model):
        install_output_hooks(model)
        return _capture_at(sizes, leaves, model, *given)


def _capture_at(
    sizes: dict[str, int],
    leaves: list[Leaf],
    model: Callable[..., Any],
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
) -> Capture:
    device = device_of(model)
    parts = parts_and_leaves(model, args, kwargs, None)
    for leaf in leaves:
        refuse_hidden(leaf.place, leaf.value)
    tensors = [_example(leaf, sizes, device) for leaf in leaves]
    given = _Given(model, args, kwargs, leaves, tensors)
    try:
        with unchanged(model):  # a buffer that was written to has a stand-in, in `+=` too
            backend, result = _settled(model, given, device)
        kind = type(result)
        own = {id(container) for container, _ in given.copied.containers.values()}
        known = {*map(id, backend.stand_ins), *map(id, tensors), *_state(model)}
        others = holds_lengths(result, own) or holds_others(result, known, own)
        if backend.captured and others:
            backend, result = _compiled(with_lengths(model), given, device, model)
            bring_back(backend.settling)
    except TraceError as refusal:
        if refusal.diagnostic.code in ("keeps-state", "hidden-tensor"):
            raise
        positional, named = given.anew()
        with _quiet():
            contradiction = diagnose(model, leaves, tensors, positional, named, sizes)
        raise contradiction or refusal from refusal
    if not backend.captured:
        raise nothing_captured()
    module, examples = backend.captured[0]
    copied = given.copied
    handed_out = set(map(id, leaves_in((result, changes(copied)))))
    stand_ins = drop_kept(module, backend.stand_ins, backend.settling, handed_out)
    return Capture(
        module,
        examples,
        [part for part in parts if part.whole],
        leaves,
        tensors,
        sizes,
        copied,
        changes(copied),
        stand_ins,
        result,
        kind,
        backend.reads,
        device or "cpu",
    )


def _state(model: Any) -> Iterator[int]:
    """The ids of a module's parameters and buffers."""
    for method in ("named_parameters", "named_buffers"):
        yield from (id(tensor) for _, tensor in named(model, method))


class _Given:
    """The arguments of a capture. A call may change them, so every call is given a copy.

    copied: the last one. tensors: what stands for each leaf.
    """

    def __init__(
        self,
        model: Callable[..., Any],
        args: Sequence[Any],
        kwargs: Mapping[str, Any],
        leaves: Sequence[Leaf],
        tensors: Sequence[Any],
    ) -> None:
        self.names = parameter_names(model, len(args))
        self.args, self.kwargs = tuple(args), dict(kwargs)
        self.leaves = leaves
        self.tensors = {leaf.name: t for leaf, t in zip(leaves, tensors, strict=True)}
        self.copied = Copy(self.names, self._leaf)

    def fixed(self) -> _Given:
        """Returns the same arguments, of which no dimension is dynamic."""
        return self._with(lambda leaf, tensor: tensor.new_empty(tensor.shape))

    def twice(self) -> _Given:
        """Returns arguments whose dynamic dimensions are twice as long."""

        def longer(leaf: Leaf, tensor: Any) -> Any:
            shape = [n * (1 + (place in leaf.dims)) for place, n in enumerate(tensor.shape)]
            return _marked(leaf, tensor.new_zeros(shape))

        return self._with(longer)

    def _with(self, change: Callable[[Leaf, Any], Any]) -> _Given:
        made = copy(self)
        made.tensors = {
            leaf.name: change(leaf, tensor).requires_grad_(tensor.requires_grad)
            if is_tensor(tensor)
            else tensor
            for leaf, tensor in zip(self.leaves, self.tensors.values(), strict=True)
        }
        made.copied = Copy(self.names, made._leaf)
        return made

    def anew(self) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Returns a new copy of the arguments."""
        self.copied = Copy(self.names, self._leaf)
        return self.copied.call(self.args, self.kwargs)

    def _leaf(self, place: Place, value: Any) -> Any:
        return self.tensors[place_name(place)]


def _settled(model: Callable[..., Any], given: _Given, device: str | None) -> tuple[_Backend, Any]:
    """Compiles a call. Where it sets attributes of the model, the next call, which finds them set,
    must leave them so and compute the same; they are brought back.
    """
    backend, result = _compiled(model, given, device, model)
    if not backend.settling:
        return backend, result
    copied, first = given.copied, backend.steps
    try:
        if not _settles(first, model, given, device):
            raise first.settling[0].refusal
    finally:
        given.copied = copied
        bring_back(first.settling)
    return backend, result


def _settles(first: Steps, model: Callable[..., Any], given: _Given, device: str | None) -> bool:
    """Returns whether calls compute the same after a first one, which has just set attributes."""

    def steps(given: _Given) -> Steps:
        return _compiled(model, given, device, model)[0].steps

    def next_call(before: Steps, kept: Mapping[int, Any], given: _Given) -> Steps:
        settle(before.settling, kept)
        try:
            return steps(given)
        except TraceError:
            raise before.settling[0].refusal from None

    kept = kept_values(first)
    if not has_lengths(first, kept):
        return compute_alike(first, next_call(first, kept, given), kept)
    larger = next_call(first, kept, given.twice())
    smaller = next_call(larger, kept_values(larger), given)
    if not compute_alike(first, larger) or not compute_alike(first, smaller):
        return False
    bring_back(first.settling)
    once = steps(fixed := given.fixed())
    kept = kept_values(once)
    return compute_alike(once, next_call(once, kept, fixed), kept)


def _compiled(
    model: Callable[..., Any],
    given: _Given,
    device: str | None,
    owner: Any,
) -> tuple[_Backend, Any]:
    """Compiles a call. A model on meta that makes tensors of its own without a device is given
    meta as the default one. owner: the model itself, where ``model`` wraps it.
    """
    import torch

    for default in (None, "meta") if device == "meta" else (None,):
        backend = _Backend(owner)
        hook = _Hook(backend)
        compiled = torch.compile(_fresh_code(model), backend=hook, fullgraph=True)
        try:
            with ExitStack() as stack:
                stack.enter_context(_settings(default, owner))
                stack.enter_context(_tensors_on_meta(device))
                stack.enter_context(noting_reads(backend.reads))
                stack.enter_context(_numbers_of_python(owner))
                args, kwargs = given.anew()
                return backend, compiled(*args, **kwargs)
        except Exception as error:
            refusal = refused(error)
            if default is not None or device != "meta" or "evice" not in str(error):
                raise refusal from error
        finally:
            hook.backend = None
    raise AssertionError


def device_of(model: Any) -> str | None:
    """Returns the device of a module's parameters; None where it has none."""
    parameters = getattr(model, "parameters", None)
    first = next(iter(parameters()), None) if callable(parameters) else None
    return None if first is None else str(first.device)


def _example(leaf: Leaf, sizes: Mapping[str, int], device: str | None) -> Any:
    """The leaf as it is passed: a tensor of the captured sizes, on meta where the parameters
    are, its dynamic dimensions marked.
    """
    import torch

    value = leaf.value
    if isinstance(value, torch.device) and device == "meta":
        return torch.device("meta")  # where an object's tensors are is where they are captured
    if not isinstance(value, torch.Tensor):
        return value
    shape = captured_shape(leaf, sizes)
    place = torch.device("meta") if device == "meta" else value.device
    if tuple(value.shape) == shape and value.device == place:
        tensor = _at_the_start(value.detach())
    else:
        tensor = torch.zeros(shape, dtype=value.dtype, device=place)
    return _marked(leaf, tensor.requires_grad_(value.requires_grad))


def _at_the_start(tensor: Any) -> Any:
    """A tensor that begins where its memory does, without gaps: of another one, such as a slice of
    a data set or a prompt without its last token, torch makes a number of the program where one of
    its dimensions is dynamic.
    """
    import torch

    if type(tensor) is not torch.Tensor or tensor.layout is not torch.strided:
        return tensor
    if not tensor.numel():
        return tensor
    strides = tensor.stride()
    if 0 not in strides:
        # A step in a dimension of length 1 is a gap too, and kept by preserve_format.
        plain = torch.contiguous_format if tensor.is_contiguous() else torch.preserve_format
        dense = torch.empty_like(tensor, device="meta", memory_format=plain).stride() == strides
        whole = dense and not tensor.storage_offset()
        return tensor if whole else tensor.clone(memory_format=plain)
    if not tensor.storage_offset():
        return tensor
    reach = sum((n - 1) * step for n, step in zip(tensor.shape, strides, strict=True)) + 1
    memory = tensor.as_strided((reach,), (1,)).clone()
    return memory.as_strided(tensor.shape, strides)


def _marked(leaf: Leaf, tensor: Any) -> Any:
    import torch

    for index in leaf.dims:
        torch._dynamo.maybe_mark_dynamic(tensor, index)
    return tensor


def _fresh_code(model: Callable[..., Any]) -> Callable[..., Any]:
    """A function of its own code: torch keeps what it compiled by code, and stops after a few
    recompilations of one.
    """

    def call(*args: Any, **kwargs: Any) -> Any:
        return model(*args, **kwargs)

    code = call.__code__.replace(co_name="call")
    return types.FunctionType(code, call.__globals__, "call", call.__defaults__, call.__closure__)


@contextmanager
def _settings(device: str | None, model: Any) -> Iterator[None]:
    """Sizes of 1 and equal sizes are not special, unless the model asks. What is not said to be
    dynamic is fixed, whatever was captured before. Logging does not break the graph.
    """
    import torch
    from torch._dynamo import config
    from torch.fx.experimental import _config

    shapes: Any = _config

    name = next(
        n for n in ("ignore_logging_functions", "ignore_logger_methods") if hasattr(config, n)
    )
    ignored = getattr(config, name) | _logging_functions()
    with ExitStack() as stack:
        fixed = {"automatic_dynamic_shapes": False, "specialize_float": True}
        stack.enter_context(config.patch({name: ignored, **fixed}))
        stack.enter_context(shapes.patch(backed_size_oblivious=True, use_duck_shape=False))
        stack.enter_context(read_through(model))
        if device is not None:
            stack.enter_context(torch.device("meta"))
        stack.enter_context(torch.enable_grad())
        stack.enter_context(_quiet())
        stack.enter_context(warnings.catch_warnings())
        warnings.simplefilter("ignore")
        yield


@contextmanager
def _numbers_of_python(model: Any) -> Iterator[None]:
    """torch takes integers of NumPy's that modules hold for tensors; here they are Python's."""
    modules = getattr(model, "modules", None)
    changed: list[tuple[dict[str, Any], str, Any, Any]] = []
    for module in modules() if callable(modules) else ():
        for name, value in list(vars(module).items()):
            plain = without_numpy(value)
            if plain is not value:
                changed.append((vars(module), name, value, plain))
                vars(module)[name] = plain
    try:
        yield
    finally:
        for held, name, value, plain in changed:
            if held.get(name) is plain:
                held[name] = value


@contextmanager
def _tensors_on_meta(device: str | None) -> Iterator[None]:
    """On meta torch.tensor makes no stand-in, and what it makes fits no other. An empty one, with
    which transformers' caches begin, is made by torch.zeros.
    """
    import torch

    if device != "meta":
        yield
        return
    plain = torch.tensor

    def tensor(data: Any, *, dtype: Any = None, device: Any = None, **rest: Any) -> Any:
        if isinstance(data, list) and len(data) == 0 and not rest:
            return torch.zeros(0, dtype=dtype, device=device)
        return plain(data, dtype=dtype, device=device, **rest)

    setattr(torch, "tensor", tensor)  # noqa: B010
    try:
        yield
    finally:
        setattr(torch, "tensor", plain)  # noqa: B010


@contextmanager
def _quiet() -> Iterator[None]:
    """torch writes what went wrong to its log before it raises; here it is said once, by the
    error. (It makes its handlers anew while it compiles, so no filter on them would last.)
    """
    before = logging.root.manager.disable
    logging.disable(logging.CRITICAL)
    try:
        yield
    finally:
        logging.disable(before)


def _logging_functions() -> set[Callable[..., Any]]:
    """What only tells people something: it returns nothing, and leaving it out changes no
    result.
    """
    methods = {
        getattr(logging.Logger, name)
        for name in dir(logging.Logger)
        if name.startswith(_LOGGING) and callable(getattr(logging.Logger, name))
    }
    functions = {getattr(logging, name) for name in _LOGGING if hasattr(logging, name)}
    return methods | functions | {warnings.warn, print}
