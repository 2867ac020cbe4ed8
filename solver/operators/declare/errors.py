"""The contradictions that a call of a torch function can contain, in words.

Only what an annotation cannot say is here: a wrong dimension number, sizes that cannot be
broadcast, viewed or expanded. Lengths that must agree share an identifier, and inference says where
they do not.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from dimsolve.ir.errors import Diagnostic, ShapeError

from ...problems import shape_text


def _error(code: str, title: str, reason: str, hint: str = "") -> ShapeError:
    return ShapeError(Diagnostic(code=code, title=title, reason=reason, hint=hint))


def _count(number: int, singular: str) -> str:
    return f"{number} {singular}{'s' * (number != 1)}"


def no_such_dim(dim: int, rank: int) -> ShapeError:
    """A dimension is named that the tensor has not."""
    room = max(rank, 1)
    return _error(
        "no-such-dimension",
        "there is no such dimension",
        f"dim is {dim}, and the tensor has {_count(rank, 'dimension')}",
        f"dim can be {-room} to {room - 1}",
    )


def dim_twice(dims: Sequence[Any]) -> ShapeError:
    """A list of dimensions names one of them twice."""
    return _error(
        "dimension-twice",
        "one dimension, named twice",
        f"dim is ({', '.join(map(str, dims))})",
        "name every dimension once",
    )


def wrong_number(what: str, given: int, wanted: int) -> ShapeError:
    """A parameter has another number of entries than there are dimensions."""
    return _error(
        "wrong-number", f"the number of {what} does not match", f"{given} given, {wanted} wanted"
    )


def wrong_rank(function: str, what: str, dims: Sequence[Any], wanted: str) -> ShapeError:
    """A tensor has a number of dimensions that the function does not take."""
    return _error(
        "rank",
        f"{function} does not take this number of dimensions",
        f"{what} has shape {shape_text(dims)}, {wanted} wanted",
    )


def cannot_broadcast(
    shapes: Sequence[Sequence[Any]], position: int, lengths: Sequence[Any]
) -> ShapeError:
    """Two lengths at one place are neither equal nor 1."""
    return _error(
        "broadcast",
        "the shapes cannot be broadcast",
        f"{' and '.join(map(shape_text, shapes))} have lengths {' and '.join(map(str, lengths))} "
        f"at dimension {position}, counted from the end",
        "lengths at one place must be equal, or 1",
    )


def cannot_view(dims: Sequence[Any], sizes: Sequence[Any], total: Any, wanted: Any) -> ShapeError:
    """A view with another number of elements."""
    return _error(
        "view",
        "the sizes do not hold as many elements",
        f"{shape_text(dims)} has {total} elements, {shape_text(sizes)} has {wanted}",
    )


def no_remainder(dims: Sequence[Any], sizes: Sequence[Any], total: Any, rest: Any) -> ShapeError:
    """A -1 whose length is not whole."""
    return _error(
        "view",
        "-1 stands for no whole length",
        f"{shape_text(dims)} has {total} elements, "
        f"and {rest} of {shape_text(sizes)} does not divide it",
    )


def two_unknown_sizes(sizes: Sequence[Any]) -> ShapeError:
    """More than one -1."""
    return _error(
        "view",
        "more than one size is -1",
        f"the sizes are {shape_text(sizes)}",
        "leave one size open, not more",
    )


def negative_size(sizes: Sequence[Any], size: Any) -> ShapeError:
    """A size below -1, or below 0 where -1 has no meaning."""
    return _error(
        "negative-size",
        "a size is negative",
        f"{size} in {shape_text(sizes)}",
        "a size is 0 or more",
    )


def expand_too_few(dims: Sequence[Any], sizes: Sequence[Any]) -> ShapeError:
    """Fewer sizes than dimensions."""
    return _error(
        "expand",
        "there are fewer sizes than dimensions",
        f"{shape_text(dims)} has {_count(len(dims), 'dimension')}, "
        f"{shape_text(sizes)} has {_count(len(sizes), 'size')}",
        "the number of sizes must be at least the number of dimensions",
    )


def expand_new_dim(sizes: Sequence[Any], position: int) -> ShapeError:
    """-1 at a new leading dimension."""
    return _error(
        "expand",
        "a new dimension needs a size",
        f"size {position} of {shape_text(sizes)} is -1, "
        "and the tensor has no such dimension to keep",
        "-1 keeps a length; write the length of a new dimension",
    )


def expand_length(dims: Sequence[Any], sizes: Sequence[Any], length: Any, size: Any) -> ShapeError:
    """A length that is not 1 and not the size."""
    return _error(
        "expand",
        "only a dimension of length 1 can be expanded",
        f"{shape_text(dims)} to {shape_text(sizes)}: length {length} cannot become {size}",
        f"the size can be {length} or -1",
    )


def repeat_too_few(dims: Sequence[Any], repeats: Sequence[Any]) -> ShapeError:
    """Fewer repeat counts than dimensions."""
    return _error(
        "repeat",
        "there are fewer repeat counts than dimensions",
        f"{shape_text(dims)} has {_count(len(dims), 'dimension')}, {shape_text(repeats)} has "
        f"{_count(len(repeats), 'count')}",
        "the number of counts must be at least the number of dimensions",
    )


def not_a_multiple(what: str, length: Any, divisor: Any) -> ShapeError:
    """A length must be cut into equal parts and cannot."""
    return _error(
        "not-a-multiple", f"{what} has no whole length", f"{length} is not a multiple of {divisor}"
    )


def out_of_range(what: str, value: Any, length: Any) -> ShapeError:
    """An index or a range that lies outside a dimension."""
    return _error(
        "out-of-range", f"{what} is out of range", f"{value} in a dimension of length {length}"
    )


def lengths_differ(what: str, first: Any, second: Any) -> ShapeError:
    """Two lengths that must be equal are not."""
    return _error("lengths", f"{what} must have the same length", f"they have {first} and {second}")


def output_size_differs(given: Any, made: Any) -> ShapeError:
    """The length that a result is said to have is not the one it has."""
    reason = f"it is {given}; the result has {made}"
    return _error("lengths", "output_size is another length", reason)


def not_understood(function: str, reason: str) -> ShapeError:
    """An argument that has no meaning for the function."""
    return _error("argument", f"{function} cannot be called like this", reason)


def in_place_broadcast(shapes: Sequence[Sequence[Any]]) -> ShapeError:
    """The result of an in-place operation is larger than the tensor it is written to."""
    return _error(
        "in-place",
        "the result does not fit the tensor it is written to",
        f"{' and '.join(map(shape_text, shapes))}: the first would have to be broadcast",
    )


def too_many_indices(rank: int, given: int) -> ShapeError:
    """A subscript with more items than the tensor has dimensions."""
    return _error(
        "too-many-indices",
        "there are more indices than dimensions",
        f"{given} indices for a tensor with {_count(rank, 'dimension')}",
    )


def cannot_assign(dims: Sequence[Any], rank: int) -> ShapeError:
    """A value with more dimensions than what it is written to."""
    return _error(
        "assign",
        "the value does not fit what it is written to",
        f"{shape_text(dims)} into {_count(rank, 'dimension')}",
    )


def window_too_long(length: Any, size: Any, padding: Any, dilation: Any) -> ShapeError:
    """A window that does not fit into a dimension even once."""
    return _error(
        "window",
        "the window does not fit",
        f"a window of {size} with dilation {dilation} "
        f"in a length of {length} with padding {padding}",
    )


def in_place_dtype(result: str, dtype: str) -> ShapeError:
    """The result of an in-place operation is of a kind of number that the tensor cannot hold."""
    return _error(
        "in-place",
        "the result does not fit the tensor it is written to",
        f"it is {result}, and the tensor is {dtype}",
    )


def does_not_hold(left: Any, comparison: str, right: Any) -> ShapeError:
    """Numbers of a call that break what it needs."""
    return _error(
        "call-needs",
        "the call is not possible with these lengths",
        f"it needs {left} {comparison} {right}",
    )


def negative_length(length: Any) -> ShapeError:
    """A result would have a dimension of negative length."""
    return _error("negative-size", "a length of the result is negative", f"it would be {length}")


def missing_argument(path: str, name: str) -> ShapeError:
    """A call without an argument that has no default."""
    return _error("missing-argument", "an argument is missing", f"{path} is called without {name}")


def no_tensor(path: str, args: Sequence[Any]) -> ShapeError:
    """A function of tensors that is given none."""
    given = ", ".join(map(repr, args))
    return _error("no-tensor", "no argument is a tensor", f"{path} is given {given:.80}")


def mixed_dtypes(path: str, first: str, second: str) -> ShapeError:
    """A product of reals and whole numbers."""
    return _error(
        "dtype", "the dtypes differ", f"{path} is given {first} and {second}", "convert one of them"
    )


def refused_dtype(path: str, dtype: str, wanted: str) -> ShapeError:
    """A function that does not take this dtype."""
    return _error(
        "dtype",
        f"{path.rpartition('.')[2]} does not take {dtype}",
        f"{path} is a function of {wanted}",
        "convert the tensor before",
    )
