"""Law: one part is the model in every mode and for every call, with one set of weights."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn
from transformers import DynamicCache

import dimsolve as ds
from dimsolve.exec.lowering.setting import LoweringError
from dimsolve.exec.parallel.call_inputs import CallError
from dimsolve.exec.parallel.on_demand import skeleton_of
from dimsolve.exec.parallel.programs import LIMIT
from tests.exec import architectures, programs
from tests.oracles.ranks import Ranks, world

PLACED = "DTensor (4, 6, 96) S(2)"
WHOLE = "Tensor (4, 6, 96)"


@pytest.mark.parametrize(
    ("outputs", "logits"),
    [("whole", WHOLE), ("placed", PLACED), ({"logits": "placed"}, PLACED), (["loss"], None)],
    ids=["whole", "placed", "by name", "the loss only"],
)
def test_outputs_are_handed_out_as_they_were_asked_for(outputs: Any, logits: str | None) -> None:
    wanted = {"loss": "Tensor ()", "logits": logits}
    for found in world(2).run(programs.handed_out, outputs):
        assert found == {name: text for name, text in wanted.items() if text is not None}


class Modal(nn.Module):
    """Does something else in each mode, without an operator that depends on it."""

    def __init__(self) -> None:
        super().__init__()
        self.up = nn.Linear(4, 4)
        self.inner = nn.ModuleList([nn.Dropout(0.5), nn.Identity()])
        self.rate = 3

    def forward(self, x: Tensor, times: float = 1.0, extra: Tensor | None = None) -> Tensor:
        y = self.inner[0](self.up(x)) * times
        if extra is not None:
            y = y + extra
        return y * 2 if self.training else y

    def generate(self, x: Tensor, steps: int) -> Tensor:
        """As nanoGPT's: it calls the model, and reads its settings."""
        for _ in range(steps * self.rate):
            x = self(x)
        return x


def part_of(model: nn.Module, **kwargs: Any) -> Any:
    example = kwargs or {"x": torch.randn(2, 4)}
    graph = ds.trace(model, kwargs=example, dynamic={"x": {0: "batch"}})
    return ds.parallelize(model, ds.plan(graph, {"tp": 1}))


def test_every_module_has_a_mode_of_its_own() -> None:
    model, x = Modal(), torch.randn(2, 4)
    part = part_of(model)
    for module in (model, part):
        module.eval()
    assert torch.equal(part(x), model(x))
    for module in (model, part):
        module.train()
        module.inner[0].eval()
    assert torch.equal(part(x), model(x))
    assert len(part.programs) == 3
    for module in (model, part):
        module.eval()
    assert torch.equal(part(x=x), model(x))
    assert len(part.programs) == 3


def test_other_arguments_have_a_program_of_their_own() -> None:
    model, x = Modal().eval(), torch.randn(2, 4)
    part = part_of(model)
    extra = torch.randn(4)
    assert torch.equal(part(x, 2.0, extra), model(x, 2.0, extra))
    assert torch.equal(part(x, extra=extra), model(x, extra=extra))
    assert len(part.programs) == 3


def test_arguments_that_forward_does_not_take_or_lacks_are_named() -> None:
    part, x = part_of(Modal().eval()), torch.randn(2, 4)
    with pytest.raises(CallError) as found:
        part(x, exta=torch.randn(4))
    assert str(found.value) == (
        "forward takes no argument named exta\n"
        "  it takes x, times, extra\n"
        "  hint: did you mean 'extra'?"
    )
    with pytest.raises(CallError, match="the call lacks x\n"):
        part()


def test_a_plan_of_another_call_is_added() -> None:
    model, x, extra = Modal().eval(), torch.randn(2, 4), torch.randn(4)
    part = part_of(model)
    other = ds.plan(ds.trace(model, kwargs={"x": x, "extra": extra}), {"tp": 1})
    part.add(other)
    assert len(part.programs) == 2
    assert torch.equal(part(x=x, extra=extra), model(x, extra=extra))
    assert len(part.programs) == 2
    with pytest.raises(LoweringError, match="a part has one mesh; the mesh is tp=1"):
        part.add(ds.plan(other.planned, {"dp": 1}))
    with pytest.raises(ds.PlanError, match="the plan is for another model"):
        part.add(ds.plan(ds.trace(nn.Linear(4, 4), (x,)), {"tp": 1}))


def test_a_length_that_changes_is_dynamic_from_then_on() -> None:
    model = Modal().eval()
    part = part_of(model)
    for rows in (2, 3, 5):
        x, extra = torch.randn(rows, 4), torch.randn(rows, 1)
        assert torch.equal(part(x, extra=extra), model(x, extra=extra))
    assert len(part.programs) == 2


