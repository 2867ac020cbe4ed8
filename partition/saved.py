"""Which inputs and outputs of a call autograd saves for the backward pass.

    linear(x, w)    x and w, each for the gradient of the other
    silu(x)         x
    softmax(x)      what it makes
    x + y           nothing

What torch's formulas of derivatives need, by the function's name. A function that nobody knows
keeps all that it is given and makes.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum
from math import prod
from typing import NamedTuple


class Saved(Enum):
    """``OTHERS``: of each input what the gradients of others need. ``EXTRA``: something of the size
    of the first input, or of the result where that is larger: a tensor inside of the function.
    """

    NOTHING = "nothing"
    INPUTS = "inputs"
    OUTPUTS = "outputs"
    OTHERS = "others"
    EXTRA = "extra"
    ALL = "all"


_NAMES: dict[Saved, str] = {
    Saved.NOTHING: """
        add iadd sub isub rsub neg sum mean cat concat stack hstack vstack pad roll flip tile repeat
        repeat_interleave where masked_fill embedding index_select clone contiguous tril triu alias
        zeros_like ones_like full_like empty_like zeros ones full arange argmax argmin argsort
        one_hot eq ne lt le gt ge logical_and logical_or logical_not bitwise_and bitwise_or invert
        to type type_as float double half bfloat16 int long bool getitem __getitem__ select narrow
        view view_as reshape transpose permute movedim swapaxes t T mT unsqueeze squeeze flatten
        unflatten split chunk unbind expand expand_as broadcast_to diagonal unfold detach and_ or_
        setitem copy_ fill_ zero_ identity item size floordiv histc cumsum histogram bincount
    """,
    Saved.INPUTS: """
        silu gelu pow square log log2 log10 log1p sin cos tan abs clamp clip softplus mish elu selu
        celu hardswish hardsigmoid leaky_relu logsigmoid layer_norm rms_norm group_norm batch_norm
        instance_norm relu6 hardtanh threshold max_pool2d avg_pool2d adaptive_avg_pool2d erf
    """,
    Saved.OUTPUTS: "exp sigmoid tanh softmax log_softmax rsqrt sqrt relu reciprocal",
    Saved.OTHERS: """
        mul imul multiply matmul mm bmm mv linear baddbmm addmm einsum outer dot tensordot bilinear
        div truediv itruediv true_divide conv1d conv2d conv3d
        grouped_mm _grouped_mm grouped_mm_fallback
    """,
    Saved.EXTRA: "cross_entropy nll_loss dropout sort topk gather max min amax amin",
}

SAVED = {name: saved for saved, names in _NAMES.items() for name in names.split()}
"""Function, by name -> what it keeps."""


_TEMPORARIES: dict[int, str] = {
    1: "einsum",
    2: "pow square logsumexp std var std_mean var_mean binary_cross_entropy_with_logits",
    3: "group_norm batch_norm instance_norm normalize cdist",
    4: "rms_norm kl_div autograd_function_apply",
    5: "cosine_similarity",
    6: "cumprod prod",
}
TEMPORARIES = {name: count for count, names in _TEMPORARIES.items() for name in names.split()}
"""Function, by name -> how many tensors of the size of its largest its backward pass makes beside
the gradients: torch has no kernel for it, and computes it step by step. Measured, by
``tests/partition/test_temporaries.py``, and rounded up; of a user's own function the GELU of Bloom.
"""


INSIDE: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    path: (("t k h", "t k h", *["t k i"] * 4), ("t k h", "t k h", *["t k i"] * 4))
    for path in ("dimsolve.exec.experts.experts", "dimsolve.exec.experts.biased_experts")
}
"""Operators of our own, by path -> rows in identifiers of the annotation, as long as on a rank:
what they keep inside, and what they make beside that while they run, forward or back.
"""


class Attention(NamedTuple):
    """Bytes that an attention keeps inside, and that it makes while it runs, forward or back;
    whether it also keeps what it is given and what it makes.
    """

    inside: int
    beside: int
    fused: bool


def attention(
    shapes: Sequence[Sequence[int]], item: int, *, draws: bool, mask_gradient: bool = False
) -> Attention:
    """Returns what ``scaled_dot_product_attention`` keeps.

    shapes: of query, key and value. item: bytes of an element. draws: whether it drops weights.

    torch's fused kernels keep the logarithm of a sum for every row. They know four dimensions of
    the same lengths, and on the CPU no dropout; else the weights themselves are kept, what they are
    dropped by, and the three inputs as they are multiplied, in float32 at least. A device's other
    kernels need less.

    >>> same = [(2, 4, 64, 16)] * 3
    >>> attention(same, 4, draws=False)
    Attention(inside=2048, beside=0, fused=True)
    >>> attention(same, 4, draws=True)
    Attention(inside=491520, beside=131072, fused=False)
    """
    query, key, value = shapes
    rows = max([query[:-1], (*key[:-2], query[-2])], key=prod)
    heads = prod(rows[:-1])
    grouped = key[:1] == query[:1] and 1 < key[-3] < query[-3] if len(query) == 4 else False
    alike = len(query) == 4 and query[:2] == key[:2] == value[:2]
    item = max(item, 4)
    keys, values = (heads * prod(each[-2:]) * item for each in (key, value))
    if (alike or grouped) and query[-1] == value[-1] and not draws and not mask_gradient:
        return Attention(prod(rows) * item, (keys + values) * grouped, True)
    weights = prod(rows) * key[-2] * item
    kept = weights * (3 if draws else 1) + heads * prod(query[-2:]) * item + keys + values
    return Attention(kept, weights * (1 if draws else 2), False)


def saved_by(name: str) -> Saved:
    """Returns what a function keeps.

    >>> saved_by("silu"), saved_by("my_function")
    (<Saved.INPUTS: 'inputs'>, <Saved.ALL: 'all'>)
    """
    return SAVED.get(name.removesuffix("_"), SAVED.get(name, Saved.ALL))
