"""torch's own operator database against our plans: each entry's samples, whole and cut.

A sample is one call of an operator. It is traced as a model whose inputs are the call's tensors,
and run on one device; then every identifier of every operator in its graph is cut, alone, into the
smallest prime number of parts that its length has, and the named policies cut what they like. Each
plan runs on simulated ranks in float64, forward and backward, and is compared with the operator
itself.

    outcome = try_entry(entry)
    outcome.equal, outcome.wrong            True, ()

What an outcome counts:

annotated   a sample in whose graph every operator has an annotation that says more than ``?``
traced      a sample that torch captures as one graph
planned     a sample with a plan
cut         a sample of which an operator is cut
equal       all that ran was equal to one device; where a call draws random numbers, which ranks
            draw for themselves, its shapes are
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor
from torch.testing._internal import common_methods_invocations
from torch.utils import _pytree as pytree

import dimsolve as ds
from dimsolve.exec.distributed.simulated import Member, RankError, SimulatedWorld
from dimsolve.exec.lowering.lower import lower
from dimsolve.ir.errors import DimsolveError
from dimsolve.ir.graph import Graph
from dimsolve.ir.types import TensorType
from dimsolve.partition.inlining import inlined
from dimsolve.partition.plan_data import PlanError
from dimsolve.partition.planning.network import Network, Operator
from dimsolve.solver.operators import canonical

DTYPES = (torch.float64, torch.complex128, torch.int64, torch.int32, torch.bool, torch.uint8)
"""The dtype of the samples: the first that the operator takes."""

PRIMES = (2, 3, 5, 7)
POLICIES = (("data", "dp"), ("tensor", "tp"))
TOLERANCE = 1e-9
UNWRITTEN = frozenset(
    [
        "empty",
        "empty_like",
        "new_empty",
        "empty_strided",
        "new_empty_strided",
        "empty_permuted",
        "resize_",
        "resize_as_",
    ]
)
"""Operators that return memory as they find it."""


def plain(op: Any, *args: Any, **kwargs: Any) -> Any:
    """Calls an operator without the seed that the database sets for it."""
    return op(*args, **kwargs)


common_methods_invocations.wrapper_set_seed = plain


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came of an entry. samples: how many were tried. wrong: what was not equal, refused: the
    words of what was not traced or planned, left: why operators stay whole; unknown: operators that
    have no annotation.
    """

    name: str
    samples: int = 0
    traced: int = 0
    annotated: int = 0
    planned: int = 0
    cut: int = 0
    runs: int = 0
    random: bool = False
    wrong: tuple[str, ...] = ()
    refused: tuple[str, ...] = ()
    left: tuple[str, ...] = ()
    unknown: tuple[str, ...] = ()

    @property
    def equal(self) -> bool:
        """Whether everything that was cut was equal to one device."""
        return self.cut > 0 and not self.wrong


@dataclass(slots=True)
class _Tally:
    """An outcome in the making."""

    counts: dict[str, int] = field(
        default_factory=lambda: dict.fromkeys(
            ["samples", "traced", "annotated", "planned", "cut", "runs"], 0
        )
    )
    texts: dict[str, dict[str, None]] = field(
        default_factory=lambda: {name: {} for name in ["wrong", "refused", "left", "unknown"]}
    )
    random: bool = False

    def count(self, name: str) -> None:
        self.counts[name] += 1

    def note(self, name: str, text: str) -> None:
        self.texts[name].setdefault(text)

    def outcome(self, name: str) -> Outcome:
        texts = {key: tuple(found) for key, found in self.texts.items()}
        return Outcome(name, **self.counts, random=self.random, **texts)


def entry_name(entry: Any) -> str:
    """The entry's name with its variant: ``addmm.decomposed``."""
    variant = entry.variant_test_name
    return f"{entry.name}.{variant}" if variant else str(entry.name)


