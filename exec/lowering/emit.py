"""`emit`: the program of one rank as readable Python, a module with one function.

    def forward(x, up_weight, down_weight, *, tp, draws, device):
        x_1 = convert(x, "R", "R", tp, shared_gradient=True)          # for up
        up = torch.nn.functional.linear(x_1, up_weight, None)         # model.py:41  up
        ...
        return {"loss": loss}

A region that is run again in the backward pass is a function within ``forward``, called by torch's
``checkpoint``. All ranks run the same text; only what ``emit_fn`` writes may differ from rank to
rank. Registered functions are imported, or copied where they were registered with
``code_impl_pattern="source"``.
"""

from __future__ import annotations

import inspect
import operator
import textwrap
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from math import isfinite
from types import EllipsisType
from typing import Any

import torch
from torch.fx import Node as Step

from dimsolve.partition.placement import Placement, Shard

from ..distributed.gathering import Block, gathered
from ..modes import is_switch
from .calls import OnWholeOperands, RankCall
from .lengths import ceil_divide
from .program import Body, Origin, Program, origin_of
from .setting import not_emitted


def value_text(value: Any) -> str:
    """Returns a value as Python text; LoweringError for an object that no text makes.

    >>> value_text((1, [True, None], {"p": 0.5})), value_text(float("inf"))
    ("(1, [True, None], {'p': 0.5})", 'float("inf")')
    """
    match value:
        case Step():
            return value.name
        case float() if value != value or value in (float("inf"), float("-inf")):
            return f'float("{value}")'
        case None | bool() | int() | float() | complex() | str():
            return repr(value)
        case EllipsisType():
            return "..."
        case torch.dtype() | torch.memory_format() | torch.layout():
            return str(value)
        case torch.device():
            return "device"
        case slice():
            bounds = (value.start, value.stop, value.step)
            return f"slice({', '.join(value_text(bound) for bound in bounds)})"
        case tuple():
            inner = ", ".join(value_text(item) for item in value)
            return f"({inner},)" if len(value) == 1 else f"({inner})"
        case list():
            return f"[{', '.join(value_text(item) for item in value)}]"
        case dict():
            pairs = (f"{key!r}: {value_text(item)}" for key, item in value.items())
            return "{" + ", ".join(pairs) + "}"
        case _:
            raise not_emitted("", f"an argument of type {type(value).__name__}")


def operand_text(value: Any) -> str:
    """Returns a value as an operand: a negative number in brackets."""
    text = value_text(value)
    return f"({text})" if isinstance(value, int | float) and value < 0 else text


def index_text(index: Any) -> str:
    """Returns what stands between the brackets of an index.

    >>> index_text((slice(None, 3), ..., None)), index_text((0,))
    (':3, ..., None', '0,')
    """
    if isinstance(index, tuple):
        items = ", ".join(_item_text(item) for item in index)
        return items + "," if len(index) == 1 else items or "()"
    return _item_text(index)


def _item_text(item: Any) -> str:
    if not isinstance(item, slice):
        return value_text(item)
    start, stop, step = (
        "" if bound is None else value_text(bound) for bound in (item.start, item.stop, item.step)
    )
    return f"{start}:{stop}:{step}" if step else f"{start}:{stop}"


BINARY = {
    operator.add: "+",
    operator.sub: "-",
    operator.mul: "*",
    operator.truediv: "/",
    operator.floordiv: "//",
    operator.mod: "%",
    operator.matmul: "@",
    operator.eq: "==",
    operator.ne: "!=",
    operator.lt: "<",
    operator.le: "<=",
    operator.gt: ">",
    operator.ge: ">=",
    operator.and_: "&",
    operator.or_: "|",
    operator.xor: "^",
}


def emit(program: Program, *, title: str = "", rank: int = 0, ranks: int = 1) -> str:
    """Returns the text of a module whose function ``forward`` is the program.

    title: the first line of its docstring. rank, ranks: what ``emit_fn`` is told. Raises
    LoweringError for what no text can say: a function without a name, an object in an argument.
    """
    return _Emission(program, title, rank, ranks).text()


