"""Why a call of a torch function is impossible: each reason is a row of one table.

Only what an annotation cannot say is here: a wrong dimension number, sizes that cannot be
broadcast, viewed or expanded. Lengths that must agree share an identifier, and inference says where
they do not.

>>> print(too_many_indices(3, 2))
there are more indices than dimensions
  3 indices for a tensor with 2 dimensions
"""

from __future__ import annotations

from collections.abc import Callable
from string import Formatter
from typing import Any

from dimsolve.ir.errors import Problem, ShapeError

from ...problems import shape_text


class _Value:
    """A value in a sentence: sequences are written as shapes. ``{n:size}`` counts sizes, and
    ``{shapes:and}`` joins what is in a sequence.
    """

    def __init__(self, value: Any) -> None:
        self.value = value

    def __format__(self, spec: str) -> str:
        listed = isinstance(self.value, tuple | list)
        if spec == "and":
            return " and ".join(format(_Value(item)) for item in self.value)
        if spec.isalpha():
            number = len(self.value) if listed else self.value
            return f"{number} {spec}{'s' * (number != 1)}"
        return shape_text(self.value) if listed else format(str(self.value), spec)


def _row(code: str, title: str, reason: str, hint: str = "") -> Callable[..., ShapeError]:
    """One kind of error, which takes its values in the order in which its words name them."""
    problem = Problem(ShapeError, code, title, reason, hint)
    parts = Formatter().parse(f"{title} {reason} {hint}")
    names = list(dict.fromkeys([name for _, name, _, _ in parts if name]))

    def error(*values: Any) -> ShapeError:
        words: dict[str, Any] = dict(zip(names, map(_Value, values), strict=True))
        return problem(**words)

    return error


no_such_dim_in = _row(
    "no-such-dimension",
    "there is no such dimension",
    "dim is {dim}, and the tensor has {rank:dimension}",
    "dim can be {first} to {last}",
)
dim_twice = _row(
    "dimension-twice", "one dimension, named twice", "dim is {dims}", "name every dimension once"
)
wrong_number = _row(
    "wrong-number", "the number of {what} does not match", "{given} given, {wanted} wanted"
)
wrong_rank = _row(
    "rank",
    "{function} does not take this number of dimensions",
    "{what} has shape {dims}, {wanted} wanted",
)
cannot_broadcast = _row(
    "broadcast",
    "the shapes cannot be broadcast",
    "{shapes:and} have lengths {lengths:and} at dimension {position}, counted from the end",
    "lengths at one place must be equal, or 1",
)
cannot_view = _row(
    "view",
    "the sizes do not hold as many elements",
    "{dims} has {total} elements, {sizes} has {wanted}",
)
no_remainder = _row(
    "view",
    "-1 stands for no whole length",
    "{dims} has {total} elements, and {rest} of {sizes} does not divide it",
)
two_unknown_sizes = _row(
    "view", "more than one size is -1", "the sizes are {sizes}", "leave one size open, not more"
)
negative_size = _row(
    "negative-size", "a size is negative", "{size} in {sizes}", "a size is 0 or more"
)
negative_length = _row(
    "negative-size", "a length of the result is negative", "it would be {length}"
)
expand_too_few = _row(
    "expand",
    "there are fewer sizes than dimensions",
    "{dims} has {dims:dimension}, {sizes} has {sizes:size}",
    "the number of sizes must be at least the number of dimensions",
)
expand_new_dim = _row(
    "expand",
    "a new dimension needs a size",
    "size {position} of {sizes} is -1, and the tensor has no such dimension to keep",
    "-1 keeps a length; write the length of a new dimension",
)
expand_length = _row(
    "expand",
    "only a dimension of length 1 can be expanded",
    "{dims} to {sizes}: length {length} cannot become {size}",
    "the size can be {length} or -1",
)
repeat_too_few = _row(
    "repeat",
    "there are fewer repeat counts than dimensions",
    "{dims} has {dims:dimension}, {repeats} has {repeats:count}",
    "the number of counts must be at least the number of dimensions",
)
not_a_multiple = _row(
    "not-a-multiple", "{what} has no whole length", "{length} is not a multiple of {divisor}"
)
out_of_range = _row(
    "out-of-range", "{what} is out of range", "{value} in a dimension of length {length}"
)
lengths_differ = _row(
    "lengths", "{what} must have the same length", "they have {first} and {second}"
)
output_size_differs = _row(
    "lengths", "output_size is another length", "it is {given}; the result has {made}"
)
not_understood = _row("argument", "{function} cannot be called like this", "{reason}")
in_place_broadcast = _row(
    "in-place",
    "the result does not fit the tensor it is written to",
    "{shapes:and}: the first would have to be broadcast",
)
in_place_dtype = _row(
    "in-place",
    "the result does not fit the tensor it is written to",
    "it is {result}, and the tensor is {dtype}",
)
too_many_indices = _row(
    "too-many-indices",
    "there are more indices than dimensions",
    "{given} indices for a tensor with {rank:dimension}",
)
cannot_assign = _row(
    "assign", "the value does not fit what it is written to", "{dims} into {rank:dimension}"
)
window_too_long = _row(
    "window",
    "the window does not fit",
    "a window of {size} with dilation {dilation} in a length of {length} with padding {padding}",
)
does_not_hold = _row(
    "call-needs",
    "the call is not possible with these lengths",
    "it needs {left} {comparison} {right}",
)
missing_argument = _row(
    "missing-argument", "an argument is missing", "{path} is called without {name}"
)
no_tensor = _row("no-tensor", "no argument is a tensor", "{path} is given {args:.80}")
mixed_dtypes = _row(
    "dtype", "the dtypes differ", "{path} is given {first} and {second}", "convert one of them"
)
refused_dtype = _row(
    "dtype",
    "{name} does not take {dtype}",
    "{path} is a function of {wanted}",
    "convert the tensor before",
)


def no_such_dim(dim: int, rank: int) -> ShapeError:
    """A dimension that the tensor does not have; a scalar has 0 and -1."""
    room = max(rank, 1)
    return no_such_dim_in(dim, rank, -room, room - 1)
