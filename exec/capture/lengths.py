"""Lengths that a model returns: captured as values, not as the example's numbers.

torch hands a tensor of the program out as a stand-in that can be found again. A length it makes
anew, as a plain integer of the example. So a model whose result holds integers is captured once
more, with each of them given to `hand_out` on the way out: a call in the program that stands for
its argument.

    return x + 1, x.shape        (%add, (hand_out(batch), hand_out(8)))
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any

PLAIN = (bool, int, float, complex, str, bytes, type(None))
HAND_OUT = "dimsolve.exec.capture.lengths.hand_out"


def holds_lengths(result: Any) -> bool:
    """Returns whether a result holds integers outside of objects of unknown classes."""
    if isinstance(result, bool) or result is None:
        return False
    if isinstance(result, int):
        return True
    if isinstance(result, Mapping):
        return any(map(holds_lengths, result.values()))
    if isinstance(result, list | tuple):
        return any(map(holds_lengths, result))
    if dataclasses.is_dataclass(result) and not isinstance(result, type):
        return any(holds_lengths(getattr(result, f.name)) for f in dataclasses.fields(result))
    return False


def with_lengths(model: Callable[..., Any]) -> Callable[..., Any]:
    """Returns the model as a function that hands its lengths out as tensors. What it returns is
    made of dicts, lists and tuples.
    """
    hand_out = _hand_out()

    def given(result: Any) -> Any:
        if isinstance(result, bool):
            return result
        if isinstance(result, int):
            return hand_out(result)
        if isinstance(result, dict):
            return {key: given(item) for key, item in result.items()}
        if isinstance(result, list):
            return [given(item) for item in result]
        if isinstance(result, tuple):
            return tuple([given(item) for item in result])
        if dataclasses.is_dataclass(result):
            return {f.name: given(getattr(result, f.name)) for f in dataclasses.fields(result)}
        return result

    def call(*args: Any, **kwargs: Any) -> Any:
        return given(model(*args, **kwargs))

    return call


@lru_cache(maxsize=1)
def _hand_out() -> Callable[[int], Any]:
    import torch

    found: Callable[[int], Any] = torch.compiler.allow_in_graph(hand_out)
    return found


def hand_out(length: int) -> Any:
    """Returns a tensor without meaning that stands for the length."""
    import torch

    return torch.empty(0)
