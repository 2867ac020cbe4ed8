"""What a graph or a plan lacks to become a program, in words."""

from __future__ import annotations

from dimsolve.ir.errors import Diagnostic, DimsolveError, ShapeError
from dimsolve.ir.node import Node, Value


class LoweringError(DimsolveError):
    """A plan that cannot be made a program."""

    __module__ = "dimsolve"


def calls_function(node: Node) -> LoweringError:
    """A call of a function of the module, or of an external one."""
    return LoweringError(
        Diagnostic(
            code="not-lowered",
            title=f"a call of {node.signature} cannot be part of a program",
            reason=f"{node.id} calls a function that has no plan of its own",
            hint="register it as an operator with dimsolve.register_op",
        )
    )


def not_known(value: Value) -> LoweringError:
    """A value that the plan takes for known without running, and whose type does not say it."""
    return LoweringError(
        Diagnostic(
            code="not-known",
            title=f"%{value.name} is not known without running",
            reason=f"the plan skips what makes it, and its type is {value.type}",
        )
    )


def unreadable(name: str) -> LoweringError:
    """A symbol that no shape tells."""
    return LoweringError(
        Diagnostic(
            code="no-size",
            title=f"nothing tells the size of '{name}'",
            reason=f"no input and no result before its use has a dimension from which '{name}' "
            "can be computed",
            hint=f"make '{name}' a dimension of an input",
        )
    )


def not_emitted(step: str, what: str) -> LoweringError:
    """Something in a program that no Python text says."""
    return LoweringError(
        Diagnostic(
            code="not-emitted",
            title=f"the program cannot be written as Python{f': {step}' if step else ''}",
            reason=f"it needs {what}",
            hint="register the operator with emit_fn, which writes the call",
        )
    )


def two_functions(node: Node, axes: tuple[str, ...]) -> LoweringError:
    """Two axes put different functions in an operator's place."""
    return LoweringError(
        Diagnostic(
            code="two-rules",
            title="two mesh axes put different functions in an operator's place",
            reason=f"{node.id} ({node.signature}) is split on {' and '.join(axes)} by rules that "
            "have functions of their own",
            hint="split it on one of the axes",
        )
    )


def no_match(id: str, pattern: str, index: int, length: int, wanted: int) -> ShapeError:
    """A shape that is not what ``match_shape`` asserts."""
    return ShapeError(
        Diagnostic(
            code="no-match",
            title=f"{id}: the shape does not match ({pattern})",
            reason=f"dimension {index} is {length}, and the pattern says {wanted}",
        )
    )
