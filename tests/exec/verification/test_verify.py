"""verify catches every lie, names who lies and what would be right, and changes nothing else."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import dimsolve as ds
from dimsolve.exec.distributed.simulated import RankError, SimulatedWorld
from dimsolve.exec.lowering.lower import lower
from dimsolve.exec.verification.verify import ALWAYS
from dimsolve.ir.operator import Declaration, Operator
from tests.exec import lies, registered
from tests.oracles import one_device as simulated


def told(function: Any, **options: Any) -> list[str]:
    verification = ds.verify(function, **options)
    assert not verification.ok
    return [str(culprit) for culprit in verification.culprits]


LIES: list[tuple[Any, list[str]]] = [
    (
        lies.unmarked_sum,
        [
            "'a' cannot be split: 'a' is missing from output 0 and has no mark: every rank would "
            "compute a different output 0 and nothing says how they are joined; write 'a+' if they "
            "are summed, 'a^' if 'a' must stay whole"
        ],
    ),
    (
        lies.mean_as_sum,
        [
            "'a' split into 2 parts: output 0 comes out 2 times what it is whole\n"
            '  hint: the parts are joined by avg: write partial="avg"'
        ],
    ),
    (
        lies.linear_without_value_split,
        [
            "'k' split into 2 parts: output 0 is off by 0.15 of its largest element\n"
            "  hint: input 2 ('bias') is a summand: write value_split=(\"bias\",)"
        ],
    ),
    (
        lies.scaled_with_value_split,
        [
            "'k' split into 2 parts: output 0 is off by 2.1 of its largest element\n"
            "  hint: input 2 ('scale') is no summand: write value_split=()"
        ],
    ),
    (
        lies.cross_entropy_replicated,
        [
            "'n' split into 2 parts: output 0 comes out 1.02 times what it is whole\n"
            "  hint: output 0 is '?' and changes with 'n': write 'n^', or annotate its dimensions",
            "'h' split into 2 parts: output 0 comes out 0.952 times what it is whole\n"
            "  hint: output 0 is '?' and changes with 'h': write 'h^', or annotate its dimensions",
            "'w' split into 2 parts: output 0 comes out 1.07 times what it is whole\n"
            "  hint: output 0 is '?' and changes with 'w': write 'w^', or annotate its dimensions",
        ],
    ),
    (
        lies.transposed_convolution,
        [
            "'ci' split into 2 parts: output 0 is off by 0.11 of its largest element\n"
            "  hint: input 2 ('bias') is a summand: write value_split=(\"bias\",)"
        ],
    ),
    (
        lies.masked_from_the_left,
        [
            "the function runs only where 'a' and 'b' are equally long: RuntimeError: The size of "
            "tensor a (2) must match the size of tensor b (3) at non-singleton dimension 1\n"
            "  hint: lengths that must be equal have one name, and a length that must be 1 is "
            "written 1",
            "'a' split into 2 parts: rank 0 raised RuntimeError: The size of tensor a (6) must "
            "match the size of tensor b (12) at non-singleton dimension 1\n"
            "  hint: write 'a^': it cannot be split",
            "'b' split into 2 parts: rank 0 raised RuntimeError: The size of tensor a (12) must "
            "match the size of tensor b (6) at non-singleton dimension 1\n"
            "  hint: write 'b^': it cannot be split",
        ],
    ),
    (
        lies.rolled,
        [
            "'b' split into 2 parts: output 0 is off by 0.41 of its largest element\n"
            "  hint: write 'b^': it cannot be split"
        ],
    ),
    (
        lies.writes_and_hides,
        [
            "input 0 ('x') is changed by the call and not returned\n"
            "  hint: write writes=['x'], and return it first, itself and no copy"
        ],
    ),
    (
        lies.not_transposed,
        ["output 0 has shape (2, 3), and its annotation gives (3, 2)"],
    ),
    (lies.returns_less, ["the function returns 1 value, and 2 are annotated"]),
    (
        lies.wrong_only_in_backward,
        [
            "'a' split into 2 parts: the gradient of input 0 ('x') comes out 2 times what it is "
            "whole\n"
            "  hint: write 'a^': it cannot be split"
        ],
    ),
    (
        lies.largest_as_sum,
        [
            "'a' split into 2 parts: output 0 is off by 0.91 of its largest element\n"
            '  hint: the parts are joined by max: write partial="max"'
        ],
    ),
    (
        lies.reads_its_length,
        [
            "'a' split into 2 parts: output 0 comes out 2 times what it is whole\n"
            "  hint: write 'a^': it cannot be split"
        ],
    ),
    (
        lies.different_each_time,
        [
            "two runs on the same inputs differ: the function draws random numbers, or keeps "
            "state\n"
            "  hint: what it draws cannot be compared; give it the numbers as an input"
        ],
    ),
    (
        lies.sizes_of_powers_only,
        [
            "'a' was not split: the function does not run where its length is a multiple of 3\n"
            "  hint: give a call whose 'a' can be split: verify(target, args=...)"
        ],
    ),
    (
        lies.never_runs,
        [
            "the function does not run on what is annotated: TypeError: not these\n"
            "  hint: give a call: verify(target, args=(x, w))"
        ],
    ),
]


@pytest.mark.parametrize(
    ("function", "texts"), LIES, ids=lambda value: getattr(value, "__name__", "")
)
def test_every_lie_is_caught_and_named(function: Any, texts: list[str]) -> None:
    counts = (3,) if function is lies.sizes_of_powers_only else (2, 3, 4)
    assert told(function, counts=counts) == texts


@pytest.mark.parametrize(
    "function", [lies.linear, lies.mean_as_average, lies.with_two_biases, lies.picks_rows]
)
def test_the_truth_holds(function: Any) -> None:
    verification = ds.verify(function)
    assert verification.ok, verification
    assert verification.splits and max(verification.differences.values()) < 1e-12


def test_stars_are_named_by_their_place() -> None:
    assert (
        told(lies.softmax_everywhere)[0]
        .splitlines()[0]
        .startswith("'b' (dimension 1 of '*') split into 2 parts: output 0 is off by ")
    )


def test_values_that_depend_on_the_whole_are_no_question_marks() -> None:
    """Seed 001: a '?' output of an input that is split would be wrong on every rank."""
    hints = [text.splitlines()[1] for text in told(lies.sum_as_opaque)]
    assert hints == [
        f"  hint: output 1 is '?' and changes with '{name}': write '{name}^', "
        "or annotate its dimensions"
        for name in "ab"
    ]


def test_two_inputs_that_are_summands_together() -> None:
    (text,) = told(lies.two_biases_forgotten)
    assert text.splitlines()[1] == (
        "  hint: input 2 ('b') and input 3 ('c') are summands: write value_split=(\"b\", \"c\")"
    )


def test_a_given_call() -> None:
    x, w = torch.randn(6, 8), torch.randn(8, 5)
    verification = ds.verify(registered.matmul, args=(x, w))
    assert verification.splits == {"m": (2, 3), "k": (2, 4)}
    assert verification.frozen == {"n": "n = 5 is never a multiple of 2"}
    assert verification.target == f"{registered.__name__}.matmul"


def test_the_same_tensor_twice() -> None:
    x = torch.randn(12, 12)
    assert ds.verify(registered.matmul, args=(x, x)).splits == dict.fromkeys("mkn", (2, 3, 4))


@pytest.mark.parametrize(
    "target",
    [
        "torch.matmul",
        torch.nn.functional.linear,
        torch.Tensor.transpose,
        f"{registered.__name__}:matmul",
        f"{registered.__name__}.matmul",
    ],
)
def test_targets(target: Any) -> None:
    verification = ds.verify(target)
    assert verification.ok and verification.splits


def test_an_operator_that_is_given_as_data() -> None:
    """The library's linear operators are given partial sums too, and a lie about that is caught."""

    def declare(x: Any, y: Any) -> Declaration:
        return Declaration("a, a -> a", inputs=(x, y), linear=((0,),))

    operator = Operator("add", "torch.add", declare, parameters=("input", "other"))
    x = torch.randn(12)
    (text,) = told(operator, args=(x, torch.randn(12)))
    assert text.splitlines() == [
        "not linear in input 0 ('input'): of partial sums, output 0 is off by "
        + text.partition("off by ")[2].partition(" of")[0]
        + " of its largest element",
        "  hint: leave (0,) out of the declaration's linear",
    ]


