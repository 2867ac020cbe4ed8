"""Law: what cannot be traced is refused in the model's own terms: the line, the tensors, the
dimensions.
"""

from __future__ import annotations

import pytest
import torch
from torch import nn

import dimsolve as ds

LINE = "tests/exec/capture/test_trace_errors.py"


def refusal(*args: object, **kwargs: object) -> ds.DimsolveError:
    with pytest.raises(ds.DimsolveError) as caught:
        ds.trace(*args, **kwargs)  # type: ignore[arg-type]
    return caught.value


def test_control_flow_that_depends_on_data_is_refused_with_its_line() -> None:
    def f(x: torch.Tensor) -> torch.Tensor:
        if x.sum() > 0:
            return x
        return -x

    error = refusal(f, torch.zeros(4))
    lines = str(error).splitlines()
    assert isinstance(error, ds.TraceError)
    assert lines[0].startswith(f"what the model does depends on data at {LINE}:")
    assert lines[1].strip() == "if x.sum() > 0:"
    assert lines[-1].strip().startswith("hint: write it with tensor operators")


def test_shapes_that_contradict_name_both_origins() -> None:
    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.up = nn.Linear(8, 32)
            self.down = nn.Linear(16, 8)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.down(torch.relu(self.up(x)))

    error = refusal(Model(), torch.zeros(4, 6, 8), dynamic={"x": {0: "batch", 1: "seq"}})
    lines = str(error).splitlines()
    assert isinstance(error, ds.ShapeError)
    assert lines[0].startswith(f"linear at {LINE}:")
    assert lines[0].endswith(" (down): k has two lengths")
    assert lines[3] == "  k = 32 (%relu dim 2), but k = 16 (%down.weight dim 1)"
    assert lines[4].startswith(f"  %relu: float32[batch, seq, 32] is made by relu at {LINE}:")
    assert lines[5] == "  %down.weight: float32[8, 16] is the parameter down.weight"


def test_a_dynamic_dimension_that_the_model_fixes_names_the_line() -> None:
    def f(x: torch.Tensor) -> torch.Tensor:
        return x.view(5, -1) if x.shape[0] == 5 else x

    error = refusal(f, torch.zeros(5, 6), dynamic={"x": {0: "batch"}})
    lines = str(error).splitlines()
    assert lines[0] == "x dim 0 cannot be dynamic in this model"
    assert lines[1] == "  it was to be batch, and its capture fixes it at 5"
    assert "return x.view(5, -1) if x.shape[0] == 5 else x" in lines[2]


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ({"y": {0: "n"}}, "'y' is none of x"),
        ({"x": {2: "n"}}, "'x' has 2 dimensions, dim 2 is named"),
        ({"x": {0: "n +"}}, "n +"),
    ],
)
def test_names_of_what_is_not_there(spec: object, message: str) -> None:
    def f(x: torch.Tensor) -> torch.Tensor:
        return x * 2

    error = refusal(f, torch.zeros(3, 4), dynamic=spec)
    assert isinstance(error, ds.AnnotationError)
    assert message in str(error)


def test_only_tensors_have_dynamic_dimensions() -> None:
    def f(x: torch.Tensor, k: int) -> torch.Tensor:
        return x * k

    error = refusal(f, (torch.zeros(3), 2), dynamic={"k": {0: "n"}})
    assert "'k' is a int" in str(error)


