"""What a program is made of and for: a graph, its plan, this rank's communicators, a device.

plan over tp = 2 * n on 8 ranks        mesh {"n": 4}
placement("S(0, blocks=n)")            S(0, blocks=4)
parts(["S(0)", "R"], 0)                how many parts dimension 0 is cut in
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from functools import lru_cache
from keyword import iskeyword
from math import prod
from typing import TYPE_CHECKING, Literal, TypeAlias

import torch

from dimsolve.ir.errors import Diagnostic, DimsolveError, Problem, ShapeError
from dimsolve.ir.graph import Graph
from dimsolve.partition.layout import Layout
from dimsolve.partition.mesh import dealt_units, part_symbol
from dimsolve.partition.placement import Placement, Replicate, Shard, read_placement
from dimsolve.partition.plan import Plan
from dimsolve.solver.algebra.dims import evaluate, substitute, symbols_of
from dimsolve.solver.algebra.poly import Dim, divide_exactly
from dimsolve.solver.graphs.reading import read_dim

from ..distributed.communicator import Communicator

if TYPE_CHECKING:
    from torch import fx


class LoweringError(DimsolveError):
    """A plan that cannot be made a program."""

    __module__ = "dimsolve"


CALLS_FUNCTION = Problem(
    LoweringError,
    "not-lowered",
    "a call of {node.signature} cannot be part of a program",
    "{node.id} calls a function that has no plan of its own",
    "register it as an operator with dimsolve.register_op",
)
NOT_KNOWN = Problem(
    LoweringError,
    "not-known",
    "%{value.name} is not known without running",
    "the plan skips what makes it, and its type is {value.type}",
)
UNREADABLE = Problem(
    LoweringError,
    "no-size",
    "nothing tells the size of '{name}'",
    "no input and no result before its use has a dimension from which '{name}' can be computed",
    "make '{name}' a dimension of an input",
)
UNEQUAL_GIVEN = Problem(
    LoweringError,
    "unequal-parts-given",
    "unequal parts of {input} do not tell '{name}'",
    "the plan cuts it into unequal parts, and one of them does not tell how long the whole is",
    'give {input} whole on every rank, or plan with uneven="parameters"',
)
NOT_EMITTED = Problem(
    LoweringError,
    "not-emitted",
    "the program cannot be written as Python{step}",
    "it needs {what}",
    "register the operator with emit_fn, which writes the call",
)
TWO_FUNCTIONS = Problem(
    LoweringError,
    "two-rules",
    "two mesh axes put different functions in an operator's place",
    "{node.id} ({node.signature}) is split on {axes} by rules that have functions of their own",
    "split it on one of the axes",
)
NO_MATCH = Problem(
    ShapeError,
    "no-match",
    "{id}: the shape does not match ({pattern})",
    "dimension {index} is {length}, and the pattern says {wanted}",
)


def not_emitted(step: str, what: str) -> LoweringError:
    """Something in a program that no Python text says."""
    return NOT_EMITTED(step=f": {step}" if step else "", what=what)


@lru_cache(maxsize=8192)
def dim_of(text: str) -> Dim:
    """Returns the length that a plan writes.

    >>> dim_of("8*s//2")
    Poly(4*s)
    """
    dim: Dim = read_dim(text)
    return dim


@lru_cache(maxsize=8192)
def placement_of(text: str, sizes: tuple[tuple[str, int], ...] = ()) -> Placement:
    """Returns the placement that a plan writes; ``sizes`` are those of the mesh's symbols.

    >>> print(placement_of("S(0, blocks=2*n)", (("n", 4),)))
    S(0, blocks=8)
    """
    placement = read_placement(text)
    if not isinstance(placement, Shard):
        return placement
    lengths = placement.blocks, placement.of, placement.unit
    if all(isinstance(length, int) for length in lengths):
        return placement
    blocks, of, unit = (substitute(length, dict(sizes)) for length in lengths)
    return replace(placement, blocks=blocks, of=of, unit=unit)


def mesh_sizes(plan: Plan, communicators: Mapping[str, Communicator]) -> dict[str, int]:
    """Returns the sizes of the symbols in a plan's mesh; LoweringError where the ranks that are
    there are not those of the plan.
    """
    return mesh_symbols(plan, {axis: end.size for axis, end in communicators.items()})


def mesh_symbols(plan: Plan, ranks: Mapping[str, int]) -> dict[str, int]:
    """Returns the sizes of the symbols in a plan's mesh; LoweringError where it is another mesh.

    ranks: the sizes of the axes of the mesh that is there, which may have more of them.
    """
    missing = [axis for axis in plan.mesh if axis not in ranks]
    if missing:
        raise other_mesh(plan, ranks, f"there is no axis {missing[0]}")
    sizes: dict[str, int] = {}
    for axis, text in plan.mesh.items():
        dim = dim_of(text)
        if str(dim).isidentifier():
            sizes.setdefault(str(dim), ranks[axis])
    for axis, text in plan.mesh.items():
        dim = dim_of(text)
        unknown = symbols_of(dim) - sizes.keys()
        if unknown or evaluate(dim, sizes) != ranks[axis]:
            reason = f"the axis {axis} has {ranks[axis]} ranks, and the plan is made for {text}"
            raise other_mesh(plan, ranks, reason)
    return sizes


def other_mesh(plan: Plan, ranks: Mapping[str, int], reason: str) -> LoweringError:
    """Returns the error for a mesh that is not the plan's."""
    made, there = (
        ", ".join(f"{axis}={size}" for axis, size in mesh.items()) or "one rank"
        for mesh in (plan.mesh, ranks)
    )
    return LoweringError(
        Diagnostic(
            code="other-mesh",
            title="the mesh is not the plan's",
            reason=f"{reason}; the mesh is {there}, and the plan's {made}",
            hint=f"run it on {made}, or make a plan for {there}",
        )
    )


