"""What a model does to itself while it runs: attributes that it assigns, lists that it appends to.

    self.calls += 1; return y * self.calls      refused: a program computes every call alike
    self.calls += 1; return y                   nothing reads the counter, and no program counts
    self.last = y                               nothing that is computed depends on it
    if self.kind is None: self.kind = "mean"    the next call leaves it so, and computes the same
    self.mean.mul_(0.9)                         a call on a buffer, part of every program

torch notes what it would have to repeat after a call, and which attributes it has looked at. What
is both looked at and assigned would stay in a program as it was in the first call.
"""

from __future__ import annotations

import dis
import operator
import re
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from types import FrameType, FunctionType
from typing import Any, NamedTuple

from dimsolve.ir.graph import Source
from dimsolve.solver.graphs.names import source

from .aten import named
from .errors import TraceError, keeps_state

ARGUMENTS = ("L['args']", "L['kwargs']")
"""Where what belongs to the caller is found."""

_PLAIN = (bool, int, float, complex, str, type(None))

_UNKNOWN = (AttributeError, NotImplementedError)
"""What torch's variables raise where they know nothing of what they are asked."""

_REGISTERED = re.compile(r"(\.__dict__\['|\.)_(buffers|parameters|modules)('\])?$")
"""Where a module has what is registered."""


_LASTING = "_non_persistent_buffers_set"
"""Where a module has the names of buffers that are not saved; setting one takes it out and puts it
back.
"""

_SIGNS = "add sub mul truediv floordiv mod pow and or xor lshift rshift"
IN_PLACE = frozenset(getattr(operator, f"i{sign}") for sign in _SIGNS.split())
"""``+=`` and its kin, which give a tensor back that they wrote to."""


MISSING = object()
"""What an attribute was that was not there."""


class Settling(NamedTuple):
    """An attribute that a call has set: a later call may well leave it so.

    owner, name, was: how to bring it back; an entry of a dict where the owner is one. refusal: what
    to say where it never rests. made: the step of the program that makes its value; None for any
    other. looked_at: whether the call has read it.
    """

    owner: Any
    name: str
    was: Any
    refusal: TraceError
    made: Any = None
    looked_at: bool = True


def refusal_of(model: Any, settling: list[Settling]) -> TraceError | None:
    """Returns why a model that is being captured cannot be a program; None where nothing is kept
    from call to call. To be called by a backend, while torch compiles. settling: is given the
    attributes that the call sets to plain or computed values, which only another call can judge.
    """
    output = _being_captured()
    if output is None:
        return None
    looked_at = {str(guard.name) for guard in output.guards}
    effects = output.side_effects
    variables = list(effects.id_to_variable.values())
    owners = {_place(v): _object(v) for v in variables if _place(v)}
    for variable in variables:
        place = _place(variable)
        existed = type(getattr(variable, "mutation_type", None)).__name__.endswith("Existing")
        of_the_caller = place.startswith(ARGUMENTS)
        if not place or of_the_caller or not existed or not effects.is_modified(variable):
            continue
        stored: Mapping[str, Any] = effects.store_attr_mutations.get(variable, {})
        if not stored:
            replaced = _replaced(place, variable, owners)
            if replaced == []:
                continue
            refusal = _of_container(model, place, replaced, owners)
            held = _held(place, owners)
            kept = None if held is None else _kept(held, variable, refusal)
            if not kept:
                return refusal
            settling += kept
        for name, value in stored.items():
            owner = owners.get(place)
            if owner is not None and _place(value) == f"{place}.{name}":
                continue
            values = _values(owner, name, value)
            if values is not None and _are_same(*values):
                continue
            if hasattr(owner, "named_modules") and _is_counted(output, name, values):
                continue
            attribute = place if place == f"G['{name}']" else f"{place}.{name}"
            was = getattr(owner, name, MISSING)
            read = attribute in looked_at or not hasattr(owner, "named_modules")
            refusal = _keeps(model, owner, name, "STORE_ATTR")
            made = _step(value)
            if read and (owner is None or (made is None and not _are_plain(values))):
                return refusal
            settling.append(Settling(owner, name, was, refusal, made, read))
    return None


