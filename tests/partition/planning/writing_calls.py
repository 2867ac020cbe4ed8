"""Random graphs whose calls write to their arguments, with views that share their memory."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

from dimsolve.ir.errors import DimsolveError
from dimsolve.ir.graph import Value

from .growing import ROOM, Growing, is_float, shape_of
from .random_calls import FAMILIES


def _made(g: Growing) -> Value | None:
    """A value that a call made: torch lets nobody write to a leaf that has a gradient."""
    inputs = {entry.value for entry in g.graph.inputs}
    found = [v for v in g.values if v not in inputs and shape_of(v)]
    if not found:
        return None
    return g.random.choice(found[g.random.choice((0, max(0, len(found) - 3))) :])


def number(g: Growing) -> None:
    x = _made(g)
    if x is not None:
        name = g.random.choice(["add_", "mul_", "sub_", "fill_"])
        g.call(f"torch.Tensor.{name}", x, g.random.choice([0.5, 2.0]))


def tensor(g: Growing) -> None:
    x = _made(g)
    if x is None:
        return
    shape = shape_of(x)
    kept = shape[g.random.randint(0, len(shape) - 1) :]
    same = [v for v in g.values if v.dims == x.dims]
    y = g.random.choice(same) if g.random.random() < 0.6 else g.parameter(kept)
    g.call(f"torch.Tensor.{g.random.choice(['add_', 'sub_', 'mul_', 'copy_'])}", x, y)


def function(g: Growing) -> None:
    x = _made(g)
    if x is not None:
        name = g.random.choice(["tanh_", "relu_", "sin_", "zero_", "neg_", "clamp_"])
        g.call(f"torch.Tensor.{name}", x, *((-1.0, 1.0) if name == "clamp_" else ()))


def activation(g: Growing) -> None:
    x = _made(g)
    if x is not None:
        g.call("torch.nn.functional.relu", x, inplace=True)


def assignment(g: Growing) -> None:
    x = _made(g)
    if x is None:
        return
    shape = shape_of(x)
    dim = g.random.randrange(len(shape))
    part = g.random.choice([slice(0, shape[dim] // 2), slice(None, None, 2), slice(None)])
    index = (*[slice(None)] * dim, part)
    g.graph.call("operator.setitem", x, index, g.random.choice([0.0, 3.0]))


def rows(g: Growing) -> None:
    x = _made(g)
    if x is not None and len(shape_of(x)) > 1:
        y = g.parameter(shape_of(x)[1:])
        g.graph.call("operator.setitem", x, (g.random.randrange(shape_of(x)[0]),), y)


def view(g: Growing) -> None:
    x = _made(g)
    if x is None:
        return
    shape = shape_of(x)
    match g.random.randrange(5):
        case 0:
            g.call("torch.Tensor.view", x, (-1,))
        case 1 if len(shape) > 1:
            g.call("torch.transpose", x, 0, 1)
        case 2 if shape[-1] % 2 == 0:
            g.call("torch.chunk", x, 2, -1)
        case 3:
            g.call("operator.getitem", x, slice(0, max(1, shape[0] // 2)))
        case _:
            g.call("torch.unsqueeze", x, 0)


def product(g: Growing) -> None:
    x = g.pick(1)
    if x is not None:
        g.call("torch.matmul", x, g.parameter((shape_of(x)[-1], g.random.choice((8, 16)))))


WRITING: tuple[Callable[[Growing], None], ...] = (
    number, tensor, tensor, function, activation, assignment, rows, view, view, product, product,
)  # fmt: skip


def writing_graph(random: Random, calls: int) -> Growing:
    """A graph of about so many calls, half of them writing; it returns what nothing uses, and two
    values more.
    """
    g = Growing(random)
    for _ in range(calls):
        small = [v for v in g.values if _elements(v) <= ROOM]
        g.values = small or g.values
        try:
            random.choice(random.choice((FAMILIES, WRITING, WRITING)))(g)
        except DimsolveError:
            continue
    used = {v for node in g.graph.nodes() for v in node.operands()}
    ends = [v for v in g.graph.values.values() if v not in used and is_float(v)]
    extra = [v for v in g.values if v not in ends][-2:]
    g.graph.output(*dict.fromkeys([*ends, *extra]))
    return g


def _elements(value: Value) -> int:
    total = 1
    for length in shape_of(value):
        total *= length
    return total
