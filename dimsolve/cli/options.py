"""The options that verbs share, and how their texts become arguments of the Python functions."""

from __future__ import annotations

import re
from typing import Annotated, TypeAlias

import typer

AnnotationText: TypeAlias = Annotated[
    str,
    typer.Argument(
        metavar="ANNOTATION",
        help="The operator, such as 'm k+, k+ n -> m n', or a function, such as torch.matmul.",
        show_default=False,
    ),
]
Inputs: TypeAlias = Annotated[
    list[str] | None,
    typer.Option(
        "--input",
        metavar="SHAPE",
        help="One input's shape, such as '8*s, k'; once per input, in order. "
        "'?' or '' for a value without one, '()' for a scalar. "
        "Without any, the identifiers themselves are the sizes.",
        show_default=False,
    ),
]
Arguments: TypeAlias = Annotated[
    list[str] | None,
    typer.Option(
        "--arg",
        metavar="NAME=SIZE",
        help="A same-named argument of the operator, such as h=8; of a function any of its "
        "arguments, such as stride=2, dim=-1, size='b, 2*s'. Repeatable.",
        show_default=False,
    ),
]
Facts: TypeAlias = Annotated[
    list[str] | None,
    typer.Option(
        "--fact",
        metavar="RELATION",
        help="What is known about the symbols, such as 'k % 64 == 0'. Repeatable.",
        show_default=False,
    ),
]
_SPLIT = typer.Option(
    "--split",
    metavar="NAME|IDX,DIM",
    help="What is split: an identifier, or a dimension such as 0,1 (input 0, dim 1).",
    show_default=False,
)
Splits: TypeAlias = Annotated[list[str], _SPLIT]
OptionalSplit: TypeAlias = Annotated[str | None, _SPLIT]
Contiguous: TypeAlias = Annotated[
    bool, typer.Option("--contiguous", help="Ask only for layouts of one block per rank.")
]
Summands: TypeAlias = Annotated[
    list[int] | None,
    typer.Option(
        "--summand",
        metavar="INPUT",
        help="An input, by number, that is a summand where a + name is split, such as a bias. "
        "Repeatable.",
        show_default=False,
    ),
]
Partial: TypeAlias = Annotated[
    str,
    typer.Option(
        "--partial",
        metavar="NAME",
        help="What joins the parts of a + split: sum, max, min, prod or avg.",
    ),
]
PolicyName: TypeAlias = Annotated[
    str,
    typer.Option(
        "--policy",
        metavar="NAME",
        help="data, tensor, sequence (or sequence+all-gather, sequence+all-to-all), "
        "experts, data+tensor, tensor+sequence, replicate, auto (the "
        "best that there is), or "
        "module:function for your own.",
    ),
]
StateName: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "--state",
        metavar="WORD",
        help="whole, optimizer or shared: how parameters are stored along axes that cut data; "
        "auto, with --policy auto: as is best; or by axis, dp=shared,cp=optimizer.",
    ),
]
Uneven: TypeAlias = Annotated[
    str,
    typer.Option(
        "--uneven",
        metavar="WORD",
        help="parameters, allow or refuse: whether lengths that are fixed by the model, all "
        "lengths, or none may be cut into unequal parts.",
    ),
]
Unequal: TypeAlias = Annotated[
    bool, typer.Option("--uneven", help="Where equal parts are not right, ask for unequal ones.")
]
UnequalCounts: TypeAlias = Annotated[
    bool | None,
    typer.Option(
        "--uneven/--even",
        help="Unequal parts: of an operator they are asked for; of a model lengths that are fixed "
        "by it may be cut so (usual), all lengths (--uneven), none (--even).",
        show_default=False,
    ),
]
MachineName: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "--machine",
        metavar="NAME",
        help="Of --policy auto: a100, h100, h200, b200, mi300x, a JSON file, or a .db that "
        "`dimsolve profile` has written.",
    ),
]
MemorySize: TypeAlias = Annotated[
    str | None,
    typer.Option("--memory", metavar="BYTES", help="Of --policy auto: of a rank, such as 80GiB."),
]
Seconds: TypeAlias = Annotated[
    float | None,
    typer.Option(
        "--seconds", min=0, help="Of --policy auto: the best plan found in so many is taken; 60."
    ),
]
Model: TypeAlias = Annotated[
    str, typer.Argument(metavar="TARGET", help="The model, such as model.py:tiny.")
]
Json: TypeAlias = Annotated[bool, typer.Option("--json", help="Print the answer as JSON.")]


def inputs_of(texts: list[str] | None) -> list[str | None] | None:
    """Returns one shape text per input; None for an input without a shape, and None for no inputs
    at all.

    >>> inputs_of(["8*s, k", "?"])
    ['8*s, k', None]
    """
    if not texts:
        return None
    return [None if text.strip() in ("", "?") else text.strip() for text in texts]


def size_of(text: str) -> int | str:
    """Returns the integer that a text writes out, or else the text: an expression for the reader.

    >>> size_of("8"), size_of("2*s")
    (8, '2*s')
    """
    return int(text) if re.fullmatch(r"-?[0-9]{1,18}", text.strip(), re.ASCII) else text.strip()


def arguments_of(
    texts: list[str] | None, option: str = "--arg", example: str = "h=8"
) -> dict[str, int | str]:
    """Returns arguments by name; typer.BadParameter where a text is not NAME=SIZE or a name comes
    twice.

    >>> arguments_of(["h=8", "t=2*s"])
    {'h': 8, 't': '2*s'}
    """
    arguments: dict[str, int | str] = {}
    for text in texts or ():
        name, equals, size = (part.strip() for part in text.partition("="))
        if not (equals and name.isidentifier() and size):
            raise typer.BadParameter(
                f"{text!r:.80} is not NAME=SIZE, such as {example}", param_hint=f"'{option}'"
            )
        if name in arguments:
            raise typer.BadParameter(f"{name!r:.80} is given twice", param_hint=f"'{option}'")
        arguments[name] = size_of(size)
    return arguments


def counts_of(text: str) -> tuple[int, ...]:
    """Returns counts; typer.BadParameter where the text is none.

    >>> counts_of("4"), counts_of("2,4, 8,4"), counts_of("2..5")
    ((4,), (2, 4, 8), (2, 3, 4, 5))
    """
    if found := re.fullmatch(r"\s*([0-9]{1,3})\s*\.\.\s*([0-9]{1,3})\s*", text):
        counts = tuple(range(int(found[1]), int(found[2]) + 1))
    elif re.fullmatch(r"\s*[0-9]{1,3}(\s*,\s*[0-9]{1,3})*\s*", text):
        counts = tuple(int(each) for each in text.split(","))
    else:
        counts = ()
    if not counts or min(counts) < 2:
        raise typer.BadParameter(
            f"{text!r:.80} does not say counts of 2 or more: write 4, or 2,4,8, or 2..16",
            param_hint="'--tp'",
        )
    return tuple(dict.fromkeys(counts))


def facts_of(texts: list[str] | None) -> list[str]:
    """Returns the facts as they are read."""
    return [text.strip() for text in texts or ()]


def split_of(text: str) -> str | tuple[int, int]:
    """Returns the identifier, or (index, dim) where the text is two integers.

    >>> split_of("k"), split_of("0,-1")
    ('k', (0, -1))
    """
    pair = re.fullmatch(r"\s*([0-9]{1,9})\s*,\s*(-?[0-9]{1,9})\s*", text)
    return (int(pair[1]), int(pair[2])) if pair else text.strip()
