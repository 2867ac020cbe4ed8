"""Random small graphs and random plans for them: what the simulation is fed with.

A graph grows by one call after the other, each of a random family on random values made before. All
lengths divide by 8, so that most splits into 2, 4 and 8 parts are legal.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

import torch
from torch import Tensor

from dimsolve.exec.graph import Graph
from dimsolve.ir.node import Value
from dimsolve.partition.placement import Partial, Shard
from dimsolve.partition.planning.choices import Choice
from dimsolve.partition.planning.duties import Duties
from dimsolve.partition.planning.policy import Policy
from dimsolve.partition.planning.state import AxisState

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
        self.values.extend(v for v in made if _is_float(v))
        return result


def _is_float(value: Value) -> bool:
    return value.dtype == "float64" and value.dims is not None


def shape_of(value: Value) -> tuple[int, ...]:
    return tuple(int(dim) for dim in value.dims or ())


# ---- families of calls: each appends one call, or none where nothing fits


def unary(g: Growing) -> None:
    x = g.pick()
    if x is not None:
        g.call(g.random.choice(["torch.tanh", "torch.neg", "torch.sin", "torch.sigmoid"]), x)


def scaled(g: Growing) -> None:
    x = g.pick()
    if x is not None:
        g.call("torch.mul", x, g.random.choice([0.5, 2.0, -1.0]))


def binary(g: Growing) -> None:
    x = g.pick()
    if x is None:
        return
    same = [v for v in g.values if v.dims == x.dims]
    y = g.random.choice(same)
    g.call(g.random.choice(["torch.add", "torch.sub", "torch.mul"]), x, y)


def broadcast(g: Growing) -> None:
    x = g.pick(1)
    if x is None:
        return
    shape = shape_of(x)
    kept = shape[g.random.randint(0, len(shape) - 1) :]
    row = tuple(g.random.choice((n, 1)) for n in kept)
    g.call(g.random.choice(["torch.add", "torch.mul"]), x, g.parameter(row))


def linear(g: Growing) -> None:
    x = g.pick(1)
    if x is None:
        return
    out, inner = g.random.choice(LENGTHS), shape_of(x)[-1]
    bias = g.parameter((out,)) if g.random.random() < 0.5 else None
    g.call("torch.nn.functional.linear", x, g.parameter((out, inner)), bias)


def matmul(g: Growing) -> None:
    x = g.pick(2)
    if x is None:
        return
    y = g.pick(2)
    if y is not None and shape_of(x)[-1] == shape_of(y)[-2] and len(shape_of(y)) == 2:
        g.call("torch.matmul", x, y)
    elif len(shape_of(x)) == 2 and shape_of(x)[0] == shape_of(x)[1]:
        g.call("torch.matmul", x, x)


def outer(g: Growing) -> None:
    x = g.pick(3)
    if x is not None:
        g.call("torch.matmul", x, g.call("torch.transpose", x, -1, -2))


def transpose(g: Growing) -> None:
    x = g.pick(2)
    if x is not None:
        rank = len(shape_of(x))
        a, b = g.random.sample(range(rank), 2)
        g.call("torch.transpose", x, a, b)


def split_dim(g: Growing) -> None:
    x = g.pick(1)
    if x is None:
        return
    shape = list(shape_of(x))
    dim = g.random.randrange(len(shape))
    factors = [f for f in (2, 3, 4, 8) if shape[dim] % f == 0]
    if factors and len(shape) < 5:
        first = g.random.choice(factors)
        shape[dim : dim + 1] = [first, shape[dim] // first]
        g.call("torch.reshape", x, tuple(shape))


def merge_dims(g: Growing) -> None:
    x = g.pick(2)
    if x is not None:
        dim = g.random.randrange(len(shape_of(x)) - 1)
        g.call("torch.flatten", x, dim, dim + 1)


def reshape_any(g: Growing) -> None:
    x = g.pick(2)
    if x is not None:
        shape = list(shape_of(x))
        g.random.shuffle(shape)
        g.call("torch.reshape", x, tuple(shape))


def chunks(g: Growing) -> None:
    x = g.pick(1)
    if x is None:
        return
    dims = [d for d, n in enumerate(shape_of(x)) if n % 3 == 0 or n % 2 == 0]
    if dims:
        dim = g.random.choice(dims)
        count = 3 if shape_of(x)[dim] % 3 == 0 else 2
        g.call("torch.chunk", x, count, dim)


def join(g: Growing) -> None:
    x = g.pick(1)
    if x is not None:
        same = [v for v in g.values if v.dims == x.dims]
        g.call("torch.cat", [x, g.random.choice(same)], g.random.randrange(len(shape_of(x))))


def reduce(g: Growing) -> None:
    x = g.pick(1)
    if x is None:
        return
    dim = g.random.randrange(len(shape_of(x)))
    name = g.random.choice(["torch.sum", "torch.mean", "torch.amax", "torch.amin", "torch.prod"])
    g.call(name, x, dim, g.random.random() < 0.5)


def softmax(g: Growing) -> None:
    x = g.pick(1)
    if x is not None:
        g.call("torch.softmax", x, g.random.randrange(len(shape_of(x))))


def norm(g: Growing) -> None:
    x = g.pick(1)
    if x is not None and shape_of(x)[-1] > 1:  # of one number alone it is all rounding
        width = shape_of(x)[-1]
        weights = (g.parameter((width,)), g.parameter((width,)))
        g.call("torch.nn.functional.layer_norm", x, (width,), *weights)


def expand(g: Growing) -> None:
    x = g.pick()
    if x is not None and len(shape_of(x)) < 4:
        g.call("torch.Tensor.expand", x, (g.random.choice((2, 8)), *shape_of(x)))


def unsqueeze(g: Growing) -> None:
    x = g.pick()
    if x is not None and len(shape_of(x)) < 4:
        g.call("torch.unsqueeze", x, g.random.randint(0, len(shape_of(x))))


def lookup(g: Growing) -> None:
    x = g.pick(1)
    if x is not None:
        ids = torch.randint(0, 16, shape_of(x)[:1], generator=g.generator)
        name = f"ids{len(g.inputs)}"
        g.inputs[name] = ids
        value = g.graph.input(name, tuple(ids.shape), "int64")
        width = g.random.choice(LENGTHS)
        g.call("torch.nn.functional.embedding", value, g.parameter((16, width)))


def attention(g: Growing) -> None:
    x = g.pick(3)
    if x is None or len(shape_of(x)) != 3:
        return
    width = shape_of(x)[-1]
    weight = g.parameter((24, width))
    fused = g.call("torch.nn.functional.linear", x, weight)
    b, s = shape_of(x)[:2]
    parts = g.call("torch.chunk", fused, 3, -1)
    heads = [
        g.call("torch.transpose", g.call("torch.reshape", p, (b, s, 8, 1)), 1, 2) for p in parts
    ]
    g.call("torch.nn.functional.scaled_dot_product_attention", *heads)


FAMILIES: tuple[Callable[[Growing], None], ...] = (
    unary, scaled, binary, binary, broadcast, linear, linear, matmul, outer, transpose, split_dim,
    split_dim, merge_dims, reshape_any, chunks, join, reduce, reduce, softmax, norm, expand,
    unsqueeze, lookup, attention,
)  # fmt: skip


def random_graph(random: Random, calls: int) -> Growing:
    """A graph of about so many calls; it returns what nothing uses, and one value more."""
    g = Growing(random)
    for _ in range(calls):
        small = [v for v in g.values if _elements(v) <= ROOM]
        g.values = small or g.values
        random.choice(FAMILIES)(g)
    used = {v for node in g.graph.nodes() for v in node.operands()}
    ends = [v for v in g.graph.values.values() if v not in used and _is_float(v)]
    extra = [v for v in g.values if v not in ends][-1:]
    g.graph.output(*dict.fromkeys([*ends, *extra]))
    return g


def _elements(value: Value) -> int:
    total = 1
    for length in shape_of(value):
        total *= length
    return total


# ---- random plans


def chaos(random: Random, share: float = 0.7) -> Policy:
    """Decides operators at random: any split, with and without blocks, partial values passed on."""

    def decide(state: AxisState, duties: Duties) -> list[str]:
        for operator in state.network.operators:
            if operator.pinned or operator.skipped or random.random() > share:
                continue
            choices = [c for c in _all_choices(state, operator.number) if _legal(c, duties)]
            if choices:
                state.decide(operator.number, random.choice(choices))
        return []

    return Policy("chaos", decide)


def _all_choices(state: AxisState, number: int) -> list[Choice]:
    kind, operator = state.kinds[number], state.network.operators[number]
    found = [kind.whole, *kind.choices()]
    for choice in list(found):
        if choice.name is not None:
            for blocks in (2, 3):
                answer = kind.split(choice.name, blocks)
                if isinstance(answer, Choice):
                    found.append(answer)
    for place, wire in enumerate(operator.inputs):
        if wire is None:
            continue
        made = state.made[wire]
        if isinstance(made, Shard):
            answer = kind.spread(place, made)
            if isinstance(answer, Choice):
                found += [answer] * 3
        if isinstance(made, Partial):
            passing = kind.passing(frozenset(range(kind.inputs)), made.reduction)
            found += [passing] * 3 if passing is not None else []
    passing = kind.passing(frozenset(range(kind.inputs)))
    return [*found, passing] if passing is not None else found


def _legal(choice: Choice, duties: Duties) -> bool:
    return duties.conditions_of(choice) == ()


def random_mesh(random: Random) -> dict[str, int]:
    names = random.choice([("a",), ("a", "b"), ("a", "b"), ("a", "b", "c")])
    return dict.fromkeys(names, 2)
