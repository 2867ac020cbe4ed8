"""A device mesh: named axes with their sizes, outer axis first. A size may be a symbol.

Mesh.of({"dp": 2, "tp": "n"})       dp=2, tp=n      2*n ranks
Mesh.of("dp=2,tp=4")                                8 ranks, rank = 4*dp + tp
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from keyword import iskeyword
from typing import Any, TypeAlias
from unicodedata import normalize

from dimsolve.ir.errors import DimsolveError, Problem
from dimsolve.solver.algebra.dims import ceil_div, floor_div, maximum, minimum, symbols_of
from dimsolve.solver.algebra.poly import Dim, product, symbol
from dimsolve.solver.proof.divisibility import exact_quotient
from dimsolve.solver.proof.facts import Facts
from dimsolve.solver.shapes import to_dim

PROGRAMS_OWN = frozenset({"torch", "draws", "device"})
"""Names that the source text of a rank's program uses."""


class MeshError(DimsolveError):
    """A mesh that cannot be read, or an axis that it has not."""

    __module__ = "dimsolve"


NOT_A_MESH = Problem(
    MeshError,
    "not-a-mesh",
    "this is not a mesh",
    "{reason}",
    'write {{"dp": 2, "tp": 4}}, or dp=2,tp=4 as text; a size may be a symbol, "n"',
)
NO_SUCH_AXIS = Problem(
    MeshError,
    "no-such-axis",
    "the mesh has no such axis",
    "'{name:.60}' is no axis of the mesh; its axes are {axes}",
)


@dataclass(frozen=True, slots=True)
class Mesh:
    """Axis names with sizes. Made by `Mesh.of`.

    >>> print(Mesh.of({"dp": 2, "tp": "n"}))
    dp=2, tp=n
    """

    axes: tuple[tuple[str, Dim], ...]

    @classmethod
    def of(cls, mesh: MeshLike) -> Mesh:
        """Returns the mesh of a mapping or a text; MeshError for what is neither."""
        if isinstance(mesh, Mesh):
            return mesh
        items = _read(mesh) if isinstance(mesh, str) else mesh
        if not isinstance(items, Mapping):
            raise NOT_A_MESH(reason=f"{mesh!r:.60} is no mapping from axis names to sizes")
        return cls(tuple((_name(name), _size(name, size)) for name, size in items.items()))

    @classmethod
    def with_axes(cls, mesh: MeshLike) -> Mesh:
        """Returns the mesh, which must have an axis along which something can be cut."""
        found = cls.of(mesh)
        if not found.axes:
            raise NOT_A_MESH(reason="it has no axes")
        return found

    @property
    def names(self) -> tuple[str, ...]:
        """The axis names, outer axis first."""
        return tuple(name for name, _ in self.axes)

    @property
    def ranks(self) -> Dim:
        """How many ranks there are."""
        return product(size for _, size in self.axes)

    @property
    def symbols(self) -> frozenset[str]:
        """The symbols in the sizes."""
        return frozenset().union(*(symbols_of(size) for _, size in self.axes))

    def __getitem__(self, name: str) -> Dim:
        for axis, size in self.axes:
            if axis == name:
                return size
        raise NO_SUCH_AXIS(name=str(name), axes=", ".join(self.names) or "none")

    def __iter__(self) -> Iterator[str]:
        return iter(self.names)

    def __str__(self) -> str:
        return ", ".join(f"{name}={size}" for name, size in self.axes)

    def index(self, name: str) -> int:
        """Returns the number of an axis; MeshError where there is none of this name."""
        if name not in self.names:
            raise NO_SUCH_AXIS(name=str(name), axes=", ".join(self.names) or "none")
        return self.names.index(name)


MeshLike: TypeAlias = "Mesh | Mapping[str, Any] | str"
"""A Mesh, a mapping such as ``{"dp": 2, "tp": "n"}``, or its text ``"dp=2,tp=n"``."""


MOST_RANKS = 1 << 20
"""Of more no mesh is looked for."""

NO_RANKS = Problem(
    MeshError,
    "no-such-ranks",
    "no mesh can be looked for",
    "{reason}",
    'give a number from 1 to 1048576 with the policy "auto", or a mesh, {{"dp": 2, "tp": 4}}',
)


