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
    lstm, gru       the batch             a rank with nothing runs a row of zeros

A rule set looks at one call's declaration, because whether a rule is right depends on the call: a
summed loss needs no rule, and gradients scaled by frequency allow none. What a rule computes needs
torch, which is imported when it runs.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import lru_cache, partial

from dimsolve.ir.annotation import Dim, Identifier, Opaque, Operand, Tensor
from dimsolve.ir.graph import Node
from dimsolve.ir.operator import Declaration, Operator
from dimsolve.ir.read_annotation import read_annotation
from dimsolve.solver.operators import canonical, is_pointwise
from dimsolve.solver.operators.paths import IN_PLACE, canonical_path

from . import averages, groups, lookup, losses, normalization, otherwise, reductions, rows
from . import scattering, triangles
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
    "torch.any": otherwise.bool_rules,
    "torch.all": otherwise.bool_rules,
    "torch.isin": otherwise.bool_rules,
    "torch.nn.functional.kl_div": otherwise.summed_rules,
    "torch.triangular_solve": otherwise.column_rules,
    "torch.linalg.solve_ex": otherwise.column_rules,
    "torch.scatter_reduce": partial(
        scattering.scatter_rules, scattering.scatter_extreme_parts
    ),
    "torch.index_reduce": partial(scattering.scatter_rules, scattering.index_extreme_parts),
    "torch.tril": partial(triangles.triangle_rules, triangles.tril_parts),
    "torch.triu": partial(triangles.triangle_rules, triangles.triu_parts),
    **{f"torch.{name}": partial(rows.row_rules, local) for name, local in rows.LOCAL.items()},
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


_ALL = (
    "linear matmul mm bmm addmm baddbmm einsum scaled_dot_product_attention embedding softmax "
    "log_softmax relu gelu silu sigmoid tanh add sub mul div neg pow sqrt rsqrt exp log abs square "
    "cat view reshape flatten unflatten transpose permute unsqueeze squeeze expand contiguous "
    "clone detach to type_as dropout getitem sum where masked_fill layer_norm rms_norm "
    "repeat_interleave cross_entropy tril triu "
    "mean prod var logsumexp norm vector_norm dist max min amax amin argmax argmin cumsum cumprod "
    "sort topk gather index_select normalize softmin _safe_softmax glu prelu repeat tile stack "
    "chunk unbind roll flip outer inner "
    "mv dot vdot vecdot addmv addr addbmm tensordot multi_dot kron cross cosine_similarity "
    "pairwise_distance one_hot mse_loss l1_loss huber_loss smooth_l1_loss soft_margin_loss "
    "binary_cross_entropy binary_cross_entropy_with_logits kl_div gaussian_nll_loss "
    "poisson_nll_loss hinge_embedding_loss margin_ranking_loss cosine_embedding_loss "
    "triplet_margin_loss float double half bfloat16 int long bool native_layer_norm "
    "floordiv mod truediv eq ne lt le gt ge and_ or_ xor pos invert "
    "rrelu _softmax_backward_data alpha_dropout dropout1d dropout2d dropout3d "
    "feature_alpha_dropout short char byte cfloat cdouble type cpu resolve_neg "
    "view_as_complex view_as_real fill frexp getattr lshift rshift iadd iand ifloordiv "
    "ilshift imod imul ior ipow irshift isub itruediv ixor cholesky cholesky_inverse "
    "cholesky_ex inv_ex ldl_factor ldl_factor_ex lu lu_factor_ex geqrf qr svd pinverse "
    "lu_unpack lu_solve ldl_solve triangular_solve solve_ex ormqr householder_product vander "
    "inv det slogdet eigh eigvalsh eig eigvals matrix_exp matrix_power svdvals pinv "
    "matrix_rank cond lu_factor solve solve_triangular logdet cholesky_solve chain_matmul "
    "fftshift ifftshift cdist linear_cross_entropy "
    "multilabel_soft_margin_loss local_response_norm max_unpool1d max_unpool2d max_unpool3d "
    "lstm_cell gru_cell rnn_tanh_cell rnn_relu_cell grid_sampler_2d grid_sampler_3d "
    "grid_sample median std logaddexp nansum any all var_mean std_mean count_nonzero nanmean "
    "sum_to_size matrix_norm nanmedian mode kthvalue aminmax hash_tensor segment_reduce "
    "searchsorted bucketize histc unravel_index isin cummax cummin logcumsumexp argsort msort "
    "trapezoid cumulative_trapezoid renorm zeros ones full zeros_like ones_like full_like "
    "new_zeros new_ones new_full zero_ fill_ copy_ meshgrid cartesian_prod broadcast_to "
    "expand_as setitem take_along_dim take index hstack vstack dstack column_stack "
    "broadcast_tensors split_with_sizes tensor_split hsplit vsplit dsplit fliplr flipud rot90 "
    "narrow slice select diff gradient constant_pad_nd diagonal diag_embed diagonal_scatter "
    "swapaxes t adjoint movedim atleast_1d atleast_2d atleast_3d view_copy view_as ravel "
    "scatter scatter_add scatter_reduce index_add index_copy index_reduce index_fill "
    "index_put select_scatter slice_scatter"
)
EMPTY = frozenset(_ALL.split())
"""Names of torch functions that are known, beside the elementwise ones, to run, forward and
backward, where a rank has nothing: ``tests/exec/verification/unequal.py`` runs them so. Others may
raise, some end the process, and ``multi_margin_loss`` gives memory that it has not written.
"""

