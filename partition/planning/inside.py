"""The memory inside an operator, from the local shapes of its inputs and outputs, as in `memory`.

cross_entropy    the logarithms of all logits, twice where a rank has a part of the classes
attention        a number for every row, or the weights, where no fused kernel is used
pow, cdist ...   what the backward pass makes, step by step
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod
from typing import Protocol

from dimsolve.solver.algebra.poly import Dim
from dimsolve.solver.layout import layout_of

from ..layout import Layout
from ..memory import ATTENTION, EXACT, MOVES, PRODUCTS
from ..reshard import item_bytes
from ..saved import INSIDE, TEMPORARIES, Attention, Saved, attention, saved_by
from .network import Edge, Network, Operator
from .vocabulary import Option


class Sized(Protocol):
    """What says how long and how large things are on a rank."""

    network: Network

    def value(self, dim: Dim) -> int:
        """Returns a length at the sizes."""

    def size_of(self, edge: Edge, layout: Layout = ()) -> int:
        """Returns the bytes of the longest part of a value."""

    def lengths_of(self, edge: Edge, layout: Layout) -> tuple[int, ...] | None:
        """Returns the lengths of the longest part of a value; None where one is not known."""


class Inside:
    """One operator with one of its options."""

    def __init__(self, form: Sized, operator: Operator, option: Option) -> None:
        edges = form.network.edges
        self.form, self.operator, self.option = form, operator, option
        self.name, self.kind = operator.node.name, saved_by(operator.node.name)
        self.given = [
            (edges[n], option.need(place, False)[0])
            for place, n in enumerate(operator.inputs)
            if n is not None
        ]
        self.made = [
            (edges[n], option.made(place))
            for place, n in enumerate(operator.outputs)
            if n is not None
        ]

    def kept(self) -> int:
        """Returns the bytes that it keeps for its backward pass, which nobody else sees."""
        sizes = [self.form.size_of(*each) for each in (*self.given, *self.made)]
        if self.operator.node.signature in INSIDE:
            return self._rows(INSIDE[self.operator.node.signature][0])
        if self.kind is Saved.EXTRA:
            exact = sum(self.form.size_of(*e) for e in self.given if _exact(e[0]))
            return self._logarithms() * max(sizes, default=0) + 3 * exact
        if self.name == "layer_norm" and self.given:
            edge, layout = self.given[0]
            rows = self.form.lengths_of(edge, layout)
            return 0 if rows is None else 2 * max(4, item_bytes(edge.dtype)) * prod(rows[:-1])
        if self.name == ATTENTION and self.given:
            edge = self.given[0][0]
            masks = [e for e in self.given if e[0].dtype == "bool"]
            found = self.attention()
            # What is given is counted as it is given, also where it is a copy that is kept.
            copied = 0 if found.fused else sum(self.form.size_of(*e) for e in self.given[:3])
            numbers = [self.form.lengths_of(*each) or (0,) for each in masks]
            whole = sum(map(prod, numbers)) * item_bytes(edge.dtype)
            return whole + max(0, found.inside - copied)
        return 0

    def back(self, new: Mapping[int, int]) -> int:
        """Returns the bytes that its backward pass makes. new: of the gradients of what it is
        given, by value.
        """
        sizes = [self.form.size_of(*each) for each in (*self.given, *self.made)]
        made = 0 if self.name in MOVES else sum(new.values())
        if self.name in PRODUCTS:
            largest = max((self.form.size_of(*each) for each in self.made), default=0)
            made = sum(max(size, largest) for size in new.values())
        made *= 1 + (self.kind is Saved.EXTRA)
        if self.name == ATTENTION:
            made += self.attention().beside
        if self.operator.node.signature in INSIDE:
            made += self._rows(INSIDE[self.operator.node.signature][1])
        return made + TEMPORARIES.get(self.name, 0) * max(sizes, default=0)

    def attention(self) -> Attention:
        """Returns what an attention keeps, and makes while it runs."""
        edges, inputs = self.form.network.edges, self.operator.inputs
        shapes = [self.form.lengths_of(*each) for each in self.given[:3]]
        known = [each for each in shapes if each is not None]
        if len(known) < 3 or None in inputs[:3]:
            return Attention(0, 0, True)
        masks = [edges[n] for n in inputs[3:] if n is not None]
        return attention(
            known,
            item_bytes(self.given[0][0].dtype),
            draws=self.operator.declaration.random,
            mask_gradient=any(each.gradient == "always" for each in masks),
        )

    def _logarithms(self) -> int:
        """How many tensors as large as its largest it keeps at least."""
        if self.name != "cross_entropy":
            return 1
        given, target, *_ = layout_of(self.operator.node.annotation, None).inputs
        names = [{name for p in row or () for name in p.names} for row in (given, target)]
        only = names[0] - names[1]
        return 1 + any(c.rule is not None and c.name in only for c in self.option.choices)

    def _rows(self, rows: Sequence[str]) -> int:
        """The bytes of rows that an operator makes inside, in the dtype of its first input."""
        lengths = {n: self.form.value(length) for n, length in self.option.local.lengths.items()}
        item = item_bytes(self.given[0][0].dtype)
        return item * sum(prod(lengths[name] for name in row.split()) for row in rows)


def _exact(edge: Edge) -> bool:
    return (edge.dtype or "").startswith(EXACT)


__all__ = ["Inside"]
