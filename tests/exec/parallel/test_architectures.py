"""Law: ten architectures of transformers are trained, evaluated and decoded by their parts as by
one device, with one set of weights.

Each costs the traces of four programs on two ranks, half a minute of CPU: this is what users do on
their first day, and every architecture has met something that no other one did.
"""

from __future__ import annotations

import pytest

from tests.exec import architectures, seeing
from tests.oracles.ranks import world

CLOSE = 1e-6
"""transformers computes losses and norms in float32, whatever the weights are in."""


@pytest.mark.parametrize("name", architectures.ARCHITECTURES)
def test_a_day_with_a_part_is_one_with_the_model(name: str) -> None:
    for found in world(2).run(architectures.days, name):
        assert found["model is gone"]
        for axis, placement in (("tp", "S(1)"), ("dp", "S(0)")):
            day, whole = found[axis], found["whole"]
            assert max(day["differences"].values()) < CLOSE, day
            assert day["differences"]["tokens"] == 0
            assert day["modes"] == [True, False, False, False]
            before, after = day["bytes"]
            assert before == after, "weights are held once"
            assert before == whole if axis == "dp" else before < 0.65 * whole
            assert day["cache"] == [placement]
            assert "past_key_values.layers.0.keys" in day["inputs"][3]
            assert day["is a"]


@pytest.mark.parametrize("name", seeing.MODELS)
def test_what_hears_and_sees_is_trained_and_gives_what_one_device_gives(name: str) -> None:
    """Both train three steps; Whisper then writes 32 tokens, of which none is another one."""
    for found in world(2).run(seeing.days, name):
        for day in found.values():
            assert max(day.values()) < 1e-9, found
            assert day.get("tokens", 0) == 0


def test_flex_attention_on_ranks_of_which_one_has_a_head_more() -> None:
    for found in world(2).run(seeing.three_heads):
        assert found["dp"][0] == ["S(0)"]
        assert found["tp"][0] == ["S(1, of=3)"]
        assert max(apart for _, apart in found.values()) < 1e-12
