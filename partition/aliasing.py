"""Which values of a graph may share memory, and what is written to.

    view(x, ...)                x, always or sometimes: reshape copies only where it must
    broadcast_tensors(x, y)     both, each result with any of them
    add_(x, 1)                  x; later uses of x are uses of what it returns
    "m k+, k n -> m n"          nothing, whatever the function: its results are sums
    "* -> *", registered        x, if nobody tells: only torch's own functions are known

Where it is not known it may be: a rank that takes a copy for a view is wrong, one that takes a view
for a copy is slow.
"""

from __future__ import annotations

from collections.abc import Iterator

from dimsolve.ir.graph import (
    ExternalCall,
    FunctionCall,
    Graph,
    Node,
    OperatorCall,
    Value,
)
from dimsolve.ir.types import TensorType
from dimsolve.solver.layout import layout_of
from dimsolve.solver.operators import find
from dimsolve.solver.operators.paths import canonical_path

_VIEWS = """
view view_as reshape reshape_as transpose swapaxes swapdims permute movedim moveaxis T mT H mH
adjoint t getattr getitem __getitem__ select narrow expand expand_as broadcast_to squeeze unsqueeze
flatten unflatten split split_with_sizes unsafe_split unsafe_split_with_sizes chunk unsafe_chunk
unbind tensor_split hsplit vsplit dsplit diagonal unfold real imag conj conj_physical resolve_conj
resolve_neg view_as_real view_as_complex detach detach_ data contiguous to type type_as float double
half bfloat16 int long short char byte bool cfloat cdouble chalf cpu cuda pin_memory positive pos
as_strided as_tensor asarray ravel atleast_1d atleast_2d atleast_3d squeeze_ unsqueeze_
transpose_ swapaxes_ swapdims_ t_ as_strided_ requires_grad_ identity dropout coalesce values
indices to_dense slice alias
"""

VIEWS = frozenset(_VIEWS.split())
"""Functions of torch, by name, that take no memory of their own, or need none."""

_SOMETIMES = """
einsum dropout1d dropout2d dropout3d alpha_dropout feature_dropout feature_alpha_dropout
"""

_SHARING = VIEWS | frozenset(_SOMETIMES.split())
"""Those whose results may share memory with their first argument."""

_VIEWS_OF_ALL = frozenset({"broadcast_tensors", "meshgrid", "cartesian_prod"})
"""Those whose results may share memory with any of their arguments."""


def aliases_of(graph: Graph) -> dict[Value, frozenset[Value]]:
    """Returns for each value those that may share memory with it, itself among them."""
    parents: dict[Value, Value] = {}

    def root(value: Value) -> Value:
        while parents.get(value, value) is not value:
            value = parents[value]
        return value

    for node in graph.nodes():
        for output, source in shares(node):
            parents[root(output)] = root(source)
    groups: dict[Value, set[Value]] = {}
    for value in graph.values.values():
        groups.setdefault(root(value), set()).add(value)
    return {value: frozenset(group) for group in groups.values() for value in group}


def shares(node: Node) -> Iterator[tuple[Value, Value]]:
    """Yields outputs of a node with the operands whose memory they may share."""
    for place in node.declaration.mutates if node.declaration is not None else ():
        output = written_value(node, place)
        if output is not None and node.declaration is not None:
            yield output, node.declaration.inputs[place]
    sources = list(_sources(node))
    for output in node.outputs:
        if isinstance(output.type, TensorType):
            yield from ((output, source) for source in sources)


def written_value(node: Node, place: int) -> Value | None:
    """Returns the output that is the input written to; None where it is none of them: a function
    returns its first input where it writes to that, and nothing but what it writes to otherwise;
    a registered one returns all first.
    """
    declaration = node.declaration
    assert declaration is not None
    number = declaration.mutates.index(place)
    target = declaration.inputs[place]
    first = place == number == 0 or not _of_torch(node.signature)
    returned = declaration.returns == "nothing" or first
    if not isinstance(target, Value) or number >= len(node.outputs) or not returned:
        return None
    output = node.outputs[number]
    same = isinstance(output.type, TensorType) and output.type.dims == target.dims
    return output if same else None


def written_by(node: Node) -> Iterator[tuple[Value, int | None]]:
    """Yields the values that a node writes to, with the input of its declaration that each is; None
    where nothing is known of it.
    """
    declaration = node.declaration
    mutates = () if declaration is None else declaration.mutates
    for place in mutates:
        value = declaration.inputs[place] if declaration is not None else None
        if isinstance(value, Value):
            yield value, place
    out = node.kwargs.get("out")
    if isinstance(out, Value):
        yield out, None
    elif not mutates and _named_as_writer(node) and node.operands():
        yield node.operands()[0], None


def _named_as_writer(node: Node) -> bool:
    """Whether a function changes its first argument, as names in torch tell; ``operator.and_``
    does not.
    """
    name = _called(node)
    return name[-1:] == "_" and name[-2:] != "__" and node.signature.startswith("torch.")


def _called(node: Node) -> str:
    """The name of what a node calls; of torch's own operators without that of an overload."""
    if not node.signature.startswith("torch.ops."):
        return node.name
    return canonical_path(node.signature).rpartition(".")[2]


def _sources(node: Node) -> Iterator[Value]:
    """The operands whose memory the results may share."""
    operands = [value for value in node.operands() if isinstance(value.type, TensorType)]
    match node.operation:
        case OperatorCall(path) if not _of_torch(path):
            if node.declaration is not None and node.declaration.separate:
                return
            yield from (value for value in operands if not _summed(node, value))
        case FunctionCall() | ExternalCall():
            yield from operands
        case _ if _called(node) in _VIEWS_OF_ALL:
            yield from operands
        case _ if _called(node) in _SHARING or not isinstance(node.operation, OperatorCall):
            yield from operands[:1]


def _of_torch(path: str) -> bool:
    return path.startswith(("torch.", "_operator.", "operator.")) or find(path) is not None


def _summed(node: Node, value: Value) -> bool:
    """Whether what a function makes of an input is sums over it, by its annotation."""
    declaration = node.declaration
    if declaration is None:
        return False
    layout = layout_of(declaration.annotation, None)
    rows = zip(declaration.inputs, layout.inputs, strict=False)
    names = {n for given, row in rows if given is value for p in row or () for n in p.names}
    return any(layout.marks[name].joins for name in names)