EMITTED = (
    *("draws", "device", "torch", "forward", "restoring", "convert", "placed", "Shard"),
    *("part_of", "partial", "modified", "made_by_shards", "operator"),
    *("checkpoint", "block_of", "begin_block", "gathered", "regathering"),
    *("have_changed",),
)
"""Names in the text of a program that are no variables."""


Kept: TypeAlias = Literal["whole", "placed", "none"]


@dataclass(frozen=True)
class Returned:
    """How outputs are handed out: whole; ``"placed"``, in the parts that they are made in; or not
    at all. ``by_pattern``: in the order in which the patterns are tried; others are whole.
    as_placed: makes of this rank's part, in a layout, what is handed out.
    """

    by_pattern: tuple[tuple[str, Kept], ...] = ()
    as_placed: Callable[[Layout], Callable[[torch.Tensor], torch.Tensor]] | None = None

    def __call__(self, name: str) -> Kept:
        """Returns how an output of this name is handed out."""
        found = (kept for pattern, kept in self.by_pattern if fnmatchcase(name, pattern))
        return next(found, "whole")


def _graph() -> fx.Graph:
    from torch import fx

    return fx.Graph()


@dataclass(frozen=True)
class Setting:
    """``fx``: the program as it grows. held: what its ``get_attr`` nodes name, by that name.

    given: the layouts of the inputs that callers do not give whole, by the input's name. kept: the
    axes along which outputs stay in the parts that they are made in. returned: see `Returned`.
    stored: the layouts of parameters and buffers that ranks hold otherwise than the plan says.
    """

    graph: Graph
    plan: Plan
    communicators: Mapping[str, Communicator]
    device: torch.device
    fx: fx.Graph = field(default_factory=_graph)
    held: dict[str, object] = field(default_factory=dict)
    given: Mapping[str, Layout] = field(default_factory=dict)
    stored: Mapping[str, Layout] = field(default_factory=dict)
    kept: tuple[str, ...] = ()
    returned: Returned = field(default_factory=Returned)
    randomness: str = "ranks"

    @property
    def mesh(self) -> dict[str, int]:
        """The sizes of the symbols in the plan's mesh."""
        return mesh_sizes(self.plan, self.communicators)

    @property
    def places(self) -> dict[str, int]:
        """This rank's place on every axis, by its symbol."""
        ends = self.communicators.items()
        return {part_symbol(axis): end.rank + 1 for axis, end in ends}

    def placement(self, text: str) -> Placement:
        """Returns the placement that the plan writes."""
        return placement_of(text, tuple(self.mesh.items()))

    def layout(self, placements: Sequence[str]) -> Layout:
        """Returns the placements that the plan writes, one per axis."""
        return tuple(self.placement(text) for text in placements)

    def given_as(self, name: str) -> Layout:
        """Returns how callers give an input, by its name."""
        return self.given.get(name, (Replicate(),) * len(self.plan.mesh))

    def dealt(self, placements: Sequence[str], dim: int) -> Dim | None:
        """Returns how long a dimension that is cut into unequal parts is on this rank; None for one
        that is not.
        """
        for (axis, end), placement in zip(
            self.communicators.items(), self.layout(placements), strict=False
        ):
            if isinstance(placement, Shard) and placement.dim == dim and placement.of:
                length = placement.units * placement.unit
                units = divide_exactly(placement.of, length)
                return None if units is None else dealt_units(units, end.size, axis) * length
        return None

    def parts(self, placements: Sequence[str], dim: int) -> int:
        """Returns in how many parts a dimension is cut."""
        return self.parts_of(self.layout(placements), dim)

    def parts_of(self, layout: Layout, dim: int) -> int:
        """The same of a layout."""
        return prod(
            self.communicators[axis].size
            for axis, placement in zip(self.plan.mesh, layout, strict=False)
            if isinstance(placement, Shard) and placement.dim == dim
        )


def identifier(name: str) -> str:
    """Returns a name for a program's variable.

    >>> identifier("model.layers.0.weight"), identifier("0")
    ('model_layers_0_weight', '_0')
    """
    plain = "".join(c if c.isalnum() or c == "_" else "_" for c in name)
    plain = plain if plain[:1].isalpha() or plain[:1] == "_" else f"_{plain}"
    return f"{plain}_" if iskeyword(plain) else plain


def reserve(graph: fx.Graph, axes: Iterable[str]) -> None:
    """Keeps names for what an emitted program takes and imports: no variable gets them.

    >>> from torch import fx
    >>> graph = fx.Graph()
    >>> reserve(graph, ["tp"])
    >>> graph.placeholder("tp").name
    'tp_1'
    """
    for name in (*EMITTED, *axes):
        graph._graph_namespace.create_name(name, None)


def is_real(dtype: str | None) -> bool:
    """Whether a tensor of this dtype can have a gradient; one that is not known may.

    >>> is_real("bfloat16"), is_real("int64"), is_real(None)
    (True, False, True)
    """
    found = None if dtype is None else getattr(torch, dtype)
    return found is None or found.is_floating_point or found.is_complex
