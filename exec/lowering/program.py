"""The program of one rank: a function over plain local tensors, and what each of its steps is.

    program.run([input_ids, q_proj_weight, ...])      in the order of program.slots

The function is generated Python (``program.module.code``) that calls torch functions, registered
functions and collectives directly. Nothing is looked up or planned while it runs; where a step
fails, its line in the traceback tells which one it was.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from types import CodeType
from typing import TYPE_CHECKING, Any, Literal
from weakref import WeakValueDictionary

import torch

from dimsolve.ir.graph import Left, Made, Node, Place, Region
from dimsolve.partition.placement import Placement

from ..distributed.gathering import Block, regathering
from ..modes import restoring
from .beside import Beside, note_hooks
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

    kind: a slot's, ``operator``, ``part`` (one of several results), ``conversion``, ``conversions``
    (several in one collective), ``begun`` (of a conversion), ``block`` (of gathers), ``share`` (of
    a gradient), ``beside`` (an output on its way to another one), ``region`` or ``size``. label:
    the node, the conversion, the axis, the output, the region, or the symbol. move: the
    conversion's axis, its placements before and after, and whether its gradient is shared.
    recorded: whether it has a gradient. region: what is called, of a region.
    block: the parameters that a ``block`` gathers.
    """

    kind: str
    label: str
    node: Node | None = None
    call: RankCall | None = None
    move: tuple[str, Placement, Placement, bool] | None = None
    region: Body | None = None
    block: Block | None = None
    recorded: bool = True


def origin_of(step: fx.Node) -> Origin | None:
    """Returns where a step comes from; None where it is only arithmetic of lengths."""
    origin: Origin | None = step.meta.get("origin")
    return origin


class Body:
    """A function of a program: the program itself, or a region that is run again in the backward
    pass. ``forward`` is called with ``module`` first; ``held`` is what ``get_attr`` steps name.
    """

    def __init__(
        self,
        graph: fx.Graph,
        held: Mapping[str, object],
        name: str = "Program",
        region: Region | None = None,
    ) -> None:
        from torch.fx import GraphModule

        self.region = region
        self.module = GraphModule(dict(held), graph, class_name=name)
        self.forward: Callable[..., Any] = type(self.module).forward
        code = graph.python_code("self")
        start, lines = code._prologue_start, code._lineno_map or {}
        self._lines = {line + start: number for line, number in lines.items()}

    @property
    def code(self) -> CodeType:
        """The code that its frames run."""
        code: CodeType = self.forward.__code__
        return code

    @property
    def draws(self) -> bool:
        """Whether it draws random numbers, itself or in what it calls."""
        found = [origin for step in self.steps() if (origin := origin_of(step)) is not None]
        calls = [origin.call for origin in found if origin.call is not None]
        inner = [origin.region for origin in found if origin.region is not None]
        return any(call.randomness is not None for call in calls) or any(b.draws for b in inner)

    def steps(self) -> list[fx.Node]:
        """Returns its steps, in order."""
        return list(self.module.graph.nodes)

    def step_at(self, line: int) -> fx.Node | None:
        """Returns the step that stands on a line of the generated code."""
        number, nodes = self._lines.get(line), self.steps()
        return nodes[number] if number is not None and number < len(nodes) else None


@dataclass(eq=False)
class Program:
    """Made by `dimsolve.exec.lowering.lower.lower`.

    inputs: the inputs' dimensions. constants: tensors of the program's own, by name. container: the
    class that the model returns, as an import path. left: what the model leaves of its arguments;
    objects: which of what is handed out are objects. absent: classes of what the model returned and
    the program cannot return. draws: None where nothing draws random numbers. axes: of the mesh.
    switches: whether it switches modes of torch. gathers: whether it gathers parameters that are
    stored in parts. names: of what is handed out, by the leaves of the tree. beside: outputs that
    another one is computed from. bodies: its own function, and those of its regions.
    """

    bodies: tuple[Body, ...]
    inputs: InputLengths
    slots: tuple[Slot, ...]
    constants: Mapping[str, Any]
    container: str
    left: Mapping[Place, Left]
    objects: Mapping[Place, Made]
    absent: tuple[str, ...]
    names: tuple[str, ...]
    beside: tuple[Beside, ...]
    draws: Draws | None
    axes: tuple[str, ...]
    switches: bool
    gathers: bool = False

    def __repr__(self) -> str:
        kinds = [slot.kind for slot in self.slots]
        steps = sum(step.op.startswith("call") for step in self.module.graph.nodes)
        given = kinds.count("input")
        return f"Program({given} inputs, {len(kinds) - given} tensors of the model, {steps} steps)"

    def __post_init__(self) -> None:
        self.module = self.bodies[0].module
        self._forward = self.bodies[0].forward
        self._switching = restoring(self._forward)
        self._codes = {body.code: body for body in self.bodies}

    @classmethod
    def of(
        cls,
        graph: fx.Graph,
        held: Mapping[str, object],
        regions: Iterable[Body] = (),
        **fields: Any,
    ) -> Program:
        """Compiles an fx graph. held: what its ``get_attr`` nodes name. regions: what it calls."""
        program = cls(bodies=(Body(graph, held), *regions), **fields)
        for code in program._codes:
            _PROGRAMS[id(code)] = program
        return program

    def run(self, values: Sequence[Any]) -> Any:
        """Runs the program; ``values`` in the order of `slots`. Returns the tree that the model
        returns, without its container; where it leaves something of its arguments, ``{"returned":
        tree, "left": trees}``.
        """
        if self.draws is not None:
            self.draws.begin()
        if torch.compiler.is_compiling():
            return self._forward(self.module, *values)
        forward = self._switching if self.switches else self._forward
        with regathering() if self.gathers else nullcontext():
            result = forward(self.module, *values)
        if torch.is_grad_enabled():
            note_hooks(result, self.beside)
        return result

    @property
    def code(self) -> str:
        """The generated Python."""
        return str(self.module.code)

    def step_at(self, code: Any, line: int) -> fx.Node | None:
        """Returns the step that stands on a line of the generated code, of the program itself or of
        a region.
        """
        body = self._codes.get(code)
        return None if body is None else body.step_at(line)

    def is_frame(self, code: Any) -> bool:
        """Whether a traceback's code is the program's own, or a region's."""
        return any(body.code is code for body in self.bodies)


_PROGRAMS: WeakValueDictionary[int, Program] = WeakValueDictionary()
_GENERATED = "<eval_with_key>"
"""How the names of the files of torch.fx's code begin: ``<eval_with_key>.7 from model.py:3``."""


def program_of(code: Any) -> Program | None:
    """Returns the program whose generated code a frame runs."""
    program = _PROGRAMS.get(id(code))
    return program if program is not None and program.is_frame(code) else None


def body_at(path: str) -> Body | None:
    """Returns the function whose generated code has this file's name, which is its alone."""
    key = path.partition(" ")[0]
    if not key.startswith(_GENERATED):
        return None
    bodies = (body for program in list(_PROGRAMS.values()) for body in program.bodies)
    return next((body for body in bodies if body.code.co_filename.partition(" ")[0] == key), None)
