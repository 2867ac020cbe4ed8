"""What `verify` is asked with: counts, a seed, a device, calls; checked before anything runs.

verify(f, counts=2)            counts is not a list of counts: [2]
verify(f, args=torch.ones(3))  args is not a list of arguments: (tensor,)
verify(f, device="nope")       there is no such device
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from dimsolve.ir.errors import Diagnostic, OperatorError
from dimsolve.ir.wrong_types import written, wrong_type
from dimsolve.solver.parameters import to_whole

from ..arguments import Arguments
from .check_whole import lack_of_values

Example = tuple[Sequence[Any], Mapping[str, Any]]

MOST_PARTS = 1024
"""More parts than this are not run in one process."""


@dataclass(frozen=True, slots=True)
class Given:
    """The calls that are given, and how they are split."""

    examples: list[Example]
    counts: tuple[int, ...]
    seed: int
    device: str


def read_given(args: Any, kwargs: Any, examples: Any, counts: Any, seed: Any, device: Any) -> Given:
    """Returns what `verify` was asked with. Raises AnnotationError for parameters that cannot be
    read, and OperatorError for a device or a tensor that nothing can run on.
    """
    calls = _examples(examples)
    if args is not None or kwargs is not None:
        calls.append(_call("args", args, "kwargs", kwargs))
    for positional, named in calls:
        _check_tensors(Arguments(tuple(positional), dict(named)))
    number = to_whole("seed", seed, 0, 2**63 - 2)
    return Given(calls, _counts(counts), number, _device(device))


def _counts(counts: Any) -> tuple[int, ...]:
    hint = "give the numbers of parts, such as (2, 3, 4)"
    if not isinstance(counts, Iterable) or isinstance(counts, str | bytes | Mapping):
        raise wrong_type("counts", counts, "a list of counts", hint)
    found = tuple(to_whole("a count", count, 2, MOST_PARTS) for count in counts)
    if not found:
        raise wrong_type("counts", counts, "a list of at least one count", hint)
    return tuple(dict.fromkeys(found))


def _examples(examples: Any) -> list[Example]:
    hint = "give calls, such as [((x, w), {})]"
    if examples is None:
        return []
    if not isinstance(examples, Iterable) or isinstance(examples, str | Mapping | torch.Tensor):
        raise wrong_type("examples", examples, "a list of calls", hint)
    calls: list[Example] = []
    for number, example in enumerate(examples):
        if not isinstance(example, tuple | list) or len(example) != 2:
            raise wrong_type(f"example {number}", example, "a call (args, kwargs)", hint)
        names = f"args of example {number}", f"kwargs of example {number}"
        calls.append(_call(names[0], example[0], names[1], example[1]))
    return calls


def _call(args_name: str, args: Any, kwargs_name: str, kwargs: Any) -> Example:
    if not isinstance(args, tuple | list | None):
        hint = "give the arguments in a tuple, such as (x, w)"
        raise wrong_type(args_name, args, "a list of arguments", hint)
    if not isinstance(kwargs, Mapping | None) or not all(isinstance(n, str) for n in kwargs or ()):
        hint = 'give the arguments by name, such as {"dim": 0}'
        raise wrong_type(kwargs_name, kwargs, "a mapping of names to arguments", hint)
    return args or (), kwargs or {}


def _check_tensors(arguments: Arguments) -> None:
    for place, tensor in arguments.tensors():
        problem = lack_of_values(tensor)
        if problem:
            raise OperatorError(
                Diagnostic(
                    code="no-inputs",
                    title="a call cannot be run and split",
                    reason=f"argument {'.'.join(map(str, place))} {problem}",
                    hint="give tensors that are dense and hold values",
                )
            )


def _device(device: Any) -> str:
    try:
        torch.empty(0, device=device)
    except (RuntimeError, TypeError, AssertionError, NotImplementedError) as error:
        first = str(error).partition("\n")[0]
        raise OperatorError(
            Diagnostic(
                code="device",
                title="nothing can run on this device",
                reason=f"device is {written(device)}: {first:.120}",
                hint='write "cpu", or "cuda" where there is a GPU',
            )
        ) from error
    return str(device)
