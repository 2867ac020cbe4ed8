"""verify runs parts of several lengths, unusual values and several ranks, and says what it did not
run; what was not compared never holds.
"""

from __future__ import annotations

from typing import Any

import pytest
import torch

import dimsolve as ds
from dimsolve.exec.verification.samples import OTHER_PARTS, PLAIN, lengths_for, other_parts
from dimsolve.exec.verification.verify import ALWAYS
from dimsolve.solver.layout import layout_of
from tests.exec import lies_of_length as lies
from tests.exec import registered


def told(function: Any, **options: Any) -> list[str]:
    verification = ds.verify(function, **options)
    assert not verification.ok
    return [str(culprit) for culprit in verification.culprits]


LIES: list[tuple[Any, str]] = [
    (lies.windows_of_three, "'s' split into 2 parts of 1: output 0 is off by "),
    (lies.swapped_pairs, "'b' split into 2 parts of 1: rank 0 raised RuntimeError: shape "),
    (
        lies.squeezed,
        "'a' split into 2 parts of 1: rank 0 raised ValueError: output 0 is (5,)",
    ),
    (lies.groups_of_three, "'c' split into 3 parts of 1: rank 0 raised ZeroDivisionError: "),
    (lies.largest_of_pairs, "'s' split into 2 parts of 1: rank 0 raised RuntimeError: shape "),
    (lies.nothing_of_one_row, "'a' split into 2 parts of 1: output 0 is off by "),
    (lies.turned_where_square, "'a' split into 2 parts of 3: "),
    (
        lies.ignoring_loss,
        "'n' split into 2 parts, where an integer is -100, which losses ignore: output 0 ",
    ),
    (lies.mean_without_nan, "'k' split into 2 parts, where an element is NaN: output 0 "),
    (lies.count_of_values, "'n' split into 2 parts, where many elements are equal: output 0 "),
    (lies.clipped, "'k' split into 2 parts, where elements are large: output 0 "),
    (lies.closely_clipped, "'k' split into "),
    (
        lies.never_a_number,
        "output 0 was not compared: all of it is NaN or infinite, in every run\n"
        "  hint: give inputs on which it is finite: verify(target, args=...), or an input_gen_fn",
    ),
    (lies.always_infinite, "output 0 was not compared: all of it is NaN or infinite, in every run"),
    (
        lies.returns_more,
        "the function returns Tensor, and no output is annotated\n"
        "  hint: annotate what it returns after '->'",
    ),
    (
        lies.returns_nothing,
        "nothing was compared: the call returns nothing\n"
        "  hint: an operator returns what it computes, also the inputs that it writes to",
    ),
    (
        lies.gradient_of_short_ones,
        "'a' split into 2 parts: output 0 has a gradient on a rank, and none on one device",
    ),
    (lies.turned_as_a_vector, "'a' split into 2 parts: output 0 is off by "),
    (lies.turned_with_four, "'b' (dimension 1 of '*') split into 2 parts: output 0 is off by "),
    (
        lies.true_in_training,
        "where no gradients are recorded (torch.no_grad) the function gives another output 0\n"
        "  hint: a function gives the same in training and in evaluation; "
        "make the mode an argument",
    ),
    (
        lies.returns_a_copy,
        "input 0 ('x') is changed by the call and not returned\n"
        "  hint: write writes=['x'], and return it first, itself and no copy",
    ),
    (
        lies.always_five,
        "'a' was not split: a = 5 is never a multiple of 2\n"
        "  hint: give a call whose 'a' can be split, or other counts; "
        "write 'a^' if it cannot",
    ),
    (
        lies.raising_generator,
        "input_gen_fn makes no inputs: it raised KeyError: 'boo'\n"
        "  hint: it is given what `verify` wants inputs for, and returns a list of them",
    ),
    (lies.empty_generator, "input_gen_fn makes no inputs: it gave None, of type NoneType"),
    (
        lies.generous_generator,
        "input_gen_fn makes no inputs: it gave 2 values, and 1 input is annotated",
    ),
    (lies.largest_and_where, "'k' split into 2 parts: output 1 "),
    (
        lies.average_of_integers,
        "'k' split into 2 parts: output 0 is of int64, which cannot be joined by avg",
    ),
    (
        lies.on_meta,
        "output 0 is a meta tensor, which holds no values: there is nothing to compare",
    ),
    (
        lies.narrower_on_a_rank,
        "'a' split into 2 parts: output 0 is of float32 on a rank, and of float64 whole",
    ),
    (lies.cumulates_in_float32, "'a' split into 2 parts, in float32: output 0 is off by "),
    (lies.numbered, "'n' split into 2 parts: output 0 is off by "),
]


@pytest.mark.parametrize(("function", "text"), LIES, ids=lambda v: getattr(v, "__name__", ""))
def test_a_promise_that_is_kept_sometimes_is_a_lie(function: Any, text: str) -> None:
    first, *_ = told(function)
    assert first.startswith(text)


@pytest.mark.parametrize("function", [lies.clipped, lies.closely_clipped])
def test_the_culprit_is_the_identifier_that_lies_alone(function: Any) -> None:
    assert {culprit.subject for culprit in ds.verify(function).culprits} == {"k"}


