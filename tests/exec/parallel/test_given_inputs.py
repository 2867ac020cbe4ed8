"""Data given to ranks: whole batches that are equal, or parts of one; anything else is an error."""

from __future__ import annotations

import json
from collections.abc import Mapping
from copy import deepcopy
from math import prod
from typing import Any

import pytest
import torch

import dimsolve as ds
from dimsolve.exec.distributed.simulated import Member, SimulatedWorld
from dimsolve.exec.parallel.agreement import Agreement, AgreementError
from dimsolve.exec.parallel.given_inputs import GivenInputs, lower_for
from dimsolve.exec.parallel.mesh import RankMesh
from dimsolve.exec.parallel.parallelize import ParallelModule
from dimsolve.exec.parallel.state import Held
from tests.exec import giving, losses
from tests.oracles.ranks import Ranks, world

TRAINED: list[tuple[str, dict[str, int], Any]] = [
    ("classifier", {"dp": 2}, None),
    ("classifier", {"dp": 4}, None),
    ("classifier", {"dp": 2, "tp": 2}, None),
    ("classifier", {"tp": 2, "dp": 2}, None),
    ("sequences", {"dp": 2, "tp": 2}, None),
    ("sequences", {"a": 2, "b": 2}, "data"),
    ("nested", {"dp": 2}, None),
    ("nested", {"dp": 2, "tp": 2}, None),
]


@pytest.mark.parametrize(("name", "mesh", "policy"), TRAINED, ids=str)
def test_parts_train_as_the_whole_batch_on_one_device(
    name: str, mesh: dict[str, int], policy: Any
) -> None:
    """Three steps of AdamW on what a DistributedSampler gives to each rank."""
    for worst in world(prod(mesh.values())).run(giving.trained, name, mesh, policy):
        assert max(worst.values()) <= 1e-12, worst


def step_of_parts(
    name: str, mesh: Mapping[str, int], policy: Any
) -> list[dict[str, tuple[torch.Tensor, torch.Tensor]]]:
    """What each rank finds of a loss when it is given its parts, and what it should."""
    model, example, names = losses.of(name)
    whole = deepcopy(model)
    loss = whole(**example)
    loss.backward()
    plan = ds.plan(ds.trace(model, kwargs=example, dynamic=names), mesh, policy)
    assert plan.data_axes == ("dp",)

    def program(member: Member) -> dict[str, tuple[torch.Tensor, torch.Tensor]]:
        ends = RankMesh({axis: member[axis] for axis in mesh}, torch.device("cpu"))
        given = GivenInputs.of(plan, ends.communicators, "local")
        made = lower_for(plan, ends, given)
        part = ParallelModule(model, plan, made, ends, Agreement(plan, None), given)
        axes = tuple(ends.communicators.values())
        found = part(**{n: Held(given.layouts[n], axes).part(x) for n, x in example.items()})
        found.backward()
        found_of = {"loss": (found.detach(), loss.detach())}
        for key, parameter in whole.named_parameters():
            mine = part.get_parameter(key).grad
            assert mine is not None
            assert parameter.grad is not None
            found_of[key] = mine, part.held(key).part(parameter.grad)
        return found_of

    return SimulatedWorld[dict[str, Any]](mesh).run(program)


@pytest.mark.parametrize("mesh", [{"dp": 3}, {"dp": 2, "tp": 3}, {"tp": 3, "dp": 2}], ids=str)
@pytest.mark.parametrize("name", losses.LOSSES)
def test_losses_of_parts_are_those_of_the_whole(name: str, mesh: dict[str, int]) -> None:
    for found in step_of_parts(name, mesh, None):
        for mine, wanted in found.values():
            torch.testing.assert_close(mine, wanted, rtol=1e-12, atol=1e-12)


class Pairs(torch.nn.Module):
    """Every image beside every text: a square whose rows and columns are the batch's."""

    def __init__(self) -> None:
        super().__init__()
        self.image = torch.nn.Linear(12, 8)
        self.text = torch.nn.EmbeddingBag(30, 8, mode="mean")

    def forward(self, image: torch.Tensor, text: torch.Tensor) -> list[torch.Tensor]:
        table, pairs = self.text(text), self.image(image) @ self.text(text).t()
        return [pairs, pairs.t(), table.sum(0)]


class Alike(torch.nn.Module):
    """Every row beside every row."""

    def __init__(self) -> None:
        super().__init__()
        self.image = torch.nn.Linear(12, 8)

    def forward(self, image: torch.Tensor) -> list[torch.Tensor]:
        rows = self.image(image)
        pairs = rows.cumsum(1) @ rows.t()
        return [pairs, pairs.t(), self.image.weight.sum(0)]


