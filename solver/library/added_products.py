"""A product added to a tensor: ``beta * input + alpha * (x @ y)``, where the tensor is broadcast.

addmm(b, x, y)       n, m k+, k+ n -> m n               b is a summand: one rank adds it
addbmm(b, x, y)      m n, b+ m k+, b+ k+ n -> m n       the batch is summed too
addr(b, x, y)        m n, m, n -> m n                   nothing is summed but b

They are kept apart from the plain products because partial sums must hold the summand once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from dimsolve.ir.operator import Declaration
from dimsolve.solver.algebra.poly import Dim

from . import errors
from .broadcast import laid_on
from .entry import Form, entry
from .products import contraction
from .samples import example, t
from .values import NotKnown, dims_of
from .writing import Names, Pattern, freeze_some


def sum_of_product(product: Sequence[Pattern], output: Sequence[str]) -> Form:
    """Returns the declaration of ``beta * input + alpha * (x @ y)``: addmm, baddbmm, addmv, addr,
    addbmm.

    ``input`` is a summand and is broadcast to the output.
    """

    def declare(input: Any, x: Any, y: Any, beta: Any = 1, alpha: Any = 1) -> Declaration:
        dims = dims_of(input)
        lengths: dict[str, Dim | None] = {}
        for tensor, pattern in zip((x, y), product, strict=True):
            lengths.update(zip(pattern, dims_of(tensor), strict=True))
        offset = len(output) - len(dims)
        if offset < 0:
            raise errors.wrong_rank("this sum", "input", dims, f"at most {len(output)} dimensions")
        names = Names({"b", "k", "m", "n"})
        row, whole = laid_on(dims, [lengths[word] for word in output], output, names)
        found = contraction(
            (input, x, y),
            [row, *product],
            output,
            value_split=(0,),
            linear=((0, 1), (0, 2)),
        )
        return replace(found, annotation=freeze_some(found.annotation, whole))

    return declare


def _named(form: Form, x: str, y: str) -> Form:
    """Returns the declaration with torch's names of the two factors."""

    def declare(input: Any, *args: Any, **kwargs: Any) -> Declaration:
        renamed = {{x: "x", y: "y"}.get(name, name): value for name, value in kwargs.items()}
        if len(args) > 2:
            raise NotKnown("the old order of arguments is not known of")
        return form(input, *args, **renamed)

    return declare


_ADDMM = sum_of_product([["m", "k+"], ["k+", "n"]], ["m", "n"])


_BADDBMM = sum_of_product([["b", "m", "k+"], ["b", "k+", "n"]], ["b", "m", "n"])


_ADDBMM = sum_of_product([["b+", "m", "k+"], ["b+", "k+", "n"]], ["m", "n"])


_ADDMV = sum_of_product([["m", "k+"], ["k+"]], ["m"])


_ADDR = sum_of_product([["m"], ["n"]], ["m", "n"])

ENTRIES = (
    entry(
        "torch.addmm",
        _named(_ADDMM, "mat1", "mat2"),
        example(t(6), t(12, 24), t(24, 6)),
        example(t(12, 6), t(12, 24), t(24, 6), beta=2, alpha=3),
        example(t(12, 1), t(12, 24), t(24, 6)),
    ),
    entry(
        "torch.baddbmm",
        _named(_BADDBMM, "batch1", "batch2"),
        example(t(4, 12, 6), t(4, 12, 24), t(4, 24, 6)),
        example(t(1, 6), t(4, 12, 24), t(4, 24, 6)),
    ),
    entry(
        "torch.addbmm",
        _named(_ADDBMM, "batch1", "batch2"),
        example(t(12, 6), t(4, 12, 24), t(4, 24, 6)),
    ),
    entry("torch.addmv", _named(_ADDMV, "mat", "vec"), example(t(12), t(12, 24), t(24))),
    entry(
        "torch.addr",
        _named(_ADDR, "vec1", "vec2"),
        example(t(12, 6), t(12), t(6)),
        note="nothing is summed but input",
    ),
)
