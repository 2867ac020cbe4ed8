"""Law: a type says of rank, dtype and every dimension on its own whether it is known, and
prints what it knows.
"""

from __future__ import annotations

import pytest

from dimsolve.ir.types import (
    SHAPE,
    Computed,
    FunctionType,
    Known,
    ObjectType,
    ScalarType,
    ShapeType,
    TensorType,
    TupleType,
    Type,
    Unknown,
    tensor,
)


@pytest.mark.parametrize(
    ("type", "text"),
    [
        (tensor(("n", 2), "float32"), "float32[n, 2]"),
        (tensor((), "float32"), "float32[]"),
        (tensor(("n", None), None), "?[n, ?]"),
        (tensor(None, "int64"), "int64[*]"),
        (TensorType(2, None), "?[?, ?]"),
        (TensorType(None, "float32", Computed("f", (("n", 4),))), "float32[f((n, 4))]"),
        (TensorType(2, "float32", Computed("f", ("x",))), "float32[2: f(%x)]"),
        (TensorType(None, "float32", Computed(SHAPE, ("lv3",))), "float32[%lv3]"),
        (ShapeType(("n", 4)), "shape(n, 4)"),
        (ShapeType(None), "shape(*)"),
        (ScalarType("int", "n"), "int n"),
        (ScalarType("float"), "float"),
        (TupleType((ScalarType("int"),)), "(int,)"),
        (ObjectType("Generator"), "object Generator"),
        (ObjectType(), "object"),
        (FunctionType((tensor(("n",), "float32"),), ObjectType()), "(float32[n]) -> object"),
        (FunctionType(None, ObjectType()), "(...) -> object"),
    ],
)
def test_types_print_what_they_know(type: Type, text: str) -> None:
    assert str(type) == text


def test_a_known_rank_is_dimensions_that_are_not_known() -> None:
    assert TensorType(2, "float32") == TensorType(None, "float32", Known((None, None)))
    assert TensorType(2, "float32").dims == (None, None)


def test_a_shape_with_dimensions_has_their_number_as_its_rank() -> None:
    assert TensorType(None, None, Known((2, 3))).rank == 2
    with pytest.raises(ValueError, match="rank 3 and the shape"):
        TensorType(3, None, Known((2, 3)))


def test_of_an_unknown_rank_no_dimension_is_known() -> None:
    assert TensorType(None, "float32").dims is None
    assert TensorType(None, "float32").shape == Unknown()
    assert ShapeType(None).rank is None
