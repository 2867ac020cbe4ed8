"""Lengths in a program: from polynomials over the symbols to nodes that compute them.

    batch*seq//2    with batch and seq read from input_ids (4, 16)
        batch = input_ids.size(0);  seq = input_ids.size(1)
        mul = batch * seq;  floordiv = mul // 2                       32

Every expression is computed once and every symbol is read once, where it is first needed. The nodes
are made from the structure of the expression; no text is evaluated.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from functools import reduce
from typing import TYPE_CHECKING, Any, TypeAlias

from dimsolve.solver.algebra.dims import Call, Function
from dimsolve.solver.algebra.poly import Dim, Poly

if TYPE_CHECKING:
    from torch.fx import Graph, Node

Length: TypeAlias = "int | Node"


def ceil_divide(a: int, b: int) -> int:
    """Returns a / b, rounded up.

    >>> ceil_divide(7, 2)
    4
    """
    return -(-a // b)


_FUNCTIONS: dict[Function, Callable[..., Any]] = {
    Function.FLOORDIV: operator.floordiv,
    Function.MOD: operator.mod,
    Function.CEILDIV: ceil_divide,
    Function.MIN: min,
    Function.MAX: max,
}


class Lengths:
    """Makes the nodes of lengths in an fx graph. ``read`` makes the node of a symbol."""

    def __init__(self, graph: Graph, read: Callable[[str], Length]) -> None:
        self.graph = graph
        self.read = read
        self._made: dict[Any, Length] = {}

    def __call__(self, dim: Dim) -> Length:
        """Returns the length: an int where it is known, else the node that computes it."""
        if not isinstance(dim, Poly):
            return int(dim)
        if dim not in self._made:
            terms = sorted(dim.terms.items(), key=lambda term: (-len(term[0]), str(term[0])))
            self._made[dim] = self._sum([self._term(*term) for term in terms])
        return self._made[dim]

    def bind(self, name: str, length: Length) -> None:
        """Says what a symbol is, where a result's shape tells it."""
        self._made.setdefault(name, length)

    def knows(self, name: str) -> bool:
        """Whether the symbol was bound or read already."""
        return name in self._made

    def _sum(self, parts: list[Length]) -> Length:
        return reduce(lambda a, b: self._apply(operator.add, a, b), parts)

    def _term(self, monomial: tuple[tuple[str, int], ...], coefficient: int) -> Length:
        factors = [self._atom(atom) for atom, exponent in monomial for _ in range(exponent)]
        if coefficient != 1 or not factors:
            factors.append(coefficient)
        return reduce(lambda a, b: self._apply(operator.mul, a, b), factors)

    def _atom(self, atom: str) -> Length:
        if atom not in self._made:
            if isinstance(atom, Call):
                arguments = [self(argument) for argument in atom.arguments]
                self._made[atom] = self._apply(_FUNCTIONS[atom.function], *arguments)
            else:
                self._made[atom] = self.read(atom)
        return self._made[atom]

    def _apply(self, function: Callable[..., Any], *arguments: Length) -> Length:
        if all(isinstance(argument, int) for argument in arguments):
            return int(function(*arguments))
        return self.graph.call_function(function, arguments)
