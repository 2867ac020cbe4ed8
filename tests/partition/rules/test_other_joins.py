"""Law: what is joined in another way than the annotation has is that of one device, gradients too,
of equal, unequal and empty parts, with ties, NaN and infinity.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import inf, nan
from typing import Any

import pytest
import torch
from torch import Tensor

import dimsolve as ds
from dimsolve.exec.calls import Arguments, Call
from dimsolve.exec.verification.check_whole import checked_whole
from dimsolve.exec.verification.split_run import Cuts, cut, run_split
from dimsolve.exec.verification.verify import operator_for

FEW = torch.randint(-1, 3, (7, 5), generator=torch.Generator().manual_seed(0)).double()
"""Many elements are equal."""
ODD = FEW.clone()
ODD[2, 3], ODD[4, 1], ODD[5], ODD[:, 4] = nan, inf, inf, -inf
PLACES = torch.randint(0, 3, (7, 5), generator=torch.Generator().manual_seed(1))


def written(x: Tensor, reduce: str, **more: Any) -> list[tuple[str, tuple[Any, ...], Any]]:
    """scatter_reduce along the rows, whose places 3 and 4 nothing writes to, and index_reduce."""
    base = FEW[:5] * 1.0
    return [
        ("torch.scatter_reduce", (base, 0, PLACES, x, reduce), more),
        ("torch.index_reduce", (base, 0, PLACES[:, 0], x, reduce), more),
    ]


CALLS: list[tuple[str, tuple[Any, ...], dict[str, Any]]] = [
    *(
        call
        for x in (FEW, ODD)
        for reduce in ("amax", "amin")
        for include_self in (True, False)
        for call in written(x, reduce, include_self=include_self)
    ),
    *(("torch.linalg.matrix_norm", (x, o), {}) for x in (FEW, ODD) for o in (1, -1, inf, -inf)),
    ("torch.linalg.matrix_norm", (torch.stack([FEW, ODD]), inf, (2, 0), True), {}),
    *(("torch.cdist", (x, FEW[:3]), {"p": p}) for x in (FEW, ODD) for p in (0, 1)),
    *(
        ("torch.isin", (x, FEW[0]), {"invert": invert})
        for x in (FEW, ODD)
        for invert in (False, True)
    ),
    ("torch.isin", (ODD, torch.tensor([nan, inf])), {}),
    ("torch.nn.functional.kl_div", (FEW, FEW.abs()), {"reduction": "batchmean"}),
    ("torch.nn.functional.kl_div", (ODD, FEW.abs()), {"reduction": "batchmean"}),
    *(("torch.rot90", (FEW, turns), {}) for turns in (-1, 0, 1, 3, 4)),
    *((f"torch.{name}", (x,), {"dim": 0}) for name in ("any", "all") for x in (FEW, ODD)),
    ("torch.linalg.solve_ex", (torch.eye(5).double() + 1, FEW.T.contiguous()), {}),
    ("torch.linalg.solve_ex", (torch.eye(5).double() + 1, FEW), {"left": False}),
    ("torch.linalg.solve_ex", (torch.zeros(5, 5).double(), FEW.T.contiguous()), {}),
    ("torch.triangular_solve", (FEW.T.contiguous(), torch.eye(5).double() + 1), {}),
    ("torch.fft.rfft", (FEW, None, 1), {}),
    ("torch.nn.functional.dropout1d", (FEW, 0.5, False), {}),
    # index_reduce takes places in int32; gather reads such places, expanded, beside them
    ("torch.index_reduce", (FEW[:5] * 1.0, 0, PLACES[:, 0].int(), FEW, "amax"), {}),
    # A bag of nothing looks up the first row, which is infinite here
    ("torch.nn.functional.embedding_bag", (PLACES + 1, ODD.flip(0)), {"mode": "mean"}),
    # The mean of nothing at all is NaN
    ("torch.mean", (FEW[:, :0],), {}),
    ("torch.nn.functional.mse_loss", (FEW[:, :0], FEW[:, :0]), {}),
]
NAMES = {
    "torch.scatter_reduce": "c",
    "torch.index_reduce": "c",
    "torch.nn.functional.kl_div": "b",
    "torch.linalg.solve_ex": "k",
    "torch.triangular_solve": "k",
}
"""The identifier that a rule of its own splits, of calls with others."""


def cuts_of(path: str, args: Any, kwargs: Any) -> Iterator[tuple[Any, Cuts]]:
    """Every split of a call that is legal, into parts that may be unequal and empty."""
    leaves = [x.clone().requires_grad_(x.is_floating_point()) if _tensor(x) else x for x in args]
    whole = checked_whole(Call(operator_for(path), Arguments(tuple(leaves), kwargs)), 0)
    for name in whole.solution.layout.marks:
        for count in (2, 3, 5, 7, 8):
            found = cut(whole.solution, whole.call.declaration, ((name, count),), uneven=True)
            if isinstance(found, Cuts):
                yield whole, found


def _tensor(value: Any) -> bool:
    return isinstance(value, Tensor)


@pytest.mark.parametrize("call", CALLS, ids=lambda call: f"{call[0]} {call[2]}")
def test_parts_are_joined_to_the_whole(call: tuple[str, tuple[Any, ...], dict[str, Any]]) -> None:
    split = set()
    for whole, cuts in cuts_of(*call):
        outcome = run_split(whole, cuts, 0)
        assert outcome.ok, (cuts.splits, outcome.error or outcome.worst)
        split.add(cuts.splits[0][0])
    assert split and split >= {NAMES.get(call[0], next(iter(split)))}


@pytest.mark.parametrize(
    ("asked", "shapes", "split", "arguments"),
    [
        ("torch.cdist", ["7, 5", "3, 5"], "c", {"p": 2.0}),
        ("torch.cdist", ["7, 5", "3, 5"], "c", {"p": inf}),
        ("torch.isin", ["7", "5"], "b", {"assume_unique": True}),
        ("torch.linalg.matrix_norm", ["7, 5"], "a", {"ord": 1}),
        ("torch.linalg.matrix_norm", ["7, 5"], "b", {"ord": 2}),
        ("torch.rot90", ["7, 5"], "b", {"k": 1}),
        *(("torch.rot90", ["7, 5"], "a", {"k": turns}) for turns in (2, 3)),
        ("torch.nn.functional.dropout1d", ["3, 7, 5"], "c", {"p": 0.5, "training": True}),
    ],
)
def test_what_is_not_so_joined_stays_refused(
    asked: str, shapes: list[str], split: str, arguments: dict[str, Any]
) -> None:
    """With other arguments no word joins these parts."""
    answer = ds.check(asked, shapes, split, 5, arguments=arguments, uneven=True)
    assert answer.verdict == "illegal" and "marked '^'" in answer.reason
