"""Random questions to inference and legality, and what brute force says of them.

A question is an annotation with shared, hidden and repeated identifiers, shapes that may be 0 or
negative at some values of their symbols, arguments and facts. The oracle knows one rule:
identifiers are positive integers; only a dimension written 0 lets one that stands alone be 0.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from math import prod
from random import Random

from dimsolve.ir.errors import DimsolveError
from dimsolve.solver.shapes import to_dim

from .brute_force import evaluate, holds

NAMES = ("a", "b", "c")
SYMBOLS = ("s", "t")
LARGEST = 6
POINTS = [dict(zip(SYMBOLS, point, strict=True)) for point in product(range(1, 7), range(1, 4))]

LENGTHS = (
    *("1", "2", "3", "4", "6", "8", "s", "s", "t", "2*s", "3*s", "s*t", "s + 1", "s + t", "4*s"),
    *("s - 1", "s - 3", "2*s - 4", "5 - s", "s - t", "6 - 2*s", "s*t - 2", "3*s - 3", "s**2 - 4"),
    *("s//2", "s % 3", "max(0, s - 2)", "min(s, 3)", "s//2 - 1", "(s + 1)//2", "ceildiv(s - 1, 2)"),
    *(
        "4 - s//2",
        "s % 2 + t - 1",
        "max(s - 3, t - 2)",
        "min(s - 1, 4)",
        "2*(s % 3) - 1",
        "(s - 3)**2",
    ),
    *("s*(s - 2)", "8//s", "6//(s - 1)", "0"),
)
SYMBOL_FACTS = (
    "s >= 3",
    "s % 2 == 0",
    "s <= 4",
    "s == t + 1",
    "s >= 2",
    "t == 2",
    "s != 3",
    "s > t",
)
NAME_FACTS = ("a >= 2", "a % 2 == 0", "a == b", "b <= 3", "a*b == 6", "c == 2", "a == s", "b > t")

Tensor = tuple[tuple[str | int, ...], ...]


@dataclass(frozen=True)
class Question:
    """What is asked, in the parameters' own names; ``tensors`` are the inputs' atoms."""

    text: str
    tensors: tuple[Tensor, ...]
    outputs: tuple[Tensor, ...]
    marks: Mapping[str, str]
    inputs: tuple[tuple[str, ...], ...]
    arguments: Mapping[str, str]
    facts: tuple[str, ...]

    @property
    def names(self) -> list[str]:
        return sorted({a for t in self.tensors for d in t for a in d if isinstance(a, str)})

    def points(self) -> Iterator[dict[str, int]]:
        """The values of the symbols that the facts about symbols alone allow."""
        plain = [fact for fact in self.facts if fact in SYMBOL_FACTS]
        return (point for point in POINTS if holds(plain, point))

    def fits(self, point: Mapping[str, int]) -> list[dict[str, int]]:
        """All lengths of the identifiers, up to LARGEST where nothing bounds them."""
        sizes = [[number(dim, point) for dim in shape] for shape in self.inputs]
        given = {name: number(text, point) for name, text in self.arguments.items()}
        empty = {
            dim[0]
            for tensor, shape in zip(self.tensors, self.inputs, strict=True)
            for dim, text in zip(tensor, shape, strict=True)
            if text == "0" and len(dim) == 1
        }
        if any(size is None for shape in sizes for size in shape) or None in given.values():
            return []
        ranges = [self._lengths(name, sizes, given) for name in self.names]
        return [
            lengths
            for choice in product(*ranges)
            if self._matches(lengths := dict(zip(self.names, choice, strict=True)), sizes, empty)
            and holds(self.facts, {**point, **lengths})
        ]

    def _lengths(
        self, name: str, sizes: Sequence[Sequence[int | None]], given: Mapping[str, int | None]
    ) -> Sequence[int]:
        """What a name could be by one of its dimensions alone."""
        if name in given:
            return [given[name] or 0]
        best: Sequence[int] = range(1, LARGEST + 1)
        for tensor, shape in zip(self.tensors, sizes, strict=True):
            for dim, size in zip(tensor, shape, strict=True):
                if dim == (name,):
                    return [size or 0]
                if name in dim and (size or 0) > 0:
                    best = [d for d in range(1, (size or 0) + 1) if (size or 0) % d == 0]
        return best

    def _matches(
        self,
        lengths: Mapping[str, int],
        sizes: Sequence[Sequence[int | None]],
        empty: set[str | int],
    ) -> bool:
        if any(v < 1 and (n not in empty or n in self.arguments) for n, v in lengths.items()):
            return False
        return all(
            size == prod(a if isinstance(a, int) else lengths[a] for a in dim)
            and not (size == 0 and len(dim) > 1)
            for tensor, shape in zip(self.tensors, sizes, strict=True)
            for dim, size in zip(tensor, shape, strict=True)
        )


def number(text: str, point: Mapping[str, int]) -> int | None:
    """The value of an expression; None where it divides by 0."""
    try:
        return evaluate(to_dim(text), point)
    except ZeroDivisionError:
        return None


def random_question(draw: Random, marks: bool = False) -> Question:
    """Draws a question whose shapes often match somewhere."""
    names = NAMES[: draw.randint(1, 3)]
    tensors = tuple(
        tuple(_atoms(draw, names) for _ in range(draw.randint(1, 2)))
        for _ in range(draw.choice((1, 1, 2, 2, 3)))
    )
    used = sorted({a for t in tensors for d in t for a in d if isinstance(a, str)})
    mark = {n: draw.choice(("", "", "", "+", "^")) if marks else "" for n in used}
    outputs = (tuple(_atoms(draw, used) for _ in range(draw.randint(0, 3))),) if used else ((),)
    true = {n: draw.choice(LENGTHS) for n in used}
    inputs = tuple(tuple(_length(draw, dim, true) for dim in tensor) for tensor in tensors)
    arguments = {
        n: draw.choice((true[n], draw.choice(LENGTHS))) for n in used if draw.random() < 0.2
    }
    facts = [draw.choice(SYMBOL_FACTS) for _ in range(draw.choice((0, 0, 1, 2)))]
    about = [f for f in NAME_FACTS if all(n not in used or n in used for n in NAMES)]
    if draw.random() < 0.25:
        fact = draw.choice(about)
        if all(name in used or name not in fact.replace("==", "") for name in NAMES):
            facts.append(fact)
    text = f"{_written(tensors, mark)} -> {_written(outputs, mark)}"
    return Question(text, tensors, outputs, mark, inputs, arguments, tuple(dict.fromkeys(facts)))


def _atoms(draw: Random, names: Sequence[str]) -> tuple[str | int, ...]:
    count = draw.choice((1, 1, 1, 2, 2, 3))
    return tuple(
        draw.choice((*names, *names, *names, draw.choice((1, 2, 3)))) for _ in range(count)
    )


def _length(draw: Random, dim: tuple[str | int, ...], true: Mapping[str, str]) -> str:
    if draw.random() < 0.2:
        return draw.choice(LENGTHS)
    return str(to_dim("*".join(f"({a if isinstance(a, int) else true[a]})" for a in dim)))


def _written(tensors: Sequence[Tensor], mark: Mapping[str, str]) -> str:
    def dim(atoms: tuple[str | int, ...]) -> str:
        words = [f"{a}{mark[a]}" if isinstance(a, str) else str(a) for a in atoms]
        return words[0] if len(words) == 1 else f"({' '.join(words)})"

    return ", ".join(" ".join(map(dim, tensor)) or "()" for tensor in tensors)


def readable(question: Question) -> bool:
    """Whether all lengths can be read: some products of them are numbers below 0."""
    try:
        for text in (
            *(dim for shape in question.inputs for dim in shape),
            *question.arguments.values(),
        ):
            to_dim(text)
    except DimsolveError:
        return False
    return True
