"""Laws of questions about functions: the answer is that of the annotation which the function has
for these shapes, what the call needs is a condition, and a slip is named with what was meant.
"""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch.nn import functional

import dimsolve as ds
from dimsolve.ir.errors import DimsolveError
from dimsolve.solver.calls import laid_out, operator_named, read_value
from dimsolve.solver.operators import find, specimens
from dimsolve.solver.operators.catalogue import entries
from dimsolve.solver.operators.declare.entry import Sample


def text(*asked: Any, **known: Any) -> str:
    return str(ds.infer(*asked, **known))


CONV = ["n, c, h, w", "o, c, 3, 3"]


def test_a_function_is_asked_by_itself_or_by_its_path() -> None:
    path = "torch.nn.functional.conv2d"
    known = {"arguments": {"stride": 2}}
    expected = ds.infer(path, CONV, **known)
    assert str(expected) == (
        "a b+ d^ f^, c b+ 3 3 -> a c e^ g^: "
        "(n, o, ((h + 1)//2) - 1, ((w + 1)//2) - 1) if h >= 3 and w >= 3"
    )
    assert ds.infer(functional.conv2d, CONV, **known) == expected
    assert ds.infer("conv2d", CONV, **known) == expected
    assert ds.infer(torch.conv2d, CONV, arguments={"stride": "2"}) == expected


QUESTIONS: list[tuple[str, list[Any], dict[str, Any], str]] = [
    ("torch.cat", ["n, c", "m, c"], {"dim": 0}, "a^ b, c^ b -> d^ b: (m + n, c)"),
    ("torch.stack", ["n", "n"], {"dim": "-1"}, "a, a -> a 2: (n, 2)"),
    (
        "torch.einsum",
        ["b, i", "i, j"],
        {"equation": "b i, i j -> b j"},
        "b i+, i+ j -> b j: (b, j)",
    ),
    (
        "torch.Tensor.view",
        ["b, s, 512"],
        {"size": "b, s, 8, -1"},
        "a b (c d) -> a b c d: (b, s, 8, 64)",
    ),
    (
        "torch.nn.functional.interpolate",
        ["n, c, h, w"],
        {"size": "(2*h, 2*w)", "mode": "bilinear"},
        "a b c^ e^ -> a b d^ f^: (n, c, 2*h, 2*w)",
    ),
    ("torch.nn.functional.linear", ["b, k", "n, k", None], {}, "* k+, n k+ -> * n: (b, n)"),
    ("torch.sum", ["b, k"], {"dim": 1, "keepdim": "True"}, "a b+ -> a 1: (b, 1)"),
    ("torch.topk", ["b, k"], {"k": 3}, "a b^ -> a c^, a c^: (b, 3), (b, 3) if k >= 3"),
    ("torch.unique", ["u"], {}, "a^ -> u^: (u_0,)"),
]


@pytest.mark.parametrize(("path", "inputs", "arguments", "expected"), QUESTIONS)
def test_arguments_are_read_as_they_are_written(
    path: str, inputs: list[Any], arguments: dict[str, Any], expected: str
) -> None:
    assert text(path, inputs, arguments=arguments) == expected


def test_a_split_of_a_function_is_judged_as_its_annotation_and_its_rules_say() -> None:
    linear = ds.check(functional.linear, ["b, k", "n, k"], (1, 1), 2)
    assert (linear.split, linear.conditions) == ("k", ("k % 2 == 0",))
    assert [str(p) for p in linear.outputs] == ["P(sum)"]
    mean = ds.check("torch.mean", ["8*b, k"], (0, 0), 8, arguments={"dim": 0})
    assert (mean.verdict, [str(p) for p in mean.outputs]) == ("legal", ["P(avg)"])
    groups = ds.legal_parts(
        functional.group_norm, ["n, 32, h, w"], (0, 1), arguments={"num_groups": 8}, up_to=6
    )
    assert groups.always == (1, 2, 4, 8)
    table = ds.check(functional.embedding, ["b, s", "32000, 64"], (1, 0), 4)
    assert (table.verdict, [str(p) for p in table.outputs]) == ("legal", ["P(sum)"])


