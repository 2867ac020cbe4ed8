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
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from typing import Any, Literal, TypeAlias

import torch
from torch import Tensor, nn

from dimsolve.ir.display import Displayed
from dimsolve.ir.errors import Problem
from dimsolve.partition.engines.tp_plan import (
    EXPERT_STYLES,
    RETIRED,
    STYLES,
    Resolved,
    TpPlanError,
    fused_of,
    generic,
    read_tp_plan,
    resolve,
    with_experts,
)
from dimsolve.partition.placement import Replicate
from dimsolve.solver.graphs.names import source

from ..distributed.simulated import Member, RankError, SimulatedWorld
from ..registration.without_data import tensors_in
from .boundary import BoundaryError, Rank
from .every_count import RANKS, EveryCount, condition_of, cut_lengths, survivors
from .follow import TOLERANCE, Doubt, Follow, Followed, same
from .gradients import parameter_gradients, right
from .loading import Loaded, loaded_parameters, part_of
from .record import At, Refused

Verdict: TypeAlias = Literal["legal", "illegal", "unknown"]
VERDICT_WORDS: tuple[Verdict, ...] = ("legal", "illegal", "unknown")
About: TypeAlias = Literal["forward", "gradients", "style"]


@dataclass(frozen=True, slots=True)
class Finding:
    """Something that is wrong, or not proved: where, why, and what would work.

    about: ``forward``, ``gradients``, or ``style`` for a rule that cannot be applied. line: of the
    model. change: rules that would correct it, a style by the name of a module.
    """

    verdict: Verdict
    about: About
    module: str
    line: str
    reason: str
    hint: str = ""
    change: Mapping[str, str] = field(default_factory=dict)

    def __str__(self) -> str:
        where = " ".join(filter(None, [self.module, f"({self.line})" if self.line else ""]))
        return f"{where}: {self.reason}" if where else self.reason


@dataclass(frozen=True, slots=True)
class Count:
    """The answer for one count: are outputs, are gradients those of one device?

    calls, proved: how many calls a rank makes, and how many of them are proved. bytes_per_rank: of
    the parameters. collectives: how many a training step makes, forward and backward; saved: how
    many of them are for one value, where one would do. corrected: a plan that is legal for this
    count, where the given one is not and changing the rules that are to blame mends it.
    """

    count: int
    forward: Verdict
    gradients: Verdict
    findings: tuple[Finding, ...] = ()
    bytes_per_rank: int = 0
    calls: int = 0
    proved: int = 0
    collectives: int = 0
    saved: int = 0
    corrected: Mapping[str, str] | None = None

    @property
    def verdict(self) -> Verdict:
        """Of both together."""
        verdicts = (self.forward, self.gradients)
        return "illegal" if "illegal" in verdicts else max(verdicts)


@dataclass(frozen=True)
class Audit(Displayed):
    """Made by `dimsolve.audit`. sizes: the shapes of the inputs, for which the answers hold.
    unused: rules that match nothing. whole: parameters that no rule cuts, with their bytes. every:
    the answer for all counts, where none were asked for.
    """

    model: str
    plan: Mapping[str, str]
    counts: tuple[Count, ...]
    sizes: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    unused: tuple[str, ...] = ()
    whole: Mapping[str, int] = field(default_factory=dict)
    bytes_whole: int = 0
    every: EveryCount | None = None

    def at(self, count: int) -> Count:
        """Returns the answer for one count; KeyError for one that was not asked."""
        found = {each.count: each for each in self.counts}
        return found[count]

    def having(self, verdict: Verdict) -> tuple[int, ...]:
        """Returns the counts with this verdict."""
        return tuple(each.count for each in self.counts if each.verdict == verdict)

    @property
    def ok(self) -> bool:
        """Whether the plan is right for every count that was asked."""
        return all(each.verdict == "legal" for each in self.counts)

    def __str__(self) -> str:
        return "\n".join(audit_lines(self))

    def __repr__(self) -> str:
        found = ((word, self.having(word)) for word in VERDICT_WORDS)
        said = "; ".join(f"{word} {', '.join(map(str, n))}" for word, n in found if n)
        return f"<Audit {self.model}: {said}>"