@dataclass
class _Emission:
    program: Program
    title: str
    rank: int
    ranks: int
    imports: set[str] = field(default_factory=lambda: {"import torch"})
    copied: dict[str, str] = field(default_factory=dict)
    lines: list[str] = field(default_factory=list)
    names: dict[str, str] = field(default_factory=dict)
    functions: dict[Body, str] = field(default_factory=dict)

    def text(self) -> str:
        steps = list(self.program.module.graph.nodes)
        for each in self.program.bodies:
            self.names.update((step.name, "a variable") for step in each.steps())
        arguments = [step.name for step in steps if step.op == "placeholder"]
        for step in steps:
            self._step(step)
        if self.program.switches:
            self._restores()
        mark = "@restoring\n" if self.program.switches else ""
        if self.program.gathers:
            self.imports.add("from dimsolve.exec.distributed.gathering import regathering")
            mark = f"@regathering()\n{mark}"
        head = f'"""{self.title or "The program of one rank."}"""'
        imports = sorted(self.imports, key=lambda line: (line.startswith("from"), line))
        ends = sorted(self.program.axes)
        signature = ", ".join([*arguments, "*", *ends, "draws=None", 'device="cpu"'])
        wrapped = textwrap.fill(signature, 92, initial_indent=" " * 4, subsequent_indent=" " * 4)
        parts = [head, "\n".join(imports), *self.copied.values()]
        body = "\n".join(f"    {line}" if line else "" for line in self.lines)
        parts.append(f"{mark}def forward(\n{wrapped}\n):\n{body}")
        return "\n\n\n".join(parts).replace("\n\n\n", "\n\n", 1) + "\n"

    def _restores(self) -> None:
        self.imports.add("from dimsolve.exec.modes import restoring")

    def _region(self, step: Step, body: Body) -> str:
        """Writes a region as a function; returns the call of it."""
        assert body.region is not None
        name = self.functions[body] = self._free(f"run_{step.name}")
        outer, self.lines = self.lines, []
        for each in body.steps():
            self._step(each)
        inner, self.lines = self.lines, outer
        taken = ", ".join(each.name for each in body.steps() if each.op == "placeholder")
        mark: list[str] = []
        if any(is_switch(each.target) for each in body.steps()):
            self._restores()
            mark = ["@restoring"]
        head = [f"def {name}({taken}):"]
        if len(head[0]) > 92:
            wrapped = textwrap.wrap(taken, 84, initial_indent="    ", subsequent_indent="    ")
            head = [f"def {name}(", *wrapped, "):"]
        self.lines += ["", *mark, *head, *[f"    {line}" if line else "" for line in inner], ""]
        self.imports.add("from torch.utils.checkpoint import checkpoint")
        function = f"draws.repeating({name})" if body.draws else name
        settings = [f"{key}={value!r}" for key, value in body.region.arguments().items()]
        given = [value_text(value) for value in step.args]
        return f"checkpoint({', '.join([function, *given, *settings])})"

    def _free(self, wanted: str) -> str:
        """A name that nothing else has."""
        name, number = wanted, 1
        while name in self.names:
            number += 1
            name = f"{wanted}_{number}"
        self.names[name] = "a function"
        return name

    def _step(self, step: Step) -> None:
        origin = origin_of(step)
        if step.op == "placeholder" or (origin is not None and origin.kind == "begun"):
            return
        if step.op == "get_attr":
            kind = type(getattr(self.program.module, str(step.target))).__name__
            raise not_emitted(step.name, f"an object of {kind}, which no text stands for")
        if step.op == "output":
            self.lines.append(f"return {value_text(step.args[0])}")
            return
        made = f"{step.name} = " if step.users or not is_switch(step.target) else ""
        line = f"{made}{self._expression(step, origin)}"
        comment = _comment(origin)
        self.lines.append(f"{line}  # {comment}" if comment else line)

    def _expression(self, step: Step, origin: Origin | None) -> str:
        if origin is not None and origin.region is not None and step.target is not operator.getitem:
            return self._region(step, origin.region)
        if origin is not None and origin.block is not None:
            return self._block(step, origin.block)
        if origin is not None and origin.kind == "changed":
            self.imports.add("from dimsolve.exec.distributed.gathering import have_changed")
            return f"have_changed([{self._arguments(step, [])}], {origin.label})"
        if step.target is gathered:
            return self._function(step, step.target)
        if origin is not None and origin.move is not None:
            return self._conversion(step, origin, origin.move)
        if origin is not None and origin.call is not None:
            return self._call(step, origin.call)
        if origin is not None and origin.kind == "share":
            self.imports.add("from dimsolve.exec.distributed.collectives import made_by_shards")
            return f"made_by_shards({value_text(step.args[0])}, {origin.label})"
        if origin is not None and origin.kind == "beside":
            return value_text(step.args[0])
        if step.op == "call_method":
            return self._method(step, str(step.target))
        return self._function(step, step.target)

    def _block(self, step: Step, block: Block) -> str:
        """What begins to gather a block of parameters."""
        self.imports.add("from dimsolve.exec.distributed.gathering import begin_block, block_of")
        cuts = [
            ", ".join(f'("{cut.shard}", {cut.axis}, {cut.shared})' for cut in each)
            for each in block.cuts
        ]
        flags = [f"{name}=True" for name in ("again", "keeps") if getattr(block, name)]
        flags += [
            f"{name}={each}" for name in ("used", "reduced") if (each := getattr(block, name))
        ]
        if block.sums:
            flags.append(f"sums=({''.join(f'{end.axis}, ' for end in block.sums)})")  # type: ignore[attr-defined]
        made = ", ".join([*(f"[{cut}]" for cut in cuts), *flags])
        parts, *rest = (value_text(value) for value in step.args)
        return f"begin_block({', '.join([parts, f'block_of({made})', *rest])})"

    def _conversion(
        self, step: Step, origin: Origin, move: tuple[str, Placement, Placement, bool]
    ) -> str:
        axis, source, target, shared = move
        self.imports.add("from dimsolve.partition.placement import read_placement as placed")
        name, given = "convert", value_text(step.args[0])
        home, lengths = "collectives", [value_text(value) for value in step.args[1:]]
        if origin.kind == "conversions":
            name, home, given, lengths = "convert_together", "together", value_text(step.args), []
        self.imports.add(f"from dimsolve.exec.distributed.{home} import {name}")
        ends = [self._end(end, lengths) for end in (source, target)]
        more = ", shared_gradient=True" if shared else ""
        return f"{name}({given}, {', '.join(ends)}, {axis}{more})"

    def _end(self, end: Placement, lengths: list[str]) -> str:
        """A placement; ``lengths`` are those that are known only when the program runs."""
        if isinstance(end, Shard) and lengths:
            self.imports.add("from dimsolve.partition.placement import Shard")
            blocks, of, unit = (lengths.pop(0) for _ in range(3))
            segments = f", {end.segments}" if end.segments else ""
            dealt = f", of={of}, unit={unit}" if end.of else ""
            return f"Shard({end.dim}, {blocks}{segments}{dealt})"
        return f'placed("{end}")'

    def _call(self, step: Step, call: RankCall) -> str:
        registered = call.operator
        if registered is not None and registered.emit_fn is not None:
            args = [value_text(value) for value in step.args]
            kwargs = {name: value_text(value) for name, value in step.kwargs.items()}
            text = registered.emit_fn(step, args, kwargs, self.rank, self.ranks, self.ranks)
            return str(text)
        if call.method:
            return self._method(step, call.method)
        if call.plain and (
            step.target in BINARY or step.target in (operator.getitem, operator.neg)
        ):
            return self._function(step, step.target)
        name = self._called(step, call)
        changed = call.modified or call.connected or call.randomness is not None
        with_part = call.local is not None and not changed
        first = [self._part(call, call.splits)] if with_part else []
        return f"{name}({self._arguments(step, first)})"

    def _called(self, step: Step, call: RankCall) -> str:
        """The function, as rules and random numbers want it called."""
        name = self._name(step, call)
        changed = call.modified or call.connected or call.randomness is not None
        if call.local is not None and changed:
            self.imports.add("from functools import partial")
            name = f"partial({name}, {self._part(call, call.splits)})"
        if call.connected:
            self.imports.add("from dimsolve.exec.lowering.calls import connecting")
            name = f"connecting({name})"
        names = () if call.operator is None else call.operator.parameters
        defaults = {} if call.operator is None else _plain_values(call.operator.defaults)
        for change, splits in reversed(call.modified):
            self.imports.add("from dimsolve.exec.lowering.calls import modified")
            modifier = self._imported(step, change)
            name = (
                f"modified({name}, {modifier}, {self._part(call, splits)}, {names!r}, {defaults!r})"
            )
        if call.randomness is not None:
            draws = self.program.draws
            if draws is not None and draws.one_device:
                raise not_emitted(
                    step.name, "what one device draws, of which a rank takes its part"
                )
            differs = tuple(call.randomness.differs)
            name = f"draws.drawing({name}, {call.randomness.stream}, {differs!r})"
        return name

    def _name(self, step: Step, call: RankCall) -> str:
        if call.local is not None:
            return self._imported(step, call.local)
        registered = call.operator
        if registered is not None and registered.function is not None:
            if registered.code_impl_pattern == "source":
                return self._copied(registered.function)
            return self._by_path(step, registered.path)
        return self._by_path(step, call.path)

    def _part(self, call: RankCall, splits: tuple[tuple[str, str], ...]) -> str:
        self.imports.add("from dimsolve.exec.distributed.collectives import part_of")
        pairs = ", ".join(f'("{identifier}", {axis})' for identifier, axis in splits)
        dealt = [each for each in call.dealt if each[0] in dict(splits)]
        return f"part_of([{pairs}], {dealt!r})" if dealt else f"part_of([{pairs}])"

    def _method(self, step: Step, name: str) -> str:
        first, *rest = step.args
        return f"{value_text(first)}.{name}({self._arguments(step, [], tuple(rest))})"

    def _function(self, step: Step, target: Any) -> str:
        if target is operator.getitem:
            return f"{value_text(step.args[0])}[{index_text(step.args[1])}]"
        if target in BINARY and len(step.args) == 2:
            left, right = (operand_text(value) for value in step.args)
            return f"{left} {BINARY[target]} {right}"
        if target is operator.neg:
            return f"-{operand_text(step.args[0])}"
        if target is ceil_divide:
            return f"-(-{operand_text(step.args[0])} // {operand_text(step.args[1])})"
        if target in (min, max):
            return f"{target.__name__}({self._arguments(step, [])})"
        return f"{self._imported(step, target)}({self._arguments(step, [])})"

    def _arguments(self, step: Step, first: list[str], args: Any = None) -> str:
        positional = step.args if args is None else args
        given = [*first, *[value_text(value) for value in positional]]
        own = "lengths" if isinstance(step.target, OnWholeOperands) else None
        kwargs = {name: value for name, value in step.kwargs.items() if name != own}
        named = [f"{name}={value_text(value)}" for name, value in kwargs.items()]
        return ", ".join([*given, *named])

    # ---- functions

    def _by_path(self, step: Step, path: str) -> str:
        path = path.replace("_operator.", "operator.")
        home, _, name = path.rpartition(".")
        if home.startswith("torch"):
            return path
        if home == "operator":
            self.imports.add("import operator")
            return path
        owner, _, last = home.rpartition(".")
        if name == "apply":  # of an autograd.Function class
            return f"{self._import(owner, last)}.apply"
        return self._import(home, name)

    def _import(self, home: str, name: str) -> str:
        """Imports a name; under another one where a variable or a function has it already."""
        origin, alias, number = f"{home}.{name}", name, 1
        while self.names.setdefault(alias, origin) != origin:
            number += 1
            alias = f"{name}_{number}"
        renamed = "" if alias == name else f" as {alias}"
        self.imports.add(f"from {home} import {name}{renamed}")
        return alias

    def _imported(self, step: Step, function: Callable[..., Any]) -> str:
        name = getattr(function, "__qualname__", "<object>")
        if not name.isidentifier():
            raise not_emitted(step.name, f"{name}, which is no function of a module")
        return self._by_path(step, f"{function.__module__}.{name}")

    def _copied(self, function: Callable[..., Any]) -> str:
        name = function.__name__
        if self.names.setdefault(name, f"source {name}") != f"source {name}":
            raise not_emitted(name, f"the source of {name}, a name that something else has")
        source = textwrap.dedent(inspect.getsource(function))
        lines = source.splitlines()
        start = next(i for i, line in enumerate(lines) if line.startswith(("def ", "async def ")))
        self.copied[name] = "\n" + "\n".join(lines[start:]) + "\n"
        return name


def _comment(origin: Origin | None) -> str:
    """Where a step comes from: the line of the model, and the module that made the call."""
    if origin is None:
        return ""
    if origin.node is None:
        return f"for {origin.label}" if origin.kind.startswith("conversion") else ""
    return "  ".join(filter(None, (str(origin.node.source or ""), origin.node.module)))


def _plain_values(defaults: Mapping[str, Any]) -> dict[str, Any]:
    """The defaults that a text can hold: numbers, words, None."""
    return {
        name: value
        for name, value in defaults.items()
        if value is None
        or isinstance(value, bool | int | str)
        or (isinstance(value, float) and isfinite(value))
    }
