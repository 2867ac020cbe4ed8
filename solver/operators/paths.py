"""Paths: which family declares a callable, and by what other names it is called.

    "torch.matmul"               declared in linalg/products.py
    "torch.Tensor.cos"           torch.cos: a method with the parameters of a function
    "torch._C._nn.linear"        torch.nn.functional.linear: where a builtin is really kept
    "torch.Tensor.add_"          torch.add, in place

The table of families is written out so that only the family of what is looked up is imported. A
test compares it with the families; an entry that is missing here is not found.
"""

from __future__ import annotations

import re


def read_paths(text: str) -> tuple[str, ...]:
    """Returns the paths in a text. A word that ends in a dot is the home of the names after it.

    >>> read_paths("torch. cat stack torch.linalg. inv")
    ('torch.cat', 'torch.stack', 'torch.linalg.inv')
    """
    home, paths = "", []
    for word in text.split():
        if word.endswith("."):
            home = word
        else:
            paths.append(home + word)
    return tuple(paths)


_FAMILIES = {
    "elementwise.activation": """
        torch.nn.functional. celu elu gelu hardshrink hardsigmoid hardswish hardtanh leaky_relu
        logsigmoid mish relu relu6 selu silu softplus softshrink softsign tanhshrink threshold prelu
        rrelu glu softmax log_softmax softmin gumbel_softmax dropout alpha_dropout dropout1d
        dropout2d dropout3d feature_alpha_dropout
        torch. softmax log_softmax dropout
        torch.ops.aten. _safe_softmax _softmax_backward_data native_dropout_backward
    """,
    "elementwise.conversion": """
        torch.Tensor. to float double half bfloat16 int long short char byte bool cfloat cdouble
        type type_as contiguous clone detach cpu cuda pin_memory requires_grad_ resolve_neg
        retain_grad chalf
        torch. clone detach view_as_complex view_as_real
    """,
    "elementwise.pointwise": """
        torch. asinh atan cos cosh deg2rad erf erfc exp exp2 expm1 rad2deg sin sinc sinh tan tanh i0
        digamma lgamma log log10 log1p log2 reciprocal rsqrt sqrt acos asin atanh erfinv acosh fill
        ceil conj_physical floor frac sgn sign square trunc isfinite isinf isnan isneginf isposinf
        isreal logical_not signbit maximum minimum fmax fmin hypot logaddexp logaddexp2 nextafter
        fmod remainder floor_divide heaviside bitwise_and bitwise_or bitwise_xor bitwise_left_shift
        bitwise_right_shift gcd lcm atan2 copysign xlogy eq ge gt le lt ne logical_and logical_or
        logical_xor add sub rsub mul igamma igammac mvlgamma frexp float_power div true_divide neg
        positive abs angle conj resolve_conj real imag bitwise_not logit polygamma ldexp isclose
        clamp clamp_min clamp_max lerp addcmul addcdiv complex polar round nan_to_num sigmoid pow
        torch.special. entr erfcx expit i0e i1 i1e log_ndtr ndtr gammaln psi airy_ai bessel_j0
        bessel_j1 bessel_y0 bessel_y1 modified_bessel_i0 modified_bessel_i1 modified_bessel_k0
        modified_bessel_k1 scaled_modified_bessel_k0 scaled_modified_bessel_k1 spherical_bessel_j0
        ndtri chebyshev_polynomial_t chebyshev_polynomial_u chebyshev_polynomial_v
        chebyshev_polynomial_w hermite_polynomial_h hermite_polynomial_he laguerre_polynomial_l
        legendre_polynomial_p shifted_chebyshev_polynomial_t shifted_chebyshev_polynomial_u
        shifted_chebyshev_polynomial_v shifted_chebyshev_polynomial_w xlog1py zeta
        torch.Tensor. polygamma
    """,
    "elementwise.python": """
        operator. add sub mul floordiv mod truediv pow and_ or_ xor lshift rshift eq ne lt le gt ge
        iadd iand ifloordiv ilshift imod imul ior ipow irshift isub itruediv ixor matmul neg pos abs
        invert
        builtins. getattr len max min int print
        torch. sym_max sym_min sym_sum sym_int numel is_floating_point is_complex is_signed
        set_grad_enabled is_grad_enabled _check _assert _assert_async
        math. floor ceil
        torch.Tensor. size dim item tolist
        torch._C. _set_grad_enabled _log_api_usage_once
        torch._C._functorch. _vmap_increment_nesting _vmap_decrement_nesting
        torch.amp.autocast_mode. _enter_autocast _exit_autocast
        torch.autograd.grad_mode. inference_mode
    """,
    "linalg.factors": """
        torch. cholesky cholesky_inverse lu lu_unpack lu_solve geqrf ormqr qr svd svd_lowrank
        pca_lowrank pinverse triangular_solve
        torch.linalg. cholesky_ex inv_ex ldl_factor ldl_factor_ex ldl_solve lu lu_factor_ex lu_solve
        solve_ex householder_product vander tensorinv tensorsolve
    """,
    "linalg.einsum": "torch. einsum",
    "linalg.linalg": """
        torch.linalg. inv det slogdet cholesky eigh eigvalsh eig eigvals matrix_exp matrix_power svd
        svdvals qr pinv matrix_rank cond lu_factor solve solve_triangular
        torch. logdet cholesky_solve
    """,
    "linalg.products": """
        torch. addmm baddbmm addbmm addmv addr matmul mm bmm mv dot vdot inner outer kron tensordot
        chain_matmul cross block_diag cov corrcoef
        torch.nn.functional. linear bilinear grouped_mm
        torch.linalg. multi_dot cross vecdot
        torch.ops.transformers. grouped_mm_fallback
    """,
    "linalg.spectral": """
        torch.fft. fft fft2 fftn ifft ifft2 ifftn rfft rfft2 rfftn irfft irfft2 irfftn hfft hfft2
        hfftn ihfft ihfft2 ihfftn fftshift ifftshift
        torch. stft istft
    """,
    "nn.attention": "torch.nn.functional. scaled_dot_product_attention",
    "nn.convolution": """
        torch.nn.functional. conv1d conv2d conv3d conv_transpose1d conv_transpose2d conv_transpose3d
        pixel_shuffle pixel_unshuffle channel_shuffle unfold fold
    """,
    "nn.distances": "torch.nn.functional. cosine_similarity pairwise_distance torch. pdist cdist",
    "nn.embedding": "torch.nn.functional. embedding embedding_bag one_hot torch. embedding",
    "nn.losses": """
        torch.nn.functional. cross_entropy linear_cross_entropy nll_loss binary_cross_entropy
        binary_cross_entropy_with_logits kl_div poisson_nll_loss gaussian_nll_loss mse_loss l1_loss
        smooth_l1_loss huber_loss soft_margin_loss hinge_embedding_loss margin_ranking_loss
        cosine_embedding_loss triplet_margin_loss multi_margin_loss multilabel_margin_loss
        multilabel_soft_margin_loss ctc_loss
    """,
    "nn.normalization": """
        torch.nn.functional. layer_norm rms_norm group_norm instance_norm batch_norm
        local_response_norm normalize
        torch. batch_norm native_layer_norm native_group_norm native_batch_norm
        _native_batch_norm_legit
        torch.ops.aten. _batch_norm_with_update
    """,
    "nn.pooling": """
        torch.nn.functional. adaptive_avg_pool1d adaptive_max_pool1d
        adaptive_max_pool1d_with_indices max_unpool1d adaptive_avg_pool2d adaptive_max_pool2d
        adaptive_max_pool2d_with_indices max_unpool2d adaptive_avg_pool3d adaptive_max_pool3d
        adaptive_max_pool3d_with_indices max_unpool3d fractional_max_pool2d fractional_max_pool3d
        max_pool1d max_pool1d_with_indices avg_pool1d lp_pool1d max_pool2d max_pool2d_with_indices
        avg_pool2d lp_pool2d max_pool3d max_pool3d_with_indices avg_pool3d lp_pool3d
        torch. adaptive_max_pool1d max_pool1d max_pool2d max_pool3d
        torch.ops.aten. max_pool2d_with_indices_backward
    """,
    "nn.recurrent": """
        torch. lstm gru rnn_tanh rnn_relu lstm_cell gru_cell rnn_tanh_cell rnn_relu_cell
    """,
    "nn.vision": """
        torch.nn.functional. interpolate upsample_nearest upsample_bilinear grid_sample affine_grid
        torch. grid_sampler_2d grid_sampler_3d
        torch.ops.aten. _upsample_bilinear2d_aa
    """,
    "reductions.masked": """
        torch.masked. sum prod amax amin argmax argmin mean median var std norm logsumexp cumsum
        cumprod softmax log_softmax softmin normalize logaddexp
    """,
    "reductions.reductions": """
        torch. norm dist _weight_norm norm_except_dim max min argmax argmin median nanmedian mode
        kthvalue aminmax quantile nanquantile hash_tensor segment_reduce
        sum nansum mean amax amin any all prod var std var_mean std_mean
        logsumexp count_nonzero nanmean trace allclose
        torch.linalg. vector_norm norm matrix_norm
        torch.Tensor. sum_to_size
    """,
    "reductions.sorting": """
        torch. searchsorted bucketize histc histogram bincount nonzero_static unique
        unique_consecutive nonzero argwhere unravel_index isin cumsum cumprod cummax cummin
        logcumsumexp sort argsort msort topk trapezoid cumulative_trapezoid renorm
    """,
    "shape.creation": """
        torch. zeros ones empty full rand randn randint randperm normal zeros_like ones_like
        empty_like full_like rand_like randn_like randint_like bernoulli multinomial tensor
        as_tensor poisson binomial arange linspace logspace eye hann_window hamming_window
        blackman_window bartlett_window scalar_tensor empty_permuted empty_strided
        combinations meshgrid cartesian_prod vander
        torch.Tensor. new_empty new_zeros new_ones new_full new_tensor zero_ fill_ normal_ uniform_
        bernoulli_ random_ cauchy_ log_normal_ geometric_ exponential_ copy_ new_empty_strided
        torch.signal.windows. bartlett blackman cosine exponential gaussian general_cosine
        general_hamming hamming hann kaiser nuttall
    """,
    "shape.expansion": """
        torch.Tensor. expand expand_as repeat
        torch. broadcast_to tile repeat_interleave
    """,
    "shape.indexing": """
        torch. where masked_fill index_select gather take_along_dim take masked_select
        torch.Tensor. where
        torch.ops.aten. index
        operator. getitem setitem
    """,
    "shape.joining": """
        torch. cat stack hstack vstack dstack column_stack broadcast_tensors split split_with_sizes
        chunk tensor_split hsplit vsplit dsplit unsafe_split unbind
    """,
    "shape.moving": """
        torch. tril triu tril_indices triu_indices diagonal diag diag_embed diagflat
        diagonal_scatter roll flip fliplr flipud rot90 narrow select diff gradient constant_pad_nd
        torch.linalg. diagonal
        torch.nn.functional. pad
        torch.Tensor. flip
        torch.ops.aten. slice
    """,
    "shape.reshape": """
        torch.Tensor. view reshape view_as unfold permute
        torch. reshape flatten ravel unflatten squeeze unsqueeze permute transpose swapaxes t
        adjoint movedim view_copy as_strided as_strided_scatter atleast_1d atleast_2d atleast_3d
    """,
    "shape.scattering": """
        torch. scatter scatter_add scatter_reduce index_add index_copy index_fill index_put
        masked_scatter select_scatter slice_scatter index_reduce put
    """,
}

