"""Sparse gradients: an embedding with ``sparse=True`` gives its table the rows that it looked up.

embedding(ids, table, sparse=True), ids cut over dp      refused: ranks would sum dense gradients
"""

from __future__ import annotations

from collections.abc import Mapping

from dimsolve.ir.errors import Diagnostic
from dimsolve.ir.node import Node
from dimsolve.partition.plan import ConversionPlan, OperatorPlan
from dimsolve.solver.graphs.deduction import find_operator

from ..arguments import Arguments
from .lowering_errors import LoweringError


def refuse_sparse(
    node: Node, plan: OperatorPlan | None, conversions: Mapping[str, ConversionPlan]
) -> None:
    """Raises LoweringError for a call whose sparse gradient ranks would have to sum."""
    operator = find_operator(node.signature)
    if plan is None or operator is None or "sparse" not in operator.parameters:
        return
    given = Arguments(tuple(node.args), node.kwargs).parameters(operator.parameters)
    if given.get("sparse") is not True:
        return
    for operand in plan.operands:
        entry = conversions.get(operand.source)
        while entry is not None and not entry.shared_gradient:
            entry = conversions.get(entry.source)
        if entry is not None:
            raise LoweringError(
                Diagnostic(
                    code="sparse-gradient",
                    title=f"{node.id}: a sparse gradient cannot be summed over '{entry.axis}'",
                    reason=f"%{operand.value} has the rows that a rank looked up as its gradient, "
                    "and ranks send dense tensors",
                    hint="sparse=False, or cut the table by its columns",
                )
            )
