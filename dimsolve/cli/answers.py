"""How an answer leaves: the result on stdout, a diagnostic on stderr, and the exit code.

    input 0   m k+  m, k  S(1)
    output 0  m n   m, n  P(sum)

Lines are never wrapped or cut, so that what is piped is what was answered. With ``--json`` stdout
has exactly one JSON document, also for an error, which is drawn on stderr as always.

A script asks "is this legal?" and goes on if the exit code is 0. So 0 is a yes for all values, and
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

if TYPE_CHECKING:
    from rich.console import Console

    from dimsolve.ir.errors import DimsolveError
    from dimsolve.partition.legality import LegalParts
    from dimsolve.show.terminal import Block

Result = TypeVar("Result")


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


def exit_of_verdict(result: Any) -> Exit:
    """Returns the exit code of a Legality or a Proof."""
    return _OF_VERDICT[result.verdict]


def exit_of_counts(counts: LegalParts) -> Exit:
    """Returns the exit code of legal counts: yes where there are any, also under a condition,
    or in unequal parts that were asked for.
    """
    if counts.always or counts.conditional or counts.uneven:
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


def json_text(result: Any) -> str:
    """Returns the JSON of what a public function returned or raised."""
    from json import dumps

    from dimsolve.api.results import model_of

    # In ASCII: valid wherever it is written, and for half a surrogate pair, which no encoding has.
    return dumps(model_of(result).model_dump())


def answer(
    ask: Callable[[], Result],
    show: Callable[[Result], Iterable[Block]],
    *,
    json: bool,
    leave: Callable[[Result], int] = lambda result: Exit.YES,
    written: Callable[[Result], str] = json_text,
) -> NoReturn:
    """Asks, prints what was answered or why it was not, and leaves with the exit code.

    show: what is printed of a result, written: its JSON; nothing is printed where they are empty.
    """
    from dimsolve.ir.errors import DimsolveError

    try:
        with only_json() if json else nullcontext():
            result = ask()
            text = written(result) if json else ""
        blocks = [] if json else list(show(result))
    except DimsolveError as error:
        if json:
            typer.echo(json_text(error))
        print_error(error)
        raise typer.Exit(exit_of_error(error)) from None
    if text:
        typer.echo(text)
    print_blocks(blocks)
    raise typer.Exit(leave(result))


def lines(text: str) -> Iterator[Block]:
    """Yields a text of whole lines as a block."""
    from dimsolve.show.terminal import Cell

    yield [[Cell(line)] for line in text.splitlines()]


def print_blocks(blocks: Iterable[Block]) -> None:
    """Prints blocks with an empty line between them; the columns of each block are aligned."""
    shown = [block for block in blocks if block]
    if not shown:
        return
    from rich.text import Text

    from dimsolve.ir.characters import visible
    from dimsolve.show.terminal import aligned

    console = _console(stderr=False)
    for number, block in enumerate(shown):
        if number:
            console.print()
        for row in aligned(block):
            console.print(Text.assemble(*((visible(c.text, keep="\n"), c.style) for c in row)))


def print_error(error: Exception) -> None:
    """Prints an error on stderr: its class, and what it draws of itself."""
    from rich.text import Text

    from dimsolve.ir.characters import visible

    text = visible(str(error), keep="\n")
    _console(stderr=True).print(Text.assemble((type(error).__name__, "bold red"), f": {text}"))


def _console(*, stderr: bool) -> Console:
    from rich.console import Console

    return Console(
        stderr=stderr,
        color_system=None if os.environ.get("NO_COLOR") else "auto",
        highlight=False,
        markup=False,
        emoji=False,
        soft_wrap=True,
    )


@contextmanager
def only_json() -> Iterator[None]:
    """What the body prints goes to stderr: a target's own words, also those of its C code and of
    the processes that it starts.
    """
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    stdout = _duplicate(1)
    if stdout is not None and _duplicate(2, onto=1) is None:
        os.close(stdout)
        stdout = None
    try:
        with redirect_stdout(sys.stderr):
            yield
    finally:
        sys.stderr.flush()
        if stdout is not None:
            os.dup2(stdout, 1)
            os.close(stdout)


def _duplicate(number: int, onto: int | None = None) -> int | None:
    """A copy of a file descriptor; None where it is closed."""
    try:
        return os.dup(number) if onto is None else os.dup2(number, onto)
    except OSError:
        return None
