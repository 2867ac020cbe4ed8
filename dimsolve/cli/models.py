"""The verbs that ask about whole models: ``plan``, ``run``, ``serve``, and what ``infer`` and
``legal-parts`` answer for a TARGET, such as ``model.py:tiny``.
"""

from __future__ import annotations

from collections.abc import Iterator
from json import dumps
from math import prod
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NoReturn, TypeAlias

import typer

from .answers import Exit, answer, exit_of_counts, lines
from .options import (
    Json,
    MachineName,
    MemorySize,
    Model,
    PolicyName,
    Seconds,
    StateName,
    Uneven,
    arguments_of,
    counts_of,
)

if TYPE_CHECKING:
    from dimsolve.exec.engines.audit import Audit
    from dimsolve.exec.graph import Graph
    from dimsolve.exec.running.report import FirstReport, RunOptions, RunReport
    from dimsolve.partition.legality import LegalParts
    from dimsolve.partition.machine import Machine
    from dimsolve.partition.plan import Plan
    from dimsolve.show.terminal import Block, Row


def is_target(text: str) -> bool:
    """Whether a text names a model (``module:function``, ``file.py:function``) and is no
    annotation.

    >>> is_target("model.py:tiny"), is_target("m k -> m")
    (True, False)
    """
    home, colon, name = text.strip().rpartition(":")
    return bool(colon) and name.isidentifier() and bool(home) and "->" not in text


def _traced(target: str) -> Graph:
    from dimsolve.exec.target import load_target

    return load_target(target).trace()


def _policy(text: str) -> Any:
    """A policy by name, or the function that a module or file has."""
    if ":" not in text:
        return text
    from dimsolve.exec.target import load_function

    return load_function(text)


def _machine(text: str | None) -> Machine | None:
    """A machine by name, from a JSON file, or from a database of what was measured."""
    from dimsolve.partition.machine import Machine, machine_in_file

    if text is None:
        return None
    if text.endswith(".db"):
        return Machine.measured(text)
    return machine_in_file(text) if text.endswith(".json") else Machine.named(text)


def infer_model(target: str, *, explain: bool, json: bool) -> NoReturn:
    """Traces the model and prints its graph; with ``explain`` only what must hold, and why."""

    def show(graph: Graph) -> Iterator[Block]:
        nothing = "nothing must hold: the graph runs at all sizes"
        return lines((graph.explain() or nothing) if explain else graph.show())

    answer(lambda: _traced(target), show, json=json, written=lambda graph: dumps(graph.to_json()))


def legal_parts_of_model(
    target: str, axis: str, policy: str, up_to: int | None, uneven: bool | None, *, json: bool
) -> NoReturn:
    """Prints the counts that an axis may have for a model under a policy. uneven: whether all
    lengths may be cut into unequal parts; None: those that are fixed by the model.
    """
    from dimsolve.show.terminal import model_counts_blocks

    word = "parameters" if uneven is None else "allow" if uneven else "refuse"

    def ask() -> LegalParts:
        return _traced(target).legal_parts(axis, _policy(policy), up_to=up_to, uneven=word)

    answer(ask, model_counts_blocks, json=json, leave=exit_of_counts)


At: TypeAlias = Annotated[
    list[str] | None,
    typer.Option(
        "--at",
        metavar="NAME=SIZE",
        help="A size of a dynamic dimension in every step, such as seq=128. Repeatable.",
        show_default=False,
    ),
]


def plan(
    target: Model,
    mesh: Annotated[
        str,
        typer.Option(
            "--mesh",
            metavar="AXIS=SIZE,...",
            help="Such as dp=2,tp=4; a size may be a symbol. With --policy auto also a number of "
            "ranks, such as 64: all meshes of so many are searched.",
        ),
    ],
    policy: PolicyName = "data+tensor",
    state: StateName = None,
    uneven: Uneven = "parameters",
    out: Annotated[
        Path | None,
        typer.Option("--out", "-o", metavar="FILE", help="Write the plan there, as JSON."),
    ] = None,
    machine: MachineName = None,
    memory: MemorySize = None,
    at: At = None,
    seconds: Seconds = None,
    explain: Annotated[
        bool, typer.Option("--explain", help="Print every operator and conversion.")
    ] = False,
    json: Json = False,
) -> None:
    """Plan how a model is cut over a mesh: what each rank holds, and what is communicated."""
    sizes = sizes_of(at)
    example: dict[str, int] = {}

    def ask() -> Plan:
        from dimsolve import plan as make
        from dimsolve.exec.target import load_target
        from dimsolve.partition.planning.auto import SECONDS
        from dimsolve.partition.sizes import read_sizes

        found = load_target(target)
        made = make(
            found.trace(),
            mesh,
            _policy(policy),
            state,
            uneven=uneven,
            machine=_machine(machine),
            memory=memory,
            sizes=sizes,
            seconds=SECONDS if seconds is None else seconds,
        )
        example.update({**found.sizes(), **read_sizes(made, sizes, {}, "memory")})
        if out is not None:
            out.write_text(made.to_json() + "\n", encoding="utf-8")
        return made

    def show(made: Plan) -> Iterator[Block]:
        from dimsolve.show.plan import memory_text, summary

        text = made.explain() if explain else summary(made)
        yield from lines(text + memory_text(made, example))
        yield _beside(made)

    answer(ask, show, json=json)