FAMILIES = {family: read_paths(text) for family, text in _FAMILIES.items()}
"""The paths of the entries of each family; the family is a module of this package."""

_FAMILY = {path: family for family, paths in FAMILIES.items() for path in paths}


def family_of(path: str) -> str | None:
    """Returns the family that declares a callable, None where none does.

    >>> family_of("torch.matmul")
    'linalg.products'
    """
    return _FAMILY.get(path)


PREFIXES = (
    ("_operator.", "operator."),
    ("torch._C._nn.log_sigmoid", "torch.nn.functional.logsigmoid"),
    ("torch._C._nn.", "torch.nn.functional."),
    ("torch._C._special.special_", "torch.special."),
    ("torch._C._linalg.linalg_", "torch.linalg."),
    ("torch._C._fft.fft_", "torch.fft."),
    ("torch._C._VariableFunctions._grouped_mm", "torch.nn.functional.grouped_mm"),
    ("torch._C._VariableFunctions.", "torch."),
    ("torch._grouped_mm", "torch.nn.functional.grouped_mm"),
    ("torch._C.TensorBase.", "torch.Tensor."),
    ("torch._C._TensorBase.", "torch.Tensor."),
    ("torch._tensor.Tensor.", "torch.Tensor."),
    ("torch._VF.", "torch."),
    ("torch.functional.", "torch."),
    ("torch._lowrank.", "torch."),
    ("torch.masked._ops.", "torch.masked."),
    ("torch.signal.windows.windows.", "torch.signal.windows."),
    ("torch._ops.", "torch.ops."),
)
"""Where builtins say that they live, and where people import them from."""

