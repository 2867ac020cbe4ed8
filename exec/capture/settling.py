"""What a call leaves in a model for the next one, where that changes nothing: settings that a first
call finds out, and tensors that it computes once and keeps.

    if self.pe is None:                     captured as in a first call: the program makes them in
        self.pe = table(512, 64)            every call
    return x + self.pe[: x.shape[1]]

A kept tensor must be made of nothing that can differ in another call: no input, parameter or random
number, nothing that the program writes. Its length may be that of an input, as that of rotary
tables mostly is. Whether the next call computes the same is asked of the model: it is captured
again with what the first call left, and the steps must be the same, with the kept tensor in the
place of the steps that make it.

    lengths fixed             the first call at these lengths, and the next one
    a kept length             and calls at other lengths, which must make the tensor anew
"""

from __future__ import annotations

import operator
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import torch
from torch.fx import GraphModule, Interpreter, Node
from torch.fx.node import map_arg
from torch.utils._python_dispatch import TorchDispatchMode

from ..modes import modes_kept
from .side_effects import ARGUMENTS, IN_PLACE, MISSING, Settling

ONLY_DTYPES = ("type_as",)
"""Methods that take nothing of a second tensor but its dtype and device."""


class Steps(NamedTuple):
    """What one capture found: the program, and the values behind its placeholders."""

    module: GraphModule
    examples: Sequence[Any]
    settling: Sequence[Settling]

    @property
    def nodes(self) -> list[Node]:
        """Returns the steps in order."""
        return list(self.module.graph.nodes)

    @property
    def outputs(self) -> list[Node]:
        """Returns the steps whose results are handed out."""
        results: Any = self.nodes[-1].args[0]
        return list(results)

    def example(self, node: Node) -> Any:
        """Returns the value behind a placeholder."""
        places = [each for each in self.nodes if each.op == "placeholder"]
        return self.examples[places.index(node)]


def kept_values(steps: Steps) -> dict[int, Any]:
    """Returns what a call leaves in every attribute that it sets with a computed value, by the
    entry's place in ``settling``. What was not looked at and may differ from call to call is left
    out. Raises the refusal of an entry that was looked at and may.
    """
    found: dict[int, Any] = {}
    for number, entry in enumerate(steps.settling):
        if entry.made is None:
            continue
        try:
            with modes_kept():
                found[number] = _value(steps, entry.made)
        except _Differs:
            if entry.looked_at:
                raise entry.refusal from None
    return found


def _value(steps: Steps, wanted: Node) -> Any:
    """What a step gives in every call alike; _Differs where it may not."""
    if _is_length(wanted):
        return _number(wanted.meta["example_value"])
    made = _made_by(steps.nodes, [wanted])
    env: dict[Node, Any] = {}
    interpreter = Interpreter(steps.module)
    interpreter.env = env
    for node in steps.nodes:
        if node not in made:
            continue
        if _is_length(node):
            env[node] = _number(node.meta["example_value"])
        elif node.op == "placeholder":
            env[node] = steps.example(node)
            if not _is_constant(node, env[node]) or node in made.written:
                raise _Differs
        else:
            for lent in node.all_input_nodes:
                if lent not in env:  # only its dtype is asked for
                    fake: Any = lent.meta["example_value"]
                    env[lent] = torch.empty(0, dtype=fake.dtype, device=fake.device)
            with _NotRandom():
                env[node] = interpreter.run_node(node)
    return env[wanted]


def has_lengths(steps: Steps, kept: Iterable[int]) -> bool:
    """Returns whether what a call leaves depends on a length that is dynamic."""
    made = _made_by(steps.nodes, [steps.settling[number].made for number in kept])
    return any(map(_is_length, made))


def compute_alike(first: Steps, other: Steps, kept: Mapping[int, Any] | None = None) -> bool:
    """Returns whether two calls compute the same. kept: what the first has left, which the other
    has found; None where the other must make it anew.
    """
    names = _Names()
    mine = names.of(first, {})
    if kept is None:
        theirs = names.of(other, {})
        return _computed(mine) == _computed(theirs) and _left(first, mine) == _left(other, theirs)
    makers = {number: first.settling[number].made for number in kept}
    given = {id(value): mine[makers[n]] for n, value in kept.items() if makers[n] in mine}
    theirs = names.of(other, given)
    found = [n for n in theirs if n.op == "placeholder" and id(other.example(n)) in given]
    if any(entry.looked_at for entry in other.settling) or _made_by(other.nodes, found).written:
        return False
    again = set(_computed(theirs))
    made = _made_by(first.nodes, makers.values())
    mine = {node: key for node, key in mine.items() if node not in made or key in again}
    return _computed(mine) == _computed(theirs)


def _computed(names: Mapping[Node, int]) -> list[int]:
    return [number for node, number in names.items() if node.op != "placeholder"]


def _left(steps: Steps, names: Mapping[Node, int]) -> list[tuple[str, Any]]:
    """What a call leaves in the model, by the steps that make it."""
    return [
        (entry.name, names.get(entry.made, str(entry.made and entry.made.meta["example_value"])))
        for entry in steps.settling
    ]