def test_every_count_is_run_with_parts_of_1_of_2_of_3_and_of_a_prime() -> None:
    for text in ("m k+, k+ n -> m n", "(h t) k -> h t k", "a b c d e f -> a b c d e f"):
        layout = layout_of(text, None)
        for name in layout.marks:
            run = [PLAIN, *other_parts(layout, name)]
            for count in (2, 3, 4):
                sizes = [lengths_for(layout, {name: count}, parts=parts) for parts in run]
                lengths = {size[name] // count for size in sizes}
                assert {1, 2, 3} <= lengths and max(lengths) >= 5 and len(run) <= len(OTHER_PARTS)
                assert any(len(set(size.values())) == 1 for size in sizes)


@pytest.mark.parametrize("function", [lies.ones, lies.wants_integers, lies.cuts_two])
def test_the_truth_holds(function: Any) -> None:
    verification = ds.verify(function)
    assert verification.ok and verification.splits, verification


def test_a_rule_may_slice_for_itself() -> None:
    """Its parts do not match the annotation, and need not: its own function is called."""
    verification = ds.verify(lies.slices_for_itself)
    assert verification.ok and verification.splits["k"] == (2, 3, 4)


def test_a_modifier_sees_the_joint_part_of_two_mesh_axes() -> None:
    verification = ds.verify(lies.with_row_numbers)
    assert verification.ok and set(verification.splits) == {"a", "b"}


def test_what_was_not_run_is_said() -> None:
    assert ds.verify(lies.with_a_constant).notes == (
        f"not run: other values of c=0.0 and flip=False; {ALWAYS}",
    )
    assert ds.verify(registered.matmul, args=(torch.ones(4, 6), torch.ones(6, 4))).notes == (
        "not run: other lengths and values than those of the given call; dtypes but float64, "
        "inputs that are not contiguous, state that earlier calls leave",
    )
    assert "more than 4 dimensions for '*'" in str(ds.verify(registered.lookup))


def test_a_call_of_which_nothing_is_split_does_not_hold() -> None:
    (text,) = told(lies.cumulated, args=(torch.ones(5, 1),))[:1]
    assert text.startswith("'a' was not split: a = 5 is never a multiple of 2\n")
    assert not ds.verify(lies.cumulated, args=(torch.ones(4, 6),), counts=(97,)).ok


@pytest.mark.parametrize("function", [torch.div, torch.mul, torch.matmul])
def test_infinite_values_are_no_lie(function: Any) -> None:
    x = torch.tensor([[1.0, 1.0], [2.0, 3.0]])
    y = torch.tensor([[0.0, 1.0], [2.0, float("inf")]])
    verification = ds.verify(function, args=(x, y))
    assert verification.ok, verification
    assert "partial sums are not compared: not all values are finite" in verification.notes


PARAMETERS: list[tuple[dict[str, Any], str]] = [
    ({"counts": 2}, "counts is not a list of counts\n  counts is 2, an int\n"),
    ({"counts": ()}, "counts is not a list of at least one count\n"),
    ({"counts": "ab"}, "counts is not a list of counts\n"),
    ({"counts": (0,)}, "a count is not a whole number from 2 to 1,024\n"),
    ({"counts": (-2,)}, "a count is not a whole number from 2 to 1,024\n"),
    ({"counts": (1,)}, "a count is not a whole number from 2 to 1,024\n"),
    ({"args": torch.ones(3)}, "args is not a list of arguments\n"),
    ({"args": (), "kwargs": {1: 2}}, "kwargs is not a mapping of names to arguments\n"),
    ({"examples": [torch.ones(3)]}, "example 0 is not a call (args, kwargs)\n"),
    ({"examples": 3}, "examples is not a list of calls\n"),
    ({"seed": "x"}, "seed is not a whole number from 0 to "),
    ({"seed": 2**70}, "seed is not a whole number from 0 to "),
    ({"device": "nope"}, "nothing can run on this device\n  device is 'nope': "),
    (
        {"args": ()},
        "the function does not run on the given call\n"
        "  'relu' raised TypeError: relu() missing 1 required positional arguments",
    ),
    ({"args": (5,)}, "no argument is a tensor\n"),
    ({"args": (torch.ones(4),), "kwargs": {"zz": 1}}, "the function does not run on the given"),
    (
        {"args": (torch.ones(4, device="meta"),)},
        "a call cannot be run and split\n"
        "  argument 0 is a meta tensor, which holds no values: there is nothing to compare\n",
    ),
    (
        {"args": (torch.eye(4).to_sparse(),)},
        "a call cannot be run and split\n"
        "  argument 0 is a tensor of layout sparse_coo, which has no parts\n",
    ),
]


@pytest.mark.parametrize(("options", "text"), PARAMETERS, ids=lambda v: str(v)[:30])
def test_parameters_are_checked(options: dict[str, Any], text: str) -> None:
    with pytest.raises(ds.DimsolveError) as raised:
        ds.verify("torch.relu", **options)
    assert str(raised.value).startswith(text)


@pytest.mark.parametrize(
    ("target", "text"),
    [
        ("torch", "this is not a function\n  'torch' is a module, and a function is wanted\n"),
        (":", "there is no such function\n  the target is empty\n"),
        ("ops.py", "there is no such function\n  'ops.py' is a file, and a function is wanted\n"),
        (
            "linear",
            "there is no such function\n"
            "  'linear' can neither be imported nor is it registered\n"
            "  hint: did you mean torch.nn.functional.linear?",
        ),
        ("torch.nope", "there is no such function\n"),
    ],
)
def test_targets_that_are_no_operators(target: str, text: str) -> None:
    with pytest.raises(ds.OperatorError) as raised:
        ds.verify(target)
    assert str(raised.value).startswith(text)
