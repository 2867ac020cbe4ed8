"""Whether a graph computes something else in training than in evaluation.

dropout(x, 0.1, True)     drops in training only
dropout(x, 0.0, True)     the same in both
batch_norm(...)           normalises by the batch in training, by what it has learnt otherwise
"""

from __future__ import annotations

from dimsolve.ir.node import Node
from dimsolve.partition.plan import Plan
from dimsolve.solver.graphs.deduction import find_operator

from ..arguments import Arguments

DROPS = frozenset(
    {
        "dropout",
        "dropout_",
        "dropout1d",
        "dropout2d",
        "dropout3d",
        "alpha_dropout",
        "feature_alpha_dropout",
        "feature_dropout",
        "scaled_dot_product_attention",
    }
)
NORMALISES = frozenset({"batch_norm", "instance_norm", "rrelu", "rrelu_"})


def depends_on_mode(plan: Plan) -> str:
    """Returns the first operator of a plan's graph that depends on the mode, ``""`` for none."""
    graph = plan.planned
    for node in graph.nodes() if graph is not None else ():
        name = node.signature.rpartition(".")[2]
        if name in NORMALISES or (name in DROPS and _probability(node) != 0):
            return f"{node.id} ({node.signature})"
    return ""


def _probability(node: Node) -> object:
    """The share that is dropped, as it was called or by default."""
    operator = find_operator(node.signature)
    names = operator.parameters if operator is not None else ()
    values = Arguments(tuple(node.args), node.kwargs).parameters(names)
    if "dropout_p" in names:
        return values.get("dropout_p", 0.0)
    return values.get("p", 0.5)
