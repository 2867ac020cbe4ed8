"""torch's own Python, as a capture reads it: also what torch.compile keeps as one step or refuses.

    nn.MultiheadAttention     linear, view, bmm, softmax, ...: its heads can be cut
    nn.LSTM                   one call of torch.lstm
    nn.TransformerEncoder     its layers, and no look into the mask, whether it is the causal one

torch.compile keeps functions of ``torch.nn.functional`` as one step, refuses RNNs, and takes ways
that are there for speed alone, such as fused kernels. `read_through` has it read functions without
an annotation like the user's, RNNs too, and has it take the plain way, which gives the same values.

What torch cannot run without data has a stand-in that tells the shape of the result. A program
calls torch's function.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import lru_cache
from types import FunctionType
from typing import Any
from unittest.mock import patch

import torch
from torch._dynamo import config, trace_rules
from torch._dynamo.variables import (
    TensorVariable,
    TorchInGraphFunctionVariable,
    UserFunctionVariable,
    higher_order_ops,
)
from torch._subclasses import fake_impls
from torch.nn import functional
from torch.nn.modules import batchnorm, transformer
from torch.nn.utils import parametrizations

from dimsolve.solver.graphs.names import path_of
from dimsolve.solver.operators import canonical

ARGUMENTS_OF_CHECKPOINT = "arguments_of_checkpoint"
"""Where a captured checkpoint has the tensors that it was called with: others are of a closure."""


@contextmanager
def read_through(model: Any = None) -> Iterator[None]:
    """A block in which torch.compile reads through torch's Python."""
    stand_ins = _stand_ins()
    in_graph = dict.fromkeys(stand_ins.values(), TorchInGraphFunctionVariable)
    rules = trace_rules.get_torch_obj_rule_map()
    fast = torch.backends.mha.get_fastpath_enabled()
    with ExitStack() as stack:
        stack.enter_context(config.patch(allow_rnn=True))
        stack.enter_context(patch.dict(rules, {**_plain_functions(), **in_graph}))
        stack.enter_context(patch.object(transformer, "_detect_is_causal_mask", _is_causal))
        stack.enter_context(patch.object(functional, "_check_key_padding_mask", _check_padding))
        stack.enter_context(patch.object(transformer.TransformerEncoder, "forward", packed_encoder))
        stack.enter_context(patch.object(batchnorm._BatchNorm, "forward", _batch_norm))
        stack.enter_context(patch.object(_Spectral, "_power_method", _power_method))
        stack.enter_context(patch.object(_Checkpoint, "_call_function", _call_checkpoint))
        configuration: Any = sys.modules.get("transformers.configuration_utils")
        if COPIES and configuration is not None:
            stack.enter_context(_copied_before(model, configuration.PreTrainedConfig))
        flex: Any = sys.modules.get("torch.nn.attention.flex_attention")
        if hasattr(flex, "_warn_once"):  # it notes what it has warned of, as one keeps state
            stack.enter_context(patch.object(flex, "_warn_once", _unsaid))
        stack.enter_context(patch.dict(fake_impls.FAST_OP_IMPLEMENTATIONS, _SHAPES))
        for (home, name), stand_in in stand_ins.items():
            stack.enter_context(patch.object(home, name, stand_in))
        stack.callback(torch.backends.mha.set_fastpath_enabled, fast)
        torch.backends.mha.set_fastpath_enabled(False)
        yield


def _unsaid(*words: Any, **more: Any) -> None:
    """A warning that is of no use to who captures: flex_attention's, that ``return_lse`` is old."""


BUILD = torch.torch_version.TorchVersion(torch.__version__)
COPIES = BUILD < "2.13"
"""Whether this build of torch captures no ``copy.deepcopy``, by which T5 has the settings of its
decoder.
"""


