"""Whether a plan's run is equal to the model on one device: outputs, loss and every gradient.

    check = CheckedRun(model, part, lr=0.1)
    step = check.step({"input_ids": ids, "labels": ids})
    step.loss, step.differences.gradients        5.61, 2.1e-16

Both train on the same batches from the same weights, of sizes that satisfy the plan's conditions:

    example input_ids (4, 16), dynamic batch and seq, plan for dp = 2 (batch % 2 == 0)
    steps of (4, 16), (6, 17), (2, 18)

Their values are drawn from those of the example, so labels stay labels and masks stay masks; all
ranks draw the same. A rank compares its parts with the same parts
of the whole gradient, so nothing is gathered; what is reported is the largest over all ranks. A
difference is relative to the largest element of its tensor; for a gradient that is nearly zero as a
whole (a key's bias under softmax has none) to a thousandth of the model's largest gradient. While
they are compared nothing is dropped, and a float64 model computes nothing in float32. What is
beyond the tolerance of a narrower model is judged against float64
(`dimsolve.exec.running.against_float64`).
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, replace
from itertools import product
from typing import Any, TypeAlias

import torch
from torch import Tensor

from dimsolve.ir.errors import DimsolveError
from dimsolve.partition.placement import Reduction
from dimsolve.partition.plan import Plan
from dimsolve.partition.sizes import check_conditions, read_sizes_of
from dimsolve.solver.algebra.dims import evaluate, symbols_of
from dimsolve.solver.algebra.poly import Dim
from dimsolve.solver.graphs.match import match

from ..capture.argument_objects import Copy, mapped
from ..capture.dynamic import leaves_of
from ..parallel.parallelize import ParallelModule
from ..parallel.same_model import depends_on_mode
from ..parallel.state import Held
from .against_float64 import Distances, Named, is_single, measure, named
from .comparable import (
    Handed,
    difference,
    handed_out,
    is_wide,
    largest,
    loss_of,
    with_own_memory,
    without_dropout,
    without_narrowing,
)
from .first_difference import FirstDifference, first_difference

Sizes: TypeAlias = Mapping[str, int]


def batches(
    plan: Plan, example: Mapping[str, Any], dynamic: Mapping[str, Any] | None, steps: int
) -> Iterator[dict[str, Any]]:
    """Yields so many whole batches, the first of the example's sizes."""
    for number, sizes in enumerate(sizes_for(plan, example, dynamic, steps)):
        yield batch_of(example, dynamic, sizes, seed=number)


def sizes_for(
    plan: Plan,
    example: Mapping[str, Any],
    dynamic: Mapping[str, Any] | None,
    steps: int,
    at: Sizes | None = None,
) -> list[dict[str, int]]:
    """Returns the symbols' sizes of every step: the example's, then others that the plan allows;
    where some are given (``at``), these and otherwise the example's in every step.

    Raises PlanError where it does not allow the first, and for the size of a symbol that the
    example has not. What the mesh decides is not asked here.
    """
    first = _example_sizes(example, dynamic)
    first.update(read_sizes_of(first, at or {}))
    check_conditions(plan, first, complete=False)
    if at:
        return [first] * steps
    found = [first]
    for sizes in _near(first):
        if len(found) == steps or not first:
            break
        if not any(_shares(sizes, other) for other in found) and _is_legal(plan, sizes):
            found.append(sizes)
    return [found[step % len(found)] for step in range(steps)]


def batch_of(
    example: Mapping[str, Any], dynamic: Mapping[str, Any] | None, sizes: Sizes, seed: int = 0
) -> dict[str, Any]:
    """Returns the example with its dynamic dimensions at these sizes, and other values."""
    leaves = leaves_of(_nothing, (), example, dynamic)
    generator = torch.Generator().manual_seed(seed)
    values = {
        leaf.place: _drawn(leaf.value, leaf.dims, sizes, generator)
        if isinstance(leaf.value, Tensor)
        else leaf.value
        for leaf in leaves
    }
    return Copy([], lambda place, _: values[place]).call((), example)[1]


