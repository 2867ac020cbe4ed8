"""A parameter held in unequal segments is saved as the whole that it is, and loaded anywhere."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from tests.exec import segment_saving
from tests.oracles.ranks import world


def test_segments_are_saved_and_loaded_at_other_meshes(tmp_path: Path) -> None:
    model, example = segment_saving.model_and_input()
    results = world(2).run(segment_saving.saved, str(tmp_path))
    for result in results:
        assert result["held"] == (32, 16)
        assert result["placements"] == "(Shard(dim=0),)"
        for name, whole in model.state_dict().items():
            assert torch.equal(result["whole"][name], whole)
        assert torch.allclose(result["output"], model(**example), rtol=1e-12)
    for mesh in ({"tp": 2}, {"dp": 2}):
        for output in world(2).run(segment_saving.loaded, str(tmp_path), mesh):
            assert output == pytest.approx(model(**example).detach(), rel=1e-12)
