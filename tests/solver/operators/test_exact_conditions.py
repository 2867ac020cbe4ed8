"""Law: with symbols for its sizes, every call of the catalogue has conditions that hold exactly
where torch accepts it, and there the shapes are torch's.

The oracle is torch at all small values of the symbols; a new entry is checked through its examples.
"""

from __future__ import annotations

from functools import cache

import pytest

from dimsolve.solver.algebra.poly import Dim, symbol
from dimsolve.solver.operators import canonical, paths, specimens
from dimsolve.solver.operators.catalogue import entries
from tests.oracles.torch_calls import Place, disagreements, variants

UNCHECKED = {
    **dict.fromkeys(
        [
            f"torch.{name}{end}"
            for name in ("lstm", "gru", "rnn_tanh", "rnn_relu")
            for end in ("", "_cell")
        ],
        "torch reads beyond the weights where their lengths do not fit",
    ),
    "torch.nn.functional.ctc_loss": "the lengths are in the data",
    "torch.unravel_index": "whether the places lie in the shape is in the data",
    "torch._weight_norm": "torch reads beyond the scales where their lengths do not fit",
    "torch.nn.functional.cosine_embedding_loss": "documented for one shape, broadcast all the same",
    "torch.nn.functional.multilabel_soft_margin_loss": "the same",
    **dict.fromkeys(
        [
            "torch.native_batch_norm",
            "torch._native_batch_norm_legit",
            "torch.ops.aten._batch_norm_with_update",
        ],
        "torch reads beyond the statistics where their lengths do not fit",
    ),
    **dict.fromkeys(
        ["torch.as_strided", "torch.as_strided_scatter"], "no shape tells how large a memory is"
    ),
    "torch.istft": "whether the windows overlap enough is in the data",
    "torch.lu_unpack": "torch reads beyond the pivots where there are too few",
    "torch.segment_reduce": "the lengths are in the data",
    "torch.linalg.solve": "whether the right side is a matrix depends on its lengths",
}
"""Callables that torch itself does not check, and why."""

NO_SIZE: dict[str, tuple[Place, ...]] = {
    "torch.mvlgamma": ((0, 1),),
    "torch.Tensor.polygamma": ((0, 1),),
    "torch.polygamma": ((0, 0),),
    "torch.linalg.matrix_power": ((0, 1),),
    "torch.linalg.matrix_norm": ((0, 1),),
    "torch.renorm": ((0, 1),),
    "torch.empty_permuted": ((0, 1, 0), (0, 1, 1)),
    **{f"torch.grid_sampler_{n}d": ((0, 2), (0, 3)) for n in (2, 3)},
    **{f"torch.nn.functional.lp_pool{n}d": ((0, 1),) for n in (1, 2, 3)},
}
"""Whole numbers among the arguments that are no sizes: orders, degrees and exponents."""

UNREAD = {"torch.nn.functional.scaled_dot_product_attention": ((0, 1, 2), (0, 2, 2))}
"""Lengths of keys and values, which torch does not compare with each other for grouped heads."""


def checked(path: str, sizes: dict[Place, Dim]) -> bool:
    places = set(sizes)
    numbers = set(NO_SIZE.get(path, ()))
    return not places & (numbers | set(UNREAD.get(path, ())))


@cache
def minus_one() -> Dim:
    found: Dim = symbol("s") - 4
    return found


@pytest.mark.parametrize("path", [path for path in entries() if path not in UNCHECKED])
def test_conditions_of_every_call_hold_exactly_where_torch_accepts_it(path: str) -> None:
    for call in specimens(path):
        for sizes in variants(call, pairs=False):
            if checked(path, sizes):
                found = [
                    one
                    for one in disagreements(path, call, sizes)
                    # A size that is computed is a length: it is never the word -1.
                    if not (minus_one() in sizes.values() and "'s': 3" in one.sizes)
                ]
                assert not found, found[0]


IN_PLACE = {
    "torch.Tensor.addbmm_": "torch makes a tensor of one row larger",
    "torch.Tensor.pow_": "whole numbers to negative powers are errors of values",
    "torch.Tensor.relu_": "the function's inplace is no parameter of the method",
}
"""Methods that are not checked, and why."""


@pytest.mark.parametrize(
    "path",
    [path for path in paths.IN_PLACE if path[:13] == "torch.Tensor." and path not in IN_PLACE],
)
def test_conditions_of_a_method_that_writes_hold_exactly_where_torch_accepts_it(path: str) -> None:
    """Nothing but what is broadcast has to fit the tensor that is written to."""
    base = canonical(path)
    assert base is not None
    for call in specimens(base):
        for sizes in variants(call, pairs=False):
            if checked(base, sizes):
                found = [
                    one
                    for one in disagreements(path, call, sizes)
                    if not (minus_one() in sizes.values() and "'s': 3" in one.sizes)
                ]
                assert not found, found[0]


def test_what_is_not_checked_is_in_the_catalogue() -> None:
    assert {*UNCHECKED, *NO_SIZE, *UNREAD} - {"torch.lstm"} <= {*entries(), *UNCHECKED}


def test_rows_that_are_written_in_place_need_not_be_as_many_as_there_are() -> None:
    import dimsolve as ds

    for name in ("index_copy_", "index_add_"):
        with ds.Graph() as graph:
            x = graph.input("x", "2, n, 8", "float32")
            rows = graph.input("rows", "m", "int64")
            graph.output(
                graph.call(f"torch.Tensor.{name}", x, 1, rows, graph.input("y", "2, m, 8"))
            )
        assert not graph.system.conditions
    with ds.Graph() as graph:
        x = graph.input("x", "n, p", "float32")
        factors = graph.input("a", "n, k", "float32"), graph.input("b", "k, p", "float32")
        graph.output(graph.call("torch.Tensor.addmm_", x, *factors))
    assert not graph.system.conditions
