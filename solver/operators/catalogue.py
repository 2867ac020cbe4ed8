"""The library: `find` an operator by the path that a captured model speaks, and its example calls.

    find("torch.nn.functional.linear").declare(x, w, b).annotation      "* k+, n k+, n -> * n"
    find("torch.Tensor.add_")       add, and it writes to its first input

Entries live in families, each of which is imported when something of it is first looked up;
spellings are in the alias table.

Which family declares which callable: only the family of what is looked up is imported.

    "torch.matmul"    products        "torch.nn.functional.gelu"    activation

A test compares this table with the families; an entry that is missing here is not found.

Other spellings of the library's callables: a table, so that no declaration is written twice.

torch.Tensor.cos        torch.cos                      a method with the parameters of a function
torch._C._nn.linear     torch.nn.functional.linear     where a builtin is really kept
torch.Tensor.add_       torch.add, in place
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from importlib import import_module
from typing import Any

from dimsolve.ir.errors import ShapeError
from dimsolve.ir.operator import Declaration, Operator
from dimsolve.ir.read_annotation import read_annotation

from ..algebra.poly import Poly
from .declare import errors
from .declare.dtypes import check_dtypes
from .declare.entry import Entry, Example, Sample
from .declare.needs import collecting, with_needs
from .declare.writing import NotKnown, PartsNotKnown, opaque, tensors_in, with_reason
from .elementwise.pointwise import Pointwise, in_place

FAMILIES: dict[str, str] = {
    "elementwise.activation": """
        torch.nn.functional.celu torch.nn.functional.elu torch.nn.functional.gelu
        torch.nn.functional.hardshrink torch.nn.functional.hardsigmoid
        torch.nn.functional.hardswish torch.nn.functional.hardtanh torch.nn.functional.leaky_relu
        torch.nn.functional.logsigmoid torch.nn.functional.mish torch.nn.functional.relu
        torch.nn.functional.relu6 torch.nn.functional.selu torch.nn.functional.silu
        torch.nn.functional.softplus torch.nn.functional.softshrink torch.nn.functional.softsign
        torch.nn.functional.tanhshrink torch.nn.functional.threshold torch.nn.functional.prelu
        torch.nn.functional.rrelu torch.nn.functional.glu torch.nn.functional.softmax
        torch.nn.functional.log_softmax torch.nn.functional.softmin torch.softmax
        torch.log_softmax torch.nn.functional.gumbel_softmax torch.nn.functional.dropout
        torch.nn.functional.alpha_dropout torch.dropout torch.nn.functional.dropout1d
        torch.nn.functional.dropout2d torch.nn.functional.dropout3d
        torch.nn.functional.feature_alpha_dropout
    """,
    "elementwise.conversion": """
        torch.Tensor.to torch.Tensor.float torch.Tensor.double torch.Tensor.half
        torch.Tensor.bfloat16 torch.Tensor.int torch.Tensor.long torch.Tensor.short
        torch.Tensor.char torch.Tensor.byte torch.Tensor.bool torch.Tensor.cfloat
        torch.Tensor.cdouble torch.Tensor.type torch.Tensor.type_as torch.Tensor.contiguous
        torch.Tensor.clone torch.Tensor.detach torch.Tensor.cpu torch.Tensor.cuda
        torch.Tensor.pin_memory torch.Tensor.requires_grad_ torch.Tensor.resolve_neg
        torch.Tensor.retain_grad torch.clone torch.detach torch.view_as_complex torch.view_as_real
    """,
    "elementwise.pointwise": """
        torch.asinh torch.atan torch.cos torch.cosh torch.deg2rad torch.erf torch.erfc torch.exp
        torch.exp2 torch.expm1 torch.rad2deg torch.sin torch.sinc torch.sinh torch.tan torch.tanh
        torch.i0 torch.digamma torch.lgamma torch.log torch.log10 torch.log1p torch.log2
        torch.reciprocal torch.rsqrt torch.sqrt torch.acos torch.asin torch.atanh torch.erfinv
        torch.acosh torch.ceil torch.conj_physical torch.floor torch.frac torch.sgn torch.sign
        torch.square torch.trunc torch.isfinite torch.isinf torch.isnan torch.isneginf
        torch.isposinf torch.isreal torch.logical_not torch.signbit torch.special.entr
        torch.special.erfcx torch.special.expit torch.special.i0e torch.special.i1
        torch.special.i1e torch.special.log_ndtr torch.special.ndtr torch.special.gammaln
        torch.special.psi torch.special.airy_ai torch.special.bessel_j0 torch.special.bessel_j1
        torch.special.bessel_y0 torch.special.bessel_y1 torch.special.modified_bessel_i0
        torch.special.modified_bessel_i1 torch.special.modified_bessel_k0
        torch.special.modified_bessel_k1 torch.special.scaled_modified_bessel_k0
        torch.special.scaled_modified_bessel_k1 torch.special.spherical_bessel_j0
        torch.special.ndtri torch.maximum torch.minimum torch.fmax torch.fmin torch.hypot
        torch.logaddexp torch.logaddexp2 torch.nextafter torch.fmod torch.remainder
        torch.floor_divide torch.heaviside torch.bitwise_and torch.bitwise_or torch.bitwise_xor
        torch.bitwise_left_shift torch.bitwise_right_shift torch.gcd torch.lcm torch.atan2
        torch.copysign torch.xlogy torch.eq torch.ge torch.gt torch.le torch.lt torch.ne
        torch.logical_and torch.logical_or torch.logical_xor torch.add torch.sub torch.rsub
        torch.mul torch.special.chebyshev_polynomial_t torch.special.chebyshev_polynomial_u
        torch.special.chebyshev_polynomial_v torch.special.chebyshev_polynomial_w
        torch.special.hermite_polynomial_h torch.special.hermite_polynomial_he
        torch.special.laguerre_polynomial_l torch.special.legendre_polynomial_p
        torch.special.shifted_chebyshev_polynomial_t torch.special.shifted_chebyshev_polynomial_u
        torch.special.shifted_chebyshev_polynomial_v torch.special.shifted_chebyshev_polynomial_w
        torch.igamma torch.igammac torch.mvlgamma torch.frexp torch.float_power torch.div
        torch.true_divide torch.Tensor.polygamma torch.neg torch.positive torch.abs torch.angle
        torch.conj torch.resolve_conj torch.real torch.imag torch.bitwise_not torch.logit
        torch.special.xlog1py torch.special.zeta torch.polygamma torch.ldexp torch.isclose
        torch.clamp torch.clamp_min torch.clamp_max torch.lerp torch.addcmul torch.addcdiv
        torch.complex torch.polar torch.round torch.nan_to_num torch.sigmoid torch.pow
    """,
    "elementwise.python": """
        operator.add operator.sub operator.mul operator.floordiv operator.mod operator.truediv
        operator.pow operator.and_ operator.or_ operator.xor operator.lshift operator.rshift
        operator.eq operator.ne operator.lt operator.le operator.gt operator.ge operator.iadd
        operator.iand operator.ifloordiv operator.ilshift operator.imod operator.imul operator.ior
        operator.ipow operator.irshift operator.isub operator.itruediv operator.ixor
        operator.matmul operator.neg operator.pos operator.abs operator.invert builtins.getattr
        builtins.len builtins.max builtins.min builtins.int torch.sym_max torch.sym_min
        torch.sym_sum torch.sym_int math.floor math.ceil torch.Tensor.size torch.Tensor.dim
        torch.numel torch.Tensor.item torch.Tensor.tolist torch.is_floating_point torch.is_complex
        torch.is_signed torch._C._set_grad_enabled torch._C._log_api_usage_once
        torch.set_grad_enabled torch.is_grad_enabled torch._C._functorch._vmap_increment_nesting
        torch._C._functorch._vmap_decrement_nesting torch._check torch._assert torch._assert_async
        torch.amp.autocast_mode._enter_autocast torch.amp.autocast_mode._exit_autocast
        torch.autograd.grad_mode.inference_mode builtins.print
    """,
    "linalg.einsum": """
        torch.einsum
    """,
    "linalg.linalg": """
        torch.linalg.inv torch.linalg.det torch.linalg.slogdet torch.linalg.cholesky
        torch.linalg.eigh torch.linalg.eigvalsh torch.linalg.eig torch.linalg.eigvals
        torch.linalg.matrix_exp torch.linalg.matrix_power torch.linalg.svd torch.linalg.svdvals
        torch.linalg.qr torch.linalg.pinv torch.linalg.matrix_rank torch.linalg.cond
        torch.linalg.lu_factor torch.linalg.solve torch.linalg.solve_triangular torch.logdet
        torch.cholesky_solve
    """,
    "linalg.products": """
        torch.addmm torch.baddbmm torch.addbmm torch.addmv torch.addr torch.nn.functional.linear
        torch.matmul torch.mm torch.bmm torch.mv torch.dot torch.vdot torch.inner torch.outer
        torch.kron torch.tensordot torch.nn.functional.bilinear torch.chain_matmul
        torch.linalg.multi_dot torch.nn.functional.grouped_mm
        torch.ops.transformers.grouped_mm_fallback torch.linalg.cross torch.linalg.vecdot
        torch.cross torch.block_diag torch.cov torch.corrcoef
    """,
    "linalg.spectral": """
        torch.fft.fft torch.fft.fft2 torch.fft.fftn torch.fft.ifft torch.fft.ifft2 torch.fft.ifftn
        torch.fft.rfft torch.fft.rfft2 torch.fft.rfftn torch.fft.irfft torch.fft.irfft2
        torch.fft.irfftn torch.fft.hfft torch.fft.hfft2 torch.fft.hfftn torch.fft.ihfft
        torch.fft.ihfft2 torch.fft.ihfftn torch.fft.fftshift torch.fft.ifftshift
    """,
    "nn.attention": """
        torch.nn.functional.scaled_dot_product_attention
        torch.nn.functional.multi_head_attention_forward
    """,
    "nn.convolution": """
        torch.nn.functional.conv1d torch.nn.functional.conv2d torch.nn.functional.conv3d
        torch.nn.functional.conv_transpose1d torch.nn.functional.conv_transpose2d
        torch.nn.functional.conv_transpose3d torch.nn.functional.pixel_shuffle
        torch.nn.functional.pixel_unshuffle torch.nn.functional.channel_shuffle
        torch.nn.functional.unfold torch.nn.functional.fold
    """,
    "nn.distances": """
        torch.nn.functional.cosine_similarity torch.nn.functional.pairwise_distance torch.pdist
        torch.cdist
    """,
    "nn.embedding": """
        torch.nn.functional.embedding torch.embedding torch.nn.functional.embedding_bag
        torch.nn.functional.one_hot
    """,
    "nn.losses": """
        torch.nn.functional.cross_entropy torch.nn.functional.linear_cross_entropy
        torch.nn.functional.nll_loss torch.nn.functional.binary_cross_entropy
        torch.nn.functional.binary_cross_entropy_with_logits torch.nn.functional.kl_div
        torch.nn.functional.poisson_nll_loss torch.nn.functional.gaussian_nll_loss
        torch.nn.functional.mse_loss torch.nn.functional.l1_loss
        torch.nn.functional.smooth_l1_loss torch.nn.functional.huber_loss
        torch.nn.functional.soft_margin_loss torch.nn.functional.hinge_embedding_loss
        torch.nn.functional.margin_ranking_loss torch.nn.functional.cosine_embedding_loss
        torch.nn.functional.triplet_margin_loss torch.nn.functional.multi_margin_loss
        torch.nn.functional.multilabel_margin_loss torch.nn.functional.multilabel_soft_margin_loss
        torch.nn.functional.ctc_loss
    """,
    "nn.normalization": """
        torch.nn.functional.layer_norm torch.nn.functional.rms_norm torch.nn.functional.group_norm
        torch.nn.functional.instance_norm torch.nn.functional.batch_norm torch.batch_norm
        torch.nn.functional.local_response_norm torch.nn.functional.normalize
    """,
    "nn.pooling": """
        torch.nn.functional.adaptive_avg_pool1d torch.nn.functional.adaptive_max_pool1d
        torch.nn.functional.adaptive_max_pool1d_with_indices torch.nn.functional.max_unpool1d
        torch.nn.functional.adaptive_avg_pool2d torch.nn.functional.adaptive_max_pool2d
        torch.nn.functional.adaptive_max_pool2d_with_indices torch.nn.functional.max_unpool2d
        torch.nn.functional.adaptive_avg_pool3d torch.nn.functional.adaptive_max_pool3d
        torch.nn.functional.adaptive_max_pool3d_with_indices torch.nn.functional.max_unpool3d
        torch.nn.functional.fractional_max_pool2d torch.nn.functional.fractional_max_pool3d
        torch.adaptive_max_pool1d torch.nn.functional.max_pool1d
        torch.nn.functional.max_pool1d_with_indices torch.nn.functional.avg_pool1d
        torch.max_pool1d torch.nn.functional.lp_pool1d torch.nn.functional.max_pool2d
        torch.nn.functional.max_pool2d_with_indices torch.nn.functional.avg_pool2d
        torch.max_pool2d torch.nn.functional.lp_pool2d torch.nn.functional.max_pool3d
        torch.nn.functional.max_pool3d_with_indices torch.nn.functional.avg_pool3d
        torch.max_pool3d torch.nn.functional.lp_pool3d
    """,
    "nn.recurrent": """
        torch.lstm torch.gru torch.rnn_tanh torch.rnn_relu torch.lstm_cell torch.gru_cell
        torch.rnn_tanh_cell torch.rnn_relu_cell
    """,
    "nn.vision": """
        torch.nn.functional.interpolate torch.nn.functional.grid_sample
        torch.nn.functional.affine_grid
    """,
    "reductions.reductions": """
        torch.norm torch.linalg.vector_norm torch.linalg.norm torch.linalg.matrix_norm torch.dist
        torch._weight_norm torch.norm_except_dim torch.max torch.min torch.argmax torch.argmin
        torch.median torch.nanmedian torch.mode torch.kthvalue torch.aminmax torch.quantile
        torch.sum torch.nansum torch.mean torch.amax torch.amin torch.any torch.all torch.prod
        torch.var torch.std torch.var_mean torch.std_mean torch.logsumexp torch.count_nonzero
        torch.nanmean torch.Tensor.sum_to_size torch.trace torch.allclose
    """,
    "reductions.sorting": """
        torch.searchsorted torch.bucketize torch.histc torch.bincount torch.unique
        torch.unique_consecutive torch.nonzero torch.argwhere torch.isin torch.cumsum
        torch.cumprod torch.cummax torch.cummin torch.logcumsumexp torch.sort torch.argsort
        torch.msort torch.topk torch.trapezoid torch.cumulative_trapezoid torch.renorm
    """,
    "shape.creation": """
        torch.zeros torch.ones torch.empty torch.full torch.rand torch.randn torch.randint
        torch.randperm torch.normal torch.zeros_like torch.ones_like torch.empty_like
        torch.Tensor.new_empty torch.full_like torch.rand_like torch.randn_like torch.randint_like
        torch.bernoulli torch.multinomial torch.Tensor.new_zeros torch.Tensor.new_ones
        torch.Tensor.new_full torch.Tensor.new_tensor torch.tensor torch.as_tensor torch.poisson
        torch.binomial torch.Tensor.zero_ torch.Tensor.fill_ torch.Tensor.normal_
        torch.Tensor.uniform_ torch.Tensor.bernoulli_ torch.Tensor.random_ torch.Tensor.cauchy_
        torch.Tensor.log_normal_ torch.Tensor.geometric_ torch.Tensor.exponential_
        torch.Tensor.copy_ torch.arange torch.linspace torch.logspace torch.eye torch.hann_window
        torch.hamming_window torch.blackman_window torch.bartlett_window torch.combinations
        torch.meshgrid torch.cartesian_prod torch.vander
    """,
    "shape.expansion": """
        torch.Tensor.expand torch.broadcast_to torch.Tensor.expand_as torch.Tensor.repeat
        torch.tile torch.repeat_interleave
    """,
    "shape.indexing": """
        torch.where torch.Tensor.where torch.masked_fill torch.index_select torch.gather
        torch.take_along_dim torch.take torch.ops.aten.index torch.masked_select operator.getitem
        operator.setitem
    """,
    "shape.joining": """
        torch.cat torch.stack torch.hstack torch.vstack torch.dstack torch.column_stack
        torch.broadcast_tensors torch.split torch.split_with_sizes torch.chunk torch.tensor_split
        torch.hsplit torch.vsplit torch.dsplit torch.unsafe_split torch.unbind
    """,
    "shape.moving": """
        torch.tril torch.triu torch.tril_indices torch.triu_indices torch.diagonal
        torch.linalg.diagonal torch.diag torch.diag_embed torch.diagflat torch.diagonal_scatter
        torch.nn.functional.pad torch.roll torch.flip torch.Tensor.flip torch.fliplr torch.flipud
        torch.rot90 torch.narrow torch.select torch.diff
    """,
    "shape.reshape": """
        torch.Tensor.view torch.Tensor.reshape torch.reshape torch.Tensor.view_as torch.flatten
        torch.ravel torch.unflatten torch.Tensor.unfold torch.squeeze torch.unsqueeze
        torch.permute torch.Tensor.permute torch.transpose torch.swapaxes torch.t torch.adjoint
        torch.movedim torch.atleast_1d torch.atleast_2d torch.atleast_3d
    """,
    "shape.scattering": """
        torch.scatter torch.scatter_add torch.scatter_reduce torch.index_add torch.index_copy
        torch.index_fill torch.index_put torch.masked_scatter torch.select_scatter
        torch.slice_scatter
    """,
}
"""Family to the paths of its entries."""


@lru_cache(maxsize=1)
def _places() -> dict[str, str]:
    return {path: family for family, paths in FAMILIES.items() for path in paths.split()}


def family_of(path: str) -> str | None:
    """Returns the family that declares a callable, None where none does.

    >>> family_of("torch.matmul")
    'linalg.products'
    """
    return _places().get(path)


PREFIXES = (
    ("_operator.", "operator."),
    ("torch._C._nn.log_sigmoid", "torch.nn.functional.logsigmoid"),
    ("torch._C._nn.", "torch.nn.functional."),
    ("torch._C._special.special_", "torch.special."),
    ("torch._C._linalg.linalg_", "torch.linalg."),
    ("torch._C._fft.fft_", "torch.fft."),
    ("torch._C._VariableFunctions.", "torch."),
    ("torch._C.TensorBase.", "torch.Tensor."),
    ("torch._C._TensorBase.", "torch.Tensor."),
    ("torch._tensor.Tensor.", "torch.Tensor."),
    ("torch._VF.", "torch."),
    ("torch.functional.", "torch."),
    ("torch._ops.", "torch.ops."),
)
"""Where builtins say that they live, and where people import them from."""

_RECORD = re.compile(r"\bpybind11_detail_function_record_\w+\.")
"""What pybind11 writes into the names of functions that it binds."""

_METHODS = """
abs acos acosh add addbmm addcdiv addcmul addmm addmv addr adjoint all allclose amax amin aminmax
angle any argmax argmin argsort argwhere asin asinh atan atan2 atanh baddbmm bernoulli bincount
bitwise_and bitwise_left_shift bitwise_not bitwise_or bitwise_right_shift bitwise_xor bmm
broadcast_to ceil chunk clamp clamp_max clamp_min conj conj_physical copysign cos cosh
count_nonzero cummax cummin cumprod cumsum deg2rad diag diag_embed diagflat diagonal
diagonal_scatter diff digamma dist div dot dsplit eq erf erfc erfinv exp exp2 expm1 flatten fliplr
flipud float_power floor floor_divide fmax fmin fmod frac frexp gather gcd ge gt heaviside histc
hsplit hypot i0 igamma igammac index_add index_copy index_fill index_put index_select inner
is_complex is_floating_point is_signed isclose isfinite isinf isnan isneginf isposinf isreal kron
kthvalue lcm ldexp le lerp lgamma log log10 log1p log2 log_softmax logaddexp logaddexp2
logcumsumexp logical_and logical_not logical_or logical_xor logit logsumexp lt masked_fill
masked_scatter masked_select matmul max maximum mean median min minimum mm mode movedim msort mul
multinomial mv mvlgamma nan_to_num nanmean nanmedian nansum narrow ne neg nextafter nonzero norm
numel outer positive pow prod quantile rad2deg ravel reciprocal remainder renorm repeat_interleave
resolve_conj roll rot90 round rsqrt scatter scatter_add scatter_reduce select select_scatter sgn
sigmoid sign signbit sin sinc sinh slice_scatter softmax sort split split_with_sizes sqrt square
squeeze std sub sum swapaxes t take take_along_dim tan tanh tensor_split tile topk trace transpose
tril triu true_divide trunc unbind unflatten unique unique_consecutive unsafe_split unsqueeze var
vdot vsplit xlogy
"""
"""Methods with the parameters of the function ``torch.NAME``."""

_SAME = {
    "absolute": "abs",
    "arccos": "acos",
    "arccosh": "acosh",
    "arcsin": "asin",
    "arcsinh": "asinh",
    "arctan": "atan",
    "arctan2": "atan2",
    "arctanh": "atanh",
    "clip": "clamp",
    "divide": "div",
    "fix": "trunc",
    "greater": "gt",
    "greater_equal": "ge",
    "less": "lt",
    "less_equal": "le",
    "multiply": "mul",
    "negative": "neg",
    "not_equal": "ne",
    "subtract": "sub",
}
"""Two names of one function, of the method, and of the method in place."""

_SAME_FUNCTION = {
    "concat": "cat",
    "concatenate": "cat",
    "ger": "outer",
    "moveaxis": "movedim",
    "row_stack": "vstack",
    "swapdims": "swapaxes",
    "trapz": "trapezoid",
    "unsafe_chunk": "chunk",
    "unsafe_split_with_sizes": "split_with_sizes",
}
"""Two names of one function."""

_FUNCTIONAL = """
adaptive_avg_pool1d avg_pool1d celu channel_shuffle conv1d conv2d conv3d conv_transpose1d
conv_transpose2d conv_transpose3d hardshrink max_pool1d_with_indices pixel_shuffle pixel_unshuffle
prelu relu rrelu selu threshold
"""
"""Functions of torch.nn.functional that torch has under its own name too, with the same parameters.
"""

_IN_PLACE = """
abs acos acosh add addbmm addcdiv addcmul addmm addmv addr asin asinh atan atan2 atanh baddbmm
bitwise_and bitwise_left_shift bitwise_not bitwise_or bitwise_right_shift bitwise_xor ceil clamp
clamp_max clamp_min conj_physical copysign cos cosh cumprod cumsum deg2rad digamma div eq erf erfc
erfinv exp exp2 expm1 float_power floor floor_divide fmod frac gcd ge gt heaviside hypot i0
index_add index_copy index_fill index_put lcm ldexp le lerp lgamma log log10 log1p log2
logical_and logical_not logical_or logical_xor logit lt masked_fill masked_scatter mul nan_to_num
ne neg nextafter pow rad2deg reciprocal relu remainder renorm round rsqrt scatter scatter_add
scatter_reduce sgn sigmoid sign sin sinc sinh sqrt square sub tan tanh tril triu true_divide trunc
xlogy
"""
"""Methods ``NAME_`` that write the result of ``torch.Tensor.NAME`` to the tensor."""

ALIASES: dict[str, str] = {
    **{f"torch.Tensor.{name}": f"torch.{name}" for name in _METHODS.split()},
    **{f"torch.{name}": f"torch.{same}" for name, same in _SAME.items()},
    **{f"torch.Tensor.{name}": f"torch.{same}" for name, same in _SAME.items()},
    **{f"torch.{name}": f"torch.{same}" for name, same in _SAME_FUNCTION.items()},
    **{f"torch.{name}": f"torch.nn.functional.{name}" for name in _FUNCTIONAL.split()},
    "torch.Tensor.ger": "torch.outer",
    "torch.Tensor.moveaxis": "torch.movedim",
    "torch.Tensor.swapdims": "torch.swapaxes",
    "torch.Tensor.relu": "torch.nn.functional.relu",
    "torch.Tensor.prelu": "torch.nn.functional.prelu",
    "torch.Tensor.hardshrink": "torch.nn.functional.hardshrink",
    "torch.nn.functional.tanh": "torch.tanh",
    "torch.Tensor.__getitem__": "operator.getitem",
    "torch.Tensor.__setitem__": "operator.setitem",
    "torch.Tensor.__matmul__": "operator.matmul",
    "torch.Tensor.__len__": "builtins.len",
    "torch.Tensor.ndimension": "torch.Tensor.dim",
    "torch.Tensor.nelement": "torch.numel",
    "torch.special.gammainc": "torch.igamma",
    "torch.special.gammaincc": "torch.igammac",
    "torch.special.multigammaln": "torch.mvlgamma",
    "torch.Tensor.clone": "torch.clone",
    "torch.Tensor.detach": "torch.detach",
    "torch.bilinear": "torch.nn.functional.bilinear",
    "torch.linalg.matmul": "torch.matmul",
    "torch.cosine_similarity": "torch.nn.functional.cosine_similarity",
    "torch.pairwise_distance": "torch.nn.functional.pairwise_distance",
    "torch.nn.functional._threshold": "torch.nn.functional.threshold",
    "torch.autograd.grad_mode.set_grad_enabled": "torch.set_grad_enabled",
    "torch.layer_norm": "torch.nn.functional.layer_norm",
    "torch.rms_norm": "torch.nn.functional.rms_norm",
    "torch.group_norm": "torch.nn.functional.group_norm",
    "torch.Tensor.logdet": "torch.logdet",
    "torch.nn.functional.pdist": "torch.pdist",
    "builtins.round": "builtins.int",
    "math.trunc": "builtins.int",
    "torch.inverse": "torch.linalg.inv",
    "torch.Tensor.inverse": "torch.linalg.inv",
    "torch.Tensor.det": "torch.linalg.det",
    "torch.slogdet": "torch.linalg.slogdet",
    "torch.Tensor.slogdet": "torch.linalg.slogdet",
    "torch.matrix_exp": "torch.linalg.matrix_exp",
    "torch.Tensor.matrix_exp": "torch.linalg.matrix_exp",
    "torch.matrix_power": "torch.linalg.matrix_power",
    "torch.Tensor.matrix_power": "torch.linalg.matrix_power",
    "torch.Tensor.reshape_as": "torch.Tensor.view_as",
    "torch.Tensor.cross": "torch.cross",
    "torch.Tensor.cov": "torch.cov",
    "torch.Tensor.corrcoef": "torch.corrcoef",
    "torch.Tensor.detach_": "torch.detach",
    "torch.Tensor.unsafe_chunk": "torch.chunk",
    "torch.Tensor.unsafe_split_with_sizes": "torch.split_with_sizes",
    "torch.resolve_neg": "torch.Tensor.resolve_neg",
    "torch.det": "torch.linalg.det",
    "torch.special.logsumexp": "torch.logsumexp",
    "torch.special.softmax": "torch.softmax",
    "torch.special.log_softmax": "torch.log_softmax",
    "torch.nn.functional.sigmoid": "torch.sigmoid",
    "torch.special.expit": "torch.sigmoid",
    "torch.special.exp2": "torch.exp2",
    "torch.special.expm1": "torch.expm1",
    "torch.special.digamma": "torch.digamma",
    "torch.special.erf": "torch.erf",
    "torch.special.erfc": "torch.erfc",
    "torch.special.erfinv": "torch.erfinv",
    "torch.special.i0": "torch.i0",
    "torch.special.log1p": "torch.log1p",
    "torch.special.logit": "torch.logit",
    "torch.special.polygamma": "torch.polygamma",
    "torch.special.round": "torch.round",
    "torch.special.sinc": "torch.sinc",
    "torch.special.xlogy": "torch.xlogy",
    "torch.Tensor.__abs__": "torch.abs",
    "torch.Tensor.__neg__": "torch.neg",
    "torch.Tensor.__invert__": "torch.bitwise_not",
}
"""Path to path."""

IN_PLACE: dict[str, str] = {
    **{f"torch.Tensor.{name}_": f"torch.Tensor.{name}" for name in _IN_PLACE.split()},
    **{f"torch.Tensor.{name}_": f"torch.{same}" for name, same in _SAME.items()},
    **{
        f"torch.nn.functional.{name}_": f"torch.nn.functional.{name}"
        for name in ["celu", "elu", "hardtanh", "leaky_relu", "relu", "rrelu", "selu", "threshold"]
    },
    **{
        f"torch.{name}_": f"torch.nn.functional.{name}"
        for name in ["relu", "rrelu", "selu", "celu", "threshold"]
    },
}
"""Path of a function that writes to its first argument, to the path of the function it computes."""


def canonical_path(path: str) -> str:
    """Returns the path with the place where people import it from.

    >>> canonical_path("torch._C._nn.gelu")
    'torch.nn.functional.gelu'
    """
    path = _RECORD.sub("", path)
    for prefix, place in PREFIXES:
        if path.startswith(prefix):
            return place + path[len(prefix) :]
    return path


_ODD = (AttributeError, IndexError, KeyError, TypeError, ValueError, ZeroDivisionError)
"""What a declaration raises when it is given what is no tensor, no length and no dimension."""

_ASKS_FOR_ITS_KIND = ("torch.Tensor.to", "torch.Tensor.type_as")
"""Functions that want nothing of a tensor but its dtype and device."""

NUMPY_NAMES = {"axis": "dim", "keepdims": "keepdim", "x": "input", "a": "input", "x2": "other"}
"""Names of parameters that torch takes from NumPy beside its own."""


@lru_cache(maxsize=64)
def _family(name: str) -> dict[str, Entry]:
    """The entries of one family by path."""
    return {item.path: item for item in import_module(f"{__package__}.{name}").ENTRIES}


def entries() -> dict[str, Entry]:
    """Returns every entry by its path; all families are imported."""
    return {path: item for name in FAMILIES for path, item in _family(name).items()}


def _locate(path: str) -> tuple[str, bool] | None:
    """The path of the entry that a path stands for, and whether it names its in-place variant."""
    path = canonical_path(path)
    for _ in range(3):
        if family_of(path) is not None:
            return path, False
        if path in IN_PLACE:
            located = _locate(IN_PLACE[path])
            return None if located is None else (located[0], True)
        if path not in ALIASES:
            return None
        path = canonical_path(ALIASES[path])
    return None


def _resolve(path: str) -> tuple[Entry, bool] | None:
    """The entry that a path stands for, and whether the path names its in-place variant."""
    located = _locate(path)
    family = None if located is None else family_of(located[0])
    if located is None or family is None:
        return None
    return _family(family)[located[0]], located[1]


def canonical(path: str) -> str | None:
    """Returns the path of the entry that a path stands for, None where there is none.

    >>> canonical("torch._C._nn.linear")
    'torch.nn.functional.linear'
    """
    located = _locate(path)
    return None if located is None else located[0]


@lru_cache(maxsize=4096)
def find(path: str) -> Operator | None:
    """Returns the operator of a torch callable, None for one that the library does not know.

    path: ``"torch.matmul"``, ``"torch.Tensor.view"``, ``"operator.add"``, or any spelling of the
    alias table, such as ``"torch._C._nn.linear"`` or ``"torch.Tensor.add_"``.

    >>> find("torch.Tensor.add_").mutates
    (0,)
    """
    resolved = _resolve(path)
    if resolved is None:
        return None
    item, writes = resolved
    return Operator(
        name=path.rpartition(".")[2].rstrip("_") or path,
        path=path,
        declare=Declare(item, writes),
        mutates=(0,) if writes else (),
        parameters=_parameters(item.declare),
    )


@dataclass(frozen=True, slots=True)
class Declare:
    """Gives the Declaration of one call; what the entry does not know of is declared as ``?``, with
    the reason.
    """

    entry: Entry
    writes: bool = False

    def __call__(self, *args: Any, **kwargs: Any) -> Declaration:
        """Returns the declaration. Raises ShapeError where the arguments contradict each other."""
        if not NUMPY_NAMES.keys().isdisjoint(kwargs):
            kwargs = self._named_by_torch(kwargs)
        check_dtypes(self.entry.path, args, kwargs)
        with collecting() as needs:
            declaration = self._declared(args, kwargs)
        return with_needs(declaration, needs)

    def _declared(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Declaration:
        try:
            declaration = self.entry.declare(*args, **kwargs)
        except PartsNotKnown as problem:
            tensors = tensors_in([*args, *kwargs.values()])
            return opaque(tensors, 1, str(problem), returns="parts")
        except NotKnown as problem:
            self._check_operands(args)
            return opaque(tensors_in([*args, *kwargs.values()]), 1, str(problem))
        except _ODD as problem:
            missing = self._missing(args, kwargs)
            if missing:
                raise errors.missing_argument(self.entry.path, missing) from None
            reason = f"{self.entry.path} is not known with these arguments: {problem}"
            return opaque(tensors_in([*args, *kwargs.values()]), 1, reason)
        unsaid = self._unsaid(declaration, args, kwargs)
        if unsaid:
            outputs = len(read_annotation(declaration.annotation).outputs)
            tensors = tensors_in([*args, *kwargs.values()])
            return opaque(tensors, outputs, unsaid, returns=declaration.returns)
        return with_reason(in_place(declaration) if self.writes else declaration)

    def _unsaid(
        self, declaration: Declaration, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> str:
        """Why a call with a tensor that its annotation leaves out stays whole; "" where there is
        none: a rank would have all of that tensor beside a part of the others.
        """
        if not declaration.inputs or self.entry.path in _ASKS_FOR_ITS_KIND:
            return ""
        inputs = {id(value) for value in declaration.inputs}
        for place, value in [*enumerate(args), *kwargs.items()]:
            if any(id(tensor) not in inputs for tensor in tensors_in(value)):
                return f"argument {place} of {self.entry.path} is a tensor, which is not known of"
        return ""

    def _check_operands(self, args: tuple[Any, ...]) -> None:
        """An element-wise function of torch takes tensors: numbers and texts alone are refused."""
        if isinstance(self.entry.declare, Pointwise) and self.entry.path.startswith("torch."):
            plain = [isinstance(a, str | int | Poly) or type(a) is float for a in args]
            if args and all(plain):
                raise errors.no_tensor(self.entry.path, ", ".join(map(repr, args)))

    def _missing(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> str:
        """The first parameter that has no default and is not given; "" where there is none, or a
        keyword may stand for it that is not known of.
        """
        if isinstance(self.entry.declare, Pointwise):
            return ""
        parameters = inspect.signature(self.entry.declare).parameters
        if not parameters.keys() >= kwargs.keys():
            return ""
        for place, (name, parameter) in enumerate(parameters.items()):
            if parameter.kind is not parameter.POSITIONAL_OR_KEYWORD:
                return ""
            if parameter.default is parameter.empty and place >= len(args) and name not in kwargs:
                return name
        return ""

    def _named_by_torch(self, kwargs: dict[str, Any]) -> dict[str, Any]:
        """The arguments with torch's own names, which it lets NumPy's stand for."""
        own = _parameters(self.entry.declare)
        names = {name: NUMPY_NAMES.get(name, name) for name in kwargs}
        return {name if name in own else names[name]: kwargs[name] for name in kwargs}


def _parameters(declare: Callable[..., Declaration]) -> tuple[str, ...]:
    """The names of the parameters in order, ``*name`` for one that takes the rest."""
    if isinstance(declare, Pointwise):
        return declare.parameters
    parameters = inspect.signature(declare).parameters.values()
    return tuple(str(parameter).partition(":")[0].partition("=")[0] for parameter in parameters)


def names() -> tuple[str, ...]:
    """Returns the path of every callable that the library knows, sorted: entries and their other
    spellings.
    """
    own = (path for paths in FAMILIES.values() for path in paths.split())
    return tuple(sorted({*own, *(p for p in (*ALIASES, *IN_PLACE) if _locate(p))}))


def specimens(path: str) -> tuple[Example, ...]:
    """Returns the example calls of a callable as data, which needs no torch; () for one that is not
    known.
    """
    resolved = _resolve(path)
    if resolved is None:
        return ()
    item, writes = resolved
    if path == item.path:
        return item.examples
    calls = tuple(call for call in item.examples if "inplace" not in call.kwargs)
    if writes:
        return tuple(call for call in calls if _can_write(item, call))
    if canonical_path(path).startswith("torch.Tensor."):
        return tuple(call for call in calls if _first_is_tensor(call))
    return calls


def _first_is_tensor(call: Example) -> bool:
    """Whether the call can be one of a method."""
    return bool(call.args) and isinstance(call.args[0], Sample)


def _can_write(item: Entry, call: Example) -> bool:
    """Whether the first argument can hold the result."""
    try:
        declaration = Declare(item, True)(*call.args, **call.kwargs)
        return _first_is_tensor(call) and bool(declaration.mutates)
    except ShapeError:
        return False


def examples(path: str) -> list[tuple[tuple[Any, ...], dict[str, Any]]]:
    """Returns example calls ``(args, kwargs)`` with new torch tensors, the same values each time.

    Tensors in which torch has a gradient require one, but not where the call writes to its inputs.
    """
    operator = find(path)
    if operator is None:
        return []
    calls = specimens(path)
    writes = [bool(operator.declare(*call.args, **call.kwargs).mutates) for call in calls]
    return [call.build(grad=not w) for call, w in zip(calls, writes, strict=True)]


@dataclass(frozen=True, slots=True)
class Summary:
    """One line of ``dimsolve ops``: the annotations of the example calls, and why nothing can be
    split, or what to know.
    """

    path: str
    annotations: tuple[str, ...]
    note: str


def summary(path: str) -> Summary | None:
    """Returns what the library says of a callable, None where it does not know it.

    >>> summary("torch.add").annotations
    ('*, * -> *', 'a b, b -> a b', 'a 1 c, b c -> a b c', '* -> *')
    """
    operator, resolved = find(path), _resolve(path)
    if operator is None or resolved is None:
        return None
    declarations = [operator.declare(*call.args, **call.kwargs) for call in specimens(path)]
    texts = dict.fromkeys(declaration.annotation for declaration in declarations)
    reasons = dict.fromkeys(
        declaration.frozen for declaration in declarations if declaration.frozen
    )
    return Summary(path, tuple(texts), replace_empty(resolved[0].note, reasons))


def replace_empty(note: str, reasons: Any) -> str:
    """Returns the note, followed by the reasons why nothing can be split."""
    return "; ".join([note] * bool(note) + list(reasons))
