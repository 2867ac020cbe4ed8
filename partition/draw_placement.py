"""A placement and a rule as pictures: what a rank has of one tensor, and of all of an operator.

    S(0)           [A] [B] [C]    dimension 0 is cut into equal parts, one a rank
    split k        S(1), S(0) -> P(sum)

The tensors are drawn as matrices on a mesh axis of three ranks; a colour is what one rank has.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import assert_never

from dimsolve.ir.palette import FAINT, INK
from dimsolve.ir.picture import EMPTY, Picture, chip, clipped, column, row, words

from .miniature import miniature
from .placement import Partial, Placement, Replicate, Shard
from .read_placement import read_placement
from .rules import Rule
from .transform import TransformRule

_RANKS = 3


def placement_svg(placement: Placement) -> str:
    """Returns a placement of a matrix on a mesh axis of three ranks, as SVG text."""
    picture = row(
        chip(clipped(str(placement), 60), INK, size=13),
        miniature(2, [placement], [_RANKS]),
        words(clipped(says(placement), 120), fill=FAINT),
        gap=14,
    )
    return picture.card(f"placement {clipped(str(placement), 400)}", clipped(says(placement), 400))


def says(placement: Placement) -> str:
    """Returns what a placement means, in words.

    >>> says(Shard(1, blocks=3))
    'dimension 1 is 3 blocks; a rank has an equal part of each'
    """
    match placement:
        case Shard(dim, 1, ()):
            return f"dimension {dim} is cut into equal parts, one a rank"
        case Shard(dim, blocks, ()):
            return f"dimension {dim} is {blocks} blocks; a rank has an equal part of each"
        case Shard(dim, blocks, segments):
            lengths = ":".join(map(str, segments))
            times = "" if blocks == 1 else f"{blocks} times "
            return f"dimension {dim} is {times}segments of {lengths}; a rank has a part of each"
        case Replicate():
            return "every rank has the whole tensor"
        case Partial(reduction):
            return f"every rank has a tensor of full size; their {reduction.value} is the value"
        case _:
            assert_never(placement)


def rule_svg(rule: Rule) -> str:
    """Returns the placements of all tensors when an identifier is split, as SVG text."""
    title = row(words("split", fill=FAINT), words(clipped(rule.name, 40), bold=True))
    picture = column(title, _sides(rule.inputs, rule.outputs), gap=10)
    inputs, outputs = (", ".join(map(str, side)) for side in (rule.inputs, rule.outputs))
    return picture.card(f"the split of {rule.name}", f"{inputs} -> {outputs}")


def transform_svg(transform: TransformRule) -> str:
    """Returns what a transform rule places, and what it changes, as SVG text."""
    split = "" if transform.split is None else str(transform).partition(": ")[0]
    title = row(words("split", fill=FAINT), words(split, bold=True)) if split else EMPTY
    changes = [
        f"{what} {getattr(function, '__qualname__', type(function).__name__)}"
        for what, function in (
            ("arguments changed by", transform.modifier),
            ("a rank runs", transform.local),
        )
        if function is not None
    ]
    notes = [words(clipped(change, 80), size=12, fill=FAINT) for change in changes]
    picture = column(title, _sides(transform.inputs, transform.outputs), *notes, gap=10)
    return picture.card("a transform rule", "; ".join([str(transform), *changes]))


def _sides(
    inputs: Sequence[Placement | str] | None, outputs: Sequence[Placement | str] | None
) -> Picture:
    """The inputs, an arrow, the outputs; None is as the marks give."""
    pictures: list[Picture] = []
    for placements in (inputs, outputs):
        if placements is None:
            pictures.append(words("as marked", fill=FAINT))
        for given in placements or ():
            placement = read_placement(given) if isinstance(given, str) else given
            rank = placement.dim + 1 if isinstance(placement, Shard) else 0
            drawn = miniature(max(2, rank), [placement], [_RANKS])
            pictures.append(column(chip(clipped(str(placement), 40), INK, size=12), drawn, gap=4))
        pictures.append(words("→", fill=FAINT))
    return row(*pictures[:-1], gap=16)
