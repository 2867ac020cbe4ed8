"""Rules of operators in the words of DTensor, Shardy and JAX are accepted there, and right."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import dimsolve as ds
from dimsolve.ir.errors import OperatorError

from ..oracles.ranks import world
from .dtensor_ranks import run_operator, run_parallelized

# Grouped keys, biases, tied tables, norms without weights, rotary of a part, layers without it.
PARALLELIZED = ["llama", "mistral", "qwen2", "gemma", "starcoder2", "olmo", "arcee", "helium"]
PARALLELIZED += ["smollm3", "nemotron"]

CASES: list[tuple[str, list[str], dict[str, int], str]] = [
    (
        "m k+, k+ n -> m n",
        ["8, 4", "4, 6"],
        {},
        "#sdy.op_sharding_rule<([i, j], [j, k])->([i, k]) {i=8, j=4, k=6} reduction={j}>",
    ),
    (
        "(h t) k+, k+ n -> h t n",
        ["6, 4", "4, 5"],
        {"h": 2},
        "#sdy.op_sharding_rule<([ij, k], [k, l])->([i, j, l]) {i=2, j=3, k=4, l=5} reduction={k}>",
    ),
    (
        "a b^ -> a b^",
        ["4, 5"],
        {},
        "#sdy.op_sharding_rule<([i, j])->([i, j]) {i=4, j=5} need_replication={j}>",
    ),
    (
        "* d -> * d",
        ["2, 3, 4"],
        {},
        "#sdy.op_sharding_rule<([i, j, k])->([i, j, k]) {i=2, j=3, k=4}>",
    ),
    (
        "(a b) -> (b a)",
        ["6"],
        {"a": 2},
        "#sdy.op_sharding_rule<([ij])->([ji]) {i=2, j=3}>",
    ),
]


@pytest.mark.parametrize(("annotation", "inputs", "arguments", "text"), CASES)
def test_shardy_and_jax_read_what_is_written(
    annotation: str, inputs: list[str], arguments: dict[str, int], text: str
) -> None:
    from jax._src import custom_partitioning_sharding_rule as jax_rule
    from jax._src.interpreters import mlir
    from jax._src.lib.mlir import ir

    written = ds.to_shardy(annotation, inputs, arguments=arguments)
    assert str(written) == text
    shapes = [[int(size) for size in shape.split(",")] for shape in inputs]
    outputs = ds.infer(annotation, inputs, arguments=arguments).outputs
    with mlir.make_ir_context(), ir.Location.unknown():
        assert str(ir.Attribute.parse(text)) == text
        read = jax_rule.str_to_sdy_sharding_rule(
            written.rule,
            reduction_factors=written.reduction,
            need_replication_factors=written.replicated,
            **written.factor_sizes,
        )
        types = [
            [ir.RankedTensorType.get([int(n) for n in shape], ir.F32Type.get()) for shape in side]
            for side in (shapes, outputs)
        ]
        made = str(jax_rule.sdy_sharding_rule_to_mlir(read, *types))
    assert made.replace(", custom>", ">") == text


@pytest.mark.parametrize(
    ("annotation", "inputs", "reason"),
    [
        ("a, ? -> a", ["4", None], "an operand is '?'"),
        ("a a -> a", ["4, 4"], "a name stands twice in operand 0"),
        ("a b -> a", None, "the length of a is a, no number"),
        ("-> 4", [], "it has no operand, and Shardy reads no rule without one"),
    ],
)
def test_what_shardy_cannot_say_is_refused(annotation: str, inputs: Any, reason: str) -> None:
    with pytest.raises(ds.DimsolveError) as raised:
        ds.to_shardy(annotation, inputs)
    assert reason in str(raised.value)


def test_strategies_are_the_placements_that_the_rules_prove() -> None:
    import torch

    strategies = ds.to_register_sharding("torch.mm")(torch.ones(4, 6), torch.ones(6, 8))
    texts = {(str(outputs), str(inputs)) for outputs, inputs in strategies}
    assert ("[Replicate()]", "[Replicate(), Replicate()]") in texts
    assert ("[Shard(dim=0)]", "[Shard(dim=0), Replicate()]") in texts
    assert ("[Partial(sum)]", "[Shard(dim=1), Shard(dim=0)]") in texts
    assert len(texts) == 4


def test_a_mean_is_over_no_dimension_in_parts() -> None:
    """DTensor's parts may have unequal lengths: see docs/dtensor-rules.md."""
    import torch

    strategies = ds.to_register_sharding("torch.nn.functional.mse_loss")
    assert len(strategies(torch.ones(4, 6), torch.ones(4, 6))) == 1
    assert len(strategies(torch.ones(4, 6), torch.ones(4, 6), reduction="sum")) == 3


