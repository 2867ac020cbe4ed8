"""Every class of torch.nn with a small constructor, and an example call of it.

    python -m tests.exec.torch_modules              the table: planned, cut, equal to one device
    python -m tests.exec.torch_modules "LSTM*"      a part of it

Each is planned under {tp: 2} "tensor" and {dp: 2} "data", and all ranks are compared with one
device in float64: outputs, gradients of parameters and inputs, buffers.
"""

from __future__ import annotations

import inspect
import sys
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from copy import deepcopy
from dataclasses import dataclass, field
from fnmatch import fnmatch
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

import dimsolve as ds
from tests.oracles.one_device import parts

_DRAW = torch.Generator().manual_seed(0)
MESHES = (({"tp": 2}, "tensor"), ({"dp": 2}, "data"))


@dataclass(frozen=True)
class Case:
    """A module and its call. dynamic: which dimension of each tensor is the batch."""

    make: Callable[[], nn.Module]
    args: tuple[Any, ...]
    kwargs: dict[str, Any] = field(default_factory=dict)
    dynamic: dict[str, Any] = field(default_factory=dict)


CASES: dict[str, Case] = {}


def real(*shape: int) -> Tensor:
    return torch.randn(*shape, dtype=torch.float64, generator=_DRAW)


def unit(*shape: int) -> Tensor:
    return torch.rand(*shape, dtype=torch.float64, generator=_DRAW) * 0.8 + 0.1


def whole(high: int, *shape: int, low: int = 0) -> Tensor:
    return torch.randint(low, high, shape, generator=_DRAW)


def signs(*shape: int) -> Tensor:
    return whole(2, *shape) * 2 - 1


def case(
    name: str, make: Callable[[], nn.Module], *args: Any, batch: Any = 0, **kwargs: Any
) -> None:
    """batch: where all positional tensors have it; or by argument, None where it has none."""
    parameters = list(inspect.signature(make().forward).parameters)
    dynamic = {}
    for place, arg in enumerate(args):
        at = batch.get(place) if isinstance(batch, dict) else batch
        if at is not None and arg is not None:
            leaves = [f".{n}" for n in range(len(arg))] if isinstance(arg, tuple) else [""]
            dynamic |= {f"{parameters[place]}{leaf}": {at: "b"} for leaf in leaves}
    dynamic |= {key: {0: "b"} for key in kwargs if "padding" in key}
    CASES[name] = Case(make, args, kwargs, dynamic)


def alike(names: str, *args: Any, **options: Any) -> None:
    for name in names.split():
        case(name, getattr(nn, name), *args, **options)


def of(name: str, *args: Any, **kwargs: Any) -> Callable[[], nn.Module]:
    return lambda: getattr(nn, name)(*args, **kwargs)


def lazy(name: str, x: Tensor, *args: Any, **kwargs: Any) -> Callable[[], nn.Module]:
    def make() -> nn.Module:
        module: nn.Module = getattr(nn, name)(*args, **kwargs).double()
        module(x)
        return module

    return make


class Unpool(nn.Module):
    def __init__(self, dims: int) -> None:
        super().__init__()
        self.pool = getattr(nn, f"MaxPool{dims}d")(2, return_indices=True)
        self.unpool = getattr(nn, f"MaxUnpool{dims}d")(2)

    def forward(self, x: Tensor) -> Any:
        return self.unpool(*self.pool(x))


class Ctc(nn.Module):
    def __init__(self, **settings: Any) -> None:
        super().__init__()
        self.loss, self.up = nn.CTCLoss(**settings), nn.Linear(6, 8)

    def forward(self, x: Tensor, targets: Tensor, lengths: Any, target_lengths: Any) -> Tensor:
        found: Tensor = self.loss(self.up(x).log_softmax(-1), targets, lengths, target_lengths)
        return found


class Same(nn.Module):
    """Query, key and value are one."""

    def __init__(self, net: nn.Module, **settings: Any) -> None:
        super().__init__()
        self.net, self.settings = net, settings

    def forward(self, x: Tensor, **more: Any) -> Any:
        return self.net(x, x, x, **self.settings, **more)


