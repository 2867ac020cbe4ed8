"""A rank of another engine: its part of the parameters, and what it does at modules' boundaries.

    colwise on q_proj      weight S(0); the input's gradient is all-reduced
    rowwise on o_proj      weight S(1); the output is all-reduced, then the bias is added

Written from what the styles of transformers 5.23 promise (`dimsolve.partition.engines.tp_plan`),
over a `Communicator` of ours, so that no process group and no engine is needed. One device is the
same program in a world of one rank. Parts are those of torch's ``chunk``: the last may be shorter.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd import Function
from torch.nn.functional import embedding, pad

from dimsolve.ir.errors import DimsolveError, Problem
from dimsolve.partition.engines.tp_plan import ALL_STYLES, STYLES, Resolved, Style
from dimsolve.partition.placement import Placement, Replicate, Shard

from ..distributed.collectives import AllReduce, ShareGradient
from ..distributed.communicator import Communicator
from .loading import Loaded, part_lengths, part_of
from .record import Recorder


class BoundaryError(DimsolveError):
    """A style that cannot be put on a module. ``module``: its name; ``instead``: what can be;
    ``unknown``: that the engine puts it there, and what it then does is not known.
    """

    module: str = ""
    instead: str = "replicate"
    unknown: bool = False


NEEDS = Problem(
    BoundaryError,
    "style-needs",
    "{style} cannot be put on {module}",
    "it is of type {kind}, which has no {attribute}",
    "{hint}",
)
NO_DIM = Problem(
    BoundaryError,
    "style-needs",
    "{style} cannot be put on {module}",
    "{name} has the shape {shape}, and {style} cuts dimension {dim}",
    "leave it out",
)
NO_WEIGHT = Problem(
    BoundaryError,
    "style-not-known",
    "what {style} does to {module} is not known",
    "its {kind} has no parameter of its own to cut, as where weights are packed or wrapped: its "
    "code has DTensors beside them",
    "leave {module} out, or name the module that has the weight",
)
NO_ROPE = Problem(
    BoundaryError,
    "style-needs",
    "{style} cannot be put on {module}",
    "the model's configuration has no qk_rope_head_dim",
    "it is for latent attention: leave it out",
)

NOT_KNOWN = Problem(
    BoundaryError,
    "style-not-known",
    "what {style} does to {module} is not known",
    "it hands DTensors to the code of {kind}{lies}: that is followed in tables and linear layers",
    "{style} is for tables: leave {module} out",
)


class _Gather(Function):
    """The parts of the last dimension on every rank; backward, this rank's part."""

    @staticmethod
    def forward(ctx: Any, part: Tensor, lengths: list[int], end: Communicator) -> Tensor:
        ctx.place = sum(lengths[: end.rank]), lengths[end.rank]
        padded = pad(part, (0, max(lengths) - part.shape[-1]))
        rows = end.all_gather(padded.contiguous())
        return torch.cat([r[..., :n] for r, n in zip(rows, lengths, strict=True)], -1)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Any:
        return gradient.narrow(-1, *ctx.place), None, None


class _Slice(Function):
    """This rank's part of the last dimension; backward, the parts of all."""

    @staticmethod
    def forward(ctx: Any, whole: Tensor, lengths: list[int], end: Communicator) -> Tensor:
        ctx.arguments = lengths, end
        return whole.narrow(-1, sum(lengths[: end.rank]), lengths[end.rank]).contiguous()

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Any:
        lengths, end = ctx.arguments
        return _Gather.apply(gradient, lengths, end), None, None