def _nothing(**_: Any) -> None:
    """A function whose arguments have only names."""


def _drawn(
    tensor: Tensor, dims: Mapping[int, Dim], sizes: Sizes, generator: torch.Generator
) -> Tensor:
    shape = [
        evaluate(dims[index], sizes) if index in dims else size
        for index, size in enumerate(tensor.shape)
    ]
    values = tensor.detach().flatten().cpu()
    if not values.numel():
        return tensor.new_zeros(shape)
    places = torch.randint(values.numel(), shape, generator=generator)
    return values[places].to(tensor.device).requires_grad_(tensor.requires_grad)


def _example_sizes(example: Mapping[str, Any], dynamic: Mapping[str, Any] | None) -> dict[str, int]:
    sizes: dict[str, int] = {}
    for leaf in leaves_of(_nothing, (), example, dynamic):
        for index, dim in leaf.dims.items():
            found = match([dim], [int(leaf.value.shape[index])], symbols_of(dim)).bindings
            sizes.update({name: size for name, size in found.items() if isinstance(size, int)})
    return sizes


def _near(first: Sizes) -> Iterator[dict[str, int]]:
    """Sizes around the example's."""
    steps = (0, 1, -1, 2, -2, 3, 4, -4, 6, 8, -8, 12, 16, 24, 32)
    for moves in product(steps, repeat=min(len(first), 3)):
        sizes = dict(first)
        for name, move in zip(first, moves, strict=False):
            sizes[name] += move
        if min(sizes.values(), default=1) >= 1:
            yield sizes


def _is_legal(plan: Plan, sizes: Sizes) -> bool:
    try:
        check_conditions(plan, sizes, complete=False)
    except DimsolveError:
        return False
    return True


def _shares(sizes: Sizes, other: Sizes) -> bool:
    return any(sizes[name] == other[name] for name in sizes)


TOLERANCE = {torch.float64: 1e-9, torch.float32: 1e-4}
"""The largest relative difference that rounding explains."""

OTHERWISE = 5e-2
"""The same for narrower dtypes."""

SMALL = 1e-3
"""A gradient tensor smaller than this share of the model's largest is compared with that share."""


@dataclass(frozen=True, slots=True)
class Differences:
    """The largest relative differences from one device; 0.0 is equal to the last bit.

    excess: the largest of them over what rounding explains for the tensor's dtype. distances: from
    float64, measured where the tolerance does not explain a difference of a narrower model. first:
    what differs first, where that was looked for.
    """

    outputs: float
    loss: float
    gradients: float
    excess: float
    distances: Distances | None = None
    first: FirstDifference | None = None

    @property
    def ok(self) -> bool:
        """Whether rounding explains all of them."""
        return self.excess <= 1.0 or (self.distances is not None and self.distances.explained)


@dataclass(frozen=True, slots=True)
class CheckedStep:
    """One training step of both. ``seconds``: of the part, forward, backward and optimiser.

    loss: None where the result has nothing to train. trained: whether there was a backward.
    """

    loss: float | None
    seconds: float
    differences: Differences | None
    trained: bool = True

    @property
    def ok(self) -> bool:
        """Whether the step was equal to one device, or was not compared."""
        return self.differences is None or self.differences.ok


