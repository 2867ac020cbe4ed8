"""``dimsolve infer TARGET``: a model with the symbolic shape of every value.

The verbs: each asks the Python function of the same name and hands its answer on.

``dimsolve ops`` and ``dimsolve verify``: what operators promise, and whether it is true.
"""

from __future__ import annotations

from collections.abc import Iterator
from json import dumps
from typing import TYPE_CHECKING, Annotated, NoReturn, TypeAlias

import typer

from .answers import Exit, answer, exit_of_counts, exit_of_verdict, only_json
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
from .page import Block, Cell

if TYPE_CHECKING:
    from dimsolve.api.results import OperatorsModel, VerificationModel
    from dimsolve.exec.graph import Graph
    from dimsolve.exec.verification.verification import Verification
    from dimsolve.ir.errors import AnnotationError


def parse(annotation: AnnotationText, json: Json = False) -> None:
    """Read an annotation: its tensors, and what may be split."""
    from .. import parse as ask
    from .page import show_annotation

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
    from .. import infer as ask
    from .page import show_explanation, show_solution

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
    from .. import check as ask
    from .page import show_legality

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
    from .. import legal_parts as ask
    from .models import legal_parts_of_model
    from .page import show_legal_parts

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
    from .. import prove as ask
    from .page import show_proof

    answer(
        lambda: ask(claim.strip(), facts=facts_of(facts)),
        show_proof,
        json=json,
        leave=lambda proof: exit_of_verdict(proof.verdict),
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
        from dimsolve.exec.target import load_function

        from .. import verify as run

        return run(load_function(target, _WANTED) if ":" in target.strip(":") else target)

    def show(found: Verification) -> Iterator[Block]:
        yield [[Cell(line)] for line in str(found).splitlines()]

    def model(found: Verification) -> VerificationModel:
        from dimsolve.api.results import VerificationModel

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
    from dimsolve.solver.operators import names

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


def is_target(text: str) -> bool:
    """Whether a text names a model (``module:function``, ``file.py:function``) and is no
    annotation.

    >>> is_target("model.py:tiny"), is_target("m k -> m")
    (True, False)
    """
    home, colon, name = text.strip().rpartition(":")
    return bool(colon) and name.isidentifier() and bool(home) and "->" not in text


def infer_target(text: str, *, explain: bool, json: bool) -> NoReturn:
    """Traces the model and prints its graph; with ``explain`` only what must hold, and why."""

    def ask() -> Graph:
        from dimsolve.exec.target import load_target

        return load_target(text).trace()

    if not json:
        answer(ask, _show_conditions if explain else _show_graph, json=False)
    from dimsolve.ir.errors import DimsolveError

    try:
        with only_json():
            data = ask().to_json()
    except DimsolveError as error:
        raised = error
        answer(lambda: _again(raised), lambda _: (), json=True)
    typer.echo(dumps(data))
    raise typer.Exit


def _again(error: Exception) -> NoReturn:
    raise error


def _show_graph(graph: Graph) -> Iterator[Block]:
    yield [[Cell(line)] for line in graph.show().splitlines()]


def _show_conditions(graph: Graph) -> Iterator[Block]:
    lines = graph.explain().splitlines() or ["nothing must hold: the graph runs at all sizes"]
    yield [[Cell(line)] for line in lines]
