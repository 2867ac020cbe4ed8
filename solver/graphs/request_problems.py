"""Questions and calls that a graph cannot take: names, sizes and functions that it does not have.

    AnnotationError: the graph has no symbol k
      its symbols are m, n

Contradictions between shapes are in `graph_problems`; here nothing was deduced yet.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from difflib import get_close_matches
from typing import TYPE_CHECKING

from dimsolve.ir.errors import AnnotationError, Diagnostic, DimsolveError, ShapeError
from dimsolve.ir.graph import GraphError
from dimsolve.ir.node import Node, Value

from .graph_problems import place

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