def audit_lines(audit: Audit) -> list[str]:
    """Returns what was found as lines of text; counts with the same findings stand together."""
    groups: dict[tuple[str, str, str], list[Count]] = {}
    for each in audit.counts:
        first = each.findings[0] if each.findings else None
        about = (first.about, first.module) if first else ("", "")
        groups.setdefault((each.verdict, *about), []).append(each)
    lines = [f"{audit.model}, {len(audit.plan)} rules, at {_sizes_text(audit)}"]
    if audit.every is not None:
        lines.append(f"  {audit.every}")
        if audit.every.because:
            lines.append(f"    {audit.every.because}")
    for (verdict, *_), counts in groups.items():
        numbers = ", ".join(str(each.count) for each in counts)
        lines.append(f"  tp = {numbers}: {verdict}")
        one = counts[0]
        if verdict == "legal":
            lines.append("    outputs and gradients are those of one device: all calls are proved")
        where = f" at {one.count}" if len(counts) > 1 else ""
        for finding in one.findings:
            lines.append(f"    {finding.about}{where}: {finding}")
            if finding.hint:
                lines.append(f"      hint: {finding.hint}")
        if one.corrected is not None:
            lines.append(f"    legal at {one.count} {_changes(audit.plan, one.corrected)}")
    ran = (each for each in audit.counts if each.verdict != "illegal" and each.calls)
    legal = next(ran, None)
    if legal is not None:
        lines.append(
            f"  parameters: {legal.bytes_per_rank:,} of {audit.bytes_whole:,} bytes on a rank of "
            f"{legal.count}; {len(audit.whole)} are left whole, {sum(audit.whole.values()):,} bytes"
        )
        extra = f", {legal.saved} of them for values that have one already" if legal.saved else ""
        lines.append(f"  collectives: {legal.collectives} in a training step{extra}")
    lines += [f"  {name or repr(name)} matches nothing" for name in audit.unused]
    return lines


def _sizes_text(audit: Audit) -> str:
    return ", ".join(f"{name} {shape}" for name, shape in audit.sizes.items()) or "no inputs"


def _changes(old: Mapping[str, str], new: Mapping[str, str]) -> str:
    """The rules that differ; those that leave modules whole stand together."""
    gone = [name for name in old if name not in new]
    changed = {name: style for name, style in new.items() if old.get(name) != style}
    whole = [name for name, style in changed.items() if style == "replicate"]
    texts = [f'"{name}": "{style}"' for name, style in changed.items() if name not in whole]
    if whole:
        texts.append(f'"replicate" for {", ".join(whole)}')
    said = [f"with {', '.join(texts)}"] if texts else []
    return " ".join([*said, *([f"without {', '.join(gone)}"] if gone else [])])


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
    ep_plan: Mapping[str, str] | None = None,
    counts: Sequence[int] | None = None,
    args: tuple[Any, ...] = (),
    kwargs: Mapping[str, Any] | None = None,
    correct: bool = True,
) -> Audit:
    """Returns for which counts a plan is right for a model, and why not for the others.

    tp_plan: styles of transformers by the names of modules and parameters; None: the model's own. A
    plan that is given overrides rules of the model's own and leaves the others, as one in
    transformers' ``DistributedConfig`` does; "replicate" leaves a module whole. counts: of ranks;
    None: 2 to 16, and `Audit.every` says what is proved of all others. args, kwargs: an example of
    the inputs. ep_plan: with it whole experts are dealt out too, over the same ranks (transformers'
    ``ep_size == tp_size``); its rules override those of the model's own ``ep_plan``, {} leaves that
    as it is. Nothing is proved of the experts' code, so a plan that is right is *unknown*: equal
    here. correct: whether to look for changes that make the plan legal. The model stays as it
    is: copies run, their parameters changed so that all of them matter. Raises TpPlanError
    for what is no plan, and for a model that has none.
    """
    own = getattr(model, "tp_plan", None) or {}
    given = None if tp_plan is None else read_tp_plan(tp_plan)
    if given is None and not own:
        raise NO_TP_PLAN(model=type(model).__name__)
    if given is not None and not given:
        raise NO_RULES(model=type(model).__name__)
    plan = {**read_tp_plan(own), **(given or {})}
    checked = frozenset(given or {}) - frozenset(own)
    experts: dict[str, str] = {}
    if ep_plan is not None:
        dealt = getattr(model, "ep_plan", None) or {}
        experts = {**read_tp_plan(dealt), **read_tp_plan(ep_plan)}
        if "ep_dispatch_experts" not in experts.values():
            raise NO_EP_PLAN(model=type(model).__name__)
        checked |= frozenset(ep_plan) - frozenset(dealt)
        plan = with_experts(plan, experts)
    asked = _Audit(model, plan, checked, args, dict(kwargs or {}), frozenset(experts))
    found = asked.run(EXAMINED if counts is None else counts, correct and not experts)
    if counts is not None:
        return found
    asked.use(plan)
    return replace(found, every=asked.every(found.counts))


