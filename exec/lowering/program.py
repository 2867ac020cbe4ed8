"""The program of one rank: a function over plain local tensors, and what each of its steps is.

    program.run([input_ids, q_proj_weight, ...])      in the order of program.slots

The function is generated Python (``program.module.code``) that calls torch functions, registered
functions and collectives directly. Nothing is looked up or planned while it runs; where a step
fails, its line in the traceback tells which one it was.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal
from weakref import WeakValueDictionary

import torch

from dimsolve.ir.graph import Left, Made, Node, Place
from dimsolve.partition.placement import Placement

from ..calls import restoring
from .calls import Draws, RankCall
from .lengths import InputLengths

if TYPE_CHECKING:
    from torch import fx


@dataclass(frozen=True, slots=True)
class Slot:
    """What the program takes at one place: an input by its name, or a tensor of the model."""

    kind: Literal["input", "parameter", "buffer", "constant", "size"]
    target: str


@dataclass(frozen=True, slots=True)
class Origin:
    """Where a step of the program comes from.

    kind: a slot's, ``operator``, ``part`` (one of several results), ``conversion``, ``begun`` (of a
    conversion), ``share`` (of a gradient) or ``size``. label: the node, the conversion, the axis,
    or the symbol. move: the conversion's axis, its placements before and after, and whether its
    gradient is shared.
    """

    kind: str
    label: str
    node: Node | None = None
    call: RankCall | None = None
    move: tuple[str, Placement, Placement, bool] | None = None


@dataclass(eq=False)
class Program:
    """Made by `dimsolve.exec.lowering.lower.lower`.

    inputs: the inputs' dimensions. constants: tensors of the program's own, by name. container: the
    class that the model returns, as an import path. left: what the model leaves of its arguments;
    objects: which of what is handed out are objects. absent: classes of what the model returned and
    the program cannot return. draws: None where nothing draws random numbers. axes: of the mesh.
    switches: whether it switches modes of torch.
    """

    module: fx.GraphModule
    inputs: InputLengths
    slots: tuple[Slot, ...]
    constants: Mapping[str, Any]
    container: str
    left: Mapping[Place, Left]
    objects: Mapping[Place, Made]
    absent: tuple[str, ...]
    draws: Draws | None
    axes: tuple[str, ...]
    switches: bool
    _forward: Callable[..., Any]
    _lines: Mapping[int, int | None]

    def __post_init__(self) -> None:
        self._switching = restoring(self._forward)

    @classmethod
    def of(cls, graph: fx.Graph, held: Mapping[str, object], **fields: Any) -> Program:
        """Compiles an fx graph. held: what its ``get_attr`` nodes name."""
        from torch.fx import GraphModule

        module = GraphModule(dict(held), graph, class_name="Program")
        code = graph.python_code("self")
        start, lines = code._prologue_start, code._lineno_map or {}
        shifted = {line + start: number for line, number in lines.items()}
        program = cls(module=module, _forward=type(module).forward, _lines=shifted, **fields)
        _PROGRAMS[id(program._forward.__code__)] = program
        return program

    def run(self, values: Sequence[Any]) -> Any:
        """Runs the program; ``values`` in the order of `slots`. Returns the tree that the model
        returns, without its container; where it leaves something of its arguments, ``{"returned":
        tree, "left": trees}``.
        """
        if self.draws is not None:
            self.draws.begin()
        if self.switches and not torch.compiler.is_compiling():
            return self._switching(self.module, *values)
        return self._forward(self.module, *values)

    @property
    def code(self) -> str:
        """The generated Python."""
        return str(self.module.code)

    def step_at(self, line: int) -> fx.Node | None:
        """Returns the step that stands on a line of the generated code."""
        number = self._lines.get(line)
        nodes = list(self.module.graph.nodes)
        return nodes[number] if number is not None and number < len(nodes) else None

    def is_frame(self, code: Any) -> bool:
        """Whether a traceback's code is the program's own."""
        return code is self._forward.__code__


_PROGRAMS: WeakValueDictionary[int, Program] = WeakValueDictionary()


def program_of(code: Any) -> Program | None:
    """Returns the program whose generated code a frame runs."""
    program = _PROGRAMS.get(id(code))
    return program if program is not None and program.is_frame(code) else None
