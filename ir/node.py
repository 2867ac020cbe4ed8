"""Nodes: the calls of a graph in SSA form.

A `Node` calls something (an operator, a function of the module, an external function, or matches a
shape) on values and constants, and makes one value, or several where what it calls returns a tuple.

    %lv0: float32[n, m*2] = torch.reshape(%x, (n, m*2))

is ``Node("lv0", OperatorCall("torch.reshape"), args, kwargs)``. Values are in `dimsolve.ir.value`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, TypeAlias

from .errors import Diagnostic, GraphError
from .types import Dim, Type
from .value import Argument as Argument
from .value import Attachment as Attachment
from .value import Constant as Constant
from .value import Device as Device
from .value import Value as Value
from .value import map_argument as map_argument
from .value import values_in as values_in

if TYPE_CHECKING:
    from .operator import Declaration


@dataclass(frozen=True, slots=True)
class OperatorCall:
    """Calls an operator by its import path; methods stand as ``torch.Tensor.view``."""

    path: str


@dataclass(frozen=True, slots=True)
class FunctionCall:
    """Calls a graph of the same module by its name. ``symbols``: lengths of its symbols that the
    caller gives outright.
    """

    function: str
    symbols: tuple[tuple[str, Dim], ...] = ()


@dataclass(frozen=True, slots=True)
class ExternalCall:
    """Calls a function that is known by name only; ``result`` is the type it is said to return."""

    function: str
    result: Type


@dataclass(frozen=True, slots=True)
class MatchShape:
    """Matches the shape of a tensor, or a shape, to a pattern: symbols seen first are bound, the
    rest is asserted.
    """

    pattern: tuple[Dim | None, ...]


@dataclass(frozen=True, slots=True)
class MakeShape:
    """Makes a shape from dimensions."""

    dims: tuple[Dim, ...]


Operation: TypeAlias = OperatorCall | FunctionCall | ExternalCall | MatchShape | MakeShape


@dataclass(frozen=True, slots=True)
class Source:
    """A line of the model's own code. ``file`` is relative: to the package it was installed with,
    or to where Python ran.
    """

    file: str
    line: int
    code: str = ""

    def __str__(self) -> str:
        return f"{self.file}:{self.line}"


class Node:
    """One call. ``id`` is unique in its graph; ``outputs`` are the values it makes.

    ``several``: what it calls returns a tuple, whose fields the outputs are. ``source`` is the line
    of the model and ``module`` the path of the module (``model.layers.0.mlp``) that made the call.
    ``declaration`` is what the operator promises for this call, where its annotation is known;
    planners read it. ``told`` is what the JSON that it was read from says of that.
    """

    __slots__ = (
        "args",
        "declaration",
        "id",
        "kwargs",
        "module",
        "name",
        "operation",
        "outputs",
        "several",
        "source",
        "told",
    )

    def __init__(
        self,
        id: str,
        operation: Operation,
        args: tuple[Argument, ...],
        kwargs: dict[str, Argument],
        *,
        several: bool = False,
        source: Source | None = None,
        module: str = "",
        name: str = "",
        told: Declaration | None = None,
    ) -> None:
        self.id = id
        self.operation = operation
        self.args = args
        self.kwargs = kwargs
        self.several = several
        self.source = source
        self.module = module
        self.name = name or self.signature.rpartition(".")[2]
        self.outputs: tuple[Value, ...] = ()
        self.declaration: Declaration | None = None
        self.told = told

    @property
    def signature(self) -> str:
        """The full name of what is called: ``torch.nn.functional.linear``."""
        match self.operation:
            case OperatorCall(path):
                return path
            case FunctionCall(function) | ExternalCall(function):
                return function
            case MatchShape():
                return "match_shape"
            case MakeShape():
                return "shape"

    @property
    def annotation(self) -> str:
        """The annotation that holds for this call; ``""`` where the operator has none."""
        return self.declaration.annotation if self.declaration is not None else ""

    @property
    def inputs(self) -> tuple[Value | None, ...]:
        """The annotated inputs, in order (None for an absent one); all values used, where there is
        no annotation.
        """
        if self.declaration is not None:
            return tuple(self.declaration.inputs)
        return tuple(dict.fromkeys(self.operands()))

    @property
    def output(self) -> Value:
        """The only output. Raises ValueError where there are several."""
        (value,) = self.outputs
        return value

    def operands(self) -> list[Value]:
        """Returns the values in the arguments, from left to right, each as often as it occurs."""
        return [*values_in(self.args), *values_in(self.kwargs)]

    def algorithm(self, tag: str) -> Algorithm:
        """Returns the way of partitioning with this tag, for ``graph.partition``. There is one,
        ``"dim"``: along annotated dimensions. GraphError for any other.
        """
        if tag != "dim":
            raise GraphError(
                Diagnostic(
                    "no-such-algorithm",
                    "there is no such algorithm",
                    reason=f"{self.id} has no algorithm {tag!r:.60}",
                    hint='write node.algorithm("dim"): along annotated dimensions',
                )
            )
        return Algorithm(self, tag)

    def __repr__(self) -> str:
        return f"<Node {self.id}: {self.signature}>"


@dataclass(frozen=True, slots=True)
class Algorithm:
    """A way to partition a node, by its tag."""

    node: Node
    tag: str


InputKind: TypeAlias = Literal["input", "parameter", "buffer", "constant", "size"]


@dataclass(frozen=True, slots=True)
class Input:
    """Where an input value comes from.

    kind: an argument of the call, a parameter or buffer of the model, a constant tensor, or a size
    (an integer that is the length of some input's dimension). target: the argument's name, or the
    qualified name in the model (``lm_head.weight``).
    """

    value: Value
    kind: InputKind
    target: str
