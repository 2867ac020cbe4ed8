"""Runs a call on one device: what the ranks of a split are compared with.

    matmul: the result, the gradients of x and w for a random gradient of the result

An input that a call writes to is kept as the call leaves it.

Surroundings that are the same each time, and leave those of the program as they are.

In which precision a function computes inside, whatever it is given.

    rms_norm(x) = (x.float() * ...).to(x.dtype)        float32: differences up to 1e-4 are rounding

Many functions change to float32 for a sum or an exponential. Their split results differ from the
whole by what float32 rounds, though all they are given and return is float64.

How far the parts of a split run are from the whole tensor, and whether rounding explains it.

Gradients of the outputs of one call, whole and on the ranks of a split.

Ranks are programs of their own, whose gradients are shares that add up: see
`dimsolve.partition.rules.rule`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from math import inf
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from dimsolve.partition.placement import Partial, Placement, Reduction, Replicate
from dimsolve.solver.solution import Solution

from ..calls import Arguments, Call, Place, function_of, invoke, outputs_of
from ..distributed.sharding import assemble, gradient_parts_of


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


ROUNDING = {
    torch.float64: 1e-9,
    torch.complex128: 1e-9,
    torch.float32: 1e-4,
    torch.complex64: 1e-4,
    torch.float16: 2e-2,
    torch.bfloat16: 2e-2,
}
"""The largest difference that rounding explains, relative to the largest element."""


def rounding_of(run: Callable[[], object]) -> float:
    """Returns the largest difference that the narrowest type explains which appears in a run."""
    seen = _Seen()
    with seen:
        run()
    return max((ROUNDING.get(dtype, 0.0) for dtype in seen.dtypes), default=0.0)


class _Seen(TorchDispatchMode):
    """Notes the types of all results."""

    def __init__(self) -> None:
        super().__init__()
        self.dtypes: set[torch.dtype] = set()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        for item in result if isinstance(result, list | tuple) else (result,):
            if isinstance(item, Tensor):
                self.dtypes.add(item.dtype)
        return result


@dataclass(frozen=True, slots=True)
class Difference:
    """How far an ``output``, an ``input`` as the call leaves it, or a ``gradient`` of one is off.

    ``amount`` is relative to the largest element of the whole; inf where values are of different
    kinds. ``factor``: found = factor * wanted, where that explains it. ``what``: the difference in
    words, where it is none of numbers. Of kind ``history`` is an output that has a gradient on a
    rank and none whole.
    """

    kind: str
    number: int
    amount: float
    allowed: float
    factor: float | None = None
    what: str = ""

    @property
    def ok(self) -> bool:
        """Whether rounding explains it."""
        return self.amount <= self.allowed


def largest(differences: Sequence[Difference]) -> Difference | None:
    """Returns the worst difference; an output before a gradient where they are as bad."""
    rank = {"output": 2, "input": 1, "gradient": 0, "history": 0}
    return max(
        differences, key=lambda d: (not d.ok, rank[d.kind] * (not d.ok), d.amount), default=None
    )


def compare(
    kind: str,
    number: int,
    parts: Sequence[Any],
    placements: Sequence[Placement],
    mesh: Mapping[str, int],
    wanted: Any,
) -> Difference:
    """Returns the difference between what the ranks' parts stand for and the whole."""
    if not isinstance(wanted, Tensor):
        same = all(_same(part, wanted) for part in parts)
        return Difference(kind, number, 0.0 if same else inf, 0.0)
    wanted = wanted.detach()
    allowed = ROUNDING.get(wanted.dtype, 0.0)
    try:
        joined, spread = _joined(list(parts), placements, list(mesh.values()))
    except (RuntimeError, NotImplementedError):
        # An average of integers, or a maximum of complex numbers.
        by = " and ".join(str(p.reduction.value) for p in placements if isinstance(p, Partial))
        what = f"is of {kind_of(wanted.dtype)}, which cannot be joined by {by}"
        return Difference(kind, number, inf, allowed, what=what)
    if joined.dtype != wanted.dtype:
        what = f"is of {kind_of(joined.dtype)} on a rank, and of {kind_of(wanted.dtype)} whole"
        return Difference(kind, number, inf, allowed, what=what)
    amount = max(relative(joined, wanted), spread)
    factor = _factor(joined, wanted, allowed) if amount > allowed else None
    return Difference(kind, number, amount, allowed, factor)