REFUSED: list[tuple[Any, Any, dict[str, Any], str]] = [
    (
        "torch.nn.functional.conv2",
        CONV,
        {},
        "the library does not have this callable\n"
        "  nothing is known of 'torch.nn.functional.conv2'\n"
        "  hint: did you mean torch.nn.functional.conv2d?",
    ),
    (
        "torch.nn.functional.conv2d",
        CONV,
        {"strid": 2},
        "there is no such argument\n"
        "  torch.nn.functional.conv2d has no parameter 'strid'; its parameters are input, weight, "
        "bias, stride, padding, dilation, groups\n"
        "  hint: did you mean 'stride'?",
    ),
    (
        "torch.relu",
        None,
        {},
        "a function is asked about with the shapes of its tensors\n"
        "  torch.relu takes input, inplace\n"
        '  hint: give the shapes, such as ["n, c, h, w", "o, c, 3, 3"]',
    ),
    (
        "torch.Tensor.view",
        ["batch, s"],
        {"size": "btach, s"},
        "this call has no annotation\n"
        "  torch.Tensor.view: a size is not known\n"
        "  hint: did you mean the symbol 'batch'?",
    ),
    (
        "torch.transpose",
        ["n, m", "k"],
        {"dim0": 0, "dim1": 1},
        "the number of inputs does not match\n"
        "  torch.transpose takes 1 besides the arguments that are given, 2 given\n"
        "  hint: give the shapes of tensors in order, and all other arguments by name",
    ),
    (
        "torch.topk",
        ["8"],
        {"k": 9},
        "k is out of range\n  9 in a dimension of length 8",
    ),
    (
        "torch.numel",
        ["n"],
        {},
        "this call has no annotation\n"
        "  torch.numel: it gives no tensor\n"
        "  hint: give an annotation in its place",
    ),
    (
        ascii,
        ["n"],
        {},
        "the library does not have this callable\n"
        "  nothing is known of 'builtins.ascii'\n"
        "  hint: dimsolve ops lists all; dimsolve.register_op annotates a function of your own",
    ),
]


@pytest.mark.parametrize(("asked", "inputs", "arguments", "expected"), REFUSED)
def test_what_a_function_cannot_be_asked_is_said(
    asked: Any, inputs: Any, arguments: dict[str, Any], expected: str
) -> None:
    with pytest.raises(DimsolveError) as caught:
        ds.infer(asked, inputs, arguments=arguments)
    assert str(caught.value) == expected


def test_facts_that_exclude_a_call_and_facts_with_a_slip_are_errors() -> None:
    with pytest.raises(ds.ShapeError, match=r"torch\.topk needs 9 <= k, which never holds"):
        ds.infer("torch.topk", ["k"], arguments={"k": 9}, facts=["k == 4"])
    with pytest.raises(ds.AnnotationError, match="did you mean 'batch'"):
        ds.infer("torch.relu", ["batch, n"], facts=["btach % 2 == 0"])
    assert ds.infer("torch.topk", ["k"], arguments={"k": 9}, facts=["k >= 9"]).conditions == ()


@ds.register_op("m k+, k+ n -> m n")
def matmul_of_calls(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    return x @ w


def test_a_registered_function_is_asked_too() -> None:
    assert text(matmul_of_calls, ["m, k", "k, n"]) == "m k+, k+ n -> m n: (m, n)"


VALUES = [
    ("2", 2),
    ("-1", -1),
    ("1e-5", 1e-5),
    ("2.5", 2.5),
    ("none", None),
    ("True", True),
    ("(1, 2)", (1, 2)),
    ("[1, [2, 3]]", (1, (2, 3))),
    ("same", "same"),
    ("torch.float32", "torch.float32"),
    ((1, "2"), (1, 2)),
]


@pytest.mark.parametrize(("given", "expected"), VALUES, ids=str)
def test_texts_of_arguments(given: Any, expected: Any) -> None:
    assert read_value(given, (), []) == expected


@pytest.mark.parametrize("path", sorted(entries()))
def test_what_the_library_shows_can_be_asked(path: str) -> None:
    """The tensors of an example in order, and all that stands before, between and behind them by
    name, are the example's call.
    """
    operator = operator_named(path)
    assert operator is not None
    named = not any(p.startswith("*") for p in operator.parameters)
    for call in specimens(path) if named else ():
        given = dict(zip(operator.parameters, call.args, strict=False)) | call.kwargs
        tensors = [value for value in given.values() if isinstance(value, Sample)]
        others = {name: v for name, v in given.items() if not isinstance(v, Sample)}
        in_order = [name for name in operator.parameters if isinstance(given.get(name), Sample)]
        last = max([operator.parameters.index(name) for name in in_order], default=-1)
        reached = operator.parameters[: max(last + 1, len(call.args))]
        if [given[name] for name in in_order] != tensors or any(p not in given for p in reached):
            continue
        first = next((n for n in operator.parameters if n not in others), None)
        if in_order and first != in_order[0]:
            continue
        args, kwargs, _ = laid_out(operator, tensors, others, ())
        bound = dict(zip(operator.parameters, args, strict=False)) | kwargs
        assert bound.keys() == given.keys()
        assert all(bound[name] is given[name] for name in in_order), path
    assert find(path) is not None
