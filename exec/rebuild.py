"""From the tree of plain containers that is computed to what the model returns, and what it leaves
of its arguments.

    {"loss": ..., "logits": ...}     transformers' CausalLMOutput(loss=..., logits=...)
    a cache that the caller gave     the same object, with the keys and values that the model leaves
    a cache that the model made      a new object of its class, with its attributes
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import is_dataclass
from typing import Any

from dimsolve.ir.errors import Diagnostic, GraphError
from dimsolve.ir.graph import Left, Made, Place

from .calls import resolve
from .capture.argument_objects import fill


class Rebuilder:
    """Puts together what a program hands out. container: the import path of the class that is
    returned, ``""`` for none; left, objects: see `dimsolve.ir.graph.Graph`. device: of the rank.
    """

    def __init__(
        self,
        container: str,
        left: Mapping[Place, Left],
        objects: Mapping[Place, Made],
        device: Any,
    ) -> None:
        self._whole = _maker(container)
        self._left = dict(left)
        self._objects = dict(objects)
        self._device = device
        self._found = {
            place: _class(made.name) if made.kind == "class" else resolve(made.name)
            for place, made in objects.items()
            if made.kind in ("class", "constant")
        }
        self.takes_objects = bool(left) or any(m.kind == "argument" for m in objects.values())

    def __call__(self, tree: Any, given: Mapping[Place, Any]) -> Any:
        """Returns what the model returns; changes what it changes. given: the objects and
        containers of the call's arguments, by their places, where `takes_objects`.
        """
        if not self._left and not self._objects:
            return self._whole(tree)
        made: dict[Place, Any] = {}
        returned = tree["returned"] if self._left else tree
        result = self._made(returned, ("returned",), given, made)
        changed = [
            (place, left, self._parts(tree["left"][number], ("left", number), given, made))
            for number, (place, left) in enumerate(self._left.items())
        ]
        for place, left, parts in changed:
            fill(given[place], parts, left.removed)
        return result if ("returned",) in self._objects else self._whole(result)

    def _parts(
        self, tree: Mapping[Any, Any], place: Place, given: Mapping[Place, Any], made: Any
    ) -> dict[Any, Any]:
        return {key: self._made(item, (*place, key), given, made) for key, item in tree.items()}

    def _made(
        self, tree: Any, place: Place, given: Mapping[Place, Any], made: dict[Place, Any]
    ) -> Any:
        noted = self._objects.get(place)
        if noted is not None and noted.kind == "argument":
            return given[noted.place]
        if noted is not None and noted.kind == "same":
            return made[noted.place]
        match None if noted is None else noted.kind:
            case "constant":
                return self._found[place]
            case "device":
                return self._device
            case "class" if tree is None:
                return None
            case "class":
                return self._object(self._found[place], tree, place, given, made)
        if isinstance(tree, list):
            items: list[Any] = []
            made[place] = items
            items += [self._made(x, (*place, n), given, made) for n, x in enumerate(tree)]
            return items
        if isinstance(tree, tuple):
            return tuple([self._made(x, (*place, n), given, made) for n, x in enumerate(tree)])
        if isinstance(tree, Mapping):
            found: dict[Any, Any] = {}
            made[place] = found
            found.update(self._parts(tree, place, given, made))
            return found
        return tree

    def _object(
        self, cls: Any, tree: Any, place: Place, given: Mapping[Place, Any], made: dict[Place, Any]
    ) -> Any:
        """An object of a class: a dict, a list or a tuple by its items, others by attributes."""
        if issubclass(cls, tuple):
            items = [self._made(x, (*place, n), given, made) for n, x in enumerate(tree)]
            return cls(*items) if hasattr(cls, "_fields") else cls(items)
        if issubclass(cls, list):
            made[place] = cls(self._made(x, (*place, n), given, made) for n, x in enumerate(tree))
            return made[place]
        if issubclass(cls, dict):
            parts = self._parts(tree, place, given, made)
            make: Callable[..., Any] = cls
            made[place] = make(**parts) if is_dataclass(cls) else make(parts)
            return made[place]
        made[place] = object.__new__(cls)
        fill(made[place], self._parts(tree, place, given, made))
        return made[place]


def _class(path: str) -> type:
    """The class of an import path; GraphError where there is something else."""
    found = resolve(path)
    if not isinstance(found, type):
        raise GraphError(
            Diagnostic(
                code="no-class",
                title="the graph returns an object of what is no class",
                reason=f"{path} is a {type(found).__name__}",
                hint="trace the model again",
            )
        )
    return found


def _maker(path: str) -> Callable[[Any], Any]:
    """Returns what makes the container of an import path: a dict, a tuple or a dataclass of a class
    of its own. ``""``, and whatever is none of these, leaves trees as they are.
    """
    if not path:
        return lambda tree: tree
    container: Any = resolve(path)
    if not isinstance(container, type) or not (
        issubclass(container, tuple | dict) or is_dataclass(container)
    ):
        return lambda tree: tree
    if hasattr(container, "_fields"):
        return lambda tree: container(*tree)

    make: Callable[..., Any] = container

    def rebuild(tree: Any) -> Any:
        return make(**tree) if isinstance(tree, Mapping) else make(tree)

    return rebuild