def test_an_unknown_target() -> None:
    with pytest.raises(ds.OperatorError) as raised:
        ds.verify(told)
    assert str(raised.value) == (
        "nothing is known of this function\n"
        "  'told' is neither registered nor in the library\n"
        '  hint: register it: ds.register_op("m k+, k+ n -> m n")(function)'
    )


def test_a_parameter_for_which_no_value_is_known() -> None:
    with pytest.raises(ds.OperatorError) as raised:
        ds.verify(lies.wants_a_word)
    assert str(raised.value) == (
        "inputs cannot be made\n"
        "  no sensible value is known for 'word' of 'wants_a_word'\n"
        "  hint: give a call: verify(target, args=..., kwargs=...), or register with input_gen_fn"
    )
    assert ds.verify(lies.wants_a_word, args=(torch.randn(4), "twice")).splits == {"a": (2, 4)}


def test_nothing_else_changes() -> None:
    """Random numbers go on as if verify had not run, and so do modes and gradients."""
    torch.manual_seed(7)
    wanted = torch.rand(3)
    torch.manual_seed(7)
    x = torch.ones(4, requires_grad=True)
    first = ds.verify(lies.linear)
    assert torch.equal(torch.rand(3), wanted)
    assert ds.verify(registered.plain, args=(x,)).ok and x.grad is None
    assert str(ds.verify(lies.linear)) == str(first)


