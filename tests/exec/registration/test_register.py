"""A registered function stays what it was, and runs without data where its annotation tells."""

from __future__ import annotations

import inspect
import pickle
import subprocess
import sys
from typing import Any

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode

import dimsolve as ds
from dimsolve.ir.operator import Operator, operator_at, operator_of, registered, unregister
from tests.exec import registered as functions


def known(function: Any) -> Operator:
    operator = operator_of(function)
    assert operator is not None
    return operator


def test_it_stays_what_it_was() -> None:
    assert functions.matmul.__name__ == "matmul"
    assert functions.matmul.__doc__ == "Multiplies."
    assert str(inspect.signature(functions.matmul)) == "(x: 'Tensor', w: 'Tensor') -> 'Tensor'"
    assert "return x @ w" in inspect.getsource(functions.matmul)
    assert pickle.loads(pickle.dumps(functions.matmul)) is functions.matmul
    assert issubclass(functions.ReadsData, torch.autograd.Function)
    x = torch.randn(3, 4, requires_grad=True)
    functions.matmul(x, torch.ones(4, 2)).sum().backward()
    assert x.grad is not None and torch.equal(x.grad, torch.full((3, 4), 2.0))


def test_the_registered_and_the_bare_function_are_one_operator() -> None:
    assert known(functions.same_plain) is known(functions.plain)
    assert known(functions.plain).function is functions.plain
    assert operator_at(f"{functions.__name__}.plain") is known(functions.plain)
    assert known(functions.plain) in registered()
    assert known(functions.ReadsData.apply) is known(functions.ReadsData)
    assert operator_of(functions.Derived.apply) is None
    assert operator_of(torch.sin) is None
    assert operator_of([]) is None


def test_its_own_errors_are_raised_as_they_are() -> None:
    with pytest.raises(ValueError, match="always") as raised:
        functions.raises_registered(torch.ones(2))
    assert [entry.name for entry in raised.traceback[-2:]] == ["call", "raises"]


@pytest.mark.parametrize("place", ["meta", "fake"])
def test_without_data_the_annotation_gives_the_shapes(place: str) -> None:
    def empty(*shape: int) -> torch.Tensor:
        if place == "meta":
            return torch.empty(shape, dtype=torch.float64, device="meta", requires_grad=True)
        return mode.from_tensor(torch.empty(shape, dtype=torch.float64, requires_grad=True))

    mode = FakeTensorMode()
    made = functions.through_numpy(empty(16, 3))
    assert (made.shape, made.dtype, made.requires_grad) == ((8, 2, 3), torch.float64, True)
    assert functions.through_numpy(empty(16, 3), h=2).shape == (2, 8, 3)
    assert [tuple(each.shape) for each in functions.two_results(empty(4, 5))] == [(4,), (5,)]
    assert functions.ReadsData.apply(empty(4, 5)).shape == (4, 5)
    assert functions.compiled(empty(4, 5)).shape == (4, 5)
    assert functions.matmul(empty(4, 5), empty(5, 6)).shape == (4, 6)
    assert functions.plain(empty(6)).shape == (2, 3)


def test_gradients_of_shapes_are_shapes() -> None:
    x = torch.empty(16, 3, device="meta", requires_grad=True)
    functions.through_numpy(x).sum().backward()
    assert x.grad is not None and x.grad.is_meta and x.grad.shape == (16, 3)


def test_where_the_annotation_does_not_tell_the_error_stays() -> None:
    meta = torch.empty(4, device="meta")
    with pytest.raises(RuntimeError, match="meta"):
        functions.opaque_result(meta)
    with pytest.raises(ds.ShapeError, match="t has no whole length"):
        functions.through_numpy(torch.empty(15, 3, device="meta"))
    with pytest.raises(RuntimeError, match="meta"):
        functions.Derived.apply(meta)


def test_symbolic_sizes_go_through_the_annotation() -> None:
    shapes: list[str] = []

    def backend(module: Any, _: Any) -> Any:
        for node in module.graph.nodes:
            if operator_of(node.target) is not None:
                shapes.append(str(tuple(node.meta["example_value"].shape)))
        return module

    torch._dynamo.reset()
    model = torch.compile(functions.through_numpy, backend=backend, fullgraph=True, dynamic=True)
    with torch.no_grad():
        assert model(torch.ones(32, 3), h=4).shape == (4, 8, 3)
    (shape,) = shapes
    assert shape.startswith("(4, (s") and shape.endswith("//4), s" + shape.rpartition("s")[2])


