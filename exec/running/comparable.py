"""What of two runs is compared, and what makes them comparable.

    {"loss": 2.5, "logits": (4, 16, 32)}     loss_of: 2.5     tensors_of: loss, logits

    with without_dropout():                  every dropout, and attention's, keeps everything
    with without_narrowing():                a float64 model stays in float64:
        logits.float()                           float64
        softmax(x, dtype=torch.float32)          the same

Two runs that draw differently cannot be compared. And many models compute their norms, positions
and losses in float32 whatever they are made of: a sum that is cut is then added in another order in
float32, and nothing that is left of the comparison is better than that. Both runs are changed
alike, so what is compared is the same program throughout.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from math import inf
from threading import Lock
from typing import Any, TypeAlias

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode

from dimsolve.solver.graphs.deduction import find_operator
from dimsolve.solver.graphs.names import path_of

from ..calls import Arguments
from ..capture.argument_objects import place_name, walk
from ..parallel.same_model import DROPS

Handed: TypeAlias = tuple[Any, Mapping[str, Any]]
"""What a call returns, and its arguments as it leaves them."""


def loss_of(result: Any) -> Tensor | None:
    """Returns what is trained: the result's loss, or a scalar, or the mean square of what is real.
    None where nothing has a gradient.

    >>> loss_of({"loss": torch.tensor(2.0)})
    tensor(2.)
    """
    loss = result.get("loss") if isinstance(result, Mapping) else getattr(result, "loss", None)
    if isinstance(loss, Tensor):
        return loss if loss.ndim == 0 else loss.mean()
    real = [t for _, t in tensors_of(result) if t.is_floating_point() and t.requires_grad]
    if len(real) == 1 and real[0].ndim == 0:
        return real[0]
    if not real:
        return None
    return torch.stack([tensor.square().mean() for tensor in real]).sum()


def tensors_of(result: Any) -> list[tuple[str, Tensor]]:
    """Returns the tensors of a result with their places, in order."""
    if isinstance(result, Tensor):
        return [("", result)]
    items: Any = ()
    if isinstance(result, Mapping):
        items = result.items()
    elif isinstance(result, list | tuple):
        items = enumerate(result)
    return [
        (f"{key}.{place}".rstrip("."), tensor)
        for key, item in items
        for place, tensor in tensors_of(item)
    ]


def handed_out(result: Any, arguments: Mapping[str, Any]) -> dict[str, Tensor]:
    """Returns the tensors of a result, and of arguments as a call has left them, also those inside
    of objects.

    >>> list(handed_out({"logits": torch.ones(2)}, {"cache": [torch.ones(3)]}))
    ['output logits', 'left cache.0']
    """
    found = {f"output {place}": tensor for place, tensor in _all_tensors(result)}
    return found | {f"left {place}": tensor for place, tensor in _all_tensors(dict(arguments))}


def _all_tensors(value: Any) -> list[tuple[str, Tensor]]:
    leaves = walk((), value, {})
    return [(place_name(place), leaf) for place, leaf, _ in leaves if isinstance(leaf, Tensor)]


def with_own_memory(leaf: Any) -> Any:
    """Returns a leaf of arguments for another call: a tensor of the same values."""
    if not isinstance(leaf, Tensor):
        return leaf
    return leaf.detach().clone().requires_grad_(leaf.requires_grad)


def difference(found: Tensor, wanted: Tensor) -> float:
    """Returns the largest difference of two tensors, nan being equal to nan; inf where shapes, or
    values that are no real or complex numbers, differ.
    """
    if found.shape != wanted.shape:
        return inf
    if not (found.is_floating_point() or found.is_complex()):
        return 0.0 if torch.equal(found, wanted) else inf
    if not found.numel():
        return 0.0
    same = (found == wanted) | (found.isnan() & wanted.isnan())
    return float(torch.where(same, 0.0, found - wanted).detach().abs().max())


def largest(tensor: Tensor) -> float:
    """Returns the largest finite element of a tensor, without its sign."""
    if not tensor.numel() or not (tensor.is_floating_point() or tensor.is_complex()):
        return 0.0
    return float(tensor.detach().masked_fill(~tensor.isfinite(), 0).abs().max())


class _Changed(TorchFunctionMode):
    """Changes calls of torch functions, also those of regions that the backward pass runs again:
    torch puts a mode aside while it runs what the mode was asked about, so a backward pass of all
    leaves is begun here, with the mode in its place.
    """

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        given = Arguments(tuple(args), kwargs or {})
        if func is Tensor.backward and not any((*args[1:], *given.kwargs.values())):
            with self:
                start = (torch.ones_like(args[0]),)
                engine = torch.autograd.Variable._execution_engine
                engine.run_backward(args, start, False, False, (), True, True)
            return None
        return self.changed(func, given)

    @abstractmethod
    def changed(self, func: Any, given: Arguments) -> Any:
        """Calls a function in another way."""


class _WithoutDropout(_Changed):
    """Calls of dropout functions keep everything; all other calls are as they are."""

    def changed(self, func: Any, given: Arguments) -> Any:
        if getattr(func, "__name__", "") in DROPS:
            operator = find_operator(path_of(func))
            names = operator.parameters if operator is not None else ()
            name = next((n for n in ("dropout_p", "p") if n in names), None)
            if name is not None:
                given = given.with_parameter(names, name, 0.0)
        return func(*given.args, **given.kwargs)


@contextmanager
def without_dropout() -> Iterator[None]:
    """Runs the body with every dropout probability at zero."""
    with torch.random.fork_rng(devices=[]), _WithoutDropout():
        yield


WIDE = {
    torch.float32: torch.float64,
    torch.float16: torch.float64,
    torch.bfloat16: torch.float64,
    torch.complex64: torch.complex128,
}
"""What stands for a narrower type."""

NARROWING = dict.fromkeys(("float", "half", "bfloat16"), torch.Tensor.double)
"""Methods that name a narrower type, and those that are called in their place."""


class _WithoutNarrowing(_Changed):
    """Every narrower type among the arguments of a torch function is the wide one."""

    def changed(self, func: Any, given: Arguments) -> Any:
        if getattr(func, "__objclass__", None) is torch._C.TensorBase:
            func = NARROWING.get(func.__name__, func)
        lifted = {name: _wide(value) for name, value in given.kwargs.items()}
        return func(*map(_wide, given.args), **lifted)


def _wide(value: Any) -> Any:
    return WIDE.get(value, value) if isinstance(value, torch.dtype) else value


_lock = Lock()
_widened: list[torch.dtype] = []
"""torch's default type before each of the bodies that are running. All threads of a process share
it, and simulated ranks are threads: the first one in widens it, the last one out restores it.
"""


@contextmanager
def _wide_default() -> Iterator[None]:
    with _lock:
        _widened.append(torch.get_default_dtype())
        torch.set_default_dtype(torch.float64)
    try:
        yield
    finally:
        with _lock:
            before = _widened[0]
            _widened.pop()
            if not _widened:
                torch.set_default_dtype(before)


@contextmanager
def without_narrowing() -> Iterator[None]:
    """Runs the body with float64 in the place of every narrower type that it names or defaults to.

    >>> with without_narrowing():
    ...     torch.ones(2, dtype=torch.float64).float().softmax(0, dtype=torch.float32).dtype
    torch.float64
    """
    with _wide_default(), _WithoutNarrowing():
        yield


def is_wide(model: torch.nn.Module) -> bool:
    """Whether all real parameters of a model are float64 or complex128, and there are some."""
    real = [p.dtype for p in model.parameters() if p.is_floating_point() or p.is_complex()]
    return bool(real) and all(dtype in WIDE.values() for dtype in real)
