"""What all ranks must agree on before the first collective: the plan, the world, and the sizes.

    rank 0: plan 3f2a..., world 2          rank 1: plan 91cc..., world 2
    AgreementError on both: the ranks have different plans
      rank 0: operators.0.splits.tp.identifier: "n"
      rank 1: operators.0.splits.tp.identifier: null

Ranks that do not agree would call collectives that do not fit, and wait for ever or compute
nonsense. So they exchange what they have through the store of the process group, where nothing
waits longer than the group's timeout. Sizes are agreed on when a rank meets them first; a rank that
has met them already is asked, and answers from its watch. With new sizes the contents of inputs are
compared as well; for other calls see `given_inputs.is_compared`. Where hashes of graphs or plans
differ, the first lines that differ are found.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping, Sequence
from hashlib import sha256
from itertools import count, product, zip_longest
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
import torch.distributed as dist
from torch import Tensor

from dimsolve.ir.errors import Diagnostic, DimsolveError, Problem
from dimsolve.partition.fingerprint import graph_lines
from dimsolve.partition.plan import Plan
from dimsolve.partition.sizes import check_conditions

from ..distributed.digests import digest, digests
from ..distributed.failures import Failure, Stopped, rank_failure
from ..distributed.watch import Watch, chosen_timeout, watch
from ..lowering.lengths import InputLengths
from .given_inputs import Coordinates, GivenInputs, text_of
from .held_state import different_state, state_told
from .passes import Passes, note_outputs

if TYPE_CHECKING:
    from torch.distributed.device_mesh import DeviceMesh

    from .mesh import RankMesh


_LENGTH = 200
"""How many characters of a line are shown."""

WITH_LINES = ("graph", "plan")
"""The properties of a rank of which there are lines."""


def lines_of(key: str, plan: Plan) -> list[str]:
    """Returns what is hashed, a line for each node of the graph or each value in the plan."""
    if key == "graph":
        return [] if plan.planned is None else list(graph_lines(plan.planned))
    return list(_leaves(json.loads(plan.to_json(indent=None)), ""))


def _leaves(value: Any, path: str) -> Iterator[str]:
    """Every value in a tree of JSON data, with its path.

    >>> list(_leaves({"mesh": {"tp": "2"}, "notes": []}, ""))
    ['mesh.tp: "2"', 'notes: []']
    """
    items: Any = ()
    if isinstance(value, dict):
        items = value.items()
    elif isinstance(value, list):
        items = enumerate(value)
    if not items or not value:
        yield f"{path}: {json.dumps(value, ensure_ascii=False)}"
        return
    for key, item in items:
        yield from _leaves(item, f"{path}.{key}" if path else str(key))


def first_difference(first: Sequence[str], other: Sequence[str]) -> tuple[str, str] | None:
    """Returns the first pair of lines that are not equal, each cut to what can be read.

    >>> first_difference(["a", "b: 1"], ["a", "b: 2"]), first_difference(["a"], ["a", "b"])
    (('b: 1', 'b: 2'), ('nothing more', 'b'))
    """
    for mine, others in zip_longest(first, other, fillvalue="nothing more"):
        if mine != others:
            return _shown(mine, others), _shown(others, mine)
    return None


def _shown(line: str, other: str) -> str:
    """A line, or of a long one the beginning and what is around the first difference."""
    if len(line) <= _LENGTH:
        return line
    place = next((i for i, (a, b) in enumerate(zip(line, other, strict=False)) if a != b), 0)
    start = max(place - _LENGTH // 3, 0)
    if start <= _LENGTH // 4:
        return f"{line[:_LENGTH]}…"
    more = "…" if start + _LENGTH < len(line) else ""
    return f"{line[: _LENGTH // 4]} … {line[start : start + _LENGTH]}{more}"


TIMEOUT = 60.0
"""Seconds that a rank waits for the others to say what they have, where nothing else is set."""

HISTORY = 64
"""How many calls a rank remembers."""

_MANY = 8
"""So many calls without a backward pass are told from fewer."""

_numbers = count()


class AgreementError(DimsolveError):
    """Ranks that have different plans, worlds, sizes or inputs."""

    __module__ = "dimsolve"


_DIFFER = Problem(
    AgreementError,
    "ranks-differ",
    "{title}",
    "the {key} of rank {rank} is {value}, that of rank {other} is {others}{where}",
    "start all ranks with the same model, plan and arguments",
)
_SEARCHED = Problem(
    AgreementError,
    "searches-differ",
    "{title}",
    "the {key} of rank {rank} is {value}, that of rank {other} is {others}{where}",
    "a search that the clock ends may find another plan on each rank: search once, and give all "
    "ranks the text of plan.to_json(): Plan.from_json(text).for_graph(graph)",
)
_OTHER_WEIGHTS = Problem(
    AgreementError,
    "weights-differ",
    "the ranks' models have different weights",
    "{name} differ between rank {rank} and rank {other}",
    "call torch.manual_seed with one number on all ranks before making the model, or "
    "load one state_dict",
)
_OTHER_AUTOCAST = Problem(
    AgreementError,
    "autocast-differs",
    "the ranks are called under different autocasts",
    "rank {rank}: {cast}\n  rank {other}: {others}",
    "call the module inside of the same torch.autocast on every rank",
)
_OTHER_RECORDING = Problem(
    AgreementError,
    "gradient-modes-differ",
    "the ranks are called under different gradient modes",
    "rank {rank}: {mode}\n  rank {other}: {others}",
    "call the module inside of the same torch.no_grad on every rank, or on none",
)
_OUT_OF_STEP = Problem(
    AgreementError,
    "out-of-step",
    "a call failed that did not fail alike on all ranks, and the ranks cannot go on together",
    "{failure}",
    "begin again from a checkpoint; look at a batch that may fail before it is given to the ranks",
)
_OTHER_FROZEN = Problem(
    AgreementError,
    "gradients-differ",
    "the ranks train different parameters",
    "{names} a gradient on rank {rank}, and not on rank {other}",
    "set requires_grad alike on every rank",
)
_OTHER_OUTPUTS = Problem(
    AgreementError,
    "losses-differ",
    "the ranks' losses are made of different outputs, or calls",
    "rank {rank} goes back through {own}\n  rank {other} goes back through {others}",
    "make the loss of the same outputs on every rank: add 0 * output.sum() of those that only some "
    "need, and call backward() for the same calls",
)
_MORE_OUTPUTS = Problem(
    AgreementError,
    "loss-alone",
    "rank {rank} goes back through {what}, and other ranks do not",
    "what it sends there all ranks must send, and {who}",
    _OTHER_OUTPUTS.hint,
)
_SILENT = Problem(
    AgreementError,
    "no-answer",
    "{ranks} did not tell {absent} {what}",
    "waited {timeout:g} s{modes}",
    "every rank of the mesh must call parallelize, and then the module{more}",
)


class _Report(NamedTuple):
    """What a rank sends about its inputs. layouts: of DTensors, in words. running: it has begun
    with them already, and sends no digests. cast: what autocast casts to there. frozen: the names
    of parameters that require no gradient. mode: what keeps torch from recording gradients.
    """

    shapes: Mapping[str, Sequence[int]]
    layouts: str
    problem: str
    running: bool
    digests: Mapping[str, str]
    cast: str = ""
    frozen: Sequence[str] = ()
    state: Sequence[float] = ()
    mode: str = ""

    def __str__(self) -> str:
        return text_of(self.shapes) + f" as DTensors: {self.layouts}" * bool(self.layouts)


class Agreement:
    """One module's agreements.

    way: how inputs are given. timeout: seconds that it waits for others to say what they have;
    where a rank that is alive is late for a call, it waits as long as a collective would.
    """

    def __init__(
        self,
        plan: Plan,
        device_mesh: DeviceMesh | None,
        *,
        way: str = "whole",
        timeout: float | None = None,
    ) -> None:
        self.plan = plan
        self.way = way
        self._device_mesh = device_mesh
        self.timeout = TIMEOUT if timeout is None else timeout
        self.patience = 0.0
        self.ranks = [0]
        self.calls = 0
        self.training: bool | None = None
        self._known: dict[int, tuple[int, Any]] = {}
        self._sent: set[str] = set()
        self._name = ""
        self.number = 0
        self._recorded = self._back = 0
        self.passes: Passes | None = None
        self._watch: Watch | None = watch()
        if self._watch is None:
            return
        if timeout is None:
            self.timeout = self._watch.timeout or chosen_timeout() or TIMEOUT
            self.patience = 0.0 if self._watch.timeout else _group_timeout()
        self.rank = dist.get_rank()
        self.ranks = (
            list(range(dist.get_world_size()))
            if device_mesh is None
            else [int(rank) for rank in device_mesh.mesh.flatten()]
        )
        members = "-".join(map(str, self.ranks))
        self.number = next(_numbers)
        self._name = f"dimsolve/module/{self.number}/{members}"
        self._store = self._watch.store(self._name)
        if len(self.ranks) > 1:
            self._watch.answer_with(self)
            self.passes = _passes(self._watch, tuple(self.ranks))

    def another(self, plan: Plan) -> Agreement:
        """Returns the agreement of the same ranks on another plan of the same part."""
        return Agreement(plan, self._device_mesh, way=self.way)

    @property
    def alone(self) -> bool:
        """Whether there is no other rank to agree with."""
        return len(self.ranks) == 1

    @property
    def call(self) -> str:
        """Which call this is, the same text on all ranks."""
        return f"{self._name}/{self.calls}"

    def watch_backward(self, result: Any, names: Sequence[str], ends: RankMesh) -> None:
        """Has ranks find out where their backward passes do not come to the same outputs of this
        call. result: of a program, a tree; names: of its leaves.
        """
        passes, call = self.passes, self.calls
        if passes is None:
            return
        self._recorded += 1  # others, as in an evaluation, are no matter of what follows on what
        recorded = self._recorded

        def come(place: int, name: str) -> None:
            text = f"output '{name}' in call {call} of program {self.number}"
            since, self._back = min(self._recorded - self._back, _MANY), self._recorded
            passes.come((self.number, place, self._recorded - recorded, since), text, ends)

        note_outputs(result, names, come)

    def go_on(self) -> None:
        """Looks what an error that was caught has left: where all ranks have raised the same, they
        go on. Raises AgreementError where they are not at one place any more.
        """
        guard = self._watch
        if guard is None or not guard.raised:
            return
        whole = len(self.ranks) == guard.world
        if not (whole and guard.is_over(self.timeout)):
            raise _OUT_OF_STEP(failure=str(guard.failure))

    def agree_on_plan(self, problem: str = "") -> None:
        """Raises AgreementError on every rank where the ranks' plans or worlds differ, or another
        rank has a problem with the plan. problem: this rank's own, which it raises itself.
        """
        self.go_on()
        if self.alone:
            return
        if self.passes is not None:
            self.passes.begin_anew()
        received = self._exchange("plan", json.dumps({**self._identity(), "problem": problem}))
        identities = {rank: json.loads(text) for rank, text in received.items()}
        first = identities[self.ranks[0]]
        if problem:
            return
        for rank, other in identities.items():
            if other["problem"]:
                raise _refused(rank, other["problem"], "its model")
        for rank, other in identities.items():
            for key in ("mesh", "world", "version", "graph", "plan", "inputs argument"):
                if other[key] != first[key]:
                    where = self._where(key, rank) if key in WITH_LINES else ""
                    searched = key == "plan" and self.plan.search is not None
                    raise (_SEARCHED if searched else _DIFFER)(
                        title=_WORDS[key],
                        key=key,
                        rank=self.ranks[0],
                        value=first[key],
                        other=rank,
                        others=other[key],
                        where=where,
                    )

    def _where(self, key: str, rank: int) -> str:
        """Where a rank's graph or plan first differs from the first rank's; all ranks ask."""
        received = self._exchange(f"lines of the {key}", json.dumps(lines_of(key, self.plan)))
        pair = (self.ranks[0], rank)
        found = first_difference(*[json.loads(received[each]) for each in pair]) or ()
        return "".join(f"\n  rank {each}: {line}" for each, line in zip(pair, found, strict=False))

    def agree_on_weights(self, model: torch.nn.Module) -> None:
        """Raises AgreementError on every rank where the ranks' models hold different values."""
        if self.alone:
            return
        received = self._exchange("weights", json.dumps(digests(model)))
        first = json.loads(received[self.ranks[0]])
        for rank, text in received.items():
            found = json.loads(text)
            names = [name for name in {**first, **found} if first.get(name) != found.get(name)]
            if names:
                more = f" and {len(names) - 1} more" if len(names) > 1 else ""
                raise _OTHER_WEIGHTS(name=names[0] + more, rank=self.ranks[0], other=rank)

    def _identity(self) -> dict[str, Any]:
        text = self.plan.to_json(indent=None)
        return {
            "plan": sha256(text.encode()).hexdigest()[:16],
            "graph": self.plan.graph.fingerprint,
            "mesh": ", ".join(f"{axis}={size}" for axis, size in self.plan.mesh.items()),
            "world": dist.get_world_size(),
            "version": torch.__version__,
            "inputs argument": self.way,
        }

    def note(self, shapes: Any) -> None:
        """Notes a call with sizes that were agreed on before, for ranks that have not met them.

        shapes: the names of the inputs, for each a tuple that begins with its shape, the layouts of
        DTensors in words, what autocast casts to, the names of parameters that require no gradient,
        and what keeps torch from recording gradients.
        """
        self._known[self.calls % HISTORY] = (self.calls, shapes)

    def agree_on_inputs(
        self,
        given: GivenInputs,
        tensors: Mapping[str, Tensor],
        inputs: InputLengths,
        mesh: Mapping[str, int],
        *,
        layouts: str = "",
        cast: Mapping[str, str] | None = None,
        frozen: Sequence[str] = (),
        part: Any = None,
    ) -> None:
        """Checks inputs of new sizes on all ranks together: the sizes against the plan's conditions
        and the other ranks', and the contents where ranks must have the same.

        tensors: as this rank was given them. mesh: the sizes of the symbols in the plan's mesh.
        layouts: of DTensors, in words. cast: what autocast casts to here. frozen: the names of
        parameters that require no gradient here. part: whose state all ranks must hold. Raises
        what is wrong here, or AgreementError where another rank's inputs are wrong, or others.
        """
        shapes = {name: given.compared(name, tensor.shape) for name, tensor in tensors.items()}
        problem = self._problem(given, tensors, shapes, inputs, mesh)
        if not self.alone:
            assert self._watch is not None
            digested = {} if problem else {name: digest(each) for name, each in tensors.items()}
            cast_text = _cast_text(cast or {})
            state = [] if part is None else state_told(part)
            said = str(problem or "")
            mine = _Report(
                shapes, layouts, said, False, digested, cast_text, frozen, state, gradient_mode()
            )
            received = self._exchange(f"inputs/{self.calls}", json.dumps(mine))
            reports = {rank: _Report(*json.loads(text)) for rank, text in received.items()}
            problem = self._difference(reports, given, problem, part)
            if problem is not None and any(other.running for other in reports.values()):
                # The others wait in a collective by now: only the watch can reach them.
                self._watch.report(Failure(self.rank, f"rank {self.rank}", str(problem)))
        if problem is not None:
            raise problem

    def _problem(
        self,
        given: GivenInputs,
        tensors: Mapping[str, Tensor],
        shapes: Mapping[str, Sequence[int]],
        inputs: InputLengths,
        mesh: Mapping[str, int],
    ) -> DimsolveError | None:
        """What is wrong with the inputs of this rank, whatever those of others are."""
        try:
            inputs.check_dtypes({name: tensor.dtype for name, tensor in tensors.items()})
            check_conditions(self.plan, {**inputs.sizes(given.wholes(tensors)), **mesh})
        except DimsolveError as error:
            return given.in_words(error, shapes)
        return None

    def _difference(
        self,
        received: Mapping[int, _Report],
        given: GivenInputs,
        problem: DimsolveError | None,
        part: Any,
    ) -> DimsolveError | None:
        unequal = given.unequal_lengths({rank: other.shapes for rank, other in received.items()})
        if unequal is not None:
            return AgreementError(unequal)
        if problem is not None:
            return problem
        first = self.ranks[0]
        for rank, other in received.items():
            if other.problem:
                return _refused(rank, other.problem)
        for rank, other in received.items():
            if str(other) != str(received[first]):
                return _other_sizes(first, str(received[first]), rank, str(other), given.way)
            if other.cast != received[first].cast:
                return _OTHER_AUTOCAST(
                    rank=first,
                    cast=received[first].cast or "autocast is off",
                    other=rank,
                    others=other.cast or "autocast is off",
                )
            if bool(other.mode) != bool(received[first].mode):
                return _OTHER_RECORDING(
                    rank=first,
                    mode=received[first].mode or "gradients are recorded",
                    other=rank,
                    others=other.mode or "gradients are recorded",
                )
            for one, two in ((first, rank), (rank, first)):
                frozen = [n for n in received[two].frozen if n not in received[one].frozen]
                if frozen:
                    more = f" and {len(frozen) - 1} more require" if frozen[1:] else " requires"
                    return _OTHER_FROZEN(names=frozen[0] + more, rank=one, other=two)
        digested = {rank: other.digests for rank, other in received.items()}
        places = self._places(given)
        different = given.different_contents(digested, places)
        if different is None and part is not None:
            told = {rank: other.state for rank, other in received.items() if other.state}
            different = different_state(part, told, places)
        return None if different is None else AgreementError(different)

    def _places(self, given: GivenInputs) -> dict[int, Coordinates]:
        """The coordinates of every rank, on the axes of the plan's mesh and the device mesh's."""
        if self._device_mesh is None:
            return given.places(self.ranks)
        names = self._device_mesh.mesh_dim_names or ()
        places = product(*(range(size) for size in self._device_mesh.mesh.shape))
        return {
            rank: dict(zip(names, place, strict=True))
            for rank, place in zip(self.ranks, places, strict=True)
        }

    def _exchange(self, topic: str, mine: str) -> dict[int, str]:
        """Sends a text to the others and returns what each has sent, this rank's own included."""
        assert self._watch is not None
        guard, here = self._watch, f"the agreement on the {topic.partition('/')[0]}"
        self._sent.add(topic)
        keys = [f"{topic}/{rank}" for rank in self.ranks]
        try:
            guard.ask(lambda: self._send(topic, mine))
            missing = self._wait(keys, here)
            if not missing:
                received = guard.ask(lambda: [self._store.get(key).decode() for key in keys])
                return dict(zip(self.ranks, received, strict=True))
        except (TimeoutError, RuntimeError) as error:
            what = "does not answer" if isinstance(error, TimeoutError) else "is gone"
            failure = guard.failure or guard.without_store(what)
            raise rank_failure(failure, f"rank {self.rank}: {here}") from error
        waited = guard.waited()
        blamed = guard.blame(here, waited)
        if blamed is not None and blamed.rank != self.rank:
            raise rank_failure(blamed, f"rank {self.rank}: {here}")
        absent = [rank for rank, key in zip(self.ranks, keys, strict=True) if key in missing]
        modes = self._modes(absent)
        more = ", on all ranks in training or on all in evaluation" if modes else ""
        if topic.startswith("inputs/") and not modes:
            more = ": also to evaluate or to sample, where one rank alone needs the result"
        raise _SILENT(
            modes=modes,
            more=more,
            ranks=f"rank{'s' * (len(absent) > 1)} {', '.join(map(str, absent))}",
            absent="its" if len(absent) == 1 else "their",
            what=topic.partition("/")[0].removeprefix("lines of the "),
            timeout=waited,
        )

    def _modes(self, absent: Sequence[int]) -> str:
        """In which modes this rank and one that is absent are called, where they are different."""
        if self._watch is None or self.training is None:
            return ""
        store, guard = self._watch.store("dimsolve/modes"), self._watch
        names = [str(rank) for rank in absent]
        told = guard.ask(lambda: [(n, store.get(n).decode()) for n in names if store.check([n])])
        mine = _MODES[self.training]
        for name, other in told:
            if other != mine:
                return f"; rank {self.rank} is in {mine}, rank {name} in {other}"
        return ""

    def _send(self, topic: str, mine: str) -> None:
        if self._watch is not None and self.training is not None:
            self._watch.store("dimsolve/modes").set(str(self.rank), _MODES[self.training])
        self._store.set(f"{topic}/{self.rank}", mine)
        self._store.set("asked", str(self.calls))

    def _wait(self, keys: Sequence[str], here: str) -> list[str]:
        """Waits until the keys are there; returns those that are not when time has run out."""
        assert self._watch is not None
        guard = self._watch
        guard.wait_in(here, time.monotonic())
        until = time.monotonic() + self.timeout
        late = keys[0].startswith("inputs/")
        last = until + max(self.patience - self.timeout, 0.0) * late
        beats = guard.beats() if last > until else None
        pause = 0.001
        while not guard.ask(lambda: self._store.check(list(keys))):
            failure = guard.failure
            if failure is None and time.monotonic() > until:
                missing = guard.ask(lambda: [key for key in keys if not self._store.check([key])])
                before, beats = beats, guard.beats() if time.monotonic() < last else None
                if not self._alive(missing, before, beats):
                    return missing
                until = time.monotonic() + self.timeout
            try:
                time.sleep(pause)
            except Stopped:
                failure = guard.blame()
            if failure is not None and failure.rank != self.rank:
                raise rank_failure(failure, f"rank {self.rank}: {here}")
            pause = min(2 * pause, 0.05)
        guard.waits = ""
        return []

    def _alive(
        self, missing: Sequence[str], before: list[int] | None, after: list[int] | None
    ) -> bool:
        """Whether the watches of the ranks that are missing went on beating meanwhile."""
        if before is None or after is None:
            return False
        ranks = [int(key.rpartition("/")[2]) for key in missing]
        return all(after[rank] != before[rank] for rank in ranks)

    def answer(self) -> None:
        """Sends what this rank was called with, where others have asked and it knows the sizes.

        Runs in the watch's thread.
        """
        if not self._store.check(["asked"]):
            return
        call = int(self._store.get("asked"))
        noted, shapes = self._known.get(call % HISTORY, (-1, None))
        topic = f"inputs/{call}"
        if noted == call and topic not in self._sent:
            self._sent.add(topic)
            names, key, layouts, cast, frozen, mode = shapes
            sizes = {name: tuple(given[0]) for name, given in zip(names, key, strict=True)}
            report = _Report(sizes, layouts, "", True, {}, _cast_text(cast), frozen, (), mode)
            self._store.set(f"{topic}/{self.rank}", json.dumps(report))