def test_what_is_traced_into_is_never_made_up() -> None:
    """Made-up results would be kept in machine code: there the function's own error stays."""
    torch._dynamo.reset()
    model = torch.compile(lambda x: functions.through_numpy(x) * 1, backend="aot_eager")
    with pytest.raises(Exception, match="numpy"):
        model(torch.ones(16, 3))


def test_registering_loads_no_compiler() -> None:
    program = (
        "import sys, torch, dimsolve as ds\n"
        "from tests.exec import custom\n"
        "assert 'torch._dynamo' not in sys.modules, 'loaded'\n"
        "import torch._dynamo\n"
        "from torch._dynamo.trace_rules import is_callable_allowed\n"
        "assert is_callable_allowed(custom.doubled)\n"
    )
    program = program.replace(
        "tests.exec import custom", "tests.exec import plain_operator as custom"
    )
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert run.returncode == 0, run.stderr


def test_a_function_that_is_registered_again_has_its_newest_promise() -> None:
    operator = known(functions.plain)
    try:
        again = ds.register_op("(h^ t) -> h^ t", name="again")(functions.plain)
        assert known(functions.plain).name == known(again).name == "again"
        wrapped_twice = ds.register_op("(h t) -> h t", name="third")(again)
        assert known(functions.plain).name == known(wrapped_twice).name == "third"
        assert wrapped_twice(torch.ones(4)).shape == (2, 2)
    finally:
        unregister(known(functions.plain))
        ds.register_op("(h t) -> h t")(functions.plain)
    assert known(functions.plain).name == known(functions.same_plain).name == operator.name


def test_an_annotation_function_sees_the_call() -> None:
    declare = known(functions.reduced).declare
    x = torch.zeros(2, 3)
    assert declare(x).annotation == "d0+ d1+, ? -> ()"
    assert declare(x, keep=True).annotation == "d0 d1, ? -> d0 d1"
    assert declare(x, mask=x).annotation == "d0+ d1+, d0+ d1+ -> ()"
    assert [value is x for value in declare(x, mask=x).inputs] == [True, True]


def test_any_number_of_tensors() -> None:
    x = torch.zeros(4)
    assert len(known(functions.added).declare(x, x, x).inputs) == 3
    with pytest.raises(ds.OperatorError) as raised:
        known(functions.added).declare(x, x)
    assert str(raised.value) == (
        "the number of inputs does not match\n"
        "  a, a, a -> a\n"
        "  3 inputs annotated, and 'added' has 2 parameters: tensors, tensors\n"
        "  hint: annotate the first parameters, in order; leave out those at the end that are no "
        "tensors"
    )


@pytest.mark.parametrize(
    ("function", "splits"),
    [
        (functions.lookup, "v d"),
        (functions.masked_mean, "a b"),
        (functions.softmax, "n c"),
        (functions.largest, "a b"),
        (functions.total, "a b"),
        (functions.scaled_by_width, "a b"),
        (functions.reduced, "d0 d1"),
    ],
)
def test_transform_rules_come_before_the_marks(function: Any, splits: str) -> None:
    verification = ds.verify(function)
    assert verification.ok, verification
    assert set(splits.split()) <= set(verification.splits)


def test_ties_for_the_largest_share_the_gradient_as_on_one_device() -> None:
    x = torch.tensor([[1.0, 2.0], [3.0, 2.0], [3.0, 0.0], [3.0, 2.0]])
    assert ds.verify(functions.largest, args=(x,), counts=(2, 4)).ok


class Optionally(torch.nn.Module):
    def forward(self, x: torch.Tensor, y: torch.Tensor | None = None) -> Any:
        return functions.reduced(x, y, keep=True)


def test_a_traced_graph_refuses_an_optional_tensor_that_changed() -> None:
    x = torch.ones(4, 6)
    without, with_it = ds.trace(Optionally(), (x,)), ds.trace(Optionally(), (x, x))
    assert without.run(x).shape == with_it.run(x, x).shape == (4, 6)
    with pytest.raises(ds.OperatorError) as raised:
        without.run(x, y=x)
    assert str(raised.value) == (
        "an optional tensor changed between tracing and running\n"
        "  'y' of 'Optionally' was None when the model was traced and is a tensor now\n"
        "  hint: trace again with a tensor for 'y'; a plan holds for one of the two"
    )
    with pytest.raises(ds.OperatorError, match="was a tensor when the model was traced"):
        with_it.run(x, None)