@pytest.mark.parametrize("mesh", [{"dp": 4}, {"dp": 2, "tp": 2}, {"fsdp": 2, "tp": 2}], ids=str)
@pytest.mark.parametrize("made", [Pairs, Alike])
def test_a_rank_that_gives_rows_is_handed_their_rows(
    made: type[torch.nn.Module], mesh: dict[str, int]
) -> None:
    torch.manual_seed(0)
    model = made().double()
    example = {"image": torch.randn(8, 12, dtype=torch.float64)}
    if made is Pairs:
        example["text"] = torch.randint(0, 30, (8, 5))
    names = {name: {0: "batch"} for name in example} if made is Pairs else {}
    plan = ds.plan(ds.trace(model, kwargs=example, dynamic=names), mesh)
    whole, (axis,) = model(**example), plan.data_axes

    def program(member: Member) -> None:
        ends = RankMesh({axis: member[axis] for axis in mesh}, torch.device("cpu"))
        given = GivenInputs.of(plan, ends.communicators, "local")
        program = lower_for(plan, ends, given)
        part = ParallelModule(model, plan, program, ends, Agreement(plan, None), given)
        count, place = mesh[axis], ends.communicators[axis].rank
        found = part(**{name: x.chunk(count)[place] for name, x in example.items()})
        for mine, wanted in zip(found[:2], whole[:2], strict=True):
            torch.testing.assert_close(mine, wanted.chunk(count)[place])
        torch.testing.assert_close(found[2], whole[2])

    SimulatedWorld[None](mesh).run(program)


def test_parts_of_blocks_make_a_whole_in_blocks() -> None:
    assert max(world(2).run(giving.views)) <= 1e-12


DIFFERENT = "AgreementError: the ranks are called with different inputs\n"
WHOLE = (
    "  every rank gives the whole batch, and takes its own part along dp\n"
    "  hint: give the same batch on all ranks; or, where each rank is to give its own part, as a "
    'DistributedSampler draws it, dimsolve.parallelize(..., inputs="local")'
)
TENSOR_PARALLEL = (
    f"{DIFFERENT}"
    "  ids on rank 1 is not what it is on rank 0\n"
    "  labels on rank 1 is not what it is on rank 0\n"
    "  the plan cuts no data: all ranks along tp work on the same batch\n"
    '  hint: give the same batch on all ranks; dimsolve.parallelize(..., inputs="local") is for '
    "plans that cut the batch, such as those over {'dp': 2}"
)


def test_other_batches_where_the_whole_is_expected() -> None:
    for text in world(2).run(giving.own_batches, {"dp": 2}, "whole"):
        assert text == (
            f"{DIFFERENT}"
            "  ids on rank 1 is not what it is on rank 0\n"
            "  labels on rank 1 is not what it is on rank 0\n"
            f"{WHOLE}"
        )


def test_other_batches_on_ranks_of_tensor_parallelism() -> None:
    for text in world(2).run(giving.own_batches, {"tp": 2}, "whole"):
        assert text == TENSOR_PARALLEL


def test_other_batches_of_data_parallel_groups() -> None:
    mesh = {"dp": 2, "tp": 2}
    for text in world(4).run(giving.own_batches, mesh, "whole", alike=["tp"]):
        assert text == (
            f"{DIFFERENT}"
            "  ids on ranks 2 and 3 is not what it is on rank 0\n"
            "  labels on ranks 2 and 3 is not what it is on rank 0\n"
            f"{WHOLE}"
        )
    assert world(4).run(giving.own_batches, mesh, "local", alike=["tp"]) == [""] * 4


def test_other_parts_on_ranks_of_one_data_coordinate() -> None:
    for text in world(4).run(giving.own_batches, {"dp": 2, "tp": 2}, "local"):
        assert text == (
            f"{DIFFERENT}"
            "  ids on rank 1 is not what it is on rank 0: both at dp=0\n"
            "  labels on rank 1 is not what it is on rank 0: both at dp=0\n"
            "  ranks that differ along tp only give the same parts, and what is not cut along dp "
            "is the same on all ranks\n"
            "  hint: let the sampler count ranks along the data axes only: DistributedSampler("
            "data, mesh.size(), mesh.get_local_rank()), where mesh is "
            'part.device_mesh["dp"]'
        )


def test_other_values_of_what_is_not_cut() -> None:
    for text in world(2).run(giving.own_scale):
        assert text == (
            f"{DIFFERENT}"
            "  scale on rank 1 is not what it is on rank 0\n"
            "  what is not cut along dp is the same on all ranks\n"
            "  hint: give the same scale on all ranks"
        )


