"""The public ``dimsolve.Graph``: a graph that deduces its types, and that can be run, checked for
legality and cut.

with dimsolve.Graph("f") as g:
    x = g.input("x", "n, 4", "float32")
    g.output(g.call("exp", x))
g.run(torch.ones(3, 4))          runs it on this device, shapes checked
g.legal_parts("n")               which counts the dimension n may be cut into
"""

from __future__ import annotations

from typing import Any

from dimsolve.solver.typed_graph import TypedGraph


class Graph(TypedGraph):
    """A function of typed values: see `dimsolve.solver.typed_graph` for building and asking."""

    def run(self, *args: Any, state: Any = None, externals: Any = None, **kwargs: Any) -> Any:
        """Runs the graph on one device and returns what it returns.

        args, kwargs: its inputs, by position or by name. state: the module, or the mapping of
        qualified names to tensors, that gives parameters and buffers. externals: the functions that
        are known by name only. Raises ShapeError where a shape is not what a pattern or a parameter
        says.
        """
        from .run import run

        return run(self, args, kwargs, state=state, externals=externals)
