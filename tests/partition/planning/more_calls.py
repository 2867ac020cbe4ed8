"""Further families of random calls: windows, hidden products, einsum, norms, lookups, losses."""

from __future__ import annotations

from collections.abc import Callable

import torch

from dimsolve.ir.graph import Value

from .growing import LENGTHS, Growing, shape_of


def whole_numbers(g: Growing, shape: tuple[int, ...], below: int) -> Value:
    """An input of random whole numbers."""
    name = f"ids{len(g.inputs)}"
    g.inputs[name] = torch.randint(0, below, shape, generator=g.generator)
    return g.graph.input(name, shape, "int64")


def fixed(g: Growing, shape: tuple[int, ...]) -> Value:
    """An input beside the others."""
    name = f"y{len(g.inputs)}"
    g.inputs[name] = g.draw(shape)
    return g.graph.input(name, shape, "float64")


def dim_of(g: Growing, x: Value, multiple: int = 1) -> int | None:
    dims = [d for d, n in enumerate(shape_of(x)) if n % multiple == 0 and n > 1]
    return g.random.choice(dims) if dims else None


# ---- windows


def cut_points(g: Growing, length: int) -> list[int]:
    """Lengths that add up, often with a common divisor."""
    unit = g.random.choice([u for u in (1, 2, 4, 8) if length % u == 0])
    left, found = length // unit, []
    while left and len(found) < 3:
        part = g.random.randint(1, left)
        found.append(part * unit)
        left -= part
    return [*found, left * unit] if left else found


def slices(g: Growing) -> None:
    """All slices of a dimension, or some of them."""
    x = g.pick(1)
    dim = None if x is None else dim_of(g, x, 2)
    if x is None or dim is None:
        return
    start = 0
    for length in cut_points(g, shape_of(x)[dim]):
        stop = start + length
        if g.random.random() < 0.8:
            if g.random.random() < 0.7:
                item = slice(start or None, None if stop == shape_of(x)[dim] else stop)
                g.call("operator.getitem", x, (*[slice(None)] * dim, item))
            else:
                g.call("torch.narrow", x, dim, start, length)
        start = stop


def parts(g: Growing) -> None:
    x = g.pick(1)
    dim = None if x is None else dim_of(g, x, 2)
    if x is not None and dim is not None:
        g.call("torch.split", x, cut_points(g, shape_of(x)[dim]), dim)


def fused(g: Growing) -> None:
    """A projection of queries, keys and values of grouped heads."""
    x = g.pick(3)
    if x is None or len(shape_of(x)) != 3:
        return
    b, s, width = shape_of(x)
    out = g.call("torch.nn.functional.linear", x, g.parameter((32, width)))
    q, k, v = (
        g.call("operator.getitem", out, (Ellipsis, item))
        for item in (slice(None, 16), slice(16, 24), slice(24, None))
    )
    heads = [
        g.call("torch.transpose", g.call("torch.reshape", p, (b, s, n, 2)), 1, 2)
        for p, n in ((q, 8), (k, 4), (v, 4))
    ]
    attention = "torch.nn.functional.scaled_dot_product_attention"
    out = g.call(attention, *heads, enable_gqa=True)
    out = g.call("torch.reshape", g.call("torch.transpose", out, 1, 2), (b, s, 16))
    g.call("torch.nn.functional.linear", out, g.parameter((width, 16)))


def join_many(g: Growing) -> None:
    """Tensors that differ in one dimension, put together."""
    x = g.pick(1)
    if x is None:
        return
    shape = shape_of(x)
    dim = g.random.randrange(len(shape))
    rest = (*shape[:dim], *shape[dim + 1 :])
    alike = [v for v in g.values if len(shape_of(v)) == len(shape)]
    fitting = [v for v in alike if (*shape_of(v)[:dim], *shape_of(v)[dim + 1 :]) == rest]
    more = tuple(g.random.choice((8, 16)) if d == dim else n for d, n in enumerate(shape))
    others = [g.random.choice(fitting), g.parameter(more)]
    g.call("torch.cat", [x, *g.random.sample(others, g.random.randint(1, 2))], dim)


