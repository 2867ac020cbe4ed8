"""Safetensors are read slice by slice: a rank reads what it holds, and nothing else."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.exec import filed
from tests.oracles.ranks import world


@pytest.mark.parametrize("shard", ["50KB", "10MB"])
@pytest.mark.parametrize("mesh", [{"tp": 2}, {"dp": 2}], ids=str)
def test_a_meta_model_is_loaded_by_every_rank_for_itself(
    mesh: dict[str, int], shard: str, tmp_path: Path
) -> None:
    """What ``save_pretrained`` wrote, in one file and in many, into a model without weights."""
    filed.save(str(tmp_path), shard)
    for worst, read, held in world(2).run(filed.loaded, str(tmp_path), mesh):
        assert worst <= 1e-6
        assert read == held, "every element that the rank holds is read once"


@pytest.mark.parametrize("cut", ["blocks", "segments"])
def test_cuts_of_blocks_and_segments_are_read_run_by_run(cut: str, tmp_path: Path) -> None:
    for equal in world(2).run(filed.runs, str(tmp_path), cut):
        assert equal


def test_files_of_another_model_are_refused_before_anything_changes(tmp_path: Path) -> None:
    for absent, other, shape, unchanged in world(2).run(filed.refused, str(tmp_path)):
        assert absent == (
            f"LoweringError: there are no safetensors at {tmp_path}\n"
            "  a file is read, or a folder that holds model.safetensors.index.json or "
            "model.safetensors\n"
            f"  hint: write them with model.save_pretrained('{tmp_path}'), or "
            "safetensors.torch.save_model"
        )
        assert other == (
            f"LoweringError: the files at {tmp_path}/other.safetensors hold other tensors than the "
            "model\n"
            "  they lack down.bias, down.weight, up.bias, up.weight; the model has no left.weight\n"
            "  hint: load the model with its own from_pretrained, and parallelize it; or "
            "strict=False"
        )
        assert shape == (
            "LoweringError: up.weight has another shape\n"
            "  it is (32, 15) in shape.safetensors and (32, 16) in the model\n"
            "  hint: make the model of the config that is beside the files, or load files of this "
            "model"
        )
        assert unchanged


def test_a_part_saves_what_transformers_reads(tmp_path: Path) -> None:
    """The first rank writes whole tensors; where it cannot, no other rank waits for it."""
    first, second = world(2).run(filed.saved_by_a_part, str(tmp_path))
    for equal, said, asked in (first, second):
        assert equal
        assert asked
        assert said[1] == (
            "LoweringError: a part writes no distributed_checkpoint of transformers\n"
            "  that one holds the state as transformers has cut it\n"
            "  hint: torch.distributed.checkpoint.save(part.state_dict(), checkpoint_id=folder), "
            "or part.save_pretrained(folder) for a whole one"
        )
    assert first[1][0].startswith("NotADirectoryError")
    assert second[1][0] == (
        "LoweringError: rank 0 has not written the checkpoint\n"
        "  save_pretrained raised an error there, and the other ranks have waited for it\n"
        "  hint: rank 0 says why; it needs a folder that it can write to"
    )
