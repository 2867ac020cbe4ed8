"""Turns dropout off in whatever runs, so that two runs that draw differently can be compared.

with without_dropout():
    model(x)            every dropout, and attention's, keeps everything

Keeps a float64 model in float64 where its own code changes to a narrower type.

    logits.float()                  float64 in a float64 model, while two of its runs are compared
    softmax(x, dtype=torch.float32) the same

Many models compute their norms, positions and losses in float32 whatever they are made of. A sum
that is cut is then added in another order in float32, and nothing that is left of the comparison is
better than float32. Both runs are lifted alike, so what is compared is the same program throughout.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from threading import Lock
from typing import Any

import torch
from torch.overrides import TorchFunctionMode

from dimsolve.solver.graphs.deduction import find_operator
from dimsolve.solver.graphs.names import path_of

from ..calls import Arguments
from ..parallel.same_model import DROPS


class _WithoutDropout(TorchFunctionMode):
    """Calls of dropout functions keep everything; all other calls are as they are."""

    def __torch_function__(
        self,
        func: Any,
        types: Any,
        args: tuple[Any, ...] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        given = Arguments(tuple(args), kwargs or {})
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

NARROWING = {
    "float": torch.Tensor.double,
    "half": torch.Tensor.double,
    "bfloat16": torch.Tensor.double,
}
"""Methods that name a narrower type, and those that are called in their place."""


class _WithoutNarrowing(TorchFunctionMode):
    """Every narrower type among the arguments of a torch function is the wide one."""

    def __torch_function__(
        self,
        func: Any,
        types: Any,
        args: tuple[Any, ...] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        if getattr(func, "__objclass__", None) is torch._C.TensorBase:
            func = NARROWING.get(func.__name__, func)
        lifted = {name: _wide(value) for name, value in (kwargs or {}).items()}
        return func(*map(_wide, args), **lifted)


def _wide(value: Any) -> Any:
    return WIDE.get(value, value) if isinstance(value, torch.dtype) else value


class _Default:
    """torch's default type, which all threads of a process share: simulated ranks are threads. The
    first one in widens it, the last one out restores it.
    """

    def __init__(self) -> None:
        self._lock = Lock()
        self._inside = 0
        self._before = torch.float32

    @contextmanager
    def wide(self) -> Iterator[None]:
        with self._lock:
            if self._inside == 0:
                self._before = torch.get_default_dtype()
                torch.set_default_dtype(torch.float64)
            self._inside += 1
        try:
            yield
        finally:
            with self._lock:
                self._inside -= 1
                if self._inside == 0:
                    torch.set_default_dtype(self._before)


_DEFAULT = _Default()


@contextmanager
def without_narrowing() -> Iterator[None]:
    """Runs the body with float64 in the place of every narrower type that it names or defaults to.

    >>> with without_narrowing():
    ...     torch.ones(2, dtype=torch.float64).float().softmax(0, dtype=torch.float32).dtype
    torch.float64
    """
    with _DEFAULT.wide(), _WithoutNarrowing():
        yield


def is_wide(model: torch.nn.Module) -> bool:
    """Whether all real parameters of a model are float64 or complex128, and there are some."""
    real = [p.dtype for p in model.parameters() if p.is_floating_point() or p.is_complex()]
    return bool(real) and all(dtype in WIDE.values() for dtype in real)


Sizes = Mapping[str, int]
