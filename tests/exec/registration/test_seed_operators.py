"""The seeds' own examples work as written: called, inferred, split, verified, compiled."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch.nn import functional

import dimsolve as ds
from dimsolve.ir.operator import Operator, operator_at, operator_of
from tests.exec.seeds import customised, dimops


def known(function: Any) -> Operator:
    operator = operator_of(function)
    assert operator is not None
    return operator


@pytest.mark.parametrize(
    ("function", "name", "split"),
    [
        (customised.my_instance_norm, "my_instance_norm", "n c"),
        (customised.operator, "matmul_custom", "kd n"),
        (dimops.operator, "matmul_custom", "kd n"),
        (customised.MyFunction, "MyFunction", "a b c d"),
        (customised.MyFunction.apply, "MyFunction", "a b c d"),
        (customised.SecondFunction, "SecondFunction", "a b c d"),
        (customised.ThirdFunction.apply, "ThirdFunction", "m k n"),
        (customised.op1_depends, "op1", ""),
        (customised.op1_constant, "op1", "a b"),
        (customised.reshape, "reshape", "h t k"),
        (customised.inplace_right, "inplace_operator", "a b c d"),
        (customised.optional_replicated, "optional_tensor", ""),
        (customised.optional_partitioned, "optional_tensor", "a b c d"),
    ],
)
def test_every_split_is_equal_to_the_whole(function: Any, name: str, split: str) -> None:
    assert known(function).name == name
    verification = ds.verify(function)
    assert verification.ok, verification
    assert verification.splits == dict.fromkeys(split.split(), (2, 3, 4))


def test_a_compiled_function_is_verified_compiled() -> None:
    verification = ds.verify(customised.my_function, args=(torch.randn(12, 6),), counts=(2,))
    assert verification.ok and set(verification.splits) == {"a", "b"}


def test_an_input_that_is_changed_and_not_returned() -> None:
    verification = ds.verify(customised.inplace_wrong)
    assert [str(culprit) for culprit in verification.culprits] == [
        "input 0 ('x') is changed by the call and not returned\n"
        "  hint: write writes=['x'], and return it first, itself and no copy"
    ]


def test_called_as_before() -> None:
    x, w = torch.randn(8, 6), torch.randn(6, 5)
    assert torch.equal(customised.operator(x, w, 4), (x @ w).view(4, 2, 5))
    assert torch.equal(dimops.operator(x, w, h=4), (x @ w).view(4, 2, 5))
    assert customised.reshape(torch.randn(16, 3)).shape == (8, 2, 3)
    assert torch.equal(customised.my_function(x), x * 2)
    y = torch.randn(2, 3, 4, 4)
    ones, zeros = torch.ones(3), torch.zeros(3)
    assert torch.equal(customised.my_instance_norm(y, ones, zeros), functional.instance_norm(y))
    leaf = torch.randn(3, requires_grad=True)
    customised.MyFunction.apply(leaf).sum().backward()
    assert leaf.grad is not None and torch.allclose(leaf.grad, 2 * leaf.detach())


@pytest.mark.parametrize(
    ("function", "arguments", "shapes", "lengths"),
    [
        (customised.operator, (torch.zeros(8, 6), torch.zeros(6, 5), 4), [(4, 2, 5)], {"h": 4}),
        (customised.reshape, (torch.zeros(16, 3),), [(8, 2, 3)], {"h": 8}),
        (customised.reshape, (torch.zeros(16, 3), 4), [(4, 4, 3)], {"h": 4}),
        (customised.op1_constant, (torch.zeros(2, 3),), [(2, 3), None], {}),
        (customised.optional_partitioned, (torch.zeros(2), None), [(2,)], {}),
    ],
)
def test_shapes_follow_from_the_annotation(
    function: Any, arguments: tuple[Any, ...], shapes: list[Any], lengths: dict[str, int]
) -> None:
    """Defaults bind identifiers as arguments do: h is 8 where reshape is called without it."""
    declaration = known(function).declare(*arguments)
    given = [None if value is None else tuple(value.shape) for value in declaration.inputs]
    solution = ds.infer(declaration.annotation, given, arguments=declaration.arguments)
    assert list(solution.outputs) == shapes
    assert declaration.arguments == lengths


def test_an_optional_tensor_chooses_the_annotation() -> None:
    declare = known(customised.optional_partitioned).declare
    x = torch.zeros(2)
    assert declare(x, None).annotation == "*, ? -> *"
    assert declare(x, x).annotation == "*, * -> *"
    assert declare(x, y=x).annotation == "*, * -> *"


def test_the_path_is_where_it_is_imported_from() -> None:
    assert known(customised.operator).path == f"{customised.__package__}.custom_ops.operator"
    assert known(customised.MyFunction).path == f"{customised.__name__}.MyFunction.apply"
    assert operator_at(f"{customised.__name__}.reshape") is known(customised.reshape)


def captured(model: Callable[..., Any], *inputs: torch.Tensor) -> list[str]:
    """The names of the operators that a model calls, as torch.compile sees it."""
    found: list[str] = []

    def backend(module: Any, _: Any) -> Any:
        for node in module.graph.nodes:
            if node.op.startswith("call"):
                operator = operator_of(node.target)
                if operator is not None:
                    found.append(operator.name)
        return module

    torch._dynamo.reset()
    torch.compile(model, backend=backend, fullgraph=True)(*inputs)
    return found


def test_torch_compile_takes_each_for_one_operator() -> None:
    """Also a function that was registered by a call and is called by its own name."""

    def model(x: torch.Tensor) -> torch.Tensor:
        y = customised.reshape(x, h=4)
        y = customised.MyFunction.apply(y)
        y = customised.SecondFunction.apply(y, 3.0)
        y = customised.my_function(y)
        return customised.operator(y.flatten(0, 1), y[0].T, 2)

    x = torch.randn(8, 4, requires_grad=True)
    names = ["reshape", "MyFunction", "SecondFunction", "my_function", "matmul_custom"]
    assert captured(model, x) == names
    compiled = torch.compile(model, backend="aot_eager", fullgraph=True)
    assert torch.allclose(compiled(x), model(x))
    (compiled_gradient,) = torch.autograd.grad(compiled(x).square().sum(), x)
    (gradient,) = torch.autograd.grad(model(x).square().sum(), x)
    assert torch.allclose(compiled_gradient, gradient)


class ReturnsANumber(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> Any:
        y, factor = customised.op1_constant(x)
        return y * factor


class CallsTheOlder(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> Any:
        return customised.op1_depends(x)[0]


def test_a_function_that_another_of_its_name_has_replaced_is_not_traced() -> None:
    """The graph would give it the promise of the newer one."""
    path = f"{customised.__name__}.op1"
    with pytest.raises(ds.OperatorError) as raised:
        ds.trace(CallsTheOlder(), (torch.ones(4, 6),))
    assert str(raised.value) == (
        "two operators have one path\n"
        f"  '{path}' was registered again for another function, and the model calls the older one "
        "('op1')\n"
        "  hint: give the two functions different names: a graph knows its operators by their paths"
    )


def test_a_value_that_is_no_tensor_is_traced() -> None:
    graph = ds.trace(ReturnsANumber(), (torch.ones(4, 6),))
    (node,) = [node for node in graph.nodes() if node.name == "op1"]
    assert node.annotation == "a b -> a b, ?"
    assert float(graph.run(torch.ones(4, 6)).sum()) == 480.0