def test_parts_of_different_lengths() -> None:
    (text, first), (same, second) = world(2).run(giving.own_lengths)
    assert text == same
    assert text == (
        "AgreementError: the ranks' parts of ids have different lengths\n"
        "  dimension 0: rank 0: 4, rank 1: 3; the plan cuts it along dp into equal parts\n"
        "  hint: give parts of one length on all ranks: DataLoader(..., drop_last=True) drops a "
        "batch that is not full"
    )
    assert first == second, "the next batch runs"


def test_parts_that_differ_where_nothing_is_cut() -> None:
    for text in world(2).run(giving.other_widths):
        assert text == (
            "AgreementError: the ranks are called with different sizes\n"
            "  rank 0: ids (4, 4), labels (4, 4)\n"
            "  rank 1: ids (4, 3), labels (4, 3)\n"
            "  hint: give parts of the same sizes on all ranks"
        )


def test_conditions_are_those_of_the_whole() -> None:
    for text in world(2).run(giving.rows_of_views, 3):
        assert text == (
            "PlanError: the plan does not hold at these sizes\n"
            "  it needs items % 2 == 0 (dp cuts dimension 0 of x), and items = 3\n"
            "  as it was given, x (3, 6) is the part along dp of (6, 6)\n"
            "  hint: the plan serves all sizes with items % 2 == 0"
        )


def test_a_part_of_what_is_not_cut() -> None:
    for text in world(2).run(giving.uncut_given_in_parts):
        assert text == (
            "ShapeError: y has another shape than the program was made for\n"
            "  it is (2,), and the program takes float64[4]: 4 is never 2\n"
            "  as it was given, x (4, 6) is the part along dp of (8, 6); y is not cut, and is "
            "given whole on every rank\n"
            '  hint: trace for all lengths: dimsolve.trace(..., dynamic={"y": {0: "batch_2"}})'
        )


def test_rows_of_what_every_rank_needs_whole_are_gathered() -> None:
    """A loader cuts all tensors of a batch alike, also a mask that the plan cannot cut."""
    assert max(world(2).run(giving.own_rows_of_what_is_needed_whole)) <= 1e-12


def test_a_cut_of_another_dimension_than_the_first_is_said() -> None:
    for said in world(2).run(giving.unusual):
        assert said == [
            'inputs="local": the plan cuts dimension 1 of x along dp, so each rank gives its part '
            "of that dimension, and not rows of its own"
        ]


def test_ranks_that_give_inputs_in_different_ways() -> None:
    for text in world(2).run(giving.both_ways):
        assert text == (
            "AgreementError: the ranks are given inputs in different ways\n"
            "  the inputs argument of rank 0 is whole, that of rank 1 is local\n"
            "  hint: start all ranks with the same model, plan and arguments"
        )


def test_ways_that_there_are_not() -> None:
    for no_data, no_way in world(2).run(giving.refused_plans):
        assert no_data == (
            'LoweringError: inputs="local" needs a plan that cuts data\n'
            "  along tp this one cuts no input, or parameters too: all ranks work on the same "
            "batch\n"
            '  hint: give the same batch on all ranks, inputs="whole", or plan for a data axis as '
            "well, such as {'dp': 2, 'tp': 2}"
        )
        assert no_way == (
            "LoweringError: there is no such way to give inputs\n"
            "  inputs is 'parts'\n"
            '  hint: write "whole", the whole batch on every rank, or "local", its own part'
        )


def test_no_tensor_where_there_was_one_and_none_can_be_traced() -> None:
    for text in world(2).run(giving.not_a_tensor):
        assert text == (
            "CallError: scale is a str\n"
            "  the model was traced with a tensor there\n"
            "  hint: give a tensor: torch.as_tensor(scale)"
        )


def test_contents_are_compared_in_the_calls_that_are_documented() -> None:
    for texts in world(2).run(giving.drifting, "whole"):
        assert texts == [""] * 7 + [TENSOR_PARALLEL]


@pytest.mark.parametrize(("way", "collectives"), [("whole", 4), ("local", 3)])
def test_nothing_is_sent_for_it_in_other_calls(way: str, collectives: int) -> None:
    """Collectives: of the loss, of two sums of gradients; whole scores are gathered as well. The
    first call, of new sizes, asks through the store of the process group.
    """
    for seen, exchanges in world(2).run(giving.sent, way):
        assert [count - collectives for count in seen] == [0, 1, 1, 1, 0, 0, 0, 1, 0]
        assert exchanges == [1, 0, 0, 0, 0, 0, 0, 0, 0]


def test_equal_bits_are_equal_inputs() -> None:
    """nan, strides, truth values and nothing at all; and signs of zero and the order count."""
    different = DIFFERENT.strip()
    wanted = ["", "", different, different, "", different, ""]
    assert world(2).run(giving.odd_inputs) == [wanted, wanted]


