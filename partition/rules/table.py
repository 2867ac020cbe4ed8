"""Which transform rules a torch function has, by its path.

A rule set looks at one call's declaration, because whether a rule is right depends on the call: a
summed loss needs no rule, and gradients scaled by frequency allow none.

Transform rules of torch functions: splits that marks cannot tell, with what a rank runs instead.

    embedding       rows of the table     each rank serves the ids it holds, the results are summed
    cross_entropy   the batch             parts divide by what all ranks count together
    cross_entropy   the classes           each rank has a part of every row of logits
    batch_norm      the batch             statistics of all ranks
    group_norm      the batch             one value may be left of it
    var, norm       what is reduced       sums of squares of all ranks
    argmax          what is searched      the first place of all ranks
    tril            rows and columns      a diagonal that lies where the part begins

What a rule computes needs torch and is imported when it runs.

The transform rules of a call: those of its declaration, and those that torch functions have.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import lru_cache
from typing import Any

from dimsolve.ir.annotation import Opaque
from dimsolve.ir.graph import Node
from dimsolve.ir.operator import Declaration, Operator
from dimsolve.ir.read_annotation import read_annotation
from dimsolve.solver.operators import canonical
from dimsolve.solver.operators.paths import IN_PLACE, canonical_path

from .positions import (
    argmax_rules,
    argmin_rules,
    dist_rules,
    linalg_norm_rules,
    norm_rules,
    std_rules,
    tril_rules,
    triu_rules,
    var_rules,
    vector_norm_rules,
)
from .rule import TransformRule
from .statistics import (
    amax_rules,
    amin_rules,
    batch_norm_rules,
    group_norm_rules,
    l1_rules,
    max_rules,
    min_rules,
    mse_rules,
)
from .vocabulary import (
    cross_entropy_rules,
    gather_rules,
    nll_rules,
    rows_first_rules,
    rows_second_rules,
    select_rules,
)

RuleSet = Callable[[Declaration], tuple[TransformRule, ...]]

RULES: dict[str, RuleSet] = {
    "torch.nn.functional.embedding": rows_second_rules,
    "torch.embedding": rows_first_rules,
    "torch.index_select": select_rules,
    "torch.gather": gather_rules,
    "torch.nn.functional.cross_entropy": cross_entropy_rules,
    "torch.nn.functional.nll_loss": nll_rules,
    "torch.nn.functional.mse_loss": mse_rules,
    "torch.nn.functional.l1_loss": l1_rules,
    "torch.nn.functional.batch_norm": batch_norm_rules,
    "torch.nn.functional.group_norm": group_norm_rules,
    "torch.amax": amax_rules,
    "torch.amin": amin_rules,
    "torch.max": max_rules,
    "torch.min": min_rules,
    "torch.var": var_rules,
    "torch.std": std_rules,
    "torch.norm": norm_rules,
    "torch.linalg.vector_norm": vector_norm_rules,
    "torch.linalg.norm": linalg_norm_rules,
    "torch.dist": dist_rules,
    "torch.argmax": argmax_rules,
    "torch.argmin": argmin_rules,
    "torch.tril": tril_rules,
    "torch.triu": triu_rules,
}
"""Path of the library's entry to its rules."""


@lru_cache(maxsize=1024)
def _rule_set(path: str) -> RuleSet | None:
    entry = canonical(path)
    # What a rule runs instead gives a result and writes to nothing.
    writes = canonical_path(path) in IN_PLACE
    return None if entry is None or writes else RULES.get(entry)


def rules_of(path: str, declaration: Declaration) -> tuple[TransformRule, ...]:
    """Returns the transform rules of a torch function for one call; () where it has none, and where
    the shape of an input is not told (``?``).

    >>> declaration = Declaration("a b, v^ d -> a b d", inputs=(None, None))
    >>> [str(rule) for rule in rules_of("torch.nn.functional.embedding", declaration)]
    ['v: R, S(0) -> P(sum)']
    """
    rules = _rule_set(path)
    if rules is None:
        return ()
    told = read_annotation(declaration.annotation).inputs
    return () if any(isinstance(row, Opaque) for row in told) else rules(declaration)


def with_rules(operator: Operator) -> Operator:
    """Returns the operator whose declarations carry the transform rules of its path."""
    if _rule_set(operator.path) is None:
        return operator
    path, plain = operator.path, operator.declare

    def declare(*args: object, **kwargs: object) -> Declaration:
        declaration = plain(*args, **kwargs)
        rules = (*declaration.transform_rules, *rules_of(path, declaration))
        return replace(declaration, transform_rules=rules)

    return replace(operator, declare=declare)


__all__ = ["rules_of", "with_rules"]


def rules_for(node: Node, declaration: Declaration) -> tuple[Any, ...]:
    """Returns the transform rules that hold for a call, the declaration's own first."""
    try:
        pass
    except ImportError:
        return declaration.transform_rules
    return (*declaration.transform_rules, *rules_of(node.signature, declaration))