class Cross(nn.Module):
    """Key and value are one."""

    def __init__(self, net: nn.Module, **settings: Any) -> None:
        super().__init__()
        self.net, self.settings = net, settings

    def forward(self, query: Tensor, key: Tensor) -> Any:
        return self.net(query, key, key, **self.settings)


class Masked(nn.Module):
    """A Transformer that makes its causal mask itself."""

    def __init__(self) -> None:
        super().__init__()
        self.net = nn.Transformer(16, 4, 1, 1, 32, dropout=0.0, batch_first=True)

    def forward(self, source: Tensor, target: Tensor, padding: Tensor) -> Any:
        mask = nn.Transformer.generate_square_subsequent_mask(target.shape[1], dtype=target.dtype)
        return self.net(
            source, target, tgt_mask=mask, src_key_padding_mask=padding,
            memory_key_padding_mask=padding, tgt_is_causal=True,
        )  # fmt: skip


class Spread(nn.Module):
    """Covariance and correlation of the outputs of a linear layer."""

    def __init__(self) -> None:
        super().__init__()
        self.up = nn.Linear(8, 6)

    def forward(self, x: Tensor) -> Any:
        columns = self.up(x).t()
        return torch.cov(columns), torch.corrcoef(columns), torch.cov(columns[0])


def spectral() -> nn.Module:
    made: nn.Module = nn.utils.parametrizations.spectral_norm(nn.Linear(8, 6))
    return made


