"""Scatters that keep the largest or smallest, where what they write is sharded.

    scatter_reduce(x, 1, i, v, "amax")    a b^, a c^, a c^ -> a b^    c cut: i, v S(1)      R
    index_reduce(x, 0, i, v, "amin")      a^ b, c^, c^ b -> a^ b      c cut: i, v S(0)      R

P(max) would do for the values. But equal extremes share the gradient, across all parts and with the
element that was there, and only all ranks together know how many they are.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from dimsolve.ir.annotation import Dim, Identifier, Mark, Operand, Tensor
from dimsolve.ir.operator import Declaration
from dimsolve.ir.read_annotation import read_annotation

from .autocast import cast_as_torch
from .rule import Message, Part, TransformRule


def scatter_rules(local: Callable[..., Any], declaration: Declaration) -> tuple[TransformRule, ...]:
    """Returns the rule of the places that are written from, where extremes are."""
    if declaration.reduction not in ("max", "min"):
        return ()
    annotation = read_annotation(declaration.annotation)
    here, index = (_frozen(row) for row in annotation.inputs[:2])
    names = tuple(name for name in index if name not in here)
    if not names:
        return ()
    row = str(annotation.outputs[0])
    reached = (Message(row, "count"),) if "include_self" in declaration.fixed else ()
    sends = (
        Message(row, "output"),
        *reached,
        Message(row, "output", forward=False, backward=True, of=(0, 2)),
        Message(row, "count", forward=False, backward=True, of=(0, 2)),
    )
    return (
        TransformRule(
            split=names, outputs=("R",), local=local, sends=sends, parts="any", placed=False
        ),
    )


def _frozen(row: Operand) -> tuple[str, ...]:
    dims = row.dims if isinstance(row, Tensor) else ()
    atoms = [dim.atoms[0] for dim in dims if isinstance(dim, Dim)]
    return tuple(
        atom.name for atom in atoms if isinstance(atom, Identifier) and atom.mark is Mark.FROZEN
    )


@cast_as_torch()
def scatter_extreme_parts(
    part: Part,
    input: Any,
    dim: int,
    index: Any,
    src: Any,
    reduce: str,
    *,
    include_self: bool = True,
) -> Any:
    """Returns torch.scatter_reduce of what all ranks write."""
    from .joined import written

    return written(part, input, dim, index, src, reduce == "amax", include_self)


@cast_as_torch()
def index_extreme_parts(
    part: Part,
    input: Any,
    dim: int,
    index: Any,
    source: Any,
    reduce: str,
    *,
    include_self: bool = True,
) -> Any:
    """Returns torch.index_reduce of what all ranks write: every slice has its place."""
    from .joined import written

    shape = [-1 if n == dim % source.dim() else 1 for n in range(source.dim())]
    places = index.reshape(shape).expand(source.shape)
    return written(part, input, dim, places, source, reduce == "amax", include_self)
