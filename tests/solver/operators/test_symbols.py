"""Laws: with symbols for lengths a declaration gives what it gives with numbers; what is not known
is not guessed.
"""

from __future__ import annotations

from typing import Any

import pytest

from dimsolve.ir.errors import ShapeError
from dimsolve.solver.algebra.dims import evaluate
from dimsolve.solver.algebra.poly import Poly, symbol
from dimsolve.solver.operators import find, specimens
from dimsolve.solver.operators.catalogue import entries
from dimsolve.solver.operators.declare.entry import Sample
from dimsolve.solver.shapes import to_dim
from tests.oracles.stand_ins import StandIn, declare, shapes_of, solve

CALLS = [(path, n) for path in entries() for n in range(len(specimens(path)))]


def with_symbol(value: Any, length: int) -> Any:
    """The same call with the symbol ``s`` in every shape that has this length."""
    if isinstance(value, Sample):
        dims = [symbol("s") if d == length else d for d in value.shape]
        return StandIn(*dims, dtype=value.dtype)
    if isinstance(value, list | tuple):
        return type(value)(with_symbol(item, length) for item in value)
    return value


def lengths_in(value: Any) -> set[int]:
    if isinstance(value, Sample):
        return {d for d in value.shape if d > 1}
    if isinstance(value, list | tuple):
        return {d for item in value for d in lengths_in(item)}
    return set()


def numbers_in(value: Any) -> set[int]:
    if isinstance(value, list | tuple):
        return {n for item in value for n in numbers_in(item)}
    return {value} if isinstance(value, int) else set()


@pytest.mark.parametrize("path, number", CALLS)
def test_a_symbol_in_place_of_a_length_gives_the_same_shapes(path: str, number: int) -> None:
    """A length that is also written as a number in the call is left alone: the call would be
    another.
    """
    operator, call = find(path), specimens(path)[number]
    assert operator is not None
    plain = operator.declare(*call.args, **call.kwargs)
    if plain.returns == "value":
        return
    wanted = solve(plain).output_dims
    everything = [*call.args, *call.kwargs.values()]
    for length in sorted(lengths_in(everything) - numbers_in(everything)):
        args = [with_symbol(value, length) for value in call.args]
        kwargs = {name: with_symbol(value, length) for name, value in call.kwargs.items()}
        try:
            declaration = operator.declare(*args, **kwargs)
        except ShapeError as error:
            # A number must be written where a symbol never can be: (s, 24) viewed as (4, 6, 12).
            assert wanted and "elements" in str(error), (path, length, str(error))
            continue
        if declaration.annotation.endswith("?"):
            continue
        try:
            found = solve(declaration)
        except ShapeError:
            pytest.fail(f"{path}: {declaration.annotation} with s = {length}")
        assert declaration.dtypes == plain.dtypes and declaration.returns == plain.returns
        if found.free or declaration.fresh:
            continue
        for row, numbers in zip(found.output_dims, wanted, strict=True):
            assert row is not None and numbers is not None
            values = [evaluate(dim, {"s": length}) for dim in row]
            assert values == list(numbers), (path, length, declaration.annotation)


SHAPES: list[tuple[str, tuple[Any, ...], dict[str, Any], list[str]]] = [
    (
        "torch.nn.functional.linear",
        (StandIn("b, s, d"), StandIn("n, d"), StandIn("n")),
        {},
        ["b, s, n"],
    ),
    ("torch.matmul", (StandIn("b, h, s, d"), StandIn("b, h, d, s")), {}, ["b, h, s, s"]),
    ("torch.Tensor.view", (StandIn("b, s, 8*d"), *map(to_dim, "bs"), 8, -1), {}, ["b, s, 8, d"]),
    ("torch.Tensor.transpose", (StandIn("b, s, 8, d"), 1, 2), {}, ["b, 8, s, d"]),
    ("torch.cat", ([StandIn("b, n"), StandIn("b, m")], 1), {}, ["b, m + n"]),
    ("torch.cat", ([StandIn("b, d"), StandIn("b, d")], -1), {}, ["b, 2*d"]),
    ("torch.chunk", (StandIn("b, 3*d"), 3, -1), {}, ["b, d", "b, d", "b, d"]),
    ("torch.chunk", (StandIn("n"), 2), {}, ["ceildiv(n, 2)", "-ceildiv(n, 2) + n"]),
    ("operator.getitem", (StandIn("b, s, d"), (slice(None), -1)), {}, ["b, d"]),
    ("operator.getitem", (StandIn("b, s, d"), (slice(None), slice(1, None))), {}, ["b, s - 1, d"]),
    ("operator.getitem", (StandIn("b, 2*d"), (Ellipsis, slice(None, symbol("d")))), {}, ["b, d"]),
    ("torch.arange", (symbol("s"),), {}, ["s"]),
    ("torch.arange", (2, symbol("s")), {}, ["s - 2"]),
    ("torch.nn.functional.pad", (StandIn("b, s"), (0, 1)), {}, ["b, s + 1"]),
    (
        "torch.nn.functional.conv1d",
        (StandIn("b, 3, s"), StandIn(8, 3, 3)),
        {"padding": 1, "stride": 2},
        ["b, 8, (s + 1)//2"],
    ),
    (
        "torch.nn.functional.conv2d",
        (StandIn("b, 3, 16*h, 16*w"), StandIn(8, 3, 16, 16)),
        {"stride": 16},
        ["b, 8, h, w"],
    ),
    ("torch.add", (StandIn("b, s, d"), StandIn("d")), {}, ["b, s, d"]),
    ("torch.add", (StandIn("n"), StandIn("m")), {}, ["max(m, n)"]),
    ("torch.add", (StandIn("n"), StandIn("8")), {}, ["8"]),
    ("torch.Tensor.repeat", (StandIn("b, s"), 2, symbol("k")), {}, ["2*b, k*s"]),
    ("torch.topk", (StandIn("b, e"), 2), {}, ["b, 2", "b, 2"]),
    ("torch.nonzero", (StandIn("b, s"),), {}, ["u_new, 2"]),
    ("torch.fft.rfft", (StandIn("b, 2*s"),), {}, ["b, s + 1"]),
    ("torch.diagonal", (StandIn("n, m"),), {}, ["min(m, n)"]),
]


