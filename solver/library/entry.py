"""One line of the library: a torch callable, its declaration, and calls that show and verify it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

from dimsolve.ir.operator import Declaration

from .samples import Example

Form: TypeAlias = "Callable[..., Declaration]"
"""Takes the arguments of one call of a torch callable and returns what it promises for it."""


@dataclass(frozen=True, slots=True)
class Entry:
    """``path`` is where the function is imported from; ``declare`` takes its arguments and returns
    a Declaration.

    examples: calls with shapes that show the operator; `verify` runs them whole and split. note:
    what a user should know, for ``dimsolve ops``.
    """

    path: str
    declare: Form
    examples: tuple[Example, ...]
    note: str = ""


def entry(path: str, declare: Form, *examples: Example, note: str = "") -> Entry:
    """Returns an Entry.

    >>> entry("torch.cos", Declaration).path
    'torch.cos'
    """
    return Entry(path, declare, examples, note)
