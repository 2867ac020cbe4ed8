"""Whether a plan's run is equal to the model on one device: outputs, loss and every gradient.

    check = CheckedRun(model, part, lr=0.1)
    step = check.step({"input_ids": ids, "labels": ids})
    step.loss, step.differences.gradients        5.61, 2.1e-16

Both train on the same batches from the same weights. A rank compares its parts with the same parts
of the whole gradient, so nothing is gathered; what is reported is the largest over all ranks. A
difference is relative to the largest element of its tensor; for a gradient that is nearly zero as a
whole (a key's bias under softmax has none) to a thousandth of the model's largest gradient. While
they are compared nothing is dropped, and a float64 model computes nothing in float32.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from dimsolve.partition.placement import Reduction

from ..parallel.held import Held
from ..parallel.modes import depends_on_mode
from ..parallel.parallelize import ParallelModule
from .without_dropout import without_dropout
from .without_narrowing import is_wide, without_narrowing

TOLERANCE = {torch.float64: 1e-9, torch.float32: 1e-4}
"""The largest relative difference that rounding explains."""

OTHERWISE = 5e-2
"""The same for narrower dtypes."""

SMALL = 1e-3
"""A gradient tensor smaller than this share of the model's largest is compared with that share."""


@dataclass(frozen=True, slots=True)
class Differences:
    """The largest relative differences from one device; 0.0 is equal to the last bit.

    excess: the largest of them over what rounding explains for the tensor's dtype.
    """

    outputs: float
    loss: float
    gradients: float
    excess: float

    @property
    def ok(self) -> bool:
        """Whether rounding explains all of them."""
        return self.excess <= 1.0


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

    wide: whether a float64 model computes in float64 also where its own code says float32.
    """

    def __init__(
        self,
        part: ParallelModule,
        model: torch.nn.Module | None = None,
        *,
        lr: float = 0.1,
        wide: bool = True,
    ) -> None:
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
        self.part.zero_grad()
        self._synchronize()
        start = time.perf_counter()
        result = self.part(**batch)
        loss = loss_of(result)
        trained = _backward(loss)
        self._synchronize()
        seconds = time.perf_counter() - start
        differences = None if self.model is None else self._compare(batch, result, loss)
        start = time.perf_counter()
        if self.optimizer is not None:
            self.optimizer.step()
        self._synchronize()
        seconds += time.perf_counter() - start
        number = None if loss is None else float(loss.detach())
        return CheckedStep(number, seconds, differences, trained)

    def _compare(self, batch: Mapping[str, Any], result: Any, loss: Tensor | None) -> Differences:
        assert self.model is not None
        self.model.zero_grad()
        whole = self.model(**batch)
        whole_loss = loss_of(whole)
        _backward(whole_loss)
        found = [
            [(0.0, 0.0), *self._outputs(result, whole)],
            [(0.0, 0.0), *_losses(loss, whole_loss)],
            [(0.0, 0.0), *[_measured(d, p) for _, p, d in self.gradient_differences()]],
        ]
        if self.reference is not None:
            self.reference.step()
        largest = [max(amount for amount, _ in kind) for kind in found]
        excess = max(over for kind in found for _, over in kind)
        mine = torch.tensor([*largest, excess], dtype=torch.float64, device=self.part.ends.device)
        for end in self.part.ends.communicators.values():
            mine = end.all_reduce(mine, Reduction.MAX)
        return Differences(*mine.tolist())

    def _outputs(self, result: Any, whole: Any) -> Iterator[tuple[float, float]]:
        found, wanted = dict(tensors_of(result)), dict(tensors_of(whole))
        for name, tensor in wanted.items():
            if name in found:
                yield _measured(relative(found[name], tensor), tensor)

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
    found, wanted = found.detach(), wanted.detach()
    if found.shape != wanted.shape:
        return float("inf")
    if not found.numel():
        return 0.0
    if not (found.is_floating_point() or found.is_complex()):
        return 0.0 if torch.equal(found, wanted) else float("inf")
    same = (found == wanted) | (found.isnan() & wanted.isnan())
    gap = torch.where(same, torch.zeros_like(found), found - wanted).abs().max()
    scale = wanted.masked_fill(~wanted.isfinite(), 0).abs().max()
    size = max(float(scale), floor)
    return float(gap) / size if size else float(gap)


def allowed_of(model: torch.nn.Module) -> float:
    """Returns the largest relative difference that rounding explains of a model's own dtype.

    >>> allowed_of(torch.nn.Linear(2, 2))
    0.0001
    """
    return min(
        (TOLERANCE.get(p.dtype, OTHERWISE) for p in model.parameters() if p.is_floating_point()),
        default=TOLERANCE[torch.float32],
    )


def loss_of(result: Any) -> Tensor | None:
    """Returns what is trained: the result's loss, or a scalar, or the mean square of what is real.
    None where nothing has a gradient.

    >>> loss_of({"loss": torch.tensor(2.0)})
    tensor(2.)
    """
    loss = result.get("loss") if isinstance(result, Mapping) else getattr(result, "loss", None)
    if isinstance(loss, Tensor):
        return loss if loss.ndim == 0 else loss.mean()
    real = [t for _, t in tensors_of(result) if t.is_floating_point() and t.requires_grad]
    if len(real) == 1 and real[0].ndim == 0:
        return real[0]
    if not real:
        return None
    return torch.stack([tensor.square().mean() for tensor in real]).sum()


def tensors_of(result: Any) -> list[tuple[str, Tensor]]:
    """Returns the tensors of a result with their places, in order."""
    if isinstance(result, Tensor):
        return [("", result)]
    items: Any = ()
    if isinstance(result, Mapping):
        items = result.items()
    elif isinstance(result, list | tuple):
        items = enumerate(result)
    return [
        (f"{key}.{place}".rstrip("."), tensor)
        for key, item in items
        for place, tensor in tensors_of(item)
    ]


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


def _losses(found: Tensor | None, wanted: Tensor | None) -> list[tuple[float, float]]:
    if found is None or wanted is None:
        return [] if found is wanted else [(float("inf"), float("inf"))]
    return [_measured(relative(found, wanted), found)]
