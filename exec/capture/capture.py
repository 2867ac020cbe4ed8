"""Captures the torch functions that a model calls, through torch.compile's public backend hook.

The model is not run: the backend keeps the graph and hands out stand-ins for its outputs, and where
these are found again in what the model returns tells the outputs' names. Parameters may be on the
meta device. Logging is left out, everything else that torch.compile cannot capture whole is refused
with its line.
"""

from __future__ import annotations

import logging
import types
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from dimsolve.ir.errors import DimsolveError, ShapeError

from ..modes import Modes
from .capture_errors import TraceError, nothing_captured, refused
from .diagnose import diagnose
from .dynamic import Dynamic, Leaf, captured_shape, leaves_of, size_choices
from .lengths import holds_lengths, with_lengths
from .side_effects import Settling, refusal_of, unchanged

if TYPE_CHECKING:
    from torch.fx import GraphModule

_LOGGING = ("debug", "info", "warn", "error", "critical", "exception", "log")


@dataclass(slots=True)
class Capture:
    """What was captured. ``examples`` are the values behind the placeholders, ``outputs`` the
    stand-ins that the model returned.

    leaves: the call's arguments with their dynamic dimensions; tensors: what was passed for each of
    them. result: what the model returned, made of stand-ins; kind: the class that it had.
    """

    module: GraphModule
    examples: list[Any]
    leaves: list[Leaf]
    tensors: list[Any]
    sizes: dict[str, int]
    stand_ins: tuple[Any, ...] = ()
    result: Any = None
    kind: type = tuple
    device: str = "cpu"


@dataclass(slots=True)
class _Backend:
    """The hook: called once with the graph, it returns what runs in its place."""

    model: Any
    captured: list[tuple[GraphModule, list[Any]]] = field(default_factory=list)
    stand_ins: tuple[Any, ...] = ()
    settling: list[Settling] = field(default_factory=list)

    def __call__(self, module: GraphModule, examples: Sequence[Any]) -> Callable[..., Any]:
        import torch

        refusal = refusal_of(self.model, self.settling)
        if refusal is not None:
            return _raising(refusal)  # when it runs, so that nothing is changed
        self.captured.append((module, list(examples)))
        output = next(node for node in module.graph.nodes if node.op == "output")
        self.stand_ins = tuple(torch.empty(0) if _is_tensor(node) else 0 for node in output.args[0])
        return lambda *_: self.stand_ins


def _raising(error: Exception) -> Callable[..., Any]:
    def run(*_: Any) -> Any:
        raise error

    return run


def _is_tensor(node: Any) -> bool:
    import torch

    meta = getattr(node, "meta", {})
    return isinstance(meta.get("example_value"), torch.Tensor)


def capture(
    model: Callable[..., Any],
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
    dynamic: Dynamic | None,
) -> Capture:
    """Returns the graph of torch functions that a call of the model makes; TraceError where
    there is no such graph.
    """
    leaves = leaves_of(model, args, kwargs, dynamic)
    first, *others = size_choices(leaves)
    modes = Modes.now()
    try:
        with unchanged(model):
            return _capture_at(first, leaves, model, args, kwargs)
    except DimsolveError:
        for sizes in others:
            with suppress(TraceError, ShapeError), unchanged(model):
                return _capture_at(sizes, leaves, model, args, kwargs)
        raise
    finally:
        modes.restore()


def _capture_at(
    sizes: dict[str, int],
    leaves: list[Leaf],
    model: Callable[..., Any],
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
) -> Capture:
    from torch.utils import _pytree as pytree

    device = device_of(model)
    tensors = [_example(leaf, sizes, device) for leaf in leaves]
    _, spec = pytree.tree_flatten((tuple(args), dict(kwargs)))
    positional, named = pytree.tree_unflatten(tensors, spec)
    try:
        backend, result = _settled(model, positional, named, device)
        kind = type(result)
        if backend.captured and holds_lengths(result):
            backend, result = _compiled(with_lengths(model), positional, named, device, model)
    except TraceError as refusal:
        if refusal.diagnostic.code == "keeps-state":
            raise
        with _quiet():
            contradiction = diagnose(model, leaves, tensors, positional, named, sizes)
        raise contradiction or refusal from refusal
    if not backend.captured:
        raise nothing_captured()
    module, examples = backend.captured[0]
    return Capture(
        module, examples, leaves, tensors, sizes, backend.stand_ins, result, kind, device or "cpu"
    )


def _settled(
    model: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any], device: str | None
) -> tuple[_Backend, Any]:
    """Compiles a call. Where it sets plain attributes of the model, the next call, which finds them
    set, must leave them so and compute the same; they are brought back.
    """
    backend, result = _compiled(model, args, kwargs, device, model)
    if not backend.settling:
        return backend, result
    try:
        again, _ = _compiled(model, args, kwargs, device, model)
        if again.settling or _steps(again) != _steps(backend):
            raise backend.settling[0].refusal
    finally:
        for entry in reversed(backend.settling):
            setattr(entry.owner, entry.name, entry.was)
    return backend, result


def _steps(backend: _Backend) -> list[str]:
    """What is computed, whatever the steps are called."""
    import torch

    found: list[str] = []
    for module, _ in backend.captured:
        places = {node: f"%{place}" for place, node in enumerate(module.graph.nodes)}
        for node in module.graph.nodes:
            args = torch.fx.node.map_arg((node.args, node.kwargs), places.__getitem__)
            what = "" if node.op == "placeholder" else node.target
            found.append(f"{node.op} {what} {args}")
    return found


def _compiled(
    model: Callable[..., Any],
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
    device: str | None,
    owner: Any,
) -> tuple[_Backend, Any]:
    """Compiles a call. A model on meta that makes tensors of its own without a device is given
    meta as the default one. owner: the model itself, where ``model`` wraps it.
    """
    import torch

    for default in (None, "meta") if device == "meta" else (None,):
        backend = _Backend(owner)
        compiled = torch.compile(_fresh_code(model), backend=backend, fullgraph=True)
        try:
            with _settings(default):
                return backend, compiled(*args, **kwargs)
        except Exception as error:
            refusal = refused(error)
            if default is not None or device != "meta" or "evice" not in str(error):
                raise refusal from error
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
    if not isinstance(value, torch.Tensor):
        return value
    shape = captured_shape(leaf, sizes)
    place = torch.device("meta") if device == "meta" else value.device
    if tuple(value.shape) == shape and value.device == place:
        tensor = value.detach()
    else:
        tensor = torch.zeros(shape, dtype=value.dtype, device=place)
    tensor.requires_grad_(value.requires_grad)
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
def _settings(device: str | None) -> Iterator[None]:
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
        if device is not None:
            stack.enter_context(torch.device("meta"))
        stack.enter_context(torch.enable_grad())
        stack.enter_context(_quiet())
        stack.enter_context(warnings.catch_warnings())
        warnings.simplefilter("ignore")
        yield


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
