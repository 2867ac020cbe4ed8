"""Deduction over a whole graph: types flow with the calls and against them until nothing more is
learned.

Forward, a call's arguments give its results. Backward, what a later call asks of a value tells what
the value is: an open symbol that an equation pins down is replaced wherever it occurs, and a value
of unknown rank gets its shape from the operator's own annotation, read as one relation among all
operands.

    x: ?[*]    log(x)    ewise_add(log(x), y: float32[m, n])        x: [m, n]
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from dimsolve.ir.errors import ShapeError
from dimsolve.ir.node import Node, OperatorCall, Value, map_argument
from dimsolve.ir.read_expression import read_relation
from dimsolve.ir.types import Computed, Dim, Known, TensorType, Unknown

from ..algebra.dims import substitute, symbols_of
from ..algebra.poly import Poly
from ..proof.claims import claim_of
from . import graph_problems, request_problems
from .backward import operand_dims
from .deduction import OPEN, Outcome, place_values, substitute_type
from .refinement import Refinement
from .strict import strict_dtype
from .system import Contradiction

if TYPE_CHECKING:
    from .graph_builder import GraphBuilder


class Propagation(Refinement):
    """The deduction of one graph. ``missing``: paths of which nothing is known, and why."""

    def __init__(self, graph: GraphBuilder) -> None:
        super().__init__(graph)
        self.missing: dict[str, str] = {}

    def append(self, node: Node) -> None:
        """Adds a node with the types that are deduced for it; ShapeError where its arguments can
        never match.
        """
        graph = self.graph
        saved = graph.system.saved()
        try:
            outcome = self.outcome(node)
            steps = self._require(node, outcome)
        except ShapeError:
            graph.system.restore(saved)
            raise
        types = tuple([self.opened(type, node.id) for type in outcome.types])
        self._declare(node, outcome)
        graph.add_node(node, types)
        for value in node.outputs:
            self._note_node(value, node)
        if steps:
            self.substitute(steps)
        if self._wants_backward(node):
            self.queue.append(node)
        self._refine_ranks(node, outcome)
        self.settle()

    def _refine_ranks(self, node: Node, outcome: Outcome) -> None:
        operands = node.operands() if outcome.ranks else []
        for at, rank in outcome.ranks:
            self.refine(operands[at], TensorType(rank, None), graph_problems.place(node))

    def _declare(self, node: Node, outcome: Outcome) -> None:
        found = outcome.declaration
        told = found is not None and not found.annotation.endswith("?")
        if not told and len(node.outputs) > len(outcome.types):
            return  # how many values there are is known from elsewhere: torch counted them
        node.several = outcome.several
        if outcome.declaration is not None:
            node.declaration = place_values(outcome.declaration, node.operands())
        if outcome.missing:
            self.missing[node.signature] = outcome.missing

    def _note_node(self, value: Value, node: Node) -> None:
        self.note_symbols(value.type, graph_problems.place(node))

    def _require(self, node: Node, outcome: Outcome) -> dict[str, Dim]:
        system = self.graph.system
        new = self._new_names(node)
        system.open.update(dict.fromkeys(new, graph_problems.place(node)))
        steps = self._required(node, outcome)
        for name in new & system.open.keys():
            system.given.setdefault(name, system.open.pop(name))
        return steps

    def _new_names(self, node: Node) -> set[str]:
        """Symbols that the arguments of a call name first: an equation may tell what they are, as
        ``view(x, ("k", n))`` of (n, m) tells k.
        """
        names: set[str] = set()

        def note(leaf: Any) -> Any:
            if isinstance(leaf, Poly):
                names.update(symbols_of(leaf))
            return leaf

        if isinstance(node.operation, OperatorCall):
            map_argument((node.args, node.kwargs), note)
        system = self.graph.system
        return names - system.given.keys() - system.open.keys() - system.solved.keys()

    def _required(self, node: Node, outcome: Outcome) -> dict[str, Dim]:
        steps: dict[str, Dim] = {}
        for claim in outcome.conditions:
            try:
                steps.update(self.graph.system.require(claim, graph_problems.place(node)))
            except Contradiction as contradiction:
                raise graph_problems.contradiction(node, contradiction) from None
        return steps

    def _wants_backward(self, node: Node) -> bool:
        if not isinstance(node.operation, OperatorCall):
            return False
        if self.graph.strict:
            return True
        tensors = [*node.inputs, *node.outputs]
        return any(
            v is not None and isinstance(v.type, TensorType) and v.rank is None for v in tensors
        )

    def settle(self) -> None:
        """Lets facts flow until nothing more is learned."""
        while self.queue:
            self._visit(self.queue.popleft())

    def _visit(self, node: Node) -> None:
        outcome = self.outcome(node)
        steps = self._require(node, outcome)
        if steps:
            self.substitute(steps)
        self._declare(node, outcome)
        origin = graph_problems.place(node)
        for value, type in zip(node.outputs, outcome.types, strict=False):
            if isinstance(value.type, TensorType) and isinstance(type, TensorType):
                type = self._less_computed(value.type, type)
            self.refine(value, substitute_type(type, self.graph.system.solved), origin)
        self._refine_ranks(node, outcome)
        self._backward(node, origin)

    def _less_computed(self, old: TensorType, new: TensorType) -> TensorType:
        if isinstance(old.shape, Known) and isinstance(new.shape, Computed):
            return replace(new, rank=None, shape=Unknown())
        return new

    def _backward(self, node: Node, origin: str) -> None:
        if self.graph.strict:
            for value, dtype in strict_dtype(node):
                self.refine(value, TensorType(None, dtype), origin)
        if node.declaration is None or not self._wants_backward(node):
            return
        found = operand_dims(node.declaration, [*node.inputs, *node.outputs])
        names: dict[str, Dim] = {}
        for value, dims in found.dims:
            opened = tuple([self._opened_free(node, dim, found.free, names) for dim in dims])
            self.refine(value, TensorType(None, None, Known(opened)), origin)

    def _opened_free(
        self, node: Node, dim: Dim, free: frozenset[str], names: dict[str, Dim]
    ) -> Dim:
        for atom in sorted(symbols_of(dim) & free):
            names.setdefault(atom, self.name_of(node, f"{OPEN}{atom}"))
        current: Dim = substitute(dim, names)
        return current

    # ---- the whole graph

    def run(self) -> None:
        """Deduces every node again, in order, and lets facts flow."""
        for node in self.graph.nodes():
            self._visit(node)
        self.settle()

    def _check_results(self) -> None:
        """Every node that was read makes as many values as its operator returns."""
        for node in self.graph.nodes():
            declaration = node.declaration
            if declaration is not None and declaration.returns in ("tensor", "value"):
                if len(node.outputs) > 1:
                    raise request_problems.wrong_results(node, 1)
            elif declaration is not None and declaration.returns == "tuple":
                wanted = len(declaration.dtypes)
                if wanted and node.outputs and len(node.outputs) != wanted:
                    raise request_problems.wrong_results(node, wanted)

    def restore(self) -> None:
        """Takes up deduction where types were read from JSON."""
        graph = self.graph
        for function in graph.functions.values():
            callee: Any = function
            callee.propagation.restore()
        for fact in graph.facts:
            graph.system.assume(fact)
        for value in graph.values.values():
            where = graph_problems.origin_of(value)
            self.note_symbols(value.type, where)
        for text, origin in graph.checks:
            graph.system.require(claim_of(read_relation(text)), origin)
        self.run()
        self._check_results()
