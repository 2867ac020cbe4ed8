"""What `/v1/operators` lists: torch's functions with the annotations of example calls.

{"path": "torch.matmul", "annotations": ["m k+, k+ n -> m n", ...], "note": ""}
"""

from __future__ import annotations

from functools import lru_cache

from dimsolve.operator_schema import OperatorsModel, operators

from .replies import Reply, reply_of

__all__ = ["OperatorsModel", "operators", "operators_reply"]


@lru_cache(maxsize=1)
def operators_reply() -> Reply:
    """Returns the reply that lists them; it takes a quarter of a second, once."""
    return reply_of(operators())