BESIDE = ("data", "tensor", "data+tensor")
"""The policies whose plans are shown beside the one of a search."""


def _beside(made: Plan) -> Block:
    """The plan of a search beside those of named policies: seconds and bytes of a rank."""
    from functools import partial

    from dimsolve import plan as make
    from dimsolve.show.cost import beside
    from dimsolve.show.terminal import Cell

    graph = made.planned
    if made.search is None or graph is None:
        return []
    others = {name: partial(make, graph, made.mesh, name) for name in BESIDE}
    rows = [list(map(Cell, each)) for each in beside(made, others)]
    return [[Cell("policy", "bold"), Cell("seconds"), Cell("bytes of a rank"), Cell("")], *rows]


def audit(
    target: Model,
    tp: Annotated[
        str | None,
        typer.Option("--tp", metavar="COUNTS", help="Such as 4, 2,4,8 or 2..16; else for all."),
    ] = None,
    plan: Annotated[
        Path | None,
        typer.Option("--plan", metavar="FILE", help="A tp_plan as JSON; the model's own without."),
    ] = None,
    ep: Annotated[
        bool, typer.Option("--ep", help="Deal out whole experts too, by the model's own ep_plan.")
    ] = False,
    ep_plan: Annotated[
        Path | None,
        typer.Option(
            "--ep-plan", metavar="FILE", help="Rules that change the model's own ep_plan."
        ),
    ] = None,
    json: Json = False,
) -> None:
    """Is a tp_plan of transformers right for a model, and for which counts?"""

    def ask() -> Audit:
        from dimsolve import audit as run
        from dimsolve.exec.target import load_target
        from dimsolve.partition.engines.tp_plan import read_tp_plan_file

        given = None if plan is None else read_tp_plan_file(plan)
        experts: dict[str, str] | None = {} if ep else None
        if ep_plan is not None:
            experts = read_tp_plan_file(ep_plan)
        found: Any = load_target(target)
        inputs = {"args": found.args, "kwargs": found.kwargs}
        return run(found.model, given, ep_plan=experts, counts=counts, **inputs)

    def leave(found: Audit) -> Exit:
        if found.ok:
            return Exit.YES
        return Exit.NO if found.having("illegal") else Exit.GAVE_UP

    counts = None if tp is None else counts_of(tp)
    answer(ask, lambda found: lines(str(found)), json=json, leave=leave)


MOST_NOTES = 8
"""So many notes are shown; --json has them all."""

Mesh: TypeAlias = Annotated[
    str,
    typer.Option(
        "--mesh", metavar="AXIS=SIZE,...", help="Such as dp=2,tp=2: so many ranks are started."
    ),
]
PlanFile: TypeAlias = Annotated[
    str | None,
    typer.Option("--plan", metavar="FILE", help="A plan that `dimsolve plan` has written."),
]
Steps: TypeAlias = Annotated[int, typer.Option("--steps", min=1, help="Training steps.")]
Verify: TypeAlias = Annotated[
    bool, typer.Option(help="Compare outputs, loss and gradients with one device.")
]
Timeout: TypeAlias = Annotated[
    float, typer.Option("--timeout", min=1, help="Seconds that a rank waits for another.")
]
Seed: TypeAlias = Annotated[int, typer.Option("--seed", help="Of torch's random numbers.")]
DType: TypeAlias = Annotated[
    str | None,
    typer.Option("--dtype", metavar="NAME", help="Such as float64: of parameters and inputs."),
]


def sizes_of(texts: list[str] | None) -> dict[str, int]:
    """Returns sizes by name; typer.BadParameter where a text is not NAME=NUMBER.

    >>> sizes_of(["batch=8,seq=128"])
    {'batch': 8, 'seq': 128}
    """
    parts = [part for text in texts or () for part in text.split(",")]
    found = arguments_of(parts, "--at", "seq=128")
    for name, size in found.items():
        if not isinstance(size, int):
            raise typer.BadParameter(f"{name}={size!r:.80} is no number", param_hint="'--at'")
    return {name: size for name, size in found.items() if isinstance(size, int)}