def test_a_value_that_always_changes_is_refused_by_name() -> None:
    part, x = part_of(Modal().eval()), torch.randn(2, 4)
    for number in range(LIMIT):
        part(x, times=2.0 + number)
    with pytest.raises(CallError) as caught:
        part(x, times=100.0)
    assert str(caught.value) == (
        "times has another value in every call\n"
        f"  the part has {LIMIT} programs that differ in what is no tensor, the last ones with "
        "7.0, 8.0, 9.0; each is traced and planned, and kept\n"
        "  hint: give a tensor: torch.tensor(times)"
    )


def test_a_cache_that_counts_tokens_is_refused_in_its_second_step() -> None:
    model, ids = architectures.made("Mistral").eval(), programs.prompts()
    plan = ds.plan(ds.trace(model, kwargs={"input_ids": ids, "use_cache": False}), {"tp": 1})
    part: Any = ds.parallelize(model, plan)

    def decode(module: Any, cache: Any) -> list[Tensor]:
        """Logits of the prompt and of five tokens, which leave the window of 8 tokens."""
        given, logits = ids, []
        for step in range(6):
            logits.append(module(input_ids=given, past_key_values=cache).logits)
            given = ids[:, step : step + 1]
        return logits

    with torch.no_grad():
        wanted = decode(model, DynamicCache(config=model.config))
        torch.testing.assert_close(decode(part, DynamicCache()), wanted)
        with pytest.raises(CallError) as caught:
            decode(part, DynamicCache(config=model.config))
    assert str(caught.value) == (
        "past_key_values.layers.0.cumulative_length is a number of tokens, and another one in "
        "every call\n"
        "  a layer of a cache that forgets what has left its window counts in Python, and each "
        "count would be a program of its own\n"
        "  hint: part.generate(...); or give past_key_values=DynamicCache(), which keeps all, and "
        "masks leave out what has left the window"
    )


@pytest.mark.parametrize("sampled", [False, True])
@pytest.mark.parametrize(("axis", "placement"), [("tp", "S(1)"), ("dp", "S(0)")])
def test_a_static_cache_stays_cut_and_gives_one_devices_tokens(
    axis: str, placement: str, sampled: bool
) -> None:
    for placements in world(2).run(programs.with_static_cache, {axis: 2}, sampled):
        assert placements == [placement]


def test_a_static_cache_with_windows_gives_one_devices_tokens() -> None:
    for placements in world(2).run(programs.with_static_cache, {"tp": 2}, False, windows=True):
        assert placements == ["S(1)"]


@pytest.mark.parametrize("placed", [False, True])
@pytest.mark.parametrize(("axis", "cut"), [("tp", ["S(1)", "R"]), ("dp", ["S(0)", "R"])])
def test_a_caller_sees_what_ranks_write_to_its_tensors(
    axis: str, cut: list[str], placed: bool
) -> None:
    for found in world(2).run(programs.written, axis, placed):
        assert found == cut


def test_a_part_has_the_methods_and_settings_of_its_model() -> None:
    model, x = Modal().eval(), torch.randn(2, 4)
    part = part_of(model)
    assert torch.equal(part.generate(x, 1), model.generate(x, 1))
    assert isinstance(part, Modal)
    assert (len(part.inner), type(part.up).__name__, repr(part.up)) == (2, "PartModule", "Linear()")
    assert part.inner[-1] is part.get_submodule("inner.1")


def test_a_skeleton_has_no_bytes() -> None:
    model = Modal()
    copied = skeleton_of(model)
    assert [(n, p.shape) for n, p in copied.named_parameters()] == [
        (n, p.shape) for n, p in model.named_parameters()
    ]
    assert sum(p.untyped_storage().nbytes() for p in copied.parameters()) == 0


def test_outputs_that_are_none_are_refused_by_name() -> None:
    model = Modal()
    plan = ds.plan(ds.trace(model, kwargs={"x": torch.randn(2, 4)}), {"tp": 1})
    said = []
    for outputs in ("plased", ["los"]):
        with pytest.raises(LoweringError) as caught:
            ds.parallelize(model, plan, outputs=outputs)
        said.append(str(caught.value))
    assert said == [
        "there is no such way to hand out outputs\n  outputs says 'plased'\n"
        '  hint: write "whole", "placed", {"logits": "placed", "hidden_states*": "none"}, '
        'or ["loss"]',
        "the plan has no output named los\n  it has output\n  hint: plan.outputs lists them",
    ]


