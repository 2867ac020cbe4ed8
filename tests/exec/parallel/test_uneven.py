"""Law: a plan whose parts are not all equal is equal to one device, in every step of training."""

from __future__ import annotations

import re
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed as dist
from torch import Tensor, nn

import dimsolve as ds
from dimsolve.exec.distributed.simulated import SimulatedWorld
from dimsolve.exec.lowering.lower import lower
from dimsolve.exec.lowering.setting import LoweringError
from dimsolve.exec.parallel.agreement import Agreement
from dimsolve.exec.parallel.given_inputs import GivenInputs, lower_for
from dimsolve.exec.parallel.mesh import RankMesh
from dimsolve.exec.parallel.parallelize import ParallelModule
from dimsolve.exec.running.comparable import without_narrowing
from dimsolve.exec.running.compare import CheckedRun
from dimsolve.partition.placement import Shard
from tests.exec import saving, unequal_architectures
from tests.exec.parallel import uneven_models
from tests.oracles.one_device import assert_equal, parts, train
from tests.oracles.ranks import world


def plan_of(
    model: nn.Module, example: dict[str, Tensor], dynamic: Any, mesh: dict[str, int], **how: Any
) -> ds.Plan:
    return ds.plan(ds.trace(model, kwargs=example, dynamic=dynamic), mesh, **how)


def sizes(plan: ds.Plan) -> dict[str, int]:
    return {axis: int(size) for axis, size in plan.mesh.items()}


@pytest.mark.parametrize("count", [3, 7])
def test_lengths_that_the_count_does_not_divide_are_dealt_out(count: int) -> None:
    model, example = uneven_models.tiny(), uneven_models.batch()
    plan = plan_of(model, example, uneven_models.ROWS, {"tp": count}, policy="tensor")
    assert plan.uneven
    assert_equal(train(model, example, uneven_models.ROWS, sizes(plan), None, plan=plan))


