"""Families of random calls: each appends one call to a graph, or none where nothing fits."""

from __future__ import annotations

from collections.abc import Callable

import torch

from .growing import LENGTHS, Growing, shape_of


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
