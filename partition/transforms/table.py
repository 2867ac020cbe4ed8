"""Which transform rules a torch function has, by its path.

A rule set looks at one call's declaration, because whether a rule is right depends on the call: a
summed loss needs no rule, and gradients scaled by frequency allow none.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import lru_cache

from dimsolve.ir.operator import Declaration, Operator
from dimsolve.solver.library import canonical
from dimsolve.solver.library.aliases import IN_PLACE, canonical_path

from ..transform import TransformRule
from .classes import cross_entropy_rules, nll_rules
from .extremes import amax_rules, amin_rules, max_rules, min_rules
from .lookup import gather_rules, rows_first_rules, rows_second_rules, select_rules
from .means import l1_rules, mse_rules
from .spread import (
    argmax_rules,
    argmin_rules,
    norm_rules,
    std_rules,
    var_rules,
    vector_norm_rules,
)
from .statistics import batch_norm_rules
from .triangles import tril_rules, triu_rules

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
    "torch.amax": amax_rules,
    "torch.amin": amin_rules,
    "torch.max": max_rules,
    "torch.min": min_rules,
    "torch.var": var_rules,
    "torch.std": std_rules,
    "torch.norm": norm_rules,
    "torch.linalg.vector_norm": vector_norm_rules,
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
    """Returns the transform rules of a torch function for one call; () where it has none.

    >>> declaration = Declaration("a b, v^ d -> a b d", inputs=(None, None))
    >>> [str(rule) for rule in rules_of("torch.nn.functional.embedding", declaration)]
    ['v: R, S(0) -> P(sum)']
    """
    rules = _rule_set(path)
    return () if rules is None else rules(declaration)


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