def kind_of(dtype: torch.dtype) -> str:
    """Returns the dtype's name.

    >>> kind_of(torch.int64)
    'int64'
    """
    return str(dtype).removeprefix("torch.")


def relative(found: Tensor, wanted: Tensor) -> float:
    """Returns the largest difference relative to the largest finite element; nan equals nan."""
    if found.shape != wanted.shape or found.dtype != wanted.dtype:
        return inf
    if wanted.numel() == 0 or torch.equal(found, wanted):
        return 0.0
    precise = torch.complex128 if wanted.is_complex() else torch.float64
    a, b = found.to(precise), wanted.to(precise)
    same = (a == b) | (a.isnan() & b.isnan())
    apart = (a - b).abs().masked_fill(same, 0)
    if not bool(apart.isfinite().all()):
        return inf
    scale = float(b.abs().masked_fill(~b.isfinite(), 0).max())
    return float(apart.max()) / (scale if scale > 1e-9 else 1.0)


def _joined(
    parts: list[Tensor], placements: Sequence[Placement], counts: list[int]
) -> tuple[Tensor, float]:
    """The whole of the parts, and how far replicas that should be equal are apart."""
    spread = 0.0
    for placement, count in zip(reversed(placements), reversed(counts), strict=True):
        groups = [parts[i : i + count] for i in range(0, len(parts), count)]
        if isinstance(placement, Replicate):
            spread = max(spread, *(relative(p, group[0]) for group in groups for p in group))
        parts = [assemble(group, placement) for group in groups]
    return parts[0], spread


def _factor(found: Tensor, wanted: Tensor, allowed: float) -> float | None:
    """The number by which all is too large, where one is."""
    if found.shape != wanted.shape or wanted.is_complex() or not wanted.is_floating_point():
        return None
    square = float((wanted.double() ** 2).sum())
    if not 0 < square < inf:
        return None
    factor = float((found.double() * wanted.double()).sum()) / square
    close = relative(found.double(), factor * wanted.double()) <= max(allowed, 1e-9)
    return factor if close and factor != 0 and abs(factor - 1) > 0.005 else None


def _same(a: Any, b: Any) -> bool:
    if isinstance(a, Tensor) or isinstance(b, Tensor):
        return isinstance(a, Tensor) and isinstance(b, Tensor) and torch.equal(a, b)
    return bool(a == b)


def requires_gradient(output: Any) -> bool:
    """Whether an output can have a gradient."""
    return isinstance(output, Tensor) and output.requires_grad


def random_like(tensor: Tensor, generator: torch.Generator) -> Tensor:
    """Returns normally distributed values in the shape and dtype of the tensor."""
    dtype = torch.complex128 if tensor.is_complex() else torch.float64
    values = torch.randn(tensor.shape, dtype=dtype, generator=generator, device="cpu")
    return values.to(tensor.device, tensor.dtype)


def gradients_of(
    outputs: Sequence[Any], leaves: Sequence[Tensor | None], weights: Sequence[Tensor | None]
) -> list[Tensor | None]:
    """Returns the leaves' gradients of the sum of outputs times weights."""
    pairs = [
        (output, weight)
        for output, weight in zip(outputs, weights, strict=True)
        if weight is not None and requires_gradient(output)
    ]
    wanted = [leaf for leaf in leaves if leaf is not None and leaf.requires_grad]
    if all(weight is None for weight in weights) or not wanted:
        return [None] * len(leaves)
    found: Sequence[Tensor | None] = [None] * len(wanted)
    if pairs:
        found = torch.autograd.grad(
            [output for output, _ in pairs],
            wanted,
            [weight for _, weight in pairs],
            allow_unused=True,
        )
    rest = iter(zip(wanted, found, strict=True))
    gradients: list[Tensor | None] = []
    for leaf in leaves:
        if leaf is None or not leaf.requires_grad:
            gradients.append(None)
            continue
        _, gradient = next(rest)
        gradients.append(torch.zeros_like(leaf) if gradient is None else gradient)
    return gradients


