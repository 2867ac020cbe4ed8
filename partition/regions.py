"""Regions of a graph in which gradients are not recorded, and those inside ``torch.vmap``.

    torch._C._set_grad_enabled(False)      from here on no gradients
    torch._C._set_grad_enabled(%outer)     as outside of the model: planned for training, recorded

    _vmap_increment_nesting(batch, "error")
    row = _add_batch_dim(x, 0, 1)              (batch, d) -> (d)
    tanh = row.tanh()                          (d)
    whole = _remove_batch_dim(tanh, 1, batch, 0)
    _vmap_decrement_nesting()

A mapping is written out when it is captured, where that says all of it (`exec/capture/mapped.py`).
In one that is left a tensor hides the dimension that is mapped over, and no conversion can be
recorded. So these nodes stay whole, and what they take from outside is converted before the first.
"""

from __future__ import annotations

from collections.abc import Sequence

from dimsolve.ir.graph import (
    Node,
)

SWITCH = "torch._C._set_grad_enabled"


def recorded_after(node: Node, recorded: bool) -> bool:
    """Returns whether gradients are recorded after a node, given whether they were before it."""
    if node.signature != SWITCH or not node.args:
        return recorded
    return node.args[0] is not False


HOME = "torch._functorch.predispatch."


BEGIN, END = f"{HOME}_vmap_increment_nesting", f"{HOME}_vmap_decrement_nesting"

CALLS = frozenset(
    {
        BEGIN,
        END,
        f"{HOME}lazy_load_decompositions",
        f"{HOME}_add_batch_dim",
        f"{HOME}_remove_batch_dim",
    }
)
"""What torch.vmap calls, by import path."""

VMAPPED = "it runs inside torch.vmap"


def mapped_from(nodes: Sequence[Node], start: int) -> Sequence[Node]:
    """Returns the nodes from one that begins a mapping to the one that ends it."""
    depth = 0
    for position in range(start, len(nodes)):
        depth += (nodes[position].signature == BEGIN) - (nodes[position].signature == END)
        if depth == 0:
            return nodes[start : position + 1]
    return nodes[start:]


def mapped_nodes(nodes: Sequence[Node]) -> frozenset[int]:
    """Returns the nodes, by ``id``, that are inside a mapping."""
    found: set[int] = set()
    for position, node in enumerate(nodes):
        if node.signature == BEGIN:
            found.update(map(id, mapped_from(nodes, position)))
    return frozenset(found)