def _are_plain(values: tuple[Any, Any] | None) -> bool:
    return values is not None and all(isinstance(each, _PLAIN) for each in values)


def _held(place: str, owners: Mapping[str, Any]) -> Any:
    """The dict at a place of the model: of its buffers, or one of its own; None for others."""
    registered = _REGISTERED.search(place)
    if registered is not None:
        owner = owners.get(place[: registered.start()])
        return owner if registered[2] == "buffers" else None
    home, _, name = place.rpartition(".")
    held = getattr(owners.get(home), name, None) if name.isidentifier() else owners.get(place)
    return held if type(held) is dict else None


def _kept(held: Any, variable: Any, refusal: TraceError) -> list[Settling] | None:
    """The entries of a dict, or the buffers of a module, that are set to tensors that the program
    makes; None where anything else changes.
    """
    before = held if isinstance(held, dict) else held._buffers
    try:
        after = {getattr(k, "vt", k).as_python_constant(): v for k, v in variable.items.items()}
    except _UNKNOWN:
        return None
    if before.keys() - after.keys():
        return None
    found = []
    for name, item in after.items():
        made = _step(item)
        if made is None or made.op == "placeholder":
            known = name in before and (before[name] is None or made is not None)
            if not known and not (name in before and _object(item) is before[name]):
                return None
            continue
        found.append(Settling(held, name, before.get(name, MISSING), refusal, made))
    return found


def _step(variable: Any) -> Any:
    """The step of the program that makes a tensor or a length; None for any other value."""
    return getattr(getattr(variable, "proxy", None), "node", None)


def _being_captured() -> Any:
    """torch's record of the program that it captures, from the frames that called us."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        found = frame.f_locals.get("self")
        if type(found).__name__ == "OutputGraph":
            return found
        frame = frame.f_back
    return None


def _place(variable: Any) -> str:
    """Where torch has a value from, as an expression; ``""`` for one that is made on the way."""
    try:
        return str(variable.source.name)
    except _UNKNOWN:
        return ""


def _object(variable: Any) -> Any:
    """The object that a variable stands for; None where it has none of its own."""
    try:
        return variable.value
    except _UNKNOWN:
        return None


def _values(owner: Any, name: str, value: Any) -> tuple[Any, Any] | None:
    """What an attribute is before a call and after it; None where torch does not know."""
    try:
        return getattr(owner, name), value.as_python_constant()
    except _UNKNOWN:
        return None


def _constant(variable: Any) -> Any:
    """The value of a variable that is no tensor; None where torch does not know it."""
    try:
        return variable.as_python_constant()
    except _UNKNOWN:
        return None


def _are_same(was: Any, now: Any) -> bool:
    return was is now or (type(was) is type(now) and isinstance(was, _PLAIN) and bool(was == now))


def _is_counted(output: Any, name: str, values: tuple[Any, Any] | None) -> bool:
    """Whether a module's attribute is a counter that nothing computed depends on: all code of the
    capture that names it says ``x.name += 1`` or ``x.name = x.name + 1``.
    """
    if values is None or {type(value) for value in values} != {int}:
        return False
    codes = [output.root_tx.f_code, *output.tracing_context.traced_code]
    uses = [is_count for code in codes for is_count in _uses(code, name)]
    return bool(uses) and all(uses)


def _uses(code: Any, name: str) -> Iterator[bool]:
    """Of each place where code reads an attribute of this name: whether that is to count."""
    steps = [step for step in dis.get_instructions(code) if step.opname != "EXTENDED_ARG"]
    for place, step in enumerate(steps):
        if step.opname.startswith("LOAD_CONST") and step.argval == name:
            yield False  # as in getattr(self, "calls")
        if step.argval == name and step.opname.startswith(("LOAD_ATTR", "LOAD_METHOD")):
            after = steps[place + 1 : place + 5]
            yield (
                len(after) == 4
                and type(after[0].argval) is int
                and after[1].opname == "BINARY_OP"
                and after[1].argrepr in ("+", "+=")
                and after[3].opname == "STORE_ATTR"
                and after[3].argval == name
            )


def _replaced(place: str, variable: Any, owners: Mapping[str, Any]) -> list[str] | None:
    """The names under which a dict of what is registered has something else in the end; None for
    another container. ``self.count += 1`` computes in place, and puts the buffer where it was.
    """
    home, _, name = place.rpartition(".")
    if name == _LASTING:
        is_set = getattr(owners.get(home), name, None) == _constant(variable)
        return [] if is_set else None
    registered = _REGISTERED.search(place)
    if registered is None:
        return None
    before = getattr(owners.get(place[: registered.start()]), f"_{registered[2]}", {})
    after = {getattr(k, "vt", k).as_python_constant(): item for k, item in variable.items.items()}
    changed = [
        name
        for name, item in after.items()
        if name not in before
        or not (_place(item) == f"{place}[{name!r}]" or _is_written(item, before[name]))
    ]
    return [*changed, *(name for name in before if name not in after)]


def _is_written(variable: Any, before: Any) -> bool:
    """Whether a value is the tensor that was there before the call, written in place."""
    if before is None:
        return _constant(variable) is None and _step(variable) is None
    node = getattr(getattr(variable, "proxy", None), "node", None)
    while node is not None and node.op != "placeholder":
        name = node.target if node.op == "call_method" else getattr(node.target, "__name__", "")
        method = name.endswith("_") and not name.endswith("__")
        in_place = node.target in IN_PLACE or method
        node = node.args[0] if in_place and node.args else None
    return node is not None and getattr(node.meta.get("grapharg"), "example", None) is before


def _of_container(
    model: Any, place: str, replaced: list[str] | None, owners: Mapping[str, Any]
) -> TraceError:
    registered = _REGISTERED.search(place)
    if registered is not None and replaced:
        return _keeps(model, owners.get(place[: registered.start()]), replaced[0], "STORE_ATTR")
    home, _, name = place.rpartition(".")
    if not name.isidentifier():
        name = place.partition("['")[2].partition("']")[0] or place
    return _keeps(model, owners.get(home), name, "LOAD_ATTR")


def _keeps(model: Any, owner: Any, name: str, instruction: str) -> TraceError:
    """The refusal of an attribute, by its module's qualified name, and its line."""
    path = next((path for path, module in named(model, "named_modules") if module is owner), "")
    return keeps_state(_line_of(owner, name, instruction), name=f"{path}.{name}" if path else name)


