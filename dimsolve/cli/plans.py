"""``dimsolve plan``, and ``dimsolve legal-parts`` for whole models."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NoReturn

import typer

from .answers import answer
from .exits import exit_of_counts
from .options import Json, Model, PolicyName
from .page import Block, Cell

if TYPE_CHECKING:
    from dimsolve.partition.legal_parts import LegalParts
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
        from dimsolve import plan as make
        from dimsolve.exec.target import load_target

        made = make(load_target(target).trace(), mesh, _policy(policy))
        if out is not None:
            out.write_text(made.to_json() + "\n", encoding="utf-8")
        return made

    def show(made: Plan) -> Iterator[Block]:
        from dimsolve.partition.explain import summary

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
    from dimsolve.partition.counts_said import ranges, said_once, together

    reasons = together(said_once(counts.forbidden))
    yield [[Cell("always", "bold"), Cell(", ".join(map(str, counts.always)))]]
    rows = [[Cell(str(count), "bold"), Cell(f"if {c}")] for count, c in counts.conditional.items()]
    yield rows
    yield [
        [Cell(f"never {ranges(found)}", "bold"), Cell(reason)] for reason, found in reasons.items()
    ]
    yield [[Cell(f"unknown {n}", "bold"), Cell(text)] for n, text in counts.unknown.items()]
