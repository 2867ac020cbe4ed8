"""Transform rules of torch functions: splits that marks cannot tell, with what a rank runs instead.

    embedding       rows of the table     each rank serves the ids it has, the results are summed
    grouped_mm      the groups            each rank has its experts' matrices, and their rows
    cross_entropy   the batch             parts divide by what all ranks count together
    cross_entropy   the classes           each rank has a part of every row of logits
    batch_norm      the batch             statistics of all ranks
    group_norm      the batch             one value may be left of it
    var, norm       what is reduced       sums of squares of all ranks
    argmax          what is searched      the first place of all ranks
    tril            rows and columns      a diagonal that lies where the part begins
    mean            what is averaged      of unequal parts each weighs as much as it has
    lstm, fft       the batch             a rank with nothing runs a row of zeros
    scatter_reduce  what is written       the largest of all ranks, and how many tie for it
    kl_div          the classes           are summed, beside a batch that is averaged

A rule set looks at one call's declaration, because whether a rule is right depends on the call: a
summed loss needs no rule, and gradients scaled by frequency allow none. What a rule computes needs
torch, which is imported when it runs.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import lru_cache, partial

from dimsolve.ir.annotation import Opaque
from dimsolve.ir.graph import Node
from dimsolve.ir.operator import Declaration, Operator
from dimsolve.ir.read_annotation import read_annotation
from dimsolve.solver.operators import canonical
from dimsolve.solver.operators.paths import IN_PLACE, canonical_path

from . import (
    averages,
    groups,
    lookup,
    losses,
    normalization,
    otherwise,
    reductions,
    rows,
    scattering,
    triangles,
)
from .nothing import empty_of, may_run_empty
from .rule import TransformRule

RuleSet = Callable[[Declaration], tuple[TransformRule, ...]]
_extremes_only = partial(reductions.spread_rules, extremes_only=True)

_OWN: dict[str, RuleSet] = {
    "torch.nn.functional.embedding": partial(lookup.row_rules, lookup.embedding_rows, 1),
    "torch.embedding": partial(lookup.row_rules, lookup.table_rows, 0),
    "torch.index_select": partial(lookup.pick_rules, lookup.selected_slices),
    "torch.gather": partial(lookup.pick_rules, lookup.gathered_elements),
    "torch.nn.functional.cross_entropy": partial(
        losses.class_rules, losses.cross_entropy_parts, True
    ),
    "torch.nn.functional.nll_loss": partial(losses.class_rules, losses.nll_parts, False),
    "torch.nn.functional.grouped_mm": partial(groups.group_rules, groups.torch_rows),
    "torch.ops.transformers.grouped_mm_fallback": partial(
        groups.group_rules, groups.transformers_rows
    ),
    "torch.nn.functional.mse_loss": partial(losses.mean_rules, losses.weighted_mse),
    "torch.nn.functional.l1_loss": partial(losses.mean_rules, losses.weighted_l1),
    "torch.nn.functional.batch_norm": normalization.batch_norm_rules,
    "torch.nn.functional.group_norm": normalization.group_norm_rules,
    "torch.amax": partial(reductions.extreme_rules, reductions.amax_parts),
    "torch.amin": partial(reductions.extreme_rules, reductions.amin_parts),
    "torch.max": partial(reductions.extreme_rules, reductions.max_parts),
    "torch.min": partial(reductions.extreme_rules, reductions.min_parts),
    "torch.var": partial(reductions.spread_rules, reductions.var_parts, reductions.MOMENTS),
    "torch.std": partial(reductions.spread_rules, reductions.std_parts, reductions.MOMENTS),
    "torch.norm": partial(reductions.spread_rules, reductions.norm_parts, reductions.POWERS),
    "torch.linalg.vector_norm": partial(
        reductions.spread_rules, reductions.vector_norm_parts, reductions.POWERS
    ),
    "torch.linalg.norm": partial(_extremes_only, reductions.linalg_norm_parts, ()),
    "torch.dist": partial(_extremes_only, reductions.dist_parts, ()),
    "torch.argmax": partial(reductions.spread_rules, reductions.argmax_parts, reductions.PLACE),
    "torch.argmin": partial(reductions.spread_rules, reductions.argmin_parts, reductions.PLACE),
    "torch.linalg.matrix_norm": partial(_extremes_only, reductions.matrix_norm_parts, ()),
    "torch.nn.functional.bilinear": otherwise.product_rules,
    "torch.native_batch_norm": otherwise.result_rules,
    "torch.any": otherwise.bool_rules,
    "torch.all": otherwise.bool_rules,
    "torch.isin": otherwise.bool_rules,
    "torch.nn.functional.kl_div": otherwise.summed_rules,
    "torch.triangular_solve": otherwise.column_rules,
    "torch.linalg.solve_ex": otherwise.column_rules,
    "torch.scatter_reduce": partial(scattering.scatter_rules, scattering.scatter_extreme_parts),
    "torch.index_reduce": partial(scattering.scatter_rules, scattering.index_extreme_parts),
    "torch.tril": partial(triangles.triangle_rules, triangles.tril_parts),
    "torch.triu": partial(triangles.triangle_rules, triangles.triu_parts),
    **{f"torch.{name}": partial(rows.row_rules, local) for name, local in rows.LOCAL.items()},
    **{path: partial(rows.alone_rules, local) for path, local in rows.ALONE.items()},
    **{path: partial(rows.loss_rules, local) for path, local in rows.LOSSES.items()},
}


def _averaged(
    own: RuleSet | None, local: Callable[..., object], declaration: Declaration
) -> tuple[TransformRule, ...]:
    rules = () if own is None else own(declaration)
    return (*rules, *averages.average_rules(local, declaration))


RULES: dict[str, RuleSet] = _OWN | {
    path: partial(_averaged, _OWN.get(path), local) for path, local in averages.LOCAL.items()
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
    the shape of an input is not known (``?``).

    >>> declaration = Declaration("a b, v^ d -> a b d", inputs=(None, None))
    >>> [str(rule) for rule in rules_of("torch.nn.functional.embedding", declaration)]
    ['v: R, S(0) -> P(sum)']
    """
    rules = _rule_set(path)
    if rules is None:
        return ()
    rows = read_annotation(declaration.annotation).inputs
    return () if any(isinstance(row, Opaque) for row in rows) else rules(declaration)


def rules_for(node: Node, declaration: Declaration) -> tuple[TransformRule, ...]:
    """Returns the transform rules that hold for a call, the declaration's own first."""
    return (*declaration.transform_rules, *rules_of(node.signature, declaration))


def with_rules(operator: Operator) -> Operator:
    """Returns the operator whose declarations carry the transform rules of its path."""
    if _rule_set(operator.path) is None and not may_run_empty(operator.path):
        return operator
    path, plain = operator.path, operator.declare

    def declare(*args: object, **kwargs: object) -> Declaration:
        declaration = plain(*args, **kwargs)
        rules = (*declaration.transform_rules, *rules_of(path, declaration))
        empty = declaration.empty or empty_of(path, declaration)
        return replace(declaration, transform_rules=rules, empty=empty)

    return replace(operator, declare=declare)
