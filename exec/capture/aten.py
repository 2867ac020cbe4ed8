"""What torch writes into a captured program, as calls of a graph: paths, lines and switches.

torch.export, and some of torch's own Python, call ``torch.ops.aten``. A graph holds the same
operators under the names under which the library knows them (`plain_call`):

    aten.view.default(x, [b, -1, 64])        torch.Tensor.view(x, [b, -1, 64])
    aten.slice.Tensor(x, 1, 0, 8)            operator.getitem(x, (slice(None), slice(0, 8)))
    aten.mse_loss.default(x, y, 2)           torch.nn.functional.mse_loss(x, y, reduction="sum")
    aten.native_layer_norm.default(...)      as it is: the library does not know it

torch generates a builtin and its method from the operator's schema, so their arguments are the
same in the same order. What is Python in torch (``torch.nn.functional``) is called by the names of
the schema, and only where it has all of them. `target_path` names everything else that is called.

torch captures the end of a ``no_grad`` as a switch to True, because gradients were recorded where
it captured. The graph may run where they are not, so it goes back to what it found (`Switches`):

    with torch.no_grad():                 %outer = is_grad_enabled()
        gate = h.sigmoid()                _set_grad_enabled(False)
                                          %gate = sigmoid(%h)
                                          _set_grad_enabled(%outer)
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache
from itertools import takewhile
from typing import Any, NamedTuple

import torch

from dimsolve.ir.errors import DimsolveError
from dimsolve.ir.graph import Argument, Node, OperatorCall, Source, Value
from dimsolve.ir.types import ScalarType
from dimsolve.partition.regions import SWITCH
from dimsolve.solver.graphs.names import path_of, source
from dimsolve.solver.operators import canonical, find

from ..calls import resolve
from ..graph import Graph
from ..modes import OUTER
from ..numpy_functions import OPERATORS
from .errors import inference_mode

TRANSFORMS = re.compile(r"functorch|_saved_tensors_hooks_|\b_(add|remove)_batch_dim$")
"""Paths of what torch.vmap and torch.func call, by a part of them."""


def named(model: Any, method: str) -> Iterator[tuple[str, Any]]:
    """Yields what ``named_parameters`` and its kin give; nothing for what is no module."""
    walk: Callable[..., Iterator[tuple[str, Any]]] | None = getattr(model, method, None)
    return iter(()) if walk is None else walk()


def method_path(name: str) -> str:
    """Returns the path of a Tensor method; Python's own operators are found as such.

    >>> method_path("relu"), method_path("__and__")
    ('torch.Tensor.relu', '_operator.and_')
    """
    if name.startswith("__") and name.endswith("__"):
        for plain in (name[2:-2], f"{name[2:-2]}_"):
            if hasattr(operator, plain):
                return f"_operator.{plain}"
    return f"torch.Tensor.{name}"


def target_path(target: Any) -> str:
    """Returns the path of what a graph calls; operators of torch.library and higher-order ones have
    their own names.

    >>> target_path(torch.ops.aten.celu.default)
    'torch.ops.aten.celu.default'
    """
    match type(target).__name__:
        case "OpOverload" | "OpOverloadPacket":
            return f"torch.ops.{target}"
        case "numpy_to_tensor_wrapper":
            return f"dimsolve.exec.numpy_functions.{target.f.__name__}"
        case "numpy_operator_wrapper":
            return f"dimsolve.exec.numpy_functions.operator_{target.op.__name__}"
        case "numpy_method_wrapper":
            kind = "operator" if (name := target.method.strip("_")) in OPERATORS else "method"
            return f"dimsolve.exec.numpy_functions.{kind}_{name}"  # of torch 2.10: __abs__
        case _ if getattr(target, "__name__", "") == "numpy_attr_wrapper":
            return "dimsolve.exec.numpy_functions.attribute"
        case _ if getattr(target, "__name__", "") == "_get_data_attr":
            return "torch.Tensor.detach"
        case _ if hasattr(target, "namespace") and callable(getattr(target, "name", None)):
            return f"torch.ops.{target.namespace}.{target.name()}"
        case _:
            return path_of(target)


def is_reachable(path: str) -> bool:
    """Returns whether what a capture calls can be called again: not so torch's private helpers that
    are made on the way, and numpy's functions that write to an array.
    """
    if not path.startswith(("torch._dynamo.", "dimsolve.exec.numpy_functions.")):
        return True
    try:
        resolve(path)
    except DimsolveError:
        return False
    return True


def line_of_the_model(node: Any) -> Source | None:
    """Returns the innermost line that is not torch's own, of a step or of the first after it that
    has one: switches have none.
    """
    while node.op != "output":
        for frame in reversed((node.meta.get("stack_trace") or "").split('File "')[1:]):
            if "/torch/" not in frame.partition('"')[0]:
                return source_of(f'File "{frame}')
        node = node.next
    return None


_LINE = re.compile(r'File "([^"]*)", line (\d+)(?=,|$)')


def source_of(trace: str | None) -> Source | None:
    """Returns the innermost line of a stack trace; None where there is none."""
    trace = trace or ""
    found = _LINE.match(trace, max(trace.rfind('File "'), 0))
    return source(found[1], int(found[2])) if found else None


PREFIX = "torch.ops.aten."
FUNCTIONAL = "torch.nn.functional."
REDUCTIONS = ("none", "mean", "sum")
UNBOUNDED = 2**63 - 1
"""What the dispatcher writes for the end of a slice that has none."""

_C: Any = torch._C
BUILTINS: tuple[tuple[str, Any, str], ...] = (
    ("linalg_", _C._linalg, "torch._C._linalg."),
    ("fft_", _C._fft, "torch._C._fft."),
    ("special_", _C._special, "torch._C._special."),
    ("", _C._VariableFunctions, "torch."),
    ("", _C._nn, "torch._C._nn."),
    ("", _C.TensorBase, "torch.Tensor."),
)
"""Where torch keeps what it generates: prefixes of names, the place, and its path."""

FUNCTIONS = {
    "adaptive_max_pool2d": "adaptive_max_pool2d_with_indices",
    "adaptive_max_pool3d": "adaptive_max_pool3d_with_indices",
    "cross_entropy_loss": "cross_entropy",
    "nll_loss_nd": "nll_loss",
    "nll_loss2d": "nll_loss",
}
"""Operators whose function in torch.nn.functional has another name."""

PARAMETERS = {"self": "input", "train": "training"}
"""Names in schemas, and what Python calls them."""

BACKEND_ONLY = frozenset({"cudnn_enable", "cudnn_enabled"})
"""Arguments that choose an implementation."""


class PlainCall(NamedTuple):
    """A call by an import path."""

    path: str
    args: tuple[Any, ...]
    kwargs: dict[str, Any]


def plain_call(path: str, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> PlainCall:
    """Returns the call under the name that the library knows, or as it is.

    >>> plain_call("torch.ops.aten.transpose.int", ("x", 1, 2), {})
    PlainCall(path='torch.transpose', args=('x', 1, 2), kwargs={})
    """
    call = PlainCall(path, args, dict(kwargs))
    if not path.startswith(PREFIX):
        return call
    name = path.removeprefix(PREFIX).partition(".")[0]
    special = SPECIAL.get(name)
    if special is not None:
        return special(*args, **kwargs) or call
    found = _function_of(name)
    if found is None:
        return call
    if not found.startswith(FUNCTIONAL):
        return PlainCall(found, args, {PARAMETERS.get(key, key): v for key, v in kwargs.items()})
    return _by_name(path, found, args, kwargs) or call


@lru_cache(maxsize=1024)
def _function_of(name: str) -> str | None:
    """The path of the builtin, or of the function of torch.nn.functional, that is this operator."""
    if name in FUNCTIONS:
        return FUNCTIONAL + FUNCTIONS[name]
    for path in _builtins_of(name):
        known = canonical(path)
        if known is not None:
            return known if known.startswith(FUNCTIONAL) else path
    return FUNCTIONAL + name if find(FUNCTIONAL + name) is not None else None


def _builtins_of(name: str) -> Iterator[str]:
    # Of operators that work in place the library knows the methods.
    places = reversed(BUILTINS) if name.endswith("_") else BUILTINS
    for prefix, place, path in places:
        if name.startswith(prefix) and hasattr(place, name):
            yield path + name


def _by_name(
    path: str, function: str, args: tuple[Any, ...], kwargs: Mapping[str, Any]
) -> PlainCall | None:
    """The call of a Python function by the names of the schema; None where it lacks one of them."""
    names = _schema(path)
    operator = find(function)
    if names is None or operator is None or len(args) > len(names):
        return None
    given = {**dict(zip(names, args, strict=False)), **kwargs}
    reduction = given.get("reduction")
    if isinstance(reduction, int):
        given["reduction"] = REDUCTIONS[reduction]
    plain = {
        PARAMETERS.get(name, name): value
        for name, value in given.items()
        if name not in BACKEND_ONLY and value != []
    }
    if not plain.keys() <= set(operator.parameters):
        return None
    leading = list(takewhile(plain.__contains__, operator.parameters))
    return PlainCall(function, tuple(plain.pop(name) for name in leading), plain)


def _schema(path: str) -> list[str] | None:
    """The names of an operator's arguments."""
    name, _, overload = path.removeprefix(PREFIX).partition(".")
    packet = getattr(torch.ops.aten, name, None)
    found = getattr(packet, overload or "default", None)
    return None if found is None else [argument.name for argument in found._schema.arguments]