@contextmanager
def _copied_before(model: Any, kind: Any) -> Iterator[None]:
    """Lets a model's settings have at hand what they would copy while the model is captured."""
    plain, modules = kind.get_text_config, getattr(model, "modules", None)
    settings = [getattr(each, "config", None) for each in modules()] if callable(modules) else []
    known = {id(each): each for each in settings if isinstance(each, kind)}
    for each in known.values():
        copies = {decoder: plain(each, decoder=decoder) for decoder in (None, False, True)}
        each.__dict__[_COPIES] = copies

    def get_text_config(self: Any, decoder: Any = None, encoder: Any = None) -> Any:
        if encoder is None and _COPIES in self.__dict__:
            return self.__dict__[_COPIES][decoder]
        return plain(self, decoder, encoder)

    try:
        with patch.object(kind, "get_text_config", get_text_config):
            yield
    finally:
        for each in known.values():
            each.__dict__.pop(_COPIES, None)


_COPIES = "_dimsolve_text_configs"


@lru_cache(maxsize=1)
def _plain_functions() -> dict[Any, Any]:
    """Functions without an annotation that torch.compile would keep as one step, as plain ones."""
    return {
        function: UserFunctionVariable
        for function, kind in trace_rules.get_torch_obj_rule_map().items()
        if kind is TorchInGraphFunctionVariable
        and isinstance(function, FunctionType)
        and function.__module__ == functional.__name__
        and canonical(path_of(function)) is None
    }


_Checkpoint = higher_order_ops.CheckpointHigherOrderVariable
_plain_call: Callable[..., Any] = _Checkpoint._call_function


def _call_checkpoint(self: Any, tx: Any, args: Any, kwargs: Any) -> Any:
    """torch's capture of a checkpoint; notes which tensors it is given as arguments."""
    given = [each.realize() for each in args[1:]]
    tensors = [each.as_proxy().node for each in given if isinstance(each, TensorVariable)]
    result = _plain_call(self, tx, args, kwargs)
    for node in reversed(tx.output.current_tracer.graph.nodes):
        if getattr(node.target, "__name__", "") == self.value.__name__:
            node.meta[ARGUMENTS_OF_CHECKPOINT] = [t.meta["example_value"] for t in tensors]
            break
    return result


def _is_causal(mask: Any, is_causal: bool | None = None, size: int | None = None) -> bool:
    """What torch.nn asks about a mask. Only what the caller says is taken: a mask that is not known
    to be causal is added as any other.
    """
    return is_causal is True


_plain_encoder: Callable[..., Any] = transformer.TransformerEncoder.forward


def packed_encoder(
    self: Any,
    src: Any,
    mask: Any = None,
    src_key_padding_mask: Any = None,
    is_causal: bool | None = None,
) -> Any:
    """torch's encoder, but for its way to pack what is not padded, which is refused by this name:
    it leaves zeros at padded positions where no gradients are recorded.
    """
    if src_key_padding_mask is not None and self.use_nested_tensor and not self.training:
        raise RuntimeError("it packs what is not padded")
    return _plain_encoder(self, src, mask, src_key_padding_mask, is_causal)


_plain_batch_norm: Callable[..., Any] = batchnorm._BatchNorm.forward


def _batch_norm(self: Any, input: Any) -> Any:
    """torch's batch norm, but for a cumulative average (``momentum=None``), which torch weighs with
    a number of Python's: here it is weighed with the counter itself.
    """
    cumulative = self.training and self.momentum is None and self.track_running_stats
    if not cumulative or self.num_batches_tracked is None or self.running_mean is None:
        return _plain_batch_norm(self, input)
    self._check_input_dim(input)
    self.num_batches_tracked.add_(1)
    with torch.no_grad():
        values = input.to(self.running_mean.dtype)
        dims = [0, *range(2, input.dim())]
        share = 1.0 / self.num_batches_tracked.double()
        mean, var = values.mean(dims) * share, values.var(dims) * share
        self.running_mean.copy_(self.running_mean * (1 - share) + mean)
        self.running_var.copy_(self.running_var * (1 - share) + var)
    return functional.batch_norm(
        input, None, None, self.weight, self.bias, training=True, momentum=0.0, eps=self.eps
    )


