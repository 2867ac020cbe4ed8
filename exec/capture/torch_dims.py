"""From torch's symbolic sizes to lengths, and from its guards to claims: structurally, never
through text.

    SymInt(s52*s27)    with s52 = batch, s27 = seq     batch*seq
    Ne(s27, 1)                                         seq >= 2

A line such as ``if x.shape[1] > 1`` is taken one way in a capture. torch records the decision and
the line as a guard; the graph holds for the sizes that go the same way, and says so: ``seq >= 2``
(`Guards`).
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any

from dimsolve.ir.errors import DimsolveError, ShapeError, problems
from dimsolve.ir.expression import Comparison
from dimsolve.solver.algebra.dims import Call, Function, ceil_div, floor_div, maximum, minimum, mod
from dimsolve.solver.algebra.poly import Dim, atoms_of, divide_exactly, product, symbol, terms_of
from dimsolve.solver.graphs.problems import claim_contradicts
from dimsolve.solver.graphs.system import Contradiction, System
from dimsolve.solver.proof.claims import Claim
from dimsolve.solver.proof.facts import read_facts
from dimsolve.solver.proof.prove import decide
from dimsolve.solver.proof.verdict import Always

from .errors import TraceError

FUNCTIONS: dict[str, Callable[..., Dim]] = {
    "FloorDiv": floor_div,
    "CleanDiv": floor_div,
    "CeilDiv": ceil_div,
    "Mod": mod,
    "PythonMod": mod,
    "Max": maximum,
    "Min": minimum,
    "ModularIndexing": lambda a, b, c: mod(floor_div(a, b), c),
    "PowByNatural": lambda a, b: a**b,
    "Identity": lambda a: a,
    "Abs": lambda a: maximum(a, -a),
}
"""torch's own SymPy functions, by name of the class."""

ROUNDINGS: dict[str, Callable[[Dim, Dim], Dim]] = {
    "TruncToInt": floor_div,
    "FloorToInt": floor_div,
    "CeilToInt": ceil_div,
}
"""torch's roundings of a quotient. Truncation is the floor only of what is not negative."""

LARGEST_DENOMINATOR = 1024
"""Of a Python float in a size. torch computes with floats: with such a quotient every size below
2**40 is exact, so that the rounding of the quotient is the quotient's rounding."""

RELATIONS: dict[str, Comparison] = {
    "Equality": Comparison.EQ,
    "Unequality": Comparison.NE,
    "LessThan": Comparison.LE,
    "StrictLessThan": Comparison.LT,
    "GreaterThan": Comparison.GE,
    "StrictGreaterThan": Comparison.GT,
}


_SPECIALISED = problems(
    ShapeError,
    """
    specialised: {name} dim {index} cannot be dynamic in this model
      it was to be {dim}, and its capture fixes it at {size}{lines}
      hint: {hint}leave the dimension out of dynamic, or change the line that fixes its size
    """,
)["specialised"]
_INEXPRESSIBLE = problems(
    TraceError,
    """
    guard: torch's capture depends on sizes in a way that is no condition on lengths
      {expression} ({origin})
    """,
)["guard"]


class NotExpressible(Exception):
    """torch's expression has no counterpart among lengths."""


