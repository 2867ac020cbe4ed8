"""Activations, the softmax family and dropout.

silu, gelu, relu ...     * -> *
softmax(x, dim=-1)       a b^ -> a b^        every part of dim needs the sum over all of it
glu(x, dim=-1)           a (2 b) -> a b      b is cut in both halves at once: S(1, blocks=2)
dropout(x, 0.1)          * -> *              random: a part draws its own mask
dropout2d(x, 0.1)        a b c^ d^ -> a b c^ d^   one draw per channel
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from dimsolve.ir.operator import Declaration

from ...algebra.poly import divide_exactly
from ..declare import errors
from ..declare.dtypes import dtype_name, dtype_of, floating
from ..declare.entry import (
    DType,
    Entry,
    Form,
    between,
    constant,
    entries,
    entry,
    example,
    functional,
    mask,
    shapes,
    t,
)
from ..declare.forms import declared, words
from ..declare.writing import Names, annotation, axis, dims_of, freeze_some, group
from .pointwise import Pointwise, laid_on

_ANY = shapes("12 24", "2 12 6")

_FUNCTIONAL = {
    "celu": "alpha inplace",
    "elu": "alpha inplace",
    "gelu": "approximate",
    "hardshrink": "lambd",
    "hardsigmoid": "inplace",
    "hardswish": "inplace",
    "hardtanh": "min_val max_val inplace",
    "leaky_relu": "negative_slope inplace",
    "logsigmoid": "",
    "mish": "inplace",
    "relu": "inplace",
    "relu6": "inplace",
    "selu": "inplace",
    "silu": "inplace",
    "softplus": "beta threshold",
    "softshrink": "lambd",
    "softsign": "",
    "tanhshrink": "",
    "threshold": "threshold value inplace",
}
"""Activations ``torch.nn.functional.NAME(input, ...)`` with their other parameters."""

_ARGUMENTS: dict[str, tuple[Any, ...]] = {"threshold": (0.1, -1.0), "leaky_relu": (0.2,)}


def softmax(
    input: Any, dim: int | None = None, _stacklevel: int = 3, dtype: Any = None
) -> Declaration:
    """Declares a function of whole rows along ``dim``."""
    dims = dims_of(input)
    if dim is None:
        dim = 0 if len(dims) in (0, 1, 3) else 1
    place = axis(dim, len(dims))
    row = words(len(dims), [place])
    result = floating(dtype_name(dtype) or dtype_of(input))
    return declared(
        (input,),
        [row],
        [row],
        dtypes=(result,),
        frozen="" if len(dims) > 1 else "every element depends on the whole row",
    )


def plain_softmax(input: Any, dim: int, dtype: Any = None) -> Declaration:
    """Declares torch.softmax and its method, which take dim and dtype."""
    return softmax(input, dim, dtype=dtype)


def softmax_backward(grad_output: Any, output: Any, dim: int, input_dtype: Any) -> Declaration:
    """Declares the gradient of a softmax, from its result."""
    rank = len(dims_of(grad_output))
    row = words(rank, [axis(dim, rank)])
    return declared(
        (grad_output, output),
        [row, row],
        [row],
        dtypes=(dtype_name(input_dtype),),
        linear=((0,),),
        frozen="" if rank > 1 else "every element depends on the whole row",
    )


def gumbel_softmax(
    logits: Any, tau: float = 1, hard: bool = False, eps: float = 1e-10, dim: int = -1
) -> Declaration:
    """Declares a softmax of noisy logits."""
    return replace(softmax(logits, dim), random=True)


def glu(input: Any, dim: int = -1) -> Declaration:
    """Declares ``a * sigmoid(b)`` for the halves a and b of a dimension."""
    dims = dims_of(input)
    if not dims:
        raise errors.wrong_rank("glu", "input", dims, "at least 1 dimension")
    place = axis(dim, len(dims))
    length = dims[place]
    if isinstance(length, int) and divide_exactly(length, 2) is None:
        raise errors.not_a_multiple("half a dimension of glu", length, 2)
    output = Names().take(len(dims))
    halves = [group("2", word) if n == place else word for n, word in enumerate(output)]
    return declared((input,), [halves], [output])


def prelu(input: Any, weight: Any) -> Declaration:
    """Declares a leaky ReLU with a slope per channel, or one for all."""
    dims, slope = dims_of(input), dims_of(weight, "the weight")
    if slope in ((), (1,)) or len(dims) < 2:
        text = f"*, {'1' if slope else '()'} -> *"
    else:
        names = Names()
        row = names.take(len(dims))
        slopes, whole = laid_on(slope, (dims[1],), [row[1]], names)
        text = freeze_some(annotation([row, slopes], [row]), whole)
    return Declaration(text, (input, weight), dtypes=(dtype_of(input),))


def rrelu(
    input: Any,
    lower: float = 0.125,
    upper: float = 1 / 3,
    training: bool = False,
    inplace: bool = False,
) -> Declaration:
    """Declares a leaky ReLU with a random slope while training."""
    return Declaration(
        "* -> *",
        (input,),
        dtypes=(dtype_of(input),),
        random=training,
        mutates=(0,) if inplace else (),
    )


def dropout(
    input: Any, p: float = 0.5, training: bool = True, inplace: bool = False
) -> Declaration:
    """Declares dropout of single elements: linear where nothing is drawn."""
    drawn = bool(training) and p != 0
    return Declaration(
        "* -> *",
        (input,),
        dtypes=(dtype_of(input),),
        random=drawn,
        linear=() if drawn else ((0,),),
        mutates=(0,) if inplace else (),
    )


def channel_dropout(
    input: Any, p: float = 0.5, training: bool = True, inplace: bool = False
) -> Declaration:
    """Declares dropout that drops whole channels: the dimensions behind them stay whole."""
    return _of_channels(dropout(input, p, training, inplace), len(dims_of(input)), 2)


def _of_channels(found: Declaration, rank: int, channels: int) -> Declaration:
    """The declaration of dropout of what comes after the first dimensions. Where nothing is drawn
    nothing is dropped.
    """
    names = Names()
    row = [names.one("^" if n >= channels and found.random else "") for n in range(rank)]
    return replace(found, annotation=annotation([row], [row]))


def spatial_dropout(spatial: int) -> Form:
    """Declares dropout1d, 2d, 3d: an input without a batch has its channels first."""

    def declare(
        input: Any, p: float = 0.5, training: bool = True, inplace: bool = False
    ) -> Declaration:
        rank = len(dims_of(input))
        # dropout2d takes a 3-d input for (N, C, L); the others know inputs without a batch.
        channels = 2 if spatial == 2 or rank == spatial + 2 else 1
        return _of_channels(dropout(input, p, training, inplace), rank, channels)

    return declare


_ROWS = (example(t(12, 24), dim=-1), example(t(12, 6, 4), 1))
_SAFE = (example(t(12, 24), -1), example(t(12, 6, 4), 1))
_MASKED = (example(t(12, 24), 0.5, False), example(t(12, 24), p=0.0))
_CHANNELS = (example(t(12, 6, 4, 2), 0.5, False), example(t(12, 6, 4, 2), p=0.0))


def _activations() -> list[Entry]:
    entries = []
    for name, others in _FUNCTIONAL.items():
        form = Pointwise(("input", *others.split()))
        arguments = _ARGUMENTS.get(name, ())
        calls = [example(t(12, 24), *arguments), example(t(2, 12, 6), *arguments)]
        if "inplace" in others:
            calls.append(example(t(12, 6), *arguments, inplace=True))
        entries.append(entry(f"torch.nn.functional.{name}", form, *calls))
    return entries


ENTRIES = (
    *_activations(),
    functional(prelu, example(t(12, 6, 4), between(0.1, 0.3, 6)), *shapes("12 24, 1")),
    functional(rrelu, *_ANY),
    functional(glu, *shapes("12 24"), example(t(12, 24, 4), 1)),
    *entries("torch.nn.functional. softmax log_softmax softmin", softmax, *_ROWS),
    *entries("torch. softmax log_softmax", plain_softmax, *_ROWS),
    entry("torch.ops.aten._safe_softmax", plain_softmax, *_SAFE),
    entry(
        "torch.ops.aten._softmax_backward_data",
        softmax_backward,
        example(constant(t(12, 24)), constant(t(12, 24)), 1, DType("float64")),
    ),
    entry(
        "torch.ops.aten.native_dropout_backward",
        Pointwise(("grad_output", "mask", "scale"), 2, "first", "first"),
        example(t(12, 24), mask(12, 24), 2.0),
    ),
    functional(gumbel_softmax, *shapes("12 24"), note="random: never compared by value"),
    *entries(
        "torch.nn.functional. dropout alpha_dropout",
        dropout,
        *_MASKED,
        note="random while training",
    ),
    entry(
        "torch.dropout",
        lambda input, p, train: dropout(input, p, train),
        example(t(12, 24), 0.5, False),
    ),
    entry("torch.nn.functional.dropout1d", spatial_dropout(1), example(t(12, 6, 4), 0.5, False)),
    entry("torch.nn.functional.dropout2d", spatial_dropout(2), *_CHANNELS),
    entry(
        "torch.nn.functional.dropout3d", spatial_dropout(3), example(t(12, 6, 4, 2, 3), 0.5, False)
    ),
    entry("torch.nn.functional.feature_alpha_dropout", channel_dropout, *_CHANNELS),
)
