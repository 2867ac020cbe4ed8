"""The verbs: each asks the Python function of the same name and hands its answer on."""

from __future__ import annotations

from typing import Annotated, TypeAlias

import typer

from .answers import answer
from .exits import exit_of_counts, exit_of_verdict
from .options import (
    AnnotationText,
    Arguments,
    Contiguous,
    Facts,
    Inputs,
    Json,
    OptionalSplit,
    Split,
    arguments_of,
    facts_of,
    inputs_of,
    size_of,
    split_of,
)


def parse(annotation: AnnotationText, json: Json = False) -> None:
    """Read an annotation: its tensors, and what may be split."""
    from dimsolve import parse as ask

    from .show import show_annotation

    answer(lambda: ask(annotation.strip()), show_annotation, json=json)


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
    """Infer output shapes from input shapes; all shapes of a model given as module:function or
    file.py:function, a function that returns (model, example_kwargs[, dynamic]).
    """
    from dimsolve import infer as ask

    from .show import show_explanation, show_solution
    from .targets import infer_target, is_target

    if is_target(annotation):
        if inputs or arguments or facts:
            raise typer.BadParameter(
                "a model's shapes come from the example that its function returns: --input, --arg "
                "and --fact are for annotations"
            )
        infer_target(annotation, explain=explain, json=json)

    shapes, named = inputs_of(inputs), arguments_of(arguments)
    answer(
        lambda: ask(annotation.strip(), shapes, arguments=named, facts=facts_of(facts)),
        show_explanation if explain else show_solution,
        json=json,
    )


def check(
    annotation: AnnotationText,
    split: Split,
    parts: Annotated[
        str,
        typer.Option(
            "--parts", metavar="COUNT", help="Into how many: 8, or a symbol.", show_default=False
        ),
    ],
    inputs: Inputs = None,
    arguments: Arguments = None,
    facts: Facts = None,
    contiguous: Contiguous = False,
    json: Json = False,
) -> None:
    """Check whether a split is legal: for all values, under a condition, or never."""
    from dimsolve import check as ask

    from .show import show_legality

    shapes, named = inputs_of(inputs), arguments_of(arguments)
    answer(
        lambda: ask(
            annotation.strip(),
            shapes,
            split_of(split),
            size_of(parts),
            arguments=named,
            facts=facts_of(facts),
            contiguous=contiguous,
        ),
        show_legality,
        json=json,
        leave=lambda legality: exit_of_verdict(legality.verdict),
    )


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
    up_to: UpTo = None,
    axis: Axis = "tp",
    policy: ModelPolicy = "data+tensor",
    json: Json = False,
) -> None:
    """List the legal counts of a split, or of a mesh axis for a model given as module:function."""
    from dimsolve import legal_parts as ask

    from .plans import legal_parts_of_model
    from .show import show_legal_parts
    from .targets import is_target

    if is_target(annotation):
        legal_parts_of_model(annotation, axis, policy, up_to, json=json)
    if split is None:
        raise typer.BadParameter("an annotation needs --split, what is split", param_hint="--split")
    shapes, named = inputs_of(inputs), arguments_of(arguments)
    answer(
        lambda: ask(
            annotation.strip(),
            shapes,
            split_of(split),
            arguments=named,
            facts=facts_of(facts),
            up_to=up_to,
            contiguous=contiguous,
        ),
        show_legal_parts,
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

    from .show import show_proof

    answer(
        lambda: ask(claim.strip(), facts=facts_of(facts)),
        show_proof,
        json=json,
        leave=lambda proof: exit_of_verdict(proof.verdict),
    )