def entries() -> dict[str, Any]:
    """Returns torch's database by name, in its order."""
    return {entry_name(entry): entry for entry in common_methods_invocations.op_db}


@dataclass(frozen=True, slots=True)
class _Slot:
    """Where a tensor stands among the arguments of a sample."""

    name: str


def _filled(value: Any, tensors: dict[str, Tensor]) -> Any:
    """The arguments with tensors at their slots; written for torch.compile, which reads all of
    what pytree does anew for every sample.
    """
    if isinstance(value, _Slot):
        return tensors[value.name]
    if isinstance(value, list):
        return [_filled(item, tensors) for item in value]
    if isinstance(value, tuple):
        return tuple([_filled(item, tensors) for item in value])
    return value


class OneCall(torch.nn.Module):
    """A sample as a model: ``forward(t0=..., t1=...)`` calls the operator with these tensors."""

    def __init__(self, entry: Any, sample: Any) -> None:
        super().__init__()
        self.op = entry.op
        leaves, tree = pytree.tree_flatten(([sample.input, *sample.args], sample.kwargs))
        places = [place for place, leaf in enumerate(leaves) if isinstance(leaf, Tensor)]
        self.tensors = {f"t{number}": leaves[place] for number, place in enumerate(places)}
        for name, place in zip(self.tensors, places, strict=True):
            leaves[place] = _Slot(name)
        self.args, self.kwargs = pytree.tree_unflatten(leaves, tree)

    def forward(self, **tensors: Tensor) -> Any:
        args = [_filled(arg, tensors) for arg in self.args]
        kwargs = {key: _filled(arg, tensors) for key, arg in self.kwargs.items()}
        return self.op(*args, **kwargs)

    def fresh(self) -> dict[str, Tensor]:
        """The tensors, with memory of their own."""
        return {
            name: tensor.detach().clone().requires_grad_(tensor.requires_grad)
            for name, tensor in self.tensors.items()
        }

    def __str__(self) -> str:
        def text(leaf: Any) -> str:
            if not isinstance(leaf, _Slot):
                return f"{leaf!r:.40}"
            tensor = self.tensors[leaf.name]
            return f"{str(tensor.dtype).removeprefix('torch.')}{list(tensor.shape)}"

        args, kwargs = pytree.tree_map(text, (self.args, self.kwargs))
        texts = [*args, *[f"{key}={value}" for key, value in kwargs.items()]]
        return ", ".join(str(text).replace("'", "") for text in texts)


@dataclass(frozen=True, slots=True)
class Run:
    """What a run gave: the leaves of its result, and the gradients of its inputs."""

    outputs: list[Any]
    gradients: dict[str, Tensor]


def run(call: Callable[..., Any], tensors: dict[str, Tensor], process: Callable[..., Any]) -> Run:
    """Runs a call, and the backward pass of a loss that weighs every element differently."""
    torch.manual_seed(0)
    result = call(**tensors)
    outputs = [leaf for leaf in pytree.tree_leaves(result) if leaf is not None]
    loss = torch.zeros((), dtype=torch.float64)
    for number, output in enumerate(pytree.tree_leaves(process(result)) if outputs else ()):
        if isinstance(output, Tensor) and output.requires_grad and output.numel():
            flat = torch.view_as_real(output.resolve_conj()) if output.is_complex() else output
            flat = flat.double().reshape(-1)
            weights = torch.linspace(0.5, 1.5, flat.numel(), dtype=torch.float64)
            loss = loss + (flat * weights).sum() * (number + 1)
    if loss.requires_grad:
        loss.backward()
    gradients = {
        name: torch.zeros_like(tensor) if tensor.grad is None else tensor.grad
        for name, tensor in tensors.items()
        if tensor.requires_grad
    }
    return Run([o.detach() if isinstance(o, Tensor) else o for o in outputs], gradients)


