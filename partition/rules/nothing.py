"""Functions whose forward and backward passes work in torch on empty tensors.

    linear(x, w)         x (0, 8)          runs, of every identifier
    conv2d(x, w)         x (0, 3, 8, 8)    runs without rows, and raises without channels
    batch_norm(x, ...)   x (2, 3, 0, 8)    runs without places, and raises without channels

A function that is not listed here is never given an empty tensor. ``python -m
tests.exec.verification.unequal`` runs all that is listed.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from dimsolve.ir.annotation import Annotation, Dim, Identifier, Mark, Operand, Tensor
from dimsolve.ir.operator import Declaration
from dimsolve.ir.read_annotation import read_annotation
from dimsolve.solver.layout import identifiers_of
from dimsolve.solver.operators import canonical, is_pointwise

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
    "index_put select_scatter slice_scatter nll_loss bilinear"
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
    "interpolate": 3,
    "upsample_nearest": 3,
    "upsample_bilinear": 3,
    "unfold": 4,
    "fold": 3,
    "_upsample_bilinear2d_aa": 4,
    "max_pool2d_with_indices_backward": 4,
    **{
        name.replace("_with", f"{n}d_with") if "_with" in name else f"{name}{n}d": n + 2
        for name in _ROWS.split()
        for n in (1, 2, 3)
    },
}
"""Names of those that run where a rank has none of the rows, the first dimension of input and
output, and raise without channels: with how many dimensions an input has rows.
"""


def alone(tensor: Operand) -> list[str]:
    """Returns the identifier that each dimension of a tensor is; "" for one that is more, or a
    number.

    >>> alone(read_annotation("a (b 4) 3 -> a").inputs[0])
    ['a', '', '']
    """
    dims = tensor.dims if isinstance(tensor, Tensor) else ()
    atoms = [dim.atoms if isinstance(dim, Dim) else () for dim in dims]
    first = [each[0] if len(each) == 1 else None for each in atoms]
    return [each.name if isinstance(each, Identifier) else "" for each in first]


def _of_channels(annotation: Annotation) -> tuple[str, ...]:
    """All of a norm of channels but these: rows, and places where they are not joined; the channels
    of rows alone, where no tensor has something of each.
    """
    rows, channels, *places = alone(annotation.inputs[0])
    only = not places and len(annotation.inputs) == 1
    return (rows, *places, *([channels] if only else []))


def _of_instances(annotation: Annotation) -> tuple[str, ...]:
    """All of a norm by statistics that are given, but channels where these have weights."""
    rows, channels, *places = alone(annotation.inputs[0])
    if any(each.mark is Mark.FROZEN for each in identifiers_of(annotation).values()):
        return ()
    return (rows, *([channels] if len(annotation.inputs) == 3 else []), *places)


def _of_pools(spatial: int, annotation: Annotation) -> tuple[str, ...]:
    """Rows; of one window that has all places, which is a mean, channels too."""
    row = alone(annotation.inputs[0])
    one = str(annotation.outputs[0]).split()[-spatial:] == ["1"] * spatial
    return tuple(row[:-spatial] if one else row[: max(len(row) - spatial - 1, 0)])


def _of_bags(annotation: Annotation) -> tuple[str, ...]:
    """Bags, and what their sums have."""
    return (*_rows(annotation.inputs[0], 2), "d")


def _of_windows(annotation: Annotation) -> tuple[str, ...]:
    """All but the dimension of the windows, which is a product or stays whole."""
    frozen = {n for n, each in identifiers_of(annotation).items() if each.mark is Mark.FROZEN}
    return tuple(name for name in alone(annotation.inputs[0]) if name not in frozen)


def _of_groups(annotation: Annotation) -> tuple[str, ...]:
    """All but the groups of channels."""
    return tuple(alone(annotation.inputs[0]))


def _of_quantiles(annotation: Annotation) -> tuple[str, ...]:
    """Which quantiles are asked for."""
    return tuple(name for row in annotation.inputs[1:] for name in alone(row))


def _summed(annotation: Annotation) -> tuple[str, ...]:
    """What is added up."""
    found = identifiers_of(annotation).items()
    return tuple(name for name, each in found if each.mark is Mark.SUM)


EMPTY_OF: dict[str, Callable[[Annotation], tuple[str, ...]]] = {
    "torch.nn.functional.batch_norm": _of_channels,
    "torch.batch_norm": _of_channels,
    "torch.native_batch_norm": lambda annotation: _of_channels(annotation)[1:],
    "torch.nn.functional.instance_norm": _of_instances,
    **{f"torch.nn.functional.adaptive_avg_pool{n}d": partial(_of_pools, n) for n in (1, 2, 3)},
    "torch.nn.functional.embedding_bag": _of_bags,
    "torch.nn.functional.channel_shuffle": _of_groups,
    "torch.Tensor.unfold": _of_windows,
    "torch.quantile": _of_quantiles,
    "torch.nanquantile": _of_quantiles,
    "torch.norm_except_dim": _summed,
}
"""Path of the library's entry to the identifiers of a call of which there may be none."""


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


def may_run_empty(path: str) -> bool:
    """Returns whether some calls of a function run where some length is 0."""
    entry = canonical(path) or ""
    return runs_empty(path) or entry in EMPTY_OF or entry.rpartition(".")[2] in EMPTY_ROWS


def empty_of(path: str, declaration: Declaration) -> bool | tuple[str, ...]:
    """Returns whether a call is known to run where a length is 0, or of which identifiers.

    >>> conv = Declaration("n c+ a, d c+ 1 -> n d a", inputs=(None, None))
    >>> empty_of("torch.nn.functional.conv1d", conv), empty_of("torch.erf", conv)
    (('n',), True)
    """
    if runs_empty(path):
        return True
    entry = canonical(path) or ""
    of, least = EMPTY_OF.get(entry), EMPTY_ROWS.get(entry.rpartition(".")[2])
    if of is None and least is None:
        return False
    annotation = read_annotation(declaration.annotation)
    if of is not None:
        return tuple(name for name in of(annotation) if name)
    first, made = _rows(annotation.inputs[0], least or 0), _rows(annotation.outputs[0], 1)
    return first if first == made else ()


def _rows(tensor: Operand, least: int) -> tuple[str, ...]:
    """The identifier that is alone the first of at least so many dimensions; () where none is."""
    row = alone(tensor)
    return (row[0],) if len(row) >= least and row[0] else ()
