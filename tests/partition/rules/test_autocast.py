"""Law: under autocast a cut function gives the dtypes that torch gives on one device, and the
values to their rounding.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.utils._pytree import tree_map

from dimsolve.exec.calls import Arguments, Call, function_of, resolve
from dimsolve.exec.distributed.collectives import MeshPart
from dimsolve.exec.distributed.sharding import cut_rows, join_parts, products_of_others
from dimsolve.exec.verification.check_whole import checked_whole
from dimsolve.exec.verification.split_run import Cuts, cut, run_split
from dimsolve.exec.verification.whole import Whole
from dimsolve.ir.operator import Declaration, Operator
from dimsolve.partition.placement import Shard
from dimsolve.partition.rules import averages, losses, normalization, rows
from dimsolve.partition.rules.autocast import ALL, MARK
from dimsolve.partition.rules.table import RULES, with_rules
from dimsolve.solver.operators import find
from dimsolve.solver.operators.catalogue import entries

OF_TORCH = {
    *(losses.weighted_mse, losses.weighted_l1, normalization.group_norm_parts),
    *(*averages.LOCAL.values(), *rows.LOCAL.values(), *rows.ALONE.values(), *rows.LOSSES.values()),
}
"""What calls the torch function that it stands for: autocast casts there as it does anywhere."""

NO_HALF = {
    *(f"torch.{name}" for name in rows.LOCAL),
    *(*rows.ALONE, "torch.triangular_solve", "torch.linalg.solve_ex"),
}
SHOWN = sorted(path for path in RULES if entries()[path].examples and path not in NO_HALF)
"""Products of groups have none: torch has kernels for few dtypes, and autocast leaves them be. Of
recurrent layers, transforms and systems torch has none for float16 on a CPU.
"""

HALF = [torch.bfloat16, torch.float16]

ATEN = {
    "torch.nn.functional.cross_entropy": {"cpu": "cross_entropy_loss", "cuda": "nll_loss"},
    "torch.nn.functional.nll_loss": {"cpu": "nll_loss", "cuda": "nll_loss"},
    "torch.norm": {"cuda": "norm.ScalarOpt_dim"},
    "torch.linalg.vector_norm": {"cuda": "linalg_vector_norm"},
    "torch.linalg.norm": {"cuda": "linalg_vector_norm"},
    "torch.linalg.matrix_norm": {"cuda": "linalg_matrix_norm"},
    "torch.dist": {"cuda": "dist"},
}
"""What torch registers for autocast of the functions with code of ours: the function itself, or the
last one that it is made of."""


def under(dtype: torch.dtype, function: Callable[..., Any]) -> Callable[..., Any]:
    def call(*args: Any, **kwargs: Any) -> Any:
        with torch.autocast("cpu", dtype):
            return function(*args, **kwargs)

    return call


def called_under(operator: Operator, dtype: torch.dtype) -> Operator:
    """The operator, whose function and whose rules' functions are called under autocast."""

    def declare(*args: Any, **kwargs: Any) -> Declaration:
        made = operator.declare(*args, **kwargs)
        rules = tuple(
            replace(rule, local=rule.local and under(dtype, rule.local))
            for rule in made.transform_rules
        )
        return replace(made, transform_rules=rules)

    return replace(operator, function=under(dtype, function_of(operator)), declare=declare)


def cast(value: Any, dtype: torch.dtype) -> Any:
    real = isinstance(value, Tensor) and value.is_floating_point()
    return value.detach().to(dtype) if real else value


def cuts_of(call: Call, seed: int, count: int = 2) -> Iterator[tuple[Whole, Cuts]]:
    """Every split of a call into so many parts, with the call on one device."""
    whole = checked_whole(call, seed)
    for name in whole.solution.layout.marks:
        cuts = cut(whole.solution, call.declaration, ((name, count),), uneven=True)
        if isinstance(cuts, Cuts):
            yield whole, cuts