def unlike(found: Run, wanted: Run, *, shapes: bool) -> str:
    """What of a run differs from another, "" where nothing does. shapes: only shapes are asked."""
    if len(found.outputs) != len(wanted.outputs):
        return f"{len(found.outputs)} outputs, not {len(wanted.outputs)}"
    for number, (one, other) in enumerate(zip(found.outputs, wanted.outputs, strict=True)):
        problem = _unlike(one, other, shapes=shapes)
        if problem:
            return f"output {number}: {problem}"
    for name, gradient in wanted.gradients.items():
        problem = _unlike(found.gradients[name], gradient, shapes=shapes)
        if problem:
            return f"gradient of {name}: {problem}"
    return ""


def _unlike(found: Any, wanted: Any, *, shapes: bool) -> str:
    if not isinstance(wanted, Tensor) or not isinstance(found, Tensor):
        return "" if shapes or found == wanted else f"{found!r:.60}, not {wanted!r:.60}"
    if found.shape != wanted.shape or found.dtype != wanted.dtype:
        return f"{found.dtype} {list(found.shape)}, not {wanted.dtype} {list(wanted.shape)}"
    if shapes or not wanted.numel():
        return ""
    if not (wanted.is_floating_point() or wanted.is_complex()):
        return "" if torch.equal(found, wanted) else "other values"
    same = (found == wanted) | (found.isnan() & wanted.isnan())
    if bool(same.all()):
        return ""
    scale = max(float(wanted.abs().nan_to_num(0, 0, 0).max()), 1e-3)
    distance = torch.where(same, 0.0, found - wanted).abs().max()
    far = float(distance.nan_to_num(torch.inf)) / scale
    return f"{far:.1e} off" if far > TOLERANCE else ""


def samples_of(entry: Any, count: int) -> Iterator[Any]:
    """Yields the first samples of an entry whose calls differ in more than values."""
    dtype = next((d for d in DTYPES if entry.supports_dtype(d, "cpu")), None)
    if dtype is None:
        return
    grad = entry.supports_autograd and dtype in (torch.float64, torch.complex128)
    seen: set[str] = set()
    torch.manual_seed(0)
    for sample in entry.sample_inputs("cpu", dtype, requires_grad=grad):
        text = str(OneCall(entry, sample))
        if text not in seen:
            seen.add(text)
            yield sample
        if len(seen) == count:
            return


def try_entry(entry: Any, samples: int = 8) -> Outcome:
    """Tries the samples of an entry."""
    tally = _Tally()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for sample in samples_of(entry, samples):
            tally.count("samples")
            try:
                _try_sample(entry, sample, tally)
            except Exception as error:
                text = f"{type(error).__name__}: {_first_lines(error)}"
                tally.note("wrong", f"fails ({OneCall(entry, sample)}): {text}")
    return tally.outcome(entry_name(entry))


def _try_sample(entry: Any, sample: Any, tally: _Tally) -> None:
    model = OneCall(entry, sample)
    process = sample.output_process_fn_grad
    try:
        wanted = run(model, model.fresh(), process)
    except Exception as error:
        tally.note("refused", f"torch itself: {type(error).__name__}: {_first_lines(error)}")
        return
    shapes = entry.name in UNWRITTEN or _draws(model)
    tally.random |= shapes
    try:
        graph = ds.trace(model, kwargs=model.fresh())
    except DimsolveError as error:
        tally.note("refused", _first_lines(error))
        return
    tally.count("traced")
    try:
        whole = run(lambda **tensors: graph.run(**tensors), model.fresh(), process)
    except RuntimeError as error:
        if "Runtime assertion failed for expression" not in str(error):
            raise
        tally.note("refused", f"an assertion of torch's own capture: {_first_lines(error)}")
        return
    problem = unlike(whole, wanted, shapes=shapes)
    if problem:
        tally.note("wrong", f"traced ({model}): {problem}")
        return
    if _says_something(graph, tally):
        tally.count("annotated")
    plans = list(_plans(graph, tally))
    tally.counts["planned"] += bool(plans)
    tally.counts["cut"] += any(cut for _, _, cut in plans)
    for mesh, policy, cut in plans:
        if not cut:
            continue
        tally.count("runs")
        plan = ds.plan(graph, mesh, policy)
        problem = _run_plan(model, graph, plan, mesh, process, wanted, shapes=shapes)
        if problem:
            tally.note("wrong", f"{policy} over {mesh} ({model}): {problem}")


