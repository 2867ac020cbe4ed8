"""Runs a call on one device: what the ranks of a split are compared with.

    matmul(x, w)      the result, and the gradients of x and w for a random gradient of the result

An input that a call writes to is kept as the call leaves it. Floating tensors are float64, and
random numbers are the same each time.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch
from torch import Tensor

from dimsolve.partition.placement import Partial, Placement, Reduction, Replicate
from dimsolve.solver.solution import Solution

from ..calls import Arguments, Call, Place, function_of, invoke, outputs_of
from ..distributed.sharding import gradient_parts_of
from .compare import rounding_of


@contextmanager
def fixed_random(seed: int) -> Iterator[None]:
    """Seeds the CPU's generator inside, for functions that draw from it, and restores it after.

    Gradients are recorded inside, whatever mode the program is in.
    """
    before = torch.random.get_rng_state()
    torch.default_generator.manual_seed(seed)
    try:
        with torch.inference_mode(False), torch.enable_grad():
            yield
    finally:
        torch.random.set_rng_state(before)


_WIDER = {
    torch.float16: torch.float64,
    torch.bfloat16: torch.float64,
    torch.float32: torch.float64,
    torch.complex32: torch.complex128,
    torch.complex64: torch.complex128,
}


def in_float64(arguments: Arguments) -> Arguments:
    """Returns the arguments with tensors of their own, floating ones as float64."""
    return arguments.with_values(
        {
            place: tensor.detach().to(_WIDER.get(tensor.dtype, tensor.dtype)).clone()
            for place, tensor in arguments.tensors()
        }
    )


@dataclass(frozen=True)
class Whole:
    """A run on one device: outputs, inputs as they are left, and gradients for random weights.

    One entry per annotated output or input, None where there is no tensor, or no gradient.
    differentiable: the inputs that may have gradients. returned: inputs that are outputs too, by
    number. extra: the type of what is returned where nothing is annotated.
    """

    call: Call
    solution: Solution
    outputs: list[Any]
    inputs: list[Tensor | None]
    after: list[Tensor | None]
    weights: list[Tensor | None]
    gradients: list[Tensor | None]
    differentiable: frozenset[int]
    returned: dict[int, int]
    no_gradient: str = ""
    extra: str | None = None

    @cached_property
    def rounding(self) -> float:
        """The largest difference that the types inside the function explain."""
        return rounding_of(
            lambda: _run_whole(self.call, self.solution, 0, self.inputs, self.differentiable)
        )


def run_whole(call: Call, solution: Solution, seed: int) -> Whole:
    """Runs the call on one device; raises what the function raises.

    Some functions refuse gradients of an input (a target, running statistics): it has none then.
    """
    tensors = dict(call.arguments.tensors())
    inputs = [None if place is None else tensors[place].detach() for place in call.input_places]
    real = [
        number
        for number, tensor in enumerate(inputs)
        if tensor is not None and (tensor.is_floating_point() or tensor.is_complex())
    ]
    try:
        return _run_whole(call, solution, seed, inputs, frozenset(real))
    except RuntimeError as error:
        if "cannot have requires_grad" not in str(error):
            raise
    chosen: frozenset[int] = frozenset()
    whole = _run_whole(call, solution, seed, inputs, chosen)
    for number in real:
        try:
            whole = _run_whole(call, solution, seed, inputs, chosen | {number})
        except RuntimeError:
            continue
        chosen |= {number}
    return whole


def _run_whole(
    call: Call,
    solution: Solution,
    seed: int,
    inputs: list[Tensor | None],
    differentiable: frozenset[int],
) -> Whole:
    leaves = [leaf_of(tensor, number in differentiable) for number, tensor in enumerate(inputs)]
    given = [None if leaf is None else leaf.clone() for leaf in leaves]
    result = _result(call, given)
    outputs = annotated_outputs(call, result, given)
    generator = torch.Generator("cpu").manual_seed(seed)
    weights = [random_like(o, generator) if requires_gradient(o) else None for o in outputs]
    no_gradient = ""
    gradients: list[Tensor | None] = [None] * len(leaves)
    try:
        gradients = gradients_of(outputs, leaves, weights)
    except (RuntimeError, NotImplementedError) as error:
        no_gradient = str(error).partition("\n")[0]
    return Whole(
        call=call,
        solution=solution,
        outputs=outputs,
        inputs=inputs,
        after=[None if tensor is None else tensor.detach() for tensor in given],
        weights=weights,
        gradients=gradients,
        differentiable=differentiable,
        returned={
            number: place
            for number, tensor in enumerate(given)
            for place, output in reversed([*enumerate(outputs)])
            if tensor is not None and is_same_memory(tensor, output)
        },
        no_gradient=no_gradient,
        extra=None if result is None or call.declaration.mutates else type(result).__name__,
    )


def plain_outputs(whole: Whole) -> list[Any]:
    """Returns the outputs of another run, on inputs that need no gradients."""
    given = [leaf_of(tensor, False) for tensor in whole.inputs]
    return annotated_outputs(whole.call, _result(whole.call, given), given)


def _result(call: Call, given: Sequence[Tensor | None]) -> Any:
    arguments = call.arguments.with_values(by_place(call, given))
    return invoke(function_of(call.operator), arguments, call.operator.parameters)


def annotated_outputs(call: Call, result: Any, given: Sequence[Tensor | None]) -> list[Any]:
    """Returns the outputs; of a call that returns nothing they are the inputs it writes to."""
    if call.declaration.returns == "nothing":
        return [given[number] for number in call.declaration.mutates]
    return outputs_of(result, call.declaration)


def by_place(call: Call, given: Sequence[Tensor | None]) -> dict[Place, Tensor]:
    """Returns the tensors of the annotated inputs by their places among the arguments."""
    pairs = zip(call.input_places, given, strict=True)
    return {place: t for place, t in pairs if place is not None and t is not None}


def leaf_of(tensor: Tensor | None, differentiable: bool) -> Tensor | None:
    """Returns a copy in one piece of memory, with or without a gradient."""
    if tensor is None:
        return None
    leaf = tensor.detach().clone(memory_format=torch.contiguous_format)
    return leaf.requires_grad_(differentiable)


def random_like(tensor: Tensor, generator: torch.Generator) -> Tensor:
    """Returns normally distributed values in the shape and dtype of the tensor."""
    dtype = torch.complex128 if tensor.is_complex() else torch.float64
    values = torch.randn(tensor.shape, dtype=dtype, generator=generator, device="cpu")
    return values.to(tensor.device, tensor.dtype)


def requires_gradient(output: Any) -> bool:
    """Whether an output can have a gradient."""
    return isinstance(output, Tensor) and output.requires_grad


def gradients_of(
    outputs: Sequence[Any], leaves: Sequence[Tensor | None], weights: Sequence[Tensor | None]
) -> list[Tensor | None]:
    """Returns the leaves' gradients of the sum of outputs times weights; 0 of an unused leaf."""
    wanted = [leaf for leaf in leaves if leaf is not None and leaf.requires_grad]
    if all(weight is None for weight in weights) or not wanted:
        return [None] * len(leaves)
    pairs = [
        (output, weight)
        for output, weight in zip(outputs, weights, strict=True)
        if weight is not None and requires_gradient(output)
    ]
    found: Sequence[Tensor] = [torch.zeros_like(leaf) for leaf in wanted]
    if pairs:
        differentiated, factors = zip(*pairs, strict=True)
        found = torch.autograd.grad(differentiated, wanted, factors, materialize_grads=True)
    gradients = iter(found)
    return [next(gradients) if leaf is not None and leaf.requires_grad else None for leaf in leaves]


def gradient_shares(
    weight: Tensor,
    parts: Sequence[Tensor],
    placements: Sequence[Placement],
    mesh: Mapping[str, int],
) -> list[Tensor]:
    """Returns each rank's gradient of an output; of a replicated one that is an even share.

    Ranks are programs of their own, whose gradients are shares that add up: see
    `dimsolve.partition.rules.rule`.
    """
    shares = [
        Partial(Reduction.AVG) if isinstance(placement, Replicate) else placement
        for placement in placements
    ]
    return gradient_parts_of(weight, parts, shares, mesh)


def is_same_memory(tensor: Tensor, output: Any) -> bool:
    """Returns whether an output is an input itself."""
    return (
        isinstance(output, Tensor)
        and output.numel() > 0
        and output.data_ptr() == tensor.data_ptr()
        and output.shape == tensor.shape
        and output.stride() == tensor.stride()
    )