class TorchDims:
    """Reads torch's sizes. ``symbols``: what each of torch's symbols is, by its name."""

    def __init__(self) -> None:
        self.symbols: dict[str, Dim] = {}
        self._known: dict[Any, Dim] = {}

    def bind(self, expression: Any, dim: Dim) -> None:
        """Says what a symbol of torch's is."""
        self.symbols[expression.name] = dim

    def dim(self, size: Any) -> Dim:
        """Returns the length of an int, a SymInt or a SymPy expression of torch's;
        NotExpressible where it is none.
        """
        if size.__class__ is int:
            return int(size)
        node = getattr(size, "node", None)
        expression = size if node is None else node.expr
        found = self._known.get(expression)
        if found is None:
            found = self._known[expression] = self._read(expression)
        return found

    def shape(self, tensor: Any) -> tuple[Dim, ...]:
        """Returns the shape of a fake tensor."""
        return tuple([s if s.__class__ is int else self.dim(s) for s in tensor.shape])

    def _read(self, expression: Any) -> Dim:
        kind = type(expression).__name__
        if getattr(expression, "is_Integer", False):
            return int(expression)
        if getattr(expression, "is_Symbol", False):
            if expression.name not in self.symbols:
                raise NotExpressible(expression.name)
            return self.symbols[expression.name]
        if kind in ROUNDINGS or kind == "RoundToInt":
            return self._rounded(kind, expression.args[0])
        parts = [self.dim(argument) for argument in expression.args]
        if expression.is_Add or expression.is_Mul:
            total = parts[0]
            for part in parts[1:]:
                total = total + part if expression.is_Add else total * part
            return total
        if expression.is_Pow and isinstance(parts[1], int) and 0 <= parts[1] <= 16:
            power: Dim = parts[0] ** parts[1]
            return power
        if kind in FUNCTIONS:
            return FUNCTIONS[kind](*parts)
        raise NotExpressible(kind)

    def _rounded(self, kind: str, expression: Any) -> Dim:
        above, below = self._quotient(expression)
        exact = divide_exactly(above, below)
        if exact is not None:
            return exact
        negative = any(coefficient < 0 for coefficient in terms_of(above).values())
        if kind == "RoundToInt" or (kind == "TruncToInt" and negative):
            raise NotExpressible(kind)
        return ROUNDINGS[kind](above, below)

    def _quotient(self, expression: Any) -> tuple[Dim, int]:
        """A float expression as an exact quotient of a length and a number."""
        kind = type(expression).__name__
        if kind == "ToFloat":
            return self.dim(expression.args[0]), 1
        if expression.is_Rational or expression.is_Float:
            if expression.is_Rational:
                fraction = Fraction(int(expression.p), int(expression.q))
            else:
                fraction = Fraction(float(expression))
            if fraction.denominator > LARGEST_DENOMINATOR:
                raise NotExpressible(str(expression))
            return fraction.numerator, fraction.denominator
        if kind in ("IntTrueDiv", "FloatTrueDiv"):
            (a, b), (c, d) = map(self._quotient, expression.args)
            if not isinstance(c, int) or c <= 0 or b * c > LARGEST_DENOMINATOR:
                raise NotExpressible(kind)
            return a * d, b * c
        if expression.is_Mul or expression.is_Add:
            above, below = self._quotient(expression.args[0])
            for part in expression.args[1:]:
                top, bottom = self._quotient(part)
                above = above * top if expression.is_Mul else above * bottom + top * below
                below = below * bottom
            if below > LARGEST_DENOMINATOR:
                raise NotExpressible(kind)
            return above, below
        return self.dim(expression), 1

    def claims(self, guard: Any) -> list[Claim]:
        """Returns claims that hold together exactly where a guard does; NotExpressible where
        there are none.
        """
        match _connective(guard):
            case "BooleanTrue", _:
                return []
            case "And", parts:
                return [claim for part in parts for claim in self.claims(part)]
            case "Or", _:
                return [_either(self.choices(guard))]
            case _:
                return [self._one(guard)]

    def choices(self, guard: Any) -> list[Claim]:
        """Returns claims of which at least one holds exactly where a guard does."""
        match _connective(guard):
            case "Or", parts:
                return [claim for part in parts for claim in self.choices(part)]
            case "And", _:
                claims = self.claims(guard)
                least = minimum(*map(_at_least_zero, claims)) if claims else 0
                return [Claim(least, Comparison.GE, 0)]
            case _:
                return [self._one(guard)]

    def _one(self, guard: Any) -> Claim:
        if type(guard).__name__ == "Not":
            return self._one(guard.args[0]).negated()
        comparison = RELATIONS.get(type(guard).__name__)
        if comparison is None:
            raise NotExpressible(type(guard).__name__)
        left, right = (self.dim(side) for side in guard.args)
        return _plain(Claim(left, comparison, right))


def _connective(guard: Any) -> tuple[str, list[Any]]:
    """A guard's connective with its parts; not (a or b) is read as not a and not b."""
    name = type(guard).__name__
    if name != "Not":
        return name, list(guard.args)
    inner = guard.args[0]
    turned = {"Or": "And", "And": "Or"}.get(type(inner).__name__)
    return (name, []) if turned is None else (turned, [~part for part in inner.args])


def _at_least_zero(claim: Claim) -> Dim:
    """What is at least 0 exactly where a claim holds."""
    above = claim.left - claim.right
    match claim.comparison:
        case Comparison.EQ:
            return minimum(above, -above)
        case Comparison.NE:
            return maximum(above, -above) - 1
        case Comparison.GE:
            return above
        case Comparison.GT:
            return above - 1
        case Comparison.LE:
            return -above
        case Comparison.LT:
            return -above - 1


def _plain(claim: Claim) -> Claim:
    """The claim as people write it: ``b >= 2`` for b != 1, ``b <= 9`` for b == min(b, 9)."""
    left, comparison, right = claim.left, claim.comparison, claim.right
    if comparison is Comparison.EQ:
        return _bound(left, right) or _bound(right, left) or claim
    if right == 1 and comparison in (Comparison.NE, Comparison.GT):
        atoms = list(atoms_of(left))
        if len(atoms) == 1 and left == symbol(atoms[0]):
            return Claim(left, Comparison.GE, 2)
    return claim


def _bound(dim: Dim, extremum: Dim) -> Claim | None:
    """``dim == min(dim, b)`` as ``dim <= b``."""
    atom = next(iter(atoms_of(extremum)), None)
    if not isinstance(atom, Call) or extremum != symbol(atom) or len(atom.arguments) != 2:
        return None
    others = [argument for argument in atom.arguments if argument != dim]
    comparison = {Function.MIN: Comparison.LE, Function.MAX: Comparison.GE}.get(atom.function)
    if len(others) != 1 or comparison is None:
        return None
    return Claim(dim, comparison, others[0])


