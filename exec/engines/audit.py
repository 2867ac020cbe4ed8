"""`audit`: is a plan of another engine right for a model, and for which counts?

    ds.audit(model, {"layers.*.q_proj": "colwise", ...}, kwargs={"input_ids": ids})

    tp = 2    legal      outputs and gradients are those of one device
    tp = 3    illegal    self_attn: 12 key heads ...; rank 0 raised RuntimeError ...

For every count the ranks' programs run as threads of this process, at the boundaries what the
styles do, on the model's own code; every call is laid beside that of one device. *Legal* is proved
call by call from our rules; *illegal* has a counterexample: an error that a rank raises, or numbers
that differ. What is equal here and not proved is *unknown*. The answers hold for these sizes of
inputs.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import Tensor, nn

from dimsolve.ir.errors import DimsolveError
from dimsolve.partition.engines.tp_plan import (
    EXPERT_STYLES,
    RETIRED,
    STYLES,
    Resolved,
    generic,
    read_tp_plan,
    resolve,
)
from dimsolve.partition.placement import Placement, Replicate, Shard
from dimsolve.solver.graphs.names import source

from ..distributed.simulated import Member, RankError, SimulatedWorld
from .boundary import BoundaryError, Rank, part_of
from .follow import Doubt, Follow, Followed, lies, same
from .gradients import parameter_gradients, right
from .loading import loaded_placements
from .record import At, Refused, tensors_in


@dataclass(frozen=True, slots=True)
class Finding:
    """Something that is wrong, or not proved: where, why, and what would work."""

    verdict: str
    about: str
    module: str
    line: str
    reason: str
    hint: str = ""


@dataclass(frozen=True, slots=True)
class Count:
    """The answer for one count. forward, gradients: ``legal``, ``illegal`` or ``unknown``."""

    count: int
    forward: str
    gradients: str
    findings: tuple[Finding, ...] = ()
    bytes_per_rank: int = 0
    proved: int = 0
    calls: int = 0


@dataclass(frozen=True, slots=True)
class Audit:
    """The answers for all counts."""

    model: str
    plan: Mapping[str, str]
    counts: tuple[Count, ...]
    unused: tuple[str, ...] = ()
    whole: tuple[tuple[str, int], ...] = ()
    bytes_whole: int = 0

    def at(self, count: int) -> Count:
        """Returns the answer for one count."""
        return next(each for each in self.counts if each.count == count)


@dataclass
class _Run:
    """What a rank, or one device, ended with."""

    rank: Rank
    outputs: list[Tensor] = field(default_factory=list)
    gradients: dict[str, Tensor | None] = field(default_factory=dict)


def audit(
    model: nn.Module,
    tp_plan: Mapping[str, str] | None = None,
    *,
    counts: Sequence[int] = tuple(range(2, 17)),
    args: tuple[Any, ...] = (),
    kwargs: Mapping[str, Any] | None = None,
) -> Audit:
    """Returns for which counts a plan is right for a model, and why not for the others."""
    plan = read_tp_plan(tp_plan if tp_plan is not None else getattr(model, "tp_plan", None))
    return _Audit(model, plan, args, dict(kwargs or {})).run(counts)


class _Audit:
    def __init__(
        self, model: nn.Module, plan: dict[str, str], args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> None:
        self.plan = plan
        self.args = args
        self.kwargs = kwargs
        self.model = prepared(model)
        self.name = type(model).__name__
        names = [
            (name, [short for short, _ in module.named_parameters(recurse=False)])
            for name, module in self.model.named_modules()
        ]
        self.found = resolve(plan, names)
        self.loaded = loaded_placements(model, self.found)
        self.weights: list[Tensor] = []

    def run(self, counts: Sequence[int]) -> Audit:
        parameters = dict(self.model.named_parameters())
        total = sum(p.numel() * p.element_size() for p in parameters.values())
        left = tuple(
            (name, p.numel() * p.element_size())
            for name, p in parameters.items()
            if name not in self.found.parameters
        )
        refused = tuple(self._refused())
        if refused:
            answers = [Count(n, "illegal", "illegal", refused) for n in counts]
        else:
            plain = _outputs(self.model, self._inputs())
            one = self._world(1)
            answers = [self._count(n, one, plain) for n in counts]
            self.partly = []
        return Audit(self.name, self.plan, tuple(answers), self.found.unused, left, total)

    def _refused(self) -> Iterator[Finding]:
        for key, text in self.plan.items():
            if text in EXPERT_STYLES:
                reason = f"{text} is a style of an ep_plan: it deals out whole experts"
                yield Finding("illegal", "style", key, "", reason, "write it in ep_plan")
            elif text not in STYLES:
                today = RETIRED.get(text)
                hint = f"write {today}" if today else f"known are {', '.join(STYLES)}"
                reason = f"transformers has no style {text!r}"
                yield Finding("illegal", "style", key, "", reason, hint)

    def _inputs(self) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """The inputs, for a rank to have as its own."""
        given: tuple[tuple[Any, ...], dict[str, Any]] = copy.deepcopy((self.args, self.kwargs))
        return given

    def _world(self, count: int) -> list[_Run] | RankError:
        """The runs of all ranks."""
        runs: list[_Run | None] = [None] * count

        def program(member: Member) -> _Run:
            loaded = self.loaded if count > 1 else {}
            rank = Rank(copy.deepcopy(self.model), self.found, member.world, loaded)
            run = runs[member.rank] = _Run(rank)
            inputs = self._inputs()
            with rank.recorder.inside():
                run.outputs = _outputs(rank.model, inputs)
            self._backward(run)
            return run

        self.partly = runs
        try:
            return SimulatedWorld(count).run(program)
        except RankError as error:
            return error

    def _backward(self, run: _Run) -> None:
        floats = [t for t in run.outputs if t.requires_grad and not t.is_meta]
        if not floats:
            return
        if not self.weights:
            generator = torch.Generator().manual_seed(1)
            self.weights = [torch.randn(t.shape, generator=generator).to(t) for t in floats]
        if [t.shape for t in floats] != [w.shape for w in self.weights]:
            return
        loss = sum((t * w).sum() for t, w in zip(floats, self.weights, strict=True))
        assert isinstance(loss, Tensor)
        loss.backward()
        end = run.rank.end
        for name, parameter in run.rank.model.named_parameters():
            gradient = parameter.grad
            if name in run.rank.summed and gradient is not None:
                gradient = end.all_reduce(gradient)
            run.gradients[name] = gradient

    def _count(self, count: int, one: list[_Run] | RankError, plain: list[Tensor]) -> Count:
        if isinstance(one, RankError):
            return self._failed(count, one)
        whole = one[0]
        if not all(map(same, plain, whole.outputs)):
            raise AssertionError("in a world of one rank the styles change the model's outputs")
        ranks = self._world(count)
        if isinstance(ranks, RankError):
            return self._failed(count, ranks)
        recorders = [run.rank.recorder for run in ranks]
        held = {**ranks[0].rank.placements, **self.loaded}
        found = Follow(whole.rank.recorder, recorders, held).run()
        refused = recorders[0].refused
        forward, findings = self._forward(whole, ranks, found)
        findings += [_refusal("forward", each) for each in refused if not each.training][:1]
        forward = "illegal" if any(not each.training for each in refused) else forward
        gradients, more = self._gradients(whole, ranks, found, forward)
        if forward != "illegal" and refused:
            gradients, more = "illegal", [*more, _refusal("gradients", refused[0])]
        if forward != "illegal" and self.loaded:
            gradients, more = "illegal", [*more, *self._reordered(ranks[0].rank)]
        size = sum(p.numel() * p.element_size() for p in ranks[0].rank.model.parameters())
        calls = len(whole.rank.recorder.steps)
        proved = calls - len(found.doubts)
        return Count(count, forward, gradients, (*findings, *more), size, proved, calls)

    def _failed(self, count: int, error: RankError) -> Count:
        cause = error.__cause__ or error
        if isinstance(cause, BoundaryError):
            one = cause.diagnostic
            finding = Finding("illegal", "style", cause.module, "", f"{one.title}: {one.reason}", one.hint)
            return Count(count, "illegal", "illegal", (finding,))
        run = self.partly[error.rank]
        at = run.rank.recorder.failed_at() if run is not None else At("", "", 0)
        first = str(cause).partition("\n")[0]
        reason = f"rank {error.rank} raised {type(cause).__name__}: {first}"
        return Count(
            count, "illegal", "illegal", (Finding("illegal", "forward", at.module, _line(at), reason),)
        )

    def _forward(
        self, whole: _Run, ranks: Sequence[_Run], found: Followed
    ) -> tuple[str, list[Finding]]:
        different = [
            place
            for place, output in enumerate(whole.outputs)
            if not all(
                len(run.outputs) == len(whole.outputs) and same(output, run.outputs[place])
                for run in ranks
            )
        ]
        first = next((d for d in found.doubts if d.refuted), next(iter(found.doubts), None))
        if different:
            return "illegal", [_finding("illegal", "forward", first, "its outputs differ")]
        if first is not None:
            return "unknown", [_finding("unknown", "forward", first, "it is not proved")]
        return "legal", []

    def _gradients(
        self, whole: _Run, ranks: Sequence[_Run], found: Followed, forward: str
    ) -> tuple[str, list[Finding]]:
        if forward == "illegal":
            return "illegal", []
        wrong = [
            name
            for name, gradient in whole.gradients.items()
            if not self._same_gradient(name, gradient, ranks)
        ]
        if wrong:
            return "illegal", [self._wrong(wrong, whole, found)]
        if forward == "unknown":
            return "unknown", []
        rank = ranks[0].rank
        follows = parameter_gradients(whole.rank.recorder, found)
        doubtful = [
            name
            for name, gradient in follows.items()
            if not right(gradient, rank.placements.get(name, Replicate()), name in rank.summed)
        ]
        if doubtful:
            module = doubtful[0].rpartition(".")[0]
            reason = f"the gradient of {doubtful[0]} is equal here, and not proved"
            return "unknown", [Finding("unknown", "gradients", module, "", reason)]
        return "legal", []

    def _same_gradient(self, name: str, gradient: Tensor | None, ranks: Sequence[_Run]) -> bool:
        parts = [run.gradients.get(name) for run in ranks]
        if gradient is None:
            return all(part is None or not part.any() for part in parts)
        said = ranks[0].rank.placements.get(name, Replicate())
        placement, count = self.loaded.get(name, said), len(ranks)
        for number, part in enumerate(parts):
            wanted = part_of(gradient, placement, number, count)
            scale = float(gradient.abs().max())
            if part is None or part.shape != wanted.shape:
                return False
            if part.numel() and float((part - wanted).abs().max()) > 2e-3 * scale + 1e-9:
                return False
        return True

    def _reordered(self, rank: Rank) -> Iterator[Finding]:
        for name, held in self.loaded.items():
            said = rank.placements[name]
            reason = (
                f"the loader makes the rows of {name} of several tensors: ranks have {held}, and the "
                f"style says {said}: gradients and what is saved are in another order"
            )
            hint = f'write "{generic(name)}": "packed_colwise"'
            yield Finding("illegal", "gradients", name.rpartition(".")[0], "", reason, hint)
            return

    def _wrong(self, names: Sequence[str], whole: _Run, found: Followed) -> Finding:
        follows = parameter_gradients(whole.rank.recorder, found)
        lone = [name for name in names if follows.get(name) == "summand"]
        name = (lone or list(names))[-1]
        module = name.rpartition(".")[0]
        if lone:
            reason = (
                f"every rank has a summand of the gradient of {name} "
                "(it is whole, and its work is cut), and nothing sums them"
            )
            hint = f'add "{generic(module)}": "replicated_with_grad_allreduce"'
        else:
            reason = f"the gradient of {name} differs from that of one device"
            hint = ""
        if len(names) > 1:
            reason += f"; so do {len(names) - 1} more"
        return Finding("illegal", "gradients", module, "", reason, hint)


def _finding(verdict: str, about: str, doubt: Doubt | None, reason: str) -> Finding:
    if doubt is None:
        return Finding(verdict, about, "", "", reason)
    return Finding(
        verdict, about, doubt.at.module, _line(doubt.at), f"{doubt.operator}: {doubt.reason}"
    )


def _refusal(about: str, refused: Refused) -> Finding:
    return Finding("illegal", about, refused.at.module, _line(refused.at), refused.reason)


def _line(at: At) -> str:
    return str(source(at.file, at.line)) if at.file else ""


def prepared(model: nn.Module) -> nn.Module:
    """A copy whose parameters all matter: none is constant, all are float32."""
    ours = copy.deepcopy(model).eval()
    generator = torch.Generator().manual_seed(0)
    for tensor in (*ours.parameters(), *ours.buffers()):
        if tensor.is_floating_point() and tensor.dtype in (torch.float16, torch.bfloat16):
            tensor.data = tensor.data.float()
    with torch.no_grad():
        for parameter in ours.parameters():
            if parameter.is_floating_point() and not parameter.is_meta:
                noise = torch.randn(parameter.shape, generator=generator)
                scale = float(parameter.std()) if parameter.numel() > 1 else 0.0
                parameter.add_(noise.to(parameter) * (scale or 0.2))
    return ours


def _outputs(model: nn.Module, inputs: tuple[tuple[Any, ...], dict[str, Any]]) -> list[Tensor]:
    args, kwargs = inputs
    return list(tensors_in(returned(model(*args, **kwargs))))


def returned(result: Any) -> Any:
    """What is compared: everything but caches, which are a rank's own."""
    if isinstance(result, Mapping):
        return {k: v for k, v in result.items() if "past_key_values" not in k and "cache" not in k}
    return result
