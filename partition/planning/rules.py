"""The transform rules of a call: those of its declaration, and those that torch functions have."""

from __future__ import annotations

from typing import Any

from dimsolve.ir.node import Node
from dimsolve.ir.operator import Declaration


def rules_for(node: Node, declaration: Declaration) -> tuple[Any, ...]:
    """Returns the transform rules that hold for a call, the declaration's own first."""
    try:
        from ..transforms import rules_of
    except ImportError:
        return declaration.transform_rules
    return (*declaration.transform_rules, *rules_of(node.signature, declaration))
