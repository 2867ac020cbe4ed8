"""Trainers and wrappers that people have: with a part they give the curve of one device."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from math import prod
from pathlib import Path
from typing import Any

import pytest

from tests.exec import trained
from tests.oracles.ranks import world

STEPS = 4
"""Of 2 batches each: half of them before the training is stopped, half after it is resumed."""


@pytest.fixture(scope="module")
def of_one_device(tmp_path_factory: pytest.TempPathFactory) -> trained.Curve:
    found: trained.Curve = world(1).run(
        trained.curve, str(tmp_path_factory.mktemp("one")), None, "whole", STEPS
    )[0]
    assert [row["step"] for row in found if "loss" in row] == [1, 2, 3, 4]
    assert [row["eval_rows"] for row in found if "eval_rows" in row] == [8, 8]
    return found


def assert_equal(found: trained.Curve, wanted: trained.Curve) -> None:
    assert len(found) == len(wanted)
    for one, other in zip(found, wanted, strict=True):
        assert one == pytest.approx(other, rel=2e-5)


@pytest.mark.parametrize(
    ("mesh", "way"), [({"tp": 2}, "whole"), ({"dp": 2}, "local"), ({"dp": 2}, "whole")], ids=str
)
def test_a_trainer_gives_the_curve_of_one_device(
    mesh: dict[str, int], way: str, tmp_path: Path, of_one_device: trained.Curve
) -> None:
    """Accumulated batches, clipping, decay, a schedule, evaluation; stopped and resumed once."""
    ranks = world(prod(mesh.values()))
    ranks.run(trained.curve, str(tmp_path), mesh, way, STEPS // 2)
    for found in ranks.run(trained.curve, str(tmp_path), mesh, way, STEPS):
        assert_equal(found, of_one_device)


SCRIPT = Path(__file__).parents[3] / "docs" / "scripts" / "hf.py"


def test_the_script_of_the_docs_runs_on_two_nodes_and_goes_on_alone(tmp_path: Path) -> None:
    """As on two machines: dp between them, tp inside; then one process from its checkpoint."""
    run(tmp_path / "nodes", nodes=2, ranks=2, dp=2, tp=2, steps=2)
    found = run(tmp_path / "nodes", steps=4)
    wanted = run(tmp_path / "alone", steps=4)
    assert [line.split()[1] for line in found] == ["1", "2", "3", "4"]
    for one, other in zip(found, wanted, strict=True):
        assert float(one.split()[-1]) == pytest.approx(float(other.split()[-1]), abs=3e-5)


def run(folder: Path, nodes: int = 1, ranks: int = 1, **options: int) -> list[str]:
    """What the script's first rank says, which is started by one torchrun for each node, or by
    python.
    """
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    given = [word for name, value in options.items() for word in (f"--{name}", str(value))]
    torchrun = ["-m", "torch.distributed.run", f"--nnodes={nodes}", f"--nproc-per-node={ranks}"]
    torchrun += ["--master-addr=127.0.0.1", f"--master-port={port}"]
    launched = [
        subprocess.Popen(
            [
                sys.executable,
                *([*torchrun, f"--node-rank={node}"] if ranks > 1 else []),
                *(str(SCRIPT), "--folder", str(folder), *given),
            ],
            env={**os.environ, "OMP_NUM_THREADS": "1"},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for node in range(nodes)
    ]
    told = [each.communicate() for each in launched]
    assert [each.returncode for each in launched] == [0] * nodes, told[0][1][-3000:]
    return [line for line in told[0][0].splitlines() if line.startswith("step ")]


def test_what_a_trainer_saves_is_read_by_one_device(
    tmp_path: Path, of_one_device: trained.Curve
) -> None:
    transformers: Any = pytest.importorskip("transformers")
    world(2).run(trained.curve, str(tmp_path), {"tp": 2}, "whole", STEPS // 2)
    model = transformers.AutoModelForCausalLM.from_pretrained(tmp_path / "checkpoint-2")
    data = trained.data_of()[:4]
    loss = float(model(**trained.batch_of(data)).loss)
    assert loss < of_one_device[0]["loss"]


def test_norms_do_not_decay_whose_modules_only_say_so(tmp_path: Path) -> None:
    """GPT-2's ln_1 is a LayerNorm by its class, which a part does not have."""
    wanted = world(1).run(trained.curve, str(tmp_path / "1"), None, "whole", 2, "gpt2")[0]
    for found in world(2).run(trained.curve, str(tmp_path / "2"), {"tp": 2}, "whole", 2, "gpt2"):
        assert_equal(found, wanted)