def _line_of(owner: Any, name: str, instruction: str) -> Source | None:
    """The line of an owner's methods that assigns an attribute, or loads it."""
    for cls in () if owner is None else type(owner).__mro__[:-1]:
        for function in vars(cls).values():
            if not isinstance(function, FunctionType) or function.__name__ == "__init__":
                continue
            for step in dis.get_instructions(function):
                if step.opname == instruction and step.argval == name and step.positions:
                    return source(function.__code__.co_filename, step.positions.lineno or 0)
    return None


@contextmanager
def unchanged(model: Any) -> Iterator[None]:
    """A block after which a model's modules have the attributes that they had before it."""
    modules = [module for _, module in named(model, "named_modules")]
    before = [(module, dict(module.__dict__)) for module in modules]
    inside = [
        (item, _content(item))
        for _, attributes in before
        for item in attributes.values()
        if isinstance(item, dict | list | set)
    ]
    try:
        yield
    finally:
        for module, attributes in before:
            module.__dict__.clear()
            module.__dict__.update(attributes)
        for item, content in inside:
            now = _content(item)
            if len(now) != len(content) or any(map(operator.is_not, now, content)):
                _refill(item, content)


def _content(item: Any) -> list[Any]:
    """What a container holds, read past methods that its class may forbid or change."""
    if isinstance(item, dict):
        return [part for pair in dict.items(item) for part in pair]
    return list(list.__iter__(item) if isinstance(item, list) else set.__iter__(item))


def _refill(item: Any, content: list[Any]) -> None:
    """Fills a container with what it held. Only what has changed comes here, so that one which
    forbids writing is left alone.
    """
    if isinstance(item, list):
        item[:] = content
        return
    item.clear()
    pairs = isinstance(item, dict)
    item.update(zip(content[::2], content[1::2], strict=True) if pairs else content)