Database: TypeAlias = Annotated[
    Path,
    typer.Option("--database", metavar="FILE", help="What was measured, in SQLite."),
]


def profile(
    target: Model,
    mesh: Mesh,
    database: Database = Path("profile.db"),
    policy: PolicyName = "data+tensor",
    state: StateName = None,
    plan: PlanFile = None,
    steps: Steps = 3,
    timeout: Timeout = 60.0,
    dtype: DType = None,
    at: At = None,
    json: Json = False,
) -> None:
    """Measure what the operators of a model take on its ranks, and their collectives.

    `--machine FILE.db` of `dimsolve plan` counts with it.
    """
    from dimsolve.exec.running.report import RunOptions

    options = RunOptions(
        target=target,
        mesh=mesh,
        plan=plan,
        policy=policy,
        state=state,
        steps=steps,
        verify=False,
        timeout=timeout,
        dtype=dtype,
        at=sizes_of(at),
        profile=str(database),
    )
    _launched(options, "profile", json=json)


def run(
    target: Model,
    mesh: Mesh,
    policy: PolicyName = "data+tensor",
    state: StateName = None,
    uneven: Uneven = "parameters",
    plan: PlanFile = None,
    steps: Steps = 3,
    verify: Verify = True,
    timeout: Timeout = 60.0,
    seed: Seed = 0,
    dtype: DType = None,
    at: At = None,
    json: Json = False,
) -> None:
    """Train a model on several ranks, and compare every step with one device.

    Starts the ranks on this machine; under torchrun it joins the world that is given.
    """
    from dimsolve.exec.running.report import RunOptions

    options = RunOptions(
        target=target,
        mesh=mesh,
        plan=plan,
        policy=policy,
        state=state,
        uneven=uneven,
        steps=steps,
        verify=verify,
        seed=seed,
        timeout=timeout,
        dtype=dtype,
        at=sizes_of(at),
    )
    _launched(options, "run", json=json)


def _launched(options: RunOptions, verb: str, *, json: bool) -> NoReturn:
    """Runs the ranks, prints the report and leaves."""
    from dimsolve.exec.running.launch import is_first, launch
    from dimsolve.exec.running.supervisor import Interrupted, interruptible

    try:
        with interruptible():
            answer(
                lambda: launch(options),
                lambda report: _report_blocks(report) if is_first() else (),
                json=json,
                leave=lambda report: report.exit_code,
                written=lambda report: report.model_dump_json() if is_first() else "",
            )
    except Interrupted as signal:
        if json:
            typer.echo(_interrupted(options, str(signal)).model_dump_json())
        typer.echo(f"dimsolve {verb}: {signal}", err=True)
        raise typer.Exit(signal.exit_code) from None


def _interrupted(options: RunOptions, reason: str) -> RunReport:
    """The report of a run that a signal has ended."""
    from dimsolve.exec.running.report import ErrorReport, RunReport
    from dimsolve.partition.mesh import Mesh

    sizes = {name: size for name, size in Mesh.of(options.mesh).axes if isinstance(size, int)}
    return RunReport(
        ok=False, ranks=prod(sizes.values()), mesh=sizes, error=ErrorReport(reason=reason)
    )


def _report_blocks(report: RunReport) -> Iterator[Block]:
    from dimsolve.show.terminal import Cell

    for block in report.overview:
        yield [[Cell(label, "bold"), *map(Cell, rest)] for label, *rest in block]
    yield list(_steps(report))
    more = len(report.notes) - MOST_NOTES
    texts = [*report.notes[:MOST_NOTES], *([f"and {more} more"] if more > 0 else [])]
    noted = [[Cell("note", "bold"), Cell(text)] for text in texts]
    yield [*noted, *_differences(report), _verdict(report)]


def _steps(report: RunReport) -> Iterator[Row]:
    from dimsolve.show.terminal import Cell

    for number, step in enumerate(report.steps, 1):
        sizes = ", ".join(f"{name} = {size}" for name, size in step.sizes.items())
        loss = "" if step.loss is None else f"loss {step.loss:.6f}"
        texts = sizes, loss, f"{step.seconds * 1e3:.1f} ms"
        yield [Cell(f"step {number}", "bold"), *map(Cell, texts)]
    stored = report.parameter_bytes
    if stored is not None:
        share = stored.per_rank / stored.whole if stored.whole else 1.0
        text = f"{stored.per_rank:,} of {stored.whole:,} bytes on a rank"
        yield [Cell("memory", "bold"), Cell(text), Cell(f"{share:.0%}")]


