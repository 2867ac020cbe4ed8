"""The bytes that a conversion holds while it runs, beside what it is given and what it makes.

    S(0) -> R      all-gather       nothing: the rows of the ranks follow one another
    S(1) -> R      all-gather       the rows as they came, until they lie in order: the whole
    P -> S(1)      reduce-scatter   the rows as they are sent: the whole; gloo sums a copy of it
    S(1) -> S(2)   all-to-all       one of the two: a part

Several tensors that go the same way go together (`exec.distributed.together`): their rows lie side
by side, so that all are laid out anew, whatever is cut. These are the tensors of torch that
dimsolve makes, and gloo; what other backends need inside themselves is not known.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

from .placement import Partial, Placement, Reduction, Shard, read_placement
from .reshard import Collective

TOGETHER: frozenset[Collective] = frozenset({"all-to-all", "all-gather", "reduce-scatter"})
"""The collectives in which several tensors may go together."""


@dataclass(frozen=True, slots=True)
class Way:
    """From one placement to another along one axis, forward or back."""

    axis: str
    before: str
    after: str
    collectives: tuple[Collective, ...]

    @property
    def together(self) -> bool:
        """Whether several tensors may go in one collective."""
        return len(self.collectives) == 1 and self.collectives[0] in TOGETHER


def held_by(
    way: Way, given: int, made: int, lengths: Sequence[int], count: int, *, together: bool = False
) -> int:
    """Returns the bytes that are held beside the tensor given and the one made.

    given, made: their bytes. lengths: of the tensor given; only whether they are 1 counts. count:
    of the ranks of the axis. together: other tensors go in the same collective.

    >>> held_by(Way("cp", "S(1)", "R", ("all-gather",)), 64, 128, (2, 8), 2)
    128
    >>> held_by(Way("dp", "S(0)", "R", ("all-gather",)), 64, 128, (8, 2), 2)
    0
    """
    before, after = _placement(way.before), _placement(way.after)
    match way.collectives:
        case ():
            return 0
        case ("all-gather",):
            return _laid_out(before, made, lengths, together)
        case ("reduce-scatter",):
            return given + _laid_out(after, given, lengths, together)
        case ("all-to-all",):
            uneven = any(isinstance(each, Shard) and each.of for each in (before, after))
            return given * (3 if uneven else 1)
        case ("slice",):
            return 0 if isinstance(after, Shard) and after.contiguous else made
        case ("insert",):
            return 0 if _in_order(after, lengths) else made
        case ("all-reduce",):  # extremes go as whole numbers, in the order of the others
            extreme = (Reduction.MAX, Reduction.MIN)
            return 2 * given * (isinstance(before, Partial) and before.reduction in extreme)
        case ("keep",) | ("broadcast",):
            return 0
        case _:
            return 2 * given * (count if isinstance(before, Shard) else 1)


def _laid_out(cut: Placement, whole: int, lengths: Sequence[int], together: bool) -> int:
    """What is held of a whole that is put together of parts, or taken apart."""
    if isinstance(cut, Shard) and cut.of:
        return 2 * whole
    return whole if together or not _in_order(cut, lengths) else 0


def _in_order(cut: Placement, lengths: Sequence[int]) -> bool:
    """Whether the parts of a tensor follow one another in its memory."""
    if not isinstance(cut, Shard):
        return True
    return cut.contiguous and not cut.of and all(each == 1 for each in lengths[: cut.dim])


@lru_cache(maxsize=4096)
def _placement(text: str) -> Placement:
    return read_placement(text)