def stack(g: Growing) -> None:
    x = g.pick()
    if x is not None and len(shape_of(x)) < 4:
        same = [v for v in g.values if v.dims == x.dims]
        dim = g.random.randint(0, len(shape_of(x)))
        g.call("torch.stack", [x, g.random.choice(same)], dim)


def unbind(g: Growing) -> None:
    x = g.pick(2)
    dims = [d for d, n in enumerate(shape_of(x)) if n <= 4] if x is not None else []
    if x is not None and dims:
        g.call("torch.unbind", x, g.random.choice(dims))


# ---- hidden products


def hidden(g: Growing) -> None:
    """A dimension as three factors, and back in another order."""
    x = g.pick(1)
    dim = None if x is None else dim_of(g, x, 8)
    if x is None or dim is None or len(shape_of(x)) > 3:
        return
    shape = list(shape_of(x))
    factors = [2, 4, shape[dim] // 8]
    g.random.shuffle(factors)
    y = g.call("torch.reshape", x, (*shape[:dim], *factors, *shape[dim + 1 :]))
    order = list(range(len(shape) + 2))
    a, b = g.random.sample(range(dim, dim + 3), 2)
    order[a], order[b] = order[b], order[a]
    g.call("torch.reshape", g.call("torch.permute", y, tuple(order)), tuple(shape))


def flatten_all(g: Growing) -> None:
    x = g.pick(3)
    if x is not None:
        shape = shape_of(x)
        g.call("torch.reshape", x, (shape[0] * shape[1], *shape[2:]))


def einsum(g: Growing) -> None:
    x = g.pick(2)
    if x is None or len(shape_of(x)) > 3:
        return
    letters = "abc"[: len(shape_of(x))]
    sizes = dict(zip(letters, shape_of(x), strict=True)) | {"n": g.random.choice(LENGTHS)}
    summed = g.random.choice(letters)
    kept = [c for c in letters if c != summed]
    other = summed + "".join(c for c in kept if g.random.random() < 0.3) + "n"
    out = [*kept, "n"] if g.random.random() < 0.8 else kept
    g.random.shuffle(out)
    weight = g.parameter(tuple(sizes[c] for c in other))
    g.call("torch.einsum", f"{letters},{other}->{''.join(out)}", x, weight)


def bmm(g: Growing) -> None:
    x = g.pick(3)
    if x is not None and len(shape_of(x)) == 3:
        b, _, k = shape_of(x)
        w = g.parameter((b, k, g.random.choice(LENGTHS)))
        g.call("torch.bmm", x, w)


# ---- sizes


def repeat(g: Growing) -> None:
    x = g.pick(1)
    if x is not None and len(shape_of(x)) < 4:
        times = [g.random.choice((1, 1, 2)) for _ in shape_of(x)]
        if g.random.random() < 0.5:
            g.call("torch.Tensor.repeat", x, (*([2] if g.random.random() < 0.3 else []), *times))
        else:
            g.call("torch.repeat_interleave", x, 2, dim=g.random.randrange(len(times)))


def expand_ones(g: Growing) -> None:
    """A new dimension of length one, expanded, and merged with its neighbour: grouped heads."""
    x = g.pick(1)
    if x is None or len(shape_of(x)) > 3:
        return
    dim = g.random.randint(1, len(shape_of(x)))
    y = g.call("torch.unsqueeze", x, dim)
    shape = [4 if d == dim else n for d, n in enumerate(shape_of(y))]
    g.call("torch.flatten", g.call("torch.Tensor.expand", y, tuple(shape)), dim - 1, dim)


def move(g: Growing) -> None:
    x = g.pick(1)
    if x is None:
        return
    dim = g.random.randrange(len(shape_of(x)))
    match g.random.randrange(4):
        case 0:
            g.call("torch.roll", x, 3, dim)
        case 1:
            g.call("torch.flip", x, (dim,))
        case 2:
            g.call("torch.cumsum", x, dim)
        case _:
            g.call("torch.nn.functional.pad", x, (1, 7))


# ---- reductions and norms


def squeeze(g: Growing) -> None:
    x = g.pick(2)
    dims = [d for d, n in enumerate(shape_of(x)) if n == 1] if x is not None else []
    if dims:
        g.call("torch.squeeze", x, g.random.choice(dims))


def statistics(g: Growing) -> None:
    x = g.pick(1)
    dim = None if x is None else dim_of(g, x)
    if x is None or dim is None:
        return
    keep = g.random.random() < 0.5
    match g.random.randrange(4):
        case 0:
            g.call("torch.logsumexp", x, dim, keep)
        case 1:
            g.call("torch.var", x, dim, keepdim=keep)
        case 2:
            g.call("torch.linalg.vector_norm", x, 2, dim, keep)
        case _:
            g.call("torch.mean", x, tuple(range(len(shape_of(x)))))


def norms(g: Growing) -> None:
    x = g.pick(2)
    if x is None:
        return
    shape = shape_of(x)
    match g.random.randrange(4):
        case 0 if shape[-1] > 1:
            g.call("torch.nn.functional.rms_norm", x, (shape[-1],), g.parameter((shape[-1],)))
        case 1 if shape[1] % 4 == 0:
            scale = (g.parameter((shape[1],)), g.parameter((shape[1],)))
            g.call("torch.nn.functional.group_norm", x, 4, *scale)
        case 2 if shape[-1] > 1:
            # Zeros, such as x - x, have a gradient of 1e12 there, and what is left is rounding.
            x = g.call("torch.add", x, g.parameter((shape[-1],)))
            g.call("torch.nn.functional.normalize", x, dim=-1)
        case _:
            g.call("torch.log_softmax", x, g.random.randrange(len(shape)))


# ---- lookups


def lookups(g: Growing) -> None:
    x = g.pick(1)
    if x is None:
        return
    shape = shape_of(x)
    dim = g.random.randrange(len(shape))
    match g.random.randrange(3):
        case 0:
            g.call("torch.index_select", x, dim, whole_numbers(g, (8,), shape[dim]))
        case 1:
            taken = tuple(8 if d == dim else n for d, n in enumerate(shape))
            g.call("torch.gather", x, dim, whole_numbers(g, taken, shape[dim]))
        case _:
            g.call("operator.getitem", x, whole_numbers(g, (8, 2), shape[0]))


def where(g: Growing) -> None:
    x = g.pick(1)
    if x is not None:
        same = [v for v in g.values if v.dims == x.dims]
        mask = g.graph.call("torch.gt", g.random.choice(same), 0.0)
        if g.random.random() < 0.5:
            g.call("torch.where", mask, x, g.random.choice(same))
        else:
            g.call("torch.Tensor.masked_fill", x, mask, 0.25)


# ---- losses


def losses(g: Growing) -> None:
    x = g.pick(2)
    if x is None:
        return
    shape = shape_of(x)
    reduction = g.random.choice(("mean", "sum", "mean"))
    name = g.random.choice(("mse_loss", "l1_loss", "smooth_l1_loss", "cross_entropy", "nll_loss",
                            "binary_cross_entropy_with_logits", "kl_div"))  # fmt: skip
    path = f"torch.nn.functional.{name}"
    if name in ("cross_entropy", "nll_loss"):
        target = whole_numbers(g, (shape[0], *shape[2:]), shape[1])
        # torch's own backward of nll_loss refuses logits that are not contiguous.
        x = g.call("torch.Tensor.contiguous", x)
        g.call(path, x, target, reduction=reduction)
    else:
        target = fixed(g, shape)
        if name == "kl_div":  # of probabilities, which are not negative
            target = g.graph.call("torch.abs", target)
            reduction = g.random.choice(("sum", "batchmean"))
        g.call(path, x, target, reduction=reduction)


MORE_FAMILIES: tuple[Callable[[Growing], None], ...] = (
    slices, slices, parts, fused, join_many, stack, unbind, hidden, flatten_all, einsum, bmm,
    repeat, expand_ones, move, squeeze, statistics, norms, lookups, where, losses,
)  # fmt: skip
