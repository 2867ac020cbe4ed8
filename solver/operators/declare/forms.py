"""Declarations that many functions share: words of inputs and results, the dtype of the first.

declared((x, y), [["a", "b^"], ["a"]], [["a"]])     a b^, a -> a       a look-up, a comparison
moved(x, ["a", "b"], ["b", "a"])                    a b -> b a         elements in other places
along(x, [1])                                       a b^ c -> a b^ c   whole rows of dimension 1
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

from dimsolve.ir.operator import Declaration

from .dtypes import dtype_of
from .writing import Names, Pattern, annotation, dims_of

LINEAR = ((0,),)
"""The results are linear in the first input."""


def declared(
    inputs: Sequence[Any],
    rows: Sequence[Pattern | None],
    outputs: Sequence[Pattern | None],
    **more: Any,
) -> Declaration:
    """Returns a declaration from the words of its inputs and results. Every result has the dtype of
    the first input, unless ``dtypes`` says otherwise.
    """
    if "dtypes" not in more:
        more["dtypes"] = (dtype_of(inputs[0]),) * len(outputs)
    return Declaration(annotation(rows, outputs), tuple(inputs), **more)


def moved(input: Any, source: Pattern, target: Pattern, **more: Any) -> Declaration:
    """Returns the declaration of a function that moves elements and computes nothing, or sums them:
    it is linear.
    """
    return declared((input,), [source], [target], linear=LINEAR, **more)


def words(rank: int, places: Collection[int], mark: str = "^") -> list[str]:
    """Returns the words of a tensor; those at ``places`` have the mark.

    >>> words(3, [1])
    ['a', 'b^', 'c']
    """
    names = Names()
    return [names.one(mark if n in places else "") for n in range(rank)]


def along(input: Any, places: Collection[int], **more: Any) -> Declaration:
    """Returns the declaration of a function of whole rows along dimensions; the shape stays."""
    row = words(len(dims_of(input)), places)
    return declared((input,), [row], [row], **more)
