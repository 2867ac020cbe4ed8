"""Other spellings of the library's callables: a table, so that no declaration is written twice.

torch.Tensor.cos        torch.cos                      a method with the parameters of a function
torch._C._nn.linear     torch.nn.functional.linear     where a builtin is really kept
torch.Tensor.add_       torch.add, in place
"""

from __future__ import annotations

PREFIXES = (
    ("_operator.", "operator."),
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

_METHODS = """
abs acos acosh add addcdiv addcmul angle asin asinh atan atan2 atanh bitwise_and bitwise_left_shift bitwise_not
bitwise_or bitwise_right_shift bitwise_xor ceil clamp clamp_max clamp_min conj conj_physical copysign cos cosh
deg2rad digamma div eq erf erfc erfinv exp exp2 expm1 float_power floor floor_divide fmax fmin fmod frac gcd ge gt
heaviside hypot i0 isclose isfinite isinf isnan isneginf isposinf isreal lcm ldexp le lerp lgamma log log10 log1p
log2 logaddexp logaddexp2 logical_and logical_not logical_or logical_xor logit lt maximum minimum mul nan_to_num ne
neg nextafter polygamma positive pow rad2deg reciprocal remainder resolve_conj round rsqrt sgn sigmoid sign signbit
sin sinc sinh sqrt square sub tan tanh trunc xlogy softmax log_softmax adjoint aminmax amax amin all any argmax
argmin argsort addbmm addmm addmv addr allclose baddbmm bernoulli bincount bmm broadcast_to chunk count_nonzero cummax
cummin cumprod cumsum diag diag_embed diagonal diff dist dot flatten fliplr flipud histc inner isin kron kthvalue
logcumsumexp logsumexp matmul max mean median min mm mode movedim msort multinomial mv nanmean nanmedian nansum narrow
nonzero norm numel outer prod quantile ravel renorm repeat_interleave roll rot90 select sort split split_with_sizes
squeeze std sum swapaxes t tensor_split tile topk trace transpose tril triu unbind unflatten unique unique_consecutive
unsqueeze var vdot hsplit vsplit dsplit diagflat diagonal_scatter igamma igammac mvlgamma frexp is_complex is_signed is_floating_point masked_fill index_select gather take_along_dim take scatter scatter_add scatter_reduce
index_add index_copy index_fill index_put masked_select masked_scatter select_scatter slice_scatter
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
    "true_divide": "div",
    "concat": "cat",
    "concatenate": "cat",
    "ger": "outer",
    "moveaxis": "movedim",
    "row_stack": "vstack",
    "swapdims": "swapaxes",
}
"""Two names of one function, and of the method."""

_FUNCTIONAL = """
celu hardshrink logsigmoid prelu relu relu6 rrelu selu softplus softshrink threshold conv1d conv2d conv3d conv_transpose1d
conv_transpose2d conv_transpose3d pixel_shuffle pixel_unshuffle channel_shuffle avg_pool1d adaptive_avg_pool1d
adaptive_max_pool1d max_pool1d max_pool2d max_pool3d max_pool1d_with_indices
"""
"""Functions of torch.nn.functional that torch has under its own name too, with the same parameters.
"""

_IN_PLACE = """
abs acos acosh add addcdiv addcmul asin asinh atan atan2 atanh bitwise_and bitwise_left_shift bitwise_not bitwise_or
bitwise_right_shift bitwise_xor ceil clamp clamp_max clamp_min conj_physical copysign cos cosh deg2rad digamma div eq
erf erfc erfinv exp exp2 expm1 float_power floor floor_divide fmod frac gcd ge gt heaviside hypot i0 lcm ldexp le lerp
lgamma log log10 log1p log2 logical_and logical_not logical_or logical_xor logit lt mul nan_to_num ne neg nextafter
polygamma pow rad2deg reciprocal relu remainder round rsqrt sgn sigmoid sign sin sinc sinh sqrt square sub tan tanh
trunc xlogy cumprod cumsum masked_fill masked_scatter scatter scatter_add scatter_reduce index_add index_copy index_fill
index_put tril triu renorm addbmm addmm addmv addr baddbmm
"""
"""Methods ``NAME_`` that write the result of ``torch.Tensor.NAME`` to the tensor."""

ALIASES: dict[str, str] = {
    **{f"torch.Tensor.{name}": f"torch.{name}" for name in _METHODS.split()},
    **{f"torch.{name}": f"torch.{same}" for name, same in _SAME.items()},
    **{f"torch.Tensor.{name}": f"torch.{same}" for name, same in _SAME.items()},
    **{f"torch.{name}": f"torch.nn.functional.{name}" for name in _FUNCTIONAL.split()},
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
    "torch.argwhere": "torch.nonzero",
    "torch.Tensor.argwhere": "torch.nonzero",
    "torch.trapz": "torch.trapezoid",
    "torch.special.gammainc": "torch.igamma",
    "torch.special.gammaincc": "torch.igammac",
    "torch.special.multigammaln": "torch.mvlgamma",
    "torch.Tensor.clone": "torch.clone",
    "torch.Tensor.detach": "torch.detach",
    "torch.bilinear": "torch.nn.functional.bilinear",
    "torch.linalg.matmul": "torch.matmul",
    "torch.nn.functional.cosine_similarity": "torch.cosine_similarity",
    "torch.layer_norm": "torch.nn.functional.layer_norm",
    "torch.rms_norm": "torch.nn.functional.rms_norm",
    "torch.group_norm": "torch.nn.functional.group_norm",
    "torch.Tensor.logdet": "torch.logdet",
    "torch.nn.functional.pdist": "torch.pdist",
    "torch.scaled_dot_product_attention": "torch.nn.functional.scaled_dot_product_attention",
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
    "torch.unsafe_chunk": "torch.chunk",
    "torch.Tensor.unsafe_chunk": "torch.chunk",
    "torch.unsafe_split": "torch.split",
    "torch.Tensor.unsafe_split": "torch.split",
    "torch.unsafe_split_with_sizes": "torch.split_with_sizes",
    "torch.Tensor.unsafe_split_with_sizes": "torch.split_with_sizes",
    "torch.resolve_neg": "torch.Tensor.resolve_neg",
    "torch.det": "torch.linalg.det",
    "torch.special.logsumexp": "torch.logsumexp",
    "torch.special.softmax": "torch.softmax",
    "torch.special.log_softmax": "torch.log_softmax",
    "torch.nn.functional.sigmoid": "torch.sigmoid",
    "torch.nn.functional.hardswish_": "torch.nn.functional.hardswish",
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
    **{f"torch.{name}_": f"torch.nn.functional.{name}" for name in ["relu", "selu", "celu"]},
}
"""Path of a function that writes to its first argument, to the path of the function it computes."""


def canonical_path(path: str) -> str:
    """Returns the path with the place where people import it from.

    >>> canonical_path("torch._C._nn.gelu")
    'torch.nn.functional.gelu'
    """
    for prefix, place in PREFIXES:
        if path.startswith(prefix):
            return place + path[len(prefix) :]
    return path