class CheckedRun:
    """A part of a model and, where ``model`` is given, the model itself, trained alike.

    wide: whether a float64 model computes in float64 also where its own code says float32. look:
    whether it is looked for where the first step that differs begins to.
    """

    def __init__(
        self,
        part: ParallelModule,
        model: torch.nn.Module | None = None,
        *,
        lr: float = 0.1,
        wide: bool = True,
        look: bool = False,
    ) -> None:
        self.look = look
        self.wide = wide and model is not None and is_wide(model)
        self.part = part
        self.model = model
        self.optimizer = _optimizer(part, lr)
        self.reference = None if model is None else _optimizer(model, lr)

    def step(self, batch: Mapping[str, Any]) -> CheckedStep:
        """Trains both on one whole batch, the same on every rank, and compares."""
        with self._alike():
            return self._step(batch)

    def _alike(self) -> ExitStack:
        """What makes the two runs comparable, where something does not."""
        modes = ExitStack()
        if self.model is not None and depends_on_mode(self.part.plan):
            modes.enter_context(without_dropout())
        if self.wide:
            modes.enter_context(without_narrowing())
        return modes

    def _step(self, batch: Mapping[str, Any]) -> CheckedStep:
        own = mapped(batch, with_own_memory)  # a cache is written to: each run has its own
        self.part.zero_grad()
        self._synchronize()
        start = time.perf_counter()
        result = self.part(**batch)
        loss = loss_of(result)
        trained = _backward(loss)
        self._synchronize()
        seconds = time.perf_counter() - start
        handed = (result, batch)
        differences = None if self.model is None else self._compare(own, handed, loss)
        start = time.perf_counter()
        if self.optimizer is not None:
            self.optimizer.step()
        self._synchronize()
        if differences is not None and differences.excess > 1.0 and differences.ok:
            self._go_on_alike()
        seconds += time.perf_counter() - start
        number = None if loss is None else float(loss.detach())
        return CheckedStep(number, seconds, differences, trained)

    def _compare(
        self, batch: Mapping[str, Any], handed: Handed, loss: Tensor | None
    ) -> Differences:
        """handed: what the part returned, and its batch as it left it."""
        assert self.model is not None
        self.model.zero_grad()
        judged = is_single(self.model)
        kept = judged or self.look
        buffers = {n: b.clone() for n, b in self.model.named_buffers()} if kept else {}
        before = mapped(batch, with_own_memory) if kept else {}
        whole = self.model(**batch)
        whole_loss = loss_of(whole)
        _backward(whole_loss)
        found = {
            "outputs": dict(self._outputs(handed, (whole, batch))),
            "loss": dict(_losses(loss, whole_loss)),
            "gradients": {
                f"gradient {n}": _measured(d, p) for n, p, d in self.gradient_differences()
            },
        }
        largest = [max((a for a, _ in kind.values()), default=0.0) for kind in found.values()]
        beyond = {n: over for kind in found.values() for n, (_, over) in kind.items() if over > 1.0}
        excess = max((over for kind in found.values() for _, over in kind.values()), default=0.0)
        outputs, of_loss, gradients, excess = self._largest([*largest, excess])
        differences = Differences(outputs, of_loss, gradients, excess)
        if differences.excess > 1.0 and judged:
            parts = {n: p.grad for n, p in self.part.named_parameters()}
            own = {n: p.grad for n, p in self.model.named_parameters()}
            both = named(handed, loss, parts), named((whole, batch), whole_loss, own)
            distances = self._against_float64(before, buffers, both, beyond)
            differences = replace(differences, distances=distances)
        if self.look and not differences.ok:
            self.look = False
            allowed = allowed_of(self.model)
            first = first_difference(self.part, self.model, buffers, before, allowed)
            differences = replace(differences, first=first)
        if self.reference is not None:
            self.reference.step()
        return differences

    def _largest(self, mine: list[float]) -> list[float]:
        """The largest of every number over all ranks."""
        found = torch.tensor(mine, dtype=torch.float64, device=self.part.ends.device)
        for end in self.part.ends.communicators.values():
            found = end.all_reduce(found, Reduction.MAX)
        amounts: list[float] = found.tolist()
        return amounts

    def _against_float64(
        self,
        batch: Mapping[str, Any],
        buffers: Mapping[str, Tensor],
        found: tuple[Named, Named],
        beyond: Mapping[str, float],
    ) -> Distances:
        """The largest distances over all ranks; explained where they are on all."""
        assert self.model is not None
        mine = measure(
            self.part, self.model, buffers, batch, found, beyond, allowed_of(self.model), SMALL
        )
        amounts = [mine.one_device, mine.ranks, mine.exact, float(not mine.explained)]
        one_device, ranks, exact, unexplained = self._largest(amounts)
        return Distances(one_device, ranks, exact, explained=not unexplained)

    def _go_on_alike(self) -> None:
        """Gives the ranks one device's weights, where rounding has made them others: what comes
        next is compared from the same weights.
        """
        assert self.model is not None
        whole = dict(self.model.named_parameters(remove_duplicate=False))
        with torch.no_grad():
            for name, parameter in self.part.named_parameters():
                parameter.copy_(self.part.held(name).part(whole[name]))

    def _outputs(self, handed: Handed, whole: Handed) -> Iterator[tuple[str, tuple[float, float]]]:
        found, wanted = handed_out(*handed), handed_out(*whole)
        for name, tensor in wanted.items():
            if name in found:
                yield name, _measured(relative(found[name], tensor), tensor)

    def gradient_differences(self) -> Iterator[tuple[str, Tensor, float]]:
        """Yields each parameter with its name, and how far this rank's part of its gradient is
        off.
        """
        assert self.model is not None
        whole = {n: p.grad for n, p in self.model.named_parameters() if p.requires_grad}
        filled = [g for g in whole.values() if g is not None and g.numel() > 0]
        largest = max((float(g.abs().max()) for g in filled), default=0.0)
        for name, parameter in self.part.named_parameters():
            wanted, found = whole.get(name), parameter.grad
            if wanted is None or found is None:
                empty = (wanted is None or not wanted.any()) and (found is None or not found.any())
                yield name, parameter, 0.0 if empty else float("inf")
                continue
            held: Held = self.part.held(name)
            yield name, parameter, relative(found, held.part(wanted), floor=SMALL * largest)

    def _synchronize(self) -> None:
        if self.part.ends.device.type == "cuda":
            torch.cuda.synchronize()


