"""Which calls run under autocast: what they make may have another dtype than their arguments say.

%mode = _enter_autocast("cpu", torch.bfloat16, True, None)
%y: bfloat16[4, 4] = linear(%x, %w)           of float32 arguments
_exit_autocast(%mode)
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from dimsolve.ir.node import Node
from dimsolve.ir.types import TensorType

from .deduction import Outcome

if TYPE_CHECKING:
    from dimsolve.ir.graph import Graph

ENTER = "torch.amp.autocast_mode._enter_autocast"
EXIT = "torch.amp.autocast_mode._exit_autocast"


class Autocast:
    """Reads a graph's nodes as they are added. ``_read``: whether each runs under autocast."""

    def __init__(self, graph: Graph) -> None:
        self._graph = graph
        self._read: dict[int, bool] = {}
        self._open = 0

    def without_dtypes(self, node: Node, outcome: Outcome) -> Outcome:
        """Returns what is known of a call; nothing of dtypes, where it runs under autocast."""
        if not self._runs_under(node):
            return outcome
        types = [replace(t, dtype=None) if isinstance(t, TensorType) else t for t in outcome.types]
        return replace(outcome, types=tuple(types))

    def _runs_under(self, node: Node) -> bool:
        nodes = self._graph.nodes()
        for later in nodes[len(self._read) :]:
            self._open += (later.signature == ENTER) - (later.signature == EXIT)
            self._read[id(later)] = self._open > 0
        return self._read.get(id(node), self._open > 0)
