"""Other spellings of the library's callables: a table, so that no declaration is written twice.

torch.Tensor.cos        torch.cos                      a method with the parameters of a function
torch._C._nn.linear     torch.nn.functional.linear     where a builtin is really kept
torch.Tensor.add_       torch.add, in place
"""

from __future__ import annotations

import re

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