@pytest.mark.parametrize(("name", "mesh"), [("Bart", {"dp": 2}), ("T5", {"tp": 2})])
def test_encoders_and_decoders_generate_what_one_device_does(
    name: str, mesh: dict[str, int]
) -> None:
    pytest.importorskip("transformers")
    assert world(2).run(programs.generated, name, mesh) == [[], []]


@pytest.mark.parametrize("axis", ["tp", "dp"])
@pytest.mark.parametrize("kind", ["", "turned", "in place", "rows", "like", "filled"])
def test_a_part_can_draw_what_one_device_draws(kind: str, axis: str) -> None:
    for difference, same_state in world(2).run(programs.as_one_device, kind, axis):
        assert difference < 1e-12
        assert same_state


@pytest.mark.parametrize("kind", ["turned", "like"])
def test_of_one_row_the_order_in_memory_is_that_of_the_trace(kind: str) -> None:
    """A dimension of one element does not tell what lies within it."""
    for difference, same_state in world(2).run(programs.as_one_device, kind, "dp", rows=2):
        assert difference < 1e-12
        assert same_state


def test_what_has_no_mask_is_refused_where_it_is_cut() -> None:
    for text in world(2).run(programs.as_one_device, "alpha", "tp"):
        assert text == (
            "LoweringError: h_1 cannot draw what one device draws\n"
            "  torch.nn.functional.alpha_dropout draws numbers for what it computes within, and tp "
            "cuts it\n"
            '  hint: randomness="ranks"; or let the model draw with dropout: of transformers\' '
            'models, attn_implementation="eager"'
        )


def test_ranks_whose_generators_differ_are_told() -> None:
    ranks = Ranks(2)  # a world of their own: where a rank has failed, nothing more is agreed on
    try:
        found = ranks.run(programs.as_one_device, "", "tp", 11)
    finally:
        ranks.close()
    for text in found:
        assert text == (
            'LoweringError: randomness="one-device": the ranks\' random generators are in '
            "different states\n"
            "  rank 0 of the mesh and this rank would draw other numbers\n"
            "  hint: call torch.manual_seed with one number on all ranks, and draw the same from "
            "then on"
        )


def test_an_error_that_all_ranks_raise_and_catch_is_over() -> None:
    for _ in range(3):
        for said in world(2).run(programs.caught, None):
            assert said == ["IndexError: index out of range in self", "", ""]


def test_an_error_of_one_rank_that_is_caught_leaves_ranks_that_are_told_so() -> None:
    ranks = Ranks(2)  # a world of their own: where a rank has failed, nothing more is agreed on
    try:
        first, second = ranks.run(programs.caught, 1)
    finally:
        ranks.close()
    assert first[0].startswith("RankFailure: rank 1 (dp=1) failed in torch.nn.functional.embedding")
    assert second[0] == "IndexError: index out of range in self"
    for said in (*first[1:], *second[1:]):
        assert said.splitlines() == [
            "AgreementError: a call failed that did not fail alike on all ranks, and the ranks "
            "cannot go on together",
            "  rank 1 (dp=1) failed in torch.nn.functional.embedding (node input_1)",
            "  IndexError: index out of range in self",
            *[line for line in said.splitlines()[3:-1] if line.startswith("  ")],
            "  hint: begin again from a checkpoint; look at a batch that may fail before it is "
            "given to the ranks",
        ]


def test_a_mask_of_the_cache_and_what_is_new_is_one_program_for_all_lengths() -> None:
    """As in decoding by hand, and in checking what a draft proposed."""
    model, ids = architectures.made("Llama").eval(), programs.prompts()
    kwargs = {"input_ids": ids, "attention_mask": torch.ones_like(ids)}
    names = {name: {0: "batch", 1: "seq"} for name in kwargs}
    part: Any = ds.parallelize(
        model, ds.plan(ds.trace(model, kwargs=kwargs, dynamic=names), {"tp": 1})
    )

    def decode(module: Any) -> list[Tensor]:
        cache, logits = DynamicCache(), []
        for new in (4, 1, 1, 1, 3, 3, 3):
            mask = torch.ones(len(ids), cache.get_seq_length() + new, dtype=torch.long)
            mask[0, :2] = 0
            given = {"input_ids": ids[:, :new], "attention_mask": mask}
            logits.append(module(**given, past_key_values=cache).logits)
        return logits

    with torch.no_grad():
        torch.testing.assert_close(decode(part.eval()), decode(model))
    assert len(part.programs) == 3  # as traced; a prompt and a cache; what comes after it
