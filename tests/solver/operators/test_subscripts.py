"""Laws of subscripts: what is read has torch's shape; reads and writes may be cut as declared."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from dimsolve.exec.verification.verification import Verification
from dimsolve.exec.verification.verify import verify
from dimsolve.ir.errors import ShapeError
from tests.oracles.stand_ins import StandIn, declare, solve

KINDS = ["int", "slice", "slice", "whole", "none", "index", "list", "mask"]
LENGTHS = st.sampled_from([1, 2, 4, 6])


def tensor_of(shape: tuple[int, ...], high: int, seed: int) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(high, shape, generator=generator)


@st.composite
def calls(draw: st.DrawFn) -> tuple[torch.Tensor, Any]:
    """A tensor and a subscript: ints, slices, None, Ellipsis, index tensors, lists, a mask."""
    dims = draw(st.lists(LENGTHS, min_size=1, max_size=4))
    tensor = torch.randn(dims, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    items: list[Any] = []
    place, masked, cut = 0, False, draw(st.integers(0, len(dims)))
    shape = draw(st.sampled_from([(), (2,), (6,), (4, 1), (2, 6)]))
    while place < len(dims):
        if place == cut and draw(st.booleans()):
            items.append(Ellipsis)
            break
        kind = draw(
            st.sampled_from(["int", "slice", "slice", "whole", "none", "index", "list", "mask"])
        )
        length = dims[place]
        bounds = st.none() | st.integers(-length, length)
        match kind:
            case "none":
                items.append(None)
                continue
            case "int":
                items.append(draw(st.integers(-length, length - 1)))
            case "slice":
                items.append(slice(draw(bounds), draw(bounds), draw(st.sampled_from([None, 1, 2]))))
            case "whole":
                items.append(slice(None))
            case "index":
                items.append(tensor_of(shape, length, place))
            case "list":
                items.append([draw(st.integers(0, length - 1)) for _ in range(2)])
            case "mask":
                masked = True
                items.append(tensor_of((length,), 2, place) == 1)
        place += 1
    advanced = sum(isinstance(item, torch.Tensor | list) for item in items)
    assume(not masked or advanced == 1)
    return tensor, tuple(items) if len(items) != 1 or draw(st.booleans()) else items[0]


@settings(max_examples=400)
@given(calls())
def test_what_is_read_has_the_shape_of_torch(call: tuple[torch.Tensor, Any]) -> None:
    tensor, index = call
    try:
        wanted = tensor[index]
    except IndexError:
        return  # index tensors and lists that torch cannot broadcast
    declaration = declare("operator.getitem", tensor, index)
    (dims,) = solve(declaration).output_dims
    assert dims is not None and len(dims) == wanted.dim()
    for dim, length in zip(dims, wanted.shape, strict=True):
        assert dim == length or not isinstance(dim, int), declaration.annotation


def lies_of(verification: Verification) -> list[str]:
    """What does not hold; that nothing of a small tensor can be cut into 2 or 3 is no lie."""
    texts = [str(culprit) for culprit in verification.culprits]
    return [text for text in texts if "is never a multiple of 2" not in text]


@settings(max_examples=60)
@given(calls())
def test_reading_may_be_cut_as_declared(call: tuple[torch.Tensor, Any]) -> None:
    tensor, index = call
    try:
        tensor[index]
    except IndexError:
        return
    verification = verify("operator.getitem", args=(tensor, index), counts=(2, 3))
    assert not lies_of(verification), str(verification)


@settings(max_examples=60)
@given(calls(), st.booleans(), st.booleans())
def test_writing_may_be_cut_as_declared(
    call: tuple[torch.Tensor, Any], number: bool, narrow: bool
) -> None:
    tensor, index = call
    try:
        shape = tensor[index].shape
    except IndexError:
        return
    value: Any = 0.5
    if not number:
        wide = [1 if narrow and n % 2 else length for n, length in enumerate(shape)]
        value = torch.randn(wide, dtype=torch.float64)
    items = index if isinstance(index, tuple) else (index,)
    repeats = any(isinstance(item, torch.Tensor | list) for item in items)
    assume(number or not repeats)  # what is written last to a place is not determined
    verification = verify("operator.setitem", args=(tensor, index, value), counts=(2, 3))
    assert not lies_of(verification), str(verification)


ANNOTATIONS: list[tuple[StandIn, Any, str]] = [
    (StandIn("b, s, d"), (slice(None), None), "a b c -> a 1 b c"),
    (StandIn("b, s, 2*d"), (Ellipsis, slice(None, 4)), "a b c^ -> a b d^"),
    (StandIn(2, 12, 8), (Ellipsis, slice(4, None)), "a b (2 c) -> a b c"),
    (StandIn(2, 8), (slice(None), slice(1, None, 2)), "a (b 2) -> a b"),
    (StandIn("n, d"), (StandIn("b, s", dtype="int64"),), "a^ b, c d -> c d b"),
    (StandIn("n, d"), (StandIn("n", dtype="bool"),), "a^ b, a^ -> c^ b"),
]


@pytest.mark.parametrize("tensor, index, text", ANNOTATIONS, ids=lambda value: str(value)[:30])
def test_annotations_of_reads(tensor: Any, index: Any, text: str) -> None:
    assert declare("operator.getitem", tensor, index).annotation == text


ERRORS: list[tuple[Any, str]] = [
    (
        (0, 0, 0),
        """there are more indices than dimensions
  3 indices for a tensor with 2 dimensions""",
    ),
    (
        5,
        """the index is out of range
  5 in a dimension of length 4""",
    ),
]


@pytest.mark.parametrize("index, text", ERRORS, ids=str)
def test_subscripts_that_cannot_be_are_told(index: Any, text: str) -> None:
    with pytest.raises(ShapeError) as caught:
        declare("operator.getitem", StandIn(4, 6), index)
    assert str(caught.value) == text
