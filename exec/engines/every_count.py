"""Which counts of all that there are: what one rank's sizes prove of every count beyond a few.

    k_proj has 32 rows, a head has 8     rank 0 of tp has ceil(32 / tp) of them
    tp = 5, 6, 7: 7, 6, 5 rows           view(2, 7, -1, 8) raises, whatever the numbers are
    tp = 32, 33, ...: 1 row              so does every larger count

The first rank of ``tp`` has the first ``ceil(n / tp)`` rows of what is cut: one run of it stands
for all counts at which it has as many, and there are few such lengths. What it gets from others has
the right shape and not the right numbers; so an error that it raises counts only where it follows
from sizes: no number of a part was read before, no shape came from numbers, and the call that fails
also fails on tensors without numbers. From some count on every part has one row at most: that run
stands for all larger counts.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

import torch
from torch import Tensor, nn

from dimsolve.ir.errors import DimsolveError
from dimsolve.partition.engines.tp_plan import ALL_STYLES, Resolved
from dimsolve.partition.placement import Reduction, Shard

from ..calls import Arguments, Call
from .boundary import Rank
from .follow import operator_for
from .record import Recorder

Kind: TypeAlias = Literal["always", "condition", "never", "examined"]

RUNS = 400
"""So many runs of one rank are made."""

RANKS = 160
"""The counts that no size forbids are examined, if they have so many ranks together."""


@dataclass(frozen=True, slots=True)
class EveryCount:
    """For which counts a plan is right, of all from 2 on.

    kind: ``always``, under a ``condition``, ``never``, or only as far as was ``examined``. legal:
    the counts, of all (``condition``) or of those that were examined. condition: as a test of
    ``tp``. because: who forbids the smallest of the others, or why
    nothing is proved of those that were not run. examined: the counts that were run.
    """

    kind: Kind
    legal: tuple[int, ...] = ()
    condition: str = ""
    because: str = ""
    examined: tuple[int, ...] = ()

    def __str__(self) -> str:
        numbers = ", ".join(map(str, self.legal))
        match self.kind:
            case "always":
                return "legal for every tp"
            case "condition":
                return f"legal for tp = {numbers} and no other: {self.condition}"
            case "never":
                return "illegal for every tp from 2 on"
            case _:
                return f"examined: tp = {_ranges(self.examined)}; of other counts nothing is proved"


def condition_of(legal: Sequence[int]) -> str:
    """Returns a test of tp that these counts, and 1, pass and no other.

    >>> condition_of([2, 4]), condition_of([2, 3, 4])
    ('4 % tp == 0', 'tp in (1, 2, 3, 4)')
    """
    last = max(legal)
    if [1, *sorted(legal)] == [n for n in range(1, last + 1) if last % n == 0]:
        return f"{last} % tp == 0"
    return f"tp in ({', '.join(map(str, [1, *sorted(legal)]))})"


def _ranges(counts: Sequence[int]) -> str:
    """Counts as text, runs of them from the first to the last."""
    runs: list[list[int]] = []
    for count in sorted(counts):
        if runs and runs[-1][-1] == count - 1:
            runs[-1][1:] = [count]
        else:
            runs.append([count])
    return ", ".join("..".join(map(str, run)) for run in runs)


class _Alone:
    """The first rank's end of a group where nobody else is: shapes are right, numbers are not."""

    def __init__(self, size: int) -> None:
        self.rank, self.size = 0, size

    def all_reduce(self, tensor: Tensor, reduction: Reduction = Reduction.SUM) -> Tensor:
        """(...) -> (...)."""
        return tensor.clone()

    def all_gather(self, tensor: Tensor) -> Tensor:
        """(...) -> (size, ...)."""
        return tensor.unsqueeze(0).expand(self.size, *tensor.shape)

    def reduce_scatter(self, tensor: Tensor, reduction: Reduction = Reduction.SUM) -> Tensor:
        """(size, ...) -> (...)."""
        return tensor[0].clone()

    def all_to_all(self, tensor: Tensor) -> Tensor:
        """(size, ...) -> (size, ...)."""
        return tensor.clone()

    def exchange(self, rows: Tensor, given: Sequence[int], got: Sequence[int]) -> Tensor:
        """(sum of given, ...) -> (sum of got, ...)."""
        return rows.new_zeros((sum(got), *rows.shape[1:]))

    def broadcast(self, tensor: Tensor, root: int) -> Tensor:
        """(...) -> (...)."""
        return tensor.clone()