def ranks_of(mesh: object) -> int | None:
    """Returns the number of ranks for which a mesh is to be looked for, given as such or as text;
    None for what is a mesh. Raises MeshError for a number that is too small or too large.

    >>> ranks_of("64"), ranks_of("dp=8,tp=8")
    (64, None)
    """
    if isinstance(mesh, str) and mesh.strip().isdecimal() and len(mesh) <= 20:
        mesh = int(mesh)
    if not isinstance(mesh, int) or isinstance(mesh, bool):
        return None
    if not 1 <= mesh <= MOST_RANKS:
        raise NO_RANKS(reason=f"{mesh} is no number of ranks that is searched")
    return mesh


def meshes_of(ranks: int) -> list[Mesh]:
    """Returns all meshes of so many ranks with one axis or two, that with one axis first.

    >>> print(*meshes_of(8), sep="; ")
    ranks=8; outer=2, inner=4; outer=4, inner=2
    """
    outer = [count for count in range(2, ranks // 2 + 1) if ranks % count == 0]
    pairs = [Mesh((("outer", count), ("inner", ranks // count))) for count in outer]
    return [Mesh((("ranks", ranks),)), *pairs]


def _read(text: str) -> dict[str, str]:
    sizes: dict[str, str] = {}
    for part in filter(None, (part.strip() for part in text.split(","))):
        name, equals, size = (piece.strip() for piece in part.partition("="))
        if not equals:
            raise NOT_A_MESH(reason=f"'{part:.60}' gives no size")
        if name in sizes:
            raise NOT_A_MESH(reason=f"the axis '{name:.60}' is given twice")
        sizes[name] = size
    return sizes


def _name(name: object) -> str:
    if not isinstance(name, str) or not name.isidentifier() or normalize("NFKC", name) != name:
        raise NOT_A_MESH(reason=f"{name!r:.60} is no name for an axis")
    if iskeyword(name) or name in PROGRAMS_OWN:
        raise NOT_A_MESH(
            reason=f"'{name}' is a word of Python or of the programs that are made of plans"
        )
    return name


def _size(name: str, size: Any) -> Dim:
    if size is None or isinstance(size, bool | float):
        raise NOT_A_MESH(reason=f"the size of '{name}' is {size!r}")
    if isinstance(size, int) and size < 1:
        raise NOT_A_MESH(
            reason=f"the size of '{name}' is {size}, and an axis has at least one rank"
        )
    try:
        dim = to_dim(size)
    except DimsolveError as error:
        reason = error.diagnostic.reason or error.diagnostic.title
        raise NOT_A_MESH(reason=f"the size of '{name}' is {size!r:.60}: {reason}") from None
    if isinstance(dim, int) and dim < 1:
        raise NOT_A_MESH(reason=f"the size of '{name}' is {dim}, and an axis has at least one rank")
    return dim


_PART = "part_of_"


def part_symbol(axis: str) -> str:
    """Returns the symbol of a rank's place along an axis, counted from 1: symbols are positive.

    >>> part_symbol("tp")
    'part_of_tp'
    """
    return f"{_PART}{axis}"


def is_dealt(dim: Dim) -> bool:
    """Returns whether a length depends on the rank's place: its parts are not equal."""
    return any(name.startswith(_PART) for name in symbols_of(dim))


def dealt_units(units: Dim, count: Dim, axis: str) -> Dim:
    """Returns how many of so many units a rank has along an axis of ``count``, as torch's ``chunk``
    deals them out: an expression of the rank's place.

    >>> print(dealt_units(10, 3, "tp"))
    min(4, max(0, -4*part_of_tp + 14))
    """
    most = ceil_div(units, count)
    before = (symbol(part_symbol(axis)) - 1) * most
    return minimum(most, maximum(units - before, 0))


def has_empty_part(units: Dim, count: Dim) -> bool:
    """Returns whether a rank has nothing of so many units; of a symbol's they are not known to be
    enough.
    """
    if isinstance(units, int) and isinstance(count, int):
        return (count - 1) * -(-units // count) >= units
    return count != 1


def part_of(length: Dim, parts: Dim, facts: Facts) -> Dim:
    """Returns length / parts where the parts are known, or assumed, to divide it.

    >>> from dimsolve.solver.proof.facts import NO_FACTS
    >>> from dimsolve.solver.algebra.poly import symbol
    >>> str(part_of(8 * symbol("s"), 4, NO_FACTS)), str(part_of(symbol("s"), 4, NO_FACTS))
    ('2*s', 's//4')
    """
    quotient = exact_quotient(length, parts, facts)
    return floor_div(length, parts) if quotient is None else quotient