def test_ranks_along_an_axis_that_the_plan_has_not_are_not_compared() -> None:
    texts = world(4).run(giving.outer_mesh)
    for text, (first, other) in zip(texts, [(0, 1), (0, 1), (2, 3), (2, 3)], strict=True):
        assert text == (
            f"{DIFFERENT}"
            f"  ids on rank {other} is not what it is on rank {first}\n"
            f"  labels on rank {other} is not what it is on rank {first}\n"
            f"{WHOLE}"
        )


class Other(Agreement):
    """One of two ranks; the other one has another plan."""

    alone = False

    def _identity(self) -> dict[str, str]:
        keys = ("mesh", "world", "version", "graph", "plan", "inputs argument")
        return dict.fromkeys(keys, "one")

    def _exchange(self, question: str, text: str) -> dict[int, str]:
        said = json.loads(text)
        other = {**said, "plan": "another"} if isinstance(said, dict) else said
        return {0: text, 1: json.dumps(other)}


@pytest.mark.parametrize(
    ("policy", "hint"),
    [
        ("tensor", "start all ranks with the same model, plan and arguments"),
        (
            "auto",
            "a search that the clock ends may find another plan on each rank: search once, and "
            "give all ranks the text of plan.to_json(): Plan.from_json(text).for_graph(graph)",
        ),
    ],
)
def test_ranks_that_search_for_themselves_are_told_to_search_once(policy: Any, hint: str) -> None:
    graph = ds.trace(torch.nn.Linear(4, 4), args=(torch.ones(2, 4),))
    more: Any = {"machine": "a100"} if policy == "auto" else {}
    agreement = Other(ds.plan(graph, {"tp": 2}, policy, **more), None)
    agreement.ranks = [0, 1]
    with pytest.raises(AgreementError) as caught:
        agreement.agree_on_plan()
    assert str(caught.value).endswith(f"\n  hint: {hint}")


def test_a_late_rank_is_waited_for_and_an_absent_one_is_named() -> None:
    ranks = Ranks(2)
    try:
        (first, text), _ = ranks.run(giving.late_rank)
    finally:
        ranks.close()
    assert first == ""
    assert text.startswith("RankFailure: rank 1 failed\n  it did not come, and rank 0 waited ")
    assert "rank 0 was in the agreement on the inputs" in text


@pytest.mark.parametrize("way", ["whole", "local"])
def test_dtensors_are_the_whole_that_they_stand_for(way: str) -> None:
    """Outputs, loss and gradients, also the DTensor's own; only other placements are exchanged."""
    for found in world(4).run(giving.dtensors, way):
        assert {name: sent for name, (_, sent) in found.items()} == {
            "as the plan": 0,
            "of the data axis": 0,
            "whole": 0,
            "of another dimension": 1,
            "of both axes": 1,
            "of the other axis": 1,
            "summands": 1,
        }
        assert max(worst for worst, _ in found.values()) <= 1e-12, found


def test_a_loop_that_evaluates_in_between_sends_nothing_to_compare_its_backward_passes() -> None:
    """Of the last 24 gradients that come to an output the 32nd of all is compared in any case."""
    assert world(2).run(giving.epochs) == [[32]] * 2


def test_dtensors_that_are_refused() -> None:
    for texts in world(2).run(giving.refused_dtensors):
        equal_mesh, turned, unequal, partial, different = texts
        assert equal_mesh == partial == ""
        assert turned == (
            "CallError: x is a DTensor of another mesh\n"
            "  its mesh has the shape (2,), the axes ('dp',) and the ranks [1, 0]; the plan's mesh "
            "is dp=2\n"
            "  hint: make it on part.device_mesh, or give the whole: x.full_tensor()"
        )
        assert unequal == (
            "PlanError: the plan does not hold at these sizes\n"
            "  it needs batch % 2 == 0 (dp cuts dimension 0 of x), and batch = 5\n"
            "  hint: the plan serves all sizes with batch % 2 == 0"
        )
        assert different == f"{DIFFERENT}  x on rank 1 is not what it is on rank 0\n{WHOLE}"


def test_dtensors_of_unequal_parts() -> None:
    for worst, text in world(4).run(giving.unequal_dtensors):
        assert worst <= 1e-12
        assert text == (
            "CallError: input is a DTensor of unequal parts\n"
            "  dimension 1 of (8, 5) is cut into 4 along several axes or in blocks, and 5 is no "
            "multiple of 4\n"
            "  hint: give the whole: input.full_tensor()"
        )


@pytest.mark.parametrize("way", ["whole", "local"])
def test_a_compiled_part_takes_them_too(way: str) -> None:
    """As one graph each; parts that come later are compiled no other way than the first."""
    for worst, graphs in world(2).run(giving.compiled, way):
        assert worst <= 1e-12
        assert graphs == [1, 1, 1]
