"""``dimsolve ops`` and ``dimsolve verify``: what operators promise, and whether it is true."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated

import typer

from .answers import answer
from .exits import Exit
from .options import Json
from .page import Block, Cell

if TYPE_CHECKING:
    from dimsolve.exec.verification.verification import Verification
    from dimsolve.ir.errors import AnnotationError
    from dimsolve.operator_schema import OperatorsModel, VerificationModel


def ops(
    name: Annotated[
        str | None,
        typer.Argument(metavar="[NAME]", help="A callable such as torch.cat, or a part of a name."),
    ] = None,
    json: Json = False,
) -> None:
    """List the torch callables that the library annotates, with the annotations of examples."""

    def ask() -> OperatorsModel:
        from dimsolve.operator_schema import operators

        found = operators(name or "")
        if name and not found.operators:
            raise _unknown(name)
        return found

    def show(found: OperatorsModel) -> Iterator[Block]:
        yield [
            [Cell(row.path, "bold"), Cell("   ".join([*row.annotations, *_in_brackets(row.note)]))]
            for row in found.operators
        ]

    answer(ask, show, json=json)


def verify(
    target: Annotated[
        str,
        typer.Argument(
            metavar="TARGET", help="A registered function, such as ops.py:my_op, or a torch path."
        ),
    ],
    json: Json = False,
) -> None:
    """Run an operator whole and split, forward and backward: is its annotation true?"""

    def ask() -> Verification:
        from dimsolve import verify as run
        from dimsolve.exec.target import load_function

        return run(load_function(target, _WANTED) if ":" in target.strip(":") else target)

    def show(found: Verification) -> Iterator[Block]:
        yield [[Cell(line)] for line in str(found).splitlines()]

    def model(found: Verification) -> VerificationModel:
        from dimsolve.operator_schema import VerificationModel

        return VerificationModel.of(found)

    def leave(found: Verification) -> Exit:
        return Exit.YES if found.ok else Exit.NO

    answer(ask, show, json=json, leave=leave, model=model)


def _in_brackets(note: str) -> list[str]:
    """The note behind the annotations; a column of its own would be very far to the right."""
    return [f"({note})"] if note else []


_WANTED = "write module:function or file.py:function; the function is one that is registered"


def _unknown(name: str) -> AnnotationError:
    from difflib import get_close_matches

    from dimsolve.ir.errors import AnnotationError, Diagnostic
    from dimsolve.solver.library import names

    close = get_close_matches(name, names(), n=3)
    return AnnotationError(
        Diagnostic(
            code="unknown-operator",
            title="the library does not have this callable",
            reason=f"no path contains '{name:.60}'",
            hint=f"did you mean {' or '.join(close)}?"
            if close
            else "dimsolve ops lists all; dimsolve.register_op annotates a function of your own",
        )
    )