EXAMINED = range(2, 17)
"""The counts that are run where none are asked for."""


NO_TP_PLAN = Problem(
    TpPlanError,
    "no-tp-plan",
    "there is no tp_plan to audit",
    "{model} has no tp_plan of its own",
    'give one: dimsolve.audit(model, {{"layers.*.mlp.up_proj": "colwise"}}, ...), or let '
    "dimsolve.plan make one",
)
NO_EP_PLAN = Problem(
    TpPlanError,
    "no-ep-plan",
    "there is no ep_plan to audit",
    "no rule for {model} is ep_dispatch_experts: transformers deals out no experts then",
    'give one: dimsolve.audit(model, ep_plan={{"layers.*.mlp.experts": "ep_dispatch_experts", '
    '"layers.*.mlp.experts.gate_up_proj": "grouped_gemm", ...}})',
)
NO_RULES = Problem(
    TpPlanError,
    "no-tp-plan",
    "there is no tp_plan to audit",
    "the plan for {model} has no rules: every rank would do all of the work",
    'give it rules: {{"layers.*.mlp.up_proj": "colwise"}}; None audits the model\'s own plan',
)

ROUNDS = 5
"""So often a plan is changed, to make it legal."""


class _Audit:
    """checked: the rules that must name something; experts: those of an ``ep_plan``."""

    def __init__(
        self,
        model: nn.Module,
        plan: dict[str, str],
        checked: frozenset[str],
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        experts: frozenset[str] = frozenset(),
    ) -> None:
        self.model = prepared(model)
        self.experts = experts
        self.checked = checked
        self.original = model
        self.args = args
        self.kwargs = kwargs
        self.weights: list[Tensor] = []
        self.partly: list[_Run | None] = []
        self.use(plan)

    def use(self, plan: dict[str, str]) -> None:
        """Reads a plan."""
        self.plan = plan
        names = [
            (name, [short for short, _ in module.named_parameters(recurse=False)])
            for name, module in self.model.named_modules()
        ]
        self.found = resolve(plan, names)
        self.loaded: dict[str, Loaded] = {}
        self.one: list[_Run] | RankError | None = None

    def run(self, counts: Sequence[int], correct: bool) -> Audit:
        plan, found = self.plan, self.found
        parameters = dict(self.model.named_parameters())
        size = {name: p.numel() * p.element_size() for name, p in parameters.items()}
        whole = {name: n for name, n in size.items() if name not in found.parameters}
        answers = [self.count(n) for n in counts]
        if correct:
            answers = [
                replace(each, corrected=self.corrected(each, plan))
                if each.verdict == "illegal"
                else each
                for each in answers
            ]
        given = [*enumerate(self.args), *self.kwargs.items()]
        sizes = {str(n): tuple(t.shape) for n, t in given if isinstance(t, Tensor)}
        name = type(self.original).__name__
        return Audit(name, plan, tuple(answers), sizes, found.unused, whole, sum(size.values()))

    def corrected(self, answer: Count, plan: dict[str, str]) -> dict[str, str] | None:
        """Returns a plan that is legal for the count, by the changes that the findings ask for."""
        seen = [plan]
        while answer.verdict == "illegal" and len(seen) <= ROUNDS:
            changes = [finding.change for finding in answer.findings if finding.change]
            if not changes:
                return None
            changed = {n: s for n, s in {**seen[-1], **changes[0]}.items() if s}
            if changed in seen:
                return None
            seen.append(changed)
            self.use(changed)
            answer = self.count(answer.count)
        return seen[-1] if answer.verdict == "legal" else None

    def count(self, count: int) -> Count:
        """Returns the answer for one count."""
        refused = tuple(self._refused())
        if refused:
            verdict: Verdict = (
                "illegal" if any(f.verdict == "illegal" for f in refused) else "unknown"
            )
            return Count(count, verdict, verdict, refused)
        uneven = self._uneven_experts(count)
        if uneven is not None:
            return Count(count, "illegal", "illegal", (uneven,))
        self.loaded = loaded_parameters(self.original, self.found, count)
        failed = [name for name, each in self.loaded.items() if each.failed]
        if failed:
            finding = self._not_loaded(failed[0])
            return Count(count, "illegal", "illegal", (finding,))
        if self.one is None:
            # A copy runs: a model may keep what it computes.
            self.plain = outputs_of(copy.deepcopy(self.model), self._inputs())
            self.one = self._world(1)
        answer = self._count(count, self.one, self.plain)
        self.partly = []
        return answer

    def every(self, examined: Sequence[Count]) -> EveryCount:
        """Returns what is proved of all counts; the examined ones are all up to the last."""
        numbers = tuple(each.count for each in examined)
        wrong = next((each for each in examined if each.verdict != "legal"), None)
        because = f"{wrong.count} is forbidden by {wrong.findings[0]}" if wrong else ""
        legal = tuple(each.count for each in examined if each.verdict == "legal")
        unproved = EveryCount("examined", legal, "", because, numbers)
        unknown = _undecided(examined)
        if unknown:
            return replace(unproved, because=unknown)
        alone = self._world(1)
        if isinstance(alone, RankError) and getattr(alone.__cause__, "unknown", False):
            return replace(unproved, because=str(self._failed(1, alone).findings[0]))
        if tuple(self._refused()) or isinstance(alone, RankError):
            return EveryCount("never", (), "", because, numbers)
        lengths = cut_lengths(self.model, self.found)
        if lengths == {}:
            # What a rank runs does not depend on how many there are.
            return unproved if wrong else replace(unproved, kind="always")
        if lengths is None:
            return replace(unproved, because=_CUT_BY_MODULE)
        left = survivors(
            self.model,
            self.found,
            lengths,
            numbers[-1] + 1,
            lambda model: outputs_of(model, self._inputs()),
        )
        if left is None:
            return replace(unproved, because=_NO_END)
        more = [self.count(count) for count in left]
        unknown = _undecided(more)
        if unknown:
            return replace(unproved, because=unknown, examined=(*numbers, *left))
        legal += tuple(each.count for each in more if each.verdict == "legal")
        if not legal:
            return EveryCount("never", (), "", because, (*numbers, *left))
        return EveryCount("condition", legal, condition_of(legal), because, (*numbers, *left))

    def _inputs(self) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """The inputs, for a rank to have as its own."""
        given: tuple[tuple[Any, ...], dict[str, Any]] = copy.deepcopy((self.args, self.kwargs))
        return given

    def _refused(self) -> Iterator[Finding]:
        for key, text in self.plan.items():
            if key in self.experts:
                if text not in EXPERT_STYLES:
                    yield self._no_expert_style(key, text)
            elif text in EXPERT_STYLES:
                reason = f"{text} is a style of an ep_plan: it deals out whole experts"
                yield Finding(
                    "illegal", "style", key, "", reason, "write it in ep_plan", {key: "replicate"}
                )
            elif text not in STYLES:
                close = get_close_matches(text.lower().replace("-", "_"), STYLES, 1)
                today = RETIRED.get(text) or next(iter(close), None)
                hint = f"write {today}" if today else f"known are {', '.join(STYLES)}"
                reason = f"transformers has no style {text!r}"
                yield Finding(
                    "illegal", "style", key, "", reason, hint, {key: today} if today else {}
                )
        for key in self.found.unused:
            if key in self.checked:
                apart = fused_of(key, self._names())
                near = "" if apart else self._nearest(key)
                reason = f"no module or parameter of {type(self.original).__name__} has this name"
                hint = f'write "{near}"' if near else "leave it out"
                change = {key: "", near: self.plan[key]} if near else {key: ""}
                if apart:
                    reason += f"; it has {', '.join(each.rpartition('.')[2] for each in apart)}"
                    hint = "write a rule for each of these"
                    style = self.plan[key].removeprefix("packed_")
                    change = {key: "", **dict.fromkeys(apart, style)}
                yield Finding("illegal", "style", key, "", reason, hint, change)

    def _uneven_experts(self, count: int) -> Finding | None:
        """Experts that the ranks cannot have equally many of: the engine raises while it cuts."""
        for name, style in self.found.parameters.items():
            experts = self.model.get_parameter(name).shape[0]
            module = name.rpartition(".")[0]
            counted = hasattr(self.model.get_submodule(module), "num_experts")
            if style == "grouped_gemm" and counted and experts % count:
                reason = f"{experts} experts cannot be dealt out evenly to {count} ranks"
                hint = f"take a count that divides {experts}"
                return Finding("illegal", "style", module, "", reason, hint)
        return None

    def _no_expert_style(self, key: str, text: str) -> Finding:
        verdict: Verdict = "illegal"
        if text == "ep_router":
            reason = "transformers has ep_router no longer"
            hint = "leave the rule out: ep_dispatch_experts brings tokens to their experts"
        elif text == "moe_tp_experts":
            reason = "moe_tp_experts cuts every expert, and belongs to a tp_plan"
            hint = 'write "ep_dispatch_experts"'
        elif text in STYLES:
            reason = f"{text} in an ep_plan cuts along the ranks of experts, which is not followed"
            hint = "write it in tp_plan"
            verdict = "unknown"
        else:
            reason = f"transformers has no style {text!r}"
            hint = f"known in an ep_plan are {', '.join(EXPERT_STYLES)}"
        return Finding(verdict, "style", key, "", reason, hint, {})

    def _nearest(self, key: str) -> str:
        """The name that a rule was meant for: one that ends so, or is written almost so."""
        names = self._names()
        inside = [name for name in names if name.endswith(f".{key}")]
        near = inside or get_close_matches(key, names, 1, 0.7)
        return near[0] if near else ""

    def _names(self) -> list[str]:
        """What a rule can name."""
        named = (*self.model.named_modules(), *self.model.named_parameters())
        return list(dict.fromkeys(generic(name) for name, _ in named))

    def _world(self, count: int) -> list[_Run] | RankError:
        """The runs of all ranks."""
        runs: list[_Run | None] = [None] * count
        self.partly = runs

        def program(member: Member) -> _Run:
            loaded = {n: p for n, p in self.loaded.items() if count > 1 and p.places}
            rank = Rank(copy.deepcopy(self.model), self.found, member.world, loaded)
            run = runs[member.rank] = _Run(rank)
            inputs = self._inputs()
            with rank.recorder.inside():
                run.outputs = outputs_of(rank.model, inputs)
            self._backward(run)
            return run

        try:
            return SimulatedWorld[_Run](count).run(program)
        except RankError as error:
            # What was raised in a rank's frames would keep all that they hold.
            for each in (error, error.__cause__, error.__context__):
                if each is not None:
                    each.__traceback__ = None
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
        moved = {name: each for name, each in self.loaded.items() if each.places}
        held = {**ranks[0].rank.placements, **{n: p.held for n, p in moved.items() if p.held}}
        found = Follow(whole.rank.recorder, recorders, held).run()
        refused = recorders[0].refused
        forward, findings = self._forward(whole, ranks, found)
        findings += [self._refusal("forward", each) for each in refused if not each.training][:1]
        forward = "illegal" if any(not each.training for each in refused) else forward
        gradients, more = self._gradients(whole, ranks, found, forward)
        if forward != "illegal" and refused:
            gradients, more = "illegal", [*more, self._refusal("gradients", refused[0])]
        if forward != "illegal" and moved:
            gradients, more = "illegal", [*more, self._reordered(ranks[0].rank, count)]
        doubtful = next((name for name, each in self.loaded.items() if each.doubt), None)
        if doubtful is not None and "illegal" not in (forward, gradients):
            forward = gradients = "unknown"
            reason = (
                f"what a loader makes of {doubtful} is not known: {self.loaded[doubtful].doubt}"
            )
            findings = [Finding("unknown", "forward", doubtful.rpartition(".")[0], "", reason)]
        size = sum(p.numel() * p.element_size() for p in ranks[0].rank.model.parameters())
        steps = whole.rank.recorder.steps
        proved = len(steps) - len(found.doubts)
        made = [step for step in steps if step.kind in ("share", "sum", "gather", "slice", "rope")]
        shares = [step.before for step in made if step.kind == "share"]
        return Count(
            count,
            forward,
            gradients,
            (*findings, *more),
            size,
            len(steps),
            proved,
            len(made),
            len(shares) - len(set(shares)),
        )

    def _failed(self, count: int, error: RankError) -> Count:
        cause = error.__cause__ or error
        if isinstance(cause, BoundaryError):
            said, module = cause.diagnostic, cause.module
            reason, change = f"{said.title}: {said.reason}", {generic(module): cause.instead}
            verdict: Verdict = "unknown" if cause.unknown else "illegal"
            finding = Finding(verdict, "style", module, "", reason, said.hint, change)
            return Count(count, verdict, verdict, (finding,))
        run = self.partly[error.rank]
        at = run.rank.recorder.failed_at() if run is not None else At("", "", 0)
        first = str(cause).partition("\n")[0]
        reason = f"rank {error.rank} raised {type(cause).__name__}: {first}"
        change, hint = self._left_whole(at.module)
        verdict = "illegal"
        if self._tied_to(at.module) and self.plan.get(generic(at.module), "").startswith("rowwise"):
            # transformers multiplies DTensors there, and DTensor may lay the table anew.
            verdict = "unknown"
            reason = f"of parts as the table's style lays them, {reason}; DTensor may lay them anew"
        finding = Finding(verdict, "forward", at.module, _line(at), reason, hint, change)
        return Count(count, verdict, verdict, (finding,))

    def _left_whole(self, module: str) -> tuple[dict[str, str], str]:
        """The change that leaves a module whole, with all that its own module has."""
        home = generic(module)
        for partner in self._tied_to(module):
            both = {generic(partner): "embedding_rowwise", home: "colwise_gather_output"}
            if any(self.plan.get(name, "replicate") != style for name, style in both.items()):
                hint = f"its weight is that of {partner}: cut both, or none"
                return both, hint
            return dict.fromkeys(both, "replicate"), f"leave {home} and {partner} whole"
        while home:
            own = [
                key
                for key, style in self.plan.items()
                if (key == home or key.startswith(f"{home}.")) and style != "replicate"
            ]
            if own:
                return dict.fromkeys(
                    own, "replicate"
                ), f"leave {home} whole, or take a count that fits"
            home = home.rpartition(".")[0]
        return {}, ""

    def _tied_to(self, module: str) -> list[str]:
        """The embeddings whose table is a linear layer's weight."""
        modules = dict(self.model.named_modules())
        weight = getattr(modules.get(module), "weight", None)
        return [
            name
            for name, each in modules.items()
            if weight is not None
            and name != module
            and isinstance(each, nn.Embedding)
            and each.weight is weight
        ]

    def _refusal(self, about: About, refused: Refused) -> Finding:
        """What the engine's tensors would raise."""
        at = refused.at
        change, hint = self._left_whole(at.module)
        return Finding("illegal", about, at.module, _line(at), refused.reason, hint, change)

    def _forward(
        self, whole: _Run, ranks: Sequence[_Run], found: Followed
    ) -> tuple[Verdict, list[Finding]]:
        different = [
            place
            for place, output in enumerate(whole.outputs)
            if not all(
                len(run.outputs) == len(whole.outputs) and same(output, run.outputs[place])
                for run in ranks
            )
        ]
        first = next((d for d in found.doubts if d.refuted), next(iter(found.doubts), None))
        if different and first is None:
            return "illegal", [self._returned_in_parts(whole, different[0], found)]
        elsewhere = [n for n, p in self.loaded.items() if p.places and p.held is None]
        if different and elsewhere:
            return "illegal", [self._misplaced(elsewhere[0])]
        if different:
            found_here = _finding("illegal", "forward", first, "its outputs differ")
            change, hint = self._packed(whole, first) or self._left_whole(found_here.module)
            return "illegal", [replace(found_here, hint=hint, change=change)]
        if first is not None:
            return "unknown", [_finding("unknown", "forward", first, "it is not proved")]
        return "legal", []

    def _misplaced(self, name: str) -> Finding:
        """A parameter whose conversion moves numbers between the parts of ranks."""
        reason = (
            f"the loader cuts {name} as it is in the checkpoint, and converts the parts: "
            f"{self.loaded[name].wrong}; the outputs differ"
        )
        change, hint = self._loaded_whole()
        return Finding("illegal", "forward", name.rpartition(".")[0], "", reason, hint, change)

    def _not_loaded(self, name: str) -> Finding:
        reason = f"{name} cannot be loaded: {self.loaded[name].failed}"
        change, hint = self._loaded_whole()
        return Finding("illegal", "style", name.rpartition(".")[0], "", reason, hint, change)

    def _loaded_whole(self) -> tuple[dict[str, str], str]:
        """The change that leaves whole what a conversion does not take in parts."""
        wrong = [n for n, p in self.loaded.items() if p.failed or (p.places and p.held is None)]
        own = [key for name in wrong for key in (generic(name), generic(name.rpartition(".")[0]))]
        change = {key: "replicate" for key in own if self.plan.get(key, "replicate") != "replicate"}
        first, more = (
            next(iter(change), ""),
            f" and {len(change) - 1} more" if len(change) > 1 else "",
        )
        return change, f"leave {first}{more} whole, or load a checkpoint that needs no conversion"

    def _packed(self, whole: _Run, doubt: Doubt | None) -> tuple[dict[str, str], str] | None:
        """The change for a fused weight, whose two blocks the model takes apart."""
        if doubt is None or doubt.operator not in ("chunk", "split"):
            return None
        steps = whole.rank.recorder.steps
        (value,) = steps[doubt.step].before
        for step in reversed(steps[: doubt.step]):
            if value in step.results and step.before:
                name = generic(step.at.module)
                if self.plan.get(name) == "colwise":
                    return {name: "packed_colwise"}, f'write "{name}": "packed_colwise"'
                value = step.before[0]
        return None

    def _returned_in_parts(self, whole: _Run, place: int, found: Followed) -> Finding:
        """An output of which every rank has its own part: nothing joins it."""
        recorder = whole.rank.recorder
        value = recorder.number(whole.outputs[place])
        placement = found.placements.get(value)
        for step in reversed(recorder.steps):
            if value in step.results and step.before:
                at, value = step.at, step.before[0]
                if at.module in self.found.modules:
                    break
        else:
            at = recorder.steps[-1].at
        reason = f"output {place} is {placement}: nothing joins what the ranks have of it"
        name = generic(at.module)
        joined = {"colwise": "colwise_gather_output"}.get(self.plan.get(name, ""), "replicate")
        hint = f'write "{name}": "{joined}"'
        return Finding("illegal", "forward", at.module, _line(at), reason, hint, {name: joined})

    def _gradients(
        self, whole: _Run, ranks: Sequence[_Run], found: Followed, forward: Verdict
    ) -> tuple[Verdict, list[Finding]]:
        if forward == "illegal":
            return "illegal", []
        sizes = [float(g.abs().max()) for g in whole.gradients.values() if g is not None]
        largest = max(sizes, default=0.0)
        found_gradients = {
            name: torch.zeros_like(parameter) if gradient is None else gradient
            for name, parameter in whole.rank.model.named_parameters()
            for gradient in (whole.gradients.get(name),)
        }
        wrong = [
            name
            for name, gradient in whole.gradients.items()
            if not self._same_gradient(name, gradient, ranks, largest, found_gradients)
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
            compared = whole.gradients.get(doubtful[0]) is not None
            seen = "is equal here, and not proved" if compared else "is not proved, nor compared"
            reason = f"the gradient of {doubtful[0]} {seen}"
            return "unknown", [Finding("unknown", "gradients", module, "", reason)]
        return "legal", []

    def _same_gradient(
        self,
        name: str,
        gradient: Tensor | None,
        ranks: Sequence[_Run],
        largest: float,
        whole: Mapping[str, Tensor],
    ) -> bool:
        parts = [run.gradients.get(name) for run in ranks]
        if gradient is None:
            return all(part is None or not part.any() for part in parts)
        said = ranks[0].rank.placements.get(name, Replicate())
        moved = self.loaded.get(name)
        for number, part in enumerate(parts):
            if moved is not None and moved.places:
                wanted = moved.part(whole, number)
            else:
                wanted = part_of(gradient, said, number, len(ranks))
            if part is None or part.shape != wanted.shape:
                return False
            # A gradient that is nothing but rounding is compared with the others'.
            allowed = TOLERANCE * max(float(gradient.abs().max()), 1e-4 * largest)
            if part.numel() and float((part - wanted).abs().max()) > allowed:
                return False
        return True

    def _reordered(self, rank: Rank, count: int) -> Finding:
        """A parameter that is right where it is used, and in another order where it is gathered."""
        name = next(name for name, each in self.loaded.items() if each.places)
        moved, said = self.loaded[name], rank.placements[name]
        held = moved.held or f"other rows ({moved.wrong})"
        reason = (
            f"the loader makes the rows of {name} of several tensors: ranks have {held}, and "
            f"the style says {said}: gradients and what is saved are in another order"
        )
        module = name.rpartition(".")[0]
        packed = Resolved({}, {name: "packed_colwise"}, ())
        if name not in loaded_parameters(self.original, packed, count):
            change = {generic(name): "packed_colwise"}
            hint = f'write "{generic(name)}": "packed_colwise"'
        else:
            change, hint = self._left_whole(module)
        return Finding("illegal", "gradients", module, "", reason, hint, change)

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
            change = {generic(module): "replicated_with_grad_allreduce"}
        elif name in whole.rank.summed and follows.get(name) == "whole":
            style = self.plan.get(generic(module), "")
            reason = (
                f"{style} sums the gradient of {name} over the ranks, and every rank has all of it"
            )
            hint, change = f"leave {generic(module)} out", {generic(module): "replicate"}
        else:
            reason = f"the gradient of {name} differs from that of one device"
            hint, change = "", {}
        if len(names) > 1:
            reason += f"; so do {len(names) - 1} more"
        return Finding("illegal", "gradients", module, "", reason, hint, change)


_CUT_BY_MODULE = "a style cuts a whole module, and a parameter of it has another style"
_NO_END = (
    f"no size forbids any larger count, and counts of more than {RANKS} ranks together are not run"
)
"""Why nothing is proved of the counts that were not run."""


def _undecided(counts: Sequence[Count]) -> str:
    """Which count is unknown, and why; "" where none is."""
    first = next((each for each in counts if each.verdict == "unknown"), None)
    return f"{first.count} is not decided: {first.findings[0]}" if first is not None else ""


def _finding(verdict: Verdict, about: About, doubt: Doubt | None, reason: str) -> Finding:
    if doubt is None:
        return Finding(verdict, about, "", "", reason)
    return Finding(
        verdict, about, doubt.at.module, _line(doubt.at), f"{doubt.operator}: {doubt.reason}"
    )


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
            # What is narrower is quantized, and knows no addition.
            if parameter.is_floating_point() and parameter.itemsize > 1 and not parameter.is_meta:
                noise = torch.randn(parameter.shape, generator=generator)
                scale = float(parameter.std()) if parameter.numel() > 1 else 0.0
                parameter.add_(noise.to(parameter) * (scale or 0.2))
    return ours


def outputs_of(model: nn.Module, inputs: tuple[tuple[Any, ...], dict[str, Any]]) -> list[Tensor]:
    args, kwargs = inputs
    return list(tensors_in(returned(model(*args, **kwargs))))


def returned(result: Any) -> Any:
    """What is compared: everything but caches, which are a rank's own."""
    if isinstance(result, Mapping):
        return {k: v for k, v in result.items() if "past_key_values" not in k and "cache" not in k}
    return result
