"""`dimsolve serve`: the HTTP service and the playground.

``dimsolve plan``, and ``dimsolve legal-parts`` for whole models.

``dimsolve run``: a model on several ranks, compared with one device.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import nullcontext
from math import prod
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NoReturn, TypeAlias

import typer

from .answers import Exit, answer, exit_of_counts, exit_of_error, only_json
from .options import Json, Model, PolicyName
from .page import Block, Cell, print_error, print_page

if TYPE_CHECKING:
    from dimsolve.exec.running.report import RunOptions, RunReport
    from dimsolve.partition.legality import LegalParts
    from dimsolve.partition.plan import Plan


def plan(
    target: Model,
    mesh: Annotated[
        str,
        typer.Option(
            "--mesh", metavar="AXIS=SIZE,...", help="Such as dp=2,tp=4; a size may be a symbol."
        ),
    ],
    policy: PolicyName = "data+tensor",
    out: Annotated[
        Path | None,
        typer.Option("--out", "-o", metavar="FILE", help="Write the plan there, as JSON."),
    ] = None,
    explain: Annotated[
        bool, typer.Option("--explain", help="Print every operator and conversion.")
    ] = False,
    json: Json = False,
) -> None:
    """Plan how a model is cut over a mesh: what each rank holds, and what is communicated."""

    def ask() -> Plan:
        from dimsolve.exec.target import load_target

        from .. import plan as make

        made = make(load_target(target).trace(), mesh, _policy(policy))
        if out is not None:
            out.write_text(made.to_json() + "\n", encoding="utf-8")
        return made

    def show(made: Plan) -> Iterator[Block]:
        from dimsolve.show.plan import summary

        text = made.explain() if explain else summary(made)
        yield [[Cell(line)] for line in text.splitlines()]

    answer(ask, show, json=json)


def legal_parts_of_model(
    target: str, axis: str, policy: str, up_to: int | None, *, json: bool
) -> NoReturn:
    """Prints the counts that an axis may have for a model under a policy."""

    def ask() -> LegalParts:
        from dimsolve.exec.target import load_target

        return load_target(target).trace().legal_parts(axis, _policy(policy), up_to=up_to)

    answer(ask, _show_counts, json=json, leave=exit_of_counts)


def _policy(text: str) -> Any:
    """A policy by name, or the function that a module or file has."""
    if ":" not in text:
        return text
    from dimsolve.exec.target import load_function

    return load_function(text)


def _show_counts(counts: LegalParts) -> Iterator[Block]:
    """The counts, and why others are not: counts with one reason stand together."""
    from dimsolve.partition.legality import ranges, said_once, together

    reasons = together(said_once(counts.forbidden))
    yield [[Cell("always", "bold"), Cell(", ".join(map(str, counts.always)))]]
    rows = [[Cell(str(count), "bold"), Cell(f"if {c}")] for count, c in counts.conditional.items()]
    yield rows
    yield [
        [Cell(f"never {ranges(found)}", "bold"), Cell(reason)] for reason, found in reasons.items()
    ]
    yield [[Cell(f"unknown {n}", "bold"), Cell(text)] for n, text in counts.unknown.items()]


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


def run(
    target: Model,
    mesh: Mesh,
    policy: PolicyName = "data+tensor",
    plan: PlanFile = None,
    steps: Steps = 3,
    verify: Verify = True,
    timeout: Timeout = 60.0,
    seed: Seed = 0,
    dtype: DType = None,
    json: Json = False,
) -> None:
    """Train a model on several ranks, and compare every step with one device.

    Starts the ranks on this machine; under torchrun it joins the world that is given.
    """
    from dimsolve.exec.running.report import RunOptions
    from dimsolve.exec.running.supervisor import Interrupted, interruptible

    options = RunOptions(
        target=target,
        mesh=mesh,
        plan=plan,
        policy=policy,
        steps=steps,
        verify=verify,
        seed=seed,
        timeout=timeout,
        dtype=dtype,
    )
    try:
        with interruptible():
            _run(options, json=json)
    except Interrupted as signal:
        if json:
            typer.echo(_ended(options, str(signal)).model_dump_json())
        typer.echo(f"dimsolve run: {signal}", err=True)
        raise typer.Exit(signal.exit_code) from None


def _run(options: RunOptions, *, json: bool) -> NoReturn:
    from dimsolve.exec.running.launch import is_first, launch
    from dimsolve.ir.errors import DimsolveError

    try:
        with only_json() if json else nullcontext():
            report = launch(options)
    except DimsolveError as error:
        if json:
            typer.echo(_as_json(error))
        print_error(error)
        raise typer.Exit(exit_of_error(error)) from None
    if is_first():
        if json:
            typer.echo(report.model_dump_json())
        else:
            print_page(_shown(report))
    raise typer.Exit(report.exit_code)


def _ended(options: RunOptions, reason: str) -> RunReport:
    """The report of a run that a signal has ended."""
    from dimsolve.exec.running.report import ErrorReport, RunReport
    from dimsolve.partition.mesh import Mesh

    sizes = {name: size for name, size in Mesh.of(options.mesh).axes if isinstance(size, int)}
    return RunReport(
        ok=False, ranks=prod(sizes.values()), mesh=sizes, error=ErrorReport(reason=reason)
    )


def _as_json(error: Any) -> str:
    from json import dumps

    from dimsolve.api.results import model_of

    return dumps(model_of(error).model_dump())


def _shown(report: RunReport) -> Iterator[Block]:
    for block in report.overview:
        yield [[Cell(label, "bold"), *map(Cell, rest)] for label, *rest in block]
    yield _steps(report)
    more = len(report.notes) - MOST_NOTES
    texts = [*report.notes[:MOST_NOTES], *([f"and {more} more"] if more > 0 else [])]
    noted = [[Cell("note", "bold"), Cell(text)] for text in texts]
    yield [*noted, *_differences(report), _verdict(report)]


def _steps(report: RunReport) -> Block:
    rows = [
        [
            Cell(f"step {number}", "bold"),
            Cell(", ".join(f"{name} = {size}" for name, size in step.sizes.items())),
            Cell("" if step.loss is None else f"loss {step.loss:.6f}"),
            Cell(f"{step.seconds * 1e3:.1f} ms"),
        ]
        for number, step in enumerate(report.steps, 1)
    ]
    held = report.parameter_bytes
    if held is not None:
        share = held.per_rank / held.whole if held.whole else 1.0
        text = f"{held.per_rank:,} of {held.whole:,} bytes on a rank"
        rows.append([Cell("memory", "bold"), Cell(text), Cell(f"{share:.0%}")])
    return rows


def _differences(report: RunReport) -> Iterator[list[Cell]]:
    found = report.differences
    if found is not None:
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


def _verdict(report: RunReport) -> list[Cell]:
    if report.error is not None and report.steps:
        return [Cell("unknown", "bold yellow"), Cell(report.error.reason)]
    if report.error is not None:
        return [Cell("failed", "bold red"), Cell(_failure(report))]
    mesh = ", ".join(f"{axis}={size}" for axis, size in report.mesh.items())
    ranks = f"{report.ranks} rank{'s' * (report.ranks != 1)}" + (f" ({mesh})" if mesh else "")
    if report.differences is None:
        return [Cell("ran", "bold green"), Cell(f"on {ranks}, not compared")]
    allowed = f"rounding explains up to {report.differences.allowed:.0e}"
    if report.ok and report.differences.float64 is not None:
        judged = "no further from float64 than rounding takes one device"
        return [Cell("equal", "bold green"), Cell(f"to one device on {ranks}: {judged}")]
    if report.ok:
        return [Cell("equal", "bold green"), Cell(f"to one device on {ranks}; {allowed}")]
    return [Cell("different", "bold red"), Cell(f"from one device on {ranks}; {allowed}")]


def _failure(report: RunReport) -> str:
    error = report.error
    assert error is not None
    where = f" in {error.operator}" if error.operator else ""
    rank = "" if error.rank is None else f"rank {error.rank}{where}: "
    return rank + "; ".join(line.strip() for line in error.reason.splitlines())


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

    limits = Limits(deadline_seconds=deadline)
    if workers is not None:
        limits = Limits(deadline_seconds=deadline, workers=workers)
    try:
        raise typer.Exit(run(host, port, limits))
    except CannotListen as error:
        typer.echo(str(error), err=True)
        raise typer.Exit(Exit.UNREADABLE) from None