_RECORD = re.compile(r"\bpybind11_detail_function_record_\w+\.")
"""What pybind11 writes into the names of functions that it binds."""


_OVERLOAD = re.compile(r"^(torch\.ops\.aten\.\w+)\.\w+$")
"""What torch writes behind an operator of its own: which of its overloads is called."""


def canonical_path(path: str) -> str:
    """Returns the path with the place where people import it from.

    >>> canonical_path("torch._C._nn.gelu"), canonical_path("torch.ops.aten.slice.Tensor")
    ('torch.nn.functional.gelu', 'torch.ops.aten.slice')
    """
    path = _RECORD.sub("", path).replace("::", ".")
    for prefix, place in PREFIXES:
        if path.startswith(prefix):
            path = place + path[len(prefix) :]
            break
    return _OVERLOAD.sub(r"\1", path)


_METHODS = """
abs acos acosh add addbmm addcdiv addcmul addmm addmv addr adjoint all allclose amax amin aminmax
angle any argmax argmin argsort argwhere asin asinh atan atan2 atanh baddbmm bernoulli bincount
bitwise_and bitwise_left_shift bitwise_not bitwise_or bitwise_right_shift bitwise_xor bmm
broadcast_to ceil chunk clamp clamp_max clamp_min clone conj conj_physical copysign corrcoef cos
cosh count_nonzero cov cross cummax cummin cumprod cumsum deg2rad detach diag diag_embed diagflat
diagonal diagonal_scatter diff digamma dist div dot dsplit eq erf erfc erfinv exp exp2 expm1 flatten
fliplr flipud float_power floor floor_divide fmax fmin fmod frac frexp gather gcd ge gt heaviside
histc hsplit hypot i0 igamma igammac index_add index_copy index_fill index_put index_reduce
index_select inner is_complex is_floating_point is_signed isclose isfinite isinf isnan isneginf
isposinf isreal kron kthvalue lcm ldexp le lerp lgamma log log10 log1p log2 log_softmax logaddexp
logaddexp2 logcumsumexp logdet logical_and logical_not logical_or logical_xor logit logsumexp lt
masked_fill masked_scatter masked_select matmul max maximum mean median min minimum mm mode movedim
msort mul multinomial mv mvlgamma nan_to_num nanmean nanmedian nansum narrow ne neg nextafter
nonzero norm numel outer positive pow prod quantile rad2deg ravel reciprocal remainder renorm
repeat_interleave resolve_conj roll rot90 round rsqrt scatter scatter_add scatter_reduce select
select_scatter sgn sigmoid sign signbit sin sinc sinh slice_scatter softmax sort split
split_with_sizes sqrt square squeeze std sub sum swapaxes t take take_along_dim tan tanh
tensor_split tile topk trace transpose tril triu true_divide trunc unbind unflatten unique
unique_consecutive unsafe_split unsqueeze var vdot vsplit
xlogy
"""
"""Methods with the parameters of the function ``torch.NAME``."""