def relative(found: Tensor, wanted: Tensor, *, floor: float = 0.0) -> float:
    """Returns the largest difference, relative to the largest element of what is wanted.

    >>> relative(torch.tensor([1.0, 2.0]), torch.tensor([1.0, 4.0]))
    0.5
    """
    size = max(largest(wanted.detach()), floor)
    return difference(found.detach(), wanted.detach()) / (size or 1.0)


def allowed_of(model: torch.nn.Module) -> float:
    """Returns the largest relative difference that rounding explains of a model's own dtype.

    >>> allowed_of(torch.nn.Linear(2, 2))
    0.0001
    """
    return min(
        (TOLERANCE.get(p.dtype, OTHERWISE) for p in model.parameters() if p.is_floating_point()),
        default=TOLERANCE[torch.float32],
    )


def _measured(amount: float, tensor: Tensor) -> tuple[float, float]:
    """A difference, and the same over what rounding explains; not a number is endless."""
    amount = amount if amount == amount else float("inf")
    return amount, amount / TOLERANCE.get(tensor.dtype, OTHERWISE)


def _optimizer(module: torch.nn.Module, lr: float) -> torch.optim.Optimizer | None:
    """None where there is nothing to train; an optimiser refuses that."""
    parameters = list(module.parameters())
    return torch.optim.SGD(parameters, lr=lr) if parameters else None


def _backward(loss: Tensor | None) -> bool:
    if loss is None or not loss.requires_grad:
        return False
    loss.backward()
    return True


def _losses(found: Tensor | None, wanted: Tensor | None) -> list[tuple[str, tuple[float, float]]]:
    if found is None or wanted is None:
        return [] if found is wanted else [("loss", (float("inf"), float("inf")))]
    return [("loss", _measured(relative(found, wanted), found))]