def cut_lengths(model: nn.Module, plan: Resolved) -> dict[str, int] | None:
    """Returns how long what is cut is, of one block, by the names of parameters; None where the
    style of a module cuts, and a parameter of it has another.
    """
    found: dict[str, int] = {}
    for name, text in plan.modules.items():
        own = [
            f"{name}.{each}" for each, _ in model.get_submodule(name).named_parameters("", False)
        ]
        if ALL_STYLES[text].cut and any(plan.parameters.get(each) != text for each in own):
            return None
    for name, parameter in model.named_parameters(remove_duplicate=False):
        style = ALL_STYLES.get(plan.parameters.get(name, ""))
        if style is None:
            continue
        placement = style.placement(name.rpartition(".")[2], parameter.ndim)
        if isinstance(placement, Shard) and placement.dim < parameter.ndim:
            blocks: Any = placement.blocks
            found[name] = -(-parameter.shape[placement.dim] // blocks)
    return found


def last_alike(length: int, count: int) -> int | None:
    """Returns the largest count at which the first rank has as much as at this one; None for
    every larger one.

    >>> last_alike(32, 5), last_alike(32, 6), last_alike(32, 32)
    (5, 6, None)
    >>> [last_alike(32, count) for count in (11, 12, 16)]
    [15, 15, 31]
    """
    part = -(-length // count)
    # ceil(length / n) == part as long as (part - 1) * n < length.
    return None if part == 1 else max((length - 1) // (part - 1), count)


def survivors(
    model: nn.Module,
    plan: Resolved,
    lengths: Mapping[str, int],
    first: int,
    run: Callable[[nn.Module], Any],
) -> list[int] | None:
    """Returns the counts from the first on at which no size makes rank 0 raise; None where there
    are too many to say.
    """
    left: list[int] = []
    count = first
    for _ in range(RUNS):
        used = _raised(model, plan, count, run)
        names = lengths if used is None else used & lengths.keys()
        ends = [last_alike(lengths[name], count) for name in names]
        finite = [end for end in ends if end is not None]
        if used is None:
            end = min(finite) if finite else None
            if end is None or sum(left) + count * (end - count + 1) > RANKS:
                return None
            left += range(count, end + 1)
        elif not finite:
            return left
        count = min(finite) + 1
    return None


def _raised(
    model: nn.Module, plan: Resolved, count: int, run: Callable[[nn.Module], Any]
) -> set[str] | None:
    """The parameters that the first rank used until it raised what follows from sizes alone; None
    where it did not.
    """
    rank = Rank(copy.deepcopy(model), plan, _Alone(count))
    recorder = rank.recorder
    try:
        with recorder.inside(), torch.no_grad():
            run(rank.model)
    except Exception as error:
        if not _of_sizes(recorder, error):
            return None
        tables = {n for n, each in model.named_modules() if isinstance(each, nn.Embedding)}
        return {
            name
            for value, name in recorder.given.items()
            # How long a table is shows only where its shape is asked for.
            if name.rpartition(".")[0] not in tables or value in recorder.sized
        }
    return None


def _of_sizes(recorder: Recorder, error: Exception) -> bool:
    """Whether an error follows from sizes alone."""
    for step in recorder.steps:
        if recorder.of_parts.isdisjoint(step.before):
            continue
        if step.kind == "read":
            return False
        if step.kind == "call" and not _sized(step.function, step.args, step.kwargs):
            return False
    if recorder.failed is None or recorder.failed[0] is not error:
        # The model's own code raised it, and has seen sizes only.
        return not isinstance(error, MemoryError) and _home(error) not in ("torch", "dimsolve")
    call = recorder.failed[1]
    try:
        call.func(*_bare(call.args), **_bare(call.keywords))
    except NotImplementedError:  # torch has no such call on meta: that says nothing of sizes
        return False
    except Exception as again:
        return type(again) is type(error)
    return False


def _home(error: Exception) -> str:
    """The package whose code raised an error."""
    at = error.__traceback__
    while at is not None and at.tb_next is not None:
        at = at.tb_next
    return "" if at is None else at.tb_frame.f_globals.get("__name__", "").partition(".")[0]


def _sized(function: Any, args: Any, kwargs: Mapping[str, Any]) -> bool:
    """Whether the shapes of a call's results follow from those of its operands."""
    operator = operator_for(function)
    if operator is None:
        return False
    try:
        return not Call(operator, Arguments(args, kwargs)).declaration.fresh
    except (DimsolveError, RuntimeError, TypeError, ValueError):
        return False


def _bare(value: Any) -> Any:
    """Arguments whose tensors have no numbers."""
    match value:
        case Tensor():
            return torch.empty_like(value, device="meta")
        case list() | tuple():
            items = [_bare(item) for item in value]
            return items if isinstance(value, list) else tuple(items)
        case dict():
            return {key: _bare(item) for key, item in value.items()}
        case _:
            return value