_ALIKE = (
    ("torch.Tensor.", "torch.", _METHODS),
    ("torch.Tensor.", "torch.nn.functional.", "relu prelu hardshrink"),
    ("torch.Tensor.", "torch.linalg.", "det slogdet matrix_exp matrix_power"),
    (
        "torch.",
        "torch.nn.functional.",
        """
        adaptive_avg_pool1d avg_pool1d bilinear celu channel_shuffle conv1d conv2d conv3d
        conv_transpose1d conv_transpose2d conv_transpose3d cosine_similarity group_norm hardshrink
        layer_norm max_pool1d_with_indices pairwise_distance pixel_shuffle pixel_unshuffle prelu
        relu rms_norm rrelu selu threshold
        """,
    ),
    ("torch.", "torch.linalg.", "det slogdet matrix_exp matrix_power"),
    ("torch.", "torch.Tensor.", "resolve_neg"),
    ("torch.nn.functional.", "torch.", "tanh sigmoid pdist"),
    ("torch.linalg.", "torch.", "matmul"),
    ("torch.autograd.grad_mode.", "torch.", "set_grad_enabled"),
    (
        "torch.special.",
        "torch.",
        """
        digamma erf erfc erfinv exp2 expm1 i0 log1p log_softmax logit logsumexp polygamma round sinc
        softmax xlogy
        """,
    ),
)
"""Names that are the same function in two homes: the other one, and the one of the entry."""

