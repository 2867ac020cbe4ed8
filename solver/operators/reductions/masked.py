"""Reductions and norms of what a mask leaves: the mask is broadcast to the tensor and cut with it.

masked.sum(x, -1, mask=m)        a b+, a b+ -> a        P(sum); what is masked adds nothing
masked.amax(x, -1, mask=m)       a b+, a b+ -> a        P(max)
masked.mean(x, -1, mask=m)       a b^, a b^ -> a        parts of the mask may count differently
masked.softmax(x, -1, mask=m)    a b^, b^ -> a b^
masked.logaddexp(x, y)           *, * -> *
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from dimsolve.ir.operator import Declaration, ReductionName

from ..declare.dtypes import dtype_name, dtype_of, floating, summed
from ..declare.entry import Entry, Example, Form, distinct, entry, example, mask, t
from ..declare.writing import Names, NotKnown, annotation, axes, bare, dims_of, freeze_some
from ..elementwise.pointwise import laid_on, spread
from .reductions import NORMS, RULES, reduced


def masked(found: Declaration, mask: Any) -> Declaration:
    """Returns the declaration of one tensor with its mask beside it."""
    if mask is None:
        return found
    tensor = found.inputs[0]
    left, right = found.annotation.split(" -> ")
    row = [] if left == "()" else left.split(" ")
    if len(dims_of(mask, "the mask")) > len(row):
        raise NotKnown("a mask of a higher rank is not supported")
    given, whole = laid_on(dims_of(mask), dims_of(tensor), row, Names(set(map(bare, row))))
    text = f"{annotation([row, given], [])} {right}"
    return replace(
        found, annotation=freeze_some(text, set(map(bare, whole))), inputs=(tensor, mask)
    )


def _over(mark: str, reduction: ReductionName, rule: str) -> Form:
    """Declares a reduction over dimensions, all by default."""

    def declare(
        input: Any, dim: Any = None, *, keepdim: bool = False, dtype: Any = None, mask: Any = None
    ) -> Declaration:
        made = dtype_name(dtype) or RULES[rule](dtype_of(input))
        joined = "+" if mark == "avg" and mask is None else mark.replace("avg", "^")
        found = reduced(input, dim, bool(keepdim), mark=joined, reduction=reduction, dtype=made)
        return masked(found, mask)

    return declare


def logsumexp(
    input: Any, dim: Any = None, *, keepdim: bool = False, dtype: Any = None, mask: Any = None
) -> Declaration:
    """Declares the logarithm of a sum of exponentials."""
    return _over("^", "sum", "real")(input, dim, keepdim=keepdim, dtype=dtype, mask=mask)


def norm(
    input: Any,
    ord: Any = 2.0,
    dim: Any = None,
    *,
    keepdim: bool = False,
    dtype: Any = None,
    mask: Any = None,
) -> Declaration:
    """Declares a vector norm."""
    mark, reduction = NORMS.get(ord, ("^", "sum"))
    made = dtype_name(dtype) or RULES["abs"](dtype_of(input))
    return masked(
        reduced(input, dim, bool(keepdim), mark=mark, reduction=reduction, dtype=made), mask
    )


def spread_of(
    input: Any,
    dim: Any = None,
    unbiased: Any = None,
    *,
    correction: Any = None,
    keepdim: bool = False,
    dtype: Any = None,
    mask: Any = None,
) -> Declaration:
    """Declares a variance or a standard deviation."""
    return _over("^", "sum", "abs")(input, dim, keepdim=keepdim, dtype=dtype, mask=mask)


def _along(*before: str, rule: str) -> Form:
    """Declares a function of whole rows; ``before``: the parameters before dim."""

    def declare(input: Any, *args: Any, dtype: Any = None, mask: Any = None, **named: Any) -> Any:
        given = dict(zip((*before, "dim"), args, strict=False)) | named
        rank = len(dims_of(input))
        made = dtype_name(dtype) or (summed if rule == "summed" else floating)(dtype_of(input))
        found = reduced(input, axes(given["dim"], rank), True, mark="^", dtype=made)
        row = found.annotation.split(" -> ")[0]
        return masked(replace(found, annotation=f"{row} -> {row}"), mask)

    return declare


def logaddexp(
    input: Any, other: Any, *, dtype: Any = None, input_mask: Any = None, other_mask: Any = None
) -> Declaration:
    """Declares an element-wise function whose tensors have masks of their own."""
    tensors = [x for x in (input, other, input_mask, other_mask) if x is not None]
    return replace(spread(tensors), dtypes=(dtype_name(dtype) or dtype_of(input),))


_MASK = mask(12, 6)


def _calls(*args: Any) -> Sequence[Example]:
    values = distinct(12, 6)
    return (
        example(values, *args, 1, mask=_MASK),
        example(values, *args, 0, mask=mask(6)),
        example(values, *args, 1),
    )


_FORMS: dict[str, tuple[Form, Sequence[Example]]] = {
    "sum": (_over("+", "sum", "summed"), _calls()),
    "prod": (_over("+", "prod", "summed"), _calls()),
    "amax": (_over("+", "max", "same"), _calls()),
    "amin": (_over("+", "min", "same"), _calls()),
    "argmax": (_over("^", "sum", "same"), _calls()),
    "argmin": (_over("^", "sum", "same"), _calls()),
    "mean": (_over("avg", "avg", "real"), _calls()),
    "median": (_over("^", "sum", "same"), (example(distinct(12, 5), 1),)),
    "var": (spread_of, (example(distinct(12, 6), 1), example(distinct(12, 6), 0, mask=mask(6)))),
    "std": (spread_of, (example(distinct(12, 6), 1),)),
    "norm": (norm, (*_calls(2.0), *_calls(1.0)[:1])),
    "logsumexp": (logsumexp, _calls()[2:]),
    "cumsum": (_along(rule="summed"), _calls()),
    "cumprod": (_along(rule="summed"), _calls()),
    "softmax": (_along(rule="real"), _calls()[2:]),
    "log_softmax": (_along(rule="real"), _calls()[2:]),
    "softmin": (_along(rule="real"), _calls()[2:]),
    "normalize": (_along("ord", rule="real"), _calls(2.0)),
}


def _entries() -> list[Entry]:
    return [entry(f"torch.masked.{name}", form, *calls) for name, (form, calls) in _FORMS.items()]


ENTRIES = (
    *_entries(),
    entry("torch.masked.logaddexp", logaddexp, example(t(12, 6), t(12, 6))),
)