def _either(claims: list[Claim]) -> Claim:
    """One claim that holds where at least one of these does.

    The one that follows from all others, if there is one; of equations, that the product of the
    differences is zero; of others, that the greatest of what would be at least 0 is so.
    """
    kept = list(claims)
    for claim in claims:
        rest = [other for other in kept if other is not claim]
        if rest and any(_implies(claim, other) for other in rest):
            kept = rest
    if len(kept) == 1:
        return kept[0]
    if all(claim.comparison is Comparison.EQ for claim in kept):
        return Claim(product(claim.left - claim.right for claim in kept), Comparison.EQ, 0)
    return Claim(maximum(*map(_at_least_zero, kept)), Comparison.GE, 0)


def _implies(claim: Claim, other: Claim) -> bool:
    try:
        facts = read_facts([str(claim)])
    except DimsolveError:
        return True
    return isinstance(decide(other.left, other.comparison, other.right, facts), Always)


KERNELS = (
    "_dynamo/utils.py",
    "_subclasses/",
    "_meta_registrations.py",
    "_prims",
    "_refs/",
    "_decomp/",
)
"""Files of torch in which a kernel's stand-in decides how it lays out memory."""


class Guards:
    """The guards of one capture. ``of_torch`` are those that only torch's own kernels made.

    A kernel compares sizes to choose strides: ``batch < 16`` for a convolution. What it computes
    does not depend on that, so these count only where shapes are torch's and not our own. Equations
    always count.
    """

    def __init__(self, nodes: list[Any], dims: TorchDims, system: System) -> None:
        self.dims = dims
        self.system = system
        guards = list(getattr(_shape_environment(nodes), "guards", ()))
        self.of_torch = [guard for guard in guards if _of_a_kernel(guard)]
        self.of_the_model = [guard for guard in guards if not _of_a_kernel(guard)]

    def require(self, guards: list[Any]) -> None:
        """Adds guards to what is known.

        Raises ShapeError where they contradict each other, TraceError for one that is no condition
        on lengths.
        """
        for guard in sorted(guards, key=_is_choice):  # what is plain may settle a choice
            origin = _guard_origin(guard)
            try:
                claims = [] if self._holds(guard) else self.dims.claims(guard.expr)
            except NotExpressible as error:
                raise _INEXPRESSIBLE(expression=guard.expr, origin=origin) from error
            for claim in claims:
                try:
                    self.system.require(claim, origin)
                except Contradiction as contradiction:
                    raise claim_contradicts(contradiction) from None

    def _holds(self, guard: Any) -> bool:
        """Whether one part of a guard that is a choice always holds, by what is known so far."""
        return _is_choice(guard) and any(
            isinstance(decide(c.left, c.comparison, c.right, self.system.facts), Always)
            for c in self.dims.choices(guard.expr)
        )


def _is_choice(guard: Any) -> bool:
    """Whether a guard is that one of several conditions holds."""
    return _connective(guard.expr)[0] == "Or"


def _of_a_kernel(guard: Any) -> bool:
    frame = getattr(getattr(guard, "sloc", None), "framework_loc", None)
    filename = str(getattr(frame, "filename", "")).partition("/torch/")[2]
    equation = type(guard.expr).__name__ in ("Equality", "Or", "And")
    return not equation and filename.startswith(KERNELS)


def _shape_environment(nodes: list[Any]) -> Any:
    """torch's record of symbolic sizes, which every fake tensor knows."""
    for node in nodes:
        mode = getattr(node.meta.get("example_value"), "fake_mode", None)
        if mode is not None:
            return mode.shape_env
    return None


def _guard_origin(guard: Any) -> str:
    """The line of the model that made torch decide, as torch's record of it says."""
    location = str(getattr(getattr(guard, "sloc", None), "maybe_user_loc", "") or "")
    code, _, place = location.partition("  # ")
    if not place:
        return "torch's capture"
    filename, _, line = place.partition(" in ")[0].rpartition(":")
    if not any((Path(home) / filename).is_file() for home in sys.path):
        filename = Path(filename).name  # torch has cut off its beginning
    return f"{filename}:{line}: {code.strip()}"


def specialised(
    name: str, index: int, dim: Dim, size: Any, alike: Sequence[str] = ()
) -> ShapeError:
    """A dimension was to be dynamic, and the model fixes it: says where. alike: the other inputs
    that are as long there, and for which dynamic names nothing.
    """
    node = getattr(size, "node", None)
    symbol = getattr(node, "_expr", None)
    guards = getattr(getattr(node, "shape_env", None), "guards", ())
    lines = [_guard_origin(guard) for guard in guards if symbol in guard.expr.free_symbols]
    made_by = "".join(f"\n  {line}" for line in lines)
    said, hint = "", ""
    if alike:
        said = f"\n  dimension {index} of {' and '.join(alike)} is {size} as well"
        more = ", ".join(f'"{each}": {{{index}: "{dim}"}}' for each in (name, *alike))
        hint = f"if that is the same, name it there too: dynamic={{{more}}}; or "
    return _SPECIALISED(name=name, index=index, dim=dim, size=size, lines=said + made_by, hint=hint)