_SAME = """
absolute=abs arccos=acos arccosh=acosh arcsin=asin arcsinh=asinh arctan=atan arctan2=atan2
arctanh=atanh clip=clamp divide=div fix=trunc greater=gt greater_equal=ge less=lt less_equal=le
multiply=mul negative=neg not_equal=ne subtract=sub
"""
"""Two names of one function, of the method, and of the method in place."""

_SAME_FUNCTION = """
alias_copy=clone diagonal_copy=diagonal narrow_copy=narrow permute_copy=permute
split_with_sizes_copy=split_with_sizes squeeze_copy=squeeze t_copy=t transpose_copy=transpose
unbind_copy=unbind unsqueeze_copy=unsqueeze as_strided_copy=as_strided
concat=cat concatenate=cat ger=outer moveaxis=movedim row_stack=vstack swapdims=swapaxes
trapz=trapezoid unsafe_chunk=chunk unsafe_split_with_sizes=split_with_sizes
"""
"""Two names of one function."""

_OTHERS = """
torch.Tensor.ger=torch.outer torch.Tensor.moveaxis=torch.movedim
torch.Tensor.swapdims=torch.swapaxes torch.Tensor.__getitem__=operator.getitem
torch.Tensor.__setitem__=operator.setitem torch.Tensor.__matmul__=operator.matmul
torch.Tensor.__len__=builtins.len torch.Tensor.ndimension=torch.Tensor.dim
torch.Tensor.nelement=torch.numel torch.special.gammainc=torch.igamma
torch.special.gammaincc=torch.igammac torch.special.multigammaln=torch.mvlgamma
torch.nn.functional._threshold=torch.nn.functional.threshold builtins.round=builtins.int
math.trunc=builtins.int torch.inverse=torch.linalg.inv torch.Tensor.inverse=torch.linalg.inv
torch.Tensor.reshape_as=torch.Tensor.view_as torch.Tensor.detach_=torch.detach
torch.Tensor.unsafe_chunk=torch.chunk torch.Tensor.unsafe_split_with_sizes=torch.split_with_sizes
torch.special.expit=torch.sigmoid torch.Tensor.__abs__=torch.abs torch.Tensor.__neg__=torch.neg
torch.Tensor.__radd__=torch.add torch.Tensor.__rmul__=torch.mul torch.zero_=torch.Tensor.zero_
torch.Tensor.__invert__=torch.bitwise_not torch.Tensor.__rand__=torch.bitwise_and
torch.Tensor.__ror__=torch.bitwise_or torch.Tensor.__rxor__=torch.bitwise_xor
torch.expand_copy=torch.broadcast_to
torch.unfold_copy=torch.Tensor.unfold
"""
"""Two paths of one function."""


