"""Turns dropout off in whatever runs, so that two runs that draw differently can be compared.

with without_dropout():
    model(x)            every dropout, and attention's, keeps everything
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch
from torch.overrides import TorchFunctionMode

from dimsolve.solver.graphs.deduction import find_operator
from dimsolve.solver.graphs.paths import path_of

from ..arguments import Arguments
from ..parallel.modes import DROPS


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