_all_passes: dict[tuple[int, ...], Passes] = {}


def _passes(guard: Watch, ranks: tuple[int, ...]) -> Passes:
    """The backward passes of these ranks, through whatever parts they go."""
    found = _all_passes.get(ranks)
    if found is None or found.guard is not guard:
        found = _all_passes[ranks] = Passes(guard, ranks, _OTHER_OUTPUTS, _MORE_OUTPUTS)
    return found


def _group_timeout() -> float:
    """The seconds that a collective of the process group waits for other ranks."""
    group: Any = dist.group.WORLD
    backends = [group._get_backend(device) for device in group._device_types]
    return max([each.options._timeout.total_seconds() for each in backends], default=TIMEOUT)


def gradient_mode() -> str:
    """Returns what keeps torch from recording gradients now, by its name in torch, if anything.

    >>> with torch.no_grad():
    ...     gradient_mode()
    'torch.no_grad'
    """
    if torch.is_inference_mode_enabled():
        return "torch.inference_mode"
    return "" if torch.is_grad_enabled() else "torch.no_grad"


def _cast_text(cast: Mapping[str, str]) -> str:
    return ", ".join(f"to {dtype} on {kind}" for kind, dtype in cast.items())


_MODES = {True: "training", False: "evaluation"}

_WORDS = {
    "plan": "the ranks have different plans",
    "graph": "the ranks have plans for different graphs",
    "mesh": "the ranks have plans for different meshes",
    "world": "the ranks are in worlds of different sizes",
    "version": "the ranks run different versions of torch",
    "inputs argument": "the ranks are given inputs in different ways",
}


def _refused(rank: int, problem: str, what: str = "its sizes") -> AgreementError:
    return AgreementError(
        Diagnostic(
            code=f"{what.rpartition(' ')[2]}-refused",
            title=f"rank {rank} cannot run with {what}, so no rank does",
            reason=problem.replace("\n", "\n  "),
        )
    )


def _other_sizes(rank: int, shapes: str, other: int, others: str, way: str) -> AgreementError:
    hint = "give parts of the same sizes on all ranks"
    if way == "whole":
        hint = "give the same whole batch on every rank; each rank takes its part"
    return AgreementError(
        Diagnostic(
            code="sizes-differ",
            title="the ranks are called with different sizes",
            reason=f"rank {rank}: {shapes}\n  rank {other}: {others}",
            hint=hint,
        )
    )