def _pairs(text: str) -> list[tuple[str, str]]:
    """The pairs of a text: ``absolute=abs`` says that the first is another name of the second."""
    return [(new, old) for new, _, old in (word.partition("=") for word in text.split())]


ALIASES: dict[str, str] = {
    **{here + name: there + name for here, there, names in _ALIKE for name in names.split()},
    **{f"torch.{name}": f"torch.{same}" for name, same in _pairs(_SAME + _SAME_FUNCTION)},
    **{f"torch.Tensor.{name}": f"torch.{same}" for name, same in _pairs(_SAME)},
    **dict(_pairs(_OTHERS)),
}
"""Path to path."""

_IN_PLACE = """
 abs acos acosh add addbmm addcdiv addcmul addmm addmv addr asin asinh atan atan2 atanh baddbmm
bitwise_and bitwise_left_shift bitwise_not bitwise_or bitwise_right_shift bitwise_xor ceil clamp
clamp_max clamp_min conj_physical copysign cos cosh cumprod cumsum deg2rad digamma div eq erf erfc
erfinv exp exp2 expm1 float_power floor floor_divide fmod frac gcd ge gt heaviside hypot i0
index_add index_copy index_fill index_put lcm ldexp le lerp lgamma log log10 log1p log2 logical_and
logical_not logical_or logical_xor logit lt masked_fill masked_scatter mul nan_to_num ne neg
nextafter pow rad2deg reciprocal relu remainder renorm round rsqrt scatter scatter_add
scatter_reduce sgn sigmoid sign sin sinc sinh sqrt square sub tan tanh tril triu true_divide trunc
xlogy
"""
"""Methods ``NAME_`` that write the result of ``torch.Tensor.NAME`` to the tensor."""

_FUNCTIONAL_IN_PLACE = "celu elu hardtanh leaky_relu relu rrelu selu threshold"

IN_PLACE: dict[str, str] = {
    **{f"torch.Tensor.{name}_": f"torch.Tensor.{name}" for name in _IN_PLACE.split()},
    **{f"torch.Tensor.{name}_": f"torch.{same}" for name, same in _pairs(_SAME)},
    **{
        f"torch.nn.functional.{name}_": f"torch.nn.functional.{name}"
        for name in _FUNCTIONAL_IN_PLACE.split()
    },
    **{
        f"torch.{name}_": f"torch.nn.functional.{name}"
        for name in ("relu", "rrelu", "selu", "celu", "threshold")
    },
}
"""Path of a function that writes to its first argument, to the path of the function it computes."""


def locate(path: str) -> tuple[str, bool] | None:
    """Returns the path of the entry that a path stands for, and whether it names the variant in
    place; None where there is none.

    >>> locate("torch.Tensor.add_")
    ('torch.add', True)
    """
    path = canonical_path(path)
    for _ in range(3):
        if family_of(path) is not None:
            return path, False
        if path in IN_PLACE:
            located = locate(IN_PLACE[path])
            return None if located is None else (located[0], True)
        if path not in ALIASES:
            return None
        path = canonical_path(ALIASES[path])
    return None


def canonical(path: str) -> str | None:
    """Returns the path of the entry that a path stands for, None where there is none.

    >>> canonical("torch._C._nn.linear")
    'torch.nn.functional.linear'
    """
    located = locate(path)
    return None if located is None else located[0]


def names() -> tuple[str, ...]:
    """Returns the path of every callable that the library knows, sorted: entries and their other
    spellings.
    """
    return tuple(sorted({*_FAMILY, *(path for path in (*ALIASES, *IN_PLACE) if locate(path))}))