def _slice(
    x: Any, dim: int = 0, start: Any = None, end: Any = None, step: Any = 1
) -> PlainCall | None:
    if not isinstance(dim, int) or dim < 0:
        return None
    end = None if isinstance(end, int) and end == UNBOUNDED else end
    start = None if isinstance(start, int) and start == 0 else start
    item = slice(start, end, None if isinstance(step, int) and step == 1 else step)
    return PlainCall("_operator.getitem", (x, (*[slice(None)] * dim, item)), {})


def _index(x: Any, indices: Any) -> PlainCall:
    items = tuple(slice(None) if item is None else item for item in indices)
    return PlainCall("_operator.getitem", (x, items), {})


def _index_put(x: Any, indices: Any, values: Any, accumulate: bool = False) -> PlainCall | None:
    if any(item is None for item in indices):
        return None
    return PlainCall("torch.index_put", (x, tuple(indices), values, accumulate), {})


def _to_copy(x: Any, **wanted: Any) -> PlainCall | None:
    """``x.to`` of a dtype alone; other layouts and devices stay as they are."""
    dtype = wanted.pop("dtype", None)
    if dtype is None or any(value not in (None, False) for value in wanted.values()):
        return None
    return PlainCall("torch.Tensor.to", (x, dtype), {"copy": True})