def gradient_shares(
    weight: Tensor,
    parts: Sequence[Tensor],
    placements: Sequence[Placement],
    mesh: Mapping[str, int],
) -> list[Tensor]:
    """Returns each rank's gradient of an output; of a replicated one that is an even share."""
    shares = [
        Partial(Reduction.AVG) if isinstance(placement, Replicate) else placement
        for placement in placements
    ]
    return gradient_parts_of(weight, parts, shares, mesh)


_WIDER = {
    torch.float16: torch.float64,
    torch.bfloat16: torch.float64,
    torch.float32: torch.float64,
    torch.complex32: torch.complex128,
    torch.complex64: torch.complex128,
}


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
    real = [n for n, t in enumerate(inputs) if t is not None and _is_real(t)]
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
    arguments = call.arguments.with_values(placed(call, given))
    result = invoke(function_of(call.operator), arguments, call.operator.parameters)
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
        returned=_returned(given, outputs),
        no_gradient=no_gradient,
        extra=None if result is None or call.declaration.mutates else type(result).__name__,
    )


def _returned(inputs: Sequence[Tensor | None], outputs: Sequence[Any]) -> dict[int, int]:
    """Which inputs are outputs too, by number."""
    return {
        number: place
        for number, tensor in enumerate(inputs)
        for place, output in enumerate(outputs)
        if tensor is not None and _same_memory(tensor, output)
    }


def plain_outputs(whole: Whole) -> list[Any]:
    """Returns the outputs of another run, on inputs that need no gradients."""
    call = whole.call
    given = [leaf_of(tensor, False) for tensor in whole.inputs]
    arguments = call.arguments.with_values(placed(call, given))
    result = invoke(function_of(call.operator), arguments, call.operator.parameters)
    return annotated_outputs(call, result, given)


def in_float64(arguments: Arguments) -> Arguments:
    """Returns the arguments with tensors of their own, floating ones as float64."""
    return arguments.with_values(
        {
            place: tensor.detach().to(_WIDER.get(tensor.dtype, tensor.dtype)).clone()
            for place, tensor in arguments.tensors()
        }
    )


def annotated_outputs(call: Call, result: Any, given: Sequence[Tensor | None]) -> list[Any]:
    """Returns the outputs; of a call that returns nothing they are the inputs it writes to."""
    if call.declaration.returns == "nothing":
        return [given[number] for number in call.declaration.mutates]
    return outputs_of(result, call.declaration)


def placed(call: Call, given: Sequence[Tensor | None]) -> dict[Place, Tensor]:
    """Returns the tensors of the annotated inputs by their places among the arguments."""
    pairs = zip(call.input_places, given, strict=True)
    return {place: t for place, t in pairs if place is not None and t is not None}


def leaf_of(tensor: Tensor | None, differentiable: bool) -> Tensor | None:
    """Returns a copy in one piece of memory, with or without a gradient."""
    if tensor is None:
        return None
    leaf = tensor.detach().clone(memory_format=torch.contiguous_format)
    return leaf.requires_grad_(differentiable)


def _is_real(tensor: Tensor) -> bool:
    return tensor.is_floating_point() or tensor.is_complex()


def _same_memory(tensor: Tensor, output: Any) -> bool:
    return (
        isinstance(output, Tensor)
        and output.numel() > 0
        and output.data_ptr() == tensor.data_ptr()
        and output.shape == tensor.shape
        and output.stride() == tensor.stride()
    )