def _differences(report: RunReport) -> Iterator[Row]:
    from dimsolve.show.terminal import Cell

    found = report.differences
    if found is None:
        return
    amounts = [("outputs", found.outputs)]
    if any(step.loss is not None for step in report.steps):
        amounts += [("loss", found.loss), ("gradients", found.gradients)]
    text = ", ".join(f"{name} {amount:.1e}" for name, amount in amounts)
    yield [Cell("differ", "bold"), Cell(f"by {text} at most, relative to one device")]
    exact = found.float64
    if exact is not None:
        text = f"rounding takes one device {exact.one_device:.1e} from float64"
        more = f"the ranks {exact.ranks:.1e}; their program in float64 is {exact.exact:.1e} off"
        yield [Cell(""), Cell(f"{text}, {more}")]
    if found.first is not None:
        yield from _first(found.first)


def _first(first: FirstReport) -> Iterator[Row]:
    """Where the ranks begin to differ, and how far."""
    from dimsolve.show.terminal import Cell

    texts = {
        "operator": "{name} = {operator}",
        "gradient": "the gradient of {name}, as the backward of {operator} gives it",
        "conversion": "{name}, converted",
        "parameter": "the parameter {name}, before the step",
        "graph": "the graph itself: what was traced is not what the model computes",
        "none": "not found: {reason}",
    }
    text = texts[first.kind].format(**first.model_dump())
    yield [Cell("first", "bold"), Cell(text)]
    where = ": ".join(filter(None, (first.source, first.line)))
    if where:
        module = f"{first.module}, " if first.module else ""
        yield [Cell(""), Cell(f"{module}{where}")]
    for name, value in first.values.items():
        yield [Cell(""), Cell(f"{name}: {value}")]
    if first.kind != "none":
        rank = "" if first.rank is None else f" on rank {first.rank}"
        dtype = f" in {first.dtype}" if first.dtype else ""
        rounding = f"; rounding takes one device {first.one_device:.1e} from its own float64"
        own = rounding if first.one_device else ""
        yield [Cell(""), Cell(f"off by {first.off:.1e}{rank}{dtype}{own}")]


def _verdict(report: RunReport) -> Row:
    from dimsolve.show.terminal import Cell

    error, differences = report.error, report.differences
    if error is not None and report.steps:
        return [Cell("unknown", "bold yellow"), Cell(error.reason)]
    if error is not None:
        where = f" in {error.operator}" if error.operator else ""
        rank = "" if error.rank is None else f"rank {error.rank}{where}: "
        text = "; ".join(line.strip() for line in error.reason.splitlines())
        return [Cell("failed", "bold red"), Cell(rank + text)]
    mesh = ", ".join(f"{axis}={size}" for axis, size in report.mesh.items())
    ranks = f"{report.ranks} rank{'s' * (report.ranks != 1)}" + (f" ({mesh})" if mesh else "")
    if differences is None:
        return [Cell("ran", "bold green"), Cell(f"on {ranks}, not compared")]
    allowed = f"rounding explains up to {differences.allowed:.0e}"
    if not report.ok:
        return [Cell("different", "bold red"), Cell(f"from one device on {ranks}; {allowed}")]
    if differences.float64 is not None:
        judged = "no further from float64 than rounding takes one device"
        return [Cell("equal", "bold green"), Cell(f"to one device on {ranks}: {judged}")]
    return [Cell("equal", "bold green"), Cell(f"to one device on {ranks}; {allowed}")]


def serve(
    host: Annotated[
        str, typer.Option("--host", metavar="ADDRESS", help="Where to listen.")
    ] = "127.0.0.1",
    port: Annotated[
        int, typer.Option("--port", min=0, max=65535, help="The port; 0 takes a free one.")
    ] = 8000,
    workers: Annotated[
        int | None,
        typer.Option(
            "--workers",
            min=1,
            max=256,
            help="Processes for questions that take long (one per core).",
            show_default=False,
        ),
    ] = None,
    deadline: Annotated[
        float,
        typer.Option(
            "--deadline",
            min=0.05,
            max=600,
            metavar="SECONDS",
            help="The most for one question, with its waiting.",
        ),
    ] = 10.0,
) -> None:
    """Answer questions over HTTP, and show the playground."""
    from dimsolve.service.replies import Limits
    from dimsolve.service.server import CannotListen
    from dimsolve.service.server import serve as run

    counted = {} if workers is None else {"workers": workers}
    try:
        raise typer.Exit(run(host, port, Limits(deadline_seconds=deadline, **counted)))
    except CannotListen as error:
        typer.echo(str(error), err=True)
        raise typer.Exit(Exit.UNREADABLE) from None