def test_files_with_the_names_of_an_older_form_are_read_by_the_model_s_class(
    tmp_path: Path,
) -> None:
    """Mixtral's experts are one tensor in the model, and many in its files."""
    (wanted,) = world(1).run(trained.curve, str(tmp_path / "1"), None, "whole", STEPS, "mixtral")
    for steps in (STEPS // 2, STEPS):
        folder = str(tmp_path / "2")
        found, _ = world(2).run(trained.curve, folder, {"tp": 2}, "whole", steps, "mixtral")
    assert_equal(found, wanted)


def test_the_stock_trainer_is_refused_where_it_would_be_wrong(tmp_path: Path) -> None:
    for text in world(2).run(trained.stock_trainer, str(tmp_path)):
        assert text == (
            "LoweringError: transformers' Trainer does not know parts of models\n"
            "  it would scale the loss as if every rank had one of its own, and save this rank's "
            "part\n"
            "  hint: from dimsolve.trainers import Trainer; a Trainer of your own takes "
            "TrainerOfParts of that module as its first base"
        )


def test_settings_that_parts_cannot_have_are_refused(tmp_path: Path) -> None:
    for regions, smoothed in world(2).run(trained.refused, str(tmp_path)):
        assert regions == (
            "LoweringError: a Trainer of parts cannot do with gradient_checkpointing\n"
            "  which regions are run again is part of the trace\n"
            "  hint: call model.gradient_checkpointing_enable() before ds.trace"
        )
        assert smoothed == (
            "LoweringError: a Trainer of parts cannot do with label_smoothing_factor\n"
            '  with inputs="local" a loss computed outside of the model is that of a rank\'s rows\n'
            '  hint: let the model compute its loss, or give inputs="whole" to parallelize'
        )


@pytest.mark.parametrize(("mesh", "way"), [({"tp": 2}, "whole"), ({"dp": 2}, "local")], ids=str)
def test_accelerate_gives_the_curve_of_one_device(
    mesh: dict[str, int], way: str, tmp_path: Path
) -> None:
    """AdamW groups, accumulation, clipping, a schedule; saved and loaded."""
    wanted, rows = world(1).run(trained.accelerated, str(tmp_path / "1"), None, "whole")[0]
    assert rows == 16
    for found, seen in world(2).run(trained.accelerated, str(tmp_path / "2"), mesh, way):
        assert found == pytest.approx(wanted, rel=2e-5)
        assert seen == rows


@pytest.mark.parametrize(
    ("before", "after"),
    [(({"tp": 2}, "whole"), ({"dp": 2}, "local")), (({"dp": 2}, "local"), ({"tp": 2}, "whole"))],
    ids=str,
)
def test_a_loop_goes_on_at_another_mesh(before: Any, after: Any, tmp_path: Path) -> None:
    """A DistributedSampler, groups of AdamW, accumulation, clipping, a schedule, a checkpoint.

    A sampler gives each rank every second row: the batches' rows have another order then.
    """
    wanted = world(1).run(trained.looped, "", None, "whole", range(3))[0]
    begun = world(2).run(trained.looped, str(tmp_path), *before, range(2))
    ended = world(2).run(trained.looped, str(tmp_path), *after, range(2, 3))
    for first, last in zip(begun, ended, strict=True):
        assert first + last == pytest.approx(wanted, rel=2e-5)


@pytest.mark.parametrize("axis", ["tp", "fsdp"])
def test_ddp_around_a_part_averages_along_an_axis_that_the_plan_does_not_have(axis: str) -> None:
    assert max(world(4).run(trained.with_ddp, False, axis)) <= 1e-5


def test_ddp_over_ranks_with_different_parts_is_refused() -> None:
    for text in world(4).run(trained.with_ddp, True):
        assert text == (
            "LoweringError: DistributedDataParallel around ranks that hold different parts of "
            "model.embed_tokens.weight\n"
            "  it copies the parameters of its first rank to all others; rank 0 holds the part at "
            "tp=0, rank 1 the part at tp=1\n"
            "  hint: a part needs no DDP: its gradients are summed along the plan's axes "
            "(accelerate knows that with Accelerator from dimsolve.trainers). Along an axis that "
            "the plan does not have, give DDP its group: DistributedDataParallel(part, "
            "process_group=mesh[axis].get_group())"
        )
