"""How an answer leaves: the result on stdout, a diagnostic on stderr, and the exit code.

With ``--json`` stdout has exactly one JSON document, also for an error, which is drawn on stderr as
always.

What a verdict or an error means to a script: the exit code.

A script asks "is this legal?" and goes on if the answer is 0. So 0 is a yes for all values, and
nothing else: *conditional* is a no for some value and exits with 1, like *illegal*; the condition
is in the answer.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, nullcontext, redirect_stdout
from enum import IntEnum
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

import typer

from .page import Block, print_error, print_page

if TYPE_CHECKING:
    from dimsolve.ir.errors import DimsolveError
    from dimsolve.partition.legality import LegalParts


class Exit(IntEnum):
    """The closed set of exit codes."""

    YES = 0
    NO = 1
    UNREADABLE = 2
    GAVE_UP = 3


_OF_VERDICT = {
    "legal": Exit.YES,
    "proved": Exit.YES,
    "conditional": Exit.NO,
    "illegal": Exit.NO,
    "refuted": Exit.NO,
    "unknown": Exit.GAVE_UP,
}


def exit_of_verdict(verdict: str) -> Exit:
    """Returns the exit code of a Legality's or a Proof's verdict.

    >>> exit_of_verdict("conditional")
    <Exit.NO: 1>
    """
    return _OF_VERDICT[verdict]


def exit_of_counts(counts: LegalParts) -> Exit:
    """Returns the exit code of legal counts: yes where there are any, also under a condition."""
    if counts.always or counts.conditional:
        return Exit.YES
    return Exit.GAVE_UP if counts.unknown else Exit.NO


def exit_of_error(error: DimsolveError) -> Exit:
    """Returns the exit code of an error: text that cannot be read is 2, a contradiction is a no,
    a plan of which nobody can tell whether it is legal was given up.
    """
    from dimsolve.ir.errors import is_unreadable

    if getattr(getattr(error, "legality", None), "verdict", None) == "unknown":
        return Exit.GAVE_UP
    return Exit.UNREADABLE if is_unreadable(error) else Exit.NO


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

    model: makes the JSON model of a result that `dimsolve.api.results.model_of` does not know.
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

    from dimsolve.api.results import model_of

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
