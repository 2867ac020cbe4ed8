"""The cost of converting a value from its producer's layout to the layouts that its uses need.

A way is the conversions of one value to all its needs. What it costs depends on the value by the
value's bytes alone: every conversion is an atom, *these collectives, along this axis, of a value
that those axes cut*, and a way is so many of each atom, forward and backward. So ways are found
once for all values and models; for a value the atoms are priced, and a product of matrices prices
all ways.

    (P(sum), R) -> (R, S(1))    1 slice along b, 1 all-reduce along a of what b cuts

Two ways are alike where only the numbers of dimensions differ, and of thousands of pairs of layouts
a few hundred are left.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import combinations, product
from typing import Any, TypeAlias

import numpy as np

from dimsolve.solver.algebra.poly import Dim

from ..layout import Layout, Step, allowed, units_of
from ..placement import Placement, Replicate, Shard
from ..reshard import Collective, conversion
from ..search.clock import Clock
from ..search.problem import FORBIDDEN, Numbers
from .axis_state import stored
from .choices import R
from .conversions import Flags, SharedConversions, Use
from .network import Edge, Network
from .rooms import Holds, Rooms, never

Need: TypeAlias = tuple[Layout, Flags]
Needs: TypeAlias = frozenset[int]
"""Numbers of needs: numbers are compared and looked up faster."""

Cut: TypeAlias = tuple[Dim, ...]
"""How many units of a value each axis deals out: its count where parts are equal, 1 where it does
not cut it."""

Atom: TypeAlias = tuple[int, tuple[Collective, ...], Cut]
"""The axis, the collectives, and how axes cut the value where its bytes are counted."""

SUMS = ("all-reduce", "reduce-scatter")
"""What stays out of a region that is run again, where it may."""

NO_WAY = 0
"""The number of the way that there is none."""

Price: TypeAlias = Callable[[int, tuple[Collective, ...], Cut], int]
"""Picoseconds of the collectives of an atom."""


class Ways:
    """All ways that were asked for. Layouts, needs and ways have numbers."""

    def __init__(
        self, network: Network, axes: Sequence[tuple[str, int]], holds: Holds = never
    ) -> None:
        self.rooms = Rooms(network.facts, [count for _, count in axes], holds)
        self.conversions = SharedConversions(network, axes, rooms=self.rooms)
        self.counts = tuple([count for _, count in axes])
        self.clock = Clock()
        self.layouts: list[Layout] = []
        self.needs: list[Need] = []
        self.atoms: list[Atom] = []
        self._layouts: dict[Layout, int] = {}
        self._needs: dict[Need, int] = {}
        self._atoms: dict[Atom, int] = {}
        self._rows: list[tuple[dict[int, int], dict[int, int]]] = [({}, {})]
        self._ways: dict[Any, int] = {}
        self._alike: dict[Any, int] = {}
        self._rooms: dict[frozenset[int], int] = {}
        self._tables: dict[Any, Numbers] = {}
        self._codes: tuple[dict[Any, int], list[tuple[tuple[int, int, int], ...]]] = {}, []
        self._counts = [np.zeros((0, 0), np.int64) for _ in range(2)]
        self.whole = self.need(((R,) * len(self.counts), (False,) * len(self.counts)))

    def layout(self, layout: Layout) -> int:
        """Returns the number of a layout."""
        if layout not in self._layouts:
            self._layouts[layout] = len(self.layouts)
            self.layouts.append(layout)
            number = self._codes[0]
            self._codes[1].append(
                tuple(
                    [
                        (number.setdefault(_kind(p), len(number)), _dim(p), own)
                        for p in layout
                        for own in [number.setdefault(p, len(number))]
                    ]
                )
            )
        return self._layouts[layout]

    def need(self, need: Need) -> int:
        """Returns the number of a need."""
        if need not in self._needs:
            self._needs[need] = len(self.needs)
            self.needs.append(need)
            self.layout(need[0])
        return self._needs[need]

    def stored(self, needs: Needs) -> int:
        """Returns how an input of the graph is stored that is needed so."""
        given = [self.needs[n] for n in sorted(needs)]
        axes = range(len(self.counts))
        return self.layout(tuple([stored((lay[a], f[a]) for lay, f in given) for a in axes]))

    def table(self, edge: Edge, made: Sequence[int | None], needs: Sequence[Needs]) -> Numbers:
        """Returns the numbers of the ways from each layout to all of each set of needs; made: None
        for an input of the graph, which is stored as it is used.
        """
        gradient = edge.gradient != "never"
        key = gradient, self.rooms.of(edge.dims), tuple(made), tuple(needs)
        if key not in self._tables:
            rows, columns = list(dict.fromkeys(made)), list(dict.fromkeys(needs))
            small = np.zeros((len(rows), len(columns)), np.int64)
            starts = np.array([-1 if start is None else start for start in rows])
            single = np.array([next(iter(each)) if len(each) == 1 else -1 for each in columns])
            alone = np.flatnonzero(single >= 0)
            if len(alone):
                begin = np.repeat(starts[:, None], len(alone), 1)
                stored = np.array([self.stored(columns[c]) for c in alone])
                begin = np.where(begin < 0, stored[None, :], begin)
                needed = np.repeat(single[alone][None, :], len(rows), 0)
                found = self._plain(edge, begin.reshape(-1), needed.reshape(-1))
                small[:, alone] = found.reshape(len(rows), len(alone))
            for c in np.flatnonzero(single < 0).tolist():
                for r, start in enumerate(rows):
                    begun = self.stored(columns[c]) if start is None else start
                    small[r, c] = self.way(edge, begun, columns[c])
            at = {r: n for n, r in enumerate(rows)}, {c: n for n, c in enumerate(columns)}
            self._tables[key] = small[np.ix_([at[0][r] for r in made], [at[1][c] for c in needs])]
        return self._tables[key]

    def _plain(self, edge: Edge, starts: Any, needs: Any) -> Any:
        """The ways of pairs of a layout and one need. Pairs are alike where the same kinds of
        placements stand on the same axes, the same ones of them are equal, or cut the same
        dimension, and there is room for the same.
        """
        axes = len(self.counts)
        codes = np.array(self._codes[1], np.int64)
        targets = np.array([self._layouts[layout] for layout, _ in self.needs], np.int64)
        flags = np.array([flags for _, flags in self.needs], np.int64)
        both = np.concatenate([codes[starts], codes[targets[needs]]], axis=1)
        columns = [both[:, n, 0] for n in range(2 * axes)] + [flags[needs, n] for n in range(axes)]
        room = self.rooms.of(edge.dims)
        kinds = [self._rooms.setdefault(each, len(self._rooms)) for each in room]
        if any(room):
            known = np.array([*kinds, -1])  # -1: what cuts nothing
            columns += [known[both[:, n, 1]] + 1 for n in range(2 * axes)]
        alike = tuple(sorted(kinds)) if any(room) else ()
        columns += [both[:, n, 2] == both[:, axes + n, 2] for n in range(axes)]
        for i, j in combinations(range(2 * axes), 2):
            columns.append((both[:, i, 1] == both[:, j, 1]) & (both[:, i, 1] >= 0))
        keys, first, inverse = _alike(columns)
        gradient = edge.gradient != "never"
        found = np.zeros(len(keys), np.int64)
        for n, row in enumerate(keys):
            key = gradient, alike, row
            if key not in self._alike:
                start, need = int(starts[first[n]]), int(needs[first[n]])
                self._alike[key] = self.way(edge, start, frozenset([need]))
            found[n] = self._alike[key]
        return found[inverse]

    def way(self, edge: Edge, start: int, needs: Needs) -> int:
        """Returns the number of the way from a layout to all of these needs. Raises TimeUp."""
        key = start, needs, edge.gradient != "never", self.rooms.of(edge.dims)
        if key not in self._ways:
            self.clock.check()
            uses = [Use(*self.needs[n], str(n)) for n in sorted(needs)]
            try:
                steps = self.conversions.steps(edge, self.layouts[start], uses)
            except AssertionError:
                self._ways[key] = NO_WAY
                return NO_WAY
            forward: dict[int, int] = {}
            backward: dict[int, int] = {}
            for step in steps:
                found = conversion(step.before[step.axis], step.after[step.axis], step.shared)
                cut = cut_of(step.counted, self.counts)
                for given, into in ((found.forward, forward), (found.backward, backward)):
                    if given:
                        atom = self._atom((step.axis, given, cut))
                        into[atom] = into.get(atom, 0) + 1
            self._ways[key] = len(self._rows)
            self._rows.append((forward, backward))
        return self._ways[key]

    def _atom(self, atom: Atom) -> int:
        if atom not in self._atoms:
            self._atoms[atom] = len(self.atoms)
            self.atoms.append(atom)
        return self._atoms[atom]

    def __len__(self) -> int:
        return len(self._rows)

    def _matrices(self) -> list[Numbers]:
        """Of each way how many of each atom there are forward and backward."""
        rows, atoms = len(self._rows), len(self.atoms)
        if self._counts[0].shape != (rows, atoms):
            found = [np.zeros((rows, atoms), np.int64) for _ in range(2)]
            for own, before in zip(found, self._counts, strict=True):
                own[: len(before), : before.shape[1]] = before
            for number in range(len(self._counts[0]), rows):
                for own, each in zip(found, self._rows[number], strict=True):
                    for place, count in each.items():
                        own[number, place] = count
            self._counts = found
        return self._counts

    def prices(self, edge: Edge, price: Price, again: tuple[int, int] = (1, 1)) -> Numbers:
        """Returns what each way costs such a value. again: how often its sums run forward, and what
        moves it otherwise.
        """
        forward, backward = self._matrices()
        atoms = np.array([price(*atom) for atom in self.atoms], np.int64)
        runs = np.array([again[each[0] not in SUMS] for _, each, _ in self.atoms], np.int64)
        found = forward @ (atoms * runs)
        if edge.gradient == "always":
            found = found + backward @ atoms
        found[NO_WAY] = FORBIDDEN
        return np.asarray(found, np.int64)

    # bounds --------------------------------------------------------------------------------------

    def least(
        self, edge: Edge, made: Sequence[int | None], needs: Sequence[int], price: Price
    ) -> Numbers:
        """Returns for layouts (rows) and needs (columns) what bringing a value there costs at
        least, whatever else it is brought to. None for an input of the graph.
        """
        axes = range(len(self.counts))
        known = [self.layouts[m] for m in made if m is not None]
        known += [self.needs[n][0] for n in needs]
        words = self._words(edge, known)
        places = [{p: n for n, p in enumerate(own)} for own in words]
        shape = tuple(map(len, words))
        moves = self._moves(words, edge, price)
        starts = [
            np.array([places[a][self.layouts[m][a]] for m in made if m is not None], int)
            for a in axes
        ]
        count = len(starts[0])
        given = np.full((count, *shape), FORBIDDEN, np.int64)
        given[(np.arange(count), *starts)] = 0
        at = [np.array([places[a][self.needs[n][0][a]] for n in needs], int) for a in axes]
        flags = np.array([self.needs[n][1] for n in needs], bool).reshape(len(needs), len(axes))
        bits = (flags * (1 << np.arange(len(axes)))).sum(1)
        outside = np.array([m is None for m in made], bool)
        found = np.zeros((len(made), len(needs)), np.int64)
        reached: dict[int, Numbers] = {}
        for bit in sorted(set(bits.tolist())):
            own = np.flatnonzero(bits == bit)
            if count:
                table = self._reached(bit, given, moves, reached)
                index: Any = (slice(None), *[i[own] for i in at])
                found[np.ix_(~outside, own)] = table[index]
        if outside.any():
            found[outside] = self._least_of_input(places, shape, moves, at, bits)
        return found

    def between(self, edge: Edge, made: Sequence[int], needs: Sequence[int]) -> list[int]:
        """Returns the layouts that may lie between these: along each axis a placement of any, or
        one that a value may have on its way.
        """
        known = [self.layouts[m] for m in made] + [self.needs[n][0] for n in needs]
        words = self._words(edge, known)
        return [self.layout(tuple(layout)) for layout in product(*words)]

    def _words(self, edge: Edge, known: Sequence[Layout]) -> list[list[Placement]]:
        """The placements along each axis of a value that is brought from and to these layouts."""
        room = self.rooms.of(edge.dims)
        words = []
        for axis in range(len(self.counts)):
            own = dict.fromkeys([R, *(layout[axis] for layout in known)])
            if any(isinstance(p, Shard) and not p.of for p in own):
                aside = [d for d, sets in enumerate(room) if any(s >> axis & 1 for s in sets)]
                own.update(dict.fromkeys(map(Shard, aside)))
            words.append(list(own))
        return words

    def _least_of_input(self, places: Any, shape: Any, moves: Any, at: Any, bits: Any) -> Numbers:
        """From the layouts in which it may be stored: that of the need, or whole along axes."""
        found = np.full(len(bits), FORBIDDEN, np.int64)
        axes = len(shape)
        whole = [places[a][R] for a in range(axes)]
        for number, bit in enumerate(bits.tolist()):
            given = np.full((1, *shape), FORBIDDEN, np.int64)
            own = [int(i[number]) for i in at]
            for mask in range(1 << axes):
                start = [whole[a] if mask >> a & 1 else own[a] for a in range(axes)]
                given[(0, *start)] = 0
            found[number] = self._reached(bit, given, moves, {})[(0, *own)]
        return found

    def _reached(self, bit: int, given: Numbers, moves: Any, known: dict[int, Numbers]) -> Numbers:
        """From each start to every layout at least, with the gradient shared along some axes."""
        if bit not in known:
            axes = [a for a in range(len(self.counts)) if bit >> a & 1]
            start = given if not axes else np.full_like(given, FORBIDDEN)
            for axis in axes:
                before = self._reached(bit & ~(1 << axis), given, moves, known)
                into = [slice(None)] * given.ndim
                into[axis + 1] = slice(0, 1)  # R comes first
                through = (before + moves[1][axis][None]).min(axis + 1, keepdims=True)
                start[tuple(into)] = np.minimum(start[tuple(into)], through)
            free = [a for a in range(len(self.counts)) if not bit >> a & 1]
            known[bit] = _closed(np.minimum(start, FORBIDDEN), free, moves[0])
        return known[bit]

    def _moves(self, words: Sequence[Sequence[Placement]], edge: Edge, price: Price) -> Any:
        """Prices of a step along each axis: from each layout to each placement there, and from each
        to whole with the gradient shared.
        """
        shape = tuple(map(len, words))
        plain = [np.full((*shape, len(own)), FORBIDDEN, np.int64) for own in words]
        shared = [np.full(shape, FORBIDDEN, np.int64) for _ in words]
        known: dict[Any, int] = {}

        def cost(axis: int, layout: Layout, after: Placement, flag: bool) -> int:
            before = layout[axis]
            step = Step(axis, layout, (*layout[:axis], after, *layout[axis + 1 :]), flag)
            cut = cut_of(step.counted, self.counts)
            key = axis, before, after, flag, cut
            if key not in known:
                found = conversion(before, after, flag)
                known[key] = price(axis, found.forward, cut) if found.forward else 0
                if edge.gradient == "always" and found.backward:
                    known[key] += price(axis, found.backward, cut)
            return known[key]

        for place in np.ndindex(shape):
            layout = tuple([own[n] for own, n in zip(words, place, strict=True)])
            for axis, own in enumerate(words):
                for number, after in enumerate(own):
                    if after == layout[axis]:
                        plain[axis][(*place, number)] = 0
                    elif allowed(layout, axis, after):
                        plain[axis][(*place, number)] = cost(axis, layout, after, False)
                if layout[axis] == R or allowed(layout, axis, R):
                    shared[axis][place] = cost(axis, layout, R, True)
        return plain, shared


def _closed(start: Numbers, axes: Sequence[int], moves: Sequence[Numbers]) -> Numbers:
    """Steps along these axes, as long as something becomes cheaper."""
    found = start
    while True:
        before = found
        for axis in axes:
            # [start, .., before, .., after]: the best before is taken, after stands in its place
            through = (found[..., None] + moves[axis][None]).min(axis + 1)
            found = np.minimum(found, np.moveaxis(through, -1, axis + 1))
        if (found == before).all():
            return found


def _alike(columns: Sequence[Any]) -> tuple[list[tuple[int, ...]], Any, Any]:
    """The distinct rows, where each first stands, and which of them every row is. Small numbers of
    a row are written into words, which are compared faster.
    """
    words: list[Any] = []
    room = 0
    for column in columns:
        bits = max(int(column.max(initial=0)).bit_length(), 1)
        if bits > room:
            words.append(np.zeros(len(column), np.int64))
            room = 62
        words[-1] = words[-1] << bits | column
        room -= bits
    if len(words) == 1:
        _, first, inverse = np.unique(words[0], return_index=True, return_inverse=True)
    else:
        _, first, inverse = np.unique(
            np.stack(words, 1), axis=0, return_index=True, return_inverse=True
        )
    keys = [tuple([int(column[n]) for column in columns]) for n in first.tolist()]
    return keys, first, inverse.reshape(-1)


def cut_of(layout: Layout, counts: Sequence[int]) -> Cut:
    """Returns how many units of a value each axis deals out.

    >>> cut_of((R, Shard(0), Shard(1, of=10, unit=2)), (2, 4, 3))
    (1, 4, 5)
    """
    placed = zip(layout, counts, strict=True)
    return tuple([units_of(p, count) if isinstance(p, Shard) else 1 for p, count in placed])


def _kind(placement: Placement) -> Any:
    """What a conversion goes by, besides what is equal: in which blocks a cut is does not count."""
    return Shard if isinstance(placement, Shard) and not placement.of else placement


def _dim(placement: Placement) -> int:
    return placement.dim if isinstance(placement, Shard) else -1


__all__ = ["NO_WAY", "Cut", "Need", "Needs", "Price", "Replicate", "Ways", "cut_of"]