def test_sizes_that_the_capture_found_equal_must_be() -> None:
    def f(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return torch.cat([x, y], 1)

    graph = ds.trace(
        f, (torch.zeros(3, 4), torch.zeros(3, 4)), dynamic={"x": {0: "n"}, "y": {0: "n"}}
    )
    assert graph.conditions == ()


def test_an_error_of_the_model_itself_names_its_line() -> None:
    def f(x: torch.Tensor) -> torch.Tensor:
        raise ValueError("not today")

    error = refusal(f, torch.zeros(3))
    assert f"at {LINE}:" in str(error)
    assert str(error).splitlines()[1:] == [
        '    raise ValueError("not today")',
        "  it raises ValueError('not today')",
    ]


def test_what_torch_raises_for_a_call_of_the_model_is_told() -> None:
    from torch.nn.attention.flex_attention import AuxRequest, flex_attention

    def f(x: torch.Tensor) -> object:
        return flex_attention(x, x, x, return_aux=AuxRequest(max_scores=True))

    error = refusal(f, torch.zeros(2, 2, 16, 8))
    assert (
        str(error)
        .splitlines()[2]
        .startswith("  it raises NotImplementedError('Returning max scores is not supported on CPU")
    )


def test_a_model_that_calls_nothing() -> None:
    error = refusal(lambda x: 3, torch.zeros(3))
    assert str(error).startswith("nothing was captured")


def test_gradients_of_flex_attention_are_refused_with_what_would_work() -> None:
    from torch.nn.attention.flex_attention import flex_attention

    def f(x: torch.Tensor) -> object:
        return flex_attention(x, x, x)

    error = refusal(f, torch.zeros(2, 2, 16, 8, requires_grad=True))
    lines = str(error).splitlines()
    assert isinstance(error, ds.TraceError)
    assert lines[0].startswith(f"the model calls flex_attention at {LINE}:")
    assert [line.strip() for line in lines[1:]] == [
        "return flex_attention(x, x, x)",
        "torch records its gradient on a GPU only, and does not know it on meta",
        "hint: trace the model on a GPU, or without gradients; scaled_dot_product_attention with a "
        'mask (attn_implementation="sdpa" of transformers\' models) needs neither, and is cut by '
        "heads",
    ]


def test_a_number_that_no_length_tells(monkeypatch: pytest.MonkeyPatch) -> None:
    """Such as where in its memory a tensor begins, were it not moved to the start."""
    monkeypatch.setattr("dimsolve.exec.capture.capture._at_the_start", lambda tensor: tensor)
    rows = torch.arange(96).reshape(24, 4)[20:24]
    with pytest.raises(ds.TraceError) as caught:
        ds.trace(torch.nn.Embedding(96, 8), kwargs={"input": rows}, dynamic={"input": {0: "b"}})
    title, number, hint = str(caught.value).splitlines()
    assert title == "torch has made a number of the program that no length of an input tells"
    assert number.startswith("  it is s")
    assert number.endswith(", the storage offset of input")
    assert hint == "  hint: give the tensor by itself, in memory of its own: x.clone()"


def test_an_example_that_is_no_call_of_the_model() -> None:
    layer, x = torch.nn.Linear(4, 4), torch.ones(2, 4)
    words = []
    for given in ({}, {"kwargs": {"x": x}}, {"args": (x, x)}):
        with pytest.raises(ds.TraceError) as caught:
            ds.trace(layer, **given)
        words.append(str(caught.value).splitlines())
    reasons = [line.strip() for _, line, _ in words]
    assert {title for title, _, _ in words} == {"the example is no call of Linear"}
    assert reasons == [
        "missing a required argument: 'input'; it takes input",
        "there is no argument x; it takes input",
        "too many positional arguments; it takes input",
    ]
    assert {hint.strip() for _, _, hint in words} == {
        'hint: trace(model, args=(input,)); or kwargs={"input": input}'
    }


def test_what_is_no_model() -> None:
    with pytest.raises(ds.TraceError) as caught:
        ds.trace(None)  # type: ignore[arg-type]
    assert str(caught.value) == (
        "this is no model\n  None is a NoneType\n"
        "  hint: trace(model, args=(x,)), with a torch.nn.Module or a function"
    )


def test_a_number_where_a_name_makes_a_dimension_dynamic() -> None:
    for spec, number, place in (([0], 0, 0), ({0: 3}, 3, 0), ({1: 8}, 8, 1)):
        with pytest.raises(ds.AnnotationError) as caught:
            ds.trace(torch.nn.Linear(4, 4), args=(torch.ones(2, 4),), dynamic={"input": spec})
        assert str(caught.value) == (
            f"a name makes a dimension dynamic, and {number} is a number\n"
            f"  dim {place} of 'input' has {(2, 4)[place]} in the example\n"
            f'  hint: write dynamic={{"input": {{{place}: "batch"}}}}'
        )


def test_what_a_function_says_of_its_arguments_is_the_reason() -> None:
    error = refusal(torch.nn.Embedding(4, 4), torch.zeros(3))
    assert str(error).splitlines()[-1].strip() == (
        "RuntimeError: Expected tensor for argument #1 'indices' to have one of the following "
        "scalar types: Long, Int; but got torch.float32 instead"
    )


class Packs(nn.Module):
    """An LSTM over a packed batch."""

    def __init__(self) -> None:
        super().__init__()
        self.rnn = nn.LSTM(4, 8, batch_first=True)

    def forward(self, x: torch.Tensor, lengths: torch.Tensor) -> torch.Tensor:
        packed = nn.utils.rnn.pack_padded_sequence(x, lengths, batch_first=True)
        return nn.utils.rnn.pad_packed_sequence(self.rnn(packed)[0], batch_first=True)[0]


class Draws(nn.Module):
    """Noise from a generator of its own, made once or in every call."""

    def __init__(self, *, once: bool) -> None:
        super().__init__()
        self.once = torch.Generator() if once else None

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if self.once is not None:
            return x + torch.randn(x.shape, generator=self.once)
        return x + torch.randn(x.shape, generator=torch.Generator().manual_seed(0))


def test_a_packed_sequence_is_refused_in_words() -> None:
    lines = str(refusal(Packs(), (torch.zeros(2, 3, 4), torch.tensor([3, 2])))).splitlines()
    assert lines[0].startswith(f"the model packs sequences of unequal lengths at {LINE}:")
    assert lines[2:] == [
        "  pack_padded_sequence makes as many rows as the lengths tell, which only running does",
        "  hint: give the RNN the padded batch, and leave out what stands beyond an end by a mask: "
        "torch.where(mask, out, 0); the last step of each row is out[rows, lengths - 1]",
    ]


@pytest.mark.parametrize("once", [True, False])
def test_a_generator_of_the_models_own_is_refused_in_words(once: bool) -> None:
    lines = str(refusal(Draws(once=once), (torch.zeros(2, 3),))).splitlines()
    assert lines[0].startswith(f"the model draws from a torch.Generator of its own at {LINE}:")
    assert lines[2:] == [
        "  a program draws from torch's default generator, whose seed every rank is given",
        "  hint: draw without generator=, after torch.manual_seed; or give what is drawn as an "
        "input",
    ]
