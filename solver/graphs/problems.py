"""What a graph cannot hold and what it cannot be asked, in the model's own terms: operator, source
line, tensor, dimension.

    ShapeError: linear at model.py:12: b has two lengths
      a b, c b -> a c
        ^    ^
      b = 512 (%x dim 1), but b = 256 (%weight dim 1)
      %x: float32[n, 512] is made by relu at model.py:11
      %weight: float32[64, 256] is the parameter lin.weight

    AnnotationError: the graph has no symbol k
      its symbols are m, n
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from difflib import get_close_matches
from typing import TYPE_CHECKING

from dimsolve.ir.errors import (
    AnnotationError,
    Diagnostic,
    DimsolveError,
    GraphError,
    Problem,
    ShapeError,
)
from dimsolve.ir.graph import Node, Value

if TYPE_CHECKING:
    from .system import Condition, Contradiction

two_lengths = Problem(
    ShapeError, "two-lengths", "%{name} dim {dim} has two lengths", "{a} ({old}), but {b} ({new})"
)
two_ranks = Problem(ShapeError, "rank", "%{name} has two ranks", "{a} ({old}), but {b} ({new})")
two_dtypes = Problem(ShapeError, "dtype", "%{name} has two dtypes", "{a} ({old}), but {b} ({new})")
dtypes_differ_at = Problem(
    ShapeError,
    "dtype",
    "{place}: the dtypes differ",
    "{dtypes}\n  {described}",
    "convert one of them, or build without strict=True: torch's promotion holds then",
)
contradiction_at = Problem(
    ShapeError, "contradiction", "{place}: these shapes can never match", "{reason}"
)
claim_contradicts_at = Problem(
    ShapeError, "contradiction", "these sizes can never match", "{reason}"
)
cannot_match = Problem(
    ShapeError, "pattern", "the pattern {pattern} can never match", "dim {dim}: {reason}"
)
pattern_rank = Problem(
    ShapeError,
    "rank",
    "the pattern {pattern} can never match",
    "%{name} has {rank} dimensions: {dims}",
)
argument_mismatch = Problem(
    ShapeError,
    "argument-shape",
    "{function} cannot take this argument",
    "parameter {parameter}: {reason}",
)
arguments_mismatch = Problem(
    ShapeError, "argument-shape", "these arguments can never fit", "{reason}"
)
argument_count = Problem(
    ShapeError,
    "input-count",
    "the number of arguments does not match",
    "{function} takes {wanted}, {given} given",
)
broken_name = Problem(
    ShapeError,
    "broken-condition",
    "the graph does not run at these sizes",
    "{name} is {solved}; it is given as {size}",
)
_broken_condition = Problem(
    ShapeError,
    "broken-condition",
    "the graph does not run at these sizes",
    "{condition} is needed by {origin}; it fails at {sizes}",
)
no_size = Problem(
    ShapeError,
    "size",
    "{name} has no such size",
    "{name} = {size!r}: symbols are positive integers",
)
two_functions = Problem(
    GraphError,
    "two-functions",
    "two functions of one name",
    "the module has another graph named {name}",
    "give every graph of a module a name of its own: Graph(name)",
)
no_name = Problem(
    GraphError,
    "malformed-graph",
    "the graph is not well formed",
    "{name!r:.80} is no name of a value",
    "a name is letters, digits, underscores, and dots between them",
)
calls_itself = Problem(
    GraphError,
    "malformed-graph",
    "the graph is not well formed",
    "{caller} would call itself through {caller} -> {function}",
)
wrong_results = Problem(
    GraphError,
    "malformed-graph",
    "the graph is not well formed",
    "{place} makes {made} values, and it returns {wanted}",
)
unknown_symbols = Problem(
    AnnotationError, "unknown-symbol", "the graph has no symbol {names}", "its symbols are {known}"
)
no_shape_function = Problem(
    DimsolveError,
    "no-shape-function",
    "{name} has no shape function",
    "{why}",
    "the safety net holds: the shapes are looked up where the graph runs",
)
_no_operator = Problem(
    DimsolveError,
    "no-such-operator",
    "no operator is named {name!r:.80}",
    "neither torch's functions nor registered operators have it",
    "{meant}a function that is not annotated is called by its path, or as external",
)
_no_dtype = Problem(
    DimsolveError,
    "no-such-dtype",
    "there is no dtype {name!r:.80}",
    "a dtype is the name that torch has for it, such as float32",
    "{meant}",
)
_no_such_value = Problem(
    DimsolveError, "no-such-value", "{graph} has no value %{name}", "it has {known}", "{meant}"
)
_no_such_dim = Problem(
    DimsolveError,
    "no-such-dimension",
    "%{name} has no dimension {index}",
    "it is {type}: {dimensions}",
)


_INPUT = re.compile(r"input (\d+)")


def place(node: Node) -> str:
    """Returns the operator and its source line: ``linear at model.py:12 (layers.0.mlp)``."""
    at = f" at {node.source}" if node.source is not None else ""
    module = f" ({node.module})" if node.module else ""
    return f"{node.name}{at}{module}"


def origin_of(value: Value) -> str:
    """Returns where a value comes from."""
    if value.producer is not None:
        return f"made by {place(value.producer)}"
    for entry in value.graph.inputs:
        if entry.value is value:
            return f"the {entry.kind} {entry.target}"
    return "an input"


def _described(values: Sequence[Value]) -> str:
    unique = list(dict.fromkeys(values))
    return "\n  ".join(f"%{v.name}: {v.type} is {origin_of(v)}" for v in unique)


class Refused(ShapeError):
    """An annotation refuses its inputs; ``places``: which operand of the call each of them is."""

    def __init__(self, diagnostic: Diagnostic, places: Sequence[int | None]) -> None:
        super().__init__(diagnostic)
        self.places = places


def wrong_call(node: Node, error: ShapeError) -> ShapeError:
    """An operator is given what it can never take. Inputs of the annotation are named as the graph
    names them.
    """
    inner, operands = error.diagnostic, node.operands()
    places = error.places if isinstance(error, Refused) else ()
    inputs = [None if place is None else operands[place] for place in places]
    mentioned: list[Value] = []

    def name(found: re.Match[str]) -> str:
        value = inputs[int(found[1])] if int(found[1]) < len(inputs) else None
        if value is None:
            return found[0]
        mentioned.append(value)
        return f"%{value.name}"

    reason = _INPUT.sub(name, inner.reason).replace(", dim ", " dim ")
    title = f"{place(node)}: {_INPUT.sub(name, inner.title)}"
    lines = [reason, _described(mentioned or operands)]
    return ShapeError(replace(inner, title=title, reason="\n  ".join(filter(None, lines))))


def contradiction(node: Node, found: Contradiction) -> ShapeError:
    """A condition of a call contradicts what is known from elsewhere."""
    lines = [*_against(found), _described(node.operands())]
    return contradiction_at(place=place(node), reason="\n  ".join(filter(None, lines)))


def claim_contradicts(found: Contradiction) -> ShapeError:
    """What a captured model needs of its sizes can never hold."""
    return claim_contradicts_at(reason="\n  ".join(_against(found)))


def _against(found: Contradiction) -> list[str]:
    others = [f"{other} is needed by {other.origin}" for other in found.others]
    return [f"{found.claim} is needed by {found.origin}, and can never hold", *others]


def dtypes_differ(node: Node, first: Value, second: Value) -> ShapeError:
    """A strict graph promotes no dtype."""
    dtypes = f"%{first.name} is {first.dtype}, %{second.name} is {second.dtype}"
    return dtypes_differ_at(place=place(node), dtypes=dtypes, described=_described([first, second]))


def broken_condition(condition: Condition, sizes: Mapping[str, int]) -> ShapeError:
    """The sizes are not among those that the graph runs for."""
    used = sorted(condition.claim.symbols())
    return _broken_condition(
        condition=condition,
        origin=condition.origin,
        sizes=", ".join(f"{name} = {sizes[name]}" for name in used),
    )


def no_operator(name: str, known: Collection[str]) -> DimsolveError:
    """A short name that no operator has."""
    near = get_close_matches(name, sorted(known), 1, 0.75)
    return _no_operator(name=name, meant=f"did you mean '{near[0]}'? " if near else "")


def no_dtype(name: object, known: Collection[str]) -> DimsolveError:
    """A dtype that torch does not have."""
    near = get_close_matches(str(name), sorted(known), 1)
    return _no_dtype(name=name, meant=f"did you mean '{near[0]}'?" if near else "")


def no_such_value(graph: str, name: str, known: Collection[str]) -> DimsolveError:
    """A question about a value that the graph does not have."""
    near = get_close_matches(name, sorted(known), 1)
    return _no_such_value(
        graph=graph,
        name=name,
        known=", ".join(f"%{n}" for n in list(known)[:12]),
        meant=f"did you mean %{near[0]}?" if near else "",
    )


def no_such_dim(value: Value, index: int) -> DimsolveError:
    """A question about a dimension that a value does not have."""
    rank = value.rank
    dimensions = f"its dimensions are 0 to {rank - 1}" if rank else "it has no dimensions"
    return _no_such_dim(name=value.name, index=index, type=value.type, dimensions=dimensions)


_several_regions = Problem(
    GraphError,
    "several-regions",
    "these nodes cannot become the function {name}",
    "{first} is in {place} and {other} in {other_place}: what is run again in the backward pass "
    "would be another part of the graph",
    "outline nodes of one region",
)


def several_regions(name: str, first: Node, other: Node) -> GraphError:
    """Nodes of a function that is to be taken out, and not in one region."""
    place, other_place = (
        f"the region {node.region}" if node.region else "no region" for node in (first, other)
    )
    return _several_regions(
        name=name, first=first.id, place=place, other=other.id, other_place=other_place
    )
