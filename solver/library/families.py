"""Which family declares which callable: only the family of what is looked up is imported.

    "torch.matmul"    products        "torch.nn.functional.gelu"    activation

A test compares this table with the families; an entry that is missing here is not found.
"""

from __future__ import annotations

from functools import lru_cache

FAMILIES: dict[str, str] = {
    "activation": """
        torch.nn.functional.celu torch.nn.functional.elu torch.nn.functional.gelu
        torch.nn.functional.hardshrink torch.nn.functional.hardsigmoid
        torch.nn.functional.hardswish torch.nn.functional.hardtanh
        torch.nn.functional.leaky_relu torch.nn.functional.logsigmoid torch.nn.functional.mish
        torch.nn.functional.relu torch.nn.functional.relu6 torch.nn.functional.selu
        torch.nn.functional.silu torch.nn.functional.softplus torch.nn.functional.softshrink
        torch.nn.functional.softsign torch.nn.functional.tanhshrink
        torch.nn.functional.threshold torch.nn.functional.prelu torch.nn.functional.rrelu
        torch.nn.functional.glu torch.nn.functional.softmax torch.nn.functional.log_softmax
        torch.nn.functional.softmin torch.softmax torch.log_softmax
        torch.nn.functional.gumbel_softmax torch.nn.functional.dropout
        torch.nn.functional.alpha_dropout torch.dropout torch.nn.functional.dropout1d
        torch.nn.functional.dropout2d torch.nn.functional.dropout3d
        torch.nn.functional.feature_alpha_dropout
    """,
    "adaptive_pooling": """
        torch.nn.functional.adaptive_avg_pool1d torch.nn.functional.adaptive_max_pool1d
        torch.nn.functional.adaptive_max_pool1d_with_indices torch.nn.functional.max_unpool1d
        torch.nn.functional.adaptive_avg_pool2d torch.nn.functional.adaptive_max_pool2d
        torch.nn.functional.adaptive_max_pool2d_with_indices torch.nn.functional.max_unpool2d
        torch.nn.functional.adaptive_avg_pool3d torch.nn.functional.adaptive_max_pool3d
        torch.nn.functional.adaptive_max_pool3d_with_indices torch.nn.functional.max_unpool3d
        torch.nn.functional.fractional_max_pool2d torch.nn.functional.fractional_max_pool3d
        torch.adaptive_max_pool1d
    """,
    "added_products": """
        torch.addmm torch.baddbmm torch.addbmm torch.addmv torch.addr
    """,
    "attention": """
        torch.nn.functional.scaled_dot_product_attention
        torch.nn.functional.multi_head_attention_forward
    """,
    "class_losses": """
        torch.nn.functional.cross_entropy torch.nn.functional.linear_cross_entropy
        torch.nn.functional.nll_loss
    """,
    "conversion": """
        torch.Tensor.to torch.Tensor.float torch.Tensor.double torch.Tensor.half
        torch.Tensor.bfloat16 torch.Tensor.int torch.Tensor.long torch.Tensor.short
        torch.Tensor.char torch.Tensor.byte torch.Tensor.bool torch.Tensor.cfloat
        torch.Tensor.cdouble torch.Tensor.type torch.Tensor.type_as torch.Tensor.contiguous
        torch.Tensor.clone torch.Tensor.detach torch.Tensor.cpu torch.Tensor.cuda
        torch.Tensor.pin_memory torch.Tensor.requires_grad_ torch.Tensor.resolve_neg
        torch.Tensor.retain_grad torch.clone torch.detach torch.view_as_complex
        torch.view_as_real
    """,
    "convolution": """
        torch.nn.functional.conv1d torch.nn.functional.conv2d torch.nn.functional.conv3d
        torch.nn.functional.conv_transpose1d torch.nn.functional.conv_transpose2d
        torch.nn.functional.conv_transpose3d
    """,
    "creation": """
        torch.zeros torch.ones torch.empty torch.full torch.rand torch.randn torch.randint
        torch.randperm torch.normal torch.zeros_like torch.ones_like torch.empty_like
        torch.Tensor.new_empty torch.full_like torch.rand_like torch.randn_like
        torch.randint_like torch.bernoulli torch.multinomial torch.Tensor.new_zeros
        torch.Tensor.new_ones torch.Tensor.new_full torch.Tensor.new_tensor torch.tensor
        torch.as_tensor torch.poisson torch.binomial torch.Tensor.zero_ torch.Tensor.fill_
        torch.Tensor.normal_ torch.Tensor.uniform_ torch.Tensor.bernoulli_ torch.Tensor.random_
        torch.Tensor.cauchy_ torch.Tensor.log_normal_ torch.Tensor.geometric_
        torch.Tensor.exponential_ torch.Tensor.copy_
    """,
    "diagonals": """
        torch.tril torch.triu torch.tril_indices torch.triu_indices torch.diagonal
        torch.linalg.diagonal torch.diag torch.diag_embed torch.diagflat torch.diagonal_scatter
    """,
    "distances": """
        torch.nn.functional.cosine_similarity torch.nn.functional.pairwise_distance torch.pdist
        torch.cdist
    """,
    "einsum": """
        torch.einsum
    """,
    "elementwise": """
        torch.asinh torch.atan torch.cos torch.cosh torch.deg2rad torch.erf torch.erfc torch.exp
        torch.exp2 torch.expm1 torch.rad2deg torch.sin torch.sinc torch.sinh torch.tan
        torch.tanh torch.i0 torch.digamma torch.lgamma torch.log torch.log10 torch.log1p
        torch.log2 torch.reciprocal torch.rsqrt torch.sqrt torch.acos torch.asin torch.atanh
        torch.erfinv torch.acosh torch.ceil torch.conj_physical torch.floor torch.frac torch.sgn
        torch.sign torch.square torch.trunc torch.isfinite torch.isinf torch.isnan
        torch.isneginf torch.isposinf torch.isreal torch.logical_not torch.signbit
        torch.special.entr torch.special.erfcx torch.special.expit torch.special.i0e
        torch.special.i1 torch.special.i1e torch.special.log_ndtr torch.special.ndtr
        torch.special.gammaln torch.special.psi torch.special.airy_ai torch.special.bessel_j0
        torch.special.bessel_j1 torch.special.bessel_y0 torch.special.bessel_y1
        torch.special.modified_bessel_i0 torch.special.modified_bessel_i1
        torch.special.modified_bessel_k0 torch.special.modified_bessel_k1
        torch.special.scaled_modified_bessel_k0 torch.special.scaled_modified_bessel_k1
        torch.special.spherical_bessel_j0 torch.special.ndtri torch.maximum torch.minimum
        torch.fmax torch.fmin torch.hypot torch.logaddexp torch.logaddexp2 torch.nextafter
        torch.fmod torch.remainder torch.floor_divide torch.heaviside torch.bitwise_and
        torch.bitwise_or torch.bitwise_xor torch.bitwise_left_shift torch.bitwise_right_shift
        torch.gcd torch.lcm torch.atan2 torch.copysign torch.xlogy torch.eq torch.ge torch.gt
        torch.le torch.lt torch.ne torch.logical_and torch.logical_or torch.logical_xor
        torch.add torch.sub torch.rsub torch.mul torch.special.chebyshev_polynomial_t
        torch.special.chebyshev_polynomial_u torch.special.chebyshev_polynomial_v
        torch.special.chebyshev_polynomial_w torch.special.hermite_polynomial_h
        torch.special.hermite_polynomial_he torch.special.laguerre_polynomial_l
        torch.special.legendre_polynomial_p torch.special.shifted_chebyshev_polynomial_t
        torch.special.shifted_chebyshev_polynomial_u
        torch.special.shifted_chebyshev_polynomial_v
        torch.special.shifted_chebyshev_polynomial_w torch.igamma torch.igammac torch.mvlgamma
        torch.frexp torch.float_power torch.div torch.true_divide torch.Tensor.polygamma
        torch.neg torch.positive torch.abs torch.angle torch.conj torch.resolve_conj torch.real
        torch.imag torch.bitwise_not torch.logit torch.special.xlog1py torch.special.zeta
        torch.polygamma torch.ldexp torch.isclose torch.clamp torch.clamp_min torch.clamp_max
        torch.lerp torch.addcmul torch.addcdiv torch.complex torch.polar torch.round
        torch.nan_to_num torch.sigmoid torch.pow
    """,
    "embedding": """
        torch.nn.functional.embedding torch.embedding torch.nn.functional.embedding_bag
        torch.nn.functional.one_hot
    """,
    "expansion": """
        torch.Tensor.expand torch.broadcast_to torch.Tensor.expand_as torch.Tensor.repeat
        torch.tile torch.repeat_interleave
    """,
    "images": """
        torch.nn.functional.pixel_shuffle torch.nn.functional.pixel_unshuffle
        torch.nn.functional.channel_shuffle torch.nn.functional.unfold torch.nn.functional.fold
    """,
    "indexing": """
        torch.where torch.Tensor.where torch.masked_fill torch.index_select torch.gather
        torch.take_along_dim torch.take torch.ops.aten.index torch.masked_select
    """,
    "joining": """
        torch.cat torch.stack torch.hstack torch.vstack torch.dstack torch.column_stack
        torch.broadcast_tensors
    """,
    "likelihood_losses": """
        torch.nn.functional.binary_cross_entropy
        torch.nn.functional.binary_cross_entropy_with_logits torch.nn.functional.kl_div
        torch.nn.functional.poisson_nll_loss torch.nn.functional.gaussian_nll_loss
    """,
    "linalg": """
        torch.linalg.inv torch.linalg.det torch.linalg.slogdet torch.linalg.cholesky
        torch.linalg.eigh torch.linalg.eigvalsh torch.linalg.eig torch.linalg.eigvals
        torch.linalg.matrix_exp torch.linalg.matrix_power torch.linalg.svd torch.linalg.svdvals
        torch.linalg.qr torch.linalg.pinv torch.linalg.matrix_rank torch.linalg.cond
        torch.linalg.lu_factor torch.linalg.solve torch.linalg.solve_triangular torch.logdet
        torch.cholesky_solve
    """,
    "losses": """
        torch.nn.functional.mse_loss torch.nn.functional.l1_loss
        torch.nn.functional.smooth_l1_loss torch.nn.functional.huber_loss
        torch.nn.functional.soft_margin_loss torch.nn.functional.hinge_embedding_loss
        torch.nn.functional.margin_ranking_loss
    """,
    "moving": """
        torch.nn.functional.pad torch.roll torch.flip torch.Tensor.flip torch.fliplr
        torch.flipud torch.rot90 torch.narrow torch.select torch.diff
    """,
    "normalization": """
        torch.nn.functional.layer_norm torch.nn.functional.rms_norm
        torch.nn.functional.group_norm torch.nn.functional.instance_norm
        torch.nn.functional.batch_norm torch.batch_norm torch.nn.functional.local_response_norm
        torch.nn.functional.normalize
    """,
    "norms": """
        torch.norm torch.linalg.vector_norm torch.linalg.norm torch.linalg.matrix_norm
        torch.dist
    """,
    "operators": """
        operator.add operator.sub operator.mul operator.floordiv operator.mod operator.truediv
        operator.pow operator.and_ operator.or_ operator.xor operator.lshift operator.rshift
        operator.eq operator.ne operator.lt operator.le operator.gt operator.ge operator.iadd
        operator.iand operator.ifloordiv operator.ilshift operator.imod operator.imul
        operator.ior operator.ipow operator.irshift operator.isub operator.itruediv
        operator.ixor operator.matmul operator.neg operator.pos operator.abs operator.invert
    """,
    "order_statistics": """
        torch.max torch.min torch.argmax torch.argmin torch.median torch.nanmedian torch.mode
        torch.kthvalue torch.aminmax torch.quantile
    """,
    "pooling": """
        torch.nn.functional.max_pool1d torch.nn.functional.max_pool1d_with_indices
        torch.nn.functional.avg_pool1d torch.max_pool1d torch.nn.functional.lp_pool1d
        torch.nn.functional.max_pool2d torch.nn.functional.max_pool2d_with_indices
        torch.nn.functional.avg_pool2d torch.max_pool2d torch.nn.functional.lp_pool2d
        torch.nn.functional.max_pool3d torch.nn.functional.max_pool3d_with_indices
        torch.nn.functional.avg_pool3d torch.max_pool3d torch.nn.functional.lp_pool3d
    """,
    "positions": """
        torch.arange torch.linspace torch.logspace torch.eye torch.hann_window
        torch.hamming_window torch.blackman_window torch.bartlett_window torch.combinations
        torch.meshgrid torch.cartesian_prod torch.vander
    """,
    "products": """
        torch.nn.functional.linear torch.matmul torch.mm torch.bmm torch.mv torch.dot torch.vdot
        torch.inner torch.outer torch.kron torch.tensordot torch.nn.functional.bilinear
        torch.chain_matmul torch.linalg.multi_dot torch.nn.functional.grouped_mm
        torch.ops.transformers.grouped_mm_fallback
    """,
    "python": """
        builtins.getattr builtins.len builtins.max builtins.min builtins.int torch.sym_max
        torch.sym_min torch.sym_sum torch.sym_int math.floor math.ceil torch.Tensor.size
        torch.Tensor.dim torch.numel torch.Tensor.item torch.Tensor.tolist
        torch.is_floating_point torch.is_complex torch.is_signed torch._C._set_grad_enabled
        torch._C._log_api_usage_once torch.set_grad_enabled torch.is_grad_enabled
        torch._C._functorch._vmap_increment_nesting torch._C._functorch._vmap_decrement_nesting
        torch._check torch._assert torch._assert_async torch.amp.autocast_mode._enter_autocast
        torch.amp.autocast_mode._exit_autocast torch.autograd.grad_mode.inference_mode
        builtins.print
    """,
    "recurrent": """
        torch.lstm torch.gru torch.rnn_tanh torch.rnn_relu torch.lstm_cell torch.gru_cell
        torch.rnn_tanh_cell torch.rnn_relu_cell
    """,
    "reductions": """
        torch.sum torch.nansum torch.mean torch.amax torch.amin torch.any torch.all torch.prod
        torch.var torch.std torch.var_mean torch.std_mean torch.logsumexp torch.count_nonzero
        torch.nanmean torch.Tensor.sum_to_size torch.trace torch.allclose
    """,
    "reshaping": """
        torch.Tensor.view torch.Tensor.reshape torch.reshape torch.Tensor.view_as torch.flatten
        torch.ravel torch.unflatten torch.Tensor.unfold
    """,
    "row_losses": """
        torch.nn.functional.cosine_embedding_loss torch.nn.functional.triplet_margin_loss
        torch.nn.functional.multi_margin_loss torch.nn.functional.multilabel_margin_loss
        torch.nn.functional.multilabel_soft_margin_loss torch.nn.functional.ctc_loss
    """,
    "scattering": """
        torch.scatter torch.scatter_add torch.scatter_reduce torch.index_add torch.index_copy
        torch.index_fill torch.index_put torch.masked_scatter torch.select_scatter
        torch.slice_scatter
    """,
    "searching": """
        torch.searchsorted torch.bucketize torch.histc torch.bincount torch.unique
        torch.unique_consecutive torch.nonzero torch.argwhere torch.isin
    """,
    "shaping": """
        torch.squeeze torch.unsqueeze torch.permute torch.Tensor.permute torch.transpose
        torch.swapaxes torch.t torch.adjoint torch.movedim torch.atleast_1d torch.atleast_2d
        torch.atleast_3d
    """,
    "sorting": """
        torch.cumsum torch.cumprod torch.cummax torch.cummin torch.logcumsumexp torch.sort
        torch.argsort torch.msort torch.topk torch.trapezoid torch.cumulative_trapezoid
        torch.renorm
    """,
    "spectral": """
        torch.fft.fft torch.fft.fft2 torch.fft.fftn torch.fft.ifft torch.fft.ifft2
        torch.fft.ifftn torch.fft.rfft torch.fft.rfft2 torch.fft.rfftn torch.fft.irfft
        torch.fft.irfft2 torch.fft.irfftn torch.fft.hfft torch.fft.hfft2 torch.fft.hfftn
        torch.fft.ihfft torch.fft.ihfft2 torch.fft.ihfftn torch.fft.fftshift torch.fft.ifftshift
    """,
    "subscripts": """
        operator.getitem operator.setitem
    """,
    "taking_apart": """
        torch.split torch.split_with_sizes torch.chunk torch.tensor_split torch.hsplit
        torch.vsplit torch.dsplit torch.unsafe_split torch.unbind
    """,
    "vectors": """
        torch.linalg.cross torch.linalg.vecdot torch.cross torch.block_diag torch.cov
        torch.corrcoef
    """,
    "vision": """
        torch.nn.functional.interpolate torch.nn.functional.grid_sample
        torch.nn.functional.affine_grid
    """,
}
"""Family to the paths of its entries."""


@lru_cache(maxsize=1)
def _places() -> dict[str, str]:
    return {path: family for family, paths in FAMILIES.items() for path in paths.split()}


def family_of(path: str) -> str | None:
    """Returns the family that declares a callable, None where none does.

    >>> family_of("torch.matmul")
    'products'
    """
    return _places().get(path)