class Containers(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.list = nn.ModuleList([nn.Linear(8, 8), nn.Linear(8, 8)])
        self.dict = nn.ModuleDict({"a": nn.Linear(8, 8)})
        self.more = nn.ParameterList([nn.Parameter(real(8)), nn.Parameter(real(8))])
        self.named = nn.ParameterDict({"a": nn.Parameter(real(8))})

    def forward(self, x: Tensor) -> Any:
        for layer, scale in zip(self.list, self.more, strict=True):
            x = layer(x).relu() * scale
        return self.dict["a"](x) + self.named["a"]


def elementwise() -> None:
    alike(
        "CELU ELU GELU GLU Hardshrink Hardsigmoid Hardswish Hardtanh LeakyReLU LogSigmoid Mish ReLU"
        " ReLU6 SELU SiLU Sigmoid Softplus Softshrink Softsign Tanh Tanhshrink PReLU Identity"
        " Flatten",
        real(4, 6, 8),
    )
    for name in ("LogSoftmax", "Softmax", "Softmin"):
        case(name, of(name, -1), real(4, 6, 8))
    case("Softmax2d", nn.Softmax2d, real(4, 6, 4, 4))
    case("Threshold", of("Threshold", 0.1, 0.2), real(4, 8))
    case("RReLU", lambda: nn.RReLU().eval(), real(4, 8))
    for name in ("Dropout", "AlphaDropout", "FeatureAlphaDropout"):
        case(name, of(name, 0.0), real(4, 8, 2))
        case(f"{name} in evaluation", lambda name=name: of(name, 0.5)().eval(), real(4, 8, 2))


def spatial() -> None:
    for d in (1, 2, 3):
        x = real(4, 4, *[8] * d)
        for name in ("AvgPool", "MaxPool", "AdaptiveAvgPool", "AdaptiveMaxPool"):
            case(f"{name}{d}d", of(f"{name}{d}d", 2), x)
        case(f"LPPool{d}d", of(f"LPPool{d}d", 2, 2), x)
        case(f"MaxUnpool{d}d", partial(Unpool, d), x)
        case(f"BatchNorm{d}d", of(f"BatchNorm{d}d", 4), x)
        case(f"BatchNorm{d}d, cumulative", of(f"BatchNorm{d}d", 4, momentum=None), x)
        case(f"InstanceNorm{d}d", of(f"InstanceNorm{d}d", 4, affine=True), x)
        tracking = {"affine": True, "track_running_stats": True}
        case(f"InstanceNorm{d}d with statistics", of(f"InstanceNorm{d}d", 4, **tracking), x)
        case(f"Conv{d}d", of(f"Conv{d}d", 4, 6, 3, padding=1), x)
        case(f"ConvTranspose{d}d", of(f"ConvTranspose{d}d", 4, 6, 2, stride=2), x)
        for name in ("LazyConv", "LazyConvTranspose"):
            case(f"{name}{d}d", lazy(f"{name}{d}d", x, 6, 3), x)
        for name in ("LazyBatchNorm", "LazyInstanceNorm"):
            case(f"{name}{d}d", lazy(f"{name}{d}d", x), x)
        for name in ("ZeroPad", "ReflectionPad", "ReplicationPad", "CircularPad"):
            case(f"{name}{d}d", of(f"{name}{d}d", 1), x)
        case(f"ConstantPad{d}d", of(f"ConstantPad{d}d", 1, 0.5), x)
        case(f"Dropout{d}d", of(f"Dropout{d}d", 0.0), x)
        if d > 1:
            case(f"FractionalMaxPool{d}d", of(f"FractionalMaxPool{d}d", 2, output_size=4), x)
    case("ChannelShuffle", of("ChannelShuffle", 2), real(4, 4, 4, 4))
    case("PixelShuffle", of("PixelShuffle", 2), real(4, 8, 4, 4))
    case("PixelUnshuffle", of("PixelUnshuffle", 2), real(4, 2, 4, 4))
    case("Fold", of("Fold", (4, 4), 2, stride=2), real(4, 8, 4))
    case("Unfold", of("Unfold", 2, stride=2), real(4, 2, 4, 4))
    x = real(4, 2, 4, 4)
    case("Upsample", of("Upsample", scale_factor=2), x)
    case("Upsample, bilinear", of("Upsample", scale_factor=2, mode="bilinear"), x)
    case("UpsamplingBilinear2d", of("UpsamplingBilinear2d", scale_factor=2), x)
    case("UpsamplingNearest2d", of("UpsamplingNearest2d", scale_factor=2), x)


def layers() -> None:
    case("Linear", of("Linear", 8, 6), real(4, 8))
    case("LazyLinear", lazy("LazyLinear", real(4, 8), 6), real(4, 8))
    case("Bilinear", of("Bilinear", 6, 4, 8), real(4, 6), real(4, 4))
    case("Unflatten", of("Unflatten", 1, (2, 4)), real(4, 8))
    case("Embedding", of("Embedding", 16, 8, padding_idx=0), whole(16, 4, 6))
    case("EmbeddingBag", of("EmbeddingBag", 16, 8), whole(16, 4, 6))
    each = whole(16, 4, 6), None, real(4, 6)
    case("EmbeddingBag, sum", of("EmbeddingBag", 16, 8, mode="sum"), *each)
    case("EmbeddingBag, max", of("EmbeddingBag", 16, 8, mode="max"), whole(16, 4, 6))
    case("GroupNorm", of("GroupNorm", 2, 4), real(4, 4, 6))
    case("LayerNorm", of("LayerNorm", 8), real(4, 6, 8))
    case("RMSNorm", of("RMSNorm", 8), real(4, 6, 8))
    case("LocalResponseNorm", of("LocalResponseNorm", 2), real(4, 6, 8))
    case("CrossMapLRN2d", of("CrossMapLRN2d", 2), real(4, 6, 4, 4))
    case("SyncBatchNorm", lambda: nn.SyncBatchNorm(4).eval(), real(4, 4, 6))
    case("CosineSimilarity", nn.CosineSimilarity, real(4, 8), real(4, 8))
    case("PairwiseDistance", nn.PairwiseDistance, real(4, 8), real(4, 8))
    case("Sequential", lambda: nn.Sequential(nn.Linear(8, 16), nn.Linear(16, 8)), real(4, 8))
    case("ModuleList, ModuleDict, ParameterList, ParameterDict", Containers, real(4, 8))
    case("Linear, spectral norm", spectral, real(4, 8))
    case("cov and corrcoef", Spread, real(4, 8))


def losses() -> None:
    pair = real(4, 8), real(4, 8)
    alike("L1Loss MSELoss SmoothL1Loss HuberLoss PoissonNLLLoss", *pair)
    case("BCELoss", nn.BCELoss, unit(4, 8), unit(4, 8))
    weights = {"weight": unit(8), "pos_weight": unit(8)}
    case("BCEWithLogitsLoss", of("BCEWithLogitsLoss", **weights), real(4, 8), unit(4, 8))
    case("KLDivLoss", of("KLDivLoss", reduction="batchmean"), real(4, 8), unit(4, 8))
    case("GaussianNLLLoss", nn.GaussianNLLLoss, *pair, unit(4, 8))
    case("GaussianNLLLoss, none", of("GaussianNLLLoss", reduction="none"), *pair, unit(4, 1))
    case("CosineEmbeddingLoss", nn.CosineEmbeddingLoss, *pair, signs(4))
    case("MarginRankingLoss", nn.MarginRankingLoss, real(4), real(4), signs(4))
    case("HingeEmbeddingLoss", nn.HingeEmbeddingLoss, real(4, 8), signs(4, 8).double())
    case("SoftMarginLoss", nn.SoftMarginLoss, real(4, 8), signs(4, 8))
    several = torch.tensor([[1, 2, -1, 0, 0, 0, 0, 0]] * 4)
    case("MultiLabelMarginLoss", nn.MultiLabelMarginLoss, real(4, 8), several)
    labels = whole(2, 4, 8).double()
    case("MultiLabelSoftMarginLoss", nn.MultiLabelSoftMarginLoss, real(4, 8), labels)
    case("MultiMarginLoss", nn.MultiMarginLoss, real(4, 8), whole(8, 4))
    case("TripletMarginLoss", nn.TripletMarginLoss, *pair, real(4, 8))
    far = partial(nn.functional.pairwise_distance, p=1.0)
    triplet = of("TripletMarginWithDistanceLoss", distance_function=far, swap=True)
    case("TripletMarginWithDistanceLoss", triplet, *pair, real(4, 8))
    weighted = of("CrossEntropyLoss", weight=unit(8), label_smoothing=0.1, ignore_index=1)
    case("CrossEntropyLoss", weighted, real(4, 8, 6), whole(8, 4, 6))
    case("NLLLoss", nn.NLLLoss, real(4, 8), whole(8, 4))
    case("NLLLoss2d", nn.NLLLoss2d, real(4, 8, 2, 2), whole(8, 4, 2, 2))
    case("LinearCrossEntropyLoss", of("LinearCrossEntropyLoss", 8, 16), real(4, 8), whole(16, 4))
    adaptive = of("AdaptiveLogSoftmaxWithLoss", 8, 16, [4, 8])
    case("AdaptiveLogSoftmaxWithLoss", adaptive, real(4, 8), whole(16, 4))
    long, words = torch.full((4,), 12), torch.tensor([5, 3, 4, 2])
    batch, rows = {0: 1, 1: 0, 2: 0, 3: 0}, (whole(8, 4, 5, low=1), long, words)
    for kind in ("mean", "sum", "none"):
        make = of("CTCLoss", reduction=kind, zero_infinity=True)
        case(f"CTCLoss, {kind}", make, real(12, 4, 8).log_softmax(-1), *rows, batch=batch)
    case("CTCLoss in a model", Ctc, real(12, 4, 6), *rows, batch=batch)
    joined = whole(8, 14, low=1), long, words
    case("CTCLoss, joined targets", Ctc, real(12, 4, 6), *joined, batch=batch | {1: None})


def recurrent() -> None:
    two = {"bidirectional": True, "num_layers": 2}
    for name, state in (("LSTM", (real(1, 4, 6), real(1, 4, 6))), ("GRU", real(1, 4, 6)),
                        ("RNN", real(1, 4, 6))):  # fmt: skip
        case(name, of(name, 8, 6), real(5, 4, 8), batch=1)
        case(f"{name}, batch first", of(name, 8, 6, batch_first=True), real(4, 5, 8))
        case(f"{name}, two ways, two layers", of(name, 8, 6, **two), real(5, 4, 8), batch=1)
        case(f"{name}, no bias", of(name, 8, 6, bias=False), real(5, 4, 8), batch=1)
        case(f"{name} with a state", of(name, 8, 6), real(5, 4, 8), state, batch=1)
        case(f"{name} of one sequence", of(name, 8, 6), real(5, 8), batch=None)
        dropped = lambda name=name: of(name, 8, 6, num_layers=2, dropout=0.5)().eval()  # noqa: E731
        case(f"{name} with dropout, in evaluation", dropped, real(5, 4, 8), batch=1)
        case(f"{name}Cell", of(f"{name}Cell", 8, 6), real(4, 8))
        one = (real(4, 6), real(4, 6)) if name == "LSTM" else real(4, 6)
        case(f"{name}Cell with a state", of(f"{name}Cell", 8, 6), real(4, 8), one)
        case(f"{name}Cell of one", of(f"{name}Cell", 8, 6), real(8), batch=None)
    case("RNN, relu", of("RNN", 8, 6, nonlinearity="relu"), real(5, 4, 8), batch=1)
    case("LSTM, projected", of("LSTM", 8, 6, proj_size=4), real(5, 4, 8), batch=1)
    wide = of("LSTM", 8, 6, proj_size=4, **two)
    case("LSTM, projected, two ways, two layers", wide, real(5, 4, 8), batch=1)


def attention() -> None:
    def mha(**settings: Any) -> nn.Module:
        return nn.MultiheadAttention(16, 4, **{"batch_first": True, **settings})

    x, key = real(4, 6, 16), real(4, 5, 16)
    padding = torch.tensor([[0, 0, 0, 0, 1, 1]] * 4).bool()
    mask = torch.triu(torch.ones(6, 6), 1).bool()
    name, plain = "MultiheadAttention", {"need_weights": False}
    case(name, lambda: Same(mha(), **plain), x)
    case(f"{name} with weights", lambda: Same(mha()), x)
    per_head = lambda: Same(mha(batch_first=False), average_attn_weights=False)  # noqa: E731
    case(f"{name} with weights per head", per_head, real(6, 4, 16), batch=1)
    case(f"{name}, length first", lambda: Same(mha(batch_first=False), **plain), real(6, 4, 16),
         batch=1)  # fmt: skip
    case(f"{name} in evaluation", lambda: Same(mha(dropout=0.3), **plain).eval(), x)
    case(f"{name}, frozen", lambda: Same(mha(), **plain).eval().requires_grad_(False), x)
    case(f"{name}, key is value", lambda: Cross(mha(), **plain), x, key)
    case(f"{name} of three", mha, x, key, real(4, 5, 16))
    case(f"{name}, kdim and vdim", lambda: mha(kdim=8, vdim=6), x, real(4, 5, 8), real(4, 5, 6))
    case(f"{name}, no bias", lambda: mha(bias=False), x, key, real(4, 5, 16))
    case(f"{name} with more keys", lambda: Same(mha(add_bias_kv=True, add_zero_attn=True)), x)
    case(f"{name}, padding", lambda: Same(mha(), **plain), x, key_padding_mask=padding)
    case(f"{name}, padding, weights", lambda: Same(mha()), x, key_padding_mask=padding)
    case(f"{name}, mask", lambda: Same(mha()), x, attn_mask=mask)
    case(f"{name}, mask per head", lambda: Same(mha(), **plain), x, attn_mask=real(16, 6, 6),
         batch=None)  # fmt: skip
    both = {"attn_mask": mask, "key_padding_mask": padding}
    case(f"{name}, both masks", lambda: Same(mha(), **plain), x, **both)
    causal = nn.Transformer.generate_square_subsequent_mask(6, dtype=torch.float64)
    case(f"{name}, causal", lambda: Same(mha(), is_causal=True, **plain), x, attn_mask=causal)
    case(f"{name} of one sequence", lambda: Same(mha()), real(6, 16), batch=None)


def transformers() -> None:
    plain = {"dropout": 0.0, "batch_first": True}
    x, memory = real(4, 6, 16), real(4, 5, 16)
    padding = torch.tensor([[0, 0, 0, 0, 1, 1]] * 4).bool()
    causal = nn.Transformer.generate_square_subsequent_mask(6, dtype=torch.float64)

    def layer(**settings: Any) -> nn.Module:
        return nn.TransformerEncoderLayer(16, 4, 32, **{**plain, **settings})

    def encoder(**settings: Any) -> nn.Module:
        return nn.TransformerEncoder(layer(**settings), 2, norm=nn.LayerNorm(16))

    name = "TransformerEncoderLayer"
    case(name, layer, x)
    case(f"{name}, norm first", lambda: layer(norm_first=True, activation="gelu"), x)
    case(f"{name}, length first", lambda: layer(batch_first=False), real(6, 4, 16), batch=1)
    case(f"{name} in evaluation", lambda: layer(dropout=0.3).eval(), x)
    case(f"{name}, frozen", lambda: layer().eval().requires_grad_(False), x)
    case(f"{name}, masks", layer, x, src_key_padding_mask=padding, src_mask=causal.isinf())
    case(f"{name}, causal", layer, x, src_mask=causal, is_causal=True)
    name = "TransformerEncoder"
    case(name, encoder, x)
    case(f"{name} in evaluation", lambda: encoder().eval(), x)
    case(f"{name}, padding", encoder, x, src_key_padding_mask=padding)
    case(f"{name}, mask", encoder, x, mask=causal)
    case(f"{name}, causal", encoder, x, mask=causal, is_causal=True)
    decoder = nn.TransformerDecoderLayer(16, 4, 32, **plain)
    case("TransformerDecoderLayer", lambda: deepcopy(decoder), x, memory)
    stack = lambda: nn.TransformerDecoder(decoder, 2, norm=nn.LayerNorm(16))  # noqa: E731
    case("TransformerDecoder", stack, x, memory)
    case("TransformerDecoder, mask", stack, x, memory, tgt_mask=causal)
    both = of("Transformer", 16, 4, 1, 2, 32, **plain)
    case("Transformer", both, memory, x)
    case("Transformer, mask", both, memory, x, tgt_mask=causal)
    seconds = of("Transformer", 16, 4, 1, 1, 32, dropout=0.0)
    case("Transformer, length first", seconds, real(6, 4, 16), real(5, 4, 16), batch=1)
    case("Transformer that makes its mask", Masked, x, memory, padding)


for _family in (*(elementwise, spatial, layers, losses, recurrent, attention, transformers),):
    _family()


def tensors(tree: Any) -> Iterator[Tensor]:
    if isinstance(tree, Tensor):
        yield tree
    elif isinstance(tree, dict | list | tuple):
        for item in tree.values() if isinstance(tree, dict) else tree:
            yield from tensors(item)


@dataclass
class Outcome:
    """What one call gives: outputs, and gradients of parameters and of inputs, and buffers."""

    outputs: list[Tensor]
    parameters: dict[str, Tensor | None]
    inputs: list[Tensor | None]
    buffers: dict[str, Tensor]


def outcome(net: nn.Module, case: Case) -> Outcome:
    def fresh(value: Any) -> Any:
        if isinstance(value, tuple):
            return tuple(map(fresh, value))
        if not isinstance(value, Tensor):
            return value
        return value.clone().requires_grad_(value.is_floating_point())

    args = tuple(map(fresh, case.args))
    found = list(tensors(net(*args, **case.kwargs)))
    loss = torch.zeros((), dtype=torch.float64)
    for number, tensor in enumerate(found):
        if tensor.requires_grad:
            weights = torch.linspace(0.5, 1.5, tensor.numel(), dtype=torch.float64)
            loss = loss + (number + 1) * (tensor.reshape(-1) * weights).sum()
    if loss.requires_grad:
        loss.backward()
    return Outcome(
        [tensor.detach() for tensor in found],
        {name: parameter.grad for name, parameter in net.named_parameters()},
        [tensor.grad for tensor in tensors(args) if tensor.requires_grad],
        {name: buffer.clone() for name, buffer in net.named_buffers()},
    )


def differences(part: Any, mine: Outcome, one: Outcome) -> list[str]:
    """What a rank has that one device has not."""

    def held(name: str, tensor: Tensor | None) -> Tensor | None:
        return None if tensor is None else part.held(name).part(tensor)

    pairs = {
        **{
            f"output {n}": pair
            for n, pair in enumerate(zip(mine.outputs, one.outputs, strict=True))
        },
        **{f"gradient of {n}": (g, held(n, one.parameters[n])) for n, g in mine.parameters.items()},
        **{
            f"gradient {n}": pair
            for n, pair in enumerate(zip(mine.inputs, one.inputs, strict=True))
        },
        **{f"buffer {n}": (b, held(n, one.buffers[n])) for n, b in mine.buffers.items()},
    }
    return [name for name, (a, b) in pairs.items() if not is_near(a, b)]


def is_near(a: Tensor | None, b: Tensor | None) -> bool:
    if a is None or b is None:  # a gradient that is not there is zero
        return all(x is None or not x.any() for x in (a, b))
    same = a.shape == b.shape and a.dtype == b.dtype
    return same and torch.allclose(a, b, rtol=1e-9, atol=1e-10, equal_nan=True)


@dataclass
class Verdict:
    """What is cut of how many parameters (or inputs), and what is wrong; or why it is refused."""

    cut: int = 0
    of: int = 0
    wrong: tuple[str, ...] = ()
    refused: str = ""
    notes: tuple[str, ...] = ()
    annotated: bool = True


def verdicts(case: Case) -> list[Verdict]:
    """Traces a module, plans it for every mesh, and compares all ranks with one device."""
    torch.manual_seed(0)
    model = case.make().double()
    one = outcome(deepcopy(model), case)
    torch._dynamo.reset()
    try:
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            graph = ds.trace(model, case.args, case.kwargs, dynamic=case.dynamic)
    except ds.DimsolveError as error:
        return [Verdict(refused=str(error).splitlines()[0])] * len(MESHES)
    known = not any("no annotation" in str(each.message) for each in said)
    return [verdict(case, graph, model, one, mesh, policy, known) for mesh, policy in MESHES]


def verdict(
    case: Case,
    graph: ds.Graph,
    model: nn.Module,
    one: Outcome,
    mesh: dict[str, int],
    policy: str,
    known: bool,
) -> Verdict:
    try:
        plan = ds.plan(graph, mesh, policy)
    except ds.DimsolveError as error:
        return Verdict(refused=str(error).splitlines()[0])
    found = parts(model, plan, mesh, lambda part: differences(part, outcome(part, case), one))
    kind = "parameter" if policy == "tensor" else "input"
    entries = [entry for entry in plan.inputs if entry.kind == kind]
    return Verdict(
        sum(entry.placements != ["R"] for entry in entries),
        len(entries),
        tuple(sorted({name for names in found for name in names})),
        notes=tuple(plan.notes),
        annotated=known,
    )


def main(patterns: list[str]) -> None:
    """Prints a line for each case, and their numbers."""
    counts: Counter[str] = Counter()
    for name, each in CASES.items():
        if patterns and not any(fnmatch(name, pattern) for pattern in patterns):
            continue
        words = []
        for (_, policy), found in zip(MESHES, verdicts(each), strict=True):
            kind = "wrong" if found.wrong else "refused" if found.refused else "equal"
            counts[f"{policy}: {kind}"] += 1
            counts[f"{policy}: cut"] += bool(found.cut)
            what = f"{kind}, {found.cut} of {found.of} cut"
            words.append(found.refused or f"{what} {', '.join(found.wrong)}".strip())
        print(f"{name:58} {words[0]:40} {words[1]}", flush=True)
    print(", ".join(f"{key} {count}" for key, count in sorted(counts.items())))


if __name__ == "__main__":
    main(sys.argv[1:])
