"""Tensors for declarations: a shape, of numbers, symbols, text or None, and a dtype."""

from __future__ import annotations

from typing import Any

from dimsolve.ir.operator import Declaration, Operator
from dimsolve.solver.infer import infer_sizes
from dimsolve.solver.operators import find
from dimsolve.solver.shapes import to_shape
from dimsolve.solver.solution import Solution


class StandIn:
    """``StandIn("batch, 8*s")``, ``StandIn(2, None)``; ``StandIn(rank=None)`` has no known rank."""

    shape: Any

    def __init__(self, *dims: Any, dtype: str | None = "float32", rank: Any = 0) -> None:
        self.dtype = dtype
        text = len(dims) == 1 and isinstance(dims[0], str)
        self.shape = None if rank is None else to_shape(dims[0] if text else dims)


def operator(path: str) -> Operator:
    found = find(path)
    assert found is not None, path
    return found


def declare(path: str, *args: Any, **kwargs: Any) -> Declaration:
    return operator(path).declare(*args, **kwargs)


def solve(declaration: Declaration) -> Solution:
    shapes = [getattr(value, "shape", None) for value in declaration.inputs]
    arguments = {**declaration.arguments, **{n: f"{n}_new" for n in declaration.fresh}}
    return infer_sizes(declaration.annotation, shapes, arguments=arguments)


def shapes_of(path: str, *args: Any, **kwargs: Any) -> list[str]:
    """The output shapes as text."""
    rows = solve(declare(path, *args, **kwargs)).output_dims
    return ["?" if row is None else ", ".join(map(str, row)) for row in rows]