def test_the_rules_that_the_page_calls_wrong_are_wrong_in_the_torch_that_it_names() -> None:
    """Another torch may have mended some, or raise; then the page has to say so."""
    import torch

    script = Path(__file__).resolve().parents[2] / "docs" / "scripts" / "dtensor_rules.py"
    run = subprocess.run([sys.executable, script], capture_output=True, text=True, check=True)
    said = dict(line.split() for line in run.stdout.splitlines())
    assert len(said) == 11
    if torch.__version__.startswith("2.13."):
        assert set(said.values()) == {"wrong"}


def test_every_tensor_of_a_list_has_a_placement() -> None:
    import torch

    strategies = ds.to_register_sharding("torch.cat")([torch.ones(4, 6), torch.ones(4, 2)], 1)
    assert [str(row) for row in strategies] == [
        "([Replicate()], [Replicate(), Replicate(), None])",
        "([Shard(dim=0)], [Shard(dim=0), Shard(dim=0), None])",
    ]


def test_a_length_that_is_an_argument_is_not_cut() -> None:
    """DTensor gives every rank the sizes of the whole; -1 is none of them."""
    import torch

    strategies = ds.to_register_sharding("torch.reshape")(torch.ones(4, 6), (4, 2, 3))
    assert len(strategies) == 1
    squeezed = ds.to_register_sharding("torch.squeeze")
    assert len(squeezed(torch.ones(4, 1, 6))) == 1  # of a part of one row it would drop more
    assert len(squeezed(torch.ones(4, 1, 6), 1)) == 3


def test_an_operator_that_draws_is_refused() -> None:
    import torch

    with pytest.raises(OperatorError, match="dropout draws random numbers, each rank its own"):
        ds.to_register_sharding("torch.nn.functional.dropout")(torch.ones(4), 0.5, True)


def test_dtensor_gives_what_one_device_does_by_our_strategies() -> None:
    """A sample of `python -m tests.engines.dtensor exports`, in a process of its own."""
    paths = ["torch.cat", "torch.squeeze", "torch.nn.functional.linear"]
    command = [sys.executable, "-W", "ignore", "-m", "tests.engines.dtensor", "exports", *paths]
    run = subprocess.run(command, capture_output=True, text=True, check=True)
    *others, last = run.stdout.splitlines()
    assert others[0].startswith("equal: ") and last.startswith("no part may be empty: ")
    assert len(others) == 1


def test_a_dimension_of_two_factors_is_not_cut_for_any_count() -> None:
    import torch

    strategies = ds.to_register_sharding("(a 2) -> a 2")(torch.ones(6))
    assert len(strategies) == 1


def test_an_operator_that_writes_is_refused() -> None:
    with pytest.raises(OperatorError, match="writes to its inputs"):
        ds.to_register_sharding("torch.Tensor.add_")


@pytest.mark.parametrize("placements", [("S0", "R"), ("S1", "S0"), ("R", "S1"), ("R", "R")])
def test_dtensor_computes_what_one_device_does(placements: tuple[str, str]) -> None:
    answers = world(2).run(
        run_operator, "product", "m k+, k+ n -> m n", ((4, 6), (6, 8)), placements
    )
    assert [equal for equal, _ in answers] == [True, True]


@pytest.mark.parametrize("folder", PARALLELIZED)
def test_parallelize_module_runs_our_plan_as_one_device(folder: str) -> None:
    for answer in world(2).run(run_parallelized, folder):
        assert answer["outputs"] < 1e-12
        assert answer["gradients"] < 1e-12