_ROWS = (
    "conv conv_transpose max_pool max_pool_with_indices avg_pool lp_pool adaptive_avg_pool "
    "adaptive_max_pool adaptive_max_pool_with_indices"
)
EMPTY_ROWS: dict[str, int] = {
    "group_norm": 2,
    "native_group_norm": 2,
    "batch_norm": 2,
    "interpolate": 3,
    "upsample_nearest": 3,
    "upsample_bilinear": 3,
    "channel_shuffle": 3,
    "embedding_bag": 2,
    "unfold": 4,
    "fold": 3,
    **{
        name.replace("_with", f"{n}d_with") if "_with" in name else f"{name}{n}d": n + 2
        for name in _ROWS.split()
        for n in (1, 2, 3)
    },
}
"""Names of those that run where a rank has none of the rows, the first dimension of input and
output, and raise without channels: with how many dimensions an input has rows.
"""


def runs_empty(path: str) -> bool:
    """Returns whether a function is known to run where a length is 0: those of ``EMPTY``, and all
    that treat every element by itself.

    >>> runs_empty("torch.nn.functional.linear"), runs_empty("torch.nn.functional.conv2d")
    (True, False)
    >>> runs_empty("torch.erf")
    True
    """
    entry = canonical(path)
    return entry is not None and (entry.rpartition(".")[2] in EMPTY or is_pointwise(entry))


def empty_of(path: str, declaration: Declaration) -> bool | tuple[str, ...]:
    """Returns whether a call is known to run where a length is 0, or of which identifiers.

    >>> conv = Declaration("n c+ a, d c+ 1 -> n d a", inputs=(None, None))
    >>> empty_of("torch.nn.functional.conv1d", conv), empty_of("torch.erf", conv)
    (('n',), True)
    """
    if runs_empty(path):
        return True
    least = _least_rows(path)
    if least is None:
        return False
    annotation = read_annotation(declaration.annotation)
    first, made = _rows(annotation.inputs[0], least), _rows(annotation.outputs[0], 1)
    return (first,) if first and first == made else ()


def _least_rows(path: str) -> int | None:
    return EMPTY_ROWS.get((canonical(path) or "").rpartition(".")[2])


def _rows(tensor: Operand, least: int) -> str:
    """The identifier that is alone the first of at least so many dimensions; "" where none is."""
    dims = tensor.dims if isinstance(tensor, Tensor) else ()
    atoms = dims[0].atoms if len(dims) >= least and isinstance(dims[0], Dim) else ()
    return atoms[0].name if len(atoms) == 1 and isinstance(atoms[0], Identifier) else ""


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
    known = _rule_set(operator.path) is not None or runs_empty(operator.path)
    if not known and _least_rows(operator.path) is None:
        return operator
    path, plain = operator.path, operator.declare

    def declare(*args: object, **kwargs: object) -> Declaration:
        declaration = plain(*args, **kwargs)
        rules = (*declaration.transform_rules, *rules_of(path, declaration))
        empty = declaration.empty or empty_of(path, declaration)
        return replace(declaration, transform_rules=rules, empty=empty)

    return replace(operator, declare=declare)
