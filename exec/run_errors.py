"""What can be wrong when a graph runs, in words: inputs, patterns, conditions, functions that
are not there.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from dimsolve.ir.errors import Diagnostic, DimsolveError, ShapeError
from dimsolve.ir.node import Input, Node
from dimsolve.solver.graphs.graph_problems import broken_condition, place
from dimsolve.solver.problems import shape_text

__all__ = [
    "broken_condition",
    "broken_type",
    "input_dtype",
    "input_shape",
    "no_argument",
    "no_external",
    "no_size",
    "no_state",
    "pattern",
    "shapes_differ",
    "too_many_arguments",
    "unresolved",
]


def input_shape(entry: Input, actual: Sequence[int], reason: str) -> ShapeError:
    """An input has another shape than the graph says."""
    return ShapeError(
        Diagnostic(
            code="input-shape",
            title=f"{entry.kind} {entry.target} does not have the shape that the graph expects",
            reason=f"it is {entry.value.type}, given {shape_text(actual)}: {reason}",
        )
    )


def input_dtype(entry: Input, actual: str) -> ShapeError:
    """An input has another dtype than the graph says."""
    return ShapeError(
        Diagnostic(
            code="input-dtype",
            title=f"{entry.kind} {entry.target} does not have the dtype that the graph expects",
            reason=f"it is {entry.value.type}, given {actual}",
        )
    )


def pattern(
    node: Node, wanted: Sequence[Any], actual: Sequence[int] | None, reason: str
) -> ShapeError:
    """A shape does not match its pattern."""
    given = "no shape" if actual is None else shape_text(actual)
    return ShapeError(
        Diagnostic(
            code="pattern",
            title=f"{place(node)}: the pattern {shape_text(wanted)} does not match",
            reason=f"%{node.operands()[0].name} is {given}: {reason}",
        )
    )


def broken_type(what: str, wanted: Sequence[Any], actual: Sequence[int], reason: str) -> ShapeError:
    """A result has another shape than was deduced, or than an external function was said to
    give.
    """
    return ShapeError(
        Diagnostic(
            code="result-shape",
            title="a result does not have the shape that the graph expects",
            reason=f"{what}: {shape_text(actual)} is not {shape_text(wanted)}: {reason}",
            hint="an operator, or an external function, does not do what is said of it",
        )
    )


def no_argument(function: str, entry: Input) -> DimsolveError:
    """An input is not given."""
    return DimsolveError(
        Diagnostic(
            code="no-argument",
            title=f"{function} is called without {entry.target}",
            reason=f"{entry.target} is {entry.value.type}",
        )
    )


def too_many_arguments(function: str, wanted: int, given: int) -> DimsolveError:
    """More arguments than inputs."""
    return DimsolveError(
        Diagnostic(
            code="input-count",
            title="the number of arguments does not match",
            reason=f"{function} takes {wanted}, {given} given",
        )
    )


def no_state(entry: Input) -> DimsolveError:
    """A parameter or buffer is not in what was given as state."""
    return DimsolveError(
        Diagnostic(
            code="no-state",
            title=f"the {entry.kind} {entry.target} is not given",
            reason=f"{entry.target} is {entry.value.type}",
            hint="pass the module, or a mapping such as its state_dict, as state",
        )
    )


def no_external(function: str) -> DimsolveError:
    """An external function is not given."""
    return DimsolveError(
        Diagnostic(
            code="no-external",
            title=f"the external function {function} is not given",
            reason="the graph knows it by its name only",
            hint=f'pass it: run(..., externals={{"{function}": function}})',
        )
    )


def no_size(function: str, dim: object, missing: Sequence[str]) -> DimsolveError:
    """A size depends on a symbol that nothing has bound."""
    return DimsolveError(
        Diagnostic(
            code="no-size",
            title=f"{function} needs a size that nothing gives",
            reason=f"{dim} depends on {', '.join(missing)}, which no input or pattern binds",
        )
    )


def shapes_differ(operator: str, shapes: str) -> ShapeError:
    """An operator that never broadcasts is given two shapes."""
    return ShapeError(
        Diagnostic("shapes-differ", f"{operator} takes two tensors of one shape", reason=shapes)
    )


def unresolved(path: str) -> DimsolveError:
    """A path leads to no function."""
    return DimsolveError(
        Diagnostic(
            code="unresolved",
            title=f"there is no {path}",
            reason="it can neither be imported nor is it a registered operator",
        )
    )
