"""``dimsolve run``: a model on several ranks, compared with one device."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Any

import typer

from .exits import Exit, exit_of_error
from .options import Json
from .page import Block, Cell, print_error, print_page

if TYPE_CHECKING:
    from dimsolve.exec.running.run_report import RunReport


def run(
    target: Annotated[
        str, typer.Argument(metavar="TARGET", help="The model, such as model.py:tiny.")
    ],
    mesh: Annotated[
        str,
        typer.Option(
            "--mesh", metavar="AXIS=SIZE,...", help="Such as dp=2,tp=2: so many ranks are started."
        ),
    ],
    policy: Annotated[
        str,
        typer.Option(
            "--policy",
            metavar="NAME",
            help="data, tensor, data+tensor, replicate, or module:function for one of your own.",
        ),
    ] = "data+tensor",
    plan: Annotated[
        str | None,
        typer.Option("--plan", metavar="FILE", help="A plan that `dimsolve plan` has written."),
    ] = None,
    steps: Annotated[int, typer.Option("--steps", min=1, help="Training steps.")] = 3,
    verify: Annotated[
        bool, typer.Option(help="Compare outputs, loss and gradients with one device.")
    ] = True,
    timeout: Annotated[
        float, typer.Option("--timeout", min=1, help="Seconds that a rank waits for another.")
    ] = 60.0,
    seed: Annotated[int, typer.Option("--seed", help="Of torch's random numbers.")] = 0,
    json: Json = False,
) -> None:
    """Train a model on several ranks, and compare every step with one device.

    Starts the ranks on this machine; under torchrun it joins the world that is given.
    """
    from dimsolve.exec.running.launch import is_first, launch
    from dimsolve.exec.running.run_report import RunOptions
    from dimsolve.ir.errors import DimsolveError

    options = RunOptions(
        target=target,
        mesh=mesh,
        plan=plan,
        policy=policy,
        steps=steps,
        verify=verify,
        seed=seed,
        timeout=timeout,
    )
    try:
        report = launch(options)
    except DimsolveError as error:
        if json:
            typer.echo(_as_json(error))
        print_error(error)
        raise typer.Exit(max(exit_of_error(error), Exit.NO)) from None
    if is_first():
        if json:
            typer.echo(report.model_dump_json())
        else:
            print_page(_shown(report))
    raise typer.Exit(report.exit_code)


def _as_json(error: Any) -> str:
    from json import dumps

    from dimsolve.schema import model_of

    return dumps(model_of(error).model_dump())


def _shown(report: RunReport) -> Iterator[Block]:
    mesh = ", ".join(f"{axis}={size}" for axis, size in report.mesh.items())
    yield [[Cell(a, "bold"), Cell(b), Cell(c)] for a, b, c in report.overview]
    yield [
        [
            Cell(f"step {number}", "bold"),
            Cell(f"loss {step.loss:.6g}"),
            Cell(f"{step.seconds * 1e3:.1f} ms"),
            Cell(", ".join(f"{name} = {size}" for name, size in step.sizes.items())),
        ]
        for number, step in enumerate(report.steps, 1)
    ]
    if report.parameter_bytes is not None:
        held = report.parameter_bytes
        share = held.per_rank / held.whole if held.whole else 1.0
        text = f"{held.per_rank} of {held.whole} bytes a rank ({share:.2f})"
        yield [[Cell("parameters", "bold"), Cell(text)]]
    if report.differences is not None:
        found = report.differences
        yield [
            [
                Cell("outputs", "bold"),
                Cell(f"{found.outputs:.1e}"),
                Cell("largest difference from"),
            ],
            [Cell("loss", "bold"), Cell(f"{found.loss:.1e}"), Cell("one device, relative")],
            [Cell("gradients", "bold"), Cell(f"{found.gradients:.1e}")],
        ]
    yield [_verdict(report, mesh)]


def _verdict(report: RunReport, mesh: str) -> list[Cell]:
    if report.error is not None:
        return [Cell("failed", "bold red"), Cell(_failure(report))]
    ranks = f"{report.ranks} rank{'s' * (report.ranks != 1)}" + (f" ({mesh})" if mesh else "")
    if report.differences is None:
        return [Cell("ran", "bold green"), Cell(f"on {ranks}, not compared")]
    if report.ok:
        return [Cell("equal", "bold green"), Cell(f"to one device, on {ranks}")]
    return [Cell("different", "bold red"), Cell(f"from one device, on {ranks}")]


def _failure(report: RunReport) -> str:
    error = report.error
    assert error is not None
    where = f" in {error.operator}" if error.operator else ""
    rank = "" if error.rank is None else f"rank {error.rank}{where}: "
    return rank + error.reason.splitlines()[0]
