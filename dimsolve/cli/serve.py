"""`dimsolve serve`: the HTTP service and the playground."""

from __future__ import annotations

from typing import Annotated

import typer

from .exits import Exit


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
    from dimsolve.service.limits import Limits
    from dimsolve.service.listening import CannotListen
    from dimsolve.service.server import serve as run

    limits = Limits(deadline_seconds=deadline)
    if workers is not None:
        limits = Limits(deadline_seconds=deadline, workers=workers)
    try:
        raise typer.Exit(run(host, port, limits))
    except CannotListen as error:
        typer.echo(str(error), err=True)
        raise typer.Exit(Exit.UNREADABLE) from None
