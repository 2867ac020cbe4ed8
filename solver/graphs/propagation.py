"""Propagation over a whole graph: types flow with the calls and against them until nothing changes.

Forward, a call's arguments give its results (`Calls`); calls with equal arguments are deduced once.
Backward, what a later call requires of a value tells what the value is: an open symbol that an
equation determines is replaced wherever it occurs, and a value of unknown rank gets its shape from
the operator's own annotation, read as one relation among all operands.

    x: ?[*]    log(x)    ewise_add(log(x), y: float32[m, n])        x: [m, n]

What is known of a value and what a call, a pattern or a user adds are combined (`Refinement`):

    known float32[n, ?]      added [m, 64]      float32[n, 64], and n == m is an equation
    known float32[n, 64]     added [n, 32]      %x dim 1 has two lengths
    known ?[*]               added [m, n]       ?[m, n]

A value of which more is known puts the calls that make and use it in the queue.
"""

from __future__ import annotations

from collections import deque
from dataclasses import replace
from typing import Any

from dimsolve.ir.errors import ShapeError
from dimsolve.ir.expression import Comparison
from dimsolve.ir.graph import (
    ExternalCall,
    FunctionCall,
    MakeShape,
    MatchShape,
    Node,
    OperatorCall,
    Value,
    map_argument,
)
from dimsolve.ir.graph_json import operator_of_declaration
from dimsolve.ir.operator import Declaration
from dimsolve.ir.read_expression import read_relation
from dimsolve.ir.types import (
    ANY,
    SHAPE,
    Computed,
    Dim,
    Known,
    ScalarType,
    ShapeType,
    TensorType,
    TupleType,
    Type,
    Unknown,
)

from ..algebra.dims import substitute, symbols_of
from ..algebra.poly import Poly
from ..problems import shape_text
from ..proof.claims import Claim, claim_of
from . import functions, problems
from .deduction import (
    OPEN,
    Autocast,
    Call,
    Outcome,
    SomeNumber,
    StandIn,
    by_place,
    deduce,
    deduce_partial,
    encode,
    find_operator,
    merged,
    operand_dims,
    place_values,
    strict_dtype,
    substitute_type,
    with_computed_shapes,
)
from .reading import note_symbols, opened, opened_dims
from .scalars import fold
from .symbolic_graph import SymbolicGraph
from .system import Contradiction

GETITEM = "_operator.getitem"


class Calls:
    """The calls of one graph. ``outcomes`` keeps what calls with equal arguments gave."""

    def __init__(self, graph: SymbolicGraph) -> None:
        self.graph = graph
        self.outcomes: dict[Any, Outcome] = {}
        self._fresh: dict[tuple[str, str], Dim] = {}
        self._autocast = Autocast(graph)

    def outcome(self, node: Node) -> Outcome:
        """Returns what is known of a call, with the node's own names for its new symbols."""
        try:
            match node.operation:
                case OperatorCall(path):
                    call = encode(self._current(node.args), self._current(node.kwargs))
                    key = (path, call.key)
                    found = self.outcomes.get(key) if node.declared is None else None
                    if found is None:
                        found = self._operator(path, call, node.declared)
                        if node.declared is None:
                            self.outcomes[key] = found
                case FunctionCall():
                    found = functions.call(self.graph, node)
                case ExternalCall(_, result):
                    found = Outcome((result,))
                case MatchShape(pattern):
                    found = functions.match_shape(self.graph, node, pattern)
                case MakeShape(dims):
                    current = tuple(self.graph.system.current(dim) for dim in dims)
                    found = Outcome((ShapeType(current),))
        except ShapeError as error:
            raise problems.wrong_call(node, error) from error
        if found.fresh:
            found = found.renamed({name: self.name_of(node, name) for name in found.fresh})
        if any(isinstance(t, TensorType) and t.dims is None for t in found.types):
            found = with_computed_shapes(found, node)
        return self._autocast.without_dtypes(node, found)

    def _current(self, arguments: Any) -> Any:
        """The arguments with everything that is solved put in."""
        system = self.graph.system
        if not system.solved:
            return arguments
        return map_argument(
            arguments, lambda leaf: system.current(leaf) if isinstance(leaf, Poly) else leaf
        )

    def name_of(self, node: Node, fresh: str) -> Dim:
        """The graph's own symbol for a new one of a call; the same whenever the call is deduced
        again.
        """
        key = (node.id, fresh)
        if key not in self._fresh:
            preferred = f"_{node.id}_{fresh.removeprefix(OPEN)}"
            self._fresh[key] = self.graph.system.fresh(preferred, problems.place(node))
        return self.graph.system.current(self._fresh[key])

    def _operator(self, path: str, call: Call, told: Declaration | None) -> Outcome:
        if not any(isinstance(value.type, TensorType) for value in call.values):
            number = fold(path, call.args, self.graph.system.facts)
            if number is not None:
                return Outcome((number,))
        if path == "torch.Size" and _is_shape(call.args):
            return Outcome((ShapeType(tuple(call.args[0])),))
        if path == GETITEM and isinstance(call.args[0], tuple | list):
            return Outcome((_item(call),))
        operator = find_operator(path)
        if operator is None and told is not None:
            operator = operator_of_declaration(path, told, by_place)
        if operator is None:
            return Outcome((_unannotated(path),), missing="no annotation is known")
        outcome = deduce(operator, call)
        if any(isinstance(v.type, TensorType | ShapeType) and v.dims is None for v in call.values):
            return merged(outcome, deduce_partial(operator, call))
        return outcome


