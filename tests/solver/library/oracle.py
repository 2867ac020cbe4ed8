"""One operator of the library, whole against split, forward and backward, in one process.

The oracle of this folder's tests: for every identifier that the declaration leaves open, cut the
inputs as the rule says, run torch on each part with the arguments made anew, join the outputs, and
compare; the same for gradients. It says nothing of how tensors are communicated, and takes every
rank in turn.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch

from dimsolve.exec.arguments import Arguments, Place
from dimsolve.exec.operator_call import Call, local_arguments
from dimsolve.exec.resolve import resolve
from dimsolve.exec.sharding import assemble, gradient_parts, local_part
from dimsolve.ir.annotation import Mark
from dimsolve.ir.operator import Operator
from dimsolve.partition.placement import Partial, Placement, Reduction, Replicate, Shard
from dimsolve.partition.rules import Rule, rule_of
from dimsolve.solver.infer import infer
from dimsolve.solver.library import find, specimens
from dimsolve.solver.solution import Solution

COUNTS = (2, 3)


def function_of(path: str) -> Callable[..., Any]:
    """Returns the torch function; attributes are read through getattr."""
    function: Callable[..., Any] = resolve(path)
    return function


def operator_of(path: str) -> Operator:
    operator = find(path)
    assert operator is not None, f"{path} is not in the library"
    return operator


@dataclass
class Case:
    """One example call of one operator. Every run makes its tensors anew: some operators write to
    them.
    """

    path: str
    number: int

    def __str__(self) -> str:
        return f"{self.path}[{self.number}]"

    def call(self, *, gradients: bool = False) -> Call:
        args, kwargs = specimens(self.path)[self.number].build(grad=gradients)
        return Call(operator_of(self.path), Arguments(args, kwargs))

    def solve(self, call: Call) -> Solution:
        declaration = call.declaration
        lengths = dict(declaration.arguments)
        for name in declaration.fresh:
            lengths[name] = f"{name}_fresh"
        shapes = [None if x is None else tuple(x.shape) for x in declaration.inputs]
        return infer(declaration.annotation, shapes, arguments=lengths)


def outputs_of(call: Call, result: Any) -> list[Any]:
    """The tensors that the annotation's outputs stand for."""
    declaration = call.declaration
    if declaration.returns == "nothing":
        return [declaration.inputs[number] for number in declaration.mutates]
    return list(result) if declaration.returns == "tuple" else [result]


def run(call: Call, function: Callable[..., Any]) -> list[Any]:
    """The outputs of a call; what is written to must not be a leaf that wants a gradient."""
    return outputs_of(call, function(*call.arguments.args, **call.arguments.kwargs))


def splits(call: Call, solution: Solution) -> Iterator[tuple[str, int, Rule]]:
    """Every identifier that may be cut, with each count that divides it."""
    declaration = call.declaration
    for name, mark in solution.layout.marks.items():
        length = solution.values[name]
        if mark is Mark.FROZEN or not isinstance(length, int):
            continue
        rule = rule_of(
            solution,
            name,
            value_split=declaration.value_split,
            reduction=Reduction(declaration.reduction),
        )
        assert isinstance(rule, Rule), f"{declaration.annotation}: {rule.reason}"
        for count in COUNTS:
            if length % count == 0 and length:
                yield name, count, rule


def compare_split(case: Case, name: str, count: int) -> None:
    """Asserts that ``name`` cut into ``count`` parts gives the same outputs and gradients as the
    whole.
    """
    function = function_of(case.path)
    differentiable = not case.call().declaration.mutates
    whole = case.call(gradients=differentiable)
    solution = case.solve(whole)
    rule = next(r for n, c, r in splits(whole, solution) if (n, c) == (name, count))
    expected = run(whole, function)
    lengths = {n: v for n, v in solution.values.items() if isinstance(v, int)}
    lengths[name] //= count
    parts = [_on_rank(case, whole, solution, rule, lengths, index, count) for index in range(count)]
    found = [run(part, function) for part in parts]
    for number, placement in enumerate(rule.outputs):
        joined = assemble([outputs[number].detach() for outputs in found], placement)
        torch.testing.assert_close(
            joined, expected[number].detach(), rtol=1e-9, atol=1e-9, equal_nan=True
        )
    if differentiable:
        _compare_gradients(whole, parts, rule, expected, found)


def _on_rank(
    case: Case,
    whole: Call,
    solution: Solution,
    rule: Rule,
    lengths: dict[str, int],
    index: int,
    count: int,
) -> Call:
    """The call on one rank, with leaves of its own."""
    fresh = case.call()  # the same values, whatever the whole call wrote to its own
    tensors: dict[Place, torch.Tensor] = {}
    for place, placement in zip(fresh.input_places, rule.inputs, strict=True):
        if place is None:
            continue
        tensor = dict(fresh.arguments.tensors())[place]
        part = local_part(tensor.detach(), placement, index, count).clone()
        wanted = dict(whole.arguments.tensors())[place].requires_grad
        tensors[place] = part.requires_grad_(wanted)
    arguments = local_arguments(fresh, tensors, lengths, solution.layout.star)
    local = Call(fresh.operator, arguments)
    object.__setattr__(local, "declaration", _with_inputs(fresh, tensors))
    return local


def _with_inputs(call: Call, tensors: dict[Place, torch.Tensor]) -> Any:
    from dataclasses import replace

    inputs = tuple(None if place is None else tensors[place] for place in call.input_places)
    return replace(call.declaration, inputs=inputs)


def _compare_gradients(
    whole: Call, parts: list[Call], rule: Rule, expected: list[Any], found: list[list[Any]]
) -> None:
    generator = torch.Generator().manual_seed(7)
    for number, placement in enumerate(rule.outputs):
        if not expected[number].requires_grad:
            continue
        shape, dtype = expected[number].shape, expected[number].dtype
        cotangent = torch.randn(shape, generator=generator, dtype=dtype)
        expected[number].backward(cotangent, retain_graph=True)
        outputs = [row[number] for row in found]
        pieces = gradient_parts(cotangent, [o.detach() for o in outputs], placement)
        for output, piece in zip(outputs, pieces, strict=True):
            if output.requires_grad:
                output.backward(piece, retain_graph=True)
    for position, placement in enumerate(rule.inputs):
        tensor = whole.declaration.inputs[position]
        if tensor is None or not tensor.requires_grad or tensor.grad is None:
            continue
        local = [part.declaration.inputs[position] for part in parts]
        grads = [torch.zeros_like(x) if x.grad is None else x.grad for x in local]
        same = [i for i, x in enumerate(whole.declaration.inputs) if x is tensor]
        if len(same) == 1:
            _compare_gradient(tensor.grad, grads, placement)


def _compare_gradient(expected: Any, grads: list[Any], placement: Placement) -> None:
    match placement:
        case Shard():
            joined = [assemble(grads, placement)]
        case Replicate():
            joined = [sum(grads[1:], grads[0])]
        case Partial():
            joined = grads
    for gradient in joined:
        torch.testing.assert_close(gradient, expected, rtol=1e-8, atol=1e-8, equal_nan=True)
