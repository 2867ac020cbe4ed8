"""Triangles of matrices whose rows or columns are cut: the diagonal lies where a part begins.

tril(x), rows b over 2     a b^ c^ -> a b^ c^      rank 1 keeps what lies below diagonal + b/2

Variances, norms and places of extremes over a cut dimension: every rank gets the whole result.

    var(x, -1)        a b^ -> a      x S(1)      R     mean and squares of all ranks
    norm(x)           a^ b^ -> ()    x S(0)      R     a root of the sum of all ranks
    argmax(x, -1)     a b^ -> a      x S(1)      R     the first place that holds the largest

No reduction joins these; the sums below them are joined instead.
"""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, Any

from dimsolve.ir.annotation import Dim, Identifier, Mark, Tensor
from dimsolve.ir.operator import Declaration
from dimsolve.ir.read_annotation import read_annotation
from dimsolve.solver.layout import fresh_names, identifiers_of

from ..placement import Shard
from .autocast import cast_as_torch
from .rule import Part, TransformRule
from .statistics import dims_of

if TYPE_CHECKING:
    import torch


def var_rules(declaration: Declaration) -> tuple[TransformRule, ...]:
    """Returns the rule of var."""
    return _rules_of_spread(declaration, var_parts)


def std_rules(declaration: Declaration) -> tuple[TransformRule, ...]:
    """Returns the rule of std."""
    return _rules_of_spread(declaration, std_parts)


def norm_rules(declaration: Declaration) -> tuple[TransformRule, ...]:
    """Returns the rule of torch.norm, where it is no sum, maximum or minimum."""
    return _rules_of_spread(declaration, norm_parts)


def vector_norm_rules(declaration: Declaration) -> tuple[TransformRule, ...]:
    """Returns the rule of torch.linalg.vector_norm."""
    return _rules_of_spread(declaration, vector_norm_parts)


def linalg_norm_rules(declaration: Declaration) -> tuple[TransformRule, ...]:
    """Returns the rule of torch.linalg.norm where it is a largest or smallest size."""
    return _rules_of_spread(declaration, linalg_norm_parts, extremes_only=True)


def dist_rules(declaration: Declaration) -> tuple[TransformRule, ...]:
    """Returns the rule of torch.dist where it is a largest or smallest difference."""
    return _rules_of_spread(declaration, dist_parts, extremes_only=True)


def argmax_rules(declaration: Declaration) -> tuple[TransformRule, ...]:
    """Returns the rule of argmax."""
    return _rules_of_spread(declaration, argmax_parts)


def argmin_rules(declaration: Declaration) -> tuple[TransformRule, ...]:
    """Returns the rule of argmin."""
    return _rules_of_spread(declaration, argmin_parts)


def _rules_of_spread(
    declaration: Declaration, local: Any, *, extremes_only: bool = False
) -> tuple[TransformRule, ...]:
    """Over what is reduced and has no reduction, and over extremes: elements of several ranks that
    tie share the gradient, which P(max) does not know of.
    """
    annotation = read_annotation(declaration.annotation)
    extreme = declaration.reduction in ("max", "min")
    marks = {Mark.SUM} if extreme else set() if extremes_only else {Mark.FROZEN}
    found = identifiers_of(annotation).items()
    names = tuple(name for name, identifier in found if identifier.mark in marks)
    if not names or len(annotation.outputs) != 1:
        return ()
    return (TransformRule(split=names, outputs=("R",), local=local),)


@cast_as_torch()
def var_parts(
    part: Part,
    input: Any,
    dim: Any = None,
    unbiased: Any = None,
    keepdim: bool = False,
    *,
    correction: Any = None,
) -> Any:
    """Returns the variance over all ranks' parts."""
    return _variance(part, input, dim, unbiased, keepdim, correction).to(_real(input))


@cast_as_torch()
def std_parts(
    part: Part,
    input: Any,
    dim: Any = None,
    unbiased: Any = None,
    keepdim: bool = False,
    *,
    correction: Any = None,
) -> Any:
    """Returns the standard deviation over all ranks' parts."""
    variance = _variance(part, input, dim, unbiased, keepdim, correction)
    zero = variance == 0
    # Its gradient is 0 where it is 0, as torch has it.
    root = variance.masked_fill(zero, 1).sqrt().masked_fill(zero, 0)
    return root.to(_real(input))


def _variance(
    part: Part, input: Any, dim: Any, unbiased: Any, keepdim: bool, correction: Any
) -> Any:
    """The variance in the dtype that torch adds up in: its root may fit where it does not."""
    from .joined import variance

    if isinstance(dim, bool):
        dim, unbiased = None, dim
    less = (1 if unbiased in (None, True) else 0) if correction is None else correction
    dims = dims_of(input, dim)
    found = variance(part, input, dims, less, dim is None)
    return found if keepdim or not dims else found.squeeze(dims)


def _real(input: Any) -> Any:
    return input.real.dtype if input.is_complex() else input.dtype