def _is_shape(args: tuple[Any, ...]) -> bool:
    return (
        len(args) == 1
        and isinstance(args[0], tuple | list)
        and all(isinstance(item, int | Poly) for item in args[0])
    )


def _item(call: Call) -> Type:
    """The type of one item, or a slice, of a shape or a tuple."""
    items, index = call.args[0], call.args[1]
    if not isinstance(index, int | slice):
        return ANY
    try:
        picked = items[index]
    except (IndexError, TypeError):
        return ANY
    return _type_of_item(picked)


def _type_of_item(item: Any) -> Type:
    if isinstance(item, StandIn):
        dims = item.shape
        shape = Unknown() if dims is None else Known(dims)
        return TensorType(None, item.dtype, shape)
    if isinstance(item, SomeNumber):
        return ScalarType(item.dtype_name)
    if isinstance(item, int | Poly):
        return ScalarType("int", item)
    if isinstance(item, tuple | list):
        if all(isinstance(i, int | Poly) for i in item):
            return ShapeType(tuple(item))
        return TupleType(tuple(_type_of_item(i) for i in item))
    return ANY


def _unannotated(path: str) -> Type:
    """What is known of the result of a function without an annotation: torch's return tensors, most
    of the time.
    """
    return TensorType(None, None) if path.startswith("torch") else ANY


class Refinement(Calls):
    """The types of one graph's values. ``queue``: the calls to visit again."""

    def __init__(self, graph: SymbolicGraph) -> None:
        super().__init__(graph)
        self.queue: deque[Node] = deque()

    def refine(self, value: Value, type: Type, origin: str) -> bool:
        """Adds what is known of a value; returns whether it told anything new. ShapeError where it
        contradicts.
        """
        old = value.type
        if old == type or type == ANY:
            return False
        if isinstance(old, TensorType) and isinstance(type, TensorType):
            new: Type = self._met(value, old, type, origin)
        elif isinstance(old, ShapeType) and isinstance(type, ShapeType):
            dims = self._met_dims(value, old.dims, type.dims, origin)
            new = ShapeType(dims)
        elif old == ANY:
            new = type
        elif isinstance(old, ScalarType) and isinstance(type, ScalarType):
            new = type if old.value is None else old
        else:
            return False
        changed = new != value.type
        value.type = new
        if changed:
            self._wake(value)
        return changed

    def _met(self, value: Value, old: TensorType, new: TensorType, origin: str) -> TensorType:
        if old.dtype is not None and new.dtype is not None and old.dtype != new.dtype:
            raise problems.two_dtypes(
                name=value.name, a=old.dtype, b=new.dtype, old=problems.origin_of(value), new=origin
            )
        dtype = old.dtype or new.dtype
        if old.dims is not None and new.dims is not None:
            dims = self._met_dims(value, old.dims, new.dims, origin)
            assert dims is not None
            return TensorType(len(dims), dtype, Known(dims))
        known = old if old.dims is not None else new
        if known.dims is not None:
            dims = opened_dims(self.graph.system, known.dims, value.name)
            return TensorType(None, dtype, Known(dims))
        shape = new.shape if isinstance(old.shape, Unknown) else old.shape
        return TensorType(None, dtype, shape)

    def _met_dims(
        self,
        value: Value,
        old: tuple[Dim | None, ...] | None,
        new: tuple[Dim | None, ...] | None,
        origin: str,
    ) -> tuple[Dim | None, ...] | None:
        if old is None or new is None:
            return old if new is None else new
        if len(old) != len(new):
            raise problems.two_ranks(
                name=value.name,
                a=shape_text(old),
                b=shape_text(new),
                old=problems.origin_of(value),
                new=origin,
            )
        dims: list[Dim | None] = []
        for place, (a, b) in enumerate(zip(old, new, strict=True)):
            if a is not None and b is not None and a != b:
                self._equal(value, place, a, b, origin)
            known = b if a is None else a
            dims.append(None if known is None else self.graph.system.current(known))
        return tuple(dims)

    def _equal(self, value: Value, place: int, a: Dim, b: Dim, origin: str) -> None:
        claim = Claim(a, Comparison.EQ, b)
        try:
            steps = self.graph.system.require(claim, origin)
        except Contradiction:
            raise problems.two_lengths(
                name=value.name, dim=place, a=a, b=b, old=problems.origin_of(value), new=origin
            ) from None
        if steps:
            self.substitute(steps)

    def substitute(self, steps: dict[str, Dim]) -> None:
        """Replaces symbols that were solved in every type of the graph."""
        for value in self.graph.values.values():
            new = substitute_type(value.type, steps)
            if new is not value.type and new != value.type:
                value.type = new

    def _wake(self, value: Value) -> None:
        if value.producer is not None:
            self.queue.append(value.producer)
        self.queue.extend(self.graph.users(value))

    def tensor_of_shape(self, shape: Value, dtype: str | None) -> TensorType:
        """Returns the type of a tensor whose shape is the value of another."""
        if isinstance(shape.type, ShapeType) and shape.type.dims is not None:
            return TensorType(None, dtype, Known(shape.type.dims))
        return TensorType(shape.rank, dtype, Computed(SHAPE, (shape.name,)))


