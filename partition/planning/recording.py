"""Whether gradients are recorded, from node to node of a graph.

torch._C._set_grad_enabled(False)      no longer
torch._C._set_grad_enabled(%outer)     as outside of the model: planned for training, they are
"""

from __future__ import annotations

from dimsolve.ir.node import Node

SWITCH = "torch._C._set_grad_enabled"


def recorded_after(node: Node, recorded: bool) -> bool:
    """Returns whether gradients are recorded after a node, given whether they were before it."""
    if node.signature != SWITCH or not node.args:
        return recorded
    return node.args[0] is not False
