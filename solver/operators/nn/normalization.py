"""Normalisations: what a mean and a variance are taken over stays whole, the rest may be cut.

layer_norm(x, (d,), w, b)    a b c^, c^, c^ -> a b c^
group_norm(x, 4, w, b)       n (g c^) h^, (g c^), (g c^) -> n (g c^) h^    num_groups: its g
instance_norm(x)             n c h^ -> n c h^
batch_norm in evaluation     n c h, c, c, c, c -> n c h
batch_norm in training       n^ c h^, c, c, c, c -> n^ c h^    writes the running statistics
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from dimsolve.ir.operator import Declaration

from ...algebra.dims import floor_div, surely_positive
from ...algebra.poly import Dim, divide_exactly, product
from ..declare import errors
from ..declare.entry import between, constant, entry, example, functional, shapes, t, torch_entry
from ..declare.forms import declared, words
from ..declare.needs import EQ, GE, NE, need, need_multiple, never_equal
from ..declare.writing import Names, Pattern, axes, dims_of, freeze_text, group, is_dim, known


def _with_optional(
    input: Any, row: Pattern, optional: Sequence[tuple[Any, Pattern]], **more: Any
) -> Declaration:
    """The declaration of one tensor and of those optional ones that are there."""
    there = [(tensor, pattern) for tensor, pattern in optional if tensor is not None]
    return declared(
        (input, *(tensor for tensor, _ in there)),
        [row, *(pattern for _, pattern in there)],
        [row],
        **more,
    )


def layer_norm(
    input: Any,
    normalized_shape: Any,
    weight: Any = None,
    bias: Any = None,
    eps: float = 1e-5,
    *rest: Any,
) -> Declaration:
    """Declares a norm over the last dimensions."""
    dims = dims_of(input)
    rank = len(dims)
    count = len(normalized_shape) if isinstance(normalized_shape, list | tuple) else 1
    if count > rank:
        raise errors.wrong_number("normalized dimensions", count, rank)
    wanted = normalized_shape if isinstance(normalized_shape, list | tuple) else (normalized_shape,)
    for length, size in zip(dims[rank - count :], wanted, strict=True):
        if length is not None and is_dim(size):
            refusal = errors.lengths_differ(
                "the last dimensions and normalized_shape", length, size
            )
            if never_equal(length, size):
                raise refusal
            need(length, EQ, size, refusal)
    names = Names()
    leading, normal = names.take(rank - count), names.take(count, "^")
    return _with_optional(input, [*leading, *normal], [(weight, normal), (bias, normal)])


def rms_norm(
    input: Any, normalized_shape: Any, weight: Any = None, eps: float | None = None
) -> Declaration:
    """Declares a root-mean-square norm over the last dimensions."""
    return layer_norm(input, normalized_shape, weight)


def group_norm(
    input: Any, num_groups: int, weight: Any = None, bias: Any = None, eps: float = 1e-5, *rest: Any
) -> Declaration:
    """Declares a norm over each group of channels."""
    dims = dims_of(input)
    if len(dims) < 2:
        raise errors.wrong_rank("group_norm", "input", dims, "at least 2 dimensions")
    channels = dims[1]
    refusal = errors.not_a_multiple("a group of channels", channels, num_groups)
    need(num_groups, GE, 1, refusal)
    if channels is not None:
        need_multiple(channels, num_groups, refusal)
    if None not in dims and num_groups != 0:
        share = floor_div(product(known((dims[0], dims[1]))), num_groups)
        _need_values(product([share, *known(dims[2:])]), "group_norm")
    inner = None if channels is None else divide_exactly(channels, num_groups)
    names = Names({"n", "g", "c"})
    groups, width = "1" if num_groups == 1 else "g", "1" if inner == 1 else "c^"
    both = group(groups, width)
    row = ["n", both, *names.take(len(dims) - 2, "^")]
    return _with_optional(
        input,
        row,
        [(weight, [both]), (bias, [both])],
        arguments={"g": num_groups} if " " in both else {},
        sizes={"num_groups": "g"} if groups == "g" else {},
    )


def instance_norm(
    input: Any,
    running_mean: Any = None,
    running_var: Any = None,
    weight: Any = None,
    bias: Any = None,
    use_input_stats: bool = True,
    momentum: float = 0.1,
    eps: float = 1e-5,
    *rest: Any,
) -> Declaration:
    """Declares a norm of each channel of each sample.

    Running statistics are averaged over the batch while they are written, so the batch stays whole
    then.
    """
    dims = dims_of(input)
    if use_input_stats and None not in dims[2:]:
        _need_values(product(known(dims[2:])), "instance_norm")
    written = use_input_stats and running_mean is not None
    names = Names({"n", "c"})
    batch = "n^" if written else "n"
    row = [batch, "c", *names.take(len(dims) - 2, "^" if use_input_stats else "")]
    statistics = [(x, ["c"]) for x in (running_mean, running_var, weight, bias)]
    return _with_optional(input, row, statistics, mutates=(1, 2) if written else ())


def _need_values(count: Dim, function: str) -> None:
    """A mean and a variance are taken of several values, or of none."""
    refusal = errors.not_understood(function, "there is one value to take a variance of")
    if surely_positive(count):
        need(count, GE, 2, refusal)
    else:
        need(count, NE, 1, refusal)


def batch_norm(
    input: Any,
    running_mean: Any,
    running_var: Any,
    weight: Any = None,
    bias: Any = None,
    training: bool = False,
    momentum: float = 0.1,
    eps: float = 1e-5,
    *rest: Any,
) -> Declaration:
    """Declares a norm of each channel, by the batch or running statistics."""
    dims = dims_of(input)
    if len(dims) < 2:
        raise errors.wrong_rank("batch_norm", "input", dims, "at least 2 dimensions")
    if training and None not in dims:
        _need_values(product(known((dims[0], *dims[2:]))), "batch_norm")
    names, mark = Names({"n", "c"}), "^" if training else ""
    row = [f"n{mark}", "c", *names.take(len(dims) - 2, mark)]
    written = training and running_mean is not None
    statistics = [(x, ["c"]) for x in (running_mean, running_var, weight, bias)]
    return _with_optional(input, row, statistics, mutates=(1, 2) if written else ())


def torch_batch_norm(
    input: Any,
    weight: Any,
    bias: Any,
    running_mean: Any,
    running_var: Any,
    training: bool,
    momentum: float,
    eps: float,
    cudnn_enabled: bool,
) -> Declaration:
    """Declares torch.batch_norm, which takes its tensors in another order."""
    found = batch_norm(input, running_mean, running_var, weight, bias, training)
    order = [x for x in (input, weight, bias, running_mean, running_var) if x is not None]
    statistics = () if running_mean is None else (len(order) - 2, len(order) - 1)
    row = found.annotation.split(" -> ")[1]
    text = ", ".join([row] + ["c"] * (len(order) - 1))
    return Declaration(
        f"{text} -> {row}",
        tuple(order),
        dtypes=found.dtypes,
        mutates=statistics if found.mutates else (),
    )


def native_layer_norm(
    input: Any, normalized_shape: Any, weight: Any, bias: Any, eps: float
) -> Declaration:
    """Declares a norm over the last dimensions with its means and inverse deviations."""
    found = layer_norm(input, normalized_shape, weight, bias)
    row = found.annotation.split(" -> ")[1].split(" ")
    statistics = " ".join("1" if word.endswith("^") else word for word in row)
    return _with_statistics(found, [statistics] * 2)


def native_group_norm(
    input: Any, weight: Any, bias: Any, N: Any, C: Any, HxW: Any, group: Any, eps: float
) -> Declaration:
    """Declares a norm over each group of channels with its statistics."""
    dims = known(dims_of(input))
    for given, length in ((N, dims[0]), (C, dims[1]), (HxW, product(dims[2:]))):
        need(given, EQ, length, errors.lengths_differ("a length that is given", given, length))
    found = group_norm(input, group, weight, bias)
    row = found.annotation.split(" -> ")[1]
    channels = row.partition(" ")[2][: -2 * (len(dims) - 2)].strip() or "1"
    groups = "g" if "g" in channels else "1"
    return replace(
        _with_statistics(found, [f"n {groups}"] * 2),
        sizes={"N": "n", "C": channels.replace("^", ""), "group": groups},
    )


def _with_statistics(found: Declaration, outputs: Sequence[str], *dtypes: str) -> Declaration:
    """The declaration with further results."""
    return replace(
        found,
        annotation=", ".join([found.annotation, *outputs]),
        dtypes=(*found.dtypes * len(outputs), *found.dtypes)[: len(outputs) + 1 - len(dtypes)]
        + dtypes,
        returns="tuple",
    )


def _with_empty(found: Declaration, outputs: Sequence[str], *dtypes: str) -> Declaration:
    """The declaration with further results of which one is empty: no part of it is of a rank."""
    made = _with_statistics(found, outputs, *dtypes)
    return replace(made, annotation=freeze_text(made.annotation), frozen="a result is empty")


def native_batch_norm(
    input: Any,
    weight: Any,
    bias: Any,
    running_mean: Any,
    running_var: Any,
    training: bool,
    momentum: float,
    eps: float,
) -> Declaration:
    """Declares torch.batch_norm with the statistics that it used: none in evaluation."""
    found = torch_batch_norm(
        input, weight, bias, running_mean, running_var, training, momentum, eps, False
    )
    return _with_statistics(found, ["c", "c"]) if training else _with_empty(found, ["0", "0"])


def batch_norm_legit(input: Any, weight: Any, bias: Any, *rest: Any) -> Declaration:
    """Declares native_batch_norm, with running statistics or without any."""
    statistics = rest if len(rest) > 3 else (None, None, *rest)
    return native_batch_norm(input, weight, bias, *statistics)


def batch_norm_with_update(
    input: Any, weight: Any, bias: Any, running_mean: Any, running_var: Any, *rest: Any
) -> Declaration:
    """Declares a batch norm in training that keeps bytes for its gradient."""
    found = torch_batch_norm(input, weight, bias, running_mean, running_var, True, 0.1, 1e-5, False)
    return _with_empty(found, ["c", "c", "0"], "uint8")


def local_response_norm(
    input: Any, size: int, alpha: float = 1e-4, beta: float = 0.75, k: float = 1.0
) -> Declaration:
    """Declares a norm over neighbouring channels."""
    dims = dims_of(input)
    need(size, GE, 1, errors.not_understood("local_response_norm", f"size is {size}"))
    row = Names().take(len(dims))
    row[1] += "^"
    return _with_optional(input, row, [])


def normalize(
    input: Any, p: float = 2.0, dim: Any = 1, eps: float = 1e-12, out: Any = None
) -> Declaration:
    """Declares division by a norm along dimensions."""
    dims = dims_of(input)
    places = axes(dim, len(dims))
    row = words(len(dims), places)
    return _with_optional(input, row, [])


_IMAGE = t(12, 6, 4, 2)
_CHANNEL = t(6)
_STATISTICS = (constant(t(6)), constant(between(0.5, 2, 6)))

ENTRIES = (
    functional(
        layer_norm,
        example(t(2, 12, 24), (24,), t(24), t(24)),
        example(t(12, 4, 6), (4, 6)),
        example(t(12, 24), [24], t(24)),
    ),
    functional(rms_norm, example(t(2, 12, 24), (24,), t(24)), example(t(12, 24), (24,))),
    functional(
        group_norm,
        example(t(2, 24, 6), 12, t(24), t(24)),
        example(t(12, 6, 4), 6),
        example(t(12, 8, 4), 1, t(8)),
    ),
    functional(
        instance_norm,
        example(_IMAGE, None, None, _CHANNEL, _CHANNEL),
        example(t(12, 6, 4), *_STATISTICS, use_input_stats=False),
    ),
    functional(
        batch_norm,
        example(_IMAGE, *_STATISTICS, t(6), t(6)),
        example(_IMAGE, *_STATISTICS, t(6), t(6), training=True),
        example(t(12, 6), None, None, training=True),
        note="in training the batch is cut through a transform rule that joins the statistics",
    ),
    entry(
        "torch.batch_norm",
        torch_batch_norm,
        example(_IMAGE, t(6), t(6), *_STATISTICS, False, 0.1, 1e-5, False),
    ),
    torch_entry(native_layer_norm, example(t(2, 12, 24), (24,), t(24), t(24), 1e-5)),
    torch_entry(
        native_group_norm,
        example(t(2, 24, 6), t(24), t(24), 2, 24, 6, 12, 1e-5),
        example(t(12, 8, 4), t(8), t(8), 12, 8, 4, 1, 1e-5),
    ),
    torch_entry(
        native_batch_norm,
        *(example(_IMAGE, t(6), t(6), *_STATISTICS, train, 0.1, 1e-5) for train in (False, True)),
    ),
    entry(
        "torch._native_batch_norm_legit",
        batch_norm_legit,
        example(_IMAGE, t(6), t(6), *_STATISTICS, True, 0.1, 1e-5),
        example(_IMAGE, t(6), t(6), True, 0.1, 1e-5),
    ),
    entry(
        "torch.ops.aten._batch_norm_with_update",
        batch_norm_with_update,
        example(constant(_IMAGE), *_STATISTICS, *_STATISTICS, 0.1, 1e-5),
    ),
    functional(local_response_norm, example(t(12, 6, 4), 2)),
    functional(normalize, *shapes("12 6"), example(t(12, 6, 4), p=1.0, dim=-1)),
)