_Spectral: Any = parametrizations._SpectralNorm


def _power_method(self: Any, weight_mat: Any, n_power_iterations: int) -> None:
    """torch's power iteration, which writes what it finds as ``out=``; here it is copied there."""
    with torch.no_grad():
        for _ in range(n_power_iterations):
            u = torch.mv(weight_mat, self._v)
            self._u.copy_(functional.normalize(u, dim=0, eps=self.eps))
            v = torch.mv(weight_mat.H, self._u)
            self._v.copy_(functional.normalize(v, dim=0, eps=self.eps))


def _check_padding(key_padding_mask: Any, src_len: int, bsz: int) -> None:
    """What torch.nn asks of a padding mask; torch's own has a message that cannot be captured."""
    shape = key_padding_mask.shape
    if shape[0] != bsz or shape[1] != src_len:
        raise AssertionError(f"the padding mask has {tuple(shape)}, the keys {(bsz, src_len)}")


def _ctc_loss(log_probs: Any, *args: Any, **kwargs: Any) -> Any:
    """The shape of ``torch.ctc_loss``, whose number of alignments depends on data."""
    reduction = args[4] if len(args) > 4 else kwargs.get("reduction", 1)
    rows = log_probs.sum((0, -1))
    return rows if reduction in (0, "none") else rows.sum()


def _cov(input: Any, *args: Any, **kwargs: Any) -> Any:
    """The shape of ``torch.cov`` and ``torch.corrcoef``, which compare their weights."""
    whole = not input.is_floating_point() and not input.is_complex()
    x = input.to(torch.get_default_dtype()) if whole else input
    return x @ x.mT if x.dim() == 2 else x.sum()


def _cross_entropy(input: Any, target: Any, *args: Any, **kwargs: Any) -> Any:
    """The shape of ``cross_entropy``, of which torch before 2.12 fixes the number of rows where the
    target is probabilities.
    """
    if target.dtype != input.dtype:
        return _plain_cross_entropy(input, target, *args, **kwargs)
    rows = (input * target).sum(1 if input.dim() > 1 else 0)
    return rows if kwargs.get("reduction", "mean") == "none" else rows.sum()


_plain_cross_entropy = functional.cross_entropy


def _gaussian_nll_loss(
    input: Any,
    target: Any,
    var: Any,
    full: bool = False,
    eps: float = 1e-6,
    reduction: str = "mean",
) -> Any:
    """The shape of ``gaussian_nll_loss``, which looks whether a variance is negative."""
    if not isinstance(var, float) and var.dim() < input.dim():
        var = var.unsqueeze(-1)
    each = input + target + var
    return each if reduction == "none" else each.sum()


def _logsumexp(fake: Any, x: Any, dim: Any, keepdim: bool = False) -> Any:
    """The shape of ``logsumexp``, of which torch asks whether there is anything to sum: of the rows
    that a mask picks nobody knows.
    """
    with fake:
        wide = x if x.is_floating_point() or x.is_complex() else x.to(torch.get_default_dtype())
        return wide.sum(dim, keepdim)


_SHAPES: dict[Any, Any] = {torch.ops.aten.logsumexp.default: _logsumexp}
"""What tells the shapes of operators that are run without data."""


@lru_cache(maxsize=1)
def _stand_ins() -> dict[tuple[Any, str], Callable[..., Any]]:
    """Stand-ins by where torch has the function; each is named as the function is."""
    found: dict[tuple[Any, str], Any] = {
        (torch, "ctc_loss"): _ctc_loss,
        (torch, "cov"): _cov,
        (torch, "corrcoef"): lambda *args, **kwargs: _cov(*args, **kwargs),
        (functional, "gaussian_nll_loss"): _gaussian_nll_loss,
    }
    if BUILD < "2.12":
        found[functional, "cross_entropy"] = _cross_entropy
    for (home, name), stand_in in found.items():
        stand_in.__module__, stand_in.__name__ = home.__name__, name
        stand_in.__qualname__ = name
    return found