def differences(path: str, given: torch.dtype, dtype: torch.dtype, count: int = 2) -> Iterator[str]:
    """What is not as on one device, of all examples of a function in all splits."""
    found = find(path)
    assert found is not None
    operator = called_under(with_rules(found), dtype)
    for number, example in enumerate(entries()[path].examples):
        args, kwargs = tree_map(lambda value: cast(value, given), example.build(grad=False))
        arguments = Arguments(tuple(args), kwargs)
        call = Call(operator, arguments)
        for whole, cuts in cuts_of(call, number, count):
            outcome = run_split(whole, cuts, seed=number)
            where = f"{path}, example {number}, {cuts.splits}"
            if outcome.error:
                yield f"{where}: {outcome.error}"
            for rank in outcome.outputs:
                for output, wanted in zip(rank, whole.outputs, strict=True):
                    if getattr(output, "dtype", None) is not getattr(wanted, "dtype", None):
                        yield f"{where}: {output.dtype} for {wanted.dtype}"
            for each in outcome.differences:
                if each.amount > 5e-2:
                    yield f"{where}: {each}"


@pytest.mark.parametrize("dtype", HALF, ids=str)
@pytest.mark.parametrize("path", SHOWN)
def test_a_cut_function_is_cast_as_the_whole_one(path: str, dtype: torch.dtype) -> None:
    for given in (torch.float32, *HALF):
        assert list(differences(path, given, dtype)) == []


@pytest.mark.parametrize("dtype", HALF, ids=str)
@pytest.mark.parametrize(
    "path",
    [
        *("torch.mean", "torch.var", "torch.nn.functional.mse_loss"),
        *("torch.nn.functional.binary_cross_entropy_with_logits", "torch.nn.functional.batch_norm"),
    ],
)
def test_unequal_parts_are_cast_as_the_whole(path: str, dtype: torch.dtype) -> None:
    for given in (torch.float32, *HALF):
        assert list(differences(path, given, dtype, 5)) == []


def test_recurrent_layers_of_no_rows_are_cast_as_the_whole() -> None:
    for given in (torch.float32, torch.bfloat16):
        assert list(differences("torch.lstm", given, torch.bfloat16, 5)) == []


@pytest.mark.parametrize("path", sorted({*SHOWN, *NO_HALF}))
def test_code_of_ours_casts_what_torch_is_told_to_cast(path: str) -> None:
    found = find(path)
    assert found is not None
    operator = with_rules(found)
    own = set()
    for example in entries()[path].examples:
        args, kwargs = example.build()
        own |= {rule.local for rule in operator.declare(*args, **kwargs).transform_rules}
    # Examples of l1_loss have no weight; marks cut those of the other two.
    assert own or path in ("torch.nn.functional.l1_loss", "torch.dist", "torch.linalg.norm")
    for local in own - {None}:
        # Emitted source names the function by its import path.
        assert resolve(f"{local.__module__}.{local.__qualname__}") is local
        wanted = ATEN.get(path, {})
        kinds = [kind for kind in ALL if kind in wanted]
        assert local in OF_TORCH or list(getattr(local, MARK)) == kinds


@pytest.mark.parametrize("kind, key", [("cpu", "AutocastCPU"), ("cuda", "AutocastCUDA")])
def test_the_functions_that_torch_casts_are_those(kind: str, key: str) -> None:
    registered = set(torch._C._dispatch_get_registrations_for_dispatch_key(key))
    for path in RULES:
        name = path.rpartition(".")[2].replace("vector_norm", "linalg_vector_norm")
        casts = any(found.removeprefix("aten::").split(".")[0] == name for found in registered)
        said = ATEN.get(path, {}).get(kind)
        if said is None:
            # Code that calls the torch function itself: see OF_TORCH; none of ours at all.
            itself = {*averages.LOCAL, *rows.ALONE, *rows.LOSSES}
            itself |= {"torch.nn.functional.group_norm", "torch.nn.functional.bilinear"}
            itself |= {"torch.triangular_solve"}
            assert not casts or path in itself
        else:
            assert f"aten::{said}" in registered


def test_float64_is_cast_by_nothing() -> None:
    x, target = torch.randn(4, 6, dtype=torch.float64), torch.tensor([0, 1, 2, 5])
    with torch.autocast("cpu", torch.bfloat16):
        found = losses.cross_entropy_parts(MeshPart(), x, target)
    assert torch.equal(found, losses.cross_entropy_parts(MeshPart(), x, target))
    assert found.dtype is torch.float64


def test_parts_are_joined_in_their_dtype_under_autocast() -> None:
    parts = torch.randn(2, 3, 4).half()
    placement = Shard(0, 1, (2, 1))
    whole = join_parts(parts, placement)
    with torch.autocast("cpu", torch.bfloat16):
        assert torch.equal(join_parts(parts, placement), whole)
        assert torch.equal(cut_rows(whole, placement, 2), parts)
        assert products_of_others(parts).dtype is torch.float16
