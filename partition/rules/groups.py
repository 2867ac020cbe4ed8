"""Rows in groups, one matrix a group: a rank has the matrices of its part of the groups, an expert
each, and computes their rows.

    grouped_mm   x R, weights S(0), ends R    P(sum)    rows of other ranks' groups are zeros
                 x G(0), ...                  G(0)      the next product of the same groups takes it

Which rows these are is known when it runs, so every rank's tensors keep their full size.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from dimsolve.ir.operator import Declaration

from .rule import Part, TransformRule

ENDS = 2
"""Which input of a grouped product says where the groups end."""


def group_rules(local: Callable[..., Any], declaration: Declaration) -> tuple[TransformRule, ...]:
    """Returns the rule that cuts the groups of a grouped product."""
    inputs, outputs = ("R", "S(0)", "R"), ("P(sum)",)
    rule = TransformRule(
        inputs, outputs, local=local, split="g", sends=(), groups=ENDS, parts="any"
    )
    return (rule,)


def torch_rows(part: Part, input: Any, weight: Any, offs: Any = None, **_: Any) -> Any:
    """Multiplies as torch does; no rows make none, for which it has no kernel."""
    from torch.nn.functional import grouped_mm

    def product(rows: Any, weight: Any, ends: Any) -> Any:
        if len(rows):
            return grouped_mm(rows, weight, offs=ends)
        return rows[:, :1] * weight[0, :1]  # has a gradient, and the dtype of the product

    return _rows_of_groups(product, part, input, weight, offs)


def transformers_rows(part: Part, input: Any, weight: Any, offs: Any = None) -> Any:
    """Multiplies as transformers does in the dtypes that torch has no kernel for."""
    import torch

    product = torch.ops.transformers.grouped_mm_fallback
    return _rows_of_groups(product, part, input, weight, offs)


def _rows_of_groups(
    product: Callable[..., Any], part: Part, input: Any, weight: Any, offs: Any
) -> Any:
    """Multiplies the rows of this rank's groups; zeros for the others, which it does not read."""
    from torch.nn.functional import pad

    count = weight.shape[0]
    if not count:  # its matrices have a gradient all the same: of nothing
        return pad(input[:0] @ weight.sum(0), (0, 0, 0, input.shape[0]))
    first = part["g"].start(count)
    ends = offs[first : first + count]
    start = int(offs[first - 1]) if first else 0
    stop = int(ends[-1])
    made = product(input[start:stop], weight, ends - start)
    return pad(made, (0, 0, start, input.shape[0] - stop))