@dataclass
class Rank:
    """One rank: the model with this rank's parts, and a recorder. ``loaded``: parameters whose
    parts the engine's loader makes otherwise than their style says. ``placements``: what the styles
    say, by name; ``summed``: parameters whose gradients are summed over the ranks afterwards.
    """

    model: nn.Module
    plan: Resolved
    end: Communicator
    loaded: Mapping[str, Loaded] = field(default_factory=dict)
    recorder: Recorder = field(init=False)
    placements: dict[str, Placement] = field(default_factory=dict)
    summed: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        modules = dict(self.model.named_modules())
        names: dict[int, list[str]] = {}
        self._wholes = {name: p.detach() for name, p in self.model.named_parameters()}
        for name, parameter in self.model.named_parameters(remove_duplicate=False):
            names.setdefault(id(parameter), []).append(name)
        for first, *tied in names.values():
            # Weights that are tied are those of the first module, with its style or with none.
            if first in self.plan.parameters:
                self._cut(modules, first, tied, self.plan.parameters[first])
        cut = [name for name, each in self.placements.items() if isinstance(each, Shard)]
        self.recorder = Recorder(self.model, frozenset(cut))
        named = dict(self.model.named_parameters(remove_duplicate=False))
        self.recorder.distributed.update((id(named[name]), False) for name in self.placements)
        for name, text in self.plan.modules.items():
            self._wrap(name, modules[name], text)

    def _cut(self, modules: Mapping[str, nn.Module], name: str, tied: list[str], text: str) -> None:
        owner, _, short = name.rpartition(".")
        module = modules[owner]
        whole = module._parameters[short]
        assert whole is not None
        placement = ALL_STYLES[text].placement(short, whole.ndim)
        if ALL_STYLES[text].cut:
            self.placements.update(dict.fromkeys((name, *tied), placement))
        if isinstance(placement, Shard) and placement.dim >= whole.ndim:
            shape = tuple(whole.shape)
            raise _at(
                owner,
                NO_DIM(style=text, module=owner, name=name, shape=shape, dim=placement.dim),
            )
        rank, count = self.end.rank, self.end.size
        if text == "grouped_gemm" and count > 1 and hasattr(module, "num_experts"):
            own: Any = module
            own.num_experts, own._is_expert_parallel = whole.shape[0] // count, True
        if name in self.loaded:
            part = self.loaded[name].part(self._wholes, rank)
        else:
            part = part_of(whole.detach(), placement, rank, count)
        parameter = nn.Parameter(part.clone(), whole.requires_grad)
        for each in (name, *tied):
            owner, _, short = each.rpartition(".")
            modules[owner]._parameters[short] = parameter

    def _wrap(self, name: str, module: nn.Module, text: str) -> None:
        style = self._fitted(name, module, text)
        if style.needs and not hasattr(module, style.needs):
            kind, table = type(module).__name__, isinstance(module, nn.Embedding)
            hint = f"{text} is for linear layers: leave {name} out"
            if table:
                hint = f"{text} is for linear layers: embedding_rowwise is for tables"
            error = NEEDS(style=text, module=name, kind=kind, attribute=style.needs, hint=hint)
            raise _at(name, error, "embedding_rowwise" if table else "replicate")
        if style.kind == "linear" and all(each is None for each in module._parameters.values()):
            error = NO_WEIGHT(style=text, module=name, kind=type(module).__name__)
            error.unknown = True
            raise _at(name, error)
        if style.exit == "rope" and self._rope() is None:
            raise _at(name, NO_ROPE(style=text, module=name))
        if style.summed:
            own = [f"{name}.{short}" for short, _ in module.named_parameters(recurse=False)]
            self.summed.update(own)
            if style.kind:
                self.placements.update(dict.fromkeys(own, Replicate()))
                distributed = [id(p) for p in module.parameters(recurse=False)]
                self.recorder.distributed.update(dict.fromkeys(distributed, False))
        forward = module.forward
        if text == "ep_dispatch_experts":
            forward = self._routed(module, forward)

        def bounded(*args: Any, **kwargs: Any) -> Any:
            args = self._enter(style, module, args)
            own = self._seen(style, module, args)
            bias = module._parameters.get("bias") if style.cut == "in" else None
            if bias is not None:
                module._parameters["bias"] = None
            elif style.cut == "rows":
                self._mask(module)
            try:
                output = forward(*args, **kwargs)
            finally:
                if bias is not None:
                    module._parameters["bias"] = bias
                self.recorder.distributed.update(own)
                if args:
                    self.recorder.distributed.pop(id(args[0]), None)
            output = self._exit(style, module, output)
            if bias is not None:
                self.recorder.distributed[id(output)] = style.kind == "linear"
                output = output + bias
            return self._handed_out(style, output)

        module.forward = bounded

    def _fitted(self, name: str, module: nn.Module, text: str) -> Style:
        """What a style does to this module. One for tables hands its module's code DTensors, and
        makes whole what comes out: how, is as the weight lies, by a rule of its own if it has one.
        """
        style = ALL_STYLES[text]
        if style.kind != "dtensor" or not style.cut:
            return style
        placement = self.placements.get(f"{name}.weight")
        match module, placement:
            case nn.Embedding() | nn.Linear(), None:
                return style  # a tensor beside DTensors: the recorder refuses it
            case nn.Embedding(), Shard(0, 1):
                return STYLES["embedding_rowwise"]
            case nn.Embedding(), Shard(1, 1):
                return STYLES["embedding_colwise"]
            case nn.Linear(), Shard(0, 1):
                return Style("out", "share", "gather", kind="dtensor")
            case nn.Linear(), Shard(1, 1):
                return Style("in", "slice", "sum", kind="dtensor")
        lies = f", whose weight lies {placement}" if isinstance(placement, Shard) else ""
        error = NOT_KNOWN(style=text, module=name, kind=type(module).__name__, lies=lies)
        error.unknown = True
        raise _at(name, error)

    def _seen(self, style: Style, module: nn.Module, args: tuple[Any, ...]) -> dict[int, bool]:
        """Notes what the module's code sees as DTensors; returns what it is to be set back to."""
        known = self.recorder.distributed
        own = [id(p) for p in module.parameters(recurse=False) if id(p) in known]
        before = {each: known[each] for each in own}
        if style.kind == "local":
            for each in own:
                del known[each]
        elif style.kind:
            training = style.kind == "linear" and isinstance(module, nn.Linear)
            known.update(dict.fromkeys(own, training))
            if args and isinstance(args[0], Tensor):
                known[id(args[0])] = training
                self.recorder.note_kept(args[0])
        return before

    def _handed_out(self, style: Style, output: Any) -> Any:
        """What leaves a module is a tensor, a view of the DTensor inside."""
        if isinstance(output, Tensor) and style.kind in ("linear", "dtensor"):
            self.recorder.distributed.pop(id(output), None)
            self.recorder.views.add(id(output))
            self.recorder.note_kept(output)
        return output

    def _rope(self) -> int | None:
        config = getattr(self.model, "config", None)
        text = getattr(config, "get_text_config", None)
        found: int | None = getattr(text() if text else config, "qk_rope_head_dim", None)
        return found

    def _enter(self, style: Style, module: nn.Module, args: tuple[Any, ...]) -> tuple[Any, ...]:
        if not args or not style.entry:
            return args
        first, *rest = args
        match style.entry:
            case "share":
                return self.share(first), *rest
            case "slice":
                width: Any = module.in_features
                return self.slice(first, width), *rest
            case "divide":
                return self._noted("divide", first, lambda x: x / self.end.size), *rest
            case _:
                if len(rest) >= 2:
                    index, weights, *more = rest
                    rest = [index, self.share(weights), *more]
                return self.share(first), *rest

    def _exit(self, style: Style, module: nn.Module, output: Any) -> Any:
        if output is None:
            return None
        match style.exit:
            case "sum":
                return self.sum(output)
            case "gather":
                width = "embedding_dim" if style.cut == "columns" else "out_features"
                return self.gather(output, getattr(module, width))
            case "rope":
                rope = self._rope() or 0
                return self._noted("rope", output, lambda x: self._turned(x, rope), rope)
            case _:
                return output

    def _routed(self, module: Any, forward: Callable[..., Any]) -> Callable[..., Any]:
        """The experts' own code on the routes to this rank's experts; the others weigh nothing."""

        def routed(hidden: Tensor, index: Tensor, weights: Tensor) -> Any:
            def own(x: Tensor) -> Tensor:
                count: int = module.num_experts
                elsewhere = index // count != self.end.rank
                local = torch.where(elsewhere, count, index % count)
                found: Tensor = forward(x, local, weights.masked_fill(elsewhere, 0.0))
                return found

            return self._noted("experts", hidden, own)

        return routed

    def _mask(self, module: nn.Module) -> None:
        """An embedding whose table is cut answers zeros for the ids of other ranks."""
        weight, end = module._parameters["weight"], self.end
        whole = getattr(module, "num_embeddings", None)
        if weight is None or whole is None:
            return
        lengths = part_lengths(whole, end.size)
        start, rows = sum(lengths[: end.rank]), lengths[end.rank]

        def masked(function: Any, *args: Any, **kwargs: Any) -> Any:
            if function is not embedding:
                return function(*args, **kwargs)
            ids, table, *rest = args
            here = (ids >= start) & (ids < start + rows)
            local = torch.where(here, ids - start, 0)
            if rows == 0:
                return table.new_zeros((*ids.shape, table.shape[-1]))
            padding = rest[0] if rest else kwargs.pop("padding_idx", None)
            if padding is not None:
                padding = padding + whole if padding < 0 else padding
                padding = padding - start if start <= padding < start + rows else None
            found = embedding(local, table, padding, *rest[1:], **kwargs)
            return found.masked_fill(~here.unsqueeze(-1), 0)

        self.recorder.replaced[id(weight)] = ("rows", masked)

    def share(self, value: Any) -> Any:
        """The same value; its gradient is summed over the ranks."""
        return self._noted("share", value, lambda x: ShareGradient.apply(x, self.end))

    def sum(self, value: Any) -> Any:
        """The sum of all ranks' values; its gradient is used as it is."""
        return self._noted("sum", value, lambda x: AllReduce.apply(x, self.end, False))

    def gather(self, value: Any, width: int) -> Any:
        """The parts of the last dimension, one after another."""
        lengths = part_lengths(width, self.end.size)
        return self._noted("gather", value, lambda x: _Gather.apply(x, lengths, self.end))

    def slice(self, value: Any, width: int) -> Any:
        """This rank's part of the last dimension."""
        lengths = part_lengths(width, self.end.size)
        return self._noted("slice", value, lambda x: _Slice.apply(x, lengths, self.end))

    def _turned(self, value: Tensor, width: int) -> Tensor:
        """The same value; the gradient of its last part is summed over the ranks."""
        passed, turned = value.split([value.shape[-1] - width, width], dim=-1)
        return torch.cat([passed, ShareGradient.apply(turned, self.end)], dim=-1)

    def _noted(
        self, kind: str, value: Any, change: Callable[[Tensor], Tensor], width: int = 0
    ) -> Any:
        if not isinstance(value, Tensor):
            return value
        with torch._C.DisableTorchFunction():
            changed = change(value)
        return self.recorder.note(kind, value, changed, width)


def _at(module: str, error: BoundaryError, instead: str = "replicate") -> BoundaryError:
    error.module, error.instead = module, instead
    return error
