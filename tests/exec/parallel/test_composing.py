"""A part is a module like any other: it is compiled, sharded, saved and loaded by torch's tools."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
import torch

from tests.exec import composing
from tests.oracles.ranks import world

Runs = list[tuple[torch.Tensor, torch.Tensor]]
CUSTOM = "dimsolve.examples.custom_operator:tiny"


@pytest.mark.parametrize(
    ("backend", "target"),
    [("eager", CUSTOM), ("eager", composing.LLAMA), ("aot_eager", CUSTOM), ("inductor", CUSTOM)],
)
def test_compiled(backend: str, target: str) -> None:
    if backend == "inductor" and shutil.which("g++") is None:
        pytest.skip("inductor needs a C++ compiler on the CPU")
    assert max(world(2).run(composing.compiled, target, backend)) <= 1e-12


@pytest.mark.parametrize("state", ["shared", "optimizer"])
def test_compiled_where_parameters_are_stored_in_parts(state: str) -> None:
    assert max(world(2).run(composing.compiled, CUSTOM, "aot_eager", state)) <= 1e-12


@pytest.mark.parametrize("mesh", [{"tp": 1}, {"dp": 2, "tp": 1}, {"tp": 2}], ids=str)
def test_fsdp_shards_what_is_replicated_over_dp(mesh: dict[str, int]) -> None:
    count = 4 if mesh["tp"] == 2 else 2
    for found, wanted, share in world(count).run(composing.with_fsdp, mesh, "data+tensor"):
        assert found == pytest.approx(wanted, rel=1e-6)
        assert share == pytest.approx(1 / count, abs=0.02)


def test_parts_are_made_from_meta_one_module_at_a_time() -> None:
    for held, whole, most in world(2).run(composing.from_meta):
        assert held == whole / 2
        assert most < held + 4 * whole / 12, "no more than the part and one module"


def test_checkpoint_with_optimiser_goes_on_at_other_meshes(tmp_path: Path) -> None:
    pytest.importorskip("transformers")
    saved = world(2).run(composing.save_at_tp, str(tmp_path))[0]
    at_dp = world(2).run(composing.load_at, str(tmp_path), {"dp": 2}, "data")
    alone = world(1).run(composing.load_at, str(tmp_path), {"tp": 1}, "tensor")
    for losses in (*at_dp, *alone):
        assert losses == pytest.approx(saved, rel=1e-6)


def test_dropout_of_a_replica_drops_the_same_on_all_ranks() -> None:
    one, other = world(2).run(composing.kept, {"a": 2}, "replicate", 3)
    assert _equal(one, other)


def test_dropout_of_parts_drops_other_elements_on_every_rank() -> None:
    for runs in world(2).run(composing.kept, {"a": 2}, "data", 3):
        for found, _ in runs:
            assert not torch.equal(found[:4], found[4:])


def test_dropout_differs_along_the_axes_that_cut_only() -> None:
    """Rows are cut over dp; both ranks of tp drop the same of their rows."""
    first, *others = world(4).run(composing.kept, {"dp": 2, "tp": 2}, "data+tensor", 3)
    assert all(_equal(first, other) for other in others)


@pytest.mark.parametrize("policy", ["replicate", "data"])
def test_dropout_is_repeated_by_its_seed(policy: str) -> None:
    ranks, mesh = world(2), {"a": 2}
    once, again, other = (ranks.run(composing.kept, mesh, policy, seed)[0] for seed in (3, 3, 4))
    assert _equal(once, again)
    assert not torch.equal(once[0][0], once[1][0]), "every run drops others"
    assert not torch.equal(once[0][0], other[0][0])
    for found, gradient in once:
        assert torch.equal(found.unique(), torch.tensor([0.0, 2.0]))
        assert torch.equal(gradient, found.sum(0)), "the gradient goes through the same mask"


def _equal(one: Runs, other: Runs) -> bool:
    pairs = zip(one, other, strict=True)
    return all(torch.equal(a, b) for x, y in pairs for a, b in zip(x, y, strict=True))
