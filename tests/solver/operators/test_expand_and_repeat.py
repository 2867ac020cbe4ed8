"""Laws of expand and repeat: sizes and errors as designed, the sizes of a rank follow from its
lengths, every split that OneFlow lists is legal here, and what is legal beyond those is equal to
the whole.
"""

from __future__ import annotations

import json
from math import prod
from pathlib import Path
from typing import Any

import pytest
import torch

from dimsolve.exec.calls import Arguments, Call, local_arguments
from dimsolve.exec.distributed.sharding import local_part
from dimsolve.exec.verification.verify import verify
from dimsolve.ir.annotation import Mark
from dimsolve.ir.errors import ShapeError
from dimsolve.partition.placement import Shard
from dimsolve.partition.rules.rule import Rule, rule_of
from dimsolve.solver.algebra.poly import symbol
from dimsolve.solver.infer import infer
from dimsolve.solver.operators import find
from dimsolve.solver.solution import Solution

CASES = json.loads((Path(__file__).parents[2] / "data" / "expand_and_repeat.json").read_text())


class StandIn:
    dtype = "float32"

    def __init__(self, *shape: Any) -> None:
        self.shape = shape


def operator(path: str) -> Any:
    found = find(path)
    assert found is not None
    return found


def solve(path: str, *args: Any) -> tuple[Any, Solution]:
    declaration = operator(path).declare(*args)
    shapes = [tuple(x.shape) for x in declaration.inputs]
    return declaration, infer(declaration.annotation, shapes, arguments=declaration.arguments)


def legal(solution: Solution) -> dict[str, tuple[Shard | None, Shard]]:
    """Every identifier that may be cut: where the input and the output are cut, the input perhaps
    nowhere.
    """
    found = {}
    for name, mark in solution.layout.marks.items():
        rule = rule_of(solution, name)
        if mark is Mark.FROZEN or not isinstance(rule, Rule):
            continue
        (before,), (after,) = rule.inputs, rule.outputs
        assert isinstance(after, Shard)
        found[name] = (before if isinstance(before, Shard) else None, after)
    return found


@pytest.mark.parametrize("case", CASES["expand"], ids=str)
def test_expand_has_the_recorded_shape_and_splits(case: dict[str, Any]) -> None:
    tensor = torch.arange(float(prod(case["shape"])), dtype=torch.float64).reshape(case["shape"])
    declaration, solution = solve("torch.Tensor.expand", tensor, *case["sizes"])
    assert (
        list(solution.output_dims[0] or ())
        == case["result"]
        == list(tensor.expand(case["sizes"]).shape)
    )
    pairs = {(b.dim, a.dim) for b, a in legal(solution).values() if b is not None}
    assert {(i, j) for i, j in case["splits"]} <= pairs
    assert declaration.linear == ((0,),)
    assert verify("torch.Tensor.expand", args=(tensor, *case["sizes"])).ok


@pytest.mark.parametrize("case", [c for c in CASES["expand"] if "rank" in c], ids=str)
def test_a_rank_expands_to_its_own_sizes(case: dict[str, Any]) -> None:
    tensor = torch.zeros(case["shape"])
    call = Call(operator("torch.Tensor.expand"), Arguments((tensor, *case["sizes"]), {}))
    _, solution = solve("torch.Tensor.expand", tensor, *case["sizes"])
    name = next(n for n, (b, _) in legal(solution).items() if b is not None and b.dim == 0)
    lengths = {n: v for n, v in solution.values.items() if isinstance(v, int)}
    lengths[name] //= 2
    part = local_part(tensor, Shard(0), 0, 2)
    (place,) = call.input_places
    assert place is not None
    arguments = local_arguments(call, {place: part}, lengths, ())
    assert list(arguments.args[1:]) == case["rank"]
    assert list(part.expand(*arguments.args[1:]).shape) == case["rank"]


def test_the_seed_example_on_a_rank() -> None:
    """x (4, 3, 1, 2), S(3) over two ranks: logical sizes (2, 4, 3, 4, 2) are physical (2, 4, 3, 4,
    1).
    """
    tensor = torch.zeros(4, 3, 1, 2)
    call = Call(operator("torch.Tensor.expand"), Arguments((tensor, 2, 4, 3, 4, 2), {}))
    _, solution = solve("torch.Tensor.expand", tensor, 2, 4, 3, 4, 2)
    assert str(solution.annotation) == "b c 1 e -> a b c d e"
    lengths = {n: v for n, v in solution.values.items() if isinstance(v, int)} | {"e": 1}
    (place,) = call.input_places
    assert place is not None
    arguments = local_arguments(call, {place: torch.zeros(4, 3, 1, 1)}, lengths, ())
    assert arguments.args[1:] == (2, 4, 3, 4, 1)


@pytest.mark.parametrize("shape, order, sizes", CASES["strides"], ids=str)
def test_expand_of_any_strides(shape: list[int], order: list[int] | None, sizes: list[int]) -> None:
    tensor = torch.randn(shape, dtype=torch.float64)
    if order is not None:
        tensor = tensor.permute(order)
    assert verify("torch.Tensor.expand", args=(tensor, *sizes)).ok