def test_it_prints_as_a_report() -> None:
    report = str(ds.verify(lies.linear_without_value_split)).splitlines()
    assert report[:6] == [
        f"{lies.__name__}.linear_without_value_split: does not hold (k)",
        "  m split into 2, 3, 4: equal to the whole",
        "  n split into 2, 3, 4: equal to the whole",
        f"  not run: {ALWAYS}",
        "  'k' split into 2 parts: output 0 is off by 0.15 of its largest element",
        "    hint: input 2 ('bias') is a summand: write value_split=(\"bias\",)",
    ]
    assert report[6].startswith("  largest relative difference: outputs ")
    frozen = str(ds.verify(lies.all_frozen)).splitlines()
    assert frozen == [
        f"{lies.__name__}.all_frozen: holds",
        "  a not split: 'a' is marked '^': no split of it is legal",
        f"  not run: {ALWAYS}",
    ]


def test_ties_between_parts_are_a_lie_unless_a_rule_counts_them() -> None:
    (text,) = told(lies.largest_as_largest)
    assert text == (
        "'a' split into 2 parts, where many elements are equal: the gradient of input 0 ('x') is "
        "off by 0.12 of its largest element\n"
        "  hint: elements that tie in several parts share the gradient as on one device only where "
        'they are counted: TransformRule(split="a", outputs=("R",), local=...)'
    )
    assert ds.verify(registered.largest).ok


def test_float32_inside_is_rounding_and_no_lie() -> None:
    verification = ds.verify(lies.product_in_float32)
    assert verification.ok and 1e-9 < verification.differences["gradients"] < 1e-6
    (text,) = told(lies.almost_a_product)
    assert text.startswith("'b' split into 2 parts: output 0 is off by ")


def test_an_annotation_function_is_shown_tensors_of_every_rank() -> None:
    verification = ds.verify(lies.convolution)
    assert verification.ok and set(verification.splits) == {"n", "c", "o"}
    assert set(verification.frozen) == {"h", "w", "p", "q"}
    assert verification.notes == (f"not run: tensors of more than 5 dimensions; {ALWAYS}",)


def test_a_length_that_nothing_tells() -> None:
    assert told(lies.length_not_told) == [
        "the call does not give the length of 'h', 't'\n"
        "  hint: give the function a parameter 'h', or write the length as a number"
    ]


def test_replicas_that_differ() -> None:
    (text,) = told(lies.loss_said_replicated)
    assert text.startswith("'n' split into 2 parts: output 0 ")


@pytest.mark.parametrize("mode", [torch.no_grad, torch.inference_mode])
def test_gradients_are_compared_in_every_mode(mode: Any) -> None:
    with mode():
        assert not ds.verify(lies.wrong_only_in_backward).ok


def test_what_is_written_and_returned_is_told_and_what_tracing_does_not_see_is_a_lie() -> None:
    assert "input 0 ('x') is written to: later uses read what was written" in str(
        ds.verify(lies.writes_and_returns)
    )
    assert told(lies.writes_unseen_and_returns) == [
        "input 0 ('x') is changed by the call and returned, and tracing does not see it: later "
        "uses would read it as it was\n"
        "  hint: write writes=['x'], and return it first, itself and no copy"
    ]

    assert ds.verify(lies.writes_as_it_says).ok
    assert told(lies.said_to_write_and_copies) == [
        "input 0 ('x') is said to be written to, and output 0 is another tensor\n"
        "  hint: return it as output 0, itself and no copy"
    ]