def drop_kept(
    module: GraphModule, stand_ins: Sequence[Any], settling: Iterable[Settling], result: Any
) -> Any:
    """Takes what a call only leaves in the model out of what the program hands out; returns the
    other stand-ins. result: the ids of what is in the model's result.
    """
    computed = any(entry.made is not None for entry in settling)
    output = next(node for node in module.graph.nodes if node.op == "output")
    pairs = [
        (node, stand_in)
        for node, stand_in in zip(output.args[0], stand_ins, strict=True)
        if not computed or id(stand_in) in result
    ]
    output.args = (type(output.args[0])(node for node, _ in pairs),)
    return tuple(stand_in for _, stand_in in pairs)


class _Made(set[Node]):
    """Steps that something is made by. written: those whose results are written in place."""

    written: set[Node]


def _made_by(nodes: Sequence[Node], wanted: Iterable[Node | None]) -> _Made:
    """The steps that make something, back to lengths, and the steps that write to them."""
    found = _Made(node for node in wanted if node is not None)
    found.written = set()
    size = -1
    while size != len(found):
        size = len(found)
        for node in reversed(nodes):
            if node in found and not _is_length(node):
                found.update(_operands(node))
        for node in nodes:
            if _writes(node):
                chain = set(_chain(node))
                if chain & found:
                    found.add(node)
                    found.written |= chain
    return found


def _operands(node: Node) -> list[Node]:
    if node.target in ONLY_DTYPES:
        written: Any = node.args[0]
        return [written]
    return node.all_input_nodes


def _writes(node: Node) -> bool:
    name = node.target if isinstance(node.target, str) else getattr(node.target, "__name__", "")
    if node.op not in ("call_function", "call_method"):
        return False
    in_place = name.endswith("_") and not name.endswith("__")
    return in_place or node.target in IN_PLACE or node.target in (operator.setitem, "__setitem__")


def _chain(node: Node) -> Iterator[Node]:
    """A step, and what it may be a view of."""
    while True:
        yield node
        if not node.args or not isinstance(node.args[0], Node):
            return
        node = node.args[0]


def _is_length(node: Node) -> bool:
    """Whether a step gives a number or a shape, of which the values at capture are known."""
    found = node.meta.get("example_value")
    return isinstance(found, int | float | torch.SymInt | torch.SymFloat | torch.Size)


def _number(value: Any) -> Any:
    if isinstance(value, torch.Size):
        return torch.Size(map(_number, value))
    symbolic = getattr(value, "node", None)
    return value if symbolic is None else symbolic.hint


def _place(node: Node) -> str:
    source = node.meta.get("source")
    return "" if source is None else str(source.name)


def _is_constant(node: Node, example: Any) -> bool:
    """Whether what is behind a placeholder belongs to the model and is not trained."""
    place = _place(node)
    trained = isinstance(example, torch.nn.Parameter) or example.requires_grad
    return bool(place) and not place.startswith(ARGUMENTS) and not trained


class _Names:
    """Numbers for steps: two have the same where they are the same function of the same."""

    def __init__(self) -> None:
        self.known: dict[str, int] = {}

    def of(self, steps: Steps, given: Mapping[int, int]) -> dict[Node, int]:
        found: dict[Node, int] = {}
        for node in steps.nodes[:-1]:
            if node.op == "placeholder":
                example = steps.example(node)
                of_call = _place(node).startswith(ARGUMENTS)
                text = _place(node) if of_call else f"held {id(example)}"
                number = given.get(id(example))
                found[node] = self._number(text) if number is None else number
            else:
                args = map_arg((node.args, node.kwargs), lambda n: f"%{found[n]}")
                found[node] = self._number(f"{node.op} {node.target} {args}")
        return found

    def _number(self, text: str) -> int:
        return self.known.setdefault(text, len(self.known))


class _Differs(Exception):
    """A step may give something else in another call."""


class _NotRandom(TorchDispatchMode):
    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if torch.Tag.nondeterministic_seeded in func.tags:
            raise _Differs
        return func(*args, **(kwargs or {}))


def bring_back(settling: Sequence[Settling]) -> None:
    """Gives a model's attributes the values that they had before a call."""
    for entry in reversed(settling):
        _set(entry, entry.was)


def settle(settling: Sequence[Settling], kept: Mapping[int, Any]) -> None:
    """Gives a model's attributes the tensors and lengths that a call has left there."""
    for number, value in kept.items():
        _set(settling[number], value)


def _set(entry: Settling, value: Any) -> None:
    held = entry.owner if isinstance(entry.owner, dict) else None
    if value is not MISSING:
        setattr(entry.owner, entry.name, value) if held is None else held.update(
            {entry.name: value}
        )
    elif held is not None:
        held.pop(entry.name, None)
    elif hasattr(entry.owner, entry.name):
        delattr(entry.owner, entry.name)