def test_new_and_expanded_dimensions_may_be_cut_too() -> None:
    """OneFlow cuts neither; each rank makes its part of them here."""
    tensor = torch.randn(12, 1, dtype=torch.float64)
    _, solution = solve("torch.Tensor.expand", tensor, 4, 12, 6)
    splits = legal(solution)
    assert splits == {"a": (None, Shard(0)), "b": (Shard(0), Shard(1)), "c": (None, Shard(2))}
    verification = verify("torch.Tensor.expand", args=(tensor, 4, 12, 6))
    assert verification.splits == {"a": (2, 4), "b": (2, 3, 4), "c": (2, 3)}


@pytest.mark.parametrize("case", CASES["repeat"], ids=str)
def test_repeat_has_the_recorded_shape_and_is_reshape_expand_reshape(case: dict[str, Any]) -> None:
    tensor = torch.arange(float(prod(case["shape"])), dtype=torch.float64).reshape(case["shape"])
    _, solution = solve("torch.Tensor.repeat", tensor, *case["counts"])
    result = tensor.repeat(case["counts"])
    assert list(solution.output_dims[0] or ()) == case["result"] == list(result.shape)
    first, second, third = case["steps"]
    assert torch.equal(tensor.reshape(first).expand(second).reshape(third), result)
    for path, args in (
        ("torch.Tensor.reshape", (tensor, first)),
        ("torch.Tensor.expand", (tensor.reshape(first), second)),
        ("torch.Tensor.reshape", (tensor.reshape(first).expand(second), third)),
    ):
        assert solve(path, *args)[1].output_dims[0] == tuple(operator_result(path, *args).shape)


def operator_result(path: str, tensor: torch.Tensor, *sizes: Any) -> torch.Tensor:
    result: torch.Tensor = getattr(tensor, path.rpartition(".")[2])(*sizes)
    return result


def test_repeat_may_be_cut_in_copies_and_inside_every_copy() -> None:
    """A repeated length is cut in all copies at once, for which OneFlow has no signature."""
    tensor = torch.randn(4, 6, dtype=torch.float64)
    declaration, solution = solve("torch.Tensor.repeat", tensor, 2, 3)
    assert declaration.annotation == "b d -> (a b) (c d)"
    assert legal(solution) == {
        "a": (None, Shard(0)),
        "b": (Shard(0), Shard(0, blocks=2)),
        "c": (None, Shard(1)),
        "d": (Shard(1), Shard(1, blocks=3)),
    }
    assert verify("torch.Tensor.repeat", args=(tensor, 2, 3)).splits == {
        "a": (2,),
        "b": (2, 4),
        "c": (3,),
        "d": (2, 3),
    }


def test_sizes_may_be_symbols() -> None:
    batch, seq = symbol("batch"), symbol("seq")
    declaration, solution = solve("torch.Tensor.expand", StandIn(batch, 1, seq), -1, 8, seq)
    assert declaration.annotation == "a 1 c -> a b c"
    assert solution.output_dims == ((batch, 8, seq),)
    _, solution = solve("torch.Tensor.repeat", StandIn(seq, 4), batch, 1)
    assert solution.output_dims == ((batch * seq, 4),)


ERRORS = [
    (
        "torch.Tensor.expand",
        (StandIn(4, 3), 3),
        """there are fewer sizes than dimensions
  (4, 3) has 2 dimensions, (3,) has 1 size
  hint: the number of sizes must be at least the number of dimensions""",
    ),
    (
        "torch.Tensor.expand",
        (StandIn(4, 1), 4, -2),
        """a size is negative
  -2 in (4, -2)
  hint: a size is 0 or more""",
    ),
    (
        "torch.Tensor.expand",
        (StandIn(4), -1, 4),
        """a new dimension needs a size
  size 0 of (-1, 4) is -1, and the tensor has no such dimension to keep
  hint: -1 keeps a length; write the length of a new dimension""",
    ),
    (
        "torch.Tensor.expand",
        (StandIn(4, 3), 4, 6),
        """only a dimension of length 1 can be expanded
  (4, 3) to (4, 6): length 3 cannot become 6
  hint: the size can be 3 or -1""",
    ),
    (
        "torch.Tensor.repeat",
        (StandIn(4, 3), 2),
        """there are fewer repeat counts than dimensions
  (4, 3) has 2 dimensions, (2,) has 1 count
  hint: the number of counts must be at least the number of dimensions""",
    ),
    (
        "torch.Tensor.repeat",
        (StandIn(4), -1),
        """a size is negative
  -1 in (-1,)
  hint: a size is 0 or more""",
    ),
]


@pytest.mark.parametrize("path, args, text", ERRORS)
def test_every_rule_has_its_error(path: str, args: tuple[Any, ...], text: str) -> None:
    with pytest.raises(ShapeError) as caught:
        operator(path).declare(*args)
    assert str(caught.value) == text
    tensor = torch.zeros(args[0].shape)
    with pytest.raises(RuntimeError):
        operator_result(path, tensor, *args[1:])
