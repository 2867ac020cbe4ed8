"""Layouts: the placements of a value along all axes of a mesh, outer axis first.

The outer axis cuts first, and ``blocks`` counts the blocks of what is left to cut. So where two
axes cut one dimension, the inner cut is undone before the outer one changes, and made again after.

    (S(0), S(0)) -> (R, S(0))      inner all-gather, outer all-gather, inner slice
    (P(sum), R)  -> (S(0), R)      outer reduce-scatter

`path` finds the cheapest way: a shortest path over layouts, one axis a step. Where the path would
gather a dimension that is sharded both before and after, `path_aside` shards another dimension
meanwhile, if axes are known to cut that into equal parts.

    (S(2), S(2)) -> (S(0), S(2))   inner all-to-all to S(1), outer all-to-all, inner all-to-all back

`held` lists the indices of a tensor that every rank has; in a notebook a `Held` is a picture.

    held((4, 6), ["R", "S(1)"], "dp=2, tp=2")   dp=0 tp=0   [0:4, 0:3]      dp=0 tp=1   [0:4, 3:6]
    held((6,), "S(0, blocks=3)", "tp=2")        tp=0        elements 0, 2, 4
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import islice, pairwise, product
from math import prod
from typing import Any, TypeAlias

from dimsolve.ir.display import Displayed
from dimsolve.ir.errors import AnnotationError, Problem, ShapeError
from dimsolve.solver.algebra.dims import ceil_div, floor_div
from dimsolve.solver.algebra.poly import Dim
from dimsolve.solver.proof.divisibility import exact_quotient
from dimsolve.solver.proof.facts import NO_FACTS, Facts
from dimsolve.solver.shapes import to_dim

from .mesh import Mesh, MeshLike, part_of
from .placement import Grouped, Partial, Placement, Reduction, Replicate, Shard, read_placement
from .reshard import relative_cost

Layout: TypeAlias = tuple[Placement, ...]
Room: TypeAlias = tuple[frozenset[int], ...]
"""Of every dimension the sets of axes, as bits, that are known to cut it into equal parts."""
STEP_COST = 1e-6
_SUMS = (Reduction.SUM, Reduction.AVG)

NOT_LAID_OUT = Problem(
    AnnotationError,
    "not-held",
    "this cannot be laid out",
    "{reason}",
    'give sizes, and a placement per axis: held((4, 6), ["R", "S(1)"], "dp=2, tp=2")',
)
NOT_DIVISIBLE = Problem(ShapeError, "not-divisible", "the tensor cannot be cut so", "{reason}")


@dataclass(frozen=True, slots=True)
class Step:
    """One conversion along one axis; ``shared`` as in `dimsolve.partition.reshard`."""

    axis: int
    before: Layout
    after: Layout
    shared: bool = False

    @property
    def counted(self) -> Layout:
        """The layout whose longest part counts for what is moved: of a step to unequal parts the
        one after it, of another the one before.
        """
        after = self.after[self.axis]
        return self.after if isinstance(after, Shard) and after.of else self.before


def path(
    source: Layout, target: Layout, counts: tuple[int, ...], gradient: bool = True
) -> tuple[Step, ...]:
    """Returns the steps from one layout to another at least cost.

    counts: the sizes of the axes, at nominal sizes where they are symbols: they decide between
    ways that are all right. gradient: whether the way back counts.

    >>> [step.axis for step in path((Shard(0), Shard(0)), (Replicate(), Shard(0)), (2, 2))]
    [1, 0, 1]
    """
    return priced_path(source, target, counts, gradient)[1]


@lru_cache(maxsize=1 << 17)
def priced_path(
    source: Layout, target: Layout, counts: tuple[int, ...], gradient: bool = True
) -> tuple[float, tuple[Step, ...]]:
    """Returns the steps of `path` with what they cost: bytes sent, as a part of the whole value."""
    alike = _canonical(source, target)
    cost, changes = _cheapest(*alike, counts, gradient)
    layout, steps = source, []
    for axis, whole in changes:
        after = Replicate() if whole else target[axis]
        step = Step(axis, layout, (*layout[:axis], after, *layout[axis + 1 :]))
        layout = step.after
        steps.append(step)
    return cost, tuple(steps)


def _canonical(source: Layout, target: Layout) -> tuple[Layout, Layout]:
    """Two layouts with the same ways between them, alike for many: which dimensions are equal
    counts, and whether an axis cuts one in other blocks than before.
    """
    dims: dict[int, int] = {}

    def plain(placement: Placement, blocks: int) -> Placement:
        if not isinstance(placement, Shard):
            return placement
        return Shard(dims.setdefault(placement.dim, len(dims)), blocks)

    starts = tuple([plain(p, 1) for p in source])
    ends = [plain(p, 1 if p == before else 2) for p, before in zip(target, source, strict=True)]
    return starts, tuple(ends)


@lru_cache(maxsize=1 << 17)
def _cheapest(
    source: Layout, target: Layout, counts: tuple[int, ...], gradient: bool
) -> tuple[float, tuple[tuple[int, bool], ...]]:
    """What the steps of a path cost, and of each the axis, and whether it becomes whole there."""
    queue: list[tuple[float, int, Layout, tuple[Step, ...]]] = [(0.0, 0, source, ())]
    done: set[Layout] = set()
    number = 0
    while queue:
        cost, _, layout, steps = heapq.heappop(queue)
        if layout == target:
            whole = Replicate()
            return cost, tuple([(s.axis, s.after[s.axis] == whole) for s in steps])
        if layout in done:
            continue
        done.add(layout)
        for step in _steps(layout, source, target):
            number += 1
            price = cost + STEP_COST + _price(step, counts, gradient)
            heapq.heappush(queue, (price, number, step.after, (*steps, step)))
    raise AssertionError(f"no way from {source} to {target}")


@lru_cache(maxsize=1 << 17)
def gathers_between(
    source: Layout, target: Layout, counts: tuple[int, ...], gradient: bool
) -> bool:
    """Returns whether the path makes something whole that is cut before and after."""
    return any(
        isinstance(step.before[step.axis], Shard)
        and isinstance(target[step.axis], Shard)
        and _dim(step.after[step.axis]) in (-1, _dim(step.before[step.axis]))
        for step in priced_path(source, target, counts, gradient)[1]
    )


def _dim(placement: Placement) -> int:
    return placement.dim if isinstance(placement, Shard) else -1


@lru_cache(maxsize=1 << 16)
def path_aside(
    source: Layout, target: Layout, counts: tuple[int, ...], gradient: bool, room: Room
) -> tuple[float, tuple[Step, ...]]:
    """Returns the steps with what they cost, as `priced_path` does, where an axis that is cut
    before and after may step aside and cut another dimension meanwhile, in equal parts.

    What is found does not depend on what else there is room for: with less room, but enough for
    it, the same is found.

    >>> room = (frozenset({1, 2, 3}),) * 3
    >>> cost, steps = path_aside((Shard(2),) * 2, (Shard(0), Shard(2)), (8, 8), False, room)
    >>> [str(step.after[step.axis]) for step in steps]
    ['S(1)', 'S(0)', 'S(2)']
    >>> round(priced_path((Shard(2),) * 2, (Shard(0), Shard(2)), (8, 8), False)[0] / cost)
    5
    """
    known = priced_path(source, target, counts, gradient)
    if not any(room) or not gathers_between(source, target, counts, gradient):
        return known
    queue: list[tuple[float, tuple[tuple[int, bool, int], ...], Layout, tuple[Step, ...]]]
    queue = [(0.0, (), source, ())]
    done: set[Layout] = set()
    while queue:
        cost, order, layout, steps = heapq.heappop(queue)
        if layout == target:
            return cost, steps
        if layout in done:
            continue
        done.add(layout)
        for step in (*_steps(layout, source, target), *_steps_aside(layout, target, room)):
            price = cost + STEP_COST + _price(step, counts, gradient)
            if price < known[0] and step.after not in done:
                after = step.after[step.axis]
                own = step.axis, after != target[step.axis], _dim(after)
                heapq.heappush(queue, (price, (*order, own), step.after, (*steps, step)))
    return known


def _steps_aside(layout: Layout, target: Layout, rooms: Room) -> Iterator[Step]:
    for axis, before in enumerate(layout):
        end = target[axis]
        if not (isinstance(before, Shard) and isinstance(end, Shard)) or before.of or end.of:
            continue
        for dim, together in enumerate(rooms):
            after = Shard(dim)
            room = after != end and cutting(layout, axis, dim) in together
            if room and dim != before.dim and allowed(layout, axis, after):
                yield Step(axis, layout, (*layout[:axis], after, *layout[axis + 1 :]))


def cutting(layout: Layout, axis: int, dim: int) -> int:
    """Returns the axes that cut a dimension when this one does and the outer ones stay, as bits;
    -1 where one of them cuts it into unequal parts.

    >>> cutting((Shard(1), Shard(0), Shard(2)), 2, 1)
    5
    """
    outer = [n for n in range(axis) if _dim(layout[n]) == dim]
    if any(isinstance(p := layout[n], Shard) and p.of for n in outer):
        return -1
    return sum(1 << n for n in (*outer, axis))


def _steps(layout: Layout, source: Layout, target: Layout) -> Iterator[Step]:
    for axis, before in enumerate(layout):
        for after in dict.fromkeys((target[axis], Replicate())):
            if (
                after != before
                and allowed(layout, axis, after)
                and _reachable(layout, axis, after, target)
            ):
                yield Step(axis, layout, (*layout[:axis], after, *layout[axis + 1 :]))


def _reachable(layout: Layout, axis: int, after: Placement, target: Layout) -> bool:
    """A cut is made only on what outer axes have left for good: its blocks count those."""
    if not isinstance(after, Shard):
        return True
    return all(
        layout[outer] == target[outer] or not _cuts(layout[outer], target[outer], after.dim)
        for outer in range(axis)
    )


def _cuts(before: Placement, after: Placement, dim: int) -> bool:
    return any(isinstance(p, Shard) and p.dim == dim for p in (before, after))


def allowed(layout: Layout, axis: int, after: Placement) -> bool:
    """Whether one axis may change while the others stay: no inner axis has cut what it changes, and
    no inner partial value is of another kind.
    """
    before = layout[axis]
    if isinstance(before, Grouped):
        return False  # only what reads the same groups takes it
    for inner in layout[axis + 1 :]:
        match inner:
            case Shard(dim) if _cuts(before, after, dim):
                return False
            case Partial(reduction) if _clashes(reduction, before) or _clashes(reduction, after):
                return False
    return True


def _clashes(reduction: Reduction, placement: Placement) -> bool:
    if not isinstance(placement, Partial) or placement.reduction is reduction:
        return False
    return not (placement.reduction in _SUMS and reduction in _SUMS)


def _price(step: Step, counts: tuple[int, ...], gradient: bool) -> float:
    """Bytes sent, as a part of the whole value: other axes that cut it make it cheaper."""
    before, after = step.before[step.axis], step.after[step.axis]
    others = prod(
        counts[axis]
        for axis, placement in enumerate(step.before)
        if axis != step.axis and isinstance(placement, Shard)
    )
    return relative_cost(before, after, False, gradient, counts[step.axis])[0] / others


def units_of(shard: Shard, count: Dim) -> Dim:
    """Returns how many units are dealt out: of equal parts as many as there are parts.

    >>> units_of(Shard(0, of=112, unit=16), 3), units_of(Shard(0), 3)
    (7, 3)
    """
    if not shard.of:
        return count
    length = shard.units * shard.unit
    units = exact_quotient(shard.of, length, NO_FACTS)
    return floor_div(shard.of, length) if units is None else units


def longest(shard: Shard, count: Dim) -> Dim:
    """Returns the length of the longest of unequal parts, which is the first.

    >>> longest(Shard(0, of=112, unit=16), 3)
    48
    """
    return ceil_div(units_of(shard, count), count) * shard.units * shard.unit


def local_dims(
    dims: tuple[Dim | None, ...] | None, layout: Layout, counts: tuple[Dim, ...], facts: Facts
) -> tuple[Dim | None, ...] | None:
    """Returns the shape of what one rank has of a value of shape ``dims``: the first rank, which
    has no less than the others.
    """
    if dims is None:
        return None
    parts: dict[int, Dim] = {}
    most: dict[int, Dim] = {}
    for placement, count in zip(layout, counts, strict=True):
        if isinstance(placement, Shard) and placement.of:
            most[placement.dim] = longest(placement, count)
        elif isinstance(placement, Shard):
            parts[placement.dim] = parts.get(placement.dim, 1) * count
    return tuple(
        [
            most[number]
            if number in most
            else part_of(dim, parts[number], facts)
            if number in parts and dim is not None
            else dim
            for number, dim in enumerate(dims)
        ]
    )


@dataclass(frozen=True, slots=True)
class Held(Displayed):
    """A tensor of known sizes on a mesh of known sizes. Made by `held`.

    ``placements``: one per mesh axis, outer axis first. ``mesh``: the size of every axis.
    """

    shape: tuple[int, ...]
    placements: tuple[Placement, ...]
    mesh: Mapping[str, int]

    @property
    def partial(self) -> tuple[str, ...]:
        """The axes whose ranks have parts of the value that must still be reduced."""
        placed = zip(self.mesh, self.placements, strict=True)
        return tuple(axis for axis, placement in placed if isinstance(placement, Partial))

    def ranks(self) -> Iterator[tuple[int, ...]]:
        """Yields the place of every rank on the axes, in the order of the ranks."""
        return product(*(range(size) for size in self.mesh.values()))

    def indices(self, rank: Sequence[int]) -> tuple[tuple[range, ...], ...]:
        """Returns the runs of indices that the rank at this place has, for each dimension.

        >>> held((6,), "S(0, blocks=3)", "tp=2").indices((1,))
        ((range(1, 2), range(3, 4), range(5, 6)),)
        """
        runs: list[tuple[range, ...]] = [(range(length),) for length in self.shape]
        for part, count, placement in zip(rank, self.mesh.values(), self.placements, strict=True):
            if isinstance(placement, Shard):
                runs[placement.dim] = _cut(runs[placement.dim], placement, part, count)
        return tuple(runs)

    @property
    def local_shape(self) -> tuple[int, ...]:
        """The shape on the first rank; it is the same on all but where parts are unequal."""
        return tuple(sum(map(len, runs)) for runs in self.indices((0,) * len(self.mesh)))

    def bands(self) -> tuple[tuple[range, ...], ...]:
        """Returns for each dimension the runs between two cuts of any rank: what lies in one run is
        held by the same ranks.
        """
        ends: list[set[int]] = [{0, length} for length in self.shape]
        for rank in self.ranks():
            for dim, runs in enumerate(self.indices(rank)):
                ends[dim] |= {end for run in runs for end in (run.start, run.stop)}
        return tuple(tuple(range(a, b) for a, b in pairwise(cuts)) for cuts in map(sorted, ends))

    def __str__(self) -> str:
        return self.text()

    def text(self, most: int | None = None) -> str:
        """Returns a line per rank; of more than ``most``, how many there are more."""
        lines = [f"{_sizes(self.shape)} as {', '.join(map(str, self.placements)) or 'one rank'}"]
        for rank in islice(self.ranks(), most):
            lines.append(f"  {place_text(self.mesh, rank)}  {index_text(self.indices(rank))}")
        left = prod(self.mesh.values()) - (len(lines) - 1)
        return "\n".join([*lines, *([f"  and {left} ranks more"] if left else [])])


def held(
    shape: Sequence[int] | str,
    placements: Sequence[Placement | str] | Placement | str,
    mesh: MeshLike,
) -> Held:
    """Returns who holds what of a tensor.

    placements: one per mesh axis, outer axis first, or a single one for one axis. Raises
    AnnotationError for what cannot be read and ShapeError where a dimension cannot be cut so.

    >>> print(held((4, 6), ["R", "S(1)"], "dp=1, tp=2"))
    4, 6 as R, S(1)
      dp=0 tp=0  [0:4, 0:3]
      dp=0 tp=1  [0:4, 3:6]
    """
    sizes = tuple(_number(size, "a size") for size in _listed(shape))
    axes = {axis: _number(size, f"the size of {axis}") for axis, size in Mesh.of(mesh).axes}
    given = [placements] if isinstance(placements, str | Placement) else list(placements)
    placed = tuple(read_placement(p) if isinstance(p, str) else p for p in given)
    if len(placed) != len(axes):
        raise NOT_LAID_OUT(reason=f"{len(placed)} placements for a mesh of {len(axes)} axes")
    grouped = next((each for each in placed if isinstance(each, Grouped)), None)
    if grouped is not None:
        raise NOT_LAID_OUT(reason=f"which rows a rank has of {grouped} is known when it runs")
    _check(sizes, placed, axes)
    return Held(sizes, placed, axes)


def index_text(indices: Sequence[Sequence[range]]) -> str:
    """Returns the indices as NumPy would write them; the runs of one dimension stand in braces.

    >>> index_text([[range(0, 4)], [range(0, 1), range(3, 4)]])
    '[0:4, {0:1, 3:4}]'
    """
    dims = [
        texts[0] if len(texts) == 1 else f"{{{', '.join(texts)}}}"
        for texts in ([f"{run.start}:{run.stop}" for run in runs] for runs in indices)
    ]
    return f"[{', '.join(dims)}]"


def place_text(mesh: Mapping[str, int], rank: Sequence[int]) -> str:
    """Returns where a rank is: ``dp=0 tp=1``."""
    return " ".join(f"{axis}={part}" for axis, part in zip(mesh, rank, strict=True)) or "one rank"


def _cut(runs: Sequence[range], shard: Shard, part: int, count: int) -> tuple[range, ...]:
    """Part ``part`` of ``count`` of each segment of each block that the runs, one after the other,
    are.
    """
    blocks = _number(shard.blocks, "the number of blocks")
    segments = shard.segments or (1,)
    total = sum(map(len, runs)) // (blocks * sum(segments))
    # Equal parts have one unit each; of unequal ones the first have the most, the last the rest.
    unit = _number(shard.unit, "the unit") if shard.of else total // count
    most = -(-total // (unit * count)) if shard.of else 1
    start = 0
    found: list[range] = []
    for segment in segments * blocks:
        ends = [min(n * most * unit, total) * segment for n in (part, part + 1)]
        for run in _between(runs, start + ends[0], start + ends[1]):
            if found and found[-1].stop == run.start:
                run = range(found.pop().start, run.stop)
            found.append(run)
        start += total * segment
    return tuple(found)


def _between(runs: Sequence[range], start: int, stop: int) -> Iterator[range]:
    """What stands at positions start to stop of the runs, one after the other."""
    before = 0
    for run in runs:
        first, last = max(start - before, 0), min(stop - before, len(run))
        if first < last:
            yield run[first:last]
        before += len(run)


MOST_LINES = 256
"""Ranks that a notebook or a terminal lists; `print` lists all."""
MAX_RUNS = 4_096
"""Of a dimension, on all ranks together: more are no picture and no text that anybody reads."""


def _check(
    shape: tuple[int, ...], placements: tuple[Placement, ...], mesh: Mapping[str, int]
) -> None:
    left = dict(enumerate(shape))
    runs = dict.fromkeys(left, 1)
    for placement, (axis, count) in zip(placements, mesh.items(), strict=True):
        if not isinstance(placement, Shard):
            continue
        dim = placement.dim
        if dim not in left:
            raise NOT_DIVISIBLE(
                reason=f"{placement} on {axis}: the shape {_sizes(shape)} has no such dim"
            )
        blocks, segments = _number(placement.blocks, "their number"), placement.segments or (1,)
        if placement.of:
            unit = _number(placement.unit, "the unit") * blocks * sum(segments)
            if left[dim] != placement.of or left[dim] % unit:
                raise NOT_DIVISIBLE(reason=f"{placement} on {axis}: the length is {left[dim]}")
            left[dim] = 1
            runs[dim] *= blocks * len(segments) * count
            continue
        pieces = blocks * sum(segments) * count
        if left[dim] % pieces:
            raise NOT_DIVISIBLE(
                reason=f"{placement} on {axis}={count}: {left[dim]} is not a multiple of {pieces}"
            )
        left[dim] //= count
        runs[dim] *= blocks * len(segments) * count
    if prod(mesh.values()) > MAX_RUNS or max(runs.values(), default=1) > MAX_RUNS:
        raise NOT_LAID_OUT(reason=f"more than {MAX_RUNS} ranks, or parts of one dimension")


def _listed(shape: Sequence[int] | str) -> Sequence[Any]:
    return [part for part in shape.split(",") if part.strip()] if isinstance(shape, str) else shape


def _number(size: Any, what: str) -> int:
    dim = to_dim(size.strip() if isinstance(size, str) else size)
    if not isinstance(dim, int):
        raise NOT_LAID_OUT(reason=f"{what} is {dim}: to hold something, it must be a number")
    return dim


def _sizes(shape: Sequence[int]) -> str:
    return ", ".join(map(str, shape)) or "()"