@pytest.mark.parametrize("path, args, kwargs, shapes", SHAPES, ids=lambda value: str(value)[:30])
def test_symbolic_shapes(path: str, args: Any, kwargs: Any, shapes: list[str]) -> None:
    assert shapes_of(path, *args, **kwargs) == shapes


def test_lengths_that_are_not_known_to_agree_are_not_cut() -> None:
    declaration = declare("torch.add", StandIn("b, n"), StandIn("b, m"))
    assert declaration.annotation == "a b^, a c^ -> a d^"
    assert str(declaration.arguments["d"]) == "max(m, n)"


def test_lengths_that_can_never_agree_are_an_error() -> None:
    with pytest.raises(ShapeError) as caught:
        declare("torch.add", StandIn("n + 1, 4"), StandIn("n + 2, 4"))
    assert (
        str(caught.value)
        == """the shapes cannot be broadcast
  (n + 1, 4) and (n + 2, 4) have lengths n + 1 and n + 2 at dimension -2, counted from the end
  hint: lengths at one place must be equal, or 1"""
    )


UNKNOWN: list[tuple[str, tuple[Any, ...], str]] = [
    ("torch.add", (StandIn(rank=None), StandIn(3)), "the rank of input 0 is not known"),
    ("torch.Tensor.transpose", (StandIn(rank=None), 0, 1), "the rank of a tensor is not known"),
    ("torch.unbind", (StandIn("n, 3"),), "how many tensors unbind gives is not known"),
    ("torch.add", (StandIn(3), StandIn(3), "nothing", 5), "4 arguments are given, 3 are known of"),
]


@pytest.mark.parametrize("path, args, reason", UNKNOWN, ids=lambda value: str(value)[:30])
def test_what_is_not_known_is_said_and_replicated(path: str, args: Any, reason: str) -> None:
    declaration = declare(path, *args)
    assert set(declaration.annotation) <= set("?, ->")
    assert declaration.frozen == reason


def test_an_unknown_rank_does_not_stop_what_needs_none() -> None:
    assert declare("torch.cos", StandIn(rank=None)).annotation == "* -> *"
    assert shapes_of("torch.cos", StandIn(2, None))[0].startswith("2, ")


def test_an_unknown_length_beside_one_is_that_length() -> None:
    declaration = declare("torch.add", StandIn(None, 4), StandIn(1, 4))
    assert declaration.annotation == "a b, 1 b -> a b" and not declaration.fresh


def test_two_unknown_lengths_may_differ() -> None:
    declaration = declare("torch.add", StandIn(None), StandIn(None))
    assert declaration.annotation == "a^, b^ -> c^" and declaration.fresh == ("c",)


def test_arithmetic_on_lengths_is_a_value() -> None:
    s = symbol("s")
    assert declare("operator.mul", s, 4).value == 4 * s
    assert declare("operator.floordiv", 8 * s, 4).value == 2 * s
    assert declare("operator.add", 2, 3).value == 5
    assert declare("torch.Tensor.size", StandIn("b, s")).value == (symbol("b"), s)
    assert declare("torch.Tensor.size", StandIn("b, s"), -1).value == s
    assert isinstance(declare("torch.sym_max", [s, 4]).value, Poly)
    assert declare("builtins.getattr", StandIn("b, s"), "shape").value == (symbol("b"), s)
    assert declare("torch._C._set_grad_enabled", False).returns == "value"
    assert declare("operator.getitem", (1, s), 1).value == s
