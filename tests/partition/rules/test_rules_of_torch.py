"""Law: a transform rule of a torch function gives the same outputs, gradients and written inputs as
the whole.
"""

from __future__ import annotations

from typing import Any

import pytest
import torch

from dimsolve.exec.verification.verification import Verification
from dimsolve.exec.verification.verify import verify
from dimsolve.partition.rules.table import RULES, rules_of, with_rules
from dimsolve.solver.operators import find


def checked(path: str, *args: Any, **kwargs: Any) -> Verification:
    operator = find(path)
    assert operator is not None
    result = verify(with_rules(operator), args=args, kwargs=kwargs)
    assert result.ok, str(result)
    return result


def normal(*shape: int) -> torch.Tensor:
    return torch.randn(
        shape, generator=torch.Generator().manual_seed(sum(shape)), dtype=torch.float64
    )


def whole(high: int, *shape: int) -> torch.Tensor:
    return torch.randint(high, shape, generator=torch.Generator().manual_seed(high + sum(shape)))


CROSS_ENTROPY = "torch.nn.functional.cross_entropy"
NLL = "torch.nn.functional.nll_loss"


def ignored(*shape: int, classes: int = 12) -> torch.Tensor:
    """Targets of which one part of the batch ignores far more than another."""
    target = whole(classes, *shape)
    target[: shape[0] // 2 : 2] = -100
    target[0] = -100
    return target


@pytest.mark.parametrize("padding", [None, 3, -1, -11])
def test_a_table_is_cut_by_rows(padding: int | None) -> None:
    result = checked("torch.nn.functional.embedding", whole(24, 12, 4), normal(24, 6), padding)
    assert result.splits["v"] == (2, 3, 4)
    assert set(result.splits) == {"a", "b", "v", "d"}


def test_torch_embedding_takes_the_table_first() -> None:
    result = checked("torch.embedding", normal(24, 6), whole(24, 12), 5)
    assert result.splits["v"] == (2, 3, 4)


def test_gradients_by_frequency_keep_the_table_whole() -> None:
    result = checked(
        "torch.nn.functional.embedding", whole(24, 12), normal(24, 6), scale_grad_by_freq=True
    )
    assert set(result.splits) == {"d"}


@pytest.mark.parametrize("weight", [None, normal(12).abs() + 0.5], ids=["plain", "weighted"])
@pytest.mark.parametrize("smoothing", [0.0, 0.1])
@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
def test_cross_entropy_is_cut_over_batch_and_classes(
    reduction: str, smoothing: float, weight: Any
) -> None:
    result = checked(
        CROSS_ENTROPY,
        normal(24, 12),
        ignored(24),
        weight,
        reduction=reduction,
        label_smoothing=smoothing,
    )
    assert result.splits == {"n": (2, 3, 4), "c": (2, 3, 4)}


@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
def test_cross_entropy_of_images(reduction: str) -> None:
    result = checked(CROSS_ENTROPY, normal(4, 12, 6, 4), ignored(4, 6, 4), reduction=reduction)
    assert set(result.splits) == {"n", "c", "a", "b"}


@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
def test_cross_entropy_with_probabilities(reduction: str) -> None:
    target = normal(12, 24).softmax(1)
    result = checked(
        CROSS_ENTROPY, normal(12, 24), target, reduction=reduction, label_smoothing=0.2
    )
    assert result.splits == {"n": (2, 3, 4), "c": (2, 3, 4)}


def test_cross_entropy_of_one_row() -> None:
    result = checked(CROSS_ENTROPY, normal(12), torch.tensor(7))
    assert result.splits == {"c": (2, 3, 4)}


def test_all_targets_ignored_is_not_a_number_everywhere() -> None:
    checked(CROSS_ENTROPY, normal(12, 4), torch.full((12,), -100), reduction="sum")


@pytest.mark.parametrize("weight", [None, normal(12).abs() + 0.5], ids=["plain", "weighted"])
@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
def test_nll_loss_is_cut_over_batch_and_classes(reduction: str, weight: Any) -> None:
    result = checked(NLL, normal(24, 12).log_softmax(1), ignored(24), weight, reduction=reduction)
    assert result.splits == {"n": (2, 3, 4), "c": (2, 3, 4)}


@pytest.mark.parametrize("name", ["mse_loss", "l1_loss"])
def test_weighted_means(name: str) -> None:
    weight = normal(12, 6).abs() + 0.5
    result = checked(f"torch.nn.functional.{name}", normal(12, 6), normal(12, 6) * 2, weight=weight)
    assert set(result.splits) == {"a", "b"}


@pytest.mark.parametrize("statistics", [True, False])
def test_batch_norm_in_training_joins_its_statistics(statistics: bool) -> None:
    running = (normal(6), normal(6).abs() + 0.5) if statistics else (None, None)
    result = checked(
        "torch.nn.functional.batch_norm",
        normal(12, 6, 4),
        *running,
        normal(6),
        normal(6),
        training=True,
    )
    assert set(result.splits) == {"n", "c", "a"}


def test_index_select_and_gather_from_a_cut_dimension() -> None:
    result = checked("torch.index_select", normal(24, 6), 0, whole(24, 12))
    assert set(result.splits) == {"a", "b", "c"}
    result = checked("torch.gather", normal(12, 24), 1, whole(24, 12, 6))
    assert set(result.splits) == {"a", "b", "c"}


def test_every_rule_belongs_to_an_entry_and_other_spellings_share_it() -> None:
    for path in RULES:
        operator = find(path)
        assert operator is not None and operator.path == path
    operator = find("torch.Tensor.gather")
    assert operator is not None
    declaration = operator.declare(normal(12, 24), 1, whole(24, 12, 6))
    assert len(rules_of("torch.Tensor.gather", declaration)) == 1
    assert rules_of("torch.add", declaration) == ()
