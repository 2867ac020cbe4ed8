"""flex_attention as one operator, which is cut by batch and by heads.

    query (b, g*r, l, e), key (b, g, s, e), value (b, g, s, v)    -> (b, g*r, l, v), and statistics

The functions that change scores and masks read places: ``alibi(score, b, h, q, k)`` multiplies
with ``slopes[h]``, a mask of documents compares ``doc[b, q]`` with ``doc[b, k]``. On a rank b and h
count from the rank's own start. Where a tensor is only ever looked up at b or h, along a dimension
as long as the batch or the heads, it is cut with them, and the rank's own count is right for it.
All else a function does with b and h has the places in the whole: the rank's start is added.

    slopes[h]                  (heads,)       slopes is cut with the heads
    documents[b, q]            (batch, seq)   documents is cut with the batch
    2.0 ** -(h + 1)            none           (h + start)
    table[h // 4]              (heads // 4,)  table is whole, (h + start) // 4

A block mask is 1 long in batch and heads, or is cut with them. Rows and keys are never cut: masks
go by their places, in blocks.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from dimsolve.ir.graph import Value
from dimsolve.ir.operator import Declaration, Operator, register
from dimsolve.ir.types import TensorType
from dimsolve.partition.rules.rule import Part, TransformRule
from dimsolve.solver.algebra.poly import Dim
from dimsolve.solver.operators.declare.needs import quotient
from dimsolve.solver.operators.declare.writing import (
    Names,
    NotKnown,
    annotation,
    dims_of,
    is_tensor,
)

if TYPE_CHECKING:
    from torch import fx

TORCHS = "torch.ops.higher_order.flex_attention"
PATH = "dimsolve.exec.flex.attention"

BATCH, HEADS = "b", "g"
"""The identifiers of what may be cut: the batch, and the heads that have keys of their own."""


def attention(
    query: Any,
    key: Any,
    value: Any,
    score_mod: Any,
    block_mask: tuple[Any, ...],
    scale: float,
    kernel_options: dict[str, Any],
    score_others: tuple[Any, ...],
    mask_others: tuple[Any, ...],
    score_reads: tuple[str, ...] = (),
    mask_reads: tuple[str, ...] = (),
    repeats: int = 1,
    first: tuple[int, int] = (0, 0),
) -> tuple[Any, Any, Any]:
    """Returns what torch's operator does, of functions that `placed` has made.

    score_reads, mask_reads: along which dimensions the tensors that the functions hold are cut, as
    `placed` gives it. repeats: how many heads of queries share one of keys. first: the places of
    this part's first row of the batch, and of its first head.
    """
    import torch

    compute: Any = torch.ops.higher_order.flex_attention
    starts = tuple([torch.tensor(n, dtype=torch.int32, device=query.device) for n in first])
    scores, masks = (*score_others, *starts), (*mask_others, *starts)
    if torch.compiler.is_compiling():  # torch.compile finds by itself what functions hold
        score_mod = _holding(score_mod, scores)
        block_mask = (*block_mask[:-1], _holding(block_mask[-1], masks))
        scores = masks = ()
    mods = (score_mod, block_mask, scale, kernel_options)
    others = () if torch.compiler.is_compiling() else (scores, masks)
    found: tuple[Any, Any, Any] = compute(query, key, value, *mods, *others)
    return found


def _holding(function: Any, held: tuple[Any, ...]) -> Any:
    def call(*places: Any) -> Any:
        return function(*places, *held)

    return call


def _declare(
    query: Any,
    key: Any,
    value: Any,
    score_mod: Any,
    block_mask: tuple[Any, ...],
    scale: Any,
    kernel_options: Any,
    score_others: tuple[Any, ...],
    mask_others: tuple[Any, ...],
    score_reads: tuple[str, ...] = (),
    mask_reads: tuple[str, ...] = (),
    repeats: Dim = 1,
    first: Any = (0, 0),
) -> Declaration:
    shapes = [dims_of(each) for each in (query, key, value)]
    if any(len(shape) != 4 or None in shape for shape in shapes):
        raise NotKnown("the lengths of queries, keys and values are not known")
    names = Names((BATCH, HEADS, "r"))
    heads = HEADS if repeats == 1 else f"({HEADS} r^)"
    rows, keys, inner, outer = names.take(4, "^")
    batches = ["1" if shape[0] == 1 else BATCH for shape in shapes]
    shared = "1" if shapes[1][1] == 1 else HEADS
    own = "1" if shapes[0][1] == 1 else heads
    patterns = [
        [batches[0], own, rows, inner],
        [batches[1], shared, keys, inner],
        [batches[2], shared, keys, outer],
    ]
    words = {"b": batches[0], "h": own}
    lengths = {"b": shapes[0][0], "h": shapes[0][1]}
    inputs = [query, key, value]
    reads = [*("bh" for each in block_mask if is_tensor(each)), *score_reads, *mask_reads]
    held = [each for each in (*block_mask, *score_others, *mask_others) if is_tensor(each)]
    for each, letters in zip(held, reads, strict=True):
        row = [str(n) if isinstance(n, int) else names.one("^") for n in dims_of(each)]
        for place, letter in enumerate(letters):
            if letter in words and row[place] != "1":
                _check_mask(letter, each.shape[place], lengths[letter])
                row[place] = words[letter]
        patterns.append(row)
        inputs.append(each)
    out = [batches[0], own, rows]
    dtype = query.dtype
    return Declaration(
        annotation(patterns, [[*out, outer], out, out]),
        tuple(inputs),
        arguments={} if repeats == 1 or own == "1" else {"r": repeats},
        dtypes=(dtype, None, None),
        returns="tuple",
        separate=True,
        transform_rules=tuple([
            TransformRule(split=name, modifier=_from_start, sends=(), parts="unequal")
            for name, word in ((BATCH, batches[0]), (HEADS, own))
            if word != "1"
        ]),
    )  # fmt: skip


def _check_mask(letter: str, length: Any, wanted: Any) -> None:
    """Raises NotKnown for a block mask that is neither for one nor for all: torch begins anew."""
    if length != wanted:
        what = {"b": "rows of the batch", "h": "heads"}[letter]
        raise NotKnown(f"its block mask is for {length} {what}, and there are {wanted}")


def _from_start(arguments: Mapping[str, Any], part: Part) -> Mapping[str, Any]:
    """The call with the places at which this rank's part begins."""
    query, repeats = arguments["query"], arguments["repeats"]
    head = part[HEADS].start(query.shape[1] // repeats) * repeats
    return {**arguments, "first": (part[BATCH].start(query.shape[0]), head)}


_NAMES = (
    "query",
    "key",
    "value",
    "score_mod",
    "block_mask",
    "scale",
    "kernel_options",
    "score_others",
    "mask_others",
    "score_reads",
    "mask_reads",
    "repeats",
    "first",
)

register(
    Operator(
        "flex_attention",
        PATH,
        _declare,
        parameters=_NAMES,
        function=attention,
        defaults={"score_reads": (), "mask_reads": (), "repeats": 1, "first": (0, 0)},
    ),
    attention,
)


def placed(
    body: fx.GraphModule, places: int, held: Sequence[Any], lengths: Mapping[str, Dim]
) -> tuple[fx.GraphModule, tuple[str, ...]]:
    """Returns a function of scores or masks that takes two more arguments, the places at which the
    batch and the heads begin; and for each tensor that it holds along which dimensions it is cut
    with them: ``"b."`` of (batch, seq).

    places: at which of its arguments b stands. held: the values that it is given besides. lengths:
    of the batch, "b", and of the heads, "h".
    """
    import operator
    from copy import deepcopy

    module = deepcopy(body)
    graph = module.graph
    holes = graph.find_nodes(op="placeholder")
    index = {"b": holes[places], "h": holes[places + 1]}
    taken = holes[places + 4 :]
    reads: list[str] = []
    looked_up: set[tuple[fx.Node, fx.Node]] = set()  # (look-up, index)
    for hole, value in zip(taken, held, strict=True):
        if not isinstance(value, Value) or not isinstance(value.type, TensorType):
            continue
        letters = _letters(hole, index, value, lengths)
        reads.append(letters)
        looked_up |= {
            (user, index[letter]) for user in hole.users for letter in letters if letter in index
        }
    with graph.inserting_after(holes[-1]):
        second = graph.placeholder("first_head")
        first = graph.placeholder("first_row")
    graph.erase_node(second)
    with graph.inserting_after(first):
        second = graph.placeholder("first_head")
    for start, hole in ((first, index["b"]), (second, index["h"])):
        others = [user for user in hole.users if (user, hole) not in looked_up]
        if others:
            with graph.inserting_after(second):
                whole = graph.call_function(operator.add, (hole, start))
            for user in others:
                user.replace_input_with(hole, whole)
    module.recompile()
    return module, tuple(reads)


def _letters(
    hole: fx.Node, index: Mapping[str, fx.Node], value: Value, lengths: Mapping[str, Dim]
) -> str:
    """Along which dimensions every use of a tensor looks it up at b or h, and only there."""
    import operator

    dims = value.dims or ()
    letters = ["."] * len(dims)
    for place, length in enumerate(dims):
        for letter, node in index.items():
            at = [_index_at(user, hole, place, node, operator.getitem) for user in hole.users]
            if length == lengths[letter] and length != 1 and at and all(at):
                letters[place] = letter
    return "".join(letters)


def _index_at(user: fx.Node, hole: fx.Node, place: int, node: fx.Node, getitem: Any) -> bool:
    """Whether a use is a look-up at single places, of which only this one is this index."""
    from torch import fx

    if user.op != "call_function" or user.target is not getitem or user.args[0] is not hole:
        return False
    given = user.args[1]
    places = given if isinstance(given, tuple) else (given,)
    single = all(isinstance(each, fx.Node | int) for each in places)
    if not single or place >= len(places):
        return False
    return [number for number, each in enumerate(places) if each is node] == [place]


def call_of(
    args: Sequence[Any], score: fx.GraphModule, mask: fx.GraphModule
) -> tuple[fx.GraphModule, fx.GraphModule, dict[str, Any]]:
    """Returns the functions of a call of torch's operator as `attention` takes them, and what else
    it takes. args: the call's, as values of a graph.
    """
    query, key = args[0].dims, args[1].dims
    lengths = {"b": query[0], "h": query[1]}
    others = [tuple(args[7]) if len(args) > 7 else (), tuple(args[8]) if len(args) > 8 else ()]
    score, score_reads = placed(score, 1, others[0], lengths)
    mask, mask_reads = placed(mask, 0, others[1], lengths)
    repeats = 1 if key[1] == 1 else quotient("the share of query heads", query[1], key[1])
    return score, mask, {"score_reads": score_reads, "mask_reads": mask_reads, "repeats": repeats}
