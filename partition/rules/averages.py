"""Means over unequal parts: a rank's mean times its share of the elements, P(sum).

    mean(x), a+ b+ -> (), a cut: 2 and 1 rows of 3      mean(x_0) * 2/3 + mean(x_1) * 1/3

Parts of one length are averaged alike, without a rule. All of these give NaN of nothing, with a
share of 0: such a rank adds zeros. torch's own function runs, so that what it does to dtypes, also
under autocast, is what it does on one device.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from dimsolve.ir.annotation import Tensor
from dimsolve.ir.operator import Declaration
from dimsolve.ir.read_annotation import read_annotation
from dimsolve.solver.layout import identifiers_of

from .rule import Message, Part, TransformRule

COUNT = Message("()", "count")
"""What ranks tell each other of how many elements they have."""


def average_rules(local: Callable[..., Any], declaration: Declaration) -> tuple[TransformRule, ...]:
    """Returns the rule of a mean for unequal parts: of what the first input has, as its elements
    are counted.
    """
    annotation = read_annotation(declaration.annotation)
    first = annotation.inputs[0]
    if declaration.reduction != "avg" or not isinstance(first, Tensor):
        return ()
    names = {atom.name for dim in first.dims for atom in getattr(dim, "atoms", ()) if _named(atom)}
    found = identifiers_of(annotation).items()
    joined = tuple(name for name, each in found if each.mark.joins and name in names)
    if not joined:
        return ()
    return (
        TransformRule(
            split=joined,
            outputs=("P(sum)",) * len(annotation.outputs),
            local=local,
            sends=(COUNT,),
            parts="any",
            placed=False,
            only_unequal=True,
        ),
    )


def _named(atom: object) -> bool:
    return hasattr(atom, "name")


def total(part: Part, own: int, like: Any) -> Any:
    """Returns how many elements all parts have together, of which this rank has so many, as a
    tensor where ``like`` is.
    """
    import torch

    return part.all_reduce(torch.tensor(own, device=like.device))


def _weighed(path: str, first: str = "input") -> Callable[..., Any]:
    """Returns what a rank calls in place of a mean. first: the parameter whose elements count."""
    home, _, name = path.rpartition(".")

    def local(part: Part, *args: Any, **kwargs: Any) -> Any:
        import torch

        function = getattr(torch if home == "torch" else torch.nn.functional, name)
        counted = args[0] if args else kwargs[first]
        own, found = counted.numel(), function(*args, **kwargs)
        count = total(part, own, counted)
        if own == 0:  # of nothing on all ranks it is what torch gives
            found = found.masked_fill((found != found) & (count > 0), 0)
        return (found * (own / count.double().clamp(min=1))).to(found.dtype)

    local.__name__ = local.__qualname__ = f"{name}_parts"
    local.__doc__ = f"Returns this rank's share of {path}: the shares of all ranks add up to it."
    return local


def _weighed_windows(path: str, dims: int) -> Callable[..., Any]:
    """Returns the same where torch refuses windows of nothing: a place of zeros runs there, and
    weighs nothing. dims: how many dimensions a mean is of, the last ones.
    """
    name = path.rpartition(".")[2]

    def local(part: Part, input: Any, *args: Any, **kwargs: Any) -> Any:
        import torch
        from torch.nn import functional

        whole, own, rank = input, input.numel(), input.dim()
        without = [dim for dim, length in enumerate(input.shape) if not length]
        for dim in without:
            whole = functional.pad(whole, [0, 0] * (rank - 1 - dim) + [0, 1])
        found = getattr(functional, name)(whole, *args, **kwargs)
        for dim in without:
            found = found.narrow(dim, 0, 0) if dim < rank - dims else found
        if own == 0:  # a bag of nothing has looked up the first row, which may be infinite
            found = found.masked_fill(torch.ones_like(found, dtype=torch.bool), 0)
        share = own / total(part, own, input).double().clamp(min=1)
        return (found * share).to(found.dtype)

    local.__name__ = local.__qualname__ = f"{name}_parts"
    local.__doc__ = f"Returns this rank's share of {path}: the shares of all ranks add up to it."
    return local


_LOSSES = (
    "mse_loss l1_loss smooth_l1_loss huber_loss soft_margin_loss binary_cross_entropy "
    "binary_cross_entropy_with_logits kl_div poisson_nll_loss gaussian_nll_loss "
    "hinge_embedding_loss margin_ranking_loss cosine_embedding_loss triplet_margin_loss "
    "multilabel_soft_margin_loss cross_entropy"
)
_FIRST = {
    "margin_ranking_loss": "input1",
    "cosine_embedding_loss": "input1",
    "triplet_margin_loss": "anchor",
}

LOCAL = {
    "torch.mean": _weighed("torch.mean"),
    **{
        path: _weighed(path, _FIRST.get(path.rpartition(".")[2], "input"))
        for path in (f"torch.nn.functional.{name}" for name in _LOSSES.split())
    },
    **{
        path: _weighed_windows(path, n)
        for n in (1, 2, 3)
        for path in (f"torch.nn.functional.adaptive_avg_pool{n}d",)
    },
    "torch.nn.functional.embedding_bag": _weighed_windows("torch.nn.functional.embedding_bag", 1),
}
"""Path of the library's entry to what a rank calls."""

globals().update({each.__name__: each for each in LOCAL.values()})  # programs import them
