"""A graph while it grows call by call, with the tensors of its inputs and parameters."""

from __future__ import annotations

from random import Random
from typing import Any

import torch
from torch import Tensor

from dimsolve.exec.graph import Graph
from dimsolve.ir.graph import Value

LENGTHS = (8, 8, 16, 24)
ROOM = 3000
"""No value grows beyond so many elements."""


class Growing:
    """A graph while it grows, with the tensors of its inputs and parameters."""

    def __init__(self, random: Random) -> None:
        self.random = random
        self.graph = Graph("random")
        self.state: dict[str, Tensor] = {}
        self.inputs: dict[str, Tensor] = {}
        self.values: list[Value] = []
        self.generator = torch.Generator().manual_seed(random.randrange(2**31))
        for number in range(random.randint(1, 3)):
            rank = random.randint(1, 3)
            self.input(f"x{number}", tuple(random.choice(LENGTHS) for _ in range(rank)))

    def draw(self, shape: tuple[int, ...]) -> Tensor:
        return torch.randn(shape, generator=self.generator, dtype=torch.float64)

    def input(self, name: str, shape: tuple[int, ...]) -> Value:
        self.inputs[name] = self.draw(shape)
        value = self.graph.input(name, shape, "float64")
        self.values.append(value)
        return value

    def parameter(self, shape: tuple[int, ...]) -> Value:
        name = f"w{len(self.state)}"
        self.state[name] = self.draw(shape) * 0.5
        return self.graph.parameter(name, shape, "float64")

    def pick(self, rank: int = 0) -> Value | None:
        """A value of at least this rank, later ones more often."""
        fitting = [v for v in self.values if len(v.dims or ()) >= rank]
        if not fitting:
            return None
        start = self.random.choice((0, max(0, len(fitting) - 3)))
        return self.random.choice(fitting[start:])

    def call(self, path: str, *args: Any, **kwargs: Any) -> Value:
        result = self.graph.call(path, *args, **kwargs)
        made = result if isinstance(result, tuple) else (result,)
        self.values.extend(v for v in made if is_float(v))
        return result


def is_float(value: Value) -> bool:
    return value.dtype == "float64" and value.dims is not None


def shape_of(value: Value) -> tuple[int, ...]:
    return tuple(int(dim) for dim in value.dims or ())
