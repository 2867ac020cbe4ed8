"""Law: torch.nn's own modules are planned and equal to one device; what is refused says why.

`python -m tests.exec.torch_modules` prints the table of all of them.
"""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

import dimsolve as ds

from .torch_modules import CASES, verdicts

BY_HEADS = {
    "MultiheadAttention": 3,
    "MultiheadAttention with weights per head": 3,
    "MultiheadAttention, key is value": 3,
    "MultiheadAttention, kdim and vdim": 5,
    "MultiheadAttention with more keys": 5,
    "MultiheadAttention, mask per head": 3,
    "MultiheadAttention, both masks": 3,
    "MultiheadAttention, causal": 3,
    "MultiheadAttention of one sequence": 3,
    "TransformerEncoderLayer, frozen": 6,
    "TransformerEncoder, padding": 12,
    "TransformerEncoder, mask": 12,
    "TransformerDecoder, mask": 18,
    "Transformer, length first": 14,
    "Transformer that makes its mask": 14,
}
"""How many parameters are cut under "tensor": of an attention all but the last bias."""

BY_BATCH = (
    *("LSTM", "LSTM, batch first", "LSTM, two ways, two layers", "LSTM with a state"),
    *("LSTM, projected", "GRU", "RNN, relu", "LSTMCell with a state", "GRUCell"),
    *("CTCLoss, mean", "CTCLoss, none", "CTCLoss in a model", "GaussianNLLLoss"),
    *("BatchNorm1d, cumulative", "BatchNorm2d, cumulative", "Linear, spectral norm"),
    *("InstanceNorm1d with statistics", "TripletMarginWithDistanceLoss", "AdaptiveMaxPool2d"),
)


@pytest.mark.parametrize("name", [*BY_HEADS, *BY_BATCH])
def test_a_module_of_torch_is_cut_and_equal(name: str) -> None:
    tensor, data = verdicts(CASES[name])
    for found in (tensor, data):
        assert not found.refused and not found.wrong and found.annotated, found
    assert tensor.cut == BY_HEADS.get(name, tensor.cut)
    assert data.cut or name.endswith("of one sequence")


def test_attention_is_cut_as_linear_layers_around_it_are() -> None:
    model = nn.MultiheadAttention(32, 4, batch_first=True)
    x = torch.randn(4, 12, 32)
    plan = ds.plan(ds.trace(model, args=(x, x, x), kwargs={"need_weights": False}), {"tp": 2})
    assert {entry.name: entry.placements for entry in plan.parameters} == {
        "in_proj_weight": ["S(0, blocks=3)"],
        "in_proj_bias": ["S(0, blocks=3)"],
        "out_proj.weight": ["S(1)"],
        "out_proj.bias": ["R"],
    }


def test_padding_that_torch_fills_with_zeros_is_refused() -> None:
    """Without gradients torch packs what is not padded; with enable_nested_tensor=False it does as
    every graph of it.
    """
    x, padding = torch.randn(2, 4, 8), torch.tensor([[False] * 4, [False, False, True, True]])
    given = {"src_key_padding_mask": padding}
    layer = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)
    packing = nn.TransformerEncoder(layer, 1).eval()
    with pytest.raises(ds.TraceError) as caught:
        ds.trace(lambda x, padding: packing(x, src_key_padding_mask=padding), (x, padding))
    title, code, *rest = str(caught.value).splitlines()
    assert title.startswith("a TransformerEncoder in evaluation is given a padding mask at ")
    assert "packing(x, src_key_padding_mask=padding)" in code
    assert rest == [
        "  where no gradients are recorded torch leaves zeros at padded positions, and elsewhere "
        "not; a program computes every call alike",
        "  hint: nn.TransformerEncoder(..., enable_nested_tensor=False), or of one that is made "
        "encoder.use_nested_tensor = False",
    ]
    assert ds.trace(packing, (x,)).nodes()
    assert ds.trace(packing.train(), (x,), given).nodes()
    packing.eval().use_nested_tensor = False
    for model in (packing, nn.TransformerEncoder(layer, 1, enable_nested_tensor=False).eval()):
        graph = ds.trace(model, (x,), given)
        with torch.no_grad():
            found = graph.run(x, src_key_padding_mask=padding, state=model)
            torch.testing.assert_close(found, model(x, src_key_padding_mask=padding))


def test_torchs_python_without_an_annotation_is_read_through() -> None:
    def double(x: Tensor) -> Tensor:
        found: Tensor = nn.functional.upsample(x, scale_factor=2)
        return found

    x = torch.randn(4, 2, 6, 6, dtype=torch.float64)
    graph = ds.trace(double, args=(x,), dynamic={"x": {0: "b"}})
    assert [node.name for node in graph.nodes()] == ["interpolate"]
    assert ds.plan(graph, {"dp": 2}, "data").inputs[0].placements == ["S(0)"]


def test_tracing_leaves_torch_as_it_was() -> None:
    from torch._dynamo import config
    from torch._dynamo.trace_rules import get_torch_obj_rule_map
    from torch.nn import functional
    from torch.nn.modules import transformer

    def state() -> list[object]:
        fast = torch.backends.mha.get_fastpath_enabled()
        functions = [functional.gaussian_nll_loss, torch.ctc_loss, transformer._get_seq_len]
        causal = transformer._detect_is_causal_mask
        return [fast, config.allow_rnn, dict(get_torch_obj_rule_map()), *functions, causal]

    before = state()
    verdicts(CASES["CTCLoss, sum"])
    assert state() == before
