"""Law: what differs from one device is said: a hook on an output that another is computed from."""

from __future__ import annotations

import warnings
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import dimsolve as ds
from dimsolve.exec.distributed.simulated import Member, SimulatedWorld
from dimsolve.exec.parallel.agreement import Agreement
from dimsolve.exec.parallel.given_inputs import GivenInputs, lower_for
from dimsolve.exec.parallel.mesh import RankMesh
from dimsolve.exec.parallel.parallelize import ParallelModule


class Classified(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.up, self.down = nn.Linear(6, 8), nn.Linear(8, 4)

    def forward(self, x: Tensor, y: Tensor) -> dict[str, Tensor]:
        features = torch.tanh(self.up(x))
        logits = self.down(features)
        loss = nn.functional.cross_entropy(logits, y)
        return {"loss": loss, "logits": logits, "kept": features.detach(), "best": logits.argmax(1)}


def said(output: str, mesh: dict[str, int], way: Any = "whole") -> list[str]:
    """What rank 0 says of a hook on an output; whether the hook ran is said last."""
    model, x, y = Classified(), torch.randn(8, 6), torch.randint(0, 4, (8,))
    graph = ds.trace(model, args=(x, y), dynamic={"x": {0: "batch"}, "y": {0: "batch"}})
    plan = ds.plan(graph, mesh)

    def program(member: Member) -> list[str]:
        ends = RankMesh({axis: member[axis] for axis in mesh}, torch.device("cpu"))
        given = GivenInputs.of(plan, ends.communicators, way)
        part = ParallelModule(
            model, plan, lower_for(plan, ends, given), ends, Agreement(plan, None), given
        )
        rows = slice(4 * member["dp"].rank, 4 * member["dp"].rank + 4) if way == "local" else ...
        found, ran = part(x[rows], y[rows]), []
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            if found[output].requires_grad:
                found[output].register_hook(ran.append)
        found["loss"].backward()
        return [*(str(each.message) for each in caught), f"ran {len(ran)}"]

    return SimulatedWorld[list[str]](mesh).run(program)[0]


def test_a_hook_that_does_not_see_a_gradient_is_said() -> None:
    assert said("logits", {"dp": 2}) == [
        "a hook on output 'logits' does not see the gradient of 'loss', which is computed from "
        "this rank's part of it; what is handed out was gathered. Compute 'loss' in the script, "
        "from what the part returns, and it does",
        "ran 0",
    ]


@pytest.mark.parametrize(
    ("output", "mesh", "way", "runs"),
    [
        ("loss", {"dp": 2}, "whole", 1),
        ("kept", {"dp": 2}, "whole", 0),
        ("logits", {"tp": 1}, "whole", 1),
        ("logits", {"dp": 2}, "local", 1),
    ],
)
def test_a_hook_that_sees_what_it_does_on_one_device_says_nothing(
    output: str, mesh: dict[str, int], way: str, runs: int
) -> None:
    assert said(output, mesh, way) == [f"ran {runs}"]