@pytest.mark.parametrize("count", [4, 8])
def test_key_value_heads_are_held_by_several_ranks(count: int) -> None:
    model, example, dynamic = uneven_models.grouped()
    plan = plan_of(model, example, dynamic, {"tp": count}, policy="tensor")
    assert plan.mesh == {"tp_0": "2", "tp_1": str(count // 2)}
    assert plan.factors == {"tp": ["tp_0", "tp_1"]}
    held = {entry.name.rpartition("self_attn.")[2]: entry.shape for entry in plan.parameters}
    assert held["q_proj.weight"] == [str(64 // count), "64"]
    assert held["k_proj.weight"] == ["8", "64"], "one head of two, on half of the ranks"
    assert_equal(train(model, example, dynamic, sizes(plan), None, plan=plan))


@pytest.mark.parametrize("word", ["optimizer", "shared"])
def test_what_is_said_of_an_axis_that_is_seen_as_two_is_said_of_both(word: str) -> None:
    """The key-value heads that two ranks hold alike are stored in parts by these two."""
    model, example, dynamic = uneven_models.grouped()
    plan = plan_of(model, example, dynamic, {"tp": 4}, policy="tensor", state={"tp": word})
    assert plan.state == {"tp_0": word, "tp_1": word}
    assert_equal(train(model, example, dynamic, sizes(plan), None, plan=plan))


def test_the_configuration_that_fails_in_the_forward_pass_elsewhere() -> None:
    # huggingface/transformers#48307: 4 key-value heads over 8 ranks, with norms of queries and keys
    from transformers import Qwen3Config, Qwen3ForCausalLM

    torch.manual_seed(0)
    lengths = {"hidden_size": 32, "intermediate_size": 48, "vocab_size": 64, "head_dim": 8}
    heads = {"num_attention_heads": 8, "num_key_value_heads": 4, "num_hidden_layers": 1}
    model = Qwen3ForCausalLM(Qwen3Config(**lengths, **heads, use_cache=False)).double()
    _, example, dynamic = uneven_models.grouped()
    plan = plan_of(model, example, dynamic, {"tp": 8}, policy="tensor")
    assert plan.mesh == {"tp_0": "4", "tp_1": "2"}
    assert_equal(train(model, example, dynamic, sizes(plan), None, 2, plan=plan))


def test_the_vocabulary_that_drifts_elsewhere() -> None:
    # NVIDIA/Megatron-LM#1754: 50257 entries over 2 ranks
    torch.manual_seed(0)
    model = uneven_models.Loss(50257, 5, 7).double()
    example = uneven_models.batch(vocabulary=50257)
    plan = plan_of(model, example, None, {"tp": 2}, policy="tensor")
    table = next(entry for entry in plan.parameters if entry.name == "embed.weight")
    assert table.placements == ["S(0, of=50257)"] and table.shape == ["25129", "5"]
    assert_equal(train(model, example, None, sizes(plan), None, plan=plan))


def test_odd_heads_and_a_prime_vocabulary() -> None:
    model, example, dynamic = uneven_models.odd_heads()
    plan = plan_of(model, example, dynamic, {"tp": 3}, policy="tensor")
    attention = next(o for o in plan.operators if o.name == "scaled_dot_product_attention")
    assert attention.splits["tp"].of == "5"
    assert_equal(train(model, example, dynamic, sizes(plan), None, plan=plan))


@pytest.mark.parametrize(("name", "count"), [("qwen2", 4), ("phi", 3), ("opt", 6)])
def test_architectures_train_as_one_device_at_counts_that_no_even_cut_serves(
    name: str, count: int
) -> None:
    pytest.importorskip("transformers")
    given = unequal_architectures.built(name)
    graph = ds.trace(given.model, kwargs=given.example, dynamic=given.names)
    plan = ds.plan(graph, {"tp": count}, "tensor")
    assert plan.uneven or plan.factors
    assert unequal_architectures.trained(given, plan).difference <= 1e-9


@pytest.mark.parametrize("name", ["llama", "gpt2", "opt"])
def test_architectures_train_with_batches_of_any_size(name: str) -> None:
    """Two rows leave a rank with nothing; that a batch has two is the trace's own condition."""
    pytest.importorskip("transformers")
    given = unequal_architectures.built(name)
    plan = unequal_architectures.batches(given)
    assert set(plan.conditions) <= {"batch >= 2", "seq >= 2"}
    assert unequal_architectures.trained(given, plan).difference <= 1e-9


@pytest.mark.parametrize("name", ["llama", "bert"])
def test_a_loss_in_float32_over_rows_of_any_number(name: str) -> None:
    """As it is, a float64 model sums its loss in float32, over rows that are whole on no rank."""
    pytest.importorskip("transformers")
    given = unequal_architectures.built(name)
    plan = unequal_architectures.batches(given)
    assert unequal_architectures.trained(given, plan, wide=False).difference <= 1e-9


@pytest.mark.parametrize("kind", ["mean", "losses", "deviation"])
def test_means_and_recurrent_layers_take_batches_of_any_size(kind: str) -> None:
    """Over three ranks five rows are 2, 2 and 1, four are 2, 2 and none."""
    model, given = uneven_models.averaged(kind)
    dynamic = {name: {0: "batch"} for name in given}
    plan = plan_of(model, given, dynamic, {"dp": 3}, uneven="allow")
    assert plan.uneven and not plan.conditions

    def work(part: ParallelModule) -> list[bool]:
        run = CheckedRun(part, deepcopy(model))
        batches = [{name: x[:rows] for name, x in given.items()} for rows in (5, 4, 3, 2, 6)]
        steps = [run.step(batch).differences for batch in batches]
        return [each is not None and each.ok for each in steps]

    for rank in parts(model, plan, {"dp": 3}, work):
        assert rank == [True] * 5


def test_a_batch_and_a_sequence_are_both_dealt_out() -> None:
    pytest.importorskip("transformers")
    given = unequal_architectures.built("llama")
    graph = ds.trace(given.model, kwargs=given.example, dynamic=given.names)
    plan = ds.plan(graph, {"dp": 2, "cp": 2}, uneven="allow")
    assert set(plan.conditions) <= {"batch >= 2", "seq >= 2"}
    assert unequal_architectures.trained(given, plan).difference <= 1e-9


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_narrow_parameters_are_dealt_out(dtype: torch.dtype) -> None:
    model, example = uneven_models.tiny().to(dtype), uneven_models.batch()
    plan = plan_of(model, example, uneven_models.ROWS, {"tp": 3}, policy="tensor")
    assert plan.uneven
    assert_equal(train(model, example, uneven_models.ROWS, sizes(plan), None, plan=plan))


@pytest.mark.parametrize("count", [2, 4])
def test_five_experts_over_two_and_over_four(count: int) -> None:
    """Over four they are 2, 2, 1 and none: that rank adds zeros."""
    transformers = pytest.importorskip("transformers")
    torch.manual_seed(0)
    lengths = {"vocab_size": 32, "hidden_size": 16, "intermediate_size": 32, "use_cache": False}
    heads = {"num_attention_heads": 2, "num_key_value_heads": 2, "num_hidden_layers": 1}
    config = transformers.MixtralConfig(**lengths, **heads, num_local_experts=5)
    model: nn.Module = transformers.MixtralForCausalLM(config)
    ids = torch.randint(0, 32, (8, 6))
    graph = ds.trace(model, kwargs={"input_ids": ids, "labels": ids})
    plan = ds.plan(graph, {"ep": count})
    table = next(entry for entry in plan.parameters if entry.name.endswith("gate_up_proj"))
    assert table.placements == ["S(0, of=5)"]
    share = {2: "3 at most, 1.2 times", 4: "2 at most, 1.6 times"}[count]
    assert plan.notes[0].endswith(f"; of 5 units a rank has {share} an equal share")
    assert ds.Plan.from_json(plan.to_json()).for_graph(graph) == plan
    example = {"input_ids": ids, "labels": ids}
    assert_equal(train(model, example, None, {"ep": count}, None, 2, plan=plan))


def test_rows_of_its_own_on_every_rank_beside_an_axis_of_unequal_parts() -> None:
    model, example = uneven_models.tiny(), uneven_models.batch(4)
    mesh = {"dp": 2, "tp": 2}
    plan = plan_of(model, example, uneven_models.ROWS, mesh, policy="data+tensor")
    table = next(entry for entry in plan.parameters if entry.name == "up.weight")
    assert table.placements == ["R", "S(0, of=7)"]
    whole = deepcopy(model)
    loss, logits = whole(**example)
    loss.backward()

    def work(member: Any) -> float:
        ends = RankMesh({axis: member[axis] for axis in mesh}, torch.device("cpu"))
        given = GivenInputs.of(plan, ends.communicators, "local")
        program = lower_for(plan, ends, given)
        part = ParallelModule(model, plan, program, ends, Agreement(plan, None), given)
        rows = slice(2 * member["dp"].rank, 2 * member["dp"].rank + 2)
        found, own = part(**{name: each[rows] for name, each in example.items()})
        found.backward()
        off = [float((found - loss).detach().abs())]
        off.append(float((own - logits[rows]).detach().abs().max()))
        for name, parameter in whole.named_parameters():
            wanted, gradient = part.held(name).part(parameter.grad), part.get_parameter(name).grad
            off.append(float((gradient - wanted).abs().max()))
        return max(off)

    assert max(SimulatedWorld[float](mesh).run(work)) <= 1e-12


def test_no_batch_is_refused_where_batches_may_be_cut_unequally() -> None:
    model, example = uneven_models.tiny(), uneven_models.batch(4)
    plan = plan_of(model, example, uneven_models.ROWS, {"dp": 3}, policy="data", uneven="allow")
    assert plan.conditions == []

    def work(part: Any) -> list[Any]:
        run = CheckedRun(part, deepcopy(model))
        return [run.step(uneven_models.batch(rows, rows)) for rows in (4, 7, 1, 2)]

    for steps in parts(model, plan, {"dp": 3}, work):
        assert_equal(steps)


def test_a_rank_with_nothing_joins_in_summing_the_gradient_of_a_mask() -> None:
    """torch's attention has no gradient for its mask where there are no queries."""
    model, example = uneven_models.biased_attention()
    plan = plan_of(model, example, {"x": {0: "rows"}}, {"dp": 3}, policy="data", uneven="allow")
    assert plan.conditions == []

    def work(part: Any) -> list[Any]:
        assert "= connecting(" in part.source()
        run = CheckedRun(part, deepcopy(model))
        return [run.step({"x": example["x"][:rows]}) for rows in (4, 1, 6)]

    for steps in parts(model, plan, {"dp": 3}, work):
        assert_equal(steps)


def test_windows_sorts_and_scans_of_no_rows() -> None:
    model, example = uneven_models.pictures()
    plan = plan_of(model, example, {"x": {0: "rows"}}, {"dp": 3}, policy="data", uneven="allow")
    assert plan.conditions == []

    def work(part: Any) -> list[Any]:
        run = CheckedRun(part, deepcopy(model))
        return [run.step({"x": example["x"][:rows]}) for rows in (4, 1, 6)]

    for steps in parts(model, plan, {"dp": 3}, work):
        assert_equal(steps)


def test_a_part_that_does_not_tell_the_whole_is_refused() -> None:
    model, example = uneven_models.tiny(), uneven_models.batch(4)
    plan = plan_of(model, example, uneven_models.ROWS, {"dp": 3}, policy="data", uneven="allow")
    given = {"ids": (Shard(0),), "target": (Shard(0),)}

    def refused(member: Any) -> str:
        assert plan.planned is not None
        with pytest.raises(LoweringError) as found:
            lower(plan.planned, plan, {"dp": member["dp"]}, given=given)
        return str(found.value)

    assert SimulatedWorld[str]({"dp": 3}).run(refused)[0] == (
        "unequal parts of ids do not tell 'batch'\n"
        "  the plan cuts it into unequal parts, and one of them does not tell how long the whole "
        'is\n  hint: give ids whole on every rank, or plan with uneven="parameters"'
    )


def test_a_plan_of_unequal_parts_is_read_as_it_was_written() -> None:
    model, example = uneven_models.tiny(), uneven_models.batch()
    graph = ds.trace(model, kwargs=example, dynamic=uneven_models.ROWS)
    plan = ds.plan(graph, {"tp": 3}, "tensor")
    assert plan.version == 4
    assert ds.Plan.from_json(plan.to_json()).for_graph(graph) == plan
    edited = re.sub(r'"of": "\d+"', '"of": "4"', plan.to_json(), count=1)
    assert edited != plan.to_json()
    with pytest.raises(ds.PlanError):
        ds.Plan.from_json(edited).for_graph(graph)


def test_equal_parts_are_what_is_planned_where_the_count_divides() -> None:
    model, example = uneven_models.tiny(vocabulary=12, width=6, inner=6), uneven_models.batch()
    graph = ds.trace(model, kwargs=example, dynamic=uneven_models.ROWS)
    written = [
        ds.plan(graph, {"tp": 3}, "tensor", uneven=word).to_json()
        for word in ("parameters", "refuse", "allow")
    ]
    assert len(set(written)) == 1 and '"unit"' not in written[0]


def test_another_word_for_uneven_is_refused() -> None:
    model, example = uneven_models.tiny(), uneven_models.batch()
    with pytest.raises(ds.PlanError) as found:
        plan_of(model, example, None, {"tp": 3}, uneven="yes")
    assert str(found.value) == (
        "this says of nothing that it may be cut into unequal parts\n"
        "  uneven is 'yes'\n"
        '  hint: write "parameters", for lengths that are fixed by the model, "allow" for all, or '
        '"refuse"'
    )


def trained(mesh: dict[str, int]) -> list[float]:
    """What a rank of gloo does: three steps of AdamW; returns how far each is off."""
    model, example = uneven_models.tiny(), uneven_models.batch(3)
    plan = plan_of(model, example, uneven_models.ROWS, mesh, policy="tensor")
    part = ds.parallelize(model, plan)
    ours = torch.optim.AdamW(part.parameters(), lr=1e-2)
    whole = deepcopy(model)
    theirs = torch.optim.AdamW(whole.parameters(), lr=1e-2)
    found = []
    for rows in (3, 2, 5):
        given, outputs = uneven_models.batch(rows, rows), []
        for net, optimizer in ((part, ours), (whole, theirs)):
            optimizer.zero_grad()
            loss, logits = net(**given)
            loss.backward()
            optimizer.step()
            outputs.append(logits.detach())
        found.append(float((outputs[0] - outputs[1]).abs().max()))
    return found


def spent_a_day() -> list[float]:
    """What a rank of gloo does with 3 key-value heads over 2: layers that run again in the backward
    pass, a GradScaler, clipped gradients, tokens generated without a cache and with one, of which
    the ranks have 2 heads and 1; returns how far each step is off.
    """
    lengths = {"hidden_size": 45, "vocab_size": 61, "intermediate_size": 53, "use_cache": True}
    heads = {"num_attention_heads": 9, "num_key_value_heads": 3, "head_dim": 8}
    model, example, dynamic = uneven_models.grouped(**lengths, **heads)
    whole: Any = model.train()
    whole.gradient_checkpointing_enable()
    part: Any = ds.parallelize(model, plan_of(model, example, dynamic, {"tp": 2}, policy="tensor"))
    held = {each.name.rpartition("self_attn.")[2]: each.placements for each in part.plan.parameters}
    assert held["k_proj.weight"] == ["S(0, of=24, unit=8)"]
    whole = deepcopy(whole)
    nets = [(net, torch.optim.AdamW(net.parameters(), lr=1e-2)) for net in (part, whole)]
    scaled = [torch.amp.GradScaler("cpu", init_scale=4.0) for _ in nets]
    found = []
    for _ in range(3):
        norms, logits = [], []
        for (net, optimizer), scaler in zip(nets, scaled, strict=True):
            optimizer.zero_grad()
            with without_narrowing():
                output = net(**example)
            scaled_loss = scaler.scale(output.loss)
            with without_narrowing():
                scaled_loss.backward()
            scaler.unscale_(optimizer)
            norms.append(float(torch.nn.utils.clip_grad_norm_(net.parameters(), 0.5)))
            scaler.step(optimizer)
            scaler.update()
            logits.append(output.logits.detach())
        found += [float((logits[0] - logits[1]).abs().max()), abs(norms[0] - norms[1])]
    ids, how = example["input_ids"], {"max_new_tokens": 4, "do_sample": False}
    with without_narrowing():
        told = [
            net.eval().generate(ids, use_cache=cached, **how)
            for net, _ in nets
            for cached in (False, True)
        ]
        with part.returning({"past_key_values*": "placed"}):
            first = part(input_ids=ids, use_cache=True)
            again = part(input_ids=ids[:, :1], past_key_values=first.past_key_values)
        first = whole(input_ids=ids, use_cache=True)
        wanted = whole(input_ids=ids[:, :1], past_key_values=first.past_key_values).logits
    keys = again.past_key_values.layers[0].keys
    assert keys.to_local().shape[1] == (2, 1)[dist.get_rank()]
    assert all(torch.equal(each, told[0]) for each in told)
    found.append(float((again.logits - wanted).abs().max()))
    return found


def test_three_key_value_heads_over_two_processes() -> None:
    for found in world(2).run(spent_a_day):
        assert max(found) <= 1e-9


def test_processes_train_as_one_device() -> None:
    for found in world(3).run(trained, {"tp": 3}):
        assert max(found) <= 1e-9


def test_what_three_ranks_save_two_and_one_load(tmp_path: Path) -> None:
    folder = str(tmp_path)
    save = world(3).run(saving.stored, folder, {"tp": 3}, "tensor", None, save=True)
    load = world(2).run(saving.stored, folder, {"tp": 2}, "tensor", None, save=False)
    for found in (*save, *load):
        assert found == pytest.approx(save[0], abs=1e-12)
    assert saving.stored(folder, {"tp": 1}, "tensor", None, save=False) == pytest.approx(save[0])
