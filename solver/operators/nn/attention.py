"""Attention.

    scaled_dot_product_attention(q, k, v)    b h l e^, b h s^ e^, b h s^ v -> b h l v
    with is_causal                           l^: a row must know where it stands
    with enable_gqa, 32 query on 8 key heads b (g r) l e^, b g s^ e^, b g s^ v -> b (g r) l v
    with a mask (b, 1, l, s)                 the mask is cut with b and l

``s`` stays whole, as the softmax runs over it, and so does ``e``: the softmax of a sum is no sum.
"""

from __future__ import annotations

from typing import Any

from dimsolve.ir.operator import Declaration

from ..declare import errors
from ..declare.dtypes import dtype_of
from ..declare.entry import example, functional, mask, shapes, t
from ..declare.needs import quotient
from ..declare.writing import (
    Lengths,
    Names,
    NotKnown,
    annotation,
    bare,
    dims_of,
    freeze_some,
    group,
)
from ..elementwise.pointwise import broadcast, laid_on


def scaled_dot_product_attention(
    query: Any,
    key: Any,
    value: Any,
    attn_mask: Any = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: Any = None,
    enable_gqa: bool = False,
) -> Declaration:
    """Declares attention; with ``enable_gqa`` the query heads of a group share a key head."""
    shapes = [
        dims_of(x, w) for x, w in ((query, "the query"), (key, "the key"), (value, "the value"))
    ]
    for shape in shapes:
        if len(shape) < 2:
            raise errors.wrong_rank("attention", "a tensor", shape, "at least 2 dimensions")
    names = Names()
    if enable_gqa:
        leading, output, arguments = _grouped_heads(shapes, names)
    else:
        spread = broadcast([shape[:-2] for shape in shapes], names)
        leading, output, arguments = spread.inputs, spread.output, spread.arguments
    rows, keys = names.one("^" if is_causal else ""), names.one("^")
    inner, outer = names.one("^"), names.one()
    patterns = [[*leading[0], rows, inner], [*leading[1], keys, inner], [*leading[2], keys, outer]]
    inputs = [query, key, value]
    doubtful: set[str] = set()
    if attn_mask is not None:
        words = _of_scores(output, leading[:2])
        spread_to = dict(zip(output, _lengths(output, leading, shapes, arguments), strict=True))
        lengths = [1 if word == "1" else spread_to[word] for word in words]
        lengths += [shapes[0][-2], shapes[1][-2]]
        given = dims_of(attn_mask, "the mask")
        row, doubtful = _mask_row(given, [*words, rows, keys], lengths, names)
        patterns.append(row)
        inputs.append(attn_mask)
    return Declaration(
        freeze_some(annotation(patterns, [[*output, rows, outer]]), doubtful),
        tuple(inputs),
        arguments=arguments,
        dtypes=(dtype_of(query),),
        random=dropout_p != 0,
        linear=() if dropout_p else ((2,),),
    )


def _grouped_heads(
    shapes: list[Lengths], names: Names
) -> tuple[list[list[str]], list[str], dict[str, Any]]:
    """The leading words when each key head serves several query heads: ``(g r)`` beside ``g``."""
    if any(len(shape) < 3 for shape in shapes):
        raise errors.wrong_rank("grouped attention", "a tensor", shapes[0], "at least 3 dimensions")
    queries, keys, values = (shape[-3] for shape in shapes)
    if queries is None or keys is None or keys != values:
        raise NotKnown("the numbers of heads are not known to fit")
    share = quotient("the share of query heads", queries, keys)
    spread = broadcast([shape[:-3] for shape in shapes], names)
    heads = "1" if keys == 1 else names.one()
    repeats = "1" if share == 1 else names.one()
    wide = group(heads, repeats)
    arguments = dict(spread.arguments)
    if repeats != "1" and heads != "1":
        arguments[repeats] = share
    leading = [[*spread.inputs[0], wide], [*spread.inputs[1], heads], [*spread.inputs[2], heads]]
    return leading, [*spread.output, wide], arguments


def _lengths(
    output: list[str], leading: list[list[str]], shapes: list[Lengths], arguments: dict[str, Any]
) -> list[Any]:
    """The lengths of the leading words of the output."""
    known: dict[str, Any] = {}
    for words, shape in zip(leading, shapes, strict=True):
        known.update({w: n for w, n in zip(words, shape[:-2], strict=True) if n is not None})
    return [1 if w == "1" else known.get(w, arguments.get(bare(w))) for w in output]


def _of_scores(output: list[str], leading: list[list[str]]) -> list[str]:
    """The leading words of the scores, which the value's batch does not spread: where the query
    and the key have 1, a mask has 1 too.
    """
    found = list(output)
    for place in range(1, len(found) + 1):
        if all(words[-place] == "1" for words in leading if len(words) >= place):
            found[-place] = "1"
    return found


def _mask_row(
    dims: Lengths, scores: list[str], lengths: list[Any], names: Names
) -> tuple[list[str], set[str]]:
    """The words of a mask that is broadcast to the scores, and which of them stay whole."""
    if len(dims) > len(scores):
        raise errors.wrong_rank("attention", "the mask", dims, f"at most {len(scores)} dimensions")
    return laid_on(dims, lengths, scores, names)


_Q, _K, _V = t(2, 4, 12, 6), t(2, 4, 8, 6), t(2, 4, 8, 12)

ENTRIES = (
    functional(
        scaled_dot_product_attention,
        example(_Q, _K, _V),
        example(_Q, _K, _V, mask(2, 1, 12, 8), scale=0.25),
        example(_Q, _K, _V, t(12, 8)),
        example(_Q, _K, _V, is_causal=True),
        example(t(2, 12, 8, 6), t(2, 4, 8, 6), t(2, 4, 8, 6), enable_gqa=True),
        example(t(2, 12, 8, 6), t(2, 2, 8, 6), t(2, 2, 8, 6), t(2, 12, 8, 8), enable_gqa=True),
        *shapes("12 8 6, 12 4 6, 12 4 6"),
    ),
)