class ReadsLater(torch.nn.Module):
    """Reads a value again after a registered function wrote to it."""

    def __init__(self, write: Any) -> None:
        super().__init__()
        self.write = write

    def forward(self, x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        h = x @ w
        result: torch.Tensor = self.write(h) + h * 2
        return result


@pytest.mark.parametrize("write", [lies.writes_and_returns, lies.writes_as_it_says])
@pytest.mark.parametrize("cuts", [("a", "a"), ("a", "b"), ("b", "a"), ("b", "b"), ("c", "a")])
def test_what_a_registered_function_wrote_is_read_later(cuts: tuple[str, str], write: Any) -> None:
    inputs = {name: torch.randn(4, 4, dtype=torch.float64) for name in "xw"}
    policy = {"matmul": {"tp": cuts[0]}, write.__name__: {"tp": cuts[1]}}
    plan = simulated.plan_of(ReadsLater(write), inputs, None, {"tp": 2}, policy)
    for found in simulated.parts(ReadsLater(write), plan, {"tp": 2}, lambda part: part(**inputs)):
        torch.testing.assert_close(found, ReadsLater(write)(**inputs))


class ReadsBoth(torch.nn.Module):
    """Reads two values again after a registered function wrote to both."""

    def forward(self, x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        a, b = x @ w, x + w
        first, second, product = lies.writes_to_both(a, b)
        result: torch.Tensor = a * 3 + b * 5 + first - second + product
        return result


@pytest.mark.parametrize("cuts", [("a", "a"), ("a", "b"), ("b", "a"), ("b", "b"), ("c", "a")])
def test_what_is_written_to_several_inputs_is_read_later(cuts: tuple[str, str]) -> None:
    assert ds.verify(lies.writes_to_both).ok
    inputs = {name: torch.randn(4, 4, dtype=torch.float64) for name in "xw"}
    policy = {"matmul": {"tp": cuts[0]}, "writes_to_both": {"tp": cuts[1]}}
    plan = simulated.plan_of(ReadsBoth(), inputs, None, {"tp": 2}, policy)
    for found in simulated.parts(ReadsBoth(), plan, {"tp": 2}, lambda part: part(**inputs)):
        torch.testing.assert_close(found, ReadsBoth()(**inputs))


UNSAID = (
    "a function writes to an input that it is not said to write to\n"
    "  'x' of '{}' is changed by the call: later uses would read it as it was\n"
    "  hint: register it with writes=[\"x\"], and return 'x' first"
)


def test_a_model_that_calls_what_writes_without_a_word_is_refused() -> None:
    def model(x: torch.Tensor) -> torch.Tensor:
        result: torch.Tensor = lies.writes_and_hides(x * 2, x)
        return result

    with pytest.raises(ds.OperatorError) as caught:
        ds.trace(model, (torch.ones(4, 4),))
    assert str(caught.value) == UNSAID.format("writes_and_hides")


def test_a_graph_built_by_hand_that_calls_what_writes_without_a_word_is_refused() -> None:
    """Nobody has traced the function: its first call on a rank tells."""

    def built(path: str) -> Any:
        with ds.Graph("f") as graph:
            x = graph.input("x", "4, 4", "float64")
            h = graph.call("torch.exp", x)
            made = graph.call(path, h)
            graph.output(graph.call("torch.add", made, h))
        return graph

    x = torch.randn(4, 4, dtype=torch.float64)

    def run(graph: Any) -> list[Any]:
        plan = ds.plan(graph, {"tp": 2}, "tensor")

        def work(member: Any) -> Any:
            return lower(graph, plan, {"tp": member["tp"]}).run([x])

        return SimulatedWorld[Any]({"tp": 2}).run(work)

    for found in run(built("tests.exec.lies.writes_as_it_says")):
        torch.testing.assert_close(found, 2 * (x.exp() + 1))
    with pytest.raises(RankError) as caught:
        run(built("tests.exec.lies.writes_without_a_trace"))
    assert UNSAID.format("writes_without_a_trace") in str(caught.value)


@pytest.mark.parametrize(
    ("function", "words"),
    [(lies.counts_zeros, "where an element is 0"), (lies.sees_infinity, "an element is infinite")],
)
def test_lies_about_one_zero_and_about_infinity(function: Any, words: str) -> None:
    assert words in "".join(told(function))
