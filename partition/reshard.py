"""From one placement to another along one axis: which collective, and how many bytes a rank sends.

    from -> to       forward          n ranks, whole of B bytes: a rank sends
    P -> R           all-reduce       2 (n - 1)/n B
    P -> S           reduce-scatter     (n - 1)/n B
    S -> R           all-gather         (n - 1)/n B
    S(i) -> S(j)     all-to-all         (n - 1)/n B/n
    R -> S           slice            0
    R -> P           keep             0      on one rank, neutral elements on the others
    S -> P           insert           0      among neutral elements
    R -> G                            0      a rank uses the rows of its groups

The way back of a gradient is a conversion too: a sharded value has a sharded gradient, a partial
one has the whole gradient on every rank, and a replicated one has the whole gradient, unless it is
used by work that is not replicated: then each rank has a share, and the shares are a P(sum). Of
rows in groups each rank has the gradients of its own and zeros for the others: a P(sum) too.

    P -> R   all-reduce | identity        R -> R (shared)   identity | all-reduce
    S -> R   all-gather | slice           S -> R (shared)   all-gather | reduce-scatter
    P -> S   reduce-scatter | all-gather  R -> S            slice | all-gather
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Literal, TypeAlias, assert_never

from dimsolve.solver.algebra.dims import floor_div
from dimsolve.solver.algebra.poly import Dim
from dimsolve.solver.proof.divisibility import exact_quotient
from dimsolve.solver.proof.facts import NO_FACTS

from .placement import Grouped, Partial, Placement, Reduction, Replicate, Shard

Collective: TypeAlias = Literal[
    "slice",
    "keep",
    "insert",
    "all-reduce",
    "all-gather",
    "reduce-scatter",
    "all-to-all",
    "broadcast",
]
DEFAULT_BYTES = 4


def item_bytes(dtype: str | None) -> int:
    """Returns the bytes of one element; 4 for a dtype that is not known.

    >>> item_bytes("bfloat16"), item_bytes("bool"), item_bytes("float8_e4m3fn")
    (2, 1, 1)
    """
    if dtype is None:
        return DEFAULT_BYTES
    bits = dtype.split("_")[0].lstrip("abcdefghijklmnopqrstuvwxyz")
    if not bits.isdigit():
        return 1 if dtype == "bool" else DEFAULT_BYTES
    return max(int(bits) // 8, 1)


WHOLE = Replicate()
SHARES = Partial(Reduction.SUM)

SENT: dict[Collective, tuple[int, int]] = {
    "slice": (0, 0),
    "keep": (0, 0),
    "insert": (0, 0),
    "all-reduce": (2, 1),
    "all-gather": (1, 1),
    "reduce-scatter": (1, 1),
    "broadcast": (1, 1),
    "all-to-all": (1, 2),
}
"""Collective -> (a, b): a rank sends a * (n - 1) / n**b of the whole's bytes."""


@dataclass(frozen=True, slots=True)
class Conversion:
    """One conversion along one axis: its collectives and the placements of the gradient after and
    before it.
    """

    before: Placement
    after: Placement
    shared: bool
    forward: tuple[Collective, ...]
    backward: tuple[Collective, ...]
    gradient: tuple[Placement, Placement]


@lru_cache(maxsize=4096)
def conversion(before: Placement, after: Placement, shared: bool = False) -> Conversion:
    """Returns the conversion between two placements. shared: ``after`` is replicated and used by
    work that is not.

    >>> conversion(Partial(), Replicate()).forward
    ('all-reduce',)
    >>> conversion(Replicate(), Replicate(), shared=True).backward
    ('all-reduce',)
    """
    given = gradient_of(after, shared)
    wanted = gradient_of(before, False)
    return Conversion(
        before,
        after,
        shared,
        _forward(before, after),
        _backward(before, after, given),
        (given, wanted),
    )


def gradient_of(placement: Placement, shared: bool) -> Placement:
    """Returns the placement of a value's gradient."""
    match placement:
        case Shard():
            return placement
        case Partial():
            return WHOLE
        case Replicate():
            return SHARES if shared else WHOLE
        case Grouped():
            return SHARES
        case _:
            assert_never(placement)


def _forward(before: Placement, after: Placement) -> tuple[Collective, ...]:
    match before, after:
        case _ if before == after:
            return ()
        case _, Grouped():
            return _forward(before, WHOLE)
        case Replicate(), Shard():
            return ("slice",)
        case Replicate(), Partial():
            return ("keep",)
        case Shard(), Replicate():
            return ("all-gather",)
        case Shard(i), Shard(j):
            return ("all-to-all",) if i != j else ("all-gather", "slice")
        case Shard(), Partial(Reduction.AVG):
            return ("all-gather", "keep")
        case Shard(), Partial():
            return ("insert",)
        case Partial(Reduction.PROD), Replicate():
            return ("all-gather",)
        case Partial(), Replicate():
            return ("all-reduce",)
        case Partial(Reduction.SUM | Reduction.AVG), Shard():
            return ("reduce-scatter",)
        case Partial(), _:
            return (*_forward(before, WHOLE), *_forward(WHOLE, after))
        case _:
            return ()


def _backward(before: Placement, after: Placement, given: Placement) -> tuple[Collective, ...]:
    """The gradient's way: from that of ``after`` to that of ``before``, where maxima and products
    have a rule of their own.
    """
    match before, after:
        case Partial(Reduction.MAX | Reduction.MIN), Replicate():
            # The ranks count how many of them tie, and the gradient is shared evenly.
            return (*_forward(given, WHOLE), "all-reduce")
        case Replicate(), Partial(Reduction.MAX | Reduction.MIN):
            return ("all-reduce",)
        case Replicate(), Partial(Reduction.PROD):
            return ("broadcast",)
        case _:
            return _forward(given, gradient_of(before, False))


def sends(collectives: tuple[Collective, ...], size: Dim, count: Dim) -> Dim:
    """Returns the bytes that one rank sends in these collectives, for a whole of ``size`` bytes.

    >>> sends(("all-reduce",), 64, 4)
    96
    """
    total: Dim = 0
    for collective in collectives:
        times, power = SENT[collective]
        if times:
            total = total + _share(times * (count - 1) * size, count**power)
    return total


def _share(amount: Dim, count: Dim) -> Dim:
    quotient = exact_quotient(amount, count, NO_FACTS)
    return floor_div(amount, count) if quotient is None else quotient


@lru_cache(maxsize=8192)
def relative_cost(
    before: Placement, after: Placement, shared: bool, gradient: bool, n: int
) -> tuple[float, int]:
    """Returns how many times its whole size a rank sends of a value, forward and backward, and in
    how many collectives.
    """
    found = conversion(before, after, shared)
    collectives = found.forward + (found.backward if gradient else ())
    sent = [SENT[each][0] * (n - 1) / n ** SENT[each][1] for each in collectives]
    return sum(sent), sum(1 for each in sent if each)