def _draws(model: OneCall) -> bool:
    """Whether the call moves torch's generator."""
    torch.manual_seed(0)
    before = torch.get_rng_state()
    with torch.no_grad():
        model(**model.fresh())
    return not torch.equal(before, torch.get_rng_state())


def _first_lines(error: BaseException) -> str:
    return " ".join(str(error).split())[:300]


def _says_something(graph: Graph, tally: _Tally) -> bool:
    """Whether every operator of a graph has an annotation that says more than ``?``."""
    found = True
    for node in inlined(graph).nodes():
        values = (*node.operands(), *node.outputs)
        if not any(isinstance(value.type, TensorType) for value in values):
            continue
        if node.declaration is not None and node.declaration.returns == "value":
            continue
        if node.declaration is None:
            tally.note("unknown", canonical(node.signature) or node.signature)
        elif node.declaration.frozen:
            tally.note("left", f"{node.name}: {node.declaration.frozen}")
        found &= bool(node.annotation) and "?" not in node.annotation
    return found


def _plans(graph: Graph, tally: _Tally) -> Iterator[tuple[dict[str, int], Any, bool]]:
    """Yields meshes and policies that have a plan, and whether it cuts anything."""
    splits = [split for o in Network(inlined(graph)).operators for split in _splits(o)]
    counts = dict.fromkeys(count for mesh, _ in splits for count in mesh.values())
    named = [({axis: count}, name) for name, axis in POLICIES for count in counts]
    for mesh, policy in ({"x": 2}, "replicate"), *splits, *named:
        try:
            plan = ds.plan(graph, mesh, policy)
        except PlanError as error:
            if isinstance(policy, dict):
                tally.note("refused", _first_lines(error))
        else:
            yield mesh, policy, any(operator.splits for operator in plan.operators)


def _splits(operator: Operator) -> Iterator[tuple[dict[str, int], Any]]:
    """The cuts of an operator's identifiers, each into the smallest prime number of parts."""
    for name in dict.fromkeys(choice.name for choice in operator.op_class.choices()):
        length = operator.op_class.lengths.get(name or "")
        if isinstance(length, int) and length > 1:
            parts = next((prime for prime in PRIMES if length % prime == 0), None)
            if parts is not None:
                yield {"x": parts}, {operator.node.id: {"x": name}}


def _run_plan(
    model: OneCall,
    graph: Graph,
    plan: Any,
    mesh: dict[str, int],
    process: Callable[..., Any],
    wanted: Run,
    *,
    shapes: bool,
) -> str:
    """What of a plan's run differs from one device, "" where nothing does."""

    def rank(member: Member) -> Run:
        program = lower(inlined(graph), plan, {axis: member[axis] for axis in mesh})

        def call(**tensors: Tensor) -> Any:
            return program.run(
                [
                    program.constants[slot.target]
                    if slot.kind == "constant"
                    else tensors[slot.target]
                    for slot in program.slots
                ]
            )

        return run(call, model.fresh(), process)

    try:
        runs = SimulatedWorld[Run](mesh).run(rank)
    except RankError as error:
        cause = error.__cause__ or error
        return f"{type(cause).__name__}: {_first_lines(cause)}"
    for number, found in enumerate(runs):
        problem = unlike(found, wanted, shapes=shapes)
        if problem:
            return f"rank {number}: {problem}"
    return ""


__all__ = ["Outcome", "entries", "try_entry"]