@cast_as_torch(("cuda",))
def norm_parts(
    part: Part,
    input: Any,
    p: Any = "fro",
    dim: Any = None,
    keepdim: bool = False,
    out: Any = None,
    dtype: Any = None,
) -> Any:
    """Returns torch.norm of all ranks' parts."""
    order = 2 if p in ("fro", None) else p
    return vector_norm_parts(part, input, order, dim, keepdim, dtype=dtype)


@cast_as_torch(("cuda",))
def vector_norm_parts(
    part: Part, x: Any, ord: Any = 2, dim: Any = None, keepdim: bool = False, *, dtype: Any = None
) -> Any:
    """Returns the norm of the vectors of which all ranks have parts."""
    from .joined import vector_norm

    x = x if dtype is None else x.to(dtype)
    return vector_norm(part, x, ord, dims_of(x, dim), keepdim)


def linalg_norm_parts(
    part: Part, A: Any, ord: Any, dim: Any = None, keepdim: bool = False, *, dtype: Any = None
) -> Any:
    """Returns torch.linalg.norm of all ranks' parts, where it is a norm of vectors."""
    return vector_norm_parts(part, A, ord, dim, keepdim, dtype=dtype)


def dist_parts(part: Part, input: Any, other: Any, p: Any = 2) -> Any:
    """Returns the norm of the difference of all ranks' parts."""
    return vector_norm_parts(part, input - other, p)


@cast_as_torch()
def argmax_parts(part: Part, input: Any, dim: Any = None, keepdim: bool = False) -> Any:
    """Returns the first place of the largest element of all ranks' parts."""
    return _place(part, input, dim, keepdim, "max")


@cast_as_torch()
def argmin_parts(part: Part, input: Any, dim: Any = None, keepdim: bool = False) -> Any:
    """Returns the first place of the smallest element of all ranks' parts."""
    return _place(part, input, dim, keepdim, "min")


def _place(part: Part, input: Any, dim: Any, keepdim: bool, reduction: str) -> Any:
    """A rank's own first place, counted in the whole; of the ranks that tie the first one's."""
    import torch

    find = torch.argmax if reduction == "max" else torch.argmin
    names = fresh_names(set())
    parts = [part[next(names)] for _ in range(input.dim())]
    local = find(input, dim, keepdim=True)
    if dim is None:
        value = input.reshape(-1)[local.reshape(())].reshape(local.shape)
        found = _flat(local, list(input.shape), parts)
    else:
        value = input.gather(dim, local)
        found = local + parts[dim].index * input.shape[dim]
    mine = (value == part.all_reduce(value.detach(), reduction)) | value.isnan()
    whole = prod(n * p.count for n, p in zip(input.shape, parts, strict=True))
    place = part.all_reduce(found.masked_fill(~mine, whole), "min")
    if keepdim:
        return place
    return place.reshape(()) if dim is None else place.squeeze(dim)


def _flat(local: torch.Tensor, sizes: list[int], parts: list[Part]) -> torch.Tensor:
    """A place among a rank's elements as one among all."""
    found, stride = local * 0, 1
    for size, part in zip(reversed(sizes), reversed(parts), strict=True):
        found = found + (local % size + part.index * size) * stride
        local, stride = local // size, stride * size * part.count
    return found


def tril_rules(declaration: Declaration) -> tuple[TransformRule, ...]:
    """Returns the rules of tril: one for rows, one for columns."""
    return _rules_of_triangles(declaration, tril_parts)


def triu_rules(declaration: Declaration) -> tuple[TransformRule, ...]:
    """Returns the rules of triu."""
    return _rules_of_triangles(declaration, triu_parts)


def _rules_of_triangles(declaration: Declaration, local: Any) -> tuple[TransformRule, ...]:
    row = read_annotation(declaration.annotation).inputs[0]
    assert isinstance(row, Tensor)
    atoms = [dim.atoms[0] for dim in row.dims if isinstance(dim, Dim)]
    return tuple(
        TransformRule((Shard(place),), (Shard(place),), local=local, split=atom.name)
        for place, atom in enumerate(atoms)
        if isinstance(atom, Identifier) and atom.mark is Mark.FROZEN
    )


@cast_as_torch()
def tril_parts(part: Part, input: Any, diagonal: int = 0) -> Any:
    """Returns this rank's part of the lower triangles."""
    return input.tril(diagonal + _shift(part, input))


@cast_as_torch()
def triu_parts(part: Part, input: Any, diagonal: int = 0) -> Any:
    """Returns this rank's part of the upper triangles."""
    return input.triu(diagonal + _shift(part, input))


def _shift(part: Part, input: Any) -> int:
    """How far the diagonal of the whole lies above that of the part."""
    names = fresh_names(set())
    *_, rows, columns = (next(names) for _ in range(input.dim()))
    below: int = part[rows].index * input.shape[-2]
    return below - part[columns].index * int(input.shape[-1])