def _embedding(
    weight: Any, indices: Any, padding_idx: Any = -1, by_frequency: bool = False, *rest: Any
) -> PlainCall:
    """The builtin says -1 for no padding, the function None."""
    options = {} if padding_idx == -1 else {"padding_idx": padding_idx}
    options |= {"scale_grad_by_freq": True} if by_frequency else {}
    options |= {"sparse": True} if any(rest) else {}
    return PlainCall(f"{FUNCTIONAL}embedding", (indices, weight), options)


def _softmax(name: str) -> Callable[..., PlainCall | None]:
    def call(x: Any, dim: int, half_to_float: bool) -> PlainCall | None:
        return None if half_to_float else PlainCall(f"torch.{name}", (x, dim), {})

    return call


def _unbiased(name: str) -> Callable[..., PlainCall]:
    """Variances: what stands second is a choice of the divisor where it is a bool."""

    def call(x: Any, *args: Any, **kwargs: Any) -> PlainCall:
        if len(args) == 1 and isinstance(args[0], bool):
            return PlainCall(f"torch.{name}", (x,), {**kwargs, "unbiased": args[0]})
        return PlainCall(f"torch.{name}", (x, *args), kwargs)

    return call


def _attribute(name: str) -> Callable[..., PlainCall]:
    """What an attribute of a tensor is captured as, from torch 2.15 on."""
    return lambda x: PlainCall("builtins.getattr", (x, name), {})


def _same(path: str) -> Callable[..., PlainCall]:
    return lambda *args, **kwargs: PlainCall(path, args, kwargs)


SPECIAL: dict[str, Callable[..., PlainCall | None]] = {
    "embedding": _embedding,
    "slice": _slice,
    "index": _index,
    "index_put": _index_put,
    "sym_size": _same("torch.Tensor.size"),
    "sym_numel": _same("torch.Tensor.numel"),
    "_to_copy": _to_copy,
    "_softmax": _softmax("softmax"),
    "_log_softmax": _softmax("log_softmax"),
    "_unsafe_view": _same("torch.reshape"),
    "alias": lambda x: PlainCall("_operator.getitem", (x, (...,)), {}),
    "lift_fresh_copy": _same("torch.clone"),
    **{name: _attribute(name) for name in ("mT", "mH")},
    "numpy_T": _attribute("T"),
    "matrix_H": _attribute("H"),
    "broadcast_tensors": lambda tensors: PlainCall("torch.broadcast_tensors", tuple(tensors), {}),
    "stft": lambda *args, **kwargs: None,  # torch.stft pads by itself
    "unique_consecutive": lambda *args, **kwargs: None,
    "tensor": lambda *args, **kwargs: None,
    **{name: _unbiased(name) for name in ("std", "std_mean", "var", "var_mean")},
}
"""Operators that Python writes in another way; None leaves a call as it is."""


INFERENCE = "torch.autograd.grad_mode._enter_inference_mode"


class Switches:
    """Puts a graph's switches into a form that does not depend on the modes outside of it."""

    def __init__(self, graph: Graph) -> None:
        self._graph = graph
        self._outer: Value | None = None
        self._region = ""

    def within(self, region: str) -> Value | None:
        """Enters a region that is run again in the backward pass; returns what `back` is given.

        Each finds out for itself what the mode outside is: it may be another one the second time.
        """
        self._region = region
        outer, self._outer = self._outer, None
        return outer

    def back(self, region: str, outer: Value | None) -> None:
        """Goes back to the region around, where the mode outside was this."""
        self._region, self._outer = region, outer

    def arguments(self, path: str, args: tuple[Argument, ...], node: Any) -> tuple[Argument, ...]:
        """Returns a call's arguments; of a switch to True, the mode outside of the model.

        Raises TraceError for inference mode.
        """
        if path == INFERENCE:
            raise inference_mode(line_of_the_model(node))
        if path != SWITCH:
            return args
        if self._outer is None:
            graph = self._graph
            name, call = graph.fresh_name("outer"), OperatorCall(OUTER)
            node = Node(name, call, (), {}, name="is_grad_enabled", region=self._region)
            node.declaration = graph.propagation.outcome(node).declaration
            graph.add_node(node, (ScalarType("bool"),))
            self._outer = node.output
        return (self._outer,) if args == (True,) else args
