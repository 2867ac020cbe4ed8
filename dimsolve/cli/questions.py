"""The verbs that ask about operators: each asks the Python function of the same name.

dimsolve infer '(h t) k -> h t k' --input '8*s, k' --arg h=8
dimsolve infer torch.nn.functional.conv2d --input 'n, c, h, w' --input 'o, c, 3, 3' --arg stride=2
dimsolve infer model.py:tiny                                    every value's symbolic shape
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias

import typer

from .answers import Exit, answer, exit_of_counts, exit_of_verdict, lines
from .models import infer_model, is_target, legal_parts_of_model
from .options import (
    AnnotationText,
    Arguments,
    Contiguous,
    Facts,
    Inputs,
    Json,
    OptionalSplit,
    Partial,
    Splits,
    Summands,
    Unequal,
    UnequalCounts,
    arguments_of,
    facts_of,
    inputs_of,
    size_of,
    split_of,
)

if TYPE_CHECKING:
    from dimsolve.api.results import OperatorsModel
    from dimsolve.exec.verification.verification import Verification
    from dimsolve.ir.errors import AnnotationError
    from dimsolve.partition.legality import MeshLegality
    from dimsolve.show.terminal import Block
    from dimsolve.solver.solution import Solution


def parse(annotation: AnnotationText, json: Json = False) -> None:
    """Read an annotation: its tensors, and what may be split."""
    from dimsolve import parse as ask
    from dimsolve.show.terminal import annotation_blocks

    answer(lambda: ask(annotation.strip()), annotation_blocks, json=json)


def infer(
    annotation: AnnotationText,
    inputs: Inputs = None,
    arguments: Arguments = None,
    facts: Facts = None,
    explain: Annotated[
        bool, typer.Option("--explain", help="Print every step with its reason.")
    ] = False,
    json: Json = False,
) -> None:
    """Infer output shapes from input shapes, of an annotation or of a function of torch, such as
    torch.nn.functional.conv2d; all shapes of a model given as module:function or file.py:function,
    a function that returns (model, example_kwargs[, dynamic]).
    """
    from dimsolve import infer as ask
    from dimsolve.show.terminal import Cell, solution_blocks

    if is_target(annotation):
        if inputs or arguments or facts:
            raise typer.BadParameter(
                "a model's shapes come from the example that its function returns: --input, --arg "
                "and --fact are for annotations"
            )
        infer_model(annotation, explain=explain, json=json)

    def show(solution: Solution) -> Iterator[Block]:
        if explain:
            yield from lines(solution.explain())
            return
        if solution.text != annotation.strip():  # of a function
            yield [[Cell("annotation", "bold"), Cell(solution.text)]]
        yield from solution_blocks(solution)

    shapes, named = inputs_of(inputs), arguments_of(arguments)
    answer(
        lambda: ask(annotation.strip(), shapes, arguments=named, facts=facts_of(facts)),
        show,
        json=json,
    )


def check(
    annotation: AnnotationText,
    split: Splits,
    parts: Annotated[
        list[str],
        typer.Option(
            "--parts", metavar="COUNT", help="Into how many: 8, or a symbol.", show_default=False
        ),
    ],
    inputs: Inputs = None,
    arguments: Arguments = None,
    facts: Facts = None,
    contiguous: Contiguous = False,
    summands: Summands = None,
    partial: Partial = "sum",
    uneven: Unequal = False,
    json: Json = False,
) -> None:
    """Check whether a split is legal: for all values, under a condition, or never. Several splits,
    each with its --parts, are one mesh.
    """
    from dimsolve.partition.legality import check_mesh

    if len(split) != len(parts):
        raise typer.BadParameter(
            f"{len(split)} --split and {len(parts)} --parts: give each split its count"
        )
    shapes, named = inputs_of(inputs), arguments_of(arguments)
    splits = [(split_of(s), size_of(p)) for s, p in zip(split, parts, strict=True)]
    answer(
        lambda: check_mesh(
            annotation.strip(),
            shapes,
            splits,
            arguments=named,
            facts=facts_of(facts),
            contiguous=contiguous,
            value_split=summands or (),
            partial=partial,
            uneven=uneven,
        ),
        _mesh_blocks,
        json=json,
        leave=exit_of_verdict,
        written=_mesh_json,
    )


def _mesh_blocks(found: MeshLegality) -> Iterator[Block]:
    """Each split as it stands alone, and the verdict on all of them where there are several."""
    from dimsolve.show.terminal import legality_blocks, verdict_blocks

    for axis in found.axes:
        yield from legality_blocks(axis)
    if len(found.axes) > 1:
        yield from verdict_blocks(found)


def _mesh_json(found: MeshLegality) -> str:
    from .answers import json_text

    return json_text(found.axes[0] if len(found.axes) == 1 else found)


UpTo: TypeAlias = Annotated[
    int | None,
    typer.Option(
        "--up-to",
        min=1,
        max=10_000,
        metavar="COUNT",
        help="The largest count asked about (64).",
        show_default=False,
    ),
]
Axis: TypeAlias = Annotated[
    str, typer.Option("--axis", metavar="NAME", help="Of a model: the axis that is asked about.")
]
ModelPolicy: TypeAlias = Annotated[
    str, typer.Option("--policy", metavar="NAME", help="Of a model: the policy that cuts it.")
]


def legal_parts(
    annotation: AnnotationText,
    split: OptionalSplit = None,
    inputs: Inputs = None,
    arguments: Arguments = None,
    facts: Facts = None,
    contiguous: Contiguous = False,
    summands: Summands = None,
    partial: Partial = "sum",
    up_to: UpTo = None,
    axis: Axis = "tp",
    policy: ModelPolicy = "data+tensor",
    uneven: UnequalCounts = None,
    json: Json = False,
) -> None:
    """List the legal counts of a split, or of a mesh axis for a model given as module:function."""
    from dimsolve import legal_parts as ask
    from dimsolve.show.terminal import legal_parts_blocks

    if is_target(annotation):
        legal_parts_of_model(annotation, axis, policy, up_to, uneven, json=json)
    if split is None:
        raise typer.BadParameter("an annotation needs --split, what is split", param_hint="--split")
    shapes, named = inputs_of(inputs), arguments_of(arguments)
    known: dict[str, Any] = {"arguments": named, "facts": facts_of(facts)}
    answer(
        lambda: ask(
            annotation.strip(),
            shapes,
            split_of(split),
            up_to=up_to,
            contiguous=contiguous,
            value_split=summands or (),
            partial=partial,
            uneven=bool(uneven),
            **known,
        ),
        legal_parts_blocks,
        json=json,
        leave=exit_of_counts,
    )


def prove(
    claim: Annotated[
        str,
        typer.Argument(
            metavar="CLAIM", help="A relation, such as 'n*(n+1) % 2 == 0'.", show_default=False
        ),
    ],
    facts: Facts = None,
    json: Json = False,
) -> None:
    """Prove or refute a claim about positive integers."""
    from dimsolve import prove as ask
    from dimsolve.show.terminal import verdict_blocks

    answer(
        lambda: ask(claim.strip(), facts=facts_of(facts)),
        verdict_blocks,
        json=json,
        leave=exit_of_verdict,
    )


def ops(
    name: Annotated[
        str | None,
        typer.Argument(metavar="[NAME]", help="A callable such as torch.cat, or a part of a name."),
    ] = None,
    json: Json = False,
) -> None:
    """List the torch callables that the library annotates, with the annotations of examples."""

    def ask() -> OperatorsModel:
        from dimsolve.api.results import operators

        found = operators(name or "")
        if name and not found.operators:
            raise _unknown(name)
        return found

    def show(found: OperatorsModel) -> Iterator[Block]:
        from dimsolve.show.terminal import Cell

        rows = []
        for row in found.operators:
            # The note in brackets: a column of its own would be very far to the right.
            texts = [*row.annotations, f"({row.note})"] if row.note else row.annotations
            rows.append([Cell(row.path, "bold"), Cell("   ".join(texts))])
        yield rows

    answer(ask, show, json=json)


def _unknown(name: str) -> AnnotationError:
    from difflib import get_close_matches

    from dimsolve.ir.errors import AnnotationError, Diagnostic
    from dimsolve.solver.operators import names

    close = get_close_matches(name, names(), n=3)
    hint = "dimsolve ops lists all; dimsolve.register_op annotates a function of your own"
    return AnnotationError(
        Diagnostic(
            code="unknown-operator",
            title="the library does not have this callable",
            reason=f"no path contains '{name:.60}'",
            hint=f"did you mean {' or '.join(close)}?" if close else hint,
        )
    )


_WANTED = "write module:function or file.py:function; the function is one that is registered"


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

    def leave(found: Verification) -> Exit:
        return Exit.YES if found.ok else Exit.NO

    answer(ask, lambda found: lines(str(found)), json=json, leave=leave)
