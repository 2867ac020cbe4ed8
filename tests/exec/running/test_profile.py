"""Every operator and collective of a part is measured once, and counts where a plan has it."""

from __future__ import annotations

import re
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

import dimsolve as ds
from dimsolve.partition.aliasing import VIEWS
from dimsolve.partition.machine import timed_as
from dimsolve.partition.sizes import Sizes
from tests.exec import profiled
from tests.oracles.ranks import world

pytest.importorskip("transformers")
TARGET = "dimsolve.examples.llama:tiny"


def test_what_a_plan_runs_is_measured_once_and_counts(tmp_path: Path) -> None:
    path = tmp_path / "profile.db"
    first, again, text = world(2).run(profiled.measured, TARGET, {"tp": 2}, "tensor", str(path))[0]
    assert re.fullmatch(r"measured \d+ operators, and collectives at 40 sizes, in .*", first)
    assert re.fullmatch(r"measured 0 operators, and collectives at 0 sizes, in .*", again)
    plan, machine = ds.Plan.from_json(text), ds.Machine.measured(path)
    sizes = Sizes(plan, profiled.SIZES, {}, "cost")
    wanted = set()
    for entry in plan.operators:
        if not entry.skipped and entry.name not in VIEWS and not entry.sends:
            lengths = {name: sizes.of(length) for name, length in entry.lengths.items()}
            wanted.add(
                timed_as(entry.name, lengths, entry.outputs[0].dtype if entry.outputs else None)
            )
    left_out = {key.split()[0] for key in wanted - machine.times.keys()}
    assert left_out <= {"_set_grad_enabled", "is_grad_enabled", "clone"}, left_out
    cost = plan.cost(profiled.SIZES, machine=machine)
    assert cost.measured > 0.9 * (cost.measured + cost.modelled)
    names = ("all-reduce", "all-gather", "reduce-scatter", "all-to-all", "broadcast")
    assert set(machine.links) == {f"{name} over 2" for name in names}
    with closing(sqlite3.connect(path)) as database:
        forward, spread = zip(
            *database.execute("select forward, forward_spread from operators"), strict=True
        )
    assert min(forward) > 0 and min(spread) >= 0


def test_experts_and_their_rows_are_measured_with_what_a_step_gives_them(tmp_path: Path) -> None:
    path = tmp_path / "profile.db"
    target = "dimsolve.examples.mixtral:tiny"
    world(2).run(profiled.measured, target, {"dp": 2}, "data", str(path))
    functions = {key.split()[0] for key in ds.Machine.measured(path).times}
    assert {"linear", "embedding", "softmax", "topk"} <= functions