class Propagation(Refinement):
    """The deduction of one graph. ``missing``: paths of which nothing is known, and why."""

    def __init__(self, graph: SymbolicGraph) -> None:
        super().__init__(graph)
        self.missing: dict[str, str] = {}

    def __repr__(self) -> str:
        return f"Propagation(of {self.graph.name}, {len(self.missing)} functions not known)"

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
        types = tuple([opened(graph.system, type, node.id) for type in outcome.types])
        self._declare(node, outcome)
        graph.add_node(node, types)
        for value in node.outputs:
            note_symbols(graph.system, value.type, problems.place(node))
        if steps:
            self.substitute(steps)
        if self._wants_backward(node):
            self.queue.append(node)
        self._refine_ranks(node, outcome)
        self.settle()

    def _refine_ranks(self, node: Node, outcome: Outcome) -> None:
        operands = node.operands() if outcome.ranks else []
        for at, rank in outcome.ranks:
            self.refine(operands[at], TensorType(rank, None), problems.place(node))

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

    def _require(self, node: Node, outcome: Outcome) -> dict[str, Dim]:
        system = self.graph.system
        new = self._new_names(node)
        system.open.update(dict.fromkeys(new, problems.place(node)))
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
                steps.update(self.graph.system.require(claim, problems.place(node)))
            except Contradiction as contradiction:
                raise problems.contradiction(node, contradiction) from None
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
        origin = problems.place(node)
        for value, type in zip(node.outputs, outcome.types, strict=False):
            known = isinstance(value.type, TensorType) and isinstance(value.type.shape, Known)
            if known and isinstance(type, TensorType) and isinstance(type.shape, Computed):
                type = replace(type, rank=None, shape=Unknown())
            self.refine(value, substitute_type(type, self.graph.system.solved), origin)
        self._refine_ranks(node, outcome)
        self._backward(node, origin)

    def _backward(self, node: Node, origin: str) -> None:
        if self.graph.strict:
            for value, dtype in strict_dtype(node):
                self.refine(value, TensorType(None, dtype), origin)
        if node.declaration is None or not self._wants_backward(node):
            return
        found = operand_dims(node.declaration, [*node.inputs, *node.outputs])
        names: dict[str, Dim] = {}
        for value, dims in found.dims:
            shape = Known(tuple([self._opened_free(node, dim, found.free, names) for dim in dims]))
            self.refine(value, TensorType(None, None, shape), origin)

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
            made, wanted = len(node.outputs), 0
            if node.declaration is not None and node.declaration.returns in ("tensor", "value"):
                wanted = min(made, 1)
            elif node.declaration is not None and node.declaration.returns == "tuple":
                wanted = len(node.declaration.dtypes)
            if wanted and made not in (0, wanted):
                raise problems.wrong_results(place=problems.place(node), made=made, wanted=wanted)

    def restore(self) -> None:
        """Takes up deduction where types were read from JSON."""
        graph = self.graph
        for function in graph.functions.values():
            callee: Any = function
            callee.propagation.restore()
        for fact in graph.facts:
            graph.system.assume(fact)
        for value in graph.values.values():
            where = problems.origin_of(value)
            note_symbols(graph.system, value.type, where)
        for text, origin in graph.checks:
            graph.system.require(claim_of(read_relation(text)), origin)
        self.run()
        self._check_results()
