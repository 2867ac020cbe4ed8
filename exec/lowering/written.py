"""What a call writes to, made a rank's own where it is not: autograd allows no writing to what a
conversion returned, nor does whoever else holds it expect that.

    h_all_to_all = all_to_all(h)         the rows of h, cut by columns now
    clone = h_all_to_all.clone()
    add_ = clone.add_(1)                 later uses of h are uses of add_

The plan keeps memory whole that is read under several names, so that nobody else reads the copy.
What an operator itself made is written to in place, as on one device.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dimsolve.ir.node import Node
from dimsolve.partition.planning.aliases import shares

from .program import Origin

if TYPE_CHECKING:
    from torch import fx

OWN = frozenset({"input", "parameter", "buffer", "constant", "size", "copy"})
"""Kinds of steps whose results are the rank's own."""


def with_own_memory(node: Node, operands: list[Any], program: fx.Graph) -> list[Any]:
    """Returns the operands, those that the node writes to as copies where they must be."""
    declaration = node.declaration
    if declaration is None or not declaration.mutates:
        return operands
    found = list(operands)
    for number in declaration.mutates:
        place = declaration.places[number] if number < len(declaration.places) else None
        if place is not None and _foreign(found[place]):
            copy = program.call_method("clone", (found[place],))
            copy.meta["origin"] = Origin("copy", node.id)
            found[place] = copy
    return found


def _foreign(step: Any) -> bool:
    """Whether a step's result is, or is a view of, what a conversion or a rule's function made."""
    meta = getattr(step, "meta", None)
    origin: Origin | None = None if meta is None else meta.get("origin")
    if origin is None or origin.kind in OWN:
        return False
    if origin.kind not in ("operator", "part"):
        return True
    if origin.call is not None and origin.call.local is not None:
        return True
    if origin.kind == "part" or (origin.node is not None and _is_view(origin.node)):
        return any(_foreign(given) for given in step.all_input_nodes)
    return False


def _is_view(node: Node) -> bool:
    declaration = node.declaration
    writes = declaration is not None and bool(declaration.mutates)
    return not writes and any(True for _ in shares(node))
