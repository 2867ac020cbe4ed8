"""Repeated layers found: a long list of calls becomes a few sections, each written once.

model.embed_tokens, model.layers.0.mlp, model.layers.1.mlp, lm_head
    ""              embed_tokens     ""
    model.layers    mlp              layers 0, 1
    ""              lm_head          ""

Two layers are one section only where all their items have equal keys: what is drawn once is true
of each.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass
from typing import Generic, TypeAlias, TypeVar

Item = TypeVar("Item")
Layer: TypeAlias = "tuple[str, int] | None"


@dataclass(frozen=True, slots=True)
class Section(Generic[Item]):
    """Items of the layers ``numbers`` of ``path``: those of the first one. Outside of repeated
    layers the path is "" and there are no numbers.
    """

    path: str
    numbers: tuple[int, ...]
    items: tuple[Item, ...]

    def within(self, module: str) -> str:
        """Returns the path of an item's module within its layer: ``mlp.gate_proj``."""
        return _within(module, (self.path, self.numbers[0]) if self.numbers else None)

    @property
    def title(self) -> str:
        """Which layers these are: ``model.layers.0 to 31``."""
        if not self.numbers:
            return ""
        first, last = self.numbers[0], self.numbers[-1]
        return f"{self.path}.{first} to {last}".removeprefix(".")


def sections(
    items: Iterable[Item],
    module: Callable[[Item], str],
    key: Callable[[Item, str], Hashable],
) -> list[Section[Item]]:
    """Returns the items in sections, in order.

    module: the path of an item. key: what must be equal in repeated layers; it is given the item's
    path within its layer.

    >>> found = sections(["a", "l.0.x", "l.1.x", "b"], str, lambda item, path: path)
    >>> [(section.title, section.items) for section in found]
    [('', ('a',)), ('l.0 to 1', ('l.0.x',)), ('', ('b',))]
    """
    merged: list[tuple[Layer, list[int], list[Item], list[Hashable]]] = []
    for layer, run in _runs(list(items), module):
        keys = [key(item, _within(module(item), layer)) for item in run]
        last = merged[-1] if merged else None
        if layer and last and last[0] and last[0][0] == layer[0] and last[3] == keys:
            last[1].append(layer[1])
        else:
            merged.append((layer, [layer[1]] if layer else [], run, keys))
    found: list[Section[Item]] = []
    for layer, numbers, run, _ in merged:
        if layer and len(numbers) > 1:
            found.append(Section(layer[0], tuple(numbers), tuple(run)))
        elif found and not found[-1].numbers:
            found[-1] = Section("", (), (*found[-1].items, *run))
        else:
            found.append(Section("", (), tuple(run)))
    return found


def runs_of(items: Iterable[Item], module: Callable[[Item], str]) -> list[tuple[str, list[Item]]]:
    """Returns the items in runs of one module each.

    >>> runs_of(["a.x", "a.x", "b"], str)
    [('a.x', ['a.x', 'a.x']), ('b', ['b'])]
    """
    runs: list[tuple[str, list[Item]]] = []
    for item in items:
        if not runs or runs[-1][0] != module(item):
            runs.append((module(item), []))
        runs[-1][1].append(item)
    return runs


def _runs(items: Sequence[Item], module: Callable[[Item], str]) -> list[tuple[Layer, list[Item]]]:
    """Runs of one layer each; an item without a module stays in the run that it stands in."""
    runs: list[tuple[Layer, list[Item]]] = []
    for item in items:
        path = module(item)
        layer = _layer(path)
        if runs and (layer == runs[-1][0] or not path):
            runs[-1][1].append(item)
        else:
            runs.append((layer, [item]))
    return runs


def _layer(path: str) -> Layer:
    """The outermost numbered module of a path: ``model.layers.0.mlp`` is in (model.layers, 0)."""
    names = path.split(".")
    for place, name in enumerate(names):
        if name.isdecimal() and name.isascii():
            return ".".join(names[:place]), int(name)
    return None


def _within(path: str, layer: Layer) -> str:
    if layer is None:
        return path
    start = f"{layer[0]}.{layer[1]}" if layer[0] else str(layer[1])
    return path.removeprefix(start).removeprefix(".") if path else path
