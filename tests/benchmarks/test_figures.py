"""What questions cost. Measured, never asserted: a busy machine must not decide a test.

    pytest tests/benchmarks

"New sizes" are sizes that were never asked about before, another shape each round; "again" is the
very same question. Both end with the output shapes as SymPy expressions in hand.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator, Mapping
from itertools import count
from types import MappingProxyType
from typing import Any, NamedTuple

import pytest

import dimsolve as ds
from dimsolve.ir.read_annotation import parse_annotation

US, MS = 1e-6, 1e-3


class Operator(NamedTuple):
    """An annotation and its inputs; the size ``{s}`` becomes a number or a multiple of a symbol."""

    annotation: str
    inputs: tuple[tuple[str | int, ...], ...]
    arguments: Mapping[str, int] = MappingProxyType({})


OPERATORS = {
    "matmul": Operator("m k+, k+ n -> m n", (("{s}", 512), (512, 1024))),
    "layer norm": Operator("* d^, d^, d^ -> * d^", ((8, "{s}", 512), (512,), (512,))),
    "attention": Operator(
        "L^ N E^, (h+ d^ 3) E^, (h+ d^ 3), E^ (h+ d^) -> L^ N E^",
        (("{s}", 4, 512), (1536, 512), (1536,), (512, 512)),
        {"h": 8},
    ),
    "hidden view": Operator("(h t) k -> h t k", (("{s}", 64),), {"h": 8}),
}
PROOFS: dict[str, tuple[str, ...]] = {
    "{i}*n*(n + 1) % 2 == 0": (),
    "8*{i}*n*k % 16 == 0": ("k % 2 == 0",),
    "{i}*k*(n//k) == {i}*n": ("n % k == 0",),
    "(n + 8*{i} - 1)//8 >= n//8": (),
}
"""Claims and their facts; ``{i}`` is a number that was never asked about before."""


def shapes(operator: Operator, size: object) -> list[tuple[Any, ...]]:
    return [tuple(size if dim == "{s}" else dim for dim in dims) for dims in operator.inputs]


def numbers(operator: Operator) -> Iterator[object]:
    return (shapes(operator, 8 * number) for number in count(1))


def symbols(operator: Operator) -> Iterator[object]:
    return (shapes(operator, f"{8 * number}*s") for number in count(1))


@pytest.mark.parametrize("name", ["matmul", "attention"])
def test_parse(name: str, measure: Any) -> None:
    text = OPERATORS[name].annotation
    measure(f"parse {name}", 40 * US, lambda: parse_annotation(text))


@pytest.mark.parametrize("name", OPERATORS)
@pytest.mark.parametrize(
    ("kind", "sizes", "aim"), [("concrete", numbers, 15), ("symbolic", symbols, 25)]
)
def test_infer_new_sizes(name: str, kind: str, sizes: Any, aim: int, measure: Any) -> None:
    operator = OPERATORS[name]

    def ask(inputs: Any) -> object:
        return ds.infer(operator.annotation, inputs, arguments=operator.arguments).outputs

    measure(f"infer {name}, {kind}, new sizes", aim * US, ask, sizes(operator))


@pytest.mark.parametrize("name", OPERATORS)
def test_infer_again(name: str, measure: Any) -> None:
    operator = OPERATORS[name]
    inputs = shapes(operator, "8*s")
    measure(
        f"infer {name}, again",
        3 * US,
        lambda: ds.infer(operator.annotation, inputs, arguments=operator.arguments).outputs,
    )


@pytest.mark.parametrize("claim", PROOFS)
def test_prove_new_claims(claim: str, measure: Any) -> None:
    facts = PROOFS[claim]

    def ask(text: Any) -> object:
        return ds.prove(text, facts=facts)

    plain = " if ".join((claim.format(i="i"), *facts))
    measure(f"prove {plain}", 100 * US, ask, (claim.format(i=number) for number in count(1)))


def test_import(measure: Any) -> None:
    program = [sys.executable, "-c", "import dimsolve"]
    measure(
        "a process that imports dimsolve", 150 * MS, lambda: subprocess.run(program, check=True)
    )
