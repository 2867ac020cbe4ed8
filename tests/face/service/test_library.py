"""What one of torch's functions promises for a call is what torch does with it."""

from __future__ import annotations

from itertools import product
from typing import Any

import pytest
import torch

import dimsolve as ds
from dimsolve.service.library import annotated
from dimsolve.service.questions import AnnotateQuestion
from dimsolve.service.replies import Refusal
from dimsolve.solver.operators import names, specimens, summary

CONV = "torch.nn.functional.conv2d"
WINDOWS = "a b+ (d 2) (e 2), c b+ 2 2 -> a c d e"


def told(operator: str, inputs: list[Any] | None = None, **arguments: Any) -> Any:
    return annotated(AnnotateQuestion(operator=operator, inputs=inputs, arguments=arguments))


@pytest.mark.parametrize(
    ("stride", "padding", "dilation"), product([1, 2, [2, 1]], [0, 1], [1, 2]), ids=str
)
def test_a_convolution_has_the_shape_that_torch_gives_it(
    stride: Any, padding: int, dilation: int
) -> None:
    given = {"stride": stride, "padding": padding, "dilation": dilation}
    found = told(CONV, ["2, 4, 11, 8", "6, 4, 3, 3"], **given)
    shapes = [", ".join(row) for row in found.inputs]
    (shape,) = ds.infer(found.annotation, shapes, arguments=found.arguments).outputs
    x, w = torch.zeros(2, 4, 11, 8), torch.zeros(6, 4, 3, 3)
    assert tuple(shape) == tuple(torch.nn.functional.conv2d(x, w, **given).shape)


def test_every_function_is_told_for_its_example_call() -> None:
    for path in names():
        if specimens(path):
            assert told(path).annotation in summary(path).annotations


@pytest.mark.parametrize(
    ("operator", "inputs", "arguments", "annotation"),
    [
        (CONV, ["n, 4, 6, 6", "8, 4, 2, 2"], {"stride": 2}, WINDOWS),
        ("torch.cat", ["n, 4", "m, 4", "2, 4"], {"dim": 0}, "a^ b, c^ b, d^ b -> e^ b"),
        ("torch.einsum", ["a, b", "b, c"], {"equation": "ij,jk->ik"}, "i j+, j+ k -> i k"),
        ("torch.Tensor.view", ["8*s"], {"size": [8, "s"]}, "(a b) -> a b"),
        ("torch.sum", ["n, m"], {"dim": 1}, "a b+ -> a"),
    ],
)  # fmt: skip
def test_arguments_decide_what_is_promised(
    operator: str, inputs: list[Any], arguments: dict[str, Any], annotation: str
) -> None:
    assert told(operator, inputs, **arguments).annotation == annotation


@pytest.mark.parametrize(
    ("operator", "inputs", "arguments", "code", "hint"),
    [
        ("torch.nn.functional.conv2", None, {}, "unknown-operator", "did you mean torch.nn.func"),
        ("os.system", None, {}, "unknown-operator", "did you mean"),
        ("no such", None, {}, "no-such-operator", "/operators lists those that there are"),
        (CONV, ["n, 4, 6, 6", "8, 4, 3, 3"], {"strid": 2}, "unknown-argument", "mean 'stride'?"),
        (CONV, ["n"] * 9, {}, "input-count", "give the shapes of tensors in order"),
    ],
)  # fmt: skip
def test_names_that_there_are_not_are_refused_with_the_nearest(
    operator: str, inputs: Any, arguments: dict[str, Any], code: str, hint: str
) -> None:
    with pytest.raises((Refusal, ds.DimsolveError)) as caught:
        told(operator, inputs, **arguments)
    found = getattr(caught.value, "problem", None) or getattr(caught.value, "diagnostic", None)
    assert found is not None
    assert found.code == code
    assert hint in found.hint
