"""How an answer leaves: the result on stdout, a diagnostic on stderr, and the exit code.

With ``--json`` stdout has exactly one JSON document, also for an error, which is drawn on stderr as
always.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, nullcontext, redirect_stdout
from typing import Any, NoReturn, TypeVar

import typer

from .exits import Exit, exit_of_error
from .page import Block, print_error, print_page

Result = TypeVar("Result")


def answer(
    ask: Callable[[], Result],
    show: Callable[[Result], Iterable[Block]],
    *,
    json: bool,
    leave: Callable[[Result], Exit] = lambda result: Exit.YES,
    model: Callable[[Result], Any] | None = None,
) -> NoReturn:
    """Asks, prints what was answered or why it was not, and leaves with the exit code.

    model: makes the JSON model of a result that `dimsolve.schema.model_of` does not know.
    """
    from dimsolve.ir.errors import DimsolveError

    try:
        with only_json() if json else nullcontext():
            result = ask()
        blocks = [] if json else list(show(result))
    except DimsolveError as error:
        if json:
            _print_json(error)
        print_error(error)
        raise typer.Exit(exit_of_error(error)) from None
    if json:
        _print_json(result if model is None else model(result))
    print_page(blocks)
    raise typer.Exit(leave(result))


def _print_json(result: Any) -> None:
    from json import dumps

    from pydantic import BaseModel

    from dimsolve.schema import model_of

    # In ASCII: valid wherever it is written, and for half a surrogate pair, which no encoding has.
    model = result if isinstance(result, BaseModel) else model_of(result)
    typer.echo(dumps(model.model_dump()))


@contextmanager
def only_json() -> Iterator[None]:
    """What the body prints goes to stderr: a target's own words, also those of its C code and of
    the processes that it starts.
    """
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    kept = _duplicate(1)
    if kept is not None and _duplicate(2, onto=1) is None:
        os.close(kept)
        kept = None
    try:
        with redirect_stdout(sys.stderr):
            yield
    finally:
        sys.stderr.flush()
        if kept is not None:
            os.dup2(kept, 1)
            os.close(kept)


def _duplicate(number: int, onto: int | None = None) -> int | None:
    """A copy of a file descriptor; None where it is closed."""
    try:
        return os.dup(number) if onto is None else os.dup2(number, onto)
    except OSError:
        return None
