"""Placements as torch's: a DTensor's local part is the part that ours says, on every rank."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import DTensor, distribute_tensor
from torch.distributed.tensor import Partial as TorchPartial
from torch.distributed.tensor import Shard as TorchShard

from dimsolve.exec.distributed.sharding import local_parts
from dimsolve.partition.mesh import Mesh, MeshError
from dimsolve.partition.placement import Partial, Placement, Reduction, Replicate, Shard
from dimsolve.partition.torch_placements import (
    PlacementError,
    from_torch,
    layout_from_torch,
    layout_to_torch,
    mesh_from_torch,
    mesh_to_torch,
    to_torch,
)
from dimsolve.solver.algebra.poly import symbol

MESH = {"a": 2, "b": 3}
R, P = Replicate(), Partial()
LAYOUTS: list[tuple[Placement, ...]] = [
    (R, R), (Shard(0), R), (R, Shard(1)), (Shard(0), Shard(0)), (Shard(1), Shard(0)),
    (Shard(0, 3), R), (Shard(0, 2), Shard(0)), (Shard(0), Shard(0, 2)), (Shard(0, 3), Shard(0, 2)),
    (Shard(1, 2), Shard(0, 2)),
]  # fmt: skip


@contextmanager
def one_of(ranks: int, rank: int) -> Iterator[None]:
    """This process as one rank of a group that communicates with nobody."""
    from torch.testing._internal.distributed.fake_pg import FakeStore

    dist.init_process_group("fake", rank=rank, world_size=ranks, store=FakeStore())
    try:
        yield
    finally:
        dist.destroy_process_group()


@pytest.mark.parametrize("layout", LAYOUTS, ids=lambda layout: ", ".join(map(str, layout)))
def test_a_dtensor_holds_the_parts_that_our_placements_say(layout: tuple[Placement, ...]) -> None:
    whole = torch.arange(36 * 12.0).reshape(36, 12)
    wanted = local_parts(whole, layout, MESH)
    for rank in range(6):
        with one_of(6, rank):
            mesh = mesh_to_torch(Mesh.of(MESH))
            placements = layout_to_torch(layout)
            made: Any = distribute_tensor(whole, mesh, placements, src_data_rank=None)
            assert torch.equal(made.to_local(), wanted[rank])
            assert layout_from_torch(made.placements) == layout


@pytest.mark.parametrize("reduction", Reduction, ids=lambda r: r.value)
def test_partial_values_keep_their_reduction(reduction: Reduction) -> None:
    placement = to_torch(Partial(reduction))
    assert isinstance(placement, TorchPartial)
    assert from_torch(placement) == Partial(reduction)
    with one_of(2, 0):
        mesh = init_device_mesh("cpu", (2,))
        made: Any = DTensor.from_local(torch.ones(2), mesh, [placement], run_check=False)
        assert layout_from_torch(made.placements) == (Partial(reduction),)


def test_a_dimension_counted_from_the_end_needs_the_rank() -> None:
    assert from_torch(TorchShard(-1), ndim=3) == Shard(2)
    with pytest.raises(PlacementError) as caught:
        from_torch(TorchShard(-1))
    assert str(caught.value) == (
        "a placement cannot be converted\n"
        "  Shard(dim=-1) counts its dimension from the end\n"
        "  hint: give the tensor's number of dimensions: from_torch(placement, ndim=3)"
    )


REFUSED: list[tuple[Any, str]] = [
    (
        lambda: to_torch(Shard(0, 1, (4, 1, 1))),
        "a placement cannot be converted\n"
        "  torch cuts a dimension into parts, or each of equal blocks, and S(0, segments=4:1:1) is "
        "a cut of each of unequal segments\n"
        "  hint: a parameter that is held in such parts is saved as S(dim): see state_dict",
    ),
    (
        lambda: to_torch(Shard(0, symbol("h"))),
        "a placement cannot be converted\n"
        "  S(0, blocks=h) has h blocks, a symbol, and torch needs a number\n"
        "  hint: give the symbol its value first",
    ),
    (
        lambda: from_torch(TorchPartial("bogus")),
        "a placement cannot be converted\n"
        "  Partial(bogus) joins its parts by 'bogus'\n"
        "  hint: known are sum, avg, max, min, product",
    ),
    (
        lambda: from_torch("S(0)"),
        "a placement cannot be converted\n"
        "  'S(0)' is a str\n"
        "  hint: known are Shard, Replicate and Partial of torch.distributed.tensor",
    ),
    (
        lambda: mesh_to_torch(Mesh.of("dp=2,tp=n")),
        "the mesh has a symbol for a size\n"
        "  the mesh is dp=2, tp=n; a DeviceMesh needs numbers\n"
        "  hint: give every axis a number of ranks",
    ),
]


@pytest.mark.parametrize(("convert", "text"), REFUSED, ids=range(len(REFUSED)))
def test_what_the_other_side_has_no_word_for_is_refused(convert: Any, text: str) -> None:
    with pytest.raises((PlacementError, MeshError)) as caught:
        convert()
    assert str(caught.value) == text


def test_a_mesh_converts_with_its_names() -> None:
    with one_of(6, 4):
        mesh = mesh_to_torch(Mesh.of(MESH))
        assert (mesh.mesh_dim_names, tuple(mesh.shape)) == (("a", "b"), (2, 3))
        assert mesh_from_torch(mesh) == Mesh.of(MESH)
        with pytest.raises(MeshError, match="has no mesh_dim_names"):
            mesh_from_torch(init_device_mesh("cpu", (2, 3)))


def test_torch_is_imported_only_to_convert() -> None:
    code = "import sys, dimsolve.partition.torch_placements; print('torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"
