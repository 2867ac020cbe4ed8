"""Switches of torch's modes in a captured program, as calls of a graph.

    with torch.no_grad():                 %outer = is_grad_enabled()
        gate = h.sigmoid()                _set_grad_enabled(False)
                                          %gate = sigmoid(%h)
                                          _set_grad_enabled(%outer)

torch captures the end of a ``no_grad`` as a switch to True, because gradients were recorded where
it captured. The graph may run where they are not, so it goes back to what it found there.
"""

from __future__ import annotations

from typing import Any

from dimsolve.ir.node import Argument, Node, OperatorCall, Value
from dimsolve.ir.types import ScalarType
from dimsolve.partition.planning.recording import SWITCH

from ..graph import Graph
from ..modes import OUTER
from .capture_errors import inference_mode
from .fx_names import line_of_the_model

INFERENCE = "torch.autograd.grad_mode._enter_inference_mode"


class Switches:
    """Puts a graph's switches into a form that does not depend on the modes outside of it."""

    def __init__(self, graph: Graph) -> None:
        self._graph = graph
        self._outer: Value | None = None

    def arguments(self, path: str, args: tuple[Argument, ...], node: Any) -> tuple[Argument, ...]:
        """Returns a call's arguments; of a switch to True, the mode outside of the model.

        Raises TraceError for inference mode.
        """
        if path == INFERENCE:
            raise inference_mode(line_of_the_model(node))
        if path != SWITCH:
            return args
        if self._outer is None:
            self._outer = self._outer_mode()
        return (self._outer,) if args == (True,) else args

    def _outer_mode(self) -> Value:
        graph = self._graph
        node = Node(graph.fresh_name("outer"), OperatorCall(OUTER), (), {}, name="is_grad_enabled")
        node.declaration = graph.propagation.outcome(node).declaration
        graph.add_node(node, (ScalarType("bool"),))
        return node.output
