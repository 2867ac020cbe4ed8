"""Functions that raise or crash on an empty batch: a rank without rows runs them on one row of
zeros, and drops the result.

    gru(x, h, weights, ...)     x (5, 0, 4), h (1, 0, 3)     recurrent layers
    fft(x, dim=1)               x (0, 8)                     transforms along other dimensions
    ctc_loss(x, y, n, m)        x (9, 0, 6), y (0, 3)        0, and of a mean no share

Of no rows ``multi_margin_loss`` and ``multilabel_margin_loss`` return memory that nobody wrote to.

The result stays connected to all inputs, so a rank without rows still joins the all-reduces of
gradients: its own are zeros.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from importlib import import_module
from typing import Any

from dimsolve.ir.annotation import Dim, Identifier, Mark, Tensor
from dimsolve.ir.operator import Declaration
from dimsolve.ir.read_annotation import read_annotation
from dimsolve.solver.layout import identifiers_of
from dimsolve.solver.operators.nn.losses import reduction_of
from dimsolve.solver.operators.paths import read_paths

from .averages import COUNT, total
from .nothing import alone
from .rule import Part, TransformRule


def row_rules(local: Callable[..., Any], declaration: Declaration) -> tuple[TransformRule, ...]:
    """Returns the rule over the batch for unequal parts, of which some may be empty."""
    rule = TransformRule(
        split="n", local=local, sends=(), parts="any", placed=False, only_unequal=True
    )
    return (rule,)


def _of_rows(name: str) -> Callable[..., Any]:
    """Returns what a rank calls in place of a layer of torch."""

    def local(part: Part, input: Any, hx: Any, *more: Any) -> Any:
        import torch

        function, dim = getattr(torch, name), 0 if more[-1] else 1
        if input.shape[dim]:
            return function(input, hx, *more)
        state = [_with_a_row(each, 1) for each in hx] if isinstance(hx, list | tuple) else None
        first = _with_a_row(hx, 1) if state is None else state
        output, *states = function(_with_a_row(input, dim), first, *more)
        return (output.narrow(dim, 0, 0), *(each.narrow(1, 0, 0) for each in states))

    local.__name__ = local.__qualname__ = f"{name}_parts"
    local.__doc__ = f"Returns torch.{name} of this rank's rows, of which there may be none."
    return local


def _with_a_row(tensor: Any, dim: int) -> Any:
    from torch.nn.functional import pad

    return pad(tensor, [0, 0] * (tensor.dim() - 1 - dim) + [0, 1])


def alone_rules(local: Callable[..., Any], declaration: Declaration) -> tuple[TransformRule, ...]:
    """Returns the rule over what has a dimension of its own, the same in input and output, and is
    in no other tensor, such as a window.
    """
    annotation = read_annotation(declaration.annotation)
    pairs = zip(alone(annotation.inputs[0]), alone(annotation.outputs[0]), strict=False)
    free = {n for n, each in identifiers_of(annotation).items() if each.mark is Mark.NONE}
    names = tuple(name for name, made in pairs if name == made and name in free)
    others = {
        atom.name
        for row in annotation.inputs[1:]
        for dim in (row.dims if isinstance(row, Tensor) else ())
        for atom in (dim.atoms if isinstance(dim, Dim) else ())
        if isinstance(atom, Identifier)
    }
    names = tuple(name for name in names if name not in others)
    if not names:
        return ()
    return (
        TransformRule(
            split=names, local=local, sends=(), parts="any", placed=False, only_unequal=True
        ),
    )


def _of_one_more(path: str) -> Callable[..., Any]:
    """Returns what a rank calls in place of a function of one tensor."""
    home, _, name = path.rpartition(".")

    def local(part: Part, input: Any, *more: Any, **settings: Any) -> Any:
        function, whole = getattr(import_module(home), name), input
        without = [dim for dim, length in enumerate(input.shape) if not length]
        for dim in without:
            whole = _with_a_row(whole, dim)
        found = function(whole, *more, **settings)
        for dim in without:
            found = found.narrow(dim, 0, 0)
        return found

    local.__name__ = local.__qualname__ = f"{name}_parts"
    local.__doc__ = f"Returns {path} of what this rank has, which may be nothing."
    return local


def _of_losses(name: str, rows: tuple[int, ...]) -> Callable[..., Any]:
    """Returns what a rank calls in place of a loss of rows: the losses, their sum, or their share
    of the mean. rows: the dimension of each argument that has them.
    """

    def local(part: Part, *args: Any, **kwargs: Any) -> Any:
        import torch
        from torch.nn import functional

        given = inspect.signature(getattr(functional, name)).bind(*args, **kwargs)
        given.apply_defaults()
        tensors = list(given.arguments)[: len(rows)]
        first = given.arguments[tensors[0]]
        own, said = first.shape[rows[0]], given.arguments
        kind = reduction_of(said["reduction"], said.get("size_average"), said.get("reduce"))
        for key, dim in zip(tensors, rows, strict=True) if not own else ():
            given.arguments[key] = _with_a_row(given.arguments[key], dim)
        found = getattr(functional, name)(*given.args, **given.kwargs)
        if kind == "none":
            return found.narrow(0, 0, own)
        if not own:
            found = found.masked_fill(torch.ones_like(found, dtype=torch.bool), 0)
        if kind == "sum":
            return found
        return (found * (own / total(part, own, first).double().clamp(min=1))).to(found.dtype)

    local.__name__ = local.__qualname__ = f"{name}_parts"
    local.__doc__ = f"Returns {name} of this rank's rows, of which there may be none."
    return local


def loss_rules(local: Callable[..., Any], declaration: Declaration) -> tuple[TransformRule, ...]:
    """Returns the rule over the batch: a mean is one of rows."""
    annotation = read_annotation(declaration.annotation)
    if "n" not in identifiers_of(annotation):
        return ()
    joined = str(annotation.outputs[0]) == "()"
    return (
        TransformRule(
            split="n",
            outputs=("P(sum)",) if joined else None,
            local=local,
            sends=(COUNT,) if joined and declaration.reduction == "avg" else (),
            parts="any",
            placed=False,
            only_unequal=True,
        ),
    )


LOSSES = {
    f"torch.nn.functional.{name}": _of_losses(name, rows)
    for name, rows in {
        "ctc_loss": (1, 0, 0, 0),
        "multi_margin_loss": (0, 0),
        "multilabel_margin_loss": (0, 0),
    }.items()
}
"""What a rank calls in place of losses of rows, by path."""


_ALONE = """
torch.fft. fft ifft rfft irfft hfft ihfft fft2 ifft2 rfft2 irfft2 hfft2 ihfft2 fftn ifftn rfftn
irfftn hfftn ihfftn
torch. stft istft
torch.nn.functional. pixel_shuffle pixel_unshuffle
"""
ALONE = {path: _of_one_more(path) for path in read_paths(_ALONE)}
"""What a rank calls in place of functions of one tensor, by path."""

LOCAL = {name: _of_rows(name) for name in ("lstm", "gru", "rnn_tanh", "rnn_relu")}
"""What a rank calls in place of the layers, by torch's name."""

_MADE = (*LOCAL.values(), *ALONE.values(), *LOSSES.values())
globals().update({each.__name__: each for each in _MADE})  # programs import them
