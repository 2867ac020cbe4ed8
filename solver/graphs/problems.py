"""Questions and calls that a graph cannot take: names, sizes and functions that it does not have.

    AnnotationError: the graph has no symbol k
      its symbols are m, n

Contradictions between shapes are in `graph_problems`; here nothing was deduced yet.

The contradictions that a graph can contain, in the model's own terms: operator, source line,
tensor, dimension.

    ShapeError: linear at model.py:12: b has two lengths
      a b, c b -> a c
        ^    ^
      b = 512 (%x dim 1), but b = 256 (%weight dim 1)
      %x: float32[n, 512] is made by relu at model.py:11
      %weight: float32[64, 256] is the parameter lin.weight
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from difflib import get_close_matches
from typing import TYPE_CHECKING

from dimsolve.ir.errors import AnnotationError, Diagnostic, DimsolveError, GraphError, ShapeError
from dimsolve.ir.graph import Node, Value
from dimsolve.ir.types import Dim

from ..problems import shape_text

if TYPE_CHECKING:
    from .system import Condition, Contradiction


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
    inner = error.diagnostic
    inputs = _annotated_inputs(node, error.places if isinstance(error, Refused) else None)
    mentioned: list[Value] = []

    def name(found: re.Match[str]) -> str:
        value = inputs[int(found[1])] if int(found[1]) < len(inputs) else None
        if value is None:
            return found[0]
        mentioned.append(value)
        return f"%{value.name}"

    reason = _INPUT.sub(name, inner.reason).replace(", dim ", " dim ")
    title = _INPUT.sub(name, inner.title)
    lines = [reason, _described(mentioned or node.operands())]
    return ShapeError(
        Diagnostic(
            code=inner.code,
            title=f"{place(node)}: {title}",
            text=inner.text,
            spans=inner.spans,
            reason="\n  ".join(line for line in lines if line),
            hint=inner.hint,
        )
    )


def _annotated_inputs(node: Node, places: Sequence[int | None] | None) -> list[Value | None]:
    """The values of a call as its annotation numbers them."""
    operands = node.operands()
    if places is None:
        return []
    return [None if place is None else operands[place] for place in places]


def contradiction(node: Node, found: Contradiction) -> ShapeError:
    """A condition of a call contradicts what is known from elsewhere."""
    others = [f"{other} is needed by {other.origin}" for other in found.others]
    lines = [f"{found.claim} is needed by {found.origin}, and can never hold", *others]
    lines.append(_described(node.operands()))
    return ShapeError(
        Diagnostic(
            code="contradiction",
            title=f"{place(node)}: these shapes can never match",
            reason="\n  ".join(line for line in lines if line),
        )
    )


def claim_contradicts(found: Contradiction) -> ShapeError:
    """What a captured model needs of its sizes can never hold."""
    others = [f"{other} is needed by {other.origin}" for other in found.others]
    lines = [f"{found.claim} is needed by {found.origin}, and can never hold", *others]
    return ShapeError(
        Diagnostic("contradiction", "these sizes can never match", reason="\n  ".join(lines))
    )


def two_lengths(value: Value, dim: int, a: Dim, b: Dim, origin: str) -> ShapeError:
    """A dimension is two lengths that are never equal."""
    return ShapeError(
        Diagnostic(
            code="two-lengths",
            title=f"%{value.name} dim {dim} has two lengths",
            reason=f"{a} ({origin_of(value)}), but {b} ({origin})",
        )
    )


def two_ranks(
    value: Value, old: Sequence[Dim | None], new: Sequence[Dim | None], origin: str
) -> ShapeError:
    """A value has two different numbers of dimensions."""
    return ShapeError(
        Diagnostic(
            code="rank",
            title=f"%{value.name} has two ranks",
            reason=f"{shape_text(old)} ({origin_of(value)}), but {shape_text(new)} ({origin})",
        )
    )


def two_dtypes(value: Value, old: str, new: str, origin: str) -> ShapeError:
    """A value has two dtypes."""
    return ShapeError(
        Diagnostic(
            code="dtype",
            title=f"%{value.name} has two dtypes",
            reason=f"{old} ({origin_of(value)}), but {new} ({origin})",
        )
    )


def dtypes_differ(node: Node, first: Value, second: Value) -> ShapeError:
    """A strict graph promotes no dtype."""
    return ShapeError(
        Diagnostic(
            code="dtype",
            title=f"{place(node)}: the dtypes differ",
            reason="\n  ".join(
                [
                    f"%{first.name} is {first.dtype}, %{second.name} is {second.dtype}",
                    _described([first, second]),
                ]
            ),
            hint="convert one of them, or build without strict=True: torch's promotion holds then",
        )
    )


def cannot_match(node: Node, dim: int, reason: str, pattern: Sequence[Dim | None]) -> ShapeError:
    """A pattern can never match the shape it is laid on."""
    return ShapeError(
        Diagnostic(
            code="pattern",
            title=f"the pattern {shape_text(pattern)} can never match",
            reason=f"dim {dim}: {reason}",
        )
    )


def pattern_rank(value: Value, pattern: Sequence[Dim | None]) -> ShapeError:
    """A pattern has another number of dimensions than the value."""
    assert value.dims is not None
    return ShapeError(
        Diagnostic(
            code="rank",
            title=f"the pattern {shape_text(pattern)} can never match",
            reason=f"%{value.name} has {len(value.dims)} dimensions: {shape_text(value.dims)}",
        )
    )


def argument_mismatch(function: str, parameter: str, reason: str) -> ShapeError:
    """An argument of a function call can never be what the parameter says."""
    return ShapeError(
        Diagnostic(
            code="argument-shape",
            title=f"{function} cannot take this argument",
            reason=f"parameter {parameter}: {reason}",
        )
    )


def broken_condition(condition: Condition, sizes: Mapping[str, int]) -> ShapeError:
    """The sizes are not among those that the graph runs for."""
    used = sorted(condition.claim.symbols())
    listed = ", ".join(f"{name} = {sizes[name]}" for name in used)
    return ShapeError(
        Diagnostic(
            code="broken-condition",
            title="the graph does not run at these sizes",
            reason=f"{condition} is needed by {condition.origin}; it fails at {listed}",
        )
    )


def broken_name(name: str, solved: Dim, sizes: Mapping[str, int]) -> ShapeError:
    """A size for a name that is known to be another length."""
    return ShapeError(
        Diagnostic(
            code="broken-condition",
            title="the graph does not run at these sizes",
            reason=f"{name} is {solved}; it is given as {sizes[name]}",
        )
    )


if TYPE_CHECKING:
    pass


def argument_count(function: str, wanted: int, given: int) -> ShapeError:
    """A function call has too few or too many arguments."""
    return ShapeError(
        Diagnostic(
            code="input-count",
            title="the number of arguments does not match",
            reason=f"{function} takes {wanted}, {given} given",
        )
    )


def two_functions(name: str) -> GraphError:
    """Two graphs of one module have one name."""
    return GraphError(
        Diagnostic(
            code="two-functions",
            title="two functions of one name",
            reason=f"the module has another graph named {name}",
            hint="give every graph of a module a name of its own: Graph(name)",
        )
    )


def no_size(name: str, size: object) -> ShapeError:
    """A symbol is a positive integer."""
    return ShapeError(
        Diagnostic(
            code="size",
            title=f"{name} has no such size",
            reason=f"{name} = {size!r}: symbols are positive integers",
        )
    )


def unknown_symbols(names: Sequence[str], known: Sequence[str]) -> AnnotationError:
    """Sizes of symbols that the graph has not."""
    listed = ", ".join(known) or "none"
    return AnnotationError(
        Diagnostic(
            code="unknown-symbol",
            title=f"the graph has no symbol {', '.join(names)}",
            reason=f"its symbols are {listed}",
        )
    )


def no_operator(name: str, known: Collection[str]) -> DimsolveError:
    """A short name that no operator has."""
    near = get_close_matches(name, sorted(known), 1, 0.75)
    meant = f"did you mean '{near[0]}'? " if near else ""
    return DimsolveError(
        Diagnostic(
            code="no-such-operator",
            title=f"no operator is named {name!r:.80}",
            reason="neither torch's functions nor registered operators have it",
            hint=f"{meant}a function that is not annotated is called by its path, or as external",
        )
    )


def no_dtype(name: object, known: Collection[str]) -> DimsolveError:
    """A dtype that torch does not have."""
    near = get_close_matches(str(name), sorted(known), 1)
    return DimsolveError(
        Diagnostic(
            code="no-such-dtype",
            title=f"there is no dtype {name!r:.80}",
            reason="a dtype is the name that torch has for it, such as float32",
            hint=f"did you mean '{near[0]}'?" if near else "",
        )
    )


def no_name(name: object) -> GraphError:
    """A name of a value that is no identifier."""
    return GraphError(
        Diagnostic(
            code="malformed-graph",
            title="the graph is not well formed",
            reason=f"{name!r:.80} is no name of a value",
            hint="a name is letters, digits, underscores, and dots between them",
        )
    )


def no_such_value(graph: str, name: str, known: Collection[str]) -> DimsolveError:
    """A question about a value that the graph does not have."""
    near = get_close_matches(name, sorted(known), 1)
    return DimsolveError(
        Diagnostic(
            code="no-such-value",
            title=f"{graph} has no value %{name}",
            reason=f"it has {', '.join(f'%{n}' for n in list(known)[:12])}",
            hint=f"did you mean %{near[0]}?" if near else "",
        )
    )


def no_such_dim(value: Value, index: int) -> DimsolveError:
    """A question about a dimension that a value does not have."""
    rank = value.rank
    return DimsolveError(
        Diagnostic(
            code="no-such-dimension",
            title=f"%{value.name} has no dimension {index}",
            reason=f"it is {value.type}"
            + (f": its dimensions are 0 to {rank - 1}" if rank else ": it has no dimensions"),
        )
    )


def calls_itself(caller: str, function: str) -> GraphError:
    """A graph that would call itself."""
    through = f"{caller} -> {caller}" if caller == function else f"{caller} -> {function}"
    return GraphError(
        Diagnostic(
            code="malformed-graph",
            title="the graph is not well formed",
            reason=f"{caller} would call itself through {through}",
        )
    )


def wrong_results(node: Node, wanted: int) -> GraphError:
    """A node that makes more or fewer values than its operator returns."""
    return GraphError(
        Diagnostic(
            code="malformed-graph",
            title="the graph is not well formed",
            reason=f"{place(node)} makes {len(node.outputs)} values, and it returns {wanted}",
        )
    )


def no_shape_function(name: str, why: str) -> DimsolveError:
    """The shapes of the results cannot be computed from the shapes of the inputs alone."""
    return DimsolveError(
        Diagnostic(
            code="no-shape-function",
            title=f"{name} has no shape function",
            reason=why,
            hint="the safety net holds: the shapes are looked up where the graph runs",
        )
    )


def several_regions(name: str, first: Node, other: Node) -> GraphError:
    """Nodes of a function that is to be taken out, and not in one region."""
    places = [
        f"the region {node.region}" if node.region else "no region" for node in (first, other)
    ]
    return GraphError(
        Diagnostic(
            code="several-regions",
            title=f"these nodes cannot become the function {name}",
            reason=f"{first.id} is in {places[0]} and {other.id} in {places[1]}: what is run again "
            "in the backward pass would be another part of the graph",
            hint="outline nodes of one region",
        )
    )
