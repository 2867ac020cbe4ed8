"""Law: the gradient of an output that another is computed from is that of one device, or a hook on
it says that it is not.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

import dimsolve as ds
from dimsolve.exec.distributed.simulated import Member, SimulatedWorld
from dimsolve.exec.lowering import beside
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
        kept, best = features.detach(), logits.argmax(1)
        return {
            "loss": loss,
            "logits": logits,
            "features": features,
            "kept": kept,
            "best": best,
        }


class Rerun(Classified):
    """Its logits are made in a region that is run again."""

    def forward(self, x: Tensor, y: Tensor) -> dict[str, Tensor]:
        logits = checkpoint(lambda x: self.down(torch.tanh(self.up(x))), x, use_reentrant=False)
        return {"loss": nn.functional.cross_entropy(logits, y), "logits": logits}


X, Y = torch.randn(8, 6), torch.randint(0, 4, (8,))
Look = Callable[[Any], Any]


def looked(look: Look, mesh: dict[str, int], way: Any = "whole", kind: Any = Classified) -> Any:
    """What rank 0 finds of a call's results, and what one device does."""
    model = kind()
    graph = ds.trace(model, args=(X, Y), dynamic={"x": {0: "batch"}, "y": {0: "batch"}})
    plan = ds.plan(graph, mesh)

    def program(member: Member) -> Any:
        ends = RankMesh({axis: member[axis] for axis in mesh}, torch.device("cpu"))
        given = GivenInputs.of(plan, ends.communicators, way)
        part = ParallelModule(
            model, plan, lower_for(plan, ends, given), ends, Agreement(plan, None), given
        )
        rows = slice(4 * member["dp"].rank, 4 * member["dp"].rank + 4) if way == "local" else ...
        return look(part(X[rows], Y[rows]))

    return SimulatedWorld[Any](mesh).run(program)[0], look(model(X, Y))


def hooked(output: str) -> Look:
    """A hook that sees a gradient, and changes it."""

    def look(found: Any) -> list[Tensor]:
        seen: list[Tensor] = []
        found[output].register_hook(lambda g: seen.append(g.clone()) or g * 2)
        found["loss"].backward()
        return seen

    return look


def dropped(found: Any) -> list[Tensor]:
    """A hook on what nobody has any more."""
    seen: list[Tensor] = []
    loss = found["loss"]
    found.pop("logits").register_hook(seen.append)
    found.clear()
    loss.backward()
    return seen


def retained(found: Any) -> list[Tensor]:
    """The gradient of the loss and of what the script makes of the logits."""
    found["logits"].retain_grad()
    (found["loss"] + found["logits"].square().mean()).backward()
    return [found["logits"].grad]


def asked(found: Any) -> list[Tensor]:
    """Gradients of gradients too."""
    (first,) = torch.autograd.grad(found["loss"], found["logits"], create_graph=True)
    (second,) = torch.autograd.grad(first.square().sum(), found["features"])
    return [first, second]


@pytest.mark.parametrize("mesh", [{"dp": 2}, {"tp": 2, "dp": 1}, {"dp": 2, "tp": 2}])
@pytest.mark.parametrize("look", [hooked("logits"), dropped, retained, asked, hooked("features")])
def test_who_looks_at_an_output_sees_the_gradient_of_what_is_computed_from_it(
    look: Look, mesh: dict[str, int]
) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        part, whole = looked(look, mesh)
    assert part, "something is seen"
    for one, other in zip(part, whole, strict=True):
        torch.testing.assert_close(one, other)


def test_nothing_is_gathered_where_nobody_looks(monkeypatch: pytest.MonkeyPatch) -> None:
    sent: list[str] = []
    monkeypatch.setattr(beside, "meet", lambda _, what: sent.append(what))
    looked(lambda found: found["loss"].backward(), {"dp": 2})
    assert not sent
    looked(hooked("logits"), {"dp": 2})
    assert sent == ["the gradient of output 'logits'"] * 2


def said(output: str, mesh: dict[str, int], way: Any = "whole", kind: Any = Classified) -> Any:
    """What rank 0 says of a hook on an output; whether the hook ran is said last."""

    def look(found: Any) -> list[str]:
        ran: list[Tensor] = []
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            if found[output].requires_grad:
                found[output].register_hook(ran.append)
        found["loss"].backward()
        return [*(str(each.message) for each in caught), f"ran {len(ran)}"]

    return looked(look, mesh, way, kind)[0]


def test_a_hook_that_does_not_see_a_gradient_is_said() -> None:
    assert said("logits", {"dp": 2}, kind=Rerun) == [
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


class Scattered(nn.Module):
    """Outputs that are gathered in one collective."""

    def __init__(self) -> None:
        super().__init__()
        self.up = nn.Linear(6, 4)

    def forward(self, x: Tensor, y: Tensor) -> tuple[Tensor, ...]:
        found = self.up(x)
        return found + 1, found.cos()


def test_a_hook_is_not_called_where_no_gradient_comes_by() -> None:
    def look(found: Any) -> int:
        seen: list[Tensor | None] = []
        found[0].register_hook(seen.append)
        found[1].sum().backward()
        return len(seen)

    assert looked(look, {"dp": 2}, kind=Scattered) == (0, 0)


@pytest.mark.parametrize("more", [{}, {"allow_unused": True}, {"materialize_grads": True}], ids=str)
def test_gradients_of_an_output_and_of_what_it_is_made_of_are_asked_for_at_once(
    more: dict[str, bool],
) -> None:
    def look(found: Any) -> list[Tensor]:
        asked = [found["logits"], found["features"]]
        return list(torch.autograd.grad(found["loss"], asked, **more))

    given, wanted = looked(look, {"dp": 2})
    torch.testing.assert_close(given, wanted)
