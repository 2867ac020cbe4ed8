"""No hang, no orphan: whatever fails on one rank, all ranks end in time and say where it was."""

from __future__ import annotations

import json
import os
import random
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from tests.exec import disagreeing, faulty
from tests.oracles.ranks import Ranks, world

HERE = Path(__file__).parents[1]
RUN = [sys.executable, "-m", "dimsolve", "run"]
MODEL = f"{HERE}/faulty.py:model"
PATIENCE = 600.0
"""Seconds after which a run that should have ended is taken to hang; most of it is starting."""


def processes_of(marker: str) -> list[int]:
    """The processes whose environment holds the marker."""
    found = []
    for entry in Path("/proc").iterdir():
        try:
            environment = (entry / "environ").read_bytes()
        except (OSError, NotADirectoryError):
            continue
        if marker.encode() in environment and entry.name.isdecimal():
            found.append(int(entry.name))
    return [pid for pid in found if pid != os.getpid()]


def run(fault: str, *options: str, target: str = MODEL) -> tuple[int, dict[str, Any], str]:
    """Runs the faulty model on two ranks; returns exit code, report and what was said."""
    marker = f"DIMSOLVE_TEST=faults-{os.getpid()}-{random.random()}"
    name, _, value = marker.partition("=")
    done = subprocess.run(
        [*RUN, target, "--mesh", "tp=2", "--json", "--steps", "4", "--timeout", "8", *options],
        env={**os.environ, "FAULT": fault, name: value, "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=PATIENCE,
    )
    assert processes_of(marker) == [], "orphans"
    return done.returncode, json.loads(done.stdout or "{}"), done.stderr


def test_without_a_fault_it_runs() -> None:
    code, report, said = run("")
    assert code == 0, said
    assert report["ok"]
    assert [step["sizes"]["batch"] for step in report["steps"]] == [4, 5, 3, 6]


def test_exception_in_forward() -> None:
    code, report, said = run("raise-forward", "--no-verify")
    assert code == 1
    assert report["ok"] is False
    error = report["error"]
    assert error["rank"] == 1
    assert error["operator"] == "faulty.Fragile.apply"
    assert error["shapes"] == {"linear": "float32 (5, 8)"}
    assert error["reason"] == "ValueError: this forward was made to fail"
    assert "rank 1 (tp=1) failed in faulty.Fragile.apply" in said
    assert "RankFailure" in said, "the other rank says so too"


def test_exception_in_backward() -> None:
    code, report, _ = run("raise-backward", "--no-verify")
    assert code == 1
    error = report["error"]
    assert (error["rank"], error["operator"]) == (1, "the backward of Fragile")
    assert error["shapes"] == {"gradient": "float32 (5, 8)"}
    assert error["reason"] == "ValueError: this backward was made to fail"


def test_error_in_the_backward_of_a_built_in() -> None:
    code, report, said = run("spoil-sin", "--no-verify", target=f"{HERE}/faulty.py:spoiled")
    assert code == 1, said
    error = report["error"]
    assert (error["rank"], error["operator"]) == (1, "the backward of sin")
    assert error["shapes"] == {"self": "changed since it was saved"}
    assert "has been modified by an inplace operation" in error["reason"]


@pytest.mark.parametrize("fault", ["kill-factory", "kill-forward", "kill-backward"])
def test_killed(fault: str) -> None:
    code, report, said = run(fault, "--no-verify")
    assert code == 1
    assert report["error"]["rank"] == 1
    first, *rest = report["error"]["reason"].splitlines()
    assert first == "it was ended by SIGKILL"
    if fault != "kill-factory":
        assert rest[-1].startswith("it was last seen "), rest
    if fault == "kill-forward":
        assert rest[0].startswith("rank 0 was in the all-reduce of float32 (5, 8) along tp"), rest
        assert "it was killed, or its machine is gone" in said
        assert "could not be carried out" in said, "what the other one was at"


def test_killed_anywhere() -> None:
    delay = random.Random(os.getpid()).uniform(0.0, 8.0)
    code, report, said = run(f"kill-later:{delay}", "--no-verify", "--steps", "100000")
    assert code == 1, f"after {delay} s: {said}"
    assert report["error"]["rank"] == 1


@pytest.mark.parametrize(
    ("number", "mesh"), [(number, {("tp", "fsdp")[number % 2]: 2}) for number in range(6)]
)
def test_killed_at_any_point_of_a_step(number: int, mesh: dict[str, int]) -> None:
    """The other rank says so, in time, and its process ends."""
    ranks = Ranks(2)
    try:
        delay = random.Random(f"{os.getpid()} {number}").uniform(0.0, 0.5)
        text = ranks.answer_of(0, faulty.train_until_killed, delay, mesh)
        assert text.startswith("RankFailure: rank 1 failed"), text
        # In an agreement no connection breaks that would tell a killed rank from a stopped one.
        assert "or its machine is gone" in text
        assert "rank 0: the " in text, "what it was at"
    finally:
        ranks.close()


def test_rank_that_sleeps() -> None:
    """The one that others wait for is named, with its step, and where they waited."""
    code, report, said = run("hang-forward", "--no-verify")
    assert code == 1
    error = report["error"]
    assert (error["rank"], error["operator"]) == (1, "faulty.Fragile.apply")
    assert error["shapes"] == {"linear": "float32 (5, 8)"}
    assert "faulty.py:" in error["source"]
    assert error["reason"].splitlines() == [
        "it did not come, and rank 0 waited 8 s for it",
        "rank 0 was in the all-reduce of float32 (5, 8) along tp for result@1",
        "it was last seen in faulty.Fragile.apply (node trampoline_autograd_apply)",
    ]
    assert "rank 0: RankFailure: rank 1 failed in faulty.Fragile.apply (node " in said


def test_rank_that_sleeps_before_there_is_a_plan() -> None:
    code, report, _ = run("hang-factory", "--no-verify")
    assert code == 1
    assert report["error"]["rank"] == 1
    assert report["error"]["source"].startswith("faulty.py:")
    assert report["error"]["source"].endswith(": time.sleep(1000)")
    assert report["error"]["reason"].splitlines() == [
        "it did not come, and rank 0 waited 8 s for it",
        "rank 0 was in the agreement on the plan",
        f"it was last seen in making {MODEL}",
    ]


@pytest.mark.parametrize("fault", ["stop-forward", "stop-factory"])
def test_rank_that_is_stopped(fault: str) -> None:
    """It hears no signal but SIGKILL, and gets it within the timeout and a grace."""
    code, report, _ = run(fault, "--no-verify")
    assert code == 1
    assert report["error"]["rank"] == 1
    assert "no sign of life" in report["error"]["reason"]


def test_no_orphan_when_the_launcher_is_killed() -> None:
    marker = f"DIMSOLVE_TEST=orphans-{os.getpid()}"
    name, _, value = marker.partition("=")
    launcher = subprocess.Popen(
        [*RUN, MODEL, "--mesh", "tp=2", "--steps", "1000000", "--no-verify"],
        env={**os.environ, "FAULT": "", name: value, "OMP_NUM_THREADS": "1"},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    until = time.monotonic() + PATIENCE
    while len(processes_of(marker)) < 3 and time.monotonic() < until:
        time.sleep(0.2)
    os.kill(launcher.pid, signal.SIGKILL)
    launcher.wait()
    until = time.monotonic() + PATIENCE
    while processes_of(marker) and time.monotonic() < until:
        time.sleep(0.2)
    assert processes_of(marker) == []


def test_world_of_the_wrong_size() -> None:
    """Two processes under torchrun, and a mesh of four."""
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2"]
    done = subprocess.run(
        [*torchrun, "--standalone", *RUN[1:], MODEL, "--mesh", "tp=4"],
        env={**os.environ, "FAULT": "", "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=PATIENCE,
    )
    assert done.returncode == 1
    for rank in (0, 1):
        assert f"rank {rank}: LoweringError: the plan is for 4 ranks, and 2 are running" in (
            done.stderr
        )


def test_another_plan_on_one_rank() -> None:
    texts = world(2).run(disagreeing.other_policy)
    assert texts[0] == texts[1]
    title, hashes, first, second, hint = texts[0].splitlines()
    assert title == "AgreementError: the ranks have different plans"
    assert hashes.startswith("  the plan of rank 0 is ")
    assert first == '  rank 0: policy: "tensor"'
    assert second == '  rank 1: policy: "replicate"'
    assert hint == "  hint: start all ranks with the same model, plan and arguments"


def test_another_graph_on_one_rank() -> None:
    texts = world(2).run(disagreeing.other_graph)
    assert texts[0] == texts[1]
    title, _, first, second, _ = texts[0].splitlines()
    assert title == "AgreementError: the ranks have plans for different graphs"
    assert first.startswith("  rank 0: relu torch.Tensor.relu(")
    assert second.startswith("  rank 1: tanh torch.Tensor.tanh(")


def test_world_that_is_not_the_plans() -> None:
    for text in world(2).run(disagreeing.other_world):
        assert text == (
            "LoweringError: the plan is for 4 ranks, and 2 are running\n"
            "  its mesh is tp=4\n"
            "  hint: start 4 ranks, or plan for a mesh of 2"
        )


def test_batch_that_breaks_a_condition() -> None:
    for text in world(2).run(disagreeing.odd_batch):
        assert text.startswith("PlanError: the plan does not hold at these sizes\n")
        assert "batch % 2 == 0" in text
        assert "batch = 3" in text


def test_batch_that_breaks_a_condition_on_one_rank() -> None:
    other, own = world(2).run(disagreeing.odd_batch_on_one)
    assert own.startswith("PlanError: the plan does not hold at these sizes\n")
    assert other.startswith(
        "AgreementError: rank 1 cannot run with its sizes, so no rank does\n"
        "  the plan does not hold at these sizes\n"
    )
    assert "batch % 2 == 0" in other


SIZES = (
    "AgreementError: the ranks are called with different sizes\n"
    "  rank 0: x (4, 8)\n"
    "  rank 1: x (6, 8)\n"
    "  hint: give the same whole batch on every rank; each rank takes its part"
)


def test_different_sizes() -> None:
    assert world(2).run(disagreeing.other_sizes) == [SIZES, SIZES]


def test_different_sizes_where_one_rank_knows_its_own() -> None:
    ranks = world(2)
    first, second = ranks.run(disagreeing.other_sizes_one_known)
    ranks.close()  # a rank that was in a collective cannot go on
    assert second == SIZES
    assert first.startswith(
        "RankFailure: rank 1 failed\n  the ranks are called with different sizes"
    )
    assert "the all-gather of int64 (11,) along tp for the comparison of inputs" in first


def test_input_of_another_dtype() -> None:
    for text in world(2).run(disagreeing.other_dtype):
        assert text == (
            "ShapeError: x is float64\n"
            "  the program was made for float32\n"
            "  hint: convert it: x.to(torch.float32)"
        )


def test_ranks_under_other_autocasts_say_so() -> None:
    text = (
        "AgreementError: the ranks are called under different autocasts\n"
        "  rank 0: autocast is off\n"
        "  rank 1: to bfloat16 on cpu\n"
        "  hint: call the module inside of the same torch.autocast on every rank"
    )
    assert world(2).run(disagreeing.other_autocast) == [text, text]


@pytest.mark.parametrize("how", ["no_grad", "inference_mode"])
def test_a_rank_that_records_no_gradients_is_named(how: str) -> None:
    text = (
        "AgreementError: the ranks are called under different gradient modes\n"
        "  rank 0: gradients are recorded\n"
        f"  rank 1: torch.{how}\n"
        "  hint: call the module inside of the same torch.no_grad on every rank, or on none"
    )
    assert world(2).run(disagreeing.without_gradients, how) == [text, text]


def test_a_parameter_that_is_frozen_on_one_rank_is_named() -> None:
    """torch would sum the gradients of other parameters instead, or wait for ever."""
    for said, name in world(2).run(disagreeing.frozen_on_one_rank):
        assert said == (
            "AgreementError: the ranks train different parameters\n"
            f"  {name} requires a gradient on rank 0, and not on rank 1\n"
            "  hint: set requires_grad alike on every rank"
        )


def test_other_weights_on_one_rank() -> None:
    for text in world(2).run(disagreeing.other_weights):
        assert text.startswith("AgreementError: the ranks' models have different weights\n")
        assert "up.weight" in text


def test_a_refused_batch_leaves_all_ranks_as_they_were() -> None:
    first, second = world(2).run(disagreeing.goes_on_after_refusal)
    assert first == second


def _other_losses(first: tuple[str, int], second: tuple[str, int]) -> str:
    through = [f"output '{name}' in call {call} of program N" for name, call in (first, second)]
    return (
        "the ranks' losses are made of different outputs, or calls\n"
        f"  rank 0 goes back through {through[0]}\n"
        f"  rank 1 goes back through {through[1]}\n"
        "  hint: make the loss of the same outputs on every rank: add 0 * output.sum() of those "
        "that only some need, and call backward() for the same calls"
    )


def _counted(text: str) -> str:
    return re.sub(r"program \d+", "program N", text)


@pytest.mark.parametrize("length", [8, 6])
def test_losses_of_other_outputs_are_told_before_gradients_are_mixed(length: int) -> None:
    """Of the same shapes, gradients of other parameters would be summed; of others gloo ends the
    process.
    """
    for went, said in world(2).run(disagreeing.other_losses, length, ("a", "b")):
        assert (went, _counted(said)) == (0, "AgreementError: " + _other_losses(("a", 1), ("b", 1)))


def test_losses_that_were_alike_before_are_told_too() -> None:
    """What has often followed on what was compared to nothing sent: a, b, a, a, b, b."""
    steps = [(name, name) for name in "abaabbaabba"]
    for went, said in world(2).run(disagreeing.other_losses, 6, *steps, ("a", "b")):
        assert (went, _counted(said)) == (
            11,
            "AgreementError: " + _other_losses(("a", 12), ("b", 12)),
        )


def test_the_same_losses_of_some_outputs_are_fine() -> None:
    steps = [("a", "a"), ("ab", "ba"), ("b", "b"), ("a", "a")] * 3
    assert world(2).run(disagreeing.other_losses, 6, *steps) == [(12, ""), (12, "")]


@pytest.mark.parametrize(
    ("odd", "second"), [(("a", "b"), ("b", 6)), (("a", ""), ("a", 7))], ids=["other", "none"]
)
def test_a_rank_whose_loss_changes_alone_is_told(
    odd: tuple[str, str], second: tuple[str, int]
) -> None:
    """The other rank is in a collective by then, and hears it from its watch."""
    ranks = world(2)
    steps = [("a", "a")] * 5
    (went, other), (_, own) = ranks.run(disagreeing.other_losses, 6, *steps, odd, ("a", "a"))
    ranks.close()  # a rank that was in a collective cannot go on
    words = _other_losses(("a", 6), second)
    assert went == 5
    assert _counted(own) == "AgreementError: " + words
    assert _counted(other).startswith("RankFailure: rank 1 failed\n  " + words)
